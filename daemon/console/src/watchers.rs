//! Who looks at an approval now, so that two people do not decide the same one unknowingly. In memory alone.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Time after which a person who does not ask again is gone. The script asks every five seconds.
const GONE_MS: u64 = 15_000;
/// Most looks that are known.
const LOOKS: usize = 1_000;

/// Looks by approval and principal, each with its time.
#[derive(Default)]
pub(super) struct Watchers(Mutex<HashMap<(String, Arc<str>), u64>>);

impl Watchers {
    /// Notes that a principal looks at an approval. Returns the others who do.
    pub(super) fn look(&self, approval: &str, principal: &Arc<str>, now_ms: u64) -> Vec<Arc<str>> {
        let mut looks = self.0.lock();
        looks.retain(|_, at_ms| now_ms.saturating_sub(*at_ms) < GONE_MS);
        if looks.len() < LOOKS {
            looks.insert((approval.to_owned(), Arc::clone(principal)), now_ms);
        }
        let others = looks.keys().filter(|(seen, who)| seen == approval && who != principal);
        let mut others: Vec<Arc<str>> = others.map(|(_, who)| Arc::clone(who)).collect();
        others.sort_unstable();
        others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o6_others_are_told_while_they_look() {
        let (watchers, ann, bob) = (Watchers::default(), Arc::from("ann"), Arc::from("bob"));
        assert!(watchers.look("a1", &ann, 0).is_empty());
        assert_eq!(watchers.look("a1", &bob, 1_000), std::slice::from_ref(&ann));
        assert!(watchers.look("a2", &bob, 1_000).is_empty());
        assert_eq!(watchers.look("a1", &ann, 2_000), [bob]);
        assert!(watchers.look("a1", &ann, 17_000).is_empty(), "bob is gone");
    }
}
