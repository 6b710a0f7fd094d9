//! Custom tools: tools of an organization without code, from the definition of an HTTP API (C1) or the address of an
//! MCP server (M4).
//!
//! A built-in component turns a definition into a plugin of this organization alone, which is served beside the
//! shared plugins with the same sandbox and the same gate. It may reach what its definition names, unless an operator
//! grants something else.
//!
//! The tools of a mounted server are discovered by an ordinary call, never during `describe`. By writing the
//! definition its owner consents to the tools found then; tools found later wait for consent ([`mount`]).

mod definition;
mod mount;
mod view;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;
use toolgate_admission::{Catalogue, Descriptor, Digest, Plugin, Rules, Warning};
use toolgate_api::custom_tool::CustomToolView;
use toolgate_api::definition::DefinitionKind;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::grant::Grant;
use toolgate_api::limits::LimitsPatch;
use toolgate_api::name::Name;
use toolgate_api::policy::{AgentDocument, OrgDocument, PlatformDocument, RedactSettings, ServerBinding};
use toolgate_macros::boxed;
use toolgate_sandbox::Component;
use toolgate_state::clock::now_ms;
use toolgate_state::documents::{
    Document, DocumentKey, DocumentKind, Precondition, PreconditionResult, ToolKey,
};
use toolgate_state::store::{Stamp, StoreError, WriteResult};

use crate::call::RequestedCall;
use crate::dispatch::{Dispatcher, Origin, TestCall, TestCallResult};
use crate::plugins::Definition;
use crate::registry::{CheckedChange, Replacement, Snapshot};
use crate::services::Services;
use definition::ParsedDefinition;
use mount::Mount;

/// Number of locks (sharded by organization), more than the expected concurrent writes.
const LOCKS: usize = 64;
/// Timeout for a place in the sandbox queue, which a definition shares with calls.
const PLACE_PATIENCE: Duration = Duration::from_secs(30);
/// Limit of invalid tools that are left out per server; each one costs another run of `describe` for the rest.
const LEFT_OUT: usize = 20;

/// Limit of tools per organization. Each change renumbers all of them and recompiles the rules.
const TOOLS: usize = 200;

/// The custom tools of all organizations. A lock per organization, sharded by a hash of its name, covers writing a
/// tool to the store and serving it, so both happen in the same order. Cheap to clone.
#[derive(Clone)]
pub struct CustomTools {
    services: Arc<Services>,
    dispatcher: Dispatcher,
    locks: Arc<[Mutex<()>]>,
}

/// Subject of a trial.
pub enum Tryout<'a> {
    /// A saved tool, by name.
    Saved(&'a str),
    /// An action of a definition that need not be saved.
    Unsaved {
        /// Key of the tool that the definition would have.
        key: &'a ToolKey,
        /// The definition.
        definition: &'a str,
        /// Name of the action.
        action: &'a str,
    },
}

/// A tool that was put, or checked by a dry run.
pub struct PutTool {
    /// The stored document; `None` for a dry run.
    pub written: Option<WriteResult>,
    /// The tool.
    pub view: CustomToolView,
    /// The reasons why agents may be unable to call it.
    pub warnings: Vec<Warning>,
}

#[boxed]
impl CustomTools {
    /// Creates the set without any tool; [`CustomTools::restore`] serves the stored ones.
    pub fn new(services: Arc<Services>) -> Self {
        let dispatcher = Dispatcher::new(Arc::clone(&services));
        Self { services, dispatcher, locks: (0..LOCKS).map(|_| Mutex::default()).collect() }
    }

    /// Serves the stored tools after a restart. A tool that can no longer be built is skipped and logged.
    pub async fn restore(&self, documents: Vec<Document>) {
        for document in documents {
            let DocumentKey::Tool(key) = document.key else { continue };
            match self.remade(&key, &document.body).await {
                Ok(plugin) => self.serve(&key, Some(plugin)),
                Err(error) => {
                    tracing::error!(tool = %key, reason = error.message, "a tool of an organization cannot be served");
                }
            }
        }
    }

    async fn remade(&self, key: &ToolKey, body: &str) -> Result<Plugin<Component>, CallError> {
        let definition = ParsedDefinition::parse(body)?;
        let mount = self.mount(key).await?;
        self.make(key, &definition, mount.as_ref(), self.read_grant(key).await?).await
    }

    /// Creates or replaces a tool, and serves it. Without a stamp all of it is checked, and nothing is stored or served.
    pub async fn put(
        &self,
        key: &ToolKey,
        body: &str,
        precondition: &Precondition,
        origin: &Origin,
        stamp: Option<Stamp<'_>>,
    ) -> Result<PutTool, CallError> {
        let definition = ParsedDefinition::parse(body)?;
        self.services.registry.wait_for_asserted(Some(&key.organization)).await;
        self.check_place(key)?;
        self.check_precondition(key, precondition).await?;
        let found = match definition.kind == DefinitionKind::Mcp
            && !self.is_mounted_already(key, &definition).await?
        {
            true => Some(self.discover(key, &definition, origin).await?),
            false => None,
        };
        // INVARIANT: the lock covers the read and the switch, so a concurrent grant, consent or definition takes
        // effect entirely before or entirely after this one.
        let _in_order = self.in_order(key).await;
        self.check_place(key)?;
        let mount = match (definition.kind, found) {
            (DefinitionKind::Http | DefinitionKind::Shell, _) => None,
            (DefinitionKind::Mcp, Some(found)) => Some(Mount::new(found)),
            (DefinitionKind::Mcp, None) => Some(self.same_mount(key, &definition).await?),
        };
        let plugin = self.make(key, &definition, mount.as_ref(), self.read_grant(key).await?).await?;
        let view = view::tool_view(key, definition.kind, &plugin, mount.as_ref());
        let warnings = self.warnings(key, definition.kind, &plugin);
        let mount = mount.map(|mount| (DocumentKey::Mount(key.clone()), mount.text()));
        let beside = mount.as_ref().map(|(key, text)| (key, text.as_str()));
        let document = DocumentKey::Tool(key.clone());
        let store = &self.services.store;
        let _checked = self.check_assertions(key, Some(&plugin)).await?;
        let Some(stamp) = stamp else {
            self.forget_unserved(key, &plugin.digest).await;
            store.check_put(&document, precondition).await?;
            return Ok(PutTool { written: None, view, warnings });
        };
        let written = store.put_documents((&document, body), beside, precondition, stamp).await?;
        self.serve_instead(key, Some(plugin)).await;
        Ok(PutTool { written: Some(written), view, warnings })
    }

    /// Deletes a tool.
    pub async fn remove(
        &self,
        key: &ToolKey,
        precondition: &Precondition,
        stamp: Stamp<'_>,
    ) -> Result<(), CallError> {
        let document = DocumentKey::Tool(key.clone());
        self.services.registry.wait_for_asserted(Some(&key.organization)).await;
        let _in_order = self.in_order(key).await;
        let _checked = self.check_assertions(key, None).await?;
        self.services.store.delete_document(&document, precondition, stamp).await?;
        let enabled = Replacement::Enabled(key.organization.clone(), key.namespace.clone(), None);
        self.services.registry.put(enabled);
        self.serve_instead(key, None).await;
        Ok(())
    }

    /// Sets the operator's grant of a tool, which replaces the hosts that its definition names. The grant may precede
    /// the tool, for a server whose tools can be listed only with it. Without a stamp the grant is only checked.
    pub async fn grant(
        &self,
        key: &ToolKey,
        body: &str,
        grant: Grant,
        precondition: &Precondition,
        stamp: Option<Stamp<'_>>,
    ) -> Result<Option<WriteResult>, CallError> {
        let _in_order = self.in_order(key).await;
        let plugin = self.under_grant(key, Arc::new(grant));
        let _checked = match &plugin {
            Some(plugin) => {
                Some(self.services.registry.check_own_plugin(key, Some(Arc::clone(plugin))).await?)
            }
            None => None,
        };
        let document = DocumentKey::ToolGrant(key.clone());
        let Some(stamp) = stamp else {
            self.services.store.check_put(&document, precondition).await?;
            return Ok(None);
        };
        let written = self.services.store.put_document(&document, body, precondition, stamp).await?;
        if plugin.is_some() {
            self.services.registry.serve_to(&key.organization, &key.namespace, plugin);
        }
        Ok(Some(written))
    }

    /// The served plugin under another grant. A definition describes its tools, so descriptions in a grant count only for
    /// a plugin that the organization loaded.
    fn under_grant(&self, key: &ToolKey, granted: Arc<Grant>) -> Option<Arc<Plugin<Component>>> {
        let owned = self.services.plugins.owned_under(key, &granted);
        owned.or_else(|| Some(Arc::new(Plugin { granted, ..Plugin::clone(&*self.plugin(key)?) })))
    }

    /// Returns the descriptor of a served tool.
    pub fn descriptor(&self, key: &ToolKey) -> Option<Arc<Descriptor>> {
        Some(Arc::clone(&self.plugin(key)?.descriptor))
    }

    /// Fetches the current tools of a mounted server. A difference from the consented tools waits for consent.
    pub async fn refresh(&self, key: &ToolKey, origin: &Origin) -> Result<CustomToolView, CallError> {
        let (asked, _) = self.read_mount(key).await?;
        let found = self.discover(key, &asked, origin).await?;
        let _in_order = self.in_order(key).await;
        let (definition, mut mount) = self.read_mount(key).await?;
        if !definition.mounts_the_same_as(&asked) {
            return Err(mount::replacement_error(key));
        }
        mount
            .note(found, async |discovered| {
                let mount = Mount::new(discovered);
                let plugin = self.make(key, &definition, Some(&mount), self.read_grant(key).await?).await?;
                Ok(plugin.digest.to_string())
            })
            .await?;
        self.keep(key, &mount).await?;
        self.view(key).await
    }

    /// Consents to the waiting tools, if `digest` identifies them.
    pub async fn approve(&self, key: &ToolKey, digest: &str) -> Result<CustomToolView, CallError> {
        self.services.registry.wait_for_asserted(Some(&key.organization)).await;
        let _in_order = self.in_order(key).await;
        let (definition, mount) = self.read_mount(key).await?;
        let mount = mount.with_consent(key, digest)?;
        let plugin = self.make(key, &definition, Some(&mount), self.read_grant(key).await?).await?;
        if plugin.digest.as_str() != digest {
            return Err(mount::not_that(key));
        }
        let _checked = self.check_assertions(key, Some(&plugin)).await?;
        self.keep(key, &mount).await?;
        self.serve_instead(key, Some(plugin)).await;
        self.view(key).await
    }

    /// Lists the tools of an organization by namespace, after `after`, at most `limit`.
    pub async fn list(
        &self,
        organization: &Name,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<CustomToolView>, CallError> {
        let (mut views, mut after) = (Vec::new(), after.map(str::to_owned));
        while views.len() < limit as usize {
            // One at a time, since each can have megabytes.
            let scope = organization.as_str();
            let found =
                self.services.store.documents(DocumentKind::Tool, scope, after.as_deref(), 1).await?.pop();
            let Some(Document { key, body, .. }) = found else { break };
            after = Some(key.name().to_owned());
            if let DocumentKey::Tool(key) = key {
                views.push(view::in_list(self.view_of(&key, &body).await?));
            }
        }
        Ok(views)
    }

    /// A tool, with the reasons why agents may be unable to call it.
    pub async fn find(&self, key: &ToolKey) -> Result<(CustomToolView, Vec<Warning>), CallError> {
        let document = self.document(key).await?;
        let kind = kind_of(&document.body);
        let warnings = self.plugin(key).map_or_else(Vec::new, |plugin| self.warnings(key, kind, &plugin));
        Ok((self.view_of(key, &document.body).await?, warnings))
    }

    /// Runs a tool once as a trial (C3).
    pub async fn try_out(
        &self,
        organization: &Name,
        user: Option<String>,
        tryout: Tryout<'_>,
        arguments: Arc<str>,
        origin: &Origin,
    ) -> Result<TestCallResult, CallError> {
        let mut made = None;
        let (rules, tool) = match tryout {
            Tryout::Saved(tool) => {
                let snapshot = self.services.registry.snapshot();
                (snapshot.rules_with(organization, AgentDocument::allow_all()), tool.to_owned())
            }
            Tryout::Unsaved { key, definition, action } => {
                // Rules refer to names: under the name of another plugin, the trial would have that plugin's
                // permissions.
                self.check_name(key)?;
                let definition = ParsedDefinition::parse(definition)?;
                let mount = match definition.kind {
                    DefinitionKind::Http | DefinitionKind::Shell => None,
                    DefinitionKind::Mcp => Some(Mount::new(self.discover(key, &definition, origin).await?)),
                };
                let plugin = self.make(key, &definition, mount.as_ref(), self.read_grant(key).await?).await?;
                let snapshot = self.services.registry.snapshot();
                let limits = snapshot.limits().clone();
                made = Some((key, plugin.digest.clone()));
                (alone(&snapshot, organization, plugin, limits), format!("{}/{action}", key.namespace))
            }
        };
        let call = RequestedCall::new("try", &tool, arguments);
        let test = TestCall::new(organization.clone(), user, rules);
        let result = self.dispatcher.test_call(&self.services.sessions, test, call, origin).await;
        if let Some((key, digest)) = made {
            self.forget_unserved(key, &digest).await;
        }
        result
    }

    fn warnings(&self, key: &ToolKey, kind: DefinitionKind, plugin: &Plugin<Component>) -> Vec<Warning> {
        let mut warnings = view::warnings(&self.services.registry.snapshot(), key, plugin);
        if kind == DefinitionKind::Http {
            warnings.extend(view::refused_names(plugin));
        }
        warnings
    }

    async fn make(
        &self,
        key: &ToolKey,
        definition: &ParsedDefinition<'_>,
        mount: Option<&Mount>,
        granted: Option<Arc<Grant>>,
    ) -> Result<Plugin<Component>, CallError> {
        let discovered = mount.map(|mount| mount.discovered.get());
        let definition = Definition {
            organization: &key.organization,
            namespace: &key.namespace,
            kind: definition.kind,
            document: &definition.text,
            trace_context: definition.trace_context,
            discovered,
        };
        // The built-in component runs in the sandbox, so it waits in the queue of its organization like a call.
        let queue = &self.services.queue;
        let place = queue.enter(key.organization.as_str(), || Instant::now() + PLACE_PATIENCE).await;
        let place = place.map_err(|error| {
            CallError::new(ErrorType::Overloaded, error.to_string(), "try again in some seconds")
                .with_retry_after_ms(1_000)
        })?;
        self.services.plugins.build_from_definition(&definition, granted, place).await
    }

    /// Drops the cached build of a plugin that is not served.
    async fn forget_unserved(&self, key: &ToolKey, digest: &Digest) {
        if self.plugin(key).is_none_or(|plugin| plugin.digest != *digest) {
            self.services.plugins.forget_built(digest).await;
        }
    }

    /// Locks the changes of an organization's tools, and of the plugins that it loads.
    pub async fn in_order(&self, key: &ToolKey) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        key.organization.hash(&mut hasher);
        let at = usize::try_from(hasher.finish() % LOCKS as u64).unwrap_or_default();
        self.locks[at].lock().await
    }

    /// Discovers the tools of a server by a call to it.
    async fn discover(
        &self,
        key: &ToolKey,
        definition: &ParsedDefinition<'_>,
        origin: &Origin,
    ) -> Result<Box<serde_json::value::RawValue>, CallError> {
        let granted = self.read_grant(key).await?;
        let plugin = self.make(key, definition, None, granted.clone()).await?;
        let digest = plugin.digest.clone();
        let mut limits = self.services.registry.snapshot().limits().clone();
        mount::widen(&mut limits);
        let rules = alone(&self.services.registry.snapshot(), &key.organization, plugin, limits);
        let call = RequestedCall::new("discover", &format!("{}/discover", key.namespace), "{}".into());
        let test = TestCall::new(key.organization.clone(), None, rules);
        let result = self.dispatcher.test_call(&self.services.sessions, test, call, origin).await;
        self.forget_unserved(key, &digest).await;
        let mut discovered = mount::discovery_output(&result?.outcome)?;
        // An invalid tool is left out, with its reason, and does not block the others.
        for _ in 0..=LEFT_OUT {
            let mount = Mount::new(discovered.clone());
            let Err(error) = self.make(key, definition, Some(&mount), granted.clone()).await else {
                return Ok(discovered);
            };
            // Off the runtime's threads: patterns are compiled.
            let without = tokio::task::spawn_blocking(move || {
                mount::without(&discovered, &error).ok_or_else(|| mount::with_left_out(error, &discovered))
            });
            discovered = without.await.map_err(|_| {
                CallError::new(
                    ErrorType::Internal,
                    "the daemon failed while it read the server's list",
                    "tell the operator",
                )
            })??;
        }
        Err(CallError::new(
            ErrorType::InvalidPolicy,
            format!("more than {LEFT_OUT} tools of the server cannot be mounted"),
            "name those to mount in `tools`, or ask for a fix of the server",
        ))
    }

    /// Whether the same tools of the same server are mounted already, so that no discovery is needed.
    async fn is_mounted_already(
        &self,
        key: &ToolKey,
        definition: &ParsedDefinition<'_>,
    ) -> Result<bool, CallError> {
        let stored = self.services.store.find_document(&DocumentKey::Tool(key.clone())).await?;
        let Some(before) = stored else { return Ok(false) };
        let same =
            ParsedDefinition::parse(&before.body).is_ok_and(|before| before.mounts_the_same_as(definition));
        Ok(same && self.mount(key).await?.is_some())
    }

    /// Returns the consented tools of the same server. The waiting ones are dropped, since they were built with the
    /// definition that is replaced.
    async fn same_mount(&self, key: &ToolKey, definition: &ParsedDefinition<'_>) -> Result<Mount, CallError> {
        match self.is_mounted_already(key, definition).await? {
            true => self.mount(key).await?.map(|mount| Mount::new(mount.discovered)),
            false => None,
        }
        .ok_or_else(|| mount::replacement_error(key))
    }

    async fn read_mount(&self, key: &ToolKey) -> Result<(ParsedDefinition<'static>, Mount), CallError> {
        let document = self.document(key).await?;
        let definition = ParsedDefinition::parse(&document.body)?.into_owned();
        match self.mount(key).await? {
            Some(mount) => Ok((definition, mount)),
            None => Err(CallError::new(
                ErrorType::Conflict,
                format!("the tool `{}` is not a mounted server, so it has no list to refresh", key.namespace),
                "replace its definition to change it",
            )),
        }
    }

    async fn mount(&self, key: &ToolKey) -> Result<Option<Mount>, CallError> {
        let stored = self.services.store.find_document(&DocumentKey::Mount(key.clone())).await?;
        stored.map(|document| Mount::parse(&document.body)).transpose()
    }

    async fn keep(&self, key: &ToolKey, mount: &Mount) -> Result<(), CallError> {
        let document = DocumentKey::Mount(key.clone());
        self.services.store.put_document(&document, &mount.text(), &Precondition::Present, now_ms()).await?;
        Ok(())
    }

    async fn document(&self, key: &ToolKey) -> Result<Document, StoreError> {
        self.services.store.document(&DocumentKey::Tool(key.clone())).await
    }

    /// Returns the operator's grant, if any.
    async fn read_grant(&self, key: &ToolKey) -> Result<Option<Arc<Grant>>, CallError> {
        self.services.plugins.operators_grant(&key.into()).await
    }

    async fn view(&self, key: &ToolKey) -> Result<CustomToolView, CallError> {
        let document = self.document(key).await?;
        self.view_of(key, &document.body).await
    }

    async fn view_of(&self, key: &ToolKey, body: &str) -> Result<CustomToolView, CallError> {
        let kind = kind_of(body);
        let mount = self.mount(key).await?;
        Ok(match self.plugin(key) {
            Some(plugin) => view::tool_view(key, kind, &plugin, mount.as_ref()),
            None => view::failed_tool_view(key, kind),
        })
    }

    fn plugin(&self, key: &ToolKey) -> Option<Arc<Plugin<Component>>> {
        self.services.registry.snapshot().own_plugin(key).cloned()
    }

    /// Checks the assertions of policies as if the plugin were served. Without it, a plugin of the platform under the same
    /// namespace would be.
    async fn check_assertions(
        &self,
        key: &ToolKey,
        plugin: Option<&Plugin<Component>>,
    ) -> Result<CheckedChange<'_>, CallError> {
        self.services.registry.check_own_plugin(key, plugin.cloned().map(Arc::new)).await
    }

    /// Serves a plugin in its namespace in place of the current one, or none for `None`.
    fn serve(&self, key: &ToolKey, plugin: Option<Plugin<Component>>) {
        self.services.registry.serve_to(&key.organization, &key.namespace, plugin.map(Arc::new));
    }

    /// Like `serve`, and drops the cached build of the previous plugin.
    async fn serve_instead(&self, key: &ToolKey, plugin: Option<Plugin<Component>>) {
        let before = self.plugin(key);
        self.serve(key, plugin);
        if let Some(before) = before {
            self.forget_unserved(key, &before.digest).await;
        }
    }

    /// Checks the precondition as the write would, before a request is sent to a server.
    async fn check_precondition(&self, key: &ToolKey, precondition: &Precondition) -> Result<(), CallError> {
        let document = DocumentKey::Tool(key.clone());
        let stored = self.services.store.find_document(&document).await?;
        let what = document.to_string();
        match precondition.check(stored.map(|document| document.revision)) {
            PreconditionResult::Holds => Ok(()),
            PreconditionResult::Fails(failure) => {
                Err(StoreError::PreconditionFailed { what, failure }.into())
            }
            PreconditionResult::Required => Err(StoreError::PreconditionRequired { what }.into()),
        }
    }

    /// Checks that the organization exists and is below its limit of tools, and that no other plugin has the name.
    fn check_place(&self, key: &ToolKey) -> Result<(), CallError> {
        let snapshot = self.services.registry.snapshot();
        if !snapshot.knows(&key.organization) {
            let organization = DocumentKey::Organization(key.organization.clone());
            return Err(StoreError::no_document(&organization).into());
        }
        self.check_name(key)?;
        let own = snapshot.own_plugins(&key.organization);
        if own.len() >= TOOLS && self.plugin(key).is_none() {
            return Err(CallError::new(
                ErrorType::QuotaExceeded,
                format!("the organization has {TOOLS} tools of its own, and no more are kept"),
                "remove one that is not used, or put several actions into one",
            )
            .retryable(false));
        }
        Ok(())
    }

    /// Checks that no plugin of the platform has the name of a new tool. A tool that was there first keeps it (9.4).
    fn check_name(&self, key: &ToolKey) -> Result<(), CallError> {
        if self.services.plugins.is_owned(key) {
            return Err(CallError::new(
                ErrorType::Conflict,
                format!("the namespace `{}` belongs to a plugin of the organization", key.namespace),
                "give the tool another name, or remove the plugin",
            ));
        }
        if self.plugin(key).is_some() {
            return Ok(());
        }
        let snapshot = self.services.registry.snapshot();
        match snapshot.catalogue().plugin(&key.namespace).is_some()
            || snapshot.compiling().contains(&key.namespace)
        {
            false => Ok(()),
            true => Err(CallError::new(
                ErrorType::Conflict,
                format!("the namespace `{}` belongs to a plugin of the platform", key.namespace),
                "give the tool another name",
            )),
        }
    }
}

fn kind_of(body: &str) -> DefinitionKind {
    ParsedDefinition::parse(body).map_or(DefinitionKind::Http, |definition| definition.kind)
}

/// Compiles rules for one plugin that is not served, under the operator's policy, enabled for the organization.
fn alone(
    snapshot: &Snapshot,
    organization: &Name,
    plugin: Plugin<Component>,
    limits: LimitsPatch,
) -> Rules<Component> {
    let catalogue = Catalogue::new(limits, vec![Arc::new(plugin)]);
    // `server_binding` is about the binding of agents, and no agent is involved.
    let platform = PlatformDocument {
        server_binding: ServerBinding::Optional,
        ..PlatformDocument::clone(snapshot.policy())
    };
    let redact = RedactSettings { emails: snapshot.redacts_emails(organization) };
    let policy = OrgDocument { redact, ..OrgDocument::allow_all() };
    Rules::compile(
        Arc::new(catalogue),
        platform,
        policy,
        snapshot.connected_integrations(organization),
        AgentDocument::allow_all(),
    )
}
