//! The file of contexts: read whole, and replaced as a whole by a rename.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::client::TlsFiles;
use super::failure::{Failure, Result};

/// Permission bits of group and others.
const OTHERS_MODE: u32 = 0o077;

/// A daemon and the means to reach it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Context {
    /// The URL of the daemon.
    pub server: String,
    /// The token.
    pub token: String,
    /// Files for TLS.
    #[serde(default, skip_serializing_if = "ContextTls::is_empty")]
    pub files: ContextTls,
}

/// Absolute paths of the files for TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ContextTls {
    /// Certificate authorities.
    pub ca_file: Option<PathBuf>,
    /// The client's certificate.
    pub client_certificate: Option<PathBuf>,
    /// The private key of the client's certificate.
    pub client_key: Option<PathBuf>,
}

/// All contexts of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Contexts {
    /// The context that commands use.
    pub current: Option<String>,
    /// The contexts by name.
    pub contexts: BTreeMap<String, Context>,
}

/// Location of the contexts of a user.
#[derive(Clone, Debug)]
pub(crate) struct ContextFile(PathBuf);

impl ContextTls {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Context {
    /// The files for a client.
    pub(crate) fn tls_files(&self) -> TlsFiles {
        let ContextTls { ca_file, client_certificate, client_key } = self.files.clone();
        TlsFiles { ca: ca_file, pinned: None, certificate: client_certificate, key: client_key }
    }
}

impl Contexts {
    /// Returns the context of this name, or a failure that lists the known ones.
    pub(crate) fn get(&self, name: &str) -> Result<&Context> {
        self.contexts.get(name).ok_or_else(|| {
            let names: Vec<_> = self.contexts.keys().map(String::as_str).collect();
            let hint = if names.is_empty() {
                "there is none yet; `toolgate login` makes one".to_owned()
            } else {
                format!("the contexts are: {}", names.join(", "))
            };
            Failure::wrong_usage(format!("unknown context `{name}`"), hint)
        })
    }

    /// Returns the current context, if there is one.
    pub(crate) fn current(&self) -> Option<&Context> {
        self.contexts.get(self.current.as_deref()?)
    }
}

impl ContextFile {
    /// The file in the configuration folder of the user: `$XDG_CONFIG_HOME`, else `~/.config`.
    pub(crate) fn of_user() -> Result<Self> {
        let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let configuration =
            folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")));
        let configuration = configuration.ok_or_else(|| {
            Failure::new(
                "there is no configuration folder for contexts",
                "set `HOME` or `XDG_CONFIG_HOME` to an absolute path",
            )
        })?;
        Ok(Self(configuration.join("toolgate/contexts.json")))
    }

    /// A file at this path.
    #[cfg(test)]
    pub(crate) fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// The path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Reads the contexts; none if there is no file. A file that others may read is refused, since it has tokens.
    pub(crate) fn read(&self) -> Result<Contexts> {
        let text = match fs::read_to_string(&self.0) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Contexts::default()),
            Err(error) => return Err(self.failure("read", &error)),
        };
        let mode = fs::metadata(&self.0).map_err(|error| self.failure("read", &error))?.permissions().mode();
        if mode & OTHERS_MODE != 0 {
            return Err(Failure::new(
                format!(
                    "`{}` has mode {:04o}, so others can read its tokens",
                    self.0.display(),
                    mode & 0o7777
                ),
                format!(
                    "run `chmod 600 {}`, and replace the tokens if others could read them",
                    self.0.display()
                ),
            ));
        }
        serde_json::from_str(&text).map_err(|error| {
            Failure::new(
                format!("`{}` is not a file of contexts: {error}", self.0.display()),
                "correct it, or remove it and log in again",
            )
        })
    }

    /// Replaces the contexts.
    pub(crate) fn write(&self, contexts: &Contexts) -> Result {
        let text = serde_json::to_string_pretty(contexts).unwrap_or_default();
        self.replace(&text).map_err(|error| self.failure("write", &error))
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        if let Some(folder) = self.0.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let temporary = self.0.with_extension(format!("{}.new", std::process::id()));
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        let written = writeln!(file, "{text}").and_then(|()| file.sync_all());
        let renamed = written.and_then(|()| fs::rename(&temporary, &self.0));
        if renamed.is_err() {
            // The rest of a failed write has the tokens as well.
            let _ = fs::remove_file(&temporary);
        }
        renamed
    }

    fn failure(&self, what: &str, error: &io::Error) -> Failure {
        Failure::new(
            format!("cannot {what} `{}`: {error}", self.0.display()),
            "check its folder and permissions, or name another one with `XDG_CONFIG_HOME`",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_can_read_the_file_and_another_mode_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = ContextFile::at(folder.path().join("a/toolgate/contexts.json"));
        assert_eq!(file.read().expect("none yet"), Contexts::default());
        let context = Context { server: "http://a".into(), token: "tg_a".into(), files: Default::default() };
        let contexts = Contexts { current: Some("a".into()), contexts: [("a".to_owned(), context)].into() };
        file.write(&contexts).expect("written");
        assert_eq!(file.read().expect("contexts"), contexts);
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(file.path()), mode(file.path().parent().expect("a folder"))), (0o600, 0o700));
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o644)).expect("changed");
        let failure = file.read().expect_err("others can read it");
        assert!(
            failure.to_string().contains("mode 0644") && failure.hint().contains("chmod 600"),
            "{failure}"
        );
    }

    #[test]
    fn a_damaged_file_is_named_and_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = ContextFile::at(folder.path().join("contexts.json"));
        file.write(&Contexts::default()).expect("written");
        fs::write(file.path(), "{\"curent\": 1}").expect("written");
        let failure = file.read().expect_err("damaged");
        assert!(failure.to_string().contains("contexts.json"), "{failure}");
        assert_eq!(fs::read_to_string(file.path()).expect("there"), "{\"curent\": 1}");
    }
}
