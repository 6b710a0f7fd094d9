//! Links of webhooks, which let one person decide one approval once (G18).

use toolgate_tests::upstream::{self, PLAIN_PORT, Upstream};
use toolgate_tests::{Daemon, Value, json, wait};

use crate::person::{Form, Person};
use crate::{PROGRAM, Tenant, payments};

/// Daemon with a webhook that receives links.
struct Links {
    daemon: Daemon,
    upstream: Upstream,
    tenant: Tenant,
}

impl Links {
    fn start() -> Self {
        let upstream = Upstream::start();
        upstream.answer(|_| upstream::answer(200, &[], b""));
        let receiver = format!("{}:{PLAIN_PORT}", upstream.address);
        let daemon = Daemon::start(PROGRAM, &format!("[webhooks]\nplain_http = [\"{receiver}\"]\n"));
        let operator = daemon.operator();
        operator.load_confirmed("pay", &payments());
        let tenant = Tenant::make(&operator, "acme");
        let body = json!({"url": format!("http://{receiver}/hook")}).to_string();
        let path = "/v1/orgs/acme/webhooks/chat";
        tenant.owner.send("PUT", path, &[("Content-Type", "application/json")], body.as_bytes()).expect(201);
        Self { daemon, upstream, tenant }
    }

    /// Makes a call that waits, and returns its approval and the path of the link.
    fn ask(&self, call: &str) -> (String, String) {
        // Calls that are equal share an approval.
        let amount = if call == "c1" { 5 } else { 6 };
        let approval = self.tenant.ask(call, json!({"to": "bob", "amount": amount}));
        let link = wait::until("the delivery", || {
            let bodies = self.upstream.requests().into_iter();
            let mut bodies =
                bodies.filter_map(|request| request.split("\r\n\r\n").nth(1)?.parse::<Value>().ok());
            let found = bodies.find(|body| body["approval"]["id"] == json!(approval))?;
            found["link"].as_str().map(str::to_owned)
        });
        let base = format!("http://{}", self.daemon.address);
        (approval, link.strip_prefix(&base).expect("a link to the daemon").to_owned())
    }

    fn state(&self, approval: &str) -> Value {
        self.tenant.approval(approval)["state"].clone()
    }
}

#[test]
fn g18_a_link_is_not_used_up_by_a_preview_and_decides_once() {
    let links = Links::start();
    let (approval, link) = links.ask("c1");
    // A program that shows a preview of the link.
    for _ in 0..3 {
        let page = Person::new(&links.daemon).get(&link).expect(200);
        assert_eq!(page.header("referrer-policy"), Some("strict-origin"), "no address with a token");
        assert!(page.header("set-cookie").is_none());
        assert!(!page.text().contains("bob"), "a preview shows nothing of the call");
    }
    assert_eq!(links.state(&approval), "pending");
    let person = Person::new(&links.daemon);
    let shown = person.submit(&Form::find(&person.page(&link), "/console/")).expect(200).text();
    assert!(shown.contains("bob") && !shown.contains("/console/calls"), "{shown}");
    let decision = Form::press(&shown, "decision", "approve");
    let decided = person.submit(&decision);
    assert!(matches!(decided.status, 200 | 303), "{}", decided.text());
    assert_eq!(links.state(&approval), "approved");
    let records = links.daemon.operator().audit("kind=admin&organization=acme&limit=100");
    let record = records.iter().find(|record| record.to_string().contains("approval.approve"));
    assert!(record.is_some_and(|record| record.to_string().contains("webhook:chat")), "{records:?}");
    // The link is used up: neither the same person nor another one decides with it.
    for form in [decision, Form::find(&Person::new(&links.daemon).page(&link), "/console/")] {
        let refused = person.submit(&form);
        assert!(refused.status >= 400 && refused.text().contains("EXPIRED"), "{}", refused.text());
    }
}

#[test]
fn g18_a_link_is_for_its_approval_alone() {
    let links = Links::start();
    let ((first, link), (second, other)) = (links.ask("c1"), links.ask("c2"));
    let person = Person::new(&links.daemon);
    // The token of one link with the id of the other approval.
    let token = link.split('=').next_back().expect("a token");
    let mixed = format!("/console/approvals/{second}?once={token}");
    let refused = person.submit(&Form::find(&person.page(&mixed), "/console/"));
    assert!(refused.status >= 400 && refused.text().contains("EXPIRED"), "{}", refused.text());
    let unknown = format!("/console/approvals/{second}?once=none");
    let again = person.submit(&Form::find(&person.page(&unknown), "/console/"));
    let without_ids = |text: String| text.replace(token, "").replace("none", "");
    assert_eq!(without_ids(refused.text()), without_ids(again.text()), "the same text for every such link");
    // The link opens nothing else.
    let shown = person.submit(&Form::find(&person.page(&link), "/console/")).expect(200).text();
    for path in ["/console", "/console/approvals", "/console/calls"] {
        assert_eq!(person.get(path).status, 303, "{path}");
    }
    let decision = Form::press(&shown, "decision", "deny").with("reason", "not agreed");
    let own = decision.action.clone();
    let moved = Form { action: own.replace(&first, &second), ..decision.clone() };
    assert_ne!(moved.action, own, "{own}");
    let refused = person.submit(&moved);
    assert!(refused.status >= 400, "{}", refused.text());
    let foreign = person.submit_with(&decision, &[("Origin", "https://evil.example")]);
    assert_eq!(foreign.status, 403, "{}", foreign.text());
    assert_eq!((links.state(&first), links.state(&second)), (json!("pending"), json!("pending")));
    person.submit(&decision);
    assert_eq!((links.state(&first), links.state(&second)), (json!("denied"), json!("pending")));
    let page = person.submit(&Form::find(&person.page(&other), "/console/")).expect(200).text();
    assert!(page.contains("bob"), "{page}");
}
