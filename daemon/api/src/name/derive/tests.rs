//! Derived names (requirements 9.4).

use proptest::prelude::*;

use super::{derive_namespace, derive_tool_name, name_collisions};
use crate::name::{Namespace, ToolId, ToolName};

#[test]
fn g4_a_name_is_the_words_of_the_original() {
    for (original, name) in [
        ("search", "search"),
        ("list_files", "list_files"),
        ("getCurrentWeather", "get_current_weather"),
        ("get-tiny-image", "get_tiny_image"),
        ("notes.forget-all", "notes_forget_all"),
        ("Regional/Query", "regional_query"),
        ("DATA_EXPORT_v2", "data_export_v2"),
        ("parseJSONFile", "parse_json_file"),
        ("listAPIKeys", "list_api_keys"),
        ("HTTPServer", "http_server"),
        ("getOAuth2Token", "get_o_auth2_token"),
        ("user2FA", "user2_fa"),
        ("a__b", "a_b"),
        ("__a__", "a"),
        ("2fa", "tool_2fa"),
        ("Größe", "gr_e"),
        ("a b  c", "a_b_c"),
        ("GET /points/{lat},{lon}/forecast", "get_points_lat_lon_forecast"),
    ] {
        assert_eq!(derive_tool_name("weather", original), name);
    }
}

#[test]
fn g4_a_name_without_any_letter_of_ours_has_a_hash() {
    let names = ["天気", "検索"].map(|original| derive_tool_name("weather", original));
    assert!(names.iter().all(|name| name.starts_with("tool_") && name.len() == 11), "{names:?}");
    assert_ne!(names[0], names[1]);
}

/// A name that needs no change is listed with the others: which of them was meant is unknown here.
#[test]
fn g4_colliding_names_are_listed_in_any_order() {
    let mut originals = ["GetUser", "get-user", "get_user", "get_user_2", "search"];
    let listed = name_collisions(originals);
    let name = "get_user".to_owned();
    assert_eq!(
        listed,
        [("GetUser", &name), ("get-user", &name), ("get_user", &name)].map(|(a, b)| (a, b.clone())).into()
    );
    originals.reverse();
    assert_eq!(name_collisions(originals), listed);
    assert!(name_collisions(["a", "b"]).is_empty());
}

#[test]
fn g4_a_long_name_is_cut_between_words_and_ends_in_a_hash() {
    let long = "the_name_of_this_operation_is_much_longer_than_any_wire_name_can_be";
    let name = derive_tool_name("pets", long);
    assert!(name.starts_with("the_name_of_this_operation_is_") && name.len() <= 54, "{name}");
    assert_eq!(derive_tool_name("pets", long), name, "the same each time");
    assert_ne!(derive_tool_name("pets", &format!("{long}_too")), name);
    let fits = "a".repeat(57);
    assert_eq!(derive_tool_name("w", &fits), fits, "as long as fits: unchanged");
}

#[test]
fn c1_a_name_for_people_makes_a_namespace() {
    for (original, name) in [
        ("Weather", Some("weather")),
        ("weather_service", Some("weather-service")),
        ("Weather Service (EU)", Some("weather-service-eu")),
        ("OpenWeatherMap", Some("openweathermap")),
        ("2 Weather", Some("weather")),
        ("天気", None),
        ("42", None),
        (
            "A very long name for people that nobody would ever want to type",
            Some("a-very-long-name-for-people-that-nobody"),
        ),
    ] {
        assert_eq!(derive_namespace(original).as_deref(), name, "{original}");
    }
}

proptest! {
    #[test]
    fn g4_every_name_is_a_tools_name_and_fits(original in "\\PC{0,90}|[a-zA-Z0-9_/.]{0,90}", namespace in "[a-z]{1,40}") {
        let name = derive_tool_name(&namespace, &original);
        let id = ToolId { namespace: Namespace::parse(&namespace).unwrap(), tool: ToolName::parse(&name).unwrap() };
        prop_assert!(id.wire().is_ok(), "{}", name);
        prop_assert_eq!(derive_tool_name(&namespace, &name), name, "ours stay as they are");
    }

    #[test]
    fn c1_every_namespace_that_is_made_is_one(original in "\\PC{0,90}") {
        if let Some(made) = derive_namespace(&original) {
            prop_assert!(Namespace::parse(&made).is_ok(), "{}", made);
        }
    }
}
