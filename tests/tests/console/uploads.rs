//! Files from forms: plugins of the platform and of organizations, and files of a session's workspace.

use toolgate_tests::{Daemon, PluginFile, Value, json};

use crate::changes::{form, plugin};
use crate::pages::check_page;
use crate::person::{Form, Person, attributes, unescape};
use crate::{HIDDEN, MARKUP, PROGRAM, payments, with_fixture};

/// A file that no plugin can be as large as, in the test of the limit.
const PLUGIN_BYTES: usize = 256 * 1024;

fn hints_of(plugin: &Value) -> Vec<&str> {
    let tools = plugin["tools"].as_array().into_iter().flatten();
    tools.filter_map(|tool| tool["hints_state"].as_str()).collect()
}

#[test]
fn o6_an_operator_uploads_a_plugin_confirms_its_hints_and_removes_it() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    let person = Person::sign_in(&operator);
    let get = || operator.get("/v1/plugins/pay");
    let upload = form(&person, "/console/plugins", "/console/upload/plugin").with("namespace", "pay");
    let forged = person.upload(&upload.clone().without("csrf"), "pay.wasm", &payments());
    assert_eq!(forged.status, 403, "{}", forged.text());
    assert_eq!(get().status, 404);
    let loaded = person.upload(&upload, "pay.wasm", &payments()).expect(303);
    assert_eq!(loaded.header("location"), Some("/console/plugins/pay"));
    let page = person.page("/console/plugins/pay");
    check_page("/console/plugins/pay", &page);
    assert!(page.contains("Hints to confirm") && page.contains("changes nothing"), "{page}");
    assert!(hints_of(&get().expect(200).json()).contains(&"unconfirmed"));
    let confirm = Form::find(&page, "/console/plugins/pay/hints");
    let stale = person.submit(&confirm.clone().with("digest", &format!("sha256:{}", "0".repeat(64))));
    assert_eq!(stale.status, 409, "{}", stale.text());
    let page = person.submit_and_follow(&confirm);
    assert!(!page.contains("Hints to confirm"), "{page}");
    let confirmed = get().expect(200).json();
    assert!(hints_of(&confirmed).iter().all(|state| *state == "confirmed"), "{confirmed}");
    let acts = operator.audit("kind=admin&action=plugin.load");
    assert!(acts.iter().any(|act| act["admin"]["source"] == "console"), "{acts:?}");
    person.submit(&form(&person, "/console/plugins/pay", "/console/plugins/pay/remove")).expect(303);
    get().expect_refusal(404, "NOT_FOUND");
    // Hints can be confirmed with the file, too.
    person.upload(&upload.with("confirm_hints", "on"), "pay.wasm", &payments()).expect(303);
    let loaded = get().expect(200).json();
    assert!(hints_of(&loaded).iter().all(|state| *state == "confirmed"), "{loaded}");
    // A page that shows the hints of some tools says that there are others.
    let schema = json!({"type": "object", "additionalProperties": false});
    let tool = |number: usize| {
        json!({
            "name": format!("tool_{number}"), "description": "Reads an account.", "usage": "Give nothing.",
            "input_schema": schema, "hints": {"read_only": true},
        })
    };
    for (count, is_cut) in [(100, false), (101, true)] {
        let tools: Vec<Value> = (0..count).map(tool).collect();
        let name = format!("many{count}");
        let many = json!({"name": name, "version": "1.0.0", "publisher": "Toolgate tests", "tools": tools});
        operator.load(&name, &PluginFile::of(many).build());
        let page = person.page(&format!("/console/plugins/{name}"));
        assert!(page.contains("Hints to confirm"), "{page}");
        assert_eq!(page.contains("before you confirm them, too"), is_cut, "{page}");
    }
}

#[test]
fn o6_an_uploaded_version_that_differs_waits_for_consent() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.load("stranger", &plugin("1.0.0", "Answers."));
    let person = Person::sign_in(&operator);
    let page = person.page("/console/plugins/stranger");
    let address = "/console/upload/plugin?namespace=stranger";
    assert!(attributes(&page, "href").contains(&address.to_owned()), "{page}");
    let upload = form(&person, address, "/console/upload/plugin");
    assert_eq!(upload.field("namespace"), Some("stranger"));
    let reply = person.upload(&upload, "stranger.wasm", &plugin("2.0.0", &format!("Answers {MARKUP}.")));
    let page = person.page(reply.expect(303).header("location").expect("a location"));
    check_page("/console/plugins/stranger", &page);
    assert!(page.contains("Version 2.0.0 waits for consent") && unescape(&page).contains(MARKUP), "{page}");
    let version = || operator.get("/v1/plugins/stranger").expect(200).json()["version"].clone();
    assert_eq!(version(), "1.0.0");
    person.submit(&Form::find(&page, "/console/plugins/stranger/approve")).expect(303);
    assert_eq!(version(), "2.0.0");
}

#[test]
fn o6_a_refused_upload_keeps_its_form_and_changes_nothing() {
    let daemon = Daemon::start(PROGRAM, &format!("[http]\nplugin_bytes = {PLUGIN_BYTES}\n"));
    let operator = daemon.operator();
    let person = Person::sign_in(&operator);
    let list = || operator.get("/v1/plugins?limit=100").expect(200).text();
    let upload = form(&person, "/console/upload/plugin", "/console/upload/plugin");
    let named = upload.clone().with("namespace", "stranger").with("version", "7.7.7");
    let small = plugin("1.0.0", "Answers.");
    let large = vec![b'x'; PLUGIN_BYTES + 1];
    let hostile = upload.clone().with("namespace", MARKUP);
    let cases: [(&Form, &[u8], u16, &str); 5] = [
        (&named, &small, 422, "7.7.7"),
        (&named, b"no component", 422, "stranger"),
        (&named, b"", 400, "no file"),
        (&named, &large, 413, "larger than"),
        (&hostile, &small, 400, "Namespace"),
    ];
    for (form, file, status, part) in cases {
        let reply = person.upload(form, "stranger.wasm", file);
        let page = reply.text();
        assert_eq!(reply.status, status, "{page}");
        check_page("/console/upload/plugin", &page);
        assert!(unescape(&page).contains(part) && page.contains("Choose it again"), "no {part}: {page}");
        let kept = Form::find(&page, "/console/upload/plugin");
        assert_eq!(kept.field("version"), form.field("version"));
    }
    let loaded: Value = list().parse().expect("a list");
    let states =
        loaded["items"].as_array().into_iter().flatten().filter(|plugin| plugin["namespace"] == "stranger");
    assert!(states.clone().all(|plugin| plugin["state"] == "failed"), "{:?}", states.collect::<Vec<_>>());
    // Another address takes no file, also with the right fields.
    let revoke = Form { action: "/console/tokens".into(), ..named.clone() };
    assert_eq!(person.upload(&revoke, "stranger.wasm", &small).status, 403);
    person.upload(&named.with("version", "1.0.0"), "stranger.wasm", &small).expect(303);
    assert_eq!(operator.get("/v1/plugins/stranger").expect(200).json()["state"], "active");
}

#[test]
fn o6_an_owner_uploads_a_plugin_where_the_platform_allows_it() {
    let limits = "[http]\nbody_bytes = 65_536\nbodies_bytes_per_organization = 131_072\n";
    let daemon = Daemon::start(PROGRAM, limits);
    let operator = daemon.operator();
    for organization in ["acme", "rival"] {
        operator.make_agent(&format!("{organization}/bot"), &json!({"enabled": ["*"]}));
    }
    let owner = operator.with_new_token(&json!({"role": "owner", "organization": "acme"}));
    let person = Person::sign_in(&owner);
    let address = "/console/upload/plugin/acme";
    assert!(attributes(&person.page("/console/organizations/acme"), "href").contains(&address.to_owned()));
    let upload = form(&person, address, address).with("namespace", "stranger");
    let file = plugin("1.0.0", "Answers.");
    let refused = person.upload(&upload, "stranger.wasm", &file);
    assert!(refused.status >= 400 && refused.text().contains("owners_load_plugins"), "{}", refused.text());
    operator.make("/v1/platform/policy", &json!({"owners_load_plugins": true})).expect(201);
    // The memory for bodies is that of the organization, as over HTTP.
    let large = person.upload(&upload, "stranger.wasm", &vec![0; 200_000]);
    assert_eq!(large.status, 429, "{}", large.text());
    assert!(large.text().contains("QUOTA_EXCEEDED"), "{}", large.text());
    let loaded = person.upload(&upload, "stranger.wasm", &file).expect(303);
    let page = "/console/organizations/acme/plugins/stranger";
    assert_eq!(loaded.header("location"), Some(page));
    assert!(person.page(page).contains("1.0.0"));
    owner.get("/v1/orgs/acme/plugins/stranger").expect(200);
    operator.get("/v1/plugins/stranger").expect_refusal(404, "NOT_FOUND");
    // Other organizations and the platform are out of reach.
    for foreign in ["/console/upload/plugin/rival", "/console/upload/plugin"] {
        let status = person.get(foreign).status;
        assert!(matches!(status, 403 | 404), "{foreign}: {status}");
        let sent = person.upload(&Form { action: foreign.into(), ..upload.clone() }, "stranger.wasm", &file);
        assert_eq!(sent.status, status, "{}", sent.text());
    }
    let stranger =
        Person::sign_in(&operator.with_new_token(&json!({"role": "owner", "organization": "rival"})));
    assert_eq!(stranger.get(page).status, 404);
    let state = || owner.get("/v1/orgs/acme/plugins/stranger").expect(200).json()["state"].clone();
    for (act, expected) in [("disable", "disabled"), ("enable", "active")] {
        person.submit(&form(&person, page, &format!("{page}/{act}"))).expect(303);
        assert_eq!(state(), expected);
    }
    let unknown = Form { action: format!("{page}/none"), ..form(&person, page, &format!("{page}/remove")) };
    assert_eq!(person.submit(&unknown).status, 404);
    person.submit(&form(&person, page, &format!("{page}/remove"))).expect(303);
    owner.get("/v1/orgs/acme/plugins/stranger").expect_refusal(404, "NOT_FOUND");
}

#[test]
fn o6_a_person_writes_reads_changes_and_deletes_files_of_a_session() {
    with_fixture(|fixture| {
        let tenant = fixture.tenant();
        let person = Person::sign_in(&tenant.owner);
        let session = format!("/console/sessions/{}", tenant.session.id);
        let view = format!("{session}/view/notes%2Fplan.md");
        let content = || tenant.session.get_file("notes/plan.md").expect(200).text();
        assert!(person.page(&session).contains("The session has no files"));
        let write = form(&person, &session, &format!("{session}/write"));
        let write = write.with("path", "notes/plan.md").with("text", &format!("Plan {MARKUP}\nb\n"));
        let page = person.submit_and_follow(&write);
        check_page(&view, &page);
        assert!(unescape(&page).contains(&format!("Plan {MARKUP}\nb")), "{page}");
        assert_eq!(content(), format!("Plan {MARKUP}\nb\n"));
        // A file that is there is not lost by accident.
        let again = person.submit(&write.clone().with("text", "Other."));
        assert_eq!(again.status, 412, "{}", again.text());
        assert!(again.text().contains("Other.") && content().starts_with("Plan"), "{}", again.text());
        person.submit(&write.clone().with("replace", "on").with("text", "One\nTwo\n")).expect(303);
        let edit = Form::with_act(&person.page(&view), "write");
        assert_eq!(edit.field("text"), Some("One\nTwo\n"));
        person.submit(&edit.clone().with("text", "One\r\nThree\r\n")).expect(303);
        assert_eq!(content(), "One\nThree\n");
        let stale = person.submit(&edit.with("text", "Mine."));
        assert_eq!(stale.status, 409, "{}", stale.text());
        assert!(stale.text().contains("Mine.") && content() == "One\nThree\n", "{}", stale.text());
        assert_eq!(
            person.get(&format!("{session}/files/notes%2Fplan.md")).expect(200).text(),
            "One\nThree\n"
        );
        let outside = person.submit(&write.with("path", "../../state.db"));
        assert_eq!(outside.status, 400, "{}", outside.text());
        person.submit(&Form::with_act(&person.page(&view), "delete")).expect(303);
        assert_eq!(tenant.session.get_file("notes/plan.md").status, 404);
        assert_eq!(person.get(&view).status, 404);
        let acts = fixture.operator.audit("kind=admin&action=file.write");
        assert!(acts.iter().any(|act| act["admin"]["source"] == "console"), "{acts:?}");
    });
}

#[test]
fn o6_files_are_uploaded_and_shown_as_data_alone() {
    with_fixture(|fixture| {
        let (tenant, rival) = (fixture.tenant(), fixture.tenant());
        let person = Person::sign_in(&tenant.owner);
        let session = format!("/console/sessions/{}", tenant.session.id);
        let address = format!("/console/upload/file/{}", tenant.session.id);
        let upload = form(&person, &session, &address);
        let show = |path: &str| {
            let path = format!("{session}/view/{path}");
            let page = person.page(&path);
            check_page(&path, &page);
            page
        };
        let hostile = format!("{MARKUP}{HIDDEN}\r\n").repeat(1 << 14);
        assert!(hostile.len() > 1 << 20);
        person.upload(&upload, "hostile.html", hostile.as_bytes()).expect(303);
        assert_eq!(tenant.session.get_file("hostile.html").expect(200).text(), hostile);
        let page = show("hostile.html");
        assert!(unescape(&page).contains(MARKUP) && page.contains("\\u{202e}"), "{}", page.len());
        assert!(!page.contains("name=\"digest\""), "a field would change the file");
        let saved = person.get(&format!("{session}/files/hostile.html")).expect(200);
        assert_eq!(saved.header("content-type"), Some("application/octet-stream"));
        assert_eq!(saved.header("content-disposition"), Some("attachment"));
        person.upload(&upload.clone().with("path", "a/picture"), "p.png", b"\x89PNG\xff\x00").expect(303);
        assert!(show("a%2Fpicture").contains("no text in UTF-8"));
        let again = person.upload(&upload.clone().with("path", "a/picture"), "p.png", b"other");
        assert_eq!(again.status, 412, "{}", again.text());
        assert_eq!(Form::find(&again.text(), &address).field("path"), Some("a/picture"));
        let replace = upload.clone().with("path", "a/picture").with("replace", "on");
        let none = person.upload(&replace, "", b"");
        assert_eq!(none.status, 400, "{}", none.text());
        assert!(none.text().contains("has no file"), "{}", none.text());
        assert_eq!(tenant.session.get_file("a/picture").expect(200).body, b"\x89PNG\xff\x00");
        person.upload(&replace, "empty", b"").expect(303);
        assert_eq!(tenant.session.get_file("a/picture").expect(200).body, b"");
        assert_eq!(person.upload(&upload.clone().without("csrf"), "x", b"x").status, 403);
        let foreign = Form { action: format!("/console/upload/file/{}", rival.session.id), ..upload };
        assert_eq!(person.upload(&foreign, "x", b"x").status, 404);
        assert_eq!(rival.session.get_file("x").status, 404);
        for number in 0..105 {
            tenant.session.put_file(&format!("many/{number:03}"), b"x").expect(204);
        }
        let page = person.page(&session);
        let next =
            attributes(&page, "href").into_iter().find(|link| link.contains("cursor=")).expect("a next page");
        assert!(page.contains("many/000") && person.page(&next).contains("many/104"), "{page}");
    });
}
