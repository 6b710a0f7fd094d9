//! Aids to decide about a call, beside its bytes: the change of a file against the file as it is, the rule that asks in words,
//! and what the call may use.

use std::borrow::Cow;

use maud::{Markup, html};
use serde_json::Value;
use toolgate_admission::{Rules, SessionFacts, session_limits};
use toolgate_api::definition::{CustomToolDefinition, Method};
use toolgate_api::explain::StepAnswer;
use toolgate_api::limits::Limits;
use toolgate_api::name::Namespace;
use toolgate_api::quota::Quota;
use toolgate_core::admin::explain;
use toolgate_http::files::read_whole;
use toolgate_http::state::App;
use toolgate_sandbox::Component;
use toolgate_state::documents::{DocumentKey, ToolKey};
use toolgate_state::store::ApprovalRow;

use super::changes::difference;
use super::elements::{bytes, duration, facts, number, short, with_code};
use super::viewer::Viewer;

/// The tool that replaces a whole file by its argument `content`.
const WRITE: &str = "files/write";
/// Longest file that is compared, in bytes.
const FILE_BYTES: u64 = 64 * 1024;
/// Quotas that are listed.
const QUOTAS: usize = 10;

/// What helps to decide about a call.
#[derive(Default)]
pub(super) struct Aids {
    /// Why it asks, and the request of a tool that was made from a definition.
    pub reasons: Markup,
    /// The change of a file against the file as it is.
    pub change: Option<Markup>,
    /// What it may use.
    pub cost: Markup,
}

impl Aids {
    /// Approvers who may not read the session's files see no comparison with them.
    pub(super) async fn of_call(app: &App, viewer: &Viewer, row: &ApprovalRow) -> Self {
        let change = file_change(app, viewer, row).await;
        let request = request_of(app, row).await;
        let rules = app.services().registry.snapshot().rules(&row.organization, &row.agent);
        let Some(rules) = rules else { return Self { change, ..Self::default() } };
        Self {
            reasons: html! {
                (reasons(&rules, row, viewer.caller.organization.is_none()))
                @if let Some((method, url)) = request { p { "It sends " code { (method.as_str()) " " (short(&url)) } "." } }
            },
            change,
            cost: cost(&rules, row).unwrap_or_default(),
        }
    }
}

/// Method and URL of the action of a definition, with the places of its arguments in braces.
async fn request_of(app: &App, row: &ApprovalRow) -> Option<(Method, String)> {
    let (namespace, tool) = row.tool.split_once('/')?;
    let namespace = Namespace::parse(namespace).ok()?;
    let key = DocumentKey::Tool(ToolKey { organization: row.organization.clone(), namespace });
    let stored = app.services().store.find_document(&key).await.ok()??;
    let definition: CustomToolDefinition = serde_json::from_str(&stored.body).ok()?;
    // The name of the tool has the letters and digits of the action's.
    let plain = |name: &str| {
        name.chars().filter(|letter| letter.is_alphanumeric()).collect::<String>().to_lowercase()
    };
    let mut actions = definition.actions?.into_iter().filter(|action| plain(&action.name) == plain(tool));
    let (action, other) = (actions.next()?, actions.next());
    other
        .is_none()
        .then(|| (action.method, format!("{}{}", definition.base_url.unwrap_or_default(), action.path)))
}

/// The rules that ask now, each with its reason.
fn reasons(rules: &Rules<Component>, row: &ApprovalRow, sees_platform: bool) -> Markup {
    let facts = SessionFacts { channel: row.channel.clone(), ..SessionFacts::default() };
    let tool = explain(rules, &facts, Some(&row.tool), sees_platform).tools.pop();
    let not_granted = tool.as_ref().and_then(|tool| tool.not_granted.as_deref()).map(without_grant);
    let steps = tool.and_then(|tool| tool.steps).unwrap_or_default();
    let asking: Vec<_> = steps.iter().filter(|step| step.verdict == StepAnswer::NeedsApproval).collect();
    html! {
        @if let Some(warning) = not_granted { (warning) }
        @if !asking.is_empty() {
            p { strong { "Why it asks:" } }
            ul .tight {
                @for step in asking {
                    li {
                        (step.layer) @if let Some(rule) = &step.rule { " · " (rule) }
                        @if let Some(why) = &step.why { ": " (with_code(why)) }
                    }
                }
            }
        }
    }
}

/// Tells that a call would fail, so that nobody decides about it in vain.
pub(super) fn without_grant(missing: &[Cow<'static, str>]) -> Markup {
    html! {
        div.notice.warn {
            p {
                "The plugin asks for " (missing.join(", ")) " and has no grant for it: what needs it fails, also after an approval. "
                "An operator grants it with " code { "toolgate plugin grant" } "."
            }
        }
    }
}

/// The file that the call would replace, against its new content.
async fn file_change(app: &App, viewer: &Viewer, row: &ApprovalRow) -> Option<Markup> {
    if row.tool != WRITE {
        return None;
    }
    let arguments: Value = serde_json::from_str(&row.arguments).ok()?;
    let (path, content) = (arguments.get("path")?.as_str()?, arguments.get("content")?.as_str()?);
    if arguments.get("encoding").is_some_and(|encoding| encoding != "text") {
        return None;
    }
    let session = app.session_of(&viewer.caller, &row.session).await.ok()?;
    let current = String::from_utf8(read_whole(app, &session, path, FILE_BYTES).await?).ok()?;
    Some(html! {
        h3 { "Against the file as it is now" }
        p.quiet { "The file may change before the call runs." }
        (difference(&current, content))
    })
}

/// The most that the call may use, and the quotas of the organization that it counts against.
fn cost(rules: &Rules<Component>, row: &ApprovalRow) -> Option<Markup> {
    let tool = rules.catalogue.find(&row.tool)?;
    let Limits { fuel, deadline_ms, memory_bytes, .. } = session_limits(rules);
    let units = tool.descriptor().cost;
    let quotas = rules.organization.document().quotas.iter().chain(rules.agent.document().quotas.iter());
    let quotas: Vec<&Quota> = quotas.take(QUOTAS).collect();
    Some(html! {
        details {
        summary { "What it would cost" }
        (facts(&[
            ("Cost", html! { (number(units)) " units, as the tool declares" }),
            ("At most", html! {
                (number(fuel)) " instructions, " (duration(deadline_ms.saturating_mul(1_000))) ", " (bytes(memory_bytes)) " of memory"
            }),
        ]))
        @if !quotas.is_empty() {
            p { "It counts against these quotas:" }
            ul { @for quota in quotas { li { (quota_line(quota)) } } }
        }
        }
    })
}

fn quota_line(quota: &Quota) -> Markup {
    html! {
        code { (short(quota.name.as_str())) } ": at most " (number(quota.amount)) " " (quota.measure.to_string())
        @if let Some(seconds) = quota.seconds { " in " (number(seconds.into())) " seconds" }
        @if quota.tools.is_some() { ", of some tools" }
    }
}
