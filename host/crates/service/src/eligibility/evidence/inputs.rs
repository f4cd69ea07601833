//! The input of an engine, read from the content of an evidence bundle, and its evaluation.
//!
//! **Invariant:** content of any origin gives an input without contradictions, or an error that names the part.
//!
//! **Invariant:** an input takes memory in proportion to its content. The table of a question has an entry for every
//! code, and is built only for a question that the compiled rule asks.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::civil::Date;
use serde_json::Value;

use super::BUNDLE_BYTES_MAX;
use super::content::{Content, EvidenceQuestion, EvidenceSubject, QuestionKind};
use crate::eligibility::check::named_code;
use crate::eligibility::decision::expression_digest;
use crate::eligibility::evaluate::{EXPLAINED_MAX, ExplainedOutcome, ExplanationTree, Node, SubjectResult, explained};
use crate::eligibility::failure::Failure;
use crate::eligibility::layout::{Bitmap, codes_with_texts};
use crate::eligibility::schema::{LIST_MARK, of_fields};
use daftar_domain::audit::Actor;
use daftar_domain::calendar::days_since_epoch;
use daftar_domain::code::CodeNumber;
use daftar_domain::eligibility::{
    Answer, Batch, Bindings, Children, CodeTexts, Column, ColumnValues, Diagnostic, Field, FieldType, Question,
    Reference, RowSpace, Schema, Subject, Truth,
};
use daftar_domain::error::AppError;
use daftar_sandbox::{RuleRequest, RuleSession};

/// Mark at the end of the path of the items of a list.
const ITEMS: &str = "[]";
/// Maximum number of questions of a rule; the sandbox rejects a rule with more.
const QUESTIONS_MAX: usize = 1_000;

/// The complete input of an engine. A code has its position in the content as its number.
#[derive(Debug)]
pub struct Inputs {
    expression: String,
    explain: bool,
    schema: Arc<Schema>,
    codes: Vec<CodeTexts>,
    questions: Vec<Question>,
    answers: Vec<NamedAnswer>,
    /// One batch for each subject.
    batches: Vec<Batch>,
}

/// The answer to a question, with the codes that it names.
#[derive(Debug)]
enum NamedAnswer {
    /// The answers for these codes, of which the last one of a code counts; no for all others.
    Truths { named: Vec<(CodeNumber, Truth)>, missing: Option<String> },
    /// The number of a code.
    Number(CodeNumber),
}

impl NamedAnswer {
    /// Returns the answer for all codes, of which there are `codes`.
    fn for_codes(&self, codes: usize) -> Answer {
        match self {
            Self::Truths { named, missing } => {
                let mut truths = vec![Truth::No; codes];
                for (number, truth) in named {
                    if let Some(place) = truths.get_mut(number.0 as usize) {
                        *place = *truth;
                    }
                }
                Answer::Truths { truths, missing: missing.clone() }
            }
            Self::Number(number) => Answer::Number(*number),
        }
    }
}

/// The results of a repeated evaluation, and the inputs of the decision that were computed again.
#[derive(Debug)]
pub struct Replayed {
    /// One result for each subject.
    pub results: Vec<SubjectResult>,
    /// The codes in the explanations.
    pub codes: BTreeMap<CodeNumber, CodeTexts>,
    /// Warnings about the rule.
    pub warnings: Vec<Diagnostic>,
    /// Digest of the expression.
    pub expression_digest: String,
    /// Digest of the schema.
    pub schema: String,
    /// Name, version and digest of the engine.
    pub engine: String,
}

impl Content {
    /// Reads the input of the engine.
    ///
    /// # Errors
    /// One sentence that names the first invalid part.
    pub fn inputs(&self) -> Result<Inputs, String> {
        // A command prints these texts on a terminal.
        if let Some(text) = self.texts().find(|text| text.chars().any(char::is_control)) {
            return Err(format!("the text {text:?} has control characters"));
        }
        for (name, count, limit, of) in [
            ("questions", self.questions.len(), QUESTIONS_MAX, "a rule"),
            ("subjects", self.subjects.len(), EXPLAINED_MAX, "a bundle"),
        ] {
            if count > limit {
                return Err(format!("`{name}` has {count} {name}, and {of} has at most {limit}"));
            }
        }
        let subject = Subject::parse(&self.subject);
        let subject = subject.ok_or_else(|| "`subject` must be `individual` or `group`".to_owned())?;
        let as_of = day(&self.as_of).ok_or_else(|| format!("`as_of` is `{}`, not YYYY-MM-DD", self.as_of))?;
        let fields = self.schema.iter().enumerate().map(|(at, field)| {
            let (space, kind) = (RowSpace::parse(&field.space), FieldType::parse(&field.r#type));
            let (Some(space), Some(kind)) = (space, kind) else {
                return Err(format!("`schema[{at}]` has an unknown space or type"));
            };
            let (path, vocabularies) = (field.path.clone(), field.vocabularies.clone());
            Ok(Field { space, path, kind, is_repeated: field.repeated, vocabularies })
        });
        let schema = of_fields(subject, fields.collect::<Result<_, _>>()?);
        let numbers: HashMap<String, u32> = (0..).zip(&self.codes).map(|(number, code)| (code.uri(), number)).collect();
        if numbers.len() != self.codes.len() {
            return Err("`codes` has a code twice".to_owned());
        }
        let codes = (0..).zip(&self.codes).map(|(number, code)| CodeTexts {
            number: CodeNumber(number),
            namespace: code.namespace.clone(),
            code: code.code.clone(),
            display: code.display.clone(),
        });
        let questions = self.questions.iter().map(|asked| answer(asked, &numbers));
        let (questions, answers) = questions.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let reader = Reader { schema: &schema, numbers: &numbers };
        let batches = self.subjects.iter().enumerate().map(|(at, subject)| {
            reader.batch(subject, as_of).map_err(|problem| format!("`subjects[{at}]`: {problem}"))
        });
        Ok(Inputs {
            expression: self.expression.clone(),
            explain: self.explain,
            codes: codes.collect(),
            questions,
            answers,
            batches: batches.collect::<Result<_, _>>()?,
            schema: Arc::new(schema),
        })
    }
}

impl Inputs {
    /// Returns the rule with its schema.
    #[must_use]
    pub fn rule(&self) -> RuleRequest {
        RuleRequest {
            actor: Actor::Administrator,
            expression: self.expression.clone(),
            schema: Arc::clone(&self.schema),
            idle: None,
        }
    }

    /// Returns the codes by number.
    pub(in crate::eligibility) fn codes_by_number(&self) -> BTreeMap<CodeNumber, CodeTexts> {
        self.codes.iter().map(|code| (code.number, code.clone())).collect()
    }

    /// Evaluates the subjects one by one. The questions are those of the rule of the session.
    pub(in crate::eligibility) fn decide(&self, session: &mut RuleSession) -> Result<Vec<ExplainedOutcome>, Failure> {
        let references = session.references().to_vec();
        let answers: Vec<Answer> = self.answers.iter().map(|answer| answer.for_codes(self.codes.len())).collect();
        let mut with_texts: BTreeSet<CodeNumber> = answers.iter().filter_map(named_code).collect();
        with_texts.extend(self.batches.iter().flat_map(|batch| codes_with_texts(&references, batch)));
        let texts = self.codes.iter().filter(|code| with_texts.contains(&code.number)).cloned().collect();
        session.bind(&Bindings { answers, texts })?;
        let (mut decided, mut parts, mut bytes) = (Vec::with_capacity(self.batches.len()), 0, 0);
        for batch in &self.batches {
            let outcome = session.evaluate(batch)?.of(0);
            let explanation = match self.explain {
                true => explained(session, &self.expression, batch, &mut parts)?,
                false => None,
            };
            if let Some(tree) = &explanation {
                add_texts(tree, &mut bytes)?;
            }
            decided.push((outcome, explanation));
        }
        Ok(decided)
    }

    /// Repeats the evaluation with a compiled rule.
    ///
    /// # Errors
    /// One sentence: the content does not fit the rule, or the engine failed.
    pub fn replay(&self, session: &mut RuleSession) -> Result<Replayed, String> {
        if !session.questions().iter().map(|placed| &placed.question).eq(&self.questions) {
            return Err("`questions` does not fit the rule, which asks other questions about codes".to_owned());
        }
        for (at, batch) in self.batches.iter().enumerate() {
            check_fit(session.references(), batch).map_err(|problem| format!("`subjects[{at}]`: {problem}"))?;
        }
        let outcomes = self.decide(session).map_err(|failure| match failure {
            Failure::App(error) => error.to_string(),
            Failure::Engine(error) | Failure::EngineIn(_, error) => error.to_string(),
        })?;
        Ok(Replayed {
            results: outcomes.into_iter().map(SubjectResult::from).collect(),
            codes: self.codes_by_number(),
            warnings: session.warnings().to_vec(),
            expression_digest: expression_digest(&self.expression),
            schema: self.schema.version.clone(),
            engine: session.engine_name().to_owned(),
        })
    }
}

/// Adds the size of the texts of an explanation to `bytes`. A bundle contains the response with all explanations.
///
/// # Errors
/// [`AppError::Invalid`] if they are larger than a bundle.
pub(super) fn add_texts(tree: &ExplanationTree, bytes: &mut usize) -> Result<(), AppError> {
    *bytes = bytes.saturating_add(text_bytes(&tree.root));
    if *bytes <= BUNDLE_BYTES_MAX {
        return Ok(());
    }
    let message = format!("the evidence bundle would have more than {BUNDLE_BYTES_MAX} bytes; name fewer subjects");
    Err(AppError::invalid("subjects", "too_many", message))
}

/// Returns the size of the texts of a part and of its child parts. A tree has few levels, so the function may be
/// recursive.
fn text_bytes(node: &Node) -> usize {
    let own = [&node.text].into_iter().chain(&node.part.missing).map(String::len);
    own.chain(node.children.iter().map(text_bytes)).sum()
}

/// Reads a day.
fn day(text: &str) -> Option<i32> {
    text.parse::<Date>().ok().filter(|day| day.to_string() == text).map(days_since_epoch)
}

/// Checks that a batch has the rows and the fields that a rule reads, and no other fields.
fn check_fit(references: &[Reference], batch: &Batch) -> Result<(), String> {
    for (space, children) in [(RowSpace::Members, &batch.members), (RowSpace::Programs, &batch.programs)] {
        let name = space.name();
        match (references.iter().any(|reference| reference.space == space), children.is_some()) {
            (true, false) => return Err(format!("`{name}` is missing, which the rule reads")),
            (false, true) => return Err(format!("`{name}` is present, which the rule does not read")),
            (true, true) | (false, false) => {}
        }
    }
    let read = references.iter().filter(|reference| !reference.path.is_empty());
    let is_there = |reference: &Reference| {
        batch.columns.iter().any(|column| column.space == reference.space && column.path == reference.path)
    };
    if let Some(absent) = read.clone().find(|reference| !is_there(reference)) {
        return Err(format!("`facts` lacks `{}`, which the rule reads", absent.name()));
    }
    let list_of = |path: &str| path.split_once(ITEMS).map_or_else(|| path.to_owned(), |(list, _)| list.to_owned());
    let is_read = |column: &&Column| {
        read.clone().any(|reference| {
            let is_list =
                list_of(&reference.path) == column.path || format!("{}{ITEMS}", reference.path) == column.path;
            reference.space == column.space && (reference.path == column.path || is_list)
        })
    };
    match batch.columns.iter().find(|column| !is_read(column)) {
        Some(unread) => Err(format!("`facts` has `{}`, which the rule does not read", unread.name())),
        None => Ok(()),
    }
}

/// Reads a question with its answer, by the numbers of codes.
fn answer(asked: &EvidenceQuestion, numbers: &HashMap<String, u32>) -> Result<(Question, NamedAnswer), String> {
    let EvidenceQuestion { kind, of, yes, unknown, missing } = asked;
    let number = |uri: &String| {
        let number = numbers.get(uri).copied().map(CodeNumber);
        number.ok_or_else(|| format!("the answer about `{of}` names `{uri}`, which is not in `codes`"))
    };
    let question = match kind {
        QuestionKind::InGroup => Question::InGroup(of.clone()),
        QuestionKind::DescendsFrom => Question::DescendsFrom(of.clone()),
        QuestionKind::Code => {
            let [only] = yes.as_slice() else { return Err(format!("the answer about `{of}` must name one code")) };
            return Ok((Question::Code(of.clone()), NamedAnswer::Number(number(only)?)));
        }
    };
    let mut named = Vec::with_capacity(yes.len() + unknown.len());
    for (codes, truth) in [(yes, Truth::Yes), (unknown, Truth::Unknown)] {
        for uri in codes {
            named.push((number(uri)?, truth));
        }
    }
    Ok((question, NamedAnswer::Truths { named, missing: missing.clone() }))
}

/// Reads facts by the types of the schema.
struct Reader<'a> {
    schema: &'a Schema,
    numbers: &'a HashMap<String, u32>,
}

impl Reader<'_> {
    fn batch(&self, subject: &EvidenceSubject, as_of: i32) -> Result<Batch, String> {
        let children = |count: Option<u32>| {
            let mut known = Bitmap::default();
            known.push(count.is_some());
            Children { offsets: vec![0, count.unwrap_or(0)], known: known.finish() }
        };
        let columns = subject.facts.iter().map(|(name, values)| {
            let column = self.column(name, values)?;
            let rows = rows_of(&column, subject)?;
            if rows != values.len() as u64 {
                return Err(format!("`facts` has {} values of `{name}` for {rows} rows", values.len()));
            }
            Ok(column)
        });
        Ok(Batch {
            as_of,
            rows: 1,
            columns: columns.collect::<Result<_, String>>()?,
            members: subject.members.map(children),
            programs: subject.programs.map(children),
        })
    }

    fn column(&self, name: &str, values: &[Value]) -> Result<Column, String> {
        let unknown = || format!("`facts` has `{name}`, which is not a field of the schema");
        let (space, path) = name.split_once('.').ok_or_else(unknown)?;
        let space = RowSpace::parse(space).ok_or_else(unknown)?;
        let items = path.strip_suffix(ITEMS);
        let field = self.schema.fields.iter().find(|field| field.space == space && field.path == items.unwrap_or(path));
        let field = field.filter(|field| items.is_none() || field.is_repeated).ok_or_else(unknown)?;
        let is_list = field.is_repeated && items.is_none() && !path.contains(LIST_MARK);
        let mut valid = Bitmap::default();
        values.iter().for_each(|value| valid.push(!value.is_null()));
        let values = if is_list { lists(name, values)? } else { self.values(field.kind, name, values)? };
        Ok(Column { space, path: path.to_owned(), valid: valid.finish(), values })
    }

    fn values(&self, kind: FieldType, name: &str, values: &[Value]) -> Result<ColumnValues, String> {
        let number = |value: &Value| value.as_str()?.parse::<f64>().ok().filter(|number| number.is_finite());
        Ok(match kind {
            FieldType::Boolean => {
                ColumnValues::Booleans(typed(name, values, "`true` or `false`", |value| value.as_bool().map(u8::from))?)
            }
            FieldType::Integer => ColumnValues::Integers(typed(name, values, "a whole number", Value::as_i64)?),
            FieldType::Number => ColumnValues::Numbers(typed(name, values, "a number as a text", number)?),
            FieldType::Date => {
                ColumnValues::Days(typed(name, values, "a date as YYYY-MM-DD", |value| day(value.as_str()?))?)
            }
            FieldType::Coded => ColumnValues::Codes(typed(name, values, "a code of `codes`", |value| {
                self.numbers.get(value.as_str()?).copied()
            })?),
            FieldType::Text => {
                let texts = typed(name, values, "a text", |value| value.as_str().map(str::to_owned))?;
                let offsets = offsets(name, texts.iter().map(String::len))?;
                ColumnValues::Texts { offsets, bytes: texts.concat().into_bytes() }
            }
            FieldType::Structure => ColumnValues::Integers(typed(name, values, "`null`", |_| None)?),
        })
    }
}

/// Reads the values of one type; a missing value is the default of the type, as the server writes it to a column.
fn typed<T: Default>(
    name: &str,
    values: &[Value],
    wanted: &str,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<Vec<T>, String> {
    let values = values.iter().enumerate().map(|(at, value)| match value {
        Value::Null => Ok(T::default()),
        value => read(value).ok_or_else(|| format!("the value {at} of `{name}` must be {wanted} or `null`")),
    });
    values.collect()
}

fn lists(name: &str, values: &[Value]) -> Result<ColumnValues, String> {
    let count = |value: &Value| value.as_u64().and_then(|count| usize::try_from(count).ok());
    let counts = typed(name, values, "a number of items", count)?;
    Ok(ColumnValues::Lists(offsets(name, counts.into_iter())?))
}

fn offsets(name: &str, lengths: impl Iterator<Item = usize>) -> Result<Vec<u32>, String> {
    let (mut offsets, mut end) = (vec![0], 0_u32);
    for length in lengths {
        let next = u32::try_from(length).ok().and_then(|length| end.checked_add(length));
        end = next.ok_or_else(|| format!("`{name}` is too long"))?;
        offsets.push(end);
    }
    Ok(offsets)
}

/// Returns the number of rows of a column.
fn rows_of(column: &Column, subject: &EvidenceSubject) -> Result<u64, String> {
    let name = column.name();
    if let Some((list, _)) = name.split_once(ITEMS) {
        let counts = subject.facts.get(list).ok_or_else(|| format!("`facts` has `{name}` without `{list}`"))?;
        return Ok(counts.iter().filter_map(Value::as_u64).fold(0, u64::saturating_add));
    }
    let children = match column.space {
        RowSpace::Me => return Ok(1),
        RowSpace::Members => subject.members,
        RowSpace::Programs => subject.programs,
    };
    let children = children.ok_or_else(|| format!("`facts` has `{name}` without `{}`", column.space.name()))?;
    Ok(children.unwrap_or(0).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_no_for_codes_that_it_does_not_name() {
        let named = vec![(CodeNumber(0), Truth::Yes), (CodeNumber(2), Truth::Yes), (CodeNumber(2), Truth::Unknown)];
        let missing = Some("concept_group.women".to_owned());
        let answer = NamedAnswer::Truths { named, missing: missing.clone() };
        let truths = vec![Truth::Yes, Truth::No, Truth::Unknown, Truth::No];
        assert_eq!(answer.for_codes(4), Answer::Truths { truths, missing });
        assert_eq!(NamedAnswer::Number(CodeNumber(3)).for_codes(4), Answer::Number(CodeNumber(3)));
    }
}
