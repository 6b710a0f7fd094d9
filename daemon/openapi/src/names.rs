//! Names of tools from names of operations, by one rule (requirements 9.4).
//!
//! `operationId`, or method and path where there is none, is cut into words: at every sign that is no letter or digit, and
//! where a small letter meets a capital one (`listAPIKeys` → `list_api_keys`). What is too long for a wire name is cut and
//! ends in a mark made of the whole. Where operations would share a name, each of them gets such a mark, so that none
//! depends on which comes first: a document that gains an operation takes no name from one tool to give it to another.

use std::collections::BTreeMap;

/// Longest wire name, in bytes: `call_NAMESPACE_TOOL`.
const WIRE_BYTES: usize = 64;
/// Longest name of a tool, in bytes.
const TOOL_BYTES: usize = 58;
/// Letters of a mark: 31 bits tell a thousand names apart.
const MARK_LETTERS: usize = 6;

/// What the names of tools are made from.
pub(crate) struct Original<'a> {
    pub(crate) id: Option<&'a str>,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
}

/// The longest name that a tool of this namespace can have, in bytes.
pub(crate) fn room(namespace: &str) -> usize {
    WIRE_BYTES.saturating_sub("call__".len() + namespace.len()).min(TOOL_BYTES)
}

/// A name for each operation, all different, in their order.
pub(crate) fn name_all(originals: &[Original<'_>], namespace: &str) -> Vec<String> {
    let room = room(namespace);
    let plain: Vec<String> = originals.iter().map(plain).collect();
    let mut users: BTreeMap<&str, usize> = BTreeMap::new();
    for name in &plain {
        *users.entry(name).or_default() += 1;
    }
    let mut taken: BTreeMap<String, ()> = BTreeMap::new();
    let is_shared = |name: &str| users.get(name).is_some_and(|users| *users > 1);
    let mut named = Vec::with_capacity(plain.len());
    for (original, name) in originals.iter().zip(&plain) {
        let short = !is_shared(name) && name.len() <= room;
        let mut chosen = if short { name.clone() } else { marked(name, original, 0, room) };
        let mut round = 0;
        // A mark can be another's name: then it is made anew.
        while taken.contains_key(&chosen) || !short && users.contains_key(chosen.as_str()) {
            round += 1;
            chosen = marked(name, original, round, room);
        }
        taken.insert(chosen.clone(), ());
        named.push(chosen);
    }
    named
}

fn plain(original: &Original<'_>) -> String {
    let from_id = original.id.map(words).unwrap_or_default();
    let name = match from_id.is_empty() {
        true => words(&format!("{} {}", original.method.to_lowercase(), original.path)),
        false => from_id,
    };
    if name.starts_with(|letter: char| letter.is_ascii_digit()) { format!("n{name}") } else { name }
}

/// The words of a text, in small letters, joined by underscores.
pub(crate) fn words(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let mut words = String::new();
    for (at, letter) in letters.iter().enumerate() {
        if !letter.is_ascii_alphanumeric() {
            joint(&mut words);
            continue;
        }
        let before = at.checked_sub(1).and_then(|at| letters.get(at));
        let after = letters.get(at + 1);
        let begins = letter.is_ascii_uppercase()
            && before.is_some_and(|before| {
                before.is_ascii_lowercase()
                    || before.is_ascii_digit()
                    || before.is_ascii_uppercase() && after.is_some_and(char::is_ascii_lowercase)
            });
        if begins {
            joint(&mut words);
        }
        words.push(letter.to_ascii_lowercase());
    }
    words.trim_end_matches('_').to_owned()
}

fn joint(words: &mut String) {
    if !words.is_empty() && !words.ends_with('_') {
        words.push('_');
    }
}

fn marked(name: &str, original: &Original<'_>, round: u32, room: usize) -> String {
    let whole = format!("{} {} {} {round}", original.id.unwrap_or_default(), original.method, original.path);
    let room = room.saturating_sub(MARK_LETTERS + 1);
    let start = name.get(..room.min(name.len())).unwrap_or(name);
    // Cut between words where that keeps most of the room.
    let at_word = start.rfind('_').filter(|at| name.len() > room && *at > room / 2);
    let start = start.get(..at_word.unwrap_or(start.len())).unwrap_or(start).trim_end_matches('_');
    format!("{start}_{}", mark(&whole))
}

/// Six letters and digits that stand for a text: FNV-1a, which is the same everywhere and for good.
fn mark(text: &str) -> String {
    let mut hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut mark = String::new();
    for _ in 0..MARK_LETTERS {
        let digit = u32::try_from(hash % 36).unwrap_or_default();
        mark.extend(char::from_digit(digit, 36));
        hash /= 36;
    }
    mark
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use toolgate_admission::{Namespace, ToolId, ToolName};

    use super::*;

    fn of_id(id: &str) -> Original<'_> {
        Original { id: Some(id), method: "GET", path: "/" }
    }

    fn names(ids: &[&str]) -> Vec<String> {
        name_all(&ids.iter().map(|id| of_id(id)).collect::<Vec<_>>(), "pets")
    }

    #[test]
    fn a_name_is_the_words_of_the_operation() {
        for (id, name) in [
            ("getPetById", "get_pet_by_id"),
            ("repos/get-content", "repos_get_content"),
            ("listAPIKeys", "list_api_keys"),
            ("users.v2.List", "users_v2_list"),
            ("GET__users", "get_users"),
            ("2fa", "n2fa"),
            ("getOAuth2Token", "get_o_auth2_token"),
            ("żółw", "w"),
        ] {
            assert_eq!(names(&[id]), [name], "{id}");
        }
    }

    #[test]
    fn without_an_id_it_is_method_and_path() {
        for id in [None, Some("日本")] {
            let original = Original { id, method: "GET", path: "/points/{lat},{lon}/forecast" };
            assert_eq!(name_all(&[original], "w"), ["get_points_lat_lon_forecast"]);
        }
    }

    #[test]
    fn operations_of_one_name_each_get_a_mark_whoever_comes_first() {
        let forth = names(&["listUsers", "list_users", "other"]);
        let back = names(&["other", "list_users", "listUsers"]);
        assert_eq!([&forth[0], &forth[1], &forth[2]], [&back[2], &back[1], &back[0]]);
        assert!(forth[0].starts_with("list_users_") && forth[0] != forth[1] && forth[2] == "other");
    }

    #[test]
    fn a_long_name_is_cut_between_words_and_marked() {
        let long = "the_name_of_this_operation_is_much_longer_than_any_wire_name_can_be";
        let name = &names(&[long])[0];
        assert!(name.len() <= room("pets") && name.starts_with("the_name_of_this_operation_is_"), "{name}");
        assert_eq!(names(&[long])[0], *name, "the same each time");
    }

    proptest! {
        #[test]
        fn every_name_is_a_tools_name_and_nobody_elses(
            ids in prop::collection::vec("\\PC{0,90}|[a-zA-Z_/.]{0,90}", 1..20),
            namespace in "[a-z]{1,40}",
        ) {
            let originals: Vec<_> = ids.iter().map(|id| of_id(id)).collect();
            let names = name_all(&originals, &namespace);
            for name in &names {
                let id = ToolId { namespace: Namespace::parse(&namespace).expect("one"), tool: ToolName::parse(name).expect("a name") };
                prop_assert!(id.wire().is_ok(), "{}", name);
            }
            let distinct: std::collections::BTreeSet<_> = names.iter().collect();
            prop_assert_eq!(distinct.len(), names.len());
        }
    }
}
