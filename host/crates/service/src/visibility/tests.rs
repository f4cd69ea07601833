//! Visibility in a small register, for clients with and without consents.

mod reads;

use super::*;
use daftar_domain::audit::Actor;
use daftar_domain::calendar::Period;
use daftar_domain::change::Change;
use daftar_domain::client::ClientId;
use daftar_domain::consent::{self, ConsentDetails, ConsentFilter, ConsentId};
use daftar_domain::context::audit_context::{AuditContext, AuditedRequest};
use daftar_domain::extension::Extension;
use daftar_domain::grant::Grants;
use daftar_domain::group::GroupDetails;
use daftar_domain::identifier::Identifier;
use daftar_domain::individual::IndividualDetails;
use daftar_domain::organization::{LegalBasis, Organization};
use daftar_domain::program::ProgramDetails;
use daftar_domain::program_membership::{self, MembershipStatus};
use daftar_domain::value::{Reference, Values};
use daftar_index::Columns;
use daftar_store::{ChangeSink, Operation, Write};
use daftar_store_sled::testing::shared_store;
use jiff::Timestamp;
use jiff::civil::date;

const PERSONS: RecordKind = RecordKind::Individual;
const GROUPS: RecordKind = RecordKind::Group;
const MEMBERSHIPS: RecordKind = RecordKind::ProgramMembership;
/// Everything that a client can read.
const READER: &[(&str, &[&str])] =
    &[("individual:read", &["name", "gender"]), ("group:read", &[]), ("program_membership:read", &[])];

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn key(text: &str) -> IdentifierKey {
    IdentifierKey::parse(&format!("urn:test:{text}")).unwrap()
}

/// Identifiers; those that end with `!` have ended.
fn identifiers(texts: &[&str]) -> Vec<Identifier> {
    let identifier = |text: &&str| {
        let ended = text.strip_suffix('!');
        let period = ended.map(|_| Period { start: None, end: Some(date(2026, 1, 31)) });
        Identifier { key: key(ended.unwrap_or(text)), period }
    };
    texts.iter().map(identifier).collect()
}

fn person(id: u64) -> SubjectReference {
    SubjectReference { kind: Subject::Individual, id: RecordId(id) }
}

fn group(id: u64) -> SubjectReference {
    SubjectReference { kind: Subject::Group, id: RecordId(id) }
}

fn ids(ids: &[u64]) -> Vec<RecordId> {
    ids.iter().copied().map(RecordId).collect()
}

fn only(resource: Resource, names: &[&str]) -> FieldSet {
    FieldSet::only(names.iter().map(|name| FieldName::parse(resource, name).unwrap()))
}

fn membership(beneficiary: SubjectReference) -> ProgramMembershipDetails {
    ProgramMembershipDetails::default()
        .with(program_membership::PROGRAM, Reference { kind: RecordKind::Program, id: RecordId(1) })
        .with(program_membership::BENEFICIARY, Reference::from(beneficiary))
        .with(program_membership::STATUS, MembershipStatus::Enrolled)
}

fn consent_id(number: u8) -> ConsentId {
    ConsentId::from_bytes([number; 16])
}

/// A consent to `Health`; all fields without `fields`.
fn consent(number: u8, subject: SubjectReference, opens: &[Resource], fields: Option<&[&str]>) -> Operation {
    let fields = fields.map(|names| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    let details = ConsentDetails::default()
        .with(consent::CONSENT_ID, consent_id(number))
        .with(consent::SUBJECT, Reference::from(subject))
        .with(consent::GRANTEE, "Health".to_owned())
        .with(consent::EFFECTIVE_DATE, date(2026, 3, 1))
        .with(consent::SCOPES, opens.to_vec())
        .with(consent::FIELD_NAMES, fields)
        .with(consent::LEGAL_BASIS, LegalBasis::Consent);
    Operation::create(details)
}

/// Applies changes to the index.
struct Sink(Arc<Columns>);

impl ChangeSink for Sink {
    fn apply(&self, changes: &[Change]) {
        self.0.apply(changes);
    }
}

/// Five persons and two groups, of which all but person 5 and group 2 gave a consent, and their memberships.
async fn register() -> Registry {
    let registry = Registry::of_store(&shared_store());
    registry.store.attach_sink(Arc::new(Sink(Arc::clone(&registry.columns)))).unwrap();
    let of_memberships = Resource::ProgramMembership;
    let persons = [
        &["a|1", "a|1b", "a|moved"][..],
        &["a|2", "a|2b"],
        &["a|3", "a|old!", "a|moved!"],
        &["a|4", "a|old!"],
        &["a|5"],
    ];
    let persons =
        persons.map(|texts| IndividualDetails::new(identifiers(texts), Values::default(), Extension::default()));
    let groups =
        ["h|1", "h|2"].map(|text| GroupDetails::new(identifiers(&[text]), Values::default(), Extension::default()));
    let members = [person(1), person(2), person(3), group(1), person(5), person(4)];
    let operations = persons
        .map(Operation::create)
        .into_iter()
        .chain(groups.map(Operation::create))
        .chain([Operation::create(ProgramDetails::default())])
        .chain(members.map(|member| Operation::create(membership(member))))
        .chain([
            consent(1, person(1), &[Resource::Individual, of_memberships], Some(&["name", "birth_date", "status"])),
            consent(2, person(2), &[of_memberships], None),
            consent(3, person(3), &[Resource::Individual, of_memberships], None),
            consent(4, person(4), &[of_memberships], None),
            consent(5, group(1), &[Resource::Group], Some(&["name"])),
        ])
        .collect();
    let write = Write { at: now(), source: None, operations, audit: Vec::new(), read_set: Vec::new() };
    registry.store.commit(write).await.unwrap();
    registry
}

/// A client with these scopes, each with its fields, all if it names none.
fn client(grants: &[(&str, &[&str])]) -> OpContext {
    let grant = |(scope, names): &(&str, &[&str])| {
        let scope = Scope::parse(scope).unwrap();
        (scope, if names.is_empty() { FieldSet::All } else { only(scope.resource, names) })
    };
    let grants: Grants = grants.iter().map(grant).collect();
    let trail = AuditContext::new(AuditedRequest {
        request_id: "test".into(),
        operation: "GET /test".into(),
        address: None,
        success_status: 200,
    });
    let actor = Actor::Client(ClientId::parse("test").unwrap());
    OpContext { scopes: grants.scopes(), grants, ..OpContext::unbound(actor, "test".into(), now(), trail) }
}

/// The same, of an organization that requires consents.
fn consenting(grants: &[(&str, &[&str])]) -> OpContext {
    let organization = Some(Organization::parse("Health").unwrap());
    OpContext { consent: Some(ConsentFilter { organization, purpose: None }), ..client(grants) }
}

#[tokio::test]
async fn a_client_without_consents_sees_its_granted_fields_of_every_record() {
    let (registry, ctx) = (register().await, client(READER));
    let granted = Some(only(Resource::Individual, &["name", "gender"]));
    assert_eq!(of(&ctx, &registry, PERSONS, RecordId(5)).await.unwrap(), granted);
    assert_eq!(of_each(&ctx, &registry, PERSONS, &ids(&[1, 5])).await.unwrap(), [granted.clone(), granted]);
    assert_eq!(of(&ctx, &registry, GROUPS, RecordId(2)).await.unwrap(), Some(FieldSet::All));
    assert_eq!(of(&ctx, &registry, RecordKind::Program, RecordId(1)).await.unwrap(), Some(FieldSet::none()));
    let there = there(&ctx, &registry, PERSONS, &ids(&[1, 5])).await.unwrap();
    assert_eq!(there, ids(&[1, 5]).into_iter().collect());
    assert!(any_is_there(&ctx, &registry, PERSONS, &ids(&[5])).await.unwrap());
    assert!(!any_is_there(&ctx, &registry, PERSONS, &[]).await.unwrap());
    assert!(sees(&ctx).is_none() && limits(&ctx, &registry.columns.snapshot(), PERSONS).is_none());
    let written = of_written_membership(&ctx, &registry, &membership(person(5))).await.unwrap();
    assert_eq!(written, FieldSet::All);
}

#[tokio::test]
async fn consents_decide_on_records_and_fields() {
    let (registry, ctx) = (register().await, consenting(READER));
    let name = Some(only(Resource::Individual, &["name"]));
    let both = Some(only(Resource::Individual, &["name", "gender"]));
    for (kind, id, expected) in [
        (PERSONS, 1, name.clone()),
        (PERSONS, 2, None),
        (PERSONS, 5, None),
        (GROUPS, 1, Some(only(Resource::Group, &["name"]))),
        (GROUPS, 2, None),
        (MEMBERSHIPS, 1, Some(only(Resource::ProgramMembership, &["status"]))),
        (MEMBERSHIPS, 2, Some(FieldSet::All)),
        (MEMBERSHIPS, 5, None),
        (MEMBERSHIPS, 99, None),
        (RecordKind::Program, 1, Some(FieldSet::none())),
    ] {
        assert_eq!(of(&ctx, &registry, kind, RecordId(id)).await.unwrap(), expected, "{kind} {id}");
    }
    let each = of_each(&ctx, &registry, PERSONS, &ids(&[5, 1, 2, 3])).await.unwrap();
    assert_eq!(each, [None, name, None, both.clone()]);
    let there = there(&ctx, &registry, PERSONS, &ids(&[1, 2, 3, 5])).await.unwrap();
    assert_eq!(there, ids(&[1, 3]).into_iter().collect());
    for (requested, expected) in [(&[][..], false), (&[2, 5], false), (&[2, 1], true)] {
        let is_there = any_is_there(&ctx, &registry, PERSONS, &ids(requested)).await.unwrap();
        assert_eq!(is_there, expected, "{requested:?}");
    }
    let seen = seen::<IndividualDetails>(&ctx, &registry, ids(&[1, 2, 3])).await.unwrap();
    assert_eq!(seen.len(), 2);
    let third = &seen[&RecordId(3)];
    assert_eq!((third.record.id, Some(&third.fields)), (RecordId(3), both.as_ref()));
    for (beneficiary, expected) in [
        (person(1), only(Resource::ProgramMembership, &["status"])),
        (person(2), FieldSet::All),
        (person(5), FieldSet::none()),
    ] {
        let written = of_written_membership(&ctx, &registry, &membership(beneficiary)).await.unwrap();
        assert_eq!(written, expected, "{beneficiary:?}");
    }
}

#[tokio::test]
async fn consents_that_grant_access_are_noted() {
    let registry = register().await;
    let relied_on = |ctx: &OpContext| ctx.trail.relied_on();
    let ctx = consenting(READER);
    of(&ctx, &registry, PERSONS, RecordId(2)).await.unwrap();
    assert_eq!(relied_on(&ctx), []);
    of(&ctx, &registry, PERSONS, RecordId(1)).await.unwrap();
    assert_eq!(relied_on(&ctx), [consent_id(1)]);
    let ctx = consenting(READER);
    assert!(any_is_there(&ctx, &registry, PERSONS, &ids(&[2, 3, 1])).await.unwrap());
    assert_eq!(relied_on(&ctx), [consent_id(3)], "that of the first visible record");
    let ctx = consenting(READER);
    beneficiaries(&ctx, &registry, &Subject::ALL, &key("a|2")).await.unwrap();
    assert_eq!(relied_on(&ctx), [consent_id(2)]);
}

#[tokio::test]
async fn limits_of_a_search_are_those_of_the_filter_on_the_day() {
    let registry = register().await;
    let (ctx, snapshot) = (consenting(READER), registry.columns.snapshot());
    let day = date(2026, 3, 1);
    assert_eq!(sees(&ctx).map(|sees| (sees.filter, sees.day)), ctx.consent.as_ref().map(|filter| (filter, day)));
    for kind in [PERSONS, GROUPS, MEMBERSHIPS] {
        // The index caches its results.
        let expected = snapshot.consented(kind.resource(), ctx.consent.as_ref().unwrap(), day);
        assert!(Arc::ptr_eq(&limits(&ctx, &snapshot, kind).unwrap(), &expected), "{kind}");
    }
}

#[test]
fn a_rule_reads_relationships_only_if_no_consent_is_required() {
    let names = ["name", "relationship"];
    let fields = only(Resource::Individual, &names);
    assert_eq!(of_rules(&client(READER), PERSONS, fields.clone()), fields);
    assert_eq!(of_rules(&consenting(READER), PERSONS, fields), only(Resource::Individual, &["name"]));
    let fields = only(Resource::Group, &names);
    assert_eq!(of_rules(&consenting(READER), GROUPS, fields.clone()), fields);
}

#[tokio::test]
async fn the_scope_to_search_shows_fields_of_memberships_and_none_of_persons() {
    let registry = register().await;
    let grants: &[(&str, &[&str])] = &[("program_membership:search", &["status"]), ("individual:search", &["name"])];
    let (plain, ctx) = (client(grants), consenting(grants));
    let status = Some(only(Resource::ProgramMembership, &["status"]));
    assert_eq!(of(&plain, &registry, MEMBERSHIPS, RecordId(1)).await.unwrap(), Some(FieldSet::none()));
    assert_eq!(of_found(&plain, &registry, MEMBERSHIPS, RecordId(5)).await.unwrap(), status);
    assert_eq!(of_found(&plain, &registry, PERSONS, RecordId(1)).await.unwrap(), Some(FieldSet::none()));
    assert_eq!(of_found(&ctx, &registry, MEMBERSHIPS, RecordId(5)).await.unwrap(), None);
    let each = of_each_found(&ctx, &registry, MEMBERSHIPS, &ids(&[5, 2])).await.unwrap();
    assert_eq!(each, [None, status]);
    let both = client(&[("program:read", &["name"]), ("program:search", &["description"])]);
    assert_eq!(searchable(&both, Resource::Program), only(Resource::Program, &["name", "description"]));
}

#[test]
fn a_client_addresses_records_by_the_fields_that_it_sees() {
    for (scope, names, expected) in [
        ("program_membership:search", &["status"][..], only(Resource::ProgramMembership, &["status"])),
        ("program_membership:update", &["status"], FieldSet::All),
        ("individual:read", &["name"], only(Resource::Individual, &["name"])),
        ("individual:search", &["name"], FieldSet::All),
    ] {
        let resource = Scope::parse(scope).unwrap().resource;
        assert_eq!(known(&client(&[(scope, names)]), resource), expected, "{scope}");
    }
}

#[test]
fn a_client_changes_the_fields_that_it_sees_or_all_granted_ones_if_it_may_not_read() {
    let (resource, update) = (Resource::Individual, ("individual:update", &["name", "gender"][..]));
    let seen = only(resource, &["name", "birth_date"]);
    let (granted, both) = (only(resource, update.1), only(resource, &["name"]));
    assert_eq!(changeable(&client(&[update]), resource, &seen), granted);
    assert_eq!(changeable(&consenting(&[update]), resource, &seen), both);
    let reader = ("individual:read", &["name", "birth_date"][..]);
    assert_eq!(changeable(&client(&[update, reader]), resource, &seen), both);
}

#[test]
fn a_field_is_read_with_the_scope_and_the_grant() {
    let missing = |checked: Result<(), AppError>| match checked.unwrap_err() {
        AppError::MissingScope { required, .. } => required,
        AppError::FieldNotGranted { resource, field, .. } => format!("{} {field}", resource.name()),
        other => panic!("{other}"),
    };
    let group = ("group:read", &["member"][..]);
    let read = |path| check_read(&client(&[group]), Resource::Group, path, FieldUse::Filter);
    assert!(read("member[0].role").is_ok());
    assert_eq!(missing(read("address[0].country")), "group address");
    assert_eq!(missing(check_read(&client(&[]), Resource::Group, "member", FieldUse::Filter)), "group:read");
    let navigate = |individual| check_membership(&client(&[group, ("individual:read", individual)]), FieldUse::Filter);
    assert!(navigate(&["group_membership"]).is_ok());
    assert_eq!(missing(navigate(&["name"])), "individual group_membership");
    assert_eq!(missing(check_membership(&client(&[("individual:read", &[])]), FieldUse::Filter)), "group:read");
}

#[tokio::test]
async fn an_identifier_leads_to_a_visible_record() {
    let registry = register().await;
    let (plain, ctx) = (client(READER), consenting(READER));
    let name = only(Resource::Individual, &["name"]);
    assert_eq!(find(&ctx, &registry, PERSONS, &key("a|1b")).await.unwrap(), (RecordId(1), name.clone()));
    let found = find_record::<IndividualDetails>(&ctx, &registry, &key("a|1")).await.unwrap();
    assert_eq!((found.record.id, found.fields), (RecordId(1), name));
    assert_eq!(find(&plain, &registry, PERSONS, &key("a|2")).await.unwrap().0, RecordId(2));
    // The system is registered in no vocabulary.
    for hidden in ["a|2", "a|99"] {
        let error = find(&ctx, &registry, PERSONS, &key(hidden)).await.unwrap_err();
        assert!(matches!(error, AppError::NotThere(_)), "{hidden}: {error}");
    }
    let several = find(&plain, &registry, PERSONS, &key("a|old")).await.unwrap_err();
    assert!(matches!(several, AppError::Ambiguous), "{several}");
    assert_eq!(find(&ctx, &registry, PERSONS, &key("a|old")).await.unwrap().0, RecordId(3), "the other is hidden");
}

#[tokio::test]
async fn an_unknown_system_is_a_problem_unless_a_visible_record_uses_it() {
    let registry = register().await;
    let check = async |ctx: &OpContext, text| {
        check_systems(ctx, &registry, ("identifier", PERSONS), [&key("a|1"), &key(text)]).await
    };
    let (plain, ctx) = (client(READER), consenting(READER));
    assert!(check(&plain, "a|2").await.is_ok() && check(&ctx, "a|3").await.is_ok());
    for (ctx, text) in [(&ctx, "a|2"), (&ctx, "a|99"), (&plain, "a|99")] {
        assert!(matches!(check(ctx, text).await, Err(AppError::Invalid(_))), "{text}");
    }
}

#[tokio::test]
async fn a_beneficiary_is_addressed_through_visible_memberships() {
    let registry = register().await;
    let (plain, ctx) = (client(READER), consenting(READER));
    for (text, all, consented) in [
        ("a|1b", vec![person(1)], vec![person(1)]),
        // The person is hidden, and its membership contains this reference.
        ("a|2", vec![person(2)], vec![person(2)]),
        ("a|2b", vec![person(2)], vec![]),
        ("a|5", vec![person(5)], vec![]),
        ("h|1", vec![group(1)], vec![]),
        ("a|moved", vec![person(1), person(3)], vec![person(1), person(3)]),
        ("a|old", vec![person(3), person(4)], vec![person(3)]),
    ] {
        let key = key(text);
        assert_eq!(beneficiaries(&plain, &registry, &Subject::ALL, &key).await.unwrap(), all, "{text}");
        assert_eq!(beneficiaries(&ctx, &registry, &Subject::ALL, &key).await.unwrap(), consented, "{text}");
    }
    for (text, expected) in [("a|moved", vec![person(1)]), ("a|old", vec![person(3), person(4)])] {
        assert_eq!(addressed_beneficiaries(&plain, &registry, &key(text)).await.unwrap(), expected, "{text}");
    }
    assert_eq!(beneficiary(&ctx, &registry, Subject::Individual, &key("a|2")).await.unwrap(), person(2));
    let hidden = beneficiary(&ctx, &registry, Subject::Individual, &key("a|2b")).await.unwrap_err();
    assert!(matches!(hidden, AppError::NotThere(_)), "{hidden}");
}
