//! The memberships of subjects in programs, read of the records.

use std::sync::Arc;

use super::super::super::facts::MembershipFact;
use super::super::super::layout::{Bitmap, Row, add_columns, count};
use super::super::super::load::MEMBERSHIPS_MAX;
use super::Facts;
use crate::program_membership;
use crate::{records, visibility};
use daftar_domain::eligibility::{Children, Column, RowSpace};
use daftar_domain::error::AppError;
use daftar_domain::program_membership::ProgramMembership;
use daftar_domain::record::RecordKind;
use daftar_domain::search::Page;
use daftar_domain::search::terms::MembershipTerm;
use daftar_domain::subject::SubjectReference;

impl Facts {
    pub(super) async fn add_programs(
        &self,
        subjects: &[u32],
        columns: &mut Vec<Column>,
    ) -> Result<Option<Children>, AppError> {
        let of_programs = || self.references.iter().filter(|reference| reference.space == RowSpace::Programs);
        if of_programs().next().is_none() {
            return Ok(None);
        }
        let (mut facts, mut offsets, mut known) = (Vec::new(), vec![0], Bitmap::default());
        for row in subjects {
            let found = self.memberships(*row).await?;
            known.push(found.is_some());
            facts.extend(found.into_iter().flatten());
            offsets.push(count(facts.len())?);
        }
        let rows: Vec<Row<'_>> = facts.iter().map(Row::Membership).collect();
        for reference in of_programs().filter(|reference| !reference.path.is_empty()) {
            add_columns(&self.schema, reference, &rows, columns)?;
        }
        Ok(Some(Children { offsets, known: known.finish() }))
    }

    /// The memberships of a subject in programs; not known where they are more than a rule looks at.
    async fn memberships(&self, row: u32) -> Result<Option<Vec<MembershipFact>>, AppError> {
        let Some(id) = self.snapshot.id_at(self.kind, row) else { return Ok(Some(Vec::new())) };
        let of_subject = [vec![MembershipTerm::Beneficiary(SubjectReference { kind: self.kind, id })]];
        let found = self.snapshot.memberships(&of_subject, Page { offset: 0, count: MEMBERSHIPS_MAX });
        let mut facts = Vec::new();
        for id in &found.ids {
            let seen = visibility::of(&self.ctx, &self.registry, RecordKind::ProgramMembership, *id).await?;
            let Some(fields) = seen.filter(|seen| seen.allows("beneficiary")) else { continue };
            let present: Arc<ProgramMembership> = records::by_id(&*self.registry.store, *id).await?;
            let then = self.snapshot.membership_version(*id);
            let record = self.as_it_stood(RecordKind::ProgramMembership, present, then).await?;
            let view = program_membership::view(&self.registry, record, fields).await?;
            facts.push(MembershipFact::from(&view));
        }
        let are_too_many = found.total > u64::from(MEMBERSHIPS_MAX) && !facts.is_empty();
        Ok((!are_too_many).then_some(facts))
    }
}
