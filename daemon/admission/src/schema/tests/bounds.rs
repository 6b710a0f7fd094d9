//! Schemas and values that are expensive on purpose.

use super::*;

#[test]
fn a_pattern_that_would_make_a_backtracking_engine_hang_is_matched_in_linear_time() {
    let schema = any(&json!({"pattern": "^(a+)+$"})).unwrap();
    assert!(schema.validate(&json!("a".repeat(100_000) + "!")).is_err());
    assert_eq!(schema.validate(&json!("aaa")), Ok(()));
}

#[test]
fn a_pattern_with_many_states_is_not_matched_with_a_long_text() {
    let schema = any(&json!({"pattern": "^[01]*1[01]{1000}$"})).unwrap();
    assert!(schema.validate(&json!("10".repeat(500_000))).unwrap_err()[0].message.contains("too large"));
    assert_eq!(schema.validate(&json!("1".repeat(1_001))), Ok(()));
    assert!(any(&json!({"pattern": "((a{100}){100}){100}"})).is_err(), "a pattern too large to compile");
}

#[test]
fn formats_count_like_states_of_a_pattern() {
    let long = json!("(a)".repeat(400_000));
    for (one, most) in [
        (json!({"format": "email"}), 80),
        (json!({"format": "uri-reference"}), 160),
        (json!({"format": "json-pointer"}), 320),
        (json!({"format": "regex"}), 8),
        (json!({"contentMediaType": "application/json"}), 40),
    ] {
        let is_checked = |count: usize| {
            let checked = any(&json!({"allOf": vec![&one; count], ASSERT_FORMAT: true}))
                .expect("a schema")
                .validate(&long);
            checked.err().is_none_or(|violations| !violations[0].message.contains("too large to be checked"))
        };
        assert!(is_checked(most), "{one}");
        assert!(!is_checked(2 * most), "{one}");
    }
    assert_eq!(
        object(&json!({"x": {"format": "email"}}), &[]).validate(&json!({"x": "a@b.example"})),
        Ok(())
    );
}

/// `$defs` of `count` schemas, each of which refers to the next through `link`.
fn chain(count: usize, link: impl Fn(Value) -> Value) -> Value {
    let mut defs: serde_json::Map<String, Value> = (0..count)
        .map(|index| (format!("d{index}"), link(json!({"$ref": format!("#/$defs/d{}", index + 1)}))))
        .collect();
    defs.insert(format!("d{count}"), json!({"type": "string"}));
    json!({"$ref": "#/$defs/d0", "$defs": defs})
}

#[test]
fn exponential_references_are_refused_and_a_few_of_them_pass() {
    let links: [fn(Value) -> Value; 4] = [
        |next| json!({"allOf": [next, next]}),
        |next| json!({"anyOf": [next, next]}),
        |next| json!({"properties": {"a": next, "b": next}}),
        |next| json!({"items": next, "contains": next}),
    ];
    for link in links {
        assert!(any(&chain(60, link)).is_err(), "{}", link(json!("next")));
        assert!(any(&chain(3, link)).is_ok(), "{}", link(json!("next")));
    }
}

#[test]
fn a_long_chain_of_references_is_refused_without_using_up_the_stack() {
    assert!(any(&chain(1_900, |next| next)).is_err());
    assert!(any(&chain(10, |next| next)).is_ok());
    assert!(any(&chain(500, |next| json!({"items": next}))).is_ok());
}

#[test]
fn a_schema_that_refers_to_itself_at_the_same_place_is_refused() {
    for source in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}, {}]}, "b": {"not": {"$ref": "#/$defs/a"}}}}),
    ] {
        assert!(any(&source).expect_err("a cycle").message.contains("itself"), "{source}");
    }
}

#[test]
fn a_recursive_schema_passes_unless_it_applies_twice_at_one_place() {
    for source in [
        json!({"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}),
        json!({"type": "object", "properties": {"x": {"$ref": "#"}}, "additionalProperties": {"$ref": "#"}}),
        json!({"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"type": "object", "additionalProperties": {"$ref": "#"}}, {"type": "string"}]}),
    ] {
        let schema = any(&source).expect("a tree");
        let deep = (0..100).fold(json!({}), |inner, _| json!({"left": inner}));
        assert_eq!(schema.validate(&deep), Ok(()), "{source}");
    }
    for source in [
        json!({"anyOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]}),
        json!({"properties": {"a": {"$ref": "#"}}, "patternProperties": {"a": {"$ref": "#"}}}),
        json!({"allOf": [{"additionalProperties": {"$ref": "#"}}, {"properties": {"a": {"$ref": "#"}}}]}),
        json!({"items": {"$ref": "#"}, "contains": {"$ref": "#"}}),
    ] {
        assert!(any(&source).expect_err("doubling").message.contains("meet"), "{source}");
    }
}

#[test]
fn mutually_recursive_types_are_held_once() {
    let count = 24;
    let defs: serde_json::Map<String, Value> = (0..count)
        .map(|index| {
            let properties: Value = (0..count)
                .map(|other| (format!("p{other}"), json!({"$ref": format!("#/$defs/t{other}")})))
                .collect();
            (format!("t{index}"), json!({"type": "object", "properties": properties}))
        })
        .collect();
    let schema = any(&json!({"$ref": "#/$defs/t0", "$defs": defs})).expect("an expression tree");
    assert_eq!(schema.validate(&json!({"p3": {"p7": {}}})), Ok(()));
    assert!(schema.validate(&json!({"p3": {"p7": 1}})).is_err());
}

#[test]
fn a_schema_of_a_thousand_arguments_or_variants_passes() {
    let properties: Value =
        (0..1_000).map(|index| (format!("p{index}"), json!({"type": "string", "maxLength": 5}))).collect();
    assert!(compile(&json!({"type": "object", "properties": properties})).is_ok());
    let variants: Vec<Value> = (0..100)
        .map(|index| json!({"type": "object", "properties": {"kind": {"const": index}, (format!("v{index}")): {"type": "string"}}, "required": ["kind"]}))
        .collect();
    assert!(any(&json!({"oneOf": variants})).is_ok());
}

#[test]
fn deep_and_large_schemas_are_refused() {
    let nested = |levels| (0..levels).fold(json!({}), |inner, _| json!({"items": inner}));
    assert!(any(&nested(32)).is_ok());
    assert!(any(&nested(33)).is_err());
    let described = |bytes: usize| json!({"description": "x".repeat(bytes)});
    assert!(any(&described(SCHEMA_BYTES - 100)).is_ok());
    assert!(any(&described(SCHEMA_BYTES)).is_err());
    let repeated = |count: usize, schema: Value| json!({"prefixItems": vec![schema; count]});
    for (most, schema) in [
        (32, json!({"uniqueItems": true})),
        (64, json!({"pattern": "a"})),
        (64, json!({"patternProperties": {"a": {}}})),
    ] {
        assert!(any(&repeated(most, schema.clone())).is_ok(), "{schema}");
        assert!(any(&repeated(most + 1, schema.clone())).is_err(), "{schema}");
    }
    assert!(any(&repeated(10_000, json!({}))).is_err());
}

#[test]
fn unevaluated_properties_nested_in_each_other_are_refused() {
    let nested = |levels| {
        (0..levels).fold(
            json!({"properties": {"a": {}}}),
            |inner, _| json!({"anyOf": [inner], "unevaluatedProperties": false}),
        )
    };
    assert!(any(&nested(3)).is_ok());
    assert!(any(&nested(20)).is_err());
}

#[test]
fn many_errors_in_a_large_value_are_fast_and_short() {
    let schema = any(&json!({"items": {"type": "object", "required": ["a"]}})).unwrap();
    let violations = schema.validate(&json!(vec![0; 400_000])).unwrap_err();
    assert!(violations.len() <= 8);
    assert_eq!(violations[0].pointer, "/0");
}

#[test]
fn a_value_too_large_for_an_expensive_schema_is_refused_first() {
    let branches: Vec<Value> =
        (0..200).map(|index| json!({"items": {"not": {"const": index}, "minimum": -1}})).collect();
    let schema = any(&json!({"allOf": branches})).unwrap();
    assert!(schema.validate(&json!(vec![500; 500_000])).unwrap_err()[0].message.contains("too large"));
    assert_eq!(schema.validate(&json!([500])), Ok(()));
}

/// A recursive list with `links` references and alternatives for each level.
fn linked_list(links: usize) -> Value {
    let mut defs: serde_json::Map<String, Value> = (0..links)
        .map(|index| {
            (
                format!("d{index}"),
                json!({"anyOf": [{"type": "null"}, {"$ref": format!("#/$defs/d{}", index + 1)}]}),
            )
        })
        .collect();
    defs.insert(format!("d{links}"), json!({"type": "array", "items": {"$ref": "#/$defs/d0"}}));
    json!({"$ref": "#/$defs/d0", "$defs": defs})
}

/// A thread of the runtime has 2 MiB of stack; half of it is for the callers.
#[test]
fn the_deepest_values_against_the_longest_chains_fit_the_stack() {
    let schemas: Vec<Schema> = [0, 4, 8, 11].map(|links| any(&linked_list(links)).expect("a schema")).into();
    assert!(any(&linked_list(12)).is_err(), "the longest is among them");
    let check = move || {
        for (schema, depth) in
            schemas.iter().flat_map(|schema| [30, 58, 62, 126].map(|depth| (schema, depth)))
        {
            let deep = (0..depth).fold(json!([1]), |inner, _| json!([inner]));
            schema.validate(&deep).expect_err("a number at the bottom");
        }
    };
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(check).expect("a thread");
    thread.join().expect("fits the stack");
}

#[test]
fn a_value_too_deep_for_a_long_chain_is_refused_first() {
    let deep = |levels| (0..levels).fold(json!([]), |inner, _| json!([inner]));
    let schema = any(&linked_list(11)).unwrap();
    assert_eq!(schema.validate(&deep(50)), Ok(()));
    assert!(schema.validate(&deep(100)).unwrap_err()[0].message.contains("too deeply nested"));
    assert_eq!(any(&linked_list(3)).unwrap().validate(&deep(100)), Ok(()));
}

#[test]
fn targets_nested_by_references_compile_within_the_stack_or_are_refused() {
    let wraps: [fn(Value) -> Value; 4] = [
        |inner| json!({"items": inner}),
        |inner| json!({"properties": {"a": inner}, "additionalProperties": false}),
        |inner| json!({"prefixItems": [inner], "uniqueItems": false, "minItems": 0}),
        |inner| json!({"properties": {"a": inner}, "additionalProperties": {"oneOf": [{"type": "null"}]}}),
    ];
    let compile = move || {
        for wrap in wraps {
            let nested = |times: usize| chain(20, |next| (0..times).fold(next, |inner, _| wrap(inner)));
            assert!(any(&nested(30)).expect_err("too deep").message.contains("inside each other"));
            let deepest = (1..30).rev().find(|times| any(&nested(*times)).is_ok());
            assert!(deepest.is_some_and(|times| times >= 8), "{deepest:?}");
        }
    };
    let thread = std::thread::Builder::new().stack_size(1536 << 10).spawn(compile).expect("a thread");
    thread.join().expect("fits the stack");
}
