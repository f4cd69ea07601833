//! The routes of the public listener, made of one table.

mod table;

use std::collections::BTreeMap;

use axum::Router;
use axum::http::{Method, Uri};
use axum::routing::MethodRouter;

use super::access::Access;
use super::endpoint::{Endpoint, RouteTable};
use super::error::{ApiError, Problem};
use super::extract::auth::Public;
use super::{middleware, once};
use crate::state::AppState;

use daftar_domain::error_code::ErrorCode;
use daftar_domain::scope::Resource;
pub use table::endpoints;

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
