//! The inbox of approvals, and decisions about them (G11, G18).

use toolgate_tests::json;

use crate::person::{Form, Person, unescape};
use crate::{HIDDEN, Tenant, with_fixture};

fn address(approval: &str) -> String {
    format!("/console/approvals/{approval}")
}

/// The form of an approval's page that a button sends.
fn press(person: &Person, approval: &str, decision: &str) -> Form {
    Form::press(&person.page(&address(approval)), "decision", decision)
}

#[test]
fn g11_a_person_approves_exactly_the_bytes_that_the_page_shows() {
    with_fixture(|fixture| {
        let tenant = fixture.tenant();
        let approval = tenant.ask("c1", json!({"to": format!("bob <b>{HIDDEN}"), "amount": 5}));
        let person = Person::sign_in(&tenant.approver);
        let inbox = person.page("/console/approvals");
        assert!(inbox.contains(&address(&approval)), "{inbox}");
        let page = unescape(&person.page(&address(&approval)));
        let bound = tenant.approval(&approval)["arguments"]["to"].to_string();
        assert!(bound.contains(HIDDEN.split('\u{1b}').next().expect("a start")), "{bound}");
        for part in ["bob <b>\\u{202e}\\u{2066}\\u{200b}\\u{feff}", "pay/send", "1.0.0"] {
            assert!(page.contains(part), "no {part}:\n{page}");
        }
        person.submit(&press(&person, &approval, "approve").with("reason", "agreed")).expect(303);
        let decided = tenant.approval(&approval);
        assert_eq!((&decided["state"], &decided["reason"]), (&json!("approved"), &json!("agreed")));
        assert_eq!(decided["arguments_instead"], json!(null));
        let again = json!({"to": format!("bob <b>{HIDDEN}"), "amount": 5});
        assert_eq!(tenant.session.call_as("c1", "pay/send", again).output(), &json!({"done": true}));
        assert!(!person.page("/console/approvals").contains(&address(&approval)));
        let record = fixture.operator.audit(&format!("kind=admin&organization={}&limit=50", tenant.name));
        let record = record.iter().find(|record| record.to_string().contains("approval.approve"));
        assert!(record.is_some_and(|record| record.to_string().contains("console")), "{record:?}");
    });
}

#[test]
fn g11_a_denial_has_its_reason_and_the_model_is_told() {
    with_fixture(|fixture| {
        let tenant = fixture.tenant();
        let approval = tenant.ask("c1", json!({"to": "eve", "amount": 5}));
        let person = Person::sign_in(&tenant.owner);
        let page = person.submit_and_follow(&press(&person, &approval, "deny").with("reason", "Not <eve>."));
        assert!(unescape(&page).contains("Not <eve>."), "{page}");
        assert_eq!(tenant.approval(&approval)["state"], "denied");
        let reply = tenant.session.call_as("c1", "pay/send", json!({"to": "eve", "amount": 5}));
        assert!(reply.0.to_string().contains("Not <eve>."), "{}", reply.0);
    });
}

#[test]
fn g18_a_person_approves_with_other_arguments_and_for_more_calls() {
    with_fixture(|fixture| {
        let tenant = fixture.tenant();
        let person = Person::sign_in(&tenant.owner);
        let (first, second) = (
            tenant.ask("c1", json!({"to": "bob", "amount": 500})),
            tenant.ask("c2", json!({"to": "bob", "amount": 1})),
        );
        let form = |approval: &str, kind: &str| {
            let forms = Form::all(&person.page(&address(approval)));
            let form = forms.into_iter().find(|form| form.field("form") == Some(kind)).expect(kind);
            form.with("decision", "approve")
        };
        // Wrong input is refused on the page, which keeps it.
        for wrong in ["{\"to\": \"bob\"", "{\"to\": 5}"] {
            let refused = person.submit(&form(&first, "instead").with("arguments_instead", wrong));
            assert!(matches!(refused.status, 400 | 422), "{}: {}", refused.status, refused.text());
            assert!(unescape(&refused.text()).contains(wrong), "{}", refused.text());
        }
        assert_eq!(tenant.approval(&first)["state"], "pending");
        let instead = r#"{"to": "bob", "amount": 50}"#;
        person.submit(&form(&first, "instead").with("arguments_instead", instead)).expect(303);
        assert_eq!(tenant.approval(&first)["arguments_instead"], json!({"to": "bob", "amount": 50}));
        let shape = form(&second, "shape")
            .with("uses", "3")
            .with("minutes", "10")
            .with("arguments", r#"{"/amount": {"type": "integer", "maximum": 100}}"#);
        person.submit(&shape).expect(303);
        let approved = tenant.approval(&second);
        assert_eq!((&approved["state"], &approved["uses_left"]), (&json!("approved"), &json!(3)));
        for (call, amount) in [("c3", 2), ("c4", 100)] {
            let arguments = json!({"to": "bob", "amount": amount});
            assert_eq!(tenant.session.call_as(call, "pay/send", arguments).output(), &json!({"done": true}));
        }
        let over = tenant.session.call_as("c5", "pay/send", json!({"to": "bob", "amount": 101}));
        assert_eq!(over.status(), "approval_required", "{}", over.0);
    });
}

#[test]
fn g11_the_second_of_two_people_is_told_who_decided() {
    with_fixture(|fixture| {
        let tenant = fixture.tenant();
        let approval = tenant.ask("c1", json!({"to": "bob", "amount": 5}));
        let (ann, bea) = (Person::sign_in(&tenant.owner), Person::sign_in(&tenant.approver));
        let (first, second) = (press(&ann, &approval, "approve"), press(&bea, &approval, "deny"));
        ann.submit(&first).expect(303);
        let refused = bea.submit(&second.with("reason", "no")).expect(409).text();
        let by = tenant.approval(&approval)["decided_by"].as_str().expect("a decider").to_owned();
        assert!(refused.contains(&by) && refused.contains("approved"), "{refused}");
        assert_eq!(tenant.approval(&approval)["state"], "approved");
    });
}

#[test]
fn g11_nobody_approves_the_own_call_and_a_forged_form_decides_nothing() {
    with_fixture(|fixture| {
        let tenant = fixture.tenant();
        let session = tenant.owner.open_session(&format!("{}/bot", tenant.name));
        let own = Tenant { session, ..clone(&tenant) };
        let approval = own.ask("c1", json!({"to": "bob", "amount": 5}));
        let (person, approver) = (Person::sign_in(&tenant.owner), Person::sign_in(&tenant.approver));
        let form = press(&approver, &approval, "approve");
        let page = person.page(&address(&approval));
        assert!(!page.contains("value=\"approve\""), "a form for the own call:\n{page}");
        let csrf = Form::find(&page, "/console/sign-out").field("csrf").expect("a token").to_owned();
        let refused = person.submit(&form.clone().with("csrf", &csrf));
        assert_eq!(refused.status, 403, "{}", refused.text());
        let forged = [
            approver.submit(&form.clone().without("csrf")),
            approver.submit(&form.clone().with("csrf", &csrf)),
            approver.submit_with(&form, &[("Origin", "https://evil.example")]),
        ];
        for refused in forged {
            assert_eq!(refused.status, 403, "{}", refused.text());
        }
        let unclear = approver.submit(&form.clone().with("decision", "perhaps"));
        assert_eq!(unclear.status, 400, "{}", unclear.text());
        assert_eq!(tenant.approval(&approval)["state"], "pending");
        approver.submit(&form).expect(303);
        assert_eq!(tenant.approval(&approval)["state"], "approved");
    });
}

/// The same organization, for another session.
fn clone(tenant: &Tenant) -> Tenant {
    Tenant {
        name: tenant.name.clone(),
        owner: tenant.owner.clone(),
        approver: tenant.approver.clone(),
        session: tenant.session.clone(),
    }
}

#[test]
fn g11_a_row_of_the_inbox_is_short_and_a_page_is_cut_with_a_note() {
    with_fixture(|fixture| {
        let tenant = fixture.tenant();
        let approval = tenant.ask("c1", json!({"to": "<script>".repeat(20_000), "amount": 5}));
        let person = Person::sign_in(&tenant.owner);
        let inbox = person.page("/console/approvals");
        assert!(inbox.len() < 40_000, "{} bytes", inbox.len());
        let page = person.page(&address(&approval));
        assert!(page.len() < 800_000 && !page.contains("<script>"), "{} bytes", page.len());
        assert!(page.contains("can only be denied here"), "a note says what is left out");
        assert!(
            page.contains("value=\"deny\"") && !page.contains("value=\"approve\""),
            "{} bytes",
            page.len()
        );
    });
}

#[test]
fn g11_the_inbox_has_pages_and_filters() {
    with_fixture(|fixture| {
        let tenant = fixture.tenant();
        for call in 0..101 {
            tenant.ask(&format!("c{call}"), json!({"to": "bob", "amount": call}));
        }
        let person = Person::sign_in(&tenant.owner);
        let page = person.page("/console/approvals");
        let rows = |page: &str| page.matches("<th scope=\"row\">").count();
        assert_eq!(rows(&page), 100);
        let links = crate::person::attributes(&page, "href");
        let next = links.iter().find(|link| link.contains("cursor=")).expect("a next page");
        assert_eq!(rows(&person.page(next)), 1);
        assert_eq!(rows(&person.page("/console/approvals?state=denied")), 0);
        for wrong in ["state=lost", "cursor=none", "organization=A%20B"] {
            let status = person.get(&format!("/console/approvals?{wrong}")).status;
            assert!(matches!(status, 200 | 400 | 403 | 404), "{wrong}: {status}");
        }
        let operator = Person::sign_in(&fixture.operator);
        let fragment = operator.page(&format!("/console/approvals/fragment?organization={}", tenant.name));
        assert!(!fragment.contains("<html") && rows(&fragment) == 100, "{fragment}");
    });
}

#[test]
fn o6_a_person_decides_calls_of_one_shape_together_and_sees_who_else_looks() {
    with_fixture(|fixture| {
        let tenant = fixture.tenant();
        let ask = |call: &str, amount: u32| tenant.ask(call, json!({"to": "bob", "amount": amount}));
        let (first, second, third) = (ask("c1", 1), ask("c2", 2), ask("c3", 3));
        let (ann, bea) = (Person::sign_in(&tenant.owner), Person::sign_in(&tenant.approver));
        let page = unescape(&ann.page(&address(&first)));
        assert!(
            page.contains("1 of 3") && page.contains(&format!("href=\"{}\"", address(&second))),
            "{page}"
        );
        for part in ["wants to call", "amount", "2 more of this tool and agent wait"] {
            assert!(page.contains(part), "no {part}: {page}");
        }
        let others = |person: &Person| person.page(&format!("{}/others/fragment", address(&first)));
        assert!(!others(&ann).contains("Also here"));
        assert!(others(&bea).contains("Also here"));
        let form = press(&ann, &first, "approve").without("also");
        // A call of another organization is none of this shape.
        let other = fixture.tenant().ask("c1", json!({"to": "bob", "amount": 1}));
        let partly = press(&bea, &second, "deny").without("also").with("also", &other);
        let told = bea.submit(&partly).expect(404).text();
        assert!(told.contains("not all of the chosen ones"), "{told}");
        assert_eq!(tenant.approval(&second)["state"], "denied", "the first of the form is decided");
        ann.submit(&form.with("also", &third)).expect(303);
        for approval in [&first, &third] {
            assert_eq!(tenant.approval(approval)["state"], "approved");
        }
        assert!(others(&bea).contains("It is decided"));
    });
}
