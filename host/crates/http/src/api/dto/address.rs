//! An address in the body of a person or a group.

use serde::Serialize;

use super::reader::{ObjectReader, Problems, text_value};
use super::shared::CodeBody;
use daftar_domain::address::Address;
use daftar_domain::code::{CodeUri, CodedValue};
use daftar_domain::individual::{LIST_ITEMS_MAX, TEXT_BYTES_MAX};
use daftar_domain::vocabulary::DisplayedCode;

/// Reads `address[]`; absent and empty are different.
pub fn read(reader: &mut ObjectReader, problems: &mut Problems) -> Option<Vec<Address<CodeUri>>> {
    let items = reader.list("address", LIST_ITEMS_MAX, problems)?;
    let mut addresses = Vec::with_capacity(items.len());
    for (path, item) in items {
        let mut item = ObjectReader::at(path, item, problems);
        let line = item.list("line", LIST_ITEMS_MAX, problems).map(|lines| {
            lines.into_iter().filter_map(|(path, line)| text_value(&path, line, TEXT_BYTES_MAX, problems)).collect()
        });
        addresses.push(Address {
            kind: item.text("type", 100, problems),
            text: item.text("text", TEXT_BYTES_MAX, problems),
            line,
            city: item.text("city", TEXT_BYTES_MAX, problems),
            district: item.text("district", TEXT_BYTES_MAX, problems),
            region: item.text("region", TEXT_BYTES_MAX, problems),
            postal_code: item.text("postal_code", 100, problems),
            country: item.code("country", problems),
        });
        item.finish(problems);
    }
    Some(addresses)
}

/// An address on the wire.
#[derive(Debug, Serialize)]
pub struct AddressBody<'a> {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    city: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    district: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    postal_code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    country: Option<CodeBody>,
}

impl<'a> AddressBody<'a> {
    /// Writes an address; `show` tells how its country is shown to this client.
    pub fn new(address: &'a Address, show: &dyn Fn(CodedValue) -> DisplayedCode) -> Self {
        Self {
            kind: address.kind.as_deref(),
            text: address.text.as_deref(),
            line: address.line.as_deref(),
            city: address.city.as_deref(),
            district: address.district.as_deref(),
            region: address.region.as_deref(),
            postal_code: address.postal_code.as_deref(),
            country: address.country.map(|value| CodeBody::from(show(value))),
        }
    }
}
