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
        let items: Vec<&str> = cell.split(self.separator()).map(str::trim).filter(|item| !item.is_empty()).collect();
        items.into_iter()
    }

    fn separator(&self) -> &str {
        self.separator.as_deref().unwrap_or(SEPARATOR)
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
    ///
    /// # Errors
    /// If the cell would be read as another value: the reason and the remedy, in one sentence.
    pub fn write(&self, form: Form, value: &Value) -> Result<String, String> {
        let cell = match value {
            Value::Array(items) => self.joined(form, items)?,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                self.plain(form, value)?
            }
        };
        Ok(match form {
            Form::Number | Form::Boolean | Form::Date => cell,
            Form::Text | Form::Texts | Form::Code | Form::Codes | Form::Reference | Form::Members => guarded(&cell),
        })
    }

    /// Joins the items of a list, if the separator divides them into the same items again.
    fn joined(&self, form: Form, items: &[Value]) -> Result<String, String> {
        let items = items.iter().map(|item| self.plain(form, item)).collect::<Result<Vec<_>, _>>()?;
        let cell = items.join(self.separator());
        let written = items.iter().map(|item| item.trim()).filter(|item| !item.is_empty());
        if self.items(&cell).eq(written) {
            return Ok(cell);
        }
        Err(format!(
            "an item of the list contains the separator `{}`, by which an import would divide it: give the column a `separator` that no item contains, such as `separator = \"|\"`",
            self.separator()
        ))
    }

    /// Writes one value.
    fn plain(&self, form: Form, value: &Value) -> Result<String, String> {
        let text = match value {
            Value::Null => return Ok(String::new()),
            Value::Bool(is) => {
                let words = if *is { &self.yes } else { &self.no };
                return Ok(words.first().cloned().unwrap_or_else(|| is.to_string()));
            }
            Value::String(text) => text.clone(),
            // A member of a group, or a coded value.
            Value::Object(members) => {
                let reference = members.get("entity").and_then(|entity| entity.get("reference"));
                let text = reference.or(members.get("uri")).and_then(Value::as_str);
                text.unwrap_or_default().to_owned()
            }
            Value::Number(_) | Value::Array(_) => return Ok(value.to_string()),
        };
        if form == Form::Date {
            let date: Option<jiff::civil::Date> = text.parse().ok();
            return Ok(match (date, self.date.first()) {
                (Some(date), Some(format)) => date.strftime(format).to_string(),
                _ => text,
            });
        }
        let text = match &self.prefix {
            Some(prefix) => text.strip_prefix(prefix.as_str()).unwrap_or(&text).to_owned(),
            None => text,
        };
        let of_system = self.system.as_ref().and_then(|system| text.strip_prefix(system.as_str())?.strip_prefix('#'));
        let bare = of_system.unwrap_or(&text);
        // A mapping may also separate namespace and code by `|`.
        let is_code = matches!(form, Form::Code | Form::Codes);
        let is_it = |meant: &str| meant == text || meant == bare || (is_code && meant.replacen('|', "#", 1) == text);
        let translated = self
            .codes
            .iter()
            .filter(|(_, meant)| !meant.is_empty())
            .find(|(_, meant)| is_it(meant))
            .map(|(written, _)| written.clone());
        match translated {
            Some(written) => Ok(written),
            None if self.codes.contains_key(bare.trim()) => Err(
                "the value is a word of `codes`, which an import reads as another value: list the value in `codes`, with a word of its own"
                    .to_owned(),
            ),
            None => Ok(bare.to_owned()),
        }
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
            assert_eq!(writing.write(form, &value).as_deref(), Ok(cell), "{toml}");
        }
    }

    #[test]
    fn an_item_that_the_separator_would_divide_is_not_written() {
        let lines = json!(["House 4; Block B", "Jumla"]);
        let refused = writing("").write(Form::Texts, &lines).unwrap_err();
        assert!(refused.contains("the separator `;`") && !refused.contains("House"), "{refused}");
        let piped = writing("separator = '|'");
        assert_eq!(piped.write(Form::Texts, &lines).as_deref(), Ok("House 4; Block B|Jumla"));
        assert_eq!(piped.read(Form::Texts, "House 4; Block B|Jumla"), Ok(lines));
        // The separator may also arise where two items touch.
        assert!(writing("separator = '--'").write(Form::Texts, &json!(["a-", "-b"])).is_err());
        let members = json!([{"entity": {"reference": "Individual/urn:x|1;2"}}]);
        assert!(writing("").write(Form::Members, &members).is_err());
        // White space around items never counts.
        assert_eq!(writing("").write(Form::Texts, &json!([" a", "b "])).as_deref(), Ok(" a;b "));
    }

    #[test]
    fn a_text_that_the_mapping_reads_as_another_value_is_not_written() {
        let words = writing("codes = { F = 'female', none = '' }");
        assert_eq!(words.write(Form::Text, &json!("female")).as_deref(), Ok("F"));
        assert_eq!(words.write(Form::Text, &json!("other")).as_deref(), Ok("other"), "an import rejects it");
        let code = writing("system = 'urn:x'\ncodes = { a = 'urn:x|a' }");
        assert_eq!(code.write(Form::Code, &json!("urn:x#a")).as_deref(), Ok("a"));
        for text in ["F", "none"] {
            let refused = words.write(Form::Text, &json!(text)).unwrap_err();
            assert!(refused.contains("`codes`"), "{refused}");
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
