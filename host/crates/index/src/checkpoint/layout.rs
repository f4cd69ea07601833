//! The parts of a checkpoint, and what it means besides its bytes: a program that makes other columns of the same records cannot use it.

use sha2::{Digest, Sha256};

use crate::chunk::CHUNK_ROWS;
use crate::field_columns::column_fields;
use daftar_domain::program_membership::MembershipStatus;
use daftar_domain::record::RecordKind;
use daftar_domain::schema::REVISION;
use daftar_domain::search::order::SORT_TEXT_BYTES_MAX;
use daftar_domain::search::phrase::PhraseField;
use daftar_domain::vocabulary::CodedField;

/// The layout of the columns. To be raised with every change of what a record becomes in memory (its words, its order) or of how a
/// part is written; a test reminds of it. The version of daftar counts as well, and so do the revision of the schema, its fields that have
/// columns or are found as whole texts, and the tables of Unicode, by which words are cut and put in order.
pub(super) const LAYOUT: u32 = 5;

/// What stands for the layout in the file.
pub(super) fn layout() -> [u8; 32] {
    let mut digest = Sha256::new();
    let mut add = |text: &str| {
        digest.update((text.len() as u64).to_le_bytes());
        digest.update(text);
    };
    add(&format!("{LAYOUT} {REVISION} {CHUNK_ROWS} {SORT_TEXT_BYTES_MAX}"));
    add(env!("CARGO_PKG_VERSION"));
    add(&format!("{:?} {:?}", char::UNICODE_VERSION, unicode_normalization::UNICODE_VERSION));
    // A code of a field, and the status of a membership, is written by its place among all.
    CodedField::ALL.iter().for_each(|field| add(field.path()));
    RecordKind::ALL.iter().flat_map(|kind| column_fields(*kind)).for_each(|field| add(&field.layout()));
    RecordKind::ALL.iter().flat_map(|kind| PhraseField::all(*kind)).for_each(|field| add(&field.term(field.field)));
    MembershipStatus::ALL.iter().for_each(|status| add(status.name()));
    digest.finalize().into()
}

macro_rules! sections {
    ($($section:ident,)+) => {
        /// A part of a checkpoint. Its number in the file is its place in [`Section::ALL`]; whoever changes these, or what one of them
        /// holds, raises `LAYOUT`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Section {
            $($section),+
        }

        impl Section {
            /// Every part, in the order in which they are written.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$section),+];
        }
    };
}

sections! {
    Secret,
    Extensions,
    PeopleRows,
    PeopleCodes,
    PeopleWords,
    PeopleIdentifiers,
    PeopleInactive,
    PeopleNames,
    PeopleLastUpdated,
    PeopleVersions,
    PeopleColumns,
    GroupRows,
    GroupCodes,
    GroupWords,
    GroupIdentifiers,
    GroupInactive,
    GroupNames,
    GroupLastUpdated,
    GroupVersions,
    GroupColumns,
    GroupMembers,
    GroupSeats,
    PlaceGroups,
    PlaceRoles,
    PlaceStarts,
    PlaceEnds,
    FurtherPlaces,
    PlaceRows,
    MembershipRows,
    MembershipTerms,
    MembershipColumns,
    MembershipLastUpdated,
    MembershipVersions,
    ConsentRows,
    ConsentTerms,
    CoverNames,
    CoverGiven,
    CoverClasses,
    CoveredIndividuals,
    CoveredGroups,
    CoveredMemberships,
    Beneficiaries,
    IndividualTermsSet,
    GroupTermsSet,
    GroupNamesSet,
    MembershipTermsSet,
    ConsentTermsSet,
}

impl Section {
    /// The parts of [`super::super::subjects::Subjects`], of people and of groups.
    pub(crate) const PEOPLE: [Self; 9] = [
        Self::PeopleRows,
        Self::PeopleCodes,
        Self::PeopleWords,
        Self::PeopleIdentifiers,
        Self::PeopleInactive,
        Self::PeopleNames,
        Self::PeopleLastUpdated,
        Self::PeopleVersions,
        Self::PeopleColumns,
    ];
    pub(crate) const GROUPS: [Self; 9] = [
        Self::GroupRows,
        Self::GroupCodes,
        Self::GroupWords,
        Self::GroupIdentifiers,
        Self::GroupInactive,
        Self::GroupNames,
        Self::GroupLastUpdated,
        Self::GroupVersions,
        Self::GroupColumns,
    ];

    /// Its number in the file.
    pub(super) fn number(self) -> u8 {
        self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_stands_at_the_place_of_its_number() {
        for (at, section) in Section::ALL.iter().enumerate() {
            assert_eq!(usize::from(section.number()), at);
        }
    }
}
