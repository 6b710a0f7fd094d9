//! Links that let one person decide one approval without a session (G18).

use axum::extract::Request;

use super::page::Page;

pub(super) fn landing(_request: &Request) -> Option<Page> {
    None
}
pub(super) async fn show() -> Page {
    Page::new("Approval", maud::html! {})
}
pub(super) async fn decide() -> Page {
    Page::new("Approval", maud::html! {})
}
pub(super) async fn decided() -> Page {
    Page::new("Decided", maud::html! {})
}
