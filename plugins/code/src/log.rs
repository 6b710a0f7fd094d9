//! The lines that a script writes with `console.log`.

use std::fmt::Write as _;

/// Most bytes of the log: a model reads it.
const BYTES: usize = 16 * 1024;

/// Lines up to [`BYTES`], and the number of bytes beyond.
#[derive(Default)]
pub struct Log {
    text: String,
    cut_bytes: usize,
}

impl Log {
    pub fn write(&mut self, line: &str) {
        let kept = match self.cut_bytes {
            0 => line.floor_char_boundary(BYTES.saturating_sub(self.text.len())),
            _ => 0,
        };
        self.text.push_str(&line[..kept]);
        self.cut_bytes += line.len() - kept;
        if self.cut_bytes == 0 {
            self.text.push('\n');
        }
    }

    /// Returns the text, with a note of what was cut, unless nothing was written.
    pub fn take(&mut self) -> Option<String> {
        let mut text = std::mem::take(&mut self.text);
        text.truncate(text.trim_end_matches('\n').len());
        if self.cut_bytes > 0 {
            let _ = write!(text, "\n[{} more bytes of the log were cut]", self.cut_bytes);
        }
        Some(text).filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t13_a_log_is_bounded_and_says_what_was_cut() {
        let mut log = Log::default();
        assert_eq!(log.take(), None);
        log.write("one");
        log.write("two");
        assert_eq!(log.take().as_deref(), Some("one\ntwo"));
        log.write(&"é".repeat(BYTES));
        log.write("last");
        let cut = log.take().unwrap_or_default();
        assert!(
            cut.len() < BYTES + 60
                && cut.ends_with(&format!("é\n[{} more bytes of the log were cut]", BYTES + 4))
        );
    }
}
