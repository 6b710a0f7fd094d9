//! Names of a server's tools in our grammar.

use crate::name::{collisions, map};

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
        assert_eq!(map("weather", original), name);
    }
}

#[test]
fn m4_a_name_without_any_letter_of_ours_has_a_hash() {
    let names = ["天気", "検索"].map(|original| map("weather", original));
    assert!(names.iter().all(|name| name.starts_with("tool_") && name.len() == 11), "{names:?}");
    assert_ne!(names[0], names[1]);
}

/// One that needs no change is refused with the others: which of them was meant is not for this room to guess.
#[test]
fn m4_names_that_become_the_same_are_told_whatever_their_order() {
    let mut originals = ["GetUser", "get-user", "get_user", "get_user_2", "search"];
    let told = collisions(originals);
    let name = "get_user".to_owned();
    assert_eq!(
        told,
        [("GetUser", &name), ("get-user", &name), ("get_user", &name)].map(|(a, b)| (a, b.clone())).into()
    );
    originals.reverse();
    assert_eq!(collisions(originals), told);
    assert!(collisions(["a", "b"]).is_empty());
}

#[test]
fn m4_a_long_name_is_shortened_with_a_hash_and_fits_a_wire_name() {
    let namespace = "n".repeat(40);
    let (left, right) = ("a".repeat(80) + "left", "a".repeat(80) + "right");
    for namespace in ["w", namespace.as_str()] {
        let names = [&left, &right].map(|original| map(namespace, original));
        for name in &names {
            assert!(format!("call_{namespace}_{name}").len() <= 64 && name.len() <= 58, "{name}");
            toolgate_admission::ToolName::parse(name).unwrap();
        }
        assert_ne!(names[0], names[1]);
    }
    // As long as fits: unchanged.
    let fits = "a".repeat(57);
    assert_eq!(map("w", &fits), fits);
}
