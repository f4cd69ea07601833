//! The routes of the public listener, made of one table.

mod table;

use std::collections::BTreeMap;

use axum::Router;
use axum::handler::Handler;
use axum::http::{Method, StatusCode, Uri};
use axum::routing::{MethodFilter, MethodRouter};

use super::access::{Access, DeclaresAccess};
use super::error::{ApiError, Problem};
use super::extract::auth::Public;
use super::openapi::Operation;
use super::{middleware, once};
use crate::state::AppState;

use daftar_domain::scope::Resource;
pub use table::endpoints;

/// Where the API begins.
pub const BASE_PATH: &str = "/api/v2";

/// Where tokens are had. A test holds it against the table.
pub const TOKEN_PATH: &str = "/api/v2/oauth/token";

/// Where it is asked whether the server lives and is ready. A test holds them against the table.
pub const HEALTH_PATHS: [&str; 2] = ["/health/live", "/health/ready"];

/// One method on one path, in all its spellings.
pub struct Endpoint {
    /// The method.
    pub method: Method,
    /// The path, then its other spellings; below [`BASE_PATH`] unless it is of the server itself.
    pub paths: Vec<String>,
    /// Who may call.
    pub access: Access,
    /// What the document says of it.
    pub operation: Operation,
    handler: MethodRouter<AppState>,
}

/// An endpoint below [`BASE_PATH`] whose handler says who may call it, and of which the document tells what `operation` says.
pub fn endpoint<H, T>(method: Method, paths: &[&str], handler: H, operation: fn() -> Operation) -> Endpoint
where
    H: Handler<T, AppState>,
    T: DeclaresAccess + 'static,
{
    let mut all: Vec<String> = paths.iter().map(|path| format!("{BASE_PATH}{path}")).collect();
    // `$` may be sent as it is or encoded.
    let encoded: Vec<String> =
        all.iter().filter(|path| path.contains('$')).map(|path| path.replace('$', "%24")).collect();
    all.extend(encoded);
    raw_endpoint(method, all, handler, operation())
}

/// A public endpoint that is found below [`BASE_PATH`] and at the root.
fn found_everywhere<H, T>(method: Method, path: &str, handler: H, operation: fn() -> Operation) -> Endpoint
where
    H: Handler<T, AppState>,
    T: DeclaresAccess + 'static,
{
    raw_endpoint(method, vec![format!("{BASE_PATH}{path}"), path.to_owned()], handler, operation())
}

fn server_endpoint<H, T>(method: Method, path: &str, handler: H, operation: fn() -> Operation) -> Endpoint
where
    H: Handler<T, AppState>,
    T: DeclaresAccess + 'static,
{
    raw_endpoint(method, vec![path.to_owned()], handler, operation())
}

fn raw_endpoint<H, T>(method: Method, paths: Vec<String>, handler: H, operation: Operation) -> Endpoint
where
    H: Handler<T, AppState>,
    T: DeclaresAccess + 'static,
{
    let filter = MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::GET);
    Endpoint { method, paths, access: T::ACCESS, operation, handler: axum::routing::on(filter, handler) }
}

/// The public listener's router.
pub fn router(state: AppState) -> Router {
    routes(endpoints())
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(axum::middleware::from_fn_with_state(state.clone(), once::once))
        .layer(axum::middleware::from_fn_with_state(state.clone(), middleware::answer::answer_public))
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
        "there is nothing at this path; GET /metadata, /openapi.json and /docs say what there is"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_a_rule_of_their_own_are_those_of_the_table() {
        let paths_of = |access: Access| -> Vec<String> {
            endpoints().into_iter().filter(|endpoint| endpoint.access == access).flat_map(|one| one.paths).collect()
        };
        assert_eq!(paths_of(Access::Token), [TOKEN_PATH]);
        assert_eq!(paths_of(Access::Health), HEALTH_PATHS);
    }
}
