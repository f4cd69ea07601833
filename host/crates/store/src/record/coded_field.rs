//! The numbers by which coded fields are stored.
//!
//! **Invariant:** append-only. A number means the same field for ever; a field that goes leaves its number unused.

use daftar_domain::vocabulary::CodedField;

use super::Unreadable;

/// The number that a field is stored by.
#[must_use]
pub fn number(field: CodedField) -> u8 {
    match field {
        CodedField::Gender => 1,
        CodedField::MaritalStatus => 2,
        CodedField::Country => 3,
        CodedField::Religion => 4,
        CodedField::EthnoculturalStatus => 5,
        CodedField::Education => 6,
        CodedField::Occupation => 7,
        CodedField::EconomicActivity => 8,
        CodedField::PregnancyStatus => 9,
        CodedField::Languages => 10,
        CodedField::DisabilityCodes => 11,
        CodedField::HealthConditions => 12,
        CodedField::AddressCountry => 13,
        CodedField::IncomeCurrency => 14,
        CodedField::MemberRole => 15,
        CodedField::GroupType => 16,
        CodedField::HousingType => 17,
        CodedField::RelationshipType => 18,
    }
}

/// The field of a number.
///
/// # Errors
/// When no field has it.
pub fn field(stored: u8) -> Result<CodedField, Unreadable> {
    CodedField::ALL
        .into_iter()
        .find(|field| number(*field) == stored)
        .ok_or_else(|| Unreadable(format!("no coded field has the number {stored}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_a_number_of_its_own() {
        for coded in CodedField::ALL {
            assert_eq!(field(number(coded)), Ok(coded));
        }
        assert!(field(0).is_err());
        assert!(field(19).is_err());
    }
}
