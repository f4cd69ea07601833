//! The search index of programs, memberships and consents.
//!
//! Programs are few: the records themselves are cached. For the others only their search terms are.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::blobs::Blobs;
use super::checkpoint::stored_fields;
use super::column::Column;
use super::field_columns::FieldColumns;
use super::subjects::version_cell;
use super::terms::{Prepared as PreparedTerms, TermIndex};
use daftar_domain::change::ChangedRecord;
use daftar_domain::consent::Consent;
use daftar_domain::organization::Organization;
use daftar_domain::program::Program;
use daftar_domain::program_membership::{ProgramMembership, ProgramMembershipRecord};
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::search::{ConsentTerm, MembershipTerm};

/// Programs, memberships and consents, cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct About {
    pub(super) programs: Arc<BTreeMap<RecordId, Arc<Program>>>,
    pub(super) memberships: TermIndex<MembershipTerm>,
    pub(super) of_memberships: MembershipColumns,
    pub(super) consents: TermIndex<ConsentTerm>,
}

/// The sort columns of memberships.
#[derive(Debug, Clone, Default)]
pub(super) struct MembershipColumns {
    /// The fields that have columns.
    pub(super) fields: MembershipFields,
    /// In milliseconds since 1970-01-01.
    pub(super) last_updated: Column<i64>,
    /// The version of each record.
    pub(super) versions: Column<u32>,
}

/// The columns of the fields of memberships.
pub(super) type MembershipFields = FieldColumns<ProgramMembershipRecord>;

/// The terms of each row.
#[derive(Clone, Default)]
pub(super) struct Terms {
    pub(super) memberships: Blobs,
    pub(super) consents: Blobs,
}

/// Records decomposed into index entries.
#[derive(Default)]
pub(super) struct Prepared {
    programs: Vec<Arc<Program>>,
    memberships: Vec<PreparedTerms<MembershipTerm>>,
    membership_records: Vec<Arc<ProgramMembership>>,
    consents: Vec<PreparedTerms<ConsentTerm>>,
}

impl Prepared {
    /// Decomposes a record; ignores individuals and groups.
    pub(super) fn add(&mut self, record: &ChangedRecord) {
        match record {
            ChangedRecord::Program(program) => self.programs.push(Arc::clone(program)),
            ChangedRecord::ProgramMembership(membership) => {
                self.memberships.push((membership.id, terms_of_membership(membership)));
                self.membership_records.push(Arc::clone(membership));
            }
            ChangedRecord::Consent(consent) => self.consents.push((consent.id, terms_of_consent(consent))),
            ChangedRecord::Individual(_) | ChangedRecord::Group(_) => {}
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.programs.is_empty() && self.memberships.is_empty() && self.consents.is_empty()
    }
}

/// Returns the search terms of a membership.
pub(super) fn terms_of_membership(membership: &ProgramMembership) -> Vec<MembershipTerm> {
    let details = &membership.details;
    vec![
        MembershipTerm::Beneficiary(details.beneficiary()),
        MembershipTerm::Program(details.program()),
        MembershipTerm::Status(details.status()),
    ]
}

/// Returns the search terms of a consent.
pub(super) fn terms_of_consent(consent: &Consent) -> Vec<ConsentTerm> {
    let details = &consent.details;
    let grantee = Organization::parse(details.grantee()).ok().map(ConsentTerm::Grantee);
    [ConsentTerm::Subject(details.subject())].into_iter().chain(grantee).collect()
}

impl About {
    /// Writes records.
    pub(super) fn write(&mut self, terms: &mut Terms, records: Prepared) {
        if !records.programs.is_empty() {
            let programs = Arc::make_mut(&mut self.programs);
            programs.extend(records.programs.into_iter().map(|program| (program.id, program)));
        }
        self.memberships.write(RecordKind::ProgramMembership, &mut terms.memberships, records.memberships);
        for membership in records.membership_records {
            if let Some(row) = self.memberships.rows.find(membership.id) {
                self.of_memberships.set(row, &membership);
            }
        }
        self.consents.write(RecordKind::Consent, &mut terms.consents, records.consents);
    }
}

// Programs are few and read from the store.
stored_fields!(About { memberships, of_memberships, consents; programs });
stored_fields!(MembershipColumns { fields, last_updated, versions });
stored_fields!(Terms { memberships, consents });

impl MembershipColumns {
    fn set(&mut self, row: u32, membership: &ProgramMembership) {
        self.fields.set(row, &MembershipFields::values_of(&membership.details));
        self.last_updated.set(row, Some(membership.meta.last_updated.as_millisecond()));
        self.versions.set(row, Some(version_cell(membership.meta.version)));
    }
}
