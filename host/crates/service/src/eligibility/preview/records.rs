//! Data from the records of some rows: fields that are no columns of the register, and memberships in programs. Fields
//! are kept after they were read: a thousand neighbouring rows of one field at a time.
//!
//! Names, addresses, lists of codes and fields of modules would cost every register the memory of columns that most
//! never ask about. So they are read when a preview asks for them, and kept as long as there is room.
//!
//! **Invariant:** a part is used for rows of the layout that it was read of, and for exactly the versions of the records. So it never shows what a
//! snapshot does not, and nothing has to be done here when a record is written: the part does not fit any more, and the next preview reads it
//! again. Parts of a layout that no partition has any more are not asked for, so that they go first when there is no space.
//!
//! **Invariant:** the parts take no more memory than was said. Where there is no space, the field that was asked for longest ago goes, as a whole.
//! A preview never drives out what itself or a later one asks for: then what it reads is not kept. So a register that is too large for the
//! memory has as much of a field kept as there is room for, and not the parts that come round last.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::facts::Facts;
use crate::eligibility::facts::MembershipFact;
use crate::eligibility::layout::{Bitmap, Row, add_columns, bit, count};
use crate::eligibility::load::MEMBERSHIPS_MAX;
use crate::{program_membership, records, visibility};
use daftar_domain::calendar::utc_day;
use daftar_domain::change::Details;
use daftar_domain::eligibility::{Children, Column, ColumnValues, FieldType, Reference, RowSpace, Schema, Subject};
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
            && self.add_of_stored(layout, (kind, rows), &references, columns).await?
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
    async fn add_of_stored(
        &self,
        layout: u64,
        (kind, rows): (Subject, &[u32]),
        references: &[&Reference],
        columns: &mut Vec<Column>,
    ) -> Result<bool, AppError> {
        let (cached, asking) = (&self.inquiry.previews.cached, self.inquiry.asking);
        let keys = references.iter().map(|reference| FieldKey::of(&self.inquiry.schema, reference, kind, layout));
        let Some(keys) = keys.collect::<Option<Vec<FieldKey>>>() else { return Ok(false) };
        let versions = |first| self.view.snapshot.versions_from(kind, first, PART_ROWS as usize);
        let firsts: BTreeSet<u32> = rows.iter().map(|row| row - row % PART_ROWS).collect();
        let find = |first| {
            let of_part = |key| cached.find(asking, key, first, versions(first));
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
            let requested: Vec<&Reference> = unread().map(|((_, reference), _)| *reference).collect();
            let unread: Vec<&FieldKey> = unread().map(|(_, key)| key).collect();
            let read = self.read_each(kind, &of_part, &requested).await?;
            let keep = |(key, columns)| cached.keep(asking, key, *first, &versions, columns);
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

    /// Fields of a record that consents cover; none if the record is hidden from the client.
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

    /// The memberships of a subject in programs; not known where they are more than a rule checks.
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

/// The rows of one part: a quarter of a chunk of the register's columns, and no more records than a batch reads.
pub(super) const PART_ROWS: u32 = 1_024;

/// The cached content.
#[derive(Debug)]
pub(super) struct PreviewCache {
    bytes_max: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    fields: BTreeMap<FieldKey, CachedField>,
    /// Number of previews that have begun.
    begun: u64,
    usage: PreviewCacheUsage,
}

/// Figures of the metrics page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PreviewCacheUsage {
    /// Memory of the parts, in bytes.
    pub bytes: u64,
    /// Number of cache hits.
    pub found: u64,
    /// Number read from the records.
    pub read: u64,
    /// Number of evicted fields.
    pub dropped: u64,
}

/// A field of people or groups of a partition, with the form of its values: a module may change that of its fields.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FieldKey {
    /// Which records the rows of the partition are.
    layout: u64,
    kind: Subject,
    path: String,
    form: (FieldType, bool),
}

/// The parts of one field.
#[derive(Debug, Default)]
struct CachedField {
    /// The last preview that requested it.
    requested_by: Asking,
    bytes: u64,
    /// By first row.
    parts: BTreeMap<u32, Part>,
}

/// One field of some neighbouring rows.
#[derive(Debug, Clone)]
struct Part {
    versions: Arc<[u32]>,
    columns: Arc<[Column]>,
    bytes: u64,
}

/// A preview that reads fields; later ones are greater.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Asking(u64);

impl FieldKey {
    /// The field that a rule reads; none that the schema does not have.
    pub fn of(schema: &Schema, reference: &Reference, kind: Subject, layout: u64) -> Option<Self> {
        let field = schema.field(reference)?;
        Some(Self { layout, kind, path: field.path.clone(), form: (field.kind, field.is_repeated) })
    }
}

impl PreviewCache {
    /// Nothing yet, and never more than so many bytes.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, state: Mutex::default() }
    }

    /// Size of the cache and its figures.
    pub fn usage(&self) -> PreviewCacheUsage {
        self.lock().usage
    }

    /// A preview begins.
    pub fn begin(&self) -> Asking {
        let mut state = self.lock();
        state.begun = state.begun.saturating_add(1);
        Asking(state.begun)
    }

    /// A field of the rows from `first` on, where it was read of the records at these versions.
    pub fn find(&self, asking: Asking, key: &FieldKey, first: u32, versions: &[u32]) -> Option<Arc<[Column]>> {
        let mut state = self.lock();
        let cached = state.fields.get_mut(key)?;
        cached.requested_by = cached.requested_by.max(asking);
        let part = cached.parts.get(&first).filter(|part| *part.versions == *versions)?;
        let columns = Arc::clone(&part.columns);
        state.usage.found = state.usage.found.saturating_add(1);
        Some(columns)
    }

    /// Keeps a field of the rows from `first` on, read of the records at these versions, where there is room.
    pub fn keep(
        &self,
        asking: Asking,
        key: &FieldKey,
        first: u32,
        versions: &Arc<[u32]>,
        columns: Vec<Column>,
    ) -> Arc<[Column]> {
        let bytes = columns.iter().map(bytes_of).fold(size_of_val(&**versions) as u64, u64::saturating_add);
        let part = Part { versions: Arc::clone(versions), columns: columns.into(), bytes };
        let columns = Arc::clone(&part.columns);
        let mut state = self.lock();
        state.usage.read = state.usage.read.saturating_add(1);
        state.take_out(key, first);
        if state.make_space(asking, key, bytes, self.bytes_max) {
            state.put(asking, key, first, part);
        }
        columns
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change leaves it sound.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn put(&mut self, asking: Asking, key: &FieldKey, first: u32, part: Part) {
        self.usage.bytes = self.usage.bytes.saturating_add(part.bytes);
        let cached = self.fields.entry(key.clone()).or_default();
        cached.requested_by = cached.requested_by.max(asking);
        cached.bytes = cached.bytes.saturating_add(part.bytes);
        cached.parts.insert(first, part);
    }

    fn take_out(&mut self, key: &FieldKey, first: u32) {
        let Some(cached) = self.fields.get_mut(key) else { return };
        let Some(part) = cached.parts.remove(&first) else { return };
        cached.bytes = cached.bytes.saturating_sub(part.bytes);
        self.usage.bytes = self.usage.bytes.saturating_sub(part.bytes);
    }

    /// Evicts fields that earlier previews requested until so many bytes more fit; returns true if they fit then.
    fn make_space(&mut self, asking: Asking, of: &FieldKey, bytes: u64, bytes_max: u64) -> bool {
        while self.usage.bytes.saturating_add(bytes) > bytes_max {
            let others = self.fields.iter().filter(|(key, cached)| *key != of && cached.requested_by < asking);
            let Some(longest_ago) = others.min_by_key(|(_, cached)| cached.requested_by).map(|(key, _)| key.clone())
            else {
                return false;
            };
            let dropped = self.fields.remove(&longest_ago).unwrap_or_default();
            self.usage.bytes = self.usage.bytes.saturating_sub(dropped.bytes);
            self.usage.dropped = self.usage.dropped.saturating_add(1);
        }
        true
    }
}

/// Memory of a column.
fn bytes_of(column: &Column) -> u64 {
    let values = match &column.values {
        ColumnValues::Booleans(values) => values.capacity(),
        ColumnValues::Integers(values) => values.capacity().saturating_mul(size_of::<i64>()),
        ColumnValues::Numbers(values) => values.capacity().saturating_mul(size_of::<f64>()),
        ColumnValues::Days(values) => values.capacity().saturating_mul(size_of::<i32>()),
        ColumnValues::Codes(values) | ColumnValues::Lists(values) => values.capacity().saturating_mul(size_of::<u32>()),
        ColumnValues::Texts { offsets, bytes } => {
            offsets.capacity().saturating_mul(size_of::<u32>()).saturating_add(bytes.capacity())
        }
    };
    let all = values
        .saturating_add(column.valid.capacity())
        .saturating_add(column.path.len())
        .saturating_add(size_of::<Column>());
    u64::try_from(all).unwrap_or(u64::MAX)
}

/// The columns of one field: its values, or lists and then the values of their items.
pub(super) struct Picked(Vec<Growing>);

/// A column that grows.
struct Growing {
    path: String,
    valid: Bitmap,
    values: ColumnValues,
}

impl Picked {
    /// No rows yet of a field whose parts have these columns.
    pub fn like(columns: &[Column]) -> Self {
        let empty = columns.iter().map(|column| Growing {
            path: column.path.clone(),
            valid: Bitmap::default(),
            values: empty(&column.values),
        });
        Self(empty.collect())
    }

    /// Adds neighbouring rows of a part.
    ///
    /// # Errors
    /// If the part is of another form, which cannot be.
    pub fn add(&mut self, part: &[Column], rows: Range<usize>) -> Result<(), AppError> {
        let mut rows = rows;
        for (to, from) in self.0.iter_mut().zip(part) {
            for row in rows.clone() {
                to.valid.push(bit(&from.valid, row));
            }
            append(&mut to.values, &from.values, rows.clone())?;
            // A column of lists is followed by the column of their items.
            if let ColumnValues::Lists(offsets) = &from.values {
                rows = between(offsets, &rows)?;
            }
        }
        Ok(())
    }

    /// The columns, but for those that are there already.
    pub fn finish(self, space: RowSpace, columns: &mut Vec<Column>) {
        for Growing { path, valid, values } in self.0 {
            if !columns.iter().any(|known| known.space == space && known.path == path) {
                columns.push(Column { space, path, valid: valid.finish(), values });
            }
        }
    }
}

fn empty(like: &ColumnValues) -> ColumnValues {
    match like {
        ColumnValues::Booleans(_) => ColumnValues::Booleans(Vec::new()),
        ColumnValues::Integers(_) => ColumnValues::Integers(Vec::new()),
        ColumnValues::Numbers(_) => ColumnValues::Numbers(Vec::new()),
        ColumnValues::Days(_) => ColumnValues::Days(Vec::new()),
        ColumnValues::Codes(_) => ColumnValues::Codes(Vec::new()),
        ColumnValues::Texts { .. } => ColumnValues::Texts { offsets: vec![0], bytes: Vec::new() },
        ColumnValues::Lists(_) => ColumnValues::Lists(vec![0]),
    }
}

fn append(to: &mut ColumnValues, from: &ColumnValues, rows: Range<usize>) -> Result<(), AppError> {
    use ColumnValues as Of;
    match (to, from) {
        (Of::Booleans(to), Of::Booleans(from)) => to.extend_from_slice(some(from, rows)?),
        (Of::Integers(to), Of::Integers(from)) => to.extend_from_slice(some(from, rows)?),
        (Of::Numbers(to), Of::Numbers(from)) => to.extend_from_slice(some(from, rows)?),
        (Of::Days(to), Of::Days(from)) => to.extend_from_slice(some(from, rows)?),
        (Of::Codes(to), Of::Codes(from)) => to.extend_from_slice(some(from, rows)?),
        (Of::Texts { offsets, bytes }, Of::Texts { offsets: from_offsets, bytes: from_bytes }) => {
            bytes.extend_from_slice(some(from_bytes, between(from_offsets, &rows)?)?);
            append_offsets(offsets, from_offsets, &rows)?;
        }
        (Of::Lists(to), Of::Lists(from)) => append_offsets(to, from, &rows)?,
        (_, _) => return Err(AppError::internal("parts of a field have several forms")),
    }
    Ok(())
}

fn append_offsets(to: &mut Vec<u32>, from: &[u32], rows: &Range<usize>) -> Result<(), AppError> {
    let begin = count(between(from, rows)?.start)?;
    let base = to.last().copied().unwrap_or_default();
    let ends = some(from, rows.start.saturating_add(1)..rows.end.saturating_add(1))?;
    to.extend(ends.iter().map(|end| base.saturating_add(end.saturating_sub(begin))));
    Ok(())
}

/// Range from the start of the first row to the end of the last.
fn between(offsets: &[u32], rows: &Range<usize>) -> Result<Range<usize>, AppError> {
    let ends = offsets.get(rows.start).zip(offsets.get(rows.end));
    ends.map(|(start, end)| *start as usize..*end as usize).ok_or_else(too_short)
}

fn some<T>(values: &[T], range: Range<usize>) -> Result<&[T], AppError> {
    values.get(range).ok_or_else(too_short)
}

fn too_short() -> AppError {
    AppError::internal("a part of a field is shorter than its rows")
}

#[cfg(test)]
mod tests;
