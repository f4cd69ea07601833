//! Individuals in the register.

use jiff::civil::Date;

use super::address;
use super::code::CodedValue;
use super::person_name::PERSON_NAME;
use super::photo::PhotoReference;
use super::record::{Fields, Record, RecordId};
use super::relationship::KINSHIPS;
use super::schema::{ADDRESSES, Field, Kind, Struct};
use super::value::{Code, Key, List, Part, Text, WordOf};
use super::vocabulary::CodedField;

pub use super::address::TEXT_BYTES_MAX;

record_type!(IndividualRecord is Individual);

/// A stored individual.
pub type Individual = Record<IndividualDetails>;

/// The details of an individual. An absent list means "not recorded", an empty one "known to be none".
///
/// `C` is the representation of codes: numbers in the register, URIs in a request that is not validated yet.
pub type IndividualDetails<C = CodedValue, I = RecordId> = Fields<IndividualRecord, C, I>;

/// Maximum number of identifiers, telecoms, addresses or codes in one field of a record.
pub const LIST_ITEMS_MAX: usize = 100;

/// True if the record is active.
pub const ACTIVE: Key<bool> = Key::new(1);
/// The name.
pub const NAME: Key<Part> = Key::new(2);
/// Day of birth.
pub const BIRTH_DATE: Key<Date> = Key::new(3);
/// True if the day of birth is an estimate.
pub const BIRTH_DATE_ESTIMATED: Key<bool> = Key::new(4);
/// Day of death.
pub const DECEASED_DATE: Key<Date> = Key::new(5);
/// Gender.
pub const GENDER: Key<Code> = Key::new(6);
/// Marital status.
pub const MARITAL_STATUS: Key<Code> = Key::new(7);
/// Nationality.
pub const COUNTRY: Key<Code> = Key::new(8);
/// Religion.
pub const RELIGION: Key<Code> = Key::new(9);
/// Ethnocultural status.
pub const ETHNOCULTURAL_STATUS: Key<Code> = Key::new(10);
/// Education.
pub const EDUCATION: Key<Code> = Key::new(11);
/// Occupation.
pub const OCCUPATION: Key<Code> = Key::new(12);
/// Economic activity.
pub const ECONOMIC_ACTIVITY: Key<Code> = Key::new(13);
/// Pregnancy status.
pub const PREGNANCY_STATUS: Key<Code> = Key::new(14);
/// Languages.
pub const LANGUAGES: Key<List<Code>> = Key::new(15);
/// Disabilities.
pub const DISABILITY_CODES: Key<List<Code>> = Key::new(16);
/// Health conditions.
pub const HEALTH_CONDITIONS: Key<List<Code>> = Key::new(17);
/// Telephone numbers, email addresses and the like.
pub const TELECOM: Key<List<Part>> = Key::new(18);
/// Addresses, the most used first.
pub const ADDRESS: Key<List<Part>> = Key::new(19);
/// Income.
pub const INCOME: Key<Part> = Key::new(20);
/// The photo, which is stored separately from the record.
pub const PHOTO: Key<PhotoReference> = Key::new(21);
/// Relationships to other individuals, independent of groups.
pub const RELATIONSHIP: Key<List<Part>> = Key::new(22);
/// Day of registration.
pub const REGISTRATION_DATE: Key<Date> = Key::new(23);
/// Place of birth.
pub const BIRTH_PLACE: Key<Part> = Key::new(24);

const fn list(of: &'static Kind) -> Kind {
    Kind::List { of, items_max: LIST_ITEMS_MAX }
}

/// Returns a field with one code, usable for filters and sorting.
const fn code(key: Key<Code>, name: &'static str, coded: CodedField) -> Field {
    Field::new(key, name, Kind::Code(coded)).in_rules().column().sort().filter()
}

/// The fields of an individual.
pub const FIELDS: &[Field] = &[
    Field::new(ACTIVE, "active", Kind::Boolean).about("A record without it is active.").in_rules().column().filter(),
    Field::new(NAME, "name", Kind::Struct(&PERSON_NAME)).in_rules().sort().filter(),
    Field::new(BIRTH_DATE, "birth_date", Kind::Date).in_rules().column().sort().filter(),
    Field::new(BIRTH_DATE_ESTIMATED, "birth_date_estimated", Kind::Boolean).in_rules().column(),
    Field::new(DECEASED_DATE, "deceased_date", Kind::Date).in_rules().column().sort(),
    code(GENDER, "gender", CodedField::Gender),
    code(MARITAL_STATUS, "marital_status", CodedField::MaritalStatus),
    code(COUNTRY, "country", CodedField::Country),
    code(RELIGION, "religion", CodedField::Religion),
    code(ETHNOCULTURAL_STATUS, "ethnocultural_status", CodedField::EthnoculturalStatus),
    code(EDUCATION, "education", CodedField::Education),
    code(OCCUPATION, "occupation", CodedField::Occupation),
    code(ECONOMIC_ACTIVITY, "economic_activity", CodedField::EconomicActivity),
    code(PREGNANCY_STATUS, "pregnancy_status", CodedField::PregnancyStatus),
    Field::new(LANGUAGES, "languages", list(&Kind::Code(CodedField::Languages))).in_rules().filter(),
    Field::new(DISABILITY_CODES, "disability_codes", list(&Kind::Code(CodedField::DisabilityCodes)))
        .in_rules()
        .filter(),
    Field::new(HEALTH_CONDITIONS, "health_conditions", list(&Kind::Code(CodedField::HealthConditions)))
        .in_rules()
        .filter(),
    Field::new(TELECOM, "telecom", list(&Kind::Struct(&TELECOMS))),
    Field::new(ADDRESS, "address", ADDRESSES).in_rules().filter(),
    Field::new(INCOME, "income", Kind::Struct(&INCOMES)).in_rules(),
    Field::new(PHOTO, "photo", Kind::Photo),
    Field::new(RELATIONSHIP, "relationship", list(&Kind::Struct(&KINSHIPS))).in_rules().not_tabular(),
    Field::new(REGISTRATION_DATE, "registration_date", Kind::Date)
        .about("The day on which the person was registered.")
        .in_rules()
        .column()
        .sort()
        .filter(),
    Field::new(BIRTH_PLACE, "birth_place", Kind::Struct(&BIRTH_PLACES)).in_rules(),
];

/// Place of birth: an address without lines and use.
pub const BIRTH_PLACES: Struct = Struct {
    name: "BirthPlace",
    about: "The place where a person was born.",
    fields: &[
        Field::new(address::TEXT, "text", Kind::Text(TEXT_BYTES_MAX)).in_rules(),
        Field::new(address::CITY, "city", Kind::Text(TEXT_BYTES_MAX)).in_rules(),
        Field::new(address::DISTRICT, "district", Kind::Text(TEXT_BYTES_MAX)).in_rules(),
        Field::new(address::REGION, "region", Kind::Text(TEXT_BYTES_MAX)).in_rules().filter(),
        Field::new(address::POSTAL_CODE, "postal_code", Kind::Text(100)).in_rules(),
        Field::new(address::COUNTRY, "country", Kind::Code(CodedField::BirthPlaceCountry)).in_rules(),
    ],
};

named_enum! {
    /// The kinds of telecom.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum TelecomSystem {
        /// Telephone.
        Phone = "phone",
        /// Email address.
        Email = "email",
        /// Text messages.
        Sms = "sms",
        /// A web address.
        Url = "url",
    }
}

/// Kind of telecom.
pub const TELECOM_SYSTEM: Key<WordOf<TelecomSystem>> = Key::new(1);
/// The number or address.
pub const TELECOM_VALUE: Key<Text> = Key::new(2);
/// Use, such as `home`.
pub const TELECOM_USE: Key<Text> = Key::new(3);
/// Preference, from 1 (first).
pub const TELECOM_RANK: Key<i64> = Key::new(4);

/// A telecom contact of an individual.
pub const TELECOMS: Struct = Struct {
    name: "Telecom",
    about: "A way to reach a person.",
    fields: &[
        Field::new(TELECOM_SYSTEM, "system", Kind::Word(&TelecomSystem::NAMES)).required(TELECOM_NEEDS).not_tabular(),
        Field::new(TELECOM_VALUE, "value", Kind::Text(TEXT_BYTES_MAX)).required(TELECOM_NEEDS),
        Field::new(TELECOM_USE, "use", Kind::Text(100)),
        Field::new(TELECOM_RANK, "rank", Kind::Count),
    ],
};
const TELECOM_NEEDS: &str = "a telecom requires a system and a value";

named_enum! {
    /// Payment interval of an income.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum IncomePeriod {
        /// Each month.
        Month = "month",
        /// Each year.
        Year = "year",
    }
}

/// Amount, finite, not negative.
pub const INCOME_AMOUNT: Key<f64> = Key::new(1);
/// Currency.
pub const INCOME_CURRENCY: Key<Code> = Key::new(2);
/// Interval.
pub const INCOME_PERIOD: Key<WordOf<IncomePeriod>> = Key::new(3);

/// The income of an individual.
pub const INCOMES: Struct = Struct {
    name: "Income",
    about: "The income of a person.",
    fields: &[
        Field::new(INCOME_AMOUNT, "amount", Kind::Amount).required("an income requires an amount").in_rules().column(),
        Field::new(INCOME_CURRENCY, "currency", Kind::Code(CodedField::IncomeCurrency)).in_rules().column().filter(),
        Field::new(INCOME_PERIOD, "period", Kind::Word(&IncomePeriod::NAMES)).in_rules(),
    ],
};
