//! `toolgate backup` and `toolgate restore`.
//!
//! A backup comes from a running daemon over its HTTP interface, or with `--data` from the data folder itself, beside a
//! running daemon too. The file gets its name when it is complete and was read again.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use clap::Args;
use rustix::process::geteuid;
use serde_json::json;
use toolgate_cli::{Client, Failure, Printer, Remote, time_text};
use toolgate_core::backup::{Backup, BackupError, BackupSource, Restored, inspect, restore};
use toolgate_state::config::{Config, Overrides};

/// User id of root.
const ROOT: u32 = 0;

const BACKUP_EXAMPLES: &str = "\
Examples:
  toolgate backup /var/backups/toolgate.tar.gz                     of a running daemon, without its keys
  toolgate backup b.tar.gz --data /var/lib/toolgate --with-keys    of the data folder, on its host";

const RESTORE_EXAMPLES: &str = "\
Examples:
  toolgate restore b.tar.gz --data /var/lib/toolgate
  toolgate restore b.tar.gz --data /var/lib/toolgate --keys /safe/toolgate-keys";

#[derive(Args)]
#[command(after_help = BACKUP_EXAMPLES)]
pub(super) struct BackupOptions {
    #[command(flatten)]
    pub remote: Remote,
    /// The file to write; it must not exist
    file: PathBuf,
    /// The data folder to back up, instead of asking a daemon; it may be in use
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The database, if it is not in the data folder, as of `serve --store`
    #[arg(long, value_name = "URL", requires = "data")]
    store: Option<String>,
    /// Include the keys of the data folder, which open every secret in it
    #[arg(long, requires = "data")]
    with_keys: bool,
    /// Include the compiled code of plugins, so that a restore on a machine with such a processor compiles nothing
    #[arg(long, requires = "with_keys")]
    with_cache: bool,
}

#[derive(Args)]
#[command(after_help = RESTORE_EXAMPLES)]
pub(super) struct RestoreOptions {
    /// The backup
    file: PathBuf,
    /// The data folder to restore; it must be empty or not exist
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The folder `keys` of the daemon, for a backup without keys
    #[arg(long, value_name = "DIR")]
    keys: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Takes a backup.
pub(super) fn run(options: BackupOptions, environment_token: Option<OsString>) -> Result<(), Failure> {
    let BackupOptions { remote, file, data, store, with_keys, with_cache } = options;
    let Some(data) = data else {
        return remote.run(environment_token, async |client, printer| {
            let target = TargetFile::open(&file)?;
            download(client, &target).await?;
            report(target.complete()?, &file, printer)
        });
    };
    super::here(remote.json, async |printer| {
        let source = BackupSource { store: store_path(&data, store)?, data, with_keys, with_cache };
        for folder in [Some(&*source.data), source.store.parent()].into_iter().flatten() {
            check_owner(folder, BACKUP_AS_OWNER)?;
        }
        let target = TargetFile::open(&file)?;
        let backup = Backup::take(source).await.map_err(failure)?;
        backup.write(BufWriter::new(&target.content)).map_err(failure)?.0.flush()?;
        report(target.complete()?, &file, printer)
    })
}

/// Restores a backup.
pub(super) fn run_restore(options: &RestoreOptions, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let RestoreOptions { file, data, keys, .. } = options;
    check_owner(nearest_folder(data), RESTORE_AS_OWNER)?;
    let restored = restore(file, data, keys.as_deref()).map_err(failure)?;
    let Restored { header, files, records } = &restored;
    let made = time_text(header.made_at_ms);
    let told = format!(
        "restored {files} files of {made}, with the records up to {records}, to `{}`: start it with `toolgate serve --data {}`",
        data.display(),
        data.display(),
    );
    printer.result(&as_json(&restored), &told)?;
    Ok(printer.note(&format!(
        "what changed after {made} is not in it: tokens that were revoked since are valid again, and calls of then may run again"
    ))?)
}

async fn download(client: &Client, target: &TargetFile) -> Result<(), Failure> {
    let mut body = client.post("/v1/backup").download("application/gzip").await?;
    while let Some(bytes) = body.next().await? {
        (&target.content).write_all(&bytes)?;
    }
    Ok(())
}

const BACKUP_AS_OWNER: &str = "run it as the owner, `sudo -u '#UID' toolgate backup`, with a destination that the owner may write; \
     or let the daemon take it with `toolgate backup FILE`, without its keys";
const RESTORE_AS_OWNER: &str = "run it as the owner, `sudo -u '#UID' toolgate restore`, with a file that the owner may read; \
     or give a folder that does not exist, in one of root, and make the daemon's user its owner afterwards";

/// The folder itself, or the one in which a restore makes it.
fn nearest_folder(folder: &Path) -> &Path {
    folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("."))
}

/// Refuses to work as root in a folder of another user, such as the daemon's: its owner could put links in the place of files
/// meanwhile, which root would read and write through.
fn check_owner(folder: &Path, hint: &str) -> Result<(), Failure> {
    match folder.metadata() {
        Ok(found) => check_owner_for(geteuid().as_raw(), found.uid(), folder, hint),
        // The backup or the restore tells what is wrong with it.
        Err(_) => Ok(()),
    }
}

fn check_owner_for(caller: u32, owner: u32, folder: &Path, hint: &str) -> Result<(), Failure> {
    if caller != ROOT || owner == ROOT {
        return Ok(());
    }
    let message =
        format!("root works in no folder of another user, and user {owner} owns `{}`", folder.display());
    Err(Failure::new(message, hint.replace("UID", &owner.to_string())))
}

fn store_path(data: &Path, store: Option<String>) -> Result<PathBuf, Failure> {
    let overrides = Overrides::parse(Some(data.to_path_buf()), None, store)
        .map_err(|error| Failure::wrong_usage(error.to_string(), error.hint()))?;
    let path = Config::load(None, overrides).and_then(|config| config.store_path());
    path.map_err(|error| Failure::new(error.to_string(), error.hint()))
}

fn report(backup: Restored, file: &Path, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let Restored { header, files, records } = &backup;
    let told = format!(
        "`{}` has {files} files of {}, with the records up to {records}",
        file.display(),
        time_text(header.made_at_ms)
    );
    printer.result(&as_json(&backup), &told)?;
    if header.with_keys {
        return Ok(printer.warning("the file has the keys of the daemon: keep it as safe as them")?);
    }
    Ok(printer.note(
        "the keys are not in it: save a copy of the folder `keys` of the data folder elsewhere, once",
    )?)
}

fn as_json(restored: &Restored) -> serde_json::Value {
    let Restored { header, files, records } = restored;
    json!({"backup": header.backup, "made_at_ms": header.made_at_ms, "version": header.version,
        "with_keys": header.with_keys, "files": files, "records": records})
}

/// The file of a backup, under another name until it is complete.
struct TargetFile {
    path: PathBuf,
    part: PathBuf,
    content: File,
}

impl TargetFile {
    fn open(path: &Path) -> Result<Self, Failure> {
        if path.exists() {
            return Err(Failure::new(
                format!("`{}` exists", path.display()),
                "give another name: a backup replaces no file",
            ));
        }
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let opened =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(&part);
        let content = opened
            .map_err(|source| failure(BackupError::Io { what: "create", path: part.clone(), source }))?;
        Ok(Self { path: path.to_path_buf(), part, content })
    }

    /// Reads the file again, syncs it, and gives it its name.
    fn complete(&self) -> Result<Restored, Failure> {
        let backup = inspect(&self.part).map_err(failure)?;
        self.content.sync_all()?;
        fs::rename(&self.part, &self.path)?;
        sync_folder(&self.path)?;
        Ok(backup)
    }
}

impl Drop for TargetFile {
    fn drop(&mut self) {
        // Gone once it has its name.
        let _ = fs::remove_file(&self.part);
    }
}

fn sync_folder(file: &Path) -> io::Result<()> {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

fn failure(error: BackupError) -> Failure {
    Failure::new(error.to_string(), error.hint())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_refused_in_a_folder_of_another_user_and_told_how_to_go_on() {
        let check = |caller, owner| check_owner_for(caller, owner, Path::new("/data"), BACKUP_AS_OWNER);
        for (caller, owner) in [(ROOT, ROOT), (998, 998), (998, ROOT), (998, 999)] {
            assert!(check(caller, owner).is_ok(), "{caller} in a folder of {owner}");
        }
        let failure = check(ROOT, 998).expect_err("a folder of another user");
        assert!(failure.to_string().contains("user 998 owns `/data`"), "{failure}");
        assert!(failure.hint().contains("sudo -u '#998' toolgate backup"), "{}", failure.hint());
        let own = tempfile::tempdir().expect("a folder");
        assert!(check_owner(own.path(), RESTORE_AS_OWNER).is_ok());
        assert!(check_owner(&own.path().join("missing"), RESTORE_AS_OWNER).is_ok());
    }

    #[test]
    fn a_new_folder_has_the_owner_of_the_one_that_it_is_made_in() {
        let own = tempfile::tempdir().expect("a folder");
        for new in ["", "missing", "missing/deeper"] {
            assert_eq!(nearest_folder(&own.path().join(new)), own.path(), "{new}");
        }
        assert_eq!(nearest_folder(Path::new("a-folder-that-is-missing")), Path::new("."));
    }
}
