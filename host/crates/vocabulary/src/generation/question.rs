//! Queries of rules about codes.
//!
//! The result contains one truth value for each code number, so that a rule over a million individuals needs one query.
//!
//! For the helper functions of rules, gender `0`, "not known", is a missing fact: every query about genders returns
//! "unknown" for it. Other missing facts are unknown too. The result names the fact: `concept_group.<name>` for a group
//! that is unset or whose vocabularies are incomplete, otherwise the field that contains the code.

use super::Generation;
use super::group::{PublishedGroup, gender_not_known, is_gender};
use super::index::Known;
use crate::code_problem::{CodeProblem, quoted};
use crate::nearest::SUGGESTIONS_MAX;
use daftar_domain::code::{CodeError, CodeNumber, CodeUri};
use daftar_domain::eligibility::{Answer, Question, Truth};

/// Maximum edit distance of similar names.
const NAME_EDITS_MAX: usize = 3;
/// Maximum length of a name that is searched for similar names, in bytes.
const NAME_SEARCHED_BYTES_MAX: usize = 128;

/// Error of a query: the expression is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuestionProblem {
    /// The concept group does not exist.
    #[error("there is no concept group `{}`{}", .name.escape_debug(), did_you_mean(.nearest))]
    UnknownConceptGroup {
        /// The name.
        name: String,
        /// Similar names.
        nearest: Vec<String>,
    },
    /// The text is not a code's URI.
    #[error("{0}")]
    MalformedCode(CodeError),
    /// The code does not exist.
    #[error("{0}")]
    Code(CodeProblem),
}

impl QuestionProblem {
    /// Returns the stable name of the problem.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownConceptGroup { .. } => "unknown_concept_group",
            Self::MalformedCode(_) => "malformed_code",
            Self::Code(problem) => problem.code(),
        }
    }

    /// Returns the closest match, as replacement of the name or URI, without quotation marks.
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
    /// Evaluates a query of a rule. The query may name inactive codes, because existing records contain them.
    ///
    /// # Errors
    /// Returns an error if the query names a nonexistent concept group or code.
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

    /// Returns the name of the missing fact if the query is unknown for every code, because its concept group is unset.
    /// The author of the rule gets a warning.
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

    /// Returns the error for an unknown concept group, with similar names.
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
