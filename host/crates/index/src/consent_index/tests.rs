//! The consent index against a plain list of consents.

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::Columns;
use daftar_domain::change::{Change, Sequence};
use daftar_domain::consent::{ConsentFilter, Opened, Purpose};
use daftar_domain::field::{FieldName, FieldSet};
use daftar_domain::group::GroupDetails;
use daftar_domain::individual::IndividualDetails;
use daftar_domain::organization::{LegalBasis, Organization};
use daftar_domain::program_membership::{self, MembershipStatus, ProgramMembership, ProgramMembershipDetails};
use daftar_domain::record::{Record, RecordMeta, VersionId};
use daftar_domain::value::Reference;

const RESOURCES: [Resource; 3] = [Resource::Individual, Resource::Group, Resource::ProgramMembership];
const FIELDS: [&str; 5] = ["name", "birth_date", "status", "extension", "extension.farmer"];

fn record<D>(id: u64, details: D) -> Arc<Record<D>> {
    let meta = RecordMeta { version: VersionId::FIRST, last_updated: jiff::Timestamp::UNIX_EPOCH, source: None };
    Arc::new(Record { id: RecordId(id), meta, details })
}

fn write(columns: &Columns, record: ChangedRecord) {
    columns.apply(&[Change { sequence: Sequence(0), record }]);
}

fn person(id: u64) -> SubjectReference {
    SubjectReference { kind: Subject::Individual, id: RecordId(id) }
}

fn group(id: u64) -> SubjectReference {
    SubjectReference { kind: Subject::Group, id: RecordId(id) }
}

fn day(number: u8) -> Date {
    Date::constant(2026, 2, 20).checked_add(jiff::Span::new().days(i64::from(number))).unwrap()
}

fn consent(subject: SubjectReference, grantee: &str, resources: &[Resource]) -> ConsentDetails {
    ConsentDetails::default()
        .with(consent::CONSENT_ID, ConsentId::from_bytes(Uuid::nil().into_bytes()))
        .with(consent::SUBJECT, Reference::from(subject))
        .with(consent::GRANTEE, grantee.to_owned())
        .with(consent::EFFECTIVE_DATE, day(0))
        .with(consent::SCOPES, resources.to_vec())
        .with(consent::LEGAL_BASIS, LegalBasis::Consent)
}

fn filter(organization: &str, purpose: Option<&str>) -> ConsentFilter {
    ConsentFilter {
        organization: Some(Organization::parse(organization).unwrap()),
        purpose: purpose.map(|purpose| Purpose::parse(purpose).unwrap()),
    }
}

fn membership(id: u64, beneficiary: SubjectReference) -> Arc<ProgramMembership> {
    let program = Reference { kind: RecordKind::Program, id: RecordId(1) };
    let details = ProgramMembershipDetails::default()
        .with(program_membership::PROGRAM, program)
        .with(program_membership::BENEFICIARY, Reference::from(beneficiary))
        .with(program_membership::STATUS, MembershipStatus::Draft);
    record(id, details)
}

/// Builds a register with three people, two groups and no consent.
fn register() -> Columns {
    let columns = Columns::default();
    for id in 1..=3 {
        write(&columns, ChangedRecord::Individual(record(id, IndividualDetails::default())));
    }
    for id in 1..=2 {
        write(&columns, ChangedRecord::Group(record(id, GroupDetails::default())));
    }
    columns
}

/// Returns the rows of a posting among the first hundred.
fn held(posting: &Posting) -> Vec<u32> {
    (0..100).filter(|row| posting.contains(*row)).collect()
}

fn rows(columns: &Columns, resource: Resource, filter: &ConsentFilter, day: Date) -> Vec<u32> {
    held(columns.snapshot().consented(resource, filter, day).visible())
}

#[test]
fn a_consent_covers_its_subject_from_its_first_to_its_last_day() {
    let columns = register();
    let health = filter("Health", None);
    let mut details = consent(person(2), "Health", &[Resource::Individual]);
    details = details.with(consent::EFFECTIVE_DATE, day(3)).with(consent::EXPIRY_DATE, day(5));
    write(&columns, ChangedRecord::Consent(record(1, details.clone())));
    for (number, expected) in [(2, vec![]), (3, vec![1]), (5, vec![1]), (6, vec![])] {
        assert_eq!(rows(&columns, Resource::Individual, &health, day(number)), expected, "{number}");
        let opened = columns.snapshot().opened(Resource::Individual, person(2), &health, day(number));
        assert_eq!(opened.is_some(), !expected.is_empty(), "{number}");
    }
    let before = columns.snapshot();
    details.set(consent::WITHDRAWN, Some(true));
    write(&columns, ChangedRecord::Consent(record(1, details)));
    assert!(rows(&columns, Resource::Individual, &health, day(4)).is_empty());
    assert_eq!(
        held(before.consented(Resource::Individual, &health, day(4)).visible()),
        [1],
        "a snapshot never changes"
    );
}

#[test]
fn a_client_without_an_organization_sees_nothing() {
    let columns = register();
    write(&columns, ChangedRecord::Consent(record(1, consent(person(1), "Health", &[Resource::Individual]))));
    for filter in [ConsentFilter { organization: None, purpose: None }, filter("health", None)] {
        assert!(rows(&columns, Resource::Individual, &filter, day(1)).is_empty());
        assert_eq!(columns.snapshot().opened(Resource::Individual, person(1), &filter, day(1)), None);
    }
}

#[test]
fn a_consent_grants_nothing_beyond_its_subject() {
    let columns = register();
    write(&columns, ChangedRecord::Consent(record(1, consent(person(1), "Health", &RESOURCES))));
    write(&columns, ChangedRecord::Consent(record(2, consent(group(2), "Health", &RESOURCES))));
    let health = filter("Health", None);
    assert_eq!(rows(&columns, Resource::Individual, &health, day(1)), [0]);
    assert_eq!(rows(&columns, Resource::Group, &health, day(1)), [1]);
    let snapshot = columns.snapshot();
    assert!(snapshot.opened(Resource::Group, person(1), &health, day(1)).is_none());
    assert!(snapshot.opened(Resource::Individual, group(2), &health, day(1)).is_none());
}

#[test]
fn memberships_follow_their_beneficiary_in_either_order() {
    let columns = register();
    let health = filter("Health", None);
    write(&columns, ChangedRecord::ProgramMembership(membership(1, person(1))));
    write(&columns, ChangedRecord::ProgramMembership(membership(2, person(2))));
    let mut details = consent(person(1), "Health", &[Resource::ProgramMembership]);
    write(&columns, ChangedRecord::Consent(record(1, details.clone())));
    write(&columns, ChangedRecord::ProgramMembership(membership(3, person(1))));
    assert_eq!(rows(&columns, Resource::ProgramMembership, &health, day(1)), [0, 2]);
    assert!(rows(&columns, Resource::Individual, &health, day(1)).is_empty());
    assert_eq!(columns.snapshot().beneficiary(RecordId(3)), Some(person(1)));
    details.set(consent::WITHDRAWN, Some(true));
    write(&columns, ChangedRecord::Consent(record(1, details)));
    assert!(rows(&columns, Resource::ProgramMembership, &health, day(1)).is_empty());
}

#[test]
fn results_are_cached_until_a_consent_takes_effect() {
    let columns = register();
    let health = filter("Health", None);
    let limits = || columns.snapshot().consented(Resource::Individual, &health, day(1));
    write(&columns, ChangedRecord::Consent(record(1, consent(person(1), "Health", &[Resource::Individual]))));
    let first = limits();
    write(&columns, ChangedRecord::ProgramMembership(membership(1, person(2))));
    assert!(Arc::ptr_eq(&first, &limits()), "no consent covers the membership");
    write(&columns, ChangedRecord::Consent(record(2, consent(person(2), "Health", &[Resource::Individual]))));
    assert_eq!(held(limits().visible()), [0, 1]);
}

/// Compares records of one kind with their rows.
fn problems(columns: &Columns, records: &[ChangedRecord]) -> Vec<(u64, &'static str)> {
    let mut check = columns.snapshot().check_rows(records[0].place().0, 0);
    records.iter().for_each(|record| check.see(record));
    check.end().into_iter().map(|(id, problem)| (id.0, problem)).collect()
}

#[test]
fn a_valid_index_agrees_with_the_consents_of_all_records() {
    let columns = register();
    let consents = [
        consent(person(1), "Health", &[Resource::Individual]),
        consent(person(1), "Food", &[Resource::ProgramMembership]).with(consent::EXPIRY_DATE, day(3)),
        consent(group(1), "Health", &[Resource::Group]).with(consent::PURPOSE, "meals".to_owned()),
        consent(person(2), "Health", &RESOURCES).with(consent::WITHDRAWN, true),
    ];
    let consents = (1..).zip(consents).map(|(id, details)| ChangedRecord::Consent(record(id, details)));
    let consents: Vec<ChangedRecord> = consents.collect();
    let memberships = (1..=3).map(|id| ChangedRecord::ProgramMembership(membership(id, person(id))));
    let memberships: Vec<ChangedRecord> = memberships.collect();
    for record in memberships.iter().chain(&consents) {
        write(&columns, record.clone());
    }
    let people = (1..=3).map(|id| ChangedRecord::Individual(record(id, IndividualDetails::default())));
    let groups = (1..=2).map(|id| ChangedRecord::Group(record(id, GroupDetails::default())));
    for records in [people.collect(), groups.collect(), memberships, consents] {
        assert_eq!(problems(&columns, &records), []);
    }
}

#[test]
fn a_consent_that_is_not_indexed_as_in_its_record_is_reported() {
    let columns = register();
    let given = || consent(person(1), "Health", &[Resource::Individual]).with(consent::EXPIRY_DATE, day(9));
    write(&columns, ChangedRecord::Consent(record(1, given())));
    // All their names are in the index.
    let other = consent(person(2), "Food", &RESOURCES).with(consent::PURPOSE, "meals".to_owned());
    write(&columns, ChangedRecord::Consent(record(2, other.with(consent::FIELD_NAMES, vec!["name".to_owned()]))));
    let problem = |details| {
        let check = problems(&columns, &[ChangedRecord::Consent(record(1, details))]);
        check.into_iter().find(|(id, _)| *id == 1).map(|(_, problem)| problem)
    };
    assert_eq!(problem(given()), None);
    for changed in [
        given().with(consent::CONSENT_ID, ConsentId::from_bytes([1; 16])),
        given().with(consent::SUBJECT, Reference::from(person(2))),
        given().with(consent::GRANTEE, "Food".to_owned()),
        given().with(consent::PURPOSE, "meals".to_owned()),
        given().with(consent::FIELD_NAMES, vec!["name".to_owned()]),
        given().with(consent::EFFECTIVE_DATE, day(1)),
        given().with(consent::EXPIRY_DATE, None),
        given().with(consent::SCOPES, RESOURCES.to_vec()),
        given().with(consent::WITHDRAWN, true),
    ] {
        assert_eq!(problem(changed), Some("its consent index entries do not agree with the consents"));
    }
}

/// One step: a consent given or withdrawn, or a membership.
#[derive(Debug, Clone)]
struct Step {
    subject: SubjectReference,
    organization: bool,
    purpose: Option<bool>,
    resources: [bool; 3],
    fields: Option<[bool; 5]>,
    first: u8,
    length: Option<u8>,
    withdraws: Option<prop::sample::Index>,
    is_membership: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let subject = prop_oneof![(1_u64..=3).prop_map(person), (1_u64..=2).prop_map(group)];
    (
        (subject, any::<bool>(), any::<Option<bool>>(), any::<[bool; 3]>(), any::<Option<[bool; 5]>>()),
        (0_u8..12, prop::option::of(0_u8..8), prop::option::weighted(0.2, any::<prop::sample::Index>())),
        prop::bool::weighted(0.2),
    )
        .prop_map(
            |((subject, organization, purpose, resources, fields), (first, length, withdraws), is_membership)| Step {
                subject,
                organization,
                purpose,
                resources,
                fields,
                first,
                length,
                withdraws,
                is_membership,
            },
        )
}

fn chosen<T: Clone>(from: &[T], which: &[bool]) -> Vec<T> {
    from.iter().zip(which).filter(|(_, is_chosen)| **is_chosen).map(|(item, _)| item.clone()).collect()
}

fn details_of(step: &Step, id: usize) -> ConsentDetails {
    let organization = if step.organization { "Health" } else { "Food" };
    let mut bytes = [0; 16];
    bytes[0] = id as u8;
    let purpose = step.purpose.map(|purpose| if purpose { "meals".to_owned() } else { " cash ".to_owned() });
    let names = |fields: [bool; 5]| chosen(&FIELDS, &fields).into_iter().map(str::to_owned).collect::<Vec<_>>();
    consent(step.subject, organization, &chosen(&RESOURCES, &step.resources))
        .with(consent::CONSENT_ID, ConsentId::from_bytes(bytes))
        .with(consent::PURPOSE, purpose)
        .with(consent::EFFECTIVE_DATE, day(step.first))
        .with(consent::EXPIRY_DATE, step.length.map(|length| day(step.first + length)))
        .with(consent::FIELD_NAMES, step.fields.map(names))
}

/// Returns the expected rows, from the list of consents.
fn expected(
    consents: &[ConsentDetails],
    (resource, subject): (Resource, SubjectReference),
    filter: &ConsentFilter,
    day: Date,
) -> Option<Opened> {
    let is_about = resource == Resource::ProgramMembership || resource == own_resource(subject.kind);
    let counts = |consent: &&ConsentDetails| {
        let is_for = filter
            .purpose
            .as_ref()
            .is_none_or(|purpose| consent.get(consent::PURPOSE).map(str::trim) == Some(purpose.as_str()));
        let is_begun = consent.effective_date() <= day;
        let is_in_date = is_begun && consent.get(consent::EXPIRY_DATE).is_none_or(|last| day <= last);
        let is_to = filter.organization.as_ref().map(Organization::as_str) == Some(consent.grantee());
        let opens = consent.subject() == subject && consent.resources().any(|opened| opened == resource);
        is_about && opens && is_to && is_for && is_in_date && !consent.is_withdrawn()
    };
    let consents: Vec<&ConsentDetails> = consents.iter().filter(counts).collect();
    let fields = consents.iter().map(|consent| {
        let names = consent.items(consent::FIELD_NAMES);
        let names = names.filter_map(|name| FieldName::parse(resource, name).ok());
        if consent.has(consent::FIELD_NAMES) { FieldSet::only(names) } else { FieldSet::All }
    });
    let fields = fields.fold(FieldSet::none(), |all, fields| all.union(&fields));
    let consents: Vec<ConsentId> = consents.iter().map(|consent| consent.id()).collect();
    (!consents.is_empty()).then_some(Opened { fields, consents })
}

proptest! {
    #[test]
    fn rows_and_records_agree_with_the_list_of_consents(steps in prop::collection::vec(step(), 1..40)) {
        let columns = register();
        let mut consents: Vec<ConsentDetails> = Vec::new();
        let mut beneficiaries: Vec<SubjectReference> = Vec::new();
        for step in steps {
            if step.is_membership {
                beneficiaries.push(step.subject);
                let id = beneficiaries.len() as u64;
                write(&columns, ChangedRecord::ProgramMembership(membership(id, step.subject)));
            } else if let Some(index) = step.withdraws.filter(|_| !consents.is_empty()) {
                let at = index.index(consents.len());
                consents[at].set(consent::WITHDRAWN, Some(true));
                write(&columns, ChangedRecord::Consent(record(at as u64 + 1, consents[at].clone())));
            } else {
                consents.push(details_of(&step, consents.len()));
                let id = consents.len() as u64;
                write(&columns, ChangedRecord::Consent(record(id, consents[consents.len() - 1].clone())));
            }
        }
        let snapshot = columns.snapshot();
        let people: Vec<_> = (1..=3).map(person).collect();
        let groups: Vec<_> = (1..=2).map(group).collect();
        for (organization, purpose) in [("Health", None), ("Food", Some("cash")), ("Health", Some("meals")), ("Food", None)] {
            let filter = filter(organization, purpose);
            for number in 0..22 {
                for (resource, subjects) in
                    [(Resource::Individual, &people), (Resource::Group, &groups), (Resource::ProgramMembership, &beneficiaries)]
                {
                    let opened: Vec<Option<Opened>> = subjects
                        .iter()
                        .map(|subject| expected(&consents, (resource, *subject), &filter, day(number)))
                        .collect();
                    let limits = snapshot.consented(resource, &filter, day(number));
                    let rows_where = |holds: &dyn Fn(&Opened) -> bool| -> Vec<u32> {
                        let is_there = |opened: &Option<Opened>| opened.as_ref().is_some_and(holds);
                        (0..).zip(&opened).filter(|(_, opened)| is_there(opened)).map(|(row, _)| row).collect()
                    };
                    prop_assert_eq!(held(limits.visible()), rows_where(&|_| true));
                    prop_assert_eq!(held(limits.field("identifier")), rows_where(&|_| true));
                    for field in FIELDS {
                        prop_assert_eq!(held(limits.field(field)), rows_where(&|opened| opened.fields.allows(field)));
                    }
                    for (subject, expected) in subjects.iter().zip(&opened) {
                        prop_assert_eq!(&snapshot.opened(resource, *subject, &filter, day(number)), expected);
                    }
                }
            }
        }
    }
}
