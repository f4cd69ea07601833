//! The body of a call that failed, `application/problem+json` (RFC 9457).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::public::eligibility::Diagnostic;

/// Reason why a request was refused (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem<'a> {
    /// The address of the page about the code.
    #[serde(rename = "type")]
    #[schema(format = "uri")]
    pub kind: String,
    /// The stable name of the reason. `/docs/errors` lists all of them.
    pub code: String,
    /// The name of the status.
    pub title: String,
    /// The status of the response.
    #[schema(minimum = 400)]
    pub status: u16,
    /// The problem and its solution, in one sentence.
    pub detail: String,
    /// The route, never the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// As in `X-Request-Id`.
    pub request_id: String,
    /// The problems of single fields, at most 50 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldProblem>,
    /// Number of problems of single fields that were found beside those listed; absent when there are none. The server
    /// looks for 100 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub errors_omitted: Option<u64>,
    /// The errors and warnings of an expression.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic<'a>>,
    /// The outcome of a program's eligibility expression for a beneficiary that it does not admit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The facts that a program's rule misses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<Vec<String>>,
}

/// The problem with one field of a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldProblem {
    /// Path of the field, such as `address[0].country`.
    pub field: String,
    /// The stable name of the problem.
    pub code: String,
    /// The problem and its solution, in one sentence.
    pub message: String,
}

/// The outcome of an expression that does not admit a beneficiary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ProblemOutcome)]
pub enum Outcome {
    /// The beneficiary is not eligible.
    NotEligible,
    /// Facts are missing on which it depends.
    Undetermined,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_without_a_value_are_absent_and_read_as_such() {
        let text = r#"{"type":"/docs/errors/not_found","code":"not_found","title":"Not Found","status":404,"detail":"no such Group","request_id":"r"}"#;
        let problem: Problem<'_> = serde_json::from_str(text).unwrap();
        assert_eq!((problem.errors.len(), problem.errors_omitted, &problem.instance), (0, None, &None));
        assert_eq!(serde_json::to_string(&problem).unwrap(), text);
    }
}
