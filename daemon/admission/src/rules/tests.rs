//! Lists of tools in documents, compiled for a catalogue.

use toolgate_api::limits::LimitsPatch;
use toolgate_api::policy::PlatformDocument;
use toolgate_api::read::ReadError;
use toolgate_api::tools::ToolList;

use super::{Catalogue, ToolSet};
use crate::check::tests::plugin;

fn read(text: &str) -> Result<ToolList, ReadError> {
    PlatformDocument::parse(&format!("{{\"blocked\":{text}}}")).map(|document| document.blocked)
}

fn list(text: &str) -> ToolList {
    read(text).expect(text)
}

fn names(text: &str) -> Vec<String> {
    let catalogue = Catalogue::new(
        LimitsPatch::new(),
        vec![plugin("crm", &["delete", "search"]), plugin("files", &["read"])],
    );
    let set = ToolSet::compile(&list(text), &catalogue);
    let tools: Vec<String> = catalogue
        .tools()
        .iter()
        .filter(|tool| set.contains(tool.index()))
        .map(|tool| tool.id().to_string())
        .collect();
    assert_eq!(tools.len(), set.len());
    tools
}

#[test]
fn a_list_names_tools_plugins_or_everything() {
    assert_eq!(names(r#"["crm/search"]"#), ["crm/search"]);
    assert_eq!(names(r#"["crm/*"]"#), ["crm/delete", "crm/search"]);
    assert_eq!(names(r#""*""#), ["crm/delete", "crm/search", "files/read"]);
    assert_eq!(names(r#"["*"]"#), names(r#""*""#));
}

/// Requirements 9.1.
#[test]
fn an_empty_list_means_nothing() {
    assert!(names("[]").is_empty());
}

#[test]
fn an_entry_for_an_unknown_tool_is_kept_and_matches_nothing() {
    assert!(names(r#"["later/tool","later/*"]"#).is_empty());
    assert_eq!(list(r#"["later/tool"]"#).patterns().len(), 1);
}

#[test]
fn an_invalid_list_of_tools_is_refused() {
    for text in [
        "1",
        r#""crm/*""#,
        r#""""#,
        r#"["crm"]"#,
        r#"["CRM/x"]"#,
        r#"["*/x"]"#,
        r#"["crm/"]"#,
        r#"[1]"#,
        "{}",
    ] {
        assert!(read(text).is_err(), "{text}");
    }
}

#[test]
fn the_hint_for_a_wire_name_in_a_list_is_the_tool_id() {
    let refused = read(r#"["call_crm_search"]"#).unwrap_err();
    assert_eq!(refused.hint, "write `crm/search`", "{refused}");
}

#[test]
fn an_entry_displays_as_it_was_written() {
    let shown = |text: &str| -> Vec<_> { list(text).patterns().iter().map(ToString::to_string).collect() };
    assert_eq!(shown(r#""*""#), ["*"]);
    assert_eq!(shown(r#"["crm/*","files/read"]"#), ["crm/*", "files/read"]);
    assert!(shown("[]").is_empty());
}
