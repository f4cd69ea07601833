//! Inputs of a decision, and checks for repeating it.
//!
//! **Invariant:** a decision names exactly the inputs on which the result depended. A pack or a concept group that the
//! rule does not query may change, and the decision can still be repeated.
//!
//! # Seal
//!
//! The seal of a decision proves that this register issued it to the organization of the client, or to the client.
//!
//! A decision that the client sends back names versions of records, including older ones, and the server reads these
//! versions. Without a seal a client could name any version of any record that it may currently read.
//!
//! The signed content is the following sequence. A text is encoded as its length in bytes (32 bits, big endian) and its
//! bytes in UTF-8, a count as 32 bits, a version as 64 bits, both big endian.
//!
//! 1. the text `daftar decision 1`
//! 2. the recipient: `organization`, `client` or `administrator` as a text; its name as a text, which is empty for the
//!    administrator
//! 3. the texts `expression_digest`, `engine`
//! 4. the count of `vocabularies`; for each, in the order of their namespaces, the texts `namespace`, `version`,
//!    `digest`
//! 5. the texts `concept_groups`, `schema`, `as_of` (`YYYY-MM-DD`)
//! 6. the count of `versions`; for each, in the byte order of their references, the text `reference` and the version
//! 7. one byte: 1 where `visibility` is `consent`, else 0
//!
//! **Invariant:** two decisions, or one decision for two recipients, never have the same bytes, because each element
//! states its length.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::civil::Date;
use sha2::{Digest, Sha256};

use daftar_auth::DecisionKeyRing;
use daftar_auth::decision_key::SealFault;
use daftar_domain::audit::Actor;
use daftar_domain::code::{CodeUri, Namespace};
use daftar_domain::context::OpContext;
use daftar_domain::eligibility::{PlacedQuestion, Question, Reference, Schema};
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::error_code::ErrorCode;
use daftar_domain::hexadecimal;
use daftar_domain::record::VersionId;
use daftar_domain::vocabulary::Selection;
use daftar_sandbox::RuleSession;
use daftar_vocabulary::{Generation, Vocabulary};

/// Maximum number of records that one decision names.
pub const VERSIONS_MAX: usize = 50_000;

/// A vocabulary on which a result depended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsedVocabulary {
    /// Its namespace.
    pub namespace: String,
    /// Its version, as its publisher names it.
    pub version: String,
    /// Digest of its contents, local codes included. Of an open vocabulary also of the file of its pack, which resolves
    /// the codes that the vocabulary does not list.
    pub digest: String,
}

/// All inputs on which a result depended.
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
    /// The day for which the rule was evaluated.
    pub as_of: Date,
    /// Every record read, by reference, with its version.
    pub versions: BTreeMap<String, VersionId>,
    /// True if only records and fields covered by consents were read.
    pub is_by_consent: bool,
}

impl Decision {
    /// Returns the inputs of a compiled rule, before any record is read.
    pub(super) fn of(
        session: &RuleSession,
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

    /// Checks that this decision can still be repeated, apart from its records. `now` has the current inputs of the
    /// same rule.
    ///
    /// # Errors
    /// [`AppError::Invalid`] if the decision is about another expression; [`AppError::Conflict`] naming the first input
    /// that is no longer installed or has changed.
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
            let now = format!("the active schema is `{}`", now.schema);
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

    /// Checks that the records that were read have the versions that this decision names.
    ///
    /// # Errors
    /// [`AppError::Conflict`] naming the first record of the decision that was not read at its version.
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

/// Returns the vocabularies on which a rule depends: those of the fields that it reads, of the codes that it names, and
/// of its concept groups.
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
            digest: vocabulary_digest(generation, vocabulary),
        })
    });
    installed.collect()
}

/// Returns the digest of everything that determines the codes of a vocabulary.
fn vocabulary_digest(generation: &Generation, vocabulary: &Vocabulary) -> String {
    let resolver = generation.pack_of(vocabulary.namespace()).filter(|_| vocabulary.description().is_open);
    match resolver {
        Some(pack) => text_digest(&format!("{OPEN_PREFIX}\n{}\n{}", vocabulary.digest(), pack.digest)),
        None => format!("sha256:{}", vocabulary.digest()),
    }
}

/// Returns the digest of the concept groups that a rule names.
fn concept_groups(generation: &Generation, questions: &[PlacedQuestion]) -> String {
    let names = questions.iter().filter_map(|placed| match &placed.question {
        Question::InGroup(name) => Some(name.as_str()),
        Question::Code(_) | Question::DescendsFrom(_) => None,
    });
    format!("sha256:{}", generation.digest_of_concept_groups(names.collect()))
}

/// Returns the digest of an expression.
#[must_use]
pub fn expression_digest(expression: &str) -> String {
    text_digest(expression)
}

fn text_digest(text: &str) -> String {
    format!("sha256:{}", hexadecimal::encode(&Sha256::digest(text.as_bytes())))
}

/// Type and version of the signed content.
const PREFIX: &str = "daftar decision 1";
/// Type and version of the text whose digest identifies an open vocabulary and its pack.
const OPEN_PREFIX: &str = "daftar open vocabulary 1";

/// Seals the decisions of one recipient, and verifies the decisions that it sends back.
#[derive(Debug, Clone)]
pub struct Sealer {
    keys: Arc<DecisionKeyRing>,
    recipient: (&'static str, String),
}

impl Sealer {
    /// Creates a sealer for the acting client. The recipient is the organization of the client if it has one, since the
    /// clients of an organization share their decisions.
    #[must_use]
    pub fn new(ctx: &OpContext, keys: &Arc<DecisionKeyRing>) -> Self {
        let recipient = match (&ctx.actor, &ctx.organization) {
            (Actor::Client(_), Some(organization)) => ("organization", organization.as_str().to_owned()),
            (Actor::Client(client), None) => ("client", client.to_string()),
            (Actor::Administrator | Actor::System | Actor::Unknown, _) => ("administrator", String::new()),
        };
        Self { keys: Arc::clone(keys), recipient }
    }

    /// Returns the seal of a decision.
    #[must_use]
    pub fn seal(&self, decision: &Decision) -> String {
        self.keys.load().seal(&self.signed_bytes(decision))
    }

    /// Verifies the seal of a decision.
    ///
    /// # Errors
    /// [`SealFault`] if the seal does not match this decision and recipient.
    pub fn verify(&self, decision: &Decision, seal: &str) -> Result<(), SealFault> {
        self.keys.load().verify(&self.signed_bytes(decision), seal)
    }

    fn signed_bytes(&self, decision: &Decision) -> Vec<u8> {
        let Decision {
            expression_digest,
            engine,
            vocabularies,
            concept_groups,
            schema,
            as_of,
            versions,
            is_by_consent,
        } = decision;
        let mut signed = Signed::default();
        let (kind, name) = &self.recipient;
        for text in [PREFIX, kind, name, expression_digest, engine] {
            signed.text(text);
        }
        signed.count(vocabularies.len());
        for UsedVocabulary { namespace, version, digest } in vocabularies {
            for text in [namespace, version, digest] {
                signed.text(text);
            }
        }
        for text in [concept_groups, schema, &as_of.to_string()] {
            signed.text(text);
        }
        signed.count(versions.len());
        for (reference, version) in versions {
            signed.text(reference);
            signed.0.extend_from_slice(&version.0.to_be_bytes());
        }
        signed.0.push(u8::from(*is_by_consent));
        signed.0
    }
}

/// Builder of the signed content.
#[derive(Default)]
struct Signed(Vec<u8>);

impl Signed {
    fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }

    /// Writes a count as 32 bits. Request bodies are limited to far fewer elements than 2^32.
    fn count(&mut self, count: usize) {
        self.0.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes());
    }
}

/// Returns the error for a decision that was changed, is not sealed, or was issued to another recipient: one response
/// for all three cases.
#[must_use]
pub fn not_authentic() -> AppError {
    let message = "the decision was not issued by this register to this client or its organization, or it was changed: send it back unchanged, or ask again without it";
    let (field, code) = ("decision".to_owned(), "decision_not_authentic");
    AppError::InvalidValue(ErrorCode::DecisionNotAuthentic, FieldProblem { field, code, message: message.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_vocabulary::testing::{VocabularyBuilder, origin, table_of};
    use daftar_vocabulary::{GenerationBuilder, PackOrigin};

    pub(super) fn decision() -> Decision {
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

    #[test]
    fn the_digest_of_an_open_vocabulary_covers_the_file_of_its_pack() {
        let digest = |is_open: bool, file: &str| {
            let mut contents = VocabularyBuilder::new("urn:x").concepts([("a", "A")]).pack();
            contents.vocabularies[0].0.is_open = is_open;
            let mut builder = GenerationBuilder::new();
            let origin = PackOrigin { digest: file.to_owned(), ..origin("x") };
            builder.add(origin, &daftar_vocabulary::check(contents).unwrap()).unwrap();
            let generation = builder.build(table_of(&builder)).unwrap();
            vocabulary_digest(&generation, generation.vocabularies().next().unwrap())
        };
        assert_eq!(digest(false, "sha256:1"), digest(false, "sha256:2"), "its pack lists every code");
        assert_eq!(digest(true, "sha256:1"), digest(true, "sha256:1"));
        assert_ne!(digest(true, "sha256:1"), digest(true, "sha256:2"));
        assert!(digest(true, "sha256:1").starts_with("sha256:"));
    }

    fn complaint(change: impl FnOnce(&mut Decision)) -> Option<String> {
        let mut now = decision();
        change(&mut now);
        decision().check_setting(&now).err().map(|error| error.to_string())
    }

    #[test]
    fn every_changed_input_is_named() {
        assert_eq!(complaint(|_| ()), None);
        assert_eq!(complaint(|now| now.versions.clear()), None, "records are compared separately");
        for (reported, change) in [
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
            assert!(complaint.contains(reported), "{complaint} does not name {reported}");
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

#[cfg(test)]
mod seal_tests {
    use jiff::Timestamp;
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;
    use daftar_domain::client::ClientId;
    use daftar_domain::context::audit_context::AuditContext;
    use daftar_domain::organization::Organization;
    use daftar_domain::record::VersionId;

    fn decision() -> Decision {
        let versions = [("Group/a|1".to_owned(), VersionId(7)), ("Individual/a|1".to_owned(), VersionId(2))];
        Decision { versions: BTreeMap::from(versions), ..super::tests::decision() }
    }

    fn sealer(keys: &Arc<DecisionKeyRing>, actor: Actor, organization: Option<&str>) -> Sealer {
        let mut ctx = OpContext::unbound(actor, "r".into(), Timestamp::UNIX_EPOCH, AuditContext::default());
        ctx.organization = organization.map(|name| Organization::parse(name).unwrap());
        Sealer::new(&ctx, keys)
    }

    fn client(id: &str) -> Actor {
        Actor::Client(ClientId::parse(id).unwrap())
    }

    #[test]
    fn a_decision_with_any_member_changed_has_other_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let keys = Arc::new(DecisionKeyRing::load_or_create(folder.path(), Timestamp::UNIX_EPOCH).unwrap());
        let sealer = sealer(&keys, client("one"), None);
        let seal = sealer.seal(&decision());
        assert_eq!(sealer.verify(&decision(), &seal), Ok(()));
        let changes: [fn(&mut Decision); 14] = [
            |one| one.expression_digest.push('0'),
            |one| one.engine.clear(),
            |one| one.vocabularies[0].namespace.push('c'),
            |one| one.vocabularies[1].version = "2".to_owned(),
            |one| one.vocabularies[0].digest.push('0'),
            |one| drop(one.vocabularies.pop()),
            |one| one.concept_groups.push('0'),
            |one| one.schema.push('0'),
            |one| one.as_of = Date::constant(2026, 3, 2),
            |one| {
                let _before = one.versions.insert("Individual/a|1".to_owned(), VersionId::FIRST);
            },
            |one| {
                let _before = one.versions.insert("Individual/a|2".to_owned(), VersionId::FIRST);
            },
            |one| {
                let _before = one.versions.remove("Group/a|1");
            },
            |one| one.is_by_consent = true,
            // The concatenated texts are equal, only the boundary between them differs.
            |one| (one.concept_groups, one.schema) = ("sha256:gs".to_owned(), "ha256:s".to_owned()),
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let mut changed = decision();
            change(&mut changed);
            assert_eq!(sealer.verify(&changed, &seal), Err(SealFault::Mismatch), "{at}");
        }
    }

    proptest! {
        /// Tests that equal bytes are signed only for equal decisions.
        #[test]
        fn different_decisions_have_different_bytes(one in decisions(), other in decisions()) {
            let folder = tempfile::tempdir().unwrap();
            let keys = Arc::new(DecisionKeyRing::load_or_create(folder.path(), Timestamp::UNIX_EPOCH).unwrap());
            let sealer = sealer(&keys, client("one"), None);
            prop_assert_eq!(sealer.signed_bytes(&one) == sealer.signed_bytes(&other), one == other);
            prop_assert_eq!(sealer.verify(&other, &sealer.seal(&one)).is_ok(), one == other);
            prop_assert!(sealer.verify(&one, &sealer.seal(&one)).is_ok());
        }
    }

    /// Generates decisions with few distinct letters and short lists, so that many are nearly equal.
    fn decisions() -> impl Strategy<Value = Decision> {
        let text = || "[ab]{0,2}";
        let vocabulary = (text(), text(), text()).prop_map(|(namespace, version, digest)| UsedVocabulary {
            namespace,
            version,
            digest,
        });
        let versions = btree_map(text(), (1_u64..3).prop_map(VersionId), 0..3);
        let texts = (text(), text(), text(), text());
        (texts, vec(vocabulary, 0..3), versions, 1_i8..3, any::<bool>()).prop_map(
            |((expression_digest, engine, concept_groups, schema), vocabularies, versions, day, is_by_consent)| {
                Decision {
                    expression_digest,
                    engine,
                    vocabularies,
                    concept_groups,
                    schema,
                    as_of: Date::constant(2026, 3, day),
                    versions,
                    is_by_consent,
                }
            },
        )
    }

    #[test]
    fn a_decision_is_of_an_organization_or_of_a_client_without_one() {
        let folder = tempfile::tempdir().unwrap();
        let keys = Arc::new(DecisionKeyRing::load_or_create(folder.path(), Timestamp::UNIX_EPOCH).unwrap());
        let sealers = [
            (sealer(&keys, client("one"), Some("Ministry")), "ministry"),
            (sealer(&keys, client("other"), Some("Ministry")), "ministry"),
            (sealer(&keys, client("one"), Some("Agency")), "agency"),
            (sealer(&keys, client("one"), None), "one"),
            (sealer(&keys, client("Ministry"), None), "client of that name"),
            (sealer(&keys, Actor::Administrator, None), "administrator"),
        ];
        for (from, of) in &sealers {
            let seal = from.seal(&decision());
            for (to, other) in &sealers {
                assert_eq!(to.verify(&decision(), &seal).is_ok(), of == other, "{of} {other}");
            }
        }
    }
}
