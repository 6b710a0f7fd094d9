//! What a plugin asks for, what an operator grants, and what is left of the two for a call (B5).
//!
//! Asking and granting have the same form, so that a grant can be the asking, copied. A call gets the
//! intersection: nothing that was not asked for, nothing that was not granted. Whether an address
//! matches a rule is decided where connections are made; here rules are only compared with rules.

use serde::{Deserialize, Serialize};

use super::read::Place;
use super::{DescriptorError, LIST};

/// Access beyond computing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Capabilities {
    /// Which files.
    pub filesystem: FilesystemAccess,
    /// Which requests; an empty list means none.
    pub network: Vec<NetworkRule>,
    /// Credentials by provider; an empty list means none.
    pub credentials: Vec<String>,
}

/// Which files a plugin may touch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilesystemAccess {
    /// None.
    #[default]
    None,
    /// Those of the session's workspace.
    Workspace,
}

/// One kind of outgoing request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkRule {
    /// The scheme.
    #[serde(default)]
    pub scheme: NetworkScheme,
    /// The host.
    pub host: String,
    /// The port; absent means that of the scheme.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The methods; absent means every one, an empty list none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub methods: Option<Vec<String>>,
    /// What the path begins with; absent means every path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// The scheme of an outgoing request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkScheme {
    /// With TLS.
    #[default]
    Https,
    /// Without.
    Http,
}

impl NetworkScheme {
    /// The port where a rule names none.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
        }
    }
}

impl Capabilities {
    /// What both this and the other allow.
    #[must_use]
    pub fn intersect(&self, other: &Capabilities) -> Capabilities {
        let both = |left: &NetworkRule| {
            other.network.iter().filter_map(|right| left.intersect(right)).collect::<Vec<_>>()
        };
        let mut network: Vec<NetworkRule> = Vec::new();
        for rule in self.network.iter().flat_map(both) {
            if !network.contains(&rule) {
                network.push(rule);
            }
        }
        Capabilities {
            filesystem: self.filesystem.min(other.filesystem),
            network,
            credentials: self
                .credentials
                .iter()
                .filter(|name| other.credentials.contains(name))
                .cloned()
                .collect(),
        }
    }
}

impl NetworkRule {
    /// The requests that both rules allow; none where no request can match both.
    fn intersect(&self, other: &NetworkRule) -> Option<NetworkRule> {
        let port = |rule: &NetworkRule| rule.port.unwrap_or(rule.scheme.default_port());
        let same_place = self.scheme == other.scheme
            && port(self) == port(other)
            && self.host.eq_ignore_ascii_case(&other.host);
        let path = match (&self.path, &other.path) {
            (Some(left), Some(right)) if left.starts_with(right.as_str()) => Some(left),
            (Some(left), Some(right)) if right.starts_with(left.as_str()) => Some(right),
            (Some(_), Some(_)) => return None,
            (left, right) => left.as_ref().or(right.as_ref()),
        };
        let methods = match (&self.methods, &other.methods) {
            (Some(left), Some(right)) => {
                Some(left.iter().filter(|method| right.contains(method)).cloned().collect())
            }
            (left, right) => left.clone().or_else(|| right.clone()),
        };
        let rule =
            NetworkRule { port: self.port.or(other.port), path: path.cloned(), methods, ..self.clone() };
        same_place.then_some(rule)
    }
}

pub(super) fn read(place: &Place<'_>, unknown: &mut Vec<String>) -> Result<Capabilities, DescriptorError> {
    place.object(&["filesystem", "network", "credentials"], unknown)?;
    let access = [("none", FilesystemAccess::None), ("workspace", FilesystemAccess::Workspace)];
    Ok(Capabilities {
        filesystem: place
            .optional("filesystem")
            .map_or(Ok(FilesystemAccess::None), |place| place.one_of(&access))?,
        network: place.list("network", LIST, |item| read_rule(item, unknown))?,
        credentials: place.list("credentials", LIST, |item| item.word(100))?,
    })
}

fn read_rule(place: &Place<'_>, unknown: &mut Vec<String>) -> Result<NetworkRule, DescriptorError> {
    place.object(&["scheme", "host", "port", "methods", "path"], unknown)?;
    let schemes = [("https", NetworkScheme::Https), ("http", NetworkScheme::Http)];
    let port = place.optional("port").map(|place| place.number(1, u64::from(u16::MAX))).transpose()?;
    Ok(NetworkRule {
        scheme: place.optional("scheme").map_or(Ok(NetworkScheme::Https), |place| place.one_of(&schemes))?,
        host: place.required("host")?.word(253)?,
        port: port.and_then(|port| u16::try_from(port).ok()),
        methods: match place.optional("methods") {
            Some(_) => Some(place.list("methods", LIST, |item| item.word(40))?),
            None => None,
        },
        path: place.optional("path").map(|place| read_path(&place)).transpose()?,
    })
}

fn read_path(place: &Place<'_>) -> Result<String, DescriptorError> {
    let path = place.word(1_000)?;
    match path.starts_with('/') {
        true => Ok(path),
        false => Err(place
            .refuse("the path does not begin with `/`", "write what the path begins with, like `/points/`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> NetworkRule {
        serde_json::from_str(text).expect("a rule")
    }

    fn network(rules: &[&str]) -> Capabilities {
        Capabilities { network: rules.iter().map(|text| rule(text)).collect(), ..Capabilities::default() }
    }

    /// B5: a call gets what is asked and granted.
    #[test]
    fn a_call_gets_files_only_where_they_are_both_asked_for_and_granted() {
        let none = Capabilities::default();
        let files = Capabilities { filesystem: FilesystemAccess::Workspace, ..Capabilities::default() };
        assert_eq!(files.intersect(&files).filesystem, FilesystemAccess::Workspace);
        assert_eq!(files.intersect(&none).filesystem, FilesystemAccess::None);
        assert_eq!(none.intersect(&files).filesystem, FilesystemAccess::None);
    }

    #[test]
    fn two_rules_leave_the_requests_that_both_allow() {
        let asked = network(&[r#"{"host":"api.example","methods":["GET","POST"],"path":"/v1/"}"#]);
        let granted =
            network(&[r#"{"host":"API.example","port":443,"methods":["GET"],"path":"/v1/points/"}"#]);
        let left = asked.intersect(&granted);
        assert_eq!(
            left.network,
            [rule(r#"{"host":"api.example","port":443,"methods":["GET"],"path":"/v1/points/"}"#)]
        );
    }

    #[test]
    fn rules_for_other_places_leave_nothing() {
        let asked = network(&[r#"{"host":"api.example","path":"/a"}"#]);
        for granted in [
            r#"{"host":"other.example"}"#,
            r#"{"host":"api.example","scheme":"http"}"#,
            r#"{"host":"api.example","port":8443}"#,
            r#"{"host":"api.example","path":"/b"}"#,
        ] {
            assert_eq!(asked.intersect(&network(&[granted])).network, [], "{granted}");
        }
        assert_eq!(asked.intersect(&asked), asked);
    }

    #[test]
    fn an_empty_list_of_methods_stays_empty() {
        let asked = network(&[r#"{"host":"api.example"}"#]);
        let granted = network(&[r#"{"host":"api.example","methods":[]}"#]);
        assert_eq!(asked.intersect(&granted).network[0].methods, Some(Vec::new()));
    }

    #[test]
    fn a_grant_with_a_misspelt_field_is_refused() {
        assert!(serde_json::from_str::<Capabilities>(r#"{"filesytem":"workspace"}"#).is_err());
        assert!(serde_json::from_str::<Capabilities>(r#"{"filesystem":"workspace"}"#).is_ok());
    }
}
