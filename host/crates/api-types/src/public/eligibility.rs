//! Rules: validation and evaluation.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, SchemaType, Type};

/// The longest expression, in bytes.
pub const EXPRESSION_BYTES_MAX: usize = 8 * 1024;
/// The most subjects of one request.
pub const SUBJECTS_MAX: usize = 1_000;
/// The longest text of a decision, in bytes.
pub const DECISION_TEXT_BYTES_MAX: usize = 500;
/// A text without control characters that is not blank.
pub const TEXT_PATTERN: &str = r"^[^\x00-\x1F\x7F-\x9F]*[^\x00-\x1F\x7F-\x9F\s][^\x00-\x1F\x7F-\x9F]*$";

/// The kind of record that a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SubjectKind {
    /// People.
    Individual,
    /// Households and other groups.
    Group,
}

/// The result of a rule for one subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The rule is true.
    Eligible,
    /// The rule is false.
    NotEligible,
    /// The recorded facts do not decide.
    Undetermined,
}

impl Outcome {
    /// The name in bodies.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Eligible => "eligible",
            Self::NotEligible => "not_eligible",
            Self::Undetermined => "undetermined",
        }
    }
}

/// An expression to validate.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Validation<'a> {
    /// The rule.
    #[schema(schema_with = expression)]
    pub expression: Cow<'a, str>,
    /// The eligibility engine, by name; the active one by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = engine_name)]
    pub engine: Option<Cow<'a, str>>,
    /// The kind of record that it is about; `individual` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<SubjectKind>,
}

/// The schema of an expression.
pub(super) fn expression() -> Object {
    let text = ObjectBuilder::new().schema_type(Type::String).max_length(Some(EXPRESSION_BYTES_MAX));
    text.pattern(Some(r"^[^\x00]*$")).description(Some("The rule.")).build()
}

/// The schema of a text or `null`.
pub(super) fn or_null(text: ObjectBuilder) -> ObjectBuilder {
    text.schema_type(SchemaType::Array(vec![Type::String, Type::Null]))
}

/// The schema of the name of an engine, if any.
pub(super) fn engine_name() -> Object {
    or_null(line(64)).description(Some("The eligibility engine, by name; the active one by default.")).build()
}

/// The schema of a text without line breaks, of at most so many bytes.
pub(super) fn line(bytes_max: usize) -> ObjectBuilder {
    let text = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1));
    text.max_length(Some(bytes_max)).pattern(Some(TEXT_PATTERN))
}

/// The schema of a text with line breaks and tabs, of at most so many bytes.
pub(super) fn lines(bytes_max: usize) -> ObjectBuilder {
    const PATTERN: &str =
        r"^[^\x00-\x08\x0B\x0C\x0E-\x1F\x7F-\x9F]*[^\x00-\x1F\x7F-\x9F\s][^\x00-\x08\x0B\x0C\x0E-\x1F\x7F-\x9F]*$";
    line(bytes_max).pattern(Some(PATTERN))
}

/// The result of a validation.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Validated<'a> {
    /// True if the expression can be evaluated.
    pub valid: bool,
    /// The type of its value; `null` where it is unknown.
    #[schema(required)]
    pub result_type: Option<Cow<'a, str>>,
    /// The fields that it reads, named as missing facts are.
    pub references: Cow<'a, [String]>,
    /// The cost of one subject; `null` where it is unknown.
    #[schema(required)]
    pub cost: Option<RuleCost>,
    /// The errors and warnings.
    pub diagnostics: Vec<Diagnostic<'a>>,
}

/// The cost of one subject, in parts of the expression that are evaluated.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RuleCost {
    /// The lowest number of parts.
    pub steps_min: u64,
    /// The highest number of parts; `null` for more than can be counted.
    #[schema(required)]
    pub steps_max: Option<u64>,
    /// The number of items of each list that `steps_max` assumes.
    pub list_items: u32,
}

/// Severity of a diagnostic: an error makes the expression invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The expression cannot be evaluated.
    Error,
    /// The expression can be evaluated, and may not mean what its author expects.
    Warning,
}

impl Severity {
    /// The name in bodies.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// An error or a warning about a part of an expression.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Diagnostic<'a> {
    /// True if it makes the expression invalid.
    pub severity: Severity,
    /// The stable name of the problem.
    pub code: Cow<'a, str>,
    /// One sentence for a person.
    pub message: Cow<'a, str>,
    /// The stable name of that sentence, by which a client shows it in another language.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'a, str>>,
    /// The parts of the sentence that come from the expression, the schema and the vocabularies, in the order of `reason`.
    #[serde(default, skip_serializing_if = "no_parameters")]
    pub parameters: Cow<'a, [String]>,
    /// The line of the part, from 1; 0 where it has no position.
    pub line: u32,
    /// The column of its first character, from 1; 0 where it has no position.
    pub column: u32,
    /// Its length in characters.
    pub length: u32,
    /// The text to write in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<Cow<'a, str>>,
}

#[expect(clippy::ptr_arg, reason = "serde passes the field")]
fn no_parameters(parameters: &Cow<'_, [String]>) -> bool {
    parameters.is_empty()
}

/// A rule with its subjects. It names an expression or a program.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Evaluation<'a> {
    /// The rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = expression)]
    pub expression: Option<Cow<'a, str>>,
    /// The eligibility engine of the expression, by name; the active one by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = engine_name)]
    pub engine: Option<Cow<'a, str>>,
    /// The program whose rule it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<Cow<'a, str>>,
    /// The kind of record that the rule is about; `individual` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<SubjectKind>,
    /// References to records, and records that need not be in the register.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<Value>,
    /// The day that counts as today.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = Date)]
    pub as_of: Option<Cow<'a, str>>,
    /// True if each result comes with its explanation; of 100 subjects at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explain: Option<bool>,
    /// A decision to be repeated: on its day, with the records as they were then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision<'a>>,
}

/// The results of a rule.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Evaluated<'a> {
    /// One result for each subject, in the order of the request.
    pub results: Vec<SubjectResult<'a>>,
    /// The data that repeat the decision.
    pub decision: Decision<'a>,
    /// The warnings about the expression.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Diagnostic<'a>>,
}

/// The result of a rule for one subject.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = Result)]
pub struct SubjectResult<'a> {
    /// Its reference, or `subjects[n]` for a record of the request.
    pub subject: Cow<'a, str>,
    /// The outcome; absent with `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The facts that are not known and on which the outcome depends; absent with `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Cow<'a, [String]>>,
    /// The errors of the evaluation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<RowError<'a>>,
    /// Explanation of the outcome, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation<'a>>,
    /// The reason why the subject has no outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<SubjectError<'a>>,
}

/// An error while a rule was evaluated for one subject.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RowError<'a> {
    /// The stable name of the problem.
    pub code: Cow<'a, str>,
    /// The line of the part that failed.
    pub line: u32,
    /// The column of its first character.
    pub column: u32,
}

/// The reason why a subject has no outcome.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct SubjectError<'a> {
    /// The status that a read of the record has.
    #[schema(minimum = 400)]
    pub status: u16,
    /// One sentence for a person.
    pub detail: Cow<'a, str>,
}

/// One part of an expression with its value for one subject.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Explanation<'a> {
    /// The part, as the expression has it.
    pub text: Cow<'a, str>,
    /// The item of a list for which it was evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
    /// Its value: `null` where it is not known, an object for a code, a record and a list (`items_min`, `items_max`).
    pub value: Value,
    /// The facts that the part reads itself, by name; `null` where one is not recorded.
    #[schema(value_type = Object)]
    pub seen: Map<String, Value>,
    /// The facts that are not known and on which the value depends.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub missing: Cow<'a, [String]>,
    /// The stable name of the problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Cow<'a, str>>,
    /// The parts of this part.
    #[schema(no_recursion)]
    pub children: Vec<Explanation<'a>>,
    /// True if parts are left out because there are too many.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

fn is_empty(texts: &[String]) -> bool {
    texts.is_empty()
}

/// The data that repeat a decision.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Decision<'a> {
    /// The digest of the rule.
    #[schema(schema_with = decision_text)]
    pub expression_digest: Cow<'a, str>,
    /// The engine with its version.
    #[schema(schema_with = decision_text)]
    pub engine: Cow<'a, str>,
    /// The vocabularies that the decision used.
    pub vocabularies: Vec<UsedVocabulary<'a>>,
    /// The digest of the concept groups that it used.
    #[schema(schema_with = decision_text)]
    pub concept_groups: Cow<'a, str>,
    /// The digest of the fields that rules may read.
    #[schema(schema_with = decision_text)]
    pub schema: Cow<'a, str>,
    /// The day that counts as today.
    #[schema(format = Date)]
    pub as_of: Cow<'a, str>,
    /// The records that it read.
    pub versions: Vec<ReadVersion<'a>>,
    /// `consent` where the decision read only records and fields to which a consent grants access.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visibility: Option<Visibility>,
    /// The signature.
    #[schema(schema_with = seal)]
    pub seal: Cow<'a, str>,
}

/// A vocabulary that a decision used.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct UsedVocabulary<'a> {
    /// The vocabulary.
    #[schema(schema_with = decision_text)]
    pub namespace: Cow<'a, str>,
    /// Its version.
    #[schema(schema_with = decision_text)]
    pub version: Cow<'a, str>,
    /// The digest of its codes.
    #[schema(schema_with = decision_text)]
    pub digest: Cow<'a, str>,
}

/// A record that a decision read.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ReadVersion<'a> {
    /// `<kind>/<system>|<value>`
    #[schema(schema_with = decision_text)]
    pub reference: Cow<'a, str>,
    /// The version that it had.
    #[schema(schema_with = decision_text)]
    pub version_id: Cow<'a, str>,
}

/// The records that a decision could read, where they are not all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// Records and fields to which a consent grants access.
    Consent,
}

fn decision_text() -> ObjectBuilder {
    line(DECISION_TEXT_BYTES_MAX)
}

fn seal() -> ObjectBuilder {
    decision_text().description(Some(
        "Proves that this register gave the decision to the client's organization, or to the client where it has none: the id of a key and a signature.",
    ))
}
