//! Every page that links lead to: for each role, with hostile text, and on an empty installation.

use std::collections::{BTreeMap, VecDeque};

use toolgate_tests::{Client, Daemon, json};

use crate::person::{Form, Person, attributes, unescape};
use crate::{HIDDEN, MARKUP, PROGRAM, Tenant, with_fixture};

/// Pages that a walk opens at most.
const PAGES: usize = 150;

/// Opens the pages that links lead to, from the first one on. Returns their texts by path.
fn walk(person: &Person) -> BTreeMap<String, String> {
    let mut pages = BTreeMap::new();
    let mut waiting = VecDeque::from(["/console".to_owned()]);
    while let Some(path) = waiting.pop_front() {
        if pages.contains_key(&path) || pages.len() == PAGES {
            continue;
        }
        let reply = person.get(&path);
        // A call may be of a tool that does not exist.
        if reply.status == 404 && path.contains("?tool=") {
            continue;
        }
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        if reply.header("content-type") != Some("text/html; charset=utf-8") {
            continue;
        }
        let text = reply.text();
        let links = attributes(&text, "href").into_iter();
        let links = links.map(|link| link.split('#').next().unwrap_or_default().to_owned());
        waiting.extend(links.filter(|link| link.starts_with("/console")));
        pages.insert(path, text);
    }
    pages
}

/// Asserts what holds of every page.
pub fn check_page(path: &str, page: &str) {
    // Texts may have markup, as `&lt;img onerror=`, also in quoted values; tags may not.
    let tags = page.split('<').skip(1).filter_map(|tag| tag.split('>').next());
    let bare = tags.map(|tag| tag.split('"').step_by(2).collect::<String>()).collect::<Vec<_>>();
    for name in [" style=", " onerror=", " onclick=", " src=x"] {
        assert!(!bare.iter().any(|tag| tag.contains(name)), "{path} has `{name}` in a tag:\n{page}");
    }
    let scripts = bare.iter().filter(|tag| tag.starts_with("script"));
    assert!(scripts.clone().all(|tag| tag.contains(" src=")) && scripts.count() <= 1, "{path}:\n{page}");
    assert!(!bare.iter().any(|tag| tag.starts_with("style")), "{path} has an inline style");
    for name in ["href", "src", "action"] {
        for address in attributes(page, name) {
            let is_own = address.starts_with("/console") || address.starts_with(['#', '?']);
            assert!(is_own && !address.contains("//"), "{path} leads to {address}");
        }
    }
    let invisible = HIDDEN.replace("[31m", "");
    let hidden = page.chars().find(|letter| invisible.contains(*letter));
    assert!(
        hidden.is_none(),
        "{path} has {:?}:\n{page}",
        hidden.map(|letter| letter.escape_unicode().to_string())
    );
    assert!(page.starts_with("<!DOCTYPE html><html lang=\"en\""), "{path}:\n{page}");
    for tag in ["<main", "<nav", "<h1", "<title>", "name=\"viewport\""] {
        assert!(page.contains(tag), "{path} has no {tag}:\n{page}");
    }
    assert_eq!(page.matches("<h1").count(), 1, "{path}");
    assert!(page.len() < 400 * 1024, "{path} has {} bytes", page.len());
    for form in page.split("<form").skip(1) {
        let head = form.split('>').next().unwrap_or_default();
        let has_csrf = form.split("</form>").next().is_some_and(|form| form.contains(" name=\"csrf\""));
        assert_eq!(head.contains("method=\"post\""), has_csrf, "{path}: the form {head}");
    }
}

#[test]
fn o6_texts_of_others_are_data_on_every_page() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.load_confirmed("pay", &crate::payments());
    let tenant = Tenant::make(&operator, "acme");
    let hostile = format!("{MARKUP}{HIDDEN}");
    operator.replace("/v1/orgs/acme", &json!({"display_name": format!("Acme {MARKUP}")})).expect(200);
    operator.post("/v1/tokens", &json!({"role": "auditor", "label": MARKUP})).expect(201);
    tenant.ask("c1", json!({"to": hostile, "amount": 1}));
    tenant.session.call("pay/quote", json!({"to": hostile.repeat(2_000), "amount": 1})).output();
    tenant.session.call("pay/quote", json!({&hostile: 1})).expect_error("INVALID_ARGUMENTS");
    tenant.session.call(&hostile, json!({}));
    let pages = walk(&Person::sign_in(&operator));
    assert!(pages.len() > 15, "{:?}", pages.keys());
    for (path, page) in &pages {
        check_page(path, page);
    }
    // The texts are there, written out.
    let shown = |text: &str| pages.values().filter(|page| unescape(page).contains(text)).count();
    assert!(shown("<script>alert(1)</script>") >= 3, "the hostile text is on {:?}", pages.keys());
    assert!(shown("\\u{202e}") >= 3, "hidden characters are written out");
}

#[test]
fn o6_an_empty_installation_says_what_to_do_first() {
    let daemon = Daemon::start(PROGRAM, "");
    let pages = walk(&Person::sign_in(&daemon.operator()));
    for (path, page) in &pages {
        check_page(path, page);
    }
    let places = "approvals calls explain catalogue plugins organizations sessions tokens audit";
    for place in places.split(' ') {
        let path = format!("/console/{place}");
        let page = pages.get(&path).unwrap_or_else(|| panic!("no link to {path}: {:?}", pages.keys()));
        assert!(page.contains("class=\"empty\""), "{path} says nothing:\n{page}");
    }
}

#[test]
fn o6_each_role_sees_the_pages_that_it_may_see_and_no_link_is_refused() {
    with_fixture(|fixture| {
        let (tenant, rival) = (fixture.tenant(), fixture.tenant());
        let foreign = rival.ask("c1", json!({"to": "bob", "amount": 1}));
        let own = tenant.ask("c1", json!({"to": "bob", "amount": 1}));
        let token = |role: &str| {
            let request = json!({"role": role, "organization": tenant.name});
            fixture.operator.with_new_token(&request)
        };
        let roles: [(&str, Client, &[&str], &[&str]); 5] = [
            ("operator", fixture.operator.clone(), &["approvals", "calls", "plugins", "organizations"], &[]),
            ("owner", tenant.owner.clone(), &["approvals", "calls", "tokens"], &["plugins"]),
            ("approver", tenant.approver.clone(), &["approvals"], &["plugins", "calls", "audit", "usage"]),
            ("orchestrator", token("orchestrator"), &["sessions"], &["approvals", "calls", "tokens"]),
            ("auditor", token("auditor"), &["calls", "audit"], &["approvals", "plugins"]),
        ];
        for (role, client, shown, hidden) in roles {
            let person = Person::sign_in(&client);
            let pages = walk(&person);
            let has = |page: &str| pages.contains_key(&format!("/console/{page}"));
            for page in shown {
                assert!(has(page), "{role} has no link to {page}: {:?}", pages.keys());
            }
            for page in hidden {
                assert!(!has(page), "{role} has a link to {page}");
                let reply = person.get(&format!("/console/{page}"));
                assert_eq!(reply.status, 403, "{role}, {page}: {}", reply.text());
                assert!(reply.text().contains("FORBIDDEN"), "{}", reply.text());
            }
            if role != "operator" {
                assert!(
                    !pages.values().any(|page| page.contains(&rival.name)),
                    "{role} sees another organization"
                );
            }
        }
        // Another organization's approval is one that does not exist.
        let person = Person::sign_in(&tenant.owner);
        let missing = "a_00000000000000000000000000";
        let text =
            |id: &str| person.get(&format!("/console/approvals/{id}")).expect(404).text().replace(id, "ID");
        assert_eq!(text(&foreign), text(missing));
        person.page(&format!("/console/approvals/{own}"));
    });
}

#[test]
fn o6_the_console_is_no_part_of_the_programming_interface() {
    with_fixture(|fixture| {
        let document = fixture.daemon.anonymous().get("/openapi.json").expect(200).json();
        let paths = document["paths"].as_object().expect("paths");
        assert!(paths.len() > 30 && !paths.keys().any(|path| path.contains("console")), "{:?}", paths.keys());
        let person = Person::sign_in(&fixture.operator);
        for (path, status) in
            [("/console/none", 404), ("/console/approvals/none/none", 404), ("/console/", 303)]
        {
            let reply = person.get(path);
            assert_eq!(reply.status, status, "{path}");
        }
        let wrong = person.get("/console/sign-out");
        assert_eq!(wrong.status, 405, "{}", wrong.text());
    });
}

#[test]
fn o6_the_log_is_exported_but_not_followed() {
    with_fixture(|fixture| {
        let person = Person::sign_in(&fixture.operator);
        person.get("/console/audit/export").expect(200);
        person.get("/console/audit/export?follow=false").expect(200);
        // The stream would not end with the session.
        let refused = person.get("/console/audit/export?follow=true");
        assert_eq!(refused.status, 400, "{}", refused.text());
        assert!(refused.text().contains("toolgate audit follow"), "{}", refused.text());
    });
}

#[test]
fn o6_style_and_script_are_kept_by_browsers_under_their_hash() {
    with_fixture(|fixture| {
        let person = Person::new(&fixture.daemon);
        let page = person.page(crate::person::SIGN_IN);
        let assets: Vec<String> = attributes(&page, "href")
            .into_iter()
            .chain(attributes(&page, "src"))
            .filter(|address| address.starts_with("/console/assets/"))
            .collect();
        assert!(assets.len() >= 2, "{page}");
        for address in assets {
            let reply = person.get(&address).expect(200);
            let kept = reply.header("cache-control").expect("a lifetime");
            assert!(kept.contains("immutable"), "{address}: {kept}");
            assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
            let mut parts: Vec<&str> = address.split('/').collect();
            parts[3] = "0000";
            let old = person.get(&parts.join("/"));
            assert_ne!(old.header("cache-control"), Some(kept), "an old hash");
        }
    });
}

#[test]
fn o6_the_audit_log_is_verified_by_those_who_may() {
    with_fixture(|fixture| {
        const PATH: &str = "/console/audit/verification";
        let person = Person::sign_in(&fixture.operator);
        let page = person.submit_and_follow(&Form::find(&person.page(PATH), PATH));
        assert!(page.contains("intact") && page.contains("Last record"), "{page}");
        let overview = person.page("/console");
        assert!(overview.contains("intact") && overview.contains("Free disk space"), "{overview}");
        let owner = Person::sign_in(&fixture.tenant().owner);
        assert_eq!(owner.get(PATH).status, 403);
        assert!(!owner.page("/console/audit").contains(PATH), "a link to what is refused");
    });
}

#[test]
fn o6_the_page_of_a_call_has_its_phases_requests_and_hashes() {
    with_fixture(|fixture| {
        let tenant = fixture.tenant();
        let answer = tenant.session.call_as("c1", "pay/quote", json!({"to": "bob", "amount": 1}));
        assert_eq!(answer.status(), "ok", "{}", answer.0);
        tenant.session.call_as("c2", "pay/quote", json!({"to": 5})).expect_error("INVALID_ARGUMENTS");
        let person = Person::sign_in(&tenant.owner);
        let address = |call: &str| format!("/console/calls/{}/{call}", tenant.session.id);
        let page = person.page(&address("c1"));
        for part in ["fit the schema", "class=\"waterfall\"", "The call sent no request", "intent", "outcome"]
        {
            assert!(page.contains(part), "no {part}:\n{page}");
        }
        // The hashes are those of the export.
        let export = Person::sign_in(&fixture.operator).get("/console/audit/export").expect(200).text();
        let hashes = export.lines().filter(|line| line.contains("\"c1\"") && line.contains("pay/quote"));
        let hashes = hashes.filter_map(|line| line.split("\"hash\":\"").nth(1)?.split('"').next());
        let shown = hashes.filter(|hash| page.contains(*hash)).count();
        assert_eq!(shown, 1, "the intent's hash is not shown:\n{page}");
        let refused = person.page(&address("c2"));
        assert!(refused.contains("do not fit the schema"), "{refused}");
    });
}
