//! Files of a session's workspace: read as text, written, uploaded and deleted. Their content is never rendered.

use std::borrow::Cow;

use axum::body::Body;
use axum::extract::State;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::file::FileView;
use toolgate_api::text::hidden_character;
use toolgate_audit::sha256;
use toolgate_http::extract::Path;
use toolgate_http::files;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;

use super::Console;
use super::elements::{
    PAGE_BYTES, ROWS, block, bytes, facts, next_page, notice, percent_encode, short, table, whole,
};
use super::fields::Field;
use super::form::{FormFields, SeeOther};
use super::page::Page;
use super::permits::complete_change;
use super::text::visible_text;
use super::upload::FILE_FIELD;
use super::viewer::Viewer;

/// The place in a list of files.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FilesPage {
    /// The path of the last file of the page before.
    cursor: Option<String>,
}

/// The start of a file.
struct FileStart {
    /// None of a file that is no text.
    text: Option<String>,
    length: u64,
    /// The hash of what was read.
    digest: String,
}

impl FileStart {
    /// The whole text, if the page shows it as it is, so that a person can change it in a field.
    fn editable_text(&self) -> Option<&str> {
        let text = self.text.as_deref()?;
        let is_whole = text.len() as u64 == self.length && text.len() <= PAGE_BYTES;
        (is_whole && !text.contains('\r') && visible_text(text) == text).then_some(text)
    }
}

/// A page of the files of a session, with the forms of new ones.
pub(super) fn section(
    viewer: &Viewer,
    id: &str,
    (files, is_cut): (&[FileView], bool),
    page: &FilesPage,
    uri: &Uri,
) -> Markup {
    let after = page.cursor.as_deref().unwrap_or_default();
    let mut left = files.iter().filter(|file| file.path.as_str() > after);
    let shown: Vec<&FileView> = left.by_ref().take(ROWS as usize).collect();
    let next = shown.last().filter(|_| left.next().is_some()).map(|file| file.path.as_str());
    let rows = html! {
        @for file in &shown {
            tr {
                th scope="row" {
                    @if file.kind == "file" { a href=(view_address(id, &file.path)) { (short(&file.path)) } }
                    @else { (short(&file.path)) "/" }
                }
                td.number { @if file.kind == "file" { (bytes(file.bytes)) } }
                td { @if file.kind == "file" { a href=(content_address(id, &file.path)) download { "save" } } }
            }
        }
    };
    html! {
        @if files.is_empty() { div.empty { p { "The session has no files. Write or upload one below; tools of its agent may write others." } } }
        @else { (table("Files", &["File", "#Size", "Content"], &rows)) }
        @if is_cut && next.is_none() { p.quiet { "The workspace has more files than a list can have." } }
        (next_page(uri, next))
        details { summary { "Write a file" } (write_form(viewer, id, &FormFields::default())) }
        details { summary { "Upload a file" } (upload_form(viewer, id, &FormFields::default())) }
    }
}

fn content_address(id: &str, path: &str) -> String {
    format!("{}/files/{}", address(id), percent_encode(path))
}

fn view_address(id: &str, path: &str) -> String {
    format!("{}/view/{}", address(id), percent_encode(path))
}

fn write_form(viewer: &Viewer, id: &str, fields: &FormFields) -> Markup {
    html! {
        (viewer.form(format!("{}/write", address(id)), &[], html! {
            (path_field("write-path", fields, true))
            label for="write-text" { "Text" }
            textarea id="write-text" name="text" rows="8" spellcheck="false" { "\n" (field_text(fields.text("text"))) }
            (written_out(fields.text("text")))
            (replace_field(fields))
            button { "Write the file" }
        }))
    }
}

fn upload_form(viewer: &Viewer, id: &str, fields: &FormFields) -> Markup {
    html! {
        form method="post" enctype="multipart/form-data" action=(format!("/console/upload/file/{}", percent_encode(id))) {
            (viewer.csrf_field())
            (path_field("upload-path", fields, false))
            (replace_field(fields))
            div.drop data-drop {
                label for="upload-file" { "File" }
                input id="upload-file" type="file" name=(FILE_FIELD) required aria-describedby="upload-file-hint";
                p.hint id="upload-file-hint" { "Choose it, or drop it here. It counts against the session's quota." }
            }
            button data-busy="Uploading…" { "Upload the file" }
        }
    }
}

fn path_field(id: &str, fields: &FormFields, is_required: bool) -> Markup {
    html! {
        (Field::new("path", "Path in the workspace").id(id).value(whole(fields.text("path"))).required(is_required).hint(html! {
            "Such as " code { "notes/plan.md" } "; missing folders are made."
            @if !is_required { " Empty: the name of the file." }
        }))
    }
}

fn replace_field(fields: &FormFields) -> Markup {
    html! {
        label.choice {
            input type="checkbox" name="replace" checked[fields.is_checked("replace")];
            "Replace a file that is there"
        }
    }
}

/// One file as text, with the forms that change and delete it.
pub(super) async fn page(
    State(app): State<App>,
    viewer: Viewer,
    Path((id, path)): Path<(String, String)>,
) -> Result<Page, Problem> {
    let file = read(&app, &viewer, &id, &path).await?;
    Ok(show(&viewer, &id, &path, &file, None))
}

async fn read(app: &App, viewer: &Viewer, id: &str, path: &str) -> Result<FileStart, Problem> {
    let (start, length) = files::read_start(app, &viewer.caller, id, path).await?;
    let digest = sha256(&start).to_string();
    let text = match std::str::from_utf8(&start) {
        Ok(text) => Some(text),
        // The last character of a start may be cut.
        Err(error) if error.error_len().is_none() && (start.len() as u64) < length => {
            std::str::from_utf8(&start[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    };
    Ok(FileStart { text: text.map(str::to_owned), length, digest })
}

fn show(
    viewer: &Viewer,
    id: &str,
    path: &str,
    file: &FileStart,
    refused: Option<(&CallError, &str)>,
) -> Page {
    let editable = refused.map(|(_, text)| text).or(file.editable_text());
    let main = html! {
        @if let Some((error, _)) = refused { (notice(error)) }
        (facts(&[
            ("Session", html! { a href=(address(id)) { code { (short(id)) } } }),
            ("Size", html! { (bytes(file.length)) }),
        ]))
        p { a.button href=(content_address(id, path)) download { "Save the file" } }
        @match &file.text {
            Some(text) => (block(text, PAGE_BYTES)),
            None => p { "The file is no text in UTF-8. Save it to look at it." },
        }
        @if file.text.is_some() && editable.is_none() {
            p.quiet { "It is changed by saving and uploading it, since a field would not keep all of its characters." }
        }
        @if let Some(text) = editable { (edit_form(viewer, id, path, &file.digest, text)) }
        h2 { "Delete" }
        (viewer.form(view_address(id, path), &[("act", &"delete")], html! {
            button.danger data-confirm="Delete the file?" { "Delete the file" }
        }))
    };
    Page::new(short(path), main)
}

fn edit_form(viewer: &Viewer, id: &str, path: &str, digest: &str, text: &str) -> Markup {
    html! {
        h2 { "Change" }
        (viewer.form(view_address(id, path), &[("act", &"write"), ("digest", &digest)], html! {
            label for="text" { "Text" }
            textarea.tall id="text" name="text" rows="16" spellcheck="false" { "\n" (field_text(text)) }
            (written_out(text))
            button { "Write the file" }
        }))
    }
}

/// Writes or deletes the file that was shown.
pub(super) async fn change(
    State(app): State<App>,
    viewer: Viewer,
    Path((id, path)): Path<(String, String)>,
    fields: FormFields,
) -> Result<Response, Problem> {
    if fields.text("act") == "delete" {
        files::remove(&app, viewer.actor(), &id, &path).await?;
        return Ok(SeeOther::to(&address(&id)).into_response());
    }
    let file = read(&app, &viewer, &id, &path).await?;
    let text = fields.text("text");
    let written = match file.digest == fields.text("digest") {
        true => write_text(&app, &viewer, &id, &path, text, false).await,
        false => Err(Problem::new(
            ErrorType::Conflict,
            "the file has changed since you opened it",
            "compare it with your text, and send it again",
        )),
    };
    match written {
        Ok(()) => Ok(SeeOther::to(&view_address(&id, &path)).into_response()),
        Err(Problem(error)) if is_of_session(&error) => Err(error.into()),
        Err(Problem(error)) => {
            let page = show(&viewer, &id, &path, &file, Some((&error, text)));
            Ok(page.with_status_of(&error).into_response())
        }
    }
}

/// Writes a text as a new file, or over another one if the form says so.
pub(super) async fn write(
    State(app): State<App>,
    viewer: Viewer,
    Path(id): Path<String>,
    fields: FormFields,
) -> Result<Response, Problem> {
    let (path, must_be_new) = (fields.text("path").trim(), !fields.is_checked("replace"));
    match write_text(&app, &viewer, &id, path, fields.text("text"), must_be_new).await {
        Ok(()) => Ok(SeeOther::to(&view_address(&id, path)).into_response()),
        Err(Problem(error)) if is_of_session(&error) => Err(error.into()),
        Err(Problem(error)) => {
            let main = html! { (notice(&error)) (write_form(&viewer, &id, &fields)) (back(&id)) };
            Ok(Page::new("Write a file", main).with_status_of(&error).into_response())
        }
    }
}

async fn write_text(
    app: &App,
    viewer: &Viewer,
    id: &str,
    path: &str,
    text: &str,
    must_be_new: bool,
) -> Result<(), Problem> {
    let content = Body::from(text.to_owned());
    let received = files::receive(app, &viewer.caller, id, path.to_owned(), must_be_new, content).await?;
    received.store(app, viewer.actor()).await
}

/// A text for a field: whole, unless hidden characters must be written out.
fn field_text(text: &str) -> Cow<'_, str> {
    match hidden_character(text) {
        None => Cow::Borrowed(text),
        Some(_) => Cow::Owned(visible_text(text)),
    }
}

/// The note of a field that does not keep all characters of its text.
fn written_out(text: &str) -> Markup {
    html! {
        @if field_text(text) != text {
            p.hint {
                "Hidden characters are written as " code { "\\u{…}" } ", and a very long text is cut. To keep them, upload the text as a file."
            }
        }
    }
}

/// Whether the session itself is missing or ended, so that there is no page to show the form on.
fn is_of_session(error: &CallError) -> bool {
    matches!(error.error_type, ErrorType::NotFound | ErrorType::Expired | ErrorType::Forbidden)
}

fn back(id: &str) -> Markup {
    html! { p { a href=(address(id)) { "The session" } } }
}

/// Takes a file from a form.
pub(super) async fn upload(
    State(app): State<App>,
    viewer: Viewer,
    console: Console,
    Path(id): Path<String>,
    fields: FormFields,
    file: Body,
) -> Result<Response, Problem> {
    match store(&app, &viewer, &console, &id, &fields, file).await {
        Ok(()) => Ok(SeeOther::to(&address(&id)).into_response()),
        Err(Problem(error)) if is_of_session(&error) => Err(error.into()),
        Err(Problem(error)) => {
            let main = html! {
                (notice(&error))
                p { "The file was not kept. Choose it again." }
                (upload_form(&viewer, &id, &fields))
                (back(&id))
            };
            Ok(Page::new("Upload a file", main).with_status_of(&error).into_response())
        }
    }
}

async fn store(
    app: &App,
    viewer: &Viewer,
    console: &Console,
    id: &str,
    fields: &FormFields,
    file: Body,
) -> Result<(), Problem> {
    let name = fields.text(FILE_FIELD);
    // A browser sends an empty file without a name where none was chosen. It would replace the one at the path.
    if name.is_empty() {
        return Err(Problem::new(ErrorType::InvalidRequest, "the form has no file", "choose a file"));
    }
    let path = fields.filled_field("path").unwrap_or(name);
    let must_be_new = !fields.is_checked("replace");
    let received = files::receive(app, &viewer.caller, id, path.to_owned(), must_be_new, file).await?;
    let organization = viewer.caller.organization.clone();
    let (app, viewer) = (app.clone(), viewer.clone());
    let storing = async move { received.store(&app, viewer.actor()).await };
    complete_change(console, organization.as_ref(), storing).await?
}

/// The form of an upload, for a person who comes back to its address.
pub(super) async fn upload_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(id): Path<String>,
) -> Result<Page, Problem> {
    app.session_of(&viewer.caller, &id).await?;
    let main = html! { (upload_form(&viewer, &id, &FormFields::default())) (back(&id)) };
    Ok(Page::new("Upload a file", main))
}

/// The address of the page of a session.
pub(super) fn address(id: &str) -> String {
    format!("/console/sessions/{}", percent_encode(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str, length: usize) -> FileStart {
        FileStart { text: Some(text.to_owned()), length: length as u64, digest: String::new() }
    }

    #[test]
    fn o6_only_a_text_that_a_field_keeps_is_changed_in_one() {
        for text in ["", "a\n\tb — é\n", "<b>&amp;"] {
            assert_eq!(file(text, text.len()).editable_text(), Some(text));
        }
        for text in ["a\r\nb", "a\u{202e}b", "\u{feff}a", "\u{1b}[31m", &"x".repeat(PAGE_BYTES + 1)] {
            assert_eq!(file(text, text.len()).editable_text(), None);
        }
        assert_eq!(file("abc", 4).editable_text(), None, "a start");
    }

    #[test]
    fn o6_a_field_says_what_it_does_not_keep() {
        assert_eq!(written_out("a\nb — é").into_string(), "");
        let shown = written_out("a\u{202e}b").into_string();
        assert!(shown.contains("<code>\\u{…}</code>"), "{shown}");
        let path = "deep/".repeat(100);
        let field = path_field("path", &FormFields::of(&[("path", &path)]), true).into_string();
        assert!(field.contains(&format!("value=\"{path}\"")), "a path is not cut: {field}");
    }
}
