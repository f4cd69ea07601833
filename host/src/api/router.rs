//! Every route of the public listener, in one table.

use std::collections::BTreeMap;

use axum::Router;
use axum::handler::Handler;
use axum::http::{Method, StatusCode, Uri};
use axum::routing::{MethodFilter, MethodRouter};

use super::access::{Access, DeclaresAccess};
use super::error::{ApiError, Problem};
use super::extract::auth::Public;
use super::routes::{
    batch, concept_group, consent, discovery, eligibility, group, group_member, group_search, health, individual,
    individual_search, program, program_membership, token, vocabulary,
};
use super::{middleware, once};
use crate::app::AppState;
use crate::domain::scope::Resource;

/// Where the API begins.
pub const BASE_PATH: &str = "/api/v2";

/// One method on one path, in all its spellings.
pub struct Endpoint {
    /// The method.
    pub method: Method,
    /// The path, then its other spellings; below [`BASE_PATH`] unless it is of the server itself.
    pub paths: Vec<String>,
    /// Who may call.
    pub access: Access,
    handler: MethodRouter<AppState>,
}

/// An endpoint below [`BASE_PATH`] whose handler says who may call it.
pub fn endpoint<H, T>(method: Method, paths: &[&str], handler: H) -> Endpoint
where
    H: Handler<T, AppState>,
    T: DeclaresAccess + 'static,
{
    let mut all: Vec<String> = paths.iter().map(|path| format!("{BASE_PATH}{path}")).collect();
    // `$` may be sent as it is or encoded.
    let encoded: Vec<String> =
        all.iter().filter(|path| path.contains('$')).map(|path| path.replace('$', "%24")).collect();
    all.extend(encoded);
    raw_endpoint(method, all, handler)
}

fn server_endpoint<H, T>(method: Method, path: &str, handler: H) -> Endpoint
where
    H: Handler<T, AppState>,
    T: DeclaresAccess + 'static,
{
    raw_endpoint(method, vec![path.to_owned()], handler)
}

fn raw_endpoint<H, T>(method: Method, paths: Vec<String>, handler: H) -> Endpoint
where
    H: Handler<T, AppState>,
    T: DeclaresAccess + 'static,
{
    let filter = MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::GET);
    Endpoint { method, paths, access: T::ACCESS, handler: axum::routing::on(filter, handler) }
}

/// The table. The authorization test walks it: an endpoint that the test does not know fails it.
#[must_use]
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        endpoint(Method::POST, &["/oauth/token"], token::issue),
        endpoint(Method::POST, &["/$batch"], batch::submit),
        endpoint(Method::GET, &["/Individual", "/individuals"], individual_search::search),
        endpoint(Method::POST, &["/Individual", "/individuals"], individual::create),
        endpoint(Method::GET, &["/Individual/{identifier}", "/individuals/{identifier}"], individual::read),
        endpoint(Method::PUT, &["/Individual/{identifier}", "/individuals/{identifier}"], individual::replace),
        endpoint(Method::PATCH, &["/Individual/{identifier}", "/individuals/{identifier}"], individual::patch),
        endpoint(Method::GET, &["/Group", "/groups"], group_search::search),
        endpoint(Method::POST, &["/Group", "/groups"], group::create),
        endpoint(Method::PUT, &["/Group/{identifier}", "/groups/{identifier}"], group::replace),
        endpoint(Method::PATCH, &["/Group/{identifier}", "/groups/{identifier}"], group::patch),
        endpoint(Method::GET, &["/Group/{identifier}", "/groups/{identifier}"], group::read),
        endpoint(
            Method::GET,
            &["/Individual/{identifier}/groups", "/individuals/{identifier}/groups"],
            group_member::groups,
        ),
        endpoint(
            Method::POST,
            &["/Group/{identifier}/$add-member", "/groups/{identifier}/$add-member"],
            group_member::add,
        ),
        endpoint(
            Method::POST,
            &["/Group/{identifier}/$remove-member", "/groups/{identifier}/$remove-member"],
            group_member::remove,
        ),
        endpoint(
            Method::PATCH,
            &["/Group/{identifier}/member/{member}", "/groups/{identifier}/member/{member}"],
            group_member::patch,
        ),
        endpoint(
            Method::GET,
            &["/Group/{identifier}/membership-history", "/groups/{identifier}/membership-history"],
            group_member::history,
        ),
        endpoint(Method::GET, &["/Program", "/programs"], program::search),
        endpoint(Method::GET, &["/Program/{identifier}", "/programs/{identifier}"], program::read),
        endpoint(Method::GET, &["/ProgramMembership", "/program_memberships"], program_membership::search),
        endpoint(Method::POST, &["/ProgramMembership", "/program_memberships"], program_membership::create),
        endpoint(
            Method::GET,
            &["/ProgramMembership/{identifier}", "/program_memberships/{identifier}"],
            program_membership::read,
        ),
        endpoint(
            Method::PUT,
            &["/ProgramMembership/{identifier}", "/program_memberships/{identifier}"],
            program_membership::replace,
        ),
        endpoint(Method::GET, &["/Consent/{consent_id}", "/consents/{consent_id}"], consent::read),
        endpoint(Method::DELETE, &["/Consent/{consent_id}", "/consents/{consent_id}"], consent::withdraw),
        endpoint(Method::POST, &["/Eligibility/$evaluate"], eligibility::evaluate),
        endpoint(Method::GET, &["/Vocabulary", "/vocabularies"], vocabulary::list),
        endpoint(Method::GET, &["/Vocabulary/$search", "/vocabularies/$search"], vocabulary::search_all),
        endpoint(Method::POST, &["/Vocabulary/$validate", "/vocabularies/$validate"], vocabulary::validate),
        endpoint(Method::POST, &["/Vocabulary/$lookup", "/vocabularies/$lookup"], vocabulary::lookup),
        endpoint(Method::GET, &["/Vocabulary/{namespace}", "/vocabularies/{namespace}"], vocabulary::read),
        endpoint(Method::GET, &["/Vocabulary/{namespace}/codes", "/vocabularies/{namespace}/codes"], vocabulary::codes),
        endpoint(
            Method::GET,
            &["/Vocabulary/{namespace}/codes/{code}", "/vocabularies/{namespace}/codes/{code}"],
            vocabulary::code,
        ),
        endpoint(
            Method::GET,
            &["/Vocabulary/{namespace}/search", "/vocabularies/{namespace}/search"],
            vocabulary::search,
        ),
        endpoint(
            Method::GET,
            &["/Vocabulary/{namespace}/$subsumes", "/vocabularies/{namespace}/$subsumes"],
            vocabulary::subsumes,
        ),
        endpoint(Method::GET, &["/ConceptGroup", "/concept_groups"], concept_group::list),
        endpoint(Method::GET, &["/ConceptGroup/{name}", "/concept_groups/{name}"], concept_group::read),
        server_endpoint(Method::GET, "/.well-known/oauth-authorization-server", discovery::authorization_server),
        server_endpoint(Method::GET, "/health/live", health::live),
        server_endpoint(Method::GET, "/health/ready", health::ready),
    ]
}

/// The public listener's router.
pub fn router(state: AppState) -> Router {
    routes(endpoints())
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(axum::middleware::from_fn_with_state(state.clone(), once::once))
        .layer(axum::middleware::from_fn_with_state(state.clone(), middleware::answer::answer))
        .with_state(state)
}

/// What a batch may call: reads and writes of records, and reads of vocabularies.
pub(super) fn within_request() -> Router<AppState> {
    routes(endpoints().into_iter().filter(Endpoint::is_of_records).collect())
        .fallback(unknown_within)
        .method_not_allowed_fallback(unknown_method_within)
}

impl Endpoint {
    /// Whether it reads or writes records, or reads vocabularies.
    fn is_of_records(&self) -> bool {
        let Access::Scopes(scopes) = self.access else { return false };
        scopes.iter().all(|scope| match scope.resource {
            Resource::Individual
            | Resource::Group
            | Resource::Program
            | Resource::ProgramMembership
            | Resource::Consent => true,
            Resource::Vocabulary => self.method == Method::GET,
            // A rule has budgets of its own, which a batch would multiply.
            Resource::Eligibility | Resource::Identifier => false,
        })
    }
}

fn routes(endpoints: Vec<Endpoint>) -> Router<AppState> {
    let mut by_path: BTreeMap<String, MethodRouter<AppState>> = BTreeMap::new();
    for endpoint in endpoints {
        for path in endpoint.paths {
            let routes = by_path.remove(&path).unwrap_or_default().merge(endpoint.handler.clone());
            by_path.insert(path, routes);
        }
    }
    let mut router = Router::new();
    for (path, routes) in by_path {
        router = router.route(&path, routes);
    }
    router
}

async fn unknown_path(_: Public, uri: Uri) -> ApiError {
    let path = uri.path().to_ascii_lowercase();
    // An identifier whose slashes are no part of the path any more, or a base path left out.
    let detail = if path.contains("://") || path.contains("%7c") || path.contains('|') {
        "there is nothing at this path; in an identifier encode / as %2F and # as %23"
    } else {
        "there is nothing at this path; GET /.well-known/oauth-authorization-server and the README say what there is"
    };
    Problem::new(StatusCode::NOT_FOUND, detail).into()
}

async fn unknown_method(_: Public, method: Method) -> ApiError {
    let detail = format!("{method} is not offered at this path; the `Allow` header names what is");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail).into()
}

async fn unknown_within() -> ApiError {
    let detail = "there is nothing at this path that a batch may call: it reads and writes individuals, groups, programs, memberships and consents, and reads vocabularies";
    Problem::new(StatusCode::NOT_FOUND, detail).into()
}

async fn unknown_method_within(method: Method) -> ApiError {
    let detail = format!("{method} is not offered at this path, at least not within a batch");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail).into()
}
