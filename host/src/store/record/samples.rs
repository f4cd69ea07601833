//! Records for tests, and ways to make up any.

use jiff::Timestamp;
use jiff::civil::Date;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::domain::audit::{Actor, AuditAction, AuditEntry, AuditOutcome};
use crate::domain::calendar::{Period, date_from_days};
use crate::domain::client::{Client, ClientId, ClientName, ClientSecret, ClientStatus, RateLimit, SecretHash};
use crate::domain::code::{Code, CodeNumber, CodeUri, CodedValue, EditionNumber, Namespace};
use crate::domain::consent::{Consent, ConsentDetails, ConsentId};
use crate::domain::deployment::{EarlierVersion, KeptConcepts};
use crate::domain::extension::{Extension, ExtensionContent, ExtensionValue};
use crate::domain::field::{FieldName, FieldSet};
use crate::domain::group::{Group, GroupDetails, Member};
use crate::domain::identifier::{Identifier, IdentifierKey};
use crate::domain::individual::{Address, Income, IncomePeriod, Individual, IndividualDetails, Telecom, TelecomSystem};
use crate::domain::local_code::{IdTarget, IdTypeRule, LocalCode, LocalOrigin, LocalStanding, ValuePattern};
use crate::domain::manifest::ExtensionPath;
use crate::domain::organization::{LegalBasis, Organization};
use crate::domain::person_name::PersonName;
use crate::domain::program::{Program, ProgramDetails};
use crate::domain::program_membership::{MembershipStatus, ProgramMembership, ProgramMembershipDetails};
use crate::domain::record::{RecordId, RecordMeta, VersionId};
use crate::domain::scope::{Resource, Scope};
use crate::domain::subject::{Subject, SubjectReference};
use crate::domain::vocabulary::{
    CodedField, Completeness, Concept, ConceptGroup, ConceptStatus, LocalizedText, Selection, VocabularyDescription,
};

fn coded(number: u32, edition: u32) -> CodedValue {
    CodedValue { number: CodeNumber(number), edition: EditionNumber(edition) }
}

fn client_id(text: &str) -> ClientId {
    ClientId::parse(text).unwrap()
}

/// Version 3, of a spring morning.
pub fn meta() -> RecordMeta {
    let last_updated = "2026-03-04T05:06:07.089Z".parse().unwrap();
    RecordMeta { version: VersionId(3), last_updated, source: Some(client_id("demo-client_1")) }
}

/// A person with every field set.
pub fn full_individual() -> Individual {
    let ended = Period { start: Some(Date::constant(2001, 2, 3)), end: Some(Date::constant(2020, 12, 31)) };
    let key = |text| IdentifierKey::parse(text).unwrap();
    let details = IndividualDetails {
        identifiers: vec![
            Identifier { key: key("urn:svc:vocab:id-type#national_id|ET-0001"), period: None },
            Identifier { key: key("https://example.org/farmers|F|7"), period: Some(ended) },
        ],
        active: Some(true),
        name: Some(PersonName {
            family: Some("Ḥaile".into()),
            given: Some("Abebe".into()),
            middle: Some("ገብረ".into()),
            prefix: Some("Ato".into()),
            suffix: Some("Jr.".into()),
            text: Some("Ato Abebe Ḥaile".into()),
        }),
        birth_date: Some(Date::constant(1968, 2, 29)),
        birth_date_estimated: Some(false),
        deceased_date: Some(Date::constant(2024, 11, 30)),
        codes: vec![(CodedField::Gender, coded(2, 0)), (CodedField::PregnancyStatus, coded(70_000, 300))],
        code_lists: vec![
            (CodedField::Languages, Vec::new()),
            (CodedField::DisabilityCodes, vec![coded(127, 1), coded(128, 1)]),
        ],
        telecom: Some(vec![Telecom {
            system: TelecomSystem::Sms,
            value: "+251 911 000000".into(),
            usage: Some("home".into()),
            rank: Some(1),
        }]),
        address: Some(vec![Address {
            kind: Some("postal".into()),
            text: Some("Kebele 4, Gondar".into()),
            line: Some(vec!["Kebele 4".into()]),
            city: Some("Gondar".into()),
            district: Some("Gondar Zuria".into()),
            region: Some("Amhara".into()),
            postal_code: Some("196".into()),
            country: Some(coded(9, 2)),
        }]),
        income: Some(Income { amount: 1234.5, currency: Some(coded(10, 4)), period: Some(IncomePeriod::Month) }),
        extension: full_extension(),
    };
    Individual { id: RecordId(7), meta: meta(), details }
}

/// An extension with every type of value.
fn full_extension() -> Extension {
    let field = |path, content| (ExtensionPath::parse(path).unwrap(), content);
    let crops = vec![ExtensionValue::Code(coded(200, 8)), ExtensionValue::Code(coded(201, 8))];
    Extension::new(vec![
        field("farmer.crops", ExtensionContent::Many(crops)),
        field("farmer.livestock", ExtensionContent::Many(Vec::new())),
        field("farmer.is_member", ExtensionContent::One(ExtensionValue::Boolean(true))),
        field("farmer.plots", ExtensionContent::One(ExtensionValue::Integer(-3))),
        field("farmer.area.hectares", ExtensionContent::One(ExtensionValue::Number(1.25))),
        field("farmer.since", ExtensionContent::One(ExtensionValue::Date(Date::constant(1999, 12, 31)))),
        field("farmer.note", ExtensionContent::One(ExtensionValue::Text("rain-fed".into()))),
    ])
}

/// The same person, household or not, without what modules add: all that version 1 has room for.
pub fn without_extension(mut individual: Individual) -> Individual {
    individual.details.extension = Extension::default();
    individual
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

/// A starter code that the deployment set aside.
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

/// Kept codes, one with everything and one with nothing.
pub fn kept_concepts() -> KeptConcepts {
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
    KeptConcepts { namespace: Namespace::parse("urn:ilo:isco-08").unwrap(), part: 3, concepts: vec![bare, full] }
}

/// A part of an earlier version, with codes of both standings.
pub fn earlier_version() -> EarlierVersion {
    let text = |text: &str| text.to_owned();
    let KeptConcepts { namespace, concepts, .. } = kept_concepts();
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

/// A person with nothing but an identifier, written by a command.
pub fn bare_individual() -> Individual {
    let key = IdentifierKey::parse("urn:x:y|1").unwrap();
    let details = IndividualDetails { identifiers: vec![Identifier { key, period: None }], ..Default::default() };
    let meta = RecordMeta { version: VersionId::FIRST, last_updated: Timestamp::UNIX_EPOCH, source: None };
    Individual { id: RecordId(1), meta, details }
}

/// A group with every field set.
pub fn full_group() -> Group {
    let since = Period { start: Some(Date::constant(1969, 12, 31)), end: None };
    let details = GroupDetails {
        identifiers: vec![Identifier { key: IdentifierKey::parse("urn:x:household|H-1").unwrap(), period: None }],
        active: Some(false),
        name: Some("Haile household".into()),
        group_type: Some(coded(20, 5)),
        housing_type: Some(coded(21, 6)),
        members: Some(vec![
            Member { individual: RecordId(7), role: Some(coded(30, 7)), period: Some(since), is_inactive: false },
            Member { individual: RecordId(300), role: None, period: None, is_inactive: true },
        ]),
        extension: full_extension(),
    };
    Group { id: RecordId(2), meta: meta(), details }
}

/// A program with every field set.
pub fn full_program() -> Program {
    let year = Period { start: Some(Date::constant(2026, 1, 1)), end: Some(Date::constant(2026, 12, 31)) };
    let details = ProgramDetails {
        identifiers: vec![Identifier { key: IdentifierKey::parse("urn:x:program|PSNP").unwrap(), period: None }],
        active: Some(true),
        name: "Productive Safety Net".into(),
        description: Some("Food and cash for work".into()),
        program_type: Some("cash".into()),
        target_type: Subject::Group,
        eligibility: Some("members.size() > 3".into()),
        enforce_eligibility: true,
        period: Some(year),
    };
    Program { id: RecordId(5), meta: meta(), details }
}

/// A membership with every field set.
pub fn full_membership() -> ProgramMembership {
    let details = ProgramMembershipDetails {
        identifiers: vec![Identifier { key: IdentifierKey::parse("urn:x:place|M-1").unwrap(), period: None }],
        program: RecordId(5),
        beneficiary: SubjectReference { kind: Subject::Group, id: RecordId(2) },
        status: MembershipStatus::Exited,
        enrollment_date: Some(Date::constant(2026, 1, 15)),
        exit_date: Some(Date::constant(2026, 6, 30)),
        exit_reason: Some("moved away".into()),
        override_reason: Some("flood".into()),
    };
    ProgramMembership { id: RecordId(300), meta: meta(), details }
}

/// A consent with every field set.
pub fn full_consent() -> Consent {
    let details = ConsentDetails {
        id: ConsentId::parse("123e4567-e89b-42d3-a456-426614174000").unwrap(),
        subject: SubjectReference { kind: Subject::Individual, id: RecordId(7) },
        grantee: Organization::parse("Ministry of Health").unwrap(),
        purpose: Some("vaccination".into()),
        effective_date: Date::constant(2026, 1, 1),
        expiry_date: Some(Date::constant(2026, 12, 31)),
        resources: vec![Resource::Individual, Resource::ProgramMembership],
        fields: Some(vec!["birth_date".into(), "extension.farmer".into()]),
        legal_basis: LegalBasis::Consent,
        is_withdrawn: false,
    };
    Consent { id: RecordId(9), meta: meta(), details }
}

/// A client with every field set.
pub fn full_client() -> Client {
    let instant = |text: &str| text.parse::<Timestamp>().unwrap();
    Client {
        id: client_id("demo-client_1"),
        name: ClientName::parse("Demo · دفتر").unwrap(),
        organization: None,
        status: ClientStatus::Disabled,
        grants: ["individual:read", "group:all"].iter().map(|text| Scope::parse(text).unwrap()).collect(),
        secrets: vec![ClientSecret {
            hash: SecretHash(std::array::from_fn(|index| index as u8)),
            created_at: instant("2026-01-01T00:00:00Z"),
            expires_at: Some(instant("2026-02-01T00:00:00.001Z")),
        }],
        not_before: Some(instant("2026-01-15T12:00:00Z")),
        rate_limit_per_minute: Some(RateLimit::parse(600).unwrap()),
        rate_limit_per_day: Some(RateLimit::parse(1_000_000).unwrap()),
        created_at: instant("2026-01-01T00:00:00Z"),
        updated_at: instant("2026-01-15T12:00:00.5Z"),
    }
}

/// The same client with one grant on some fields and one on none.
pub fn restricted(mut client: Client) -> Client {
    let names = ["birth_date", "extension.farmer"].map(|name| FieldName::parse(Resource::Individual, name).unwrap());
    client.grants.insert(Scope::parse("individual:read").unwrap(), FieldSet::only(names));
    client.grants.insert(Scope::parse("program:search").unwrap(), FieldSet::none());
    client
}

/// Lines of the audit log as version 1 held them, by every kind of actor that it knew.
pub fn old_audit_entries() -> Vec<AuditEntry> {
    let entry = |actor, action, outcome, targets: &[&str], note: Option<&str>| AuditEntry {
        at: "2026-03-04T05:06:07.089Z".parse().unwrap(),
        actor,
        address: None,
        request_id: "0123456789abcdef0123456789abcdef".into(),
        operation: None,
        action,
        outcome,
        status: None,
        targets: targets.iter().map(|target| (*target).to_owned()).collect(),
        fields: Vec::new(),
        consents: Vec::new(),
        reason: None,
        note: note.map(str::to_owned),
        count: 1,
    };
    let client = Actor::Client(client_id("demo-client_1"));
    vec![
        entry(client.clone(), AuditAction::Search, AuditOutcome::Allowed, &[], Some("name, birth_date")),
        entry(client, AuditAction::Read, AuditOutcome::Refused, &["Individual/urn:x:y|1"], None),
        entry(Actor::Administrator, AuditAction::Administer, AuditOutcome::Allowed, &["demo-client_1"], None),
        entry(Actor::System, AuditAction::Plugin, AuditOutcome::Allowed, &["genders", "roles"], None),
    ]
}

/// Lines of the audit log with everything that they can hold.
pub fn audit_entries() -> Vec<AuditEntry> {
    let mut entries = old_audit_entries();
    let consents = ["123e4567-e89b-42d3-a456-426614174000", "00000000-0000-4000-8000-000000000001"];
    let [search, read, ..] = entries.as_mut_slice() else { unreachable!("there are four") };
    *search = AuditEntry {
        address: Some("203.0.113.9".parse().unwrap()),
        operation: Some("GET /api/v2/Individual".into()),
        ..search.clone()
    }
    .with_fields(["identifier", "name", "extension.farmer"])
    .with_consents(consents.map(|id| ConsentId::parse(id).unwrap()))
    .with_status(200);
    *read = AuditEntry {
        address: Some("2001:db8:1:2::".parse().unwrap()),
        operation: Some("GET /api/v2/Individual/{identifier}".into()),
        request_id: "not hexadecimal".into(),
        ..read.clone()
    }
    .with_reason("missing scope individual:read")
    .with_status(403);
    let unknown = AuditEntry {
        actor: Actor::Unknown,
        action: AuditAction::Authenticate,
        outcome: AuditOutcome::Refused,
        targets: Vec::new(),
        count: 4_000,
        ..read.clone()
    };
    let failed = AuditEntry { outcome: AuditOutcome::Failed, ..unknown.clone() }.with_status(503);
    let audit = AuditEntry { actor: Actor::System, action: AuditAction::Audit, ..search.clone() };
    entries.extend([unknown, failed, audit]);
    entries
}

fn any_coded() -> impl Strategy<Value = CodedValue> {
    (any::<u32>(), any::<u32>()).prop_map(|(number, edition)| coded(number, edition))
}

fn any_day() -> impl Strategy<Value = Date> {
    (-62_091..376_200_i32).prop_map(|days| date_from_days(days).unwrap())
}

fn any_period() -> impl Strategy<Value = Period> {
    (option::of(any_day()), option::of(any_day())).prop_map(|(start, end)| Period { start, end })
}

fn any_identifier() -> impl Strategy<Value = Identifier> {
    ("[a-z]{1,9}:[!-{]{1,20}\\|[^\\p{C}\\s]{1,20}", option::of(any_period()))
        .prop_map(|(key, period)| Identifier { key: IdentifierKey::parse(&key).unwrap(), period })
}

fn any_meta() -> impl Strategy<Value = RecordMeta> {
    (any::<u64>(), -60_000_000_000_i64..4_000_000_000_000, option::of("[a-zA-Z0-9_-]{1,64}")).prop_map(
        |(version, at, source)| RecordMeta {
            version: VersionId(version),
            last_updated: Timestamp::from_millisecond(at).unwrap(),
            source: source.map(|source| client_id(&source)),
        },
    )
}

fn any_text() -> impl Strategy<Value = Option<String>> {
    option::of("\\PC{0,12}")
}

fn any_name() -> impl Strategy<Value = PersonName> {
    (any_text(), any_text(), any_text(), any_text(), any_text(), any_text()).prop_map(
        |(family, given, middle, prefix, suffix, text)| PersonName { family, given, middle, prefix, suffix, text },
    )
}

fn any_telecom() -> impl Strategy<Value = Telecom> {
    let systems = [TelecomSystem::Phone, TelecomSystem::Email, TelecomSystem::Sms, TelecomSystem::Url];
    (prop::sample::select(systems.to_vec()), "\\PC{0,20}", any_text(), option::of(any::<u32>()))
        .prop_map(|(system, value, usage, rank)| Telecom { system, value, usage, rank })
}

fn any_address() -> impl Strategy<Value = Address> {
    let lines = option::of(vec("\\PC{0,9}", 0..3));
    let texts = (any_text(), any_text(), any_text(), any_text(), any_text(), any_text());
    (texts, lines, option::of(any_coded())).prop_map(
        |((kind, text, city, district, region, postal_code), line, country)| Address {
            kind,
            text,
            line,
            city,
            district,
            region,
            postal_code,
            country,
        },
    )
}

fn any_income() -> impl Strategy<Value = Income> {
    let periods = prop::sample::select(vec![IncomePeriod::Month, IncomePeriod::Year]);
    (0.0..1.0e12_f64, option::of(any_coded()), option::of(periods)).prop_map(|(amount, currency, period)| Income {
        amount,
        currency,
        period,
    })
}

fn any_extension_value() -> impl Strategy<Value = ExtensionValue> {
    prop_oneof![
        any::<bool>().prop_map(ExtensionValue::Boolean),
        any::<i64>().prop_map(ExtensionValue::Integer),
        (-1.0e12..1.0e12_f64).prop_map(ExtensionValue::Number),
        "\\PC{0,20}".prop_map(ExtensionValue::Text),
        any_day().prop_map(ExtensionValue::Date),
        any_coded().prop_map(ExtensionValue::Code),
    ]
}

fn any_extension() -> impl Strategy<Value = Extension> {
    let content = prop_oneof![
        any_extension_value().prop_map(ExtensionContent::One),
        vec(any_extension_value(), 0..4).prop_map(ExtensionContent::Many),
    ];
    vec(("[a-z]{1,4}\\.[a-z_]{1,4}x", content), 0..4).prop_map(|fields| {
        let parsed =
            fields.into_iter().filter_map(|(path, content)| Some((ExtensionPath::parse(&path).ok()?, content)));
        Extension::new(parsed.collect())
    })
}

/// Any person that can be stored.
pub fn any_individual() -> impl Strategy<Value = Individual> {
    let singles = prop::sample::subsequence(CodedField::individual_singles().collect::<Vec<_>>(), 0..=9);
    let lists = prop::sample::subsequence(CodedField::individual_lists().collect::<Vec<_>>(), 0..=3);
    let with_code =
        |fields: Vec<CodedField>| fields.into_iter().map(|field| (Just(field), any_coded())).collect::<Vec<_>>();
    let with_codes = |fields: Vec<CodedField>| {
        fields.into_iter().map(|field| (Just(field), vec(any_coded(), 0..4))).collect::<Vec<_>>()
    };
    let scalars = (any::<Option<bool>>(), option::of(any_day()), any::<Option<bool>>(), option::of(any_day()));
    let codes = (singles.prop_flat_map(with_code), lists.prop_flat_map(with_codes));
    let lists = (option::of(vec(any_telecom(), 0..3)), option::of(vec(any_address(), 0..3)));
    let rest = (lists, option::of(any_income()), any_extension());
    (any_meta(), vec(any_identifier(), 0..4), option::of(any_name()), scalars, codes, rest).prop_map(
        |(meta, identifiers, name, scalars, (codes, code_lists), ((telecom, address), income, extension))| {
            let (active, birth_date, birth_date_estimated, deceased_date) = scalars;
            let details = IndividualDetails {
                identifiers,
                active,
                name,
                birth_date,
                birth_date_estimated,
                deceased_date,
                codes,
                code_lists,
                telecom,
                address,
                income,
                extension,
            };
            Individual { id: RecordId(9), meta, details }
        },
    )
}

/// Any group that can be stored.
pub fn any_group() -> impl Strategy<Value = Group> {
    let member = (any::<u64>(), option::of(any_coded()), option::of(any_period()), any::<bool>()).prop_map(
        |(individual, role, period, is_inactive)| Member {
            individual: RecordId(individual),
            role,
            period,
            is_inactive,
        },
    );
    let types = (option::of(any_coded()), option::of(any_coded()));
    let members = option::of(vec(member, 0..5));
    let rest = (members, any_extension());
    (any_meta(), vec(any_identifier(), 0..3), any::<Option<bool>>(), any_text(), types, rest).prop_map(
        |(meta, identifiers, active, name, (group_type, housing_type), (members, extension))| Group {
            id: RecordId(4),
            meta,
            details: GroupDetails { identifiers, active, name, group_type, housing_type, members, extension },
        },
    )
}
