//! Writes the body of an individual.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Serialize;

use super::{INCOME_PERIODS, TELECOM_SYSTEMS};
use crate::api::dto::address::AddressBody;
use crate::api::dto::extension;
use crate::api::dto::group::PlaceBody;
use crate::api::dto::shared::{CodeBody, IdentifierBody, MetaBody};
use daftar_domain::code::CodedValue;
use daftar_domain::extension::ExtensionFields;
use daftar_domain::field::FieldSet;
use daftar_domain::individual::{Individual, Telecom};
use daftar_domain::person_name::PersonName;
use daftar_domain::vocabulary::{CodedField, DisplayedCode};
use daftar_service::individual::Beside;

/// Writes what is seen of an individual; `fields` are those that modules add, `show` tells how a code is shown to this client.
pub fn write<'a>(
    individual: &'a Individual,
    (seen, beside): (&FieldSet, &Beside),
    fields: &ExtensionFields,
    show: &dyn Fn(CodedValue) -> DisplayedCode,
) -> IndividualBody<'a> {
    let details = &individual.details;
    let code = |field: CodedField| {
        let value = details.code(field).filter(|_| seen.allows(field.path()));
        value.map(|value| CodeBody::from(show(value)))
    };
    let list = |field: CodedField| {
        let values = details.code_list(field).filter(|_| seen.allows(field.path()))?;
        Some(values.iter().map(|value| CodeBody::from(show(*value))).collect())
    };
    IndividualBody {
        kind: "Individual",
        identifier: details.identifiers.iter().map(IdentifierBody::from).collect(),
        active: details.active.filter(|_| seen.allows("active")),
        name: details.name.as_ref().filter(|_| seen.allows("name")).map(NameBody::from),
        birth_date: details.birth_date.filter(|_| seen.allows("birth_date")).map(|day| day.to_string()),
        birth_date_estimated: details.birth_date_estimated.filter(|_| seen.allows("birth_date_estimated")),
        deceased_date: details.deceased_date.filter(|_| seen.allows("deceased_date")).map(|day| day.to_string()),
        gender: code(CodedField::Gender),
        marital_status: code(CodedField::MaritalStatus),
        country: code(CodedField::Country),
        religion: code(CodedField::Religion),
        ethnocultural_status: code(CodedField::EthnoculturalStatus),
        education: code(CodedField::Education),
        occupation: code(CodedField::Occupation),
        economic_activity: code(CodedField::EconomicActivity),
        pregnancy_status: code(CodedField::PregnancyStatus),
        languages: list(CodedField::Languages),
        disability_codes: list(CodedField::DisabilityCodes),
        health_conditions: list(CodedField::HealthConditions),
        telecom: (details.telecom.as_ref().filter(|_| seen.allows("telecom")))
            .map(|all| all.iter().map(TelecomBody::from).collect()),
        address: (details.address.as_ref().filter(|_| seen.allows("address")))
            .map(|all| all.iter().map(|one| AddressBody::new(one, show)).collect()),
        income: details.income.filter(|_| seen.allows("income")).map(|income| IncomeBody {
            amount: income.amount,
            currency: income.currency.map(|value| CodeBody::from(show(value))),
            period: income.period.map(|period| word(INCOME_PERIODS, period)),
        }),
        photo: beside.photo.as_ref().map(|bytes| BASE64.encode(bytes)),
        extension: extension::write(&details.extension, seen, fields, show),
        group_membership: beside
            .places
            .as_ref()
            .map(|places| places.iter().filter_map(|place| PlaceBody::new(place, show)).collect()),
        meta: MetaBody::from(&individual.meta),
    }
}

fn word<T: PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    words.iter().find(|(_, known)| *known == value).map_or("", |(word, _)| word)
}

/// An individual on the wire.
#[derive(Debug, Serialize)]
pub struct IndividualBody<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    identifier: Vec<IdentifierBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    active: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<NameBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    birth_date: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    birth_date_estimated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deceased_date: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gender: Option<CodeBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    marital_status: Option<CodeBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    country: Option<CodeBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    religion: Option<CodeBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ethnocultural_status: Option<CodeBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    education: Option<CodeBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    occupation: Option<CodeBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    economic_activity: Option<CodeBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pregnancy_status: Option<CodeBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    languages: Option<Vec<CodeBody>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disability_codes: Option<Vec<CodeBody>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    health_conditions: Option<Vec<CodeBody>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    telecom: Option<Vec<TelecomBody<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<Vec<AddressBody<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    income: Option<IncomeBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    photo: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extension: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group_membership: Option<Vec<PlaceBody>>,
    meta: MetaBody<'a>,
}

#[derive(Debug, Serialize)]
struct NameBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    family: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    given: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    middle: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    suffix: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

impl<'a> From<&'a PersonName> for NameBody<'a> {
    fn from(name: &'a PersonName) -> Self {
        Self {
            family: name.family.as_deref(),
            given: name.given.as_deref(),
            middle: name.middle.as_deref(),
            prefix: name.prefix.as_deref(),
            suffix: name.suffix.as_deref(),
            text: name.text.as_deref(),
        }
    }
}

#[derive(Debug, Serialize)]
struct TelecomBody<'a> {
    system: &'static str,
    value: &'a str,
    #[serde(rename = "use", skip_serializing_if = "Option::is_none")]
    usage: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rank: Option<u32>,
}

impl<'a> From<&'a Telecom> for TelecomBody<'a> {
    fn from(telecom: &'a Telecom) -> Self {
        Self {
            system: word(TELECOM_SYSTEMS, telecom.system),
            value: &telecom.value,
            usage: telecom.usage.as_deref(),
            rank: telecom.rank,
        }
    }
}

#[derive(Debug, Serialize)]
struct IncomeBody {
    amount: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    currency: Option<CodeBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    period: Option<&'static str>,
}
