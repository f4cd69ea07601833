//! Status codes and problem bodies: the one place that knows both.
//!
//! A handler's error becomes a [`Problem`] in the response's extensions; [`crate::api::middleware::answer`] writes it out,
//! because only there the request id and the matched route are known.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use daftar_domain::eligibility::Diagnostic;
use daftar_domain::error::{AppError, FieldProblem};

/// The most field problems that one answer lists.
const PROBLEMS_MAX: usize = 50;

/// An error on its way to the client.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The status.
    pub status: StatusCode,
    /// One sentence for the client.
    pub detail: String,
    /// Problems of single fields.
    pub errors: Vec<FieldProblem>,
    /// What is wrong with an expression.
    pub diagnostics: Vec<Diagnostic>,
    /// What a program's expression says of whom it does not let in, and the facts that it misses.
    pub outcome: Option<Box<(&'static str, Vec<String>)>>,
    /// Headers that go with the status.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Whether it is due to an outage, which is logged by itself and counts the requests that fail by it.
    pub is_outage: bool,
}

impl Problem {
    /// A problem with a status and a sentence. A 503 says when a new attempt is worth it.
    #[must_use]
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let problem = Self {
            status,
            detail: detail.into(),
            errors: Vec::new(),
            diagnostics: Vec::new(),
            outcome: None,
            headers: Vec::new(),
            is_outage: false,
        };
        if status == StatusCode::SERVICE_UNAVAILABLE {
            return problem.with_header(header::RETRY_AFTER, RETRY_AFTER_S);
        }
        problem
    }

    /// 400: the request cannot be understood.
    #[must_use]
    pub fn malformed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// The same problem with a header in place of one of that name; one whose value cannot be a header is left out.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.retain(|(present, _)| *present != name);
            self.headers.push((name, value));
        }
        self
    }

    /// In how many seconds a new attempt is worth it, where it says so.
    #[must_use]
    pub fn retry_after_s(&self) -> Option<u64> {
        let header = self.headers.iter().find(|(name, _)| *name == header::RETRY_AFTER);
        header.and_then(|(_, value)| value.to_str().ok()?.parse().ok())
    }

    /// The body as JSON.
    #[must_use]
    pub fn body(&self, instance: Option<&str>, request_id: &str) -> Vec<u8> {
        let errors: Vec<ErrorItem<'_>> = self.errors.iter().take(PROBLEMS_MAX).map(ErrorItem::from).collect();
        let diagnostics: Vec<DiagnosticItem<'_>> = self.diagnostics.iter().map(DiagnosticItem::from).collect();
        let body = Body {
            kind: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: &self.detail,
            instance,
            request_id,
            errors: if errors.is_empty() { None } else { Some(errors) },
            diagnostics: if diagnostics.is_empty() { None } else { Some(diagnostics) },
            outcome: self.outcome.as_ref().map(|told| told.0),
            missing: self.outcome.as_ref().map(|told| told.1.as_slice()),
        };
        serde_json::to_vec(&body).unwrap_or_default()
    }
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<&'a str>,
    request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<Vec<ErrorItem<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    diagnostics: Option<Vec<DiagnosticItem<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<&'a [String]>,
}

#[derive(Serialize)]
struct ErrorItem<'a> {
    field: &'a str,
    code: &'a str,
    message: &'a str,
}

impl<'a> From<&'a FieldProblem> for ErrorItem<'a> {
    fn from(problem: &'a FieldProblem) -> Self {
        Self { field: &problem.field, code: problem.code, message: &problem.message }
    }
}

/// A diagnostic on the wire.
#[derive(Debug, Serialize)]
pub struct DiagnosticItem<'a> {
    severity: &'static str,
    code: &'a str,
    message: &'a str,
    line: u32,
    column: u32,
    length: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    suggestion: Option<&'a str>,
}

impl<'a> From<&'a Diagnostic> for DiagnosticItem<'a> {
    fn from(diagnostic: &'a Diagnostic) -> Self {
        use daftar_domain::eligibility::Severity;
        Self {
            severity: match diagnostic.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            },
            code: &diagnostic.code,
            message: &diagnostic.message,
            line: diagnostic.line,
            column: diagnostic.column,
            length: diagnostic.length,
            suggestion: diagnostic.suggestion.as_deref(),
        }
    }
}

/// How long a client waits after a 503 before it tries again.
pub const RETRY_AFTER_S: &str = "1";

impl Problem {
    /// The status of an error.
    #[must_use]
    pub fn status_of(error: &AppError) -> StatusCode {
        match error {
            AppError::Malformed(_) => StatusCode::BAD_REQUEST,
            AppError::MissingScope { .. } | AppError::FieldNotGranted { .. } => StatusCode::FORBIDDEN,
            AppError::NotFound(_) | AppError::NotThere(_) | AppError::UnknownClient(_) | AppError::UnknownPlugin(_) => {
                StatusCode::NOT_FOUND
            }
            AppError::Ambiguous
            | AppError::IdentifierInUse { .. }
            | AppError::VersionMismatch { .. }
            | AppError::Overtaken
            | AppError::NotEligible { .. }
            | AppError::Conflict(_) => StatusCode::CONFLICT,
            AppError::Invalid(_) | AppError::Expression(_) | AppError::Plugin(_) => StatusCode::UNPROCESSABLE_ENTITY,
            AppError::PluginSetAside { .. }
            | AppError::Busy
            | AppError::NoEngine
            | AppError::VocabularyUnavailable(_)
            | AppError::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            AppError::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl From<AppError> for Problem {
    fn from(error: AppError) -> Self {
        let problem = Self::new(Self::status_of(&error), error.to_string());
        if error.is_outage() {
            return Self { is_outage: true, ..problem };
        }
        match error {
            AppError::Invalid(errors) => Self { errors, ..problem },
            AppError::NotThere(error) => Self { errors: vec![error], ..problem },
            AppError::NotEligible { outcome, missing } => {
                Self { outcome: Some(Box::new((outcome, missing))), ..problem }
            }
            AppError::Expression(refused) => Self { diagnostics: refused.diagnostics, ..problem },
            AppError::MissingScope { required, .. } => {
                let scope = required.replace(" or ", " ");
                let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
                problem.with_header(header::WWW_AUTHENTICATE, &challenge)
            }
            AppError::FieldNotGranted { field, .. } => {
                let message = problem.detail.clone();
                Self { errors: vec![FieldProblem { field, code: "field_not_granted", message }], ..problem }
            }
            AppError::PluginSetAside { retry_after_s, .. } => {
                problem.with_header(header::RETRY_AFTER, &retry_after_s.to_string())
            }
            AppError::Unavailable(cause) => {
                tracing::error!(error = %chain(&*cause), "the store failed");
                problem
            }
            AppError::Internal(cause) => {
                tracing::error!(error = %chain(&*cause), "a request ended in an internal error");
                problem
            }
            AppError::Malformed(_)
            | AppError::NotFound(_)
            | AppError::UnknownClient(_)
            | AppError::UnknownPlugin(_)
            | AppError::Ambiguous
            | AppError::IdentifierInUse { .. }
            | AppError::VersionMismatch { .. }
            | AppError::Overtaken
            | AppError::Conflict(_)
            | AppError::Plugin(_)
            | AppError::Busy
            | AppError::NoEngine
            | AppError::VocabularyUnavailable(_) => problem,
        }
    }
}

/// An error with everything that caused it, for the log.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

/// What a handler fails with.
#[derive(Debug)]
pub struct ApiError(pub Box<Problem>);

impl<E: Into<Problem>> From<E> for ApiError {
    fn from(error: E) -> Self {
        Self(Box::new(error.into()))
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.0.status.into_response();
        response.extensions_mut().insert(*self.0);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::code::Namespace;
    use daftar_domain::manifest::PluginName;

    #[test]
    fn every_503_says_once_when_a_new_attempt_is_worth_it() {
        let unavailable = [
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "later"),
            Problem::from(AppError::Busy),
            Problem::from(AppError::NoEngine),
            Problem::from(AppError::VocabularyUnavailable(Namespace::parse("urn:x:y").unwrap())),
            Problem::from(AppError::Unavailable("the disk is full".into())),
            Problem::from(AppError::PluginSetAside { plugin: PluginName::parse("cel").unwrap(), retry_after_s: 7 }),
        ];
        for problem in unavailable {
            assert_eq!(problem.status, StatusCode::SERVICE_UNAVAILABLE, "{problem:?}");
            let waits = problem.headers.iter().filter(|(name, _)| *name == header::RETRY_AFTER);
            let waits: Vec<&str> = waits.map(|(_, value)| value.to_str().unwrap()).collect();
            let expected = if problem.detail.contains("cel") { "7" } else { RETRY_AFTER_S };
            assert_eq!(waits, [expected], "{problem:?}");
        }
        assert!(Problem::malformed("x").headers.is_empty());
    }
}
