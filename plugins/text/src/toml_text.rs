//! `toml_to_json` and `json_to_toml`.

use toolgate_sdk::{Error, serde_json, tool};

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
) -> Result<Tree, Error> {
    let tree: Tree = toml::from_str(&text).map_err(|error| Error::invalid(explain(&error, &text)))?;
    size::check(serde_json::to_string(&tree)?.len())?;
    Ok(tree)
}

fn explain(error: &toml::de::Error, text: &str) -> String {
    let place = error.span().and_then(|span| text.get(..span.start)).map(|before| {
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|sign| *sign != '\n').count() + 1;
        format!(" at line {line}, column {column}")
    });
    format!("the text is not TOML: {}{}", error.message().replace('\n', ", "), place.unwrap_or_default())
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
    let json = document::quote_wide_integers(document::choose(&value, text.as_deref())?);
    let mut tree: Tree = serde_json::from_str(&json).map_err(|error| document::explain(&error))?;
    tree.unsigned_to_text();
    if !matches!(tree, Tree::Map(_)) {
        return Err(Error::invalid(
            "the document is no object, and a TOML text is always one: put it under a key, as in {\"items\": […]}",
        ));
    }
    if let Some(path) = tree.find_null() {
        let path = path.trim_start_matches('.');
        return Err(Error::invalid(format!(
            "`{path}` is null, which TOML has no word for: leave out the key, or give it a value"
        )));
    }
    let toml = toml::to_string(&tree)
        .map_err(|error| Error::invalid(format!("the document cannot be written as TOML: {error}")))?;
    size::whole(toml)
}
