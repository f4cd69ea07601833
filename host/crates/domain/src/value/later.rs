//! Fields stored by a program with a later revision of the schema, and their preservation on writes.

use super::{Value, Values};
use crate::schema::{self, Field, Kind};

/// The value of an unknown field, stored by a program with a later revision of the schema. Preserved when the record is
/// written again, and never returned.
#[derive(Clone, PartialEq, Eq)]
pub struct Later {
    /// The revision under which the record was stored: a program of this revision knows the field.
    pub revision: u16,
    /// The stored bytes.
    pub bytes: Box<[u8]>,
}

impl<C, I> Values<C, I> {
    /// Copies the unknown values in `before` when a record is written again: in its fields, in parts that remain, and
    /// in items of lists that remain, which are those that are otherwise equal or describe the same item. A part that
    /// contains only unknown values is preserved too: it was not returned to the client that wrote the record.
    pub fn keep_later(&mut self, fields: &'static [Field], before: &Self)
    where
        C: Clone + PartialEq,
        I: Clone + PartialEq,
    {
        for (tag, value) in before.iter().filter(|(_, value)| value.later_revision().is_some()) {
            let now = self.0.iter_mut().find(|(known, _)| *known == tag).map(|(_, now)| now);
            match (now, schema::row(fields, tag)) {
                (Some(now), Some(field)) => now.keep_later(&field.kind, value),
                _ if value.is_unseen() => self.put(tag, Some(value.clone())),
                _ => {}
            }
        }
    }

    /// Returns the latest revision of any unknown value in them.
    pub fn later_revision(&self) -> Option<u16> {
        self.0.iter().filter_map(|(_, value)| value.later_revision()).max()
    }

    /// Removes unknown values.
    #[must_use]
    pub fn without_later(&self) -> Self
    where
        C: Clone,
        I: Clone,
    {
        let known = self.iter().filter(|(_, value)| !matches!(value, Value::Later(_)));
        Self(known.map(|(tag, value)| (tag, value.without_later())).collect())
    }
}

impl<C, I> Value<C, I> {
    /// Creates an unknown value of a later revision.
    pub fn later(revision: u16, bytes: &[u8]) -> Self {
        Self::Later(Box::new(Later { revision, bytes: bytes.into() }))
    }

    /// Like [`Values::later_revision`], for one value.
    pub fn later_revision(&self) -> Option<u16> {
        match self {
            Self::Later(later) => Some(later.revision),
            Self::List(items) => items.iter().filter_map(Self::later_revision).max(),
            Self::Struct(values) => values.later_revision(),
            _ => None,
        }
    }

    /// True if it contains only unknown values.
    fn is_unseen(&self) -> bool {
        match self {
            Self::Later(_) => true,
            Self::Struct(values) => values.iter().all(|(_, value)| value.is_unseen()),
            _ => false,
        }
    }

    /// Like [`Values::without_later`], for one value.
    fn without_later(&self) -> Self
    where
        C: Clone,
        I: Clone,
    {
        match self {
            Self::List(items) => Self::List(items.iter().map(Self::without_later).collect()),
            Self::Struct(values) => Self::Struct(values.without_later()),
            other => other.clone(),
        }
    }

    /// Like [`Values::keep_later`], for one value.
    fn keep_later(&mut self, kind: &'static Kind, before: &Self)
    where
        C: Clone + PartialEq,
        I: Clone + PartialEq,
    {
        match (kind, self, before) {
            (Kind::Struct(part), Self::Struct(now), Self::Struct(before)) => now.keep_later(part.fields, before),
            (Kind::List { of, .. }, Self::List(now), Self::List(before)) => Self::keep_later_in_items(now, of, before),
            _ => {}
        }
    }

    fn keep_later_in_items(now: &mut [Self], of: &'static Kind, before: &[Self])
    where
        C: Clone + PartialEq,
        I: Clone + PartialEq,
    {
        // Each item is matched once: first the unchanged items, then the others.
        let mut free: Vec<&mut Self> = now.iter_mut().collect();
        let mut changed = Vec::new();
        for item in before {
            let known = item.without_later();
            let is = |wanted: &Self| free.iter().position(|one| **one == *wanted);
            match is(item).or_else(|| is(&known)) {
                Some(at) => *free.remove(at) = item.clone(),
                None => changed.push(item),
            }
        }
        for item in changed {
            if let Some(at) = free.iter().position(|one| one.is_about_the_same(of, item)) {
                free.remove(at).keep_later(of, item);
            }
        }
    }

    /// True if two parts of a list describe the same item: the required fields of such parts are present and equal.
    fn is_about_the_same(&self, of: &'static Kind, other: &Self) -> bool
    where
        C: PartialEq,
        I: PartialEq,
    {
        let (Kind::Struct(part), Self::Struct(one), Self::Struct(other)) = (of, self, other) else { return false };
        let mut required = part.fields.iter().filter(|field| field.required.is_some()).peekable();
        required.peek().is_some() && required.all(|field| one.value(field.tag) == other.value(field.tag))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Key, List, Part, Reference, Text};
    use super::*;
    use crate::code::CodedValue;
    use crate::group::{self, MEMBER_ENTITY, MEMBER_INACTIVE};
    use crate::individual::{self, ADDRESS, LANGUAGES, NAME, TELECOM};
    use crate::record::{RecordId, RecordKind};
    use crate::schema::Tag;
    use crate::{address, person_name};

    /// The members of a group, as parts.
    const MEMBERS: Key<List<Part>> = Key::new(group::MEMBER.tag().0);

    /// Adds a value of revision 7 with this tag to a part.
    fn newer(mut part: Values, tag: u16) -> Values {
        part.put(Tag(tag), Some(Value::later(7, &[1, 2])));
        part
    }

    fn text(key: Key<Text>, text: &str) -> Values {
        Values::default().with(key, text.to_owned())
    }

    fn preserved(fields: &'static [Field], mut now: Values, before: &Values) -> Values {
        now.keep_later(fields, before);
        now
    }

    #[test]
    fn unknown_values_are_preserved_in_remaining_fields_parts_and_items() {
        let (given, region) = (person_name::GIVEN, address::REGION);
        let record = |name: Values, places: Vec<Values>| Values::default().with(NAME, name).with(ADDRESS, places);
        let places = vec![newer(text(region, "a"), 90), text(region, "b"), newer(text(region, "c"), 90)];
        let before = newer(record(newer(text(given, "Awa"), 90), places), 900);
        assert_eq!((before.later_revision(), before.without_later().later_revision()), (Some(7), None));
        let now = record(text(given, "Aminata"), vec![text(region, "c"), text(region, "d")]);
        let expected = vec![newer(text(region, "c"), 90), text(region, "d")];
        let expected = newer(record(newer(text(given, "Aminata"), 90), expected), 900);
        assert_eq!(preserved(individual::FIELDS, now, &before), expected);
        // A value removed by a client is removed with its content.
        let emptied = Values::default().with(LANGUAGES, Vec::<CodedValue>::new());
        assert_eq!(preserved(individual::FIELDS, emptied.clone(), &before), newer(emptied, 900));
    }

    #[test]
    fn a_part_with_only_unknown_values_is_preserved() {
        let before = Values::default().with(NAME, newer(Values::default(), 90));
        assert_eq!(preserved(individual::FIELDS, Values::default(), &before), before);
        let empty = Values::default().with(NAME, Values::default());
        assert_eq!(preserved(individual::FIELDS, empty, &before), before);
    }

    #[test]
    fn a_changed_item_keeps_the_unknown_values_of_its_match() {
        let member = |id: u64| -> Values {
            let individual = Reference { kind: RecordKind::Individual, id: RecordId(id) };
            Values::default().with(MEMBER_ENTITY, individual)
        };
        let left = |id: u64| member(id).with(MEMBER_INACTIVE, true);
        let group = |members: Vec<Values>| Values::default().with(MEMBERS, members);
        let before = group(vec![newer(member(1), 90), member(1), newer(member(2), 91), newer(left(3), 92)]);
        let now = group(vec![member(1), left(1), member(4), left(2)]);
        let expected = group(vec![newer(member(1), 90), left(1), member(4), newer(left(2), 91)]);
        assert_eq!(preserved(group::FIELDS, now, &before), expected);
        // Unknown values that are present already are not added again.
        assert_eq!(preserved(group::FIELDS, before.clone(), &before), before);
        let twice = group(vec![newer(member(1), 90), newer(member(1), 91)]);
        assert_eq!(preserved(group::FIELDS, twice.without_later(), &twice), twice);
    }

    #[test]
    fn a_telecom_with_another_number_is_another_item() {
        let telecom = |number: &str| text(individual::TELECOM_VALUE, number);
        let before = Values::default().with(TELECOM, vec![newer(telecom("1"), 90)]);
        let now = Values::default().with(TELECOM, vec![telecom("2")]);
        assert_eq!(preserved(individual::FIELDS, now.clone(), &before), now);
    }
}
