//! Header fields: case-insensitive names, values as text, in their order.

/// The header fields of a request or response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// Returns the value of the first field of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.get_all(name).next()
    }

    /// Returns the values of all fields of this name.
    pub fn get_all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Returns all fields.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(crate) fn append(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.push((name.into(), value.into()));
    }

    /// Replaces all fields of this name.
    pub(crate) fn set(&mut self, name: &str, value: String) {
        self.0.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.append(name, value);
    }
}

/// The media type of a `Content-Type` in lower case, and its `charset`.
pub(crate) fn media_type(content_type: &str) -> (String, Option<String>) {
    let mut parts = content_type.split(';');
    let media_type = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
    let charset = parts.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("charset")
            .then(|| value.trim().trim_matches('"').to_ascii_lowercase())
    });
    (media_type, charset)
}
