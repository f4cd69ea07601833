//! Which fields a write changes, by their names in the API: for the audit log, which never says from what to what.

use std::collections::BTreeSet;

use daftar_domain::field::FieldSet;
use daftar_domain::program_membership::{HAS_NO_IDENTIFIER, ProgramMembershipDetails};
use daftar_domain::record::{Fields, RecordType};

/// The names of fields that are not all, the identifiers first: those of a new record.
#[must_use]
pub fn of_new(fields: &FieldSet) -> Vec<String> {
    let named = match fields {
        FieldSet::All => Vec::new(),
        FieldSet::Only(names) => names.iter().map(ToString::to_string).collect(),
    };
    ["identifier".to_owned()].into_iter().chain(named).collect()
}

/// The fields that differ; all that a new record has.
#[must_use]
pub fn fields<T: RecordType>(before: Option<&Fields<T>>, now: &Fields<T>) -> BTreeSet<String> {
    match before {
        None => Fields::<T>::default().differences(now),
        Some(before) => before.differences(now),
    }
}

/// The fields of a membership that differ; all that a new one has. That it has no identifier is said of its identifiers.
#[must_use]
pub fn of_membership(before: Option<&ProgramMembershipDetails>, now: &ProgramMembershipDetails) -> BTreeSet<String> {
    let mut fields = fields(before, now);
    if before.and_then(|before| before.get(HAS_NO_IDENTIFIER)) != now.get(HAS_NO_IDENTIFIER) {
        fields.insert("identifier".to_owned());
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::extension::Extension;
    use daftar_domain::individual::{ACTIVE, IndividualDetails};
    use daftar_domain::value::Values;
    use daftar_store::record::samples;

    #[test]
    fn what_is_the_same_is_not_named() {
        fn check<T: RecordType>(details: &Fields<T>) {
            assert!(fields(Some(details), details).is_empty());
        }
        check(&samples::full_individual().details);
        check(&samples::full_group().details);
        check(&samples::full_program().details);
        let membership = samples::full_membership().details;
        assert!(of_membership(Some(&membership), &membership).is_empty());
    }

    #[test]
    fn every_field_that_differs_is_named() {
        let person = samples::full_individual().details;
        let bare = IndividualDetails::new(person.identifiers.clone(), Values::default(), Extension::default());
        let changed = fields(Some(&person), &bare);
        assert_eq!(changed, fields(Some(&bare), &person), "either way");
        for field in ["name", "birth_date", "gender", "languages", "address", "income", "telecom"] {
            assert!(changed.contains(field), "{field} in {changed:?}");
        }
        assert!(changed.iter().any(|name| name.starts_with("extension.")), "{changed:?}");
        assert!(!changed.contains("identifier"));
        let only = person.clone().with(ACTIVE, person.get(ACTIVE).map(|active| !active));
        assert!(fields(Some(&person), &only).iter().eq(["active"]));
    }

    #[test]
    fn whether_a_membership_has_no_identifier_is_said_of_its_identifiers() {
        let unknown = ProgramMembershipDetails::default();
        let none = ProgramMembershipDetails::default().with(HAS_NO_IDENTIFIER, true);
        assert!(of_membership(Some(&unknown), &none).iter().eq(["identifier"]));
        assert!(of_membership(None, &none).iter().eq(["identifier"]));
    }
}
