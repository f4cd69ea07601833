//! Questions of rules about codes.
//!
//! The answer is one truth for each code number, so that a rule over a million people needs one query.
//!
//! To the helpers of rules gender `0`, "not known", is a missing fact: every question about genders is answered with
//! "unknown" for it. Other missing facts are unknown too, and the answer names the fact: `concept_group.<name>` for a
//! group that is unset or whose vocabularies are incomplete here, the field that held the code otherwise.

use super::Generation;
use super::group::{PublishedGroup, gender_not_known, is_gender};
use super::index::Known;
use crate::code_problem::{CodeProblem, quoted};
use crate::nearest::SUGGESTIONS_MAX;
use daftar_domain::code::{CodeError, CodeNumber, CodeUri};
use daftar_domain::eligibility::{Answer, Question, Truth};

/// Names further apart than that are not alike.
const NAME_EDITS_MAX: usize = 3;
/// A longer name is no misspelt one. In bytes.
const NAME_SEARCHED_BYTES_MAX: usize = 128;

/// Error of a question: the expression is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuestionProblem {
    /// There is no concept group of that name.
    #[error("there is no concept group `{}`{}", .name.escape_debug(), did_you_mean(.nearest))]
    UnknownConceptGroup {
        /// The name.
        name: String,
        /// The names that are like it.
        nearest: Vec<String>,
    },
    /// The text is not a code's URI.
    #[error("{0}")]
    MalformedCode(CodeError),
    /// There is no such code.
    #[error("{0}")]
    Code(CodeProblem),
}

impl QuestionProblem {
    /// The stable name of the problem.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownConceptGroup { .. } => "unknown_concept_group",
            Self::MalformedCode(_) => "malformed_code",
            Self::Code(problem) => problem.code(),
        }
    }

    /// Closest match, as replacement of the name or URI, without quotation marks.
    #[must_use]
    pub fn suggestion(&self) -> Option<&str> {
        match self {
            Self::UnknownConceptGroup { nearest, .. } => nearest.first().map(String::as_str),
            Self::MalformedCode(_) => None,
            Self::Code(problem) => problem.suggestions().first().map(|suggestion| suggestion.uri.as_str()),
        }
    }
}

impl Generation {
    /// Answers a rule's question. Codes that are no longer in use may be asked about: old records hold them.
    ///
    /// # Errors
    /// If the question names a concept group or a code that there is not.
    pub fn answer(&self, question: &Question) -> Result<Answer, QuestionProblem> {
        match question {
            Question::InGroup(name) => {
                let group = self.concept_group(name).ok_or_else(|| self.unknown_group(name))?;
                Ok(self.truths_of_group(group))
            }
            Question::DescendsFrom(text) => {
                let uri = self.known_code(text)?.1;
                let truths = self.truths(&self.index.at_or_below(&uri), is_gender(&uri));
                Ok(Answer::Truths { truths, missing: None })
            }
            Question::Code(text) => Ok(Answer::Number(self.known_code(text)?.0)),
        }
    }

    /// The missing name of a question that cannot be answered for any code, because its concept group is unset: worth a
    /// warning to the author of the rule.
    #[must_use]
    pub fn unset_in(&self, question: &Question) -> Option<String> {
        match question {
            Question::InGroup(name) => {
                self.concept_group(name).filter(|group| group.is_unset()).map(PublishedGroup::missing_name)
            }
            Question::DescendsFrom(_) | Question::Code(_) => None,
        }
    }

    fn truths_of_group(&self, group: &PublishedGroup) -> Answer {
        if group.is_unset() {
            let truths = vec![Truth::Unknown; self.code_count()];
            return Answer::Truths { truths, missing: Some(group.missing_name()) };
        }
        let truths = self.truths(group.known(), group.concerns_gender());
        let is_undecided = !group.known().unknown.is_empty();
        Answer::Truths { truths, missing: is_undecided.then(|| group.missing_name()) }
    }

    fn truths(&self, known: &Known, concerns_gender: bool) -> Vec<Truth> {
        let mut truths = vec![Truth::No; self.code_count()];
        let mut set = |number: u32, truth: Truth| {
            if let Some(place) = truths.get_mut(number as usize) {
                *place = truth;
            }
        };
        known.yes.iter().for_each(|number| set(number, Truth::Yes));
        known.unknown.iter().for_each(|number| set(number, Truth::Unknown));
        if let Some(not_known) = gender_not_known(&self.index).filter(|_| concerns_gender) {
            set(not_known.0, Truth::Unknown);
        }
        truths
    }

    fn known_code(&self, text: &str) -> Result<(CodeNumber, CodeUri), QuestionProblem> {
        let uri = CodeUri::parse(text).map_err(QuestionProblem::MalformedCode)?;
        let (installed, concept) = self.exact(&uri).map_err(QuestionProblem::Code)?;
        let unnumbered = || QuestionProblem::Code(self.not_installed(&uri));
        let number = self.index.number(installed, concept).ok_or_else(unnumbered)?;
        Ok((number, uri))
    }

    /// Error: unknown concept group, with similar names.
    #[must_use]
    pub fn unknown_group(&self, name: &str) -> QuestionProblem {
        let known = self.concept_groups().map(|group| group.definition().name.as_str());
        let mut near: Vec<(usize, &str)> = if name.len() > NAME_SEARCHED_BYTES_MAX {
            Vec::new()
        } else {
            let distance = |known: &str| strsim::osa_distance(&known.to_ascii_lowercase(), &name.to_ascii_lowercase());
            known.map(|known| (distance(known), known)).filter(|(edits, _)| *edits <= NAME_EDITS_MAX).collect()
        };
        near.sort_unstable();
        let mut nearest: Vec<String> = near.into_iter().map(|(_, name)| name.to_owned()).collect();
        nearest.truncate(SUGGESTIONS_MAX);
        let shown_name = name.chars().take(NAME_SEARCHED_BYTES_MAX).collect();
        QuestionProblem::UnknownConceptGroup { name: shown_name, nearest }
    }
}

fn did_you_mean(nearest: &[String]) -> String {
    if nearest.is_empty() { String::new() } else { format!("; did you mean {}?", quoted(nearest, "or")) }
}
