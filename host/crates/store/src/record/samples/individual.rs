//! People.

use jiff::Timestamp;
use jiff::civil::Date;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use daftar_domain::calendar::Period;
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::individual::{Income, IncomePeriod, Individual, IndividualDetails, Telecom, TelecomSystem};
use daftar_domain::person_name::PersonName;
use daftar_domain::photo::{PhotoDigest, PhotoReference};
use daftar_domain::record::{RecordId, RecordMeta, VersionId};
use daftar_domain::vocabulary::CodedField;

use super::parts::{
    any_address, any_coded, any_day, any_extension, any_identifier, any_meta, any_text, coded, full_address,
    full_extension, meta,
};

/// A person with every field set.
pub fn full_individual() -> Individual {
    let ended = Period { start: Some(Date::constant(2001, 2, 3)), end: Some(Date::constant(2020, 12, 31)) };
    let key = |text| IdentifierKey::parse(text).unwrap();
    let details = IndividualDetails {
        identifiers: vec![
            Identifier { key: key("urn:svc:vocab:id-type#national_id|ET-0001"), period: None },
            Identifier { key: key("https://example.org/farmers|F|7"), period: Some(ended) },
        ],
        active: Some(true),
        name: Some(PersonName {
            family: Some("Ḥaile".into()),
            given: Some("Abebe".into()),
            middle: Some("ገብረ".into()),
            prefix: Some("Ato".into()),
            suffix: Some("Jr.".into()),
            text: Some("Ato Abebe Ḥaile".into()),
        }),
        birth_date: Some(Date::constant(1968, 2, 29)),
        birth_date_estimated: Some(false),
        deceased_date: Some(Date::constant(2024, 11, 30)),
        codes: vec![(CodedField::Gender, coded(2, 0)), (CodedField::PregnancyStatus, coded(70_000, 300))],
        code_lists: vec![
            (CodedField::Languages, Vec::new()),
            (CodedField::DisabilityCodes, vec![coded(127, 1), coded(128, 1)]),
        ],
        telecom: Some(vec![Telecom {
            system: TelecomSystem::Sms,
            value: "+251 911 000000".into(),
            usage: Some("home".into()),
            rank: Some(1),
        }]),
        address: Some(vec![full_address()]),
        income: Some(Income { amount: 1234.5, currency: Some(coded(10, 4)), period: Some(IncomePeriod::Month) }),
        photo: Some(PhotoReference { digest: PhotoDigest(std::array::from_fn(|index| index as u8)), length: 300_000 }),
        extension: full_extension(),
    };
    Individual { id: RecordId(7), meta: meta(), details }
}

/// A person with nothing but an identifier, written by a command.
pub fn bare_individual() -> Individual {
    let key = IdentifierKey::parse("urn:x:y|1").unwrap();
    let details = IndividualDetails { identifiers: vec![Identifier { key, period: None }], ..Default::default() };
    let meta = RecordMeta { version: VersionId::FIRST, last_updated: Timestamp::UNIX_EPOCH, source: None };
    Individual { id: RecordId(1), meta, details }
}

fn any_name() -> impl Strategy<Value = PersonName> {
    (any_text(), any_text(), any_text(), any_text(), any_text(), any_text()).prop_map(
        |(family, given, middle, prefix, suffix, text)| PersonName { family, given, middle, prefix, suffix, text },
    )
}

fn any_telecom() -> impl Strategy<Value = Telecom> {
    let systems = [TelecomSystem::Phone, TelecomSystem::Email, TelecomSystem::Sms, TelecomSystem::Url];
    (prop::sample::select(systems.to_vec()), "\\PC{0,20}", any_text(), option::of(any::<u32>()))
        .prop_map(|(system, value, usage, rank)| Telecom { system, value, usage, rank })
}

fn any_income() -> impl Strategy<Value = Income> {
    let periods = prop::sample::select(vec![IncomePeriod::Month, IncomePeriod::Year]);
    (0.0..1.0e12_f64, option::of(any_coded()), option::of(periods)).prop_map(|(amount, currency, period)| Income {
        amount,
        currency,
        period,
    })
}

/// Any person that can be stored.
pub fn any_individual() -> impl Strategy<Value = Individual> {
    let singles = prop::sample::subsequence(CodedField::individual_singles().collect::<Vec<_>>(), 0..=9);
    let lists = prop::sample::subsequence(CodedField::individual_lists().collect::<Vec<_>>(), 0..=3);
    let with_code =
        |fields: Vec<CodedField>| fields.into_iter().map(|field| (Just(field), any_coded())).collect::<Vec<_>>();
    let with_codes = |fields: Vec<CodedField>| {
        fields.into_iter().map(|field| (Just(field), vec(any_coded(), 0..4))).collect::<Vec<_>>()
    };
    let scalars = (any::<Option<bool>>(), option::of(any_day()), any::<Option<bool>>(), option::of(any_day()));
    let codes = (singles.prop_flat_map(with_code), lists.prop_flat_map(with_codes));
    let lists = (option::of(vec(any_telecom(), 0..3)), option::of(vec(any_address(), 0..3)));
    let photo = (any::<[u8; 32]>(), any::<u32>())
        .prop_map(|(digest, length)| PhotoReference { digest: PhotoDigest(digest), length });
    let rest = (lists, option::of(any_income()), option::of(photo), any_extension());
    (any_meta(), vec(any_identifier(), 0..4), option::of(any_name()), scalars, codes, rest).prop_map(
        |(meta, identifiers, name, scalars, (codes, code_lists), ((telecom, address), income, photo, extension))| {
            let (active, birth_date, birth_date_estimated, deceased_date) = scalars;
            let details = IndividualDetails {
                identifiers,
                active,
                name,
                birth_date,
                birth_date_estimated,
                deceased_date,
                codes,
                code_lists,
                telecom,
                address,
                income,
                photo,
                extension,
            };
            Individual { id: RecordId(9), meta, details }
        },
    )
}
