//! Problems: errors that are sent to the client, with the code, the status and the body of the response.
//!
//! A handler's error becomes a [`Problem`] in the response's extensions; [`crate::api::middleware::response`]
//! serializes it, because only there the request id and the matched route are known.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::api::dto::eligibility::response::diagnostics;
use daftar_api_types::problem as body;
use daftar_domain::eligibility::Diagnostic;
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::error_code::{ERROR_PAGES_PATH, ErrorCode};

/// Maximum number of field problems in a response.
const PROBLEMS_MAX: usize = 50;

/// An error that is sent to the client.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The reason, which has a status.
    pub code: ErrorCode,
    /// One sentence for the client.
    pub detail: String,
    /// Problems of single fields.
    pub errors: Vec<FieldProblem>,
    /// Problems of an expression.
    pub diagnostics: Vec<Diagnostic>,
    /// Outcome of a program's expression for a rejected beneficiary, and the missing facts.
    pub outcome: Option<Box<(&'static str, Vec<String>)>>,
    /// Headers that go with the status.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// True if it is caused by an outage, which is logged separately with a count of the failed requests.
    pub is_outage: bool,
}

impl Problem {
    /// A problem with a code and a sentence. A 503 has `Retry-After`.
    #[must_use]
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        let problem = Self {
            code,
            detail: detail.into(),
            errors: Vec::new(),
            diagnostics: Vec::new(),
            outcome: None,
            headers: Vec::new(),
            is_outage: false,
        };
        if problem.status() == StatusCode::SERVICE_UNAVAILABLE {
            return problem.with_header(header::RETRY_AFTER, RETRY_AFTER_S);
        }
        problem
    }

    /// 400: the request cannot be understood.
    #[must_use]
    pub fn malformed(detail: impl Into<String>) -> Self {
        Self::new(ErrorCode::MalformedRequest, detail)
    }

    /// The status of the response.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code.entry().status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The same problem with a header, replacing one of that name; an invalid value is left out.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.retain(|(present, _)| *present != name);
            self.headers.push((name, value));
        }
        self
    }

    /// The value of `Retry-After` in seconds, if present.
    #[must_use]
    pub fn retry_after_s(&self) -> Option<u64> {
        let header = self.headers.iter().find(|(name, _)| *name == header::RETRY_AFTER);
        header.and_then(|(_, value)| value.to_str().ok()?.parse().ok())
    }

    /// The body as JSON, for a server with that URL.
    #[must_use]
    pub fn body(&self, public_url: &str, instance: Option<&str>, request_id: &str) -> Vec<u8> {
        let (status, omitted) = (self.status(), self.errors.len().saturating_sub(PROBLEMS_MAX));
        let outcome = self.outcome.as_ref();
        let body = body::Problem {
            kind: page_url(public_url, self.code),
            code: self.code.name().to_owned(),
            title: status.canonical_reason().unwrap_or("Error").to_owned(),
            status: status.as_u16(),
            detail: self.detail.clone(),
            instance: instance.map(str::to_owned),
            request_id: request_id.to_owned(),
            errors: self.errors.iter().take(PROBLEMS_MAX).map(field_problem).collect(),
            errors_omitted: u64::try_from(omitted).ok().filter(|omitted| *omitted > 0),
            diagnostics: diagnostics(&self.diagnostics),
            outcome: outcome.map(|reported| match reported.0 {
                "undetermined" => body::Outcome::Undetermined,
                _ => body::Outcome::NotEligible,
            }),
            missing: outcome.map(|reported| reported.1.clone()),
        };
        serde_json::to_vec(&body).unwrap_or_default()
    }
}

/// The URL of the page about a code, for a server with that URL.
#[must_use]
pub fn page_url(public_url: &str, code: ErrorCode) -> String {
    format!("{public_url}{ERROR_PAGES_PATH}/{}", code.name())
}

fn field_problem(problem: &FieldProblem) -> body::FieldProblem {
    let FieldProblem { field, code, message } = problem.clone();
    body::FieldProblem { field, code: code.to_owned(), message }
}

/// `Retry-After` of a 503, in seconds.
pub const RETRY_AFTER_S: &str = "1";

impl From<AppError> for Problem {
    fn from(error: AppError) -> Self {
        let problem = Self::new(error.code(), error.to_string());
        if error.is_outage() {
            return Self { is_outage: true, ..problem };
        }
        match error {
            AppError::Invalid(errors) => Self { errors, ..problem },
            AppError::NotThere(error) | AppError::InvalidValue(_, error) => Self { errors: vec![error], ..problem },
            AppError::NotEligible { outcome, missing } => {
                Self { outcome: Some(Box::new((outcome, missing))), ..problem }
            }
            AppError::Expression(refused) => {
                let (code, message) = (problem.code.name(), refused.message);
                let errors = refused.field.map(|field| FieldProblem::new(field, code, message));
                Self { diagnostics: refused.diagnostics, errors: errors.into_iter().collect(), ..problem }
            }
            AppError::MissingScope { required, .. } => {
                let scope = required.replace(" or ", " ");
                let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
                problem.with_header(header::WWW_AUTHENTICATE, &challenge)
            }
            AppError::FieldNotGranted { field, .. } => {
                let message = problem.detail.clone();
                Self { errors: vec![FieldProblem { field, code: "field_not_granted", message }], ..problem }
            }
            AppError::PluginSuspended { retry_after_s, .. } => {
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
            // Its code, its status and its sentence are sufficient.
            _ => problem,
        }
    }
}

/// An error with all its causes, for the log.
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

/// Error of a handler.
#[derive(Debug)]
pub struct ApiError(pub Box<Problem>);

/// Result of a handler.
pub type ApiResult<T = Response> = Result<T, ApiError>;

impl<E: Into<Problem>> From<E> for ApiError {
    fn from(error: E) -> Self {
        Self(Box::new(error.into()))
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.0.status().into_response();
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
    fn every_503_has_one_retry_after() {
        let unavailable = [
            Problem::new(ErrorCode::NotReady, "later"),
            Problem::from(AppError::Busy),
            Problem::from(AppError::NoEngine),
            Problem::from(AppError::EngineCompiling(PluginName::parse("cel").unwrap())),
            Problem::from(AppError::EngineNotInstalled("gear".to_owned())),
            Problem::from(AppError::VocabularyUnavailable(Namespace::parse("urn:x:y").unwrap())),
            Problem::from(AppError::Unavailable("the disk is full".into())),
            Problem::from(AppError::PluginSuspended { plugin: PluginName::parse("cel").unwrap(), retry_after_s: 7 }),
        ];
        for problem in unavailable {
            assert_eq!(problem.status(), StatusCode::SERVICE_UNAVAILABLE, "{problem:?}");
            let waits = problem.headers.iter().filter(|(name, _)| *name == header::RETRY_AFTER);
            let waits: Vec<&str> = waits.map(|(_, value)| value.to_str().unwrap()).collect();
            let expected = if problem.detail.contains("retry in 7 s") { "7" } else { RETRY_AFTER_S };
            assert_eq!(waits, [expected], "{problem:?}");
        }
        assert!(Problem::malformed("x").headers.is_empty());
    }

    #[test]
    fn a_defect_is_reported_by_its_request_id_alone() {
        let problem = Problem::from(AppError::internal("the secret of the matter"));
        assert_eq!((problem.code, problem.status()), (ErrorCode::InternalError, StatusCode::INTERNAL_SERVER_ERROR));
        let body = String::from_utf8(problem.body("http://127.0.0.1", None, "the-request")).unwrap();
        assert!(body.contains("the-request") && !body.contains("secret"), "{body}");
    }

    #[test]
    fn every_code_has_a_status_that_http_knows() {
        for code in ErrorCode::ALL {
            let status = Problem::new(*code, "x").status();
            assert_eq!((status.as_u16(), status.canonical_reason().is_some()), (code.entry().status, true), "{code:?}");
        }
    }

    #[test]
    fn a_body_lists_fifty_problems_and_counts_the_rest() {
        let error = |at| FieldProblem { field: format!("a[{at}]"), code: "required", message: "x".to_owned() };
        for (count, listed, omitted) in [(50, 50, None), (53, 50, Some(3))] {
            let problem = Problem::from(AppError::Invalid((0..count).map(error).collect()));
            let body = problem.body("https://registry.example", Some("/api/v2/Individual"), "r");
            let body: body::Problem<'_> = serde_json::from_slice(&body).unwrap();
            assert_eq!((body.errors.len(), body.errors_omitted), (listed, omitted));
            assert_eq!(body.kind, "https://registry.example/docs/errors/validation_failed");
            assert_eq!((body.code.as_str(), body.status), ("validation_failed", 422));
        }
    }
}
