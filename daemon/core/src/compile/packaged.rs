//! Compiled code of built-in plugins that came with the program: the folder `../lib/toolgate` beside that of the program, where
//! `compiled.json` lists the files.
//!
//! The daemon executes this code, as it executes the program. So it reads only a list in a folder that no one but root can write,
//! and each file must have the digest of the list, over the same buffer that is then loaded.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toolgate_admission::Digest;
use toolgate_api::embedded::Embedded;
use toolgate_audit as audit;
use toolgate_sandbox::{LoadError, portable_fingerprint, precompile_portable};

use crate::wall;

const LIST: &str = "compiled.json";

#[derive(Serialize, Deserialize)]
struct List {
    /// That of the engine that takes the code.
    fingerprint: String,
    plugins: Vec<PackagedPlugin>,
}

/// The compiled code of a plugin.
#[derive(Debug, Serialize, Deserialize)]
pub struct PackagedPlugin {
    /// The name of the plugin.
    pub name: String,
    /// The digest of the plugin file, `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// The file of the code, in the folder of the list.
    pub file: String,
    /// The digest of that file, written likewise.
    pub file_digest: String,
    /// The size of that file in bytes.
    pub bytes: u64,
}

/// The listed files, by the digest of the plugin file: the file, and its own digest.
pub(super) struct PackagedCode {
    files: BTreeMap<Digest, (PathBuf, Digest)>,
}

impl PackagedCode {
    /// Reads the list. None where the program came without one; one that cannot be used is logged.
    pub(super) fn open() -> Option<Self> {
        Self::open_in(&wall::packaged_folder()?)
    }

    fn open_in(folder: &Path) -> Option<Self> {
        let file = folder.join(LIST);
        let text = match fs::read(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => return unusable(&file, &error),
        };
        for path in [folder, &file] {
            match path.metadata() {
                Ok(found) if found.uid() == 0 && found.mode() & 0o022 == 0 => {}
                Ok(_) => return unusable(path, &"someone besides root can write it"),
                Err(error) => return unusable(path, &error),
            }
        }
        let list: List = match serde_json::from_slice(&text) {
            Ok(list) => list,
            Err(error) => return unusable(&file, &error),
        };
        match portable_fingerprint() {
            Ok(fingerprint) if fingerprint == list.fingerprint => {}
            Ok(_) => return unusable(&file, &"it is of another version of the program"),
            Err(error) => return unusable(&file, &error),
        }
        let files = list.plugins.into_iter().filter_map(|plugin| {
            let path = folder.join(Path::new(&plugin.file).file_name()?);
            Some((Digest::parse(&plugin.digest).ok()?, (path, Digest::parse(&plugin.file_digest).ok()?)))
        });
        Some(Self { files: files.collect() })
    }

    /// The code of a plugin file; none if it is not listed, or not as listed.
    pub(super) fn read(&self, digest: &Digest) -> Option<Vec<u8>> {
        let (path, expected) = self.files.get(digest)?;
        match fs::read(path) {
            Ok(code) if Digest::from_sha256(audit::sha256(&code).0) == *expected => Some(code),
            Ok(_) => unusable(path, &"it does not have the digest of the list"),
            Err(error) => unusable(path, &error),
        }
    }
}

fn unusable<T>(path: &Path, reason: &dyn std::fmt::Display) -> Option<T> {
    tracing::warn!(file = %path.display(), %reason, "compiled code of the package is not used");
    None
}

/// The code of the package cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// A plugin does not compile.
    #[error("`{0}` cannot be compiled: {1}")]
    Compile(&'static str, LoadError),
    /// A file cannot be written.
    #[error("`{0}` cannot be written: {1}")]
    Write(PathBuf, io::Error),
}

/// Compiles plugins for a package, and writes code and list into the folder, which the package installs beside the program.
pub fn write(folder: &Path, plugins: &[&Embedded]) -> Result<Vec<PackagedPlugin>, PackageError> {
    let write = |path: PathBuf, content: &[u8]| {
        let written = fs::write(&path, content)
            .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o644)));
        written.map_err(|error| PackageError::Write(path, error))
    };
    fs::create_dir_all(folder).map_err(|error| PackageError::Write(folder.to_owned(), error))?;
    let mut listed = Vec::new();
    for Embedded { name, digest, component } in plugins {
        let code = precompile_portable(component).map_err(|error| PackageError::Compile(name, error))?;
        let file = format!("{name}.cwasm");
        write(folder.join(&file), &code)?;
        listed.push(PackagedPlugin {
            name: (*name).to_owned(),
            digest: (*digest).to_owned(),
            file,
            file_digest: Digest::from_sha256(audit::sha256(&code).0).to_string(),
            bytes: code.len() as u64,
        });
    }
    let fingerprint = portable_fingerprint().map_err(|error| PackageError::Compile("toolgate", error))?;
    let list = List { fingerprint, plugins: listed };
    let text = serde_json::to_vec_pretty(&list).unwrap_or_default();
    write(folder.join(LIST), &text)?;
    Ok(list.plugins)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::chown;

    use super::*;

    /// A component without anything.
    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

    #[test]
    fn o1_code_of_a_package_is_used_if_root_alone_can_write_it() {
        let folder = tempfile::tempdir().unwrap();
        let (folder, digest) = (folder.path().join("toolgate"), Digest::from_sha256(audit::sha256(EMPTY).0));
        let empty = Embedded { name: "empty", digest: digest.to_string().leak(), component: EMPTY };
        let written = write(&folder, &[&empty]).unwrap();
        let code = || PackagedCode::open_in(&folder)?.read(&digest);
        let (list, file) = (folder.join(LIST), folder.join("empty.cwasm"));
        let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        mode(&folder, 0o755);
        if !rustix::process::geteuid().is_root() {
            assert_eq!(code(), None, "the list is of another user than root");
            return;
        }
        let whole = code().expect("the code of a package");
        assert_eq!(whole.len() as u64, written[0].bytes);
        for (path, unsafe_mode, safe_mode) in [(&folder, 0o775, 0o755), (&list, 0o646, 0o644)] {
            mode(path, unsafe_mode);
            assert_eq!(code(), None, "{}", path.display());
            mode(path, safe_mode);
            chown(path, Some(1), None).unwrap();
            assert_eq!(code(), None, "{}", path.display());
            chown(path, Some(0), None).unwrap();
        }
        fs::write(&file, [&whole[..], b"x"].concat()).unwrap();
        assert_eq!(code(), None, "a changed file");
        fs::write(&file, &whole).unwrap();
        assert!(code().is_some());
        let text = fs::read_to_string(&list).unwrap();
        fs::write(&list, text.replace(&portable_fingerprint().unwrap(), "0123456789abcdef")).unwrap();
        assert_eq!(code(), None, "another version of the program");
    }
}
