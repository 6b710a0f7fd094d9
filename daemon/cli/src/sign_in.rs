//! Sign-in at the daemon's OpenID provider without a browser of its own: the person opens a page on any device, and types a code.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use toolgate_api::token::{SignInPending, SignInView, TokenView};

use super::client::{Client, ClientError};
use super::failure::{Failure, Result};
use super::print::Printer;

/// What `slow_down` adds to the interval (RFC 8628, section 3.5).
const SLOWER: Duration = Duration::from_secs(5);

/// Leads the person through the sign-in. Returns the token.
pub(crate) async fn sign_in(client: &Client, printer: &mut Printer<'_>) -> Result<TokenView> {
    let begun =
        client.post("/v1/sign-in").json(&json!({})).send::<SignInView>().await.map_err(own_hint)?.body;
    show(&begun, printer)?;
    let end = Instant::now() + Duration::from_secs(begun.expires_in);
    let mut interval = Duration::from_secs(begun.interval.max(1));
    while Instant::now() < end {
        sleep(interval).await;
        let request = client.post("/v1/sign-in/token").json(&json!({"device_code": begun.device_code}));
        match request.send::<Value>().await {
            Ok(response) if response.status == 202 => {
                let pending: Option<SignInPending> = serde_json::from_value(response.body).ok();
                if pending.is_some_and(|pending| pending.slow_down) {
                    interval += SLOWER;
                }
            }
            Ok(response) => {
                let token = serde_json::from_value(response.body);
                return token.map_err(|_| {
                    Failure::new("the daemon sent no token", "it may be of another version; see its log")
                });
            }
            // The daemon or its provider may be back before the codes are too old.
            Err(error) if error.status().is_none_or(|status| status >= 500) => interval += SLOWER,
            Err(error) => return Err(own_hint(error)),
        }
    }
    Err(Failure::new("nobody typed the code in time", "begin again with `toolgate login --oidc`"))
}

fn show(begun: &SignInView, printer: &mut Printer<'_>) -> Result {
    let SignInView { provider, verification_uri, user_code, .. } = begun;
    printer.note(&format!("to sign in with {provider}, open {verification_uri} and type {user_code}"))?;
    if let Some(shorter) = &begun.verification_uri_complete {
        printer.note(&format!("or open {shorter}"))?;
    }
    let minutes = begun.expires_in.div_ceil(60);
    Ok(printer.note(&format!("waiting for you there, at most {minutes} min"))?)
}

/// A refusal with its own hint: that of a client asks for the token, which is not here yet.
fn own_hint(error: ClientError) -> Failure {
    match error {
        ClientError::Refused(problem) => Failure::new(problem.detail, problem.hint),
        other => other.into(),
    }
}
