//! Reads the body of an individual.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};

use super::{INCOME_PERIODS, TELECOM_SYSTEMS};
use crate::api::dto::reader::{ObjectReader, Problems, code_value, kind};
use crate::api::dto::shared::{read_identifiers, read_type};
use crate::api::dto::{address, extension};
use daftar_domain::code::CodeUri;
use daftar_domain::error::AppError;
use daftar_domain::extension::ExtensionFields;
use daftar_domain::field::FieldSet;
use daftar_domain::individual::{Income, IndividualDetails, LIST_ITEMS_MAX, TEXT_BYTES_MAX, Telecom};
use daftar_domain::person_name::{NAME_PART_BYTES_MAX, PersonName};
use daftar_domain::photo::{Photo, PhotoError};
use daftar_domain::record::RecordKind;
use daftar_domain::vocabulary::CodedField;
use daftar_service::individual::IndividualDraft;
use daftar_service::photo;

/// Whether a body must name the person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identification {
    /// It is to be stored.
    Required,
    /// It is only looked at, as an inline record of a rule.
    Optional,
}

/// Reads a body into a person whose codes are not checked yet; leaves the members it does not know in `reader`.
pub fn read_members(
    reader: &mut ObjectReader,
    identification: Identification,
    fields: &ExtensionFields,
    problems: &mut Problems,
) -> IndividualDraft {
    read_type(reader, RecordKind::Individual, problems);
    let mut details = IndividualDetails {
        identifiers: read_identifiers(reader, identification == Identification::Required, problems),
        active: reader.boolean("active", problems),
        name: reader.object("name", problems).map(|name| read_name(name, problems)),
        birth_date: reader.date("birth_date", problems),
        birth_date_estimated: reader.boolean("birth_date_estimated", problems),
        deceased_date: reader.date("deceased_date", problems),
        codes: Vec::new(),
        code_lists: Vec::new(),
        telecom: read_telecoms(reader, problems),
        address: address::read(reader, problems),
        income: read_income(reader, problems),
        photo: None,
        extension: extension::read(reader, fields, problems),
    };
    for field in CodedField::individual_singles() {
        details.codes.extend(reader.code(field.path(), problems).map(|code| (field, code)));
    }
    for field in CodedField::individual_lists() {
        let Some(items) = reader.list(field.path(), LIST_ITEMS_MAX, problems) else { continue };
        let codes = items.into_iter().filter_map(|(path, item)| code_value(&path, item, problems)).collect();
        details.code_lists.push((field, codes));
    }
    if let (Some(birth), Some(death)) = (details.birth_date, details.deceased_date)
        && death < birth
    {
        problems.add(reader.path_of("deceased_date"), "invalid_date", "the day of death lies before the day of birth");
    }
    let photo = read_photo(reader, problems);
    details.photo = photo.as_ref().map(Photo::reference);
    // Members that the server writes may be sent back as they were received.
    for read_only in ["meta", "group_membership"] {
        reader.take(read_only);
    }
    IndividualDraft { details, photo }
}

/// Reads the whole body of an individual.
pub fn read(members: Map<String, Value>, fields: &ExtensionFields, problems: &mut Problems) -> IndividualDraft {
    let mut reader = ObjectReader::root(members);
    let draft = read_members(&mut reader, Identification::Required, fields, problems);
    reader.finish(problems);
    draft
}

/// A photo in base64 (RFC 4648 §4, with padding), as it is: what it shows is for those who look at it.
fn read_photo(reader: &mut ObjectReader, problems: &mut Problems) -> Option<Photo> {
    let path = reader.path_of("photo");
    let text = match reader.take("photo")? {
        Value::String(text) => text,
        other => {
            problems.add(path, "wrong_type", format!("base64 as a text is needed, not {}", kind(&other)));
            return None;
        }
    };
    let Ok(bytes) = BASE64.decode(text.as_bytes()) else {
        let message = if text.starts_with("data:") {
            "only the base64 is sent, without `data:` and the media type before it"
        } else {
            "the text is not base64 (RFC 4648 §4: letters, digits, `+`, `/`, and `=` to fill up, without line breaks)"
        };
        problems.add(path, "invalid_base64", message);
        return None;
    };
    match photo::of(bytes) {
        Ok(photo) => Some(photo),
        Err(error) => {
            let code = match error {
                PhotoError::Empty => "empty",
                PhotoError::TooLarge(_) => "too_long",
            };
            problems.add(path, code, error.to_string());
            None
        }
    }
}

/// Reads the members of a patch that the client may not see by themselves: whether they are right does not depend on what they
/// will be merged with.
///
/// # Errors
/// [`AppError::Invalid`] with every problem.
pub fn check_unseen(patch: &Map<String, Value>, seen: &FieldSet, fields: &ExtensionFields) -> Result<(), AppError> {
    let unseen = patch.iter().filter(|(name, _)| !seen.allows(name));
    let mut reader = ObjectReader::root(unseen.map(|(name, value)| (name.clone(), value.clone())).collect());
    let mut problems = Problems::default();
    read_members(&mut reader, Identification::Optional, fields, &mut problems);
    problems.finish(())
}

fn read_name(mut reader: ObjectReader, problems: &mut Problems) -> PersonName {
    let name = PersonName {
        family: reader.text("family", NAME_PART_BYTES_MAX, problems),
        given: reader.text("given", NAME_PART_BYTES_MAX, problems),
        middle: reader.text("middle", NAME_PART_BYTES_MAX, problems),
        prefix: reader.text("prefix", NAME_PART_BYTES_MAX, problems),
        suffix: reader.text("suffix", NAME_PART_BYTES_MAX, problems),
        text: reader.text("text", NAME_PART_BYTES_MAX, problems),
    };
    reader.finish(problems);
    name
}

fn read_telecoms(reader: &mut ObjectReader, problems: &mut Problems) -> Option<Vec<Telecom>> {
    let items = reader.list("telecom", LIST_ITEMS_MAX, problems)?;
    let mut telecoms = Vec::with_capacity(items.len());
    for (path, item) in items {
        let mut item = ObjectReader::at(path.clone(), item, problems);
        let system = item.word("system", TELECOM_SYSTEMS, problems);
        let value = item.text("value", TEXT_BYTES_MAX, problems);
        let usage = item.text("use", 100, problems);
        let rank = item.count("rank", problems);
        for (name, is_given) in [("system", system.is_some()), ("value", value.is_some())] {
            if !is_given && !item.is_problem(name, problems) {
                problems.add(item.path_of(name), "required", "a telecom has a system and a value");
            }
        }
        item.finish(problems);
        if let (Some(system), Some(value)) = (system, value) {
            telecoms.push(Telecom { system, value, usage, rank });
        }
    }
    Some(telecoms)
}

fn read_income(reader: &mut ObjectReader, problems: &mut Problems) -> Option<Income<CodeUri>> {
    let mut income = reader.object("income", problems)?;
    let amount = income.amount("amount", problems);
    if amount.is_none() && !income.is_problem("amount", problems) {
        problems.add(income.path_of("amount"), "required", "an income has an amount");
    }
    let currency = income.code("currency", problems);
    let period = income.word("period", INCOME_PERIODS, problems);
    income.finish(problems);
    Some(Income { amount: amount?, currency, period })
}
