//! Records that a write creates, as later operations of the same write name them: by keys that are not given yet.

use std::sync::Arc;

use super::Present;
use super::draft::Draft;
use crate::record::instant::as_stored;
use crate::{Operation, RecordDetails, StoreError};
use daftar_domain::consent::ConsentDetails;
use daftar_domain::group::{GroupDetails, Member, Relationship};
use daftar_domain::idempotency::{RememberedAnswer, RememberedRequest};
use daftar_domain::program_membership::ProgramMembershipDetails;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::subject::SubjectReference;

impl<P: Present> Draft<'_, '_, P> {
    /// The operation with the keys of the records that operations before it have created.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] where no operation before it has created the record.
    pub fn settle(&self, operation: Operation) -> Result<Operation, StoreError> {
        Ok(match operation {
            Operation::Create(details) => Operation::Create(self.details_settled(details)?),
            Operation::Update(id, version, details) => {
                let details = self.details_settled(details)?;
                Operation::Update(self.key(details.kind(), id)?, version, details)
            }
            Operation::CreateClient(_)
            | Operation::UpdateClient(..)
            | Operation::PutPhoto(_)
            | Operation::PutSetting(_)
            | Operation::RemoveSetting(_)
            | Operation::NumberCodes(_) => operation,
        })
    }

    /// Remembers the request, under the keys that its records were given.
    ///
    /// # Errors
    /// [`StoreError::AlreadyDone`] when one of that name is remembered still.
    pub fn remember(&mut self, request: RememberedRequest) -> Result<(), StoreError> {
        let request = RememberedRequest { at: as_stored(request.at), ..request };
        if self.remembered(&request.name)?.is_some_and(|earlier| earlier.is_kept_at(request.at)) {
            return Err(StoreError::AlreadyDone);
        }
        let settled = |answer: RememberedAnswer| {
            let given = |(kind, id, version)| Ok::<_, StoreError>((kind, self.key(kind, id)?, version));
            Ok(RememberedAnswer { record: answer.record.map(given).transpose()?, ..answer })
        };
        let answers: Result<Vec<_>, StoreError> = request.answers.into_iter().map(settled).collect();
        let request = RememberedRequest { answers: answers?, ..request };
        self.outcome.remembered.insert(request.name.clone(), Arc::new(request));
        Ok(())
    }

    fn group_settled(&self, details: GroupDetails) -> Result<GroupDetails, StoreError> {
        let member = |member: Member| {
            let individual = self.key(RecordKind::Individual, member.individual)?;
            Ok(Member { individual, ..member })
        };
        let relationship = |relationship: Relationship| {
            let target = self.key(RecordKind::Group, relationship.target)?;
            Ok(Relationship { target, ..relationship })
        };
        Ok(GroupDetails {
            members: all(details.members, member)?,
            relationships: all(details.relationships, relationship)?,
            ..details
        })
    }

    fn details_settled(&self, details: RecordDetails) -> Result<RecordDetails, StoreError> {
        Ok(match details {
            RecordDetails::Group(details) => RecordDetails::Group(self.group_settled(details)?),
            RecordDetails::ProgramMembership(details) => {
                let program = self.key(RecordKind::Program, details.program)?;
                let beneficiary = self.subject(details.beneficiary)?;
                RecordDetails::ProgramMembership(ProgramMembershipDetails { program, beneficiary, ..details })
            }
            RecordDetails::Consent(details) => {
                RecordDetails::Consent(ConsentDetails { subject: self.subject(details.subject)?, ..details })
            }
            RecordDetails::Individual(_) | RecordDetails::Program(_) => details,
        })
    }

    fn subject(&self, subject: SubjectReference) -> Result<SubjectReference, StoreError> {
        Ok(SubjectReference { id: self.key(subject.kind.record_kind(), subject.id)?, ..subject })
    }

    fn key(&self, kind: RecordKind, id: RecordId) -> Result<RecordId, StoreError> {
        let Some(number) = id.pending_number() else { return Ok(id) };
        let origin = self.planner.origin.unwrap_or(self.planner.last);
        let given = origin.key(kind).saturating_add(number);
        if number == 0 || given > self.last.key(kind) {
            return Err(StoreError::NotFound(kind));
        }
        Ok(RecordId(given))
    }
}

fn all<T>(list: Option<Vec<T>>, settled: impl Fn(T) -> Result<T, StoreError>) -> Result<Option<Vec<T>>, StoreError> {
    list.map(|list| list.into_iter().map(settled).collect()).transpose()
}
