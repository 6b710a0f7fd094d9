//! Path templates: `/points/{lat},{lon}` as what stands there and what is put in.

/// Most variables of one path.
const VARIABLES: usize = 50;

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    Text(&'a str),
    Variable(&'a str),
}

/// The pieces of a template, or why it is none that can be filled.
pub(crate) fn read(path: &str) -> Result<Vec<Piece<'_>>, String> {
    if !path.starts_with('/') {
        return Err("its path does not begin with `/`".to_owned());
    }
    if path.contains(['?', '#']) {
        return Err("its path has a query or a fragment in it".to_owned());
    }
    let mut pieces = Vec::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, behind) = after.split_once('}').ok_or("a `{` of its path is not closed")?;
        if before.contains('}') || name.is_empty() || name.contains('{') {
            return Err("the braces of its path are no variables".to_owned());
        }
        if pieces.contains(&Piece::Variable(name)) {
            return Err(format!("`{name}` stands in its path twice"));
        }
        pieces.extend([Piece::Text(before), Piece::Variable(name)]);
        if pieces.len() > 2 * VARIABLES {
            return Err(format!("its path has more than {VARIABLES} variables"));
        }
        rest = behind;
    }
    if rest.contains('}') {
        return Err("the braces of its path are no variables".to_owned());
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

/// The path with each variable replaced.
pub(crate) fn write(pieces: &[Piece<'_>], mut variable: impl FnMut(&str) -> String) -> String {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => (*text).to_owned(),
            Piece::Variable(name) => variable(name),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_reads_as_text_and_variables() {
        let pieces = read("/points/{lat},{lon}/x").expect("a template");
        assert_eq!(write(&pieces, |name| format!("<{name}>")), "/points/<lat>,<lon>/x");
        assert_eq!(read("/a").expect("plain"), [Piece::Text("/a")]);
    }

    #[test]
    fn what_cannot_be_filled_is_refused() {
        for path in ["a", "/a?b=c", "/a#b", "/{", "/}", "/{}", "/{a{b}}", "/{a}/{a}", "/a}b{c}"] {
            assert!(read(path).is_err(), "{path}");
        }
    }
}
