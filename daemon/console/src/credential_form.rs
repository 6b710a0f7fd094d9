//! The fields of a credential: of a stored one, of a form that was refused, or suggested for a plugin. No field has a secret.

use std::collections::BTreeMap;

use maud::{Markup, Render, html};
use toolgate_api::credential::{CredentialDraft, CredentialKind, CredentialRequest, SecretText};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::network::{CredentialBinding, HostPattern, NetworkRule, NetworkScheme};
use toolgate_core::credentials::{Authentication, CredentialDocument, OauthClient};
use toolgate_http::problem::Problem;
use toolgate_state::clock::now_ms;
use url::Url;
use zeroize::Zeroizing;

use super::fields::Field;
use super::form::FormFields;

/// The kinds, each with its words.
pub(super) const KINDS: [(CredentialKind, &str); 5] = [
    (CredentialKind::Bearer, "Token in the header Authorization"),
    (CredentialKind::ApiKey, "API key in a header or the query"),
    (CredentialKind::Basic, "User name and password"),
    (CredentialKind::ClientCredentials, "OAuth: the daemon signs in by itself"),
    (CredentialKind::AuthorizationCode, "OAuth: a person consents"),
];

const DAY_MS: u64 = 86_400_000;

/// A field of text: its name, label, hint, and the kinds that have it.
struct TextField {
    name: &'static str,
    label: &'static str,
    hint: &'static str,
    kinds: &'static [CredentialKind],
    is_required: bool,
}

const ALL: &[CredentialKind] = &[
    CredentialKind::Bearer,
    CredentialKind::ApiKey,
    CredentialKind::Basic,
    CredentialKind::ClientCredentials,
    CredentialKind::AuthorizationCode,
];
const PLAIN: &[CredentialKind] = &[CredentialKind::Bearer, CredentialKind::ApiKey, CredentialKind::Basic];
const OAUTH: &[CredentialKind] = &[CredentialKind::ClientCredentials, CredentialKind::AuthorizationCode];
const KEY: &[CredentialKind] = &[CredentialKind::ApiKey];
const PERSON: &[CredentialKind] = &[CredentialKind::AuthorizationCode];

const FIELDS: [TextField; 13] = [
    field("provider", "Provider", "The name that plugins ask for, such as stripe.", ALL, true),
    field(
        "header",
        "Header",
        "The header of the key, such as x-api-key. Leave it empty for a key in the query.",
        KEY,
        false,
    ),
    field(
        "prefix",
        "Text before the key in the header",
        "With the space at its end, if there is one.",
        KEY,
        false,
    ),
    field("query", "Query parameter", "The parameter of the key, instead of a header.", KEY, false),
    field("username", "User name", "The name at the provider.", &[CredentialKind::Basic], true),
    field("client_id", "Client id", "The daemon's id at the provider.", OAUTH, true),
    field("authorization_url", "Authorization URL", "The address at which a person consents.", PERSON, true),
    field("token_url", "Token URL", "The address at which the daemon gets tokens.", OAUTH, true),
    field("issuer", "Issuer", "Only if the provider names itself in its responses.", PERSON, false),
    field("scopes", "Scopes", "With spaces between them. Ask for as few as possible.", OAUTH, false),
    field(
        "parameters",
        "Further parameters",
        "Such as audience=https://api.example.com/, with spaces between them.",
        OAUTH,
        false,
    ),
    field("user", "User", "The user that owns it. Empty: the organization owns it.", ALL, false),
    field("days", "Days until it expires", "Empty for a secret that does not expire.", PLAIN, false),
];

const fn field(
    name: &'static str,
    label: &'static str,
    hint: &'static str,
    kinds: &'static [CredentialKind],
    is_required: bool,
) -> TextField {
    TextField { name, label, hint, kinds, is_required }
}

/// The values of the fields, by name.
#[derive(Default)]
pub(super) struct CredentialFields(BTreeMap<&'static str, String>);

/// The kind with this name.
pub(super) fn kind(name: &str) -> Option<CredentialKind> {
    KINDS.into_iter().map(|(kind, _)| kind).find(|kind| kind.as_str() == name)
}

impl CredentialFields {
    /// The fields of a new credential, for the provider and the hosts that a plugin asks for.
    pub(super) fn suggest(provider: &str, network: &[NetworkRule]) -> Self {
        let lines: Vec<String> = network.iter().filter_map(suggestion).collect();
        Self(BTreeMap::from([
            ("provider", provider.to_owned()),
            ("bound_to", lines.join("\n")),
            ("shared", "on".to_owned()),
        ]))
    }

    /// The fields that a discovery found.
    pub(super) fn of_draft(draft: &CredentialDraft) -> Self {
        let bound_to: Vec<String> = draft.bound_to.iter().map(binding_line).collect();
        let client = OauthClient {
            client_id: draft.client_id.clone().unwrap_or_default(),
            token_url: draft.token_url.clone(),
            scopes: draft.scopes.clone(),
            secret_in_body: draft.secret_in_body.unwrap_or(false),
            parameters: draft.parameters.clone(),
        };
        let mut fields: BTreeMap<_, _> = client_fields(&client).into_iter().collect();
        fields.extend([
            ("provider", draft.provider.clone()),
            ("authorization_url", draft.authorization_url.clone().unwrap_or_default()),
            ("issuer", draft.issuer.clone().unwrap_or_default()),
            ("bound_to", bound_to.join("\n")),
            ("shared", "on".to_owned()),
        ]);
        Self(fields)
    }

    /// The same for a provider that was named before.
    pub(super) fn with_provider(mut self, provider: Option<&str>) -> Self {
        self.0.extend(provider.map(|provider| ("provider", provider.to_owned())));
        self
    }

    /// The fields of a form, without its secret.
    pub(super) fn of_form(form: &FormFields) -> Self {
        let names = FIELDS.iter().map(|field| field.name);
        let names = names.chain(["bound_to", "vault", "file"]).map(|name| (name, form.text(name).to_owned()));
        let switches = ["shared", "secret_in_body"].into_iter().filter(|name| form.is_checked(name));
        Self(names.chain(switches.map(|name| (name, "on".to_owned()))).collect())
    }

    /// The fields of a stored credential.
    pub(super) fn of_document(document: &CredentialDocument) -> Self {
        let bound_to: Vec<String> = document.bound_to.iter().map(binding_line).collect();
        let mut fields = BTreeMap::from([
            ("provider", document.provider.clone()),
            ("bound_to", bound_to.join("\n")),
            ("user", document.user.clone().unwrap_or_default()),
            ("vault", document.vault.clone().unwrap_or_default()),
            ("file", document.file.clone().unwrap_or_default()),
        ]);
        if document.shared {
            fields.insert("shared", "on".to_owned());
        }
        match &document.authentication {
            Authentication::ApiKeyHeader { header, prefix } => {
                fields.extend([("header", header.clone()), ("prefix", prefix.clone())]);
            }
            Authentication::ApiKeyQuery { query } => fields.extend([("query", query.clone())]),
            Authentication::Bearer {} => {}
            Authentication::Basic { username } => fields.extend([("username", username.clone())]),
            Authentication::ClientCredentials(client) => fields.extend(client_fields(client)),
            Authentication::AuthorizationCode { client, authorization_url, issuer } => {
                fields.extend(client_fields(client));
                fields.insert("authorization_url", authorization_url.clone());
                fields.insert("issuer", issuer.clone().unwrap_or_default());
            }
        }
        Self(fields)
    }

    /// The inputs of a credential of this kind. `elsewhere`: whether secrets may stay in the operator's vault, and in mounted files.
    pub(super) fn inputs(&self, kind: CredentialKind, elsewhere: [bool; 2]) -> Markup {
        let [has_vault, has_files] =
            elsewhere.map(|is_there| is_there && kind != CredentialKind::AuthorizationCode);
        html! {
            input type="hidden" name="kind" value=(kind.as_str());
            @for field in FIELDS.iter().filter(|field| field.kinds.contains(&kind)) { (self.input(field)) }
            @if OAUTH.contains(&kind) {
                label.choice {
                    input type="checkbox" name="secret_in_body" checked[self.is_on("secret_in_body")];
                    "The client secret goes into the body of token requests, not into their header"
                }
            }
            label.choice {
                input type="checkbox" name="shared" checked[self.is_on("shared")];
                "Users without a credential of their own use this one"
            }
            (Field::new("bound_to", "Goes to (needed)").value(self.text("bound_to")).lines(3).required(true)
                .hint("The only requests that carry it: an address on each line, such as https://api.example.com/v1/, or GET,POST before it."))
            (secret_input(kind, "secret"))
            @if has_vault {
                (Field::new("vault", "Path in the vault").value(self.text("vault"))
                    .hint("Instead of the secret: MOUNT/PATH#FIELD in the operator's vault."))
            }
            @if has_files {
                (Field::new("file", "Mounted file").value(self.text("file"))
                    .hint("Instead of the secret: a file in the organization's folder of secrets."))
            }
        }
    }

    fn input(&self, field: &TextField) -> Markup {
        let label = format!("{}{}", field.label, if field.is_required { " (needed)" } else { "" });
        let input = Field::new(field.name, &label).value(self.text(field.name)).required(field.is_required);
        input.hint(field.hint).render()
    }

    fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn is_on(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

/// The input of a secret, which is sent once and never shown.
pub(super) fn secret_input(kind: CredentialKind, id: &str) -> Markup {
    let hint_id = format!("{id}-hint");
    let (label, hint) = match kind {
        CredentialKind::Basic => ("Password", "It is sent once, and no page shows it."),
        CredentialKind::ClientCredentials => ("Client secret", "It is sent once, and no page shows it."),
        CredentialKind::AuthorizationCode => {
            ("Client secret", "Empty for a client without one. It is sent once, and no page shows it.")
        }
        CredentialKind::ApiKey | CredentialKind::Bearer => {
            ("Secret", "It is sent once, and no page shows it.")
        }
    };
    html! {
        label for=(id) { (label) }
        input id=(id) type="password" name="secret" autocomplete="new-password" spellcheck="false" aria-describedby=(hint_id);
        p.hint id=(hint_id) { (hint) }
    }
}

/// The secret of a form; none where it was left empty.
pub(super) fn secret(form: &FormFields) -> Option<SecretText> {
    let text = form.text("secret");
    (!text.is_empty()).then(|| SecretText(Zeroizing::new(text.to_owned())))
}

/// When the secret of a form expires, in milliseconds since 1970.
pub(super) fn expires_ms(form: &FormFields) -> Result<Option<u64>, Problem> {
    let days = form.number("days")?;
    Ok(days.map(|days| now_ms().saturating_add(days.saturating_mul(DAY_MS))))
}

/// The request that a form makes. Fields of other kinds are not sent by the page, and count if they are sent.
pub(super) fn request(form: &FormFields) -> Result<CredentialRequest, Problem> {
    let kind = kind(form.text("kind"))
        .ok_or_else(|| refusal("that is no kind of credential", "choose one of the page"))?;
    let text = |name: &str| form.filled_field(name).map(str::to_owned);
    let words = |name: &str| form.filled_field(name).map(|text| text.split_whitespace().map(str::to_owned));
    let is_oauth = OAUTH.contains(&kind);
    let lines = form.text("bound_to").lines().map(str::trim).filter(|line| !line.is_empty());
    let user = text("user");
    Ok(CredentialRequest {
        provider: form.text("provider").trim().to_owned(),
        kind,
        bound_to: lines.map(binding).collect::<Result<_, _>>()?,
        shared: user.is_none().then(|| form.is_checked("shared")),
        user,
        expires_ms: expires_ms(form)?,
        secret: secret(form),
        vault: text("vault"),
        file: text("file"),
        header: text("header"),
        // A space at the end of the prefix belongs to it.
        prefix: Some(form.text("prefix").to_owned()).filter(|prefix| !prefix.is_empty()),
        query: text("query"),
        username: text("username"),
        client_id: text("client_id"),
        token_url: text("token_url"),
        authorization_url: text("authorization_url"),
        issuer: text("issuer"),
        scopes: words("scopes").map(Iterator::collect),
        secret_in_body: is_oauth.then(|| form.is_checked("secret_in_body")),
        parameters: words("parameters").map(|words| words.map(parameter).collect()).transpose()?,
    })
}

fn parameter(word: String) -> Result<(String, String), Problem> {
    let pair = word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    pair.ok_or_else(|| refusal("a further parameter has no `=`", "write each as NAME=VALUE"))
}

fn client_fields(client: &OauthClient) -> Vec<(&'static str, String)> {
    let parameters: Vec<String> =
        client.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut fields = vec![
        ("client_id", client.client_id.clone()),
        ("token_url", client.token_url.clone()),
        ("scopes", client.scopes.join(" ")),
        ("parameters", parameters.join(" ")),
    ];
    if client.secret_in_body {
        fields.push(("secret_in_body", "on".to_owned()));
    }
    fields
}

/// The address that a plugin asks for, if it names one host over TLS.
fn suggestion(rule: &NetworkRule) -> Option<String> {
    let HostPattern::Exact(host) = &rule.host else { return None };
    let binding = CredentialBinding {
        scheme: rule.scheme,
        host: host.to_string(),
        port: rule.port,
        methods: rule.methods.clone(),
        path: rule.path.clone(),
    };
    (rule.scheme == NetworkScheme::Https).then(|| binding_line(&binding))
}

/// A binding on a line, as [`binding`] reads it.
pub(super) fn binding_line(binding: &CredentialBinding) -> String {
    let methods = binding.methods.as_ref().map(|methods| format!("{} ", methods.join(",")));
    let port = binding.port.filter(|port| *port != binding.scheme.default_port());
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    let host = match binding.host.contains(':') && !binding.host.starts_with('[') {
        true => format!("[{}]", binding.host),
        false => binding.host.clone(),
    };
    let path = binding.path.as_deref().unwrap_or("/");
    format!("{}{}://{host}{port}{path}", methods.unwrap_or_default(), binding.scheme.as_str())
}

/// Reads a line such as `GET,POST https://api.example.com/v1/`.
fn binding(line: &str) -> Result<CredentialBinding, Problem> {
    let (methods, address) = match line.rsplit_once(char::is_whitespace) {
        Some((methods, address)) => (Some(methods.trim()), address),
        None => (None, line),
    };
    let invalid =
        || refusal("a line of the addresses is no address", "write each like `https://api.example.com/v1/`");
    let url =
        Url::parse(address).ok().filter(|url| url.has_host() && url.query().is_none()).ok_or_else(invalid)?;
    let is_anonymous = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    let scheme = match url.scheme() {
        "https" if is_anonymous => NetworkScheme::Https,
        "http" if is_anonymous => NetworkScheme::Http,
        _ => return Err(invalid()),
    };
    // A URL parser reads `/v1/../` as `/`, which is more than was meant.
    if address.splitn(4, '/').nth(3).is_some_and(|path| url.path()[1..] != *path) {
        return Err(refusal(
            "the path of an address is not written as it is meant",
            "leave `.` and `..` out of it",
        ));
    }
    let methods = methods.map(|methods| methods.split(',').map(|method| method.trim().to_owned()).collect());
    let host = url.host_str().unwrap_or_default().to_owned();
    let path = Some(url.path().to_owned()).filter(|path| path != "/");
    Ok(CredentialBinding { scheme, host, port: url.port(), methods, path })
}

fn refusal(message: &str, hint: &str) -> Problem {
    CallError::new(ErrorType::InvalidRequest, message, hint).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_core::credentials::new_credential;

    fn message(fields: &[(&str, &str)]) -> String {
        request(&FormFields::of(fields)).map(|_| ()).expect_err("refused").0.message
    }

    #[test]
    fn o6_a_line_is_read_as_it_is_written() {
        for line in [
            "https://api.example.com/v1/",
            "GET,POST https://api.example.com:8443/",
            "https://api.example.com/",
        ] {
            let read = binding(line).map_err(|Problem(error)| error.message).expect("a binding");
            assert_eq!(binding_line(&read), line);
        }
        for line in [
            "api.example.com",
            "ftp://a.example/",
            "https://a.example/?key=1",
            "https://a@b.example/",
            "https://a.example/v1/../",
        ] {
            assert!(binding(line).is_err(), "{line}");
        }
    }

    #[test]
    fn o6_a_form_of_each_kind_is_a_credential_and_reads_back_without_its_secret() {
        let common = [
            ("provider", "stripe"),
            ("bound_to", "GET https://api.stripe.com/v1/\n"),
            ("secret", "sk_live_canary_1"),
        ];
        let oauth = [
            ("client_id", "me"),
            ("token_url", "https://login.example/token"),
            ("scopes", "a b"),
            ("parameters", "audience=x"),
        ];
        let person =
            [("authorization_url", "https://login.example/auth"), ("issuer", "https://login.example")];
        let cases: [(&str, Vec<(&str, &str)>); 6] = [
            ("bearer", vec![("shared", "on")]),
            ("api_key", vec![("header", "x-api-key"), ("prefix", "Key ")]),
            ("api_key", vec![("query", "key")]),
            ("basic", vec![("username", "ann"), ("user", "ann")]),
            ("oauth2_client_credentials", oauth.to_vec()),
            ("oauth2_authorization_code", [oauth.as_slice(), &person].concat()),
        ];
        for (kind, own) in cases {
            let fields = [common.as_slice(), &[("kind", kind)], &own].concat();
            let made = request(&FormFields::of(&fields)).map_err(|Problem(error)| error.message).expect(kind);
            let made = new_credential(made, &[]).map_err(|error| error.message).expect(kind);
            let read = CredentialFields::of_document(&made.document);
            for (name, value) in own.iter().filter(|(name, _)| *name != "shared") {
                assert_eq!(read.text(name), *value, "{kind}");
            }
            assert_eq!(read.text("bound_to"), "GET https://api.stripe.com/v1/");
            let shown = read.inputs(made.document.authentication.kind(), [true; 2]).into_string();
            assert!(!shown.contains("canary"), "{shown}");
            let refused = CredentialFields::of_form(&FormFields::of(&fields));
            assert!(
                !refused
                    .inputs(made.document.authentication.kind(), [true; 2])
                    .into_string()
                    .contains("canary")
            );
        }
    }

    #[test]
    fn o6_a_form_that_cannot_be_read_says_why_and_quotes_nothing() {
        let secret = "https://user:canary@host/";
        for fields in [
            vec![("kind", "canary")],
            vec![("kind", "bearer"), ("bound_to", secret)],
            vec![("kind", "bearer"), ("bound_to", "https://a.example/"), ("parameters", "canary")],
            vec![("kind", "bearer"), ("bound_to", "https://a.example/"), ("days", "canary")],
        ] {
            let message = message(&fields);
            assert!(!message.is_empty() && !message.contains("canary"), "{message}");
        }
    }
}
