//! Field columns: the fields of the schema that have one, and the values of all records of a kind in them.
//!
//! **Invariant:** the columns and their order follow from the schema alone; checkpoints include it in their layout.

use std::io;
use std::marker::PhantomData;
use std::sync::{Arc, LazyLock};

use super::checkpoint::{CheckpointWriter, Loading, Stored};
use super::chunk::{CellValue, Cells, Chunk, ChunkColumn, Days, RowValues, split};
use super::codes::{CodeAt, CodeKey};
use super::stored::{self, Corrupt};
use daftar_domain::calendar::days_since_epoch;
use daftar_domain::code::CodeNumber;
use daftar_domain::field::{FieldName, FieldSet};
use daftar_domain::record::{RecordKind, RecordType};
use daftar_domain::schema::{self, Field, Kind, Tag};
use daftar_domain::search::phrase::PhraseField;
use daftar_domain::value::{Code, Key, Value, Values};
use daftar_domain::vocabulary::CodedField;
use daftar_domain::{group, individual};

/// The cell value of the first word in a column: the lower ones are truth values and the missing value.
const FIRST_WORD: u8 = 3;

/// The content of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CellKind {
    /// The codes of a field.
    Code(CodedField),
    /// Days.
    Day,
    /// Truth values.
    Boolean,
    /// Words, by their index in the alphabet.
    Word(&'static [&'static str]),
    /// Numbers.
    Number,
}

/// A field with a column.
#[derive(Debug)]
pub(super) struct ColumnField {
    path: String,
    field: Tag,
    part: Option<Tag>,
    kind: CellKind,
}

impl ColumnField {
    fn of(field: &'static Field, part: Option<&'static Field>) -> Option<Self> {
        let row = part.unwrap_or(field);
        let kind = match &row.kind {
            _ if !row.has_column => return None,
            Kind::Code(coded) => CellKind::Code(*coded),
            Kind::Date => CellKind::Day,
            Kind::Boolean => CellKind::Boolean,
            Kind::Word(words) => CellKind::Word(words),
            Kind::Number | Kind::Amount => CellKind::Number,
            _ => return None,
        };
        let path = match part {
            Some(part) => format!("{}.{}", field.name, part.name),
            None => field.name.to_owned(),
        };
        Some(Self { path, field: field.tag, part: part.map(|part| part.tag), kind })
    }

    /// Returns its path and the content of its column, for the layout of checkpoints.
    pub(super) fn layout(&self) -> String {
        format!("{} {:?}", self.path, self.kind)
    }

    /// Returns the cell of a record with these values.
    fn cell(&self, values: &Values) -> Option<CellValue> {
        let mut value = values.value(self.field)?;
        if let Some(part) = self.part {
            let Value::Struct(parts) = value else { return None };
            value = parts.value(part)?;
        }
        match (self.kind, value) {
            (CellKind::Code(_), Value::Code(code)) => Some(CellValue::Code(code.number.0)),
            (CellKind::Day, Value::Date(day)) => Some(CellValue::Day(days_since_epoch(*day))),
            (CellKind::Boolean, Value::Boolean(is_true)) => Some(CellValue::Small(u8::from(*is_true))),
            (CellKind::Word(words), Value::Word(place)) => {
                let word = words.get(usize::from(*place))?;
                let before = words.iter().filter(|other| *other < word).count();
                u8::try_from(before).ok()?.checked_add(FIRST_WORD).map(CellValue::Small)
            }
            (CellKind::Number, Value::Number(number)) => Some(CellValue::Number(*number)),
            _ => None,
        }
    }
}

/// Returns the fields of a kind of record that have a column, in column order.
pub(super) fn column_fields(kind: RecordKind) -> &'static [ColumnField] {
    static FIELDS: LazyLock<[Vec<ColumnField>; 5]> = LazyLock::new(|| RecordKind::ALL.map(read_schema));
    FIELDS.get(kind.place()).map_or(&[], Vec::as_slice)
}

/// Returns the fields of a kind of record that a register for rules reads ([`Columns::for_rules`]).
///
/// [`Columns::for_rules`]: super::Columns::for_rules
#[must_use]
pub fn rule_fields(kind: RecordKind) -> FieldSet {
    let besides: &[Tag] = match kind {
        RecordKind::Individual => &[individual::ACTIVE.tag()],
        RecordKind::Group => &[group::ACTIVE.tag(), group::MEMBER.tag()],
        RecordKind::Program | RecordKind::ProgramMembership | RecordKind::Consent => return FieldSet::All,
    };
    let is_read = |field: &&Field| {
        besides.contains(&field.tag)
            || column_fields(kind).iter().any(|column| column.field == field.tag)
            || PhraseField::all(kind).any(|phrase| phrase.field() == field.name)
    };
    let names = schema::fields(kind).iter().filter(is_read).map(|field| field.name);
    FieldSet::only(names.filter_map(|name| FieldName::parse(kind.resource(), name).ok()))
}

fn read_schema(kind: RecordKind) -> Vec<ColumnField> {
    let mut columns = Vec::new();
    for field in schema::fields(kind) {
        columns.extend(ColumnField::of(field, None));
        // A list has any number of items, and a column one cell per record.
        if let Kind::Struct(part) = &field.kind {
            columns.extend(part.fields.iter().filter_map(|part| ColumnField::of(field, Some(part))));
        }
    }
    columns
}

/// The column values of all records of one kind, cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct FieldColumns<R> {
    chunks: Arc<Vec<Arc<Chunk>>>,
    of: PhantomData<fn() -> R>,
}

impl<R> Default for FieldColumns<R> {
    fn default() -> Self {
        Self { chunks: Arc::default(), of: PhantomData }
    }
}

impl<R: RecordType> FieldColumns<R> {
    fn fields() -> &'static [ColumnField] {
        column_fields(R::KIND)
    }

    fn empty_chunk() -> Chunk {
        let column = |field: &ColumnField| match field.kind {
            CellKind::Code(_) => ChunkColumn::Codes(Cells::default()),
            CellKind::Day => ChunkColumn::Days(Days::default()),
            CellKind::Boolean | CellKind::Word(_) => ChunkColumn::Small(Cells::default()),
            CellKind::Number => ChunkColumn::Numbers(Cells::default()),
        };
        Chunk::new(Self::fields().iter().map(column).collect())
    }

    /// Returns the index and the content of a field's column; `None` if it has none.
    pub(super) fn find(path: &str) -> Option<(usize, CellKind)> {
        let mut fields = Self::fields().iter().enumerate();
        fields.find(|(_, field)| field.path == path).map(|(at, field)| (at, field.kind))
    }

    /// Returns the cells of a record with these values.
    pub(super) fn values_of(values: &Values) -> RowValues {
        Self::fields().iter().map(|field| field.cell(values)).collect()
    }

    /// Returns the codes among the values of a row.
    pub(super) fn codes_of(values: &RowValues) -> impl Iterator<Item = CodeKey> {
        Self::fields().iter().zip(values).filter_map(|(field, value)| match (field.kind, value) {
            (CellKind::Code(coded), Some(CellValue::Code(number))) => Some(key(coded, *number)),
            _ => None,
        })
    }

    /// Returns the codes of a row.
    pub(super) fn codes_at(&self, row: u32) -> impl Iterator<Item = CodeKey> {
        let (at, slot) = split(row);
        let chunk = self.chunks.get(at);
        Self::fields().iter().enumerate().filter_map(move |(column, field)| match field.kind {
            CellKind::Code(coded) => Some(key(coded, chunk?.codes(column).get(slot)?)),
            CellKind::Day | CellKind::Boolean | CellKind::Word(_) | CellKind::Number => None,
        })
    }

    /// Returns the number of the code of a row in a field.
    pub(super) fn code(&self, field: Key<Code>, row: u32) -> Option<u32> {
        let column = Self::fields().iter().position(|known| known.field == field.tag() && known.part.is_none())?;
        let (at, slot) = split(row);
        self.chunks.get(at)?.codes(column).get(slot)
    }

    /// Returns every chunk.
    pub(super) fn chunks(&self) -> &[Arc<Chunk>] {
        &self.chunks
    }

    /// Returns the values of a row.
    pub(super) fn get(&self, row: u32) -> RowValues {
        let (at, slot) = split(row);
        self.chunks.get(at).map_or_else(|| vec![None; Self::fields().len()], |chunk| chunk.get(slot))
    }

    /// Writes the values of a row.
    pub(super) fn set(&mut self, row: u32, values: &RowValues) {
        let (at, slot) = split(row);
        let chunks = Arc::make_mut(&mut self.chunks);
        while chunks.len() <= at {
            chunks.push(Arc::new(Self::empty_chunk()));
        }
        if let Some(chunk) = chunks.get_mut(at) {
            Arc::make_mut(chunk).set(slot, values);
        }
    }
}

impl<R: RecordType> Stored for FieldColumns<R> {
    fn store(&self, checkpoint: &mut CheckpointWriter<'_>) -> io::Result<()> {
        checkpoint.values(self.chunks.iter().map(|chunk| &**chunk))
    }

    fn load(checkpoint: &mut Loading<'_>) -> Result<Self, Corrupt> {
        let empty = Self::empty_chunk();
        let chunks = checkpoint.each(|from| {
            let chunk: Chunk = stored::take(from)?;
            if chunk.is_like(&empty) { Ok(Arc::new(chunk)) } else { Err(Corrupt("its columns have other fields")) }
        })?;
        Ok(Self { chunks: Arc::new(chunks), of: PhantomData })
    }
}

fn key(coded: CodedField, number: u32) -> CodeKey {
    CodeKey { place: CodeAt::Field(coded), number: CodeNumber(number) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::program_membership::{self, MembershipStatus, ProgramMembershipRecord};

    #[test]
    fn each_column_is_found_by_the_path_of_its_field() {
        let paths = |kind| column_fields(kind).iter().map(|field| field.path.as_str()).collect::<Vec<_>>();
        let of_people = paths(RecordKind::Individual);
        assert_eq!(of_people.get(..3), Some(&["active", "birth_date", "birth_date_estimated"][..]));
        assert!(of_people.contains(&"income.currency") && !of_people.contains(&"languages"), "{of_people:?}");
        assert!(paths(RecordKind::Group).starts_with(&["group_type", "housing_type"]));
        let of_memberships = ["status", "enrollment_date", "exit_date"];
        assert_eq!(paths(RecordKind::ProgramMembership), of_memberships);
        assert_eq!(FieldColumns::<ProgramMembershipRecord>::find("exit_date"), Some((2, CellKind::Day)));
        assert_eq!(FieldColumns::<ProgramMembershipRecord>::find("exit_reason"), None);
    }

    #[test]
    fn words_are_stored_by_their_index_in_the_alphabet() {
        let cell = |status: MembershipStatus| {
            let values: Values = Values::default().with(program_membership::STATUS, status);
            FieldColumns::<ProgramMembershipRecord>::values_of(&values).into_iter().next().flatten()
        };
        for status in MembershipStatus::ALL {
            assert_eq!(cell(status), Some(CellValue::Small(FIRST_WORD + status.place())), "{}", status.name());
        }
    }
}
