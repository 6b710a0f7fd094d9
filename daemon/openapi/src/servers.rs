//! Where the API is.

use serde_json::Value;
use toolgate_admission::{Target, show};

use crate::document::Document;
use crate::import::{ImportError, Report};

/// Servers and variables of them that are looked at.
const SERVERS: usize = 100;

/// Longest path of a base URL.
const PATH_BYTES: usize = 1_000;

/// The server that actions are sent to.
pub(crate) struct Server {
    scheme: &'static str,
    authority: String,
    /// Without a slash at its end.
    path: String,
    /// What the document says at its top, to tell when an operation says something else.
    own: Vec<String>,
}

impl Server {
    /// As the definition says it.
    pub(crate) fn base_url(&self) -> String {
        format!("{}://{}{}", self.scheme, self.authority, self.path)
    }

    /// Whether requests to it are encrypted.
    pub(crate) fn is_tls(&self) -> bool {
        self.scheme == "https"
    }

    /// The host, and the port where it is not that of the scheme.
    pub(crate) fn host(&self) -> &str {
        &self.authority
    }

    /// Whether requests to this path can be sent; `path` has no variables.
    pub(crate) fn check_path(&self, path: &str, method: &str) -> Result<(), String> {
        let whole = format!("{}{path}", self.path);
        Target::parse(self.scheme, &self.authority, &whole, method)
            .map(drop)
            .map_err(|error| format!("no request can be made of its path: {}", error.message))
    }

    /// Why an operation with servers of its own does not belong to this definition.
    pub(crate) fn check_own(&self, servers: Option<&Value>) -> Result<(), String> {
        let urls = urls(servers);
        if urls.is_empty() || urls.iter().any(|url| self.own.contains(url)) {
            return Ok(());
        }
        let named = urls.first().map(|url| show(url, 100)).unwrap_or_default();
        Err(format!("it has a server of its own, `{named}`, and a definition has one"))
    }
}

/// The server that was asked for, or the first of the document with TLS, or its first.
pub(crate) fn choose(
    document: &Document,
    asked: Option<&str>,
    report: &mut Report,
) -> Result<Server, ImportError> {
    let own = urls(document.root().get("servers"));
    if let Some(asked) = asked {
        let server = read(asked, own.clone()).map_err(|why| {
            let message = format!("`{}` cannot be a base URL: {why}", show(asked, 100));
            ImportError::new("", message, "write it like `https://api.example.com/v1`")
        })?;
        return Ok(server);
    }
    let absolute: Vec<&String> = own.iter().filter(|url| url.contains("://")).collect();
    let chosen = absolute.iter().find(|url| url.starts_with("https:")).or(absolute.first());
    let Some(chosen) = chosen else {
        let message = match own.first().filter(|url| url.as_str() != "/") {
            Some(path) => format!("the document names no host: its server is `{}`", show(path, 100)),
            None => "the document names no server".to_owned(),
        };
        let hint = "give `base_url`, the address with host and path, like `https://api.example.com/v1`";
        return Err(ImportError::new("/servers", message, hint));
    };
    if own.len() > 1 {
        report.note("/servers", format!("of {} servers `{}` was taken", own.len(), show(chosen, 100)));
    }
    if chosen.starts_with("http:") {
        report.note("/servers", format!("`{}` is without TLS", show(chosen, 100)));
    }
    read(chosen, own.clone()).map_err(|why| {
        let message = format!("the server `{}` cannot be used: {why}", show(chosen, 100));
        ImportError::new("/servers", message, "give `base_url` instead")
    })
}

fn read(url: &str, own: Vec<String>) -> Result<Server, String> {
    let (scheme, rest) = url.split_once("://").ok_or("it does not begin with `https://`")?;
    if rest.contains(['?', '#']) {
        return Err("it has a query or a fragment".to_owned());
    }
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let path = path.trim_end_matches('/');
    if path.len() > PATH_BYTES {
        return Err(format!("its path has more than {PATH_BYTES} bytes"));
    }
    let target = Target::parse(scheme, authority, path, "GET").map_err(|error| error.message)?;
    Ok(Server { scheme: target.scheme().as_str(), authority: target.authority(), path: path.to_owned(), own })
}

/// The addresses of a list of servers, their variables replaced by what they are by default.
fn urls(servers: Option<&Value>) -> Vec<String> {
    let servers = servers.and_then(Value::as_array).into_iter().flatten().take(SERVERS);
    servers.filter_map(url).collect()
}

fn url(server: &Value) -> Option<String> {
    let mut url = server.get("url")?.as_str()?.trim().to_owned();
    let variables = server.get("variables").and_then(Value::as_object).into_iter().flatten();
    for (name, variable) in variables.take(SERVERS) {
        let default = match variable.get("default") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => continue,
        };
        // What a variable holds is not read for variables again.
        if default.len() + url.len() < 2_000 && !default.contains('{') {
            url = url.replace(&format!("{{{name}}}"), &default);
        }
    }
    // Without a scheme it is that by which the document came, and documents come over TLS.
    Some(if url.starts_with("//") { format!("https:{url}") } else { url })
}
