//! Reads data from the records of some rows: fields that are not columns of the register, and memberships in programs.
//! The fields are cached per segment of 1,024 neighbouring rows of one field.
//!
//! Columns for names, addresses, lists of codes and fields of modules would use memory in every register, and most
//! registers never query them. A preview therefore reads these fields on request, and the cache retains them while it
//! has free space.
//!
//! **Invariant:** a cached segment is used only for rows of the layout from which it was read, and only if the versions
//! of all its records are equal. The cache therefore never returns a value that the snapshot does not have, and a write
//! requires no invalidation: the versions of the segment no longer match, and the next preview reads it again. Segments
//! of a layout that no partition has any more are not requested, so they are evicted first.
//!
//! **Invariant:** the segments use at most the configured amount of memory. If there is no free space, the least
//! recently requested field is evicted with all its segments. A preview never evicts a field that itself or a later
//! preview requested; in that case the data that it reads is not cached. If a field of a large register exceeds the
//! capacity, the segments that fit therefore stay cached and are not replaced by later ones.

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
use daftar_domain::field::{FieldName, FieldSet, field_of_path};
use daftar_domain::group::GroupRecord;
use daftar_domain::individual::IndividualRecord;
use daftar_domain::program_membership::ProgramMembership;
use daftar_domain::record::{Fields, Record, RecordId, RecordKind, VersionId};
use daftar_domain::search::{MembershipTerm, Page};
use daftar_domain::subject::SubjectReference;

/// Maximum number of uncached segments that a batch reads completely. If the members are spread over more segments, the
/// batch reads their records individually.
const PARTS_READ_MAX: usize = 4;

/// A record with the fields that the rule may read.
type SeenRecord<D> = (Arc<Record<D>>, FieldSet);

impl Facts {
    /// Adds the fields of a space that are not columns of the register, for some rows.
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

    /// Returns true if the cache contains as many segments of each field of the subjects that is not a column as the
    /// subjects have, and the rule reads no other records. Some of them may be outdated.
    pub(super) fn are_cached(&self, subjects: u64) -> bool {
        let Some(layout) = self.keeps else { return false };
        let of_others = [RowSpace::Members, RowSpace::Programs];
        if of_others.iter().any(|space| !self.of_records(*space).is_empty()) {
            return false;
        }
        let (schema, cached) = (&self.inquiry.schema, &self.inquiry.previews.cached);
        let is_cached = |reference: &&Reference| {
            let key = FieldKey::of(schema, reference, self.kind(), layout);
            key.is_some_and(|key| cached.segments(&key).saturating_mul(u64::from(PART_ROWS)) >= subjects)
        };
        self.of_space(RowSpace::Programs).next().is_none() && self.of_records(RowSpace::Me).iter().all(is_cached)
    }

    /// Adds the fields from the cache. Returns false without adding a column if a field cannot be cached or more than
    /// [`PARTS_READ_MAX`] segments are uncached.
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

    /// Reads the columns of each of some fields from the records.
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
        let read = self.records_at::<Fields<T>>(kind, rows, &required_fields(kind, references)).await?;
        let row = |row: &u32| read.get(row).map(|(record, fields)| Row::of(&record.details, None, fields));
        let rows: Option<Vec<Row<'_>>> = rows.iter().map(row).collect();
        let rows = rows.ok_or_else(|| AppError::internal("a record that the columns have is not there"))?;
        let columns = references.iter().map(|reference| {
            let mut columns = Vec::new();
            add_columns(&self.inquiry.schema, reference, &rows, &mut columns).map(|()| columns)
        });
        columns.collect()
    }

    /// Returns the records of some rows that exist for the client, by row, at the versions of the snapshot. Other
    /// fields of theirs may be absent.
    async fn records_at<D: Details>(
        &self,
        kind: Subject,
        rows: &[u32],
        required: &FieldSet,
    ) -> Result<BTreeMap<u32, SeenRecord<D>>, AppError> {
        let id_at = |row: &u32| Some((self.view.snapshot.id_at(kind, *row)?, *row));
        let rows: BTreeMap<RecordId, u32> = rows.iter().filter_map(id_at).collect();
        let ids: Vec<RecordId> = rows.keys().copied().collect();
        let mut seen = BTreeMap::new();
        for present in self.inquiry.registry.store.find_fields::<D>(&ids, required).await? {
            let Some(row) = rows.get(&present.id).copied() else { continue };
            let Some(fields) = self.seen(kind, present.id) else { continue };
            let then = self.view.snapshot.version_at(kind, row);
            seen.insert(row, (self.as_it_stood(present, then).await?, fields));
        }
        Ok(seen)
    }

    /// Returns a record at its version in the snapshot.
    async fn as_it_stood<D: Details>(
        &self,
        present: Arc<Record<D>>,
        then: Option<VersionId>,
    ) -> Result<Arc<Record<D>>, AppError> {
        let Some(then) = then.filter(|then| *then != present.meta.version) else { return Ok(present) };
        let older = self.inquiry.registry.store.find_version::<D>(present.id, then).await?;
        older.ok_or_else(|| AppError::internal(format!("an older version of a {} is not there", D::KIND)))
    }

    /// Returns the fields of a record that consents cover, or `None` if the record is hidden from the client.
    fn seen(&self, kind: Subject, id: RecordId) -> Option<FieldSet> {
        let ctx = &self.inquiry.ctx;
        let Some(filter) = &ctx.consent else { return Some(FieldSet::All) };
        let (resource, subject) = (kind.record_kind().resource(), SubjectReference { kind, id });
        let opened = self.view.snapshot.opened(resource, subject, filter, utc_day(ctx.now))?;
        Some(visibility::of_rules(ctx, kind.record_kind(), opened.fields))
    }

    /// Adds the fields of the memberships of subjects in programs that the rule reads.
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

    /// Returns the memberships of a subject in programs, or `None` if there are more than [`MEMBERSHIPS_MAX`] and at
    /// least one is visible.
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

/// Returns the fields of records that these references name.
fn required_fields(kind: Subject, references: &[&Reference]) -> FieldSet {
    let resource = kind.record_kind().resource();
    let names = references.iter().map(|reference| FieldName::parse(resource, field_of_path(&reference.path)));
    // The checker knows every field of a rule; if it did not, the complete records would be read.
    names.collect::<Result<Vec<_>, _>>().map_or(FieldSet::All, FieldSet::only)
}

/// Number of rows of one segment: a quarter of a chunk of the register's columns, and at most as many records as a
/// batch reads.
pub(super) const PART_ROWS: u32 = 1_024;

/// Cache of fields that previews read from records.
#[derive(Debug)]
pub(super) struct PreviewCache {
    bytes_max: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    fields: BTreeMap<FieldKey, CachedField>,
    /// Number of started previews.
    begun: u64,
    usage: PreviewCacheUsage,
}

/// Usage of the cache, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PreviewCacheUsage {
    /// Memory of the segments, in bytes.
    pub bytes: u64,
    /// Number of cache hits.
    pub found: u64,
    /// Number of segments read from the records.
    pub read: u64,
    /// Number of evicted fields.
    pub dropped: u64,
}

/// Key of a field of individuals or groups of a partition. It includes the type of the values, since a module may
/// change the type of its fields.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FieldKey {
    /// Layout number of the partition: it identifies the record of each row.
    layout: u64,
    kind: Subject,
    path: String,
    form: (FieldType, bool),
}

/// The cached segments of one field.
#[derive(Debug, Default)]
struct CachedField {
    /// The latest preview that requested the field.
    requested_by: Asking,
    bytes: u64,
    /// Segments by first row.
    parts: BTreeMap<u32, Part>,
}

/// The columns of one field for a segment of neighbouring rows.
#[derive(Debug, Clone)]
struct Part {
    versions: Arc<[u32]>,
    columns: Arc<[Column]>,
    bytes: u64,
}

/// Sequence number of a preview that reads fields; later previews have greater numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Asking(u64);

impl FieldKey {
    /// Returns the key of the field that a rule reads, or `None` if the schema does not have the field.
    pub fn of(schema: &Schema, reference: &Reference, kind: Subject, layout: u64) -> Option<Self> {
        let field = schema.field(reference)?;
        Some(Self { layout, kind, path: field.path.clone(), form: (field.kind, field.is_repeated) })
    }
}

impl PreviewCache {
    /// Creates an empty cache of up to `bytes_max` bytes.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, state: Mutex::default() }
    }

    /// Returns the size of the cache and its counters.
    pub fn usage(&self) -> PreviewCacheUsage {
        self.lock().usage
    }

    /// Returns the number of cached segments of a field.
    fn segments(&self, key: &FieldKey) -> u64 {
        self.lock().fields.get(key).map_or(0, |cached| cached.parts.len() as u64)
    }

    /// Registers the start of a preview and returns its sequence number.
    pub fn begin(&self) -> Asking {
        let mut state = self.lock();
        state.begun = state.begun.saturating_add(1);
        Asking(state.begun)
    }

    /// Returns a field of the rows from `first` on, if it was read from the records at these versions.
    pub fn find(&self, asking: Asking, key: &FieldKey, first: u32, versions: &[u32]) -> Option<Arc<[Column]>> {
        let mut state = self.lock();
        let cached = state.fields.get_mut(key)?;
        cached.requested_by = cached.requested_by.max(asking);
        let part = cached.parts.get(&first).filter(|part| *part.versions == *versions)?;
        let columns = Arc::clone(&part.columns);
        state.usage.found = state.usage.found.saturating_add(1);
        Some(columns)
    }

    /// Caches a field of the rows from `first` on, read from the records at these versions, if there is enough free
    /// space. Returns its columns in either case.
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
        // Every change leaves the state valid.
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

    /// Evicts fields that only earlier previews requested until `bytes` more bytes fit. Returns false if they do not
    /// fit.
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

/// Returns the memory of a column, in bytes.
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

/// The columns of one field: its values, or its lists followed by the values of the items.
pub(super) struct Picked(Vec<Growing>);

/// A column to which rows are appended.
struct Growing {
    path: String,
    valid: Bitmap,
    values: ColumnValues,
}

impl Picked {
    /// Creates empty columns for a field whose segments have these columns.
    pub fn like(columns: &[Column]) -> Self {
        let empty = columns.iter().map(|column| Growing {
            path: column.path.clone(),
            valid: Bitmap::default(),
            values: empty(&column.values),
        });
        Self(empty.collect())
    }

    /// Appends neighbouring rows of a segment.
    ///
    /// # Errors
    /// [`AppError::Internal`] if the type of the segment is different, which indicates a bug.
    pub fn add(&mut self, part: &[Column], rows: Range<usize>) -> Result<(), AppError> {
        let mut rows = rows;
        for (to, from) in self.0.iter_mut().zip(part) {
            for row in rows.clone() {
                to.valid.push(bit(&from.valid, row));
            }
            append(&mut to.values, &from.values, rows.clone())?;
            // The column of the items follows the column of their lists.
            if let ColumnValues::Lists(offsets) = &from.values {
                rows = between(offsets, &rows)?;
            }
        }
        Ok(())
    }

    /// Adds the columns that `columns` does not contain yet.
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

/// Returns the range from the start of the first row to the end of the last.
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
