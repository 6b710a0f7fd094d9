//! Results over the limit (R10): the session's workspace keeps the whole, and the model gets its beginning, end, size and
//! place.

use serde_json::json;
use toolgate_admission::Admitted;
use toolgate_api::error::CallError;
use toolgate_audit as audit;
use toolgate_sandbox::workspace::Quota;
use toolgate_sandbox::{Component, Effect, output_too_large};
use toolgate_state::identifier;

use super::call::raw;
use crate::call::{OutcomeState, SpilledResult};
use crate::sessions::Session;

/// Bytes of the beginning and of the end of the result that the model gets.
const HEAD_BYTES: usize = 4 * 1024;
const TAIL_BYTES: usize = 1024;

/// Checks a result that is larger than the call's limit, and writes it into the workspace. Where there is no room, the error says that
/// the tool ran.
pub(super) async fn spill(
    session: &Session,
    admitted: &Admitted<Component>,
    json: String,
    effects: &mut Vec<Effect>,
) -> Result<OutcomeState, CallError> {
    // With its content blocks, if it has any: the file holds what the tool returned.
    off_the_runtime(|| admitted.check_result(&json))?;
    let limits = admitted.limits();
    let bytes = json.len() as u64;
    if bytes > limits.workspace_bytes {
        return Err(no_room(admitted, &format!("its {bytes} bytes are more than a workspace may hold")));
    }
    // The host makes the name: no id of a caller becomes a path.
    let file = format!(".results/{}.json", identifier::fresh("r"));
    let path = format!("/workspace/{file}");
    let (head, tail) = ends(&json);
    let sha256 = audit::sha256(json.as_bytes());
    let told = json!({"path": path, "bytes": bytes, "head": head, "tail": tail});
    let text = format!(
        "The tool ran. Its result has {bytes} bytes, more than fits here, and is in the file {path}: read it in parts, or ask for \
         less. It begins with:\n{head}\n… and ends with:\n{tail}"
    );
    let quota = Quota { bytes: limits.workspace_bytes, files: limits.workspace_files };
    let written = async { session.workspace(quota).await?.create(&file, json.into()).await };
    if let Err(error) = written.await {
        return Err(no_room(admitted, &error.to_string()));
    }
    effects.push(Effect { kind: "workspace_write", detail: format!("{file}, {bytes} bytes: the result") });
    let output = raw(told.to_string())?;
    Ok(OutcomeState::Spilled(Box::new(SpilledResult { output, text, bytes, sha256 })))
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
