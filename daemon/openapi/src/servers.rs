//! Chooses the server of the API.

use serde_json::Value;
use toolgate_api::network::Target;
use toolgate_api::text::escape_for_display;

use crate::document::Document;
use crate::report::{ImportError, Report};

/// Servers of one list, and variables of one server, that are read.
const SERVERS: usize = 100;

/// Longest path of a base URL.
const PATH_BYTES: usize = 1_000;

/// The server to which actions are sent.
pub(crate) struct Server {
    scheme: &'static str,
    authority: String,
    /// Without a trailing slash.
    path: String,
    /// The URLs that the document lists, to detect operations with another server.
    declared: Vec<String>,
}

impl Server {
    pub(crate) fn base_url(&self) -> String {
        format!("{}://{}{}", self.scheme, self.authority, self.path)
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.scheme == "https"
    }

    /// The host, and the port unless it is the default one.
    pub(crate) fn host(&self) -> &str {
        &self.authority
    }

    /// Checks that a request to this path can be sent; `path` has no variables.
    pub(crate) fn check_path(&self, path: &str, method: &str) -> Result<(), String> {
        let whole = format!("{}{path}", self.path);
        Target::parse(self.scheme, &self.authority, &whole, method)
            .map(drop)
            .map_err(|error| format!("its path cannot be requested: {}", error.message))
    }

    /// Checks that an operation's `servers` include one of the document's.
    pub(crate) fn check_operation_servers(&self, servers: Option<&Value>) -> Result<(), String> {
        let urls = urls(servers);
        if urls.is_empty() || urls.iter().any(|url| self.declared.contains(url)) {
            return Ok(());
        }
        let first = urls.first().map(|url| escape_for_display(url, 100)).unwrap_or_default();
        Err(format!("it has a server of its own, `{first}`, and a definition has one server"))
    }
}

/// Chooses the requested base URL, else the first declared URL with TLS, else the first.
pub(crate) fn choose(
    document: &Document,
    requested: Option<&str>,
    report: &mut Report,
) -> Result<Server, ImportError> {
    let declared = urls(document.root().get("servers"));
    if let Some(requested) = requested {
        return parse(requested, declared).map_err(|why| {
            let message = format!("`{}` cannot be a base URL: {why}", escape_for_display(requested, 100));
            ImportError::new("", message, "write it like `https://api.example.com/v1`")
        });
    }
    let mut absolute = declared.iter().filter(|url| url.contains("://"));
    let with_tls = absolute.clone().find(|url| url.starts_with("https:"));
    let Some(chosen) = with_tls.or_else(|| absolute.next()) else {
        let message = match declared.first().filter(|url| url.as_str() != "/") {
            Some(path) => {
                format!("the document names no host: its server is `{}`", escape_for_display(path, 100))
            }
            None => "the document names no server".to_owned(),
        };
        let hint = "give `base_url`, the URL with host and path, like `https://api.example.com/v1`";
        return Err(ImportError::new("/servers", message, hint));
    };
    let shown = escape_for_display(chosen, 100);
    if declared.len() > 1 {
        report.note("/servers", format!("of {} servers, `{shown}` is used", declared.len()));
    }
    if chosen.starts_with("http:") {
        report.note("/servers", format!("requests to `{shown}` are sent without TLS"));
    }
    parse(chosen, declared.clone()).map_err(|why| {
        let message = format!("the server `{shown}` cannot be used: {why}");
        ImportError::new("/servers", message, "give `base_url` instead")
    })
}

fn parse(url: &str, declared: Vec<String>) -> Result<Server, String> {
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
    let (scheme, authority) = (target.scheme().as_str(), target.authority());
    Ok(Server { scheme, authority, path: path.to_owned(), declared })
}

/// The URLs of a server list, with the defaults of their variables filled in.
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
        // A default is not searched for variables again.
        if default.len() + url.len() < 2_000 && !default.contains('{') {
            url = url.replace(&format!("{{{name}}}"), &default);
        }
    }
    // A relative scheme is that of the document, and documents are served over TLS.
    Some(if url.starts_with("//") { format!("https:{url}") } else { url })
}
