//! The inbox of approvals, and the page that decides one.

use super::page::Page;

pub(super) async fn inbox() -> Page {
    Page::new("Approvals", maud::html! {})
}
pub(super) async fn fragment() -> Page {
    Page::fragment(maud::html! {})
}
pub(super) async fn page() -> Page {
    Page::new("Approval", maud::html! {})
}
pub(super) async fn decide() -> Page {
    Page::new("Approval", maud::html! {})
}
