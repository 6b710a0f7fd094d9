//! The grant of `toolgate run`: all that the plugin asks for, unless options say otherwise.

use clap::Args;
use serde_json::{Value, json};
use toolgate_admission::Descriptor;
use toolgate_api::error::ErrorType;
use toolgate_api::grant::Grant;
use toolgate_cli::Failure;
use toolgate_cli::document::document_from;
use url::{Host, Url};

#[derive(Args, Clone, Debug, Default)]
pub(super) struct RunGrant {
    /// The grant of an operator, as JSON, instead of all that the plugin asks for; `-` for standard input
    #[arg(long, value_name = "FILE")]
    grant: Option<String>,
    /// Allow requests to this URL, also to a private address and without TLS; can be given several times
    #[arg(long, value_name = "URL", value_parser = parse_url)]
    allow_network: Vec<Url>,
}

fn parse_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("`{text}` is not a URL: {error}"))?;
    match (url.scheme(), url.host()) {
        ("http" | "https", Some(_)) => Ok(url),
        _ => Err("write it like `https://api.example.com` or `http://127.0.0.1:8080`".into()),
    }
}

impl RunGrant {
    /// The grant of the calls.
    pub(super) fn of(&self, descriptor: &Descriptor) -> Result<Grant, Failure> {
        let base = match &self.grant {
            Some(file) => parse(&document_from(file)?)?,
            None => descriptor.capabilities.clone().into(),
        };
        if self.allow_network.is_empty() {
            return Ok(base);
        }
        let mut grant = serde_json::to_value(&base).unwrap_or_default();
        self.allow_network.iter().for_each(|url| allow(&mut grant, url));
        let plain = grant["plain_http"].clone();
        if let Some(rules) = grant["network"].as_array_mut() {
            rules.retain(|rule| can_be_granted(rule, &plain));
        }
        parse(&grant.to_string())
    }
}

fn parse(text: &str) -> Result<Grant, Failure> {
    Ok(Grant::parse(text).map_err(|error| error.into_call_error(ErrorType::InvalidPolicy))?)
}

/// A plugin can ask for every host, and for plain HTTP; a grant names the hosts of both.
fn can_be_granted(rule: &Value, plain_http: &Value) -> bool {
    let port = rule["port"].as_u64().unwrap_or(80);
    let plain = json!(format!("{}:{port}", rule["host"].as_str().unwrap_or_default()));
    let is_plain = plain_http.as_array().is_some_and(|hosts| hosts.contains(&plain));
    rule["host"] != "*" && (rule["scheme"] != "http" || is_plain)
}

/// Adds a rule for the host of a URL, and the exceptions that its scheme and address need.
fn allow(grant: &mut Value, url: &Url) {
    let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else { return };
    let mut rule = json!({"scheme": url.scheme(), "host": host.to_string(), "port": port});
    if url.path() != "/" {
        rule["path"] = json!(url.path());
    }
    push(grant, "network", rule);
    if url.scheme() == "http" {
        push(grant, "plain_http", json!(format!("{host}:{port}")));
    }
    let networks: &[String] = &match &host {
        Host::Domain(name) if *name == "localhost" => vec!["127.0.0.0/8".to_owned(), "::1/128".to_owned()],
        Host::Ipv4(address) if is_private_v4(*address) => vec![format!("{address}/32")],
        Host::Ipv6(address) if address.is_loopback() || address.is_unique_local() => {
            vec![format!("{address}/128")]
        }
        _ => Vec::new(),
    };
    for network in networks {
        push(grant, "private_networks", json!(network));
    }
}

fn is_private_v4(address: std::net::Ipv4Addr) -> bool {
    address.is_loopback() || address.is_private() || address.is_link_local()
}

fn push(grant: &mut Value, list: &str, entry: Value) {
    let entries = &mut grant[list];
    match entries.as_array_mut() {
        Some(entries) if entries.contains(&entry) => {}
        Some(entries) => entries.push(entry),
        None => *entries = json!([entry]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor() -> Descriptor {
        let described = r#"{"name":"shop","version":"1","tools":[{"name":"a","description":"D","usage":"U",
            "input_schema":{"type":"object"}}],"capabilities":{"filesystem":"workspace"}}"#;
        Descriptor::parse(described).expect("a description")
    }

    fn grant(urls: &[&str]) -> Grant {
        let allow_network = urls.iter().map(|url| parse_url(url).expect("a URL")).collect();
        RunGrant { grant: None, allow_network }.of(&descriptor()).expect("a grant")
    }

    #[test]
    fn without_options_the_plugin_has_what_it_asks_for() {
        assert_eq!(grant(&[]), Grant::from(descriptor().capabilities));
    }

    #[test]
    fn a_local_server_is_reached_without_tls_at_its_private_address() {
        let grant = grant(&["http://127.0.0.1:8080/v1/", "https://api.example.com"]);
        let shown = serde_json::to_value(&grant).expect("json");
        assert_eq!(shown["private_networks"], json!(["127.0.0.1/32"]));
        assert_eq!(shown["plain_http"], json!(["127.0.0.1:8080"]));
        assert_eq!(shown["network"].as_array().map(Vec::len), Some(2), "{shown}");
        assert_eq!(shown["filesystem"], "workspace", "the other capabilities stay");
    }

    #[test]
    fn rules_that_no_grant_can_have_are_left_out() {
        let plain = json!(["a.example:80"]);
        let rule = |scheme: &str, host: &str| json!({"scheme": scheme, "host": host});
        assert!(can_be_granted(&rule("https", "b.example"), &plain));
        assert!(can_be_granted(&rule("http", "a.example"), &plain));
        assert!(!can_be_granted(&rule("http", "b.example"), &plain));
        assert!(!can_be_granted(&rule("https", "*"), &plain));
    }

    #[test]
    fn a_file_replaces_what_the_plugin_asks_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("grant.json");
        std::fs::write(&file, r#"{"filesystem": "none"}"#).expect("written");
        let options = RunGrant { grant: Some(file.display().to_string()), allow_network: Vec::new() };
        assert_eq!(options.of(&descriptor()).expect("a grant"), Grant::default());
        std::fs::write(&file, r#"{"filesytem": "none"}"#).expect("written");
        options.of(&descriptor()).expect_err("a misspelt field");
    }

    #[test]
    fn what_is_no_url_of_a_server_is_refused() {
        for text in ["api.example.com", "ftp://a.example", "data:text/plain,x"] {
            parse_url(text).expect_err(text);
        }
    }
}
