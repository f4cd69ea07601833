//! The identifier in a path.

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use crate::api::error::{ApiError, Problem};
use crate::domain::identifier::IdentifierKey;

/// An identifier `<system>|<value>` as the last part of a path, percent-decoded.
#[derive(Debug)]
pub struct IdentifierPath(pub IdentifierKey);

impl<S: Send + Sync> FromRequestParts<S> for IdentifierPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let path: Result<Path<String>, PathRejection> = Path::from_request_parts(parts, state).await;
        let Ok(Path(text)) = path else {
            return Err(Problem::malformed("the identifier in the path is not percent-encoded UTF-8").into());
        };
        match IdentifierKey::parse(&text) {
            Ok(key) => Ok(Self(key)),
            Err(error) => Err(Problem::malformed(format!("the identifier in the path is not valid: {error}")).into()),
        }
    }
}
