//! How a consent is stored. The registry's own key is not in the value: it is in the store's key.

use serde::{Deserialize, Serialize};

use crate::StoreError;
use daftar_domain::calendar::days_since_epoch;
use daftar_domain::consent::{Consent, ConsentDetails, ConsentId};
use daftar_domain::organization::{LegalBasis, Organization};
use daftar_domain::record::{RecordId, RecordMeta};
use daftar_domain::scope::Resource;

use super::parts::{StoredMetaV1, StoredSubjectReferenceV1, day};
use super::{StoredForm, Unreadable, decode_as};

/// A consent, version 1. Resources and legal basis are kept as they are written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredConsentV1 {
    meta: StoredMetaV1,
    id: [u8; 16],
    subject: StoredSubjectReferenceV1,
    grantee: String,
    purpose: Option<String>,
    effective_date: i32,
    expiry_date: Option<i32>,
    resources: Vec<String>,
    fields: Option<Vec<String>>,
    legal_basis: String,
    is_withdrawn: bool,
}

impl StoredForm for StoredConsentV1 {
    const VERSION: u8 = 1;
    const WHAT: &'static str = "consent";
}

/// The bytes of a consent.
///
/// # Errors
/// [`StoreError::TooLarge`] when they are too many.
pub fn encode(consent: &Consent) -> Result<Vec<u8>, StoreError> {
    let details = &consent.details;
    super::encode(&StoredConsentV1 {
        meta: StoredMetaV1::from(&consent.meta),
        id: details.id.to_bytes(),
        subject: details.subject.into(),
        grantee: details.grantee.as_str().to_owned(),
        purpose: details.purpose.clone(),
        effective_date: days_since_epoch(details.effective_date),
        expiry_date: details.expiry_date.map(days_since_epoch),
        resources: details.resources.iter().map(|resource| resource.name().to_owned()).collect(),
        fields: details.fields.clone(),
        legal_basis: details.legal_basis.name().to_owned(),
        is_withdrawn: details.is_withdrawn,
    })
}

/// The consent of that key that the bytes hold.
///
/// # Errors
/// [`StoreError::Corrupt`] when they cannot be read.
pub fn decode(id: RecordId, bytes: &[u8]) -> Result<Consent, StoreError> {
    decode_as(bytes, |stored: StoredConsentV1| stored.into_consent(id))
}

impl StoredConsentV1 {
    fn into_consent(self, id: RecordId) -> Result<Consent, Unreadable> {
        let resource = |name: &String| Resource::ALL.into_iter().find(|known| known.name() == name);
        let resources: Option<Vec<Resource>> = self.resources.iter().map(resource).collect();
        let details = ConsentDetails {
            id: ConsentId::from_bytes(self.id),
            subject: self.subject.into(),
            grantee: Organization::parse(&self.grantee).map_err(|_| Unreadable::field("grantee"))?,
            purpose: self.purpose,
            effective_date: day(Some(self.effective_date))?.ok_or_else(|| Unreadable::field("effective_date"))?,
            expiry_date: day(self.expiry_date)?,
            resources: resources.ok_or_else(|| Unreadable::field("resources"))?,
            fields: self.fields,
            legal_basis: LegalBasis::parse(&self.legal_basis).ok_or_else(|| Unreadable::field("legal_basis"))?,
            is_withdrawn: self.is_withdrawn,
        };
        Ok(Consent { id, meta: RecordMeta::try_from(self.meta)?, details })
    }
}
