//! A person in the register.

use jiff::civil::Date;

use super::address::{self, Address};
use super::calendar::Period;
use super::code::CodedValue;
use super::extension::Extension;
use super::identifier::Identifier;
use super::manifest::ExtensionPath;
use super::person_name::PersonName;
use super::photo::PhotoReference;
use super::record::Record;
use super::vocabulary::CodedField;

/// A stored person.
pub type Individual = Record<IndividualDetails>;

/// The most identifiers, telecoms, addresses or codes that one field of a record holds.
pub const LIST_ITEMS_MAX: usize = 100;
/// The longest text of an address or telecom, in bytes.
pub const TEXT_BYTES_MAX: usize = 1_000;

/// What the register says of a person. An absent list is "not recorded", an empty one "known to be none".
///
/// `C` is how codes are given: numbered in the register, as URIs in a request that has not been checked yet.
#[derive(Debug, Clone, PartialEq)]
pub struct IndividualDetails<C = CodedValue> {
    /// At least one.
    pub identifiers: Vec<Identifier>,
    /// Whether the record is in use.
    pub active: Option<bool>,
    /// The name.
    pub name: Option<PersonName>,
    /// Day of birth.
    pub birth_date: Option<Date>,
    /// Whether the day of birth is an estimate.
    pub birth_date_estimated: Option<bool>,
    /// Day of death.
    pub deceased_date: Option<Date>,
    /// The coded fields that hold one code, sorted by field, each at most once.
    pub codes: Vec<(CodedField, C)>,
    /// The coded fields that hold a list, sorted by field, each at most once.
    pub code_lists: Vec<(CodedField, Vec<C>)>,
    /// Telephone numbers, mail addresses and the like.
    pub telecom: Option<Vec<Telecom>>,
    /// Addresses, the most used one first.
    pub address: Option<Vec<Address<C>>>,
    /// Income.
    pub income: Option<Income<C>>,
    /// The photo, which is kept beside the record.
    pub photo: Option<PhotoReference>,
    /// What installed modules add.
    pub extension: Extension<C>,
}

impl<C> Default for IndividualDetails<C> {
    fn default() -> Self {
        Self {
            identifiers: Vec::new(),
            active: None,
            name: None,
            birth_date: None,
            birth_date_estimated: None,
            deceased_date: None,
            codes: Vec::new(),
            code_lists: Vec::new(),
            telecom: None,
            address: None,
            income: None,
            photo: None,
            extension: Extension::default(),
        }
    }
}

impl IndividualDetails<CodedValue> {
    /// The code of a field that holds one.
    #[must_use]
    pub fn code(&self, field: CodedField) -> Option<CodedValue> {
        self.codes.iter().find(|(at, _)| *at == field).map(|(_, value)| *value)
    }

    /// The codes of a field that holds a list; absent where nothing is recorded.
    #[must_use]
    pub fn code_list(&self, field: CodedField) -> Option<&[CodedValue]> {
        self.code_lists.iter().find(|(at, _)| *at == field).map(|(_, values)| values.as_slice())
    }

    /// Every (field, code) of the person, single or listed, the codes inside addresses and income included, those of
    /// extension fields not.
    #[must_use]
    pub fn every_code(&self) -> Vec<(CodedField, CodedValue)> {
        let mut all = self.codes.clone();
        for (field, values) in &self.code_lists {
            all.extend(values.iter().map(|value| (*field, *value)));
        }
        for address in self.address.iter().flatten() {
            all.extend(address.country.map(|value| (CodedField::AddressCountry, value)));
        }
        all.extend(self.income.and_then(|income| income.currency).map(|value| (CodedField::IncomeCurrency, value)));
        all
    }
}

impl<C> IndividualDetails<C> {
    /// The same person with every code put through `translate`, which is told where and under which path the code stands.
    pub fn map_codes<D>(self, mut translate_at: impl FnMut(CodePlace<'_>, String, C) -> D) -> IndividualDetails<D> {
        let mut translate = |field, path, code| translate_at(CodePlace::Field(field), path, code);
        let codes = self
            .codes
            .into_iter()
            .map(|(field, code)| (field, translate(field, field.path().to_owned(), code)))
            .collect();
        let mut code_lists = Vec::with_capacity(self.code_lists.len());
        for (field, values) in self.code_lists {
            let numbered = values.into_iter().enumerate();
            let values = numbered.map(|(at, code)| translate(field, format!("{}[{at}]", field.path()), code)).collect();
            code_lists.push((field, values));
        }
        let address = self.address.map(|addresses| address::map_countries(addresses, &mut translate));
        let income = self.income.map(|income| Income {
            amount: income.amount,
            currency: income
                .currency
                .map(|code| translate(CodedField::IncomeCurrency, "income.currency".to_owned(), code)),
            period: income.period,
        });
        let extension =
            self.extension.map_codes(|field, path, code| translate_at(CodePlace::Extension(field), path, code));
        IndividualDetails {
            identifiers: self.identifiers,
            active: self.active,
            name: self.name,
            birth_date: self.birth_date,
            birth_date_estimated: self.birth_date_estimated,
            deceased_date: self.deceased_date,
            codes,
            code_lists,
            telecom: self.telecom,
            address,
            income,
            photo: self.photo,
            extension,
        }
    }
}

/// Where a code of a record stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodePlace<'a> {
    /// In a field that every registry has.
    Field(CodedField),
    /// In a field that a module adds.
    Extension(&'a ExtensionPath),
}

/// The kinds of telecom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TelecomSystem {
    /// Telephone.
    Phone,
    /// Mail address.
    Email,
    /// Text messages.
    Sms,
    /// A web address.
    Url,
}

/// A way of reaching a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Telecom {
    /// What kind of way.
    pub system: TelecomSystem,
    /// The number or address.
    pub value: String,
    /// What it is used for, such as `home`.
    pub usage: Option<String>,
    /// Which to try first, from 1.
    pub rank: Option<u32>,
}

/// How often an income comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncomePeriod {
    /// Each month.
    Month,
    /// Each year.
    Year,
}

/// What a person earns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Income<C = CodedValue> {
    /// How much, finite, not negative.
    pub amount: f64,
    /// In which currency.
    pub currency: Option<C>,
    /// How often.
    pub period: Option<IncomePeriod>,
}

/// When somebody belongs to something: a shorthand for the period of a membership.
pub type MembershipPeriod = Option<Period>;
