//! WIT docs of a component, from its custom section `package-docs`: a version byte and JSON, as `wit-parser` writes them.
//!
//! Compilers leave docs out of the component's types, and some tools add the section afterwards.

use serde_json::Value;
use toolgate_api::text::hidden_character;

use crate::bulk_memory::custom_sections;

/// The name of the section.
const SECTION: &str = "package-docs";

/// Longest section that is read, in bytes.
const SECTION_BYTES: usize = 1024 * 1024;

/// Versions of the format; the first lacks what is not read here.
const VERSIONS: [u8; 2] = [0, 1];

/// The docs of a component; empty if it carries none.
#[derive(Debug, Default)]
pub(super) struct Docs(Vec<Value>);

impl Docs {
    /// Reads the docs of a component file. A section that cannot be read counts as missing.
    pub(super) fn read(component: &[u8]) -> Self {
        let sections = custom_sections(component, SECTION).into_iter();
        let json = sections.filter(|data| data.len() <= SECTION_BYTES).filter_map(|data| {
            let (version, json) = data.split_first()?;
            let json = VERSIONS.contains(version).then_some(json)?;
            serde_json::from_slice(json).ok()
        });
        Self(json.collect())
    }

    /// The docs of a function, exported by this interface or by the component itself.
    pub(super) fn of_function(&self, interface: Option<&str>, function: &str) -> Option<String> {
        let Some(interface) = interface else {
            let of_world = |world: &Value| {
                let functions = ["func_exports", "funcs"].map(|key| &world[key][function]["docs"]);
                functions.into_iter().find_map(text)
            };
            return self.worlds().find_map(of_world);
        };
        let name = interface.split('@').next().unwrap_or_default();
        let name = name.rsplit('/').next().unwrap_or(name);
        let by_name = self.0.iter().map(|docs| &docs["interfaces"][name]);
        let inline = ["interface_exports", "interfaces"];
        let in_worlds = self.worlds().flat_map(|world| inline.map(|key| &world[key][name]));
        by_name.chain(in_worlds).find_map(|interface| text(&interface["funcs"][function]["docs"]))
    }

    /// The docs of the package, or of its world.
    pub(super) fn of_package(&self) -> Option<String> {
        let packages = self.0.iter().map(|docs| &docs["docs"]);
        packages.chain(self.worlds().map(|world| &world["docs"])).find_map(text)
    }

    fn worlds(&self) -> impl Iterator<Item = &Value> {
        self.0.iter().filter_map(|docs| docs["worlds"].as_object()).flat_map(|worlds| worlds.values())
    }
}

/// A text that a model may read: docs with hidden characters count as missing.
fn text(docs: &Value) -> Option<String> {
    let docs = docs.as_str()?.trim();
    (!docs.is_empty() && hidden_character(docs).is_none()).then(|| docs.to_owned())
}
