//! `toml_to_json` and `json_to_toml`.

use toolgate_sdk::{Error, tool};

use crate::document::{self, AnyValue};
use crate::size;
use crate::tree::Tree;

/// Converts TOML to JSON.
///
/// Keys keep their order, comments are lost. Dates and times become text, and so do `nan` and `inf`.
#[tool(
    read_only,
    tags("toml", "json", "convert", "parse"),
    examples(
        {"text": "title = \"demo\"\n\n[server]\nport = 8080\nsince = 2024-05-17\n"} => {"title": "demo", "server": {"port": 8080, "since": "2024-05-17"}},
    )
)]
pub fn toml_to_json(
    /// The TOML
    text: String,
) -> Result<AnyValue, Error> {
    let tree: Tree = toml::from_str(&text).map_err(|error| {
        let shown = error.to_string();
        // Its first line has the place, and the next ones quote the text, which may be long.
        let place = shown.lines().next().unwrap_or_default();
        Error::invalid(format!("the text is not TOML: {place}: {}", error.message().replace('\n', ", ")))
    })?;
    AnyValue::write(&tree)
}

/// Converts JSON to TOML.
///
/// The document is an object without `null`, for TOML has none. Keys keep their order as far as TOML lets them: values
/// stand before tables. Dates in texts stay texts, and integers beyond signed 64 bits, which TOML has none of, become texts.
#[tool(
    read_only,
    tags("toml", "json", "convert", "format"),
    examples(
        {"value": {"server": {"hosts": ["a", "b"], "port": 8080}, "title": "demo"}} => "title = \"demo\"\n\n[server]\nhosts = [\"a\", \"b\"]\nport = 8080\n",
    )
)]
pub fn json_to_toml(
    /// The document, an object
    #[default]
    value: AnyValue,
    /// The document as JSON text, instead of `value`
    text: Option<String>,
) -> Result<String, Error> {
    let json = document::choose(&value, text.as_deref())?;
    let tree = document::read_tree(json, |integer| integer.parse::<i64>().is_ok())?;
    if !matches!(tree, Tree::Map(_)) {
        return Err(Error::invalid(
            "the document is no object, and a TOML text is always one: put it under a key, as in {\"items\": […]}",
        ));
    }
    if let Some(path) = tree.find(|value| matches!(value, Tree::Null)) {
        let path = path.trim_start_matches('.');
        return Err(Error::invalid(format!(
            "`{path}` is null, which TOML has no word for: leave out the key, or give it a value"
        )));
    }
    let toml = toml::to_string(&tree)
        .map_err(|error| Error::invalid(format!("the document cannot be written as TOML: {error}")))?;
    size::whole(toml)
}
