//! The routes of the public listener: the table of all of them, and the routers that are made of it.

use std::collections::BTreeMap;

use axum::Router;
use axum::http::{Method, Uri};
use axum::routing::MethodRouter;

use super::access::Access;
use super::endpoint::{Endpoint, RouteTable, at_root, below, endpoint, everywhere};
use super::error::{ApiError, Problem};
use super::extract::auth::Public;
use super::routes::{
    description, eligibility, group_member, program, record, record_search, token, vocabulary, workbench,
};
use super::{batch, middleware, once, openapi as told};
use crate::state::AppState;
use daftar_domain::error_code::ErrorCode;
use daftar_domain::scope::Resource;

/// The table of all routes. The authorization test walks it: an endpoint that the test does not know fails it.
#[must_use]
pub fn endpoints() -> Vec<Endpoint> {
    const GET: Method = Method::GET;
    const POST: Method = Method::POST;
    const PUT: Method = Method::PUT;
    const PATCH: Method = Method::PATCH;
    const DELETE: Method = Method::DELETE;
    vec![
        endpoint(POST, below("/oauth/token"), token::issue, told::server::token),
        endpoint(POST, below("/$batch"), batch::submit, told::batch::submit),
        endpoint(GET, below("/Individual"), record_search::search_individuals, told::individual::search),
        endpoint(POST, below("/Individual"), record::create_individual, told::individual::create),
        endpoint(GET, below("/Individual/{identifier}"), record::read_individual, told::individual::read),
        endpoint(PUT, below("/Individual/{identifier}"), record::replace_individual, told::individual::replace),
        endpoint(PATCH, below("/Individual/{identifier}"), record::patch_individual, told::individual::patch),
        endpoint(GET, below("/Group"), record_search::search_groups, told::group::search),
        endpoint(POST, below("/Group"), record::create_group, told::group::create),
        endpoint(PUT, below("/Group/{identifier}"), record::replace_group, told::group::replace),
        endpoint(PATCH, below("/Group/{identifier}"), record::patch_group, told::group::patch),
        endpoint(GET, below("/Group/{identifier}"), record::read_group, told::group::read),
        endpoint(GET, below("/Individual/{identifier}/groups"), group_member::groups, told::individual::groups),
        endpoint(POST, below("/Group/{identifier}/$add-member"), group_member::add, told::group::add_member),
        endpoint(POST, below("/Group/{identifier}/$remove-member"), group_member::remove, told::group::remove_member),
        endpoint(PATCH, below("/Group/{identifier}/member/{member}"), group_member::patch, told::group::patch_member),
        endpoint(
            GET,
            below("/Group/{identifier}/membership-history"),
            group_member::history,
            told::group::membership_history,
        ),
        endpoint(GET, below("/Program"), program::search, told::program::search_programs),
        endpoint(GET, below("/Program/{identifier}"), program::read, told::program::read_program),
        endpoint(GET, below("/ProgramMembership"), program::search_memberships, told::program::search_memberships),
        endpoint(POST, below("/ProgramMembership"), program::create_membership, told::program::create_membership),
        endpoint(
            GET,
            below("/ProgramMembership/{identifier}"),
            program::read_membership,
            told::program::read_membership,
        ),
        endpoint(
            PUT,
            below("/ProgramMembership/{identifier}"),
            program::replace_membership,
            told::program::replace_membership,
        ),
        endpoint(GET, below("/Consent/{consent_id}"), program::read_consent, told::program::read_consent),
        endpoint(DELETE, below("/Consent/{consent_id}"), program::withdraw_consent, told::program::withdraw_consent),
        endpoint(POST, below("/Eligibility/$validate"), eligibility::validate, told::eligibility::validate),
        endpoint(POST, below("/Eligibility/$evaluate"), eligibility::evaluate, told::eligibility::evaluate),
        endpoint(POST, below("/Eligibility/$preview"), eligibility::preview, told::eligibility::preview),
        endpoint(GET, below("/Vocabulary"), vocabulary::list, told::vocabulary::list),
        endpoint(GET, below("/Vocabulary/$search"), vocabulary::search_all, told::vocabulary::search_all),
        endpoint(POST, below("/Vocabulary/$validate"), vocabulary::validate, told::vocabulary::validate),
        endpoint(POST, below("/Vocabulary/$lookup"), vocabulary::lookup, told::vocabulary::lookup),
        endpoint(GET, below("/Vocabulary/{namespace}"), vocabulary::read, told::vocabulary::read),
        endpoint(GET, below("/Vocabulary/{namespace}/codes"), vocabulary::codes, told::vocabulary::codes),
        endpoint(GET, below("/Vocabulary/{namespace}/codes/{code}"), vocabulary::code, told::vocabulary::code),
        endpoint(GET, below("/Vocabulary/{namespace}/search"), vocabulary::search, told::vocabulary::search),
        endpoint(GET, below("/Vocabulary/{namespace}/$subsumes"), vocabulary::subsumes, told::vocabulary::subsumes),
        endpoint(GET, below("/ConceptGroup"), vocabulary::list_groups, told::vocabulary::groups),
        endpoint(GET, below("/ConceptGroup/{name}"), vocabulary::read_group, told::vocabulary::group),
        endpoint(GET, everywhere("/metadata"), description::metadata, told::server::metadata),
        endpoint(GET, everywhere("/openapi.json"), description::openapi, told::server::openapi),
        endpoint(GET, everywhere("/docs"), description::docs, told::server::docs),
        endpoint(GET, everywhere("/docs/errors"), description::error_list, told::server::error_list),
        endpoint(GET, everywhere("/docs/errors/{error_code}"), description::error_page, told::server::error_page),
        endpoint(GET, at_root("/workbench"), workbench::page, told::server::workbench),
        endpoint(GET, at_root("/workbench/{file}"), workbench::file, told::server::workbench_file),
        endpoint(
            GET,
            at_root("/.well-known/oauth-authorization-server"),
            description::authorization_server,
            told::server::authorization_server,
        ),
        endpoint(GET, at_root("/health/live"), description::live, told::server::live),
        endpoint(GET, at_root("/health/ready"), description::ready, told::server::ready),
    ]
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
        .layer(axum::middleware::from_fn_with_state(state.clone(), once::once))
        .layer(axum::middleware::from_fn_with_state(state.clone(), middleware::answer::answer_public))
        .with_state(state)
}

/// What a batch may call: reads and writes of records, and reads of vocabularies.
fn within_request(endpoints: &[Endpoint]) -> Router<AppState> {
    routes(endpoints.iter().filter(|endpoint| endpoint.is_of_records()))
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
    // An identifier whose slashes are no part of the path any more, or a base path left out.
    let detail = if path.contains("://") || path.contains("%7c") || path.contains('|') {
        "there is nothing at this path; in an identifier encode / as %2F and # as %23"
    } else {
        "there is nothing at this path; GET /metadata, /openapi.json and /docs say what there is"
    };
    Problem::new(ErrorCode::UnknownPath, detail).into()
}

async fn unknown_method(_: Public, method: Method) -> ApiError {
    let detail = format!("{method} is not offered at this path; the `Allow` header names what is");
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
}
