//! Reads responses of token endpoints (RFC 6749, sections 5.1 and 5.2) as providers send them.
//!
//! The body decides, not its media type and not the status: providers send errors with status 200 (GitHub, Slack), forms
//! instead of JSON, JSON as `text/plain`, numbers as text, and leave `token_type` out (Shopify, LinkedIn). Tokens are moved
//! into [`Secret`] at once.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Map, Value};
use toolgate_admission::Unusable;
use toolgate_api::json::PlainValue;
use toolgate_api::text::escape_for_display;
use toolgate_sandbox::{SHORTEST_SECRET, Secret};
use url::form_urlencoded;

use super::injection::is_sendable;

/// Longest `error_description` that is shown, in characters.
const DESCRIPTION_CHARS: usize = 300;
/// Longest error code that is shown, in characters.
const CODE_CHARS: usize = 60;

/// Life of a device code whose provider does not send it; the field is required.
const DEVICE_LIFETIME: Duration = Duration::from_secs(600);
/// The interval of questions where the provider sends none (RFC 8628, section 3.2).
const DEVICE_INTERVAL: Duration = Duration::from_secs(5);

/// Tokens of a provider.
pub struct Tokens {
    pub access: Secret,
    /// `None` if the previous refresh token stays valid, or there is none.
    pub refresh: Option<Secret>,
    /// The ID token of OpenID Connect; `None` if the provider does not send it.
    pub id: Option<Secret>,
    /// Lifetime of the access token; `None` if the provider does not send it.
    pub lifetime: Option<Duration>,
}

/// What a device authorization endpoint answers (RFC 8628, section 3.2).
pub struct DeviceAuthorization {
    /// The secret that tokens are asked for with.
    pub device_code: String,
    /// The code that the person types.
    pub user_code: String,
    /// The page where the person types it.
    pub verification_uri: String,
    /// The same page with the code in it.
    pub verification_uri_complete: Option<String>,
    /// Life of both codes.
    pub lifetime: Duration,
    /// Least time between two questions for tokens.
    pub interval: Duration,
}

/// Why a provider issued no tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenFailure {
    /// The provider refused, in these words. Another try would be refused too.
    Refused(Unusable, String),
    /// The provider did not respond, or with another error.
    Unavailable(String),
}

/// Reads a response. `sent` are the secrets of the request, which no message may repeat.
pub(super) fn read(status: StatusCode, body: &[u8], sent: &[Secret]) -> Result<Tokens, TokenFailure> {
    let unavailable = TokenFailure::Unavailable;
    let fields = fields(body).ok_or_else(|| {
        unavailable(format!(
            "the provider's response is neither a JSON object nor a form, its status is {status}"
        ))
    })?;
    if let Some(error) = error_of(&fields) {
        return Err(failure(error, &fields, sent));
    }
    let Some(access) = text(&fields, "access_token") else {
        return Err(unavailable(format!(
            "the provider's response has neither `access_token` nor `error`, its status is {status}"
        )));
    };
    if text(&fields, "token_type").is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return Err(unavailable("the provider issues tokens of another type than `Bearer`".to_owned()));
    }
    let secret = |text: &str| Secret::new(text.as_bytes().to_vec());
    let access = secret(access);
    if !is_sendable(access.expose()) {
        return Err(unavailable("a header cannot contain the provider's token".to_owned()));
    }
    if access.expose().len() < SHORTEST_SECRET {
        return Err(unavailable("the provider's token is too short to be redacted in responses".to_owned()));
    }
    let refresh = text(&fields, "refresh_token").map(secret);
    let id = text(&fields, "id_token").map(secret);
    Ok(Tokens { access, refresh, id, lifetime: fields.get("expires_in").and_then(seconds) })
}

/// Reads the response of a device authorization endpoint (RFC 8628, section 3.2).
pub(super) fn read_device(
    status: StatusCode,
    body: &[u8],
    sent: &[Secret],
) -> Result<DeviceAuthorization, TokenFailure> {
    let fields = fields(body).unwrap_or_default();
    if let Some(error) = error_of(&fields) {
        return Err(failure(error, &fields, sent));
    }
    let text = |name| text(&fields, name).map(str::to_owned);
    // Google spells the address otherwise.
    let page = text("verification_uri").or_else(|| text("verification_url"));
    let (Some(device_code), Some(user_code), Some(verification_uri)) =
        (text("device_code"), text("user_code"), page)
    else {
        let why = format!("the provider's response has no device code, its status is {status}");
        return Err(TokenFailure::Unavailable(why));
    };
    let time = |name, default| fields.get(name).and_then(seconds).unwrap_or(default);
    Ok(DeviceAuthorization {
        device_code,
        user_code,
        verification_uri,
        verification_uri_complete: text("verification_uri_complete"),
        lifetime: time("expires_in", DEVICE_LIFETIME),
        interval: time("interval", DEVICE_INTERVAL),
    })
}

/// The error code of a response.
pub(super) fn error_code(body: &[u8]) -> Option<String> {
    error_of(&fields(body)?)?.as_str().map(str::to_owned)
}

/// The error of a response. Some providers send the field with every response.
fn error_of(fields: &Map<String, Value>) -> Option<&Value> {
    let says_error = |error: &&Value| {
        !matches!(error, Value::Null | Value::Bool(false))
            && error.as_str().is_none_or(|code| !code.is_empty())
    };
    fields.get("error").filter(says_error)
}

/// The fields of a JSON object or a form.
fn fields(body: &[u8]) -> Option<Map<String, Value>> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body).trim_ascii();
    if body.starts_with(b"{") {
        let PlainValue(value) = serde_json::from_slice(body).ok()?;
        return match value {
            Value::Object(fields) => Some(fields),
            _ => None,
        };
    }
    let fields: Map<String, Value> =
        form_urlencoded::parse(body).map(|(name, value)| (name.into(), value.into())).collect();
    let is_known = ["access_token", "error", "device_code"].iter().any(|name| fields.contains_key(*name));
    is_known.then_some(fields)
}

/// A text without white space around it. An empty one counts as absent.
fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    fields.get(name)?.as_str().map(str::trim).filter(|text| !text.is_empty())
}

/// A lifetime: a number, or the same as text. A value that is neither, or is not positive, counts as absent: providers
/// write 0 for a token that does not expire.
fn seconds(value: &Value) -> Option<Duration> {
    let seconds = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())?;
    Duration::try_from_secs_f64(seconds.floor()).ok().filter(|lifetime| !lifetime.is_zero())
}

fn failure(error: &Value, fields: &Map<String, Value>, sent: &[Secret]) -> TokenFailure {
    let nested = |name| error.get(name).and_then(Value::as_str);
    let code = error.as_str().or_else(|| nested("code")).or_else(|| nested("type")).unwrap_or("an error");
    let refusal = refusal(code);
    let advice = match code {
        "invalid_scope" => ": it does not grant the credential's `scopes` to this client",
        _ => "",
    };
    let shown = |text: &str, chars| {
        let repeats = |secret: &Secret| {
            !secret.expose().is_empty()
                && text.as_bytes().windows(secret.expose().len()).any(|part| part == secret.expose())
        };
        let issued =
            ["access_token", "refresh_token"].map(|name| self::text(fields, name).unwrap_or_default());
        let is_secret =
            sent.iter().any(repeats) || issued.iter().any(|token| !token.is_empty() && text.contains(token));
        (!is_secret).then(|| escape_for_display(text, chars))
    };
    let code = shown(code, CODE_CHARS).unwrap_or_else(|| "an error".to_owned());
    let description = text(fields, "error_description").or_else(|| nested("message"));
    let description = description.and_then(|text| shown(text, DESCRIPTION_CHARS));
    let description = description.map(|text| format!(" ({text})")).unwrap_or_default();
    let said = format!("the provider responded `{code}`{advice}{description}");
    match refusal {
        Some(why) => TokenFailure::Refused(why, said),
        None => TokenFailure::Unavailable(said),
    }
}

/// The state of a credential whose grant or client the provider refuses by this code; `None` for any other failure.
fn refusal(code: &str) -> Option<Unusable> {
    match code {
        // The second and later names are those of GitHub and Slack.
        "invalid_grant"
        | "bad_refresh_token"
        | "bad_verification_code"
        | "invalid_refresh_token"
        | "invalid_code"
        | "code_already_used"
        | "token_expired"
        | "token_revoked" => Some(Unusable::Expired),
        "invalid_client"
        | "unauthorized_client"
        | "incorrect_client_credentials"
        | "invalid_client_id"
        | "bad_client_secret" => Some(Unusable::Revoked),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "tok_1234567890abcdef";

    fn read_text(status: u16, body: &str) -> Result<Tokens, TokenFailure> {
        let sent = [Secret::new(b"client-secret-1".to_vec())];
        read(StatusCode::from_u16(status).unwrap(), body.as_bytes(), &sent)
    }

    #[test]
    fn k6_tokens_are_taken_as_providers_send_them() {
        let hour = Some(3600);
        for (case, status, body, refresh, lifetime) in [
            (
                "all fields",
                200,
                r#"{"access_token":"T","token_type":"Bearer","expires_in":3600,"refresh_token":"r1"}"#,
                Some("r1"),
                hour,
            ),
            ("no type", 200, r#"{"access_token":"T","scope":"read"}"#, None, None),
            (
                "null",
                200,
                r#"{"access_token":"T","token_type":null,"refresh_token":null,"expires_in":null,"error":null}"#,
                None,
                None,
            ),
            ("empty texts", 200, r#"{"access_token":"T","token_type":"","refresh_token":""}"#, None, None),
            ("type with space", 200, r#"{"access_token":"T","token_type":"bearer "}"#, None, None),
            ("text of digits", 200, r#"{"access_token":"T","expires_in":"3600"}"#, None, hour),
            ("fraction", 200, r#"{"access_token":"T","expires_in":3600.7}"#, None, hour),
            ("no error", 200, r#"{"access_token":"T","error":"","error_description":""}"#, None, None),
            ("false error", 200, r#"{"access_token":"T","error":false}"#, None, None),
            ("no lifetime", 200, r#"{"access_token":"T","expires_in":0}"#, None, None),
            ("negative lifetime", 200, r#"{"access_token":"T","expires_in":-1}"#, None, None),
            ("created", 201, r#"{"access_token":"T"}"#, None, None),
            ("byte order mark", 200, "\u{feff}{\"access_token\":\"T\"}\r\n", None, None),
            (
                "form",
                200,
                "access_token=T&token_type=bearer&expires_in=3600&refresh_token=r1",
                Some("r1"),
                hour,
            ),
        ] {
            let Ok(tokens) = read_text(status, &body.replace('T', TOKEN)) else { panic!("{case}") };
            assert_eq!(tokens.access.expose(), TOKEN.as_bytes(), "{case}");
            let refreshed = tokens.refresh.map(|token| String::from_utf8(token.expose().to_vec()).unwrap());
            assert_eq!(refreshed.as_deref(), refresh, "{case}");
            assert_eq!(tokens.lifetime.map(|lifetime| lifetime.as_secs()), lifetime, "{case}");
        }
    }

    #[test]
    fn k6_refusals_are_told_from_failures_with_any_status() {
        for (status, body, unusable, said) in [
            (
                400,
                r#"{"error":"invalid_grant","error_description":"Token has been revoked."}"#,
                Unusable::Expired,
                "`invalid_grant` (Token has been revoked.)",
            ),
            (
                200,
                r#"{"error":"invalid_grant","access_token":"tok_1234567890abcdef"}"#,
                Unusable::Expired,
                "`invalid_grant`",
            ),
            (
                200,
                "error=bad_refresh_token&error_description=The+refresh+token+is+invalid",
                Unusable::Expired,
                "`bad_refresh_token` (The refresh token is invalid)",
            ),
            (
                200,
                r#"{"ok":false,"error":"invalid_refresh_token"}"#,
                Unusable::Expired,
                "`invalid_refresh_token`",
            ),
            (
                401,
                r#"{"error":"invalid_client","error_description":"no client-secret-1"}"#,
                Unusable::Revoked,
                "`invalid_client`",
            ),
            (
                200,
                r#"{"error":"incorrect_client_credentials"}"#,
                Unusable::Revoked,
                "`incorrect_client_credentials`",
            ),
            (200, r#"{"ok":false,"error":"bad_client_secret"}"#, Unusable::Revoked, "`bad_client_secret`"),
        ] {
            let refused = TokenFailure::Refused(unusable, format!("the provider responded {said}"));
            assert_eq!(read_text(status, body).err(), Some(refused), "{body}");
        }
        for (status, body, message) in [
            (
                403,
                r#"{"error":"access_denied","error_description":"No audience"}"#,
                "the provider responded `access_denied` (No audience)",
            ),
            (400, r#"{"error":{"message":"nested","code":"E1"}}"#, "the provider responded `E1` (nested)"),
            (400, r#"{"error":{}}"#, "the provider responded `an error`"),
            (400, r#"{"error":"x","error_description":"got client-secret-1"}"#, "the provider responded `x`"),
            (400, r#"{"error":"client-secret-1"}"#, "the provider responded `an error`"),
            (
                200,
                r#"{"ok":true}"#,
                "the provider's response has neither `access_token` nor `error`, its status is 200 OK",
            ),
            (
                502,
                "<html>",
                "the provider's response is neither a JSON object nor a form, its status is 502 Bad Gateway",
            ),
            (
                200,
                r#"{"access_token":"tok_1234567890abcdef","token_type":"mac"}"#,
                "the provider issues tokens of another type than `Bearer`",
            ),
            (
                200,
                r#"{"access_token":"short"}"#,
                "the provider's token is too short to be redacted in responses",
            ),
        ] {
            assert_eq!(
                read_text(status, body).err(),
                Some(TokenFailure::Unavailable(message.into())),
                "{body}"
            );
        }
    }
}
