//! Converts a cell to the value of a field, and back.
//!
//! **Invariant:** [`unguarded`] is the inverse of [`guarded`] for every text.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::field::Form;

/// Format of the values of a column, and their field.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Writing {
    /// The name of the column.
    pub name: String,
    /// The path of the field.
    pub field: String,
    /// True if the column contains the display of a code: written by an export, ignored by an import.
    pub label: bool,
    /// Formats of dates, such as `%d/%m/%Y`; the first matching format is used. Two-digit years are rejected.
    pub date: Vec<String>,
    /// Replacement of each value: a URI of a code or another text; empty for no value.
    pub codes: BTreeMap<String, String>,
    /// Vocabulary of codes without a namespace.
    pub system: Option<String>,
    /// Separator of list items.
    pub separator: Option<String>,
    /// Texts that mean `true`.
    #[serde(rename = "true")]
    pub yes: Vec<String>,
    /// Texts that mean `false`.
    #[serde(rename = "false")]
    pub no: Vec<String>,
    /// Prefix of the values: `Individual/SYSTEM|` for references.
    pub prefix: Option<String>,
    /// Type of the values of a module's field.
    #[serde(rename = "as")]
    pub form: Option<Form>,
}

/// Default separator of list items.
const SEPARATOR: &str = ";";

impl Writing {
    /// True if a cell means no value.
    #[must_use]
    pub fn is_nothing(&self, cell: &str) -> bool {
        self.codes.get(cell.trim()).is_some_and(String::is_empty)
    }

    /// Reads a cell that is not empty.
    ///
    /// # Errors
    /// The kind of fault, and its description in one sentence.
    pub fn read(&self, form: Form, cell: &str) -> Result<Value, (&'static str, String)> {
        let cell = unguarded(cell);
        match form {
            Form::Text => Ok(json!(self.text(cell)?)),
            Form::Reference => Ok(json!(self.text(cell)?)),
            Form::Code => Ok(json!(self.code(cell)?)),
            Form::Texts => self.items(cell).map(|item| self.text(item)).collect::<Result<Vec<_>, _>>().map(Value::from),
            Form::Codes => self.items(cell).map(|item| self.code(item)).collect::<Result<Vec<_>, _>>().map(Value::from),
            Form::Members => {
                let members = self.items(cell).map(|item| Ok(json!({"entity": {"reference": self.text(item)?}})));
                members.collect::<Result<Vec<_>, _>>().map(Value::from)
            }
            Form::Boolean => self.boolean(cell),
            Form::Number => {
                let number: Result<serde_json::Number, _> = serde_json::from_str(cell.trim());
                number
                    .map(Value::Number)
                    .map_err(|_| ("wrong_type", format!("`{}` is no number such as `12` or `12.5`", shown(cell))))
            }
            Form::Date => self.date(cell),
        }
    }

    fn items<'c>(&self, cell: &'c str) -> impl Iterator<Item = &'c str> + use<'c> {
        let separator = self.separator.clone().unwrap_or_else(|| SEPARATOR.to_owned());
        let items: Vec<&str> = cell.split(separator.as_str()).map(str::trim).filter(|item| !item.is_empty()).collect();
        items.into_iter()
    }

    fn translated<'c>(&'c self, text: &'c str) -> Result<&'c str, (&'static str, String)> {
        if self.codes.is_empty() {
            return Ok(text);
        }
        self.codes.get(text).map(String::as_str).ok_or_else(|| {
            let known: Vec<String> = self.codes.keys().take(12).map(|known| format!("`{known}`")).collect();
            let message = format!("`{}` is not among the `codes` of the mapping: {}", shown(text), known.join(", "));
            ("not_in_mapping", message)
        })
    }

    fn text(&self, text: &str) -> Result<String, (&'static str, String)> {
        let text = self.translated(text.trim())?;
        Ok(format!("{}{text}", self.prefix.as_deref().unwrap_or_default()))
    }

    fn code(&self, text: &str) -> Result<String, (&'static str, String)> {
        let code = self.translated(text.trim())?;
        Ok(match &self.system {
            Some(system) if !code.contains(['#', '|']) => format!("{system}#{code}"),
            Some(_) | None => code.to_owned(),
        })
    }

    fn boolean(&self, cell: &str) -> Result<Value, (&'static str, String)> {
        let is_among = |words: &[String]| words.iter().any(|word| word.eq_ignore_ascii_case(cell.trim()));
        let (yes, no) = (is_among(&self.yes), is_among(&self.no));
        let has_words = !self.yes.is_empty() || !self.no.is_empty();
        match cell.trim() {
            _ if yes => Ok(json!(true)),
            _ if no => Ok(json!(false)),
            "true" if !has_words => Ok(json!(true)),
            "false" if !has_words => Ok(json!(false)),
            other => {
                let message = format!(
                    "`{}` is neither `true` nor `false`; the mapping says what stands for them with `true = [..]` and `false = [..]`",
                    shown(other)
                );
                Err(("wrong_type", message))
            }
        }
    }

    fn date(&self, cell: &str) -> Result<Value, (&'static str, String)> {
        let cell = cell.trim();
        if self.date.is_empty() {
            return Ok(json!(cell));
        }
        let fits = |format: &String| jiff::civil::Date::strptime(format, cell).ok();
        match self.date.iter().find_map(fits) {
            Some(date) => Ok(json!(date.to_string())),
            None => {
                let formats: Vec<String> = self.date.iter().map(|format| format!("`{format}`")).collect();
                Err(("invalid_date", format!("`{}` is no day as {}", shown(cell), formats.join(" or "))))
            }
        }
    }

    /// Writes a value as a cell; empty for a missing value.
    #[must_use]
    pub fn write(&self, form: Form, value: &Value) -> String {
        let separator = self.separator.as_deref().unwrap_or(SEPARATOR);
        let one = |value: &Value| self.plain(form, value);
        let cell = match value {
            Value::Array(items) => items.iter().map(one).collect::<Vec<_>>().join(separator),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => one(value),
        };
        match form {
            Form::Number | Form::Boolean | Form::Date => cell,
            Form::Text | Form::Texts | Form::Code | Form::Codes | Form::Reference | Form::Members => guarded(&cell),
        }
    }

    fn plain(&self, form: Form, value: &Value) -> String {
        let text = match value {
            Value::Null => return String::new(),
            Value::Bool(is) => {
                let words = if *is { &self.yes } else { &self.no };
                return words.first().cloned().unwrap_or_else(|| is.to_string());
            }
            Value::String(text) => text.clone(),
            // A member of a group, or a coded value.
            Value::Object(members) => {
                let reference = members.get("entity").and_then(|entity| entity.get("reference"));
                let text = reference.or(members.get("uri")).and_then(Value::as_str);
                text.unwrap_or_default().to_owned()
            }
            Value::Number(_) | Value::Array(_) => return value.to_string(),
        };
        if form == Form::Date {
            let date: Option<jiff::civil::Date> = text.parse().ok();
            return match (date, self.date.first()) {
                (Some(date), Some(format)) => date.strftime(format).to_string(),
                _ => text,
            };
        }
        let text = match &self.prefix {
            Some(prefix) => text.strip_prefix(prefix.as_str()).unwrap_or(&text).to_owned(),
            None => text,
        };
        let of_system = self.system.as_ref().and_then(|system| text.strip_prefix(system.as_str())?.strip_prefix('#'));
        let bare = of_system.unwrap_or(&text);
        let is_it = |meant: &str| meant == text || meant == bare;
        let translated = self
            .codes
            .iter()
            .filter(|(_, meant)| !meant.is_empty())
            .find(|(_, meant)| is_it(meant))
            .map(|(written, _)| written.clone());
        translated.unwrap_or_else(|| bare.to_owned())
    }
}

/// Returns the start of a value, for messages in the rejects file, which also contains the value.
fn shown(text: &str) -> String {
    text.chars().take(40).map(|character| if character.is_control() { ' ' } else { character }).collect()
}

/// Characters that start a formula in spreadsheets (OWASP, CSV injection).
const BEGINNINGS: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// Returns a text as a cell, with an apostrophe before a text that spreadsheets would evaluate as a formula.
#[must_use]
pub fn guarded(text: &str) -> String {
    if is_guarded_or_formula(text) { format!("'{text}") } else { text.to_owned() }
}

/// Returns the text of a cell, without the apostrophe.
#[must_use]
pub fn unguarded(cell: &str) -> &str {
    match cell.strip_prefix('\'') {
        Some(text) if is_guarded_or_formula(text) => text,
        Some(_) | None => cell,
    }
}

/// True if a text starts like a formula, after any number of apostrophes.
fn is_guarded_or_formula(text: &str) -> bool {
    text.trim_start_matches('\'').starts_with(BEGINNINGS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writing(toml: &str) -> Writing {
        toml::from_str(toml).unwrap()
    }

    #[test]
    fn cells_become_values_and_values_cells() {
        let gender = "codes = { F = 'urn:iso:std:iso:5218#2', M = 'urn:iso:std:iso:5218#1' }";
        for (toml, form, cell, value) in [
            ("", Form::Text, "Asha", json!("Asha")),
            (gender, Form::Code, "F", json!("urn:iso:std:iso:5218#2")),
            ("system = 'urn:x'", Form::Code, "12", json!("urn:x#12")),
            ("system = 'urn:x'\nseparator = ' '", Form::Codes, "a b", json!(["urn:x#a", "urn:x#b"])),
            ("date = ['%d/%m/%Y']", Form::Date, "07/03/1990", json!("1990-03-07")),
            ("true = ['yes']\nfalse = ['no']", Form::Boolean, "no", json!(false)),
            ("", Form::Number, "12.5", json!(12.5)),
            ("prefix = 'Program/urn:x|'", Form::Reference, "P1", json!("Program/urn:x|P1")),
            (
                "prefix = 'Individual/urn:x|'",
                Form::Members,
                "1;2",
                json!([{"entity": {"reference": "Individual/urn:x|1"}}, {"entity": {"reference": "Individual/urn:x|2"}}]),
            ),
            ("", Form::Text, "'=1+1", json!("=1+1")),
        ] {
            let writing = writing(toml);
            assert_eq!(writing.read(form, cell).as_ref(), Ok(&value), "{toml}");
            assert_eq!(writing.write(form, &value), cell, "{toml}");
        }
    }

    #[test]
    fn a_value_of_another_form_is_reported() {
        for (toml, form, cell, what) in [
            ("codes = { F = 'x#2' }", Form::Code, "X", "not among the `codes`"),
            ("date = ['%d/%m/%Y']", Form::Date, "1990-03-07", "no day as `%d/%m/%Y`"),
            ("date = ['%d/%m/%Y']", Form::Date, "31/02/1990", "no day as"),
            ("true = ['yes']", Form::Boolean, "true", "neither"),
            ("", Form::Number, "1,5", "no number"),
        ] {
            let (_, message) = writing(toml).read(form, cell).unwrap_err();
            assert!(message.contains(what), "{message}");
        }
    }
}

#[cfg(test)]
mod cells_tests {
    use super::*;

    #[test]
    fn formulas_are_guarded_and_every_text_comes_back() {
        for (text, cell) in [
            ("=1+1", "'=1+1"),
            ("+977 1", "'+977 1"),
            ("-", "'-"),
            ("@x", "'@x"),
            ("'=x", "''=x"),
            ("''", "''"),
            ("'s-Gravenhage", "'s-Gravenhage"),
            ("a=b", "a=b"),
            ("", ""),
        ] {
            assert_eq!(guarded(text), cell);
            assert_eq!(unguarded(cell), text);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_comes_back(text in "['=+@a-]{0,6}") {
            let cell = guarded(&text);
            proptest::prop_assert_eq!(unguarded(&cell), text.as_str());
        }
    }
}
