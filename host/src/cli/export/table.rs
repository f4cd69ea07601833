//! Records as rows: the mapping of an import, the other way round.

use serde_json::Value;

use crate::cli::table::mapping::{Mapping, MappingText};

/// Writes rows.
pub struct TableWriter {
    mapping: Mapping,
    names: Vec<String>,
    fingerprint: String,
}

impl TableWriter {
    /// A table by a mapping.
    ///
    /// # Errors
    /// What is wrong with the mapping.
    pub fn new(text: &MappingText, bytes: Vec<u8>, is_tabs: bool) -> Result<Self, String> {
        let names = text.header();
        let delimiter = text.delimiter()?.unwrap_or(if is_tabs { b'\t' } else { b',' });
        let mapping = text.written(&names, delimiter).map_err(|problems| problems.join("\n  "))?;
        if mapping.household.is_some() {
            return Err("a mapping with `[household]` reads tables and does not write them: export people and groups each by a mapping of their own".to_owned());
        }
        Ok(Self { mapping, names, fingerprint: String::from_utf8_lossy(&bytes).into_owned() })
    }

    /// What decides which table it is.
    pub fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    /// The first row.
    ///
    /// # Errors
    /// When it cannot be written, which is a defect.
    pub fn header(&self) -> Result<Vec<u8>, String> {
        self.write(&self.names)
    }

    /// The row of a record; nothing where it is of another type.
    ///
    /// # Errors
    /// When it cannot be written, which is a defect.
    pub fn row(&self, record: &Value) -> Result<Vec<u8>, String> {
        if record.get("type").and_then(Value::as_str) != Some(self.mapping.kind.name()) {
            return Ok(Vec::new());
        }
        let mut cells = vec![String::new(); self.names.len()];
        for column in &self.mapping.columns {
            let Some(value) = column.path.get(record) else { continue };
            let cell = if column.writing.label { label(value) } else { column.writing.write(column.form, value) };
            if let Some(place) = cells.get_mut(column.at) {
                *place = cell;
            }
        }
        self.write(&cells)
    }

    fn write(&self, cells: &[String]) -> Result<Vec<u8>, String> {
        let mut writer = csv::WriterBuilder::new().delimiter(self.mapping.delimiter).from_writer(Vec::new());
        writer.write_record(cells).map_err(|error| error.to_string())?;
        writer.into_inner().map_err(|error| error.to_string())
    }
}

/// What codes are called.
fn label(value: &Value) -> String {
    let one = |value: &Value| value.get("display").and_then(Value::as_str).unwrap_or_default().to_owned();
    let labels = match value {
        Value::Array(items) => items.iter().map(one).collect::<Vec<_>>().join("; "),
        other => one(other),
    };
    crate::cli::table::cells::guarded(&labels)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_are_written_by_the_mapping_that_reads_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.toml");
        let toml = r#"
            [[column]]
            name = "id"
            field = "identifier[urn:x:id]"
            [[column]]
            name = "name"
            field = "name.given"
            [[column]]
            name = "born"
            field = "birth_date"
            date = ["%d/%m/%Y"]
            [[column]]
            name = "sex"
            field = "gender"
            codes = { F = "urn:iso:std:iso:5218#2" }
            [[column]]
            name = "sex_label"
            field = "gender"
            label = true
            [[column]]
            name = "languages"
            field = "languages"
            system = "urn:x:l"
        "#;
        std::fs::write(&path, toml).unwrap();
        let (text, bytes) = MappingText::load(&path).unwrap();
        let table = TableWriter::new(&text, bytes, false).unwrap();
        let code = |uri: &str, display: &str| json!({"uri": uri, "code": "x", "display": display, "namespace": "n"});
        let record = json!({
            "type": "Individual", "identifier": [{"system": "urn:x:id", "value": "7"}], "name": {"given": "=A, \"b\""},
            "birth_date": "1990-03-07", "gender": code("urn:iso:std:iso:5218#2", "Female"),
            "languages": [code("urn:x:l#ne", "Nepali"), code("urn:y#en", "English")]
        });
        let written =
            [table.header().unwrap(), table.row(&record).unwrap(), table.row(&json!({"type": "Group"})).unwrap()];
        let text = String::from_utf8(written.concat()).unwrap();
        assert_eq!(
            text,
            "id,name,born,sex,sex_label,languages\n7,\"'=A, \"\"b\"\"\",07/03/1990,F,Female,ne;urn:y#en\n"
        );
    }
}
