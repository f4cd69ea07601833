//! What was read of the register for one rule: which records, at which versions, and how many people.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::domain::group::Group;
use crate::domain::identifier::Identifier;
use crate::domain::individual::{Individual, IndividualDetails};
use crate::domain::record::{RecordId, RecordKind, VersionId};
use crate::error::AppError;
use crate::service::eligibility::evaluate::PEOPLE_MAX;
use crate::service::program_membership::MembershipView;
use crate::service::records;
use crate::service::visibility::Seen;

/// What was read of the register for one rule, each person once.
#[derive(Default)]
pub(in crate::service::eligibility) struct Reads {
    /// Every record read, by reference, with its version.
    pub versions: BTreeMap<String, VersionId>,
    pub(super) people: HashMap<RecordId, Seen<IndividualDetails>>,
    named: HashSet<(RecordKind, RecordId)>,
    rows: usize,
}

impl Reads {
    /// Whether more people were counted than one request may look at.
    pub(super) fn are_too_many(&self) -> bool {
        self.rows > PEOPLE_MAX
    }

    /// Counts a person that the rule will see, as subject or as member, however often it is the same one.
    pub(super) fn count_row(&mut self) -> Result<(), AppError> {
        self.count_rows(1)
    }

    /// Counts people that the rule will see.
    pub(super) fn count_rows(&mut self, more: usize) -> Result<(), AppError> {
        self.rows += more;
        if self.rows <= PEOPLE_MAX { Ok(()) } else { Err(too_many()) }
    }

    pub(super) fn note_person(&mut self, stored: &Individual) {
        self.note(RecordKind::Individual, stored.id, &stored.details.identifiers, stored.meta.version);
    }

    /// A membership without an identifier of its own is named by beneficiary and program; of several such, the newest counts.
    pub(super) fn note_membership(&mut self, view: &MembershipView) {
        let membership = &view.membership;
        let reference = match records::called(&membership.details.identifiers) {
            Some(own) => records::reference(RecordKind::ProgramMembership, own),
            None => format!("ProgramMembership of {} in {}", view.beneficiary, view.program),
        };
        self.versions.insert(reference, membership.meta.version);
    }

    pub(super) fn note_group(&mut self, stored: &Group) {
        self.note(RecordKind::Group, stored.id, &stored.details.identifiers, stored.meta.version);
    }

    /// Names a record by what it is called; by another of its identifiers where another record is called so.
    fn note(&mut self, kind: RecordKind, id: RecordId, identifiers: &[Identifier], version: VersionId) {
        if !self.named.insert((kind, id)) {
            return;
        }
        let called = records::called(identifiers).into_iter();
        let names = called.chain(identifiers.iter().map(|identifier| &identifier.key));
        let free = names.map(|key| records::reference(kind, key)).find(|name| !self.versions.contains_key(name));
        if let Some(name) = free {
            self.versions.insert(name, version);
        }
    }
}

pub(super) fn too_many() -> AppError {
    let message =
        format!("subjects and members of their households are more than {PEOPLE_MAX} people; ask about fewer at once");
    AppError::invalid("subjects", "too_many", message)
}
