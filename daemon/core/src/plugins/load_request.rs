//! The parameters of a load, the same for every source of the file.

use bytes::Bytes;
use toolgate_admission::Descriptor;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::{Name, Namespace};
pub use toolgate_api::plugin::PluginSource as LoadSource;

use crate::oci::{Pulled, Reference};

/// The parameters of one load beside its file.
#[derive(Clone, Debug)]
pub struct LoadRequest {
    /// The namespace that the description must have.
    pub namespace: Namespace,
    /// The version that the description must have, if given.
    pub version: Option<String>,
    /// The organization that loads it for itself; `None` for the platform.
    pub owner: Option<Name>,
    /// The origin of the file.
    pub source: LoadSource,
    /// A DSSE envelope, JSON.
    pub signature: Option<Bytes>,
    /// Whether the hints of exactly this file count (rule 9.11).
    pub confirm_hints: bool,
    /// The share of calls that the version gets at first; all of them if absent.
    pub canary: Option<CanaryShare>,
}

/// A share of the calls of a plugin, 1 to 50 percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CanaryShare(u8);

impl LoadRequest {
    /// A load for the platform, without a signature.
    pub fn new(namespace: Namespace, source: LoadSource) -> Self {
        Self {
            namespace,
            version: None,
            owner: None,
            source,
            signature: None,
            confirm_hints: false,
            canary: None,
        }
    }

    /// Takes the signature and the origin of a file of a registry. Returns the file.
    pub fn take_pulled(&mut self, pulled: Pulled, reference: &Reference) -> Bytes {
        let Pulled { file, signature, digest } = pulled;
        self.signature = self.signature.take().or(signature);
        self.source = LoadSource::Registry { reference: reference.to_string(), digest: digest.to_string() };
        file
    }

    /// Checks that a plugin describes itself as the one that was asked for.
    pub(super) fn check_description(&self, descriptor: &Descriptor) -> Result<(), CallError> {
        if descriptor.namespace != self.namespace {
            return Err(CallError::new(
                ErrorType::InvalidPlugin,
                format!(
                    "the file describes itself as `{}`, the path names `{}`",
                    descriptor.namespace, self.namespace
                ),
                "upload it under the namespace that its description names",
            ));
        }
        match &self.version {
            Some(version) if *version != descriptor.version => Err(CallError::new(
                ErrorType::InvalidPlugin,
                format!("the file is version `{}`, the query names `{version}`", descriptor.version),
                "name the version that the plugin's package has, or none",
            )),
            _ => Ok(()),
        }
    }
}

impl CanaryShare {
    const MAX_PERCENT: u8 = 50;

    /// Takes 1 to 50 percent.
    pub fn from_percent(percent: u8) -> Option<Self> {
        (1..=Self::MAX_PERCENT).contains(&percent).then_some(Self(percent))
    }

    pub fn percent(self) -> u8 {
        self.0
    }
}
