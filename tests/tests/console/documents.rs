//! Organizations, agents and assertions from forms; tries of tools; what helps to decide about a call.

use toolgate_tests::upstream::{self, Upstream};
use toolgate_tests::{Daemon, Reply, json, wait};

use crate::changes::form;
use crate::pages::check_page;
use crate::person::{Form, Person, unescape};
use crate::{HIDDEN, MARKUP, PROGRAM, Tenant, payments, with_fixture};

/// Asserts that a form about another state than the present one was refused.
#[track_caller]
fn expect_conflict(reply: &Reply) {
    assert!(matches!(reply.status, 409 | 412), "{}: {}", reply.status, reply.text());
}

#[test]
fn o6_an_operator_makes_changes_and_deletes_an_organization_with_its_agent() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    let person = Person::sign_in(&operator);
    let page = person.page("/console/organizations");
    assert!(page.contains("There is no organization yet"), "{page}");
    let create = Form::find(&page, "/console/organizations");
    let bad = person.submit(&create.clone().with("name", MARKUP).with("display_name", "Acme & <Co>"));
    check_page("/console/organizations", &bad.text());
    assert_eq!(bad.status, 400, "{}", bad.text());
    assert_eq!(Form::find(&bad.text(), "/console/organizations").field("display_name"), Some("Acme & <Co>"));
    let page =
        person.submit_and_follow(&create.clone().with("name", "acme").with("display_name", "Acme & <Co>"));
    assert!(page.contains("There is no policy yet") && page.contains("There are no agents here"), "{page}");
    let organization = || operator.get("/v1/orgs/acme");
    assert_eq!(organization().expect(200).json()["display_name"], "Acme & <Co>");
    expect_conflict(&person.submit(&create.with("name", "acme")));

    let edit = Form::with_act(&person.page("/console/organizations/acme/edit"), "save");
    assert_eq!(edit.field("display_name"), Some("Acme & <Co>"));
    let hidden = person.submit(&edit.clone().with("display_name", HIDDEN));
    assert!(hidden.status >= 400, "{}", hidden.text());
    person
        .submit(&edit.clone().with("display_name", "Acme").with("connected", "stripe\n\n crm "))
        .expect(303);
    assert_eq!(organization().expect(200).json()["connected"], json!(["stripe", "crm"]));
    expect_conflict(&person.submit(&edit));

    let agent = form(&person, "/console/organizations/acme", "/console/organizations/acme/agents");
    let unsound = person.submit(&agent.clone().with("name", "bot").with("enabled", "no tool/*\n"));
    assert!(unsound.status >= 400, "{}", unsound.text());
    let kept = Form::find(&unsound.text(), "/console/organizations/acme/agents");
    assert_eq!((kept.field("name"), kept.field("enabled")), (Some("bot"), Some("no tool/*\n")));
    let enabled =
        agent.with("name", "bot").with("enabled", "arithmetic/*\ntext/*").with("autonomy", "draft_only");
    person.submit(&enabled).expect(303);
    let document = operator.get("/v1/orgs/acme/agents/bot").expect(200).json();
    let expected = json!({"enabled": ["arithmetic/*", "text/*"], "autonomy": "draft_only"});
    assert_eq!(document, expected);

    let deletion = "/console/organizations/acme/agents/bot/delete";
    let delete = form(&person, deletion, deletion);
    let unconfirmed = person.submit(&delete);
    assert_eq!(unconfirmed.status, 400, "{}", unconfirmed.text());
    operator.get("/v1/orgs/acme/agents/bot").expect(200);
    person.submit(&delete.with("confirmed", "bot")).expect(303);
    operator.get("/v1/orgs/acme/agents/bot").expect_refusal(404, "NOT_FOUND");
    let delete = Form::with_act(&person.page("/console/organizations/acme/edit"), "delete");
    let other = person.submit(&delete.clone().with("confirmed", "rival"));
    assert_eq!(other.status, 400, "{}", other.text());
    organization().expect(200);
    person.submit(&delete.with("confirmed", "acme")).expect(303);
    organization().expect_refusal(404, "NOT_FOUND");
}

#[test]
fn o6_an_owner_makes_agents_but_no_organization() {
    with_fixture(|fixture| {
        let (tenant, rival) = (fixture.tenant(), fixture.tenant());
        let person = Person::sign_in(&tenant.owner);
        let own = format!("/console/organizations/{}", tenant.name);
        let agent = form(&person, &own, &format!("{own}/agents")).with("name", "clerk").with("enabled", "*");
        person.submit(&agent).expect(303);
        let stored = tenant.owner.get(&format!("/v1/orgs/{}/agents/clerk", tenant.name)).expect(200).json();
        assert_eq!(stored["enabled"], "*");
        let foreign = format!("/console/organizations/{}", rival.name);
        for action in [format!("{foreign}/agents"), format!("{foreign}/agents/bot/delete")] {
            let reply = person.submit(&Form { action, ..agent.clone() });
            assert_eq!(reply.status, 404, "{}", reply.text());
        }
        for action in ["/console/organizations".to_owned(), format!("{own}/edit")] {
            let reply = person.submit(&Form { action, ..agent.clone() });
            assert_eq!(reply.status, 403, "{}", reply.text());
        }
        assert!(!person.page("/console/organizations").contains("New organization"));
    });
}

#[test]
fn g17_assertions_are_tried_put_in_force_and_shown_before_a_policy_breaks_them() {
    with_fixture(|fixture| {
        let tenant = fixture.tenant();
        let person = Person::sign_in(&tenant.owner);
        let address = format!("/console/policies/organizations/{}/assertions", tenant.name);
        let in_force = || tenant.owner.get(&format!("/v1/orgs/{}/policy/assertions", tenant.name));
        let page = person.page(&address);
        assert!(page.contains("There are no assertions yet"), "{page}");
        let text = |tool: &str| {
            let assertion = json!({"name": "quiet", "never": {"agents": ["bot"], "tools": [tool]}});
            json!({"assertions": [assertion]}).to_string()
        };
        let attempt = Form::as_text(&page).with("act", "try");
        let fails = person.submit(&attempt.clone().with("text", &text("pay/send"))).expect(200).text();
        assert!(fails.contains("Not all of them hold") && fails.contains("pay/send"), "{fails}");
        assert!(!Form::all(&fails).iter().any(|form| form.field("act") == Some("put")), "{fails}");
        for unsound in ["{\"assertions\": ", "{\"assertions\": [{\"name\": \"a\"}]}", MARKUP] {
            let refused = person.submit(&attempt.clone().with("text", unsound));
            assert!(matches!(refused.status, 400 | 422), "{}: {}", refused.status, refused.text());
            check_page(&address, &refused.text());
            assert!(unescape(&refused.text()).contains(unsound), "{}", refused.text());
        }
        in_force().expect_refusal(404, "NOT_FOUND");
        let holds = person.submit(&attempt.with("text", &text("files/delete"))).expect(200).text();
        assert!(holds.contains("All of them hold"), "{holds}");
        let put = Form::with_act(&holds, "put");
        let page = person.submit_and_follow(&put);
        assert!(page.contains("holds") && unescape(&page).contains("cannot call `files/delete`"), "{page}");
        assert_eq!(in_force().expect(200).json()["assertions"][0]["name"], "quiet");
        expect_conflict(&person.submit(&put));
        // The agent may not get the tool any more: its document says so before it is put in force.
        let agent = format!("/console/policies/agents/{}/bot", tenant.name);
        let edit = Form::as_text(&person.page(&agent));
        let opened = json!({"enabled": ["pay/*", "files/*"]}).to_string();
        let preview = person.submit(&edit.clone().with("text", &opened)).expect(200).text();
        assert!(preview.contains("Assertions that would fail") && preview.contains("quiet"), "{preview}");
        assert!(!Form::all(&preview).iter().any(|form| form.field("act") == Some("put")), "{preview}");
        let refused = person.submit(&edit.with("text", &opened).with("act", "put"));
        assert_eq!(refused.status, 409, "{}", refused.text());
        let delete = Form::with_act(&person.page(&address), "delete");
        person.submit(&delete).expect(303);
        in_force().expect_refusal(404, "NOT_FOUND");
        for foreign in
            ["/console/policies/platform/assertions", "/console/policies/organizations/none/assertions"]
        {
            let status = person.get(foreign).status;
            assert!(matches!(status, 403 | 404), "{foreign}: {status}");
        }
        let operator = Person::sign_in(&fixture.operator);
        assert!(
            operator.page("/console/policies/platform/assertions").contains("There are no assertions yet")
        );
    });
}

#[test]
fn c3_a_try_shows_the_request_the_raw_answer_and_the_parsed_one() {
    let upstream = Upstream::start();
    let daemon = Daemon::start(PROGRAM, &upstream.settings());
    upstream.resolve_api();
    let raw = format!("{{\"item\": {{\"name\": {}}}}}", json!(format!("{MARKUP}{HIDDEN}")));
    upstream.answer(move |_| upstream::ok("application/json", &raw));
    let operator = daemon.operator();
    operator.make_agent("acme/bot", &json!({"enabled": ["*"]}));
    let definition = json!({
        "display_name": "Shop", "description": "What the shop has.", "publisher": "Acme",
        "base_url": "https://api.upstream.test:8443/shop",
        "actions": [{
            "name": "item", "description": "One item.", "method": "GET", "path": "/items/{id}",
            "input_schema": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}},
            "result": {"pointer": "/item"},
        }],
    });
    let grant = upstream.grant(json!({"network": [{"host": "api.upstream.test", "port": 8443}]}));
    operator.make("/v1/orgs/acme/tools/shop/grant", &grant).expect(201);
    let owner = operator.with_new_token(&json!({"role": "owner", "organization": "acme"}));
    let person = Person::sign_in(&owner);
    let draft = form(&person, "/console/try/acme", "/console/try/acme").with("action", "item");
    let draft = draft.with("namespace", "shop").with("arguments", r#"{"id": "7"}"#);
    let unsound = person.submit(&draft.clone().with("definition", "{\"display_name\": "));
    assert!(matches!(unsound.status, 400 | 422), "{}", unsound.text());
    assert_eq!(
        Form::find(&unsound.text(), "/console/try/acme").field("definition"),
        Some("{\"display_name\": ")
    );
    let page = person.submit(&draft.with("definition", &definition.to_string())).expect(200).text();
    let expect = |page: &str| {
        check_page("/console/try/acme", page);
        let shown = unescape(page);
        for part in ["GET https://api.upstream.test:8443/shop/items/7", "Parsed answer", "Raw answer", MARKUP]
        {
            assert!(shown.contains(part), "no {part}: {page}");
        }
    };
    expect(&page);
    owner.get("/v1/orgs/acme/tools/shop").expect_refusal(404, "NOT_FOUND");
    operator.make("/v1/orgs/acme/tools/shop", &definition).expect(201);
    let address = "/console/try/acme/shop/item";
    let attempt = form(&person, address, address);
    expect(&person.submit(&attempt.with("field-0", "7")).expect(200).text());
}

#[test]
fn g11_an_approval_shows_its_cost_and_a_written_file_against_the_old_one() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.load_confirmed("pay", &payments());
    let tenant = Tenant::make(&operator, "acme");
    operator.make_agent("acme/writer", &json!({"enabled": ["files/*"], "autonomy": "supervised"}));
    let orchestrator = operator.with_new_token(&json!({"role": "orchestrator", "organization": "acme"}));
    let session = orchestrator.open_session("acme/writer");
    session.put_file("a.txt", b"one\ntwo\nthree\n").expect(204);
    let arguments = json!({"path": "a.txt", "content": "one\n<b>2</b>\nthree\n"});
    let reply = session.call_as("w1", "files/write", arguments);
    let address = format!("/console/approvals/{}", reply.approval());
    let page = Person::sign_in(&tenant.owner).page(&address);
    check_page(&address, &page);
    for part in ["What it would cost", " instructions", "Why it asks"] {
        assert!(page.contains(part), "no {part}: {page}");
    }
    for line in ["<del class=\"removed\">-two</del>", "<ins class=\"added\">+&lt;b&gt;2&lt;/b&gt;</ins>"] {
        assert!(page.contains(line), "no {line}: {page}");
    }
    // An approver sees the call, and not what else is in the session.
    let page = Person::sign_in(&tenant.approver).page(&address);
    assert!(page.contains("What it would cost") && !page.contains("-two"), "{page}");
}

#[test]
fn o6_an_operator_grants_and_enters_keys_in_forms() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.load_confirmed("pay", &payments());
    let person = Person::sign_in(&operator);
    let address = "/console/plugins/pay/grant";
    let fields = Form::as_fields(&person.page(address)).with("act", "put");
    let unsound = person.submit(&fields.clone().with("field-1-mode", "these").with("field-1-0-1", "no host"));
    assert!(matches!(unsound.status, 400 | 422), "{}", unsound.text());
    check_page(address, &unsound.text());
    assert!(unsound.text().contains("no host"), "{}", unsound.text());
    let granted = || operator.get("/v1/plugins/pay/grant").expect(200).json();
    person.submit(&fields.with("field-0", "workspace").with("field-1-0-1", "api.example.com")).expect(303);
    assert_eq!(granted()["network"], json!([{"host": "api.example.com"}]));
    let text = Form::as_text(&person.page(address)).with("act", "put").with("text", "{}");
    person.submit(&text).expect(303);
    assert_eq!(granted(), json!({}));

    let keys = "/console/publisher-keys";
    assert!(person.page(keys).contains("There is no key yet"));
    let address = format!("{keys}/edit?name=acme-1");
    let key = Form::as_fields(&person.page(&address)).with("act", "put").with("field-0", "acme");
    let wrong = person.submit(&key.clone().with("field-1", "no key"));
    assert!(matches!(wrong.status, 400 | 422), "{}", wrong.text());
    let public = "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
    person.submit(&key.with("field-1", public).with("field-2", "pay")).expect(303);
    let stored = operator.get("/v1/platform/publisher-keys/acme-1").expect(200).json();
    assert_eq!(stored, json!({"publisher": "acme", "public_key": public, "namespaces": ["pay"]}));
    assert!(person.page(keys).contains("acme-1"));
    person.submit(&Form::with_act(&person.page(&address), "delete")).expect(303);
    operator.get("/v1/platform/publisher-keys/acme-1").expect_refusal(404, "NOT_FOUND");

    let page = unescape(&person.page("/console/installation"));
    assert!(page.contains("There was none yet") && page.contains("sandbox.instances"), "{page}");
    let backup = person.submit(&form(&person, "/console/installation", "/console/installation/backup"));
    assert_eq!((backup.status, &backup.body[..2]), (200, &[0x1f, 0x8b][..]), "a compressed file");
    wait::until_true("the time of the backup", || {
        !person.page("/console/installation").contains("There was none yet")
    });
}

#[test]
fn o6_an_owner_makes_webhooks_and_keys_and_grants_nothing() {
    let upstream = Upstream::start();
    upstream.answer(|_| upstream::answer(204, &[], b""));
    let daemon = Daemon::start(PROGRAM, "[webhooks]\nhosts = [\"hooks.example.org\"]\n");
    let operator = daemon.operator();
    operator.load_confirmed("pay", &payments());
    let tenant = Tenant::make(&operator, "acme");
    let person = Person::sign_in(&tenant.owner);
    let address = "/console/webhooks/acme";
    let create = form(&person, address, address).with("name", "desk");
    let elsewhere = person.submit(&create.clone().with("url", "https://elsewhere.example/x"));
    assert!(
        elsewhere.status >= 400 && elsewhere.text().contains("elsewhere.example"),
        "{}",
        elsewhere.text()
    );
    let made = person.submit(&create.with("url", "https://hooks.example.org/x")).expect(200).text();
    assert!(made.contains("It is not shown again"), "{made}");
    let page = person.page("/console/webhooks/acme/desk");
    assert!(page.contains("Nothing was sent yet") && page.contains("https://hooks.example.org/x"), "{page}");
    let tested = person.submit(&Form::with_act(&page, "test")).expect(200).text();
    assert!(tested.contains("did not take the test event"), "{tested}");
    person.submit(&Form::with_act(&page, "delete")).expect(303);
    tenant.owner.get("/v1/orgs/acme/webhooks/desk").expect_refusal(404, "NOT_FOUND");
    let own = "/console/organizations/acme/publisher-keys";
    assert!(person.page(own).contains("There is no key yet"));
    for refused in ["/console/publisher-keys", "/console/plugins/pay/grant", "/console/installation"] {
        assert_eq!(person.get(refused).status, 403, "{refused}");
    }
    for foreign in
        ["/console/webhooks/none", "/console/tools/none", "/console/organizations/none/publisher-keys"]
    {
        assert_eq!(person.get(foreign).status, 404, "{foreign}");
    }
}

#[test]
fn m4_a_server_that_cannot_be_mounted_loses_nothing_of_the_form() {
    let upstream = Upstream::start();
    upstream.resolve_api();
    upstream.answer(|_| upstream::answer(404, &[], b"{}"));
    let daemon = Daemon::start(PROGRAM, &upstream.settings());
    let operator = daemon.operator();
    operator.load_confirmed("pay", &payments());
    let tenant = Tenant::make(&operator, "acme");
    let person = Person::sign_in(&tenant.owner);
    let address = "/console/define/acme?name=notes";
    let page = person.page(&format!("{address}&kind=mcp"));
    let fields = Form::as_fields(&page);
    assert_eq!(fields.field("field-0"), Some("mcp"), "{page}");
    let draft = fields
        .with("act", "check")
        .with("field-2", "Notes.")
        .with("field-7", "https://api.upstream.test:8443/mcp");
    let refused = person.submit(&draft);
    assert!(refused.status >= 400, "{}", refused.text());
    check_page(address, &refused.text());
    assert!(unescape(&refused.text()).contains("https://api.upstream.test:8443/mcp"), "{}", refused.text());
}
