//! Path templates like `/points/{lat},{lon}?format=json`: literal text, variables, and a fixed query.

use toolgate_api::header::carries_credential;

/// Longest path. Servers accept some thousand bytes in all.
const PATH_BYTES: usize = 2_000;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Template<'a> {
    pieces: Vec<Piece<'a>>,
    /// The fixed part after `?`; empty if there is none.
    query: &'a str,
    /// Whether it had a part after `#`, with which documents distinguish operations of one path.
    pub(crate) has_fragment: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    Variable(&'a str),
}

impl<'a> Template<'a> {
    /// The names of its variables.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &'a str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Variable(name) => Some(*name),
            Piece::Text(_) => None,
        })
    }

    /// The parameter names in its fixed query.
    pub(crate) fn query_names(&self) -> impl Iterator<Item = &'a str> {
        self.query.split('&').filter_map(|pair| pair.split('=').next()).filter(|name| !name.is_empty())
    }

    /// The path with each variable replaced, and its fixed query.
    pub(crate) fn write(&self, mut variable: impl FnMut(&str) -> String) -> String {
        let mut written = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => written.push_str(text),
                Piece::Variable(name) => written.push_str(&variable(name)),
            }
        }
        let mark = if self.query.is_empty() { "" } else { "?" };
        format!("{written}{mark}{}", self.query)
    }
}

/// Parses a path; the error says why the operation is left out.
pub(crate) fn parse(path: &str) -> Result<Template<'_>, String> {
    if !path.starts_with('/') {
        return Err("its path does not begin with `/`".to_owned());
    }
    if path.len() > PATH_BYTES {
        return Err(format!("its path has more than {PATH_BYTES} bytes"));
    }
    let (path, fragment) = path.split_once('#').unwrap_or((path, ""));
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    check_query(query)?;
    Ok(Template { pieces: pieces(path)?, query, has_fragment: !fragment.is_empty() })
}

fn check_query(query: &str) -> Result<(), String> {
    if query.contains(['{', '}']) {
        return Err("the query in its path has variables".to_owned());
    }
    let is_sent = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$'()*,;:@/?=&[]+".contains(&byte);
    if !query.bytes().all(is_sent) {
        return Err("the query in its path has characters that must be percent-encoded".to_owned());
    }
    let mut names = query.split('&').filter_map(|pair| pair.split('=').next());
    match names.any(carries_credential) {
        true => Err("the query in its path carries a credential".to_owned()),
        false => Ok(()),
    }
}

fn pieces(path: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, behind) = after.split_once('}').ok_or("a `{` in its path is not closed")?;
        if before.contains('}') || name.is_empty() || name.contains('{') {
            return Err("the braces in its path are not variables".to_owned());
        }
        if pieces.contains(&Piece::Variable(name)) {
            return Err(format!("`{name}` is in its path twice"));
        }
        pieces.extend([Piece::Text(before), Piece::Variable(name)]);
        rest = behind;
    }
    if rest.contains('}') {
        return Err("the braces in its path are not variables".to_owned());
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_reads_as_text_variables_and_query() {
        let template = parse("/points/{lat},{lon}/x?format=json&v=2#two").expect("a template");
        assert_eq!(template.write(|name| format!("<{name}>")), "/points/<lat>,<lon>/x?format=json&v=2");
        assert_eq!(template.variables().collect::<Vec<_>>(), ["lat", "lon"]);
        assert_eq!(template.query_names().collect::<Vec<_>>(), ["format", "v"]);
        assert!(template.has_fragment && !parse("/a").expect("plain").has_fragment);
    }

    #[test]
    fn a_template_that_cannot_be_filled_is_refused() {
        for path in
            ["a", "/a?b={c}", "/a?api_key=1", "/a?b= ", "/{", "/}", "/{}", "/{a{b}}", "/{a}/{a}", "/a}b{c}"]
        {
            assert!(parse(path).is_err(), "{path}");
        }
    }
}
