//! The files that settings name: those whose key ends with `_file`, and those of `[tls]`.

use std::path::PathBuf;

use serde_json::Value;

use super::Config;

/// Keys of `[tls]` that name a file.
const TLS_FILES: &[&str] = &["certificate", "key", "client_ca"];

/// A file that a setting names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// The section of the setting.
    pub section: String,
    /// The key of the setting.
    pub key: String,
    /// The path as written, relative to the working directory.
    pub path: PathBuf,
}

impl Config {
    /// The files that the settings name. The daemon reads them at the start, and some again later.
    pub fn named_files(&self) -> Vec<NamedFile> {
        let mut files = Vec::new();
        for (section, values) in self.values() {
            collect(section, &values, &mut files);
        }
        files
    }
}

fn collect(section: &str, values: &Value, files: &mut Vec<NamedFile>) {
    match values {
        Value::Array(tables) => tables.iter().for_each(|table| collect(section, table, files)),
        Value::Object(values) => {
            for (key, value) in values {
                match value {
                    Value::String(path) if names_a_file(section, key) => {
                        files.push(NamedFile {
                            section: section.into(),
                            key: key.clone(),
                            path: path.into(),
                        });
                    }
                    nested => {
                        let name = if section.is_empty() { key.clone() } else { format!("{section}.{key}") };
                        collect(&name, nested, files);
                    }
                }
            }
        }
        _ => {}
    }
}

fn names_a_file(section: &str, key: &str) -> bool {
    key.ends_with("_file") || section == "tls" && TLS_FILES.contains(&key)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_files_of_every_section_are_found() {
        let settings = "[tls]\ncertificate = \"c.pem\"\nkey = \"k.pem\"\n[credentials]\nroot_key_file = \"/r\"\n\
                        [[plugins.registries]]\nhost = \"a.example\"\nca_file = \"a.pem\"\n\
                        [[plugins.registries]]\nhost = \"b.example\"\nca_file = \"b.pem\"";
        let config = Config::parse(settings, Path::new("t.toml")).expect("settings");
        let found = config.named_files().into_iter().map(|file| {
            let NamedFile { section, key, path } = file;
            format!("{section}.{key}={}", path.display())
        });
        let mut found: Vec<_> = found.collect();
        found.sort();
        let expected = [
            "credentials.root_key_file=/r",
            "plugins.registries.ca_file=a.pem",
            "plugins.registries.ca_file=b.pem",
            "tls.certificate=c.pem",
            "tls.key=k.pem",
        ];
        assert_eq!(found, expected);
        assert!(Config::default().named_files().is_empty());
    }
}
