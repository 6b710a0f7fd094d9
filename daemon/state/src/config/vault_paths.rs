//! Paths in a vault (OpenBao, HashiCorp Vault), and of mounted files with secrets, as settings and credentials write them.

use std::path::PathBuf;

use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;

/// Longest reference, like other texts in a credential's document.
const REFERENCE_BYTES: usize = 500;
/// Placeholder for the organization's name.
const ORGANIZATION: &str = "{organization}";
/// `MOUNT/PATH#FIELD` in a KV secrets engine, version 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvPath {
    pub mount: String,
    pub path: String,
    pub field: String,
}

/// The secrets engine of a vault that has the root key.
pub enum VaultEngine {
    Kv(KvPath),
    /// `file` has the root key, encrypted under the key `key` of the engine at `mount`.
    Transit {
        mount: String,
        key: String,
        file: PathBuf,
    },
}

/// `MOUNT/…/{organization}/…/`: the prefix of all references of an organization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferencePrefix {
    before: String,
    after: String,
}

impl KvPath {
    /// Parses `MOUNT/PATH#FIELD`. Refuses path traversal and characters that a URL would encode.
    pub fn parse(text: &str) -> Option<Self> {
        let (path, field) = text.split_once('#')?;
        let (mount, path) = path.split_once('/')?;
        let is_valid = is_path(mount) && is_path(path) && !field.is_empty();
        is_valid.then(|| Self { mount: mount.into(), path: path.into(), field: field.into() })
    }
}

impl VaultEngine {
    /// Parses `MOUNT/PATH#FIELD`.
    pub fn kv(text: &str) -> Option<Self> {
        KvPath::parse(text).map(Self::Kv)
    }

    /// Parses `MOUNT/KEY`.
    pub fn transit(text: &str, file: PathBuf) -> Option<Self> {
        let (mount, key) = text.rsplit_once('/')?;
        (is_path(mount) && is_path(key)).then(|| Self::Transit { mount: mount.into(), key: key.into(), file })
    }
}

impl ReferencePrefix {
    /// The placeholder must be a whole path segment, so that no prefix begins with that of another organization, and not
    /// the first one, so that an organization's name never selects the mount.
    pub fn parse(text: &str) -> Option<Self> {
        let (before, after) = text.split_once(ORGANIZATION)?;
        let is_before_valid = before.strip_suffix('/').is_some_and(is_path);
        let rest = after.strip_prefix('/')?;
        let is_after_valid = rest.is_empty() || rest.strip_suffix('/').is_some_and(is_path);
        (is_before_valid && is_after_valid)
            .then(|| Self { before: before.to_owned(), after: after.to_owned() })
    }

    /// Parses a reference of this organization.
    pub fn parse_reference(&self, organization: &Name, reference: &str) -> Result<KvPath, CallError> {
        let path = KvPath::parse(reference).filter(|path| is_segment(&path.field));
        let Some(path) = path.filter(|_| reference.len() <= REFERENCE_BYTES) else {
            return Err(invalid_reference(
                "that is not a path in a vault",
                "write `MOUNT/PATH#FIELD` with letters, digits, `-`, `_` and `.`, and without `..`",
            ));
        };
        let prefix = format!("{}{organization}{}", self.before, self.after);
        match reference.starts_with(&prefix) {
            true => Ok(path),
            false => Err(invalid_reference(
                format!("the organization `{organization}` may not use that path of the vault"),
                format!("use a path below `{prefix}`"),
            )),
        }
    }
}

/// `/…/{organization}/`: the folder of the secrets that credentials of an organization may refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretFolders {
    /// The folder of the folders of all organizations.
    pub all: PathBuf,
    after: String,
}

impl SecretFolders {
    /// The placeholder must be a whole segment of the path, as in a [`ReferencePrefix`].
    pub fn parse(text: &str) -> Option<Self> {
        let (before, after) = text.split_once(ORGANIZATION)?;
        let is_before_valid =
            before.strip_prefix('/').and_then(|path| path.strip_suffix('/')).is_some_and(is_path);
        let rest = after.strip_prefix('/')?;
        let is_after_valid = rest.is_empty() || rest.strip_suffix('/').is_some_and(is_path);
        (is_before_valid && is_after_valid).then(|| Self { all: before.into(), after: rest.to_owned() })
    }

    /// The folder of this organization.
    pub fn of(&self, organization: &Name) -> PathBuf {
        self.all.join(organization.as_str()).join(&self.after)
    }

    /// The file with this name in the folder of the organization.
    pub fn file(&self, organization: &Name, name: &str) -> Result<PathBuf, CallError> {
        match is_path(name) && name.len() <= REFERENCE_BYTES {
            true => Ok(self.of(organization).join(name)),
            false => Err(invalid_file(
                "that is not the name of a file with a secret",
                "write its path below the organization's folder, with letters, digits, `-`, `_` and `.`, and without `..`",
            )),
        }
    }
}

/// Whether all segments can stand in a URL without percent-encoding.
fn is_path(text: &str) -> bool {
    text.split('/').all(is_segment)
}

fn is_segment(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !text.is_empty() && text != "." && text != ".." && text.bytes().all(is_allowed)
}

pub fn invalid_reference(message: impl Into<String>, hint: impl Into<String>) -> CallError {
    CallError::new(ErrorType::InvalidRequest, message, hint).with_pointer("/vault")
}

pub fn invalid_file(message: impl Into<String>, hint: impl Into<String>) -> CallError {
    CallError::new(ErrorType::InvalidRequest, message, hint).with_pointer("/file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k1_a_file_with_a_secret_is_below_the_folder_of_its_organization() {
        let folders = SecretFolders::parse("/run/secrets/{organization}/api/").unwrap();
        let file = folders.file(&name("acme"), "stripe/key").unwrap();
        assert_eq!(file, PathBuf::from("/run/secrets/acme/api/stripe/key"));
        assert_eq!(
            SecretFolders::parse("/s/{organization}/").unwrap().of(&name("acme")),
            PathBuf::from("/s/acme")
        );
        for wrong in ["", "/etc/passwd", "../other/key", "a/../../b", "a//b", "a b", "."] {
            assert!(folders.file(&name("acme"), wrong).is_err(), "{wrong}");
        }
        for wrong in [
            "/{organization}/",
            "run/{organization}/",
            "/run/{organization}",
            "/run/x{organization}/",
            "/run/../{organization}/",
            "/run/",
        ] {
            assert_eq!(SecretFolders::parse(wrong), None, "{wrong}");
        }
    }

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    #[test]
    fn kv_paths_parse_and_path_traversal_is_refused() {
        let path = KvPath::parse("secret/toolgate/prod#root").unwrap();
        assert_eq!((&*path.mount, &*path.path, &*path.field), ("secret", "toolgate/prod", "root"));
        for text in [
            "secret",
            "secret/a",
            "secret/#f",
            "secret/../sys#f",
            "secret/%2e%2e/sys#f",
            "secret/a//b#f",
            "secret/a?b#f",
            "secret/a\n#f",
            "/a#f",
            "secret/a#",
        ] {
            assert!(KvPath::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn transit_keys_parse_and_path_traversal_is_refused() {
        assert!(matches!(
            VaultEngine::transit("teams/transit/toolgate", PathBuf::new()),
            Some(VaultEngine::Transit { mount, key, .. }) if (&*mount, &*key) == ("teams/transit", "toolgate")
        ));
        for text in ["transit", "transit/", "transit/../x", "transit/a b"] {
            assert!(VaultEngine::transit(text, PathBuf::new()).is_none(), "{text}");
        }
    }

    #[test]
    fn a_prefix_has_the_organization_as_a_segment_below_a_mount() {
        for text in ["kv/{organization}/", "kv/tenants/{organization}/toolgate/"] {
            assert!(ReferencePrefix::parse(text).is_some(), "{text}");
        }
        for text in [
            "",
            "kv/tenants/",
            "{organization}/",
            "/{organization}/",
            "kv/{organization}",
            "kv/of-{organization}/",
            "kv/{organization}-x/",
            "kv/{organization}//",
            "kv/../{organization}/",
            "kv//{organization}/",
            "kv/{organization}/{organization}/",
            "kv/%2e/{organization}/",
        ] {
            assert!(ReferencePrefix::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn an_organization_may_use_its_own_paths_only() {
        let prefix = ReferencePrefix::parse("kv/tenants/{organization}/").unwrap();
        let parse = |text: &str| prefix.parse_reference(&name("acme"), text);
        assert_eq!(parse("kv/tenants/acme/a/b#key").unwrap().path, "tenants/acme/a/b");
        let long = format!("kv/tenants/acme/{}#key", "a".repeat(REFERENCE_BYTES));
        for text in [
            "kv/tenants/rival/stripe#key",
            "kv/tenants/acme2/stripe#key",
            "kv/tenants/acme#key",
            "kv/tenants/acme/#key",
            "kv/tenants/acme/../rival/stripe#key",
            "kv/tenants/acme/%2e%2e/rival#key",
            "kv/tenants/acme//stripe#key",
            "kv/tenants/acme/stripe",
            "kv/tenants/acme/stripe#",
            "kv/tenants/acme/stripe#a b",
            "kv/tenants/acme/stripe#a\n",
            "kv/tenants/acme/str\u{0}ipe#key",
            "KV/tenants/acme/stripe#key",
            "kv/root#key",
            &long,
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(error.error_type, ErrorType::InvalidRequest);
            assert!(error.hint.contains("MOUNT/PATH#FIELD") || error.hint.contains("`kv/tenants/acme/`"));
        }
    }
}
