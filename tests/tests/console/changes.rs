//! Forms of operators and owners: tokens, plugins, consent, sessions. Their effects are read over the HTTP interface.

use toolgate_tests::{Client, Daemon, PluginFile, Value, json};

use crate::person::{Form, Person, attributes, unescape};
use crate::{PROGRAM, Tenant, with_fixture};

/// The form that a page has for an address.
pub fn form(person: &Person, page: &str, action: &str) -> Form {
    Form::find(&person.page(page), action)
}

#[test]
fn o6_a_token_is_shown_once_and_revoked() {
    with_fixture(|fixture| {
        let tenant = fixture.tenant();
        let person = Person::sign_in(&tenant.owner);
        let forms = Form::all(&person.page("/console/tokens"));
        let creation = forms.into_iter().find(|form| form.action == "/console/tokens").expect("a form");
        let wanted = creation
            .with("role", "approver")
            .with("label", "Ann & <Bea>")
            .with("days", "30")
            .with("addresses", "127.0.0.0/8 ::1/128");
        let forged = person.submit(&wanted.clone().without("csrf"));
        assert_eq!(forged.status, 403, "{}", forged.text());
        let made = person.submit(&wanted).expect(200).text();
        let secret =
            made.split("<code>").filter_map(|part| part.split('<').next()).find(|text| text.len() > 40);
        let client = Client::new(fixture.daemon.address, secret);
        client.get("/v1/approvals").expect(200);
        let tokens = tenant.owner.get("/v1/tokens?limit=100").expect(200).json();
        let token =
            tokens["items"].as_array().into_iter().flatten().find(|token| token["label"] == "Ann & <Bea>");
        let token = token.expect("the token").clone();
        assert_eq!((&token["role"], &token["organization"]), (&json!("approver"), &json!(tenant.name)));
        assert!(token["expires_at"].is_u64() && token["addresses"].is_array(), "{token}");
        let list = person.page("/console/tokens");
        assert!(
            !list.contains(secret.expect("a token")) && unescape(&list).contains("Ann & <Bea>"),
            "{list}"
        );
        let revoke = format!("/console/tokens/{}/revoke", token["id"].as_str().expect("an id"));
        person.submit(&form(&person, "/console/tokens", &revoke)).expect(303);
        client.get("/v1/approvals").expect_refusal(401, "UNAUTHENTICATED");
        // Acts that the role may not do are refused as over HTTP.
        let beyond = person.submit(&wanted.with("role", "operator").with("organization", ""));
        assert!(matches!(beyond.status, 400 | 403), "{}: {}", beyond.status, beyond.text());
    });
}

#[test]
fn o6_nobody_reaches_the_tokens_and_sessions_of_another_organization() {
    with_fixture(|fixture| {
        let (tenant, rival) = (fixture.tenant(), fixture.tenant());
        let person = Person::sign_in(&tenant.owner);
        let tokens = rival.owner.get("/v1/tokens?limit=100").expect(200).json();
        let id = tokens["items"][0]["id"].as_str().expect("an id").to_owned();
        let list = person.page("/console/tokens");
        assert!(!list.contains(&id) && !list.contains(&rival.name), "{list}");
        let own = Form::find(&list, "/console/tokens/");
        let refused = person.submit(&Form { action: format!("/console/tokens/{id}/revoke"), ..own.clone() });
        assert_eq!(refused.status, 404, "{}", refused.text());
        let end = Form { action: format!("/console/sessions/{}/end", rival.session.id), ..own.clone() };
        assert_eq!(person.submit(&end).status, 404);
        for path in [
            format!("/console/sessions/{}", rival.session.id),
            format!("/console/organizations/{}", rival.name),
            format!("/console/organizations/{}/agents/bot", rival.name),
            format!("/console/explain/{}", rival.name),
            format!("/console/explain/{}/bot", rival.name),
            format!("/console/catalogue/{}/pay", rival.name),
            format!("/console/policies/organizations/{}/history", rival.name),
            format!("/console/policies/agents/{}/bot/history", rival.name),
            format!("/console/usage?organization={}", rival.name),
            format!("/console/usage/export?organization={}", rival.name),
        ] {
            let missing = path.replace(&rival.name, "none").replace(&rival.session.id, "s_none");
            let (foreign, missing) = (person.get(&path), person.get(&missing));
            assert_eq!(foreign.status, 404, "{path}: {}", foreign.text());
            let plain = |text: String| text.replace(&rival.name, "none").replace(&rival.session.id, "s_none");
            assert_eq!(plain(foreign.text()), plain(missing.text()), "{path}");
        }
        let switch = Form { action: format!("/console/explain/{}/bot/tools", rival.name), ..own };
        assert_eq!(person.submit(&switch).status, 404);
        let found = person.page(&format!("/console/search?q={}", rival.name));
        assert!(!found.contains(&format!("/console/organizations/{}", rival.name)), "{found}");
        // The session is still there.
        rival.session.client.get(&rival.session.path("")).expect(200);
    });
}

#[test]
fn o6_an_owner_ends_a_session() {
    with_fixture(|fixture| {
        let tenant = fixture.tenant();
        let person = Person::sign_in(&tenant.owner);
        let address = format!("/console/sessions/{}", tenant.session.id);
        assert!(person.page("/console/sessions").contains(&address));
        person.submit(&form(&person, &address, &format!("{address}/end"))).expect(303);
        let call = tenant.session.post(&json!({"calls": [{"tool": "pay/quote", "arguments": {}}]}));
        assert!(call.status >= 400, "{}", call.text());
    });
}

/// A plugin of the namespace `stranger` with one tool.
pub fn plugin(version: &str, description: &str) -> Vec<u8> {
    let answer = PluginFile::new("stranger").with_member("version", json!(version));
    answer.with_tool("description", json!(description)).build()
}

#[test]
fn o6_an_operator_reads_the_diff_of_a_version_approves_it_and_rolls_back() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.load("stranger", &plugin("1.0.0", "Answers."));
    let waiting =
        operator.upload("stranger", &plugin("2.0.0", "Answers <b>anything</b>.")).expect(200).json();
    assert_eq!(waiting["state"], "quarantined", "{waiting}");
    let person = Person::sign_in(&operator);
    let page = person.page("/console/plugins/stranger");
    let shown = unescape(&page);
    assert!(shown.contains("Answers.") && shown.contains("Answers <b>anything</b>."), "{page}");
    let serving = || operator.get("/v1/plugins/stranger").expect(200).json();
    let approve = Form::find(&page, "/console/plugins/stranger/approve");
    let other =
        person.submit(&approve.clone().with("digest", serving()["digest"].as_str().expect("a digest")));
    assert!(other.status >= 400, "a digest that does not wait: {}", other.text());
    assert_eq!(serving()["version"], "1.0.0");
    person.submit(&approve).expect(303);
    assert_eq!(serving()["version"], "2.0.0");
    let act = |act: &str| {
        let form = form(&person, "/console/plugins/stranger", &format!("/console/plugins/stranger/{act}"));
        person.submit(&form).expect(303);
        serving()
    };
    assert_eq!(act("disable")["state"], "disabled");
    assert_eq!(act("enable")["state"], "active");
    // Two people roll back the same version: the second goes no further than the first.
    operator.upload("stranger", &plugin("3.0.0", "Answers <b>anything</b>.")).expect(200);
    assert_eq!(serving()["version"], "3.0.0");
    let second = form(&person, "/console/plugins/stranger", "/console/plugins/stranger/rollback");
    assert_eq!(act("rollback")["version"], "2.0.0");
    let late = person.submit(&second);
    assert_eq!(late.status, 409, "{}", late.text());
    assert_eq!(serving()["version"], "2.0.0");
    assert_eq!(act("rollback")["version"], "1.0.0");
}

#[test]
fn o6_an_owner_accepts_and_enables_a_plugin_in_the_catalogue() {
    let daemon = Daemon::start(PROGRAM, "[consent]\nrequired = true\n");
    let operator = daemon.operator();
    operator.load("stranger", &plugin("1.0.0", "Answers."));
    operator.make_agent("acme/bot", &json!({"enabled": ["stranger/*", "arithmetic/*"]}));
    operator.replace("/v1/orgs/acme/policy", &json!({"enabled": ["arithmetic/*"]})).expect(200);
    let owner = operator.with_new_token(&json!({"role": "owner", "organization": "acme"}));
    let session = operator.open_session("acme/bot");
    let call = || session.call("stranger/answer", json!({}));
    call().expect_error("ACCESS_DENIED");
    let person = Person::sign_in(&owner);
    let address = "/console/catalogue/acme/stranger";
    assert!(attributes(&person.page("/console/catalogue"), "href").contains(&address.to_owned()));
    let form = |act: &str| {
        let page = person.page(address);
        let hidden = Form::all(&page).into_iter().find(|form| form.field("act") == Some(act));
        hidden.unwrap_or_else(|| Form::press(&page, "act", act))
    };
    person.submit(&form("enable")).expect(303);
    let policy: Value = owner.get("/v1/orgs/acme/policy").expect(200).json();
    assert_eq!(policy["enabled"], json!(["arithmetic/*", "stranger/*"]));
    call().expect_error("TOOL_DISABLED");
    // A stale form accepts nothing.
    let stale = person
        .submit(&form("save").with("accept", "on").with("digest", &format!("sha256:{}", "0".repeat(64))));
    assert!(stale.status >= 400, "{}", stale.text());
    call().expect_error("TOOL_DISABLED");
    person.submit(&form("save").with("accept", "on")).expect(303);
    assert_eq!(call().output(), &json!(1));
}

#[test]
fn o6_an_owner_tries_a_tool_unless_the_platform_blocks_it() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.load("stranger", &plugin("1.0.0", "Answers."));
    operator.make_agent("acme/bot", &json!({"enabled": ["stranger/*"]}));
    let owner = operator.with_new_token(&json!({"role": "owner", "organization": "acme"}));
    let person = Person::sign_in(&owner);
    let address = "/console/try/acme/stranger/answer";
    let page = person.page(address);
    assert!(page.contains("Answers."), "{page}");
    // Fields by position, of a schema that the tool does not have.
    let stale = person.submit(&Form::find(&page, address).with("fields", "1").with("schema", "another"));
    assert_eq!(stale.status, 409, "{}", stale.text());
    operator.make("/v1/platform/policy", &json!({"blocked": ["stranger/*"]})).expect(201);
    let blocked = person.get(address);
    assert_eq!(blocked.status, 404, "{}", blocked.text());
    assert!(!blocked.text().contains("Answers."));
}

#[test]
fn o6_a_call_shows_its_way_and_explain_shows_the_rule() {
    with_fixture(|fixture| {
        let tenant: Tenant = fixture.tenant();
        tenant.session.call_as("q1", "pay/quote", json!({"to": "bob", "amount": 5})).output();
        tenant.session.call_as("r1", "files/read", json!({"path": "a"})).expect_error("ACCESS_DENIED");
        let person = Person::sign_in(&tenant.owner);
        let list = person.page("/console/calls");
        let address = |call: &str| format!("/console/calls/{}/{call}", tenant.session.id);
        for call in ["q1", "r1"] {
            assert!(list.contains(&address(call)), "no {call}:\n{list}");
        }
        let page = unescape(&person.page(&address("q1")));
        for part in ["pay/quote", "\"bob\"", "Gate", "Audit records"] {
            assert!(page.contains(part), "no {part}:\n{page}");
        }
        let refused = unescape(&person.page(&address("r1")));
        assert!(refused.contains("ACCESS_DENIED") && refused.contains("agent"), "{refused}");
        let only = person.page("/console/calls?status=error");
        assert!(only.contains(&address("r1")) && !only.contains(&address("q1")), "{only}");
        let explained = unescape(&person.page(&format!("/console/explain/{}/bot", tenant.name)));
        assert!(explained.contains("files/read"), "{explained}");
        // The HTTP interface says the same.
        let path = format!("/v1/orgs/{}/agents/bot/explain?tool=files/read", tenant.name);
        let rule = tenant.owner.get(&path).expect(200).json()["tools"][0].clone();
        let page = unescape(&person.page(&format!("/console/explain/{}/bot?tool=files%2Fread", tenant.name)));
        assert!(page.contains("changes nothing") && page.contains("Examples"), "T1: {page}");
        let text = page.replace("<code>", "`").replace("</code>", "`");
        assert!(text.contains(rule["why"].as_str().expect("a reason")), "{rule}:\n{page}");
    });
}

#[test]
fn o6_a_policy_is_in_force_after_its_changes_were_shown() {
    with_fixture(|fixture| {
        let tenant = fixture.tenant();
        let person = Person::sign_in(&tenant.owner);
        let address = format!("/console/policies/organizations/{}", tenant.name);
        let in_force = || tenant.owner.get(&format!("/v1/orgs/{}/policy", tenant.name)).expect(200).json();
        let wanted = json!({"enabled": "*", "disabled": ["pay/send"]});
        let edit = Form::as_text(&person.page(&address));
        let before = in_force();
        let preview = person.submit(&edit.clone().with("text", &wanted.to_string())).expect(200).text();
        assert!(unescape(&preview).contains("pay/send"), "{preview}");
        assert_eq!(in_force(), before);
        let puts = |form: &Form| form.field("act") == Some("put");
        let confirmed = Form::all(&preview).into_iter().find(puts).expect("a form that puts");
        assert_eq!(confirmed.field("text"), Some(wanted.to_string().as_str()));
        // The fields say what the text says, and the text what the fields say.
        let fields = Form::as_fields(&preview);
        assert_eq!((fields.field("field-0-mode"), fields.field("field-1")), (Some("all"), Some("pay/send")));
        let changed = fields.clone().with("act", "preview").with("field-1", "pay/quote\npay/send");
        let both = person.submit(&changed).expect(200).text();
        let text = Form::as_text(&both).field("text").expect("a text").to_owned();
        let text: toolgate_tests::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(text, json!({"enabled": "*", "disabled": ["pay/quote", "pay/send"]}));
        let other = person.submit(&changed.with("schema", "another"));
        assert_eq!(other.status, 409, "{}", other.text());
        person.submit(&confirmed).expect(303);
        assert_eq!(in_force()["disabled"], json!(["pay/send"]));
        // Another change since then is not overwritten, and what was written is kept.
        let stale = person.submit(&confirmed);
        assert!(matches!(stale.status, 409 | 412), "{}: {}", stale.status, stale.text());
        assert!(unescape(&stale.text()).contains(&wanted.to_string()), "{}", stale.text());
        for wrong in ["{\"enabled\": ", "{\"enabeld\": \"*\"}"] {
            let refused = person.submit(&edit.clone().with("text", wrong));
            assert!(matches!(refused.status, 400 | 422), "{}: {}", refused.status, refused.text());
            assert!(unescape(&refused.text()).contains(wrong), "{}", refused.text());
        }
        for foreign in ["/console/policies/platform", "/console/policies/organizations/none"] {
            let status = person.get(foreign).status;
            assert!(matches!(status, 403 | 404), "{foreign}: {status}");
            let moved = person.submit(&Form { action: foreign.to_owned(), ..confirmed.clone() });
            assert_eq!(moved.status, status, "{}", moved.text());
        }
    });
}
