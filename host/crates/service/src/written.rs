//! The fields that a write changes, and the treatment of the others: a field that the client may not write stays
//! unchanged.
//!
//! The changed fields are also listed here, by their names in the API: for the audit log, which never contains their
//! values.
//!
//! **Invariant:** unchanged fields are restored after all other checks, so that no rejection reveals their values.

use std::collections::BTreeSet;

use crate::visibility;
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, FieldUse};
use daftar_domain::extension::{EXTENSION, Extension};
use daftar_domain::field::{FieldName, FieldSet, computed, field_of_path};
use daftar_domain::identifier::Identifier;
use daftar_domain::program_membership::{HAS_NO_IDENTIFIER, ProgramMembershipDetails};
use daftar_domain::record::{Fields, RecordKind, RecordType};
use daftar_domain::schema::{self, Field};
use daftar_domain::scope::{Action, Resource};
use daftar_domain::value;

/// The fields that the body of a change covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdateMode {
    /// The complete record, as far as the client may write it; an absent field is removed.
    Replace(FieldSet),
    /// These fields only.
    Merge(FieldSet),
}

/// The fields of a resource among the members of a body; the parser of bodies rejects an unknown member. Computed
/// fields may be sent back, and are ignored.
#[must_use]
pub fn named<'a>(resource: Resource, members: impl IntoIterator<Item = &'a str>) -> FieldSet {
    let written = members.into_iter().filter(|name| !is_computed(resource, name));
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

/// Checks that the client may set these fields of a new record.
///
/// # Errors
/// [`AppError::FieldNotGranted`].
pub fn check_new(ctx: &OpContext, resource: Resource, named: &FieldSet) -> Result<(), AppError> {
    check(&ctx.fields(resource, Action::Create), resource, named)
}

/// The fields that a change writes of a partly visible record, after the access check: for a complete record, all
/// fields that the client may write.
///
/// # Errors
/// [`AppError::FieldNotGranted`].
pub fn of_change(
    ctx: &OpContext,
    resource: Resource,
    seen: &FieldSet,
    spoken: &UpdateMode,
) -> Result<FieldSet, AppError> {
    let writable = visibility::changeable(ctx, resource, seen);
    match spoken {
        UpdateMode::Replace(named) => check(&writable, resource, named).map(|()| writable),
        UpdateMode::Merge(named) => check(&writable, resource, named).map(|()| named.clone()),
    }
}

/// Checks that identifiers stay unchanged, unless the client may write them: addressing a record does not rename it.
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

/// The fields that a new record would have, besides its identifiers.
#[must_use]
pub fn present<T: RecordType, C, I>(draft: &Fields<T, C, I>) -> FieldSet {
    let fields = value::in_order(Fields::<T, C, I>::schema(), draft.iter());
    let names = fields.filter(|(field, _)| !field.is_internal).map(|(field, _)| field.name.to_owned());
    let extension = draft.extension.iter().map(|(path, _)| format!("{EXTENSION}.{path}"));
    let extension = extension.map(|path| field_of_path(&path).to_owned());
    let names: Vec<String> = names.chain(extension).collect();
    named(T::KIND.resource(), names.iter().map(String::as_str))
}

/// A draft without the unwritten fields: they stay unchanged, so that they need no check.
#[must_use]
pub fn only<T: RecordType, C, I>(mut draft: Fields<T, C, I>, written: &FieldSet) -> Fields<T, C, I> {
    for field in not_written::<T>(written) {
        draft.put(field.tag, None);
    }
    draft
}

/// A record after a change: the written fields, and the others as `before`. Identifiers are always written, and values
/// that a newer program stored always stay.
#[must_use]
pub fn keep<T: RecordType>(before: &Fields<T>, mut now: Fields<T>, written: &FieldSet) -> Fields<T> {
    now.keep_later(schema::fields(T::KIND), before);
    if written.is_all() {
        return now;
    }
    for field in not_written::<T>(written) {
        now.put(field.tag, before.value(field.tag).cloned());
    }
    let extension = merged_extension(&before.extension, &now.extension, written);
    Fields::new(now.identifiers, now.values, extension)
}

fn is_computed(resource: Resource, name: &str) -> bool {
    RecordKind::ALL.into_iter().any(|kind| kind.resource() == resource && computed(kind) == Some(name))
}

fn not_written<T: RecordType>(written: &FieldSet) -> impl Iterator<Item = &'static Field> {
    let fields = schema::fields(T::KIND).iter();
    fields.filter(|field| !field.is_internal && !written.allows(field.name))
}

fn merged_extension(before: &Extension, now: &Extension, written: &FieldSet) -> Extension {
    let is_written = |path: &str| written.allows(&format!("{EXTENSION}.{path}"));
    let stored = before.iter().filter(|(path, _)| !is_written(path.as_str()));
    let now = now.iter().filter(|(path, _)| is_written(path.as_str()));
    Extension::new(stored.chain(now).map(|(path, content)| (path.clone(), content.clone())).collect())
}

/// The names of the fields if they are not all fields, the identifiers first: those of a new record.
#[must_use]
pub fn names_of_new(fields: &FieldSet) -> Vec<String> {
    let named = match fields {
        FieldSet::All => Vec::new(),
        FieldSet::Only(names) => names.iter().map(ToString::to_string).collect(),
    };
    ["identifier".to_owned()].into_iter().chain(named).collect()
}

/// The fields that differ; all fields of a new record.
#[must_use]
pub fn changed_fields<T: RecordType>(before: Option<&Fields<T>>, now: &Fields<T>) -> BTreeSet<String> {
    match before {
        None => Fields::<T>::default().differences(now),
        Some(before) => before.differences(now),
    }
}

/// The fields of a membership that differ; all fields of a new one. A change of the flag for a membership without
/// identifiers is reported as a change of `identifier`.
#[must_use]
pub fn changed_of_membership(
    before: Option<&ProgramMembershipDetails>,
    now: &ProgramMembershipDetails,
) -> BTreeSet<String> {
    let mut fields = changed_fields(before, now);
    if before.and_then(|before| before.get(HAS_NO_IDENTIFIER)) != now.get(HAS_NO_IDENTIFIER) {
        fields.insert("identifier".to_owned());
    }
    fields
}

#[cfg(test)]
mod changed_tests {
    use super::*;
    use daftar_domain::extension::Extension;
    use daftar_domain::individual::{ACTIVE, IndividualDetails};
    use daftar_domain::value::Values;
    use daftar_store::record::samples;

    #[test]
    fn what_is_the_same_is_not_named() {
        fn check<T: RecordType>(details: &Fields<T>) {
            assert!(changed_fields(Some(details), details).is_empty());
        }
        check(&samples::full_individual().details);
        check(&samples::full_group().details);
        check(&samples::full_program().details);
        let membership = samples::full_membership().details;
        assert!(changed_of_membership(Some(&membership), &membership).is_empty());
    }

    #[test]
    fn every_field_that_differs_is_named() {
        let person = samples::full_individual().details;
        let bare = IndividualDetails::new(person.identifiers.clone(), Values::default(), Extension::default());
        let changed = changed_fields(Some(&person), &bare);
        assert_eq!(changed, changed_fields(Some(&bare), &person), "either way");
        for field in ["name", "birth_date", "gender", "languages", "address", "income", "telecom"] {
            assert!(changed.contains(field), "{field} in {changed:?}");
        }
        assert!(changed.iter().any(|name| name.starts_with("extension.")), "{changed:?}");
        assert!(!changed.contains("identifier"));
        let only = person.clone().with(ACTIVE, person.get(ACTIVE).map(|active| !active));
        assert!(changed_fields(Some(&person), &only).iter().eq(["active"]));
    }

    #[test]
    fn whether_a_membership_has_no_identifier_is_said_of_its_identifiers() {
        let unknown = ProgramMembershipDetails::default();
        let none = ProgramMembershipDetails::default().with(HAS_NO_IDENTIFIER, true);
        assert!(changed_of_membership(Some(&unknown), &none).iter().eq(["identifier"]));
        assert!(changed_of_membership(None, &none).iter().eq(["identifier"]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::calendar::parse_date;
    use daftar_domain::code::{CodeNumber, CodedValue, EditionNumber};
    use daftar_domain::extension::{ExtensionContent, ExtensionValue};
    use daftar_domain::individual::{BIRTH_DATE, DECEASED_DATE, EDUCATION, GENDER, IndividualDetails, LANGUAGES};
    use daftar_domain::manifest::ExtensionPath;
    use daftar_domain::schema::Tag;
    use daftar_domain::value::{Value, Values};

    fn coded(number: u32) -> CodedValue {
        CodedValue { number: CodeNumber(number), edition: EditionNumber(0) }
    }

    fn person(number: u32) -> IndividualDetails {
        let path = |text| ExtensionPath::parse(text).unwrap();
        let value = || ExtensionContent::One(ExtensionValue::Integer(i64::from(number)));
        let extension = Extension::new(vec![(path("farmer.plots"), value()), (path("herder.goats"), value())]);
        IndividualDetails::new(Vec::new(), Values::default(), extension)
            .with(BIRTH_DATE, parse_date(&format!("19{number}-01-01")).ok())
            .with(DECEASED_DATE, parse_date(&format!("20{number}-01-01")).ok())
            .with(GENDER, coded(number))
            .with(EDUCATION, coded(number))
            .with(LANGUAGES, vec![coded(number)])
    }

    #[test]
    fn what_is_not_written_stays_as_it_was() {
        let (before, now) = (person(10), person(20));
        let members = ["birth_date", "gender", "extension.farmer", "meta", "nonsense"];
        let written = named(Resource::Individual, members);
        let stored = keep(&before, now.clone(), &written);
        assert_eq!(
            (stored.get(BIRTH_DATE), stored.get(DECEASED_DATE)),
            (now.get(BIRTH_DATE), before.get(DECEASED_DATE))
        );
        assert_eq!((stored.get(GENDER), stored.get(EDUCATION)), (Some(&coded(20)), Some(&coded(10))));
        assert_eq!(stored.get(LANGUAGES), before.get(LANGUAGES));
        assert_eq!(stored.extension.get("farmer.plots"), now.extension.get("farmer.plots"));
        assert_eq!(stored.extension.get("herder.goats"), before.extension.get("herder.goats"));
        assert_eq!(keep(&before, now.clone(), &FieldSet::All), now);
        assert_eq!(keep(&before, now, &FieldSet::none()), before);
        let emptied = keep(&before, IndividualDetails::default(), &written);
        assert_eq!(emptied.get(GENDER), None, "a written field without a value is removed");
        assert_eq!((emptied.get(EDUCATION), emptied.get(BIRTH_DATE)), (Some(&coded(10)), None));
    }

    #[test]
    fn values_of_a_newer_program_survive_writes_of_all_clients() {
        let mut before = person(10);
        before.put(Tag(900), Some(Value::later(2, &[1, 2])));
        for written in [FieldSet::All, FieldSet::none()] {
            let stored = keep(&before, IndividualDetails::default(), &written);
            assert_eq!(stored.value(Tag(900)), before.value(Tag(900)));
        }
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
            present(&person(10)),
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
