//! Paths that match a pattern.

use crate::shell::{Outcome, Shell, fail};
use crate::wildcard;

impl Shell {
    /// Replaces a field that has a pattern by the paths that match it.
    pub(super) fn expand_paths(
        &mut self,
        field: &[(String, bool)],
        arguments: &mut Vec<String>,
    ) -> Outcome<()> {
        let text = || field.iter().map(|(text, _)| text.as_str()).collect::<String>();
        let has_signs =
            field.iter().any(|(text, is_quoted)| !is_quoted && text.contains(['*', '?', '[', '(']));
        if !has_signs || self.state.options.no_glob {
            arguments.push(text());
            return Ok(());
        }
        let pattern: String = field
            .iter()
            .map(|(text, is_quoted)| if *is_quoted { wildcard::escape(text) } else { text.clone() })
            .collect();
        // Most brackets are the command `[`, for which no folder is listed.
        if !wildcard::is_pattern(&pattern) {
            arguments.push(text());
            return Ok(());
        }
        let paths = self.glob(&pattern)?;
        if paths.is_empty() && !self.state.options.null_glob {
            arguments.push(text());
        }
        arguments.extend(paths);
        Ok(())
    }

    fn glob(&mut self, pattern: &str) -> Outcome<Vec<String>> {
        let rooted = pattern.trim_start_matches('/');
        let mut paths = vec![if rooted.len() < pattern.len() { "/".to_owned() } else { String::new() }];
        let parts: Vec<&str> = rooted.split('/').collect();
        for (index, part) in parts.iter().enumerate() {
            let is_last = index + 1 == parts.len();
            let mut next = Vec::new();
            for path in &paths {
                self.glob_part(path, part, is_last, &mut next)?;
                if next.len() > self.files.max_paths {
                    return fail(self.files.too_many(&format!("`{pattern}` matches")));
                }
            }
            paths = next;
        }
        paths.sort_unstable();
        Ok(paths)
    }

    fn glob_part(&mut self, path: &str, part: &str, is_last: bool, next: &mut Vec<String>) -> Outcome<()> {
        let slash = if is_last { "" } else { "/" };
        if part.is_empty() {
            next.push(path.to_owned());
            return Ok(());
        }
        if part == "**" && self.state.options.globstar {
            if !is_last {
                next.push(path.to_owned());
            }
            return self.glob_deep(path, is_last, next);
        }
        let folder = if path.is_empty() { "." } else { path };
        if !wildcard::is_pattern(part) {
            let found = format!("{path}{}", wildcard::unescape(part));
            let exists = self
                .files
                .resolve(&self.state.current, &found)
                .is_ok_and(|place| place.link_metadata().is_ok());
            if exists || (!is_last && self.files.root.starts_with(&found)) {
                next.push(format!("{found}{slash}"));
            }
            return Ok(());
        }
        let names = self.files.list_for_walk(&self.state.current, folder)?;
        let shows_hidden = part.starts_with('.') || self.state.options.dot_glob;
        for name in names.iter().filter(|name| shows_hidden || !name.starts_with('.')) {
            if self.matches(part, name)? {
                let found = format!("{path}{name}");
                if is_last
                    || self.files.metadata(&self.state.current, &found).is_ok_and(|found| found.is_folder())
                {
                    next.push(format!("{found}{slash}"));
                }
            }
        }
        Ok(())
    }

    /// All that is below a folder, for `**`.
    fn glob_deep(&mut self, path: &str, is_last: bool, next: &mut Vec<String>) -> Outcome<()> {
        let mut waiting = vec![path.to_owned()];
        while let Some(folder) = waiting.pop() {
            let listed = if folder.is_empty() { "." } else { &folder };
            let names = self.files.list_for_walk(&self.state.current, listed)?;
            for name in names.iter().filter(|name| !name.starts_with('.')) {
                let found = format!("{folder}{name}");
                let is_folder =
                    self.files.metadata(&self.state.current, &found).is_ok_and(|found| found.is_folder());
                if is_folder {
                    waiting.push(format!("{found}/"));
                }
                if is_last {
                    next.push(found);
                } else if is_folder {
                    next.push(format!("{found}/"));
                }
                if next.len() > self.files.max_paths {
                    return fail(self.files.too_many("`**` matches"));
                }
            }
        }
        next.sort_unstable();
        Ok(())
    }
}
