//! What is read of the records of some rows: fields that are no columns of the register, and memberships in programs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::facts::Facts;
use super::kept::{FieldKey, PART_ROWS, Picked};
use crate::eligibility::facts::MembershipFact;
use crate::eligibility::layout::{Bitmap, Row, add_columns, count};
use crate::eligibility::load::MEMBERSHIPS_MAX;
use crate::{program_membership, records, visibility};
use daftar_domain::calendar::utc_day;
use daftar_domain::change::Details;
use daftar_domain::eligibility::{Children, Column, Reference, RowSpace, Subject};
use daftar_domain::error::AppError;
use daftar_domain::field::FieldSet;
use daftar_domain::group::GroupRecord;
use daftar_domain::individual::IndividualRecord;
use daftar_domain::program_membership::ProgramMembership;
use daftar_domain::record::{Fields, Record, RecordId, RecordKind, VersionId};
use daftar_domain::search::Page;
use daftar_domain::search::terms::MembershipTerm;
use daftar_domain::subject::SubjectReference;

/// The most parts that a batch reads as a whole: members who live far apart in the register are read one by one.
const PARTS_READ_MAX: usize = 4;

/// A record with what the rule may see of it.
type SeenRecord<D> = (Arc<Record<D>>, FieldSet);

impl Facts {
    /// Adds what the rule reads in a space that is no column of the register, of some rows.
    pub(super) async fn add_of_records(
        &self,
        space: RowSpace,
        kind: Subject,
        rows: &[u32],
        columns: &mut Vec<Column>,
    ) -> Result<(), AppError> {
        let references = self.of_records(space);
        if references.is_empty() {
            return Ok(());
        }
        if let Some(layout) = self.keeps
            && self.add_of_kept(layout, (kind, rows), &references, columns).await?
        {
            return Ok(());
        }
        for column in self.read_each(kind, rows, &references).await?.into_iter().flatten() {
            if !columns.iter().any(|known| known.space == column.space && known.path == column.path) {
                columns.push(column);
            }
        }
        Ok(())
    }

    /// The same of what is cached, where not too much of it has to be read first; whether it was done.
    async fn add_of_kept(
        &self,
        layout: u64,
        (kind, rows): (Subject, &[u32]),
        references: &[&Reference],
        columns: &mut Vec<Column>,
    ) -> Result<bool, AppError> {
        let (kept, asking) = (&self.inquiry.previews.kept, self.inquiry.asking);
        let keys = references.iter().map(|reference| FieldKey::of(&self.inquiry.schema, reference, kind, layout));
        let Some(keys) = keys.collect::<Option<Vec<FieldKey>>>() else { return Ok(false) };
        let versions = |first| self.view.snapshot.versions_from(kind, first, PART_ROWS as usize);
        let firsts: BTreeSet<u32> = rows.iter().map(|row| row - row % PART_ROWS).collect();
        let find = |first| {
            let of_part = |key| kept.find(asking, key, first, versions(first));
            (first, keys.iter().map(of_part).collect::<Vec<_>>())
        };
        let mut parts: BTreeMap<u32, Vec<Option<Arc<[Column]>>>> = firsts.into_iter().map(find).collect();
        let is_unread = |fields: &Vec<Option<_>>| fields.iter().any(Option::is_none);
        if parts.is_empty() || parts.values().filter(|fields| is_unread(fields)).count() > PARTS_READ_MAX {
            return Ok(false);
        }
        for (first, fields) in parts.iter_mut().filter(|(_, fields)| is_unread(fields)) {
            let versions: Arc<[u32]> = versions(*first).into();
            let of_part: Vec<u32> = (*first..).take(versions.len()).collect();
            let unread = || fields.iter().zip(references).zip(&keys).filter(|((field, _), _)| field.is_none());
            let asked: Vec<&Reference> = unread().map(|((_, reference), _)| *reference).collect();
            let unread: Vec<&FieldKey> = unread().map(|(_, key)| key).collect();
            let read = self.read_each(kind, &of_part, &asked).await?;
            let keep = |(key, columns)| kept.keep(asking, key, *first, &versions, columns);
            let mut read = unread.into_iter().zip(read).map(keep);
            fields.iter_mut().filter(|field| field.is_none()).for_each(|field| *field = read.next());
        }
        for (at, reference) in references.iter().enumerate() {
            let part_of = |first: u32| parts.get(&first).and_then(|fields| fields.get(at)).and_then(Option::as_ref);
            let form = parts.keys().next().and_then(|first| part_of(*first));
            let mut picked = Picked::like(form.map(AsRef::as_ref).unwrap_or_default());
            for run in rows.chunk_by(|one, next| one.checked_add(1) == Some(*next) && next % PART_ROWS != 0) {
                let Some(row) = run.first() else { continue };
                let first = row - row % PART_ROWS;
                let slot = (row - first) as usize;
                let part = part_of(first).ok_or_else(|| AppError::internal("a part of a field was not read"))?;
                picked.add(part, slot..slot.saturating_add(run.len()))?;
            }
            picked.finish(reference.space, columns);
        }
        Ok(true)
    }

    /// The columns of each of some fields, read of the records.
    async fn read_each(
        &self,
        kind: Subject,
        rows: &[u32],
        references: &[&Reference],
    ) -> Result<Vec<Vec<Column>>, AppError> {
        match kind {
            Subject::Individual => self.read_each_of::<IndividualRecord>(kind, rows, references).await,
            Subject::Group => self.read_each_of::<GroupRecord>(kind, rows, references).await,
        }
    }

    async fn read_each_of<T>(
        &self,
        kind: Subject,
        rows: &[u32],
        references: &[&Reference],
    ) -> Result<Vec<Vec<Column>>, AppError>
    where
        Fields<T>: Details,
    {
        let read = self.records_at::<Fields<T>>(kind, rows).await?;
        let row = |row: &u32| read.get(row).map(|(record, fields)| Row::of(&record.details, None, fields));
        let rows: Option<Vec<Row<'_>>> = rows.iter().map(row).collect();
        let rows = rows.ok_or_else(|| AppError::internal("a record that the columns have is not there"))?;
        let columns = references.iter().map(|reference| {
            let mut columns = Vec::new();
            add_columns(&self.inquiry.schema, reference, &rows, &mut columns).map(|()| columns)
        });
        columns.collect()
    }

    /// The records of some rows that exist for the client, by row, as they were when the snapshot was taken.
    async fn records_at<D: Details>(
        &self,
        kind: Subject,
        rows: &[u32],
    ) -> Result<BTreeMap<u32, SeenRecord<D>>, AppError> {
        let id_at = |row: &u32| Some((self.view.snapshot.id_at(kind, *row)?, *row));
        let rows: BTreeMap<RecordId, u32> = rows.iter().filter_map(id_at).collect();
        let ids: Vec<RecordId> = rows.keys().copied().collect();
        let mut seen = BTreeMap::new();
        for present in self.inquiry.registry.store.find_all::<D>(&ids).await? {
            let Some(row) = rows.get(&present.id).copied() else { continue };
            let Some(fields) = self.seen(kind, present.id) else { continue };
            let then = self.view.snapshot.version_at(kind, row);
            seen.insert(row, (self.as_it_stood(present, then).await?, fields));
        }
        Ok(seen)
    }

    /// A record at the version that it had when the snapshot was taken.
    async fn as_it_stood<D: Details>(
        &self,
        present: Arc<Record<D>>,
        then: Option<VersionId>,
    ) -> Result<Arc<Record<D>>, AppError> {
        let Some(then) = then.filter(|then| *then != present.meta.version) else { return Ok(present) };
        let older = self.inquiry.registry.store.find_version::<D>(present.id, then).await?;
        older.ok_or_else(|| AppError::internal(format!("an older version of a {} is not there", D::KIND)))
    }

    /// What consents open of a record; nothing, where it is not there for the client.
    fn seen(&self, kind: Subject, id: RecordId) -> Option<FieldSet> {
        let ctx = &self.inquiry.ctx;
        let Some(filter) = &ctx.consent else { return Some(FieldSet::All) };
        let (resource, subject) = (kind.record_kind().resource(), SubjectReference { kind, id });
        let opened = self.view.snapshot.opened(resource, subject, filter, utc_day(ctx.now))?;
        Some(visibility::of_rules(ctx, kind.record_kind(), opened.fields))
    }

    /// Adds what the rule reads of the memberships of subjects in programs.
    pub(super) async fn add_programs(
        &self,
        subjects: &[u32],
        columns: &mut Vec<Column>,
    ) -> Result<Option<Children>, AppError> {
        if self.of_space(RowSpace::Programs).next().is_none() {
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
        for reference in self.of_records(RowSpace::Programs) {
            add_columns(&self.inquiry.schema, reference, &rows, columns)?;
        }
        Ok(Some(Children { offsets, known: known.finish() }))
    }

    /// The memberships of a subject in programs; not known where they are more than a rule looks at.
    async fn memberships(&self, row: u32) -> Result<Option<Vec<MembershipFact>>, AppError> {
        let (ctx, registry, kind) = (&self.inquiry.ctx, &self.inquiry.registry, self.kind());
        let Some(id) = self.view.snapshot.id_at(kind, row) else { return Ok(Some(Vec::new())) };
        let of_subject = [vec![MembershipTerm::Beneficiary(SubjectReference { kind, id })]];
        let found = self.view.snapshot.memberships(&of_subject, Page { offset: 0, count: MEMBERSHIPS_MAX });
        let mut facts = Vec::new();
        for id in &found.ids {
            let seen = visibility::of(ctx, registry, RecordKind::ProgramMembership, *id).await?;
            let Some(fields) = seen.filter(|seen| seen.allows("beneficiary")) else { continue };
            let present: Arc<ProgramMembership> = records::by_id(&*registry.store, *id).await?;
            let record = self.as_it_stood(present, self.view.snapshot.membership_version(*id)).await?;
            let view = program_membership::view(registry, record, fields).await?;
            facts.push(MembershipFact::from(&view));
        }
        let are_too_many = found.total > u64::from(MEMBERSHIPS_MAX) && !facts.is_empty();
        Ok((!are_too_many).then_some(facts))
    }
}
