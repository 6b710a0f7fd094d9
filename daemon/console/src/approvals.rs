//! The inbox of approvals, and the page that decides one (G11).

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;
use toolgate_api::approval::{ApprovalState, ApprovalView};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;
use toolgate_core::approvals;
use toolgate_core::identity::{Access, Caller};
use toolgate_http::documents::name;
use toolgate_http::extract::{Path, Query};
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_state::clock::{monotonic_ms, now_ms};
use toolgate_state::store::{ApprovalFilter, ApprovalRow};
use url::form_urlencoded::Serializer;

use super::approval_aids::Aids;
use super::decisions::{decision, plain_decision};
use super::elements::{PAGE_BYTES, ROWS, badge, editable, filter, json, label_cells, notice, table, token};
use super::fields::Field;
use super::form::{FormFields, SeeOther};
use super::page::Page;
use super::text::sentence;
use super::text::{block, brief, cut, is_shown_whole, time, visible_text};
use super::viewer::Viewer;
use super::wishes::wish;
use super::{Console, changes};

/// Longest start of the arguments in a row, in characters.
pub(super) const START_CHARS: usize = 160;
/// Columns of the inbox.
const HEADINGS: [&str; 6] = ["Tool", "Agent", "What", "Asked", "Expires", "State"];
/// Longest arguments of a call that is decided with another one, in characters.
const ALIKE_CHARS: usize = 1_000;
/// Calls that are decided with another one.
const ALIKE: usize = 20;
/// Approvals that are counted at most.
const COUNTED: u64 = 100;

/// Query parameters of the inbox.
#[derive(Clone, Default, Deserialize)]
pub(super) struct InboxQuery {
    #[serde(default)]
    state: String,
    #[serde(default)]
    organization: String,
    #[serde(default)]
    cursor: String,
}

/// The filters of an inbox, as its viewer may use them.
pub(super) struct ScopedInbox {
    query: InboxQuery,
    /// None for every organization.
    organization: Option<Name>,
    state: Option<ApprovalState>,
}

/// A page of approvals.
pub(super) struct InboxPage {
    query: InboxQuery,
    rows: Vec<ApprovalRow>,
    next: Option<String>,
    now_ms: u64,
}

/// A page of approvals, those that wait first.
pub(super) async fn inbox(
    State(app): State<App>,
    viewer: Viewer,
    Query(query): Query<InboxQuery>,
) -> Result<Page, Problem> {
    let scoped = query.clone().check_scope(&app, &viewer.caller)?;
    let list = render_list(&load(&app, &scoped).await?);
    // A later page does not change under its reader.
    let address = |part: &str| {
        query.cursor.is_empty().then(|| format!("/console/approvals/{part}?{}", query.encode(None)))
    };
    Ok(Page::new(
        "Approvals",
        html! {
            (filters(&query, viewer.caller.organization.is_none()))
            div data-live=[address("live/fragment")] data-refresh=[address("fragment")] data-order="oldest" { (list) }
            div data-notify {}
        },
    ))
}

/// The rows of the first page, for a script without a stream.
pub(super) async fn fragment(
    State(app): State<App>,
    viewer: Viewer,
    console: Console,
    Query(query): Query<InboxQuery>,
) -> Result<Page, Problem> {
    let key = format!("approvals {} {}", scope(&viewer), query.encode(Some(&query.cursor)));
    let scoped = query.check_scope(&app, &viewer.caller)?;
    let rendering = async { Ok(render_list(&load(&app, &scoped).await?)) };
    Ok(Page::fragment(console.rendered.get(key, rendering).await?))
}

/// The number of approvals that wait, for the navigation.
pub(super) async fn count(State(app): State<App>, viewer: Viewer, console: Console) -> Result<Page, Problem> {
    viewer.caller.may(Access::Decide)?;
    let key = format!("count {}", scope(&viewer));
    let counting = open_count(&app, viewer.caller.organization.as_ref());
    Ok(Page::fragment(console.rendered.get(key, counting).await?))
}

/// The number of approvals that wait, of one organization or of all; nothing where there are none.
pub(super) async fn open_count(app: &App, organization: Option<&Name>) -> Result<Markup, Problem> {
    let waiting = app.services().store.count_open_approvals(organization, now_ms(), COUNTED).await;
    let waiting = waiting?;
    let shown = if waiting < COUNTED { waiting.to_string() } else { format!("{}+", COUNTED - 1) };
    Ok(html! {
        @if waiting > 0 { " " span .count data-count=(waiting) { (shown) span .unseen { " waiting" } } }
    })
}

/// The organization whose approvals the viewer sees; none for all.
fn scope(viewer: &Viewer) -> &str {
    viewer.caller.organization.as_ref().map_or("", |organization| organization.as_str())
}

/// One approval, with the forms that decide it.
pub(super) async fn page(
    State(app): State<App>,
    viewer: Viewer,
    Path(id): Path<String>,
) -> Result<Page, Problem> {
    let row = find(&app, &viewer, &id).await?;
    one(&app, &viewer, row, &FormFields::default(), None).await
}

/// Decides an approval, and those of the same shape that were chosen with it. A refusal is shown on its page, with what was written.
pub(super) async fn decide(
    State(app): State<App>,
    viewer: Viewer,
    Path(id): Path<String>,
    fields: FormFields,
) -> Result<Response, Problem> {
    let bound = find(&app, &viewer, &id).await?;
    let decided = match decision(&fields, &bound.arguments, now_ms()) {
        Ok(request) => app.admin().decide_approval(viewer.actor(), &id, request).await,
        Err(error) => Err(error),
    };
    if let Err(error) = decided {
        let row = find(&app, &viewer, &id).await?;
        return Ok(one(&app, &viewer, row, &fields, Some(&error))
            .await?
            .with_status_of(&error)
            .into_response());
    }
    for also in fields.all("also").take(ALIKE) {
        if let Err(error) = decide_alike(&app, &viewer, also, &bound, &fields).await {
            // The first one is decided: its page says so, and what kept this one.
            let told = html! { div .notice.error { p { "This call is decided, and not all of the chosen ones." } } (notice(&error)) };
            let page = one(&app, &viewer, find(&app, &viewer, &id).await?, &fields, None).await?;
            return Ok(page.with_notice(&told).with_status_of(&error).into_response());
        }
    }
    Ok(SeeOther::to(&format!("/console/approvals/{id}")).into_response())
}

/// Decides another approval as the first one, if the page showed it beside that.
async fn decide_alike(
    app: &App,
    viewer: &Viewer,
    id: &str,
    first: &ApprovalRow,
    fields: &FormFields,
) -> Result<ApprovalRow, CallError> {
    let row = find(app, viewer, id).await.map_err(|Problem(error)| error)?;
    if !is_alike(&row, first) {
        let message = "one of the chosen calls is not of this tool and agent";
        return Err(CallError::new(ErrorType::InvalidRequest, message, "open it, and decide it by itself"));
    }
    let request = plain_decision(fields, &row.arguments)?;
    app.admin().decide_approval(viewer.actor(), id, request).await
}

impl InboxQuery {
    /// The asked state; those that wait, if none is named.
    fn state(&self) -> Result<Option<ApprovalState>, Problem> {
        match self.state.as_str() {
            "" => Ok(Some(ApprovalState::Pending)),
            "all" => Ok(None),
            other => ApprovalState::parse(other).map(Some).ok_or_else(|| {
                let hint = "choose a state of the list";
                Problem::new(ErrorType::InvalidRequest, "`state` is not a state of approvals", hint)
            }),
        }
    }

    /// The cursor, if there is one.
    pub(super) fn cursor(&self) -> Option<&str> {
        Some(self.cursor.as_str()).filter(|cursor| !cursor.is_empty())
    }

    /// The filters of the first page.
    pub(super) fn without_cursor(self) -> Self {
        Self { cursor: String::new(), ..self }
    }

    /// Checks that the caller may see these approvals.
    pub(super) fn check_scope(self, app: &App, caller: &Caller) -> Result<ScopedInbox, Problem> {
        caller.may(Access::Decide)?;
        let asked = Some(self.organization.as_str()).filter(|text| !text.is_empty()).map(name).transpose()?;
        if let Some(organization) = &asked {
            app.admin().expect_decides(caller, organization)?;
        }
        let organization = asked.or_else(|| caller.organization.clone());
        Ok(ScopedInbox { state: self.state()?, organization, query: self })
    }

    fn encode(&self, cursor: Option<&str>) -> String {
        let mut query = Serializer::new(String::new());
        for (key, value) in [("state", self.state.as_str()), ("organization", &self.organization)] {
            if !value.is_empty() {
                query.append_pair(key, value);
            }
        }
        if let Some(cursor) = cursor {
            query.append_pair("cursor", cursor);
        }
        query.finish()
    }
}

async fn find(app: &App, viewer: &Viewer, id: &str) -> Result<ApprovalRow, Problem> {
    viewer.caller.may(Access::Decide)?;
    let found = app.services().store.approval(id, viewer.caller.organization.as_ref()).await;
    Ok(found?)
}

/// Reads a page of approvals, the oldest first.
pub(super) async fn load(app: &App, inbox: &ScopedInbox) -> Result<InboxPage, Problem> {
    let ScopedInbox { query, organization, state } = inbox;
    let store = &app.services().store;
    // One more than is shown, so that a cut start says so.
    let filter = ApprovalFilter { organization: organization.as_ref(), state: *state, after: query.cursor() };
    let found = store.inbox_approvals(filter, ROWS + 1, START_CHARS + 1).await;
    let mut rows = found?;
    let has_more = rows.len() > ROWS as usize;
    rows.truncate(ROWS as usize);
    let next = rows.last().filter(|_| has_more).map(|row| row.id.clone());
    Ok(InboxPage { query: query.clone(), rows, next, now_ms: now_ms() })
}

/// The table of a page of approvals, with the link to the next one.
pub(super) fn render_list(page: &InboxPage) -> Markup {
    let rows = html! { @for row in &page.rows { (row_of(row, page.now_ms)) } };
    html! {
        @if page.rows.is_empty() { (empty(&page.query)) }
        @else { (table("Approvals, the oldest first", &HEADINGS, &rows)) }
        @if let Some(next) = &page.next {
            p { a href={ "/console/approvals?" (page.query.encode(Some(next))) } { "Next page" } }
        }
    }
}

/// The rows of a page, each with its id.
pub(super) fn render_rows(page: &InboxPage) -> Vec<(String, String)> {
    let shown = |row| label_cells(&HEADINGS, &row_of(row, page.now_ms)).0;
    page.rows.iter().map(|row| (row.id.clone(), shown(row))).collect()
}

fn empty(query: &InboxQuery) -> Markup {
    html! {
        div .empty {
            @if query.state.is_empty() {
                p { strong { "No call waits for approval." } }
                p {
                    "Calls of an agent with the autonomy " code { "supervised" }
                    " wait here. A policy can ask for single tools, too: "
                    code { "toolgate policy put ORGANIZATION FILE" } "."
                }
            } @else {
                p { strong { "No approval matches." } }
                p { a href="/console/approvals" { "Show those that wait" } }
            }
        }
    }
}

fn filters(query: &InboxQuery, is_of_platform: bool) -> Markup {
    let states = ApprovalState::ALL.iter().filter(|state| **state != ApprovalState::Pending);
    html! {
        form .filters method="get" action="/console/approvals" {
            div {
                label for="state" { "State" }
                select #state name="state" {
                    option value="" { "pending" }
                    @for state in states {
                        option value=(state.as_str()) selected[state.as_str() == query.state] { (state.as_str()) }
                    }
                    option value="all" selected[query.state == "all"] { "all" }
                }
            }
            @if is_of_platform { (filter("organization", "Organization", Some(&query.organization))) }
            button type="submit" { "Show" }
        }
    }
}

fn row_of(row: &ApprovalRow, now_ms: u64) -> Markup {
    html! {
        tr data-row=(row.id) {
            th scope="row" { a href={ "/console/approvals/" (row.id) } { (row.tool) } }
            td { (row.organization) "/" (row.agent) }
            td .wide { (wish_or_start(row)) }
            td { (time(row.created_ms)) }
            td { (time(row.expires_ms)) }
            td { (state(approvals::shown_state(row, now_ms))) }
        }
    }
}

/// What the call wants; the start of arguments that are too long to be read here.
pub(super) fn wish_or_start(row: &ApprovalRow) -> Markup {
    match row.arguments.chars().count() > START_CHARS {
        true => html! { code { (cut(&row.arguments, START_CHARS)) } },
        false => wish(&row.tool, &row.arguments),
    }
}

fn state(state: ApprovalState) -> Markup {
    let tone = match state {
        ApprovalState::Pending => "warn",
        ApprovalState::Approved | ApprovalState::Used => "good",
        ApprovalState::Denied | ApprovalState::Void | ApprovalState::Expired => "bad",
    };
    badge(tone, state.as_str())
}

/// Lays out an approval: what is wanted and why, the arguments, the decision, and the rest folded.
async fn one(
    app: &App,
    viewer: &Viewer,
    row: ApprovalRow,
    fields: &FormFields,
    error: Option<&CallError>,
) -> Result<Page, Problem> {
    let own = &*viewer.caller.token_id;
    let is_own = row.opened_by == own || row.asked_by == own;
    let is_pending = approvals::shown_state(&row, now_ms()) == ApprovalState::Pending;
    let aids = if is_pending { Aids::of_call(app, viewer, &row).await } else { Aids::default() };
    let queue = Queue::around(app, viewer, &row).await?;
    let view = approvals::view(&app.services().store, row, now_ms()).await?;
    let decides = is_pending && !is_own;
    Ok(Page::new(
        format!("Approval of {}", view.tool),
        html! {
            (queue.render())
            @if let Some(error) = error { (refusal(&view, error)) }
            (head(&view))
            @if is_pending { p .quiet role="status" data-refresh={ "/console/approvals/" (view.id) "/others/fragment" } {} }
            (aids.reasons)
            @match aids.change {
                Some(change) => { (change) (folded_arguments(&view)) }
                None => (shown_arguments(&view)),
            }
            @if decides { (forms(viewer, &view, fields, &queue)) }
            @if is_pending && is_own {
                div .notice {
                    p { "Your token opened this session, or made this call. Somebody else decides about it." }
                }
            }
            @if decides && is_shown_whole(view.arguments.get()) { (other_forms(viewer, &view, fields)) }
            (aids.cost)
            (bound_to(&view))
            p { a href="/console/approvals" { "All approvals that wait" } }
        },
    ))
}

/// Who else looks at an approval, for a script that asks again and again.
pub(super) async fn others(
    State(app): State<App>,
    viewer: Viewer,
    console: Console,
    Path(id): Path<String>,
) -> Result<Page, Problem> {
    let row = find(&app, &viewer, &id).await?;
    let others = console.watchers.look(&row.id, &viewer.caller.token_id, monotonic_ms());
    let labels = app.services().store.token_labels(&others.iter().map(|id| &**id).collect()).await?;
    let is_decided = approvals::shown_state(&row, now_ms()) != ApprovalState::Pending;
    Ok(Page::fragment(html! {
        @if is_decided { "It is decided: " a href={ "/console/approvals/" (row.id) } { "open the page again" } ". " }
        @if !others.is_empty() {
            "Also here: "
            @for (at, id) in others.iter().enumerate() {
                @if at > 0 { ", " }
                (token(id, labels.get(id).as_deref()))
            }
            "."
        }
    }))
}

/// The approvals that wait around one: its neighbours, and those of the same tool and agent.
struct Queue {
    previous: Option<String>,
    next: Option<ApprovalRow>,
    /// The place of the approval, and how many wait.
    place: Option<(usize, usize)>,
    alike: Vec<ApprovalRow>,
}

impl Queue {
    async fn around(app: &App, viewer: &Viewer, row: &ApprovalRow) -> Result<Self, Problem> {
        let state = Some(ApprovalState::Pending);
        let filter = ApprovalFilter { organization: viewer.caller.organization.as_ref(), state, after: None };
        let found = app.services().store.inbox_approvals(filter, ROWS, ALIKE_CHARS + 1).await;
        let mut waiting = found?;
        let place = waiting.iter().position(|other| other.id == row.id);
        let id = |at: usize| waiting.get(at).map(|other| other.id.clone());
        let previous = place.and_then(|at| id(at.checked_sub(1)?));
        let next = waiting.get(place.map_or(0, |at| at + 1)).cloned();
        let count = waiting.len();
        waiting.retain(|other| other.id != row.id && is_alike(other, row));
        waiting.truncate(if place.is_some() { ALIKE } else { 0 });
        Ok(Self { previous, next, place: place.map(|at| (at + 1, count)), alike: waiting })
    }

    fn render(&self) -> Markup {
        if self.previous.is_none() && self.next.is_none() {
            return html! {};
        }
        html! {
            nav .queue aria-label="Approvals that wait" {
                @if let Some(id) = &self.previous {
                    a rel="prev" aria-keyshortcuts="p" href={ "/console/approvals/" (id) } { "Previous" }
                }
                @if let Some((place, count)) = self.place {
                    span .quiet { (place) " of " (count) @if count == ROWS as usize { " or more" } }
                }
                @if let Some(next) = &self.next {
                    a rel="next" aria-keyshortcuts="n" href={ "/console/approvals/" (next.id) } {
                        "Next" span .unseen { ": " (next.tool) " for " (next.agent) }
                    }
                }
            }
        }
    }

    /// The others of the same shape, each to be decided with this one.
    fn fields(&self) -> Markup {
        if self.alike.is_empty() {
            return html! {};
        }
        html! {
            details {
                summary { (self.alike.len()) " more of this tool and agent wait" }
                fieldset {
                    legend { "Decide these, too" }
                    @for other in &self.alike {
                        label .choice { input type="checkbox" name="also" value=(other.id); code { (cut(&other.arguments, ALIKE_CHARS)) } }
                    }
                }
            }
        }
    }
}

/// Whether one decision may be about both calls: of one tool and agent, and shown whole in a line.
fn is_alike(other: &ApprovalRow, row: &ApprovalRow) -> bool {
    let of = |row: &ApprovalRow| (row.organization.clone(), row.agent.clone(), row.tool.clone());
    of(other) == of(row) && other.arguments.chars().count() <= ALIKE_CHARS
}

/// Why a decision was refused. The second of two people is told who decided.
fn refusal(view: &ApprovalView, error: &CallError) -> Markup {
    html! {
        div .notice.error role="alert" {
            @if let (ErrorType::Conflict, Some(by), Some(at)) = (error.error_type, &view.decided_by, view.decided_at) {
                p {
                    strong { "Already decided: " (view.state.as_str()) " by " code { (visible_text(by)) } " at " (time(at)) "." }
                }
                p { "Your decision was not stored." }
            } @else {
                p { strong { (sentence(&visible_text(&error.message))) "." } }
                p { (sentence(&visible_text(&error.hint))) "." }
            }
            p .quiet { "Code " code { (error.error_type.as_str()) } }
        }
    }
}

/// What is wanted, by whom and for whom, in words; before it the decision, if there is one.
pub(super) fn head(view: &ApprovalView) -> Markup {
    let people = [("user", &view.user), ("conversation", &view.conversation), ("channel", &view.channel)];
    html! {
        @if view.decided_at.is_some() { (decision_made(view)) }
        p .lead { strong { (view.agent) } " of " (view.organization) " " (wish(&view.tool, view.arguments.get())) "." }
        p .quiet {
            (state(view.state)) " · asked by " (token(&view.asked_by, view.asked_by_label.as_deref())) " " (time(view.created_at))
            @for (label, value) in people { @if let Some(value) = value { " · " (label) " " (visible_text(value)) } }
            " · expires " (time(view.expires_at))
        }
    }
}

/// The arguments byte for byte, below a readable form where there is one.
pub(super) fn shown_arguments(view: &ApprovalView) -> Markup {
    let readable = changes::of_files(view.arguments.get());
    html! {
        @if readable.0.is_empty() { h2 { "Arguments" } (arguments(view.arguments.get(), &view.id)) }
        @else { (readable) (folded_arguments(view)) }
    }
}

fn folded_arguments(view: &ApprovalView) -> Markup {
    let text = view.arguments.get();
    html! {
        @if is_shown_whole(text) { details { summary { "The arguments, byte for byte" } (block(text)) } }
        @else { h2 { "Arguments" } (arguments(text, &view.id)) }
    }
}

/// What else the approval is bound to.
pub(super) fn bound_to(view: &ApprovalView) -> Markup {
    html! {
        details {
            summary { "Rules that ask" }
            p { "A change of these rules, the plugin or the session makes the approval void." }
            (json(&view.rules, PAGE_BYTES))
        }
        details {
            summary { "Plugin, session and call" }
            dl {
                dt { "Tool" } dd { code { (view.tool) } }
                dt { "Plugin version" } dd { (visible_text(&view.plugin_version)) }
                dt { "Plugin digest" } dd { code { (view.plugin_digest) } }
                dt { "Session" } dd { code { (view.session) } }
                dt { "Call" } dd { code { (visible_text(&view.call)) } }
                dt { "Approval" } dd { code { (view.id) } }
            }
        }
    }
}

fn arguments(text: &str, id: &str) -> Markup {
    html! {
        p { "The call runs with exactly these bytes. Invisible characters are written as " code { "\\u{…}" } "." }
        @if !is_shown_whole(text) {
            div .notice.warn {
                p { "This page does not show all of the " (text.len()) " bytes, so the call can only be denied here. "
                    code { "toolgate approval show " (id) } " shows all of them, and "
                    code { "toolgate approval approve " (id) } " approves them." }
            }
        }
        (block(text))
    }
}
fn decision_made(view: &ApprovalView) -> Markup {
    html! {
        div .notice {
            p {
                strong { (sentence(view.state.as_str())) }
                @if let Some(by) = &view.decided_by { ": decided by " (token(by, view.decided_by_label.as_deref())) }
                @if let Some(at) = view.decided_at { " at " (time(at)) }
                "."
            }
            @if let Some(reason) = &view.reason { p .data { "Reason: " (visible_text(reason)) } }
            @if view.state == ApprovalState::Approved { p { "Calls left: " (view.uses_left) } }
            @if let Some(constraints) = &view.constraints {
                p { "These places may vary:" } (block(constraints.get()))
            }
            @if let Some(instead) = &view.arguments_instead {
                p { "The call runs with other arguments:" } (block(instead.get()))
            }
        }
    }
}

/// The decision, which stays in view.
fn forms(viewer: &Viewer, view: &ApprovalView, fields: &FormFields, queue: &Queue) -> Markup {
    let address = format!("/console/approvals/{}", view.id);
    html! {
        div .decide {
            h2 .unseen { "Decision" }
            (viewer.form(&address, &[], html! {
                (queue.fields())
                (decision_fields(fields, view.arguments.get()))
            }))
        }
    }
}

/// The forms that approve more calls, and other arguments.
fn other_forms(viewer: &Viewer, view: &ApprovalView, fields: &FormFields) -> Markup {
    let address = &format!("/console/approvals/{}", view.id);
    let kind = fields.text("form");
    let instead = if kind == "instead" { fields.text("arguments_instead") } else { view.arguments.get() };
    let pointers = r#"{"/amount": {"type": "integer", "maximum": 100}}"#;
    html! {
        details open[kind == "shape"] {
            summary { "Approve more calls of this shape" }
            (viewer.form(address, &[("form", &"shape")], html! {
                (Field::new("uses", "Calls").number(1, Some(1000)).value(fields.text("uses")))
                (Field::new("minutes", "For how many minutes").number(1, None).value(fields.text("minutes")))
                (Field::new("until", "Or until").kind("datetime-local").value(brief(fields.text("until")))
                    .hint("In UTC. Both empty: as long as an approval lasts here."))
                (Field::new("arguments", "Places of the arguments that may vary").value(fields.text("arguments")).lines(3).hint(html! {
                    "JSON pointers, each with a schema or a value: " code { (pointers) } ". Empty: the same arguments only."
                }))
                button type="submit" name="decision" value="approve" { "Approve these calls" }
            }))
        }
        details open[kind == "instead"] {
            summary { "Approve with other arguments" }
            (viewer.form(address, &[("form", &"instead")], html! {
                (Field::new("arguments_instead", "Arguments").id("instead").value(editable(instead)).lines(12)
                    .hint("The call runs once with these. The tool's schema is checked first, and the model is told."))
                button type="submit" name="decision" value="approve" { "Approve with these arguments" }
            }))
        }
    }
}

/// The reason with both buttons; without that of an approval where the page cuts the bound arguments. Enter in the reason
/// sends nothing, as it is a text area.
pub(super) fn decision_fields(fields: &FormFields, bound: &str) -> Markup {
    html! {
        (Field::new("reason", "Reason, which the model is told of a denial").value(fields.text("reason")).lines(1).max_chars(1000))
        @if is_shown_whole(bound) { button type="submit" name="decision" value="approve" { "Approve this call" } }
        button .danger type="submit" name="decision" value="deny" { "Deny" }
    }
}
