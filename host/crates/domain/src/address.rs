//! Postal and physical addresses of individuals and groups.

use super::person_name::indexed_words;
use super::schema::{Field, Kind, Struct};
use super::value::{Code, Key, List, Text, Value, Values};
use super::vocabulary::CodedField;

/// Maximum length of a text of an address or telecom, in bytes.
pub const TEXT_BYTES_MAX: usize = 1_000;
/// Maximum number of lines of an address.
pub const LINES_MAX: usize = 100;

/// Type of the address, such as `postal`.
pub const TYPE: Key<Text> = Key::new(1);
/// The full address as written.
pub const TEXT: Key<Text> = Key::new(2);
/// Address lines, without the parts named below.
pub const LINE: Key<List<Text>> = Key::new(3);
/// City, town or village.
pub const CITY: Key<Text> = Key::new(4);
/// District.
pub const DISTRICT: Key<Text> = Key::new(5);
/// Region, state or province.
pub const REGION: Key<Text> = Key::new(6);
/// Postal code.
pub const POSTAL_CODE: Key<Text> = Key::new(7);
/// Country.
pub const COUNTRY: Key<Code> = Key::new(8);

/// The parts of an address.
pub const ADDRESS: Struct = Struct {
    name: "Address",
    about: "An address.",
    fields: &[
        Field::new(TYPE, "type", Kind::Text(100)).in_rules(),
        Field::new(TEXT, "text", Kind::Text(TEXT_BYTES_MAX)).in_rules(),
        Field::new(LINE, "line", Kind::List { of: &Kind::Text(TEXT_BYTES_MAX), items_max: LINES_MAX }),
        Field::new(CITY, "city", Kind::Text(TEXT_BYTES_MAX)).in_rules(),
        Field::new(DISTRICT, "district", Kind::Text(TEXT_BYTES_MAX)).in_rules().filter(),
        Field::new(REGION, "region", Kind::Text(TEXT_BYTES_MAX)).in_rules().filter(),
        Field::new(POSTAL_CODE, "postal_code", Kind::Text(100)).in_rules(),
        Field::new(COUNTRY, "country", Kind::Code(CodedField::AddressCountry)).in_rules().filter(),
    ],
};

/// Returns the words of every text of an address, for searches.
#[must_use]
pub fn search_words<C, I>(address: &Values<C, I>) -> Vec<String> {
    let texts = address.iter().flat_map(|(_, value)| match value {
        Value::List(lines) => lines.as_slice(),
        one => std::slice::from_ref(one),
    });
    let texts = texts.filter_map(|value| if let Value::Text(text) = value { Some(text) } else { None });
    texts.flat_map(|text| indexed_words(text)).collect()
}
