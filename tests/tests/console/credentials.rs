//! Credentials in the console: stored, replaced, rotated and deleted, and never shown.

use toolgate_tests::{Client, Reply, json};

use crate::person::{Form, Person, attributes, unescape};
use crate::{HIDDEN, MARKUP, Tenant, with_fixture};

const SECRET: &str = "sk_live_secret-kanary";

/// The form of a new credential of a kind.
fn creation(person: &Person, tenant: &Tenant, kind: &str) -> Form {
    let page = person.page(&format!("/console/credentials/{}/new/{kind}", tenant.name));
    Form::find(&page, &list_of(tenant))
        .with("bound_to", "https://api.stripe.com/v1/")
        .with("provider", "stripe")
}

fn list_of(tenant: &Tenant) -> String {
    format!("/console/credentials/{}", tenant.name)
}

fn read_credential(tenant: &Tenant, name: &str) -> Reply {
    tenant.owner.get(&format!("/v1/orgs/{}/credentials/{name}", tenant.name))
}

/// The form of a credential's page with a hidden act.
fn act(person: &Person, tenant: &Tenant, name: &str, act: &str) -> Form {
    let page = person.page(&format!("{}/{name}", list_of(tenant)));
    let form = Form::all(&page).into_iter().find(|form| form.field("act") == Some(act));
    form.unwrap_or_else(|| panic!("no form `{act}`: {page}"))
}

#[test]
fn o6_a_credential_is_stored_replaced_rotated_and_deleted_and_its_secret_is_nowhere() {
    with_fixture(|fixture| {
        let tenant = fixture.tenant();
        let person = Person::sign_in(&tenant.owner);
        let empty = person.page(&list_of(&tenant));
        assert!(empty.contains("There are no credentials"), "{empty}");
        let form = creation(&person, &tenant, "bearer").with("name", "stripe").with("secret", SECRET);
        let reply = person.submit(&form).expect(303);
        let address = format!("{}/stripe", list_of(&tenant));
        assert_eq!(reply.header("location"), Some(address.as_str()));
        let view = read_credential(&tenant, "stripe").expect(200).json();
        assert_eq!(
            (&view["state"], &view["version"], &view["shared"]),
            (&json!("connected"), &json!(1), &json!(true))
        );
        assert_eq!(view["bound_to"][0]["path"], "/v1/");
        // The same name again replaces nothing.
        assert_eq!(person.submit(&form).status, 412);
        // The secret alone, then the credential whole, with what it was before.
        let stale = act(&person, &tenant, "stripe", "rotate").with("secret", "another-kanary");
        person.submit(&stale).expect(303);
        assert_eq!(person.submit(&stale).status, 412, "of the version before");
        let replace = act(&person, &tenant, "stripe", "replace");
        assert_eq!(replace.field("bound_to"), Some("https://api.stripe.com/v1/"));
        assert_eq!((replace.field("provider"), replace.field("secret")), (Some("stripe"), Some("")));
        let refused = person.submit(&replace.clone().with("bound_to", "https://api.stripe.com/v2/"));
        assert_eq!(refused.status, 400, "not without the secret: {}", refused.text());
        assert!(refused.text().contains("https://api.stripe.com/v2/"), "what was typed is there");
        let line = "GET,POST https://api.stripe.com/v2/";
        person.submit(&replace.with("bound_to", line).with("secret", "third-kanary")).expect(303);
        let view = read_credential(&tenant, "stripe").expect(200).json();
        assert_eq!((&view["version"], &view["bound_to"][0]["methods"]), (&json!(3), &json!(["GET", "POST"])));
        let pages = [person.page(&address), person.page(&list_of(&tenant)), refused.text()];
        assert!(pages[0].contains(line) && attributes(&pages[1], "href").contains(&address));
        let records = json!(fixture.operator.audit("kind=admin&limit=100")).to_string();
        for action in ["credential.put", "credential.rotate"] {
            assert!(records.contains(action), "{records}");
        }
        for place in pages.iter().chain([&records, &fixture.daemon.log_text()]) {
            assert!(!place.contains("kanary"), "{place}");
        }
        person.submit(&act(&person, &tenant, "stripe", "delete")).expect(303);
        assert_eq!(read_credential(&tenant, "stripe").status, 404);
        assert_eq!(person.get(&address).status, 404);
    });
}

#[test]
fn o6_a_credential_that_cannot_be_stored_loses_nothing_but_its_secret() {
    with_fixture(|fixture| {
        let tenant = fixture.tenant();
        let person = Person::sign_in(&tenant.owner);
        let form = creation(&person, &tenant, "oauth2_client_credentials")
            .with("name", "mail")
            .with("client_id", MARKUP)
            .with("token_url", "https://login.example/token")
            .with("scopes", "read write")
            .with("parameters", "audience=https://api.example/")
            .with("secret", SECRET);
        for (field, value) in [
            ("name", "No name!"),
            ("provider", ""),
            ("bound_to", "api.stripe.com"),
            ("bound_to", "http://api.stripe.com/"),
            ("bound_to", "https://user:secret-kanary@api.stripe.com/"),
            ("token_url", "ftp://login.example"),
            ("parameters", "audience"),
            ("secret", ""),
            ("secret", "ab"),
            ("client_id", HIDDEN),
            ("kind", "none"),
        ] {
            let reply = person.submit(&form.clone().with(field, value));
            assert_eq!(reply.status, 400, "{field}={value}: {}", reply.text());
            let again = Form::find(&reply.text(), &list_of(&tenant));
            let kept = if field == "scopes" { value } else { "read write" };
            let has_scopes = field != "kind";
            assert!(!has_scopes || again.field("scopes") == Some(kept), "{field}: {again:?}");
            assert_eq!(again.field("secret"), Some(""), "{field}");
            assert!(!reply.text().contains(SECRET) && !reply.text().contains("<script>alert"), "{field}");
        }
        let list = tenant.owner.get(&format!("/v1/orgs/{}/credentials", tenant.name)).expect(200).json();
        assert_eq!(list["items"], json!([]));
        person.submit(&form.with("client_id", "me")).expect(303);
        let view = read_credential(&tenant, "mail").expect(200).json();
        assert_eq!(view["scopes"], json!(["read", "write"]));
        // No person is asked about this kind.
        let page = person.page(&format!("{}/mail", list_of(&tenant)));
        assert!(Form::all(&page).iter().all(|form| form.field("act") != Some("connect")), "{page}");
        let connect = act(&person, &tenant, "mail", "delete").with("act", "connect");
        let refused = person.submit(&connect).expect(409);
        assert!(
            unescape(&refused.text()).contains("needs no user's consent")
                || refused.text().contains("CONFLICT")
        );
    });
}

#[test]
fn o6_credentials_of_others_do_not_exist_and_roles_below_an_owner_see_none() {
    with_fixture(|fixture| {
        let (tenant, other) = (fixture.tenant(), fixture.tenant());
        let person = Person::sign_in(&tenant.owner);
        let form = creation(&person, &tenant, "bearer").with("name", "stripe").with("secret", SECRET);
        person.submit(&form).expect(303);
        let delete = act(&person, &tenant, "stripe", "delete");
        let pages = [
            list_of(&tenant),
            format!("{}/new/bearer", list_of(&tenant)),
            format!("{}/stripe", list_of(&tenant)),
        ];
        let try_all = |client: &Client, status: u16| {
            let stranger = Person::sign_in(client);
            for page in &pages {
                assert_eq!(stranger.get(page).status, status, "{page}");
            }
            let csrf = Form::find(&stranger.page("/console"), "/console/sign-out");
            let csrf = csrf.field("csrf").expect("a CSRF token");
            for form in [&form.clone().with("name", "other"), &delete] {
                assert_eq!(stranger.submit(&form.clone().with("csrf", csrf)).status, status, "{form:?}");
            }
        };
        try_all(&other.owner, 404);
        try_all(&tenant.approver, 403);
        read_credential(&tenant, "stripe").expect(200);
        assert_eq!(read_credential(&tenant, "other").status, 404);
        assert_eq!(person.get(&format!("{}/new/nothing", list_of(&tenant))).status, 404);
        person.submit(&delete).expect(303);
        assert_eq!(read_credential(&tenant, "stripe").status, 404);
    });
}
