//! An uploaded file on its way in: compiled, loaded, asked what it is, read. In one process here, in two there.

use std::sync::LazyLock;

use tokio::runtime::Runtime;
use toolgate_admission::{Capabilities, Descriptor, ErrorType};
use toolgate_sandbox::{Component, LoadError, PagemapScan, Sandbox, SandboxSettings, precompile};

use crate::tell::assert_told;

/// How a component of the served version begins.
const HEAD: [u8; 8] = [0, b'a', b's', b'm', 0x0d, 0, 1, 0];

static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| {
    let settings = SandboxSettings { instances: 2, pagemap_scan: PagemapScan::Off };
    Sandbox::new(&settings).expect("a sandbox")
});

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime"));

/// Any bytes as a plugin file.
///
/// What is no component is refused by its head. What is refused later is told. What loads is asked what it is, ends,
/// and leaves no instance behind; what it imports it must ask for.
pub fn component(data: &[u8]) {
    let Some(loaded) = loaded(data) else { return };
    let needs: Vec<&str> = loaded.needs().collect();
    assert!(needs.iter().all(|need| ["filesystem", "network"].contains(need)), "{needs:?}");
    assert_eq!(loaded.check_manifest(&Capabilities::default()).is_ok(), needs.is_empty());
    let described = RUNTIME.block_on(SANDBOX.describe(&loaded, None));
    assert_eq!(SANDBOX.live_instances(), 0, "an instance is left");
    match described {
        Ok(description) => match Descriptor::parse(&description) {
            Ok(descriptor) => assert!(!descriptor.tools.is_empty()),
            Err(error) => assert_told(&error.message, &error.hint),
        },
        Err(error) => {
            assert_ne!(error.error_type, ErrorType::Internal, "{}", error.message);
            assert!(!error.message.is_empty() && !error.hint.is_empty());
        }
    }
}

fn loaded(data: &[u8]) -> Option<Component> {
    let code = match precompile(data) {
        Ok(code) => code,
        Err(error) => return refused(&error),
    };
    assert!(data.starts_with(&HEAD), "compiled, and no component");
    match SANDBOX.load(&code) {
        Ok(component) => Some(component),
        Err(error) => refused(&error),
    }
}

fn refused(error: &LoadError) -> Option<Component> {
    assert_told(&error.message, &error.hint);
    None
}
