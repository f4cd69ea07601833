//! How a group is stored. The key is not in the value: it is in the store's key.

use serde::{Deserialize, Serialize};

use crate::StoreError;
use daftar_domain::address::Address;
use daftar_domain::calendar::Period;
use daftar_domain::group::{Group, GroupDetails, Member, Relationship};
use daftar_domain::record::{RecordId, RecordMeta};

use super::address::StoredAddressV1;
use super::extension::StoredExtensionFieldV1;
use super::parts::{StoredCodedValueV1, StoredIdentifierV1, StoredMetaV1, StoredPeriodV1, each};
use super::{StoredForm, Unreadable, decode_as, extension};

/// A group, version 1. Absent lists and empty ones are kept apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredGroupV1 {
    meta: StoredMetaV1,
    identifiers: Vec<StoredIdentifierV1>,
    active: Option<bool>,
    name: Option<String>,
    group_type: Option<StoredCodedValueV1>,
    housing_type: Option<StoredCodedValueV1>,
    members: Option<Vec<StoredMemberV1>>,
    extension: Vec<StoredExtensionFieldV1>,
    relationships: Option<Vec<StoredRelationshipV1>>,
    address: Option<Vec<StoredAddressV1>>,
}

impl StoredForm for StoredGroupV1 {
    const VERSION: u8 = 1;
    const WHAT: &'static str = "group";
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredRelationshipV1 {
    target: u64,
    kind: StoredCodedValueV1,
    period: Option<StoredPeriodV1>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredMemberV1 {
    individual: u64,
    role: Option<StoredCodedValueV1>,
    period: Option<StoredPeriodV1>,
    is_inactive: bool,
}

/// The bytes of a group.
///
/// # Errors
/// [`StoreError::TooLarge`] when they are too many.
pub fn encode(group: &Group) -> Result<Vec<u8>, StoreError> {
    super::encode(&StoredGroupV1::from(group))
}

/// The group of that key that the bytes hold.
///
/// # Errors
/// [`StoreError::Corrupt`] when they cannot be read.
pub fn decode(id: RecordId, bytes: &[u8]) -> Result<Group, StoreError> {
    decode_as(bytes, |stored: StoredGroupV1| stored.into_group(id))
}

impl From<&Group> for StoredGroupV1 {
    fn from(group: &Group) -> Self {
        let details = &group.details;
        let relationships = details.relationships.as_ref();
        Self {
            meta: StoredMetaV1::from(&group.meta),
            identifiers: details.identifiers.iter().map(StoredIdentifierV1::from).collect(),
            active: details.active,
            name: details.name.clone(),
            group_type: details.group_type.map(StoredCodedValueV1::from),
            housing_type: details.housing_type.map(StoredCodedValueV1::from),
            members: details.members.as_ref().map(|all| all.iter().map(StoredMemberV1::from).collect()),
            extension: extension::as_stored(&details.extension),
            relationships: relationships.map(|all| all.iter().map(StoredRelationshipV1::from).collect()),
            address: details.address.as_ref().map(|all| all.iter().map(StoredAddressV1::from).collect()),
        }
    }
}

impl StoredGroupV1 {
    fn into_group(self, id: RecordId) -> Result<Group, Unreadable> {
        let details = GroupDetails {
            identifiers: each(self.identifiers)?,
            active: self.active,
            name: self.name,
            group_type: self.group_type.map(Into::into),
            housing_type: self.housing_type.map(Into::into),
            members: self.members.map(each).transpose()?,
            relationships: self.relationships.map(each).transpose()?,
            address: self.address.map(|all| all.into_iter().map(Address::from).collect()),
            extension: extension::read(self.extension)?,
        };
        Ok(Group { id, meta: RecordMeta::try_from(self.meta)?, details })
    }
}

impl From<&Member> for StoredMemberV1 {
    fn from(member: &Member) -> Self {
        Self {
            individual: member.individual.0,
            role: member.role.map(StoredCodedValueV1::from),
            period: member.period.map(StoredPeriodV1::from),
            is_inactive: member.is_inactive,
        }
    }
}

impl TryFrom<StoredMemberV1> for Member {
    type Error = Unreadable;

    fn try_from(stored: StoredMemberV1) -> Result<Self, Unreadable> {
        Ok(Self {
            individual: RecordId(stored.individual),
            role: stored.role.map(Into::into),
            period: stored.period.map(Period::try_from).transpose()?,
            is_inactive: stored.is_inactive,
        })
    }
}

impl From<&Relationship> for StoredRelationshipV1 {
    fn from(relationship: &Relationship) -> Self {
        Self {
            target: relationship.target.0,
            kind: relationship.kind.into(),
            period: relationship.period.map(StoredPeriodV1::from),
        }
    }
}

impl TryFrom<StoredRelationshipV1> for Relationship {
    type Error = Unreadable;

    fn try_from(stored: StoredRelationshipV1) -> Result<Self, Unreadable> {
        Ok(Self {
            target: RecordId(stored.target),
            kind: stored.kind.into(),
            period: stored.period.map(Period::try_from).transpose()?,
        })
    }
}
