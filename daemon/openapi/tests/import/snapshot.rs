//! The complete result for one ordinary document.

use serde_json::json;
use toolgate_openapi::ImportOptions;

use super::import_checked;

#[test]
fn c2_an_ordinary_document_becomes_this_definition() {
    let text = include_str!("../fixtures/orders.yaml");
    let imported = import_checked(text, &ImportOptions::new("orders")).expect("imported");
    let lines = |lines: Vec<String>| lines;
    let whole = json!({
        "definition": imported.definition,
        "left_out": lines(imported.left_out.iter().map(ToString::to_string).collect()),
        "notes": lines(imported.notes.iter().map(ToString::to_string).collect()),
    });
    // Sorted, because `serde_json` keeps keys in either order, depending on its features.
    insta::with_settings!({sort_maps => true}, { insta::assert_json_snapshot!(whole) });
}
