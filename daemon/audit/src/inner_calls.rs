//! Ids of the calls that a script makes, from which the outer call follows.

/// The id of a call that a script makes. No request can name one, since its ids have no spaces.
pub fn inner_id(outer: &str, number: u64) -> String {
    format!("{outer} #{number}")
}

/// The range of the ids of calls that a script made: the first one, and the first after them.
pub(crate) fn inner_ids(outer: &str) -> (String, String) {
    (format!("{outer} #"), format!("{outer} $"))
}

/// The id of the call whose script made this one.
pub fn outer_id(id: &str) -> Option<&str> {
    id.rsplit_once(" #").map(|(outer, _)| outer)
}
