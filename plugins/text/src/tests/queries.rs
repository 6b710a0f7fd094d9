//! Filters: what the language of `jq` says, and how one that is wrong is told. Its functions are in `functions.rs`.

use toolgate_sdk::serde_json::{Value, json};
use toolgate_sdk::testing;

use super::{call, problem};

#[test]
fn a_filter_does_what_jq_does() {
    for (filter, value, expected) in [
        (".a.b[1:]", json!({"a": {"b": [1, 2, 3]}}), json!([[2, 3]])),
        ("6 / 2, 1e1000, nan, 0.1", json!(null), json!([3.0, "1e1000", null, 0.1])),
        (
            "group_by(.c) | map({c: .[0].c, n: length})",
            json!([{"c": 1}, {"c": 2}, {"c": 1}]),
            json!([[{"c": 1, "n": 2}, {"c": 2, "n": 1}]]),
        ),
        ("to_entries | map(select(.value > 1)) | from_entries", json!({"a": 1, "b": 2}), json!([{"b": 2}])),
        ("[.[] | test(\"^a\"; \"i\")]", json!(["Ab", "b"]), json!([[true, false]])),
        (
            "@csv, @tsv, @base64, @uri, @html, @sh, @json",
            json!(["a b"]),
            json!([
                "\"a b\"",
                "a b",
                "WyJhIGIiXQ==",
                "%5B%22a%20b%22%5D",
                "[&quot;a b&quot;]",
                "'a b'",
                "[\"a b\"]"
            ]),
        ),
        ("[paths(. == null)]", json!({"a": [1, null]}), json!([[["a", 1]]])),
        (
            "[limit(3; repeat(1))], first(.[]), ([.[]] | add), (. | length)",
            json!([1, 2]),
            json!([[1, 1, 1], 1, 3, 2]),
        ),
        ("1700000000 | todate | ., fromdate", json!(null), json!(["2023-11-14T22:13:20Z", 1_700_000_000])),
        (
            "9007199254740993 + 1, 4294967296 * 2",
            json!(null),
            json!([9_007_199_254_740_994_i64, 8_589_934_592_i64]),
        ),
        (
            "with_entries(.value += 1) | walk(if type == \"number\" then . * 2 else . end)",
            json!({"a": 1}),
            json!([{"a": 4}]),
        ),
        ("map(.x // \"none\") | unique | join(\",\")", json!([{"x": "b"}, {}]), json!(["b,none"])),
        (
            "ascii_downcase, ltrimstr(\"A\"), (split(\"b\") | length), sub(\"(?<x>A)\"; \"<\\(.x)>\")",
            json!("Abc"),
            json!(["abc", "bc", 2, "<A>bc"]),
        ),
        (
            "sort_by(.a, .b) | map(.b), max_by(.b).b, any(.[]; .b == 3), (map(.b) | min)",
            json!([{"a": 2, "b": 1}, {"a": 1, "b": 3}]),
            json!([[3, 1], 3, true, 1]),
        ),
        (
            "del(.a) | .b |= . + 1 | .c = 3 | setpath([\"d\"]; 4) | keys",
            json!({"a": 1, "b": 2}),
            json!([["b", "c", "d"]]),
        ),
        // A `{` that begins no repetition is taken as it is, as in jq.
        (
            "test(\"a{\"), test(\"{x}\"), (\"aa\" | test(\"^a{2}$\"))",
            json!("a{x}"),
            json!([true, true, true]),
        ),
        ("try error(\"x\") catch ., (.a? // 1), (tojson | fromjson), halt", json!([1]), json!(["x", 1, [1]])),
    ] {
        let found = call("json_query", json!({"filter": filter, "value": value}));
        assert_eq!(found.map(|found| found["results"].clone()), Ok(expected), "{filter}");
    }
}

#[test]
fn a_filter_that_fails_says_where_and_why() {
    for (arguments, expected) in [
        (json!({"filter": ".a |", "value": 1}), "`filter` is no jq program: it ends where it needs term"),
        (json!({"filter": ".a ] .b", "value": 1}), "`filter` is no jq program: at character 4"),
        (json!({"filter": "{a: (1}", "value": 1}), "`filter` is no jq program"),
        (
            json!({"filter": "fooo(1)", "value": 1}),
            "in `filter` there is no function `fooo` with 1 arguments",
        ),
        (
            json!({"filter": "$x", "value": 1}),
            "in `filter` there is no variable `$x`: give it in `variables`",
        ),
        (json!({"filter": ".a", "value": [1]}), "the filter failed: cannot index [1] with \"a\""),
        (json!({"filter": "1, 2, error(\"no\")", "value": 1}), "the filter failed, after 2 results: no"),
        (json!({"filter": "halt_error", "value": 1}), "the filter halted with code 5"),
        (
            json!({"filter": ".", "text": "{\"a\": 1,}"}),
            "the document is not JSON: key must be a string at line 1 column 9",
        ),
        (json!({"filter": ".", "text": " "}), "`text` is empty"),
        (json!({"filter": "."}), "there is no document"),
        (json!({"filter": ".", "value": 1, "text": "1"}), "both `value` and `text` are given"),
        (json!({"filter": " ", "value": 1}), "`filter` is empty"),
        (json!({"filter": ".", "text": "[".repeat(100_000)}), "the document is nested more than 100 deep"),
        (json!({"filter": "[".repeat(10_000), "value": 1}), "`filter` is nested more than 100 deep"),
        (json!({"filter": "reduce range(100000) as $i (1; [.])", "value": 1}), "nested more than 120 deep"),
        (json!({"filter": "import \"a\" as a; 1", "value": 1}), "no jq program"),
    ] {
        let message = problem("json_query", arguments);
        assert!(message.contains(expected), "{expected}: {message}");
        assert!(message.len() < 1_000);
    }
}

#[test]
fn a_filter_without_end_gives_a_beginning() {
    let found = call("json_query", json!({"filter": "repeat(1)", "value": null, "limit": 3})).unwrap();

    assert_eq!(found, json!({"results": [1, 1, 1], "truncated": true}));
}

#[test]
fn numbers_keep_their_digits_through_a_filter() {
    let found = testing::call_text::<crate::json_query::json_query>(
        &testing::context().build(),
        r#"{"filter": ".[] | tostring", "text": "[12345678901234567890123, 1.000000000000000000001, 1.50]"}"#,
    );

    assert_eq!(found, Ok(json!({"results": ["12345678901234567890123", "1.000000000000000000001", "1.50"]})));
}

#[test]
fn integers_beyond_64_bits_come_out_as_text_with_all_their_digits() {
    let wide = "123456789012345678901234567890";
    let query = |filter: &str, text: &str| {
        testing::call_text::<crate::json_query::json_query>(
            &testing::context().build(),
            &json!({"filter": filter, "text": text}).to_string(),
        )
        .unwrap()
    };
    let notes = json!(["numbers beyond 64 bits are given as text, so that no digit is lost"]);

    for (filter, text, results) in [
        (".", format!("[{wide}, -{wide}]"), json!([[wide, format!("-{wide}")]])),
        (". + 1", wide.to_owned(), json!(["123456789012345678901234567891"])),
        (".", "18446744073709551616".to_owned(), json!(["18446744073709551616"])),
        (".", "-9223372036854775809".to_owned(), json!(["-9223372036854775809"])),
        (".", "1e400".to_owned(), json!(["1e400"])),
        ("infinite", "null".to_owned(), json!(["Infinity"])),
    ] {
        assert_eq!(query(filter, &text), json!({"results": results, "notes": notes}), "{filter} {text}");
    }
    for (filter, text, results) in [
        (".", "18446744073709551615", json!([u64::MAX])),
        (".", "-9223372036854775808", json!([i64::MIN])),
        ("1.5, nan", "null", json!([1.5, null])),
    ] {
        assert_eq!(query(filter, text), json!({"results": results}), "{filter} {text}");
    }
}

#[test]
fn paths_variables_and_operators_do_what_those_of_jq_do() {
    for (filter, value, expected) in [
        ("7 % 3, -7 % 3, 7 / 2, (\"a,b\" / \",\")", json!(null), json!([1, -1, 3.5, ["a", "b"]])),
        (".a /= 2 | .b %= 3", json!({"a": 4, "b": 7}), json!([{"a": 2.0, "b": 1}])),
        (".[0], .[-1], .[1:][0], .[5], .[length - 1]", json!([1, 2]), json!([1, 2, 2, null, 2])),
        (
            "[.[0][1], .[1][0]], .[0]?[0], (.[0] |= map(. + 1))",
            json!([[1, 2], [3]]),
            json!([[2, 3], 1, [[2, 3], [3]]]),
        ),
        (
            "[paths], path(.[0][1]), del(.[0][0]), to_entries[0].key",
            json!([[1, 2]]),
            json!([[[0], [0, 0], [0, 1]], [0, 1], [[2]], 0]),
        ),
        (". as [$x, $y] | $x + $y, (.[0] as $k | $k), ($kept | .)", json!([1, 2]), json!([3, 1, 9])),
        (".[[2]], .[{\"start\": 1}]", json!([1, 2]), json!([[1], [2]])),
        ("def f(g): g / 2; f(.[0]), (try .a catch \"no\")", json!([4]), json!([2.0, "no"])),
        (
            "label $out | foreach .[] as $x (0; . + $x; if . > 2 then ., break $out else . end)",
            json!([1, 2, 3]),
            json!([1, 3]),
        ),
    ] {
        let found = call("json_query", json!({"filter": filter, "value": value, "variables": {"kept": 9}}));
        assert_eq!(found.map(|found| found["results"].clone()), Ok(expected), "{filter}");
    }
    for filter in [
        format!(".{}", "|.".repeat(200)),
        format!("1{}", "/1".repeat(200)),
        format!(".{}", "[0]".repeat(200)),
    ] {
        assert!(call("json_query", json!({"filter": filter, "value": null})).is_ok());
    }
}

#[test]
fn t11_a_filter_in_another_dialect_is_told_how_to_write_it() {
    for (filter, expected) in [
        ("[inputs]", "there is one document: set `slurp` for a list of all documents of `text`"),
        ("input", "there is one document: set `slurp`"),
        ("$ENV.HOME", "there is no variable `$ENV`: give it in `variables`"),
        (
            ".foo-bar",
            "no function `bar`: quote it if it is a text, or the key if it has a hyphen, as `.\"foo-bar\"`",
        ),
        ("$.store.book[*].title", "is JSONPath and no jq program: in jq `$` is `.`"),
        ("$", "is JSONPath"),
        ("$.a[?(@.b > 1)]", "`[] | select(.price < 10)`"),
        ("hello", "quote it if it is a text"),
    ] {
        let message = problem("json_query", json!({"filter": filter, "value": {"store": 1}}));
        assert!(message.contains(expected), "{filter}: {message}");
    }
    for (filter, value, expected) in [
        (".store.book[].title", json!({"store": {"book": [{"title": "t"}]}}), json!(["t"])),
        (".[0].\"a b\".\"x-y\"", json!([{"a b": {"x-y": 1}}]), json!([1])),
        (
            "paths(type != \"array\" and type != \"object\") as $p | [$p, getpath($p)]",
            json!([1]),
            json!([[[0], 1]]),
        ),
        (".a-1", json!({"a": 3}), json!([2])),
    ] {
        let found = call("json_query", json!({"filter": filter, "value": value})).unwrap();
        assert_eq!(found["results"], expected, "{filter}");
    }
}

/// The differences that the description of the tool lists. Where one fails, `jaq` has come closer to `jq`: shorten the list.
#[test]
fn the_language_differs_from_jq_where_the_description_says_so() {
    check_filters([
        (
            ".a / 0, .a / 0.0, (.b / 0 | isnan)",
            json!({"a": 3, "b": 0}),
            Ok(json!(["Infinity", "Infinity", true])),
        ),
        ("1 % 0", json!(null), Err("cannot calculate 1 % 0")),
        ("5.5 % 2", json!(null), Ok(json!([1.5]))),
        (".[0], first", json!({"a": 1}), Ok(json!([null, null]))),
        (".[length / 2]", json!([1, 2]), Err("cannot index")),
        (".[length / 2 | floor]", json!([1, 2]), Ok(json!([2]))),
        (".a.b = 1", json!({}), Err("cannot use null as iterable")),
        (".a |= (. // {}) | .a.b = 1", json!({}), Ok(json!([{"a": {"b": 1}}]))),
        (".[2] = 1", json!([]), Err("out of bounds")),
        ("del(.[0, 1])", json!([1, 2, 3]), Ok(json!([[2]]))),
        ("del(.[0:2])", json!([1, 2, 3]), Ok(json!([[3]]))),
        ("[(1, 2) + (10, 20)]", json!(null), Ok(json!([[11, 21, 12, 22]]))),
        ("join(\",\")", json!(["a", null]), Ok(json!(["a,null"]))),
        ("from_entries", json!([{"name": "a", "value": 1}]), Ok(json!([{"null": 1}]))),
        ("1.0, 1e3 | tostring", json!(null), Ok(json!(["1.0", "1e3"]))),
        ("test([\"a\", \"i\"])", json!("A"), Err("as string")),
        ("[.[] | tonumber, fromjson]", json!(["", "1 2"]), Ok(json!([[1, 2, 1, 2]]))),
        ("index(\"a\")", json!(null), Err("cannot index null")),
    ]);
}

/// What each filter gives, or the reason why it fails.
pub fn check_filters<const N: usize>(filters: [(&str, Value, Result<Value, &str>); N]) {
    for (filter, value, expected) in filters {
        let found = call("json_query", json!({"filter": filter, "value": value}));
        match expected {
            Ok(results) => {
                assert_eq!(found.map(|found| found["results"].clone()), Ok(results), "{filter} of {value}");
            }
            Err(reason) => {
                let message = found.expect_err(filter).message().to_owned();
                assert!(message.contains(reason), "{filter} of {value}: {message}");
            }
        }
    }
}
