//! Content blocks beside a tool's output: text, images, audio and files (R11).

use serde::{Deserialize, Serialize};

/// Most blocks of one result.
pub const BLOCKS: usize = 64;

/// A content block. Data is in base64 (RFC 4648, with padding).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ContentBlock {
    /// Text for a model.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image {
        /// Its bytes in base64.
        data: String,
        /// Its media type, such as `image/png`.
        mime_type: String,
    },
    /// A recording.
    Audio {
        /// Its bytes in base64.
        data: String,
        /// Its media type, such as `audio/wav`.
        mime_type: String,
    },
    /// A file of the session's workspace.
    File {
        /// Its path, such as `/workspace/report.pdf`.
        path: String,
        /// Its media type, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
    },
}

impl ContentBlock {
    /// The defect of the block, if it has one.
    pub fn fault(&self) -> Option<&'static str> {
        match self {
            Self::Text { .. } => None,
            Self::Image { data, mime_type } => fault_of_data(data, mime_type, "image/"),
            Self::Audio { data, mime_type } => fault_of_data(data, mime_type, "audio/"),
            Self::File { path, .. } if !path.starts_with("/workspace/") => {
                Some("`path` is not one in `/workspace`")
            }
            Self::File { mime_type, .. } => {
                let is_type = mime_type.as_ref().is_none_or(|mime_type| is_media_type(mime_type));
                (!is_type).then_some("`mime_type` is no media type")
            }
        }
    }

    /// Bytes that keeping the block costs, about.
    pub fn held_bytes(&self) -> usize {
        match self {
            Self::Text { text } => text.len(),
            Self::Image { data, .. } | Self::Audio { data, .. } => data.len(),
            Self::File { path, .. } => path.len(),
        }
    }
}

fn fault_of_data(data: &str, mime_type: &str, kind: &str) -> Option<&'static str> {
    let digits = data.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let is_base64 =
        data.len().is_multiple_of(4) && data.len() - digits.len() <= 2 && digits.bytes().all(is_digit);
    if !is_base64 {
        return Some("`data` is not base64");
    }
    (!mime_type.starts_with(kind) || !is_media_type(mime_type))
        .then_some("`mime_type` does not fit the type of the block")
}

fn is_media_type(text: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte);
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(is_token);
    text.len() <= 127 && text.split_once('/').is_some_and(|(kind, name)| is_name(kind) && is_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r11_a_block_says_what_is_wrong_with_it() {
        let image = |data: &str, mime_type: &str| {
            ContentBlock::Image { data: data.to_owned(), mime_type: mime_type.to_owned() }.fault()
        };
        for data in ["", "QUJD", "QUI=", "QQ=="] {
            assert_eq!(image(data, "image/png"), None, "{data}");
        }
        for data in ["Q", "QQ=", "QUJ\n", "====", "Q-_D"] {
            assert!(image(data, "image/png").is_some_and(|fault| fault.contains("base64")), "{data}");
        }
        for mime_type in ["audio/wav", "image/", "image", "image/a b", "image/png; x"] {
            assert!(image("QUJD", mime_type).is_some_and(|fault| fault.contains("mime_type")), "{mime_type}");
        }
        let file = |path: &str| ContentBlock::File { path: path.to_owned(), mime_type: None }.fault();
        assert_eq!(file("/workspace/a.pdf"), None);
        assert!(file("/etc/passwd").is_some());
    }
}
