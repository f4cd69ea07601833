//! Names in paths: a record by identifier, a vocabulary, a code, a concept group.

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, MatchedPath, Path};
use axum::http::request::Parts;
use percent_encoding::{AsciiSet, CONTROLS};
use serde::de::DeserializeOwned;

use crate::api::endpoint::resource_in;
use crate::api::error::{ApiError, Problem};
use crate::api::middleware::response::RequestInfo;
use daftar_domain::code::Namespace;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::public_id::{NamedByUuid, PublicId};
use daftar_domain::record::RecordKind;
use daftar_service::records::reference;

/// Characters of a name or an identifier that a path segment must encode.
pub const PATH_PART: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'/')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'{')
    .add(b'}')
    .add(b'|')
    .add(b'\\')
    .add(b'^')
    .add(b'[')
    .add(b']');

/// An identifier `<system>|<value>` as the last segment of a path, percent-decoded.
#[derive(Debug)]
pub struct IdentifierPath(pub IdentifierKey);

/// A group and one of its members, each by an identifier, percent-decoded.
#[derive(Debug)]
pub struct MemberPath(pub IdentifierKey, pub IdentifierKey);

/// The id of an object that is named by a UUID.
#[derive(Debug)]
pub struct IdPath<T>(pub PublicId<T>);

/// The namespace of a vocabulary as a path segment, percent-decoded.
#[derive(Debug)]
pub struct NamespacePath(pub Namespace);

/// A namespace and a code of it, percent-decoded. The operation validates the code.
#[derive(Debug)]
pub struct CodePath(pub Namespace, pub String);

/// The name of a concept group, percent-decoded.
#[derive(Debug)]
pub struct NamePath(pub String);

/// The decoded segments of a path.
async fn decoded<P: DeserializeOwned + Send>(parts: &mut Parts, fault: &str) -> Result<P, Problem> {
    let path: Result<Path<P>, PathRejection> = Path::from_request_parts(parts, &()).await;
    path.map(|Path(decoded)| decoded).map_err(|_| Problem::malformed(fault))
}

impl<S: Send + Sync> FromRequestParts<S> for IdentifierPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let text: String = decoded(parts, "the identifier in the path is not percent-encoded UTF-8").await?;
        let key = identifier(&text)?;
        about(parts, &[&key]);
        Ok(Self(key))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for MemberPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let (group, member): (String, String) = decoded(parts, NOT_TEXT).await?;
        let (group, member) = (identifier(&group)?, identifier(&member)?);
        about(parts, &[&group, &member]);
        Ok(Self(group, member))
    }
}

impl<S: Send + Sync, T: NamedByUuid + Copy> FromRequestParts<S> for IdPath<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let text: String = decoded(parts, NOT_TEXT).await?;
        let id = PublicId::parse(&text).map_err(|error| Problem::malformed(error.to_string()))?;
        if let Some(info) = parts.extensions.get::<RequestInfo>() {
            info.trail.about([id.reference()]);
        }
        Ok(Self(id))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for NamespacePath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self(namespace(&decoded::<String>(parts, NOT_TEXT).await?)?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for CodePath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let (first, code): (String, String) = decoded(parts, NOT_TEXT).await?;
        Ok(Self(namespace(&first)?, code))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for NamePath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let name: String = decoded(parts, NOT_TEXT).await?;
        if name.chars().any(char::is_control) {
            return Err(Problem::malformed("the name in the path contains a control character").into());
        }
        Ok(Self(name))
    }
}

/// Adds the requested records to the audit context, so that an error entry names them. A member of a group is an
/// individual.
fn about(parts: &Parts, keys: &[&IdentifierKey]) {
    let (Some(info), Some(route)) = (parts.extensions.get::<RequestInfo>(), parts.extensions.get::<MatchedPath>())
    else {
        return;
    };
    let resource = resource_in(route.as_str());
    let Some(kind) = RecordKind::ALL.into_iter().find(|kind| Some(kind.name()) == resource) else { return };
    let others = if kind == RecordKind::Group { RecordKind::Individual } else { kind };
    let kinds = std::iter::once(kind).chain(std::iter::repeat(others));
    info.trail.about(kinds.zip(keys).map(|(kind, key)| reference(kind, key)));
}

fn identifier(text: &str) -> Result<IdentifierKey, Problem> {
    let key = IdentifierKey::parse(text);
    key.map_err(|error| Problem::malformed(format!("the identifier in the path is not valid: {}", error.in_url())))
}

const NOT_TEXT: &str = "the path is not percent-encoded UTF-8";

fn namespace(text: &str) -> Result<Namespace, Problem> {
    Namespace::parse(text).map_err(|error| Problem::malformed(format!("the namespace in the path: {error}")))
}
