//! What a path names: a record by identifier, a vocabulary, a code, a concept group.

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, MatchedPath, Path};
use axum::http::request::Parts;
use percent_encoding::{AsciiSet, CONTROLS};

use crate::api::error::{ApiError, Problem};
use crate::api::middleware::answer::RequestInfo;
use daftar_domain::code::Namespace;
use daftar_domain::consent::ConsentId;
use daftar_domain::identifier::{IdentifierError, IdentifierKey};
use daftar_domain::record::RecordKind;
use daftar_service::records::reference;

/// The characters of a name or an identifier that a part of a path cannot hold as they are.
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
            Ok(key) => {
                about(parts, &[&key]);
                Ok(Self(key))
            }
            Err(error) => Err(not_valid(&error)),
        }
    }
}

/// A group and one of its members, each by an identifier, percent-decoded.
#[derive(Debug)]
pub struct MemberPath(pub IdentifierKey, pub IdentifierKey);

impl<S: Send + Sync> FromRequestParts<S> for MemberPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let path: Result<Path<(String, String)>, PathRejection> = Path::from_request_parts(parts, state).await;
        let Ok(Path((group, member))) = path else { return Err(not_text().into()) };
        let parse = |text: &str| IdentifierKey::parse(text).map_err(|error| not_valid(&error));
        let (group, member) = (parse(&group)?, parse(&member)?);
        about(parts, &[&group, &member]);
        Ok(Self(group, member))
    }
}

/// The name of a consent.
#[derive(Debug)]
pub struct ConsentPath(pub ConsentId);

impl<S: Send + Sync> FromRequestParts<S> for ConsentPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let path: Result<Path<String>, PathRejection> = Path::from_request_parts(parts, state).await;
        let Ok(Path(text)) = path else { return Err(not_text().into()) };
        let id = ConsentId::parse(&text).map_err(|error| Problem::malformed(error.to_string()))?;
        if let Some(info) = parts.extensions.get::<RequestInfo>() {
            info.trail.about([format!("{}/{id}", RecordKind::Consent)]);
        }
        Ok(Self(id))
    }
}

/// The namespace of a vocabulary as a part of a path, percent-decoded.
#[derive(Debug)]
pub struct NamespacePath(pub Namespace);

/// The namespace and a code of it, percent-decoded. Whether the code can be one is the use case's to say.
#[derive(Debug)]
pub struct CodePath(pub Namespace, pub String);

/// The name of a concept group, percent-decoded.
#[derive(Debug)]
pub struct NamePath(pub String);

impl<S: Send + Sync> FromRequestParts<S> for NamespacePath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let path: Result<Path<String>, PathRejection> = Path::from_request_parts(parts, state).await;
        let Ok(Path(text)) = path else { return Err(not_text().into()) };
        Ok(Self(namespace(&text)?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for CodePath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let path: Result<Path<(String, String)>, PathRejection> = Path::from_request_parts(parts, state).await;
        let Ok(Path((first, code))) = path else { return Err(not_text().into()) };
        Ok(Self(namespace(&first)?, code))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for NamePath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let path: Result<Path<String>, PathRejection> = Path::from_request_parts(parts, state).await;
        let Ok(Path(name)) = path else { return Err(not_text().into()) };
        if name.chars().any(char::is_control) {
            return Err(Problem::malformed("the name in the path holds a control character").into());
        }
        Ok(Self(name))
    }
}

/// The kinds of records that paths name by identifier, by a part of their routes; a member is an individual.
const KINDS: [(&str, RecordKind, RecordKind); 8] = [
    ("/Individual/", RecordKind::Individual, RecordKind::Individual),
    ("/individuals/", RecordKind::Individual, RecordKind::Individual),
    ("/Group/", RecordKind::Group, RecordKind::Individual),
    ("/groups/", RecordKind::Group, RecordKind::Individual),
    ("/Program/", RecordKind::Program, RecordKind::Program),
    ("/programs/", RecordKind::Program, RecordKind::Program),
    ("/ProgramMembership/", RecordKind::ProgramMembership, RecordKind::ProgramMembership),
    ("/program_memberships/", RecordKind::ProgramMembership, RecordKind::ProgramMembership),
];

/// Tells the request's trail which records it is about, so that its failure names them.
fn about(parts: &Parts, keys: &[&IdentifierKey]) {
    let (Some(info), Some(route)) = (parts.extensions.get::<RequestInfo>(), parts.extensions.get::<MatchedPath>())
    else {
        return;
    };
    let kinds = KINDS.iter().find(|(part, ..)| route.as_str().contains(part));
    let Some((_, first, others)) = kinds else { return };
    let kinds = std::iter::once(first).chain(std::iter::repeat(others));
    info.trail.about(kinds.zip(keys).map(|(kind, key)| reference(*kind, key)));
}

fn not_valid(error: &IdentifierError) -> ApiError {
    Problem::malformed(format!("the identifier in the path is not valid: {error}")).into()
}

fn not_text() -> Problem {
    Problem::malformed("the path is not percent-encoded UTF-8")
}

fn namespace(text: &str) -> Result<Namespace, Problem> {
    Namespace::parse(text).map_err(|error| Problem::malformed(format!("the namespace in the path: {error}")))
}
