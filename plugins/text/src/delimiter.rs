//! What stands between the fields of a row.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What stands between two fields.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Delimiter {
    Comma,
    Semicolon,
    Tab,
    Pipe,
}

impl Delimiter {
    const ALL: [Self; 4] = [Self::Comma, Self::Semicolon, Self::Tab, Self::Pipe];

    pub fn byte(self) -> u8 {
        match self {
            Self::Comma => b',',
            Self::Semicolon => b';',
            Self::Tab => b'\t',
            Self::Pipe => b'|',
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Comma => "comma",
            Self::Semicolon => "semicolon",
            Self::Tab => "tab",
            Self::Pipe => "pipe",
        }
    }

    /// The one that is most often in the first line, outside quotes. A comma if there is none.
    pub fn guess(text: &str) -> Self {
        let mut counts = [0_usize; 4];
        let mut is_quoted = false;
        for byte in text.trim_start().bytes() {
            match byte {
                b'"' => is_quoted = !is_quoted,
                b'\n' | b'\r' if !is_quoted => break,
                _ if is_quoted => {}
                _ => {
                    for (count, delimiter) in counts.iter_mut().zip(Self::ALL) {
                        *count += usize::from(byte == delimiter.byte());
                    }
                }
            }
        }
        // Of equals the first one, so from the last to the first.
        let best = counts.iter().zip(Self::ALL).rev().max_by_key(|(count, _)| **count);
        best.map_or(Self::Comma, |(_, delimiter)| delimiter)
    }
}
