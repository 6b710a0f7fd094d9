//! The challenge of a registry that wants a login (RFC 9110, section 11.6.1).

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

/// A challenge that the client can answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// User and password in the request itself.
    Basic,
    /// A token of the realm (Docker's token authentication).
    Bearer {
        /// The URL of the server that gives tokens.
        realm: String,
        /// The name of the registry at that server.
        service: Option<String>,
    },
}

impl Challenge {
    /// Chooses among the challenges of known schemes: the first, or without a login one that needs none.
    pub(super) fn choose(headers: &HeaderMap, has_login: bool) -> Option<Self> {
        let fields = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let mut challenges: Vec<Self> = fields.flat_map(challenges_of).filter_map(Self::parse).collect();
        let anonymous =
            challenges.iter().position(|challenge| *challenge != Self::Basic).filter(|_| !has_login);
        (!challenges.is_empty()).then(|| challenges.swap_remove(anonymous.unwrap_or(0)))
    }

    fn parse(text: &str) -> Option<Self> {
        let (scheme, parameters) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let find = |name: &str| parameters_of(parameters).find(|(key, _)| key.eq_ignore_ascii_case(name));
        let value = |name: &str| find(name).map(|(_, value)| value.to_owned());
        Some(Self::Bearer { realm: value("realm")?, service: value("service") })
    }
}

/// The challenges of a field: a part between commas that begins with a word and a space, or is one word, begins another.
fn challenges_of(field: &str) -> Vec<&str> {
    let mut starts = Vec::new();
    let (mut start, mut is_quoted) = (0, false);
    let begins = |part: &str| {
        let word = part.trim_start().split(['=', ' ', '"']).next().unwrap_or_default();
        let rest = part.trim_start().get(word.len()..).unwrap_or_default();
        !word.is_empty() && !rest.trim_start().starts_with('=')
    };
    for (at, character) in field.char_indices().chain([(field.len(), ',')]) {
        match character {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted || at == field.len() => {
                if begins(&field[start..at]) {
                    starts.push(start);
                }
                start = (at + 1).min(field.len());
            }
            _ => {}
        }
    }
    let ends = starts.iter().skip(1).copied().chain([field.len()]);
    starts.iter().zip(ends).map(|(start, end)| field[*start..end].trim_end_matches([',', ' '])).collect()
}

/// Names and values; a quoted value may have commas.
fn parameters_of(mut text: &str) -> impl Iterator<Item = (&str, &str)> {
    std::iter::from_fn(move || {
        let (name, rest) = text.split_once('=')?;
        let (value, rest) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => (rest.split(',').next()?, &rest[rest.find(',').unwrap_or(rest.len())..]),
        };
        text = rest.trim_start_matches([',', ' ']);
        Some((name.trim(), value.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o1_a_challenge_that_can_be_answered_is_chosen_among_several() {
        let bearer =
            || Challenge::Bearer { realm: "https://a.example/t".into(), service: Some("r, s".into()) };
        let token = r#"Bearer realm="https://a.example/t",service="r, s""#;
        let basic = r#"Basic realm="r, Bearer x""#;
        for (fields, has_login, expected) in [
            (vec![format!("{basic}, {token}")], false, Some(bearer())),
            (vec![format!("{token}, {basic}")], false, Some(bearer())),
            (vec![basic.to_owned(), token.to_owned()], false, Some(bearer())),
            (vec![format!("Negotiate, {token}")], false, Some(bearer())),
            (vec![format!("Negotiate, {token}, Digest a=b")], true, Some(bearer())),
            (vec![format!("{basic}, {token}")], true, Some(Challenge::Basic)),
            (vec![basic.to_owned()], false, Some(Challenge::Basic)),
            (vec!["Negotiate".to_owned()], true, None),
            (vec![], true, None),
        ] {
            let mut headers = HeaderMap::new();
            for field in &fields {
                headers.append(WWW_AUTHENTICATE, field.parse().expect("a field"));
            }
            assert_eq!(Challenge::choose(&headers, has_login), expected, "{fields:?} {has_login}");
        }
    }

    #[test]
    fn o1_challenges_are_read() {
        let bearer = |realm: &str, service: Option<&str>| {
            Some(Challenge::Bearer { realm: realm.into(), service: service.map(str::to_owned) })
        };
        for (text, expected) in [
            ("Basic realm=\"a\"", Some(Challenge::Basic)),
            ("basic", Some(Challenge::Basic)),
            (
                "Bearer realm=\"https://a.example/token\",service=\"b\",scope=\"repository:c:pull,push\"",
                bearer("https://a.example/token", Some("b")),
            ),
            ("Bearer scope=\"x,realm=y\", Realm=https://a.example/t", bearer("https://a.example/t", None)),
            ("Bearer service=\"b\"", None),
            ("Bearer realm=\"unfinished", None),
            ("Digest realm=\"a\"", None),
            ("", None),
        ] {
            assert_eq!(Challenge::parse(text), expected, "{text}");
        }
    }
}
