//! A network destination, written as an address: `"GET,POST https://api.example.com:8443/v1/"`.
//!
//! Methods, port and path are optional: by default all methods, the scheme's port and all paths. A host is a name, `*.` and a
//! name (one more label), or `*` if only the plugin's users know the hosts: an operator then lists them in the grant, since a
//! grant never contains every host.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, LitStr, Result};

use crate::function::option;

#[derive(Debug, PartialEq)]
pub struct NetworkRule {
    scheme: String,
    host: String,
    port: Option<u16>,
    methods: Vec<String>,
    path: Option<String>,
}

impl NetworkRule {
    pub fn read(literal: &LitStr) -> Result<Self> {
        Self::parse(&literal.value()).map_err(|message| Error::new(literal.span(), message))
    }

    fn parse(text: &str) -> std::result::Result<Self, String> {
        let (methods, address) = match text.split_once(' ') {
            Some((methods, address)) => (read_methods(methods)?, address.trim()),
            None => (Vec::new(), text),
        };
        let (scheme, rest) =
            address.split_once("://").ok_or("an address begins with `https://`: write it completely")?;
        if !matches!(scheme, "https" | "http") {
            return Err(format!("the scheme `{scheme}` is not supported: write `https://` or `http://`"));
        }
        let (authority, path) = match rest.find('/') {
            Some(slash) => (&rest[..slash], Some(rest[slash..].to_owned()).filter(|path| path != "/")),
            None => (rest, None),
        };
        let (host, port) = read_authority(authority)?;
        if address.contains(['?', '#', '\\']) || address.contains(char::is_whitespace) {
            return Err("a rule has scheme, host, port and path: leave out what follows".to_owned());
        }
        Ok(Self { scheme: scheme.to_owned(), host, port, methods, path })
    }

    pub fn write(&self) -> TokenStream {
        let Self { scheme, host, methods, .. } = self;
        let port = option(self.port);
        let path = option(self.path.as_ref());
        quote! {
            ::toolgate_sdk::__private::NetworkRule {
                scheme: #scheme,
                host: #host,
                port: #port,
                methods: &[#(#methods),*],
                path: #path,
            }
        }
    }
}

fn read_methods(text: &str) -> std::result::Result<Vec<String>, String> {
    let methods: Vec<String> = text.split(',').map(str::to_owned).collect();
    match methods
        .iter()
        .find(|method| method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase()))
    {
        Some(method) => {
            Err(format!("`{method}` is not a method: write as in `\"GET,POST https://api.example.com/\"`"))
        }
        None => Ok(methods),
    }
}

/// `[::1]:80`, `example.com:8443` or `example.com`.
fn read_authority(authority: &str) -> std::result::Result<(String, Option<u16>), String> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    if host.is_empty() || host.contains('@') {
        return Err("a rule names one host: write it after `https://`".to_owned());
    }
    if host != "*" && host.strip_prefix("*.").unwrap_or(host).contains('*') {
        return Err("`*` stands for one label, as in `*.example.com`, or alone for every host".to_owned());
    }
    let port = match port.map(str::parse::<u16>) {
        None => None,
        Some(Ok(port)) if port > 0 => Some(port),
        Some(_) => {
            return Err(format!(
                "`{authority}` has no port between 1 and 65535: write a number, or leave it out"
            ));
        }
    };
    Ok((host.to_ascii_lowercase(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_parsed_into_its_parts() {
        assert_eq!(
            NetworkRule::parse("GET,POST https://API.example.com:8443/v1/"),
            Ok(NetworkRule {
                scheme: "https".to_owned(),
                host: "api.example.com".to_owned(),
                port: Some(8443),
                methods: vec!["GET".to_owned(), "POST".to_owned()],
                path: Some("/v1/".to_owned()),
            })
        );
        let bare = NetworkRule::parse("https://[::1]/").unwrap();
        assert_eq!((bare.host.as_str(), bare.port, bare.path), ("[::1]", None, None));
        for host in ["*", "*.example.com"] {
            assert_eq!(NetworkRule::parse(&format!("GET https://{host}")).unwrap().host, host);
        }
    }

    #[test]
    fn invalid_addresses_are_refused() {
        for text in [
            "api.example.com",
            "ftp://example.com",
            "https://",
            "https://user@example.com",
            "https://a*.example.com",
            "https://*.*.example.com",
            "https://example.com:0",
            "https://example.com:99999",
            "get https://example.com",
            "https://example.com/?q=1",
            "https://example.com/#top",
        ] {
            assert!(NetworkRule::parse(text).is_err(), "{text}");
        }
    }
}
