//! Chooses one of the document's security schemes as the `authentication` of the definition.
//!
//! A definition has one credential. The chosen scheme suffices for most of the selected operations; the others are left out.
//! The secret itself never occurs here: the host stores it and puts it into requests.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use toolgate_api::text::escape_for_display;

use crate::document::Document;
use crate::operations::Operation;
use crate::options::ImportOptions;
use crate::report::{ImportError, Report};
use crate::servers::Server;
use crate::text::is_visible;

/// Most OAuth scopes that are requested; no person reads a consent page with more.
const SCOPES: usize = 100;
/// Alternatives, and schemes of each, that a message names.
const NAMED: usize = 4;
/// Most schemes of one document.
const SCHEMES: usize = 100;
/// Alternatives of one operation that are read, and schemes of each.
const ALTERNATIVES: usize = 20;

/// The authentication of a definition.
pub(crate) struct Security {
    /// The name of the chosen scheme; none if calls go without a credential.
    name: Option<String>,
    authentication: Value,
    location: Option<SecretLocation>,
    /// The location of the secret of each usable scheme.
    locations: Locations,
}

type Locations = BTreeMap<String, SecretLocation>;

/// The location that all of these schemes share. Two secrets cannot be in one location, so they are the same secret.
fn shared_location<'a>(locations: &'a Locations, schemes: &[(&str, &Value)]) -> Option<&'a SecretLocation> {
    let mut needed = schemes.iter().map(|(name, _)| locations.get(*name));
    let first = needed.next()??;
    needed.all(|location| location == Some(first)).then_some(first)
}

/// The location into which the host writes the secret; a parameter there is not an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SecretLocation {
    Header(String),
    Query(String),
}

/// A scheme that the host supports.
struct Scheme {
    authentication: Map<String, Value>,
    location: SecretLocation,
    /// Whether it is a bearer token in place of a flow that the host does not support.
    is_fallback: bool,
    notes: Vec<String>,
}

impl Scheme {
    fn is_oauth(&self) -> bool {
        let kind = self.authentication.get("kind").and_then(Value::as_str);
        kind.is_some_and(|kind| kind.starts_with("oauth2_"))
    }
}

impl Security {
    /// The `authentication` of the definition.
    pub(crate) fn authentication(&self) -> Value {
        self.authentication.clone()
    }

    pub(crate) fn location(&self) -> Option<&SecretLocation> {
        self.location.as_ref()
    }

    /// Notes the operations that need no credential: an action cannot say so, and is sent with it too.
    pub(crate) fn note_unauthenticated(
        &self,
        document: &Document,
        built: &[&Operation<'_>],
        report: &mut Report,
    ) {
        let Some(name) = &self.name else { return };
        let is_open =
            |operation: &&&Operation<'_>| alternatives(document, operation).iter().all(Vec::is_empty);
        let open: Vec<&Operation<'_>> = built.iter().filter(is_open).copied().collect();
        let mut named: Vec<String> = open.iter().take(NAMED).map(|operation| operation.label()).collect();
        if open.len() > NAMED {
            named.push(format!("{} others", open.len() - NAMED));
        }
        let text = match &named[..] {
            [] => return,
            [one] => format!("{one} needs no credential and is sent with it"),
            [some @ .., last] => {
                format!("{} and {last} need no credential and are sent with it", some.join(", "))
            }
        };
        report.note(pointer(name), text);
    }

    /// Checks that the credential suffices for an operation.
    pub(crate) fn check(&self, document: &Document, operation: &Operation<'_>) -> Result<(), String> {
        let alternatives = alternatives(document, operation);
        let suffices = |schemes: &Vec<(&str, &Value)>| {
            let has_chosen = schemes.iter().any(|(name, _)| self.name.as_deref() == Some(*name));
            schemes.is_empty() || has_chosen && shared_location(&self.locations, schemes).is_some()
        };
        if alternatives.is_empty() || alternatives.iter().any(suffices) {
            return Ok(());
        }
        let names = |schemes: &Vec<(&str, &Value)>| -> Vec<String> {
            schemes
                .iter()
                .take(NAMED)
                .map(|(name, _)| format!("`{}`", escape_for_display(name, 60)))
                .collect()
        };
        let needed: Vec<String> =
            alternatives.iter().take(NAMED).map(|schemes| names(schemes).join(" with ")).collect();
        let has = match &self.name {
            Some(name) => {
                format!("the definition has one credential, for `{}`", escape_for_display(name, 60))
            }
            None => "no such credential can be put into requests".to_owned(),
        };
        Err(format!("it needs {}, and {has}", needed.join(" or ")))
    }
}

/// Chooses the requested scheme, or the one that suffices for most of the operations.
pub(crate) fn choose(
    document: &Document,
    selected: &[&Operation<'_>],
    options: &ImportOptions<'_>,
    server: &Server,
    report: &mut Report,
) -> Result<Security, ImportError> {
    let schemes = schemes(document);
    let location_of = |scheme: &Result<Scheme, String>| Some(scheme.as_ref().ok()?.location.clone());
    let locations: Locations =
        schemes.iter().filter_map(|(name, scheme)| Some((name.clone(), location_of(scheme)?))).collect();
    let uses = count_uses(document, selected, &schemes, &locations);
    let name = match options.scheme {
        Some(requested) => Some(check_requested(requested, &schemes)?),
        None => most_used(&schemes, &uses),
    };
    note_other_schemes(&schemes, &uses, name, report);
    if schemes.is_empty() {
        let text = "the document declares no security scheme; if the API needs a credential, add `authentication` to the definition";
        report.note("/components/securitySchemes", text);
    }
    let Some((name, Ok(scheme))) = name.and_then(|name| schemes.get_key_value(name)) else {
        let none = json!({"kind": "none"});
        return Ok(Security { name: None, authentication: none, location: None, locations });
    };
    if !server.is_tls() {
        let message =
            format!("calls need a credential, which is not sent to `{}` without TLS", server.base_url());
        return Err(ImportError::new("/servers", message, "give `base_url`, the URL with `https`"));
    }
    let mut authentication = scheme.authentication.clone();
    authentication.insert("provider".to_owned(), json!(options.namespace));
    if scheme.is_oauth() {
        authentication.insert("scopes".to_owned(), json!(scopes(document, selected, name)));
    }
    scheme.notes.iter().for_each(|note| report.note(pointer(name), note));
    report.note(pointer(name), credential_note(scheme, options.namespace));
    let location = Some(scheme.location.clone());
    let authentication = Value::Object(authentication);
    Ok(Security { name: Some(name.clone()), authentication, location, locations })
}

fn pointer(name: &str) -> String {
    let escaped = name.replace('~', "~0").replace('/', "~1");
    format!("/components/securitySchemes/{}", escape_for_display(&escaped, 80))
}

fn credential_note(scheme: &Scheme, provider: &str) -> String {
    let kind = scheme.authentication.get("kind").and_then(Value::as_str).unwrap_or_default();
    let place = match &scheme.location {
        SecretLocation::Header(name) if kind == "api_key" => {
            format!(", which goes into the header `{}`", escape_for_display(name, 60))
        }
        SecretLocation::Query(name) => {
            format!(", which goes into the query parameter `{}`", escape_for_display(name, 60))
        }
        SecretLocation::Header(_) => String::new(),
    };
    format!("calls need a credential of the provider `{provider}`, of kind `{kind}`{place}")
}

fn check_requested<'a>(
    requested: &'a str,
    schemes: &BTreeMap<String, Result<Scheme, String>>,
) -> Result<&'a str, ImportError> {
    match schemes.get(requested) {
        Some(Ok(_)) => Ok(requested),
        Some(Err(why)) => {
            let message =
                format!("the security scheme `{}` cannot be used: {why}", escape_for_display(requested, 60));
            Err(ImportError::new(pointer(requested), message, "name another scheme, or none"))
        }
        None => {
            let names: Vec<String> =
                schemes.keys().take(12).map(|name| format!("`{}`", escape_for_display(name, 60))).collect();
            let message =
                format!("the document has no security scheme `{}`", escape_for_display(requested, 60));
            let hint = match names.is_empty() {
                true => "the document declares none: leave `scheme` out".to_owned(),
                false => format!("it has {}", names.join(", ")),
            };
            Err(ImportError::new("/components/securitySchemes", message, hint))
        }
    }
}

/// How many operations each scheme suffices for, in the order in which operations name them.
fn count_uses<'a>(
    document: &'a Document,
    selected: &[&Operation<'a>],
    schemes: &BTreeMap<String, Result<Scheme, String>>,
    locations: &Locations,
) -> Vec<(&'a str, usize)> {
    let is_full = |name: &str| matches!(schemes.get(name), Some(Ok(scheme)) if !scheme.is_fallback);
    let mut uses: Vec<(&str, usize)> = Vec::new();
    for operation in selected {
        for alternative in alternatives(document, operation) {
            if alternative.len() > 1 && shared_location(locations, &alternative).is_none() {
                continue;
            }
            let best = alternative.iter().find(|(name, _)| is_full(name)).or(alternative.first());
            let Some((name, _)) = best else { continue };
            if let Some((_, count)) = uses.iter_mut().find(|(known, _)| known == name) {
                *count += 1;
            } else if uses.len() < SCHEMES {
                uses.push((name, 1));
            }
        }
    }
    uses
}

fn most_used<'a>(
    schemes: &BTreeMap<String, Result<Scheme, String>>,
    uses: &[(&'a str, usize)],
) -> Option<&'a str> {
    let usable = uses.iter().filter(|(name, _)| matches!(schemes.get(*name), Some(Ok(_))));
    // `max_by_key` returns the last of equal ones; reversed, that is the first.
    usable.rev().max_by_key(|(_, count)| *count).map(|(name, _)| *name)
}

fn note_other_schemes(
    schemes: &BTreeMap<String, Result<Scheme, String>>,
    uses: &[(&str, usize)],
    chosen: Option<&str>,
    report: &mut Report,
) {
    for (name, scheme) in schemes {
        match scheme {
            _ if Some(name.as_str()) == chosen => {}
            Err(why) => report.note(pointer(name), format!("it cannot be used: {why}")),
            Ok(_) if uses.is_empty() => {
                report.note(pointer(name), "no operation asks for it, so calls go without a credential");
            }
            Ok(_) if uses.iter().any(|(used, _)| used == name) => {
                let chosen = escape_for_display(chosen.unwrap_or_default(), 60);
                report.note(
                    pointer(name),
                    format!("`{chosen}` was taken instead; name it as `scheme` to take it"),
                );
            }
            Ok(_) => {}
        }
    }
}

/// The alternatives of an operation, each a list of schemes that are needed together. An empty list means none is needed.
fn alternatives<'a>(document: &'a Document, operation: &Operation<'a>) -> Vec<Vec<(&'a str, &'a Value)>> {
    let security = operation.body.get("security").or_else(|| document.root().get("security"));
    let security = security.and_then(Value::as_array).into_iter().flatten().take(ALTERNATIVES);
    security
        .filter_map(Value::as_object)
        .map(|schemes| {
            schemes.iter().take(ALTERNATIVES).map(|(name, scopes)| (name.as_str(), scopes)).collect()
        })
        .collect()
}

/// The scopes that the selected operations list for a scheme.
fn scopes(document: &Document, selected: &[&Operation<'_>], name: &str) -> Vec<String> {
    let mut scopes = BTreeSet::new();
    for operation in selected {
        let alternatives = alternatives(document, operation);
        let listed = alternatives.iter().flatten().filter(|(scheme, _)| *scheme == name);
        let listed = listed.filter_map(|(_, scopes)| scopes.as_array()).flatten().filter_map(Value::as_str);
        let is_scope = |scope: &&str| {
            !scope.is_empty() && scope.len() <= 100 && scope.bytes().all(|byte| byte.is_ascii_graphic())
        };
        scopes.extend(listed.filter(is_scope).map(str::to_owned));
    }
    scopes.into_iter().take(SCOPES).collect()
}

fn schemes(document: &Document) -> BTreeMap<String, Result<Scheme, String>> {
    let schemes = document.object("components").and_then(|components| components.get("securitySchemes"));
    let schemes = schemes.and_then(Value::as_object).into_iter().flatten().take(SCHEMES);
    schemes
        .map(|(name, scheme)| {
            let read = match document.resolve(scheme) {
                Ok(scheme) => read(scheme),
                Err(why) => Err(why.to_string()),
            };
            (name.clone(), read)
        })
        .collect()
}

fn read(scheme: &Value) -> Result<Scheme, String> {
    let text = |name: &str| scheme.get(name).and_then(Value::as_str).unwrap_or_default();
    match text("type") {
        "apiKey" => api_key(text("in"), text("name")),
        "http" => match text("scheme").to_ascii_lowercase().as_str() {
            "bearer" => Ok(in_authorization("bearer")),
            "basic" => Ok(in_authorization("basic")),
            other => Err(format!("HTTP authentication `{}` is not supported", escape_for_display(other, 40))),
        },
        "oauth2" => oauth2(scheme.get("flows").unwrap_or(&Value::Null)),
        "openIdConnect" => Ok(bearer_fallback("obtain its token elsewhere; it is sent as a bearer token")),
        other => Err(format!("security of type `{}` is not supported", escape_for_display(other, 40))),
    }
}

fn api_key(location: &str, name: &str) -> Result<Scheme, String> {
    if name.is_empty() || !is_visible(name) {
        return Err("its key has no name".to_owned());
    }
    let location = match location {
        "header" => SecretLocation::Header(name.to_owned()),
        "query" => SecretLocation::Query(name.to_owned()),
        other => return Err(format!("a key in `{}` is not supported", escape_for_display(other, 40))),
    };
    Ok(Scheme { location, ..in_authorization("api_key") })
}

fn oauth2(flows: &Value) -> Result<Scheme, String> {
    for (flow, kind) in [
        ("clientCredentials", "oauth2_client_credentials"),
        ("authorizationCode", "oauth2_authorization_code"),
    ] {
        let Some(flow) = flows.get(flow) else { continue };
        let mut scheme = in_authorization(kind);
        let token_url = flow.get("tokenUrl").and_then(Value::as_str).unwrap_or_default();
        let is_word = token_url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'@');
        match token_url.starts_with("https://") && is_word && token_url.len() < 2_000 {
            true => drop(scheme.authentication.insert("token_url".to_owned(), json!(token_url))),
            false => {
                scheme.notes.push("its token URL is left out: it does not begin with `https://`".to_owned())
            }
        }
        return Ok(scheme);
    }
    Ok(bearer_fallback(
        "no supported flow is declared: obtain a token elsewhere; it is sent as a bearer token",
    ))
}

fn bearer_fallback(note: &str) -> Scheme {
    Scheme { is_fallback: true, notes: vec![note.to_owned()], ..in_authorization("bearer") }
}

fn in_authorization(kind: &str) -> Scheme {
    let authentication = Map::from_iter([("kind".to_owned(), json!(kind))]);
    let location = SecretLocation::Header("Authorization".to_owned());
    Scheme { authentication, location, is_fallback: false, notes: Vec::new() }
}
