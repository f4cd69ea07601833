//! Fields that no column of the register holds, kept after they were read of the records: a thousand neighbouring rows of one field at a time.
//!
//! Names, addresses, lists of codes and fields of modules would cost every register the memory of columns that most never ask about. So they
//! are read when a preview asks for them, and kept as long as there is room.
//!
//! **Invariant:** a part is used for rows of the layout that it was read of, and for exactly the versions of the records. So it never shows what a
//! snapshot does not, and nothing has to be done here when a record is written: the part does not fit any more, and the next preview reads it
//! again. Parts of a layout that no partition has any more are not asked for, so that they go first when there is no room.
//!
//! **Invariant:** the parts take no more memory than was said. Where there is no room, the field that was asked for longest ago goes, as a whole.
//! A preview never drives out what itself or a later one asks for: then what it reads is not kept. So a register that is too large for the
//! memory has as much of a field kept as there is room for, and not the parts that come round last.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::eligibility::layout::{Bitmap, bit, count};
use daftar_domain::eligibility::{Column, ColumnValues, FieldType, Reference, RowSpace, Schema, Subject};
use daftar_domain::error::AppError;

/// The rows of one part: a quarter of a chunk of the register's columns, and no more records than a batch reads.
pub(super) const PART_ROWS: u32 = 1_024;

/// What is kept.
#[derive(Debug)]
pub(super) struct KeptColumns {
    bytes_max: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    fields: BTreeMap<FieldKey, Kept>,
    /// How many previews have begun.
    begun: u64,
    usage: KeptUsage,
}

/// What the metrics page tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeptUsage {
    /// How much memory the parts take, in bytes.
    pub bytes: u64,
    /// How many parts that were asked for were there.
    pub found: u64,
    /// How many were read of the records.
    pub read: u64,
    /// How many fields went because there was no room.
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
struct Kept {
    /// The last preview that asked for it.
    asked_by: Asking,
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

/// A preview that asks for fields; later ones are greater.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Asking(u64);

impl FieldKey {
    /// The field that a rule reads; none that the schema does not have.
    pub fn of(schema: &Schema, reference: &Reference, kind: Subject, layout: u64) -> Option<Self> {
        let field = schema.field(reference)?;
        Some(Self { layout, kind, path: field.path.clone(), form: (field.kind, field.is_repeated) })
    }
}

impl KeptColumns {
    /// Nothing yet, and never more than so many bytes.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, state: Mutex::default() }
    }

    /// How much is kept now, and what was done with it.
    pub fn usage(&self) -> KeptUsage {
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
        let kept = state.fields.get_mut(key)?;
        kept.asked_by = kept.asked_by.max(asking);
        let part = kept.parts.get(&first).filter(|part| *part.versions == *versions)?;
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
        if state.make_room(asking, key, bytes, self.bytes_max) {
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
        let kept = self.fields.entry(key.clone()).or_default();
        kept.asked_by = kept.asked_by.max(asking);
        kept.bytes = kept.bytes.saturating_add(part.bytes);
        kept.parts.insert(first, part);
    }

    fn take_out(&mut self, key: &FieldKey, first: u32) {
        let Some(kept) = self.fields.get_mut(key) else { return };
        let Some(part) = kept.parts.remove(&first) else { return };
        kept.bytes = kept.bytes.saturating_sub(part.bytes);
        self.usage.bytes = self.usage.bytes.saturating_sub(part.bytes);
    }

    /// Drops fields that earlier previews asked for until so many bytes more have room; whether they have it then.
    fn make_room(&mut self, asking: Asking, of: &FieldKey, bytes: u64, bytes_max: u64) -> bool {
        while self.usage.bytes.saturating_add(bytes) > bytes_max {
            let others = self.fields.iter().filter(|(key, kept)| *key != of && kept.asked_by < asking);
            let Some(longest_ago) = others.min_by_key(|(_, kept)| kept.asked_by).map(|(key, _)| key.clone()) else {
                return false;
            };
            let dropped = self.fields.remove(&longest_ago).unwrap_or_default();
            self.usage.bytes = self.usage.bytes.saturating_sub(dropped.bytes);
            self.usage.dropped = self.usage.dropped.saturating_add(1);
        }
        true
    }
}

/// How much memory a column takes.
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
    /// When the part is of another form, which cannot be.
    pub fn add(&mut self, part: &[Column], rows: Range<usize>) -> Result<(), AppError> {
        let mut rows = rows;
        for (to, from) in self.0.iter_mut().zip(part) {
            for row in rows.clone() {
                to.valid.push(bit(&from.valid, row));
            }
            append(&mut to.values, &from.values, rows.clone())?;
            // What follows a column of lists is the column of their items.
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

/// What lies between the beginning of the first of some rows and the end of the last.
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
