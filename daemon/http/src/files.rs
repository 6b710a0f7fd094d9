//! The workspace of a session over HTTP: upload, download, list and delete files, under the same quota as the guests.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{self, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use toolgate_admission::session_limits;
use toolgate_api::error::{CallError, ErrorType, Precondition};
use toolgate_api::file::{FileList, FileView};
use toolgate_core::admin::Actor;
use toolgate_core::dispatch::rules_of;
use toolgate_core::identity::Caller;
use toolgate_core::sessions::Session;
use toolgate_sandbox::Workspace;
use toolgate_sandbox::workspace::{Quota, Upload, WorkspaceError};
use toolgate_state::clock::now_ms;

use super::body;
use super::error_responses::{
    FileExists, NoFile, NoSession, NotEmpty, SessionEnded, StoreUnreadable, WorkspaceFull,
};
use super::extract::{Client, Path};
use super::header::header;
use super::path_params::{FileHeaders, FilePath, SessionPath};
use super::problem::Problem;
use super::schema::FileBytes;
use super::state::App;

/// List the workspace of a session.
///
/// Returns every file and folder in it, at most 10,000 entries.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/files", tag = "files", operation_id = "list_files", params(SessionPath),
    responses((status = 200, description = "The files of the folder.", body = FileList), NoSession, SessionEnded, StoreUnreadable),
)]
pub async fn list(
    Client { app, caller }: Client,
    Path(SessionPath { id }): Path<SessionPath>,
) -> Result<axum::Json<FileList>, Problem> {
    let listing = workspace(&app, &caller, &id).await?.1.list().await.map_err(workspace_problem)?;
    let items = listing.entries.into_iter().map(|entry| FileView {
        path: entry.path,
        kind: if entry.is_directory { "folder".into() } else { "file".into() },
        bytes: entry.bytes,
    });
    Ok(axum::Json(FileList { items: items.collect(), truncated: listing.truncated }))
}

/// Read a file of the workspace.
///
/// Returns the raw bytes, regardless of the content type that a guest claims. Browsers must never render them as a
/// page.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/files/{*path}", tag = "files", operation_id = "read_file", params(FilePath),
    responses(
        (status = 200, description = "The file's bytes.", body = FileBytes, content_type = "application/octet-stream",
            headers(("Content-Disposition" = String, description = "`attachment`: a browser must not show it as a page."),
                ("X-Content-Type-Options" = String, description = "`nosniff`"))),
        NoFile, SessionEnded, StoreUnreadable,
    ),
)]
pub async fn get(
    Client { app, caller }: Client,
    Path(FilePath { id, path }): Path<FilePath>,
) -> Result<Response, Problem> {
    let (_, workspace) = workspace(&app, &caller, &id).await?;
    let file = workspace.read(&path).await.map_err(workspace_problem)?;
    let length = file.bytes();
    let pieces = futures_util::stream::try_unfold(file, async |mut file| {
        Ok::<_, WorkspaceError>(file.next().await?.map(|piece| (piece, file)))
    });
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, length.to_string()),
        // Prevents a browser from rendering a file of a guest as a page of the daemon's origin.
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::CONTENT_DISPOSITION, "attachment".to_owned()),
    ];
    Ok((headers, Body::from_stream(pieces)).into_response())
}

/// Put a file into the workspace.
///
/// Writes the whole file, creates missing parent folders, and replaces an existing file. With `If-None-Match: *`,
/// writes only where nothing exists at the path. The file counts against the same quota as the files that tools
/// write.
#[utoipa::path(
    put, path = "/v1/sessions/{id}/files/{*path}", tag = "files", operation_id = "write_file", params(FilePath, FileHeaders),
    request_body(content = FileBytes, content_type = "application/octet-stream", description = "The file's bytes, any at all. No body is an empty file."),
    responses((status = 204, description = "The file is stored."), NoSession, SessionEnded, FileExists, WorkspaceFull, StoreUnreadable),
)]
pub async fn put(
    Client { app, caller }: Client,
    Path(FilePath { id, path }): Path<FilePath>,
    request: Request,
) -> Result<StatusCode, Problem> {
    body::expect_unencoded(request.headers())?;
    let must_be_new = must_be_new(request.headers())?;
    let received = receive(&app, &caller, &id, path, must_be_new, request.into_body()).await?;
    received.store(&app, app.actor(&caller)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Remove a file or an empty folder.
///
/// A folder that is not empty is refused.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}/files/{*path}", tag = "files", operation_id = "delete_file", params(FilePath),
    responses((status = 204, description = "The file is gone."), NoFile, NotEmpty, SessionEnded, StoreUnreadable),
)]
pub async fn delete(
    Client { app, caller }: Client,
    Path(FilePath { id, path }): Path<FilePath>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    if must_be_new(&headers)? {
        return Err(no_tags());
    }
    remove(&app, app.actor(&caller), &id, &path).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A file whose content is here, and not yet in the workspace.
pub struct ReceivedFile {
    pub session: Arc<Session>,
    pub upload: Upload,
    pub path: String,
}

/// Receives the content of a file, under the quota of the workspace and the timeout of bodies.
pub async fn receive(
    app: &App,
    caller: &Caller,
    id: &str,
    path: String,
    must_be_new: bool,
    mut body: Body,
) -> Result<ReceivedFile, Problem> {
    let (session, workspace) = workspace(app, caller, id).await?;
    body::expect_size(&body, workspace.quota().bytes)?;
    let folder = app.services().sessions.upload_folder();
    let upload = workspace.upload(&folder, &path, must_be_new).await;
    let mut upload = upload.map_err(workspace_problem)?;
    let receive = async {
        while let Some(piece) = body::next_piece(&mut body).await? {
            upload.write(piece).await.map_err(workspace_problem)?;
        }
        Ok(())
    };
    body::in_time(app, receive).await?;
    Ok(ReceivedFile { session, upload, path })
}

impl ReceivedFile {
    /// Places the file in the workspace. Recorded when the bytes are here: an upload that breaks off changes nothing.
    pub async fn store(self, app: &App, actor: Actor<'_>) -> Result<(), Problem> {
        let Self { session, upload, path } = self;
        let finish = async { upload.finish().await.map_err(workspace_error) };
        Ok(app.admin().change_file(actor, &session, "file.write", &path, finish).await?)
    }
}

/// Removes a file or an empty folder.
pub async fn remove(app: &App, actor: Actor<'_>, id: &str, path: &str) -> Result<(), Problem> {
    let (session, workspace) = workspace(app, actor.caller, id).await?;
    let delete = async { workspace.delete(path).await.map_err(workspace_error) };
    Ok(app.admin().change_file(actor, &session, "file.delete", path, delete).await?)
}

/// Returns the first piece of a file, and the length of the whole.
pub async fn read_start(app: &App, caller: &Caller, id: &str, path: &str) -> Result<(Bytes, u64), Problem> {
    let (_, workspace) = workspace(app, caller, id).await?;
    let mut file = workspace.read(path).await.map_err(workspace_problem)?;
    let length = file.bytes();
    let start = file.next().await.map_err(workspace_problem)?.unwrap_or_default();
    Ok((start, length))
}

async fn workspace(app: &App, caller: &Caller, id: &str) -> Result<(Arc<Session>, Workspace), Problem> {
    let session = app.session_of(caller, id).await?;
    session.touch(now_ms());
    let workspace = open(app, &session).await.map_err(workspace_problem)?;
    Ok((session, workspace))
}

async fn open(app: &App, session: &Session) -> Result<Workspace, WorkspaceError> {
    let limits = session_limits(&rules_of(&app.services().registry.snapshot(), session));
    session.workspace(Quota { bytes: limits.workspace_bytes, files: limits.workspace_files }).await
}

/// Returns the bytes of a file in the workspace, unless it is longer than `longest` bytes, or not there.
pub async fn read_whole(app: &App, session: &Session, path: &str, longest: u64) -> Option<Vec<u8>> {
    let file = open(app, session).await.ok()?.read(path).await.ok()?;
    if file.bytes() > longest {
        return None;
    }
    file.rest().await.ok()
}

/// Returns whether the write must not replace a file. Every other precondition is refused: ignoring one could
/// overwrite a file that the client wants to keep.
fn must_be_new(headers: &HeaderMap) -> Result<bool, Problem> {
    match (header(headers, &IF_MATCH)?, header(headers, &IF_NONE_MATCH)?) {
        (None, None) => Ok(false),
        (None, Some("*")) => Ok(true),
        _ => Err(no_tags()),
    }
}

fn no_tags() -> Problem {
    Problem::new(
        ErrorType::InvalidRequest,
        "files have no `ETag` to compare, so the precondition cannot be checked",
        "leave it out; a write alone takes `If-None-Match: *`, for a file that must not be there yet",
    )
}

fn workspace_problem(error: WorkspaceError) -> Problem {
    workspace_error(error).into()
}

fn workspace_error(error: WorkspaceError) -> CallError {
    let error_type = match &error {
        WorkspaceError::NotFound => ErrorType::NotFound,
        WorkspaceError::Quota(_) => ErrorType::TooLarge,
        WorkspaceError::NotEmpty | WorkspaceError::Exists => ErrorType::Conflict,
        WorkspaceError::Refused(_) | WorkspaceError::IsDirectory | WorkspaceError::NotDirectory => {
            ErrorType::InvalidRequest
        }
        WorkspaceError::DiskFull | WorkspaceError::Io(_) => {
            tracing::error!(cause = %error, "a workspace cannot be used");
            ErrorType::Unavailable
        }
    };
    let message = match &error {
        WorkspaceError::Io(_) => "the workspace cannot be used".to_owned(),
        told => told.to_string(),
    };
    let told = CallError::new(error_type, message, error.hint());
    match error {
        WorkspaceError::Exists => told.with_precondition(Precondition::Failed),
        _ => told,
    }
}
