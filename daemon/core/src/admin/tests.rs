//! Acts beside running calls: deletion, revocation, disabling, and decisions about approvals.

use std::sync::atomic::Ordering;

use toolgate_api::approval::{Choice, DecisionRequest};
use toolgate_api::call::{CallStatus, Executed};
use toolgate_api::name::Namespace;
use toolgate_api::token::Role;
use toolgate_state::documents::Precondition;

use super::*;
use crate::call::CallAnswer;
use crate::dispatch::tests::daemon::{
    ADD, COMPONENT, DELETE, FINISHED, NOT_RUN, STOPPED, TestDaemon, acme, agent_key, call, end, end_of,
};
use crate::identity::NewToken;
use crate::plugins::{LoadRequest, LoadSource, PluginLoad};

#[tokio::test]
async fn r6_the_deletion_of_an_agent_ends_its_sessions_and_cancels_their_calls() {
    let mut daemon = TestDaemon::start(2).await;
    daemon.add_agent("other").await;
    let (session, other) = (daemon.open_session().await, daemon.open_session_of("other").await);
    let (running, _first) = daemon.run(&session, call("c1", ADD)).await;
    let (of_other, second) = daemon.run(&other, call("c1", ADD)).await;
    let waiting = daemon.post_waiting(&session, call("c2", ADD)).await;
    let (admin, actor) = (&daemon.admin, daemon.actor());
    admin.delete_document(actor, &agent_key("bot"), &Precondition::Present).await.unwrap();
    assert_eq!(end(running).await, STOPPED);
    assert_eq!(end(waiting).await, NOT_RUN);
    let sessions = &daemon.services().sessions;
    assert!(sessions.find(&session.setup.id).is_none() && sessions.find(&other.setup.id).is_some());
    second.finish();
    assert_eq!(end(of_other).await, FINISHED);
}

#[tokio::test]
async fn r6_the_revocation_of_a_token_cancels_its_calls_and_no_others() {
    let mut daemon = TestDaemon::start(2).await;
    let session = daemon.open_session().await;
    let wanted = NewToken {
        role: Role::Orchestrator,
        organization: Some(acme()),
        agents: None,
        label: String::new(),
        expires_ms: None,
        addresses: None,
        user: None,
    };
    let (token, _) = daemon.admin.create_token(daemon.actor(), wanted).await.unwrap();
    let id = token.summary.id;
    let caller = daemon.services().identity.caller_with_id(&id).unwrap();
    let origin = Actor { caller: &caller, ..daemon.actor() }.origin();
    let running = daemon.post_as(&origin, &session, call("c1", ADD));
    let _first = daemon.started().await;
    let (of_other, second) = daemon.run(&session, call("c2", ADD)).await;
    let waiting = daemon.post_as(&origin, &session, call("c3", ADD));
    daemon.admin.revoke_token(daemon.actor(), &id).await.unwrap();
    assert_eq!(end(running).await, STOPPED);
    assert_eq!(end(waiting).await, NOT_RUN);
    let later = daemon.post_as(&origin, &session, call("c4", ADD));
    assert_eq!(end(later).await, NOT_RUN);
    second.finish();
    assert_eq!(end(of_other).await, FINISHED);
    assert_eq!(daemon.started_beside(), None);
}

#[tokio::test]
async fn a_disabled_plugin_refuses_the_next_call_and_lets_the_running_one_end() {
    let mut daemon = TestDaemon::start(2).await;
    let namespace = Namespace::parse("answers").unwrap();
    let request = LoadRequest::new(namespace.clone(), LoadSource::Upload);
    let load = PluginLoad::new(Some(COMPONENT.into()), request);
    daemon.admin.load_plugin(daemon.actor(), load, None).await.unwrap();
    let session = daemon.open_session().await;
    let (running, first) = daemon.run(&session, call("c1", "answers/answer")).await;
    daemon.admin.switch_plugin(daemon.actor(), &namespace, true).await.unwrap();
    let refused = daemon.post(&session, call("c2", "answers/answer"));
    assert_eq!(end(refused).await, (Some(ErrorType::ToolDisabled), Executed::No));
    first.finish();
    assert_eq!(end(running).await, FINISHED);
    daemon.admin.switch_plugin(daemon.actor(), &namespace, false).await.unwrap();
    let enabled = daemon.post(&session, call("c3", "answers/answer"));
    daemon.finish_next(enabled).await;
}

/// Decides the approval that a call waits for, as another principal than the one that made the call.
async fn decide(daemon: &TestDaemon, waiting: &CallAnswer, decision: Choice) {
    let id = &waiting.approval().expect("the call waits for an approval").id;
    let request = DecisionRequest {
        decision,
        reason: None,
        arguments: None,
        arguments_instead: None,
        uses: None,
        expires_at: None,
    };
    daemon.admin.decide_approval(daemon.actor(), id, request).await.unwrap();
}

#[tokio::test]
async fn g11_an_approved_call_that_is_posted_twice_at_once_runs_once() {
    let mut daemon = TestDaemon::start(2).await;
    let session = daemon.open_session().await;
    let waiting = daemon.post(&session, call("c1", DELETE)).await.unwrap();
    assert_eq!(daemon.started_beside(), None);
    decide(&daemon, &waiting, Choice::Approve).await;
    let (one, two) = (daemon.post(&session, call("c1", DELETE)), daemon.post(&session, call("c1", DELETE)));
    let started = daemon.started().await;
    assert_eq!(two.await.unwrap().status(), CallStatus::Running);
    started.finish();
    assert_eq!(end(one).await, FINISHED);
    assert!(daemon.post(&session, call("c1", DELETE)).await.unwrap().replayed);
    assert_eq!(daemon.started_beside(), None);
}

#[tokio::test]
async fn g11_a_denied_call_does_not_run_when_it_is_posted_again() {
    let mut daemon = TestDaemon::start(2).await;
    let session = daemon.open_session().await;
    let waiting = daemon.post(&session, call("c1", DELETE)).await.unwrap();
    decide(&daemon, &waiting, Choice::Deny).await;
    let again = daemon.post(&session, call("c1", DELETE));
    assert_eq!(end(again).await, (Some(ErrorType::ApprovalDenied), Executed::No));
    assert_eq!(daemon.started_beside(), None);
}

/// The decision comes before, within and after the look-up of the approval.
#[tokio::test]
async fn g11_a_call_that_is_approved_while_it_is_posted_again_runs_exactly_once() {
    let mut daemon = TestDaemon::start(2).await;
    let session = daemon.open_session().await;
    let runs = daemon.finish_each();
    for number in 1..=16 {
        let deletion = call(&format!("c{number}"), DELETE);
        let waiting = daemon.post(&session, deletion.clone()).await.unwrap();
        let approving = async {
            for _ in 0..number {
                tokio::task::yield_now().await;
            }
            decide(&daemon, &waiting, Choice::Approve).await;
        };
        let (posted, ()) = tokio::join!(daemon.post(&session, deletion.clone()), approving);
        let mut answer = posted.unwrap();
        if answer.status() == CallStatus::ApprovalRequired {
            answer = daemon.post(&session, deletion).await.unwrap();
        }
        assert_eq!((end_of(&answer), runs.load(Ordering::Relaxed)), (FINISHED, number));
    }
}

#[tokio::test]
async fn g11_an_approval_of_one_use_lets_one_of_two_equal_calls_run() {
    let mut daemon = TestDaemon::start(2).await;
    let session = daemon.open_session().await;
    let (one, two) = (call("c1", DELETE), call("c2", DELETE));
    let waiting = daemon.post(&session, one.clone()).await.unwrap();
    let same = daemon.post(&session, two.clone()).await.unwrap();
    assert_eq!(waiting.approval().unwrap().id, same.approval().unwrap().id);
    decide(&daemon, &waiting, Choice::Approve).await;
    let runs = daemon.finish_each();
    let (one, two) = (daemon.post(&session, one), daemon.post(&session, two));
    let answers = [one.await.unwrap(), two.await.unwrap()];
    let ended = answers.iter().filter(|answer| end_of(answer) == FINISHED).count();
    assert_eq!((ended, runs.load(Ordering::Relaxed)), (1, 1), "{answers:?}");
}
