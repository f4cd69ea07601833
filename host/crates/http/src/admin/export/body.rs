//! A record as a line: the body of a create, by the writer of single calls.

use crate::api::dto::record::{self, RecordBody, ShownCode, ShownRecord, Shows};
use daftar_domain::code::CodedValue;
use daftar_domain::error::AppError;
use daftar_domain::extension::ExtensionFields;
use daftar_domain::field::FieldSet;
use daftar_domain::record::RecordKind;
use daftar_domain::value::Reference;
use daftar_service::bulk::export::Exported;
use daftar_service::codes::CodeView;

/// How codes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codes {
    /// As URIs.
    Uri,
    /// As the objects of answers, with what they are called.
    Object,
}

impl Codes {
    /// The names in requests.
    pub const NAMES: [(&'static str, Self); 2] = [("uri", Self::Uri), ("object", Self::Object)];
}

/// Whether a line says at which version its record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meta {
    /// It does: who imports it replaces that version alone.
    Kept,
    /// It does not.
    LeftOut,
}

/// Writes a line.
///
/// # Errors
/// When it cannot be written, which is a defect.
pub fn write(
    view: &CodeView,
    exported: &Exported,
    (codes, meta): (Codes, Meta),
    out: &mut Vec<u8>,
) -> Result<(), AppError> {
    let shows = ExportedNames { view, exported, codes };
    let body = body(exported, &shows);
    let body = match meta {
        Meta::Kept => body,
        Meta::LeftOut => body.without_meta(),
    };
    serde_json::to_writer(&mut *out, &body).map_err(|error| AppError::Internal(error.into()))?;
    out.push(b'\n');
    Ok(())
}

fn body<'a>(exported: &'a Exported, shows: &'a ExportedNames<'a>) -> RecordBody<'a> {
    let all = &FieldSet::All;
    match exported {
        Exported::Individual(person, photo, _) => RecordBody::new(person, all, shows).with_photo(photo.as_deref()),
        Exported::Group(group, _, _) => RecordBody::new(group, all, shows),
        Exported::Program(program) => record::program(program, all),
        Exported::ProgramMembership(membership, _, _) => record::membership_of(membership, all, shows),
        Exported::Consent(consent, _, status) => record::consent_of(consent, *status, (all, shows)),
    }
}

/// Shows what an exported record names.
struct ExportedNames<'a> {
    view: &'a CodeView,
    exported: &'a Exported,
    codes: Codes,
}

impl Shows for ExportedNames<'_> {
    fn code(&self, code: CodedValue) -> Option<ShownCode> {
        match self.codes {
            Codes::Object => self.view.code(code),
            Codes::Uri => Some(ShownCode::Uri(self.view.show(code).uri)),
        }
    }

    fn record(&self, reference: &Reference) -> Option<ShownRecord<'_>> {
        let named = match self.exported {
            Exported::Program(_) => None,
            Exported::Individual(_, _, people) => people.get(&reference.id),
            Exported::Group(_, people, _) if reference.kind == RecordKind::Individual => people.get(&reference.id),
            Exported::Group(_, _, groups) => groups.get(&reference.id),
            Exported::ProgramMembership(_, program, _) if reference.kind == RecordKind::Program => Some(program),
            Exported::ProgramMembership(_, _, beneficiary) => Some(beneficiary),
            Exported::Consent(_, subject, _) => Some(subject),
        };
        named.map(|reference| reference.as_str().into())
    }

    fn declared(&self) -> Option<&ExtensionFields> {
        self.view.declared()
    }
}
