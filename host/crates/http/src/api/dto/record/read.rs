//! Reads bodies of records: first by the rows of the schema, then by the rules about several fields.

use serde_json::{Map, Value as Json};

use crate::api::dto::extension;
use crate::api::dto::field::{Level, Reading, SentCode, SentKey, read_fields};
use crate::api::dto::reader::{ObjectReader, Problems};
use crate::api::dto::record::{read_identifiers, read_type};
use daftar_domain::code::CodeUri;
use daftar_domain::consent::{
    CONSENT_ID, CONSENT_RESOURCES, ConsentId, EFFECTIVE_DATE, EXPIRY_DATE, FIELD_NAMES, LEGAL_BASIS, SCOPES, SUBJECT,
};
use daftar_domain::error::AppError;
use daftar_domain::extension::{EXTENSION, Extension, ExtensionFields};
use daftar_domain::field::{FieldSet, computed, fields_of};
use daftar_domain::group::GroupDetails;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::individual::{BIRTH_DATE, DECEASED_DATE};
use daftar_domain::organization::LegalBasis;
use daftar_domain::photo::Photo;
use daftar_domain::program::ProgramDetails;
use daftar_domain::program_membership::{HAS_NO_IDENTIFIER, MembershipStatus, STATUS};
use daftar_domain::record::{Fields, RecordKind, RecordType};
use daftar_domain::schema;
use daftar_domain::scope::Resource;
use daftar_domain::value::Key;
use daftar_service::consent::ConsentDraft;
use daftar_service::group::GroupDraft;
use daftar_service::individual::IndividualDraft;
use daftar_service::program_membership::MembershipDraft;

/// Requirement of an identifier in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identification {
    /// The record is stored under it.
    Required,
    /// The record is inline in a rule, or is stored without one.
    Optional,
}

/// Purpose of the body of a membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A membership without a status is a draft.
    Create,
    /// The status is required: its omission must not reset a beneficiary to `draft`.
    Replace,
}

/// Reads a record whose codes and references are not checked yet, with its photo; leaves unknown members in `reader`.
fn read_record<T: RecordType, C: SentCode, I: SentKey>(
    reader: &mut ObjectReader,
    identification: Identification,
    declared: &ExtensionFields,
    problems: &mut Problems,
) -> (Fields<T, C, I>, Option<Photo>) {
    let names = fields_of(T::KIND.resource());
    read_type(reader, T::KIND, problems);
    let identifiers = match names.contains(&"identifier") {
        true => read_identifiers(reader, identification == Identification::Required, problems),
        false => Vec::new(),
    };
    let mut reading = Reading { problems, photo: None };
    let values = read_fields(reader, schema::fields(T::KIND).iter(), Level::Record, &mut reading);
    let Reading { problems, photo } = reading;
    let extension = match names.contains(&EXTENSION) {
        true => extension::read(reader, declared, problems),
        false => Extension::default(),
    };
    // Members that the server writes may be sent back unchanged. A consent is given once, and never sent back.
    if T::KIND != RecordKind::Consent {
        reader.take("meta");
        if let Some(name) = computed(T::KIND) {
            reader.take(name);
        }
    }
    (Fields::new(identifiers, values, extension), photo)
}

/// The path of a field of a kind of record.
fn path_of<V>(reader: &ObjectReader, kind: RecordKind, key: Key<V>) -> String {
    let row = schema::row(schema::fields(kind), key.tag());
    reader.path_of(row.map_or("", |row| row.name))
}

/// Reads the fields of an individual; leaves unknown members in `reader`.
pub fn read_individual_fields(
    reader: &mut ObjectReader,
    identification: Identification,
    declared: &ExtensionFields,
    problems: &mut Problems,
) -> IndividualDraft {
    let (details, photo) = read_record(reader, identification, declared, problems);
    let draft = IndividualDraft { details, photo };
    if let (Some(birth), Some(death)) = (draft.details.get(BIRTH_DATE), draft.details.get(DECEASED_DATE))
        && death < birth
    {
        let path = path_of(reader, RecordKind::Individual, DECEASED_DATE);
        problems.add(path, "invalid_date", "the day of death must not be before the day of birth");
    }
    draft
}

/// Reads the body of an individual.
pub fn read_individual(
    members: Map<String, Json>,
    declared: &ExtensionFields,
    problems: &mut Problems,
) -> IndividualDraft {
    let mut reader = ObjectReader::root(members);
    let draft = read_individual_fields(&mut reader, Identification::Required, declared, problems);
    reader.finish(problems);
    draft
}

/// Checks the members of an individual's patch that the client may not see: their validity must not depend on the
/// values that they are merged with.
///
/// # Errors
/// [`AppError::Invalid`] with every problem.
pub fn check_unseen(patch: &Map<String, Json>, seen: &FieldSet, declared: &ExtensionFields) -> Result<(), AppError> {
    let unseen = patch.iter().filter(|(name, _)| !seen.allows(name));
    let mut reader = ObjectReader::root(unseen.map(|(name, value)| (name.clone(), value.clone())).collect());
    let mut problems = Problems::default();
    read_individual_fields(&mut reader, Identification::Optional, declared, &mut problems);
    problems.finish(())
}

/// Reads the fields of a group; leaves unknown members in `reader`.
pub fn read_group_fields(
    reader: &mut ObjectReader,
    identification: Identification,
    declared: &ExtensionFields,
    problems: &mut Problems,
) -> GroupDetails<CodeUri, IdentifierKey> {
    read_record(reader, identification, declared, problems).0
}

/// Reads the body of a group.
pub fn read_group(members: Map<String, Json>, declared: &ExtensionFields, problems: &mut Problems) -> GroupDraft {
    let mut reader = ObjectReader::root(members);
    let details = read_group_fields(&mut reader, Identification::Required, declared, problems);
    reader.finish(problems);
    details.into()
}

/// Reads the body of a program, whose expression is not checked yet.
pub fn read_program(members: Map<String, Json>, problems: &mut Problems) -> ProgramDetails {
    let mut reader = ObjectReader::root(members);
    let (details, _) = read_record(&mut reader, Identification::Required, &ExtensionFields::default(), problems);
    reader.finish(problems);
    details
}

/// Reads the body of a membership.
pub fn read_membership(members: Map<String, Json>, purpose: Purpose, problems: &mut Problems) -> MembershipDraft {
    let has_no_identifier = members.get("identifier").and_then(Json::as_array).is_some_and(Vec::is_empty);
    let mut reader = ObjectReader::root(members);
    let (details, _) = read_record(&mut reader, Identification::Optional, &ExtensionFields::default(), problems);
    let mut draft: MembershipDraft = details;
    draft.set(HAS_NO_IDENTIFIER, has_no_identifier.then_some(true));
    if !draft.has(STATUS) {
        let path = path_of(&reader, RecordKind::ProgramMembership, STATUS);
        if purpose == Purpose::Replace && !reader.is_problem(&path, problems) {
            problems.add(path, "required", "the status is required, such as `enrolled`");
        }
        draft.set(STATUS, Some(MembershipStatus::Draft));
    }
    reader.finish(problems);
    draft
}

/// Reads the body of a consent with that id.
pub fn read_consent(id: ConsentId, members: Map<String, Json>, problems: &mut Problems) -> ConsentDraft {
    let mut reader = ObjectReader::root(members);
    let (details, _) = read_record(&mut reader, Identification::Optional, &ExtensionFields::default(), problems);
    let mut draft: ConsentDraft = details;
    draft.set(CONSENT_ID, Some(id));
    if !draft.has(LEGAL_BASIS) {
        draft.set(LEGAL_BASIS, Some(LegalBasis::Consent));
    }
    if let (Some(first), Some(last)) = (draft.get(EFFECTIVE_DATE), draft.get(EXPIRY_DATE))
        && last < first
    {
        let path = path_of(&reader, RecordKind::Consent, EXPIRY_DATE);
        problems.add(path, "invalid_date", "the last day must not be before the first day, `effective_date`");
    }
    check_scopes(&reader, &draft, problems);
    let path = path_of(&reader, RecordKind::Consent, FIELD_NAMES);
    if draft.get(FIELD_NAMES).is_some_and(<[_]>::is_empty) && !reader.is_problem_within(&path, problems) {
        problems.add(path, "required", "name at least one field, or leave `fields` out to mean all of them");
    }
    reader.finish(problems);
    draft
}

/// Checks that a consent grants access to something, including data of its subject.
fn check_scopes(reader: &ObjectReader, draft: &ConsentDraft, problems: &mut Problems) {
    let path = path_of(reader, RecordKind::Consent, SCOPES);
    let resources: Vec<Resource> = draft.resources().collect();
    if resources.is_empty() {
        if !reader.is_problem_within(&path, problems) {
            let names = CONSENT_RESOURCES.map(|resource| format!("`{}`", resource.name())).join(", ");
            problems.add(path, "required", format!("the scopes of the consent are required, at least one of {names}"));
        }
        return;
    }
    let Some(own) = draft.get(SUBJECT).map(|subject| subject.kind.resource()) else { return };
    if !resources.iter().any(|resource| [own, Resource::ProgramMembership].contains(resource)) {
        let own = own.name();
        let message = format!("the consent of a subject of type `{own}` opens `{own}`, `program_membership` or both");
        problems.add(path, "contradiction", message);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use daftar_domain::group::{ADDRESS, MEMBER, MEMBER_INACTIVE};

    fn group(body: Json) -> Result<GroupDraft, Vec<(String, &'static str)>> {
        let Json::Object(members) = body else { unreachable!() };
        let mut problems = Problems::default();
        let draft = read_group(members, &ExtensionFields::default(), &mut problems);
        match problems.finish(draft) {
            Ok(draft) => Ok(draft),
            Err(AppError::Invalid(found)) => {
                Err(found.into_iter().map(|problem| (problem.field, problem.code)).collect())
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_flag_that_is_false_is_not_recorded_and_an_empty_list_is() {
        let member = |inactive: bool| json!({"entity": {"reference": "Individual/urn:x:y|1"}, "inactive": inactive});
        let draft = group(json!({
            "identifier": [{"system": "urn:x:y", "value": "1"}], "member": [member(false), member(true)], "address": [],
            "quantity": 2, "meta": {},
        }));
        let details = draft.unwrap().details;
        let recorded: Vec<_> = details
            .get(MEMBER)
            .unwrap()
            .iter()
            .map(|member| match member {
                daftar_domain::value::Value::Struct(values) => values.get(MEMBER_INACTIVE),
                _ => unreachable!(),
            })
            .collect();
        assert_eq!(recorded, [None, Some(true)]);
        assert!(details.get(ADDRESS).unwrap().is_empty());
    }

    #[test]
    fn every_problem_of_every_part_has_its_path() {
        let found = group(json!({
            "name": 1,
            "member": [{"entity": {"display": "x"}, "period": {"start": "2024-01-02", "end": "2024-01-01"}}, "x"],
            "relationship": [{"target": "Group/urn:x:y|1"}],
            "address": [{"country": 1, "lin": []}],
        }));
        let expected = [
            ("identifier", "required"),
            ("name", "wrong_type"),
            ("member[0].entity.reference", "required"),
            ("member[0].period.end", "invalid_period"),
            ("member[1]", "wrong_type"),
            ("member[1].entity", "required"),
            ("relationship[0].target", "wrong_type"),
            ("relationship[0].type", "required"),
            ("address[0].country", "wrong_type"),
            ("address[0].lin", "unknown_field"),
        ];
        assert_eq!(found.unwrap_err(), expected.map(|(field, code)| (field.to_owned(), code)));
    }
}
