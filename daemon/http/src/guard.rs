//! Guards of routes: authentication and role checks before the request is parsed, and their OpenAPI description.
//!
//! A route is registered with the access that it requires. The middleware, the operation's `security`, its roles
//! (`x-toolgate-roles`) and its 401 and 403 responses all derive from that value, so the document matches the
//! daemon's behaviour. A handler gets the caller only through a guard: a route without a guard fails with `INTERNAL`
//! when its handler extracts the caller.
//!
//! The guard checks the role only. Handlers check the ownership of a resource with `identity::caller`.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use futures_util::future::{BoxFuture, Either};
use tokio::sync::Semaphore;
use toolgate_api::error::ErrorType;
use toolgate_api::name::Name;
use toolgate_core::identity::{
    Access, AccessTokens, Caller, PresentedCredentials, RefusalReason, RefusedCredentials, bearer, one_of,
};
use toolgate_state::clock::now_ms;
use tower::{Layer, Service};
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::SecurityRequirement;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use super::connections::{ClientCertificate, Peer};
use super::error_responses::{ErrorResponse, join_errors};
use super::header::{HEADER_FIELDS, header};
use super::owners::Owner;
use super::parameters::Parameters;
use super::problem::Problem;
use super::protected_resource;
use super::state::{AUDIT_SOURCE, App};

/// The name of the security scheme in the document.
pub(super) const SCHEME: &str = "token";

/// The effect of a client disconnect on a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnDisconnect {
    /// The request is cancelled at once.
    Cancel,
    /// The request runs to completion.
    Complete,
}

/// The authentication and query checks of a route.
struct Guard {
    app: App,
    access: Access,
    /// `None` if a disconnect cancels the request.
    changes: Option<Arc<Semaphore>>,
    parameters: Parameters,
    /// The path of the route, with the names of its parameters.
    path: String,
    /// Whether the route takes access tokens of authorization servers, too.
    is_protected_resource: bool,
}

/// The router, with a guard on each route.
pub(super) struct Routes {
    app: App,
    /// Limits concurrent changes. A change whose client disconnected keeps its permit, so disconnecting does not
    /// bypass the limit.
    changes: Arc<Semaphore>,
    router: OpenApiRouter<App>,
}

impl Routes {
    pub(super) fn new(app: App, document: utoipa::openapi::OpenApi) -> Self {
        let connections = usize::try_from(app.settings().http.connections).unwrap_or(Semaphore::MAX_PERMITS);
        let changes = Arc::new(Semaphore::new(connections));
        Self { app, changes, router: OpenApiRouter::with_openapi(document) }
    }

    /// Adds routes that need no token.
    pub(super) fn add_open(self, routes: UtoipaMethodRouter<App>) -> Self {
        let (schemas, paths, methods) = routes;
        let parameters = Arc::new(Parameters::of(&paths));
        let methods = methods.route_layer(middleware::from_fn_with_state(parameters, expect_known));
        self.add_open_to_providers((schemas, paths, methods))
    }

    /// Adds routes that providers redirect browsers to; unknown query parameters are ignored (RFC 6749, section
    /// 4.1.2).
    pub(super) fn add_open_to_providers(mut self, mut routes: UtoipaMethodRouter<App>) -> Self {
        for operation in operations(&mut routes) {
            // An explicit empty list: without it, the operation would inherit the document's default.
            operation.security = Some(Vec::new());
            describe_common_errors(operation);
        }
        self.router = self.router.routes(routes);
        self
    }

    /// Adds routes for callers with this access. A change runs to completion if its client disconnects: cancellation
    /// between the store and the state in memory, or between an action and its audit record, would leave them
    /// inconsistent.
    pub(super) fn add_guarded(self, access: Access, routes: UtoipaMethodRouter<App>) -> Self {
        self.with_guard(access, OnDisconnect::Complete, routes)
    }

    /// Adds routes of the platform, for operators, and the same routes of an organization, for its owners (see `owners`).
    pub(super) fn add_for_both_owners(self, routes: impl Fn() -> UtoipaMethodRouter<App>) -> Self {
        let of = |owner: Owner| {
            let mut routes = routes();
            owner.choose(&mut routes.1);
            routes
        };
        let (platform, organization) = (of(Owner::Platform), of(Owner::Organization));
        self.add_guarded(Access::Operate, platform).add_guarded(Access::Own, organization)
    }

    /// Adds the routes of another protocol, which the OpenAPI document does not describe. A client disconnect cancels their
    /// requests.
    ///
    /// They take access tokens of authorization servers, too. Such a token has the rights of role `agent`, which no other
    /// route admits.
    pub(super) fn add_guarded_protocol(
        mut self,
        access: Access,
        path: &str,
        (_, paths, methods): UtoipaMethodRouter<App>,
    ) -> Self {
        let parameters = Parameters::of(&paths);
        let guard = Guard {
            app: self.app.clone(),
            access,
            changes: None,
            parameters,
            path: path.to_owned(),
            is_protected_resource: true,
        };
        self.router = self.router.route(path, methods.route_layer(GuardLayer(Arc::new(guard))));
        self
    }

    /// Adds routes for calls, which a client disconnect cancels at any point.
    pub(super) fn add_guarded_calls(self, access: Access, routes: UtoipaMethodRouter<App>) -> Self {
        self.with_guard(access, OnDisconnect::Cancel, routes)
    }

    fn with_guard(
        mut self,
        access: Access,
        on_disconnect: OnDisconnect,
        mut routes: UtoipaMethodRouter<App>,
    ) -> Self {
        for operation in operations(&mut routes) {
            operation.security = Some(vec![SecurityRequirement::new(SCHEME, Vec::<String>::new())]);
            let roles: Vec<&str> = access.roles().iter().map(|role| role.as_str()).collect();
            let extensions = ExtensionsBuilder::new().add("x-toolgate-roles", roles).build();
            operation.extensions.get_or_insert_default().merge(extensions);
            describe_common_errors(operation);
            ErrorResponse::new(
                ErrorType::Unauthenticated,
                "no token was sent, or it is not known or was revoked",
            )
            .add_to(&mut operation.responses);
            let text = format!("the token's role is not {}", one_of(access.roles()));
            ErrorResponse::new(ErrorType::Forbidden, text).add_to(&mut operation.responses);
        }
        let (schemas, paths, methods) = routes;
        let changes = Some(Arc::clone(&self.changes)).filter(|_| on_disconnect == OnDisconnect::Complete);
        let parameters = Parameters::of(&paths);
        let path = paths.paths.keys().next().cloned().unwrap_or_default();
        let guard =
            Guard { app: self.app.clone(), access, changes, parameters, path, is_protected_resource: false };
        let methods = methods.route_layer(GuardLayer(Arc::new(guard)));
        self.router = self.router.routes((schemas, paths, methods));
        self
    }

    pub(super) fn into_parts(self) -> (axum::Router<App>, utoipa::openapi::OpenApi) {
        self.router.split_for_parts()
    }
}

impl Guard {
    /// Admits a request if the caller's role has the access and the route takes its query parameters.
    fn admit(&self, request: &mut Request) -> Result<(), Problem> {
        let caller = admit(&self.app, self.access, request.headers(), request.extensions().get())?;
        self.pass_on(caller, request)
    }

    /// The access token of a request to a route that takes them. The daemon's own tokens have no dot.
    fn access_token(&self, request: &Request) -> Option<(AccessTokens, String)> {
        let known = self.app.0.access_tokens.as_ref().filter(|_| self.is_protected_resource)?;
        let text = header(request.headers(), &AUTHORIZATION).ok()?.and_then(bearer)?;
        text.contains('.').then(|| (known.clone(), text.to_owned()))
    }

    async fn admit_access_token(
        &self,
        known: AccessTokens,
        token: &str,
        request: &mut Request,
    ) -> Result<(), Problem> {
        let caller = known.authenticate(token, now_ms()).await?;
        let agent = caller.agents.as_deref().and_then(|agents| agents.first());
        let snapshot = self.app.services().registry.snapshot();
        match (&caller.organization, agent) {
            (Some(organization), Some(agent)) if snapshot.has_agent(organization, agent) => {}
            (Some(organization), Some(agent)) => return Err(no_agent(organization, agent)),
            _ => {
                return Err(Problem::new(
                    ErrorType::Internal,
                    "the access token has no agent",
                    "tell the operator",
                ));
            }
        }
        admit_caller(&caller, self.access, request.extensions().get())?;
        self.pass_on(caller, request)
    }

    /// Gives the handler the caller, if the route takes the query parameters.
    fn pass_on(&self, caller: Arc<Caller>, request: &mut Request) -> Result<(), Problem> {
        self.parameters.expect_known(request.method(), request.uri())?;
        request.extensions_mut().insert(caller);
        Ok(())
    }

    /// Tells of a request that is refused for its credentials.
    fn tell_refusal(&self, request: &Request, problem: &Problem, is_access_token: bool) {
        if !matches!(problem.0.error_type, ErrorType::Unauthenticated | ErrorType::Forbidden) {
            return;
        }
        let peer: Option<&Peer> = request.extensions().get();
        let address = peer.map(|peer| peer.address);
        let presented = PresentedCredentials {
            authorization: header(request.headers(), &AUTHORIZATION).ok().flatten(),
            certificate: peer
                .and_then(|peer| peer.certificate.as_ref())
                .map(|ClientCertificate(token)| &**token),
            address,
            access: self.access,
        };
        let of_access_token =
            RefusedCredentials { reason: RefusalReason::AccessToken, token: None, organization: None };
        let refused = match is_access_token {
            true => Some(of_access_token),
            false => self.app.services().identity.refusal(&presented),
        };
        if let Some(refused) = refused {
            // Without the names of what it asked for, which may be another organization's.
            let route = format!("{} {}", request.method(), self.path);
            self.app.admin().refuse_request(refused, address, &route, AUDIT_SOURCE);
        }
    }

    /// The response to a refused request. A protected resource says where clients get a token (RFC 9728, section 5.1).
    fn refuse(&self, problem: Problem, has_token: bool) -> Response {
        let challenge = match self.is_protected_resource {
            true => protected_resource::challenge(&self.app.settings().oauth, &problem, has_token),
            false => None,
        };
        let mut response = problem.into_response();
        if let Some(challenge) = challenge {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }

    /// Returns the semaphore for a request that runs to completion if its client disconnects.
    fn change_permits(&self, request: &Request) -> Option<Arc<Semaphore>> {
        self.changes.as_ref().filter(|_| !request.method().is_safe()).map(Arc::clone)
    }
}

/// Returns the caller of a request, if its role has the access.
pub(super) fn admit(
    app: &App,
    access: Access,
    headers: &HeaderMap,
    peer: Option<&Peer>,
) -> Result<Arc<Caller>, Problem> {
    let authorization = header(headers, &AUTHORIZATION)?;
    let identity = &app.services().identity;
    let caller = match (authorization, peer.and_then(|peer| peer.certificate.as_ref())) {
        (None, Some(ClientCertificate(token))) => identity.authenticate_certificate(token)?,
        _ => identity.authenticate(authorization)?,
    };
    admit_caller(&caller, access, peer)?;
    Ok(caller)
}

fn admit_caller(caller: &Caller, access: Access, peer: Option<&Peer>) -> Result<(), Problem> {
    if let Some(peer) = peer {
        peer.mark_authenticated();
    }
    caller.may_come_from(peer.map(|peer| peer.address))?;
    Ok(caller.may(access)?)
}

/// The tower layer that guards a route. It is a `Service` because `middleware::from_fn` allocates for each request,
/// and calls are on the hot path.
#[derive(Clone)]
struct GuardLayer(Arc<Guard>);

#[derive(Clone)]
struct GuardService<S> {
    guard: Arc<Guard>,
    route: S,
}

/// The future of a refused request, of one that a disconnect cancels, or of one that runs to completion or has an access token.
type Admitted<F> =
    Either<Ready<Result<Response, Infallible>>, Either<F, BoxFuture<'static, Result<Response, Infallible>>>>;

impl<S> Layer<S> for GuardLayer {
    type Service = GuardService<S>;

    fn layer(&self, route: S) -> GuardService<S> {
        GuardService { guard: Arc::clone(&self.0), route }
    }
}

impl<S> Service<Request> for GuardService<S>
where
    S: Service<Request, Response = Response, Error = Infallible, Future: Send + 'static>
        + Clone
        + Send
        + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Admitted<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.route.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        if let Some((known, token)) = self.guard.access_token(&request) {
            // The service that was polled is the ready one.
            let next = self.route.clone();
            let (guard, mut route) = (Arc::clone(&self.guard), std::mem::replace(&mut self.route, next));
            return Either::Right(Either::Right(Box::pin(async move {
                match guard.admit_access_token(known, &token, &mut request).await {
                    Ok(()) => route.call(request).await,
                    Err(problem) => {
                        guard.tell_refusal(&request, &problem, true);
                        Ok(guard.refuse(problem, true))
                    }
                }
            })));
        }
        if let Err(problem) = self.guard.admit(&mut request) {
            self.guard.tell_refusal(&request, &problem, false);
            let has_token = request.headers().contains_key(AUTHORIZATION);
            return Either::Left(ready(Ok(self.guard.refuse(problem, has_token))));
        }
        let permits = self.guard.change_permits(&request);
        let response = self.route.call(request);
        Either::Right(match permits {
            None => Either::Left(response),
            Some(permits) => {
                let app = self.guard.app.clone();
                Either::Right(Box::pin(complete_with_permit(app, permits, response)))
            }
        })
    }
}

fn no_agent(organization: &Name, agent: &Name) -> Problem {
    Problem::new(
        ErrorType::Unauthenticated,
        format!("the access token is not valid: its agent `{organization}/{agent}` does not exist"),
        "create the agent, or change the claim of the authorization server",
    )
}

/// Acquires a permit for a change and runs the request to completion.
async fn complete_with_permit(
    app: App,
    permits: Arc<Semaphore>,
    response: impl Future<Output = Result<Response, Infallible>> + Send + 'static,
) -> Result<Response, Infallible> {
    let permit = permits.acquire_owned().await;
    let completed = app.run_to_completion(async move {
        // `None` only if the semaphore is closed, which never happens.
        let _permit = permit.ok();
        response.await
    });
    completed.await.unwrap_or_else(|problem| Ok(problem.into_response()))
}

/// Passes a request on if the route takes its query parameters.
async fn expect_known(
    State(parameters): State<Arc<Parameters>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    parameters.expect_known(request.method(), request.uri())?;
    Ok(next.run(request).await)
}

fn operations(routes: &mut UtoipaMethodRouter<App>) -> impl Iterator<Item = &mut Operation> {
    routes.1.paths.values_mut().flat_map(|item| {
        let PathItem { get, put, post, delete, .. } = item;
        [get, put, post, delete].into_iter().flatten()
    })
}

/// Describes the refusals that precede every handler, and those while a body is read.
fn describe_common_errors(operation: &mut Operation) {
    let responses = &mut operation.responses;
    join_errors(responses);
    ErrorResponse::new(
        ErrorType::InvalidRequest,
        "the address, the query, a header or the body is not what this operation takes; `detail` says which",
    )
    .add_to(responses);
    ErrorResponse::new(
        ErrorType::Forbidden,
        "the request asks for a host that the daemon does not serve, or was made by a web page of another origin",
    )
    .add_to(responses);
    let text = format!(
        "the head has more than {HEADER_FIELDS} header fields, or more bytes than the operator allows"
    );
    ErrorResponse::with_status(431, ErrorType::TooLarge, &text).add_to(responses);
    ErrorResponse::with_status(
        408,
        ErrorType::DeadlineExceeded,
        "the head of the request did not arrive in time",
    )
    .add_to(responses);
    if operation.request_body.is_some() {
        ErrorResponse::new(ErrorType::TooLarge, "the body is larger than the operator allows")
            .add_to(responses);
        let text = "request bodies of the organization hold as much memory as they may";
        ErrorResponse::new(ErrorType::QuotaExceeded, text).add_to(responses);
        let text = "the request bodies of all organizations hold as much memory as they may";
        ErrorResponse::new(ErrorType::Overloaded, text).add_to(responses);
        ErrorResponse::with_status(408, ErrorType::DeadlineExceeded, "the body did not arrive in time")
            .add_to(responses);
    }
}
