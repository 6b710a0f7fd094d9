//! Differences of two JSON documents, as lines for people.

use std::collections::HashSet;

use serde_json::Value;
use toolgate_api::text::escape_for_display;

/// Limit of characters of a value in a line.
const VALUE_CHARS: usize = 200;

/// Returns the values that only one of two documents has, each with its JSON pointer: `- ` of `before`, `+ ` of `after`.
/// Entries of lists have `*` in the place of their number, since an insertion would move all entries behind it.
pub(crate) fn differences(before: &Value, after: &Value) -> Vec<String> {
    if before == after {
        return Vec::new();
    }
    // Nothing stands before a new document.
    let before = if before.is_null() { Vec::new() } else { leaves(before) };
    let after = leaves(after);
    let mut lines = lines_of(&before, &after, '-');
    lines.extend(lines_of(&after, &before, '+'));
    if lines.is_empty() {
        lines.push("  only the order of entries differs".to_owned());
    }
    lines
}

fn lines_of(leaves: &[(String, String)], others: &[(String, String)], mark: char) -> Vec<String> {
    let others: HashSet<_> = others.iter().collect();
    let only = leaves.iter().filter(|leaf| !others.contains(leaf));
    only.map(|(place, value)| format!("{mark} {place}: {value}")).collect()
}

fn leaves(value: &Value) -> Vec<(String, String)> {
    leaves_at(value, |_| "*".to_owned(), VALUE_CHARS)
}

/// Returns every scalar and empty container by its JSON pointer, with hidden characters escaped and at most `limit_chars`.
/// `entry` is the segment of an entry of a list, by its index.
pub(crate) fn leaves_at(
    value: &Value,
    entry: fn(usize) -> String,
    limit_chars: usize,
) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![(String::new(), value)];
    while let Some((place, value)) = open.pop() {
        match value {
            Value::Object(members) if !members.is_empty() => {
                open.extend(members.iter().rev().map(|(name, value)| (format!("{place}/{name}"), value)));
            }
            Value::Array(items) if !items.is_empty() => {
                let items = items.iter().enumerate().rev();
                open.extend(items.map(|(index, value)| (format!("{place}/{}", entry(index)), value)));
            }
            _ => found.push((place, escape_for_display(&value.to_string(), limit_chars))),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_insertion_is_one_line_and_a_change_two() {
        let before = json!({"enabled": ["a/*", "c/*"], "limits": {"fuel": 1}});
        let after = json!({"enabled": ["a/*", "b/*", "c/*"], "limits": {"fuel": 2}});
        assert_eq!(
            differences(&before, &after),
            ["- /limits/fuel: 1", "+ /enabled/*: \"b/*\"", "+ /limits/fuel: 2"]
        );
        assert!(differences(&before, &before).is_empty());
        assert_eq!(differences(&Value::Null, &json!({"a": 1})), ["+ /a: 1"]);
    }

    #[test]
    fn another_order_is_said() {
        let lines = differences(&json!({"a": [1, 2]}), &json!({"a": [2, 1]}));
        assert_eq!(lines, ["  only the order of entries differs"]);
    }
}
