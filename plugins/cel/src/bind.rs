//! The host's answers about codes, prepared for the evaluator.
//!
//! **Invariant:** there is exactly one answer for each question of the plan, of the kind of the question.

use crate::facts::{Fact, FactSet};
use crate::plan::{Plan, Question};
use crate::schema::Space;
use crate::tree::{CodePart, QuestionId};
use crate::value::{Truth, Unknown};
use std::collections::{BTreeMap, HashMap};

/// The host's answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// For each code number 0 no, 1 yes, 2 unknown; no beyond the end.
    Truths {
        /// By code number.
        truths: Vec<u8>,
        /// The missing fact where the truth is unknown; if none, the field of the code.
        missing: Option<String>,
    },
    /// The number of the requested code.
    Number(u32),
}

/// The texts of one code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeTexts {
    /// `.namespace`
    pub namespace: String,
    /// `.code`
    pub code: String,
    /// `.display`
    pub display: String,
    /// `.uri`
    pub uri: String,
}

impl CodeTexts {
    /// Creates the texts of a code; its URI is derived from the others.
    pub fn new(namespace: String, code: String, display: String) -> Self {
        let uri = format!("{namespace}#{code}");
        Self { namespace, code, display, uri }
    }

    /// One of them.
    pub fn part(&self, part: CodePart) -> &str {
        match part {
            CodePart::Code => &self.code,
            CodePart::Uri => &self.uri,
            CodePart::Display => &self.display,
            CodePart::Namespace => &self.namespace,
        }
    }
}

/// The reason why bindings were rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindFault {
    /// The number of answers differs from the number of questions.
    WrongAnswerCount,
    /// The answer with that index does not match the kind of its question.
    WrongAnswerKind(u32),
}

/// The answers, with the names of all facts that can be missing.
#[derive(Debug)]
pub struct Bindings {
    answers: Vec<Answer>,
    texts: HashMap<u32, CodeTexts>,
    /// The names, unique and sorted, with their facts.
    names: Vec<(String, FactSet)>,
}

impl Bindings {
    /// Binds the answers to the questions of a plan.
    ///
    /// # Errors
    ///
    /// The answers do not match the questions.
    pub fn new(
        plan: &Plan,
        answers: Vec<Answer>,
        texts: impl IntoIterator<Item = (u32, CodeTexts)>,
    ) -> Result<Self, BindFault> {
        if answers.len() != plan.questions().len() {
            return Err(BindFault::WrongAnswerCount);
        }
        for (index, (placed, answer)) in (0..).zip(plan.questions().iter().zip(&answers)) {
            let is_fitting = match (&placed.question, answer) {
                (Question::InGroup(_) | Question::DescendsFrom(_), Answer::Truths { .. }) => true,
                (Question::Code(_), Answer::Number(_)) => true,
                (Question::InGroup(_) | Question::DescendsFrom(_), Answer::Number(_)) => false,
                (Question::Code(_), Answer::Truths { .. }) => false,
            };
            if !is_fitting {
                return Err(BindFault::WrongAnswerKind(index));
            }
        }
        let names = names(plan, &answers);
        Ok(Self { answers, texts: texts.into_iter().collect(), names })
    }

    /// Returns whether a code is in the answer to a question; `field` is the field of the code.
    pub fn is_in_set(&self, question: QuestionId, code: u32, field: FactSet) -> Truth {
        let Some(Answer::Truths { truths, missing }) = self.answers.get(question) else { return Ok(false) };
        match truths.get(code as usize) {
            None | Some(0) => Ok(false),
            Some(1) => Ok(true),
            Some(_) if missing.is_some() => Err(Unknown::missing(FactSet::of(Fact::Question(question)))),
            Some(_) => Err(Unknown::missing(field)),
        }
    }

    /// The truth table of a question by code number: 0 no, 1 yes, more unknown; no beyond the end.
    pub fn truths(&self, question: QuestionId) -> Option<&[u8]> {
        match self.answers.get(question)? {
            Answer::Truths { truths, .. } => Some(truths),
            Answer::Number(_) => None,
        }
    }

    /// The number of the code of the question.
    pub fn number(&self, question: QuestionId) -> Option<u32> {
        match self.answers.get(question)? {
            Answer::Number(number) => Some(*number),
            Answer::Truths { .. } => None,
        }
    }

    /// The texts of a code.
    pub fn texts(&self, code: u32) -> Option<&CodeTexts> {
        self.texts.get(&code)
    }

    /// The names of missing facts, unique and sorted, with their facts.
    pub fn names(&self) -> &[(String, FactSet)] {
        &self.names
    }
}

fn names(plan: &Plan, answers: &[Answer]) -> Vec<(String, FactSet)> {
    let mut names: BTreeMap<String, FactSet> = BTreeMap::new();
    let fields = plan
        .references()
        .iter()
        .enumerate()
        .map(|(number, reference)| (format!("{}.{}", reference.space.root(), reference.path), Fact::Field(number)));
    let questions = answers.iter().enumerate().filter_map(|(number, answer)| match answer {
        Answer::Truths { missing: Some(name), .. } => Some((name.clone(), Fact::Question(number))),
        Answer::Truths { missing: None, .. } | Answer::Number(_) => None,
    });
    let rows = [(Space::Members, Fact::Members), (Space::Programs, Fact::Programs)];
    let rows = rows.into_iter().map(|(space, fact)| (space.root().to_owned(), fact));
    for (name, fact) in fields.chain(questions).chain(rows) {
        let facts = names.entry(name).or_default();
        *facts = facts.union(FactSet::of(fact));
    }
    names.into_iter().collect()
}
