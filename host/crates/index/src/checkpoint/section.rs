//! The parts of a checkpoint.

/// A part of a checkpoint. Its number in the file is its place in [`Section::ALL`]; whoever changes these, or what one of them holds,
/// raises `LAYOUT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Section {
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
    GroupColumns,
    GroupLastUpdated,
    GroupVersions,
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
    MembershipTermsSet,
    ConsentTermsSet,
}

impl Section {
    /// Every part, in the order in which they are written.
    pub(crate) const ALL: [Self; 46] = [
        Self::Secret,
        Self::Extensions,
        Self::PeopleRows,
        Self::PeopleCodes,
        Self::PeopleWords,
        Self::PeopleIdentifiers,
        Self::PeopleInactive,
        Self::PeopleNames,
        Self::PeopleLastUpdated,
        Self::PeopleVersions,
        Self::PeopleColumns,
        Self::GroupRows,
        Self::GroupCodes,
        Self::GroupWords,
        Self::GroupIdentifiers,
        Self::GroupInactive,
        Self::GroupNames,
        Self::GroupColumns,
        Self::GroupLastUpdated,
        Self::GroupVersions,
        Self::GroupMembers,
        Self::GroupSeats,
        Self::PlaceGroups,
        Self::PlaceRoles,
        Self::PlaceStarts,
        Self::PlaceEnds,
        Self::FurtherPlaces,
        Self::PlaceRows,
        Self::MembershipRows,
        Self::MembershipTerms,
        Self::MembershipColumns,
        Self::MembershipLastUpdated,
        Self::MembershipVersions,
        Self::ConsentRows,
        Self::ConsentTerms,
        Self::CoverNames,
        Self::CoverGiven,
        Self::CoverClasses,
        Self::CoveredIndividuals,
        Self::CoveredGroups,
        Self::CoveredMemberships,
        Self::Beneficiaries,
        Self::IndividualTermsSet,
        Self::GroupTermsSet,
        Self::MembershipTermsSet,
        Self::ConsentTermsSet,
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
        for (at, section) in Section::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(section.number()), at);
        }
    }
}
