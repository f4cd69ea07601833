//! The members of a group, one by one, from the side of the group and of the individual.

use jiff::civil::Date;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value as Json;

use super::field::{self, Level, Reading};
use super::reader::{ObjectReader, Problems};
use super::record::{Part, ShownRecord, Shows, meta as meta_of};
use daftar_domain::calendar::Period;
use daftar_domain::code::{CodeUri, CodedValue};
use daftar_domain::group::{MEMBER_ENTITY, MEMBERS, Member};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::record::{RecordId, RecordKind, RecordMeta};
use daftar_domain::value::{Reference, Typed, Value, Values};
use daftar_service::group::history::{HistoryEntry, PlaceChange};
use daftar_service::group::members::{GroupPlace, MemberChange, PeriodChange};

/// Reads the member at `path`. A missing individual is a problem.
pub fn read_member(path: String, item: Json, problems: &mut Problems) -> Option<Member<CodeUri, IdentifierKey>> {
    let mut reading = Reading { problems, photo: None };
    let values: Values<CodeUri, IdentifierKey> = field::part(&path, &MEMBERS, item, &mut reading);
    <Member as Typed<CodeUri, IdentifierKey>>::read(&Value::Struct(values))
}

/// Parses the individual that leaves a group, and the day: `{entity, period: {end}}`.
pub fn read_removal(path: String, item: Json, problems: &mut Problems) -> Option<(IdentifierKey, Option<Date>)> {
    let mut reader = ObjectReader::at(path, item, problems);
    let entity = MEMBERS.fields.iter().filter(|field| field.tag == MEMBER_ENTITY.tag());
    let mut reading = Reading { problems, photo: None };
    let values: Values<CodeUri, IdentifierKey> = field::read_fields(&mut reader, entity, Level::Part, &mut reading);
    let problems = reading.problems;
    let last_day = reader.object("period", problems).and_then(|mut period| {
        let last_day = period.date("end", problems);
        period.finish(problems);
        last_day
    });
    reader.finish(problems);
    Some((values.get(MEMBER_ENTITY)?.id.clone(), last_day))
}

/// Reads the changes of a membership in a group, a merge patch (RFC 7396): named fields are changed, `null` removes them.
pub fn read_member_patch(path: String, item: Json, individual: IdentifierKey, problems: &mut Problems) -> MemberChange {
    let names = |name: &str| item.get(name).is_some();
    let (has_role, has_inactive) = (names("role"), names("inactive"));
    let sent = item.get("period");
    // `null` removes both days.
    let names = |day: &str| sent.is_some_and(|period| period.is_null() || period.get(day).is_some());
    let (has_start, has_end) = (names("start"), names("end"));
    let mut reader = ObjectReader::at(path, item, problems);
    let role = reader.code("role", problems);
    let mut days = Period { start: None, end: None };
    if let Some(mut period) = reader.object("period", problems) {
        days = Period { start: period.date("start", problems), end: period.date("end", problems) };
        period.finish(problems);
    }
    let is_inactive = reader.boolean("inactive", problems);
    reader.finish(problems);
    MemberChange::Change {
        individual,
        role: has_role.then_some(role),
        period: PeriodChange { start: has_start.then_some(days.start), end: has_end.then_some(days.end) },
        is_inactive: has_inactive.then_some(is_inactive.unwrap_or(false)),
    }
}

/// The values of a member.
fn values_of(member: &Member) -> Values {
    match <Member as Typed<CodedValue, RecordId>>::make(member.clone()) {
        Value::Struct(values) => values,
        _ => Values::default(),
    }
}

/// A change of a membership in a group.
pub struct HistoryBody<'a> {
    change: &'static str,
    member: Values,
    person: ShownRecord<'a>,
    meta: &'a RecordMeta,
    shows: &'a dyn Shows,
}

impl<'a> HistoryBody<'a> {
    /// Creates the body of an entry; `None` if the individual is not visible to the client.
    pub fn new(entry: &'a HistoryEntry, shows: &'a dyn Shows) -> Option<Self> {
        let change = match entry.change {
            PlaceChange::Added => "added",
            PlaceChange::Changed => "changed",
            PlaceChange::Removed => "removed",
        };
        let person = shows.record(&Reference { kind: RecordKind::Individual, id: entry.member.individual })?;
        Some(Self { change, member: values_of(&entry.member), person, meta: &entry.meta, shows })
    }
}

impl Serialize for HistoryBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { change, member, person, meta, shows } = self;
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("change", change)?;
        let record = Some(person.clone());
        Part { fields: MEMBERS.fields, values: member, record, shows: *shows }.write(&mut object)?;
        object.serialize_entry("meta", &meta_of(meta))?;
        object.end()
    }
}

/// A membership of an individual in a group, from the individual's side.
pub struct PlaceBody<'a> {
    group: ShownRecord<'a>,
    place: Values,
    shows: &'a dyn Shows,
}

impl<'a> PlaceBody<'a> {
    /// Writes a membership; nothing if the group has no identifier, which is impossible.
    pub fn new(place: &'a GroupPlace, shows: &'a dyn Shows) -> Option<Self> {
        let mut values = values_of(&place.member);
        values.take(MEMBER_ENTITY.tag());
        let reference = place.group.reference.as_deref()?.into();
        let group = ShownRecord { key: None, reference, display: place.group.name.as_deref().map(Into::into) };
        Some(Self { group, place: values, shows })
    }
}

impl Serialize for PlaceBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { group, place, shows } = self;
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("group", group)?;
        Part { fields: MEMBERS.fields, values: place, record: None, shows: *shows }.write(&mut object)?;
        object.end()
    }
}
