//! A Parquet file of one reporting table.
//!
//! **Invariant:** at most one row group is in memory, of at most [`GROUP_ROWS`] rows and about [`GROUP_BYTES`] bytes.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::Date;
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};
use serde_json::{Map, Value};

use crate::cli::{CliError, files};
use daftar_domain::schema::reporting::{Column, ColumnType, Source, Table};

/// Maximum number of rows of a row group.
const GROUP_ROWS: u64 = 50_000;
/// Memory of the values, in bytes, at which a row group ends.
const GROUP_BYTES: usize = 32 << 20;
/// Accounted size of a value in addition to the bytes of its text.
const VALUE_BYTES: usize = 40;

/// The Parquet file.
pub struct ReportingFile {
    table: Table,
    partial: PathBuf,
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    values: Vec<ColumnValues>,
    group_rows: u64,
    group_bytes: usize,
    rows: u64,
    is_named: bool,
}

impl ReportingFile {
    /// Creates the file of a table in a folder, accessible to its owner only.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn begin(folder: &Path, table: Table) -> Result<Self, CliError> {
        let path = folder.join(format!("{}.parquet", table.name));
        let partial = files::with_suffix(&path, ".partial");
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial);
        let file = file.map_err(|error| CliError::cannot_write(&partial, &error))?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(format!("daftar {}", env!("CARGO_PKG_VERSION")))
            .build();
        let begun = schema(&table).and_then(|schema| SerializedFileWriter::new(file, schema, Arc::new(properties)));
        let writer = begun.map_err(|error| not_written(&partial, &error))?;
        let values = table.columns.iter().map(ColumnValues::new).collect();
        Ok(Self { table, partial, path, writer, values, group_rows: 0, group_bytes: 0, rows: 0, is_named: false })
    }

    /// Adds the rows of a record; none if the record is of another kind.
    ///
    /// # Errors
    /// When the rows cannot be written, or the record does not match the schema.
    pub fn add(&mut self, record: &Value) -> Result<(), CliError> {
        if record.get("type").and_then(Value::as_str) != Some(self.table.kind.name()) {
            return Ok(());
        }
        match self.table.items {
            None => self.add_row(record, record),
            Some(items) => {
                let items = record.get(items).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                items.iter().try_for_each(|item| self.add_row(record, item))
            }
        }
    }

    fn add_row(&mut self, record: &Value, row: &Value) -> Result<(), CliError> {
        for (column, values) in self.table.columns.iter().zip(&mut self.values) {
            let added = values.add(column, record, row).ok_or_else(|| {
                let (table, column) = (self.table.name, &column.name);
                CliError::failed(format_args!(
                    "a value of `{table}.{column}` is of another type: is the server a newer one?"
                ))
            })?;
            self.group_bytes = self.group_bytes.saturating_add(added);
        }
        self.group_rows = self.group_rows.saturating_add(1);
        if self.group_rows >= GROUP_ROWS || self.group_bytes >= GROUP_BYTES { self.write_group() } else { Ok(()) }
    }

    fn write_group(&mut self) -> Result<(), CliError> {
        let mut written = || {
            let mut group = self.writer.next_row_group()?;
            self.values.iter_mut().try_for_each(|values| values.write(&mut group))?;
            group.close()
        };
        written().map_err(|error| not_written(&self.partial, &error))?;
        self.rows = self.rows.saturating_add(self.group_rows);
        (self.group_rows, self.group_bytes) = (0, 0);
        Ok(())
    }

    /// Writes the rest, syncs the file and returns its SHA-256.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(&mut self, as_of: &str) -> Result<String, CliError> {
        if self.group_rows > 0 {
            self.write_group()?;
        }
        self.writer.append_key_value_metadata(KeyValue::new("daftar.as_of".to_owned(), as_of.to_owned()));
        self.writer.finish().map_err(|error| not_written(&self.partial, &error))?;
        let synced = self.writer.inner().sync_all().and_then(|()| files::digest(File::open(&self.partial)?));
        synced.map_err(|error| CliError::cannot_write(&self.partial, &error))
    }

    /// Renames the file to its final name.
    ///
    /// # Errors
    /// If the file cannot be renamed.
    pub fn name_it(&mut self) -> Result<(), CliError> {
        let renamed = std::fs::rename(&self.partial, &self.path);
        renamed.map_err(|error| CliError::cannot_write(&self.path, &error))?;
        self.is_named = true;
        Ok(())
    }

    /// Returns the name of the file in the folder.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}.parquet", self.table.name)
    }

    /// Returns the number of rows.
    #[must_use]
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// Removes the file.
    pub fn discard(&self) {
        // If the removal fails, the file remains and the next export reports it.
        let _is_gone = std::fs::remove_file(if self.is_named { &self.path } else { &self.partial }).is_ok();
    }
}

fn not_written(path: &Path, error: &ParquetError) -> CliError {
    if let ParquetError::External(cause) = error
        && let Some(cause) = cause.downcast_ref::<std::io::Error>()
    {
        return CliError::cannot_write(path, cause);
    }
    CliError::output(format_args!("cannot write `{}`: {error}", path.display()))
}

/// Returns the Parquet schema: each value and each item of a list may be NULL.
fn schema(table: &Table) -> Result<TypePtr, ParquetError> {
    let columns = table.columns.iter().map(|column| {
        if !column.is_list {
            return primitive(&column.name, column.value).map(Arc::new);
        }
        let element = Arc::new(primitive("element", column.value)?);
        let list = Type::group_type_builder("list").with_repetition(Repetition::REPEATED).with_fields(vec![element]);
        let column = Type::group_type_builder(&column.name).with_repetition(Repetition::OPTIONAL);
        column
            .with_logical_type(Some(LogicalType::List))
            .with_fields(vec![Arc::new(list.build()?)])
            .build()
            .map(Arc::new)
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    Type::group_type_builder(table.name).with_fields(columns).build().map(Arc::new)
}

fn primitive(name: &str, value: ColumnType) -> Result<Type, ParquetError> {
    let (physical, logical) = match value {
        ColumnType::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        ColumnType::Json => (PhysicalType::BYTE_ARRAY, Some(LogicalType::Json)),
        ColumnType::Date => (PhysicalType::INT32, Some(LogicalType::Date)),
        ColumnType::Timestamp => (PhysicalType::INT64, Some(LogicalType::timestamp(true, TimeUnit::MILLIS))),
        ColumnType::Integer => (PhysicalType::INT64, None),
        ColumnType::Number => (PhysicalType::DOUBLE, None),
        ColumnType::Boolean => (PhysicalType::BOOLEAN, None),
    };
    let builder = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
    builder.with_logical_type(logical).build()
}

/// Values of one type.
enum Cells {
    Text(Vec<ByteArray>),
    Date(Vec<i32>),
    Whole(Vec<i64>),
    Number(Vec<f64>),
    Boolean(Vec<bool>),
}

/// The buffered values of a column. Definition levels mark missing values, repetition levels the starts of lists.
struct ColumnValues {
    cells: Cells,
    definitions: Vec<i16>,
    repetitions: Option<Vec<i16>>,
}

/// Definition levels of a list: absent, empty, NULL item, present item. Definition levels of a single value: NULL,
/// present.
const LIST_ABSENT: i16 = 0;
const LIST_EMPTY: i16 = 1;
const ITEM_ABSENT: i16 = 2;
const ITEM_THERE: i16 = 3;

impl ColumnValues {
    fn new(column: &Column) -> Self {
        let cells = match column.value {
            ColumnType::Text | ColumnType::Json => Cells::Text(Vec::new()),
            ColumnType::Date => Cells::Date(Vec::new()),
            ColumnType::Timestamp | ColumnType::Integer => Cells::Whole(Vec::new()),
            ColumnType::Number => Cells::Number(Vec::new()),
            ColumnType::Boolean => Cells::Boolean(Vec::new()),
        };
        Self { cells, definitions: Vec::new(), repetitions: column.is_list.then(Vec::new) }
    }

    /// Adds the value of a row; returns its approximate memory in bytes, or none if it is not of the column's type.
    fn add(&mut self, column: &Column, record: &Value, row: &Value) -> Option<usize> {
        let Some(repetitions) = &mut self.repetitions else {
            let bytes = match cell(column, record, row) {
                Some(value) => {
                    self.definitions.push(1);
                    self.cells.push(column.value, &value)?
                }
                None => {
                    self.definitions.push(0);
                    0
                }
            };
            return Some(bytes.saturating_add(VALUE_BYTES));
        };
        let list = match at(row, &column.path) {
            None => None,
            Some(list) => Some(list.as_array()?),
        };
        let mut bytes = VALUE_BYTES;
        let items = list.map(Vec::as_slice).unwrap_or_default();
        for (place, item) in items.iter().enumerate() {
            repetitions.push(i16::from(place > 0));
            let value = match column.source {
                Source::Code => item.get("uri"),
                Source::Label => item.get("display"),
                _ => Some(item),
            };
            self.definitions.push(if value.is_some() { ITEM_THERE } else { ITEM_ABSENT });
            if let Some(value) = value {
                bytes = bytes.saturating_add(self.cells.push(column.value, value)?).saturating_add(VALUE_BYTES);
            }
        }
        if items.is_empty() {
            repetitions.push(0);
            self.definitions.push(if list.is_some() { LIST_EMPTY } else { LIST_ABSENT });
        }
        Some(bytes)
    }

    /// Writes the values as the next column of a row group and clears the buffer.
    fn write(&mut self, group: &mut SerializedRowGroupWriter<'_, File>) -> Result<(), ParquetError> {
        match &self.cells {
            Cells::Text(values) => self.write_cells::<ByteArrayType>(values, group),
            Cells::Date(values) => self.write_cells::<Int32Type>(values, group),
            Cells::Whole(values) => self.write_cells::<Int64Type>(values, group),
            Cells::Number(values) => self.write_cells::<DoubleType>(values, group),
            Cells::Boolean(values) => self.write_cells::<BoolType>(values, group),
        }?;
        self.cells.clear();
        self.definitions.clear();
        if let Some(repetitions) = &mut self.repetitions {
            repetitions.clear();
        }
        Ok(())
    }

    fn write_cells<T: DataType>(
        &self,
        values: &[T::T],
        group: &mut SerializedRowGroupWriter<'_, File>,
    ) -> Result<(), ParquetError> {
        let missing = || ParquetError::General("the file has fewer columns than the table".to_owned());
        let mut column = group.next_column()?.ok_or_else(missing)?;
        column.typed::<T>().write_batch(values, Some(&self.definitions), self.repetitions.as_deref())?;
        column.close()
    }
}

impl Cells {
    /// Adds a value; returns the length of its text in bytes, or none if it is of another type.
    fn push(&mut self, of: ColumnType, value: &Value) -> Option<usize> {
        match self {
            Self::Text(cells) => {
                let text = match of {
                    ColumnType::Json => fields_of_modules(value).to_string(),
                    _ => value.as_str()?.to_owned(),
                };
                let bytes = text.len();
                cells.push(text.into_bytes().into());
                return Some(bytes);
            }
            Self::Date(cells) => {
                let day: Date = value.as_str()?.parse().ok()?;
                cells.push((day - Date::constant(1970, 1, 1)).get_days());
            }
            Self::Whole(cells) if of == ColumnType::Timestamp => {
                cells.push(value.as_str()?.parse::<Timestamp>().ok()?.as_millisecond());
            }
            // Bodies contain a version number as a text.
            Self::Whole(cells) => cells.push(value.as_i64().or_else(|| value.as_str()?.parse().ok())?),
            Self::Number(cells) => cells.push(value.as_f64()?),
            Self::Boolean(cells) => cells.push(value.as_bool()?),
        }
        Some(0)
    }

    fn clear(&mut self) {
        match self {
            Self::Text(cells) => cells.clear(),
            Self::Date(cells) => cells.clear(),
            Self::Whole(cells) => cells.clear(),
            Self::Number(cells) => cells.clear(),
            Self::Boolean(cells) => cells.clear(),
        }
    }
}

/// Returns the fields of modules by their full path, such as `farmer.crops`; codes as their URI.
fn fields_of_modules(extension: &Value) -> Value {
    fn bare(value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(bare).collect(),
            value => value.get("uri").unwrap_or(value).clone(),
        }
    }
    fn add(within: &str, value: &Value, fields: &mut Map<String, Value>) {
        match value.as_object().filter(|members| !members.contains_key("uri")) {
            Some(members) => members.iter().for_each(|(name, value)| {
                let path = if within.is_empty() { name.clone() } else { format!("{within}.{name}") };
                add(&path, value, fields);
            }),
            None => drop(fields.insert(within.to_owned(), bare(value))),
        }
    }
    let mut fields = Map::new();
    add("", extension, &mut fields);
    Value::Object(fields)
}

/// Returns the value at a path; for a list on the path, its first item is used.
fn at<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, step| match value {
        Value::Array(items) => items.first()?.get(step),
        value => value.get(step),
    })
}

/// Returns the value of a row in a column without lists.
fn cell(column: &Column, record: &Value, row: &Value) -> Option<Value> {
    let value = at(row, &column.path);
    match column.source {
        Source::Value => value.cloned().or_else(|| column.absent.map(Value::from)),
        Source::Code => value?.get("uri").cloned(),
        Source::Label => value?.get("display").cloned(),
        Source::Count => Some(value?.as_array()?.len().into()),
        Source::ReferenceKind => reference(value?).map(|(kind, _)| kind.into()),
        Source::ReferenceId => reference(value?).map(|(_, id)| id.into()),
        Source::ReferenceKey => value?.get("key").cloned(),
        Source::Id => id(record),
        Source::Key => record.get("key").cloned(),
    }
}

/// Returns the kind and id of a referenced record. A reference is a text, or an object if it has a key or a name.
fn reference(value: &Value) -> Option<(&str, &str)> {
    value.as_str().or_else(|| value.get("reference")?.as_str())?.split_once('/')
}

/// Returns the id of a record in the form of references: its first valid identifier, else its first identifier.
fn id(record: &Value) -> Option<Value> {
    let identifiers = record.get("identifier")?.as_array()?;
    let open = identifiers.iter().find(|identifier| at(identifier, &["period", "end"]).is_none());
    let called = open.or(identifiers.first())?;
    Some(format!("{}|{}", called.get("system")?.as_str()?, called.get("value")?.as_str()?).into())
}

#[cfg(test)]
mod tests {
    use daftar_domain::schema::reporting;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    use serde_json::json;

    use super::*;

    fn file(folder: &Path, table: &str) -> ReportingFile {
        let table = reporting::tables().into_iter().find(|other| other.name == table).unwrap();
        ReportingFile::begin(folder, table).unwrap()
    }

    fn group_rows(file: &ReportingFile) -> Vec<i64> {
        let reader = SerializedFileReader::new(File::open(&file.partial).unwrap()).unwrap();
        reader.metadata().row_groups().iter().map(|group| group.num_rows()).collect()
    }

    #[test]
    fn a_row_group_ends_with_its_last_row_and_with_its_last_byte() {
        let folder = tempfile::tempdir().unwrap();
        let identifiers =
            |count: u64| -> Value { (0..count).map(|_| json!({"system": "urn:x:y", "value": "1"})).collect() };
        let mut rows = file(folder.path(), "individual_identifier");
        for count in [GROUP_ROWS - 1, 1, 1] {
            rows.add(&json!({"type": "Individual", "identifier": identifiers(count)})).unwrap();
        }
        rows.add(&json!({"type": "Group", "identifier": identifiers(1)})).unwrap();
        drop(rows.finish("2026-06-30T00:00:00Z").unwrap());
        let group = i64::try_from(GROUP_ROWS).unwrap();
        assert_eq!((rows.rows(), group_rows(&rows)), (GROUP_ROWS + 1, vec![group, 1]));

        // The description uses a quarter of the memory limit: with the overhead of the other values, the fourth row
        // ends its group.
        let mut rows = file(folder.path(), "program");
        for _ in 0..5 {
            rows.add(&json!({"type": "Program", "description": "x".repeat(GROUP_BYTES / 4)})).unwrap();
        }
        drop(rows.finish("2026-06-30T00:00:00Z").unwrap());
        assert_eq!(group_rows(&rows), [4, 1]);
    }

    #[test]
    fn lists_that_are_absent_empty_or_have_a_code_without_a_label_stay_apart() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = file(folder.path(), "individual");
        let code = |display: Option<&str>| json!({"uri": "urn:x#1", "display": display});
        let unnamed = json!({"uri": "urn:x#2"});
        for languages in [None, Some(json!([])), Some(json!([code(Some("One")), unnamed, code(Some("One"))]))] {
            let mut person = json!({"type": "Individual", "gender": unnamed});
            if let Some(languages) = languages {
                person["languages"] = languages;
            }
            file.add(&person).unwrap();
        }
        drop(file.finish("2026-06-30T00:00:00Z").unwrap());
        let reader = SerializedFileReader::new(File::open(&file.partial).unwrap()).unwrap();
        let cells = |name: &str| -> Vec<Option<Vec<Option<String>>>> {
            let text = |field: &Field| if let Field::Str(text) = field { Some(text.clone()) } else { None };
            let rows = reader.get_row_iter(None).unwrap().map(|row| {
                let row = row.unwrap();
                let (_, field) = row.get_column_iter().find(|(column, _)| *column == name).unwrap();
                match field {
                    Field::ListInternal(list) => Some(list.elements().iter().map(text).collect()),
                    field => text(field).map(|text| vec![Some(text)]),
                }
            });
            rows.collect()
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            cells("languages"),
            [None, Some(vec![]), Some(vec![some("urn:x#1"), some("urn:x#2"), some("urn:x#1")])]
        );
        assert_eq!(cells("languages_label"), [None, Some(vec![]), Some(vec![some("One"), None, some("One")])]);
        assert_eq!(cells("gender"), vec![Some(vec![some("urn:x#2")]); 3]);
        assert_eq!(cells("gender_label"), [None, None, None]);
    }

    #[test]
    fn a_reference_with_a_key_is_an_object_and_one_without_is_a_text() {
        let tables = reporting::tables();
        let columns = &tables.iter().find(|table| table.name == "program_membership").unwrap().columns;
        let cells = |record: &Value| -> Value {
            let named = |name: &&str| columns.iter().find(|column| column.name == *name).unwrap();
            let names = ["key", "program_id", "program_key", "beneficiary_kind", "beneficiary_id", "beneficiary_key"];
            names.iter().map(|name| cell(named(name), record, record).unwrap_or_default()).collect()
        };
        let keyed = |key: u64, reference: &str| json!({"key": key, "reference": reference});
        let (program, beneficiary) = (keyed(3, "Program/urn:x:y|P"), keyed(4, "Group/urn:x:y|1"));
        let record = json!({"key": 7, "program": program, "beneficiary": beneficiary});
        assert_eq!(cells(&record), json!([7, "urn:x:y|P", 3, "Group", "urn:x:y|1", 4]));
        let record = json!({"program": "Program/urn:x:y|P", "beneficiary": "Group/urn:x:y|1"});
        assert_eq!(cells(&record), json!([null, "urn:x:y|P", null, "Group", "urn:x:y|1", null]));
    }

    #[test]
    fn fields_of_modules_have_their_whole_path_and_codes_their_uri() {
        let code = |code: &str| json!({"uri": format!("urn:x#{code}"), "code": code, "display": "A label"});
        let extension =
            json!({"farmer": {"crops": [code("1"), code("2")], "main": {"crop": code("1"), "plots": 3}}, "note": "n"});
        let expected = json!({
            "farmer.crops": ["urn:x#1", "urn:x#2"], "farmer.main.crop": "urn:x#1", "farmer.main.plots": 3, "note": "n",
        });
        assert_eq!(fields_of_modules(&extension), expected);
    }

    #[test]
    fn a_value_of_another_type_is_refused_by_the_name_of_its_column_alone() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = file(folder.path(), "individual");
        for (field, value, column) in [
            ("birth_date", json!("Kathmandu"), "birth_date"),
            ("active", json!("Kathmandu"), "active"),
            ("name", json!({"given": 4711}), "name_given"),
            ("languages", json!("Kathmandu"), "languages"),
            ("income", json!({"amount": "Kathmandu"}), "income_amount"),
        ] {
            let mut person = json!({"type": "Individual"});
            person[field] = value;
            let reported = file.add(&person).unwrap_err().to_string();
            assert!(reported.contains(&format!("`individual.{column}`")), "{reported}");
            assert!(!reported.contains("Kathmandu") && !reported.contains("4711"), "{reported}");
        }
    }
}
