//! The vocabularies that no pack brings: the registry's own, which the deployment fills.

use crate::vocabulary::Vocabulary;
use daftar_domain::code::Namespace;
use daftar_domain::local_code::PREGNANCY_STATUS_NAMESPACE;
use daftar_domain::vocabulary::{Completeness, VocabularyDescription};

/// The version of these vocabularies: what they hold changes with the deployment's local codes, not with releases.
const VERSION: &str = "1";

/// Whether a namespace is that of one of them.
pub(super) fn is_one(namespace: &Namespace) -> bool {
    namespace.as_str() == PREGNANCY_STATUS_NAMESPACE
}

/// All of them, empty.
pub(super) fn all() -> impl Iterator<Item = Vocabulary> {
    pregnancy_status().and_then(|description| Vocabulary::build(description, &[]).ok()).into_iter()
}

fn pregnancy_status() -> Option<VocabularyDescription> {
    Some(VocabularyDescription {
        namespace: Namespace::parse(PREGNANCY_STATUS_NAMESPACE).ok()?,
        name: "Pregnancy status".to_owned(),
        domain: "Health".to_owned(),
        version: VERSION.to_owned(),
        source: "The deployment's own codes".to_owned(),
        licence: "None: the codes are the deployment's own".to_owned(),
        attribution: String::new(),
        default_language: "en".to_owned(),
        languages: vec!["en".to_owned()],
        is_hierarchical: false,
        completeness: Completeness::Empty,
        is_open: false,
        is_system: true,
        is_extensible: true,
        concept_count: 0,
    })
}
