//! The content of an evidence bundle, and its creation from the facts and answers for an engine.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use jiff::civil::Date;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::eligibility::check::named_code;
use crate::eligibility::evaluate::EvaluateRequest;
use crate::eligibility::layout::bit;
use daftar_domain::calendar::date_from_days;
use daftar_domain::code::CodeNumber;
use daftar_domain::eligibility::{
    Answer, Batch, Children, CodeTexts, Column, ColumnValues, Field, Question, Schema, Truth,
};
use daftar_domain::error::AppError;
use daftar_vocabulary::Generation;

/// The content of a bundle. A code is a text `<namespace>#<code>`, and is listed in `codes`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// Public URL of the server that made the decision.
    pub issuer: String,
    /// Name, version and digest of the engine.
    pub engine: String,
    /// The rule.
    pub expression: String,
    /// The program that has this rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Kind of the subjects.
    pub subject: String,
    /// The day of the evaluation, `YYYY-MM-DD`.
    pub as_of: String,
    /// True if the response has explanations.
    pub explain: bool,
    /// All fields that a rule may read, in the order of the schema.
    pub schema: Vec<EvidenceField>,
    /// The codes of all facts and answers, in alphabetical order.
    pub codes: Vec<EvidenceCode>,
    /// The questions of the rule about codes, with the answers of the vocabularies, in the order of the rule.
    pub questions: Vec<EvidenceQuestion>,
    /// The subjects with their facts.
    pub subjects: Vec<EvidenceSubject>,
    /// The bytes of the response of `$evaluate`.
    pub response: String,
}

/// A field that a rule may read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvidenceField {
    /// Its rows: `me`, `members` or `programs`.
    pub space: String,
    /// Its path.
    pub path: String,
    /// Its type.
    pub r#type: String,
    /// True if it is a list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
    /// The vocabularies of its codes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vocabularies: Vec<String>,
}

/// A code with its texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvidenceCode {
    /// Its vocabulary.
    pub namespace: String,
    /// The code.
    pub code: String,
    /// Its display in the default language.
    pub display: String,
}

impl EvidenceCode {
    /// Returns the code as facts and answers name it.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("{}#{}", self.namespace, self.code)
    }
}

/// The kind of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// The codes of a concept group.
    InGroup,
    /// A code and the codes below it.
    DescendsFrom,
    /// A code alone.
    Code,
}

/// A question of the rule about codes, with its answer for the codes of the bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvidenceQuestion {
    /// The kind of the question.
    pub kind: QuestionKind,
    /// The concept group or the code.
    pub of: String,
    /// The codes for which the answer is yes.
    pub yes: Vec<String>,
    /// The codes for which the answer is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// The missing fact that would make it known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// A subject with the facts that the rule reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvidenceSubject {
    /// Its name in the response.
    pub subject: String,
    /// The number of its members, `null` if they are not known; absent if the rule does not read them.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub members: Option<Option<u32>>,
    /// The same of its memberships in programs.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub programs: Option<Option<u32>>,
    /// The values of each field, one for each row: one of `me`, one for each member and membership, one for each item
    /// of a list. The value of a list is its number of items. `null` is a missing fact.
    #[serde(deserialize_with = "scalars")]
    pub facts: BTreeMap<String, Vec<Value>>,
}

/// Reads a member that is present, so that `null` differs from an absent member.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u32>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Reads facts. Objects and lists are rejected as they are read: `{"":0}` would take a hundred times the memory of its
/// text.
fn scalars<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Vec<Value>>, D::Error> {
    let facts = BTreeMap::<String, Vec<Scalar>>::deserialize(deserializer)?;
    let facts = facts.into_iter().map(|(name, values)| (name, values.into_iter().map(|Scalar(value)| value).collect()));
    Ok(facts.collect())
}

/// The value of a fact.
struct Scalar(Value);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor).map(Self)
    }
}

struct ScalarVisitor;

impl Visitor<'_> for ScalarVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the value of a fact, which is `null`, `true`, `false`, a number or a text")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

/// The input of an engine as the server has it.
pub(in crate::eligibility) struct EngineFacts<'a> {
    /// The schema.
    pub schema: &'a Schema,
    /// Day of the evaluation.
    pub as_of: Date,
    /// The questions of the rule with their answers.
    pub questions: Vec<(Question, Answer)>,
    /// One batch for each subject.
    pub batches: Vec<Batch>,
    /// The vocabularies.
    pub generation: &'a Generation,
}

impl Content {
    /// Returns the content for the facts of a request, without the names of subjects, the issuer and the response.
    ///
    /// # Errors
    /// [`AppError::Internal`] if a fact has a code without a name, which is a defect.
    pub(in crate::eligibility) fn new(
        request: &EvaluateRequest,
        engine: &str,
        facts: EngineFacts<'_>,
    ) -> Result<Self, AppError> {
        let EngineFacts { schema, as_of, questions, batches, generation } = facts;
        let mut named: Vec<CodeTexts> = Vec::new();
        for number in numbers(&questions, &batches) {
            let texts = generation.code_texts(number);
            named.push(texts.ok_or_else(|| AppError::internal(format!("the code number {} has no name", number.0)))?);
        }
        named.sort_by(|one, other| (&one.namespace, &one.code).cmp(&(&other.namespace, &other.code)));
        let mut uris = HashMap::new();
        let codes = named.into_iter().map(|CodeTexts { number, namespace, code, display }| {
            let code = EvidenceCode { namespace, code, display };
            uris.insert(number.0, code.uri());
            code
        });
        let codes = codes.collect();
        Ok(Self {
            issuer: String::new(),
            engine: engine.to_owned(),
            expression: request.expression.clone(),
            program: request.program.as_ref().map(|(reference, _)| reference.clone()),
            subject: request.subject.name().to_owned(),
            as_of: as_of.to_string(),
            explain: request.explain,
            schema: schema.fields.iter().map(EvidenceField::from).collect(),
            codes,
            questions: questions.into_iter().map(|(question, answer)| asked(question, &answer, &uris)).collect(),
            subjects: batches.iter().map(|batch| subject(batch, &uris)).collect(),
            response: String::new(),
        })
    }

    /// Returns all texts but the expression, the values of facts and the response.
    pub(super) fn texts(&self) -> impl Iterator<Item = &String> {
        let single = [&self.issuer, &self.engine, &self.as_of].into_iter().chain(&self.program);
        let codes = self.codes.iter().flat_map(|code| [&code.namespace, &code.code, &code.display]);
        let questions = self
            .questions
            .iter()
            .flat_map(|asked| [&asked.of].into_iter().chain(&asked.yes).chain(&asked.unknown).chain(&asked.missing));
        let subjects =
            self.subjects.iter().flat_map(|subject| [&subject.subject].into_iter().chain(subject.facts.keys()));
        single.chain(codes).chain(questions).chain(subjects)
    }

    /// Returns the content with the names of its subjects, its issuer and its response.
    #[must_use]
    pub fn complete(mut self, names: &[String], issuer: &str, response: String) -> Self {
        for (subject, name) in self.subjects.iter_mut().zip(names) {
            subject.subject.clone_from(name);
        }
        Self { issuer: issuer.to_owned(), response, ..self }
    }
}

impl From<&Field> for EvidenceField {
    fn from(field: &Field) -> Self {
        Self {
            space: field.space.name().to_owned(),
            path: field.path.clone(),
            r#type: field.kind.name().to_owned(),
            repeated: field.is_repeated,
            vocabularies: field.vocabularies.clone(),
        }
    }
}

/// Returns the numbers of all codes in facts, and of those that the rule names.
fn numbers(questions: &[(Question, Answer)], batches: &[Batch]) -> BTreeSet<CodeNumber> {
    let named = questions.iter().filter_map(|(_, answer)| named_code(answer));
    let mut numbers: BTreeSet<CodeNumber> = named.collect();
    for column in batches.iter().flat_map(|batch| &batch.columns) {
        if let ColumnValues::Codes(codes) = &column.values {
            let valid = codes.iter().enumerate().filter(|(row, _)| bit(&column.valid, *row));
            numbers.extend(valid.map(|(_, code)| CodeNumber(*code)));
        }
    }
    numbers
}

fn asked(question: Question, answer: &Answer, uris: &HashMap<u32, String>) -> EvidenceQuestion {
    let (kind, of) = match question {
        Question::InGroup(name) => (QuestionKind::InGroup, name),
        Question::DescendsFrom(uri) => (QuestionKind::DescendsFrom, uri),
        Question::Code(uri) => (QuestionKind::Code, uri),
    };
    let is = |number: u32, wanted: Truth| match answer {
        Answer::Truths { truths, .. } => truths.get(number as usize) == Some(&wanted),
        Answer::Number(code) => code.0 == number && wanted == Truth::Yes,
    };
    let codes = |wanted: Truth| {
        let mut codes: Vec<String> =
            uris.iter().filter(|(number, _)| is(**number, wanted)).map(|(_, uri)| uri.clone()).collect();
        codes.sort_unstable();
        codes
    };
    let missing = match answer {
        Answer::Truths { missing, .. } => missing.clone(),
        Answer::Number(_) => None,
    };
    EvidenceQuestion { kind, of, yes: codes(Truth::Yes), unknown: codes(Truth::Unknown), missing }
}

fn subject(batch: &Batch, uris: &HashMap<u32, String>) -> EvidenceSubject {
    let count = |children: &Children| bit(&children.known, 0).then(|| children.offsets.last().copied().unwrap_or(0));
    EvidenceSubject {
        subject: String::new(),
        members: batch.members.as_ref().map(count),
        programs: batch.programs.as_ref().map(count),
        facts: batch.columns.iter().map(|column| (column.name(), values(column, uris))).collect(),
    }
}

/// Returns the values of a column, `null` where a row has none. A number with a fraction is a text, because readers of
/// JSON may round it.
fn values(column: &Column, uris: &HashMap<u32, String>) -> Vec<Value> {
    let values: Vec<Value> = match &column.values {
        ColumnValues::Booleans(values) => values.iter().map(|value| Value::Bool(*value != 0)).collect(),
        ColumnValues::Integers(values) => values.iter().map(|value| Value::from(*value)).collect(),
        ColumnValues::Numbers(values) => values.iter().map(|value| Value::String(value.to_string())).collect(),
        ColumnValues::Days(values) => {
            values.iter().map(|days| date_from_days(*days).map(|day| day.to_string()).into()).collect()
        }
        ColumnValues::Codes(values) => values.iter().map(|code| uris.get(code).cloned().into()).collect(),
        ColumnValues::Texts { offsets, bytes } => {
            let text = |(start, end)| String::from_utf8_lossy(bytes.get(start..end).unwrap_or_default()).into_owned();
            ranges(offsets).map(|range| Value::String(text(range))).collect()
        }
        ColumnValues::Lists(offsets) => ranges(offsets).map(|(start, end)| Value::from(end - start)).collect(),
    };
    values
        .into_iter()
        .enumerate()
        .map(|(row, value)| if bit(&column.valid, row) { value } else { Value::Null })
        .collect()
}

fn ranges(offsets: &[u32]) -> impl Iterator<Item = (usize, usize)> {
    offsets.iter().zip(offsets.iter().skip(1)).map(|(start, end)| (*start as usize, *end as usize))
}
