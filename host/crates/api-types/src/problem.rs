//! The body of a call that failed, `application/problem+json` (RFC 9457).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why a request was refused (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
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
    /// One sentence that says what is wrong and what would be right.
    pub detail: String,
    /// The route, never the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub instance: Option<String>,
    /// As in `X-Request-Id`.
    pub request_id: String,
    /// The problems of single fields, at most 50 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldProblem>,
    /// How many problems of single fields were found beside those listed; absent when there are none. The server looks for 100 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1)]
    pub errors_omitted: Option<u64>,
    /// The errors and warnings of an expression.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
    /// The outcome of a program's eligibility expression for a beneficiary that it does not admit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, inline)]
    pub outcome: Option<Outcome>,
    /// The facts that a program's rule misses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub missing: Option<Vec<String>>,
}

/// What is wrong with one field of a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldProblem {
    /// Where it stands, such as `address[0].country`.
    pub field: String,
    /// The stable name of the problem.
    pub code: String,
    /// One sentence that says what is wrong and what would be right.
    pub message: String,
}

/// What is wrong with an expression, or doubtful.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Diagnostic {
    /// Whether the expression is not valid for it.
    #[schema(inline)]
    pub severity: Severity,
    /// The stable name of the kind.
    pub code: String,
    /// One sentence.
    pub message: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
    /// How many characters it is about.
    pub length: u32,
    /// What would be right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub suggestion: Option<String>,
}

/// Whether a diagnostic makes an expression invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It does.
    Error,
    /// It does not.
    Warning,
}

/// The outcome of an expression that does not admit a beneficiary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
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
        let problem: Problem = serde_json::from_str(text).unwrap();
        assert_eq!((problem.errors.len(), problem.errors_omitted, &problem.instance), (0, None, &None));
        assert_eq!(serde_json::to_string(&problem).unwrap(), text);
    }

    #[test]
    fn a_member_that_may_be_absent_is_never_null() {
        use utoipa::PartialSchema;
        let schema = serde_json::to_value(Problem::schema()).unwrap();
        let required = ["type", "code", "title", "status", "detail", "request_id"];
        assert_eq!(schema["required"], serde_json::json!(required));
        for (name, member) in schema["properties"].as_object().unwrap() {
            assert!(!member.to_string().contains("null"), "{name}: {member}");
        }
        assert_eq!(schema["properties"]["errors"]["items"]["$ref"], "#/components/schemas/FieldProblem");
    }
}
