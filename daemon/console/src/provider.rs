//! Sign-in by OpenID Connect.
//!
//! The provider leads the browser back from another site, so its request has no cookie that is `SameSite=Strict`. `callback` reads and
//! changes nothing: its page goes on within the site to `finish`, with the cookie of the browser that began.

use axum::extract::{RawQuery, State};
use axum::http::header::{COOKIE, LOCATION, SET_COOKIE};
use axum::http::{Extensions, HeaderMap, StatusCode};
use axum::response::{AppendHeaders, IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use maud::html;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_core::admin::Actor;
use toolgate_core::identity::{PersonSignIn, SignInPermit, SignInResponse};
use toolgate_http::connections::Peer;
use toolgate_http::extract::Query;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_state::clock::now_ms;
use url::form_urlencoded;

use super::form::{SeeOther, own_path};
use super::page::Page;
use super::session::{Person, SignedIn};
use super::sign_in::{SignInQuery, form_page};
use super::{AUDIT_SOURCE, Console, no_page};

/// Longest query of a response, in bytes. Some providers send codes of several kilobytes.
const QUERY_BYTES: usize = 8 * 1024;

/// Leads to the provider.
pub(super) async fn begin(
    State(app): State<App>,
    console: Console,
    Query(query): Query<SignInQuery>,
) -> Result<Response, Problem> {
    let sign_in = expect_sign_in(&app).await?;
    let next = query.next.as_deref().and_then(own_path).unwrap_or_default();
    match sign_in.begin(now_ms()).await {
        Ok(begun) => {
            let value = format!("{}.{}", begun.cookie, BASE64_URL_SAFE_NO_PAD.encode(next));
            let cookie = console.sessions.begin_sign_in(&value, begun.seconds);
            Ok((StatusCode::SEE_OTHER, [(LOCATION, begun.url), (SET_COOKIE, cookie)]).into_response())
        }
        Err(error) => Ok(form_page(&app, next, Some(&error)).into_response()),
    }
}

/// The page that the provider leads to, which goes on to `finish`.
pub(super) async fn callback(State(app): State<App>, RawQuery(query): RawQuery) -> Result<Page, Problem> {
    expect_sign_in(&app).await?;
    let response = read(query.as_deref().unwrap_or_default())?;
    let given = [
        ("state", response.state),
        ("code", response.code),
        ("error", response.error),
        ("iss", response.iss),
    ];
    let mut fields = form_urlencoded::Serializer::new(String::new());
    fields.extend_pairs(given.into_iter().filter_map(|(name, value)| Some((name, value?))));
    let address = format!("/console/sign-in/finish?{}", fields.finish());
    let main = html! { p { "You are being signed in." } p { a.button href=(address) { "Go on" } } };
    Ok(Page::new("Signing in", main).going_on_to(address))
}

/// Begins the session of a person, or shows why not.
pub(super) async fn finish(
    State(app): State<App>,
    console: Console,
    headers: HeaderMap,
    extensions: Extensions,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let sign_in = expect_sign_in(&app).await?.clone();
    let response = read(query.as_deref().unwrap_or_default())?;
    let cookies = || headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let (waiting, next) = waiting(console.sessions.find_sign_in(cookies()).unwrap_or_default());
    let earlier = console.sessions.find(cookies(), false, now_ms());
    let removal = (SET_COOKIE, console.sessions.end_sign_in());
    let permit = sign_in.permit().await;
    // The code works once, so its exchange and the audit record complete even if the browser disconnects.
    let (finishing, part) = (app.clone(), console.clone());
    let finished = app.run_to_completion(async move {
        begin_session(&finishing, &part, &sign_in, permit, &waiting, response).await
    });
    match finished.await? {
        Ok(cookie) => {
            if let Some(earlier) = earlier {
                console.sessions.end(&earlier.hash);
            }
            if let Some(peer) = extensions.get::<Peer>() {
                peer.mark_authenticated();
            }
            let headers = AppendHeaders([(SET_COOKIE, cookie), removal]);
            Ok((headers, SeeOther::to(&next)).into_response())
        }
        Err(error) => Ok((AppendHeaders([removal]), form_page(&app, &next, Some(&error))).into_response()),
    }
}

async fn begin_session(
    app: &App,
    console: &Console,
    sign_in: &PersonSignIn,
    permit: SignInPermit,
    waiting: &str,
    response: SignInResponse,
) -> Result<String, CallError> {
    let now_ms = now_ms();
    let end_ms = console.sessions.end_of_person_ms(now_ms);
    let person = sign_in.finish(permit, waiting, response, end_ms, now_ms).await?;
    app.admin().name_person(&person).await?;
    let (caller, name) = (std::sync::Arc::new(person.caller), person.name);
    let actor = Actor { caller: &caller, source: AUDIT_SOURCE };
    let begin = || {
        let person = Person::new(caller.clone(), name, &app.services().registry);
        console.sessions.begin(SignedIn::Person(person), now_ms)
    };
    app.admin().sign_in(actor, begin).await
}

async fn expect_sign_in(app: &App) -> Result<&PersonSignIn, Problem> {
    match app.person_sign_in() {
        Some(sign_in) => Ok(sign_in),
        None => Err(no_page().await),
    }
}

/// The cookie of the sign-in, and the page that it leads to. A path that is not the console's leads to the start page.
fn waiting(value: &str) -> (String, String) {
    let (waiting, next) = value.rsplit_once('.').unwrap_or((value, ""));
    let next = BASE64_URL_SAFE_NO_PAD.decode(next).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    (waiting.to_owned(), next.unwrap_or_default())
}

/// Parses the query; a repeated parameter is an error, and others are ignored.
fn read(query: &str) -> Result<SignInResponse, Problem> {
    let invalid = || {
        let hint = "begin again on the page for signing in";
        Problem::new(ErrorType::InvalidRequest, "the request is not the response of a provider", hint)
    };
    if query.len() > QUERY_BYTES {
        return Err(invalid());
    }
    let mut response = SignInResponse::default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let field = match &*name {
            "state" => &mut response.state,
            "code" => &mut response.code,
            "error" => &mut response.error,
            "iss" => &mut response.iss,
            _ => continue,
        };
        if field.replace(value.into_owned()).is_some() {
            return Err(invalid());
        }
    }
    if response.state.is_some() { Ok(response) } else { Err(invalid()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o6_a_response_has_each_parameter_once() {
        let response =
            read("state=s&code=a%20b&session_state=x&iss=https%3A%2F%2Fidp.example").expect("a response");
        assert_eq!((response.state.as_deref(), response.code.as_deref()), (Some("s"), Some("a b")));
        for query in ["", "code=a", "state=a&state=b", "state=a&code=b&code=c"] {
            assert!(read(query).is_err(), "{query}");
        }
        assert!(read(&format!("state={}", "a".repeat(QUERY_BYTES))).is_err());
    }

    #[test]
    fn o6_a_sign_in_remembers_its_page() {
        let value = format!("seed.1000.{}", BASE64_URL_SAFE_NO_PAD.encode("/console/calls"));
        assert_eq!(waiting(&value), ("seed.1000".to_owned(), "/console/calls".to_owned()));
        assert_eq!(waiting(""), (String::new(), String::new()));
    }
}
