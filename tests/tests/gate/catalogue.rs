//! The catalogue (C4): entries, search, filters, order, pages, and what is not in it.

use toolgate_tests::{Client, PluginFile, Value, json};

use crate::consent::{CONSENTING, Consenting, third_party};

fn with_fixture(test: impl FnOnce(&mut Consenting)) {
    CONSENTING.with(Consenting::start, test);
}

fn list(client: &Client, query: &str) -> Value {
    client.get(&format!("/v1/catalogue?limit=1000&{query}")).expect(200).json()
}

fn names(catalogue: &Value) -> Vec<&str> {
    catalogue["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| entry["namespace"].as_str())
        .collect()
}

fn entry(client: &Client, query: &str, namespace: &str) -> Value {
    let catalogue = list(client, query);
    let mut items = catalogue["items"].as_array().into_iter().flatten();
    let found = items.find(|entry| entry["namespace"] == namespace);
    found.unwrap_or_else(|| panic!("`{namespace}` is not in {catalogue}")).clone()
}

/// A plugin with a tool of these words.
fn plugin_with_words(namespace: &str, description: &str, tags: &[&str]) -> PluginFile {
    third_party(namespace, "1.0.0", &[])
        .with_tool("description", json!(description))
        .with_tool("tags", json!(tags))
}

fn shop() -> Value {
    let action = json!({"name": "list", "description": "Lists.", "method": "GET", "path": "/", "input_schema": {"type": "object"}});
    json!({"description": "A shop.", "base_url": "https://shop.example", "actions": [action]})
}

#[test]
fn c4_an_entry_tells_what_a_plugin_is_and_asks_for() {
    with_fixture(|fixture| {
        let example = json!({"description": "The usual one.", "input": {}});
        let file = third_party("parcels", "1.2.3", &["api.example"])
            .with_member("category", json!("Post"))
            .with_tool("prerequisites", json!(["Open an account."]))
            .with_tool("required_integrations", json!(["carrier"]))
            .with_tool("examples", json!([example]));
        fixture.operator.load("parcels", &file.build());
        let tenant = fixture.tenant();
        let parcels = entry(&tenant.owner, "", "parcels");
        for (member, value) in [
            ("kind", json!("third_party")),
            ("version", json!("1.2.3")),
            ("publisher", json!("Toolgate tests")),
            ("publisher_proven", json!(false)),
            ("category", json!("Post")),
            ("purpose", json!("Answers.")),
            ("prerequisites", json!(["Open an account."])),
            ("integrations", json!(["carrier"])),
            ("permissions", json!(["sends requests to `api.example`"])),
            ("enabled", json!(true)),
            ("consent", json!("missing")),
            ("calls_30d", json!(0)),
            ("rank", Value::Null),
        ] {
            assert_eq!(parcels[member], value, "{member}: {parcels}");
        }
        assert_eq!(parcels["risk"]["level"], "medium");
        assert_eq!(parcels["tools"][0]["tool"], "parcels/answer");
        assert_eq!(parcels["tools"][0]["example"]["description"], "The usual one.");
        let hints = json!({"read_only": false, "destructive": true, "idempotent": false, "open_world": true});
        assert_eq!(parcels["tools"][0]["hints"], hints);
        assert!(parcels["tools"][0]["hints_state"].is_string(), "{parcels}");
        assert!(parcels["loaded_ms"].as_u64().is_some_and(|at| at > 1_600_000_000_000), "{parcels}");

        let arithmetic = entry(&tenant.owner, "", "arithmetic");
        assert_eq!(
            (&arithmetic["kind"], &arithmetic["consent"], &arithmetic["risk"]["level"]),
            (&json!("standard"), &json!("not_needed"), &json!("low"))
        );
        tenant.accept("parcels");
        assert_eq!(entry(&tenant.owner, "", "parcels")["consent"], "accepted");
        let policy = format!("/v1/orgs/{}/policy", tenant.name);
        tenant.owner.replace(&policy, &json!({"enabled": ["arithmetic/*"]})).expect(200);
        assert_eq!(entry(&tenant.owner, "", "parcels")["enabled"], json!(false));
        assert_eq!(entry(&tenant.owner, "", "arithmetic")["enabled"], json!(true));
    });
}

#[test]
fn c4_words_find_names_search_words_categories_and_purposes() {
    with_fixture(|fixture| {
        let by_name = plugin_with_words("zeppelin", "Flies.", &[]);
        let by_tag = plugin_with_words("airship", "Flies.", &["blimp"]);
        let by_category =
            plugin_with_words("balloon", "Flies.", &[]).with_member("category", json!("Aerostatics"));
        let by_purpose =
            plugin_with_words("glider", "Flies.", &[]).with_member("purpose", json!("Soaring over dunes."));
        for (name, file) in
            [("zeppelin", by_name), ("airship", by_tag), ("balloon", by_category), ("glider", by_purpose)]
        {
            fixture.operator.load(name, &file.build());
        }
        let tenant = fixture.tenant();
        for (words, found) in [
            ("zeppelin", "zeppelin"),
            ("ZEPPELIN", "zeppelin"),
            ("zepelin", "zeppelin"),
            ("blimp", "airship"),
            ("aerostatics", "balloon"),
            ("dunes", "glider"),
        ] {
            let catalogue = list(&tenant.owner, &format!("q={words}"));
            assert_eq!(names(&catalogue).first(), Some(&found), "{words}: {:?}", names(&catalogue));
        }
        assert_eq!(names(&list(&tenant.owner, "q=xyzzyplugh")), [""; 0]);
        let refused = tenant.owner.get(&format!("/v1/catalogue?q={}", "a".repeat(2_000)));
        refused.expect_refusal(400, "INVALID_REQUEST");
    });
}

#[test]
fn c4_filters_keep_a_kind_a_category_or_a_publisher() {
    with_fixture(|fixture| {
        let ours = third_party("filtered", "1.0.0", &[])
            .with_member("publisher", json!("Rare Publisher"))
            .with_member("category", json!("Rarities"));
        fixture.operator.load("filtered", &ours.build());
        let tenant = fixture.tenant();
        tenant.owner.make(&format!("/v1/orgs/{}/tools/filtered-shop", tenant.name), &shop()).expect(201);
        for (query, included, excluded) in [
            ("kind=standard", "arithmetic", "filtered"),
            ("kind=third_party", "filtered", "filtered-shop"),
            ("kind=custom", "filtered-shop", "arithmetic"),
            ("category=rarities", "filtered", "arithmetic"),
            ("publisher=rare%20publisher", "filtered", "filtered-shop"),
        ] {
            let catalogue = list(&tenant.owner, query);
            assert!(names(&catalogue).contains(&included), "{query}: {:?}", names(&catalogue));
            assert!(!names(&catalogue).contains(&excluded), "{query}: {:?}", names(&catalogue));
        }
        // The operator's mark moves it to another kind.
        fixture.operator.make("/v1/plugins/filtered/grant", &json!({"standard": true})).expect(201);
        assert!(names(&list(&tenant.owner, "kind=standard")).contains(&"filtered"));
        assert!(!names(&list(&tenant.owner, "kind=third_party")).contains(&"filtered"));
        // Categories do not depend on the category that is shown.
        let count = |catalogue: &Value| {
            let mut counts = catalogue["categories"].as_array().into_iter().flatten();
            counts.find(|count| count["category"] == "Rarities").map(|count| count["count"].clone())
        };
        for query in ["", "category=nothing", "category=rarities"] {
            assert_eq!(count(&list(&tenant.owner, query)), Some(json!(1)), "{query}");
        }
        for wrong in ["kind=best", "sort=cheap", "price=0", "limit=0"] {
            let refused = tenant.owner.get(&format!("/v1/catalogue?{wrong}"));
            refused.expect_refusal(400, "INVALID_REQUEST");
        }
    });
}

#[test]
fn c4_pages_have_every_entry_once_in_each_order() {
    with_fixture(|fixture| {
        let (first, second) = (third_party("paged-b", "1.0.0", &[]), third_party("paged-a", "1.0.0", &[]));
        fixture.operator.load("paged-b", &first.build());
        fixture.operator.load("paged-a", &second.build());
        let tenant = fixture.tenant();
        for order in ["", "&sort=name", "&sort=popular", "&sort=recent"] {
            let whole = list(&tenant.owner, order.trim_start_matches('&'));
            let mut paged: Vec<String> = Vec::new();
            let mut cursor = String::new();
            loop {
                let page =
                    tenant.owner.get(&format!("/v1/catalogue?limit=3{order}{cursor}")).expect(200).json();
                paged.extend(names(&page).into_iter().map(str::to_owned));
                match page["next_cursor"].as_str() {
                    Some(next) => cursor = format!("&cursor={next}"),
                    None => break,
                }
            }
            assert_eq!(paged, names(&whole), "{order}");
        }
        let recent = list(&tenant.owner, "sort=recent");
        let place = |name| names(&recent).iter().position(|other| *other == name);
        assert!(place("paged-a") < place("paged-b"), "{:?}", names(&recent));
        let by_name = list(&tenant.owner, "sort=name");
        assert!(names(&by_name).is_sorted(), "{:?}", names(&by_name));
        tenant.owner.get("/v1/catalogue?cursor=nosuch").expect_refusal(400, "INVALID_REQUEST");
    });
}

#[test]
fn c4_popularity_is_an_organizations_own_use() {
    with_fixture(|fixture| {
        fixture.operator.load("popular", &third_party("popular", "1.0.0", &[]).build());
        let (busy, idle) = (fixture.tenant(), fixture.tenant());
        busy.accept("popular");
        for _ in 0..3 {
            busy.session.call("popular/answer", json!({})).output();
        }
        // A report of use waits until these calls are counted.
        fixture.operator.get("/v1/usage").expect(200);
        assert_eq!(entry(&busy.owner, "", "popular")["calls_30d"], json!(3));
        assert_eq!(entry(&idle.owner, "", "popular")["calls_30d"], json!(0));
        assert_eq!(names(&list(&busy.owner, "sort=popular")).first(), Some(&"popular"));
        assert_ne!(names(&list(&idle.owner, "sort=popular")).first(), Some(&"popular"));
    });
}

#[test]
fn c4_what_the_platform_does_not_allow_is_not_in_the_catalogue() {
    with_fixture(|fixture| {
        for name in ["blocked", "switched-off", "beside"] {
            fixture.operator.load(name, &third_party(name, "1.0.0", &[]).build());
        }
        let tenant = fixture.tenant();
        let are_listed = || {
            let catalogue = list(&tenant.owner, "");
            ["blocked", "switched-off", "beside"].map(|name| names(&catalogue).contains(&name))
        };
        assert_eq!(are_listed(), [true, true, true]);
        let policy = "/v1/platform/policy";
        fixture.operator.make(policy, &json!({"blocked": ["blocked/*"]})).expect(201);
        fixture.operator.post("/v1/plugins/switched-off/disable", &json!({})).expect(200);
        assert_eq!(are_listed(), [false, false, true]);
        tenant.owner.get(&tenant.enabled_path("blocked")).expect_refusal(404, "NOT_FOUND");
        fixture.operator.replace(policy, &json!({})).expect(200);
        fixture.operator.post("/v1/plugins/switched-off/enable", &json!({})).expect(200);
        assert_eq!(are_listed(), [true, true, true]);
        tenant.owner.get(&tenant.enabled_path("blocked")).expect(200);
    });
}

#[test]
fn c4_an_organization_sees_nothing_of_another() {
    with_fixture(|fixture| {
        let (tenant, rival) = (fixture.tenant(), fixture.tenant());
        tenant.owner.make(&format!("/v1/orgs/{}/tools/secret-shop", tenant.name), &shop()).expect(201);
        assert!(names(&list(&tenant.owner, "")).contains(&"secret-shop"));
        assert!(names(&list(&tenant.owner, "q=shop")).contains(&"secret-shop"));
        for query in ["", "q=shop", "kind=custom"] {
            assert!(!list(&rival.owner, query).to_string().contains("secret-shop"), "{query}");
        }
        rival.owner.get(&rival.enabled_path("secret-shop")).expect_refusal(404, "NOT_FOUND");
        let foreign = rival.owner.get(&format!("/v1/catalogue?org={}", tenant.name));
        let missing = rival.owner.get("/v1/catalogue?org=nosuch");
        let foreign = foreign.expect_refusal(404, "NOT_FOUND").text().replace(&tenant.name, "nosuch");
        assert_eq!(foreign, missing.expect_refusal(404, "NOT_FOUND").text());

        // An operator sees one organization's catalogue, or the platform's plugins.
        let of_tenant = format!("org={}", tenant.name);
        assert!(names(&list(&fixture.operator, &of_tenant)).contains(&"secret-shop"));
        let platform = list(&fixture.operator, "");
        assert!(!names(&platform).contains(&"secret-shop") && names(&platform).contains(&"arithmetic"));
    });
}

#[test]
fn c4_an_own_tool_that_hides_a_plugin_is_reported() {
    with_fixture(|fixture| {
        let tenant = fixture.tenant();
        tenant.owner.make(&format!("/v1/orgs/{}/tools/contested", tenant.name), &shop()).expect(201);
        assert_eq!(list(&tenant.owner, "")["collisions"], json!([]));
        fixture.operator.load("contested", &third_party("contested", "1.0.0", &[]).build());
        let catalogue = list(&tenant.owner, "");
        assert_eq!(catalogue["collisions"], json!(["contested"]));
        assert_eq!(entry(&tenant.owner, "", "contested")["kind"], "custom");
        let other = fixture.tenant();
        assert_eq!(entry(&other.owner, "", "contested")["kind"], "third_party");
        assert_eq!(list(&other.owner, "")["collisions"], json!([]));
        // A plugin that no organization can use does not exist for it.
        fixture.operator.post("/v1/plugins/contested/disable", &json!({})).expect(200);
        assert_eq!(list(&tenant.owner, "")["collisions"], json!([]));
        fixture.operator.post("/v1/plugins/contested/enable", &json!({})).expect(200);
    });
}
