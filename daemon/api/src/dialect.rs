//! Dialects of JSON Schema, by their `$schema`.

/// The dialect of a schema without `$schema`.
pub const DRAFT_2020_12: &str = "https://json-schema.org/draft/2020-12/schema";
/// The draft that made `format` an annotation.
pub const DRAFT_2019_09: &str = "https://json-schema.org/draft/2019-09/schema";
const DRAFT_07: &str = "http://json-schema.org/draft-07/schema";
const DRAFT_06: &str = "http://json-schema.org/draft-06/schema";

/// Returns the URI of a supported dialect, whose scheme, fragment and case are often written otherwise; `None` for another
/// dialect. An empty text and the URI without a version mean the newest.
pub fn canonical_dialect(written: &str) -> Option<&'static str> {
    let lower = written.trim().to_ascii_lowercase();
    let name = lower.trim_end_matches(['#', '/']);
    let name = name.strip_prefix("https://").or_else(|| name.strip_prefix("http://")).unwrap_or(name);
    match name {
        "" | "json-schema.org/schema" | "json-schema.org/draft/2020-12/schema" => Some(DRAFT_2020_12),
        "json-schema.org/draft/2019-09/schema" => Some(DRAFT_2019_09),
        "json-schema.org/draft-07/schema" => Some(DRAFT_07),
        "json-schema.org/draft-06/schema" => Some(DRAFT_06),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m4_a_dialect_is_the_same_however_its_uri_is_written() {
        for (written, canonical) in [
            ("http://json-schema.org/draft-07/schema#", Some(DRAFT_07)),
            ("https://json-schema.org/draft-07/schema", Some(DRAFT_07)),
            ("https://json-schema.org/draft-06/schema#", Some(DRAFT_06)),
            ("http://json-schema.org/draft/2019-09/schema", Some(DRAFT_2019_09)),
            ("HTTPS://JSON-Schema.org/draft/2020-12/schema", Some(DRAFT_2020_12)),
            ("http://json-schema.org/schema#", Some(DRAFT_2020_12)),
            ("", Some(DRAFT_2020_12)),
            ("http://json-schema.org/draft-04/schema#", None),
            ("https://example.com/json-schema.org/draft-07/schema", None),
        ] {
            assert_eq!(canonical_dialect(written), canonical, "{written}");
        }
    }
}
