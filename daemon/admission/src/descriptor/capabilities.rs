//! Capabilities that a plugin requests beyond computation (B5).
//!
//! A requested network rule has the same form as a granted one, so a grant can be a copy of the request. A call gets
//! the intersection of both, decided per request (`egress`).

use serde::Serialize;
use toolgate_api::network::{HostPattern, NetworkRule, NetworkScheme, validate_method, validate_rule_path};

use super::read::Place;
use super::{DescriptorError, LIST};

/// Access beyond computing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// Which files.
    pub filesystem: FilesystemAccess,
    /// Which requests; an empty list means none.
    pub network: Vec<NetworkRule>,
    /// Credentials by provider; an empty list means none.
    pub credentials: Vec<String>,
}

/// Which files a plugin may touch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FilesystemAccess {
    /// None.
    #[default]
    None,
    /// Files of the session's workspace.
    Workspace,
}

impl FilesystemAccess {
    pub(crate) const WORDS: [(&str, Self); 2] = [("none", Self::None), ("workspace", Self::Workspace)];
}

pub(super) fn read(place: &Place<'_>, unknown: &mut Vec<String>) -> Result<Capabilities, DescriptorError> {
    place.object(&["filesystem", "network", "credentials"], unknown)?;
    Ok(Capabilities {
        filesystem: place
            .optional("filesystem")
            .map_or(Ok(FilesystemAccess::None), |place| place.one_of(&FilesystemAccess::WORDS))?,
        network: place.list("network", LIST, |item| read_rule(item, unknown))?,
        credentials: place.list("credentials", LIST, |item| item.word(100))?,
    })
}

fn read_rule(place: &Place<'_>, unknown: &mut Vec<String>) -> Result<NetworkRule, DescriptorError> {
    place.object(&["scheme", "host", "port", "methods", "path"], unknown)?;
    let port = place.optional("port").map(|place| place.number(1, u64::from(u16::MAX))).transpose()?;
    Ok(NetworkRule {
        scheme: place
            .optional("scheme")
            .map_or(Ok(NetworkScheme::Https), |place| place.one_of(&NetworkScheme::WORDS))?,
        host: read_host(&place.required("host")?)?,
        port: port.and_then(|port| u16::try_from(port).ok()),
        methods: match place.optional("methods") {
            Some(_) => Some(place.list("methods", LIST, read_method)?),
            None => None,
        },
        path: place.optional("path").map(|place| read_path(&place)).transpose()?,
    })
}

fn read_host(place: &Place<'_>) -> Result<HostPattern, DescriptorError> {
    HostPattern::parse_asked(place.str()?).map_err(|error| place.refuse(error.message, error.hint))
}

fn read_method(place: &Place<'_>) -> Result<String, DescriptorError> {
    let method = validate_method(place.str()?).map_err(|error| place.refuse(error.message, error.hint))?;
    Ok(method.to_owned())
}

fn read_path(place: &Place<'_>) -> Result<String, DescriptorError> {
    let path = place.str()?;
    match validate_rule_path(path) {
        Ok(()) => Ok(path.to_owned()),
        Err(why) => Err(place.refuse(why, "write what the path begins with, like `/points/`")),
    }
}
