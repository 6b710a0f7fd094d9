//! `toolgate audit verify --data`: the log of a daemon that does not run.

use std::path::Path;

use toolgate_audit::verify_folder;
use toolgate_cli::{Failure, Printer, show_verify_report};
use toolgate_state::keys;

/// Verifies the log in a data folder, with the key in it.
pub(super) fn verify(data: &Path, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let (log, key) = (data.join("audit"), data.join("keys/audit.key"));
    for path in [&log, &key] {
        if !path.exists() {
            let hint = "name the data folder of a daemon; if a part of it is gone, restore it from a backup";
            return Err(Failure::new(format!("`{}` is missing", path.display()), hint));
        }
    }
    let key = keys::read_or_generate(&key).map_err(|error| Failure::new(error.to_string(), error.hint()))?;
    let report = verify_folder(&log, Some(&key));
    let report = report.map_err(|error| Failure::new(error.to_string(), error.hint()))?;
    show_verify_report(&report, printer)
}
