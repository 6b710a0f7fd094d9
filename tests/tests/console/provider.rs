//! Sign-in by OpenID Connect, and credentials that a person connects, with a real provider (npm `oidc-provider`).

use std::io::{BufRead, BufReader, Lines};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use toolgate_tests::process::{ServerProcess, find_installed, free_address};
use toolgate_tests::redirects::ProviderBrowser;
use toolgate_tests::{Client, Daemon, Options, PluginFile, Reply, Shared, json, wait};

use crate::PROGRAM;
use crate::person::{Form, Person, SIGN_IN, attributes, unescape};

const BEGIN: &str = "/console/sign-in/provider";
const FINISH: &str = "/console/sign-in/finish";
const SIGN_OUT: &str = "/console/sign-out";

static PEOPLE: Shared<People> = Shared::new();

/// A daemon, and the provider of its people: `ann` is an operator, `bob` an approver and `ola` an owner of `acme`; `eve` has no role.
pub struct People {
    _provider: ServerProcess,
    /// Has the client secret, which is read at each sign-in.
    _folder: tempfile::TempDir,
    pub address: SocketAddr,
    pub daemon: Daemon,
    pub operator: Client,
}

impl People {
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// Starts with more settings of the sign-in.
    pub fn start_with(more: &str) -> Self {
        let (address, listen) = (free_address(), free_address());
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("identity/people.mjs");
        let mut command = Command::new("node");
        command.arg(script).args([address.port().to_string(), format!("http://{listen}")]);
        command.current_dir(find_installed(PROGRAM, "identity"));
        let (provider, line) = ServerProcess::start(&mut command, |_| true);
        assert_eq!(line, issuer(address));
        let folder = tempfile::tempdir().expect("a folder");
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "console-secret-canary\n").expect("a secret");
        let settings = settings(address, &secret.display().to_string(), more);
        let options = Options { settings, listen: Some(listen.to_string()), ..Options::default() };
        let daemon = Daemon::start_with(PROGRAM, options);
        let operator = daemon.operator();
        operator.make_organization("acme");
        Self { _provider: provider, _folder: folder, address, daemon, operator }
    }

    /// Tells the provider something.
    fn control(&self, path: &str) {
        Client::new(self.address, None).get(path).expect(200);
    }

    /// Begins a sign-in. Returns the URL of the provider.
    fn begin(&self, person: &Person, next: &str) -> String {
        let page = person.page(&format!("{SIGN_IN}?next={next}"));
        let links = attributes(&page, "href");
        let link = links.iter().find(|link| link.starts_with(BEGIN)).expect("a link to the provider");
        let reply = person.get(link).expect(303);
        reply.header("location").expect("a location").to_owned()
    }

    /// Signs in at the provider. Returns the path that the provider leads the browser to.
    fn consent(&self, url: &str) -> String {
        let back = ProviderBrowser::default().follow_to(self.address, url, &self.daemon.address.to_string());
        back.split_once(&self.daemon.address.to_string()).expect("the daemon").1.to_owned()
    }

    /// Opens the page that the provider leads to, as a browser does that comes from another site. Returns the address that it goes on
    /// to.
    fn land(&self, path: &str) -> String {
        let page = self.daemon.anonymous().get(path).expect(200);
        assert!(page.header("set-cookie").is_none(), "the page of the provider changes nothing");
        let page = page.text();
        let next = attributes(&page, "content")
            .into_iter()
            .find_map(|content| content.strip_prefix("0;url=").map(str::to_owned));
        let next = next.unwrap_or_else(|| panic!("the page leads nowhere: {page}"));
        assert!(attributes(&page, "href").contains(&next), "the same without a refresh: {page}");
        next
    }

    /// Signs a person in, up to the answer that has the cookie.
    fn sign_in(&self, name: &str, next: &str) -> (Person, Reply) {
        self.control(&format!("/as/{name}"));
        let person = Person::new(&self.daemon);
        let back = self.consent(&self.begin(&person, next));
        let reply = person.get(&self.land(&back));
        (person, reply)
    }
}

fn issuer(address: SocketAddr) -> String {
    format!("http://localhost:{}", address.port())
}

fn settings(address: SocketAddr, secret_file: &str, more: &str) -> String {
    let role = |value: &str, role: &str, organization: &str| {
        format!("[[console.oidc.roles]]\nvalue = \"{value}\"\nrole = \"{role}\"\n{organization}\n")
    };
    let acme = "organization = \"acme\"";
    format!(
        "[credentials]\nplain_http = [\"localhost:{}\"]\n[console.oidc]\nissuer = \"{}\"\nclient_id = \"console\"\n\
         client_secret_file = \"{secret_file}\"\nscopes = [\"openid\", \"groups\"]\n{more}\n{}{}{}",
        address.port(),
        issuer(address),
        role("toolgate-operators", "operator", ""),
        role("acme-owners", "owner", acme),
        role("acme-approvers", "approver", acme),
    )
}

fn with_people(test: impl FnOnce(&mut People)) {
    PEOPLE.with(People::start, test);
}

/// Asserts that no person is signed in, on a page that says why and offers another try.
#[track_caller]
fn expect_nobody(person: &Person, reply: Reply, status: u16, why: &str) {
    let reply = reply.expect(status);
    assert!(
        !reply.headers.iter().any(|(name, value)| name == "set-cookie" && value.contains("console=")),
        "{:?}",
        reply.headers
    );
    let page = unescape(&reply.text());
    assert!(page.contains(why), "no `{why}` in {page}");
    Form::find(&page, SIGN_IN);
    assert!(attributes(&page, "href").iter().any(|link| link.starts_with(BEGIN)), "{page}");
    person.get("/console").expect(303);
}

#[test]
#[cfg_attr(
    not(has = "identity"),
    ignore = "needs the OpenID provider, which `.ci/install-test-tools` installs"
)]
fn o6_a_person_signs_in_at_the_provider_with_the_role_of_the_claim_and_out_again() {
    with_people(|people| {
        let (ann, reply) = people.sign_in("ann", "/console/tokens");
        assert_eq!(reply.expect(303).header("location"), Some("/console/tokens"));
        ann.page("/console/tokens");
        ann.page("/console/plugins");
        let (bob, reply) = people.sign_in("bob", "");
        let reply = reply.expect(303);
        assert_eq!(reply.header("location"), Some("/console"));
        let cookies: Vec<&str> = reply
            .headers
            .iter()
            .filter(|(name, _)| name == "set-cookie")
            .map(|(_, value)| value.as_str())
            .collect();
        assert!(cookies.iter().all(|cookie| cookie.contains("HttpOnly; SameSite=Strict")), "{cookies:?}");
        assert!(
            cookies.iter().any(|cookie| cookie.starts_with("toolgate-sign-in=;")),
            "the sign-in is over: {cookies:?}"
        );
        let page = bob.page("/console/approvals");
        assert!(page.contains("approver of acme"), "{page}");
        assert_eq!(bob.get("/console/plugins").status, 403);
        assert_eq!(bob.get("/console/organizations/acme").status, 403);
        // The audit log has the person.
        let records = people.operator.audit("kind=admin&action=console.sign_in&limit=100");
        let bobs = format!("oidc:{}#bob", issuer(people.address));
        let mut acts = records.iter().map(|row| &row["admin"]);
        let record = acts.find(|act| act["principal"] == *bobs).expect("a record");
        assert_eq!((&record["organization"], &record["target"]), (&json!("acme"), &json!("approver")));
        let thief = bob.copy();
        bob.submit(&Form::find(&page, SIGN_OUT)).expect(303);
        thief.get("/console/approvals").expect(303);
        ann.page("/console");
        for place in [people.daemon.log_text(), json!(records).to_string()] {
            assert!(!place.contains("-canary") && !place.contains("code="), "{place}");
        }
    });
}

#[test]
#[cfg_attr(
    not(has = "identity"),
    ignore = "needs the OpenID provider, which `.ci/install-test-tools` installs"
)]
fn o6_a_person_without_a_role_or_whom_the_provider_refuses_is_not_signed_in() {
    with_people(|people| {
        let (eve, reply) = people.sign_in("eve", "/console/calls");
        expect_nobody(&eve, reply, 403, "no value of your claim `groups` has a role here");
        people.control("/refuse");
        let (bob, reply) = people.sign_in("bob", "");
        expect_nobody(&bob, reply, 401, "The provider refused the sign-in: access_denied");
        people.sign_in("bob", "").1.expect(303);
    });
}

#[test]
#[cfg_attr(
    not(has = "identity"),
    ignore = "needs the OpenID provider, which `.ci/install-test-tools` installs"
)]
fn o6_a_response_that_is_forged_replayed_or_of_another_browser_signs_nobody_in() {
    with_people(|people| {
        people.control("/as/ann");
        let pending = "waits for no such sign-in";
        let stranger = Person::new(&people.daemon);
        expect_nobody(&stranger, stranger.get(&format!("{FINISH}?state=made-up&code=made-up")), 410, pending);
        for query in ["", "code=a", "state=a&state=b&code=c", &format!("state={}", "a".repeat(9_000))] {
            for path in ["/console/sign-in/callback", FINISH] {
                assert_eq!(stranger.get(&format!("{path}?{query}")).status, 400, "{query}");
            }
        }
        // The attacker's response in the browser of a victim, who waits for an own one or for none.
        let attacker = Person::new(&people.daemon);
        let attack = people.land(&people.consent(&people.begin(&attacker, "")));
        let victim = Person::new(&people.daemon);
        expect_nobody(&victim, victim.get(&attack), 410, pending);
        people.begin(&victim, "");
        expect_nobody(&victim, victim.get(&attack), 410, pending);
        // A made-up code of a sign-in of this browser.
        let state = people.begin(&victim, "");
        let state = state.split("&state=").nth(1).and_then(|rest| rest.split('&').next()).expect("a state");
        let made_up = format!(
            "{FINISH}?state={state}&code=made-up&iss={}",
            issuer(people.address).replace(':', "%3A").replace('/', "%2F")
        );
        expect_nobody(&victim, victim.get(&made_up), 401, "does not accept the code");
        // A code works once, also in the browser that it is for.
        let before = attacker.copy();
        attacker.get(&attack).expect(303);
        attacker.page("/console/plugins");
        expect_nobody(&before.copy(), before.get(&attack), 401, "does not accept the code");
    });
}

#[test]
#[cfg_attr(
    not(has = "identity"),
    ignore = "needs the OpenID provider, which `.ci/install-test-tools` installs"
)]
fn o6_an_id_token_that_is_not_for_this_sign_in_is_refused() {
    with_people(|people| {
        for (fault, why) in [
            ("nonce", "its `nonce` is of another sign-in"),
            ("audience", "its audience is not `console`"),
            ("expired", "it has expired"),
            ("key", "its signature is wrong"),
            ("unsigned", "its algorithm is `none`"),
        ] {
            people.control(&format!("/fault/{fault}"));
            let (ann, reply) = people.sign_in("ann", "");
            expect_nobody(&ann, reply, 401, why);
        }
        // The same token without a fault is accepted, so the faults decide.
        people.control("/fault/none");
        people.sign_in("ann", "").1.expect(303);
        people.sign_in("ann", "").1.expect(303);
    });
}

#[test]
#[cfg_attr(
    not(has = "identity"),
    ignore = "needs the OpenID provider, which `.ci/install-test-tools` installs"
)]
fn o6_a_sign_in_at_the_provider_fixes_no_session_and_leads_to_pages_of_the_console_alone() {
    with_people(|people| {
        for foreign in [
            "https://evil.example/",
            "//evil.example/console/",
            "/console/..%2F..%2F%2Fevil.example",
            "/v1/tokens",
        ] {
            let reply = people.sign_in("ann", foreign).1.expect(303);
            assert_eq!(reply.header("location"), Some("/console"), "{foreign}");
        }
        // A cookie that says where to go leads nowhere else, either.
        people.control("/as/ann");
        let person = Person::new(&people.daemon);
        let next = people.land(&people.consent(&people.begin(&person, "/console/tokens")));
        let cookie = person.cookie.borrow().clone().expect("a cookie");
        let (kept, _) = cookie.rsplit_once('.').expect("three parts");
        // `//evil.example` in base64.
        *person.cookie.borrow_mut() = Some(format!("{kept}.Ly9ldmlsLmV4YW1wbGU"));
        assert_eq!(person.get(&next).expect(303).header("location"), Some("/console"));
        // The session that the browser had before ends, and its cookie is not taken over.
        let earlier = person.copy();
        earlier.page("/console");
        let sign_in = Person::new(&people.daemon);
        let next = people.land(&people.consent(&people.begin(&sign_in, "")));
        let both = format!(
            "{}; {}",
            person.cookie.borrow().clone().expect("a session"),
            sign_in.cookie.borrow().clone().expect("a sign-in")
        );
        *person.cookie.borrow_mut() = Some(both);
        person.get(&next).expect(303);
        assert_ne!(*person.cookie.borrow(), *earlier.cookie.borrow());
        person.page("/console");
        earlier.get("/console").expect(303);
    });
}

#[test]
#[cfg_attr(
    not(has = "identity"),
    ignore = "needs the OpenID provider, which `.ci/install-test-tools` installs"
)]
fn o6_the_session_of_a_person_ends_with_the_organization_and_none_begins_without_it() {
    // A daemon of its own, since the organization of the others goes.
    let people = People::start();
    let signed_in = || {
        let (bob, reply) = people.sign_in("bob", "");
        reply.expect(303);
        bob.page("/console/approvals");
        bob
    };
    let (one, other) = (signed_in(), signed_in());
    let tag = people.operator.get("/v1/orgs/acme").expect(200).header("etag").expect("a tag").to_owned();
    let deleted = people.operator.send("DELETE", "/v1/orgs/acme", &[("If-Match", &tag)], b"");
    assert!([200, 204].contains(&deleted.status), "{}", deleted.text());
    one.get("/console/approvals").expect(303);
    let (bob, reply) = people.sign_in("bob", "");
    expect_nobody(&bob, reply, 404, "acme");
    // An organization that gets the name later is another one.
    people.operator.make_organization("acme");
    other.get("/console/approvals").expect(303);
    signed_in();
}

#[test]
#[cfg_attr(
    not(has = "identity"),
    ignore = "needs the OpenID provider, which `.ci/install-test-tools` installs"
)]
fn o6_a_role_that_the_provider_changes_holds_when_the_time_of_the_session_is_over() {
    let people = People::start_with("session_seconds = 2");
    let (bob, reply) = people.sign_in("bob", "");
    reply.expect(303);
    people.control("/member/bob/acme-owners");
    wait::until_true("the session to end", || bob.get("/console/approvals").status == 303);
    // The new session is as short, so that a slow machine may need another one.
    wait::until_true("the new role", || {
        let (bob, reply) = people.sign_in("bob", "");
        reply.expect(303);
        bob.get("/console").text().contains("owner of acme")
    });
    people.control("/member/bob/staff");
    let (bob, reply) = people.sign_in("bob", "");
    expect_nobody(&bob, reply, 403, "no value of your claim `groups` has a role here");
}

#[test]
fn o6_a_provider_that_does_not_answer_leaves_tokens_to_sign_in_with() {
    let daemon = Daemon::start(PROGRAM, &settings(free_address(), "/none", ""));
    let person = Person::new(&daemon);
    let reply = person.get(&format!("{BEGIN}?next=/console/tokens")).expect(502);
    let page = reply.text();
    assert!(page.contains("The provider cannot be used"), "{page}");
    let form = Form::find(&page, SIGN_IN).with("token", &daemon.operator_token());
    assert_eq!(person.submit(&form).expect(303).header("location"), Some("/console/tokens"));
    person.page("/console/tokens");
    // Without the setting there is no such page.
    let plain = Daemon::start(PROGRAM, "");
    let person = Person::new(&plain);
    assert!(!person.page(SIGN_IN).contains(BEGIN));
    for path in [BEGIN, "/console/sign-in/callback?state=a&code=b", &format!("{FINISH}?state=a&code=b")] {
        assert_eq!(person.get(path).status, 404, "{path}");
    }
}

/// The form of a credential that a person connects at the provider.
fn drive(people: &People, page: &str) -> Form {
    let issuer = issuer(people.address);
    Form::find(page, "/console/credentials/acme")
        .with("name", "drive")
        .with("provider", "drive")
        .with("client_id", "drive")
        .with("secret", "drive-secret-canary")
        .with("authorization_url", &format!("{issuer}/auth?prompt=consent"))
        .with("token_url", &format!("{issuer}/token"))
        .with("scopes", "openid")
        .with("bound_to", "https://drive.example/")
}

#[test]
#[cfg_attr(
    not(has = "identity"),
    ignore = "needs the OpenID provider, which `.ci/install-test-tools` installs"
)]
fn o6_one_click_accepts_enables_and_leads_to_the_provider_and_back() {
    with_people(|people| {
        people.operator.load("drives", &drives());
        people.operator.replace("/v1/orgs/acme/policy", &json!({"enabled": []})).expect(200);
        let state = || {
            let reply = people.operator.get("/v1/orgs/acme/credentials/drive");
            if reply.status == 200 {
                reply.json()["state"].as_str().expect("a state").to_owned()
            } else {
                String::new()
            }
        };
        let (ola, reply) = people.sign_in("ola", "/console/catalogue/acme/drives");
        reply.expect(303);
        // Without a credential, the click leads to the form of one, with what the plugin asks for.
        let address = "/console/catalogue/acme/drives";
        let click = || Form::press(&ola.page(address), "act", "all").with("accept", "on");
        let reply = ola.submit(&click()).expect(303);
        let kinds = ola.page(reply.header("location").expect("a location"));
        let links = attributes(&kinds, "href");
        let link = links.iter().find(|link| link.contains("/new/oauth2_authorization_code")).expect("a kind");
        let page = ola.page(link);
        let form = drive(people, &page);
        assert_eq!(
            Form::find(&page, "/console/credentials/acme").field("bound_to"),
            Some("https://drive.example/files/")
        );
        ola.submit(&form).expect(303);
        assert_eq!(state(), "pending");
        // With one, it leads to the provider.
        let consent = ola.submit(&click()).expect(200).text();
        let links = attributes(&consent, "href");
        let url = links.iter().find(|link| link.starts_with(&issuer(people.address))).expect("the provider");
        people.control("/refuse");
        let refused = people.daemon.anonymous().get(&people.consent(url)).expect(424);
        assert!(unescape(&refused.text()).contains("acme/drive is not connected"), "{}", refused.text());
        assert_eq!(state(), "pending");
        let consent = ola.submit(&click()).expect(200).text();
        let links = attributes(&consent, "href");
        let url = links.iter().find(|link| link.starts_with(&issuer(people.address))).expect("the provider");
        let next = people.land(&people.consent(url));
        assert_eq!((next.as_str(), state().as_str()), ("/console/credentials/acme/drive", "connected"));
        let page = ola.page(&next);
        for page in [&page, &consent, &kinds] {
            assert!(!page.contains("-canary"), "{page}");
        }
        let view = people.operator.get("/v1/orgs/acme/enabled/drives").expect(200).json();
        assert_eq!((&view["enabled"], &view["missing_integrations"]), (&json!(true), &json!([])));
        let delete = Form::all(&page).into_iter().find(|form| form.field("act") == Some("delete"));
        ola.submit(&delete.expect("a form")).expect(303);
    });
}

/// A third party's plugin whose tools need the provider `drive`.
pub fn drives() -> Vec<u8> {
    let asked = json!({"network": [{"host": "drive.example", "path": "/files/"}], "credentials": ["drive"]});
    let plugin = PluginFile::new("drives").with_member("capabilities", asked);
    plugin.with_tool("required_integrations", json!(["drive"])).build()
}

/// A person who logs in at a terminal.
struct Terminal {
    child: Child,
    told: Lines<BufReader<ChildStderr>>,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Terminal {
    /// Runs a command with the contexts of this person.
    fn command(folder: &tempfile::TempDir, args: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(args).env("XDG_CONFIG_HOME", folder.path()).current_dir(folder.path());
        command
    }

    /// Begins to log in, and reads the code.
    fn login(folder: &tempfile::TempDir, args: &[&str]) -> (Self, String) {
        let mut command = Self::command(folder, &[&["login", "--oidc"], args].concat());
        let mut child =
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("a child process");
        let mut told = BufReader::new(child.stderr.take().expect("piped")).lines();
        let asks = told
            .find_map(|line| line.expect("text").split_once(" and type ").map(|(_, code)| code.to_owned()));
        (Self { child, told }, asks.expect("a code"))
    }

    /// Waits for the end of the login. Returns whether it worked, and what it said.
    fn end(&mut self) -> (bool, String) {
        let told: Vec<String> = self.told.by_ref().map(|line| line.expect("text")).collect();
        (self.child.wait().expect("an end").success(), told.join("\n"))
    }
}

impl People {
    /// Types a code at the provider's page, as the person that signs in there.
    fn type_code(&self, code: &str) {
        let browser = ProviderBrowser::default();
        let token = |page: &str| {
            let (_, rest) = page.split_once("name=\"xsrf\" value=\"").expect("a form");
            rest.split('"').next().expect("a token").to_owned()
        };
        let page = browser.page(self.address, "GET", "/device", "");
        let typed = format!("xsrf={}&user_code={code}", token(&page));
        let page = browser.page(self.address, "POST", "/device", &typed);
        let confirmed = format!("xsrf={}&user_code={code}&confirm=yes", token(&page));
        let page = browser.page(self.address, "POST", "/device", &confirmed);
        assert!(page.contains("Success"), "the code is not taken: {page}");
    }
}

#[test]
#[cfg_attr(
    not(has = "identity"),
    ignore = "needs the OpenID provider, which `.ci/install-test-tools` installs"
)]
fn o6_a_person_logs_in_at_a_terminal_with_the_role_of_the_claim_and_again() {
    with_people(|people| {
        people.control("/as/ann");
        let server = format!("http://{}", people.daemon.address);
        let folder = tempfile::tempdir().expect("a folder");
        let (mut terminal, code) = Terminal::login(&folder, &["prod", "--server", &server]);
        people.type_code(&code);
        let (is_logged_in, told) = terminal.end();
        assert!(is_logged_in && told.contains("signed in as operator until "), "{told}");
        let listed = Terminal::command(&folder, &["token", "list", "--json"]).output().expect("an output");
        let listed = String::from_utf8(listed.stdout).expect("text");
        let label = format!("oidc:{}#ann", issuer(people.address));
        assert!(listed.contains(&label), "{listed}");
        let records = people.operator.get("/v1/audit?action=token.create").expect(200).text();
        assert!(records.contains(&label), "the person made it: {records}");

        // Without a server it is the same daemon again; the claim decides anew.
        people.control("/as/bob");
        let (mut terminal, code) = Terminal::login(&folder, &[]);
        people.type_code(&code);
        let (is_logged_in, told) = terminal.end();
        assert!(is_logged_in && told.contains("signed in as approver until "), "{told}");
        let listed = Terminal::command(&folder, &["token", "list"]).output().expect("an output");
        assert!(!listed.status.success(), "an approver sees no tokens");

        people.control("/as/eve");
        let (mut terminal, code) = Terminal::login(&folder, &[]);
        people.type_code(&code);
        let (is_logged_in, told) = terminal.end();
        assert!(!is_logged_in && told.contains("no value of your claim `groups` has a role here"), "{told}");
    });
}
