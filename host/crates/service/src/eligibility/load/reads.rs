//! What was read of the register for one rule: which records, at which versions, and how many people.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::eligibility::evaluate::PEOPLE_MAX;
use crate::records;
use crate::visibility::Seen;
use daftar_domain::error::AppError;
use daftar_domain::group::Group;
use daftar_domain::identifier::Identifier;
use daftar_domain::individual::{Individual, IndividualDetails};
use daftar_domain::record::{RecordId, RecordKind, VersionId};

/// The most groups that one request looks through for households.
const GROUPS_MAX: usize = 20_000;

/// What was read of the register for one rule, each person once.
#[derive(Default)]
pub(in crate::eligibility) struct Reads {
    /// Every record read, by reference, with its version.
    pub versions: BTreeMap<String, VersionId>,
    pub(super) people: HashMap<RecordId, Seen<IndividualDetails>>,
    named: HashSet<(RecordKind, RecordId)>,
    /// The active households of people, up to two of each.
    pub(super) households: HashMap<RecordId, Vec<Arc<Group>>>,
    /// Whom the groups of a decision that is repeated name.
    pub(super) groups_then: Option<HashMap<RecordId, Vec<RecordId>>>,
    rows: usize,
    groups: usize,
}

impl Reads {
    /// Counts a person that the rule will see, as subject or as member, however often it is the same one.
    pub(super) fn count_row(&mut self) -> Result<(), AppError> {
        self.count_rows(1)
    }

    /// Counts people that the rule will see.
    pub(super) fn count_rows(&mut self, more: usize) -> Result<(), AppError> {
        self.rows += more;
        if self.rows <= PEOPLE_MAX { Ok(()) } else { Err(too_many()) }
    }

    /// Counts a group that was looked at to find a household.
    pub(super) fn count_group(&mut self) -> Result<(), AppError> {
        self.groups += 1;
        if self.groups <= GROUPS_MAX { Ok(()) } else { Err(too_many_groups()) }
    }

    pub(super) fn note_person(&mut self, stored: &Individual) {
        self.note(RecordKind::Individual, stored.id, &stored.details.identifiers, stored.meta.version);
    }

    pub(super) fn note_group(&mut self, stored: &Group) {
        self.note(RecordKind::Group, stored.id, &stored.details.identifiers, stored.meta.version);
    }

    /// Names a record by what it is called; by another of its identifiers where another record is called so.
    fn note(&mut self, kind: RecordKind, id: RecordId, identifiers: &[Identifier], version: VersionId) {
        if !self.named.insert((kind, id)) {
            return;
        }
        let free = names(kind, identifiers).into_iter().find(|name| !self.versions.contains_key(name));
        if let Some(name) = free {
            self.versions.insert(name, version);
        }
    }
}

fn too_many() -> AppError {
    let message =
        format!("subjects and members of their households are more than {PEOPLE_MAX} people; ask about fewer at once");
    AppError::invalid("subjects", "too_many", message)
}

fn too_many_groups() -> AppError {
    let message = format!("the people asked about belong to more than {GROUPS_MAX} groups; ask about fewer at once");
    AppError::invalid("subjects", "too_many", message)
}

/// The names of a record in a decision: what it is called first, then its other identifiers.
pub(super) fn names(kind: RecordKind, identifiers: &[Identifier]) -> Vec<String> {
    let called = records::called(identifiers).into_iter();
    let all = called.chain(identifiers.iter().map(|identifier| &identifier.key));
    all.map(|key| records::reference(kind, key)).collect()
}

/// The name of a membership without an identifier of its own: which it is of its beneficiary's, in the order of registration. The
/// program is left out, as the client may not be allowed to see it.
pub(super) fn numbered(number: usize, kind: RecordKind, beneficiary: &[Identifier]) -> String {
    let called = records::called(beneficiary).map(|key| records::reference(kind, key));
    format!("{} {number} of {}", RecordKind::ProgramMembership, called.unwrap_or_default())
}
