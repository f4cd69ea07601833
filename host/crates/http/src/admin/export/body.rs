//! A record as a line: the body of a create, by the writers of single calls.

use serde_json::{Map, Value};

use crate::api::dto::group::ShownEntity;
use crate::api::dto::{consent, group, individual, program, program_membership};
use daftar_domain::calendar::utc_day;
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::field::FieldSet;
use daftar_service::bulk::export::Exported;
use daftar_service::codes::CodeView;
use daftar_service::consent::ConsentView;
use daftar_service::individual::Beside;
use daftar_service::program_membership::MembershipView;

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
    ctx: &OpContext,
    view: &CodeView,
    exported: &Exported,
    (codes, meta): (Codes, Meta),
    out: &mut Vec<u8>,
) -> Result<(), AppError> {
    let mut value = body(ctx, view, exported).map_err(|error| AppError::Internal(error.into()))?;
    if let Value::Object(members) = &mut value {
        members.remove("quantity");
        members.remove("group_membership");
        if meta == Meta::LeftOut {
            members.remove("meta");
        }
    }
    if codes == Codes::Uri {
        to_uris(&mut value);
    }
    serde_json::to_writer(&mut *out, &value).map_err(|error| AppError::Internal(error.into()))?;
    out.push(b'\n');
    Ok(())
}

fn body(ctx: &OpContext, view: &CodeView, exported: &Exported) -> serde_json::Result<Value> {
    let show = |value| view.show(value);
    let fields = view.extension_fields();
    match exported {
        Exported::Individual(person, photo) => {
            let beside = Beside { photo: photo.clone(), places: None };
            serde_json::to_value(individual::write(person, (&FieldSet::All, &beside), fields, &show))
        }
        Exported::Group(record, people, groups) => {
            let entity =
                |reference: Option<&String>| Some(ShownEntity { reference: reference?.clone(), display: None });
            let details = &record.details;
            let quantity = details.members.as_ref().map(|_| details.active_members(utc_day(ctx.now)).count());
            serde_json::to_value(group::write(
                (&**record, &FieldSet::All),
                quantity,
                fields,
                &show,
                &|id| entity(people.get(&id)),
                &|id| entity(groups.get(&id)),
            ))
        }
        Exported::Program(record) => serde_json::to_value(program::write(record, &FieldSet::All)),
        Exported::ProgramMembership(record, program, beneficiary) => {
            let (membership, fields) = (std::sync::Arc::clone(record), FieldSet::All);
            let (program, beneficiary) = (program.clone(), beneficiary.clone());
            serde_json::to_value(program_membership::write(&MembershipView {
                membership,
                program,
                beneficiary,
                fields,
            }))
        }
        Exported::Consent(record, subject, status) => {
            let (consent, subject, fields) = (std::sync::Arc::clone(record), subject.clone(), FieldSet::All);
            serde_json::to_value(consent::write(&ConsentView { consent, subject, status: *status, fields }))
        }
    }
}

/// Puts the URI of a code in the place of its object.
fn to_uris(value: &mut Value) {
    match value {
        Value::Object(members) => match uri_of(members) {
            Some(uri) => *value = Value::String(uri),
            None => members.values_mut().for_each(to_uris),
        },
        Value::Array(items) => items.iter_mut().for_each(to_uris),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Only coded values have exactly these members.
fn uri_of(members: &Map<String, Value>) -> Option<String> {
    let is_code = members.len() == 4 && ["code", "display", "namespace"].iter().all(|name| members.contains_key(*name));
    members.get("uri").and_then(Value::as_str).filter(|_| is_code).map(str::to_owned)
}
