//! Plugins whose exports have other types than the contract: refused at load with reason and hint, not when they are
//! called.

use super::*;

#[test]
fn exports_of_other_types_are_refused() {
    with_fixture(|fixture| {
        let text = PluginFile::new("shaped").text();
        let renamed =
            text.replace(r#"(export "describe" (func $describe)"#, r#"(export "explain" (func $describe)"#);
        fixture.assert_refused("shaped", &assemble(&renamed), "plugin contract");
        let fewer = text.replace(r#"(field "retryable" bool)"#, r#"(field "retryable" u8)"#);
        fixture.assert_refused("shaped", &assemble(&fewer), "retryable");
    });
}

#[test]
fn a_function_of_another_signature_is_refused_when_it_is_loaded() {
    with_fixture(|fixture| {
        let text = PluginFile::new("signed").text();
        let cases: [(&str, &[(&str, &str)]); 7] = [
            ("call", &[("(param \"arguments\" string)", "(param \"arguments\" (list u8))")]),
            (
                "call",
                &[
                    (
                        "(result (result $outcome (error $failure)))",
                        "(result (result string (error $failure)))",
                    ),
                    (
                        "(result (result $shown-outcome (error $shown-failure)))",
                        "(result (result string (error $shown-failure)))",
                    ),
                ],
            ),
            (
                "call",
                &[
                    ("(result (result $outcome (error $failure)))", "(result $outcome)"),
                    ("(result (result $shown-outcome (error $shown-failure)))", "(result $shown-outcome)"),
                ],
            ),
            (
                "describe",
                &[
                    ("(result (result string (error $failure)))", "(result string)"),
                    ("(result (result string (error $shown-failure)))", "(result string)"),
                ],
            ),
            ("call", &[("(case \"client\" string)", "(case \"customer\" string)")]),
            ("call", &[("(case \"client\" string)", "(case \"client\" string) (case \"third\" string)")]),
            ("e", &[(" (field \"details\" (option string))", "")]),
        ];
        for (function, changes) in cases {
            let other = changes.iter().fold(text.clone(), |text, (from, to)| {
                assert!(text.contains(from), "{from}");
                text.replace(from, to)
            });
            let reply = fixture
                .assert_refused("signed", &assemble(&other), "another signature than the plugin contract")
                .json();
            assert!(
                reply["detail"].as_str().is_some_and(|text| text.contains(function)),
                "{function}: {reply}"
            );
            assert!(reply["hint"].as_str().is_some_and(|text| text.contains("`wit/`")), "{reply}");
        }
        fixture.daemon.operator().load("signed", &assemble(&text));
        assert_eq!(fixture.good.call("signed/answer", json!({})).output(), 1);
    });
}

/// Semantic versioning: every `0.1.x` of the contract is compatible, and additional exports are ignored.
#[test]
fn a_later_patch_version_of_the_contract_is_served() {
    with_fixture(|fixture| {
        let text = PluginFile::new("patched").text();
        let later = text.replace("toolgate:plugin/tools@0.1.0", "toolgate:plugin/tools@0.1.7");
        assert_ne!(text, later);
        fixture.daemon.operator().load("patched", &assemble(&later));
        assert_eq!(fixture.good.call("patched/answer", json!({})).output(), 1);
        // A later patch version with another signature is refused as well.
        let other = later.replace(r#"(param "arguments" string)"#, r#"(param "arguments" (list u8))"#);
        fixture.assert_refused("patched-otherwise", &assemble(&other), "another signature");
    });
}
