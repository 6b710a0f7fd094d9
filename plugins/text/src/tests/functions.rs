//! The functions of `jq` that filters call.

use toolgate_sdk::serde_json::json;

use super::call;
use super::queries::check_filters;

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
        let compiled = formats::jq::compile(function, &[], false);
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
        ("@base64d, (\"a%20b%\" | @urid)", json!("aGk="), json!(["hi", "a b%"])),
        ("[.[] | try test(\"(\") catch \"bad\"], env, (1 | debug)", json!(["x"]), json!([["bad"], {}, 1])),
        (".[] | trimstr(\"x\"), toarray", json!(["xax"]), json!(["a", ["xax"]])),
    ] {
        let found = call("json_query", json!({"filter": filter, "value": value}));
        assert_eq!(found.map(|found| found["results"].clone()), Ok(expected), "{filter}");
    }
}

#[test]
fn entries_are_deleted_made_and_picked() {
    let list = || json!([1, 2, 3, 4]);
    check_filters([
        ("del(.[-1], .[0])", list(), Ok(json!([[2, 3]]))),
        ("del(.[] | select(. > 1)), del(.[])", list(), Ok(json!([[1], []]))),
        ("del(.[1:]), del(.[:-1]), del(.[1:3])", list(), Ok(json!([[1], [4], [1, 4]]))),
        ("del(.[0][0], .[1])", json!([[1, 2], [3]]), Ok(json!([[[2]]]))),
        ("del(.[0][0], .[0])", json!([[1, 2], [3]]), Ok(json!([[[3]]]))),
        ("del(.[\"a\", \"b\"]), del(getpath([\"a\"]))", json!({"a": 1, "b": 2}), Ok(json!([{}, {"b": 2}]))),
        (
            "with_entries(del(select(.value > 1).value))",
            json!({"a": 1, "b": 2}),
            Ok(json!([{"a": 1, "b": null}])),
        ),
        ("from_entries", json!([{"key": "a", "value": false}]), Ok(json!([{"a": false}]))),
        ("from_entries", json!([]), Ok(json!([{}]))),
        ("with_entries(.key |= ascii_upcase)", json!({"a": 1}), Ok(json!([{"A": 1}]))),
        ("from_entries", json!([[1, 2]]), Err("cannot index")),
        (
            "flatten, flatten(1), flatten(0)",
            json!([1, [2, [3]]]),
            Ok(json!([[1, 2, 3], [1, 2, [3]], [1, [2, [3]]]])),
        ),
        ("map(abs)", json!([-1, 2, -0.5]), Ok(json!([[1, 2, 0.5]]))),
        ("pick(.a, .c.d)", json!({"a": 1, "b": 2}), Ok(json!([{"a": 1, "c": {"d": null}}]))),
    ]);
}

#[test]
fn base64_may_miss_its_end_as_in_a_token() {
    check_filters([
        ("split(\".\")[1] | @base64d | fromjson", json!("eyJ9.eyJhIjoxfQ.x"), Ok(json!([{"a": 1}]))),
        (
            "map(@base64d)",
            json!(["YQ", "YQ=", "YQ==", "YWI", "YWJj", ""]),
            Ok(json!([["a", "a", "a", "ab", "abc", ""]])),
        ),
        ("@base64d", json!("Y"), Err("is no base64")),
        ("@base64d", json!("YWJ-"), Err("is no base64")),
    ]);
}

#[test]
fn functions_take_what_those_of_jq_take() {
    check_filters([
        (
            "index(\"b\"), rindex(\"b\"), indices(\"b\"), index(\"x\")",
            json!("äbb"),
            Ok(json!([1, 2, [1, 2], null])),
        ),
        ("index(1), rindex([1, 2]), indices(3)", json!([1, 2, 1, 2]), Ok(json!([0, 2, []]))),
        ("index(\"x\")", json!(1), Err("cannot index 1 with \"x\"")),
        ("test([\"b\", 1])", json!("abc"), Err("as string")),
        (
            "strptime(\"%Y-%m-%dT%H:%M:%SZ\") | todate, todateiso8601",
            json!("2015-03-05T23:51:47Z"),
            Ok(json!(["2015-03-05T23:51:47Z", "2015-03-05T23:51:47Z"])),
        ),
        ("gmtime | todate", json!(1_425_599_621), Ok(json!(["2015-03-05T23:53:41Z"]))),
        ("[1, 2] | todate", json!(null), Err("strptime parsing failed")),
    ]);
    let infinite = call("json_query", json!({"filter": ".", "text": "[Infinity, -Infinity, NaN]"}));
    assert_eq!(infinite.unwrap()["results"], json!([["Infinity", "-Infinity", null]]));
}

#[test]
fn values_and_texts_are_taken_apart_as_in_jq() {
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
            "[capture(\"(?<x>a)|(?<y>b)\"; \"g\")]",
            json!("ab"),
            Ok(json!([[{"x": "a", "y": null}, {"x": null, "y": "b"}]])),
        ),
        (
            "[splits(\", *\")], [match(\"\"; \"g\").offset], test(\"\"; \"n\")",
            json!("a, b"),
            Ok(json!([["a", "b"], [0, 1, 2, 3, 4], false])),
        ),
        ("sub(\"a\"; null), gsub(\"(?<x>x)?a\"; .x)", json!("abab"), Ok(json!(["bab", "bb"]))),
        (
            "gsub(\"\"; \"-\"), gsub(\"^\"; \">\"), sub(\"x\"; \"y\"), ([scan(\"a\"), scan(\"A\"; \"i\")])",
            json!("ab"),
            Ok(json!(["-a-b-", ">ab", "ab", ["a", "a"]])),
        ),
        (
            "first(gsub(\"^a\"; range(100000) | tostring)) | length",
            json!("a".repeat(300_000)),
            Ok(json!([300_000])),
        ),
        ("[limit(2; gsub(\"a\"; repeat(\"\")))]", json!("a"), Ok(json!([[""]]))),
        ("gsub(\"a\"; 1)", json!("ab"), Err("as string")),
        ("gsub(\"a\"; error(\"no\"))", json!("ab"), Err("no")),
        ("join(null), join(\"\")", json!(["a", 1.50]), Ok(json!(["a1.5", "a1.5"]))),
        ("reduce range(1000) as $i (1; [.]) | flatten", json!(null), Ok(json!([[1]]))),
        (
            "[.[] | @csv], [.[] | @tsv]",
            json!([["a\"b", 1.50, null, true], ["\\\t\n\r"]]),
            Ok(json!([["\"a\"\"b\",1.5,,true", "\"\\\t\n\r\""], ["a\"b\t1.5\t\ttrue", "\\\\\\t\\n\\r"]])),
        ),
        ("@csv", json!([[1]]), Err("as string")),
        ("@tsv", json!([{}]), Err("as string")),
        ("tonumber, tojson", json!("12.5"), Ok(json!([12.5, "\"12.5\""]))),
        ("tonumber", json!("[1]"), Err("cannot parse as number")),
        ("fromjson", json!("{"), Err("cannot parse")),
        ("fromjson", json!(1), Err("string")),
    ]);
}

#[test]
fn texts_of_huge_or_deep_values_are_refused_before_they_are_written() {
    check_filters([
        ("reduce range(200) as $i (1; [.]) | tojson", json!(null), Err("nested more than 120 deep")),
        ("\"[\" * 100000 | fromjson", json!(null), Err("nested more than 200 deep")),
        ("reduce range(60) as $i (1; [., .]) | tojson", json!(null), Err("larger than 900 KiB")),
        ("reduce range(60) as $i (1; [., .]) | tostring", json!(null), Err("larger than 900 KiB")),
        ("gsub(\"a\"; \"\\(\"x\" * 90000)\")", json!("a".repeat(100)), Err("larger than 900 KiB")),
        ("delpaths([[range(2000) | 0]])", json!([1]), Err("cannot use 1 as iterable")),
        ("setpath([range(2000) | 0]; 1)", json!([1]), Err("cannot use 1 as iterable")),
    ]);
}
