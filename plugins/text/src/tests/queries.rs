//! Filters of `jq`.

use toolgate_sdk::serde_json::{Value, json};
use toolgate_sdk::testing;

use super::{call, problem};

#[test]
fn a_filter_does_what_jq_does() {
    for (filter, value, expected) in [
        (".a.b[1:]", json!({"a": {"b": [1, 2, 3]}}), json!([[2, 3]])),
        ("6 / 2, 1e1000, nan, 0.1", json!(null), json!([3, "1e1000", null, 0.1])),
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
        (json!({"filter": ".", "value": 1, "variables": {"a b": 1}}), "`a b` is no name of a variable"),
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
    ] {
        assert_eq!(query(filter, &text), json!({"results": results, "notes": notes}), "{filter} {text}");
    }
    for (filter, text, results) in [
        (".", "18446744073709551615", json!([u64::MAX])),
        (".", "-9223372036854775808", json!([i64::MIN])),
        ("infinite, 1.5", "null", json!([f64::MAX, 1.5])),
    ] {
        assert_eq!(query(filter, text), json!({"results": results}), "{filter} {text}");
    }
}

#[test]
fn a_filter_fails_where_that_of_jq_fails() {
    for (filter, value) in [
        (".price / .qty", json!({"price": 3, "qty": 0})),
        (".price / .qty", json!({"price": 3, "qty": 0.0})),
        (".price % .qty", json!({"price": 3, "qty": 0})),
        ("map(10 / .) | add", json!([1, 0])),
        (".price /= .qty", json!({"price": 3, "qty": 0})),
        ("\"\\(1 / 0)\"", json!(null)),
        ("def f: 1 / 0; f", json!(null)),
        ("{a: (1 / 0)}", json!(null)),
        ("if 1 / 0 then 1 else 2 end", json!(null)),
        ("reduce .[] as $x (0; $x / .)", json!([1])),
    ] {
        let message = problem("json_query", json!({"filter": filter, "value": value}));
        assert!(
            message.contains("cannot be divided by 0") && message.contains("select(. != 0)"),
            "{filter}: {message}"
        );
    }
    for filter in [
        ".[0]",
        ".[0].a",
        ".a[0]",
        ".[1 + 1]",
        ".a | .[0]",
        ".[0] = 1",
        "first",
        "last",
        "nth(0)",
        "map(.b[0])",
    ] {
        let message = problem("json_query", json!({"filter": filter, "value": {"a": {"b": {"c": 1}}}}));
        assert!(message.contains("an object has no entry"), "{filter}: {message}");
    }
}

#[test]
fn what_is_checked_before_it_runs_is_the_same_else() {
    for (filter, value, expected) in [
        ("[(6, 12) / (2, 3)], [(6, 12) * (1, 10)]", json!(null), json!([[3, 6, 2, 4], [6, 12, 60, 120]])),
        ("7 % 3, -7 % 3, 7 / 2, (\"a,b\" / \",\")", json!(null), json!([1, -1, 3.5, ["a", "b"]])),
        (".a /= 2 | .b %= 3", json!({"a": 4, "b": 7}), json!([{"a": 2, "b": 1}])),
        ("(.[0]? |= 5), [path(.[0]?)], (.[0]? = 5)", json!({"a": 1}), json!([{"a": 1}, [], {"a": 1}])),
        (".[0]?, .a[0]?, .[\"a\"], .[\"a\", \"b\"]", json!({"a": 1, "b": 2}), json!([1, 1, 2])),
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
        (".[\"start\"], .[[2]]?", json!({"start": 1}), json!([1])),
        (".[[2]], .[{\"start\": 1}]", json!([1, 2]), json!([[1], [2]])),
        ("def f(g): g / 2; f(.[0]), (try .a catch \"no\")", json!([4]), json!([2, "no"])),
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
fn the_functions_that_jq_users_know_are_there() {
    let functions = "length utf8bytelength not keys keys_unsorted values add any all flatten floor sqrt tostring tonumber \
        type sort group_by(.) min max min_by(.) max_by(.) unique unique_by(.) reverse contains(.) inside(.) startswith(.) \
        endswith(.) combinations combinations(2) ltrimstr(.) rtrimstr(.) trimstr(.) explode implode split(.) split(.;.) \
        join(.) ascii_downcase ascii_upcase recurse recurse(.) recurse(.;.) transpose first last nth(1) first(.) last(.) \
        nth(1;.) until(.;.) while(.;.) repeat(.) fromjson tojson todate fromdate date now mktime gmtime strftime(.) \
        strptime(.) todateiso8601 fromdateiso8601 infinite nan isinfinite isnan isnormal sort_by(.) error error(.) halt \
        halt_error map(.) map_values(.) path(.) paths paths(.) leaf_paths del(.) getpath(.) setpath(.;.) delpaths(.) \
        to_entries from_entries with_entries(.) select(.) empty has(.) in(.) range(1) range(1;2) range(1;2;3) walk(.) \
        test(.) test(.;.) match(.) match(.;.) capture(.) capture(.;.) scan(.) scan(.;.) splits(.) splits(.;.) sub(.;.) \
        sub(.;.;.) gsub(.;.) gsub(.;.;.) index(.) rindex(.) indices(.) limit(1;.) skip(1;.) isempty(.) abs toarray \
        pick(.) trim ltrim rtrim bsearch(.) pow(.;.) log log2 log10 exp round ceil trunc fabs IN(.) IN(.;.) INDEX(.) \
        INDEX(.;.) arrays objects iterables booleans numbers strings nulls scalars add(.) @text @json @csv @tsv @html \
        @uri @sh @base64 @base64d";
    for function in functions.split_whitespace() {
        let compiled = crate::json_query::program::compile(function, &[]);
        assert!(compiled.is_ok(), "{function}: {:?}", compiled.err());
    }
}

#[test]
fn functions_of_ours_do_what_those_of_jq_do() {
    for (filter, value, expected) in [
        (".[] | @csv", json!([["a\"b", 1, null, true]]), json!(["\"a\"\"b\",1,,true"])),
        (".[] | @tsv", json!([["a\tb\\", 1.5, null]]), json!(["a\\tb\\\\\t1.5\t"])),
        (
            "INDEX(.id), (.[0].id | IN(2, 1)), [leaf_paths]",
            json!([{"id": 1}]),
            json!([{"1": {"id": 1}}, true, [[0, "id"]]]),
        ),
        (
            "[match(\"(a)|(?<n>b)\"; \"g\") | [.offset, .captures[1].string]], sub(\"(?<x>b)\"; \"[\\(.x)]\"), [scan(\"[a-z]\")], [splits(\"b\")], capture(\"(?<y>ö)\")",
            json!("öba"),
            json!([[[1, "b"], [2, null]], "ö[b]a", ["b", "a"], ["ö", "a"], {"y": "ö"}]),
        ),
        (
            "strptime(\"%Y-%m-%d\") | ., mktime, strftime(\"%A, %B %d, %Y\")",
            json!("2015-03-05"),
            json!([[2015, 2, 5, 0, 0, 0, 4, 63], 1_425_513_600, "Thursday, March 05, 2015"]),
        ),
        (
            "1.5 | todate, gmtime",
            json!(null),
            json!(["1970-01-01T00:00:01.5Z", [1970, 0, 1, 0, 0, 1.5, 4, 0]]),
        ),
        (
            "[pow(2; 10), (9 | sqrt), (2.5 | trunc)], ([1, 2, 3] | .[4 | sqrt])",
            json!(null),
            json!([[1024, 3, 2], 3]),
        ),
        ("@base64d, (\"a%20b%\" | @urid)", json!("aGk="), json!(["hi", "a b%"])),
        ("[.[] | try test(\"(\") catch \"bad\"], env, (1 | debug)", json!(["x"]), json!([["bad"], {}, 1])),
        (".[] | trimstr(\"x\"), toarray", json!(["xax"]), json!(["a", ["xax"]])),
    ] {
        let found = call("json_query", json!({"filter": filter, "value": value}));
        assert_eq!(found.map(|found| found["results"].clone()), Ok(expected), "{filter}");
    }
}

#[test]
fn t11_a_filter_in_another_dialect_is_told_how_to_write_it() {
    let one = "a filter sees one document: set `slurp` for a list of all documents of `text`";
    for (filter, expected) in [
        ("[inputs]", one),
        ("input", one),
        ("input_filename", "there is no file here: give its name in `variables`"),
        ("tostream", "`paths(type != \"array\" and type != \"object\") as $p | [$p, getpath($p)]`"),
        ("$ENV.HOME", "there is no environment here: give the value in `variables`"),
        ("$__loc__", "leave it out"),
        (".foo-bar", "if `foo-bar` is one key, write `.\"foo-bar\"`"),
        (".a.x-y-z | length", "if `x-y-z` is one key, write `.\"x-y-z\"`"),
        ("$.store.book[*].title", "this is JSONPath: write `.store.book[].title`"),
        ("$[0]['a b'].x-y", "this is JSONPath: write `.[0].\"a b\".\"x-y\"`"),
        ("$", "this is JSONPath: write `.`"),
        ("$.*", "this is JSONPath: write `.[]`"),
        ("$..price", "this is JSONPath: in jq `$` is `.`"),
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

/// What each filter gives, or the reason why it fails.
fn check_filters<const N: usize>(filters: [(&str, Value, Result<Value, &str>); N]) {
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

#[test]
fn t7_del_takes_out_the_entries_that_stood_there_before() {
    let list = || json!([1, 2, 3, 4]);
    check_filters([
        ("del(.[0, 1])", list(), Ok(json!([[3, 4]]))),
        ("del(.[0], .[2])", list(), Ok(json!([[2, 4]]))),
        ("del(.[range(2)])", list(), Ok(json!([[3, 4]]))),
        ("delpaths([[0], [1]]), delpaths([[1], [0]])", list(), Ok(json!([[3, 4], [3, 4]]))),
        ("del(.[0:2], .[3])", list(), Ok(json!([[3]]))),
        ("del(.[-1], .[0])", list(), Ok(json!([[2, 3]]))),
        ("del(.[] | select(. > 1)), del(.[])", list(), Ok(json!([[1], []]))),
        ("del(.[1:]), del(.[:-1]), del(.[1:3])", list(), Ok(json!([[1], [4], [1, 4]]))),
        ("del(.[9], .[-9]), del(.[7:9]), del(.[0, 0])", list(), Ok(json!([list(), list(), [2, 3, 4]]))),
        ("del(.[1:][0, 1])", list(), Ok(json!([[1, 4]]))),
        ("del(first(.[] | select(. > 1))), del(limit(2; .[]))", list(), Ok(json!([[1, 3, 4], [3, 4]]))),
        (
            "del(.[0, 1] | select(. > 9)), delpaths([]), delpaths([[]])",
            list(),
            Ok(json!([list(), list(), null])),
        ),
        (
            "del(.a[0, 1], .b, .c, .d.e)",
            json!({"a": [1, 2, 3], "b": 1, "x": 2}),
            Ok(json!([{"a": [3], "x": 2}])),
        ),
        ("del(.. | select(. == null)?)", json!([null, [null, 1], {"a": null}]), Ok(json!([[[1], {}]]))),
        ("del(.[0][0], .[1])", json!([[1, 2], [3]]), Ok(json!([[[2]]]))),
        ("del(.[0][0], .[0])", json!([[1, 2], [3]]), Ok(json!([[[3]]]))),
        ("del(.[\"a\", \"b\"]), del(getpath([\"a\"]))", json!({"a": 1, "b": 2}), Ok(json!([{}, {"b": 2}]))),
        ("del(.a, .a.b), delpaths([[\"x\", 0]])", json!({"a": {"b": 1}}), Ok(json!([{}, {"a": {"b": 1}}]))),
        ("del(.a)", json!(null), Ok(json!([null]))),
        ("to_entries | del(.[0, 2]) | from_entries", json!({"a": 1, "b": 2, "c": 3}), Ok(json!([{"b": 2}]))),
        (
            "with_entries(del(select(.value > 1).value))",
            json!({"a": 1, "b": 2}),
            Ok(json!([{"a": 1, "b": null}])),
        ),
        ("delpaths([[\"a\"]])", list(), Err("\"a\" cannot be deleted from a list")),
        ("delpaths([[0]])", json!({"a": 1}), Err("0 cannot be deleted from an object")),
        ("delpaths([[\"a\", \"b\"]])", json!({"a": 1}), Err("\"b\" cannot be deleted from a number")),
        ("delpaths(1)", list(), Err("1 is no path")),
        ("delpaths([range(2000) | 0] | [.])", json!([1]), Err("more than 1000 steps")),
    ]);
}

#[test]
fn t7_from_entries_knows_every_name_of_a_key_and_a_value() {
    for name in ["key", "k", "name", "Name", "K", "Key"] {
        for value in ["value", "v", "Value", "V"] {
            let found =
                call("json_query", json!({"filter": "from_entries", "value": [{name: "a", value: 1}]}));
            assert_eq!(found, Ok(json!({"results": [{"a": 1}]})), "{name} {value}");
        }
    }
    check_filters([
        (
            "from_entries",
            json!([{"key": "a", "value": false}, {"k": "b", "v": null}, {"name": "c", "Value": 2}, {"key": "d"}]),
            Ok(json!([{"a": false, "b": null, "c": 2, "d": null}])),
        ),
        (
            "from_entries",
            json!([{"key": null, "value": 1}, {"key": false, "value": 2}, {"key": 3, "value": 3}, {"key": null, "k": "x"}]),
            Ok(json!([{"null": 1, "false": 2, "3": 3, "x": null}])),
        ),
        ("from_entries", json!([]), Ok(json!([{}]))),
        ("with_entries(.key |= ascii_upcase)", json!({"a": 1}), Ok(json!([{"A": 1}]))),
        ("from_entries", json!([{"value": 1}]), Err("needs a key in each entry")),
        ("from_entries", json!([[1, 2]]), Err("cannot index")),
    ]);
}

#[test]
fn t7_join_makes_texts_of_what_is_none() {
    check_filters([
        ("join(\",\")", json!(["a", null, 1, true, 1.5, null]), Ok(json!(["a,,1,true,1.5,"]))),
        ("join(\"-\")", json!([]), Ok(json!([""]))),
        ("join(\"-\")", json!([null]), Ok(json!([""]))),
        ("join(\",\", \"-\")", json!({"a": "x", "b": "y"}), Ok(json!(["x,y", "x-y"]))),
        ("join(\",\")", json!(["a", ["b"]]), Err("cannot")),
    ]);
}

#[test]
fn t7_a_text_that_is_not_one_number_or_one_document_fails() {
    check_filters([
        ("tonumber", json!("12.5"), Ok(json!([12.5]))),
        ("tonumber", json!(3), Ok(json!([3]))),
        ("fromjson", json!("[1, {\"a\": 2}]"), Ok(json!([[1, {"a": 2}]]))),
        ("[.[] | tonumber? // 0]", json!(["1", "", "x", "1 2", null]), Ok(json!([[1, 0, 0, 0, 0]]))),
        ("tonumber", json!(""), Err("cannot parse as number: \"\"")),
        ("tonumber", json!("1 2"), Err("cannot parse as number")),
        ("tonumber", json!("[1]"), Err("cannot parse as number")),
        ("fromjson", json!(""), Err("an empty text is no JSON")),
        ("fromjson", json!(" "), Err("an empty text is no JSON")),
        ("fromjson", json!("1 2"), Err("more than one JSON value")),
        ("fromjson", json!("{"), Err("the text is no JSON")),
        ("fromjson", json!(1), Err("string")),
    ]);
}

#[test]
fn t7_the_remainder_is_that_of_the_whole_parts() {
    check_filters([
        ("5.9 % 2.9, -5.9 % 3, 5 % -3, 5 % 2.5", json!(null), Ok(json!([1, -2, 2, 1]))),
        (". % 7", json!(1e18), Ok(json!([1]))),
        ("5 % infinite, (nan % 2 | isnan)", json!(null), Ok(json!([5, true]))),
        (".a %= 2.5", json!({"a": 7.9}), Ok(json!([{"a": 1}]))),
        ("1 % 0.5", json!(null), Err("cannot be divided by 0.5")),
        ("1 % 0", json!(null), Err("cannot be divided by 0")),
    ]);
}

#[test]
fn t7_numbers_in_texts_are_written_as_jq_writes_them() {
    let query = |filter: &str, text: &str| {
        call("json_query", json!({"filter": filter, "text": text})).unwrap()["results"].clone()
    };
    for (filter, text, expected) in [
        (
            ".[] | tostring",
            "[1.0, 1e3, -2.50, 1e16, 0.0, 12e-1]",
            json!(["1", "1000", "-2.50", "10000000000000000", "0", "12e-1"]),
        ),
        (
            "@csv, @tsv, @text, @sh, @json",
            "[1e3, 1.0]",
            json!(["1000,1", "1000\t1", "[1000,1]", "1000 1", "[1000,1]"]),
        ),
        ("\"\\(.[0])-\\(.[1] + 1)\", (.[0] * 2 | tostring)", "[1.0, 2.0]", json!(["1-3", "2"])),
        ("@json \"\\(.)\", @base64 \"\\(.)\"", "1.0", json!(["1", "MQ=="])),
        (
            ".[] | tostring",
            "[123456789012345678901234567890, 1.000000000000000000001, 9007199254740993.5]",
            json!(["123456789012345678901234567890", "1.000000000000000000001", "9007199254740993.5"]),
        ),
        (
            "{(\"\\(.)\"): 1}, ({a: \"x\\n\"} | tojson, tostring)",
            "2.0",
            json!([{"2": 1}, "{\"a\":\"x\\n\"}", "{\"a\":\"x\\n\"}"]),
        ),
    ] {
        assert_eq!(query(filter, text), expected, "{filter}");
    }
    check_filters([
        (
            "[infinite, -infinite, nan] | tojson, (.[0] | tostring)",
            json!(null),
            Ok(json!(["[1.7976931348623157e+308,-1.7976931348623157e+308,null]", "1.7976931348623157e+308"])),
        ),
        ("reduce range(200) as $i (1; [.]) | tojson", json!(null), Err("nested more than 120 deep")),
        ("reduce range(60) as $i (1; [., .]) | tojson", json!(null), Err("too large to be written")),
    ]);
}

#[test]
fn t7_flatten_and_abs_do_what_those_of_jq_do() {
    check_filters([
        ("flatten", json!({"a": [1], "b": 2}), Ok(json!([[1, 2]]))),
        (
            "flatten, flatten(1), flatten(0)",
            json!([1, [2, [3]]]),
            Ok(json!([[1, 2, 3], [1, 2, [3]], [1, [2, [3]]]])),
        ),
        ("flatten, flatten(1)", json!([]), Ok(json!([[], []]))),
        ("flatten(-1)", json!([]), Err("flatten depth must not be negative")),
        ("map(abs)", json!([-1, 2, -0.5]), Ok(json!([[1, 2, 0.5]]))),
        ("abs", json!("x"), Err("has no absolute value")),
        ("abs", json!(null), Err("has no absolute value")),
    ]);
}

#[test]
fn what_leads_to_an_entry_that_is_set_is_made() {
    check_filters([
        (".a.b = 1", json!({}), Ok(json!([{"a": {"b": 1}}]))),
        (".a[1] = 1", json!({}), Ok(json!([{"a": [null, 1]}]))),
        (".[0] = 1", json!([]), Ok(json!([[1]]))),
        (".[3] = 1", json!([0]), Ok(json!([[0, null, null, 1]]))),
        (".a |= 1", json!(null), Ok(json!([{"a": 1}]))),
        (".a[\"b\"].c? += 1", json!({}), Ok(json!([{"a": {"b": {"c": 1}}}]))),
        (".a.b? = 1", json!({}), Ok(json!([{"a": {"b": 1}}]))),
        (".a.b //= 1", json!({"a": null}), Ok(json!([{"a": {"b": 1}}]))),
        (".\"a\"[\"b\\(1)\"] |= 1", json!({}), Ok(json!([{"a": {"b1": 1}}]))),
        ("def f: .a.b; f = 1", json!({}), Ok(json!([{"a": {"b": 1}}]))),
        (".[].a.b = 1", json!([{}, null]), Ok(json!([[{"a": {"b": 1}}, {"a": {"b": 1}}]]))),
        ("(.a.x, .b.y) = 1", json!({}), Ok(json!([{"a": {"x": 1}, "b": {"y": 1}}]))),
        ("(.a.b | select(. == null)) = 1", json!({}), Ok(json!([{"a": {"b": 1}}]))),
        ("first.a = 1", json!([]), Ok(json!([[{"a": 1}]]))),
        ("setpath([\"a\", \"b\"]; 1)", json!({}), Ok(json!([{"a": {"b": 1}}]))),
        ("setpath([\"a\", 1]; 1)", json!(null), Ok(json!([{"a": [null, 1]}]))),
        ("setpath([]; 1)", json!({}), Ok(json!([1]))),
        ("getpath([\"a\", \"b\"]) = 1", json!(null), Ok(json!([{"a": {"b": 1}}]))),
        (
            "reduce .[] as [$k, $m, $v] ({}; .[$k][$m] += $v)",
            json!([["a", "x", 1], ["a", "x", 2], ["b", "y", 3]]),
            Ok(json!([{"a": {"x": 3}, "b": {"y": 3}}])),
        ),
        (
            "reduce .[] as $x ({}; .n[$x].count += 1)",
            json!(["a", "a"]),
            Ok(json!([{"n": {"a": {"count": 2}}}])),
        ),
        // Nothing is made where nothing is set, and nothing is lost where something is there.
        (".a |= empty", json!(null), Ok(json!([null]))),
        (".[2] |= empty", json!([1]), Ok(json!([[1]]))),
        (".a.b = 2", json!({"a": {"b": 1, "c": 0}}), Ok(json!([{"a": {"b": 2, "c": 0}}]))),
        ("(.x == 1), .a.b", json!({}), Ok(json!([false, null]))),
        (".a.b = 1", json!({"a": 5}), Err("cannot use 5 as")),
        (".a.b = 1", json!({"a": false}), Err("cannot use false as")),
        (".[-1] = 1", json!([]), Err("out of bounds")),
        (".[2000000] = 1", json!([]), Err("take an object")),
    ]);
}

#[test]
fn pick_keeps_the_places_of_lists() {
    check_filters([
        ("pick(.[2], .[0])", json!([1, 2, 3, 4]), Ok(json!([[1, null, 3]]))),
        ("pick(.a[1])", json!({"a": [1, 2, 3], "b": 1}), Ok(json!([{"a": [null, 2]}]))),
        ("pick(.a, .c.d)", json!({"a": 1, "b": 2}), Ok(json!([{"a": 1, "c": {"d": null}}]))),
        ("pick(first)", json!([1, 2]), Ok(json!([[1]]))),
        ("pick(.[].a)", json!([{"a": 1, "b": 2}]), Ok(json!([[{"a": 1}]]))),
    ]);
}

#[test]
fn base64_may_miss_its_end_as_in_a_token() {
    check_filters([
        ("split(\".\")[1] | @base64d | fromjson", json!("eyJ9.eyJhIjoxfQ.x"), Ok(json!([{"a": 1}]))),
        (
            "map(@base64d)",
            json!(["YQ", "YQ=", "YQ==", "YWI", "YWJj", "YR", ""]),
            Ok(json!([["a", "a", "a", "ab", "abc", "a", ""]])),
        ),
        ("@base64d", json!("Y"), Err("is no base64")),
        ("@base64d", json!("YWJ-"), Err("is no base64")),
    ]);
}

#[test]
fn what_has_many_outputs_is_combined_in_the_order_of_jq() {
    check_filters([
        (
            "[(1, 2) + (10, 20)], [(1, 2) - (10, 20)]",
            json!(null),
            Ok(json!([[11, 12, 21, 22], [-9, -8, -19, -18]])),
        ),
        (
            "[(7, 8) % (2, 3)], [(1, 2) < (1, 3)]",
            json!(null),
            Ok(json!([[1, 0, 1, 2], [false, false, true, true]])),
        ),
        ("[1, (2, 3) + (4, 5) * (1, 2)]", json!(null), Ok(json!([[1, 6, 7, 7, 8, 10, 11, 12, 13]]))),
        ("[(.a, .b) + (.c, .d)]", json!({"a": 1, "b": 2, "c": 10, "d": 20}), Ok(json!([[11, 12, 21, 22]]))),
        (
            "[.[] as $x | .[] + .[$x, 0]], first(.[] + .[])",
            json!([0, 1]),
            Ok(json!([[0, 1, 0, 1, 1, 2, 0, 1], 0])),
        ),
        (
            "def f: 1, 2; [f * (f * 10)], [limit(2; f + f * 10)]",
            json!(null),
            Ok(json!([[10, 20, 20, 40], [11, 12]])),
        ),
        ("[if true, false then 1, 2 else 3 end - (1, 2)]", json!(null), Ok(json!([[0, 1, 2, -1, 0, 1]]))),
        ("[\"\\(1, 2)-\\(3, 4)\"]", json!(null), Ok(json!([["1-3", "2-3", "1-4", "2-4"]]))),
        (
            "[\"\\(.a[])\\(0)-\\(3, 4)/\\(5, 6).\"], [@json \"\\(.a[])-\\(.a[])\"]",
            json!({"a": ["x", "y"]}),
            Ok(json!([
                ["x0-3/5.", "y0-3/5.", "x0-4/5.", "y0-4/5.", "x0-3/6.", "y0-3/6.", "x0-4/6.", "y0-4/6."],
                ["\"x\"-\"x\"", "\"y\"-\"x\"", "\"x\"-\"y\"", "\"y\"-\"y\""]
            ])),
        ),
        ("(1, error(\"left\")) + (2, error(\"right\"))", json!(null), Err("after 1 results: left")),
        (
            "[(true, false) and (true, false)], [{a: (1, 2), b: 3}]",
            json!(null),
            Ok(json!([
                [true, false, false],
                [{"a": 1, "b": 3}, {"a": 2, "b": 3}]
            ])),
        ),
    ]);
}

#[test]
fn functions_take_what_those_of_jq_take() {
    check_filters([
        ("[nth(0, 2; 10, 11, 12)], [nth(5; 1, 2)]", json!(null), Ok(json!([[10, 12], []]))),
        ("nth(-1; 1, 2)", json!(null), Err("nth needs a number from 0 on, and there is -1")),
        ("index(\"x\"), rindex(1), indices(\"x\")", json!(null), Ok(json!([null, null, null]))),
        (
            "index(\"b\"), rindex(\"b\"), indices(\"b\"), index(\"x\")",
            json!("äbb"),
            Ok(json!([1, 2, [1, 2], null])),
        ),
        ("index(1), rindex([1, 2]), indices(3)", json!([1, 2, 1, 2]), Ok(json!([0, 2, []]))),
        ("index(\"x\")", json!(1), Err("cannot index 1 with \"x\"")),
        (
            "test([\"B\", \"i\"]), test([\"B\"]), test([\"B\", null])",
            json!("abc"),
            Ok(json!([true, false, false])),
        ),
        (
            "[match([\"b\", \"gi\"]).offset], capture([\"(?<x>B)\", \"i\"])",
            json!("abcB"),
            Ok(json!([[1, 3], {"x": "b"}])),
        ),
        ("test([])", json!("abc"), Err("as in `[\"a\", \"gi\"]`")),
        ("test([\"b\", 1])", json!("abc"), Err("as string")),
        (
            "strptime(\"%Y-%m-%dT%H:%M:%SZ\") | todate, todateiso8601",
            json!("2015-03-05T23:51:47Z"),
            Ok(json!(["2015-03-05T23:51:47Z", "2015-03-05T23:51:47Z"])),
        ),
        ("gmtime | todate", json!(1_425_599_621), Ok(json!(["2015-03-05T23:53:41Z"]))),
        ("[1, 2] | todate", json!(null), Err("a time has six parts or more")),
    ]);
    let infinite = call("json_query", json!({"filter": "., tojson", "text": "[Infinity, -Infinity, NaN]"}));
    let largest = "1.7976931348623157e+308";
    assert_eq!(
        infinite.unwrap()["results"],
        json!([[f64::MAX, f64::MIN, null], format!("[{largest},-{largest},null]")])
    );
}

#[test]
fn what_is_not_written_in_jq_does_the_same() {
    check_filters([
        (
            "map(not), [true, false, null]",
            json!([1, null, false]),
            Ok(json!([[false, true, true], [true, false, null]])),
        ),
        (
            "map(type), [.[] | numbers, strings, booleans, arrays, objects]",
            json!([1, "a", null, true, [], {}]),
            Ok(json!([["number", "string", "null", "boolean", "array", "object"], [1, "a", true, [], {}]])),
        ),
        (
            "[.[] | nulls, iterables], [.[] | scalars], [.[] | values]",
            json!([1, "a", null, true, [], {}]),
            Ok(json!([[null, [], {}], [1, "a", null, true], [1, "a", true, [], {}]])),
        ),
        (
            "(.. | numbers) |= . + 1, [path(.. | strings)], del(.. | nulls)",
            json!([1, ["a", null, 2]]),
            Ok(json!([[2, ["a", null, 3]], [[1, 0]], [1, ["a", 2]]])),
        ),
        ("(.[] | select(. > 1)) |= . * 2", json!([1, 2, 3]), Ok(json!([[1, 4, 6]]))),
        (
            "[path(.[] | select(. > 1))], (.[0] | empty) |= 1, del(.[] | empty)",
            json!([1, 2]),
            Ok(json!([[[1]], [1, 2], [1, 2]])),
        ),
        (
            "to_entries, with_entries(select(.value > 1))",
            json!({"a": 1, "b": 2}),
            Ok(json!([
                [{"key": "a", "value": 1}, {"key": "b", "value": 2}],
                {"b": 2}
            ])),
        ),
        (
            "[scan(\"(x)?a(.)\")], [scan(\"a\")], [scan(\"A\"; \"i\")]",
            json!("baxa!"),
            Ok(json!([[[null, "x"], [null, "!"]], ["a", "a"], ["a", "a"]])),
        ),
        (
            "[capture(\"(?<x>a)|(?<y>b)\"; \"g\")]",
            json!("ab"),
            Ok(json!([[{"x": "a", "y": null}, {"x": null, "y": "b"}]])),
        ),
        (
            "[splits(\", *\")], [match(\"\"; \"g\").offset], test(\"\"; \"n\")",
            json!("a, b"),
            Ok(json!([["a", "b"], [0, 1, 2, 3, 4], false])),
        ),
        (
            "gsub(\"\"; \"-\"), gsub(\"^\"; \">\"), gsub(\"a\"; empty), sub(\"x\"; \"y\")",
            json!("ab"),
            Ok(json!(["-a-b-", ">ab", "ab", "ab"])),
        ),
        (
            "[gsub(\"(?<a>.)\"; \"\\(.a | ascii_upcase)\", \"\\(.a | ascii_downcase)\", \"c\")]",
            json!("aB"),
            Ok(json!([["AB", "ab", "cc"]])),
        ),
        ("sub(\"a\"; null), gsub(\"(?<x>x)?a\"; .x)", json!("abab"), Ok(json!(["bab", "bb"]))),
        (
            "[gsub(\"(?<x>.)\"; if .x == \"b\" then empty else .x + \"!\" end)]",
            json!("abc"),
            Ok(json!([["a!c!"]])),
        ),
        (
            "first(gsub(\"^a\"; range(100000) | tostring)) | length",
            json!("a".repeat(300_000)),
            Ok(json!([300_000])),
        ),
        ("gsub(\"a\"; 1)", json!("ab"), Err("cannot use 1 as string")),
        ("gsub(\"a\"; error(\"no\"))", json!("ab"), Err("no")),
        (
            "gsub(\"a\"; \"\\(\"x\" * 900000)\")",
            json!("a".repeat(100)),
            Err("put something shorter in place"),
        ),
        ("gsub(\"a\"; repeat(\"\"))", json!("a"), Err("put something shorter in place")),
        ("join(null), join(\"\")", json!(["a", 1.50]), Ok(json!(["a1.5", "a1.5"]))),
        ("join(1)", json!(["a", "b"]), Err("cannot use 1 as a separator")),
        ("flatten | length", json!({"a": [[1]], "b": [[2], 3]}), Ok(json!([3]))),
        ("reduce range(1000) as $i (1; [.]) | flatten", json!(null), Ok(json!([[1]]))),
        (
            "[.[] | @csv], [.[] | @tsv]",
            json!([["a\"b", 1.50, null, true], ["\\\t\n\r"]]),
            Ok(json!([["\"a\"\"b\",1.5,,true", "\"\\\t\n\r\""], ["a\"b\t1.5\t\ttrue", "\\\\\\t\\n\\r"]])),
        ),
        ("[nan, 1] | @csv, @tsv", json!(null), Ok(json!([",1", "\t1"]))),
        ("@csv", json!([[1]]), Err("@csv takes no array within a row")),
        ("@tsv", json!([{}]), Err("@tsv takes no object within a row")),
    ]);
}
