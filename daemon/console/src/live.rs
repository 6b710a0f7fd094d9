//! Parts of pages that scripts ask for again and again, rendered once for all who see the same.

use std::collections::HashMap;
use std::sync::Arc;

use maud::Markup;
use parking_lot::Mutex;
use toolgate_http::problem::Problem;
use toolgate_state::clock::monotonic_ms;

/// Time that a rendered part is given out, in milliseconds. Scripts ask every five seconds.
const KEPT_MS: u64 = 1_000;
/// Most parts that are kept.
const PARTS: usize = 256;
/// Largest part that is kept, in bytes.
const PART_BYTES: usize = 256 * 1024;

/// Longest key of a part that is kept, in bytes. A filter may be long, and few viewers share one that is.
const KEY_BYTES: usize = 512;

/// Parts by what they depend on: the organization of the viewer, and the filter.
#[derive(Default)]
pub(super) struct RenderedParts(Mutex<HashMap<String, Slot>>);

/// A part, locked while it is rendered, so that all who ask meanwhile wait for the one rendering.
type Slot = Arc<tokio::sync::Mutex<Option<RenderedPart>>>;

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
        let Some(slot) = self.slot(key, monotonic_ms()) else { return render.await };
        let mut kept = slot.lock().await;
        if let Some(part) = kept.as_ref().filter(|part| is_fresh(part, monotonic_ms())) {
            return Ok(part.markup.clone());
        }
        let markup = render.await?;
        *kept = (markup.0.len() <= PART_BYTES)
            .then(|| RenderedPart { markup: markup.clone(), at_ms: monotonic_ms() });
        Ok(markup)
    }

    /// The place of a part; none where it is not kept.
    fn slot(&self, key: String, now_ms: u64) -> Option<Slot> {
        if key.len() > KEY_BYTES {
            return None;
        }
        let mut slots = self.0.lock();
        slots.retain(|_, slot| Arc::strong_count(slot) > 1 || has_fresh_part(slot, now_ms));
        let is_kept = slots.len() < PARTS || slots.contains_key(&key);
        is_kept.then(|| Arc::clone(slots.entry(key).or_default()))
    }
}

fn has_fresh_part(slot: &Slot, now_ms: u64) -> bool {
    slot.try_lock().is_ok_and(|kept| kept.as_ref().is_some_and(|part| is_fresh(part, now_ms)))
}

fn is_fresh(part: &RenderedPart, now_ms: u64) -> bool {
    now_ms.saturating_sub(part.at_ms) < KEPT_MS
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use maud::html;
    use toolgate_api::error::ErrorType;

    use super::*;

    #[test]
    fn a_part_is_kept_for_its_key_and_a_second() {
        let parts = RenderedParts::default();
        let part = RenderedPart { markup: html! { p { "rows" } }, at_ms: 100 };
        *parts.slot("acme".into(), 100).unwrap().try_lock().unwrap() = Some(part);
        let kept = |key: &str, now_ms| parts.slot(key.into(), now_ms).unwrap().try_lock().unwrap().is_some();
        assert!(kept("acme", 1_099) && !kept("rival", 1_099));
        assert!(!kept("acme", 1_100));
        assert!(parts.slot("k".repeat(KEY_BYTES), 100).is_some());
        assert!(parts.slot("k".repeat(KEY_BYTES + 1), 100).is_none());
    }

    #[tokio::test]
    async fn those_who_ask_at_once_get_one_rendering() {
        let (parts, renderings) = (RenderedParts::default(), AtomicUsize::new(0));
        let ask = async |key: &str, bytes: usize| {
            let rendering = async {
                renderings.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                Ok(html! { ("x".repeat(bytes)) })
            };
            parts.get(key.into(), rendering).await.expect("a part").0.len()
        };
        assert_eq!(tokio::join!(ask("acme", 4), ask("acme", 4), ask("rival", 5)), (4, 4, 5));
        assert_eq!(renderings.load(Ordering::Relaxed), 2, "one for each key");
        tokio::join!(ask("large", PART_BYTES + 1), ask("large", PART_BYTES + 1));
        assert_eq!(renderings.load(Ordering::Relaxed), 4, "a large part is not kept");
        let problem = async { Err(Problem::new(ErrorType::Internal, "no store", "tell the operator")) };
        assert!(parts.get("failed".into(), problem).await.is_err());
        assert_eq!(ask("failed", 1).await, 1, "an error is not kept");
    }
}
