//! Names that all model providers accept (requirements, section 9.4).

const MAX_NAMESPACE: usize = 40;
const MAX_TOOL: usize = 58;

/// Checks the name of a tool.
pub fn check_tool(name: &str) -> Result<(), String> {
    if is_name(name, '_') && name.len() <= MAX_TOOL {
        return Ok(());
    }
    Err(format!(
        "`{name}` cannot be the name of a tool: write lowercase letters and digits, beginning with a letter, with single \
         underscores between words, at most {MAX_TOOL} characters"
    ))
}

/// Checks the namespace of a plugin.
pub fn check_namespace(name: &str) -> Result<(), String> {
    if is_name(name, '-') && name.len() <= MAX_NAMESPACE {
        return Ok(());
    }
    Err(format!(
        "`{name}` cannot be the namespace of a plugin: write lowercase letters and digits, beginning with a letter, with \
         single hyphens between words, at most {MAX_NAMESPACE} characters"
    ))
}

fn is_name(name: &str, separator: char) -> bool {
    let is_word =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    name.starts_with(|c: char| c.is_ascii_lowercase()) && name.split(separator).all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_name_is_snake_case_and_a_namespace_is_kebab_case() {
        for name in ["a", "get_user", "v2", "a1_2b"] {
            assert!(check_tool(name).is_ok(), "{name}");
        }
        for name in ["", "Get", "_a", "a_", "a__b", "1a", "a-b", "é", &"a".repeat(59)] {
            assert!(check_tool(name).is_err(), "{name}");
        }
        assert!(check_namespace("my-crm2").is_ok());
        for name in ["my_crm", "-a", "a--b", "A", &"a".repeat(41)] {
            assert!(check_namespace(name).is_err(), "{name}");
        }
    }
}
