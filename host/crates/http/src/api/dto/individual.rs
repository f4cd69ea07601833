//! The body of an individual.

mod read;
mod write;

use daftar_domain::individual::{IncomePeriod, TelecomSystem};

pub use read::{Identification, check_unseen, read, read_members};
pub use write::{IndividualBody, write};

const TELECOM_SYSTEMS: &[(&str, TelecomSystem)] = &[
    ("phone", TelecomSystem::Phone),
    ("email", TelecomSystem::Email),
    ("sms", TelecomSystem::Sms),
    ("url", TelecomSystem::Url),
];

const INCOME_PERIODS: &[(&str, IncomePeriod)] = &[("month", IncomePeriod::Month), ("year", IncomePeriod::Year)];
