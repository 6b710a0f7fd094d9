//! Names of a server's tools in our grammar.

use crate::name::map;

fn named(namespace: &str, originals: &[&str]) -> Vec<(String, String)> {
    map(namespace, originals).into_iter().map(|(original, name)| (original.to_owned(), name)).collect()
}

#[test]
fn m4_names_are_words_joined_by_underscores() {
    for (original, name) in [
        ("search", "search"),
        ("list_files", "list_files"),
        ("getCurrentWeather", "get_current_weather"),
        ("get-tiny-image", "get_tiny_image"),
        ("notes.forget-all", "notes_forget_all"),
        ("Regional/Query", "regional_query"),
        ("DATA_EXPORT_v2", "data_export_v2"),
        ("parseJSONFile", "parse_json_file"),
        ("HTTPServer", "http_server"),
        ("user2FA", "user2_fa"),
        ("a__b", "a_b"),
        ("__a__", "a"),
        ("2fa", "tool_2fa"),
        ("Größe", "gr_e"),
        ("a b  c", "a_b_c"),
    ] {
        assert_eq!(named("weather", &[original]), [(original.to_owned(), name.to_owned())]);
    }
}

#[test]
fn m4_a_name_without_any_letter_of_ours_has_a_hash() {
    let names = named("weather", &["天気", "検索"]);
    assert!(names.iter().all(|(_, name)| name.starts_with("tool_") && name.len() == 11), "{names:?}");
    assert_ne!(names[0].1, names[1].1);
}

#[test]
fn m4_a_name_that_needs_no_change_is_never_given_to_another_tool() {
    let only = named("weather", &["get_user"]);
    let both = named("weather", &["GetUser", "get-user", "getUser", "get_user", "get_user_2"]);
    assert_eq!(
        both,
        [
            ("GetUser", "get_user_3"),
            ("get-user", "get_user_4"),
            ("getUser", "get_user_5"),
            ("get_user", "get_user"),
            ("get_user_2", "get_user_2")
        ]
        .map(|(original, name)| (original.to_owned(), name.to_owned()))
    );
    assert!(both.contains(&only[0]));
}

#[test]
fn m4_names_do_not_depend_on_the_order_of_the_list() {
    let mut originals = ["b", "B", "a.b", "a_b", "A-B", "b_2"];
    let names = named("weather", &originals);
    originals.reverse();
    assert_eq!(named("weather", &originals), names);
}

#[test]
fn m4_a_long_name_is_shortened_with_a_hash_and_fits_a_wire_name() {
    let namespace = "n".repeat(40);
    let (left, right) = ("a".repeat(80) + "left", "a".repeat(80) + "right");
    for namespace in ["w", namespace.as_str()] {
        let names = named(namespace, &[&left, &right]);
        for (_, name) in &names {
            assert!(format!("call_{namespace}_{name}").len() <= 64 && name.len() <= 58, "{name}");
            toolgate_admission::ToolName::parse(name).unwrap();
        }
        assert_ne!(names[0].1, names[1].1);
    }
    // As long as fits: unchanged.
    let fits = "a".repeat(57);
    assert_eq!(named("w", &[&fits])[0].1, fits);
}

#[test]
fn m4_numbered_names_fit_too() {
    let originals: Vec<String> =
        (0..12).map(|number| format!("{}{}", "a".repeat(58), ".".repeat(number))).collect();
    let originals: Vec<&str> = originals.iter().map(String::as_str).collect();
    let names = named("ab", &originals);
    let distinct: std::collections::BTreeSet<_> = names.iter().map(|(_, name)| name).collect();
    assert_eq!(distinct.len(), 12);
    assert!(names.iter().all(|(_, name)| format!("call_ab_{name}").len() <= 64));
}
