//! Set-up shared by most tests: organization, agent, session and calls.

use serde_json::{Value, json};

use crate::client::{Client, Pending, Reply};
use crate::daemon::Daemon;
use crate::events::Stream;

/// Open session, and the client that uses it.
#[derive(Clone, Debug)]
pub struct Session {
    pub client: Client,
    pub id: String,
}

/// Result of one call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallReply(pub Value);

impl Client {
    /// Creates the agent `ORGANIZATION/AGENT`, and its organization if needed. The agent is autonomous unless its
    /// document says otherwise.
    pub fn make_agent(&self, agent: &str, document: &Value) {
        let (organization, name) = agent.split_once('/').expect("`ORGANIZATION/AGENT`");
        self.make_organization(organization);
        let mut document = document.clone();
        if let Some(members) = document.as_object_mut() {
            members.entry("autonomy").or_insert(json!("autonomous"));
        }
        self.make(&format!("/v1/orgs/{organization}/agents/{name}"), &document).expect(201);
    }

    /// Creates an organization that enables every tool, unless it exists.
    pub fn make_organization(&self, organization: &str) {
        let path = format!("/v1/orgs/{organization}");
        if self.get(&path).status == 404 {
            self.make(&path, &json!({"display_name": organization})).expect(201);
            self.make(&format!("{path}/policy"), &json!({"enabled": "*"})).expect(201);
        }
    }

    /// Opens a session for an agent.
    pub fn open_session(&self, agent: &str) -> Session {
        let opened = self.post("/v1/sessions", &json!({"agent": agent})).expect(201).json();
        let id = opened["session"].as_str().expect("a session has an id").to_owned();
        Session { client: self.clone(), id }
    }

    /// Creates a token and returns a client with it.
    pub fn with_new_token(&self, request: &Value) -> Self {
        let made = self.post("/v1/tokens", request).expect(201).json();
        Self::new(self.address, made["token"].as_str())
    }

    /// Loads a valid plugin file, approves it if it differs from the version that serves, and grants it the workspace if it
    /// asks for that and has no grant.
    #[track_caller]
    pub fn load(&self, namespace: &str, file: &[u8]) -> Value {
        let loaded = self.upload_approved(namespace, file);
        if loaded["capabilities"]["filesystem"] == "workspace" {
            let path = format!("/v1/plugins/{namespace}/grant");
            let granted =
                self.make(&path, &json!({"filesystem": "workspace", "confirmed_hints": loaded["digest"]}));
            assert!(matches!(granted.status, 201 | 412), "{}", granted.text());
        }
        loaded
    }

    /// Uploads a valid plugin file, and approves it if it differs from the version that serves.
    #[track_caller]
    pub fn upload_approved(&self, namespace: &str, file: &[u8]) -> Value {
        let loaded = self.upload(namespace, file).expect(200).json();
        match loaded["state"] == "quarantined" {
            true => self.approve(namespace, &loaded["digest"]).expect(200).json(),
            false => loaded,
        }
    }

    /// Approves the version of a plugin that waits for consent.
    pub fn approve(&self, namespace: &str, digest: &Value) -> Reply {
        self.post(&format!("/v1/plugins/{namespace}/approve"), &json!({"digest": digest}))
    }

    /// Loads a plugin without capabilities, and confirms its hints.
    pub fn load_confirmed(&self, namespace: &str, file: &[u8]) {
        let loaded = self.load(namespace, file);
        let path = format!("/v1/plugins/{namespace}/grant");
        self.make(&path, &json!({"confirmed_hints": loaded["digest"]})).expect(201);
    }

    /// Returns the first page of an audit search.
    pub fn audit(&self, query: &str) -> Vec<Value> {
        let page = self.get(&format!("/v1/audit?{query}")).expect(200).json();
        page["items"].as_array().cloned().unwrap_or_default()
    }
}

impl Daemon {
    /// Opens a session of a new agent that may call every tool within these limits.
    pub fn session_within(&self, agent: &str, limits: &Value) -> Session {
        let operator = self.operator();
        operator.make_agent(agent, &json!({"enabled": ["*"], "limits": limits}));
        operator.open_session(agent)
    }
}

impl Session {
    /// Calls a tool and waits for the result.
    pub fn call(&self, tool: &str, arguments: Value) -> CallReply {
        let call = json!({"tool": tool, "arguments": arguments});
        self.calls(&[call]).remove(0)
    }

    /// Calls a tool with a call id and waits for the result.
    pub fn call_as(&self, id: &str, tool: &str, arguments: Value) -> CallReply {
        self.calls(&[json!({"id": id, "tool": tool, "arguments": arguments})]).remove(0)
    }

    /// Posts several calls in one request.
    #[track_caller]
    pub fn calls(&self, calls: &[Value]) -> Vec<CallReply> {
        let answer = self.post(&json!({"calls": calls})).expect(200).json();
        let results = answer["results"].as_array().cloned().unwrap_or_default();
        assert_eq!(results.len(), calls.len(), "{answer}");
        results.into_iter().map(CallReply).collect()
    }

    /// Posts a body that may be invalid.
    pub fn post(&self, body: &Value) -> Reply {
        self.client.post(&self.path("/calls"), body)
    }

    /// Starts a call without waiting. Dropping the return value hangs up, and the call goes on.
    pub fn start(&self, id: &str, tool: &str, arguments: Value) -> Pending {
        self.start_post(&json!({"calls": [{"id": id, "tool": tool, "arguments": arguments}]}))
    }

    /// Starts a call that ends when the return value is dropped.
    pub fn start_cancellable(&self, id: &str, tool: &str, arguments: Value) -> Pending {
        let calls = json!([{"id": id, "tool": tool, "arguments": arguments}]);
        self.start_post(&json!({"calls": calls, "on_disconnect": "cancel"}))
    }

    /// Starts a request with calls.
    pub fn start_post(&self, body: &Value) -> Pending {
        let body = body.to_string();
        let headers = [("Content-Type", "application/json")];
        self.client.start("POST", &self.path("/calls"), &headers, body.as_bytes())
    }

    /// Starts a call that sleeps for ever, and returns once the guest has reported progress.
    pub fn start_dozing(&self, id: &str) -> Pending {
        let mut events = Stream::open(&self.client, &self.path("/events"));
        let pending = self.start_cancellable(id, "hostile/doze", json!({}));
        let mut began = false;
        while !began {
            let (name, event) = events.next().expect("an event");
            began = name == "progress" && event["call"] == id;
        }
        pending
    }

    /// Waits until the call is queued or running. On a busy machine a short call may have ended by then.
    pub fn wait_until_running(&self, id: &str) {
        let path = self.path(&format!("/calls/{id}"));
        crate::wait::until_true("the call to run", || self.client.get(&path).status == 200);
    }

    /// Reads a call.
    pub fn get_call(&self, id: &str) -> CallReply {
        CallReply(self.client.get(&self.path(&format!("/calls/{id}"))).expect(200).json())
    }

    /// Gets a call as the answer to its request had it: with session and conversation beside it.
    pub fn get_result(&self, id: &str) -> CallReply {
        let mut reply = self.get_call(id);
        let members = reply.0.as_object_mut().expect("an object");
        assert_eq!(members.remove("session"), Some(json!(self.id)), "{members:?}");
        members.remove("conversation");
        reply
    }

    pub fn cancel(&self, id: &str) -> Reply {
        self.client.delete(&self.path(&format!("/calls/{id}")))
    }

    /// Disables or enables a tool in this session; its name is percent-encoded.
    pub fn set_disabled(&self, tool: &str, disabled: bool) -> Reply {
        let body = json!({"disabled": disabled}).to_string();
        let headers = [("Content-Type", "application/json")];
        self.client.send("PUT", &self.path(&format!("/tools/{tool}")), &headers, body.as_bytes())
    }

    pub fn put_file(&self, path: &str, bytes: &[u8]) -> Reply {
        self.client.send("PUT", &self.path(&format!("/files/{path}")), &[], bytes)
    }

    pub fn get_file(&self, path: &str) -> Reply {
        self.client.get(&self.path(&format!("/files/{path}")))
    }

    /// Path of a resource of this session.
    pub fn path(&self, rest: &str) -> String {
        format!("/v1/sessions/{}{rest}", self.id)
    }

    /// Returns the audit row of a call: intent and outcome are merged into one row.
    #[track_caller]
    pub fn audit_row(&self, auditor: &Client, id: &str) -> Value {
        let rows = auditor.audit(&format!("kind=call&session={}&call={id}", self.id));
        assert_eq!(rows.len(), 1, "one row per call: {rows:?}");
        rows[0].clone()
    }
}

impl CallReply {
    pub fn id(&self) -> &str {
        self.text("id")
    }

    pub fn status(&self) -> &str {
        self.text("status")
    }

    /// The `error_type` of a failed call.
    pub fn error_type(&self) -> Option<&str> {
        self.0["error"]["error_type"].as_str()
    }

    pub fn message(&self) -> &str {
        self.0["error"]["message"].as_str().unwrap_or_default()
    }

    /// The exceeded limit, from the details of the error.
    pub fn limit(&self) -> Option<&str> {
        self.0["error"]["details"]["limit"].as_str()
    }

    /// The id of the approval for which the call waits.
    #[track_caller]
    pub fn approval(&self) -> String {
        self.0["approval"]["id"].as_str().unwrap_or_else(|| panic!("no approval: {}", self.0)).to_owned()
    }

    pub fn usage(&self, name: &str) -> u64 {
        self.0["usage"][name].as_u64().unwrap_or_default()
    }

    /// Asserts success, and returns the output.
    #[track_caller]
    pub fn output(&self) -> &Value {
        assert_eq!(self.status(), "ok", "{}", self.0);
        &self.0["output"]
    }

    /// Asserts an error with this code, a message and a hint. Returns the reply.
    #[track_caller]
    pub fn expect_error(self, error_type: &str) -> Self {
        assert_eq!(self.error_type(), Some(error_type), "{}", self.0);
        assert_eq!(self.status(), "error", "{}", self.0);
        assert!(!self.message().is_empty() && self.0["error"]["hint"] != "", "{}", self.0);
        self
    }

    fn text(&self, member: &str) -> &str {
        self.0[member].as_str().unwrap_or_default()
    }
}
