//! What is needed to repeat an answer, and whether it can be repeated here.
//!
//! **Invariant:** a decision names what the answer depended on and nothing else: a pack or a concept group that the rule does not ask
//! about may change, and the decision is repeated all the same.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;
use sha2::{Digest, Sha256};

use daftar_domain::code::{CodeUri, Namespace};
use daftar_domain::eligibility::{PlacedQuestion, Question, Reference, Schema};
use daftar_domain::error::AppError;
use daftar_domain::error_code::ErrorCode;
use daftar_domain::record::VersionId;
use daftar_domain::vocabulary::Selection;
use daftar_sandbox::RuleSession;
use daftar_vocabulary::Generation;

/// The most records that one decision names.
pub const VERSIONS_MAX: usize = 50_000;

/// A vocabulary that an answer depended on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsedVocabulary {
    /// Its namespace.
    pub namespace: String,
    /// Its version, as its owner calls it.
    pub version: String,
    /// Digest of its contents, local codes included.
    pub digest: String,
}

/// Everything that an answer depended on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Digest of the expression's text.
    pub expression_digest: String,
    /// Name, version and digest of the engine.
    pub engine: String,
    /// The vocabularies of the fields, codes and concept groups that the rule reads, by namespace.
    pub vocabularies: Vec<UsedVocabulary>,
    /// Digest of the definitions of the concept groups that the rule names.
    pub concept_groups: String,
    /// Digest of the schema.
    pub schema: String,
    /// The day that was asked about.
    pub as_of: Date,
    /// Every record read, by reference, with its version.
    pub versions: BTreeMap<String, VersionId>,
    /// Whether only what is consented to was seen.
    pub is_by_consent: bool,
}

impl Decision {
    /// What an answer of a compiled rule depends on, no records read yet.
    pub(super) fn of(
        session: &dyn RuleSession,
        expression: &str,
        schema: &Schema,
        generation: &Generation,
        as_of: Date,
    ) -> Self {
        let questions = session.questions();
        Self {
            expression_digest: expression_digest(expression),
            engine: session.engine_name().to_owned(),
            vocabularies: vocabularies(generation, schema, session.references(), questions),
            concept_groups: concept_groups(generation, questions),
            schema: schema.version.clone(),
            as_of,
            versions: BTreeMap::new(),
            is_by_consent: false,
        }
    }

    /// Checks that what is asked can still be answered as this decision was, records aside. `now` is what would be decided by today.
    ///
    /// # Errors
    /// [`AppError::Invalid`] when it is about another expression; [`AppError::Conflict`] naming what is no longer installed or set up
    /// as it was.
    pub fn check_setting(&self, now: &Self) -> Result<(), AppError> {
        if self.expression_digest != now.expression_digest {
            let message = format!(
                "the decision is about the expression with the digest `{}`, and the one sent has `{}`",
                self.expression_digest, now.expression_digest
            );
            return Err(AppError::invalid("decision.expression_digest", "other_expression", message));
        }
        if self.engine != now.engine {
            return Err(gone(&format!("the engine `{}`", self.engine), &format!("`{}` is active", now.engine)));
        }
        if self.schema != now.schema {
            let now = format!("the schema in force is `{}`", now.schema);
            return Err(gone(&format!("the schema `{}`", self.schema), &now));
        }
        self.check_vocabularies(now)?;
        if self.concept_groups != now.concept_groups {
            let now = format!("the concept groups that the rule names have the digest `{}`", now.concept_groups);
            return Err(gone(&format!("the concept groups `{}`", self.concept_groups), &now));
        }
        if self.is_by_consent != now.is_by_consent {
            return Err(not_repeatable(
                "the decision was made for a client with another visibility: one sees by consent, the other does not",
            ));
        }
        Ok(())
    }

    fn check_vocabularies(&self, now: &Self) -> Result<(), AppError> {
        for then in &self.vocabularies {
            let named = format!("the vocabulary `{}` version `{}` ({})", then.namespace, then.version, then.digest);
            match now.vocabularies.iter().find(|one| one.namespace == then.namespace) {
                Some(same) if same == then => {}
                Some(other) => {
                    return Err(gone(&named, &format!("version `{}` ({}) is installed", other.version, other.digest)));
                }
                None => return Err(gone(&named, "none with that namespace is used by the rule here")),
            }
        }
        match now.vocabularies.iter().find(|one| !self.vocabularies.iter().any(|then| then.namespace == one.namespace))
        {
            Some(new) => Err(not_repeatable(format!(
                "the decision was made without the vocabulary `{}`, which is installed now and which the rule asks about",
                new.namespace
            ))),
            None => Ok(()),
        }
    }

    /// Checks that what was read is what this decision names.
    ///
    /// # Errors
    /// [`AppError::Conflict`] naming the first record that was not.
    pub fn check_records(&self, read: &BTreeMap<String, VersionId>) -> Result<(), AppError> {
        match self.versions.iter().find(|(reference, version)| read.get(*reference) != Some(*version)) {
            Some((reference, version)) => Err(not_repeatable(format!(
                "the decision names `{reference}` at version {version}, which this request does not read: there is no such record or version for this client, or the request is another than the one decided"
            ))),
            None => Ok(()),
        }
    }
}

fn gone(then: &str, now: &str) -> AppError {
    not_repeatable(format!("the decision was made with {then}, and that is not installed any more: {now}"))
}

fn not_repeatable(detail: impl Into<String>) -> AppError {
    AppError::conflict(ErrorCode::DecisionNotRepeatable, detail)
}

/// The vocabularies that a rule depends on: of the fields that it reads, the codes that it names, and its concept groups.
fn vocabularies(
    generation: &Generation,
    schema: &Schema,
    references: &[Reference],
    questions: &[PlacedQuestion],
) -> Vec<UsedVocabulary> {
    let fields = references.iter().filter_map(|reference| schema.field(reference));
    let mut namespaces: BTreeSet<String> = fields.flat_map(|field| field.vocabularies.iter().cloned()).collect();
    for placed in questions {
        match &placed.question {
            Question::Code(text) | Question::DescendsFrom(text) => {
                namespaces.extend(CodeUri::parse(text).ok().map(|uri| uri.namespace.to_string()));
            }
            Question::InGroup(name) => {
                let definition = generation.concept_group(name).map(|group| group.definition());
                let selections = definition.into_iter().flat_map(|group| group.includes.iter().chain(&group.excludes));
                namespaces.extend(selections.map(|selection| match selection {
                    Selection::Code(uri) | Selection::DescendantsOf(uri) => uri.namespace.to_string(),
                }));
            }
        }
    }
    let installed = namespaces.iter().filter_map(|namespace| {
        let vocabulary = generation.vocabulary(&Namespace::parse(namespace).ok()?)?;
        Some(UsedVocabulary {
            namespace: namespace.clone(),
            version: vocabulary.description().version.clone(),
            digest: format!("sha256:{}", vocabulary.digest()),
        })
    });
    installed.collect()
}

/// The digest of the concept groups that a rule names.
fn concept_groups(generation: &Generation, questions: &[PlacedQuestion]) -> String {
    let names = questions.iter().filter_map(|placed| match &placed.question {
        Question::InGroup(name) => Some(name.as_str()),
        Question::Code(_) | Question::DescendsFrom(_) => None,
    });
    format!("sha256:{}", generation.digest_of_concept_groups(names.collect()))
}

/// The digest of an expression.
#[must_use]
pub fn expression_digest(expression: &str) -> String {
    format!("sha256:{}", hexadecimal(&Sha256::digest(expression.as_bytes())))
}

/// Bytes as lower-case hexadecimal digits.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision() -> Decision {
        let vocabulary = |namespace: &str| UsedVocabulary {
            namespace: namespace.to_owned(),
            version: "1".to_owned(),
            digest: "sha256:a".to_owned(),
        };
        Decision {
            expression_digest: "sha256:e".to_owned(),
            engine: "cel@1".to_owned(),
            vocabularies: vec![vocabulary("urn:a"), vocabulary("urn:b")],
            concept_groups: "sha256:g".to_owned(),
            schema: "sha256:s".to_owned(),
            as_of: Date::constant(2026, 3, 1),
            versions: BTreeMap::from([("Individual/a|1".to_owned(), VersionId::FIRST)]),
            is_by_consent: false,
        }
    }

    fn complaint(change: impl FnOnce(&mut Decision)) -> Option<String> {
        let mut now = decision();
        change(&mut now);
        decision().check_setting(&now).err().map(|error| error.to_string())
    }

    #[test]
    fn whatever_is_not_as_it_was_is_named() {
        assert_eq!(complaint(|_| ()), None);
        assert_eq!(complaint(|now| now.versions.clear()), None, "records are looked at on their own");
        for (told, change) in [
            ("`sha256:e`", (|now| now.expression_digest = "x".to_owned()) as fn(&mut Decision)),
            ("the engine `cel@1`", |now| now.engine = "cel@2".to_owned()),
            ("the schema `sha256:s`", |now| now.schema = "x".to_owned()),
            ("`urn:a` version `1` (sha256:a)", |now| now.vocabularies[0].digest = "sha256:b".to_owned()),
            ("`urn:b` version `1`", |now| drop(now.vocabularies.pop())),
            ("without the vocabulary `urn:c`", |now| {
                let new = UsedVocabulary { namespace: "urn:c".to_owned(), ..now.vocabularies[0].clone() };
                now.vocabularies.push(new);
            }),
            ("the concept groups `sha256:g`", |now| now.concept_groups = "x".to_owned()),
            ("another visibility", |now| now.is_by_consent = true),
        ] {
            let complaint = complaint(change).unwrap();
            assert!(complaint.contains(told), "{complaint} does not name {told}");
        }
    }

    #[test]
    fn a_record_that_was_not_read_as_it_was_is_named() {
        let decision = decision();
        assert!(decision.check_records(&decision.versions).is_ok());
        for read in [BTreeMap::new(), BTreeMap::from([("Individual/a|1".to_owned(), VersionId::FIRST.next())])] {
            let complaint = decision.check_records(&read).unwrap_err().to_string();
            assert!(complaint.contains("`Individual/a|1` at version 1"), "{complaint}");
        }
    }
}
