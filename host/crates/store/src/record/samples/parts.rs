//! What several kinds of record hold.

use jiff::Timestamp;
use jiff::civil::Date;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use daftar_domain::address::Address;
use daftar_domain::calendar::{Period, date_from_days};
use daftar_domain::client::ClientId;
use daftar_domain::code::{CodeNumber, CodedValue, EditionNumber};
use daftar_domain::extension::{Extension, ExtensionContent, ExtensionValue};
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::manifest::ExtensionPath;
use daftar_domain::record::{RecordMeta, VersionId};

pub fn coded(number: u32, edition: u32) -> CodedValue {
    CodedValue { number: CodeNumber(number), edition: EditionNumber(edition) }
}

pub fn client_id(text: &str) -> ClientId {
    ClientId::parse(text).unwrap()
}

/// Version 3, of a spring morning.
pub fn meta() -> RecordMeta {
    let last_updated = "2026-03-04T05:06:07.089Z".parse().unwrap();
    RecordMeta { version: VersionId(3), last_updated, source: Some(client_id("demo-client_1")) }
}

/// An address with every part.
pub fn full_address() -> Address {
    Address {
        kind: Some("postal".into()),
        text: Some("Kebele 4, Gondar".into()),
        line: Some(vec!["Kebele 4".into()]),
        city: Some("Gondar".into()),
        district: Some("Gondar Zuria".into()),
        region: Some("Amhara".into()),
        postal_code: Some("196".into()),
        country: Some(coded(9, 2)),
    }
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

pub fn any_coded() -> impl Strategy<Value = CodedValue> {
    (any::<u32>(), any::<u32>()).prop_map(|(number, edition)| coded(number, edition))
}

pub fn any_day() -> impl Strategy<Value = Date> {
    (-62_091..376_200_i32).prop_map(|days| date_from_days(days).unwrap())
}

pub fn any_period() -> impl Strategy<Value = Period> {
    (option::of(any_day()), option::of(any_day())).prop_map(|(start, end)| Period { start, end })
}

pub fn any_identifier() -> impl Strategy<Value = Identifier> {
    ("[a-z]{1,9}:[!-{]{1,20}\\|[^\\p{C}\\s]{1,20}", option::of(any_period()))
        .prop_map(|(key, period)| Identifier { key: IdentifierKey::parse(&key).unwrap(), period })
}

pub fn any_meta() -> impl Strategy<Value = RecordMeta> {
    (any::<u64>(), -60_000_000_000_i64..4_000_000_000_000, option::of("[a-zA-Z0-9_-]{1,64}")).prop_map(
        |(version, at, source)| RecordMeta {
            version: VersionId(version),
            last_updated: Timestamp::from_millisecond(at).unwrap(),
            source: source.map(|source| client_id(&source)),
        },
    )
}

pub fn any_text() -> impl Strategy<Value = Option<String>> {
    option::of("\\PC{0,12}")
}

pub fn any_address() -> impl Strategy<Value = Address> {
    let lines = option::of(vec("\\PC{0,9}", 0..3));
    let texts = (any_text(), any_text(), any_text(), any_text(), any_text(), any_text());
    (texts, lines, option::of(any_coded())).prop_map(
        |((kind, text, city, district, region, postal_code), line, country)| Address {
            kind,
            text,
            line,
            city,
            district,
            region,
            postal_code,
            country,
        },
    )
}

pub fn any_extension_value() -> impl Strategy<Value = ExtensionValue> {
    prop_oneof![
        any::<bool>().prop_map(ExtensionValue::Boolean),
        any::<i64>().prop_map(ExtensionValue::Integer),
        (-1.0e12..1.0e12_f64).prop_map(ExtensionValue::Number),
        "\\PC{0,20}".prop_map(ExtensionValue::Text),
        any_day().prop_map(ExtensionValue::Date),
        any_coded().prop_map(ExtensionValue::Code),
    ]
}

pub fn any_extension() -> impl Strategy<Value = Extension> {
    let content = prop_oneof![
        any_extension_value().prop_map(ExtensionContent::One),
        vec(any_extension_value(), 0..4).prop_map(ExtensionContent::Many),
    ];
    vec(("[a-z]{1,4}\\.[a-z_]{1,4}x", content), 0..4).prop_map(|fields| {
        let parsed =
            fields.into_iter().filter_map(|(path, content)| Some((ExtensionPath::parse(&path).ok()?, content)));
        Extension::new(parsed.collect())
    })
}
