//! A plugin for people: its fields, tools and kept versions.

use toolgate_api::plugin::{PluginLoaded, PluginView, ToolView, VersionView};

use super::capabilities_text;
use crate::document;
use crate::failure::Result;
use crate::print::{Printer, time_text, word};

/// Prints a plugin in tables at a terminal, else as JSON.
pub(super) fn run(printer: &mut Printer<'_>, loaded: &PluginLoaded) -> Result {
    if !printer.is_terminal() {
        return Ok(printer.json(loaded)?);
    }
    let plugin = &loaded.plugin;
    printer.fields(&fields(plugin))?;
    printer.line("")?;
    printer
        .table(["TOOL", "READ-ONLY", "DESCRIPTION"], &plugin.tools.iter().map(tool).collect::<Vec<_>>())?;
    if !plugin.versions.is_empty() {
        printer.line("")?;
        let versions: Vec<_> = plugin.versions.iter().map(version).collect();
        printer.table(["VERSION", "STATE", "LOADED", "DIGEST", "REASON"], &versions)?;
    }
    for left_out in &plugin.left_out {
        printer.warning(&format!("`{}` is left out: {}", left_out.name, left_out.why))?;
    }
    document::warn(printer, &loaded.warnings)
}

fn fields(plugin: &PluginView) -> [(&'static str, Option<String>); 8] {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    [
        ("plugin", some(&plugin.namespace)),
        ("version", some(&plugin.version)),
        ("state", some(&word(&plugin.state))),
        ("reason", plugin.reason.clone()),
        ("publisher", plugin.publisher.clone()),
        ("purpose", plugin.purpose.clone()),
        ("asks for", some(&capabilities_text(&plugin.capabilities))),
        ("digest", some(&plugin.digest)),
    ]
}

fn tool(tool: &ToolView) -> [String; 3] {
    let read_only = if tool.read_only { "yes" } else { "no" };
    let description = tool.description.lines().next().unwrap_or_default();
    [tool.name.clone(), read_only.to_owned(), description.to_owned()]
}

fn version(version: &VersionView) -> [String; 5] {
    [
        version.version.clone(),
        word(&version.state),
        version.loaded_ms.map_or_else(|| "-".to_owned(), time_text),
        version.digest.clone(),
        version.reason.clone().unwrap_or_else(|| "-".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::tests::plugin;
    use super::*;

    #[test]
    fn a_person_gets_tables_and_a_pipe_the_document() {
        let mut loaded = plugin();
        loaded["versions"] = serde_json::json!([{"version": "1.2.0", "digest": "sha256:ab", "loaded_ms": 0,
            "state": "active", "reason": null}]);
        let loaded: PluginLoaded = serde_json::from_value(loaded).expect("a plugin");
        let shown = |columns: Option<usize>| {
            let (mut out, mut notes) = (anstream::StripStream::new(Vec::new()), Vec::new());
            run(&mut Printer::new(&mut out, &mut notes, false).with_columns(columns), &loaded)
                .expect("shown");
            String::from_utf8(out.into_inner()).expect("text")
        };
        let table = shown(Some(100));
        assert!(table.contains("plugin     weather") && table.contains("forecast  yes"), "{table}");
        assert!(table.contains("1.2.0    active  1970-01-01T00:00:00.000Z"), "{table}");
        serde_json::from_str::<serde_json::Value>(&shown(None)).expect("json");
    }
}
