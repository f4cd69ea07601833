//! Drafts of eligibility rules.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;

use super::eligibility::{Outcome, SubjectKind, engine_name, expression, line, lines, or_null};

/// A rule draft to write.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RuleDraftSent {
    /// Its name.
    #[schema(schema_with = name)]
    pub name: String,
    /// The expression, which need not be valid.
    #[schema(schema_with = expression)]
    pub expression: String,
    /// The kind of its subjects.
    pub subject: SubjectKind,
    /// Remarks of the author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = comment)]
    pub comment: Option<String>,
    /// The program that the rule is for, `Program/<system>|<value>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The eligibility engine, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = engine_name)]
    pub engine: Option<String>,
    /// The test cases.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 100)]
    pub cases: Option<Vec<RuleCase>>,
    /// The day on which the test cases are evaluated; the current day by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = Date)]
    pub as_of: Option<String>,
}

fn name() -> Object {
    line(200).description(Some("Its name.")).build()
}

fn comment() -> Object {
    or_null(lines(4_000)).description(Some("Remarks of the author.")).build()
}

/// A test case of a rule: a record, and the result that the rule should have for it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleCase {
    /// Its name.
    pub name: String,
    /// The record, as the body of a create request.
    #[schema(value_type = Object)]
    pub record: Map<String, Value>,
    /// The expected outcome.
    pub outcome: Outcome,
    /// The expected missing facts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// The expected errors of the evaluation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}

/// A version of a rule draft.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RuleDraft {
    /// The kind of the object.
    #[serde(rename = "type")]
    pub kind: RuleDraftType,
    /// Its id.
    pub id: String,
    /// The version, from 1.
    pub version: u64,
    /// Its content.
    #[serde(flatten)]
    pub content: RuleDraftSent,
    /// Its author.
    pub author: RuleDraftAuthor,
    /// Its state.
    pub status: RuleDraftStatus,
    /// The reason of a rejection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The time of the first version.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// The time of this version.
    #[schema(format = DateTime)]
    pub last_updated: String,
}

/// The kind of a rule draft as an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum RuleDraftType {
    /// A rule draft.
    RuleDraft,
}

/// The author of a rule draft.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RuleDraftAuthor {
    /// The client that created it, by id.
    pub client: String,
    /// The organization of that client; `null` if it had none.
    #[schema(required)]
    pub organization: Option<String>,
}

/// The state of a rule draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleDraftStatus {
    /// It may be changed.
    Open,
    /// Its rule was written to its program.
    Accepted,
    /// The administrator rejected it.
    Rejected,
}
