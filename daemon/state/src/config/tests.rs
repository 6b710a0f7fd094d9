//! Settings that are accepted and refused, over more than one key.

use super::*;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("toolgate.toml"))
}

fn refusal(text: &str) -> (String, String) {
    let error = parse(text).expect_err("the settings are refused");
    (error.to_string(), error.hint().to_owned())
}

#[test]
fn an_empty_file_gives_the_documented_defaults() {
    let config = parse("").expect("defaults");
    assert_eq!(config.data, Path::new("toolgate-data"));
    assert_eq!(config.listen.to_string(), "127.0.0.1:7300");
    assert_eq!(config.http.body_bytes, 8 << 20);
    assert_eq!(config.http.plugin_bytes, 64 << 20);
    assert_eq!(config.sessions.idle_seconds, 24 * 3600);
    assert_eq!(config.calls.recorded_seconds, 24 * 3600);
    assert_eq!(config.calls.per_request, 32);
}

#[test]
fn a_key_of_the_file_takes_the_place_of_its_default() {
    let config = parse(
        "listen = \"[::1]:80\"\n[log]\nformat = \"json\"\nlevel = \"debug\"\n\
         [sandbox]\npagemap_scan = \"off\"\n[limits]\nfuel = 5000",
    )
    .expect("valid settings");
    assert_eq!(config.listen.to_string(), "[::1]:80");
    assert_eq!(config.log.format, LogFormat::Json);
    assert_eq!(config.log.level, LogLevel::Debug);
    assert_eq!(config.sandbox.pagemap_scan, PagemapScan::Off);
}

#[test]
fn a_misspelt_key_names_its_line_and_the_nearest_right_key() {
    let (message, hint) = refusal("# mine\n[http]\nheader_byte = 9000\n");
    assert_eq!(message, "toolgate.toml:3:1: unknown key `header_byte` in `[http]`");
    assert_eq!(hint, "did you mean `header_bytes`?");
}

#[test]
fn a_misspelt_section_names_its_line_and_the_nearest_right_section() {
    let (message, hint) = refusal("[htpp]\nheader_bytes = 9000\n");
    assert_eq!(message, "toolgate.toml:1:2: unknown section `[htpp]`");
    assert_eq!(hint, "did you mean `[http]`?");
}

#[test]
fn a_misspelt_limit_names_the_nearest_limit() {
    let (message, hint) = refusal("[limits]\nfual = 1");
    assert_eq!(message, "toolgate.toml:2:1: unknown key `fual` in `[limits]`");
    assert_eq!(hint, "did you mean `fuel`?");
}

#[test]
fn a_key_of_another_section_is_told_where_it_belongs() {
    let (message, hint) = refusal("body_bytes = 1\n");
    assert_eq!(message, "toolgate.toml:1:1: unknown key `body_bytes`");
    assert_eq!(hint, "`body_bytes` belongs in `[http]`");
}

#[test]
fn a_key_that_resembles_none_gets_the_list() {
    let (_, hint) = refusal("[log]\nzzzzzz = 1\n");
    assert_eq!(hint, "known here: `format`, `level`");
}

#[test]
fn a_number_out_of_range_names_its_line_and_the_range() {
    let (message, hint) = refusal("[calls]\nper_request = 100000");
    assert_eq!(message, "toolgate.toml:2:15: `calls.per_request` is out of range");
    assert_eq!(hint, "write a whole number from 1 to 256");
    assert_eq!(parse("[calls]\nper_request = 256").expect("the ceiling itself").calls.per_request, 256);
}

#[test]
fn a_limit_above_its_ceiling_is_refused() {
    let (message, _) = refusal("[limits]\ndeadline_ms = 999_999_999_999");
    assert_eq!(message, "toolgate.toml:2:15: `limits.deadline_ms` is out of range");
}

#[test]
fn a_value_of_the_wrong_kind_is_told_what_is_wanted() {
    let cases = [
        ("drain_seconds = \"5\"", "write a whole number from 0 to 600"),
        ("drain_seconds = -5", "write a whole number from 0 to 600"),
        ("data = 5", "write a text in quotes"),
        (
            "listen = \"localhost:80\"",
            "write an IP address with a port, like `127.0.0.1:7300` or `[::1]:7300`, or `unix:` and an absolute path",
        ),
        (
            "listen = \"unix:run.sock\"",
            "write an IP address with a port, like `127.0.0.1:7300` or `[::1]:7300`, or `unix:` and an absolute path",
        ),
        ("insecure_listen = \"yes\"", "write `true` or `false`"),
        (
            "[tls]\nclients = [\"a\"]",
            "write names and ids of tokens, like `{ \"worker.example.org\" = \"tok_…\" }`",
        ),
        ("[log]\nformat = \"jsn\"", "write one of `text`, `json`"),
        (
            "allowed_hosts = []",
            "write a list of host names without ports, at least one, like `[\"tools.example.org\"]`",
        ),
        (
            "allowed_hosts = [7]",
            "write a list of host names without ports, at least one, like `[\"tools.example.org\"]`",
        ),
        (
            "allowed_hosts = [\"a:80\"]",
            "write a list of host names without ports, at least one, like `[\"tools.example.org\"]`",
        ),
        ("http = 5", "write it as a section: `[http]`"),
    ];
    for (text, wanted) in cases {
        assert_eq!(refusal(text).1, wanted, "{text}");
    }
}

/// Start-up messages are shown in terminals and logs.
#[test]
fn a_message_quotes_the_file_in_one_line_of_visible_characters() {
    assert_eq!(refusal("\"a\\nb\" = 1").0, "toolgate.toml:1:1: unknown key `a\\nb`");
    assert_eq!(refusal("[\"\\u001b[2J\"]").0, "toolgate.toml:1:2: unknown section `[\\u{1b}[2J]`");
}

#[test]
fn a_host_in_brackets_is_an_address() {
    for text in ["[]", "[a:b]c]", "[::1", "[::1]:80"] {
        assert!(parse(&format!("allowed_hosts = [\"{text}\"]")).is_err(), "{text}");
    }
    assert_eq!(parse("allowed_hosts = [\"[::A]\"]").expect("an address").hosts(), ["[::a]"]);
}

#[test]
fn text_that_is_no_toml_names_its_line() {
    let (message, _) = refusal("listen = \"127.0.0.1:1\"\nhttp = {");
    assert!(message.starts_with("toolgate.toml:2:"), "{message}");
    assert_eq!(message.lines().count(), 1);
}

#[test]
fn an_option_of_serve_wins_over_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("toolgate.toml");
    std::fs::write(&file, "data = \"/a\"\ndrain_seconds = 3").expect("written");
    let overrides = Overrides::parse(Some("/b".into()), Some("127.0.0.1:0"), None).expect("valid options");
    let config = Config::load(Some(&file), overrides).expect("valid settings");
    assert_eq!(config.data, Path::new("/b"));
    assert_eq!(config.listen.to_string(), "127.0.0.1:0");
    assert_eq!(config.drain_seconds, 3);
    assert_eq!(config.store_path().expect("a store"), Path::new("/b/state.db"));
}

#[test]
fn an_option_that_makes_no_sense_is_refused_before_the_file_is_read() {
    for listen in ["nonsense", "127.0.0.1:80000", "localhost:7300", "127.0.0.1"] {
        let error = Overrides::parse(None, Some(listen), None).expect_err("no address");
        assert_eq!(error.to_string(), format!("`--listen {listen}` is no IP address with a port"));
        assert!(error.hint().contains("names are not looked up, and ports end at 65535"));
    }
    let error = Overrides::parse(None, None, Some("postgres://u:secret@db".into())).expect_err("no SQLite");
    assert!(!error.to_string().contains("secret"), "{error}");
    Overrides::parse(None, Some("[::1]:0"), Some("sqlite:/var/state.db".into())).expect("valid options");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Config::load(Some(Path::new("/no/such.toml")), Overrides::default()).expect_err("no file");
    assert!(error.to_string().starts_with("cannot read settings from `/no/such.toml`"), "{error}");
}

#[test]
fn a_store_of_another_kind_is_refused_without_repeating_it() {
    let (message, _) = refusal("store = \"postgres://u:secret@db/toolgate\"");
    assert!(!message.contains("secret"), "{message}");
    let config = parse("store = \"sqlite:/var/state.db\"").expect("a store");
    assert_eq!(config.store_path().expect("a store"), Path::new("/var/state.db"));
}

#[test]
fn shares_larger_than_their_whole_are_refused() {
    assert!(refusal("[queue]\nwaiting_per_organization = 9\nwaiting_total = 8").0.contains("waiting_total"));
    parse("[queue]\nwaiting_per_organization = 8\nwaiting_total = 8").expect("equal is enough");
    let running =
        |of_one: u32| format!("[sandbox]\ninstances = 8\n[queue]\nrunning_per_organization = {of_one}");
    assert!(refusal(&running(9)).0.contains("sandbox.instances"));
    parse(&running(8)).expect("equal is enough");
}

#[test]
fn by_default_one_organization_may_use_three_quarters_of_the_instances() {
    let running = |text: &str| parse(text).expect("valid settings").running_per_organization();
    assert_eq!(running(""), 192);
    for (instances, of_one) in [(1, 1), (2, 2), (3, 3), (4, 3), (1_000, 750)] {
        assert_eq!(running(&format!("[sandbox]\ninstances = {instances}")), of_one);
    }
    assert_eq!(running("[queue]\nrunning_per_organization = 7"), 7);
}

#[test]
fn the_root_key_has_one_source() {
    assert!(
        refusal("[credentials]\nroot_key_file = \"/k\"\nroot_key_environment = \"K\"").0.contains("exclude")
    );
    let vault = "vault_url = \"https://v\"\nvault_token_file = \"/t\"";
    assert!(refusal(&format!("[credentials]\n{vault}")).0.contains("incomplete"));
    assert!(refusal("[credentials]\nvault_kv = \"a/b#c\"").0.contains("incomplete"));
    parse(&format!("[credentials]\n{vault}\nvault_kv = \"a/b#c\"")).expect("complete");
    let references = "vault_references = \"kv/{organization}/\"";
    assert!(refusal(&format!("[credentials]\n{references}")).0.contains("incomplete"));
    for root_key in ["", "root_key_file = \"/k\"", "vault_kv = \"a/b#c\""] {
        parse(&format!("[credentials]\n{vault}\n{references}\n{root_key}")).expect("beside any root key");
    }
    // An organization could have that very name.
    let root_key = "vault_kv = \"kv/toolgate/prod#root\"";
    let (message, hint) = refusal(&format!("[credentials]\n{vault}\n{references}\n{root_key}"));
    assert!(message.contains("lets an organization read") && hint.contains("`kv/`"), "{message}: {hint}");
    for one in ["root_key_file = \"/k\"", "root_key_environment = \"K\""] {
        parse(&format!("[credentials]\n{one}")).expect("one is enough");
    }
}

#[test]
fn a_place_in_a_vault_and_a_url_have_their_forms() {
    let vault = "vault_url = \"https://v\"\nvault_token_file = \"/t\"";
    let cases = [
        ("vault_kv", "x", "secret/toolgate#root_key"),
        ("vault_transit", "transit", "transit/toolgate"),
        ("vault_references", "kv/x/", "kv/tenants/{organization}/"),
        ("vault_url", "nonsense", "https://vault.example.org:8200"),
        ("public_url", "tools.example.org", "https://tools.example.org"),
        ("public_url", "https://a.example/?x=1", "https://tools.example.org"),
        ("public_url", "https://me:secret@a.example", "https://tools.example.org"),
    ];
    for (key, wrong, example) in cases {
        let (message, hint) = refusal(&format!("[credentials]\n{key} = \"{wrong}\""));
        assert!(message.contains(&format!(":2:{}: `credentials.{key}`", key.len() + 4)), "{message}");
        assert!(hint.contains(&format!("`{example}`")), "{hint}");
        let host = if key == "public_url" { "allowed_hosts = [\"tools.example.org\"]\n" } else { "" };
        let sound = match key {
            "public_url" => format!("{host}[credentials]\n{key} = \"{example}\""),
            "vault_url" => format!(
                "[credentials]\n{key} = \"{example}\"\nvault_token_file = \"/t\"\nvault_kv = \"a/b#c\""
            ),
            _ => format!("[credentials]\n{vault}\n{key} = \"{example}\""),
        };
        parse(&sound).expect("the example itself");
    }
}

#[test]
fn o1_a_registry_has_a_host_and_a_user_has_a_password() {
    let registry = "[[plugins.registries]]\nhost = \"127.0.0.1:5000\"\n";
    let config = parse(&format!("{registry}plain_http = true")).expect("a registry");
    assert!(config.plugins.registries()[0].plain_http);
    parse(&format!("{registry}username = \"a\"\npassword_file = \"/p\"")).expect("with a password");
    let vault = "[credentials]\nvault_url = \"https://v\"\nvault_token_file = \"/t\"\n";
    let from_vault = format!("{registry}username = \"a\"\npassword_vault_kv = \"kv/a#b\"\n");
    parse(&format!("{vault}{from_vault}")).expect("with a password in the vault");
    for (text, wanted) in [
        ("[[plugins.registries]]\nplain_http = true".to_owned(), "no `host`"),
        (format!("{registry}{registry}"), "twice"),
        (format!("{registry}username = \"a\""), "without one password"),
        (format!("{registry}password_file = \"/p\""), "without a user"),
        (from_vault, "incomplete"),
        ("[[plugins.registries]]\nhost = \"https://a.example\"".to_owned(), "plugins.registries.host`"),
    ] {
        let (message, _) = refusal(&text);
        assert!(message.contains(wanted), "{text}: {message}");
    }
}

#[test]
fn browsers_reach_the_daemon_under_a_name_that_it_serves() {
    let public = |hosts: &str, url: &str| format!("{hosts}\n[credentials]\npublic_url = \"{url}\"");
    let (message, hint) = refusal(&public("", "https://Tools.example.org/gate/"));
    assert!(message.contains("credentials.public_url"), "{message}");
    assert!(hint.contains("`tools.example.org`"), "{hint}");
    let named = "allowed_hosts = [\"TOOLS.example.org\"]";
    parse(&public(named, "https://Tools.example.org/gate/")).expect("one of them");
    for url in ["http://localhost:7300", "http://127.0.0.1:7300", "http://[::1]:7300"] {
        parse(&public("", url)).expect("a loopback name");
    }
}

#[test]
fn m2_an_issuer_is_complete_and_its_faults_are_told() {
    let oauth = |resource: &str, issuers: &str| format!("[oauth]\n{resource}\n{issuers}");
    let resource = "resource = \"http://localhost:7300/mcp\"";
    let issuer = "[[oauth.issuers]]\nissuer = \"https://a.example/x\"\n";
    let config = parse(&oauth(resource, issuer)).expect("one issuer");
    assert_eq!(config.oauth.issuers()[0].agent_claim, "toolgate_agent");
    let other = "[[oauth.issuers]]\nissuer = \"http://127.0.0.1:9\"\njwks_uri = \"http://[::1]:9/keys\"\n";
    parse(&oauth(resource, &format!("{issuer}{other}"))).expect("two issuers");
    for (resource, issuers, wanted) in [
        (resource, "", "need each other"),
        ("", issuer, "need each other"),
        ("scopes = [\"a\"]", "", "need each other"),
        (resource, "[[oauth.issuers]]\naudience = \"a\"", "has no `issuer`"),
        (resource, &format!("{issuer}{issuer}"), "twice"),
        (resource, &format!("{issuer}audience = \"\""), "is empty"),
        (resource, &format!("{issuer}agent_claim = \"\""), "is empty"),
        (resource, "issuers = []", "oauth.issuers` has a value"),
        (resource, "issuers = [1]", "oauth.issuers` has a value"),
        ("scopes = []", issuer, "oauth.scopes` has a value"),
        ("scopes = [\"a b\"]", issuer, "oauth.scopes` has a value"),
        (resource, &format!("{issuer}jwks_uri = \"http://a.example/keys\""), "oauth.issuers.jwks_uri`"),
        (resource, "[[oauth.issuers]]\nissuer = \"https://a.example/#x\"", "oauth.issuers.issuer`"),
        ("resource = \"http://tools.example/mcp\"", issuer, "oauth.resource`"),
        ("resource = \"https://tools.example/mcp\"", issuer, "is not in `allowed_hosts`"),
    ] {
        let (message, _) = refusal(&oauth(resource, issuers));
        assert!(message.contains(wanted), "{resource} {issuers}: {message}");
    }
    let (message, hint) = refusal(&oauth(resource, &format!("{issuer}isuer = 1")));
    assert_eq!(message, "toolgate.toml:5:1: unknown key `isuer` in `[oauth.issuers]`");
    assert_eq!(hint, "did you mean `issuer`?");
    assert!(refusal("[\"oauth.issuers\"]\nissuer = \"https://a.example\"").0.contains("unknown section"));
}

#[test]
fn a_host_for_plain_http_has_a_port_or_none() {
    for text in ["a.example:0", "a.example:x", "a.example:70000", ":80", "http://a.example", "*.example"] {
        assert!(parse(&format!("[credentials]\nplain_http = [\"{text}\"]")).is_err(), "{text}");
    }
    parse("[credentials]\nplain_http = [\"printer.local:631\", \"a.example\", \"[::1]:80\"]").expect("hosts");
}

#[test]
fn an_address_that_others_reach_needs_tls() {
    let open = "listen = \"10.0.0.7:7300\"\n";
    assert!(refusal(open).0.contains("no TLS"));
    parse(&format!("{open}[tls]\ncertificate = \"a\"\nkey = \"b\"")).expect("with TLS");
    parse("listen = \"[::1]:7300\"").expect("loopback");
    assert!(refusal("[tls]\ncertificate = \"a\"").0.contains("need each other"));
    assert!(refusal("[tls]\ncertificate = \"a\"\nkey = \"b\"\nclients = {}").0.contains("client_ca"));
}

#[test]
fn without_a_list_the_loopback_names_and_the_listen_address_are_hosts() {
    let hosts = |text: &str| parse(text).expect("valid settings").hosts();
    assert_eq!(hosts(""), ["localhost", "127.0.0.1", "[::1]"]);
    let listening = |address: &str| hosts(&format!("insecure_listen = true\nlisten = {address:?}"));
    assert_eq!(listening("10.0.0.7:7300"), ["localhost", "127.0.0.1", "[::1]", "10.0.0.7"]);
    assert_eq!(listening("0.0.0.0:7300"), ["localhost", "127.0.0.1", "[::1]"]);
    assert_eq!(listening("unix:/run/toolgate.sock"), ["localhost", "127.0.0.1", "[::1]"]);
    assert_eq!(hosts("allowed_hosts = [\"Tools.Example.org\"]"), ["tools.example.org"]);
}

#[test]
fn o6_people_have_a_provider_a_claim_and_roles_that_tokens_could_have() {
    let oidc = |more: &str, role: &str| {
        format!(
            "[console.oidc]\nissuer = \"https://login.example\"\nclient_id = \"toolgate\"\n{more}\n\
             [[console.oidc.roles]]\nvalue = \"a\"\n{role}\n"
        )
    };
    let acme = "organization = \"acme\"";
    for role in [
        "role = \"operator\"".to_owned(),
        "role = \"auditor\"".to_owned(),
        format!("role = \"auditor\"\n{acme}"),
        format!("role = \"orchestrator\"\n{acme}\nagents = [\"bot\"]"),
    ] {
        let config = parse(&oidc("", &role)).expect("settings");
        let roles = config.console.oidc.expect("a provider").roles().len();
        assert_eq!(roles, 1, "{role}");
    }
    let approver = format!("role = \"approver\"\n{acme}");
    for (text, why) in [
        ("[console.oidc]\nissuer = \"https://a.example\"".to_owned(), "needs `issuer`, `client_id`"),
        (oidc("scopes = [\"profile\"]", &approver), "has no `openid`"),
        (oidc("claim = \"\"", &approver), "needs `issuer`, `client_id`, `claim`"),
        (oidc("client_secret_file = \"a\"\nclient_secret_vault_kv = \"a/b#c\"", &approver), "vault"),
        (oidc("client_secret_vault_kv = \"a/b#c\"", &approver), "the settings of the vault"),
        (oidc("", "role = \"approver\""), "has no organization"),
        (oidc("", &format!("role = \"operator\"\n{acme}")), "has an operator with an organization"),
        (oidc("", acme), "has no role"),
        (oidc("", &format!("{approver}\nagents = [\"bot\"]")), "has agents"),
        (oidc("", &format!("role = \"orchestrator\"\n{acme}\nagents = [\"acme/bot\"]")), "cannot exist"),
        (
            oidc("", &format!("role = \"agent\"\n{acme}")),
            "`console.oidc.roles.role` has a value of the wrong kind",
        ),
        (oidc("isuer = \"x\"", &approver), "unknown key `isuer` in `[console.oidc]`"),
        ("[console]\noidc = 1".to_owned(), "`console.oidc` has a value of the wrong kind"),
    ] {
        let (message, _) = refusal(&text);
        assert!(message.contains(why), "{message}");
    }
}
