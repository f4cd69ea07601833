//! Where people and groups live.

use super::code::CodedValue;
use super::person_name::indexed_words;
use super::vocabulary::CodedField;

/// Where a person or a group lives or gets post.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address<C = CodedValue> {
    /// What it is, such as `postal`.
    pub kind: Option<String>,
    /// The whole address as it is written.
    pub text: Option<String>,
    /// Its lines, without the parts named below.
    pub line: Option<Vec<String>>,
    /// City, town or village.
    pub city: Option<String>,
    /// District.
    pub district: Option<String>,
    /// Region, state or province.
    pub region: Option<String>,
    /// Postal code.
    pub postal_code: Option<String>,
    /// Country.
    pub country: Option<C>,
}

impl<C> Address<C> {
    /// The words by which it is found: those of every part but the country.
    #[must_use]
    pub fn search_words(&self) -> Vec<String> {
        let Self { kind, text, line, city, district, region, postal_code, country: _ } = self;
        let parts = [kind, text, city, district, region, postal_code].into_iter().flatten();
        parts.chain(line.iter().flatten()).flat_map(|part| indexed_words(part)).collect()
    }
}

impl<C> Default for Address<C> {
    fn default() -> Self {
        Self {
            kind: None,
            text: None,
            line: None,
            city: None,
            district: None,
            region: None,
            postal_code: None,
            country: None,
        }
    }
}

/// The same addresses with the codes of their countries put through `translate`, which is told the path of each.
pub(super) fn map_countries<C, D>(
    addresses: Vec<Address<C>>,
    translate: &mut impl FnMut(CodedField, String, C) -> D,
) -> Vec<Address<D>> {
    let translated = |(at, address): (usize, Address<C>)| Address {
        kind: address.kind,
        text: address.text,
        line: address.line,
        city: address.city,
        district: address.district,
        region: address.region,
        postal_code: address.postal_code,
        country: address
            .country
            .map(|code| translate(CodedField::AddressCountry, format!("address[{at}].country"), code)),
    };
    addresses.into_iter().enumerate().map(translated).collect()
}
