//! The consent index: for an organization on a day, the individuals, groups and memberships covered by consents, and
//! their fields.
//!
//! Rows are grouped by class (organization, purpose, fields) and by range of days, so that a search unites one set of
//! rows for each class of the organization and each of the twenty ranges around the day, however many consents there
//! are.
//!
//! **Invariant:** a consent grants access only to data of its own subject: `individual` to the person's record, `group`
//! to the group's record, `program_membership` to the memberships of the person or group. Other resources in it grant
//! nothing.
//!
//! **Invariant:** a withdrawn consent leaves no entry, so a snapshot reflects the consents at its time.

mod limits_cache;
mod names;
#[cfg(any(test, feature = "testing"))]
mod testing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::bitmaps::Posting;
use super::checkpoint::{CheckpointWriter, Loading, Stored, stored_fields};
use super::codes::{Edit, Edits, apply_edits, count_entries, note_edits, sorted_once};
use super::rows::Rows;
use super::stored::Corrupt;
use super::terms::TermIndex;
use super::tree::SharedTree;
use daftar_domain::change::ChangedRecord;
use daftar_domain::consent::{self, Consent, ConsentDetails, ConsentId};
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::scope::Resource;
use daftar_domain::search::MembershipTerm;
use daftar_domain::subject::{Subject, SubjectReference};
use jiff::civil::Date;
use limits_cache::LimitsCache;
use names::{ANY_PURPOSE, Day, DayRange, Names};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The organization, purpose and fields of consents of one kind, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Class {
    organization: u32,
    purpose: u32,
    fields: u32,
}

/// An index term: the rows it covers have a consent of this class in this range of days.
type ConsentTerm = (Class, DayRange);

/// Rows by the terms that cover them.
type ConsentRows = SharedTree<ConsentTerm, Posting>;

/// A consent that was given and not withdrawn.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Given {
    #[serde(serialize_with = "put_id", deserialize_with = "take_id")]
    id: ConsentId,
    organization: u32,
    purpose: u32,
    fields: u32,
    first: Day,
    last: Option<Day>,
    /// True if it grants access to the subject's own record.
    opens_subject: bool,
    /// True if it grants access to the subject's program memberships.
    opens_memberships: bool,
}

impl Given {
    fn classes(&self) -> impl Iterator<Item = Class> {
        let class = |purpose| Class { organization: self.organization, purpose, fields: self.fields };
        let own = (self.purpose != ANY_PURPOSE).then(|| class(self.purpose));
        [class(ANY_PURPOSE)].into_iter().chain(own)
    }

    fn covers(&self) -> Vec<ConsentTerm> {
        let ranges = DayRange::of_period(self.first.0, self.last.map(|last| last.0));
        self.classes().flat_map(|class| ranges.iter().map(move |range| (class, *range))).collect()
    }

    fn holds_on(&self, day: Date) -> bool {
        self.first.0 <= day && self.last.is_none_or(|last| day <= last.0)
    }
}

/// The terms that cover a subject's own record and its memberships. Sorted, without duplicates.
struct SubjectConsents {
    own: Vec<ConsentTerm>,
    memberships: Vec<ConsentTerm>,
}

/// Consents by the subjects that they cover, cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct ConsentIndex {
    names: Names,
    /// Consents by subject.
    given: SharedTree<(SubjectReference, RecordId), Given>,
    /// Every class that ever occurred.
    classes: SharedTree<Class, ()>,
    individuals: ConsentRows,
    groups: ConsentRows,
    memberships: ConsentRows,
    /// The beneficiary of each membership.
    beneficiaries: SharedTree<RecordId, SubjectReference>,
    /// Query results since the last change.
    limits_cache: Arc<LimitsCache>,
}

/// Records decomposed into index entries.
#[derive(Default)]
pub(super) struct Prepared {
    consents: Vec<Arc<Consent>>,
    memberships: Vec<(RecordId, SubjectReference)>,
}

impl Prepared {
    /// Adds a consent or a membership; other records are ignored.
    pub(super) fn add(&mut self, record: &ChangedRecord) {
        match record {
            ChangedRecord::Consent(consent) => self.consents.push(Arc::clone(consent)),
            ChangedRecord::ProgramMembership(membership) => {
                self.memberships.push((membership.id, membership.details.beneficiary()));
            }
            ChangedRecord::Individual(_) | ChangedRecord::Group(_) | ChangedRecord::Program(_) => {}
        }
    }
}

/// The rows of the records.
pub(super) struct Places<'a> {
    pub(super) individuals: &'a Rows,
    pub(super) groups: &'a Rows,
    pub(super) memberships: &'a TermIndex<MembershipTerm>,
}

impl Places<'_> {
    fn row_of(&self, subject: SubjectReference) -> Option<u32> {
        match subject.kind {
            Subject::Individual => self.individuals.find(subject.id),
            Subject::Group => self.groups.find(subject.id),
        }
    }
}

/// The edits of the three indexes.
#[derive(Default)]
struct AllEdits {
    individuals: Edits<ConsentTerm>,
    groups: Edits<ConsentTerm>,
    memberships: Edits<ConsentTerm>,
}

impl AllEdits {
    fn of(&mut self, kind: Subject) -> &mut Edits<ConsentTerm> {
        match kind {
            Subject::Individual => &mut self.individuals,
            Subject::Group => &mut self.groups,
        }
    }

    fn is_empty(&self) -> bool {
        self.individuals.is_empty() && self.groups.is_empty() && self.memberships.is_empty()
    }
}

impl ConsentIndex {
    /// Writes consents and memberships. Their subjects and the memberships must have rows already.
    pub(super) fn write(&mut self, places: &Places<'_>, records: Prepared) {
        let mut edits = AllEdits::default();
        for consent in records.consents {
            self.write_consent(places, &consent, &mut edits);
        }
        for (id, beneficiary) in records.memberships {
            self.beneficiaries.insert(id, beneficiary);
            let Some(row) = places.memberships.rows.find(id) else { continue };
            let covers = self.covers_of(beneficiary).memberships;
            edits.memberships.extend(covers.into_iter().map(|cover| (cover, row, Edit::Set)));
        }
        if edits.is_empty() {
            return;
        }
        apply_edits(&mut self.individuals, edits.individuals);
        apply_edits(&mut self.groups, edits.groups);
        apply_edits(&mut self.memberships, edits.memberships);
        self.limits_cache = Arc::default();
    }

    fn write_consent(&mut self, places: &Places<'_>, consent: &Consent, edits: &mut AllEdits) {
        let subject = consent.details.subject();
        let before = self.covers_of(subject);
        let key = (subject, consent.id);
        if consent.details.is_withdrawn() {
            self.given.remove(&key);
        } else {
            let given = self.given(&consent.details);
            for class in given.classes() {
                self.classes.insert(class, ());
            }
            self.given.insert(key, given);
        }
        let after = self.covers_of(subject);
        if let Some(row) = places.row_of(subject) {
            note_edits(edits.of(subject.kind), row, &before.own, &after.own, |cover| *cover);
        }
        if before.memberships != after.memberships {
            for row in places.memberships.rows_with(&MembershipTerm::Beneficiary(subject)) {
                note_edits(&mut edits.memberships, row, &before.memberships, &after.memberships, |cover| *cover);
            }
        }
    }

    fn given(&mut self, details: &ConsentDetails) -> Given {
        let (opens_subject, opens_memberships) = opens(details);
        Given {
            id: details.id(),
            organization: self.names.number_organization(details.grantee()),
            purpose: purpose_of(details).map_or(ANY_PURPOSE, |purpose| self.names.number_purpose(purpose)),
            fields: self.names.number_fields(fields_of(details).as_deref()),
            first: Day(details.effective_date()),
            last: details.get(consent::EXPIRY_DATE).map(Day),
            opens_subject,
            opens_memberships,
        }
    }

    /// Returns the class of a consent; `None` if one of its names has no number.
    fn class_of_record(&self, details: &ConsentDetails) -> Option<Class> {
        let organization = self.names.organization(details.grantee())?;
        let purpose = purpose_of(details).map_or(Some(ANY_PURPOSE), |purpose| self.names.purpose(purpose))?;
        Some(Class { organization, purpose, fields: self.names.number_of_fields(fields_of(details).as_deref())? })
    }

    fn given_of(&self, subject: SubjectReference) -> impl Iterator<Item = &Given> {
        let from = self.given.from(&(subject, RecordId(0)));
        from.take_while(move |((of, _), _)| *of == subject).map(|(_, given)| given)
    }

    fn covers_of(&self, subject: SubjectReference) -> SubjectConsents {
        let covers = |opens: fn(&Given) -> bool| {
            sorted_once(self.given_of(subject).filter(|given| opens(given)).flat_map(Given::covers))
        };
        SubjectConsents {
            own: covers(|given| given.opens_subject),
            memberships: covers(|given| given.opens_memberships),
        }
    }

    /// Returns the rows of this kind by the terms that cover them.
    fn covers(&self, kind: RecordKind) -> Option<&ConsentRows> {
        match kind {
            RecordKind::Individual => Some(&self.individuals),
            RecordKind::Group => Some(&self.groups),
            RecordKind::ProgramMembership => Some(&self.memberships),
            RecordKind::Program | RecordKind::Consent => None,
        }
    }

    /// Counts the terms that cover each row of a segment.
    pub(super) fn count(&self, kind: RecordKind, segment: u16, counts: &mut [u32]) {
        if let Some(covers) = self.covers(kind) {
            count_entries(covers, segment, counts);
        }
    }

    /// Returns the expected number of terms of a record's row, from the consents of its subject; `None` if the row
    /// lacks one of them.
    pub(super) fn expected(&self, kind: RecordKind, subject: SubjectReference, row: u32) -> Option<usize> {
        let of_subject = self.covers_of(subject);
        let expected = if kind == RecordKind::ProgramMembership { of_subject.memberships } else { of_subject.own };
        let covers = self.covers(kind)?;
        let is_covered = |cover: &ConsentTerm| covers.get(cover).is_some_and(|posting| posting.contains(row));
        expected.iter().all(is_covered).then_some(expected.len())
    }

    /// Returns true if a consent is indexed as in its record.
    pub(super) fn knows(&self, consent: &Consent) -> bool {
        let details = &consent.details;
        let Some(given) = self.given.get(&(details.subject(), consent.id)) else { return details.is_withdrawn() };
        !details.is_withdrawn()
            && given.id == details.id()
            && given.classes().last() == self.class_of_record(details)
            && given.first == Day(details.effective_date())
            && given.last == details.get(consent::EXPIRY_DATE).map(Day)
            && (given.opens_subject, given.opens_memberships) == opens(details)
    }

    /// Returns the beneficiary of a membership.
    pub(super) fn beneficiary(&self, membership: RecordId) -> Option<SubjectReference> {
        self.beneficiaries.get(&membership).copied()
    }
}

/// Returns the purpose of a consent; `None` for any.
fn purpose_of(details: &ConsentDetails) -> Option<&str> {
    details.get(consent::PURPOSE).filter(|purpose| !purpose.trim().is_empty())
}

/// Returns the names of the fields of a consent; `None` for all.
fn fields_of(details: &ConsentDetails) -> Option<Vec<String>> {
    let names = details.items(consent::FIELD_NAMES).map(str::to_owned);
    details.has(consent::FIELD_NAMES).then(|| names.collect())
}

/// Returns whether a consent grants access to the subject's own record, and to its program memberships.
fn opens(details: &ConsentDetails) -> (bool, bool) {
    let own = own_resource(details.subject().kind);
    let has = |wanted: Resource| details.resources().any(|resource| resource == wanted);
    (has(own), has(Resource::ProgramMembership))
}

/// Returns the resource of a subject's own record.
fn own_resource(kind: Subject) -> Resource {
    match kind {
        Subject::Individual => Resource::Individual,
        Subject::Group => Resource::Group,
    }
}

/// Writes a consent's id as its bytes.
fn put_id<S: Serializer>(id: &ConsentId, to: S) -> Result<S::Ok, S::Error> {
    id.to_bytes().serialize(to)
}

/// Reads a consent's id.
fn take_id<'de, D: Deserializer<'de>>(from: D) -> Result<ConsentId, D::Error> {
    <[u8; 16]>::deserialize(from).map(ConsentId::from_bytes)
}

stored_fields!(ConsentIndex { names, given, classes, individuals, groups, memberships, beneficiaries; limits_cache });

impl Stored for Names {
    fn store(&self, checkpoint: &mut CheckpointWriter<'_>) -> io::Result<()> {
        checkpoint.one(&self.texts())
    }

    fn load(checkpoint: &mut Loading<'_>) -> Result<Self, Corrupt> {
        checkpoint.one().map(Self::of_texts)
    }
}

/// The names behind the numbers.
#[derive(Serialize, Deserialize)]
struct Texts {
    organizations: BTreeMap<u32, String>,
    purposes: BTreeMap<u32, String>,
    fields: BTreeMap<u32, Option<Vec<String>>>,
}
