//! An uploaded plugin file: compiled, loaded and described, here in one process.

use std::sync::LazyLock;

use tokio::runtime::Runtime;
use toolgate_admission::Descriptor;
use toolgate_api::error::ErrorType;
use toolgate_api::grant::Capabilities;
use toolgate_sandbox::{Component, LoadError, PagemapScan, Sandbox, SandboxSettings, precompile};

use crate::error_format::assert_error_text;

/// The first bytes of a component in the supported version.
const HEAD: [u8; 8] = [0, b'a', b's', b'm', 0x0d, 0, 1, 0];

static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| {
    let settings = SandboxSettings { instances: 2, pagemap_scan: PagemapScan::Off };
    Sandbox::new(&settings).expect("a sandbox")
});

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime"));

/// Input: a plugin file.
///
/// A file without the header of a component is refused, and every refusal has a message. A loaded component is described,
/// ends, leaves no instance behind, and must declare its imports.
pub fn component(data: &[u8]) {
    let Some(loaded) = load(data) else { return };
    let needs: Vec<&str> = loaded.needs().collect();
    assert!(needs.iter().all(|need| ["filesystem", "network"].contains(need)), "{needs:?}");
    assert_eq!(loaded.check_manifest(&Capabilities::default()).is_ok(), needs.is_empty());
    let described = match loaded.describe_functions(data, None, None) {
        Some(functions) => Ok(functions.json),
        None => RUNTIME.block_on(SANDBOX.describe(&loaded, None)),
    };
    assert_eq!(SANDBOX.live_instances(), 0, "an instance is left");
    match described {
        Ok(description) => match Descriptor::parse(&description) {
            Ok(descriptor) => assert!(!descriptor.tools.is_empty()),
            Err(error) => assert_error_text(&error.message, &error.hint),
        },
        Err(error) => {
            assert_ne!(error.error_type, ErrorType::Internal, "{}", error.message);
            assert!(!error.message.is_empty() && !error.hint.is_empty());
        }
    }
}

fn load(data: &[u8]) -> Option<Component> {
    let check_error = |error: LoadError| assert_error_text(&error.message, &error.hint);
    let code = precompile(data, None).map_err(check_error).ok()?;
    assert!(data.starts_with(&HEAD), "compiled, but not a component");
    SANDBOX.load(&code).map_err(check_error).ok()
}
