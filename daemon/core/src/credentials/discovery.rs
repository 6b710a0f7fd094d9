//! Discovery of the authorization server of a service, and the credential that uses it.
//!
//! The service is asked first: its `401` names the metadata of the resource (RFC 9728), which name the issuer, whose metadata
//! (RFC 8414, OpenID Connect Discovery) have the endpoints. The order of the requests is the one of MCP clients.
//!
//! Everything here is a claim of the server that sent it. Metadata of a resource must be about the URL that was asked for,
//! and those of an issuer must name this issuer: otherwise one server could direct users and codes to the client of another
//! one (mix-up attack). Nothing is stored; a person reads the draft and saves it.

use std::time::Duration;

use http::{HeaderValue, Request, Response, StatusCode, header};
use serde_json::{Map, Value};
use tokio::time::Instant;
use toolgate_api::credential::{AuthorizationServer, ClientMetadata, DiscoveryAttempt, DiscoveryView};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::header::challenge_parameter;
use toolgate_api::json::PlainValue;
use toolgate_api::name::Name;
use toolgate_api::text::escape_for_display;
use toolgate_macros::boxed;
use toolgate_sandbox::Secret;
use url::Url;
use zeroize::Zeroizing;

use super::Credentials;
use super::oauth::TokenClient;
use super::request::endpoint;

mod draft;

/// Time for all requests of a discovery.
const DISCOVERY_TIME: Duration = Duration::from_secs(30);
/// Concurrent discoveries, so that no organization makes the daemon search the web.
pub(super) const DISCOVERIES: usize = 8;
/// Redirects of one request for metadata. Some services answer `/.well-known/` from another host.
const REDIRECTS: usize = 3;
/// Issuers of one service that are tried.
const ISSUERS: usize = 3;
/// Items of a list in metadata, and bytes of a text. Longer ones are left out.
const LIST_ITEMS: usize = 100;
const TEXT_BYTES: usize = 500;
/// Longest text of a server that is shown, in characters.
const SHOWN_CHARS: usize = 200;

/// Metadata of a protected resource (RFC 9728, section 2).
struct Resource {
    resource: String,
    issuers: Vec<String>,
    scopes: Vec<String>,
}

#[boxed]
impl Credentials {
    /// Discovers the authorization server of a service. A service without one is no error: the view has the attempts.
    ///
    /// # Errors
    ///
    /// `INVALID_REQUEST` for a URL that credentials cannot be sent to, `OVERLOADED`.
    pub async fn discover(
        &self,
        url: &str,
        organization: Option<&Name>,
        plain_http: &[String],
    ) -> Result<DiscoveryView, CallError> {
        let url = service_url(url, plain_http)?;
        let _permit = self.0.discoveries.try_acquire().map_err(|_| too_many_discoveries())?;
        let deadline = Instant::now() + DISCOVERY_TIME;
        let mut discovery = Discovery { http: &self.0.http, plain_http, deadline, attempts: Vec::new() };
        let challenge = discovery.challenge(&url).await;
        let resource = discovery.resource(&url, &challenge).await;
        let server = discovery.server(&url, resource.as_ref()).await;
        let asked = challenge_parameter(&challenge, "scope").map(|scope| scope.split(' ').map(str::to_owned));
        let scopes = match (asked, &resource) {
            (Some(scopes), _) => scopes.collect(),
            (None, Some(resource)) => resource.scopes.clone(),
            (None, None) => Vec::new(),
        };
        let client_id = organization.and_then(|organization| self.client_metadata(organization));
        let client_id =
            client_id.map(|metadata| metadata.client_id).filter(|url| url.starts_with("https://"));
        let resource_id = resource.as_ref().map(|resource| resource.resource.clone());
        let found = draft::Found { url: &url, resource: resource_id.as_deref(), scopes, client_id };
        let (credential, notes) = draft::draft(found, server.as_ref());
        let issuers = resource.into_iter().flat_map(|resource| resource.issuers);
        let is_other =
            |issuer: &String| server.as_ref().is_none_or(|server| !is_same_issuer(issuer, &server.issuer));
        Ok(DiscoveryView {
            resource: resource_id,
            other_issuers: issuers.filter(is_other).collect(),
            server,
            credential,
            redirect_url: self.0.redirect_url.clone(),
            public_client_redirect_url: organization.map(|organization| self.own_redirect_url(organization)),
            notes,
            attempts: discovery.attempts,
        })
    }

    /// The metadata document of the daemon as a client without a secret; `None` without `credentials.public_url`. The same
    /// for every name, so that it does not reveal which organizations exist.
    pub fn client_metadata(&self, organization: &Name) -> Option<ClientMetadata> {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Some(ClientMetadata {
            client_id: format!("{}/{organization}", self.0.client_metadata_url.as_ref()?),
            client_name: format!("Toolgate for {organization}"),
            redirect_uris: vec![self.own_redirect_url(organization)],
            grant_types: texts(&["authorization_code", "refresh_token"]),
            response_types: texts(&["code"]),
            token_endpoint_auth_method: "none".to_owned(),
        })
    }
}

/// A discovery in progress.
struct Discovery<'a> {
    http: &'a TokenClient,
    plain_http: &'a [String],
    deadline: Instant,
    attempts: Vec<DiscoveryAttempt>,
}

impl Discovery<'_> {
    /// Requests the service without a credential; returns the challenge of its `401`, or an empty text.
    async fn challenge(&mut self, url: &Url) -> String {
        let response = self.get(url).await;
        let (result, challenge) = match response {
            Err(why) => (why, String::new()),
            Ok(response) => {
                let fields = response.headers().get_all(header::WWW_AUTHENTICATE).iter();
                let fields: Vec<&str> = fields.filter_map(|value| value.to_str().ok()).collect();
                let is_refused = response.status() == StatusCode::UNAUTHORIZED;
                let challenge = if is_refused { fields.join(", ") } else { String::new() };
                match challenge_parameter(&challenge, "resource_metadata") {
                    Some(_) => ("found".to_owned(), challenge),
                    None => (format!("{}, without `resource_metadata`", status_text(&response)), challenge),
                }
            }
        };
        self.attempts.push(DiscoveryAttempt { url: url.to_string(), result });
        challenge
    }

    /// Metadata of the resource, at the URL of the challenge or at the well-known ones.
    async fn resource(&mut self, url: &Url, challenge: &str) -> Option<Resource> {
        let named = challenge_parameter(challenge, "resource_metadata").and_then(|text| url.join(text).ok());
        let inserted = well_known(url, "oauth-protected-resource");
        let root = well_known(&origin(url), "oauth-protected-resource");
        for place in named.into_iter().chain([inserted, root]) {
            let found = self.metadata(&place, |fields| read_resource(fields, url)).await;
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Metadata of the first issuer that has some. A service that names no issuer can be one itself, or its host can.
    async fn server(&mut self, url: &Url, resource: Option<&Resource>) -> Option<AuthorizationServer> {
        let named: Vec<String> = resource.map(|resource| resource.issuers.clone()).unwrap_or_default();
        let own = || vec![url.to_string(), origin(url).to_string()];
        let issuers = if named.is_empty() { own() } else { named };
        let plain_http = self.plain_http;
        for issuer in issuers.iter().take(ISSUERS) {
            let base = match endpoint("issuer", Some(issuer), plain_http) {
                Ok(text) => Url::parse(&text).ok().filter(|url| url.query().is_none()),
                Err(error) => {
                    let url = escape_for_display(issuer, SHOWN_CHARS);
                    self.attempts.push(DiscoveryAttempt { url, result: error.message });
                    None
                }
            };
            for place in base.iter().flat_map(metadata_urls) {
                let found = self.metadata(&place, |fields| read_server(fields, issuer, plain_http)).await;
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    /// The URL of the keys in the metadata of an issuer.
    async fn jwks_uri(&mut self, issuer: &str) -> Result<String, String> {
        let base = Url::parse(issuer).map_err(|_| "the issuer is not a URL")?;
        let read = |fields: &Map<String, Value>| {
            expect_issuer(fields, issuer)?;
            text(fields, "jwks_uri").ok_or_else(|| "the metadata have no `jwks_uri`".to_owned())
        };
        for place in metadata_urls(&base) {
            if let Some(uri) = self.metadata(&place, read).await {
                return Ok(uri);
            }
        }
        Err(self.attempts_in_words())
    }

    fn attempts_in_words(&self) -> String {
        let attempts = self.attempts.iter().map(|attempt| format!("`{}`: {}", attempt.url, attempt.result));
        attempts.collect::<Vec<_>>().join("; ")
    }

    /// Requests metadata once, and notes the attempt.
    async fn metadata<T>(
        &mut self,
        url: &Url,
        read: impl Fn(&Map<String, Value>) -> Result<T, String>,
    ) -> Option<T> {
        if self.attempts.iter().any(|attempt| attempt.url == url.as_str()) {
            return None;
        }
        let found = self.fields(url).await.and_then(|fields| read(&fields));
        let result = found.as_ref().err().cloned().unwrap_or_else(|| "found".to_owned());
        self.attempts.push(DiscoveryAttempt { url: url.to_string(), result });
        found.ok()
    }

    async fn fields(&self, url: &Url) -> Result<Map<String, Value>, String> {
        let mut url = url.clone();
        for _ in 0..=REDIRECTS {
            let response = self.get(&url).await?;
            if response.status().is_redirection() {
                let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
                let next = location.and_then(|location| url.join(location).ok());
                url = next.ok_or("the response redirects to no URL")?;
                continue;
            }
            if response.status() != StatusCode::OK {
                return Err(status_text(&response));
            }
            return match serde_json::from_slice(response.body()) {
                Ok(PlainValue(Value::Object(fields))) => Ok(fields),
                _ => Err("the response is not a JSON object".to_owned()),
            };
        }
        Err(format!("the response redirects more than {REDIRECTS} times"))
    }

    /// Requests a URL. The client of the daemon checks scheme and addresses, also after a redirect.
    async fn get(&self, url: &Url) -> Result<Response<Vec<u8>>, String> {
        if !url.username().is_empty() || url.password().is_some() {
            return Err("the URL has a user in it".to_owned());
        }
        let request = Request::get(url.as_str())
            .header(header::ACCEPT, "application/json, text/event-stream")
            .header(header::USER_AGENT, "toolgate")
            .body(Vec::new())
            .map_err(|_| "the URL cannot be sent".to_owned())?;
        let response = tokio::time::timeout_at(self.deadline, (self.http)(request)).await;
        response.map_err(|_| "there was no time left".to_owned())?.map_err(|error| error.0)
    }
}

/// Metadata of an issuer that people sign in with (OpenID Connect Discovery, section 3).
pub struct SignInMetadata {
    pub server: AuthorizationServer,
    /// Has the claims that are not in the ID token.
    pub userinfo_endpoint: Option<String>,
    /// Gives codes to devices without a browser (RFC 8628).
    pub device_authorization_endpoint: Option<String>,
    /// URL at which a person signs out of the provider.
    pub end_session_endpoint: Option<String>,
}

/// Fetches the metadata of an issuer that people sign in with. `plain_http` has the hosts that may be used without TLS.
#[boxed]
pub async fn fetch_sign_in_metadata(
    http: &TokenClient,
    issuer: &str,
    plain_http: &[String],
) -> Result<SignInMetadata, String> {
    let deadline = Instant::now() + DISCOVERY_TIME;
    let mut discovery = Discovery { http, plain_http, deadline, attempts: Vec::new() };
    let base = Url::parse(issuer).map_err(|_| "the issuer is not a URL")?;
    let read = |fields: &Map<String, Value>| {
        let url = |name: &str| endpoint(name, Some(fields.get(name)?.as_str()?), plain_http).ok();
        Ok(SignInMetadata {
            server: read_server(fields, issuer, plain_http)?,
            userinfo_endpoint: url("userinfo_endpoint"),
            device_authorization_endpoint: url("device_authorization_endpoint"),
            end_session_endpoint: url("end_session_endpoint"),
        })
    };
    for place in metadata_urls(&base) {
        if let Some(metadata) = discovery.metadata(&place, read).await {
            return Ok(metadata);
        }
    }
    Err(discovery.attempts_in_words())
}

/// Fetches a JSON object, such as the claims of a person, with an access token.
#[boxed]
pub async fn fetch_with_token(
    http: &TokenClient,
    url: &str,
    token: &Secret,
) -> Result<Map<String, Value>, String> {
    let value = Zeroizing::new([b"Bearer ".as_slice(), token.expose()].concat());
    let mut value = HeaderValue::from_bytes(&value).map_err(|_| "the token cannot stand in a header")?;
    value.set_sensitive(true);
    let request = Request::get(url)
        .header(header::ACCEPT, "application/json")
        .header(header::AUTHORIZATION, value)
        .body(Vec::new())
        .map_err(|_| "the URL cannot be sent")?;
    let response = http(request).await.map_err(|error| error.0)?;
    if response.status() != StatusCode::OK {
        return Err(status_text(&response));
    }
    match serde_json::from_slice(response.body()) {
        Ok(PlainValue(Value::Object(fields))) => Ok(fields),
        _ => Err("the response is not a JSON object".to_owned()),
    }
}

/// Fetches the JWK set of an issuer, from `jwks_uri` or from the URL in the issuer's metadata.
#[boxed]
pub async fn fetch_issuer_keys(
    http: &TokenClient,
    issuer: &str,
    jwks_uri: Option<&str>,
) -> Result<Map<String, Value>, String> {
    let deadline = Instant::now() + DISCOVERY_TIME;
    let mut discovery = Discovery { http, plain_http: &[], deadline, attempts: Vec::new() };
    let url = match jwks_uri {
        Some(uri) => uri.to_owned(),
        None => discovery.jwks_uri(issuer).await?,
    };
    let url = Url::parse(&url).map_err(|_| format!("`{url}` is not a URL"))?;
    discovery.fields(&url).await.map_err(|why| format!("`{url}`: {why}"))
}

fn too_many_discoveries() -> CallError {
    CallError::new(ErrorType::Overloaded, "too many discoveries are running", "try again in a minute")
        .with_retry_after_ms(30_000)
}

/// The URL of the service. A query could contain a key, and the audit log has the URL.
fn service_url(text: &str, plain_http: &[String]) -> Result<Url, CallError> {
    let url = Url::parse(&endpoint("url", Some(text), plain_http)?).ok().filter(|url| url.query().is_none());
    url.ok_or_else(|| {
        CallError::new(
            ErrorType::InvalidRequest,
            "the URL has a query",
            "send it without `?` and what follows",
        )
        .with_pointer("/url".to_owned())
    })
}

fn origin(url: &Url) -> Url {
    let mut origin = url.clone();
    origin.set_path("");
    origin
}

/// The well-known URL with the path of `base` after it (RFC 8414, section 3.1; RFC 9728, section 3.1).
fn well_known(base: &Url, name: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("/.well-known/{name}{}", base.path().trim_end_matches('/')));
    url
}

/// URLs of the metadata of an issuer. OpenID Connect appends the well-known path instead of inserting it.
fn metadata_urls(issuer: &Url) -> Vec<Url> {
    let mut appended = issuer.clone();
    let path = issuer.path().trim_end_matches('/');
    appended.set_path(&format!("{path}/.well-known/openid-configuration"));
    vec![
        well_known(issuer, "oauth-authorization-server"),
        well_known(issuer, "openid-configuration"),
        appended,
    ]
}

fn read_resource(fields: &Map<String, Value>, url: &Url) -> Result<Resource, String> {
    let resource = text(fields, "resource").ok_or("the metadata have no `resource`")?;
    if !Url::parse(&resource).is_ok_and(|resource| covers(&resource, url)) {
        return Err(format!("the metadata are about another resource, `{resource}`"));
    }
    let (issuers, scopes) = (texts(fields, "authorization_servers"), texts(fields, "scopes_supported"));
    Ok(Resource { resource, issuers, scopes })
}

/// Whether a resource has the URL: servers name themselves by their origin, or by a path above the URL.
fn covers(resource: &Url, url: &Url) -> bool {
    let path = resource.path().trim_end_matches('/');
    let rest = url.path().strip_prefix(path);
    resource.origin() == url.origin() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The issuer that the metadata name, which must be the one that was asked.
fn expect_issuer(fields: &Map<String, Value>, issuer: &str) -> Result<String, String> {
    let named = text(fields, "issuer").ok_or("the metadata have no `issuer`")?;
    match is_same_issuer(&named, issuer) {
        true => Ok(named),
        false if named.contains('{') => Err(format!(
            "the provider's issuer is a template, `{named}`: write the URL of one tenant as `issuer`"
        )),
        false => Err(format!(
            "the metadata are about another issuer, `{named}`; write that as `issuer` if it is the provider"
        )),
    }
}

fn read_server(
    fields: &Map<String, Value>,
    issuer: &str,
    plain_http: &[String],
) -> Result<AuthorizationServer, String> {
    let named = expect_issuer(fields, issuer)?;
    let url = |name: &str| match fields.get(name).and_then(Value::as_str) {
        None => Ok(None),
        Some(text) => endpoint(name, Some(text), plain_http)
            .map(Some)
            .map_err(|error| format!("`{name}` of the metadata cannot be used: {}", error.message)),
    };
    let flag = |name: &str| fields.get(name).and_then(Value::as_bool).unwrap_or(false);
    Ok(AuthorizationServer {
        authorization_endpoint: url("authorization_endpoint")?,
        token_endpoint: url("token_endpoint")?,
        registration_endpoint: url("registration_endpoint").unwrap_or(None),
        scopes_supported: texts(fields, "scopes_supported"),
        grant_types_supported: texts(fields, "grant_types_supported"),
        code_challenge_methods_supported: texts(fields, "code_challenge_methods_supported"),
        token_endpoint_auth_methods_supported: texts(fields, "token_endpoint_auth_methods_supported"),
        client_id_metadata_document_supported: flag("client_id_metadata_document_supported"),
        authorization_response_iss_parameter_supported: flag(
            "authorization_response_iss_parameter_supported",
        ),
        issuer: named,
    })
}

/// Compares issuers by their characters (RFC 8414, section 3.3). Without a path, a slash at the end makes no difference
/// (RFC 3986, section 6.2.3), and libraries add or remove it.
fn is_same_issuer(one: &str, other: &str) -> bool {
    let has_no_path = |issuer: &str| Url::parse(issuer).is_ok_and(|url| url.path() == "/");
    let without_slash = |issuer: &str| issuer.strip_suffix('/').unwrap_or(issuer).to_owned();
    one == other || has_no_path(one) && has_no_path(other) && without_slash(one) == without_slash(other)
}

fn status_text(response: &Response<Vec<u8>>) -> String {
    format!("the response has status {}", response.status().as_u16())
}

fn text(fields: &Map<String, Value>, name: &str) -> Option<String> {
    fields.get(name).and_then(readable)
}

fn texts(fields: &Map<String, Value>, name: &str) -> Vec<String> {
    let list = fields.get(name).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(readable).take(LIST_ITEMS).collect()
}

/// A text of visible ASCII characters within the limit.
fn readable(value: &Value) -> Option<String> {
    let text = value.as_str()?;
    let is_readable = !text.is_empty()
        && text.len() <= TEXT_BYTES
        && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'`');
    is_readable.then(|| text.to_owned())
}
