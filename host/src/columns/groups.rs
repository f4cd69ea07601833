//! The groups of a snapshot: their codes, and who belongs to which.

use super::codes::{CodeIndex, CodeKey, Edits, apply_edits, difference, note_edits, sorted_once};
use super::rows::{Place, Rows};
use super::tree::SharedTree;
use crate::domain::group::Group;
use crate::domain::record::RecordId;
use crate::domain::vocabulary::CodedField;

/// All groups, cheap to copy.
#[derive(Debug, Clone, Default)]
pub(super) struct Groups {
    /// Which record stands where.
    pub(super) rows: Rows,
    /// Rows by code.
    pub(super) codes: CodeIndex,
    /// A person and a group that names the person.
    memberships: SharedTree<(RecordId, RecordId), ()>,
}

/// What a group set, to be cleared when it is written again. Both lists are sorted and hold everything once.
#[derive(Debug, Default)]
pub(super) struct Terms {
    codes: Box<[CodeKey]>,
    members: Box<[RecordId]>,
}

/// A group taken apart, ready to be written.
pub(super) struct Prepared {
    id: RecordId,
    terms: Terms,
}

impl Prepared {
    /// Takes a group apart.
    pub(super) fn new(group: &Group) -> Self {
        let details = &group.details;
        let members = || details.members.iter().flatten();
        let group_type = details.group_type.map(|value| (Some(CodedField::GroupType), value));
        let housing_type = details.housing_type.map(|value| (Some(CodedField::HousingType), value));
        let roles = members().filter_map(|member| Some((Some(CodedField::MemberRole), member.role?)));
        let extension = details.extension.codes().map(|value| (None, *value));
        let codes = group_type.into_iter().chain(housing_type).chain(roles).chain(extension);
        let terms = Terms {
            codes: sorted_once(codes.map(|(field, value)| CodeKey { field, number: value.number })).into(),
            members: sorted_once(members().map(|member| member.individual)).into(),
        };
        Self { id: group.id, terms }
    }
}

impl Groups {
    /// The groups that name a person as a member, ascending.
    pub(super) fn of(&self, individual: RecordId) -> Vec<RecordId> {
        let entries = self.memberships.from(&(individual, RecordId(0))).map(|(entry, ())| *entry);
        entries.take_while(|(member, _)| *member == individual).map(|(_, group)| group).collect()
    }

    /// Writes groups, each into a new row or the row that it has.
    pub(super) fn write(&mut self, all_terms: &mut Vec<Terms>, records: Vec<Prepared>) {
        let mut edits = Edits::new();
        for prepared in records {
            self.write_row(all_terms, prepared, &mut edits);
        }
        apply_edits(&mut self.codes, edits);
    }

    /// Writes the members of a group and notes what has to change in the index of codes.
    fn write_row(&mut self, all_terms: &mut Vec<Terms>, prepared: Prepared, edits: &mut Edits<CodeKey>) {
        let row = match self.rows.place(prepared.id) {
            Place::Known(row) => row,
            Place::New(row) => {
                all_terms.push(Terms::default());
                row
            }
            Place::Refused => {
                tracing::error!(
                    record.id = prepared.id.0,
                    "a group came out of the order of creation; its members do not lead to it until the next start"
                );
                return;
            }
        };
        let Some(terms) = all_terms.get_mut(row as usize) else { return };
        note_edits(edits, row, &terms.codes, &prepared.terms.codes, |key| *key);
        for member in difference(&terms.members, &prepared.terms.members) {
            self.memberships.remove(&(*member, prepared.id));
        }
        for member in difference(&prepared.terms.members, &terms.members) {
            self.memberships.insert((*member, prepared.id), ());
        }
        *terms = prepared.terms;
    }
}
