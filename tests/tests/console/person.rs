//! A person with a browser that runs no script: keeps the cookie, reads forms from pages and fills them in.

use std::cell::RefCell;

use toolgate_tests::client::Pending;
use toolgate_tests::events::Stream;
use toolgate_tests::{Client, Daemon, Reply};

/// Path of the page where a person signs in.
pub const SIGN_IN: &str = "/console/sign-in";

/// Boundary of the parts of a form with a file.
const BOUNDARY: &str = "----ToolgateTests5511aa";

/// A browser with at most one cookie.
pub struct Person {
    client: Client,
    /// `NAME=VALUE` of the session.
    pub cookie: RefCell<Option<String>>,
}

/// A form of a page: its address and what it sends.
#[derive(Clone, Debug)]
pub struct Form {
    pub action: String,
    pub fields: Vec<(String, String)>,
}

impl Person {
    pub fn new(daemon: &Daemon) -> Self {
        Self { client: daemon.anonymous(), cookie: RefCell::new(None) }
    }

    /// Signs in with the token of a client.
    #[track_caller]
    pub fn sign_in(client: &Client) -> Self {
        let person = Self { client: Client::new(client.address, None), cookie: RefCell::new(None) };
        let token = client.token.clone().expect("a token");
        person.try_sign_in(&token).expect(303);
        person
    }

    pub fn try_sign_in(&self, token: &str) -> Reply {
        let page = self.get(SIGN_IN).expect(200).text();
        self.submit(&Form::find(&page, SIGN_IN).with("token", token))
    }

    /// Another browser that has the same cookie.
    pub fn copy(&self) -> Self {
        Self { client: self.client.clone(), cookie: self.cookie.clone() }
    }

    pub fn get(&self, path: &str) -> Reply {
        self.get_with(path, &[])
    }

    pub fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        self.send("GET", path, headers, b"")
    }

    /// Opens a page that must be there, as text.
    #[track_caller]
    pub fn page(&self, path: &str) -> String {
        self.get(path).expect(200).text()
    }

    /// Sends a form as a page of the console does.
    pub fn submit(&self, form: &Form) -> Reply {
        let own = self.origin();
        self.submit_with(form, &[("Origin", &own), ("Sec-Fetch-Site", "same-origin")])
    }

    /// Sends a form with other headers about its origin.
    pub fn submit_with(&self, form: &Form, headers: &[(&str, &str)]) -> Reply {
        let mut headers = headers.to_vec();
        headers.push(("Content-Type", "application/x-www-form-urlencoded"));
        self.send("POST", &form.action, &headers, form.body().as_bytes())
    }

    /// Sends a form with a file, encoded as browsers do.
    pub fn upload(&self, form: &Form, file_name: &str, content: &[u8]) -> Reply {
        let own = self.origin();
        let head = |disposition: &str| {
            format!("--{BOUNDARY}\r\nContent-Disposition: form-data; {disposition}\r\n\r\n").into_bytes()
        };
        let mut body = Vec::new();
        for (name, value) in form.fields.iter().filter(|(name, _)| name != "file") {
            body.extend(head(&format!("name=\"{name}\"")));
            body.extend(format!("{value}\r\n").bytes());
        }
        body.extend(head(&format!("name=\"file\"; filename=\"{file_name}\"")));
        body.extend(content);
        body.extend(format!("\r\n--{BOUNDARY}--\r\n").bytes());
        let kind = format!("multipart/form-data; boundary={BOUNDARY}");
        let headers = [("Origin", &*own), ("Sec-Fetch-Site", "same-origin"), ("Content-Type", &kind)];
        self.send("POST", &form.action, &headers, &body)
    }

    /// Sends a form, and opens the page that the answer leads to.
    #[track_caller]
    pub fn submit_and_follow(&self, form: &Form) -> String {
        let reply = self.submit(form).expect(303);
        self.page(reply.header("location").expect("a location"))
    }

    /// Sends the request of a page without waiting for it.
    pub fn begin(&self, path: &str) -> Pending {
        let cookie = self.cookie.borrow().clone().expect("a session");
        self.client.start("GET", path, &[("Cookie", &cookie)], b"")
    }

    /// Opens the stream of a live page, and returns once the daemon has begun it.
    pub fn stream(&self, path: &str) -> Stream {
        let cookie = self.cookie.borrow().clone().expect("a session");
        let head =
            format!("GET {path} HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\n\r\n", self.client.address);
        let mut stream = Stream::send(&self.client, &head);
        while stream.line().expect("the stream begins") != ": listening" {}
        stream
    }

    pub fn origin(&self) -> String {
        format!("http://{}", self.client.address)
    }

    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let cookie = self.cookie.borrow().clone();
        let mut headers = headers.to_vec();
        if let Some(cookie) = &cookie {
            headers.push(("Cookie", cookie));
        }
        let reply = self.client.send(method, path, &headers, body);
        if let Some(set) = reply.header("set-cookie") {
            let pair = set.split(';').next().unwrap_or_default();
            *self.cookie.borrow_mut() = (!pair.ends_with('=')).then(|| pair.to_owned());
        }
        reply
    }
}

impl Form {
    /// The first form whose address begins with `action`.
    #[track_caller]
    pub fn find(page: &str, action: &str) -> Self {
        let forms = Self::all(page);
        let found = forms.iter().find(|form| form.action.starts_with(action));
        found.unwrap_or_else(|| panic!("no form for {action} in {forms:?}\n{page}")).clone()
    }

    /// The first form with a button that sends this pair, pressed.
    #[track_caller]
    pub fn press(page: &str, name: &str, value: &str) -> Self {
        let button = Self::all_with_buttons(page)
            .into_iter()
            .find(|(_, buttons)| buttons.iter().any(|(known, sent)| known == name && sent == value));
        button.unwrap_or_else(|| panic!("no button `{name}={value}`\n{page}")).0.with(name, value)
    }

    /// The form of a page with this value of its field `act`.
    #[track_caller]
    pub fn with_act(page: &str, act: &str) -> Self {
        let found = Self::all(page).into_iter().find(|form| form.field("act") == Some(act));
        found.unwrap_or_else(|| panic!("no form with the act {act}\n{page}"))
    }

    /// The form with the text of a document, which stands beside its fields.
    #[track_caller]
    pub fn as_text(page: &str) -> Self {
        let is_text = |form: &Self| form.field("text").is_some() && form.field("act").is_none();
        Self::all(page).into_iter().find(is_text).unwrap_or_else(|| panic!("no document as text\n{page}"))
    }

    /// The form with the fields of a document.
    #[track_caller]
    pub fn as_fields(page: &str) -> Self {
        let found = Self::all(page).into_iter().find(|form| form.field("fields").is_some());
        found.unwrap_or_else(|| panic!("no document as fields\n{page}"))
    }

    /// Every form of a page.
    pub fn all(page: &str) -> Vec<Self> {
        Self::all_with_buttons(page).into_iter().map(|(form, _)| form).collect()
    }

    /// Every form of a page with the pairs of its buttons.
    fn all_with_buttons(page: &str) -> Vec<(Self, Vec<(String, String)>)> {
        let forms = page.split("<form").skip(1).filter_map(|form| form.split("</form>").next());
        forms.map(Self::read).collect()
    }

    fn read(text: &str) -> (Self, Vec<(String, String)>) {
        let mut tags = text.split('<');
        let head = tags.next().unwrap_or_default();
        let mut form = Self { action: attribute(head, "action").unwrap_or_default(), fields: Vec::new() };
        let mut buttons = Vec::new();
        let mut select = String::new();
        for tag in tags.filter(|tag| !tag.starts_with("/option")) {
            let value = attribute(tag, "value").unwrap_or_default();
            if tag.starts_with("option") && !select.is_empty() {
                if form.field(&select).is_none() || is_marked(tag, "selected") {
                    form = form.with(&select, &value);
                }
                continue;
            }
            select.clear();
            let Some(name) = attribute(tag, "name") else { continue };
            match tag.split([' ', '>']).next() {
                Some("button") => buttons.push((name, value)),
                Some("input") if is_sent(tag) => form.fields.push((name, value)),
                Some("select") => select = name,
                Some("textarea") => {
                    let inner = tag.split_once('>').map_or("", |(_, inner)| inner);
                    // HTML drops the first line break of a text area.
                    form.fields.push((name, unescape(inner.strip_prefix('\n').unwrap_or(inner))));
                }
                _ => {}
            }
        }
        (form, buttons)
    }

    /// Sets a field.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.fields.retain(|(known, _)| known != name);
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.fields.retain(|(known, _)| known != name);
        self
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn body(&self) -> String {
        let pair = |(name, value): &(String, String)| format!("{}={}", encode(name), encode(value));
        self.fields.iter().map(pair).collect::<Vec<_>>().join("&")
    }
}

/// Whether a browser sends this field although the person did not touch it.
fn is_sent(tag: &str) -> bool {
    let kind = attribute(tag, "type");
    let is_choice = matches!(kind.as_deref(), Some("checkbox" | "radio"));
    kind.as_deref() != Some("submit") && (!is_choice || is_marked(tag, "checked"))
}

/// Whether a tag has an attribute without a value.
fn is_marked(tag: &str, name: &str) -> bool {
    let head = tag.split('>').next().unwrap_or_default();
    head.split_whitespace().any(|word| word == name)
}

/// An attribute of a tag, in double quotes.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let head = tag.split('>').next()?;
    let (_, rest) = head.split_once(&format!(" {name}=\""))?;
    rest.split('"').next().map(unescape)
}

/// The values of an attribute in a page.
pub fn attributes(page: &str, name: &str) -> Vec<String> {
    let start = format!(" {name}=\"");
    let starts = page.split(start.as_str()).skip(1);
    starts.filter_map(|rest| rest.split('"').next()).map(unescape).collect()
}

/// A text without the entities that maud writes.
pub fn unescape(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(byte.into()),
            _ => encoded += &format!("%{byte:02X}"),
        }
    }
    encoded
}
