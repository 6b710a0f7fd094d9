use serde_json::json;
use toolgate_admission::Descriptor;
use toolgate_api::descriptor::DescriptionSource;
use wit_component::{ComponentEncoder, StringEncoding, dummy_module, embed_component_metadata};
use wit_parser::{ManglingAndAbi, PackageMetadata, Resolve};

use super::*;
use crate::engine::{Sandbox, SandboxSettings, precompile};

/// A component of the first world of a WIT package, whose functions only trap. It carries the docs of the package.
fn component(wit: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("test.wit", wit).expect("a package");
    let world = resolve.select_world(&[package], None).expect("one world");
    let mut module = dummy_module(&resolve, world, ManglingAndAbi::Standard32);
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false).expect("metadata");
    let mut encoder = ComponentEncoder::default();
    let mut component = encoder.module(&module).expect("a module").encode().expect("a component");
    let docs = PackageMetadata::extract(&resolve, package).encode().expect("docs");
    let mut section = Vec::new();
    wasm_encoder::Encode::encode(PackageMetadata::SECTION_NAME, &mut section);
    section.extend(docs);
    component.push(0);
    wasm_encoder::Encode::encode(section.as_slice(), &mut component);
    component
}

fn load(file: &[u8]) -> Result<crate::component::Component, LoadError> {
    let sandbox =
        Sandbox::new(&SandboxSettings { instances: 1, ..SandboxSettings::default() }).expect("a sandbox");
    sandbox.load(&precompile(file, None)?)
}

fn describe_file(file: &[u8]) -> Descriptor {
    let component = load(file).expect("loads");
    let described = component.describe_functions(file, Some("test"), None).expect("functions");
    let mut descriptor = Descriptor::parse(&described.json).expect("a descriptor");
    described.complete(&mut descriptor);
    descriptor
}

fn describe(wit: &str) -> Descriptor {
    describe_file(&component(wit))
}

fn input_of(descriptor: &Descriptor, tool: &str) -> Value {
    descriptor.tool(tool).expect("a tool").input.source().clone()
}

fn left_out(descriptor: &Descriptor) -> Vec<(&str, &str)> {
    descriptor.left_out.iter().map(|left| (&*left.name, &*left.why)).collect()
}

/// Interfaces of the package `a:b`, each exported.
fn exporting(interface: &str) -> String {
    format!("package a:b@1.2.0; interface api {{ {interface} }} world w {{ export api; }}")
}

#[test]
fn t10_functions_at_the_root_and_in_interfaces_are_tools() {
    let descriptor = describe(
        "package local:time-server@1.2.0;
         /// Times.
         interface time {
             /// Returns the time of a zone.
             get-current-time: func(zone: option<string>) -> result<string, string>;
         }
         world server { export time; export add: func(a: s32, b: u8) -> s32; }",
    );
    let tools: Vec<_> =
        descriptor.tools.iter().map(|tool| (tool.name.as_str(), tool.original_name.as_deref())).collect();
    assert_eq!(tools, [("add", None), ("get_current_time", Some("get-current-time"))]);
    assert_eq!((descriptor.version.as_str(), left_out(&descriptor)), ("1.2.0", vec![]));
    let [add, time] = &descriptor.tools[..] else { panic!("two tools") };
    assert_eq!(time.description, "Returns the time of a zone.");
    assert_eq!(time.description_source, DescriptionSource::Plugin);
    assert_eq!(add.description, "Calls the function `add`.");
    assert_eq!(add.description_source, DescriptionSource::Signature);
    assert!(add.usage.contains("add: func(a: s32, b: u8) -> s32"), "{}", add.usage);
    assert!(!time.hints.read_only && time.hints.destructive);
    assert_eq!(time.output.as_ref().expect("an output").source(), &json!({"type": "string"}));
}

#[test]
fn t10_each_type_has_its_schema() {
    let descriptor = describe(&exporting(
        "record point { x: f32, label: option<string> }
         variant form { plain, custom(u16) }
         enum day { monday, tuesday }
         flags parts { hours, minutes }
         all: func(p: point, f: form, d: day, s: parts, b: bool, c: char, n: s64, t: tuple<u8, string>,
             l: list<option<day>>, o: option<option<bool>>, r: result<_, s8>);",
    ));
    let case = |tag: &str| json!({"type": "string", "const": tag});
    let expected = json!({
        "p": {"type": "object", "properties": {
            "x": {"type": "number", "minimum": f32::MIN, "maximum": f32::MAX}, "label": {"type": ["string", "null"]},
        }, "required": ["x"], "additionalProperties": false},
        "f": {"anyOf": [
            {"type": "object", "properties": {"tag": case("plain")}, "required": ["tag"], "additionalProperties": false},
            {"type": "object", "properties": {"tag": case("custom"), "val": {"type": "integer", "minimum": 0, "maximum": 65_535}},
             "required": ["tag", "val"], "additionalProperties": false},
        ]},
        "d": {"type": "string", "enum": ["monday", "tuesday"]},
        "s": {"type": "array", "items": {"type": "string", "enum": ["hours", "minutes"]}, "uniqueItems": true},
        "b": {"type": "boolean"},
        "c": {"type": "string", "minLength": 1, "maxLength": 1},
        "n": {"type": ["integer", "string"], "minimum": -(1_i64 << 53), "maximum": 1_i64 << 53, "pattern": "^-?[0-9]{1,19}$"},
        "t": {"type": "array", "prefixItems": [{"type": "integer", "minimum": 0, "maximum": 255}, {"type": "string"}],
              "items": false, "minItems": 2, "maxItems": 2},
        "l": {"type": "array", "items": {"anyOf": [{"type": "string", "enum": ["monday", "tuesday"]}, {"type": "null"}]}},
        "o": {"anyOf": [
            {"type": "object", "properties": {"some": {"type": ["boolean", "null"]}}, "required": ["some"], "additionalProperties": false},
            {"type": "null"},
        ]},
        "r": {"anyOf": [
            {"type": "object", "properties": {"tag": case("ok")}, "required": ["tag"], "additionalProperties": false},
            {"type": "object", "properties": {"tag": case("err"), "val": {"type": "integer", "minimum": -128, "maximum": 127}},
             "required": ["tag", "val"], "additionalProperties": false},
        ]},
    });
    let input = input_of(&descriptor, "all");
    for (name, schema) in expected.as_object().expect("an object") {
        assert_eq!(&input["properties"][name], schema, "{name}");
    }
    assert_eq!(input["required"], json!(["p", "f", "d", "s", "b", "c", "n", "t", "l", "r"]));
}

#[test]
fn t10_a_function_with_a_resource_is_left_out_and_the_others_load() {
    let descriptor = describe(&exporting(
        "resource bucket { constructor(); get: func(key: string) -> string; }
         open: func(name: string) -> bucket;
         close: func(one: bucket);
         count: func() -> u32;",
    ));
    let tools: Vec<_> = descriptor.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(tools, ["count"]);
    let left = left_out(&descriptor);
    assert_eq!(left.len(), 4, "{left:?}");
    let handle = "its signature has the handle of a resource, which JSON cannot carry";
    assert!(left.contains(&("a:b/api@1.2.0#open", handle)), "{left:?}");
    assert!(left.contains(&("a:b/api@1.2.0#[method]bucket.get", "it belongs to a resource")), "{left:?}");
}

#[test]
fn t10_a_function_with_a_stream_or_a_future_is_left_out_and_the_others_load() {
    let descriptor = describe(&exporting(
        "upload: func(data: stream<u8>) -> u64; later: func() -> future<string>; count: func() -> u32;",
    ));
    let tools: Vec<_> = descriptor.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(tools, ["count"]);
    let why = |what: &str| format!("its signature has {what}, which JSON cannot carry");
    let (future, stream) = (why("a future"), why("a stream"));
    assert_eq!(
        left_out(&descriptor),
        [("a:b/api@1.2.0#later", &*future), ("a:b/api@1.2.0#upload", &*stream)]
    );
}

#[test]
fn t10_names_that_collide_are_all_left_out() {
    let descriptor = describe(
        "package a:b;
         interface one { get: func(); put: func(); }
         interface two { get: func(); }
         world w { export one; export two; }",
    );
    let tools: Vec<_> = descriptor.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(tools, ["put"]);
    let why = "another function would be the tool `get` too";
    assert_eq!(left_out(&descriptor), [("a:b/one#get", why), ("a:b/two#get", why)]);
}

#[test]
fn t10_types_that_are_too_deep_or_too_wide_are_left_out() {
    let deep = (0..30).fold("string".to_owned(), |inner, _| format!("list<{inner}>"));
    let shared: String = (1..16).map(|at| format!("type t{at} = tuple<t{0}, t{0}>;", at - 1)).collect();
    let wide: Vec<String> = (0..2_000).map(|at| format!("c{at}")).collect();
    let descriptor = describe(&exporting(&format!(
        "type t0 = u8; {shared} enum many {{ {} }}
         deep: func(a: {deep}); shared: func(a: t15); wide: func(a: many); good: func(a: list<list<string>>, b: t3);",
        wide.join(",")
    )));
    let tools: Vec<_> = descriptor.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(tools, ["good"]);
    let why: Vec<_> = left_out(&descriptor).into_iter().map(|(_, why)| why).collect();
    let (depth, parts) =
        ("its types are nested more than 12 levels deep", "its types have more than 1000 parts");
    assert_eq!(why, [depth, depth, parts]);
}

#[test]
fn t10_a_component_with_too_many_functions_is_refused() {
    let functions = |count: usize| (0..count).map(|at| format!("g{at}: func();")).collect::<String>();
    let error = load(&component(&exporting(&functions(10_000)))).expect_err("refused");
    assert_eq!(error.message, "the component exports more than 1000 functions");
    assert_eq!(describe(&exporting(&functions(1_000))).tools.len(), 1_000);
}

#[test]
fn t10_a_component_without_a_possible_tool_is_refused_with_the_reason() {
    let error = load(&component(&exporting("resource r; make: func() -> r;"))).expect_err("refused");
    assert!(error.message.contains("`a:b/api@1.2.0#make`: its signature has the handle"), "{error}");
    let error = load(&component("package a:b; world w {}")).expect_err("refused");
    assert_eq!(error.message, "the component exports neither the plugin contract nor a function");
}

#[test]
fn t10_a_component_for_wasi_0_3_is_refused_by_name() {
    let wit = |version: &str| {
        format!(
            "package a:b; world w {{ import wasi:clocks/monotonic-clock@{version}; export run: func(); }}
             package wasi:clocks@{version} {{ interface monotonic-clock {{ now: func() -> u64; }} }}"
        )
    };
    let error = load(&component(&wit("0.3.0"))).expect_err("refused");
    assert!(
        error.message.contains("WASI 0.3") && error.message.contains("wasi:clocks/monotonic-clock@0.3.0"),
        "{error}"
    );
    assert!(error.hint.contains("WASI 0.2"), "{}", error.hint);
    load(&component(&wit("0.2.6"))).expect("loads");
}

#[test]
fn t10_docs_that_a_model_may_not_read_count_as_missing() {
    let descriptor =
        describe(&exporting("/// Hides \u{200b}text.\n one: func(); \n/// Adds.\n two: func();"));
    assert_eq!(descriptor.tools[0].description, "Calls the function `one` of `a:b/api@1.2.0`.");
    assert_eq!(descriptor.tools[1].description, "Adds.");
}

#[test]
fn t10_damaged_docs_count_as_missing() {
    let mut file = component(&exporting("/// Adds.\n add: func();"));
    assert_eq!(describe_file(&file).tools[0].description, "Adds.");
    let last = file.len() - 1;
    file[last] = b'x';
    assert_eq!(describe_file(&file).tools[0].description, "Calls the function `add` of `a:b/api@1.2.0`.");
}

fn convert(shape: &Shape, value: &Value) -> Result<String, Mismatch> {
    let parameters = [("a".into(), shape.clone())];
    let values = to_parameters(&parameters, &json!({"a": value}))?;
    Ok(to_json(&values[0], 1_000).expect("short"))
}

#[test]
fn t10_a_value_comes_back_as_it_was() {
    use shape::Integer;
    let day = || Shape::Enum(vec!["monday".into(), "tuesday".into()]);
    let option = |shape| Shape::Option(Box::new(shape));
    let point = Shape::Record(vec![("x".into(), Shape::Float64), ("day".into(), option(day()))]);
    let form = Shape::Variant(vec![("plain".into(), None), ("custom".into(), Some(Shape::String))]);
    let result = Shape::Result(Some(Box::new(Shape::Char)), None);
    let cases = [
        (Shape::Bool, json!(true)),
        (Shape::Integer(Integer::S8), json!(-128)),
        (Shape::Integer(Integer::U64), json!(1_u64 << 53)),
        (Shape::Integer(Integer::U64), json!("18446744073709551615")),
        (Shape::Integer(Integer::S64), json!("-9223372036854775808")),
        (Shape::Float32, json!(0.5)),
        (Shape::Float64, json!(-1.5e300)),
        (Shape::Char, json!("𝄞")),
        (Shape::String, json!("a \"quoted\"\n\u{0} text")),
        (Shape::List(Box::new(day())), json!(["tuesday", "monday", "tuesday"])),
        (Shape::List(Box::new(day())), json!([])),
        (point.clone(), json!({"x": 1.0, "day": "monday"})),
        (point, json!({"x": 1.0, "day": null})),
        (Shape::Tuple(vec![Shape::Bool, Shape::String]), json!([false, ""])),
        (form.clone(), json!({"tag": "plain"})),
        (form, json!({"tag": "custom", "val": "b"})),
        (result.clone(), json!({"tag": "ok", "val": "é"})),
        (result, json!({"tag": "err"})),
        (Shape::Flags(vec!["a".into(), "b".into()]), json!(["b"])),
        (option(Shape::Bool), json!(null)),
        (option(option(Shape::Bool)), json!(null)),
        (option(option(Shape::Bool)), json!({"some": null})),
        (option(option(Shape::Bool)), json!({"some": true})),
    ];
    for (shape, value) in cases {
        let back: Value = serde_json::from_str(&convert(&shape, &value).expect("a value")).expect("JSON");
        assert_eq!(back, value, "{shape:?}");
    }
    let missing = convert(&Shape::Record(vec![("a".into(), option(Shape::Bool))]), &json!({}));
    assert_eq!(missing.expect("a value"), r#"{"a":null}"#);
}

#[test]
fn t10_a_value_out_of_range_is_told_with_its_place() {
    use shape::Integer;
    for (kind, value) in [
        (Integer::U8, json!(256)),
        (Integer::U8, json!(-1)),
        (Integer::S8, json!(1.5)),
        (Integer::U64, json!("18446744073709551616")),
        (Integer::S64, json!("-9223372036854775809")),
        (Integer::U64, json!("1e3")),
        (Integer::S64, json!(1e19)),
    ] {
        let mismatch = convert(&Shape::Integer(kind), &value).expect_err("out of range");
        assert_eq!(mismatch.pointer, "/a", "{value}");
        assert!(mismatch.message.contains("an integer from"), "{}", mismatch.message);
    }
    assert_eq!(convert(&Shape::Integer(Integer::U8), &json!(255.0)).expect("whole"), "255");
    let nested = Shape::List(Box::new(Shape::Tuple(vec![Shape::Char])));
    let mismatch = convert(&nested, &json!([["a"], ["ab"]])).expect_err("two characters");
    assert_eq!(
        mismatch,
        Mismatch { pointer: "/a/1/0".into(), message: "expected one character, found \"ab\"".into() }
    );
    assert!(convert(&Shape::Float32, &json!(1e39)).is_err());
}

#[test]
fn t10_a_result_that_no_json_number_can_be_is_text() {
    let json = |value: Val| to_json(&value, 100).expect("short");
    assert_eq!(json(Val::Float64(f64::NAN)), r#""NaN""#);
    assert_eq!(json(Val::Float32(f32::INFINITY)), r#""Infinity""#);
    assert_eq!(json(Val::Float64(f64::NEG_INFINITY)), r#""-Infinity""#);
    assert_eq!(json(Val::Float32(f32::MAX)), "3.4028235e+38");
}

#[test]
fn t10_json_over_the_limit_is_no_result() {
    let text = Val::String("\u{1}".repeat(10));
    assert!(to_json(&text, 61).is_err());
    assert_eq!(to_json(&text, 62).expect("fits").len(), 62);
}

#[test]
fn t10_an_error_value_is_in_the_details() {
    let text = failure("f", Some(&Val::String("no such city".into())));
    assert_eq!((text.message.as_str(), text.details.as_deref()), ("no such city", Some(r#""no such city""#)));
    let case = failure("f", Some(&Val::Variant("busy".into(), None)));
    assert_eq!(case.message, r#"`f` returned the error {"tag":"busy"}"#);
    assert_eq!(case.details.as_deref(), Some(r#"{"tag":"busy"}"#));
    assert_eq!(failure("f", None).details, None);
    assert_eq!(failure("f", Some(&Val::String("x".repeat(ERROR_BYTES)))).details, None);
}
