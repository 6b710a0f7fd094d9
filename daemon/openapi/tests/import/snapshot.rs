//! One document of ordinary size, and all that comes of it.

use serde_json::json;
use toolgate_openapi::Wanted;

use super::imported;

#[test]
fn c2_an_ordinary_document_becomes_this_definition() {
    let text = include_str!("../fixtures/orders.yaml");
    let imported = imported(text, &Wanted::all("orders")).expect("imported");
    let lines = |lines: Vec<String>| lines;
    let whole = json!({
        "definition": imported.definition,
        "left_out": lines(imported.left_out.iter().map(ToString::to_string).collect()),
        "notes": lines(imported.notes.iter().map(ToString::to_string).collect()),
    });
    // Sorted, whatever the JSON library keeps members in.
    insta::with_settings!({sort_maps => true}, { insta::assert_json_snapshot!(whole) });
}
