//! Settings of a deployment.

use jiff::civil::Date;

use daftar_domain::client::ClientId;
use daftar_domain::code::{Code, CodeUri, Namespace};
use daftar_domain::deployment::{EarlierVersion, RetainedConcepts};
use daftar_domain::identifier::SystemUri;
use daftar_domain::identifier::{IdentifierKey, IdentifierSystem};
use daftar_domain::local_code::{IdTarget, IdTypeRule, LocalCode, LocalOrigin, LocalStanding, ValuePattern};
use daftar_domain::organization::Organization;
use daftar_domain::record::VersionId;
use daftar_domain::rule_draft::{DraftAuthor, DraftContent, DraftStatus, RuleDraft, RuleDraftId};
use daftar_domain::subject::Subject;
use daftar_domain::vocabulary::{
    Completeness, Concept, ConceptGroup, ConceptStatus, LocalizedText, Selection, VocabularyDescription,
};

/// A rule draft with every field set.
pub fn rule_draft() -> RuleDraft {
    RuleDraft {
        id: RuleDraftId::from_bytes(std::array::from_fn(|at| u8::try_from(at).unwrap())),
        version: VersionId(3),
        content: DraftContent {
            name: "Old-age pension".to_owned(),
            expression: "age_years(me.birth_date) >= 65".to_owned(),
            subject: Subject::Individual,
            comment: Some("Proposed by\nthe analysts".to_owned()),
            program: Some(IdentifierKey::parse("urn:svc:vocab:id-type#tax_id|PENSION").unwrap()),
            engine: Some("cel".to_owned()),
            cases: Some(r#"[{"name":"old","outcome":"eligible","record":{}}]"#.to_owned()),
            as_of: Some(Date::constant(2026, 1, 1)),
        },
        author: DraftAuthor {
            client: ClientId::parse("client_0123").unwrap(),
            organization: Some(Organization::parse("Ministry of Health").unwrap()),
        },
        status: DraftStatus::Rejected,
        reason: Some("the limit is 60".to_owned()),
        created_at: "2026-01-02T00:00:00.5Z".parse().unwrap(),
        last_updated: "2026-01-02T00:00:01.5Z".parse().unwrap(),
    }
}

/// A registered system of identifiers.
pub fn identifier_system() -> IdentifierSystem {
    let uri = SystemUri::parse("https://example.org/farmer-id").unwrap();
    IdentifierSystem { uri, created_at: "2026-01-02T00:00:00.5Z".parse().unwrap() }
}

/// A local code with every field set.
pub fn local_code() -> LocalCode {
    let text = |language: &str, value: &str| LocalizedText { language: language.into(), value: value.into() };
    let pattern = ValuePattern::new("[A-Z]{2}[0-9]{8}".into(), "two letters and eight digits".into()).unwrap();
    LocalCode {
        uri: CodeUri::parse("urn:svc:vocab:id-type#fayda").unwrap(),
        origin: LocalOrigin::Deployment,
        specialises: Some(Code::parse("national_id").unwrap()),
        labels: vec![text("en", "Fayda number"), text("am", "ፋይዳ")],
        reference: Some("https://example.org/fayda".into()),
        id_type: Some(IdTypeRule { pattern: Some(pattern), target: IdTarget::Individual }),
        standing: LocalStanding::Deprecated { replaced_by: Some(Code::parse("passport").unwrap()) },
        created_at: "2026-01-01T00:00:00Z".parse().unwrap(),
        updated_at: "2026-01-02T00:00:00.5Z".parse().unwrap(),
    }
}

/// A starter code that the deployment deprecated.
pub fn starter_code() -> LocalCode {
    LocalCode {
        uri: CodeUri::parse("urn:svc:vocab:ethnocultural#majority").unwrap(),
        origin: LocalOrigin::StarterSet,
        specialises: None,
        labels: Vec::new(),
        reference: None,
        id_type: None,
        standing: LocalStanding::Deprecated { replaced_by: None },
        ..local_code()
    }
}

/// A concept group with selections of both kinds.
pub fn concept_group() -> ConceptGroup {
    let uri = |text| CodeUri::parse(text).unwrap();
    ConceptGroup {
        name: "farm_workers".into(),
        description: "Who lives of the land.".into(),
        includes: vec![Selection::DescendantsOf(uri("urn:ilo:isco-08#6")), Selection::Code(uri("urn:ilo:isco-08#921"))],
        excludes: vec![Selection::DescendantsOf(uri("urn:ilo:isco-08#62"))],
    }
}

/// Retained codes, one with every field and one with none.
pub fn retained_concepts() -> RetainedConcepts {
    let code = |text| Code::parse(text).unwrap();
    let text = |language: &str, value: &str| LocalizedText { language: language.into(), value: value.into() };
    let bare = Concept {
        code: code("0110"),
        status: ConceptStatus::Inactive,
        is_selectable: true,
        parents: Vec::new(),
        replaced_by: None,
        labels: Vec::new(),
        definitions: Vec::new(),
        aliases: Vec::new(),
        uri: None,
        properties: Vec::new(),
    };
    let full = Concept {
        code: code("0111"),
        is_selectable: false,
        parents: vec![code("011"), code("01")],
        replaced_by: Some(code("0112")),
        labels: vec![text("en", "Officers"), text("fr", "Officiers")],
        definitions: vec![text("en", "Those who command.")],
        aliases: vec!["O111".into()],
        uri: Some("https://example.org/0111".into()),
        properties: vec![("last_version".into(), "2008".into())],
        ..bare.clone()
    };
    RetainedConcepts { namespace: Namespace::parse("urn:ilo:isco-08").unwrap(), part: 3, concepts: vec![bare, full] }
}

/// A part of an earlier version, with codes of both statuses.
pub fn earlier_version() -> EarlierVersion {
    let text = |text: &str| text.to_owned();
    let RetainedConcepts { namespace, concepts, .. } = retained_concepts();
    let description = VocabularyDescription {
        namespace,
        name: text("Occupations"),
        domain: text("Labor"),
        version: text("2008"),
        source: text("ISCO-08"),
        licence: text("MIT"),
        attribution: text("International Labour Organization"),
        default_language: text("en"),
        languages: vec![text("en"), text("fr")],
        is_hierarchical: true,
        completeness: Completeness::Fragment,
        is_open: false,
        is_system: true,
        is_extensible: false,
        concept_count: 619,
    };
    let statuses = [ConceptStatus::Active, ConceptStatus::Inactive];
    let concepts = concepts.into_iter().zip(statuses).map(|(concept, status)| Concept { status, ..concept }).collect();
    EarlierVersion { description, part: 1, parts: 2, concepts }
}
