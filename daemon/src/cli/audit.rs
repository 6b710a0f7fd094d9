//! `toolgate audit verify --data` and `toolgate audit export --data`: the log of a daemon that does not run.

use std::path::Path;

use toolgate_audit::{DataKeys, ExportQuery, FolderExport, StartError, WrappedKey, verify_folder};
use toolgate_cli::{
    AuditExport, ExportFolder, ExportRange, Failure, LogOfFolder, Printer, check_verify_report,
    show_verify_report,
};
use toolgate_state::keys::{self, KeyError};
use toolgate_state::store::read_organization_keys;

/// Verifies or exports the log in a data folder, with the keys in it.
pub(super) async fn run(log: LogOfFolder<'_>, printer: &mut Printer<'_>) -> Result<(), Failure> {
    match log {
        LogOfFolder::Verify(data) => {
            let report = verify_folder(&data.join("audit"), Some(&log_key(data)?)).map_err(start_failure)?;
            show_verify_report(&report, printer)
        }
        LogOfFolder::Export(data, options) => export(data, options, printer).await,
    }
}

/// Exports the intact records. Damage is told behind them, as a failure.
async fn export(data: &Path, options: &AuditExport, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let key = log_key(data)?;
    let data_keys = match data_keys(data).await {
        Ok(keys) => Some(keys),
        Err(reason) => {
            printer.warning(&format!(
                "the arguments of calls are left out, since they stay encrypted: {reason}"
            ))?;
            None
        }
    };
    let mut folder = ExportFolder::open(options)?;
    let query = query(folder.range());
    let after = query.after.unwrap_or(0);
    let mut log = FolderExport::open(&data.join("audit"), &key, data_keys, query).map_err(start_failure)?;
    if after > log.last_sequence() {
        return Err(Failure::new(
            format!("the folder has records up to {after}, and the log ends with {}", log.last_sequence()),
            "export into another folder",
        ));
    }
    let written = write(&mut log, &mut folder);
    folder.close(written, printer)?;
    check_verify_report(log.report(), printer)
}

fn write(log: &mut FolderExport, folder: &mut ExportFolder<'_>) -> Result<(), Failure> {
    while let Some(chunk) = log.read()? {
        for line in String::from_utf8_lossy(&chunk).lines() {
            folder.write_line(line)?;
        }
    }
    Ok(())
}

fn query(range: ExportRange) -> ExportQuery {
    let ExportRange { organization, since_ms, until_ms, after } = range;
    ExportQuery { organization, since_ms, until_ms, after, hides_platform: false }
}

/// Reads the key that seals the log in a data folder.
fn log_key(data: &Path) -> Result<[u8; keys::KEY_BYTES], Failure> {
    let (log, key) = (data.join("audit"), data.join("keys/audit.key"));
    for path in [&log, &key] {
        if !path.exists() {
            let hint = "name the data folder of a daemon; if a part of it is gone, restore it from a backup";
            return Err(Failure::new(format!("`{}` is missing", path.display()), hint));
        }
    }
    keys::read_or_generate(&key).map_err(|error| Failure::new(error.to_string(), error.hint()))
}

/// Reads the keys that encrypt the arguments of calls, or the reason why they cannot be read.
async fn data_keys(data: &Path) -> Result<DataKeys, String> {
    let path = data.join("keys/data.key");
    if !path.exists() {
        return Err(KeyError::Missing(vec![path]).to_string());
    }
    let keys = DataKeys::new(keys::read_or_generate(&path).map_err(|error| error.to_string())?);
    let store = data.join("state.db");
    let rows = read_organization_keys(&store).await;
    for row in rows.map_err(|error| format!("`{}`: {error}", store.display()))? {
        // One that does not open is of an organization whose arguments stay encrypted.
        let _ = keys.insert(row.organization.as_str(), &WrappedKey { id: row.id, wrapped: row.wrapped });
    }
    Ok(keys)
}

fn start_failure(error: StartError) -> Failure {
    Failure::new(error.to_string(), error.hint())
}
