//! Common parts of several kinds of record.

use jiff::civil::Date;

use daftar_domain::address;
use daftar_domain::client::ClientId;
use daftar_domain::code::{CodeNumber, CodedValue, EditionNumber};
use daftar_domain::extension::{Extension, ExtensionContent, ExtensionValue};
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::manifest::ExtensionPath;
use daftar_domain::record::{RecordMeta, VersionId};
use daftar_domain::value::Values;

/// A code by its numbers.
pub fn coded(number: u32, edition: u32) -> CodedValue {
    CodedValue { number: CodeNumber(number), edition: EditionNumber(edition) }
}

pub fn client_id(text: &str) -> ClientId {
    ClientId::parse(text).unwrap()
}

/// An identifier without an end.
pub fn open_identifier(text: &str) -> Identifier {
    Identifier { key: IdentifierKey::parse(text).unwrap(), period: None }
}

/// Version 3, of a spring morning.
pub fn meta() -> RecordMeta {
    let last_updated = "2026-03-04T05:06:07.089Z".parse().unwrap();
    RecordMeta { version: VersionId(3), last_updated, source: Some(client_id("demo-client_1")) }
}

/// An address with every part.
pub fn full_address() -> Values {
    Values::default()
        .with(address::TYPE, "postal".to_owned())
        .with(address::TEXT, "Kebele 4, Gondar".to_owned())
        .with(address::LINE, vec!["Kebele 4".to_owned()])
        .with(address::CITY, "Gondar".to_owned())
        .with(address::DISTRICT, "Gondar Zuria".to_owned())
        .with(address::REGION, "Amhara".to_owned())
        .with(address::POSTAL_CODE, "196".to_owned())
        .with(address::COUNTRY, coded(9, 2))
}

/// An extension with every type of value.
pub fn full_extension() -> Extension {
    let field = |path, content| (ExtensionPath::parse(path).unwrap(), content);
    let crops = vec![ExtensionValue::Code(coded(200, 8)), ExtensionValue::Code(coded(201, 8))];
    Extension::new(vec![
        field("farmer.crops", ExtensionContent::Many(crops)),
        field("farmer.livestock", ExtensionContent::Many(Vec::new())),
        field("farmer.is_member", ExtensionContent::One(ExtensionValue::Boolean(true))),
        field("farmer.plots", ExtensionContent::One(ExtensionValue::Integer(-3))),
        field("farmer.area.hectares", ExtensionContent::One(ExtensionValue::Number(1.25))),
        field("farmer.since", ExtensionContent::One(ExtensionValue::Date(Date::constant(1999, 12, 31)))),
        field("farmer.note", ExtensionContent::One(ExtensionValue::Text("rain-fed".into()))),
    ])
}
