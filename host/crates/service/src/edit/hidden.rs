//! Those parts of a record that refer to records which are not there for the client: they stay as they are, whatever it changes.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use crate::registry::Registry;
use crate::visibility;
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::record::{Fields, RecordId, RecordKind, RecordType};
use daftar_domain::schema::{self, Field, Kind, Tag};
use daftar_domain::value::{Reference, Value};

/// The records that a record refers to and that are not there for the client.
#[derive(Debug, Default)]
pub(crate) struct Hidden(HashSet<Reference>);

impl Hidden {
    /// Of a record as it is.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn of<T: RecordType>(
        ctx: &OpContext,
        registry: &Registry,
        details: &Fields<T>,
    ) -> Result<Self, AppError> {
        let mut by_kind: BTreeMap<RecordKind, Vec<RecordId>> = BTreeMap::new();
        for Reference { kind, id } in details.references() {
            by_kind.entry(*kind).or_default().push(*id);
        }
        let mut hidden = HashSet::new();
        for (kind, ids) in by_kind {
            let there = visibility::there(ctx, registry, kind, &ids).await?;
            let absent = ids.into_iter().filter(|id| !there.contains(id));
            hidden.extend(absent.map(|id| Reference { kind, id }));
        }
        Ok(Self(hidden))
    }

    /// Whether every record that is referred to is there.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a record is not there.
    pub(crate) fn holds(&self, kind: RecordKind, id: RecordId) -> bool {
        self.0.contains(&Reference { kind, id })
    }

    /// Whether a value refers to a record that is not there.
    pub(crate) fn is_in(&self, value: &Value) -> bool {
        value.references().into_iter().any(|reference| self.0.contains(reference))
    }

    /// A record without its hidden parts.
    pub(crate) fn without<'d, T: RecordType>(&self, details: &'d Fields<T>) -> Cow<'d, Fields<T>> {
        if self.is_empty() {
            return Cow::Borrowed(details);
        }
        let mut seen = details.clone();
        for (tag, value) in details.iter().filter(|(_, value)| self.is_in(value)) {
            let rest = if let Value::List(items) = value { items.as_slice() } else { &[] };
            let rest: Vec<Value> = rest.iter().filter(|item| !self.is_in(item)).cloned().collect();
            seen.put(tag, matches!(value, Value::List(_)).then_some(Value::List(rest)));
        }
        Cow::Owned(seen)
    }

    /// What a client wants instead of what it sees, with the rest in the places where it was.
    pub(crate) fn kept<T: RecordType>(
        &self,
        before: &Fields<T>,
        mut now: Fields<T>,
        problems: &mut Vec<FieldProblem>,
    ) -> Fields<T> {
        for (tag, value) in before.iter().filter(|(_, value)| self.is_in(value)) {
            let Value::List(items) = value else {
                now.put(tag, Some(value.clone()));
                continue;
            };
            let wanted = if let Some(Value::List(wanted)) = now.take(tag) { wanted } else { Vec::new() };
            let merged = self.merged(items, wanted);
            if let Some(Field { name, kind: Kind::List { items_max, .. }, .. }) =
                schema::row(Fields::<T>::schema(), tag)
                && merged.len() > *items_max
            {
                let message = format!("`{name}` has at most {items_max} items, those that have ended included");
                problems.push(FieldProblem { field: (*name).to_owned(), code: "too_many", message });
            }
            now.put(tag, Some(Value::List(merged)));
        }
        now
    }

    /// A list with what is wanted instead of what is seen of it, and the hidden rest in its places.
    fn merged(&self, before: &[Value], wanted: Vec<Value>) -> Vec<Value> {
        let mut wanted = wanted.into_iter();
        let mut all = Vec::new();
        for item in before {
            if self.is_in(item) {
                all.push(item.clone());
            } else {
                all.extend(wanted.next());
            }
        }
        all.extend(wanted);
        all
    }

    /// The place of an item of a list among those that are there: where the client sees it.
    pub(crate) fn shown_place<T: RecordType>(&self, details: &Fields<T>, list: Tag, at: usize) -> usize {
        let Some(Value::List(items)) = details.value(list) else { return at };
        items.iter().take(at).filter(|item| !self.is_in(item)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::group::{GroupDetails, MEMBER, MEMBERS_MAX, Member};

    fn details(members: Option<&[u64]>) -> GroupDetails {
        let place = |id: &u64| Member { individual: RecordId(*id), role: None, period: None, is_inactive: false };
        GroupDetails::default().with(MEMBER, members.map(|ids| ids.iter().map(place).collect::<Vec<Member>>()))
    }

    fn hidden(individuals: &[u64]) -> Hidden {
        let person = |id: &u64| Reference { kind: RecordKind::Individual, id: RecordId(*id) };
        Hidden(individuals.iter().map(person).collect())
    }

    #[test]
    fn hidden_members_stay_in_their_places() {
        let hidden = hidden(&[8, 9]);
        for (before, wanted, after) in [
            (&[8, 1, 9, 2][..], Some(&[3, 1][..]), Some(&[8, 3, 9, 1][..])),
            (&[8, 1, 9, 2], Some(&[1, 2, 3]), Some(&[8, 1, 9, 2, 3])),
            (&[1, 8, 2], Some(&[2]), Some(&[2, 8])),
            (&[8], None, Some(&[8])),
            (&[1, 9], Some(&[]), Some(&[9])),
            (&[1], None, None),
            (&[1], Some(&[]), Some(&[])),
        ] {
            let mut problems = Vec::new();
            let merged = hidden.kept(&details(Some(before)), details(wanted), &mut problems);
            assert_eq!(merged.get(MEMBER), details(after).get(MEMBER), "{before:?} {wanted:?}");
            assert!(problems.is_empty());
        }
        let group = details(Some(&[8, 1, 9, 2]));
        assert_eq!(hidden.shown_place(&group, MEMBER.tag(), 3), 1);
        assert_eq!(hidden.without(&group).get(MEMBER), details(Some(&[1, 2])).get(MEMBER));
    }

    #[test]
    fn hidden_members_count_towards_the_most_there_can_be() {
        let hidden = hidden(&[1_000]);
        let wanted: Vec<u64> = (0..MEMBERS_MAX as u64).collect();
        for (count, is_refused) in [(MEMBERS_MAX - 1, false), (MEMBERS_MAX, true)] {
            let mut problems = Vec::new();
            let wanted = details(Some(&wanted[..count]));
            drop(hidden.kept(&details(Some(&[1_000])), wanted, &mut problems));
            assert_eq!(!problems.is_empty(), is_refused, "{count}");
        }
    }
}
