//! CSV, YAML and TOML, there and back.

use toolgate_sdk::serde_json::json;

use super::{call, problem};

#[test]
fn csv_is_read_as_spreadsheets_write_it() {
    for (arguments, rows) in [
        (
            json!({"text": "\u{feff}a;b\r\n\"1;\r\n2\";\"say \"\"x\"\"\"\r\n"}),
            json!([{"a": "1;\r\n2", "b": "say \"x\""}]),
        ),
        (json!({"text": "a,,a\n1,2,3\n"}), json!([{"a": "1", "column_2": "2", "a_2": "3"}])),
        (json!({"text": "a|b\n1|2", "delimiter": "pipe"}), json!([{"a": "1", "b": "2"}])),
        (
            json!({"text": "x\n007\n-1.50\n1e3\nTRUE\n1 2\n-\n12345678901234567890123", "convert": true}),
            json!([
                {"x": "007"}, {"x": -1.50}, {"x": 1e3}, {"x": true}, {"x": "1 2"}, {"x": "-"}, {"x": 12345678901234567890123_f64}
            ]),
        ),
        (json!({"text": "1,2\n3\n", "header": false}), json!([["1", "2"], ["3"]])),
        (json!({"text": "n\n1\n2\n3\n", "offset": 1, "limit": 1}), json!([{"n": "2"}])),
    ] {
        assert_eq!(call("csv_parse", arguments.clone()).unwrap()["rows"], rows, "{arguments}");
    }
    assert_eq!(
        problem("csv_parse", json!({"text": "a,b\n1,2\n1,2,3\n"})),
        "the row at line 3 has 3 fields, and the header has 2, separated by a comma: give another `delimiter`, correct the \
         row, or set `header` to false, for then rows may differ"
    );
}

#[test]
fn csv_is_written_with_every_kind_of_value() {
    let rows = json!([{"a": null, "b": 1.50, "c": [1, {"x": "y"}], "d": "\u{e4}\n\"q\""}]);

    assert_eq!(
        call("csv_write", json!({"rows": rows, "columns": ["d", "c", "b", "a", "e"]})),
        Ok(json!("d,c,b,a,e\n\"ä\n\"\"q\"\"\",\"[1,{\"\"x\"\":\"\"y\"\"}]\",1.5,,\n"))
    );
    assert_eq!(call("csv_write", json!({"rows": [[""], ["a"]]})), Ok(json!("\"\"\na\n")));
    assert!(problem("csv_write", json!({"rows": [{"a": 1}, [1]]})).contains("row 1 is a list"));
    assert!(
        problem("csv_write", json!({"rows": [1]})).contains("expected a row: an object or a list of fields")
    );
    assert!(problem("csv_write", json!({"rows": [{}]})).contains("there are no columns"));
}

#[test]
fn yaml_means_what_its_writer_meant() {
    let text = "on: yes\nanswer: no\nport: 0o17\ndate: 2024-05-17\nnothing: ~\n1: one\ntrue: t\nhuge: 123456789012345678901234567890\n\
                base: &b {x: 1}\nmerged:\n  <<: *b\n  y: 2\ntext: |\n  a\n  b\ninf: .inf\nversion: 1.10\n";

    assert_eq!(
        call("yaml_to_json", json!({"text": text})).unwrap()["documents"][0],
        json!({
            "on": "yes", "answer": "no", "port": 15, "date": "2024-05-17", "nothing": null, "1": "one", "true": "t",
            "huge": 123456789012345678901234567890_f64, "base": {"x": 1}, "merged": {"y": 2, "x": 1}, "text": "a\nb\n",
            "inf": ".inf", "version": 1.10
        })
    );
}

#[test]
fn yaml_that_unfolds_without_end_is_refused() {
    let bomb: String =
        (1..30).map(|level| format!("a{level}: &a{level} [*a{0}, *a{0}, *a{0}]\n", level - 1)).collect();
    let large = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), "*a, ".repeat(1_000));

    for text in [
        format!("a0: &a0 [lol]\n{bomb}"),
        large,
        "[".repeat(100_000),
        "- ".repeat(100_000),
        "a: &a [*a]".to_owned(),
    ] {
        let message = problem("yaml_to_json", json!({"text": text}));
        assert!(message.len() < 1_000, "{message}");
    }
    for text in ["a: b: c", "a: 1\na: 2", "{a: [}", "? [1, 2]\n: x"] {
        let message = problem("yaml_to_json", json!({"text": text}));
        assert!(message.starts_with("the text is not YAML that can be converted: "), "{message}");
    }
}

#[test]
fn what_was_written_as_yaml_or_toml_reads_the_same() {
    let document = json!({
        "text": ["no", "1.0", "2024-05-17", "", " x ", "a: b", "# c", "- d", "a\nb", "\ttab", "\u{e4}\u{1F600}", "null", "~", "1e3", "0x1F", "<<", "*a", "'q'", "\"", "\\", "x".repeat(200), "y ".repeat(100)],
        "number": [0, -1, 1.5, 1e300, 9_007_199_254_740_993_i64],
        "empty": [[], {}, ""],
        "nested": {"a": {"b": [{"c": true}, {"d": [[1], [2]]}]}},
        "key with spaces": 1, "": 2, "1": 3, "true": 4, "ä": 5,
    });
    let yaml = call("json_to_yaml", json!({"value": document})).unwrap();
    assert_eq!(
        call("yaml_to_json", json!({"text": yaml})).unwrap()["documents"],
        json!([document]),
        "{yaml}"
    );

    let toml = call("json_to_toml", json!({"text": document.to_string()})).unwrap();
    assert_eq!(call("toml_to_json", json!({"text": toml})), Ok(document), "{toml}");
}

#[test]
fn what_toml_cannot_say_is_refused_with_its_place() {
    assert!(problem("json_to_toml", json!({"value": [1]})).starts_with("the document is no object"));
    assert!(
        problem("json_to_toml", json!({"value": {"a": {"b": [1, null]}}})).starts_with("`a.b[1]` is null")
    );
    assert_eq!(
        problem("toml_to_json", json!({"text": "a = 1\nb = \n"})).matches(" at line 2, column 5").count(),
        1
    );
    assert!(
        problem("toml_to_json", json!({"text": format!("a = {}", "[".repeat(100_000))}))
            .starts_with("the text is not TOML: ")
    );
    assert!(
        problem("json_to_yaml", json!({"text": "[".repeat(1_000)})).contains("nested more than 100 deep")
    );
}

#[test]
fn keys_keep_their_order() {
    let text = r#"{"z": 1, "a": {"q": 2, "b": 3}, "z2": 4}"#;

    assert_eq!(call("json_to_yaml", json!({"text": text})), Ok(json!("z: 1\na:\n  q: 2\n  b: 3\nz2: 4\n")));
    assert_eq!(
        call("json_to_toml", json!({"text": text})),
        Ok(json!("z = 1\nz2 = 4\n\n[a]\nq = 2\nb = 3\n"))
    );
}
