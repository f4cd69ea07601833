//! An endpoint of the public API, and the table of endpoints by method and path.
//!
//! **Invariant:** the table contains handlers and no state. The state of the server contains the table.

use std::collections::HashMap;

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter};

use super::access::{Access, DeclaresAccess};
use super::openapi::Operation;
use crate::state::AppState;
use daftar_domain::scope::{Action, Resource, Scope};

/// Base path of the API.
pub const BASE_PATH: &str = "/api/v2";

/// Path of the token endpoint. A test compares it with the table.
pub const TOKEN_PATH: &str = "/api/v2/oauth/token";

/// Paths of the liveness and readiness probes. A test compares them with the table.
pub const HEALTH_PATHS: [&str; 2] = ["/health/live", "/health/ready"];

/// A method on a path, in all its spellings.
pub struct Endpoint {
    /// The method.
    pub method: Method,
    /// The path, then its other spellings; below [`BASE_PATH`] except for paths of the server itself.
    pub paths: Vec<String>,
    /// Permitted callers.
    pub access: Access,
    /// The description in the OpenAPI document.
    pub operation: Operation,
    pub(super) handler: MethodRouter<AppState>,
}

impl Endpoint {
    /// Its path as the description has it: OpenAPI has no parameter for the rest of a path.
    #[must_use]
    pub fn documented_path(&self) -> String {
        self.paths.first().map(|path| path.replace("{*", "{")).unwrap_or_default()
    }

    /// The other spellings of its path, without those with an encoded `$`.
    #[must_use]
    pub fn also_at(&self) -> Vec<&str> {
        let others = self.paths.iter().skip(1).map(String::as_str);
        others.filter(|path| !path.contains("%24")).collect()
    }

    /// The accepted scopes, one of which a client must have; empty if the endpoint requires no scope.
    #[must_use]
    pub fn scopes(&self) -> &'static [Scope] {
        match self.access {
            Access::Scopes(accepted) => accepted,
            Access::AnyClient | Access::Public | Access::Token | Access::Health => &[],
        }
    }

    /// The media types of the bodies of its responses.
    #[must_use]
    pub fn media_types(&self) -> Vec<&'static str> {
        let bodies = self.operation.responses.iter().flat_map(|response| &response.bodies);
        bodies.map(|(media_type, _)| *media_type).collect()
    }
}

/// The scopes that grant access: those that endpoints require, and `all` of the same resources.
#[must_use]
pub fn scopes_on_offer(endpoints: &[Endpoint]) -> Vec<Scope> {
    let requested: Vec<&Scope> = endpoints.iter().flat_map(Endpoint::scopes).collect();
    let opens = |scope: &Scope| match scope.action {
        Action::All => requested.iter().any(|requested| requested.resource == scope.resource),
        Action::Read | Action::Search | Action::Create | Action::Update | Action::Delete => requested.contains(&scope),
    };
    let all = Resource::ALL.into_iter().flat_map(|resource| Action::ALL.map(|action| Scope::new(resource, action)));
    all.filter(opens).collect()
}

/// Resources whose paths have another spelling.
const SPELLINGS: [(&str, &str); 7] = [
    ("/Individual", "/individuals"),
    ("/Group", "/groups"),
    ("/Program", "/programs"),
    ("/ProgramMembership", "/program_memberships"),
    ("/Consent", "/consents"),
    ("/Vocabulary", "/vocabularies"),
    ("/ConceptGroup", "/concept_groups"),
];

/// A path below [`BASE_PATH`] in all its spellings.
#[must_use]
pub fn below(path: &str) -> Vec<String> {
    let other = SPELLINGS.iter().find_map(|(resource, other)| {
        let rest = path.strip_prefix(resource).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
        Some(format!("{BASE_PATH}{other}{rest}"))
    });
    let mut all: Vec<String> = [format!("{BASE_PATH}{path}")].into_iter().chain(other).collect();
    // `$` may be sent unencoded or encoded.
    let encoded: Vec<String> =
        all.iter().filter(|path| path.contains('$')).map(|path| path.replace('$', "%24")).collect();
    all.extend(encoded);
    all
}

/// The resource whose path, in either spelling, is part of a route: `Individual` of `/api/v2/individuals/{identifier}`.
pub(super) fn resource_in(route: &str) -> Option<&'static str> {
    let is_within = |path: &str| route.split_once(path).is_some_and(|(_, rest)| rest.starts_with('/'));
    let (path, _) = SPELLINGS.iter().find(|(path, other)| is_within(path) || is_within(other))?;
    path.strip_prefix('/')
}

/// A path that exists below [`BASE_PATH`] and at the root.
pub(super) fn everywhere(path: &str) -> Vec<String> {
    vec![format!("{BASE_PATH}{path}"), path.to_owned()]
}

/// A path at the root.
pub(super) fn at_root(path: &str) -> Vec<String> {
    vec![path.to_owned()]
}

/// An endpoint whose handler declares its callers, described by `operation` in the OpenAPI document.
pub fn endpoint<H, T>(method: Method, paths: Vec<String>, handler: H, operation: fn() -> Operation) -> Endpoint
where
    H: Handler<T, AppState>,
    T: DeclaresAccess + 'static,
{
    let filter = MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::GET);
    let (operation, handler) = (operation(), axum::routing::on(filter, handler));
    Endpoint { method, paths, access: T::ACCESS, operation, handler }
}

/// All endpoints, by method and path, and a router of those that a batch may call. Built once at start.
pub struct RouteTable {
    endpoints: Vec<Endpoint>,
    /// Positions in `endpoints`, by each spelling of the path.
    by_path: HashMap<String, Vec<usize>>,
    inner: Router<AppState>,
}

impl RouteTable {
    /// A table of those endpoints; `inner` has the routes that a batch may call.
    #[must_use]
    pub fn new(endpoints: Vec<Endpoint>, inner: Router<AppState>) -> Self {
        let mut by_path: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, endpoint) in endpoints.iter().enumerate() {
            for path in &endpoint.paths {
                by_path.entry(path.clone()).or_default().push(at);
            }
        }
        Self { endpoints, by_path, inner }
    }

    /// All endpoints, in the order of the table of routes.
    #[must_use]
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// The endpoint of a method on a matched path pattern, in any spelling of the path.
    #[must_use]
    pub fn find(&self, method: &Method, pattern: &str) -> Option<&Endpoint> {
        let mut of_path = self.by_path.get(pattern)?.iter().filter_map(|at| self.endpoints.get(*at));
        of_path.find(|endpoint| endpoint.method == *method)
    }

    /// The routes that a batch may call, without a state: each nested request supplies its own.
    pub fn inner(&self) -> Router<AppState> {
        self.inner.clone()
    }
}
