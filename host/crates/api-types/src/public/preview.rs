//! Rules over the whole register.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa::openapi::Ref;

use super::eligibility::{Decision, Diagnostic, Outcome, RowError, SubjectKind, engine_name, expression};
use crate::problem::Problem;

/// A rule with the filters of a search.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct PreviewRequest<'a> {
    /// The rule.
    #[schema(schema_with = expression)]
    pub expression: Cow<'a, str>,
    /// A rule to compare it with, over the same subjects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = expression)]
    pub compare: Option<Cow<'a, str>>,
    /// The eligibility engine, by name; the active one by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = engine_name)]
    pub engine: Option<Cow<'a, str>>,
    /// The kind of record that the rule is about; `individual` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<SubjectKind>,
    /// The subjects; all where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub filter: Option<Map<String, Value>>,
    /// The number of subjects to show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<u32>,
    /// True if the outcome of each subject is returned, as lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subjects: Option<bool>,
    /// The day that counts as today.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = Date)]
    pub as_of: Option<Cow<'a, str>>,
}

/// The number of subjects by outcome.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
pub struct Counts {
    /// All subjects.
    pub total: u64,
    /// Those that are eligible.
    pub eligible: u64,
    /// Those that are not eligible.
    pub not_eligible: u64,
    /// Those for which the recorded facts do not decide.
    pub undetermined: u64,
    /// Those of the undetermined for which the evaluation failed.
    pub errors: u64,
}

/// The result of a preview.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Previewed<'a> {
    /// All subjects.
    #[serde(flatten)]
    pub counts: Counts,
    /// The subjects by gender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_gender: Option<Vec<GenderCounts<'a>>>,
    /// The subjects by age.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_age_band: Option<Vec<AgeBandCounts>>,
    /// The subjects by region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_region: Option<Vec<RegionCounts<'a>>>,
    /// The facts that would decide, with the number of subjects that lack them.
    pub missing: Vec<MissingFact<'a>>,
    /// Some subjects, at most the requested number.
    pub sample: Vec<PreviewSubject<'a>>,
    /// The comparison with the second rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison<'a>>,
    /// The breakdowns that the client may not see.
    pub withheld: Vec<Cow<'a, str>>,
    /// The data that repeat the decision.
    pub decision: Decision<'a>,
    /// The warnings about the expression.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Diagnostic<'a>>,
}

/// The subjects of one gender, or without one.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct GenderCounts<'a> {
    /// The code; `null` for subjects without one.
    #[schema(required)]
    pub code: Option<Cow<'a, str>>,
    /// Its name.
    #[schema(required)]
    pub display: Option<Cow<'a, str>>,
    /// The number of them.
    #[serde(flatten)]
    pub counts: Counts,
}

/// The subjects of an age, or whose age is not known.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct AgeBandCounts {
    /// The lowest age in years; `null` where the age is not known.
    #[schema(required)]
    pub from: Option<u8>,
    /// The highest age in years; `null` where it is open.
    #[schema(required)]
    pub to: Option<u8>,
    /// The number of them.
    #[serde(flatten)]
    pub counts: Counts,
}

/// The subjects with an address in one region, or without any. A subject with several counts in each.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RegionCounts<'a> {
    /// The region; `null` for subjects without one.
    #[schema(required)]
    pub region: Option<Cow<'a, str>>,
    /// The number of them.
    #[serde(flatten)]
    pub counts: Counts,
}

/// A fact that would decide.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct MissingFact<'a> {
    /// The name of the fact.
    pub field: Cow<'a, str>,
    /// The number of subjects that lack it.
    pub count: u64,
}

/// The outcomes of a rule (A) compared with those of a second one (B).
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Comparison<'a> {
    /// The subjects by both outcomes: all nine pairs.
    pub cells: Vec<Cell>,
    /// The subjects by gender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_gender: Option<Vec<GenderCells<'a>>>,
    /// The subjects by age.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_age_band: Option<Vec<AgeBandCells>>,
    /// The subjects by region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_region: Option<Vec<RegionCells<'a>>>,
    /// Subjects that are eligible by B and not by A, in the order of registration, at most `sample` of them.
    pub gained: Vec<MovedSubject<'a>>,
    /// Subjects that are eligible by A and not by B, in the order of registration, at most `sample` of them.
    pub lost: Vec<MovedSubject<'a>>,
    /// The warnings about the second rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Diagnostic<'a>>,
}

/// The number of subjects with one outcome by each rule.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
pub struct Cell {
    /// The outcome of A.
    pub a: Outcome,
    /// The outcome of B.
    pub b: Outcome,
    /// The number of them.
    pub count: u64,
}

/// The subjects of one gender, or without one, by both outcomes.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct GenderCells<'a> {
    /// The code; `null` for subjects without one.
    #[schema(required)]
    pub code: Option<Cow<'a, str>>,
    /// Its name.
    #[schema(required)]
    pub display: Option<Cow<'a, str>>,
    /// The number of them.
    pub cells: Vec<Cell>,
}

/// The subjects of an age, or whose age is not known, by both outcomes.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct AgeBandCells {
    /// The lowest age in years; `null` where the age is not known.
    #[schema(required)]
    pub from: Option<u8>,
    /// The highest age in years; `null` where it is open.
    #[schema(required)]
    pub to: Option<u8>,
    /// The number of them.
    pub cells: Vec<Cell>,
}

/// The subjects with an address in one region, or without any, by both outcomes.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RegionCells<'a> {
    /// The region; `null` for subjects without one.
    #[schema(required)]
    pub region: Option<Cow<'a, str>>,
    /// The number of them.
    pub cells: Vec<Cell>,
}

/// A subject that one rule makes eligible and the other does not.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct MovedSubject<'a> {
    /// Its reference.
    pub subject: Cow<'a, str>,
    /// The outcome of A.
    pub a: Outcome,
    /// The outcome of B.
    pub b: Outcome,
}

/// The result of a rule for one subject.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct PreviewSubject<'a> {
    /// Its reference.
    pub subject: Cow<'a, str>,
    /// The outcome.
    pub outcome: Outcome,
    /// The outcome of the rule that it is compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared: Option<Outcome>,
    /// The facts that are not known and on which the outcome depends.
    pub missing: Cow<'a, [String]>,
    /// The errors of the evaluation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<RowError<'a>>,
}

/// A line with the progress of a preview.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct PreviewProgress {
    /// The number of subjects.
    pub progress: Progress,
}

/// The progress of a preview.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    /// The number of subjects that are evaluated.
    pub done: u64,
    /// The number of all subjects.
    pub total: u64,
}

/// The last line of a preview that failed.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct PreviewFailed<'a> {
    /// The body that a refusal has.
    #[schema(schema_with = problem)]
    pub error: Problem<'a>,
}

/// A line of a preview: progress and subjects, then the result or the failure.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum PreviewLine<'a> {
    /// The progress.
    Progress(PreviewProgress),
    /// A failure, which ends the preview.
    Failed(PreviewFailed<'a>),
    /// One subject.
    Subject(PreviewSubject<'a>),
    /// The result, which ends the preview.
    Result(Box<Previewed<'a>>),
}

/// The component of the document for the body of a refusal.
pub(super) fn problem() -> Ref {
    Ref::from_schema_name("Problem")
}
