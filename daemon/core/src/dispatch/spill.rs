//! Long results (R10). The session's workspace keeps the whole of one that is over the limit, and programs and models get its
//! beginning, end, size and place. It also keeps one that is cut for models alone.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use toolgate_admission::Admitted;
use toolgate_api::content::ContentBlock;
use toolgate_api::error::CallError;
use toolgate_audit as audit;
use toolgate_sandbox::workspace::Quota;
use toolgate_sandbox::{Component, Effect, Turn, output_too_large};
use toolgate_state::identifier;

use super::call::raw;
use crate::call::{MODEL_TEXT_BYTES, OutcomeState, SpilledResult};
use crate::sessions::Session;

/// Bytes of media in base64 that a result may have beside its text. Providers take images of some megabytes.
const MEDIA_BYTES: usize = 4 * 1024 * 1024;

/// The folder of results in the workspace.
const RESULTS: &str = ".results";

/// Bytes of the beginning and of the end of the result that the model gets.
const HEAD_BYTES: usize = 4 * 1024;
const TAIL_BYTES: usize = 1024;

/// A long result.
pub(super) struct Spilled {
    pub(super) state: OutcomeState,
    pub(super) content: Vec<ContentBlock>,
    /// The file with all of a result that is cut for models.
    pub(super) kept_in: Option<Box<str>>,
}

/// Checks a result that is larger than the call's limit, or than what models get.
///
/// Media have a limit of their own, so a result whose text fits stays as it is, and media beyond it become files of the workspace. A
/// longer text is written into the workspace as a whole. Where there is no room, the error says that the tool ran.
/// A text that is cut only for models is written there too, if `is_for_model` and there is room. The turn is for the check.
pub(super) async fn spill(
    session: &Session,
    admitted: &Admitted<Component>,
    json: String,
    turn: Option<Turn>,
    is_for_model: bool,
    effects: &mut Vec<Effect>,
) -> Result<Spilled, CallError> {
    let checked = off_the_runtime(|| admitted.check_result(&json))?;
    drop(turn);
    let limits = admitted.limits();
    let mut files = Files { session, admitted, effects };
    let (output, blocks) = checked.map_or((None, Vec::new()), |(output, blocks)| (Some(output), blocks));
    let text_bytes = json.len() - blocks.iter().map(|block| media_of(block).0.len()).sum::<usize>();
    let mut content = files.keep_media(blocks).await?;
    if text_bytes as u64 <= limits.output_bytes {
        let kept_in = match is_for_model && text_bytes > MODEL_TEXT_BYTES {
            true => files.keep_result(json.clone()).await.ok(),
            false => None,
        };
        let state = OutcomeState::Ok(raw(output.unwrap_or(json))?);
        return Ok(Spilled { state, content, kept_in: kept_in.map(Into::into) });
    }
    content.retain(|block| !matches!(block, ContentBlock::Text { .. }));
    let bytes = json.len() as u64;
    let (head, tail) = ends(&json);
    let sha256 = audit::sha256(json.as_bytes());
    let (head, tail) = (head.to_owned(), tail.to_owned());
    let path = files.keep_result(json).await?;
    let told = json!({"path": path, "bytes": bytes, "head": head, "tail": tail});
    let text = format!(
        "The tool ran. Its result has {bytes} bytes, more than fits here, and is in the file {path}: read it in parts, or ask for \
         less. It begins with:\n{head}\n… and ends with:\n{tail}"
    );
    let output = raw(told.to_string())?;
    let state = OutcomeState::Spilled(Box::new(SpilledResult { output, text, bytes, sha256 }));
    Ok(Spilled { state, content, kept_in: None })
}

/// Writes parts of a result into the workspace of its session.
struct Files<'a> {
    session: &'a Session,
    admitted: &'a Admitted<Component>,
    effects: &'a mut Vec<Effect>,
}

impl Files<'_> {
    /// Writes what the tool returned, with its content blocks. Returns the path.
    async fn keep_result(&mut self, json: String) -> Result<String, CallError> {
        let name = format!("{}.json", identifier::fresh("r"));
        self.write(&name, json.into(), "the result").await?;
        Ok(format!("/workspace/{RESULTS}/{name}"))
    }

    /// The same blocks; media beyond the limit are files.
    async fn keep_media(&mut self, blocks: Vec<ContentBlock>) -> Result<Vec<ContentBlock>, CallError> {
        let (mut left, mut kept) = (MEDIA_BYTES, Vec::new());
        for block in blocks {
            let (data, mime_type) = media_of(&block);
            if data.len() <= left {
                left -= data.len();
                kept.push(block);
                continue;
            }
            let bytes = STANDARD.decode(data).unwrap_or_default();
            let extension = mime_type.rsplit('/').next().filter(|name| is_extension(name)).unwrap_or("bin");
            let (name, mime_type) = (format!("{}.{extension}", identifier::fresh("m")), mime_type.to_owned());
            self.write(&name, bytes, "a part of the result").await?;
            let path = format!("/workspace/{RESULTS}/{name}");
            kept.push(ContentBlock::File { path, mime_type: Some(mime_type) });
        }
        Ok(kept)
    }

    /// Writes a file. The host makes its name: no id of a caller becomes a path.
    async fn write(&mut self, name: &str, content: Vec<u8>, what: &str) -> Result<(), CallError> {
        let (limits, bytes) = (self.admitted.limits(), content.len() as u64);
        let file = format!("{RESULTS}/{name}");
        if bytes > limits.workspace_bytes {
            let why = format!("its {bytes} bytes are more than a workspace may hold");
            return Err(no_room(self.admitted, &why));
        }
        let quota = Quota { bytes: limits.workspace_bytes, files: limits.workspace_files };
        let written = async { self.session.workspace(quota).await?.create(&file, content.into()).await };
        written.await.map_err(|error| no_room(self.admitted, &error.to_string()))?;
        self.effects
            .push(Effect { kind: "workspace_write", detail: format!("{file}, {bytes} bytes: {what}") });
        Ok(())
    }
}

/// The data of a block in base64, and its type; empty for one that has none.
fn media_of(block: &ContentBlock) -> (&str, &str) {
    match block {
        ContentBlock::Image { data, mime_type } | ContentBlock::Audio { data, mime_type } => {
            (data, mime_type)
        }
        ContentBlock::Text { .. } | ContentBlock::File { .. } => ("", ""),
    }
}

fn is_extension(name: &str) -> bool {
    name.len() <= 10 && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn no_room(admitted: &Admitted<Component>, why: &str) -> CallError {
    let too_large = output_too_large(admitted.limits());
    let message = format!("{}, and the workspace does not take it: {why}", too_large.message);
    CallError { message, ..too_large }
}

/// Runs what takes long without holding up the tasks of this thread.
fn off_the_runtime<T>(work: impl FnOnce() -> T) -> T {
    match tokio::runtime::Handle::current().runtime_flavor() {
        tokio::runtime::RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// The beginning and the end of a text.
fn ends(text: &str) -> (&str, &str) {
    let head = text.floor_char_boundary(HEAD_BYTES);
    let tail = text.ceil_char_boundary(text.len().saturating_sub(TAIL_BYTES).max(head));
    (&text[..head], &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r10_the_ends_of_a_result_do_not_overlap_and_end_between_characters() {
        assert_eq!(ends("short"), ("short", ""));
        let text = "é".repeat(HEAD_BYTES);
        let (head, tail) = ends(&text);
        assert_eq!((head.len(), tail.len()), (HEAD_BYTES, TAIL_BYTES));
        let odd = format!("a{}", "é".repeat(HEAD_BYTES));
        let (head, tail) = ends(&odd);
        assert_eq!((head.len(), tail.len()), (HEAD_BYTES - 1, TAIL_BYTES));
    }
}
