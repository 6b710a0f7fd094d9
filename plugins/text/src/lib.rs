//! Text, and the formats that are text, for a model: what it would else do by hand, and slowly, and wrong.
//!
//! Each tool is a file here. All of them are pure: what a call gives depends on its arguments alone. Texts come and go as
//! arguments and results, which the host bounds; `size` keeps results below that bound.

mod delimiter;
mod document;
mod size;
mod tree;

mod count;
mod csv_parse;
mod csv_write;
mod diff;
mod html;
mod join;
mod json_query;
mod markdown;
mod regex_find;
mod regex_replace;
mod replace;
mod split;
mod toml_text;
mod yaml;

use toolgate_sdk::plugin;

plugin! {
    "text",
    publisher = "Toolgate",
    category = "Text",
    split::split, join::join, replace::replace, regex_find::regex_find, regex_replace::regex_replace,
    diff::diff, count::count,
    markdown::markdown_to_text, html::html_to_text, html::html_to_markdown,
    csv_parse::csv_parse, csv_write::csv_write,
    json_query::json_query,
    yaml::yaml_to_json, yaml::json_to_yaml, toml_text::toml_to_json, toml_text::json_to_toml
}

#[cfg(test)]
mod tests;
