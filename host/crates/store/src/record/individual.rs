//! How a person is stored. The key is not in the value: it is in the store's key.

use serde::{Deserialize, Serialize};

use crate::StoreError;
use daftar_domain::address::Address;
use daftar_domain::calendar::days_since_epoch;
use daftar_domain::code::CodedValue;
use daftar_domain::identifier::Identifier;
use daftar_domain::individual::{Income, IncomePeriod, Individual, IndividualDetails, Telecom, TelecomSystem};
use daftar_domain::person_name::PersonName;
use daftar_domain::record::{RecordId, RecordMeta};

use super::address::StoredAddressV1;
use super::extension::StoredExtensionFieldV1;
use super::parts::{StoredCodedValueV1, StoredIdentifierV1, StoredMetaV1, day, each};
use super::photo::StoredPhotoReferenceV1;
use super::{StoredForm, Unreadable, coded_field, decode_as, extension};

/// A person, version 1. Days count from 1970-01-01; an absent list and an empty one are kept apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredIndividualV1 {
    meta: StoredMetaV1,
    identifiers: Vec<StoredIdentifierV1>,
    active: Option<bool>,
    name: Option<StoredPersonNameV1>,
    birth_date: Option<i32>,
    birth_date_estimated: Option<bool>,
    deceased_date: Option<i32>,
    codes: Vec<StoredCodeV1>,
    code_lists: Vec<StoredCodeListV1>,
    telecom: Option<Vec<StoredTelecomV1>>,
    address: Option<Vec<StoredAddressV1>>,
    income: Option<StoredIncomeV1>,
    extension: Vec<StoredExtensionFieldV1>,
    photo: Option<StoredPhotoReferenceV1>,
}

impl StoredForm for StoredIndividualV1 {
    const VERSION: u8 = 1;
    const WHAT: &'static str = "individual";
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredPersonNameV1 {
    family: Option<String>,
    given: Option<String>,
    middle: Option<String>,
    prefix: Option<String>,
    suffix: Option<String>,
    text: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredCodeV1 {
    field: u8,
    value: StoredCodedValueV1,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredCodeListV1 {
    field: u8,
    values: Vec<StoredCodedValueV1>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum StoredTelecomSystemV1 {
    Phone,
    Email,
    Sms,
    Url,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredTelecomV1 {
    system: StoredTelecomSystemV1,
    value: String,
    usage: Option<String>,
    rank: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum StoredIncomePeriodV1 {
    Month,
    Year,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct StoredIncomeV1 {
    amount: f64,
    currency: Option<StoredCodedValueV1>,
    period: Option<StoredIncomePeriodV1>,
}

/// The bytes of a person.
///
/// # Errors
/// [`StoreError::TooLarge`] when they are too many.
pub fn encode(individual: &Individual) -> Result<Vec<u8>, StoreError> {
    super::encode(&StoredIndividualV1::from(individual))
}

/// The person of that key that the bytes hold.
///
/// # Errors
/// [`StoreError::Corrupt`] when they cannot be read.
pub fn decode(id: RecordId, bytes: &[u8]) -> Result<Individual, StoreError> {
    decode_as(bytes, |stored: StoredIndividualV1| stored.into_individual(id))
}

impl From<&Individual> for StoredIndividualV1 {
    fn from(individual: &Individual) -> Self {
        let details = &individual.details;
        Self {
            meta: StoredMetaV1::from(&individual.meta),
            identifiers: details.identifiers.iter().map(StoredIdentifierV1::from).collect(),
            active: details.active,
            name: details.name.as_ref().map(StoredPersonNameV1::from),
            birth_date: details.birth_date.map(days_since_epoch),
            birth_date_estimated: details.birth_date_estimated,
            deceased_date: details.deceased_date.map(days_since_epoch),
            codes: details.codes.iter().map(stored_code).collect(),
            code_lists: details.code_lists.iter().map(stored_code_list).collect(),
            telecom: details.telecom.as_ref().map(|all| all.iter().map(StoredTelecomV1::from).collect()),
            address: details.address.as_ref().map(|all| all.iter().map(StoredAddressV1::from).collect()),
            income: details.income.map(StoredIncomeV1::from),
            extension: extension::as_stored(&details.extension),
            photo: details.photo.map(Into::into),
        }
    }
}

impl StoredIndividualV1 {
    fn into_individual(self, id: RecordId) -> Result<Individual, Unreadable> {
        let mut codes = Vec::with_capacity(self.codes.len());
        for stored in self.codes {
            codes.push((coded_field::field(stored.field)?, stored.value.into()));
        }
        let mut code_lists = Vec::with_capacity(self.code_lists.len());
        for stored in self.code_lists {
            let values = stored.values.into_iter().map(CodedValue::from).collect();
            code_lists.push((coded_field::field(stored.field)?, values));
        }
        let details = IndividualDetails {
            identifiers: each::<_, Identifier>(self.identifiers)?,
            active: self.active,
            name: self.name.map(PersonName::from),
            birth_date: day(self.birth_date)?,
            birth_date_estimated: self.birth_date_estimated,
            deceased_date: day(self.deceased_date)?,
            codes,
            code_lists,
            telecom: self.telecom.map(|all| all.into_iter().map(Telecom::from).collect()),
            address: self.address.map(|all| all.into_iter().map(Address::from).collect()),
            income: self.income.map(Income::try_from).transpose()?,
            photo: self.photo.map(Into::into),
            extension: extension::read(self.extension)?,
        };
        Ok(Individual { id, meta: RecordMeta::try_from(self.meta)?, details })
    }
}

fn stored_code((field, value): &(daftar_domain::vocabulary::CodedField, CodedValue)) -> StoredCodeV1 {
    StoredCodeV1 { field: coded_field::number(*field), value: (*value).into() }
}

fn stored_code_list((field, values): &(daftar_domain::vocabulary::CodedField, Vec<CodedValue>)) -> StoredCodeListV1 {
    let values = values.iter().map(|value| StoredCodedValueV1::from(*value)).collect();
    StoredCodeListV1 { field: coded_field::number(*field), values }
}

impl From<&PersonName> for StoredPersonNameV1 {
    fn from(name: &PersonName) -> Self {
        let PersonName { family, given, middle, prefix, suffix, text } = name.clone();
        Self { family, given, middle, prefix, suffix, text }
    }
}

impl From<StoredPersonNameV1> for PersonName {
    fn from(stored: StoredPersonNameV1) -> Self {
        let StoredPersonNameV1 { family, given, middle, prefix, suffix, text } = stored;
        Self { family, given, middle, prefix, suffix, text }
    }
}

impl From<&Telecom> for StoredTelecomV1 {
    fn from(telecom: &Telecom) -> Self {
        let system = match telecom.system {
            TelecomSystem::Phone => StoredTelecomSystemV1::Phone,
            TelecomSystem::Email => StoredTelecomSystemV1::Email,
            TelecomSystem::Sms => StoredTelecomSystemV1::Sms,
            TelecomSystem::Url => StoredTelecomSystemV1::Url,
        };
        Self { system, value: telecom.value.clone(), usage: telecom.usage.clone(), rank: telecom.rank }
    }
}

impl From<StoredTelecomV1> for Telecom {
    fn from(stored: StoredTelecomV1) -> Self {
        let system = match stored.system {
            StoredTelecomSystemV1::Phone => TelecomSystem::Phone,
            StoredTelecomSystemV1::Email => TelecomSystem::Email,
            StoredTelecomSystemV1::Sms => TelecomSystem::Sms,
            StoredTelecomSystemV1::Url => TelecomSystem::Url,
        };
        Self { system, value: stored.value, usage: stored.usage, rank: stored.rank }
    }
}

impl From<Income> for StoredIncomeV1 {
    fn from(income: Income) -> Self {
        let period = income.period.map(|period| match period {
            IncomePeriod::Month => StoredIncomePeriodV1::Month,
            IncomePeriod::Year => StoredIncomePeriodV1::Year,
        });
        Self { amount: income.amount, currency: income.currency.map(Into::into), period }
    }
}

impl TryFrom<StoredIncomeV1> for Income {
    type Error = Unreadable;

    fn try_from(stored: StoredIncomeV1) -> Result<Self, Unreadable> {
        if !stored.amount.is_finite() || stored.amount < 0.0 {
            return Err(Unreadable::field("income.amount"));
        }
        let period = stored.period.map(|period| match period {
            StoredIncomePeriodV1::Month => IncomePeriod::Month,
            StoredIncomePeriodV1::Year => IncomePeriod::Year,
        });
        Ok(Self { amount: stored.amount, currency: stored.currency.map(Into::into), period })
    }
}
