//! What `discover` finds.

use super::*;

/// PyPI `mcp` to `server/discover`.
fn stateless_server() -> Value {
    json!({
        "cacheScope": "private", "capabilities": {"tools": {"listChanged": true}},
        "instructions": "Ask for the \u{200b}forecast first.", "resultType": "complete",
        "supportedVersions": ["2026-07-28"], "ttlMs": 0,
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "toolgate-tests", "version": "1.2.3"}},
    })
}

fn listing(tools: impl Fn() -> Value + 'static) -> impl Fn(&Sent) -> Reply + 'static {
    move |request| match method(request).as_str() {
        "server/discover" => result(request, stateless_server()),
        "tools/list" => result(request, json!({"resultType": "complete", "tools": tools(), "ttlMs": 0})),
        other => panic!("{other}"),
    }
}

fn discover_tools(tools: Value, changes: Value) -> Value {
    let answer = listing(move || tools.clone());
    let _network = testing::network(move |request| Ok(answer(request)));
    discover(document(changes)).unwrap()
}

#[test]
fn m4_a_stateless_server_is_asked_what_it_has() {
    let answer = listing(|| {
        json!([
            {
                "annotations": {"openWorldHint": false, "readOnlyHint": true, "title": "x"},
                "description": "Tells the weather of tomorrow in a city.", "icons": [{"src": "data:,"}],
                "inputSchema": {"type": "object", "properties": {"city": {"title": "City", "type": "string"}}, "required": ["city"]},
                "name": "getForecast", "outputSchema": {"type": "object"}, "title": "Forecast", "_meta": {"a": 1},
            },
            {"description": "Writes a note down.", "inputSchema": {"type": "object"}, "name": "Note"},
        ])
    });
    let network = testing::network(move |request| Ok(answer(request)));
    let document = document(json!({}));
    let found = discover(document.clone()).unwrap();

    assert_eq!(
        found,
        json!({
            "protocol": "2026-07-28", "server": {"name": "toolgate-tests", "version": "1.2.3"},
            "instructions": "Ask for the forecast first.",
            "tools": [
                {"name": "Note", "description": "Writes a note down.", "inputSchema": {"type": "object"}},
                {
                    "name": "getForecast", "title": "Forecast", "description": "Tells the weather of tomorrow in a city.",
                    "inputSchema": {"type": "object", "properties": {"city": {"title": "City", "type": "string"}}, "required": ["city"]},
                    "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true, "openWorldHint": false},
                },
            ],
            "left_out": [], "simplified": [],
        })
    );
    let sent = network.sent();
    let methods: Vec<_> = sent.iter().map(|sent| sent.header("mcp-method").unwrap()).collect();
    assert_eq!(methods, ["server/discover", "tools/list"]);
    assert_eq!(mount(&document, &found)["tools"][1]["name"], "get_forecast");
}

#[test]
fn m4_what_is_found_does_not_depend_on_the_order_of_the_list() {
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let one = discover_tools(json!([tool("b"), tool("A"), tool("a.b"), tool("")]), json!({}));
    let other = discover_tools(json!([tool(""), tool("a.b"), tool("A"), tool("b")]), json!({}));
    assert_eq!(one.to_string(), other.to_string());
    let described = |text: &str| json!({"name": "a", "description": text, "inputSchema": {"type": "object"}});
    let one = discover_tools(json!([described("one"), described("two")]), json!({}));
    let other = discover_tools(json!([described("two"), described("one")]), json!({}));
    assert_eq!((one["left_out"][0]["why"].as_str(), &one), (Some("the server lists it twice"), &other));
}

/// Unless the owner names one of them.
#[test]
fn m4_tools_whose_names_become_the_same_are_left_out_together() {
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let tools = json!([tool("getUser"), tool("get_user"), tool("search")]);
    let both = discover_tools(tools.clone(), json!({}));
    assert_eq!(both["tools"], json!([tool("search")]));
    let why = "it and another tool of the server would both be `get_user` here";
    let left_out = ["getUser", "get_user"].map(|name| json!({"name": name, "why": why}));
    assert_eq!(both["left_out"], json!(left_out));
    assert_eq!(discover_tools(tools, json!({"tools": ["get_user"]}))["tools"], json!([tool("get_user")]));
}

#[test]
fn m4_pages_are_read_to_the_end() {
    let network = testing::network(|request| {
        Ok(match method(request).as_str() {
            "server/discover" => result(request, stateless_server()),
            _ => match request.json()["params"]["cursor"].as_str() {
                None => result(request, json!({"tools": [{"name": "a"}], "nextCursor": "2"})),
                Some("2") => result(request, json!({"tools": [], "nextCursor": "3"})),
                Some("3") => result(request, json!({"tools": [{"name": "b"}]})),
                Some(other) => panic!("{other}"),
            },
        })
    });
    let found = discover(document(json!({}))).unwrap();
    assert_eq!(found["tools"].as_array().unwrap().len(), 2);
    assert_eq!(network.sent().len(), 4);
}

/// The tools of a server that answers each cursor with a page, and the number of lists that it was asked for.
fn found_by_pages(
    revision: &'static str,
    page: impl Fn(Option<&str>) -> Result<Value, Value> + 'static,
) -> (Value, usize) {
    let network = testing::network(move |request| {
        let body = request.json();
        Ok(match method(request).as_str() {
            "server/discover" => result(request, stateless_server()),
            "initialize" => result(request, json!({"protocolVersion": revision, "capabilities": {}})),
            "tools/list" => match page(body["params"]["cursor"].as_str()) {
                Ok(page) => result(request, page),
                Err(error) => error_reply(request, 200, error),
            },
            _ => Reply::new(202),
        })
    });
    let found = discover(document(json!({"protocol": revision}))).unwrap();
    let names: Vec<_> = found["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    let told = json!({"names": names, "left_out": found["left_out"], "notes": found["simplified"]});
    (told, network.sent().iter().filter(|sent| method(sent) == "tools/list").count())
}

#[test]
fn m4_an_empty_cursor_is_a_cursor_in_the_stateless_revision_alone() {
    let pages = |cursor: Option<&str>| {
        Ok(match cursor {
            None => json!({"tools": [{"name": "a"}], "nextCursor": ""}),
            Some("") => json!({"tools": [{"name": "b"}], "nextCursor": "2"}),
            Some(_) => json!({"tools": [{"name": "c"}]}),
        })
    };
    let (found, lists) = found_by_pages("2026-07-28", pages);
    assert_eq!(found, json!({"names": ["a", "b", "c"], "left_out": [], "notes": []}));
    assert_eq!(lists, 3);

    for revision in ["2025-11-25", "2025-06-18", "2024-11-05"] {
        let (found, lists) = found_by_pages(revision, pages);
        assert_eq!((&found["names"], lists), (&json!(["a"]), 1), "{revision}");
        assert!(found["notes"][0]["what"].as_str().unwrap().contains("is empty"), "{found}");
    }
}

#[test]
fn m4_an_empty_cursor_that_leads_back_ends_the_list_without_tools_that_come_twice() {
    let refusal = json!({"code": -32602, "message": "Invalid cursor"});
    for (at_empty, note) in [
        (Ok(json!({"tools": [{"name": "a"}], "nextCursor": "2"})), "leads back to a page before"),
        (Ok(json!({"tools": [{"name": "a"}]})), "leads back to a page before"),
        (Ok(json!({"tools": [], "nextCursor": ""})), "leads back to a page before"),
        (Err(refusal), "refuses the empty cursor"),
    ] {
        let (found, lists) = found_by_pages("2026-07-28", move |cursor| match cursor {
            None => Ok(json!({"tools": [{"name": "a"}], "nextCursor": "2"})),
            Some("") => at_empty.clone(),
            Some(_) => Ok(json!({"tools": [{"name": "b"}], "nextCursor": ""})),
        });
        assert_eq!((&found["names"], &found["left_out"]), (&json!(["a", "b"]), &json!([])), "{found}");
        assert!(found["notes"][0]["what"].as_str().unwrap().contains(note), "{found}");
        assert_eq!(lists, 3);
    }
}

#[test]
fn m4_a_server_that_has_trouble_with_an_empty_cursor_has_not_ended_its_list() {
    let _network = testing::network(|request| {
        Ok(match (method(request).as_str(), request.json()["params"]["cursor"].as_str()) {
            ("server/discover", _) => result(request, stateless_server()),
            (_, None) => result(request, json!({"tools": [{"name": "a"}], "nextCursor": ""})),
            _ => error_reply(request, 503, json!({"code": -32603, "message": "busy"})),
        })
    });
    assert!(discover(document(json!({}))).unwrap_err().message().contains("busy"));
}

/// Servers of several libraries send an empty cursor at the end (java-sdk#628, csharp-sdk#770).
#[test]
fn m4_a_list_that_does_not_end_is_mounted_as_far_as_it_was_read_with_a_note() {
    let listed = |next: fn(&Value) -> Value| {
        let network = testing::network(move |request| {
            Ok(match method(request).as_str() {
                "server/discover" => result(request, stateless_server()),
                _ => result(
                    request,
                    json!({"tools": [{"name": "a"}], "nextCursor": next(&request.json()["params"]["cursor"])}),
                ),
            })
        });
        (discover(document(json!({}))).unwrap(), network.sent().len())
    };
    for (next, says, sent) in [
        ((|_| json!("")) as fn(&Value) -> Value, "leads back to a page before", 3),
        (|_| json!("same"), "leads back to a page before", 3),
        (|cursor| json!(format!("{}x", cursor.as_str().unwrap_or_default())), "more than 24 pages", 25),
    ] {
        let (found, requests) = listed(next);
        assert_eq!(found["tools"][0]["name"], "a");
        assert_eq!(found["simplified"][0]["name"], "tools/list");
        assert!(found["simplified"][0]["what"].as_str().unwrap().contains(says), "{found}");
        assert_eq!(requests, sent);
    }
    assert_eq!(listed(|_| json!(null)).0["simplified"], json!([]));

    let many: Vec<Value> = (0..2_001).map(|number| json!({"name": number.to_string()})).collect();
    let found = discover_tools(json!(many), json!({}));
    assert!(found["simplified"][0]["what"].as_str().unwrap().contains("more than 2000 tools"));
    assert_eq!(found["tools"].as_array().unwrap().len(), 1_000);
}

#[test]
fn m4_what_cannot_be_mounted_is_left_out_with_the_reason() {
    let found = discover_tools(
        json!([
            {"name": "ok", "inputSchema": {"type": "object"}},
            {"name": "twice", "description": "first"},
            {"name": "twice", "description": "second"},
            {"name": "hidden\u{200b}"},
            {"name": ""},
            {"name": "x".repeat(257)},
            {"name": "remote", "inputSchema": {"$ref": "https://example.com/a.json"}},
            {"name": "marked", "inputSchema": {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}}},
            {"name": "task", "execution": {"taskSupport": "required"}},
            {"name": "optional_task", "execution": {"taskSupport": "optional"}},
            7,
        ]),
        json!({}),
    );
    let names: Vec<_> =
        found["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ok", "optional_task", "twice"]);
    assert_eq!(found["tools"][2]["description"], "first");
    let reasons: Vec<_> =
        found["left_out"].as_array().unwrap().iter().map(|left| left["why"].as_str().unwrap()).collect();
    let expected =
        ["no name", "twice", "invisible", "x-mcp-header", "another document", "as a task", "twice", "256"];
    assert_eq!(reasons.len(), expected.len(), "{reasons:?}");
    for (reason, says) in reasons.iter().zip(expected) {
        assert!(reason.contains(says), "{reason} {says}");
    }
}

#[test]
fn m4_what_is_taken_away_is_told() {
    let found = discover_tools(
        json!([{
            "name": "a", "inputSchema": {"properties": {"mail": {"type": "string", "pattern": "^(?!\\.)a"}}},
            "outputSchema": {"$ref": "other.json"},
        }]),
        json!({}),
    );
    assert_eq!(found["tools"][0].get("outputSchema"), None);
    let told: Vec<_> =
        found["simplified"].as_array().unwrap().iter().map(|it| it["what"].as_str().unwrap()).collect();
    assert!(
        told[0].contains("left to the server") && told[1].contains("output schema is left out"),
        "{told:?}"
    );
}

#[test]
fn m4_only_the_tools_that_are_wanted_are_found_and_the_missing_told() {
    let tools = json!([{"name": "a"}, {"name": "b"}, {"name": "b"}, {"name": "c\u{200b}"}]);
    let found = discover_tools(tools, json!({"tools": ["b", "gone"]}));
    assert_eq!(found["tools"].as_array().unwrap().len(), 1);
    assert_eq!(found["left_out"][1], json!({"name": "gone", "why": "the server does not list it"}));
}

#[test]
fn m4_what_is_found_makes_a_plugin_that_the_daemon_takes_however_much_it_is() {
    let tools: Vec<Value> = (0..1_200)
        .map(|number| {
            let properties: Value = (0..60).map(|it| (format!("p{it}"), json!({"description": "d".repeat(60)}))).collect();
            json!({"name": format!("tool{number:04}"), "description": "d".repeat(500), "inputSchema": {"properties": properties}})
        })
        .collect();
    let half = tools.len() / 4;
    let network = testing::network(move |request| {
        Ok(match method(request).as_str() {
            "server/discover" => result(request, stateless_server()),
            _ => {
                let cursor = request.json()["params"]["cursor"].as_str().unwrap_or("0").to_owned();
                let page: usize = cursor.parse().unwrap();
                let mut answer = json!({"tools": tools[page * half..(page + 1) * half]});
                if page < 3 {
                    answer["nextCursor"] = json!((page + 1).to_string());
                }
                result(request, answer)
            }
        })
    });
    let document = document(json!({}));
    let found = discover(document.clone()).unwrap();
    drop(network);

    let left = found["left_out"].as_array().unwrap();
    assert!(!left.is_empty() && left[0]["why"].as_str().unwrap().contains("name those to mount"));
    assert!(found["tools"].as_array().unwrap().len() > 500 && found.to_string().len() < 4 << 20);
    assert!(mount(&document, &found).to_string().len() < 4 << 20);
}

#[test]
fn m4_a_server_of_the_older_family_is_recognized_and_its_session_ended() {
    let network = testing::network(|request| {
        Ok(match (request.method(), method(request).as_str()) {
            ("DELETE", _) => Reply::new(200),
            // npm `server-everything`, word for word.
            (_, "server/discover") => {
                let error = json!({"code": -32000, "message": "Bad Request: Server not initialized"});
                Reply::json(&json!({"jsonrpc": "2.0", "error": error, "id": null})).status(400)
            }
            (_, "initialize") => result(
                request,
                json!({
                    "protocolVersion": "2025-06-18", "capabilities": {}, "instructions": "i",
                    "serverInfo": {"name": "mcp-servers/everything", "version": "2.0.0"},
                }),
            )
            .header("mcp-session-id", "s"),
            (_, "tools/list") => result(
                request,
                json!({"tools": [
                    {"name": "get-sum", "inputSchema": {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}}},
                ]}),
            ),
            _ => Reply::new(202),
        })
    });
    let document = document(json!({}));
    let found = discover(document.clone()).unwrap();

    assert_eq!(found["protocol"], "2025-11-25");
    assert_eq!(found["server"], json!({"name": "mcp-servers/everything", "version": "2.0.0"}));
    let sent = network.sent();
    assert_eq!(sent.last().unwrap().method(), "DELETE");
    assert_eq!(sent[1].header("mcp-protocol-version"), None);
    let plugin = mount(&document, &found);
    assert_eq!(plugin["tools"][0]["name"], "get_sum");
    assert_eq!(plugin["tools"][0]["definition"].get("mirrored"), None);
}

#[test]
fn m4_the_family_is_found_out_as_the_specification_says() {
    let unsupported = |supported: Value| json!({"code": -32022, "message": "Unsupported", "data": {"supported": supported}});
    let error = |status: u16, error: Value| {
        Reply::json(&json!({"jsonrpc": "2.0", "id": 2, "error": error})).status(status)
    };
    for (name, reply, is_older) in [
        ("empty 400", Reply::new(400), true),
        ("404", Reply::text("not found").status(404), true),
        ("405", Reply::new(405), true),
        ("406", Reply::new(406), true),
        ("500", Reply::new(500), true),
        ("method not found", error(200, json!({"code": -32601, "message": "no"})), true),
        ("only older revisions", error(400, unsupported(json!(["2025-11-25"]))), true),
        ("no MCP at all", Reply::text("hello"), true),
        (
            "discovers, but older",
            Reply::json(&json!({"jsonrpc": "2.0", "id": 2, "result": {"supportedVersions": ["2025-11-25"]}})),
            true,
        ),
        ("no credential", Reply::new(401), false),
        ("not allowed", Reply::new(403), false),
        ("too often", Reply::new(429), false),
        ("moved", Reply::new(308).header("location", "/mcp/"), false),
        ("header mismatch", error(400, json!({"code": -32020, "message": "no"})), false),
        ("speaks it and refuses", error(400, unsupported(json!(["2026-07-28"]))), false),
    ] {
        let network = testing::network(move |request| {
            Ok(if method(request) == "server/discover" { reply.clone() } else { Reply::new(418) })
        });
        discover(document(json!({}))).unwrap_err();
        assert_eq!(network.sent().len() == 2, is_older, "{name}");
        if is_older {
            assert_eq!(method(&network.sent()[1]), "initialize", "{name}");
        }
    }
}

/// A refusal that names other revisions leads to the newest of them, and calls offer that one at once.
#[test]
fn m4_a_revision_that_a_refusal_names_is_used() {
    let in_text = |told: &str| {
        Reply::json(&json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": told}}))
            .status(400)
    };
    let list =
        "Bad Request: Unsupported protocol version (supported versions: 2025-06-18, 2025-03-26, 2024-11-05)";
    let data = json!({"supported": ["2024-11-05"], "requested": "2025-11-25"});
    for (refusal, revision) in [
        (in_text(list), "2025-06-18"),
        (Reply::text(list).status(400), "2025-06-18"),
        (
            Reply::json(
                &json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no", "data": data}}),
            ),
            "2024-11-05",
        ),
    ] {
        let network = testing::network(move |request| {
            let asked = request.json();
            Ok(match method(request).as_str() {
                "server/discover" => refusal.clone(),
                "initialize" if asked["params"]["protocolVersion"] != revision => refusal.clone(),
                "initialize" => result(request, json!({"protocolVersion": revision, "capabilities": {}})),
                "tools/list" => result(request, json!({"tools": [{"name": "echo"}]})),
                "tools/call" => result(request, json!({"content": [{"type": "text", "text": "hi"}]})),
                _ => Reply::new(202),
            })
        });
        let document = document(json!({}));
        let found = discover(document.clone()).unwrap();
        assert_eq!(found["protocol"], revision);
        let before = network.sent().len();
        assert_eq!(call(&mount(&document, &found), "echo", json!({})).unwrap(), "hi");
        let sent = network.sent();
        assert_eq!(sent[before].json()["params"]["protocolVersion"], revision);
        assert_eq!(sent.len() - before, 3, "one session");
    }
    let network = testing::network(move |request| {
        Ok(if method(request) == "initialize" {
            in_text("requires 2025-11-25 or 2030-01-01")
        } else {
            Reply::new(400)
        })
    });
    assert!(discover(document(json!({}))).unwrap_err().message().contains("2030-01-01"));
    let posted = network.sent().iter().filter(|request| request.method() == "POST").count();
    assert_eq!(posted, 2, "no revision to try");
}

#[test]
fn m4_an_older_revision_can_be_pinned() {
    for revision in ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] {
        let network = testing::network(move |request| {
            Ok(match method(request).as_str() {
                "initialize" => result(request, json!({"protocolVersion": revision, "capabilities": {}})),
                "tools/list" => result(request, json!({"tools": [{"name": "echo"}]})),
                _ => Reply::new(202),
            })
        });
        let found = discover(document(json!({"protocol": revision}))).unwrap();
        assert_eq!(found["protocol"], revision);
        let sent = network.sent();
        assert_eq!(sent[0].json()["params"]["protocolVersion"], revision);
        assert_eq!(sent[1].header("mcp-protocol-version"), Some(revision));
    }
}

#[test]
fn m4_a_family_that_the_owner_names_is_the_only_one_tried() {
    let first = |protocol: &str| {
        let network = testing::network(|_| Ok(Reply::new(400)));
        discover(document(json!({"protocol": protocol}))).unwrap_err();
        network.sent().iter().map(method).collect::<Vec<_>>()
    };
    assert_eq!(first("2025-11-25"), ["initialize"]);
    assert_eq!(first("2026-07-28"), ["server/discover"]);

    let _network =
        testing::network(|request| Ok(result(request, json!({"supportedVersions": ["2030-01-01"]}))));
    let error = discover(document(json!({"protocol": "2026-07-28"}))).unwrap_err();
    assert!(error.message().contains("does not speak revision 2026-07-28"), "{error}");
}

#[test]
fn m4_a_server_that_cannot_be_asked_is_told_with_the_way_out() {
    for (reply, says) in [
        (Reply::new(401), "must bind or renew it"),
        (Reply::new(403), "does not allow this"),
        (Reply::new(404), "no MCP server at this address"),
        (Reply::new(405), "takes no MCP requests"),
        (Reply::new(308).header("location", "https://mcp.example.com/mcp/"), "must name that address"),
        (
            Reply::new(200).header("content-type", "text/html; charset=utf-8").body("<title>Sign in</title>"),
            "no message of JSON-RPC but `text/html` with status 200: Sign in",
        ),
    ] {
        let error = refusal(reply);
        assert!(error.message().contains(says), "{error}");
    }
}
