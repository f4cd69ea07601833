//! Records that a write creates, as later operations of the same write name them: by keys that are not given yet.

use std::sync::Arc;

use super::Present;
use super::draft::Draft;
use crate::record::instant::as_stored;
use crate::{Operation, RecordDetails, StoreError};
use daftar_domain::code::CodedValue;
use daftar_domain::idempotency::{RememberedAnswer, RememberedRequest};
use daftar_domain::record::{Fields, RecordId, RecordKind, RecordType};
use daftar_domain::value::{CodePlace, Reference, Translate};

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

    fn details_settled(&self, details: RecordDetails) -> Result<RecordDetails, StoreError> {
        Ok(match details {
            RecordDetails::Individual(details) => RecordDetails::Individual(self.fields_settled(details)?),
            RecordDetails::Group(details) => RecordDetails::Group(self.fields_settled(details)?),
            RecordDetails::Program(details) => RecordDetails::Program(self.fields_settled(details)?),
            RecordDetails::ProgramMembership(details) => {
                RecordDetails::ProgramMembership(self.fields_settled(details)?)
            }
            RecordDetails::Consent(details) => RecordDetails::Consent(self.fields_settled(details)?),
        })
    }

    fn fields_settled<T: RecordType>(&self, fields: Fields<T>) -> Result<Fields<T>, StoreError> {
        let is_settled = fields.references().iter().all(|reference| reference.id.pending_number().is_none());
        if is_settled {
            return Ok(fields);
        }
        let mut settling = Settling { draft: self, refused: None };
        let fields = fields.translate(&mut settling);
        settling.refused.map_or(Ok(fields), Err)
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

/// Puts the keys of records that operations before it have created into what an operation refers to.
struct Settling<'s, 'd, 'p, P> {
    draft: &'s Draft<'d, 'p, P>,
    /// Why the first that cannot be settled cannot.
    refused: Option<StoreError>,
}

impl<P: Present> Translate<CodedValue, RecordId> for Settling<'_, '_, '_, P> {
    type Code = CodedValue;
    type Id = RecordId;

    fn code(&mut self, _: CodePlace<'_>, _: &str, code: CodedValue) -> CodedValue {
        code
    }

    fn reference(&mut self, _: &str, reference: Reference) -> Reference {
        match self.draft.key(reference.kind, reference.id) {
            Ok(id) => Reference { id, ..reference },
            Err(error) => {
                self.refused.get_or_insert(error);
                reference
            }
        }
    }
}
