//! The part of a definition that a call needs: written when a definition comes into force, read by each call.
//!
//! Everything in it was checked then. So a call parses some hundred bytes, and does not look at what it says again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toolgate_api::definition::{BodyFormat, Method, Style};

/// How one action becomes a request, and its answer a result.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub struct Plan {
    pub method: Method,
    /// Scheme, host and port, as `https://api.example.com`.
    pub origin: String,
    /// The path, that of the base URL included.
    pub path: Vec<Piece>,
    /// The part of the query that is always the same, encoded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub query: String,
    /// Fields that are always sent, unless an argument has the same name.
    pub headers: Vec<(String, String)>,
    /// Whether the host puts a credential in.
    #[serde(default, skip_serializing_if = "is_false")]
    pub has_credential: bool,
    /// Where each argument goes.
    pub arguments: BTreeMap<String, Place>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    #[serde(default, skip_serializing_if = "Selection::is_whole")]
    pub result: Selection,
    /// Whether the output schema refuses null, so that an empty response is a failure.
    #[serde(default, skip_serializing_if = "is_false")]
    pub needs_content: bool,
}

impl Plan {
    /// Whether calls read or write workspace files.
    pub fn uses_workspace(&self) -> bool {
        let sends_file = self.content.as_ref().is_some_and(|content| content.form == BodyFormat::Binary)
            || self.arguments.values().any(|place| matches!(place.target, Target::File(_)));
        sends_file || matches!(self.result, Selection::File(_))
    }
}

/// A part of the path.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Piece {
    /// As it is sent.
    Text(String),
    /// The value of an argument.
    Argument {
        name: String,
        /// The text in its place without the argument.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default: Option<String>,
    },
}

/// The part of the request that an argument goes to.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub struct Place {
    #[serde(rename = "in")]
    pub target: Target,
    /// Whether its numbers are whole ones: then `1.0`, which is an integer too, is written as `1` where text is sent.
    #[serde(default, skip_serializing_if = "is_false")]
    pub whole_numbers: bool,
}

/// The kinds of places.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// The placeholder of the path with its name.
    Path,
    Query {
        name: String,
        style: Style,
    },
    Header(String),
    /// One member of the content.
    Member(String),
    /// A field of a form for each member of an object: `metadata[a]=1&metadata[b]=2`.
    Members(String),
    /// Parts with the content of workspace files.
    File(String),
    /// The whole content.
    Content,
    /// The workspace path that the response is saved to. It is not sent.
    SavePath,
}

impl Target {
    /// Whether it is the content or a part of it.
    pub fn is_in_the_content(&self) -> bool {
        matches!(self, Self::Content | Self::Member(_) | Self::Members(_) | Self::File(_))
    }
}

/// The content of a request.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub struct Content {
    pub form: BodyFormat,
    /// Empty for a file whose name decides.
    #[serde(rename = "type")]
    pub content_type: String,
}

/// Which part of an answer is the result.
#[derive(Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Selection {
    #[default]
    Whole,
    Pointer(String),
    Jmespath(String),
    /// The argument that names the file to save the response to.
    File(String),
}

impl Selection {
    fn is_whole(&self) -> bool {
        *self == Self::Whole
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}
