//! Plugins for oracles that need a catalogue.

use std::sync::Arc;

use toolgate_admission::{Catalogue, Descriptor, Digest, Plugin};
use toolgate_api::limits::LimitsPatch;

/// A plugin with everything that it asks for.
pub fn plugin<C>(descriptor: Descriptor, component: C) -> Plugin<C> {
    Plugin::with_trusted_hints(
        Digest::from_sha256([7; 32]),
        Arc::new(descriptor.capabilities.clone().into()),
        descriptor,
        component,
    )
}

pub fn catalogue(descriptors: impl IntoIterator<Item = Descriptor>) -> Arc<Catalogue<()>> {
    let plugins = descriptors.into_iter().map(|descriptor| Arc::new(plugin(descriptor, ()))).collect();
    Arc::new(Catalogue::new(LimitsPatch::new(), plugins))
}
