//! The routes of the public listener: the table of all routes, and the routers built from it.

use std::collections::BTreeMap;

use axum::Router;
use axum::handler::Handler;
use axum::http::{Method, Uri};
use axum::routing::MethodRouter;

use super::access::{Access, DeclaresAccess};
use super::endpoint::{Endpoint, RouteTable, at_root, below, endpoint, everywhere};
use super::error::{ApiError, Problem};
use super::extract::auth::Public;
use super::openapi::Operation;
use super::routes::{
    description, documentation, eligibility, group_member, program, record, record_search, rule_draft, token,
    vocabulary, workbench,
};
use super::{batch, idempotency, middleware, openapi};
use crate::state::AppState;
use daftar_domain::error_code::ErrorCode;
use daftar_domain::scope::Resource;

/// The table of all routes. The authorization test fails for an endpoint that it does not list.
#[must_use]
pub fn endpoints() -> Vec<Endpoint> {
    const GET: Method = Method::GET;
    const POST: Method = Method::POST;
    const PUT: Method = Method::PUT;
    const PATCH: Method = Method::PATCH;
    const DELETE: Method = Method::DELETE;
    vec![
        api(POST, "/oauth/token", token::issue, openapi::server::token),
        api(POST, "/$batch", batch::submit, openapi::batch::submit),
        api(GET, "/Individual", record_search::search_individuals, openapi::individual::search),
        api(POST, "/Individual", record::create_individual, openapi::individual::create),
        api(GET, "/Individual/{identifier}", record::read_individual, openapi::individual::read),
        api(PUT, "/Individual/{identifier}", record::replace_individual, openapi::individual::replace),
        api(PATCH, "/Individual/{identifier}", record::patch_individual, openapi::individual::patch),
        api(GET, "/Group", record_search::search_groups, openapi::group::search),
        api(POST, "/Group", record::create_group, openapi::group::create),
        api(PUT, "/Group/{identifier}", record::replace_group, openapi::group::replace),
        api(PATCH, "/Group/{identifier}", record::patch_group, openapi::group::patch),
        api(GET, "/Group/{identifier}", record::read_group, openapi::group::read),
        api(GET, "/Individual/{identifier}/groups", group_member::groups, openapi::individual::groups),
        api(POST, "/Group/{identifier}/$add-member", group_member::add, openapi::group::add_member),
        api(POST, "/Group/{identifier}/$remove-member", group_member::remove, openapi::group::remove_member),
        api(PATCH, "/Group/{identifier}/member/{member}", group_member::patch, openapi::group::patch_member),
        api(GET, "/Group/{identifier}/membership-history", group_member::history, openapi::group::membership_history),
        api(GET, "/Program", program::search, openapi::program::search_programs),
        api(GET, "/Program/{identifier}", program::read, openapi::program::read_program),
        api(GET, "/ProgramMembership", program::search_memberships, openapi::program::search_memberships),
        api(POST, "/ProgramMembership", program::create_membership, openapi::program::create_membership),
        api(GET, "/ProgramMembership/{identifier}", program::read_membership, openapi::program::read_membership),
        api(PUT, "/ProgramMembership/{identifier}", program::replace_membership, openapi::program::replace_membership),
        api(GET, "/Consent/{consent_id}", program::read_consent, openapi::program::read_consent),
        api(DELETE, "/Consent/{consent_id}", program::withdraw_consent, openapi::program::withdraw_consent),
        api(POST, "/Eligibility/$validate", eligibility::validate, openapi::eligibility::validate),
        api(POST, "/Eligibility/$evaluate", eligibility::evaluate, openapi::eligibility::evaluate),
        api(POST, "/Eligibility/$evidence", eligibility::evidence, openapi::eligibility::evidence),
        api(POST, "/Eligibility/$preview", eligibility::preview, openapi::eligibility::preview),
        api(GET, "/RuleDraft", rule_draft::search, openapi::rule_draft::search),
        api(POST, "/RuleDraft", rule_draft::create, openapi::rule_draft::create),
        api(GET, "/RuleDraft/{draft_id}", rule_draft::read, openapi::rule_draft::read),
        api(GET, "/RuleDraft/{draft_id}/history", rule_draft::history, openapi::rule_draft::history),
        api(PUT, "/RuleDraft/{draft_id}", rule_draft::replace, openapi::rule_draft::replace),
        api(DELETE, "/RuleDraft/{draft_id}", rule_draft::delete, openapi::rule_draft::delete),
        api(GET, "/Vocabulary", vocabulary::list, openapi::vocabulary::list),
        api(GET, "/Vocabulary/$search", vocabulary::search_all, openapi::vocabulary::search_all),
        api(POST, "/Vocabulary/$validate", vocabulary::validate, openapi::vocabulary::validate),
        api(POST, "/Vocabulary/$lookup", vocabulary::lookup, openapi::vocabulary::lookup),
        api(GET, "/Vocabulary/{namespace}", vocabulary::read, openapi::vocabulary::read),
        api(GET, "/Vocabulary/{namespace}/codes", vocabulary::codes, openapi::vocabulary::codes),
        api(GET, "/Vocabulary/{namespace}/codes/{code}", vocabulary::code, openapi::vocabulary::code),
        api(GET, "/Vocabulary/{namespace}/search", vocabulary::search, openapi::vocabulary::search),
        api(GET, "/Vocabulary/{namespace}/$subsumes", vocabulary::subsumes, openapi::vocabulary::subsumes),
        api(GET, "/ConceptGroup", vocabulary::list_groups, openapi::vocabulary::groups),
        api(GET, "/ConceptGroup/{name}", vocabulary::read_group, openapi::vocabulary::group),
        endpoint(GET, everywhere("/metadata"), description::metadata, openapi::server::metadata),
        endpoint(GET, everywhere("/openapi.json"), description::openapi, openapi::server::openapi),
        endpoint(GET, everywhere("/docs/api"), description::docs, openapi::server::docs),
        endpoint(GET, everywhere("/docs"), documentation::home, openapi::server::documentation_home),
        endpoint(GET, at_root("/docs/"), documentation::index, openapi::server::documentation),
        endpoint(GET, at_root("/docs/{*file}"), documentation::file, openapi::server::documentation_file),
        endpoint(GET, everywhere("/docs/errors"), description::error_list, openapi::server::error_list),
        endpoint(GET, everywhere("/docs/errors/{error_code}"), description::error_page, openapi::server::error_page),
        endpoint(GET, at_root("/workbench"), workbench::page, openapi::server::workbench),
        endpoint(GET, at_root("/workbench/{file}"), workbench::file, openapi::server::workbench_file),
        endpoint(
            GET,
            at_root("/.well-known/oauth-authorization-server"),
            description::authorization_server,
            openapi::server::authorization_server,
        ),
        endpoint(GET, at_root("/health/live"), description::live, openapi::server::live),
        endpoint(GET, at_root("/health/ready"), description::ready, openapi::server::ready),
    ]
}

/// An endpoint below [`super::endpoint::BASE_PATH`].
fn api<H, T>(method: Method, path: &str, handler: H, operation: fn() -> Operation) -> Endpoint
where
    H: Handler<T, AppState>,
    T: DeclaresAccess + 'static,
{
    endpoint(method, below(path), handler, operation)
}

/// The table of the public API, for the state of the server.
#[must_use]
pub fn route_table() -> RouteTable {
    let endpoints = endpoints();
    let inner = within_request(&endpoints);
    RouteTable::new(endpoints, inner)
}

/// The public listener's router.
pub fn router(state: AppState) -> Router {
    routes(state.routes.endpoints())
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(axum::middleware::from_fn_with_state(state.clone(), idempotency::once))
        .layer(axum::middleware::from_fn_with_state(state.clone(), middleware::response::respond_public))
        .with_state(state)
}

/// The endpoints that a batch may call: reads and writes of records, and reads of vocabularies.
fn within_request(endpoints: &[Endpoint]) -> Router<AppState> {
    routes(endpoints.iter().filter(|endpoint| endpoint.is_of_records()))
        .fallback(unknown_within)
        .method_not_allowed_fallback(unknown_method_within)
}

impl Endpoint {
    /// True if it reads or writes records, or reads vocabularies.
    pub(super) fn is_of_records(&self) -> bool {
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

fn routes<'e>(endpoints: impl IntoIterator<Item = &'e Endpoint>) -> Router<AppState> {
    let mut by_path: BTreeMap<String, MethodRouter<AppState>> = BTreeMap::new();
    for endpoint in endpoints {
        for path in &endpoint.paths {
            let routes = by_path.remove(path).unwrap_or_default().merge(endpoint.handler.clone());
            by_path.insert(path.clone(), routes);
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
    // Probably an identifier with unencoded slashes, or a missing base path.
    let detail = if path.contains("://") || path.contains("%7c") || path.contains('|') {
        "there is nothing at this path; in an identifier encode / as %2F and # as %23"
    } else {
        "there is nothing at this path; GET /metadata, /openapi.json and /docs/ describe all paths"
    };
    Problem::new(ErrorCode::UnknownPath, detail).into()
}

async fn unknown_method(_: Public, method: Method) -> ApiError {
    let detail = format!("{method} is not offered at this path; the `Allow` header lists the allowed methods");
    Problem::new(ErrorCode::MethodNotAllowed, detail).into()
}

async fn unknown_within() -> ApiError {
    let detail = "there is nothing at this path that a batch may call: it reads and writes individuals, groups, programs, memberships and consents, and reads vocabularies";
    Problem::new(ErrorCode::UnknownPath, detail).into()
}

async fn unknown_method_within(method: Method) -> ApiError {
    let detail = format!("{method} is not offered at this path, at least not within a batch");
    Problem::new(ErrorCode::MethodNotAllowed, detail).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::endpoint::{HEALTH_PATHS, TOKEN_PATH};

    #[test]
    fn paths_with_a_rule_of_their_own_are_those_of_the_table() {
        let paths_of = |access: Access| -> Vec<String> {
            endpoints().into_iter().filter(|endpoint| endpoint.access == access).flat_map(|one| one.paths).collect()
        };
        assert_eq!(paths_of(Access::Token), [TOKEN_PATH]);
        assert_eq!(paths_of(Access::Health), HEALTH_PATHS);
    }

    #[test]
    fn the_description_in_the_documentation_is_that_of_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
        let page = std::fs::read_to_string(path).unwrap();
        let written = super::super::openapi::document::published(&endpoints());
        assert!(page == written, "host/docs/openapi.json is out of date: `cargo xtask fields` writes it");
    }
}
