//! What is written as elsewhere, and how to write it here: `JSONPath`, keys with a hyphen, and what only the command `jq` has.

/// Said of a `JSONPath` that is not rewritten.
const IN_GENERAL: &str = "in jq `$` is `.`, `[*]` is `[]`, `..price` is `.. | .price? // empty`, and `[?(@.price < 10)]` is \
                          `[] | select(.price < 10)`";

/// How to do without a function or a variable that there is not.
pub fn way_out(filter: &str, name: &str) -> Option<String> {
    let known = match name {
        "input" | "inputs" => "a filter sees one document: set `slurp` for a list of all documents of `text`",
        "input_filename" | "input_line_number" => "there is no file here: give its name in `variables`",
        "tostream" => {
            "take `paths(type != \"array\" and type != \"object\") as $p | [$p, getpath($p)]` instead"
        }
        "$ENV" => "there is no environment here: give the value in `variables`",
        "$__loc__" => "leave it out, for errors tell their place",
        _ => return hyphenated_key(filter, name),
    };
    Some(known.to_owned())
}

/// `.foo-bar` is a subtraction in jq.
fn hyphenated_key(filter: &str, name: &str) -> Option<String> {
    let keys = filter.split('.').skip(1).map(|rest| {
        let end = rest.find(|sign: char| !is_word(sign) && sign != '-').unwrap_or(rest.len());
        &rest[..end]
    });
    let key = keys.into_iter().find(|key| key.split('-').skip(1).any(|part| part == name))?;
    Some(format!("if `{key}` is one key, write `.\"{key}\"`"))
}

/// A filter that begins with `$` and no name.
pub fn explain_json_path(filter: &str) -> Option<String> {
    let path = filter.trim().strip_prefix('$')?;
    if !path.is_empty() && !path.starts_with(['.', '[']) {
        return None;
    }
    Some(rewritten(path).map_or_else(|| IN_GENERAL.to_owned(), |filter| format!("write `{filter}`")))
}

/// The same in jq, of a path of keys, numbers and stars.
fn rewritten(mut path: &str) -> Option<String> {
    let mut filter = String::new();
    while !path.is_empty() {
        if let Some(rest) = path.strip_prefix(".*").or_else(|| path.strip_prefix("[*]")) {
            filter.push_str("[]");
            path = rest;
        } else if let Some(rest) = path.strip_prefix('.') {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            filter.push_str(&key(&rest[..end])?);
            path = &rest[end..];
        } else {
            let (within, rest) = path.strip_prefix('[')?.split_once(']')?;
            let quoted = within.strip_prefix(['\'', '"']).and_then(|within| within.strip_suffix(['\'', '"']));
            match quoted {
                Some(name) => filter.push_str(&key(name)?),
                None => filter.push_str(&index(within)?),
            }
            path = rest;
        }
    }
    Some(if filter.starts_with('.') { filter } else { format!(".{filter}") })
}

fn key(name: &str) -> Option<String> {
    let is_plain = !name.starts_with(|first: char| first.is_ascii_digit()) && name.chars().all(is_word);
    match name {
        "" => None,
        _ if is_plain => Some(format!(".{name}")),
        _ if name.chars().all(|sign| is_word(sign) || matches!(sign, '-' | ' ')) => {
            Some(format!(".\"{name}\""))
        }
        _ => None,
    }
}

fn index(within: &str) -> Option<String> {
    let is_number = |sign: char| sign.is_ascii_digit() || matches!(sign, '-' | ':');
    (!within.is_empty() && within.chars().all(is_number) && within.matches(':').count() < 2)
        .then(|| format!("[{within}]"))
}

fn is_word(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || sign == '_'
}
