//! How requests prove who sends them: one of the document's security schemes, as the `authentication` of the definition.
//!
//! A definition has one credential. So the scheme is taken that suffices for most of the selected operations; those for
//! which it does not are left out. The secret itself is never here: the host has it, and puts it into requests.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use toolgate_admission::show;

use crate::document::Document;
use crate::import::{ImportError, Report, Wanted};
use crate::operations::Operation;
use crate::servers::Server;
use crate::text::is_visible;

/// Scopes that are named; a request for more is no longer read by anybody.
const SCOPES: usize = 100;
/// Alternatives that a reason names, and schemes of each.
const NAMED: usize = 4;
/// Schemes of one document.
const SCHEMES: usize = 100;
/// Alternatives of one operation that are looked at, and schemes of each.
const ALTERNATIVES: usize = 20;

/// The security of a definition.
pub(crate) struct Security {
    /// The name of the scheme in the document; none where nothing is needed.
    name: Option<String>,
    authentication: Value,
    place: Option<SecretPlace>,
    /// Where each scheme that can be used has its secret.
    places: Places,
}

type Places = BTreeMap<String, SecretPlace>;

/// The place that all of these schemes have in common: two secrets cannot stand there, so they are one, named twice.
fn one_secret<'a>(places: &'a Places, schemes: &[(&str, &Value)]) -> Option<&'a SecretPlace> {
    let mut needed = schemes.iter().map(|(name, _)| places.get(*name));
    let first = needed.next()??;
    needed.all(|place| place == Some(first)).then_some(first)
}

/// Where the host puts the secret: what stands there is no argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SecretPlace {
    Header(String),
    Query(String),
}

/// A scheme that the host can use.
struct Scheme {
    authentication: Map<String, Value>,
    place: SecretPlace,
    /// Whether it is a bearer token in place of what the host cannot do.
    is_stopgap: bool,
    notes: Vec<String>,
}

impl Scheme {
    fn is_oauth(&self) -> bool {
        let kind = self.authentication.get("kind").and_then(Value::as_str);
        kind.is_some_and(|kind| kind.starts_with("oauth2_"))
    }
}

impl Security {
    /// As the definition says it.
    pub(crate) fn authentication(&self) -> Value {
        self.authentication.clone()
    }

    /// Where its secret goes.
    pub(crate) fn place(&self) -> Option<&SecretPlace> {
        self.place.as_ref()
    }

    /// Tells of the operations that need no credential: an action cannot say so, and theirs are sent with it too.
    pub(crate) fn tell_of_open(&self, document: &Document, taken: &[&Operation<'_>], report: &mut Report) {
        let Some(name) = &self.name else { return };
        let is_open =
            |operation: &&&Operation<'_>| alternatives(document, operation).iter().all(Vec::is_empty);
        let open: Vec<&Operation<'_>> = taken.iter().filter(is_open).copied().collect();
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

    /// Why the credential does not suffice for an operation.
    pub(crate) fn check(&self, document: &Document, operation: &Operation<'_>) -> Result<(), String> {
        let alternatives = alternatives(document, operation);
        let suffices = |schemes: &Vec<(&str, &Value)>| {
            let has_chosen = schemes.iter().any(|(name, _)| self.name.as_deref() == Some(*name));
            schemes.is_empty() || has_chosen && one_secret(&self.places, schemes).is_some()
        };
        if alternatives.is_empty() || alternatives.iter().any(suffices) {
            return Ok(());
        }
        let needed: Vec<String> = alternatives
            .iter()
            .map(|schemes| {
                let names: Vec<String> =
                    schemes.iter().take(NAMED).map(|(name, _)| format!("`{}`", show(name, 60))).collect();
                names.join(" with ")
            })
            .take(NAMED)
            .collect();
        let has = match &self.name {
            Some(name) => format!("the definition has one credential, for `{}`", show(name, 60)),
            None => "no such credential can be put into requests".to_owned(),
        };
        Err(format!("it needs {}, and {has}", needed.join(" or ")))
    }
}

/// The scheme that was asked for, or the one that suffices for most of the operations.
pub(crate) fn choose(
    document: &Document,
    selected: &[&Operation<'_>],
    wanted: &Wanted<'_>,
    server: &Server,
    report: &mut Report,
) -> Result<Security, ImportError> {
    let schemes = schemes(document);
    let places: Places = schemes
        .iter()
        .filter_map(|(name, scheme)| Some((name.clone(), scheme.as_ref().ok()?.place.clone())))
        .collect();
    let uses = uses(document, selected, &schemes, &places);
    let name = match wanted.scheme {
        Some(asked) => Some(check_asked(asked, &schemes)?),
        None => most_used(&schemes, &uses),
    };
    tell_of_others(&schemes, &uses, name, report);
    if schemes.is_empty() {
        let text = "the document says nothing of credentials; if the API takes one, add `authentication` to the definition";
        report.note("/components/securitySchemes", text);
    }
    let Some((name, Ok(scheme))) = name.and_then(|name| schemes.get_key_value(name)) else {
        return Ok(Security { name: None, authentication: json!({"kind": "none"}), place: None, places });
    };
    if !server.is_tls() {
        let message =
            format!("calls need a credential, which is not sent to `{}` without TLS", server.base_url());
        return Err(ImportError::new("/servers", message, "give `base_url`, the address with `https`"));
    }
    let mut authentication = scheme.authentication.clone();
    authentication.insert("provider".to_owned(), json!(wanted.namespace));
    if scheme.is_oauth() {
        let scopes = scopes(document, selected, name);
        authentication.insert("scopes".to_owned(), json!(scopes));
    }
    scheme.notes.iter().for_each(|note| report.note(pointer(name), note));
    report.note(pointer(name), how_to_connect(scheme, wanted.namespace));
    let place = Some(scheme.place.clone());
    Ok(Security { name: Some(name.clone()), authentication: Value::Object(authentication), place, places })
}

fn pointer(name: &str) -> String {
    let escaped = name.replace('~', "~0").replace('/', "~1");
    format!("/components/securitySchemes/{}", show(&escaped, 80))
}

fn how_to_connect(scheme: &Scheme, provider: &str) -> String {
    let kind = scheme.authentication.get("kind").and_then(Value::as_str).unwrap_or_default();
    let place = match &scheme.place {
        SecretPlace::Header(name) if kind == "api_key" => {
            format!(", which goes into the header `{}`", show(name, 60))
        }
        SecretPlace::Query(name) => {
            format!(", which goes into the parameter `{}` of the query", show(name, 60))
        }
        SecretPlace::Header(_) => String::new(),
    };
    format!("calls need a credential of the provider `{provider}`, of kind `{kind}`{place}")
}

fn check_asked<'a>(
    asked: &'a str,
    schemes: &BTreeMap<String, Result<Scheme, String>>,
) -> Result<&'a str, ImportError> {
    match schemes.get(asked) {
        Some(Ok(_)) => Ok(asked),
        Some(Err(why)) => {
            let message = format!("the security scheme `{}` cannot be used: {why}", show(asked, 60));
            Err(ImportError::new(pointer(asked), message, "name another scheme, or none"))
        }
        None => {
            let names: Vec<String> =
                schemes.keys().take(12).map(|name| format!("`{}`", show(name, 60))).collect();
            let message = format!("the document has no security scheme `{}`", show(asked, 60));
            let hint = match names.is_empty() {
                true => "it has none at all: name none".to_owned(),
                false => format!("it has {}", names.join(", ")),
            };
            Err(ImportError::new("/components/securitySchemes", message, hint))
        }
    }
}

/// How many operations each scheme suffices for, those first that are named first.
fn uses<'a>(
    document: &'a Document,
    selected: &[&Operation<'a>],
    schemes: &BTreeMap<String, Result<Scheme, String>>,
    places: &Places,
) -> Vec<(&'a str, usize)> {
    let is_whole = |name: &str| matches!(schemes.get(name), Some(Ok(scheme)) if !scheme.is_stopgap);
    let mut uses: Vec<(&str, usize)> = Vec::new();
    for operation in selected {
        for alternative in alternatives(document, operation) {
            if alternative.len() > 1 && one_secret(places, &alternative).is_none() {
                continue;
            }
            let best = alternative.iter().find(|(name, _)| is_whole(name)).or(alternative.first());
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
    // Of equal ones `max_by_key` takes the last, and the first is meant.
    usable.rev().max_by_key(|(_, count)| *count).map(|(name, _)| *name)
}

fn tell_of_others(
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
                let chosen = show(chosen.unwrap_or_default(), 60);
                report.note(
                    pointer(name),
                    format!("`{chosen}` was taken instead; name it as `scheme` to take it"),
                );
            }
            Ok(_) => {}
        }
    }
}

/// The schemes that an operation needs: lists of which one must be there whole. None at all means nothing is needed.
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

/// What the selected operations ask for under that scheme.
fn scopes(document: &Document, selected: &[&Operation<'_>], name: &str) -> Vec<String> {
    let mut scopes = BTreeSet::new();
    for operation in selected {
        let alternatives = alternatives(document, operation);
        let asked = alternatives.iter().flatten().filter(|(scheme, _)| *scheme == name);
        let asked = asked.filter_map(|(_, scopes)| scopes.as_array()).flatten().filter_map(Value::as_str);
        let is_scope = |scope: &&str| {
            !scope.is_empty() && scope.len() <= 100 && scope.bytes().all(|byte| byte.is_ascii_graphic())
        };
        scopes.extend(asked.filter(is_scope).map(str::to_owned));
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
            other => Err(format!("HTTP authentication `{}` is not known", show(other, 40))),
        },
        "oauth2" => oauth2(scheme.get("flows").unwrap_or(&Value::Null)),
        "openIdConnect" => Ok(a_token("its token, got elsewhere, is sent as a bearer token")),
        other => Err(format!("security of type `{}` is not known", show(other, 40))),
    }
}

fn api_key(place: &str, name: &str) -> Result<Scheme, String> {
    if name.is_empty() || !is_visible(name) {
        return Err("its key has no name".to_owned());
    }
    let place = match place {
        "header" => SecretPlace::Header(name.to_owned()),
        "query" => SecretPlace::Query(name.to_owned()),
        other => return Err(format!("a key in `{}` is not put into requests", show(other, 40))),
    };
    Ok(Scheme { place, ..in_authorization("api_key") })
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
            false => scheme.notes.push("its token address is none with `https`, and is left out".to_owned()),
        }
        return Ok(scheme);
    }
    Ok(a_token("no flow without a browser is offered; a token got elsewhere is sent as a bearer token"))
}

fn a_token(note: &str) -> Scheme {
    Scheme { is_stopgap: true, notes: vec![note.to_owned()], ..in_authorization("bearer") }
}

fn in_authorization(kind: &str) -> Scheme {
    let authentication = Map::from_iter([("kind".to_owned(), json!(kind))]);
    let place = SecretPlace::Header("Authorization".to_owned());
    Scheme { authentication, place, is_stopgap: false, notes: Vec::new() }
}
