//! Whom a reference in a change means, where the group names somebody so already.
//!
//! **Invariant:** what was received may be sent back. A person or a group whose identifiers have all ended is still shown by one of
//! them; whoever has taken that identifier up since is not put in the place of whom the group holds.

use std::collections::HashMap;

use super::GroupView;
use crate::records;
use daftar_domain::field::FieldSet;
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::record::RecordId;

/// How the members and other groups of a group are shown now.
#[derive(Debug, Default)]
pub(super) struct Shown {
    members: HashMap<IdentifierKey, Option<RecordId>>,
    groups: HashMap<IdentifierKey, Option<RecordId>>,
}

impl Shown {
    /// As they stand in a view, as far as the client sees these fields.
    pub(super) fn in_view(view: &GroupView, seen: &FieldSet) -> Self {
        let members = view.members.iter().filter(|_| seen.allows("member"));
        let groups = view.related.iter().filter(|_| seen.allows("relationship"));
        let members = members.map(|(id, seen)| (*id, seen.record.details.identifiers.as_slice()));
        let groups = groups.map(|(id, seen)| (*id, seen.record.details.identifiers.as_slice()));
        Self { members: by_name(members), groups: by_name(groups) }
    }

    /// The member that is shown so.
    pub(super) fn member(&self, key: &IdentifierKey) -> Option<RecordId> {
        self.members.get(key).copied().flatten()
    }

    /// The other group that is shown so.
    pub(super) fn group(&self, key: &IdentifierKey) -> Option<RecordId> {
        self.groups.get(key).copied().flatten()
    }
}

/// Records by what they are called; nothing, where two are called the same.
fn by_name<'a>(
    records: impl Iterator<Item = (RecordId, &'a [Identifier])>,
) -> HashMap<IdentifierKey, Option<RecordId>> {
    let mut found: HashMap<IdentifierKey, Option<RecordId>> = HashMap::new();
    for (id, identifiers) in records {
        let Some(called) = records::called(identifiers) else { continue };
        found.entry(called.clone()).and_modify(|one| *one = None).or_insert(Some(id));
    }
    found
}
