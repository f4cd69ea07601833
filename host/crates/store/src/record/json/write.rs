//! Writes stored JSON.

use std::io::Write as _;

use jiff::civil::Date;

use daftar_domain::calendar::{Period, format_instant};
use daftar_domain::code::CodedValue;
use daftar_domain::extension::{ExtensionContent, ExtensionValue};
use daftar_domain::hexadecimal;
use daftar_domain::identifier::Identifier;
use daftar_domain::record::{Fields, Record, RecordMeta, RecordType};
use daftar_domain::schema::{self, Field, Kind};
use daftar_domain::value::{Value, Values};

use super::read::members;
use super::{CodeNames, EXTENSION, IDENTIFIER, MEMBERS, META, REVISION, UNKNOWN};
use crate::StoreError;
use crate::record::fields::{Fault, Problem, called};
use crate::record::instant;

/// As [`super::encode`], for a known type, without the size limit.
///
/// # Errors
/// [`StoreError::Corrupt`] if a value does not match its field.
pub fn encode_one<T: RecordType>(record: &Record<Fields<T>>, names: &CodeNames) -> Result<Vec<u8>, StoreError> {
    let details = &record.details;
    let mut writer = Writer::new(names);
    let written = writer.record(&record.meta, schema::fields(T::KIND), details);
    written.map_err(|fault| StoreError::Corrupt {
        what: called(T::KIND),
        reason: format!("it cannot be written: {}", fault.sentence()),
    })?;
    Ok(writer.to)
}

/// Writes JSON.
struct Writer<'n> {
    to: Vec<u8>,
    names: &'n CodeNames,
}

/// Returns an object with these members.
pub(super) fn object(members: &[(&str, &str)]) -> Vec<u8> {
    let mut writer = Writer::new(const { &CodeNames::new() });
    writer.to.push(b'{');
    writer.raw(members);
    writer.to.push(b'}');
    writer.to
}

impl<'n> Writer<'n> {
    fn new(names: &'n CodeNames) -> Self {
        Self { to: Vec::with_capacity(1024), names }
    }

    fn raw(&mut self, members: &[(&str, &str)]) {
        for (name, value) in members {
            self.name(name);
            self.to.extend_from_slice(value.as_bytes());
        }
    }

    fn record<T>(&mut self, meta: &RecordMeta, fields: &'static [Field], details: &Fields<T>) -> Result<(), Fault> {
        self.to.push(b'{');
        self.name(META);
        self.to.push(b'{');
        self.name("version_id");
        self.print(format_args!("{}", meta.version.0));
        self.name("last_updated");
        self.string(&format_instant(instant::as_stored(meta.last_updated)));
        if let Some(source) = &meta.source {
            self.name("source");
            self.string(source.as_str());
        }
        self.to.push(b'}');
        let revision = details.values.later_revision().unwrap_or_default().max(schema::REVISION);
        if revision > 1 {
            self.name(REVISION);
            self.print(format_args!("{revision}"));
        }
        if !details.identifiers.is_empty() {
            self.name(IDENTIFIER);
            self.array(&details.identifiers, |writer, identifier| {
                writer.identifier(identifier);
                Ok(())
            })?;
        }
        self.members(fields, &details.values)?;
        if !details.extension.is_empty() {
            self.name(EXTENSION);
            self.to.push(b'{');
            for (path, content) in details.extension.iter() {
                self.name(path.as_str());
                match content {
                    ExtensionContent::One(value) => self.extension_value(value)?,
                    ExtensionContent::Many(values) => self.array(values, Self::extension_value)?,
                }
            }
            self.to.push(b'}');
        }
        self.to.push(b'}');
        Ok(())
    }

    /// Writes the name of the next member of the current object.
    fn name(&mut self, name: &str) {
        if self.to.last() != Some(&b'{') {
            self.to.push(b',');
        }
        self.string(name);
        self.to.push(b':');
    }

    fn array<V>(&mut self, values: &[V], mut put: impl FnMut(&mut Self, &V) -> Result<(), Fault>) -> Result<(), Fault> {
        self.to.push(b'[');
        for (at, value) in values.iter().enumerate() {
            if at > 0 {
                self.to.push(b',');
            }
            put(self, value)?;
        }
        self.to.push(b']');
        Ok(())
    }

    fn print(&mut self, what: std::fmt::Arguments<'_>) {
        // Writing to memory cannot fail.
        let _written = self.to.write_fmt(what);
    }

    /// Writes a string without U+0000.
    fn string(&mut self, text: &str) {
        let _written = serde_json::to_writer(&mut self.to, text);
    }

    fn text(&mut self, text: &str) {
        if text.contains('\0') {
            self.to.push(b'{');
            self.name("utf8");
            self.digits(text.as_bytes());
            self.to.push(b'}');
        } else {
            self.string(text);
        }
    }

    fn digits(&mut self, bytes: &[u8]) {
        self.string(&hexadecimal::encode(bytes));
    }

    fn real(&mut self, number: f64) -> Result<(), Fault> {
        if !number.is_finite() {
            return Err(Fault::invalid());
        }
        if number == 0.0 && number.is_sign_negative() {
            self.string("-0");
        } else {
            let _written = serde_json::to_writer(&mut self.to, &number);
        }
        Ok(())
    }

    fn day(&mut self, day: Date) {
        self.print(format_args!("\"{day}\""));
    }

    fn code(&mut self, code: CodedValue) {
        let names = self.names;
        self.to.push(b'{');
        if let Some(uri) = names.uri(code.number) {
            self.name("uri");
            self.string(uri);
        }
        self.name("number");
        self.print(format_args!("{}", code.number.0));
        if let Some(edition) = names.edition(code.edition) {
            self.name("edition");
            self.text(edition);
        }
        self.name("edition_number");
        self.print(format_args!("{}", code.edition.0));
        self.to.push(b'}');
    }

    fn identifier(&mut self, Identifier { key, period }: &Identifier) {
        self.to.push(b'{');
        self.name("system");
        self.text(key.system.as_str());
        self.name("value");
        self.text(key.value.as_str());
        if let Some(Period { start, end }) = period {
            self.name("period");
            self.to.push(b'{');
            for (name, day) in [("start", start), ("end", end)] {
                if let Some(day) = day {
                    self.name(name);
                    self.day(*day);
                }
            }
            self.to.push(b'}');
        }
        self.to.push(b'}');
    }

    /// Writes the members of the current object.
    fn members(&mut self, fields: &'static [Field], values: &Values) -> Result<(), Fault> {
        let mut unknown = Vec::new();
        for (tag, value) in values.iter() {
            match (value, schema::row(fields, tag)) {
                (Value::Later(later), _) if tag == MEMBERS => {
                    let later = str::from_utf8(&later.bytes).ok().and_then(members);
                    self.raw(&later.ok_or_else(Fault::invalid)?);
                }
                (Value::Later(later), _) => unknown.push((tag, later)),
                (_, Some(field)) => {
                    self.name(field.name);
                    self.value(&field.kind, value).map_err(|fault| fault.within(field.name))?;
                }
                (_, None) => return Err(Fault::new(Problem::Unknown(tag))),
            }
        }
        if !unknown.is_empty() {
            self.name(UNKNOWN);
            self.to.push(b'{');
            for (tag, later) in unknown {
                self.name(&tag.to_string());
                self.digits(&later.bytes);
            }
            self.to.push(b'}');
        }
        Ok(())
    }

    fn value(&mut self, kind: &'static Kind, value: &Value) -> Result<(), Fault> {
        match (kind, value) {
            (Kind::Boolean, Value::Boolean(value)) => self.print(format_args!("{value}")),
            (Kind::Integer | Kind::Count, Value::Integer(value)) => self.print(format_args!("{value}")),
            (Kind::Number | Kind::Amount, Value::Number(value)) => return self.real(*value),
            (Kind::Text(_) | Kind::Organization | Kind::Expression | Kind::FieldName, Value::Text(text)) => {
                self.text(text);
            }
            (Kind::Date, Value::Date(day)) => self.day(*day),
            (Kind::Word(words), Value::Word(place)) => {
                self.string(words.get(usize::from(*place)).ok_or_else(Fault::invalid)?);
            }
            (Kind::Code(_) | Kind::ModuleCode, Value::Code(code)) => self.code(*code),
            (Kind::Reference(kinds), Value::Reference(reference)) if kinds.contains(&reference.kind) => {
                let (kind, id) = (reference.kind.resource().name(), reference.id.0);
                self.print(format_args!("{{\"kind\":\"{kind}\",\"id\":{id}}}"));
            }
            (Kind::ConsentId, Value::ConsentId(id)) => self.print(format_args!("\"{id}\"")),
            (Kind::Photo, Value::Photo(photo)) => {
                let (digest, length) = (hexadecimal::encode(&photo.digest.0), photo.length);
                self.print(format_args!("{{\"digest\":\"{digest}\",\"length\":{length}}}"));
            }
            (Kind::List { of, .. }, Value::List(items)) => {
                return self.array(items, |writer, item| writer.value(of, item));
            }
            (Kind::Struct(part), Value::Struct(values)) => {
                self.to.push(b'{');
                self.members(part.fields, values)?;
                self.to.push(b'}');
            }
            // A value that does not match its field.
            _ => return Err(Fault::invalid()),
        }
        Ok(())
    }

    fn extension_value(&mut self, value: &ExtensionValue) -> Result<(), Fault> {
        self.to.push(b'{');
        self.name("type");
        self.string(value.kind().name());
        self.name("value");
        match value {
            ExtensionValue::Boolean(value) => self.print(format_args!("{value}")),
            ExtensionValue::Integer(value) => self.print(format_args!("{value}")),
            ExtensionValue::Number(value) => self.real(*value).map_err(|fault| fault.within(EXTENSION))?,
            ExtensionValue::Text(value) => self.text(value),
            ExtensionValue::Date(value) => self.day(*value),
            ExtensionValue::Code(value) => self.code(*value),
        }
        self.to.push(b'}');
        Ok(())
    }
}
