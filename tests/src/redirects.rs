//! Minimal browser for the redirects of an OAuth2 provider that asks no person.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::{Client, Reply};

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
        let reply = self.request(provider, "GET", url, "");
        reply.header("location").unwrap_or_else(|| panic!("no redirect: {}", reply.text())).to_owned()
    }

    /// Sends a form, or opens a page, and follows its redirects. Returns the page.
    pub fn page(&self, provider: SocketAddr, method: &str, url: &str, form: &str) -> String {
        let mut reply = self.request(provider, method, url, form);
        for _ in 0..REDIRECTS {
            let Some(next) = reply.header("location").map(str::to_owned) else { return reply.text() };
            reply = self.request(provider, "GET", &next, "");
        }
        panic!("the provider redirects in a loop: {url}");
    }

    fn request(&self, provider: SocketAddr, method: &str, url: &str, form: &str) -> Reply {
        let path = match url.split_once("://") {
            Some((_, rest)) => rest.split_once('/').map_or("/".to_owned(), |(_, path)| format!("/{path}")),
            None => url.to_owned(),
        };
        let mut cookies = self.cookies.borrow_mut();
        let sent: Vec<String> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let sent = sent.join("; ");
        let mut headers = vec![("Cookie", sent.as_str())];
        if method == "POST" {
            headers.push(("Content-Type", "application/x-www-form-urlencoded"));
        }
        let reply = Client::new(provider, None).send(method, &path, &headers, form.as_bytes());
        for (_, value) in reply.headers.iter().filter(|(name, _)| name == "set-cookie") {
            let pair = value.split(';').next().unwrap_or_default();
            let (name, value) = pair.split_once('=').expect("a cookie");
            cookies.insert(name.to_owned(), value.to_owned());
        }
        reply
    }
}
