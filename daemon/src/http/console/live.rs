//! Parts of pages that scripts ask for again and again, rendered once for all who see the same.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use maud::Markup;

use crate::clock::monotonic_ms;
use crate::http::problem::Problem;

/// Time that a rendered part is given out, in milliseconds. Scripts ask every five seconds.
const KEPT_MS: u64 = 1_000;
/// Most parts that are kept.
const PARTS: usize = 256;
/// Largest part that is kept, in bytes.
const PART_BYTES: usize = 256 * 1024;

/// Parts by what they depend on: the organization of the viewer, and the filter.
#[derive(Default)]
pub(super) struct RenderedParts(Mutex<HashMap<String, RenderedPart>>);

struct RenderedPart {
    markup: Markup,
    at_ms: u64,
}

impl RenderedParts {
    /// Returns the part of this key, rendered at most a second ago. The key says everything that the part depends on.
    pub(super) async fn get(
        &self,
        key: String,
        render: impl Future<Output = Result<Markup, Problem>>,
    ) -> Result<Markup, Problem> {
        if let Some(markup) = self.fresh_part(&key, monotonic_ms()) {
            return Ok(markup);
        }
        let markup = render.await?;
        self.keep(key, &markup, monotonic_ms());
        Ok(markup)
    }

    fn fresh_part(&self, key: &str, now_ms: u64) -> Option<Markup> {
        let parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.get(key).filter(|part| is_fresh(part, now_ms)).map(|part| part.markup.clone())
    }

    fn keep(&self, key: String, markup: &Markup, now_ms: u64) {
        if markup.0.len() > PART_BYTES {
            return;
        }
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.retain(|_, part| is_fresh(part, now_ms));
        if parts.len() < PARTS {
            parts.insert(key, RenderedPart { markup: markup.clone(), at_ms: now_ms });
        }
    }
}

fn is_fresh(part: &RenderedPart, now_ms: u64) -> bool {
    now_ms.saturating_sub(part.at_ms) < KEPT_MS
}

#[cfg(test)]
mod tests {
    use maud::html;

    use super::*;

    #[test]
    fn a_part_is_kept_for_its_key_and_a_second() {
        let parts = RenderedParts::default();
        parts.keep("acme".into(), &html! { p { "rows" } }, 100);
        assert_eq!(parts.fresh_part("acme", 1_099).map(|part| part.0).as_deref(), Some("<p>rows</p>"));
        assert!(parts.fresh_part("acme", 1_100).is_none());
        assert!(parts.fresh_part("rival", 100).is_none());
        parts.keep("large".into(), &html! { ("x".repeat(PART_BYTES + 1)) }, 100);
        assert!(parts.fresh_part("large", 100).is_none());
    }
}
