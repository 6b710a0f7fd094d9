//! `toolgate catalogue`: browses and searches the tools that an organization may use.

use clap::Args;
use toolgate_api::catalogue::{CatalogueEntry, CatalogueView};
use toolgate_api::text::escape_for_display;

use super::client::{Client, escape};
use super::document::query;
use super::failure::{Failure, Result};
use super::print::Printer;

pub(crate) const EXAMPLES: &str = "\
Examples:
  toolgate catalogue
  toolgate catalogue send invoices
  toolgate catalogue --category finance --kind standard
  toolgate catalogue --organization acme --sort popular
  toolgate catalogue --show mail";

/// Characters of a purpose in a list.
const PURPOSE_CHARS: usize = 60;

#[derive(Args)]
pub struct Filter {
    /// Words to search for: names, search words, categories, purposes, descriptions
    words: Vec<String>,
    /// The organization; an owner's token has its own, and without one an operator sees all plugins of the platform
    #[arg(long = "organization", visible_alias = "org", value_name = "ORG")]
    org: Option<String>,
    /// Only this category
    #[arg(long)]
    category: Option<String>,
    /// Only plugins that the operator vouches for, or all others
    #[arg(long, value_parser = ["standard", "custom", "third-party"])]
    kind: Option<String>,
    /// Only this publisher
    #[arg(long)]
    publisher: Option<String>,
    /// Only this level of risk
    #[arg(long, value_parser = ["low", "medium", "high"])]
    risk: Option<String>,
    /// The order; by default the best match first
    #[arg(long, value_parser = ["name", "popular", "recent"])]
    sort: Option<String>,
    /// Show one plugin with its tools, permissions and risk
    #[arg(long, value_name = "PLUGIN", conflicts_with = "words")]
    show: Option<String>,
}

pub(crate) async fn run(filter: Filter, client: &Client, printer: &mut Printer<'_>) -> Result {
    let catalogue = read_all(&filter, client).await?;
    if let Some(namespace) = &filter.show {
        return show(&catalogue, namespace, printer);
    }
    printer.list(HEADINGS, &catalogue.items, row)?;
    if !printer.is_json() {
        note_categories(printer, &catalogue)?;
    }
    Ok(())
}

/// Gets every page.
async fn read_all(filter: &Filter, client: &Client) -> Result<CatalogueView> {
    let target = filter.target();
    let mut whole: CatalogueView = client.get(&target).send().await?.body;
    while let Some(cursor) = whole.next_cursor.take() {
        let next = format!("{target}&cursor={}", escape(&cursor));
        let page: CatalogueView = client.get(&next).send().await?.body;
        whole.items.extend(page.items);
        // A cursor that repeats would make this loop endless.
        whole.next_cursor = page.next_cursor.filter(|next| *next != cursor);
    }
    Ok(whole)
}

fn show(catalogue: &CatalogueView, namespace: &str, printer: &mut Printer<'_>) -> Result {
    match catalogue.items.iter().find(|entry| entry.facts.namespace == namespace) {
        Some(entry) => Ok(printer.json(entry)?),
        None => Err(Failure::new(
            format!("no plugin `{namespace}` is in the catalogue"),
            "list it with `toolgate catalogue`; what the platform blocks is not in it",
        )),
    }
}

fn note_categories(printer: &mut Printer<'_>, view: &CatalogueView) -> Result {
    let named = view.categories.iter().filter(|count| !count.category.is_empty());
    let named: Vec<String> =
        named.map(|count| format!("{} ({})", escape_for_display(&count.category, 40), count.count)).collect();
    if !named.is_empty() {
        printer.note(&format!("categories: {}", named.join(", ")))?;
    }
    for namespace in &view.collisions {
        printer.warning(&format!(
            "`{namespace}` is the organization's own, and hides the platform's plugin of that name"
        ))?;
    }
    Ok(())
}

impl Filter {
    fn target(&self) -> String {
        let words = self.words.join(" ");
        let kind = self.kind.as_ref().map(|kind| kind.replace('-', "_"));
        let filters = [
            ("limit", Some("1000")),
            ("q", Some(words.as_str()).filter(|words| !words.is_empty())),
            ("org", self.org.as_deref()),
            ("category", self.category.as_deref()),
            ("kind", kind.as_deref()),
            ("publisher", self.publisher.as_deref()),
            ("risk", self.risk.as_deref()),
            ("sort", self.sort.as_deref()),
        ];
        format!("/v1/catalogue{}", query(&filters))
    }
}

const HEADINGS: [&str; 8] = ["PLUGIN", "KIND", "CATEGORY", "RISK", "CONSENT", "ENABLED", "CALLS", "PURPOSE"];

fn row(entry: &CatalogueEntry) -> [String; 8] {
    let text = |text: Option<&String>| {
        text.map_or_else(|| "-".to_owned(), |text| escape_for_display(text, PURPOSE_CHARS))
    };
    [
        entry.facts.namespace.clone(),
        entry.facts.kind.as_str().to_owned(),
        text(entry.category.as_ref()),
        entry.facts.risk.level.to_string(),
        entry.facts.consent.as_str().to_owned(),
        if entry.enabled { "yes" } else { "no" }.to_owned(),
        entry.calls_30d.to_string(),
        text(entry.purpose.as_ref()),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::{parse, run_with};
    use super::*;
    use crate::client::testing::Canned;

    fn filter(words: &[&str]) -> Filter {
        parse(words)
    }

    fn page() -> Value {
        let entry = json!({
            "namespace": "mail", "kind": "third_party", "purpose": "Sends mail.", "version": "1", "digest": "sha256:0",
            "publisher": null, "publisher_proven": false, "category": "office", "prerequisites": [], "integrations": [],
            "permissions": [], "risk": {"level": "high", "reasons": []}, "tools": [], "enabled": false,
            "consent": "missing", "calls_30d": 7, "rank": 1, "loaded_ms": 5,
        });
        let categories = json!([{"category": "office", "count": 1}]);
        json!({"items": [entry], "next_cursor": null, "categories": categories, "collisions": ["crm"]})
    }

    #[test]
    fn c4_words_and_filters_are_asked_for() {
        let filter = filter(&["send", "mail", "--kind", "third-party", "--sort", "popular", "--org", "acme"]);
        assert_eq!(
            filter.target(),
            "/v1/catalogue?limit=1000&q=send%20mail&org=acme&kind=third_party&sort=popular"
        );
    }

    #[tokio::test]
    async fn c4_entries_are_a_table_and_categories_a_note() {
        let filter = filter(&[]);
        let answers = vec![Canned::json(200, page())];
        let run = run_with(answers, false, async |client, printer| run(filter, client, printer).await).await;
        run.result.expect("done");
        for words in ["mail", "third_party", "high", "missing", "no ", "Sends mail."] {
            assert!(run.out.contains(words), "{words}: {}", run.out);
        }
        assert!(run.notes.contains("office (1)") && run.notes.contains("`crm`"), "{}", run.notes);
    }

    #[tokio::test]
    async fn c4_one_plugin_is_shown_whole_and_an_unknown_one_is_refused() {
        for (name, is_known) in [("mail", true), ("nail", false)] {
            let filter = filter(&["--show", name]);
            let answers = vec![Canned::json(200, page())];
            let run =
                run_with(answers, false, async |client, printer| run(filter, client, printer).await).await;
            assert_eq!(run.result.is_ok(), is_known, "{name}");
            assert_eq!(run.out.contains("\"purpose\": \"Sends mail.\""), is_known, "{}", run.out);
        }
    }
}
