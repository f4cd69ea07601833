//! Which fields a write speaks for, and what becomes of the others: a field that the client may not write stays as it is.
//!
//! **Invariant:** what stays is put back after everything else was checked, so that no refusal tells what it says.

use std::collections::BTreeMap;

use super::visibility;
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, FieldUse};
use daftar_domain::extension::{EXTENSION, Extension};
use daftar_domain::field::{FieldName, FieldSet, field_of_path};
use daftar_domain::group::GroupDetails;
use daftar_domain::identifier::Identifier;
use daftar_domain::individual::IndividualDetails;
use daftar_domain::scope::{Action, Resource};
use daftar_domain::vocabulary::CodedField;

/// Fields that the server writes: a body may send them back, and they are not read.
const READ_ONLY: [&str; 2] = ["quantity", "group_membership"];

/// What the body of a change speaks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spoken {
    /// The whole record, as far as the client may write it; what is not among these fields is taken out.
    Whole(FieldSet),
    /// These fields alone.
    Named(FieldSet),
}

/// The fields of a resource among the members of a body; what is no field is refused where the body is read.
#[must_use]
pub fn named<'a>(resource: Resource, members: impl IntoIterator<Item = &'a str>) -> FieldSet {
    let written = members.into_iter().filter(|name| !READ_ONLY.contains(name));
    FieldSet::only(written.filter_map(|name| FieldName::parse(resource, name).ok()))
}

/// Checks that the client may write each of these fields.
///
/// # Errors
/// [`AppError::FieldNotGranted`] with the first that it may not write.
pub fn check(writable: &FieldSet, resource: Resource, named: &FieldSet) -> Result<(), AppError> {
    let FieldSet::Only(names) = named else { return Ok(()) };
    match names.iter().find(|name| !writable.allows(name.as_str())) {
        Some(name) => {
            let field = name.to_string();
            Err(AppError::FieldNotGranted { resource, field, usage: FieldUse::Write })
        }
        None => Ok(()),
    }
}

/// Checks that the client may give a new record these fields.
///
/// # Errors
/// [`AppError::FieldNotGranted`].
pub fn check_new(ctx: &OpContext, resource: Resource, named: &FieldSet) -> Result<(), AppError> {
    check(&ctx.fields(resource, Action::Create), resource, named)
}

/// The fields that a change writes of a record of which the client sees some, once it is known that it may: of a whole record
/// all that it may write.
///
/// # Errors
/// [`AppError::FieldNotGranted`].
pub fn of_change(ctx: &OpContext, resource: Resource, seen: &FieldSet, spoken: &Spoken) -> Result<FieldSet, AppError> {
    let writable = visibility::changeable(ctx, resource, seen);
    match spoken {
        Spoken::Whole(named) => check(&writable, resource, named).map(|()| writable),
        Spoken::Named(named) => check(&writable, resource, named).map(|()| named.clone()),
    }
}

/// Checks that identifiers stay as they are, unless the client may write them: to address a record is not to rename it.
///
/// # Errors
/// [`AppError::FieldNotGranted`].
pub fn check_identifiers(
    ctx: &OpContext,
    resource: Resource,
    before: &[Identifier],
    now: &[Identifier],
) -> Result<(), AppError> {
    let is_same = before.len() == now.len() && before.iter().all(|identifier| now.contains(identifier));
    if is_same || ctx.fields(resource, Action::Update).names("identifier") {
        return Ok(());
    }
    Err(AppError::FieldNotGranted { resource, field: "identifier".to_owned(), usage: FieldUse::Write })
}

/// The fields that a new person would have.
#[must_use]
pub fn of_individual<C>(draft: &IndividualDetails<C>) -> FieldSet {
    let IndividualDetails {
        identifiers: _,
        active,
        name,
        birth_date,
        birth_date_estimated,
        deceased_date,
        codes,
        code_lists,
        telecom,
        address,
        income,
        photo,
        extension,
    } = draft;
    let singles = [
        ("active", active.is_some()),
        ("name", name.is_some()),
        ("birth_date", birth_date.is_some()),
        ("birth_date_estimated", birth_date_estimated.is_some()),
        ("deceased_date", deceased_date.is_some()),
        ("telecom", telecom.is_some()),
        ("address", address.is_some()),
        ("income", income.is_some()),
        ("photo", photo.is_some()),
    ];
    let singles = singles.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name);
    let codes = codes.iter().map(|(field, _)| field).chain(code_lists.iter().map(|(field, _)| field));
    let extension = extension_fields(extension);
    let all = singles.chain(codes.map(|field| field.path())).chain(extension.iter().map(String::as_str));
    named(Resource::Individual, all)
}

/// The fields that a new group would have.
#[must_use]
pub fn of_group<C, I>(draft: &GroupDetails<C, I>) -> FieldSet {
    let GroupDetails {
        identifiers: _,
        active,
        name,
        group_type,
        housing_type,
        members,
        relationships,
        address,
        extension,
    } = draft;
    let singles = [
        ("active", active.is_some()),
        ("name", name.is_some()),
        ("group_type", group_type.is_some()),
        ("housing_type", housing_type.is_some()),
        ("member", members.is_some()),
        ("relationship", relationships.is_some()),
        ("address", address.is_some()),
    ];
    let singles = singles.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name);
    let extension = extension_fields(extension);
    named(Resource::Group, singles.chain(extension.iter().map(String::as_str)))
}

fn extension_fields<C>(extension: &Extension<C>) -> Vec<String> {
    let paths = extension.iter().map(|(path, _)| format!("{EXTENSION}.{path}"));
    paths.map(|path| field_of_path(&path).to_owned()).collect()
}

/// A person as a change makes it: what is written of it, and what was `before` of the rest. Identifiers are always written.
#[must_use]
pub fn keep_individual(before: &IndividualDetails, now: IndividualDetails, written: &FieldSet) -> IndividualDetails {
    if written.is_all() {
        return now;
    }
    let IndividualDetails {
        identifiers,
        active,
        name,
        birth_date,
        birth_date_estimated,
        deceased_date,
        codes,
        code_lists,
        telecom,
        address,
        income,
        photo,
        extension,
    } = now;
    let is_written = |field: &str| written.allows(field);
    IndividualDetails {
        identifiers,
        active: if is_written("active") { active } else { before.active },
        name: if is_written("name") { name } else { before.name.clone() },
        birth_date: if is_written("birth_date") { birth_date } else { before.birth_date },
        birth_date_estimated: if is_written("birth_date_estimated") {
            birth_date_estimated
        } else {
            before.birth_date_estimated
        },
        deceased_date: if is_written("deceased_date") { deceased_date } else { before.deceased_date },
        codes: keep_codes(&before.codes, codes, written),
        code_lists: keep_codes(&before.code_lists, code_lists, written),
        telecom: if is_written("telecom") { telecom } else { before.telecom.clone() },
        address: if is_written("address") { address } else { before.address.clone() },
        income: if is_written("income") { income } else { before.income },
        photo: if is_written("photo") { photo } else { before.photo },
        extension: keep_extension(&before.extension, &extension, written),
    }
}

/// A group as a change makes it, as [`keep_individual`].
#[must_use]
pub fn keep_group(before: &GroupDetails, now: GroupDetails, written: &FieldSet) -> GroupDetails {
    if written.is_all() {
        return now;
    }
    let GroupDetails {
        identifiers,
        active,
        name,
        group_type,
        housing_type,
        members,
        relationships,
        address,
        extension,
    } = now;
    let is_written = |field: &str| written.allows(field);
    GroupDetails {
        identifiers,
        active: if is_written("active") { active } else { before.active },
        name: if is_written("name") { name } else { before.name.clone() },
        group_type: if is_written("group_type") { group_type } else { before.group_type },
        housing_type: if is_written("housing_type") { housing_type } else { before.housing_type },
        members: if is_written("member") { members } else { before.members.clone() },
        relationships: if is_written("relationship") { relationships } else { before.relationships.clone() },
        address: if is_written("address") { address } else { before.address.clone() },
        extension: keep_extension(&before.extension, &extension, written),
    }
}

fn keep_codes<C: Clone>(
    before: &[(CodedField, C)],
    now: Vec<(CodedField, C)>,
    written: &FieldSet,
) -> Vec<(CodedField, C)> {
    let kept = before.iter().filter(|(field, _)| !written.allows(field.path())).cloned();
    let now = now.into_iter().filter(|(field, _)| written.allows(field.path()));
    kept.chain(now).collect::<BTreeMap<_, _>>().into_iter().collect()
}

fn keep_extension(before: &Extension, now: &Extension, written: &FieldSet) -> Extension {
    let is_written = |path: &str| written.allows(&format!("{EXTENSION}.{path}"));
    let kept = before.iter().filter(|(path, _)| !is_written(path.as_str()));
    let now = now.iter().filter(|(path, _)| is_written(path.as_str()));
    Extension::new(kept.chain(now).map(|(path, content)| (path.clone(), content.clone())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::calendar::parse_date;
    use daftar_domain::code::{CodeNumber, CodedValue, EditionNumber};
    use daftar_domain::extension::{ExtensionContent, ExtensionValue};
    use daftar_domain::manifest::ExtensionPath;

    fn coded(number: u32) -> CodedValue {
        CodedValue { number: CodeNumber(number), edition: EditionNumber(0) }
    }

    fn person(number: u32) -> IndividualDetails {
        let path = |text| ExtensionPath::parse(text).unwrap();
        let value = || ExtensionContent::One(ExtensionValue::Integer(i64::from(number)));
        IndividualDetails {
            birth_date: parse_date(&format!("19{number}-01-01")).ok(),
            deceased_date: parse_date(&format!("20{number}-01-01")).ok(),
            codes: vec![(CodedField::Gender, coded(number)), (CodedField::Education, coded(number))],
            code_lists: vec![(CodedField::Languages, vec![coded(number)])],
            extension: Extension::new(vec![(path("farmer.plots"), value()), (path("herder.goats"), value())]),
            ..IndividualDetails::default()
        }
    }

    #[test]
    fn what_is_not_written_stays_as_it_was() {
        let (before, now) = (person(10), person(20));
        let members = ["birth_date", "gender", "extension.farmer", "meta", "nonsense"];
        let written = named(Resource::Individual, members);
        let kept = keep_individual(&before, now.clone(), &written);
        assert_eq!((kept.birth_date, kept.deceased_date), (now.birth_date, before.deceased_date));
        assert_eq!(kept.codes, [(CodedField::Gender, coded(20)), (CodedField::Education, coded(10))]);
        assert_eq!(kept.code_lists, before.code_lists);
        assert_eq!(kept.extension.get("farmer.plots"), now.extension.get("farmer.plots"));
        assert_eq!(kept.extension.get("herder.goats"), before.extension.get("herder.goats"));
        assert_eq!(keep_individual(&before, now.clone(), &FieldSet::All), now);
        assert_eq!(keep_individual(&before, now, &FieldSet::none()), before);
        let emptied = keep_individual(&before, IndividualDetails::default(), &written);
        assert_eq!(emptied.codes, [(CodedField::Education, coded(10))], "what is written and not there is taken out");
        assert_eq!(emptied.birth_date, None);
    }

    #[test]
    fn a_field_that_may_not_be_written_is_named() {
        let writable = named(Resource::Individual, ["birth_date", "extension.farmer"]);
        let refused = |names: &[&str]| {
            let named = named(Resource::Individual, names.iter().copied());
            match check(&writable, Resource::Individual, &named) {
                Ok(()) => None,
                Err(AppError::FieldNotGranted { field, .. }) => Some(field),
                Err(other) => panic!("{other}"),
            }
        };
        assert_eq!(refused(&["birth_date", "identifier", "type", "group_membership", "extension.farmer"]), None);
        assert_eq!(refused(&["birth_date", "income"]).as_deref(), Some("income"));
        assert_eq!(refused(&["extension.herder"]).as_deref(), Some("extension.herder"));
        assert_eq!(refused(&["extension"]).as_deref(), Some("extension"));
        assert_eq!(
            of_individual(&person(10)),
            named(
                Resource::Individual,
                [
                    "birth_date",
                    "deceased_date",
                    "gender",
                    "education",
                    "languages",
                    "extension.farmer",
                    "extension.herder",
                ]
            )
        );
    }
}
