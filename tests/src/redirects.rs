//! Minimal browser for the redirects of an OAuth2 provider that asks no person.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::Client;

/// Longest chain of redirects.
const REDIRECTS: usize = 10;

/// A browser that keeps the provider's cookies.
#[derive(Default)]
pub struct ProviderBrowser {
    cookies: RefCell<BTreeMap<String, String>>,
}

impl ProviderBrowser {
    /// Opens a URL of the provider, and follows its redirects until one contains `end`. Returns that URL.
    pub fn follow_to(&self, provider: SocketAddr, url: &str, end: &str) -> String {
        let mut at = url.to_owned();
        for _ in 0..REDIRECTS {
            if at.contains(end) {
                return at;
            }
            at = self.follow(provider, &at);
        }
        panic!("the provider redirects in a loop: {at}");
    }

    fn follow(&self, provider: SocketAddr, url: &str) -> String {
        let path = match url.split_once("://") {
            Some((_, rest)) => rest.split_once('/').map_or("/".to_owned(), |(_, path)| format!("/{path}")),
            None => url.to_owned(),
        };
        let mut cookies = self.cookies.borrow_mut();
        let sent: Vec<String> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let reply = Client::new(provider, None).send("GET", &path, &[("Cookie", &sent.join("; "))], b"");
        for (_, value) in reply.headers.iter().filter(|(name, _)| name == "set-cookie") {
            let pair = value.split(';').next().unwrap_or_default();
            let (name, value) = pair.split_once('=').expect("a cookie");
            cookies.insert(name.to_owned(), value.to_owned());
        }
        reply.header("location").unwrap_or_else(|| panic!("no redirect: {}", reply.text())).to_owned()
    }
}
