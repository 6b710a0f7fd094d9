//! Files of the workspace as content of a provider's message (R11): images and PDF where the provider takes them, and texts.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use toolgate_api::content::ContentBlock;
use toolgate_core::call::{CallAnswer, CallOutcome};
use toolgate_core::sessions::Session;

use crate::dialects::{Dialect, PDF};
use crate::state::App;
use crate::{files, frame};

/// Bytes of the files of one result that a model gets as media. Providers take images of some megabytes.
const MEDIA_BYTES: u64 = 4 * 1024 * 1024;

/// Longest file that a model gets as text, in bytes: the limit of a result's text.
const TEXT_BYTES: u64 = 64 * 1024;

/// Puts the content of files in the place of their names, where the provider takes it.
pub(crate) async fn embed(app: &App, session: &Session, dialect: &Dialect, answers: &mut [CallAnswer]) {
    let Some(media) = dialect.media() else { return };
    for answer in answers {
        if !answer.content.iter().any(|block| matches!(block, ContentBlock::File { .. })) {
            continue;
        }
        let (mut content, mut left_bytes) = (Vec::new(), MEDIA_BYTES);
        for block in &answer.content {
            content.push(match block {
                ContentBlock::File { path, mime_type } => {
                    let mime_type = mime_type.as_deref().or_else(|| type_of(path));
                    let taken = mime_type.filter(|mime_type| media.contains(mime_type));
                    embed_file(app, session, path, taken, &mut left_bytes)
                        .await
                        .unwrap_or_else(|| block.clone())
                }
                block => block.clone(),
            });
        }
        answer.outcome = Arc::new(CallOutcome { content, ..CallOutcome::clone(&answer.outcome) });
    }
}

/// The content of one file; none if it is not there, too long, or of a type that the provider does not take.
async fn embed_file(
    app: &App,
    session: &Session,
    path: &str,
    media: Option<&str>,
    left_bytes: &mut u64,
) -> Option<ContentBlock> {
    let inside = path.strip_prefix("/workspace/")?;
    let longest = if media.is_some() { *left_bytes } else { TEXT_BYTES };
    let bytes = files::read_whole(app, session, inside, longest).await?;
    Some(match media {
        Some(mime_type) => {
            *left_bytes = left_bytes.saturating_sub(bytes.len() as u64);
            // Renderers go by the type, also for a PDF.
            ContentBlock::Image { data: STANDARD.encode(bytes), mime_type: mime_type.to_owned() }
        }
        None => {
            let text = String::from_utf8(bytes).ok()?;
            ContentBlock::Text { text: format!("{}\n{text}", frame::file_note(path)) }
        }
    })
}

/// The type of a file that its plugin does not know, by its name.
fn type_of(path: &str) -> Option<&'static str> {
    let (_, extension) = path.rsplit_once('.')?;
    Some(match extension.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "pdf" => PDF,
        _ => return None,
    })
}
