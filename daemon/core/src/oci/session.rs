//! Requests to one repository of a registry: login, time limit and redirects.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use serde::Deserialize;
use tokio::time::Instant;
use toolgate_api::credential::SecretText;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::text::escape_for_display;
use toolgate_sandbox::{ExchangeLimits, HostClient, HostClientError, Secret};
use url::Url;
use zeroize::Zeroizing;

use super::Reference;
use super::challenge::Challenge;

/// Redirects of one request. A registry redirects to the storage of its blobs, once.
const REDIRECTS_MAX: usize = 3;

/// Longest text of a registry that an error shows, in characters.
const SHOWN_CHARS: usize = 300;

/// The largest answer of a token server.
const TOKEN_BYTES: usize = 64 << 10;

/// A registry and how it is reached.
pub struct Endpoint {
    /// Sends the requests. It allows plain HTTP and private addresses for this host alone.
    pub http: HostClient,
    /// Host with an optional port.
    pub host: String,
    /// Whether the registry is used without TLS.
    pub plain_http: bool,
    /// The user of a private registry.
    pub login: Option<Arc<Login>>,
}

/// A user with a password.
pub struct Login {
    /// The user, or the credential, for messages.
    pub name: String,
    /// User and password as basic authentication sends them (RFC 7617), in base64.
    pub basic: Secret,
}

impl Login {
    pub fn new(username: &str, password: &Secret) -> Self {
        let mut pair = Zeroizing::new(format!("{username}:").into_bytes());
        pair.extend_from_slice(password.expose());
        Self { name: username.to_owned(), basic: Secret::new(STANDARD.encode(&*pair).into_bytes()) }
    }
}

/// Requests to one repository, until a deadline.
pub struct RegistrySession {
    endpoint: Endpoint,
    base: Url,
    repository: String,
    /// The actions that a token is asked for: `pull`, or `pull,push`.
    actions: &'static str,
    authorization: Option<HeaderValue>,
    deadline: Instant,
}

/// One request.
pub(super) struct RegistryRequest<'a> {
    pub method: Method,
    pub url: Url,
    pub accept: Option<&'static str>,
    pub content_type: Option<&'static str>,
    pub body: &'a [u8],
    /// The largest response body.
    pub response_bytes: usize,
}

/// The answer of a token server. Some send both members.
#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<SecretText>,
    access_token: Option<SecretText>,
}

impl RegistrySession {
    pub fn new(
        endpoint: Endpoint,
        reference: &Reference,
        actions: &'static str,
        timeout: Duration,
    ) -> Result<Self, CallError> {
        let scheme = if endpoint.plain_http { "http" } else { "https" };
        let base = Url::parse(&format!("{scheme}://{}", endpoint.host))
            .map_err(|_| registry_error("has no valid host"))?;
        let repository = reference.repository.clone();
        let deadline = Instant::now() + timeout;
        Ok(Self { endpoint, base, repository, actions, authorization: None, deadline })
    }

    /// The URL of a path in the repository, such as `manifests/TAG`.
    pub(super) fn url(&self, path: &str) -> Result<Url, CallError> {
        let path = format!("/v2/{}/{path}", self.repository);
        self.base.join(&path).map_err(|_| registry_error("has no valid URL"))
    }

    /// Resolves a `Location` of the registry, which must not lead to another host.
    pub(super) fn own_url(&self, location: &str) -> Result<Url, CallError> {
        let url = self.base.join(location).map_err(|_| registry_error("sends uploads to no valid URL"))?;
        if self.is_own(&url) {
            return Ok(url);
        }
        let why = match (url.host_str() == self.base.host_str(), url.scheme() == self.base.scheme()) {
            (false, _) => "on another host",
            (true, false) => "by another scheme",
            (true, true) => "on another port",
        };
        let shown = escape_for_display(url.as_str(), SHOWN_CHARS);
        Err(CallError::new(
            ErrorType::ApiUnavailable,
            format!("the registry sends uploads to `{shown}`, {why}"),
            "let the proxy before the registry pass on `Host` and `X-Forwarded-Proto`, so that it names its own address",
        ))
    }

    /// Gets an object. The login is not sent to other hosts, which the registry may redirect to.
    pub(super) async fn get(
        &mut self,
        path: &str,
        accept: Option<&'static str>,
        response_bytes: usize,
    ) -> Result<Response<Vec<u8>>, CallError> {
        let mut url = self.url(path)?;
        for _ in 0..=REDIRECTS_MAX {
            let request = RegistryRequest {
                method: Method::GET,
                url: url.clone(),
                accept,
                content_type: None,
                body: &[],
                response_bytes,
            };
            let response = self.send(&request).await?;
            if !response.status().is_redirection() {
                return Ok(response);
            }
            let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            url = location
                .and_then(|location| url.join(location).ok())
                .ok_or_else(|| registry_error("redirects without a valid URL"))?;
        }
        Err(registry_error("redirects more often than its blobs need"))
    }

    /// Sends a request, and again with a login if the registry asks for one.
    pub(super) async fn send(
        &mut self,
        request: &RegistryRequest<'_>,
    ) -> Result<Response<Vec<u8>>, CallError> {
        let is_own = self.is_own(&request.url);
        let response = self.send_once(request, self.authorization.as_ref().filter(|_| is_own)).await?;
        if response.status() != StatusCode::UNAUTHORIZED || !is_own || self.authorization.is_some() {
            return Ok(response);
        }
        self.authorization = Some(self.authorize(&response).await?);
        self.send_once(request, self.authorization.as_ref()).await
    }

    async fn authorize(&self, response: &Response<Vec<u8>>) -> Result<HeaderValue, CallError> {
        let (realm, service) = match Challenge::choose(response.headers(), self.endpoint.login.is_some()) {
            Some(Challenge::Basic) => return self.basic().ok_or_else(no_login),
            Some(Challenge::Bearer { realm, service }) => (realm, service),
            None => return Err(registry_error("asks for a login of an unknown kind")),
        };
        let mut url = Url::parse(&realm).map_err(|_| registry_error("names no valid token server"))?;
        if url.scheme() != "https" && !self.is_own(&url) {
            return Err(registry_error("names a token server without TLS on another host"));
        }
        let scope = format!("repository:{}:{}", self.repository, self.actions);
        if let Some(service) = &service {
            url.query_pairs_mut().append_pair("service", service);
        }
        url.query_pairs_mut().append_pair("scope", &scope);
        let request = RegistryRequest {
            method: Method::GET,
            url,
            accept: None,
            content_type: None,
            body: &[],
            response_bytes: TOKEN_BYTES,
        };
        let response = self.send_once(&request, self.basic().as_ref()).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS => {
                return Err(self.status_error(&response));
            }
            status => {
                return Err(registry_error(&format!(
                    "has a token server that responds with status {}",
                    status.as_u16()
                )));
            }
        }
        bearer(&Zeroizing::new(response.into_body()))
    }

    fn basic(&self) -> Option<HeaderValue> {
        let login = self.endpoint.login.as_ref()?;
        let mut value = Zeroizing::new(b"Basic ".to_vec());
        value.extend_from_slice(login.basic.expose());
        header(&value)
    }

    /// The error of a status that no request expects.
    pub(super) fn status_error(&self, response: &Response<Vec<u8>>) -> CallError {
        let status = response.status();
        let mut error = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => self.wrong_login(),
            status => registry_error(&format!("responds with status {}", status.as_u16())),
        };
        if let Some(said) = said_by_registry(response.body()) {
            error.message += &format!(": {said}");
        }
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            let seconds = response
                .headers()
                .get(RETRY_AFTER)
                .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
            error = error.retryable(true);
            if let Some(seconds) = seconds {
                error = error.with_retry_after_ms(seconds.saturating_mul(1000));
            }
        }
        error
    }

    fn wrong_login(&self) -> CallError {
        match &self.endpoint.login {
            None => no_login(),
            Some(login) => CallError::new(
                ErrorType::CredentialMissing,
                format!("the registry does not let `{}` do this", login.name),
                "check the user name, the password, and the user's rights in the repository",
            ),
        }
    }

    /// Whether a URL has the scheme, host and port of the registry.
    fn is_own(&self, url: &Url) -> bool {
        url.origin() == self.base.origin()
    }

    async fn send_once(
        &self,
        request: &RegistryRequest<'_>,
        authorization: Option<&HeaderValue>,
    ) -> Result<Response<Vec<u8>>, CallError> {
        let mut url = request.url.clone();
        // A fragment is never sent, and user info of a redirect would be credentials that the operator did not choose.
        url.set_fragment(None);
        if !url.username().is_empty() || url.password().is_some() {
            return Err(registry_error("redirects to a URL with a password"));
        }
        let mut sending = Request::builder().method(request.method.clone()).uri(url.as_str());
        let headers = [(ACCEPT, request.accept), (CONTENT_TYPE, request.content_type)];
        for (name, value) in headers.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            sending = sending.header(name, value);
        }
        if let Some(authorization) = authorization {
            sending = sending.header(AUTHORIZATION, authorization);
        }
        let sending = sending.body(request.body.to_vec()).map_err(|_| registry_error("has no valid URL"))?;
        let time = self.deadline.saturating_duration_since(Instant::now());
        let limits = ExchangeLimits { time, response_bytes: request.response_bytes };
        let sent = self.endpoint.http.send_within(sending, limits).await;
        sent.map_err(|error| self.unreachable(&request.url, error))
    }

    fn unreachable(&self, url: &Url, error: HostClientError) -> CallError {
        let (own, host) = (self.is_own(url), url.host_str().unwrap_or_default());
        let refuse = |message: String, hint: &str| CallError::new(ErrorType::NetworkDenied, message, hint);
        match error {
            HostClientError::PlainHttp => refuse(
                format!("the registry redirects to `{host}` without TLS"),
                "let it redirect to an HTTPS URL",
            ),
            HostClientError::PublicPlainHttp => refuse(
                format!(
                    "the registry `{host}` gets no password without TLS at an address that is not private"
                ),
                "leave `plain_http` and `--plain-http` out, or use a loopback or private address",
            ),
            HostClientError::PrivateAddress if own => refuse(
                format!("the registry `{host}` has an address that is not public"),
                "set `private_network = true` for it in `[[plugins.registries]]`",
            ),
            HostClientError::PrivateAddress => refuse(
                format!("the registry redirects to `{host}`, which has an address that is not public"),
                "let it serve its blobs itself, or from a public address",
            ),
            HostClientError::Timeout => registry_error("did not send everything in time"),
            HostClientError::Body => registry_error("ended a response early, or sent more than it announced"),
            error => registry_error(&format!("cannot be used: {error}")),
        }
    }
}

/// The `Authorization` header with the token in the answer of a token server.
fn bearer(answer: &[u8]) -> Result<HeaderValue, CallError> {
    let no_token = || registry_error("has a token server that sends no token");
    let answer: TokenAnswer = serde_json::from_slice(answer).map_err(|_| no_token())?;
    // Some send an empty text for the member that they do not use.
    let sent = [answer.token, answer.access_token].into_iter().flatten().find(|token| !token.0.is_empty());
    let token = sent.ok_or_else(no_token)?;
    header(Zeroizing::new(format!("Bearer {}", *token.0)).as_bytes())
        .ok_or_else(|| registry_error("has a token server that sends no valid token"))
}

/// A value that the client does not log.
fn header(text: &[u8]) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_bytes(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The first code and message in the body of an error (OCI distribution, "Error Codes").
fn said_by_registry(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Errors {
        errors: Vec<Said>,
    }
    #[derive(Deserialize)]
    struct Said {
        // Artifactory has a number as `status` in its place.
        code: Option<String>,
        message: Option<String>,
    }
    let Errors { errors } = serde_json::from_slice(body).ok()?;
    let Said { code, message } = errors.into_iter().next()?;
    let said: Vec<String> = code.into_iter().chain(message).collect();
    if said.is_empty() {
        return None;
    }
    let said = said.join(", ");
    Some(format!("`{}`", escape_for_display(&said, SHOWN_CHARS)))
}

pub(super) fn registry_error(what: &str) -> CallError {
    CallError::new(
        ErrorType::ApiUnavailable,
        format!("the registry {what}"),
        "try again later, or ask the registry's operator",
    )
}

fn no_login() -> CallError {
    CallError::new(
        ErrorType::CredentialMissing,
        "the registry wants a login for this repository, or does not have it",
        "check the reference, and set a user name and a password for the registry",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> RegistrySession {
        let endpoint = Endpoint {
            http: HostClient::new(Default::default()).unwrap(),
            host: "registry.example:5000".into(),
            plain_http: false,
            login: None,
        };
        let reference = "oci://registry.example:5000/tools/weather:1".parse().unwrap();
        RegistrySession::new(endpoint, &reference, "pull,push", Duration::from_secs(1)).unwrap()
    }

    fn answer(status: u16, retry_after: Option<&str>, body: &str) -> Response<Vec<u8>> {
        let mut response = Response::builder().status(status);
        if let Some(text) = retry_after {
            response = response.header(RETRY_AFTER, text);
        }
        response.body(body.into()).unwrap()
    }

    #[test]
    fn o1_an_empty_token_beside_another_is_not_used() {
        for answer in
            [r#"{"token":"t"}"#, r#"{"token":"","access_token":"t"}"#, r#"{"token":"t","access_token":""}"#]
        {
            assert_eq!(bearer(answer.as_bytes()).unwrap(), "Bearer t", "{answer}");
        }
        for answer in [r#"{"token":""}"#, "{}", "<html>", r#"{"token":"a\nb"}"#] {
            assert!(bearer(answer.as_bytes()).is_err(), "{answer}");
        }
    }

    #[test]
    fn o1_an_upload_goes_to_the_registry_alone() {
        let session = session();
        for own in ["/v2/uploads/1", "https://registry.example:5000/v2/uploads/1?_state=a"] {
            let url = session.own_url(own).unwrap();
            assert_eq!((url.port(), url.path()), (Some(5000), "/v2/uploads/1"));
        }
        for (other, why) in [
            ("https://registry.example/v2/uploads/1", "on another port"),
            ("http://registry.example:5000/v2/uploads/1", "by another scheme"),
            ("//evil.example/v2/uploads/1", "on another host"),
        ] {
            let error = session.own_url(other).expect_err(other);
            assert!(error.message.ends_with(why) && error.message.contains("/v2/uploads/1`"), "{error:?}");
        }
    }

    #[test]
    fn o1_an_error_has_the_message_of_the_registry_and_its_time_to_wait() {
        let session = session();
        let said =
            r#"{"errors":[{"code":"TOOMANYREQUESTS","message":"slow\u001b[2J down"},{"code":"OTHER"}]}"#;
        let error = session.status_error(&answer(429, Some("7"), said));
        assert_eq!((error.retryable, error.retry_after_ms()), (true, Some(7000)));
        let message = &error.message;
        assert!(message.contains("status 429: `TOOMANYREQUESTS, slow"), "{message}");
        assert!(!message.contains('\u{1b}') && !message.contains("OTHER"), "{message}");
        let error = session.status_error(&answer(503, Some("Wed, 21 Oct 2026 07:28:00 GMT"), "<html>"));
        assert_eq!((error.retryable, error.retry_after_ms()), (true, None));
        assert!(error.message.ends_with("responds with status 503"), "{}", error.message);
        let error = session.status_error(&answer(403, Some("7"), r#"{"errors":[{"code":"DENIED"}]}"#));
        assert_eq!((error.error_type, error.retryable), (ErrorType::CredentialMissing, false));
        assert!(error.message.ends_with(": `DENIED`"), "{}", error.message);
    }
}
