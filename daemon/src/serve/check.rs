//! Finds the errors of a start without starting: nothing is changed, no port is taken and no request is sent.

use std::fs::File;
use std::net::UdpSocket;
use std::path::Path;

use anyhow::{Error, Result};
use rustix::fs::Access;
use toolgate_cli::Failure;
use toolgate_core::credentials::RootKeySource;
use toolgate_core::traces::Traces;
use toolgate_core::wall;
use toolgate_http::listener::Tls;
use toolgate_sandbox::{HostClient, HostClientSettings};
use toolgate_state::config::{Config, Listen, NamedFile};
use toolgate_state::keys;
use toolgate_state::store::{DataFolder, check_store_path};

use super::resources::{listen_error, metrics_listen_error, tls_files};
use super::systemd;

/// Keys that the daemon generates in the data folder.
const KEYS: &[&str] = &["cache.key", "audit.key", "data.key", "answers.key"];

/// Something that is wrong with the settings on this machine.
#[derive(Debug)]
pub struct StartFault {
    /// Whether the daemon would not start. Otherwise something of it would not work.
    pub is_fatal: bool,
    /// The cause.
    pub error: Error,
}

/// Checks the settings, which are valid by themselves, against this machine.
pub async fn check(config: &Config) -> Vec<StartFault> {
    let fatal = [
        check_listeners(config),
        tls_files(&config.tls).map(Tls::load).transpose().map(drop).map_err(Error::from),
        Traces::new(&config.traces).map(drop),
        check_certificates(config),
        DataFolder::check(&config.data).map_err(Error::from),
        check_store(config),
        check_keys(config),
        wall::check(config).map_err(Error::from),
    ];
    let mut faults: Vec<StartFault> =
        fatal.into_iter().filter_map(Result::err).map(|error| StartFault { is_fatal: true, error }).collect();
    let mut minor = unreadable_files(config);
    minor.extend(check_root_key(config).await.err());
    minor.extend(check_plugins(config).err());
    faults.extend(minor.into_iter().map(|error| StartFault { is_fatal: false, error }));
    faults
}

/// The addresses are of this machine. Whether a port is in use tells only a start.
fn check_listeners(config: &Config) -> Result<()> {
    match &config.listen {
        // A datagram socket takes no port from a listener.
        Listen::Tcp(address) => {
            UdpSocket::bind((address.ip(), 0)).map_err(|error| listen_error(&config.listen, &error))?;
        }
        Listen::Unix(path) => {
            let folder = path.parent().unwrap_or(Path::new("/"));
            let access = rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK);
            access.map_err(|error| listen_error(&config.listen, &error.into()))?;
        }
    }
    if let Some(address) = config.metrics.listen {
        UdpSocket::bind((address.ip(), 0)).map_err(|error| metrics_listen_error(address, &error))?;
    }
    Ok(())
}

fn check_certificates(config: &Config) -> Result<()> {
    let registries = config.plugins.registries().iter().map(|registry| &registry.ca_file);
    for ca_file in std::iter::once(&config.credentials.ca_file).chain(registries) {
        HostClient::new(HostClientSettings { ca_file: ca_file.clone(), ..HostClientSettings::default() })?;
    }
    Ok(())
}

fn check_store(config: &Config) -> Result<()> {
    let path = config.store_path()?;
    // The data folder is created at the start.
    if config.store.is_some() || config.data.is_dir() {
        check_store_path(&path)?;
    }
    Ok(())
}

fn check_keys(config: &Config) -> Result<()> {
    for key in KEYS {
        keys::check(&config.data.join("keys").join(key))?;
    }
    Ok(())
}

/// Files that are read when they are needed: passwords, tokens and secrets.
fn unreadable_files(config: &Config) -> Vec<Error> {
    let is_checked_apart = |file: &NamedFile| {
        file.section == "tls" || ["ca_file", "headers_file", "root_key_file"].contains(&file.key.as_str())
    };
    let files = config.named_files().into_iter().filter(|file| !is_checked_apart(file));
    let faults = files.filter_map(|NamedFile { section, key, path }| {
        let error = File::open(&path).err()?;
        Some(Error::new(Failure::new(
            format!("`{key}` of `[{section}]`: `{}` cannot be read: {error}", path.display()),
            "let the daemon's user read the file, or correct the path",
        )))
    });
    faults.collect()
}

/// A key in a vault is left to the start.
async fn check_root_key(config: &Config) -> Result<()> {
    let settings = &config.credentials;
    if settings.vault_kv.is_some() || settings.vault_transit.is_some() {
        return Ok(());
    }
    let source = match (&settings.root_key_file, &settings.root_key_environment) {
        (Some(path), _) => RootKeySource::File(path.clone()),
        (None, Some(name)) => RootKeySource::of_environment(name),
        (None, None) => systemd::root_key_credential().map_or_else(
            || RootKeySource::Generated(config.data.join("keys/root")),
            RootKeySource::Credential,
        ),
    };
    let read = source.read().await.map(drop);
    Ok(read.map_err(|error| {
        Failure::new(format!("{error}; without it, credentials stay sealed"), error.hint())
    })?)
}

fn check_plugins(config: &Config) -> Result<()> {
    let Some(folder) = &config.plugins.folder else { return Ok(()) };
    folder.read_dir().map(drop).map_err(|error| {
        Error::new(Failure::new(
            format!("`folder` of `[plugins]`: `{}` cannot be read: {error}", folder.display()),
            "create the folder, or let the daemon's user read it",
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    async fn faults(settings: &str, data: &Path) -> Vec<(bool, String)> {
        let mut config = Config::parse(settings, Path::new("t.toml")).expect("settings");
        config.data = data.to_owned();
        let faults = check(&config).await;
        faults.into_iter().map(|fault| (fault.is_fatal, fault.error.to_string())).collect()
    }

    #[tokio::test]
    async fn the_defaults_are_fine_and_leave_nothing_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let found = faults("", &folder.path().join("data")).await;
        assert!(found.is_empty(), "{found:?}");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }

    #[tokio::test]
    async fn what_a_start_refuses_is_fatal_and_what_only_seals_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        for (settings, is_fatal, part) in [
            ("[credentials]\nca_file = \"/none.pem\"", true, "/none.pem"),
            ("[tls]\ncertificate = \"/none.pem\"\nkey = \"/none.key\"", true, "TLS cannot be set up"),
            ("store = \"sqlite:/none/state.db\"", true, "does not exist"),
            ("listen = \"unix:/none/toolgate.sock\"", true, "cannot listen"),
            ("listen = \"192.0.2.1:1\"\ninsecure_listen = true", true, "cannot listen"),
            ("[credentials]\nroot_key_file = \"/none\"", false, "credentials stay sealed"),
            ("[plugins]\nfolder = \"/none\"", false, "`[plugins]`"),
            (
                "[[plugins.registries]]\nhost = \"r.example\"\nusername = \"u\"\npassword_file = \"/none\"",
                false,
                "`password_file`",
            ),
        ] {
            let found = faults(settings, &data).await;
            let [(fatal, message)] = &found[..] else { panic!("{settings}: {found:?}") };
            assert!(*fatal == is_fatal && message.contains(part), "{settings}: {found:?}");
        }
    }

    #[tokio::test]
    async fn a_store_in_the_root_folder_is_refused_only_where_hardening_is_required() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        let is_told = async |hardening: &str| {
            let settings = format!("store = \"sqlite:/toolgate.db\"\nhardening = \"{hardening}\"");
            let found = faults(&settings, &data).await;
            found.iter().any(|(fatal, message)| *fatal && message.contains("`store` lies in the root folder"))
        };
        assert!(is_told("required").await && !is_told("best-effort").await);
    }

    #[tokio::test]
    async fn a_damaged_key_of_the_data_folder_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("keys")).expect("a folder");
        fs::write(folder.path().join("keys/audit.key"), "short").expect("written");
        let found = faults("", folder.path()).await;
        assert!(found.iter().any(|(fatal, message)| *fatal && message.contains("audit.key")), "{found:?}");
    }
}
