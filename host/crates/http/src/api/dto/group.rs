//! The body of a group.

mod relationship;

use jiff::civil::Date;
use serde::Serialize;
use serde_json::{Map, Value};

use relationship::RelationshipBody;

use super::address::AddressBody;
use super::individual::Identification;
use super::reader::{ObjectReader, Problems};
use super::shared::{CodeBody, IdentifierBody, MetaBody, PeriodBody, read_identifiers, read_type};
use super::{address, extension};
use daftar_domain::code::{CodeUri, CodedValue};
use daftar_domain::extension::ExtensionFields;
use daftar_domain::field::FieldSet;
use daftar_domain::group::{Group, GroupDetails, MEMBERS_MAX, Member};
use daftar_domain::identifier::{IdentifierKey, REFERENCE_BYTES_MAX};
use daftar_domain::person_name::NAME_PART_BYTES_MAX;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::vocabulary::DisplayedCode;
use daftar_service::group::history::{HistoryEntry, PlaceChange};
use daftar_service::group::members::{GroupPlace, MemberChange};
use daftar_service::records;
use daftar_service::visibility::Seen;

/// Reads a body into a group whose codes and members are not checked yet.
pub fn read(
    members: Map<String, Value>,
    fields: &ExtensionFields,
    problems: &mut Problems,
) -> GroupDetails<CodeUri, IdentifierKey> {
    let mut reader = ObjectReader::root(members);
    let details = read_fields(&mut reader, Identification::Required, fields, problems);
    reader.finish(problems);
    details
}

/// Reads the members of a body into a group; leaves those that it does not know in `reader`.
pub fn read_fields(
    reader: &mut ObjectReader,
    identification: Identification,
    fields: &ExtensionFields,
    problems: &mut Problems,
) -> GroupDetails<CodeUri, IdentifierKey> {
    read_type(reader, RecordKind::Group, problems);
    let details = GroupDetails {
        identifiers: read_identifiers(reader, identification == Identification::Required, problems),
        active: reader.boolean("active", problems),
        name: reader.text("name", NAME_PART_BYTES_MAX, problems),
        group_type: reader.code("group_type", problems),
        housing_type: reader.code("housing_type", problems),
        members: reader
            .list("member", MEMBERS_MAX, problems)
            .map(|items| items.into_iter().filter_map(|(path, item)| read_member(path, item, problems)).collect()),
        relationships: relationship::read(reader, problems),
        address: address::read(reader, problems),
        extension: extension::read(reader, fields, problems),
    };
    for read_only in ["meta", "quantity"] {
        reader.take(read_only);
    }
    details
}

/// Reads one member that lies at `path`; nothing where nobody is named, which is a problem then.
pub fn read_member(path: String, item: Value, problems: &mut Problems) -> Option<Member<CodeUri, IdentifierKey>> {
    let mut reader = ObjectReader::at(path, item, problems);
    let individual = read_entity(&mut reader, problems);
    let role = reader.code("role", problems);
    let period = reader.period("period", problems);
    let is_inactive = reader.boolean("inactive", problems).unwrap_or(false);
    reader.finish(problems);
    Some(Member { individual: individual?, role, period, is_inactive })
}

fn read_entity(reader: &mut ObjectReader, problems: &mut Problems) -> Option<IdentifierKey> {
    let individual = reader.object("entity", problems).and_then(|mut entity| {
        let reference = entity.text("reference", REFERENCE_BYTES_MAX, problems);
        entity.take("display");
        let path = entity.path_of("reference");
        entity.finish(problems);
        read_reference(&path, &reference?, RecordKind::Individual, problems)
    });
    if individual.is_none() && !reader.is_problem_within("entity", problems) {
        problems.add(
            reader.path_of("entity"),
            "required",
            "a member names its person: `{reference: \"Individual/<system>|<value>\"}`",
        );
    }
    individual
}

/// Reads who leaves a group, and on which day: `{entity, period: {end}}`.
pub fn read_removal(path: String, item: Value, problems: &mut Problems) -> Option<(IdentifierKey, Option<Date>)> {
    let mut reader = ObjectReader::at(path, item, problems);
    let individual = read_entity(&mut reader, problems);
    let last_day = reader.object("period", problems).and_then(|mut period| {
        let last_day = period.date("end", problems);
        period.finish(problems);
        last_day
    });
    reader.finish(problems);
    Some((individual?, last_day))
}

/// Reads what is to be changed of a member's place: what is named is changed, `null` takes it out.
pub fn read_member_patch(
    path: String,
    item: Value,
    individual: IdentifierKey,
    problems: &mut Problems,
) -> MemberChange {
    let names = |name: &str| item.get(name).is_some();
    let (has_role, has_period, has_inactive) = (names("role"), names("period"), names("inactive"));
    let mut reader = ObjectReader::at(path, item, problems);
    let role = reader.code("role", problems);
    let period = reader.period("period", problems);
    let is_inactive = reader.boolean("inactive", problems);
    reader.finish(problems);
    MemberChange::Change {
        individual,
        role: has_role.then_some(role),
        period: has_period.then_some(period),
        is_inactive: has_inactive.then_some(is_inactive.unwrap_or(false)),
    }
}

/// Reads `Individual/<system>|<value>`.
pub fn read_reference(path: &str, text: &str, kind: RecordKind, problems: &mut Problems) -> Option<IdentifierKey> {
    let key = text.strip_prefix(kind.name()).and_then(|rest| rest.strip_prefix('/'));
    let Some(key) = key else {
        problems.add(path, "invalid_reference", format!("a reference is written `{}/<system>|<value>`", kind.name()));
        return None;
    };
    match IdentifierKey::parse(key) {
        Ok(key) => Some(key),
        Err(error) => {
            problems.add(path, "invalid_reference", error.to_string());
            None
        }
    }
}

/// How a member or another group is shown to a client: reference and, where it may see it, the name.
#[derive(Debug, Clone)]
pub struct ShownEntity {
    /// `Individual/<system>|<value>` or `Group/<system>|<value>`
    pub reference: String,
    /// The name, where the client may see it.
    pub display: Option<String>,
}

/// Writes what is seen of a group as it is on that day; `fields` are those that modules add, the functions tell how codes,
/// members and other groups are shown to this client.
pub fn write<'a>(
    (group, seen): (&'a Group, &FieldSet),
    quantity: Option<usize>,
    fields: &ExtensionFields,
    show: &dyn Fn(CodedValue) -> DisplayedCode,
    show_member: &dyn Fn(RecordId) -> Option<ShownEntity>,
    show_group: &dyn Fn(RecordId) -> Option<ShownEntity>,
) -> GroupBody<'a> {
    let details = &group.details;
    let recorded = details.members.as_ref();
    let members: Option<Vec<MemberBody>> = recorded
        .filter(|_| seen.allows("member"))
        .map(|members| members.iter().filter_map(|member| MemberBody::new(member, show, show_member)).collect());
    GroupBody {
        kind: "Group",
        identifier: details.identifiers.iter().map(IdentifierBody::from).collect(),
        active: details.active.filter(|_| seen.allows("active")),
        name: details.name.as_deref().filter(|_| seen.allows("name")),
        group_type: details.group_type.filter(|_| seen.allows("group_type")).map(|value| CodeBody::from(show(value))),
        housing_type: details
            .housing_type
            .filter(|_| seen.allows("housing_type"))
            .map(|value| CodeBody::from(show(value))),
        quantity: quantity.filter(|_| seen.allows("quantity")),
        member: members,
        relationship: details
            .relationships
            .as_ref()
            .filter(|_| seen.allows("relationship"))
            .map(|all| RelationshipBody::all(all, show, show_group)),
        address: details
            .address
            .as_ref()
            .filter(|_| seen.allows("address"))
            .map(|all| all.iter().map(|one| AddressBody::new(one, show)).collect()),
        extension: extension::write(&details.extension, seen, fields, show),
        meta: MetaBody::from(&group.meta),
    }
}

/// A group on the wire.
#[derive(Debug, Serialize)]
pub struct GroupBody<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    identifier: Vec<IdentifierBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    active: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group_type: Option<CodeBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    housing_type: Option<CodeBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<Vec<MemberBody>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quantity: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    relationship: Option<Vec<RelationshipBody>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<Vec<AddressBody<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extension: Option<Value>,
    meta: MetaBody<'a>,
}

#[derive(Debug, Serialize)]
struct MemberBody {
    entity: EntityBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<CodeBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    period: Option<PeriodBody>,
    inactive: bool,
}

impl MemberBody {
    fn new(
        member: &Member,
        show: &dyn Fn(CodedValue) -> DisplayedCode,
        show_member: &dyn Fn(RecordId) -> Option<ShownEntity>,
    ) -> Option<Self> {
        let shown = show_member(member.individual)?;
        Some(Self {
            entity: EntityBody::from(shown),
            role: member.role.map(|value| CodeBody::from(show(value))),
            period: member.period.map(PeriodBody::from),
            inactive: member.is_inactive,
        })
    }
}

/// One thing that happened to a place in a group.
#[derive(Debug, Serialize)]
pub struct HistoryBody<'a> {
    change: &'static str,
    #[serde(flatten)]
    member: MemberBody,
    meta: MetaBody<'a>,
}

impl<'a> HistoryBody<'a> {
    /// Writes an entry; nothing where the person cannot be shown.
    pub fn new(
        entry: &'a HistoryEntry,
        show: &dyn Fn(CodedValue) -> DisplayedCode,
        show_member: &dyn Fn(RecordId) -> Option<ShownEntity>,
    ) -> Option<Self> {
        let change = match entry.change {
            PlaceChange::Added => "added",
            PlaceChange::Changed => "changed",
            PlaceChange::Removed => "removed",
        };
        let member = MemberBody::new(&entry.member, show, show_member)?;
        Some(Self { change, member, meta: MetaBody::from(&entry.meta) })
    }
}

/// A person's place in a group, told from the person's side.
#[derive(Debug, Serialize)]
pub struct PlaceBody {
    group: EntityBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<CodeBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    period: Option<PeriodBody>,
    inactive: bool,
}

impl PlaceBody {
    /// Writes a place; nothing where the group has no identifier, which cannot be.
    pub fn new(place: &GroupPlace, show: &dyn Fn(CodedValue) -> DisplayedCode) -> Option<Self> {
        let Seen { record, fields } = &place.group;
        let details = &record.details;
        let reference = records::reference(RecordKind::Group, records::called(&details.identifiers)?);
        Some(Self {
            group: EntityBody { reference, display: details.name.clone().filter(|_| fields.allows("name")) },
            role: place.member.role.map(|value| CodeBody::from(show(value))),
            period: place.member.period.map(PeriodBody::from),
            inactive: place.member.is_inactive,
        })
    }
}

#[derive(Debug, Serialize)]
struct EntityBody {
    reference: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    display: Option<String>,
}

impl From<ShownEntity> for EntityBody {
    fn from(shown: ShownEntity) -> Self {
        Self { reference: shown.reference, display: shown.display }
    }
}
