//! Handlers of keyed lists that the administrator manages, written once: list, show, add, change and remove.
//!
//! Also contains the context of an administrator's request, an argument of every other handler of the admin API.
//!
//! A resource is a list of paths with these handlers. Its operations and the readers of its bodies are its own.

use std::convert::Infallible;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::IntoResponse;
use axum::routing::{MethodFilter, MethodRouter, get, on, post};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::api::dto::reader::Problems;
use crate::api::error::{ApiError, Problem};
use crate::api::extract::body::JsonObject;
use crate::api::extract::query::NoParameters;
use crate::api::middleware::response::RequestInfo;
use crate::state::AppState;
use daftar_api_types::admin::ListBody;
use daftar_domain::audit::{Actor, AuditAction, AuditEntry, AuditOutcome};
use daftar_domain::client::ClientId;
use daftar_domain::code::CodeUri;
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::identifier::SystemUri;
use daftar_domain::manifest::PluginName;
use daftar_service::audit;

/// Paths below the base path, each with its handlers.
pub type Routes = Vec<(&'static str, MethodRouter<AppState>)>;

/// Reads a body; returns nothing where `problems` explains why.
pub type Read<T> = fn(&AppState, Map<String, Value>, &mut Problems) -> Option<T>;

/// Key of an entry, as in paths.
pub trait Key: Sized + Send + 'static {
    /// Parses a key.
    ///
    /// # Errors
    /// The reason why the text is no key.
    fn of_path(text: &str) -> Result<Self, String>;
}

impl Key for String {
    fn of_path(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }
}

macro_rules! keys {
    ($($key:ty),+) => {$(
        impl Key for $key {
            fn of_path(text: &str) -> Result<Self, String> {
                <$key>::parse(text).map_err(|error| error.to_string())
            }
        }
    )+};
}

keys!(ClientId, CodeUri, PluginName, SystemUri);

/// The key of an entry in the path, percent-decoded.
pub struct KeyPath<K>(pub K);

impl<S: Send + Sync, K: Key> FromRequestParts<S> for KeyPath<K> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let path: Result<Path<String>, PathRejection> = Path::from_request_parts(parts, state).await;
        let Ok(Path(text)) = path else { return Err(not_text().into()) };
        Ok(Self(K::of_path(&text).map_err(Problem::malformed)?))
    }
}

/// The problem of a path that is not text.
pub fn not_text() -> Problem {
    Problem::malformed("the path is not percent-encoded UTF-8")
}

/// Reads a complete body.
fn whole<T>(read: Read<T>, app: &AppState, members: Map<String, Value>) -> Result<T, AppError> {
    let value = Problems::of(|problems| read(app, members, problems))?;
    value.ok_or_else(|| AppError::internal("a body was neither read nor rejected"))
}

/// `GET` of a list.
pub fn list<B, F>(list: impl Fn(AppState) -> F + Clone + Send + Sync + 'static) -> MethodRouter<AppState>
where
    B: Serialize + Send + 'static,
    F: Future<Output = Result<Vec<B>, AppError>> + Send + 'static,
{
    get(move |_: NoParameters, State(app): State<AppState>| async move {
        Ok::<_, ApiError>(Json(ListBody { data: list(app).await? }))
    })
}

/// `GET` of an entry.
pub fn show<K, B, F>(show: impl Fn(AppState, K) -> F + Clone + Send + Sync + 'static) -> MethodRouter<AppState>
where
    K: Key,
    B: Serialize + Send + 'static,
    F: Future<Output = Result<B, AppError>> + Send + 'static,
{
    get(move |_: NoParameters, State(app): State<AppState>, KeyPath(key): KeyPath<K>| async move {
        Ok::<_, ApiError>(Json(show(app, key).await?))
    })
}

/// `POST` to a list: adds an entry; 201 with the body that `add` returns.
pub fn add<N, B, F>(
    read: Read<N>,
    add: impl Fn(OpContext, AppState, N) -> F + Clone + Send + Sync + 'static,
) -> MethodRouter<AppState>
where
    N: Send + 'static,
    B: Serialize + Send + 'static,
    F: Future<Output = Result<B, AppError>> + Send + 'static,
{
    post(
        move |Administrator { ctx, app }: Administrator, _: NoParameters, JsonObject(members): JsonObject| async move {
            let new = whole(read, &app, members)?;
            Ok::<_, ApiError>((StatusCode::CREATED, Json(add(ctx, app, new).await?)))
        },
    )
}

/// A call with a body that changes an entry: 200 with the body that `change` returns.
pub fn change<K, C, B, F>(
    method: MethodFilter,
    read: Read<C>,
    change: impl Fn(OpContext, AppState, K, C) -> F + Clone + Send + Sync + 'static,
) -> MethodRouter<AppState>
where
    K: Key,
    C: Send + 'static,
    B: Serialize + Send + 'static,
    F: Future<Output = Result<B, AppError>> + Send + 'static,
{
    on(
        method,
        move |Administrator { ctx, app }: Administrator,
              _: NoParameters,
              KeyPath(key): KeyPath<K>,
              JsonObject(members): JsonObject| async move {
            let body = whole(read, &app, members)?;
            Ok::<_, ApiError>(Json(change(ctx, app, key, body).await?))
        },
    )
}

/// A call without a body that changes or removes an entry.
pub fn act<K, R, F>(
    method: MethodFilter,
    act: impl Fn(OpContext, AppState, K) -> F + Clone + Send + Sync + 'static,
) -> MethodRouter<AppState>
where
    K: Key,
    R: IntoResponse + Send + 'static,
    F: Future<Output = Result<R, AppError>> + Send + 'static,
{
    on(method, move |Administrator { ctx, app }: Administrator, _: NoParameters, KeyPath(key): KeyPath<K>| async move {
        Ok::<_, ApiError>(act(ctx, app, key).await?)
    })
}

/// A request of the administrator.
pub struct Administrator {
    /// Actor of the operations.
    pub ctx: OpContext,
    /// The server.
    pub app: AppState,
}

impl Administrator {
    /// Appends an entry for the complete call to the audit log, with its number of records.
    ///
    /// # Errors
    /// If the audit log accepts no more entries.
    pub async fn note(&self, action: AuditAction, note: String, records: u64) -> Result<(), AppError> {
        let entry = audit::entry(&self.ctx, action, AuditOutcome::Allowed, Vec::new());
        let entry = AuditEntry { count: records.max(1), ..entry.with_note(note).with_status(200) };
        self.app.registry.audit.record_now(vec![entry]).await
    }
}

impl FromRequestParts<AppState> for Administrator {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Self::Rejection> {
        let info = parts.extensions.get::<RequestInfo>();
        let trail = info.map(|info| info.trail.clone()).unwrap_or_default();
        trail.set_caller(Actor::Administrator, AuditAction::Administer);
        let request_id = info.map_or_else(|| app.ids.next_id().into(), |info| info.id.clone());
        let ctx = OpContext::unbound(Actor::Administrator, request_id, app.clock.now(), trail);
        Ok(Self { ctx, app: app.clone() })
    }
}
