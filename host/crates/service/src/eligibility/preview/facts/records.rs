//! What is read of the records of some rows: fields that are no columns of the register.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::super::layout::{Row, add_columns};
use super::super::kept::{Asking, FieldKey, KeptColumns, PART_ROWS, Picked};
use super::Facts;
use crate::visibility;
use daftar_domain::calendar::utc_day;
use daftar_domain::change::Details;
use daftar_domain::eligibility::{Column, Reference, Subject};
use daftar_domain::error::AppError;
use daftar_domain::field::FieldSet;
use daftar_domain::group::{Group, GroupDetails};
use daftar_domain::individual::{Individual, IndividualDetails};
use daftar_domain::record::{Record, RecordId, RecordKind, VersionId};
use daftar_domain::subject::SubjectReference;

/// The most parts that a batch reads as a whole: members who live far apart in the register are read one by one.
const PARTS_READ_MAX: usize = 4;

/// Where what is read of records is kept for the next who asks.
pub(in super::super) struct Keeping {
    pub columns: Arc<KeptColumns>,
    pub asking: Asking,
}

/// A record with what the rule may see of it.
type SeenRecord<D> = (Arc<Record<D>>, FieldSet);

impl Facts {
    /// Adds fields that are no columns of the register, of some rows.
    pub(super) async fn add_of_records(
        &self,
        kind: Subject,
        rows: &[u32],
        references: &[&Reference],
        columns: &mut Vec<Column>,
    ) -> Result<(), AppError> {
        if references.is_empty() {
            return Ok(());
        }
        if let Some(keeping) = &self.keeping
            && self.add_of_kept(keeping, (kind, rows), references, columns).await?
        {
            return Ok(());
        }
        for column in self.read_each(kind, rows, references).await?.into_iter().flatten() {
            if !columns.iter().any(|known| known.space == column.space && known.path == column.path) {
                columns.push(column);
            }
        }
        Ok(())
    }

    /// The same of what is kept, where not too much of it has to be read first; whether it was done.
    async fn add_of_kept(
        &self,
        keeping: &Keeping,
        (kind, rows): (Subject, &[u32]),
        references: &[&Reference],
        columns: &mut Vec<Column>,
    ) -> Result<bool, AppError> {
        let keys = references.iter().map(|reference| FieldKey::of(&self.schema, reference, kind));
        let Some(keys) = keys.collect::<Option<Vec<FieldKey>>>() else { return Ok(false) };
        let versions = |first| self.snapshot.versions_from(kind, first, PART_ROWS as usize);
        let firsts: BTreeSet<u32> = rows.iter().map(|row| row - row % PART_ROWS).collect();
        let find = |first| {
            let of_part = |key| keeping.columns.find(keeping.asking, key, first, versions(first));
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
            let keep = |(key, columns)| keeping.columns.keep(keeping.asking, key, *first, &versions, columns);
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
        let each = |rows: &[Row<'_>]| {
            let columns = references.iter().map(|reference| {
                let mut columns = Vec::new();
                add_columns(&self.schema, reference, rows, &mut columns).map(|()| columns)
            });
            columns.collect()
        };
        match kind {
            Subject::Individual => {
                let people = self.individuals(rows).await?;
                each(&rows_of(rows, &people, |(record, fields)| Row::of(&record.details, None, fields))?)
            }
            Subject::Group => {
                let groups = self.group_records(rows).await?;
                each(&rows_of(rows, &groups, |(record, fields)| Row::of(&record.details, None, fields))?)
            }
        }
    }

    /// The people of some rows, by row.
    async fn individuals(&self, rows: &[u32]) -> Result<BTreeMap<u32, SeenRecord<IndividualDetails>>, AppError> {
        let rows = self.ids(Subject::Individual, rows);
        let ids: Vec<RecordId> = rows.keys().copied().collect();
        let mut seen = BTreeMap::new();
        for present in self.registry.store.find_all::<IndividualDetails>(&ids).await? {
            let Some(row) = rows.get(&present.id).copied() else { continue };
            let Some(fields) = self.seen(Subject::Individual, present.id) else { continue };
            let then = self.snapshot.version_at(Subject::Individual, row);
            let record: Arc<Individual> = self.as_it_stood(RecordKind::Individual, present, then).await?;
            seen.insert(row, (record, fields));
        }
        Ok(seen)
    }

    /// The groups of some rows, by row.
    async fn group_records(&self, rows: &[u32]) -> Result<BTreeMap<u32, SeenRecord<GroupDetails>>, AppError> {
        let mut seen = BTreeMap::new();
        for (id, row) in self.ids(Subject::Group, rows) {
            let Some(fields) = self.seen(Subject::Group, id) else { continue };
            let Some(present) = self.registry.store.find::<GroupDetails>(id).await? else { continue };
            let then = self.snapshot.version_at(Subject::Group, row);
            let record: Arc<Group> = self.as_it_stood(RecordKind::Group, present, then).await?;
            seen.insert(row, (record, fields));
        }
        Ok(seen)
    }

    fn ids(&self, kind: Subject, rows: &[u32]) -> BTreeMap<RecordId, u32> {
        rows.iter().filter_map(|row| Some((self.snapshot.id_at(kind, *row)?, *row))).collect()
    }

    /// A record at the version at which it stood when the snapshot was taken.
    pub(super) async fn as_it_stood<D: Details>(
        &self,
        kind: RecordKind,
        present: Arc<Record<D>>,
        then: Option<VersionId>,
    ) -> Result<Arc<Record<D>>, AppError> {
        let Some(then) = then.filter(|then| *then != present.meta.version) else { return Ok(present) };
        let older = self.registry.store.record_version(kind, present.id, then).await?.and_then(D::of);
        older.ok_or_else(|| AppError::internal(format!("an older version of a {kind} is not there")))
    }

    /// What consents open of a record; nothing, where it is not there for the client.
    fn seen(&self, kind: Subject, id: RecordId) -> Option<FieldSet> {
        let Some(filter) = &self.ctx.consent else { return Some(FieldSet::All) };
        let subject = SubjectReference { kind, id };
        let day = utc_day(self.ctx.now);
        let opened = self.snapshot.opened(kind.record_kind().resource(), subject, filter, day)?;
        Some(visibility::of_rules(&self.ctx, kind.record_kind(), opened.fields))
    }
}

/// One row of a space for each of some rows, from what was read of them.
fn rows_of<'r, D>(
    rows: &[u32],
    read: &'r BTreeMap<u32, SeenRecord<D>>,
    row: impl Fn(&'r SeenRecord<D>) -> Row<'r>,
) -> Result<Vec<Row<'r>>, AppError> {
    let found = rows.iter().map(|at| read.get(at).map(&row));
    let found: Option<Vec<Row<'r>>> = found.collect();
    found.ok_or_else(|| AppError::internal("a record that the columns have is not there"))
}
