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
                {"x": "007"}, {"x": -1.50}, {"x": 1e3}, {"x": true}, {"x": "1 2"}, {"x": "-"}, {"x": "12345678901234567890123"}
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
    for text in ["a,b\r\n1,2\r\n1,2,3\r\n", "a,b\n\n1,2,3\n", "a,b\r\n\r\n1,2,3"] {
        let message = problem("csv_parse", json!({"text": text}));
        assert!(message.starts_with("the row at line 3 has 3 fields"), "{text:?}: {message}");
    }
}

#[test]
fn the_delimiter_is_judged_by_many_rows_and_what_was_judged_is_told() {
    for (text, delimiter, first) in [
        // Commas within the names of the header, and quotes that are signs like others.
        (
            "SKU (new, required);Name (max 100, required);Price (net, EUR, gross)\n1;pen;2.5\n",
            "semicolon",
            json!(["SKU (new, required)", "Name (max 100, required)", "Price (net, EUR, gross)"]),
        ),
        ("3\" bolt;qty\n5;7\n", "semicolon", json!(["3\" bolt", "qty"])),
        ("3\" bolt;7\nnut;9\n", "semicolon", json!(["3\" bolt", "7"])),
        ("5' 11\" tall\tname\n1\tx\n", "tab", json!(["5' 11\" tall", "name"])),
        ("a|b, c, d\n1|2, 3\n", "pipe", json!(["a", "b, c, d"])),
        // Decimal commas, in all rows but the header and in all.
        ("a;b\n1,5;2,5\n3,5;4,5\n", "semicolon", json!(["a", "b"])),
        ("id,tags\n1,a;b\n2,c;d\n", "comma", json!(["id", "tags"])),
        // Separators within quotes, and rows with more fields.
        ("\"a;b;c\",d\n1,2\n", "comma", json!(["a;b;c", "d"])),
    ] {
        let found = call("csv_parse", json!({"text": text, "header": false})).unwrap();
        assert_eq!((&found["delimiter"], &found["rows"][0]), (&json!(delimiter), &first), "{text}");
        assert_eq!(found.get("notes"), None, "{text}");
    }
    let notes = |text: &str| {
        let found = call("csv_parse", json!({"text": text, "header": false})).unwrap();
        (found["delimiter"].clone(), found["notes"][0].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(
        notes("1,5;2,5\n3,5;4,5\n"),
        (
            json!("semicolon"),
            "the rows fit a semicolon and a comma: give `delimiter` if it is not the semicolon".to_owned()
        )
    );
    assert_eq!(
        notes("Report\na;b\n1;2\n"),
        (
            json!("semicolon"),
            "a semicolon was judged to separate the fields: 2 of the first 3 rows have 2 fields".to_owned()
        )
    );
    assert_eq!(
        notes("one\ntwo\n"),
        (
            json!("comma"),
            "no comma, semicolon, tab or pipe separates the rows, so each has one field".to_owned()
        )
    );
    let given = call("csv_parse", json!({"text": "one\ntwo\n", "delimiter": "tab"})).unwrap();
    assert_eq!(given.get("notes"), None);
}

#[test]
fn the_hint_of_excel_tells_the_delimiter_and_is_no_row() {
    for (line, delimiter, row) in [
        ("sep=;", "semicolon", "pen;2,5"),
        ("\u{feff}SEP=;", "semicolon", "pen;2,5"),
        ("\"sep=;\"", "semicolon", "pen;2,5"),
        ("sep=,", "comma", "pen,\"2,5\""),
        ("sep=,,", "comma", "pen,\"2,5\""),
        ("sep=\t", "tab", "pen\t2,5"),
        ("sep=|", "pipe", "pen|2,5"),
    ] {
        let sign = row.trim_start_matches("pen").chars().next().unwrap();
        for end in ["\n", "\r\n", "\r"] {
            let text = format!("{line}{end}name{sign}qty{end}{row}{end}");
            let found = call("csv_parse", json!({"text": text})).unwrap();
            let note =
                format!("the first line `sep={}` tells the delimiter and is no row", sign.escape_debug());
            assert_eq!(
                found,
                json!({
                    "columns": ["name", "qty"], "rows": [{"name": "pen", "qty": "2,5"}], "total": 1,
                    "delimiter": delimiter, "notes": [note]
                }),
                "{text:?}"
            );
            let bare = call("csv_parse", json!({"text": text, "header": false})).unwrap();
            assert_eq!(bare["rows"], json!([["name", "qty"], ["pen", "2,5"]]), "{text:?}");
        }
    }
}

#[test]
fn a_delimiter_that_is_given_goes_before_the_hint_of_excel() {
    let found = call("csv_parse", json!({"text": "sep=;\na,b;c\n1,2\n", "delimiter": "comma"})).unwrap();
    assert_eq!(found["rows"], json!([{"a": "1", "b;c": "2"}]));
    assert_eq!(found["notes"], json!(["the first line `sep=;` tells the delimiter and is no row"]));
}

#[test]
fn a_hint_of_excel_with_another_sign_is_refused_with_the_ways_out() {
    let text = "sep=^\na^b\n1^2\n";
    assert_eq!(
        problem("csv_parse", json!({"text": text})),
        "the first line `sep=^` says that `^` separates the fields, and only comma, semicolon, tab and pipe are read: \
         replace `^` by one of them and delete the line, or give `delimiter` if the line is wrong"
    );
    let given = call("csv_parse", json!({"text": text, "delimiter": "comma"})).unwrap();
    assert_eq!(given["rows"], json!([{"a^b": "1^2"}]));
    // Lines keep their numbers, and a line that only begins so is a row.
    let message = problem("csv_parse", json!({"text": "sep=;\r\na;b\r\n1;2;3\r\n"}));
    assert!(message.starts_with("the row at line 3 has 3 fields"), "{message}");
    let message = problem("csv_parse", json!({"text": "sep=;\na;b\n1;\"2\n"}));
    assert!(message.starts_with("the quote that opens at line 3"), "{message}");
    for line in ["sep=", "sep=x", "sep=;a", "sep", "separator=;", "sep=\""] {
        let found =
            call("csv_parse", json!({"text": format!("{line}\n1"), "header": false, "delimiter": "comma"}));
        assert_eq!(found.unwrap()["rows"], json!([[line], ["1"]]), "{line}");
    }
}

#[test]
fn a_long_text_is_judged_by_its_beginning() {
    let rows: String = (0..3_000).map(|row| format!("{row},5;\"x, y\nz\";{row}\n")).collect();
    let found = call("csv_parse", json!({"text": format!("n;t;m\n{rows}"), "limit": 1})).unwrap();
    assert_eq!(found["rows"], json!([{"n": "0,5", "t": "x, y\nz", "m": "0"}]));
    assert_eq!((&found["total"], &found["delimiter"]), (&json!(3_000), &json!("semicolon")));
}

#[test]
fn a_quote_that_is_never_closed_is_refused_with_its_line() {
    for (text, line) in [("a,b\n1,\"x\n2,y\n3,z", 2), ("a,\"b", 1), ("a\n\"x\"\n\"\"\"y\n", 3)] {
        for header in [true, false] {
            let message = problem("csv_parse", json!({"text": text, "header": header}));
            assert!(
                message.starts_with(&format!("the quote that opens at line {line} is never closed")),
                "{message}"
            );
        }
    }
    for (text, rows) in [
        ("a,b\n1,\"x\"\"\n2\"\n", json!([["a", "b"], ["1", "x\"\n2"]])),
        ("5\" pipe,b\n", json!([["5\" pipe", "b"]])),
        ("\"\",\"\"\r\n\"a\"", json!([["", ""], ["a"]])),
    ] {
        let found = call("csv_parse", json!({"text": text, "header": false, "delimiter": "comma"}));
        assert_eq!(found.unwrap()["rows"], rows, "{text}");
    }
}

#[test]
fn numbers_that_json_readers_would_round_stay_text() {
    let wide = "123456789012345678901234567890";
    let rows = call(
        "csv_parse",
        json!({"text": format!("{wide}\n1e400\n18446744073709551615"), "header": false, "convert": true}),
    );
    assert_eq!(rows.unwrap()["rows"], json!([[wide], ["1e400"], [u64::MAX]]));

    assert_eq!(
        call("json_to_yaml", json!({"text": format!("[{wide}]")})),
        Ok(json!(format!("- \"{wide}\"\n")))
    );
    assert_eq!(
        call("json_to_toml", json!({"text": format!("{{\"a\": -{wide}}}")})),
        Ok(json!(format!("a = \"-{wide}\"\n")))
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
        problem("csv_write", json!({"rows": [1]}))
            .contains("must be a row: an object or a list of fields, not integer 1")
    );
    assert!(problem("csv_write", json!({"rows": [{}]})).contains("there are no columns"));
}

#[test]
fn yaml_means_what_its_writer_meant() {
    let text = "on: yes\nanswer: no\nport: 0o17\ndate: 2024-05-17\nnothing: ~\n1: one\ntrue: t\nhuge: \"123456789012345678901234567890\"\n\
                base: &b {x: 1}\nmerged:\n  <<: *b\n  y: 2\ntext: |\n  a\n  b\ninf: .inf\nversion: 1.10\n";

    assert_eq!(
        call("yaml_to_json", json!({"text": text})),
        Ok(json!({"documents": [{
            "on": "yes", "answer": "no", "port": 15, "date": "2024-05-17", "nothing": null, "1": "one", "true": "t",
            "huge": "123456789012345678901234567890", "base": {"x": 1}, "merged": {"y": 2, "x": 1}, "text": "a\nb\n",
            "inf": ".inf", "version": 1.10
        }]}))
    );
}

#[test]
fn aliases_of_yaml_that_repeat_too_much_are_refused_in_words() {
    let repeated = |times: usize| {
        let aliases = vec!["*a"; times].join(", ");
        call("yaml_to_json", json!({"text": format!("a: &a [x, x, x, x, x, x, x, x]\nb: [{aliases}]\n")}))
    };
    assert_eq!(repeated(300).unwrap()["documents"][0]["b"].as_array().unwrap().len(), 300);
    assert_eq!(
        repeated(11_000).unwrap_err().message(),
        "the aliases of the text repeat more than 100000 nodes: write them out, or convert one part at a time"
    );
}

#[test]
fn scalars_of_yaml_have_the_types_of_the_description() {
    for (scalar, expected) in [
        ("1_000", json!("1_000")),
        ("017", json!("017")),
        ("+12", json!(12)),
        ("0o17", json!(15)),
        ("0x1F", json!(31)),
        ("0b11", json!(3)),
        (".5", json!(0.5)),
        ("-1.5e3", json!(-1500.0)),
        ("1.2.3", json!("1.2.3")),
        ("12:30", json!("12:30")),
        ("Infinity", json!("Infinity")),
        ("-.inf", json!("-.inf")),
        (".nan", json!(".nan")),
        ("True", json!(true)),
        ("18446744073709551615", json!(u64::MAX)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("\"017\"", json!("017")),
        ("'null'", json!("null")),
        ("! 12", json!("12")),
        ("!!str 12", json!("12")),
        ("!!int \"12\"", json!(12)),
        ("!own 12", json!(12)),
        ("|\n  017\n", json!("017\n")),
    ] {
        let found = call("yaml_to_json", json!({"text": format!("a: {scalar}")}));
        assert_eq!(found, Ok(json!({"documents": [{"a": expected}]})), "{scalar}");
    }
    for (scalar, expected) in [
        ("123456789012345678901234567890", 123456789012345678901234567890.0),
        ("-18446744073709551617", -18446744073709551617.0),
    ] {
        let found = call("yaml_to_json", json!({"text": scalar})).unwrap();
        assert_eq!(found["documents"], json!([expected]));
        assert!(found["notes"][0].as_str().unwrap().starts_with("numbers beyond 64 bits are rounded"));
    }
}

#[test]
fn anchors_and_merge_keys_of_yaml_are_unfolded() {
    for (text, expected) in [
        (
            "a: &x [1, {b: 2}]\nc: *x\nd: [*x]",
            json!({"a": [1, {"b": 2}], "c": [1, {"b": 2}], "d": [[1, {"b": 2}]]}),
        ),
        ("a: &x 1\nb: &x 2\nc: *x", json!({"a": 1, "b": 2, "c": 2})),
        (
            "a: &x {p: 1, q: 2}\nb: &y {q: 3, r: 4}\nc: {<<: [*x, *y], p: 0}",
            json!({"a": {"p": 1, "q": 2}, "b": {"q": 3, "r": 4}, "c": {"p": 0, "q": 2, "r": 4}}),
        ),
        ("\"<<\": {a: 1}", json!({"<<": {"a": 1}})),
        ("a: &k key\n*k : 1", json!({"a": "key", "key": 1})),
        ("0x1: 2\n1.10: 3\nTrue: 4", json!({"0x1": 2, "1.10": 3, "True": 4})),
        ("{a, b: , \"c\":1}", json!({"a": null, "b": null, "c": 1})),
        ("%YAML 1.2\n---\na: !!binary aGk=\n...\n", json!({"a": "aGk="})),
    ] {
        assert_eq!(
            call("yaml_to_json", json!({"text": text})),
            Ok(json!({"documents": [expected]})),
            "{text}"
        );
    }
}

#[test]
fn what_is_wrong_with_yaml_is_told_in_words_with_a_way_out() {
    for (text, expected) in [
        ("a: 1\nb: 2\na: 3", "duplicate mapping key `a` is not allowed here at line 3, column 1; check"),
        ("a: &a [*a]", "at line 1, column 8"),
        ("a: *b", "at line 1, column 4"),
        ("? [1, 2]\n: x", "at line 1, column 3"),
        ("~: 1", "null is not allowed here at line 1, column 1"),
        ("a: !!int x", "at line 1, column 10"),
        ("<<: 1", "YAML merge value must be mapping or sequence of mappings at line 1, column 5"),
        ("{a: [}", "at line 1"),
        ("a:\n\t- b", "at line 2"),
        ("\u{0}\u{1}", "at line 1, column 1"),
    ] {
        let message = problem("yaml_to_json", json!({"text": text}));
        assert!(message.starts_with("the text is not YAML that can be converted: "), "{text}: {message}");
        assert!(message.contains(expected), "{text}: {message}");
    }
    let too_complex = "YAML document too large or too complex";
    let nested: String = (0..60).map(|level| format!("&a{level} [")).collect();
    let kept = format!("{nested}{}{}", "1, ".repeat(20_000), "]".repeat(60));
    for text in [kept, "[".repeat(100) + &"]".repeat(100)] {
        let message = problem("yaml_to_json", json!({"text": text}));
        assert!(message.contains(too_complex), "{message}");
    }
    let keys = format!("{0}: 1\n{0}: 2", "k".repeat(1_000));
    assert!(problem("yaml_to_json", json!({"text": keys})).len() < 500);
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
    for text in ["a: b: c", "{a: [}"] {
        let message = problem("yaml_to_json", json!({"text": text}));
        assert!(message.starts_with("the text is not YAML that can be converted: "), "{message}");
    }
}

#[test]
fn what_was_written_as_yaml_or_toml_reads_the_same() {
    let document = json!({
        "text": ["no", "1.0", "2024-05-17", "", " x ", "a: b", "# c", "- d", "a\nb", "\ttab", "\u{e4}\u{1F600}", "null", "~", "1e3", "0x1F", "017", "1_000", "0b11", "1.", "-.inf", "0o17", "+1", "<<", "*a", "'q'", "\"", "\\", "x".repeat(200), "y ".repeat(100)],
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
fn keys_of_toml_keep_their_order() {
    let tree: crate::tree::Tree = toml::from_str("z = 1\na = 2\n[y]\nc = 3\nb = 4").unwrap();
    let json = toolgate_sdk::serde_json::to_string(&tree).unwrap();
    assert_eq!(json, r#"{"z":1,"a":2,"y":{"c":3,"b":4}}"#);
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

#[test]
fn t7_integers_that_toml_has_none_of_become_texts() {
    let value = json!({"a": u64::MAX, "b": [i64::MAX, 9_223_372_036_854_775_808_u64], "c": i64::MIN});

    assert_eq!(
        call("json_to_toml", json!({"value": value})),
        Ok(json!(
            "a = \"18446744073709551615\"\nb = [9223372036854775807, \"9223372036854775808\"]\nc = -9223372036854775808\n"
        ))
    );
}
