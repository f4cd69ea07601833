//! Random registers and queries.

use std::sync::Arc;

use jiff::civil::Date;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};

use daftar_domain::address::REGION;
use daftar_domain::calendar::date_from_days;
use daftar_domain::change::ChangedRecord;
use daftar_domain::code::{CodeNumber, CodedValue};
use daftar_domain::consent::{
    CONSENT_ID, ConsentDetails, ConsentFilter, ConsentId, EFFECTIVE_DATE, EXPIRY_DATE, FIELD_NAMES, GRANTEE,
    LEGAL_BASIS, PURPOSE, Purpose, SCOPES, SUBJECT, WITHDRAWN,
};
use daftar_domain::extension::{Extension, ExtensionContent, ExtensionValue};
use daftar_domain::group::{
    ACTIVE, ADDRESS, GROUP_TYPE, GroupDetails, HOUSING_TYPE, NAME, RELATIONSHIP, RELATIONSHIP_TARGET, RELATIONSHIP_TYPE,
};
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::individual::{DECEASED_DATE, Individual};
use daftar_domain::manifest::ExtensionPath;
use daftar_domain::organization::{LegalBasis, Organization};
use daftar_domain::program_membership::{
    BENEFICIARY, ENROLLMENT_DATE, EXIT_DATE, MembershipStatus, PROGRAM, ProgramMembershipDetails, STATUS,
};
use daftar_domain::record::{Record, RecordId, RecordKind, RecordMeta, VersionId};
use daftar_domain::scope::Resource;
use daftar_domain::search::order::{Direction, SortField, SortKey};
use daftar_domain::search::{
    CodeCondition, CodedPlace, ConsentTerm, KindCondition, MemberCondition, MembershipConditions, MembershipTerm,
    SubjectQuery,
};
use daftar_domain::subject::{Subject, SubjectReference};
use daftar_domain::value::{Reference, Values};
use daftar_domain::vocabulary::CodedField;
use daftar_index::testing::{IDENTIFIERS, any_code, any_day, any_group, any_individual, any_query, any_text};

/// Maximum number of individuals and groups.
pub(super) const PEOPLE: u64 = 24;
pub(super) const GROUPS: u64 = 6;
const RESOURCES: [Resource; 3] = [Resource::Individual, Resource::Group, Resource::ProgramMembership];
const FIELDS: [&str; 16] = [
    "name",
    "address",
    "birth_date",
    "gender",
    "active",
    "group_membership",
    "languages",
    "extension",
    "extension.farmer",
    "member",
    "group_type",
    "status",
    "program",
    "beneficiary",
    "enrollment_date",
    "identifier",
];

pub(super) fn path(text: &str) -> ExtensionPath {
    ExtensionPath::parse(text).unwrap()
}

fn record<D>(id: u64, version: u64, at_ms: i64, details: D) -> Arc<Record<D>> {
    let last_updated = jiff::Timestamp::from_millisecond(at_ms).unwrap();
    let meta = RecordMeta { version: VersionId(version), last_updated, source: None };
    Arc::new(Record { id: RecordId(id), meta, details })
}

fn any_extension() -> impl Strategy<Value = Extension> {
    let codes = |codes: Vec<CodedValue>| ExtensionContent::Many(codes.into_iter().map(ExtensionValue::Code).collect());
    (vec(any_code(), 0..3), option::of(any_code())).prop_map(move |(crops, herd)| {
        let herd = herd.map(|code| (path("herder.kind"), ExtensionContent::One(ExtensionValue::Code(code))));
        Extension::new([(path("farmer.crops"), codes(crops))].into_iter().chain(herd).collect())
    })
}

fn any_person() -> impl Strategy<Value = Individual> {
    (any_individual(), option::of(any_day()), any_extension()).prop_map(|(mut person, deceased_date, extension)| {
        person.details.set(DECEASED_DATE, deceased_date);
        person.details.extension = extension;
        person
    })
}

fn any_household() -> impl Strategy<Value = (i64, GroupDetails)> {
    let facts = (0_i64..5, option::of(any::<bool>()), any_text(), vec(select(&IDENTIFIERS[..]), 0..3));
    let codes = (option::of(any_code()), option::of(any_code()), vec(any_code(), 0..2), any_extension());
    (facts, codes, any_group(PEOPLE), any_text()).prop_map(|(facts, codes, group, region)| {
        let (at_ms, active, name, identifiers) = facts;
        let (group_type, housing_type, kinds, extension) = codes;
        let identifier = |text| Identifier { key: IdentifierKey::parse(text).unwrap(), period: None };
        let target = Reference { kind: RecordKind::Group, id: RecordId(1) };
        let related = |kind: CodedValue| -> Values {
            Values::default().with(RELATIONSHIP_TARGET, target).with(RELATIONSHIP_TYPE, kind)
        };
        let address: Values = Values::default().with(REGION, region);
        let mut details = group
            .with(ACTIVE, active)
            .with(NAME, name)
            .with(GROUP_TYPE, group_type)
            .with(HOUSING_TYPE, housing_type)
            .with(RELATIONSHIP, kinds.into_iter().map(related).collect::<Vec<_>>())
            .with(ADDRESS, vec![address]);
        details.identifiers = identifiers.into_iter().map(identifier).collect();
        details.extension = extension;
        (at_ms, details)
    })
}

fn any_subject() -> impl Strategy<Value = SubjectReference> {
    let of = |kind| move |id| SubjectReference { kind, id: RecordId(id) };
    prop_oneof![(1..=PEOPLE).prop_map(of(Subject::Individual)), (1..=GROUPS).prop_map(of(Subject::Group)),]
}

fn any_membership() -> impl Strategy<Value = (i64, ProgramMembershipDetails)> {
    let facts = (any_subject(), 1_u64..4, select(&MembershipStatus::ALL[..]));
    (facts, option::of(any_day()), option::of(any_day()), 0_i64..5).prop_map(|(facts, enrolled, exited, at_ms)| {
        let (beneficiary, program, status) = facts;
        let details = ProgramMembershipDetails::default()
            .with(PROGRAM, Reference { kind: RecordKind::Program, id: RecordId(program) })
            .with(BENEFICIARY, Reference::from(beneficiary))
            .with(STATUS, status)
            .with(ENROLLMENT_DATE, enrolled)
            .with(EXIT_DATE, exited);
        (at_ms, details)
    })
}

fn any_organization() -> impl Strategy<Value = Organization> {
    select(vec!["Health", "health", "Food"]).prop_map(|name| Organization::parse(name).unwrap())
}

fn any_consent() -> impl Strategy<Value = ConsentDetails> {
    let what = (any_subject(), any_organization(), select(vec![None, Some("meals"), Some(" cash "), Some(" ")]));
    let opens = (subsequence(&RESOURCES[..], 0..=3), option::of(subsequence(&FIELDS[..], 0..=FIELDS.len())));
    let when = (-6_i32..3, option::of(0_i32..6), prop::bool::weighted(0.15));
    (any::<[u8; 16]>(), what, opens, when).prop_map(|(id, what, (resources, fields), (first, length, is_withdrawn))| {
        let (subject, grantee, purpose) = what;
        ConsentDetails::default()
            .with(CONSENT_ID, ConsentId::from_bytes(id))
            .with(SUBJECT, Reference::from(subject))
            .with(GRANTEE, grantee.as_str().to_owned())
            .with(PURPOSE, purpose.map(str::to_owned))
            .with(EFFECTIVE_DATE, date_from_days(first).unwrap())
            .with(EXPIRY_DATE, length.map(|length| date_from_days(first + length).unwrap()))
            .with(SCOPES, resources)
            .with(FIELD_NAMES, fields.map(|fields| fields.into_iter().map(str::to_owned).collect::<Vec<_>>()))
            .with(LEGAL_BASIS, LegalBasis::Consent)
            .with(WITHDRAWN, is_withdrawn.then_some(true))
    })
}

/// The writes of a register, one transaction after another: first everything once, then some of it again.
pub(super) fn any_register() -> impl Strategy<Value = Vec<Vec<ChangedRecord>>> {
    let people = vec(any_person(), PEOPLE as usize);
    let groups = vec(any_household(), GROUPS as usize);
    let memberships = vec(any_membership(), 0..20);
    let consents = vec(any_consent(), 0..40);
    let again = (
        vec((any::<Index>(), any_person()), 0..8),
        vec((any::<Index>(), any_household()), 0..4),
        vec((any::<Index>(), any_membership()), 0..4),
        vec((any::<Index>(), any_consent()), 0..6),
    );
    (people, groups, memberships, consents, again).prop_map(|(people, groups, memberships, consents, again)| {
        let person = |id: u64, version, person: Individual| {
            let at_ms = person.meta.last_updated.as_millisecond();
            ChangedRecord::Individual(record(id, version, at_ms, person.details))
        };
        let group = |id: u64, version, (at_ms, details)| ChangedRecord::Group(record(id, version, at_ms, details));
        let membership =
            |id: u64, version, (at_ms, details)| ChangedRecord::ProgramMembership(record(id, version, at_ms, details));
        let consent = |id: u64, version, details| ChangedRecord::Consent(record(id, version, 0, details));
        let (given, whose) = (consents.clone(), memberships.clone());
        let first: Vec<ChangedRecord> = (1..)
            .zip(people)
            .map(|(id, one)| person(id, 1, one))
            .chain((1..).zip(groups).map(|(id, one)| group(id, 1, one)))
            .chain((1..).zip(memberships).map(|(id, one)| membership(id, 1, one)))
            .chain((1..).zip(consents).map(|(id, one)| consent(id, 1, one)))
            .collect();
        let mut second = Vec::new();
        let (of_people, of_groups, of_memberships, of_consents) = again;
        second.extend(of_people.into_iter().map(|(at, one)| person(at.index(PEOPLE as usize) as u64 + 1, 2, one)));
        second.extend(of_groups.into_iter().map(|(at, one)| group(at.index(GROUPS as usize) as u64 + 1, 2, one)));
        for (at, (at_ms, details)) in of_memberships {
            // Its subject never changes.
            if let Some(at) = (!whose.is_empty()).then(|| at.index(whose.len())) {
                let details = details.with(BENEFICIARY, Reference::from(whose[at].1.beneficiary()));
                second.push(membership(at as u64 + 1, 2, (at_ms, details)));
            }
        }
        for (at, details) in of_consents {
            // Its subject and its name never change.
            if let Some(at) = (!given.is_empty()).then(|| at.index(given.len())) {
                let subject = Reference::from(given[at].subject());
                let details = details.with(SUBJECT, subject).with(CONSENT_ID, given[at].id());
                second.push(consent(at as u64 + 1, 2, details));
            }
        }
        vec![first, second]
    })
}

fn any_extension_condition() -> impl Strategy<Value = Vec<CodeCondition>> {
    let paths = select(vec!["farmer.crops", "herder.kind", "farmer.unknown"]);
    let condition = (paths, vec((0_u32..5).prop_map(CodeNumber), 0..3))
        .prop_map(|(at, any_of)| CodeCondition { field: CodedPlace::Extension(path(at)), any_of });
    prop_oneof![3 => Just(Vec::new()), 1 => vec(condition, 1..2)]
}

/// A query of individuals: now and then only a code, or whether a record is active.
pub(super) fn any_people_query() -> impl Strategy<Value = SubjectQuery> {
    let whole = (any_query(), any_extension_condition()).prop_map(|(mut query, more)| {
        query.codes.extend(more);
        query
    });
    let plain = (any_query(), any::<bool>()).prop_map(|(query, by_code)| SubjectQuery {
        codes: if by_code { query.codes } else { Vec::new() },
        active: if by_code { None } else { query.active },
        ..SubjectQuery::individuals()
    });
    prop_oneof![3 => whole, 1 => plain]
}

pub(super) fn any_group_query() -> impl Strategy<Value = SubjectQuery> {
    let fields = [CodedField::GroupType, CodedField::HousingType, CodedField::MemberRole, CodedField::RelationshipType];
    let codes = vec((select(fields.to_vec()), vec((0_u32..4).prop_map(CodeNumber), 0..3)), 0..2);
    let members = prop_oneof![2 => Just(Vec::new()), 1 => vec(vec((1..=PEOPLE + 1).prop_map(RecordId), 0..12), 1..2)];
    (any_people_query(), codes, members, any_extension_condition(), -4_i32..4).prop_map(
        |(query, codes, people, more, day)| {
            let condition = |(field, any_of)| CodeCondition { field: CodedPlace::Field(field), any_of };
            SubjectQuery {
                identifiers: query.identifiers,
                texts: query.texts,
                codes: codes.into_iter().map(condition).chain(more).collect(),
                active: query.active,
                of_kind: KindCondition::Groups((!people.is_empty()).then_some(MemberCondition { day, people })),
                last_updated: query.last_updated,
                ..SubjectQuery::groups()
            }
        },
    )
}

pub(super) fn any_membership_conditions() -> impl Strategy<Value = MembershipConditions> {
    let term = || {
        prop_oneof![
            vec(any_subject().prop_map(MembershipTerm::Beneficiary), 0..12),
            vec((1_u64..5).prop_map(|id| MembershipTerm::Program(RecordId(id))), 0..3),
            vec(select(&MembershipStatus::ALL[..]).prop_map(MembershipTerm::Status), 0..3),
        ]
    };
    (vec(term(), 0..3), any_query())
        .prop_map(|(terms, query)| MembershipConditions { terms, last_updated: query.last_updated })
}

pub(super) fn any_consent_terms() -> impl Strategy<Value = Vec<Vec<ConsentTerm>>> {
    let term = prop_oneof![
        vec(any_subject().prop_map(ConsentTerm::Subject), 0..12),
        vec(any_organization().prop_map(ConsentTerm::Grantee), 0..3),
    ];
    vec(term, 0..3)
}

/// A client that sees by consent, and on which day.
pub(super) fn any_sees() -> impl Strategy<Value = Option<(ConsentFilter, Date)>> {
    let purpose = select(vec![None, Some("meals"), Some("cash"), Some("other")]);
    let filter = (option::weighted(0.95, any_organization()), purpose).prop_map(|(organization, purpose)| {
        ConsentFilter { organization, purpose: purpose.map(|purpose| Purpose::parse(purpose).unwrap()) }
    });
    option::weighted(0.6, (filter, any_day()))
}

/// An order by any field, of this kind of record or not.
pub(super) fn any_sorting() -> impl Strategy<Value = Vec<SortKey>> {
    let fields = vec![
        SortField::Name,
        SortField::Date("birth_date"),
        SortField::Date("deceased_date"),
        SortField::LastUpdated,
        SortField::Word("status"),
        SortField::Date("enrollment_date"),
        SortField::Date("exit_date"),
        SortField::Code(CodedField::Gender),
        SortField::Code(CodedField::IncomeCurrency),
        SortField::Code(CodedField::GroupType),
        SortField::Code(CodedField::HousingType),
    ];
    let direction = select(vec![Direction::Ascending, Direction::Descending]);
    vec((select(fields), direction).prop_map(|(field, direction)| SortKey { field, direction }), 0..4)
}
