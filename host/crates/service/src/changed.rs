//! Which fields a write changes, by their names in the API: for the audit log, which never says from what to what.

use std::collections::BTreeSet;

use daftar_domain::extension::{EXTENSION, Extension};
use daftar_domain::field::{FieldSet, field_of_path};
use daftar_domain::group::GroupDetails;
use daftar_domain::individual::IndividualDetails;
use daftar_domain::program::ProgramDetails;
use daftar_domain::program_membership::ProgramMembershipDetails;
use daftar_domain::vocabulary::CodedField;

/// The names of fields that are not all, the identifiers first: those of a new record.
#[must_use]
pub fn of_new(fields: &FieldSet) -> Vec<String> {
    let named = match fields {
        FieldSet::All => Vec::new(),
        FieldSet::Only(names) => names.iter().map(ToString::to_string).collect(),
    };
    ["identifier".to_owned()].into_iter().chain(named).collect()
}

/// The fields of a person that differ.
#[must_use]
pub fn of_individual(before: &IndividualDetails, now: &IndividualDetails) -> Vec<String> {
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
    } = before;
    let mut changed = names([
        ("identifier", *identifiers != now.identifiers),
        ("active", *active != now.active),
        ("name", *name != now.name),
        ("birth_date", *birth_date != now.birth_date),
        ("birth_date_estimated", *birth_date_estimated != now.birth_date_estimated),
        ("deceased_date", *deceased_date != now.deceased_date),
        ("telecom", *telecom != now.telecom),
        ("address", *address != now.address),
        ("income", *income != now.income),
        ("photo", *photo != now.photo),
    ]);
    changed.extend(coded(codes, &now.codes));
    changed.extend(coded(code_lists, &now.code_lists));
    changed.extend(extended(extension, &now.extension));
    changed.into_iter().collect()
}

/// The fields of a group that differ.
#[must_use]
pub fn of_group(before: &GroupDetails, now: &GroupDetails) -> Vec<String> {
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
    } = before;
    let mut changed = names([
        ("identifier", *identifiers != now.identifiers),
        ("active", *active != now.active),
        ("name", *name != now.name),
        ("group_type", *group_type != now.group_type),
        ("housing_type", *housing_type != now.housing_type),
        ("member", *members != now.members),
        ("relationship", *relationships != now.relationships),
        ("address", *address != now.address),
    ]);
    changed.extend(extended(extension, &now.extension));
    changed.into_iter().collect()
}

/// The fields of a program that differ; all that a new one has.
#[must_use]
pub fn of_program(before: Option<&ProgramDetails>, now: &ProgramDetails) -> Vec<String> {
    let ProgramDetails {
        identifiers,
        active,
        name,
        description,
        program_type,
        target_type,
        eligibility,
        enforce_eligibility,
        period,
    } = now;
    let changed = match before {
        None => names([
            ("identifier", true),
            ("active", active.is_some()),
            ("name", true),
            ("description", description.is_some()),
            ("program_type", program_type.is_some()),
            ("target_type", true),
            ("eligibility", eligibility.is_some()),
            ("enforce_eligibility", *enforce_eligibility),
            ("period", period.is_some()),
        ]),
        Some(before) => names([
            ("identifier", *identifiers != before.identifiers),
            ("active", *active != before.active),
            ("name", *name != before.name),
            ("description", *description != before.description),
            ("program_type", *program_type != before.program_type),
            ("target_type", *target_type != before.target_type),
            ("eligibility", *eligibility != before.eligibility),
            ("enforce_eligibility", *enforce_eligibility != before.enforce_eligibility),
            ("period", *period != before.period),
        ]),
    };
    changed.into_iter().collect()
}

/// The fields of a membership that differ; all that a new one has.
#[must_use]
pub fn of_membership(before: Option<&ProgramMembershipDetails>, now: &ProgramMembershipDetails) -> Vec<String> {
    let ProgramMembershipDetails {
        identifiers,
        has_no_identifier,
        program,
        beneficiary,
        status,
        enrollment_date,
        exit_date,
        exit_reason,
        override_reason,
    } = now;
    let changed = match before {
        None => names([
            ("identifier", !identifiers.is_empty() || *has_no_identifier),
            ("program", true),
            ("beneficiary", true),
            ("status", true),
            ("enrollment_date", enrollment_date.is_some()),
            ("exit_date", exit_date.is_some()),
            ("exit_reason", exit_reason.is_some()),
            ("override", override_reason.is_some()),
        ]),
        Some(before) => names([
            ("identifier", *identifiers != before.identifiers || *has_no_identifier != before.has_no_identifier),
            ("program", *program != before.program),
            ("beneficiary", *beneficiary != before.beneficiary),
            ("status", *status != before.status),
            ("enrollment_date", *enrollment_date != before.enrollment_date),
            ("exit_date", *exit_date != before.exit_date),
            ("exit_reason", *exit_reason != before.exit_reason),
            ("override", *override_reason != before.override_reason),
        ]),
    };
    changed.into_iter().collect()
}

fn names<const N: usize>(fields: [(&str, bool); N]) -> BTreeSet<String> {
    fields.into_iter().filter(|(_, is_changed)| *is_changed).map(|(name, _)| name.to_owned()).collect()
}

fn coded<V: PartialEq>(before: &[(CodedField, V)], now: &[(CodedField, V)]) -> Vec<String> {
    let value = |all: &[(CodedField, V)], field: CodedField| all.iter().position(|(one, _)| *one == field);
    let fields = before.iter().chain(now).map(|(field, _)| *field);
    let changed = fields.filter(|field| {
        let (then, now_at) = (value(before, *field), value(now, *field));
        then.and_then(|at| before.get(at)).map(|(_, value)| value)
            != now_at.and_then(|at| now.get(at)).map(|(_, value)| value)
    });
    changed.map(|field| field.path().to_owned()).collect()
}

fn extended<C: PartialEq>(before: &Extension<C>, now: &Extension<C>) -> Vec<String> {
    let paths = before.iter().chain(now.iter()).map(|(path, _)| path);
    let changed = paths.filter(|path| before.get(path.as_str()) != now.get(path.as_str()));
    changed.map(|path| field_of_path(&format!("{EXTENSION}.{path}")).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_store::record::samples;

    #[test]
    fn what_is_the_same_is_not_named() {
        let person = samples::full_individual().details;
        assert!(of_individual(&person, &person).is_empty());
        let group = samples::full_group().details;
        assert!(of_group(&group, &group).is_empty());
        let program = samples::full_program().details;
        assert!(of_program(Some(&program), &program).is_empty());
        let membership = samples::full_membership().details;
        assert!(of_membership(Some(&membership), &membership).is_empty());
    }

    #[test]
    fn every_field_that_differs_is_named() {
        let person = samples::full_individual().details;
        let bare = IndividualDetails { identifiers: person.identifiers.clone(), ..IndividualDetails::default() };
        let changed = of_individual(&person, &bare);
        assert_eq!(changed, of_individual(&bare, &person), "either way");
        for field in ["name", "birth_date", "gender", "languages", "address", "income", "telecom"] {
            assert!(changed.iter().any(|name| name == field), "{field} in {changed:?}");
        }
        assert!(changed.iter().any(|name| name.starts_with("extension.")), "{changed:?}");
        assert!(!changed.iter().any(|name| name == "identifier"));
        let only = IndividualDetails { active: person.active.map(|active| !active), ..person.clone() };
        assert_eq!(of_individual(&person, &only), ["active"]);
    }
}
