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
