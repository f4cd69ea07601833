//! How an address is stored, of a person and of a group alike.

use serde::{Deserialize, Serialize};

use daftar_domain::address::Address;

use super::parts::StoredCodedValueV1;

/// An address, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAddressV1 {
    kind: Option<String>,
    text: Option<String>,
    line: Option<Vec<String>>,
    city: Option<String>,
    district: Option<String>,
    region: Option<String>,
    postal_code: Option<String>,
    country: Option<StoredCodedValueV1>,
}

impl From<&Address> for StoredAddressV1 {
    fn from(address: &Address) -> Self {
        let Address { kind, text, line, city, district, region, postal_code, country } = address.clone();
        Self { kind, text, line, city, district, region, postal_code, country: country.map(Into::into) }
    }
}

impl From<StoredAddressV1> for Address {
    fn from(stored: StoredAddressV1) -> Self {
        let StoredAddressV1 { kind, text, line, city, district, region, postal_code, country } = stored;
        Self { kind, text, line, city, district, region, postal_code, country: country.map(Into::into) }
    }
}
