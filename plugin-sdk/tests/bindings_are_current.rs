//! `src/bindings.rs` is generated from `wit/` and checked in, so that plugins build without a WIT parser, faster and from the
//! SDK alone. This test fails if the two differ.
//!
//! After a change in `wit/`: `TOOLGATE_BLESS=1 cargo test -p toolgate-sdk --test bindings_are_current`.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::Path;

use wit_bindgen_core::wit_parser::Resolve;
use wit_bindgen_core::{Files, WorldGenerator};

const HEAD: &str = "\
//! Generated from `wit/plugin.wit` by wit-bindgen, see `tests/bindings_are_current.rs`. Do not edit.
";

#[test]
fn the_checked_in_bindings_match_the_contract() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let checked_in = package.join("src/bindings.rs");
    let generated = generate(&package.join("../wit"));

    if std::env::var_os("TOOLGATE_BLESS").is_some() {
        fs::write(&checked_in, &generated).unwrap();
    }
    let current = fs::read_to_string(&checked_in).unwrap_or_default();
    assert!(
        current == generated,
        "`plugin-sdk/src/bindings.rs` does not match `wit/`: run this test with TOOLGATE_BLESS=1"
    );
}

fn generate(wit: &Path) -> String {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(wit).unwrap();
    let world = resolve.select_world(&[package], Some("plugin-with-grants")).unwrap();

    let mut options = wit_bindgen_rust::Opts { format: true, pub_export_macro: true, ..Default::default() };
    options.runtime_path = Some("wit_bindgen::rt".to_owned());

    let mut files = Files::default();
    options.build().generate(&mut resolve, world, &mut files).unwrap();
    let (_, source) = files.iter().next().unwrap();
    format!("{HEAD}{}", std::str::from_utf8(source).unwrap())
}
