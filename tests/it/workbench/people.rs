//! The people of the browser's register, and the expected results of rules: counted here by other means than the
//! server's.

use daftar_tests::records::{FEMALE, MALE, NATIONAL_ID};
use serde_json::{Value, json};

/// Number of people.
const COUNT: i16 = 240;

/// One of them.
#[derive(Clone, Copy)]
pub(super) struct Person {
    number: i16,
    is_female: Option<bool>,
    born: Option<i16>,
    has_income: bool,
}

/// The line of a woman whose date of birth is not recorded.
pub(super) fn woman_without_age(given: &str, family: &str) -> Value {
    json!({
        "type": "individual",
        "identifier": [{"system": NATIONAL_ID, "value": "W-1000"}],
        "name": {"given": given, "family": family},
        "gender": FEMALE,
        "active": true,
    })
}

/// All people: some without a gender, a day of birth or an income, of every age.
pub(super) fn all_people() -> Vec<Person> {
    let one = |number: i16| Person {
        number,
        is_female: (number % 30 != 7).then_some(number % 2 == 0),
        born: (number % 21 != 3).then_some(1930 + (number * 7) % 90),
        has_income: number % 5 != 0,
    };
    (0..COUNT).map(one).collect()
}

impl Person {
    /// The line of an import.
    pub(super) fn line(&self) -> Value {
        let mut line = json!({
            "type": "individual",
            "identifier": [{"system": NATIONAL_ID, "value": format!("W-{:04}", self.number)}],
            "name": {"given": "Amina", "family": "Diallo"},
            "active": true,
        });
        if let Some(is_female) = self.is_female {
            line["gender"] = json!(if is_female { FEMALE } else { MALE });
        }
        if let Some(born) = self.born {
            // On the first of January: the year alone determines the age.
            line["birth_date"] = json!(format!("{born}-01-01"));
        }
        if self.has_income {
            line["income"] = json!({"amount": 500.0, "period": "month"});
        }
        line
    }

    /// Tests whether a person is at least this old in that year, if known.
    pub(super) fn is_at_least(&self, age: i16, year: i16) -> Option<bool> {
        self.born.map(|born| year - born >= age)
    }

    /// Tests whether a person is a woman of at least this age.
    pub(super) fn is_woman_of(&self, age: i16, year: i16) -> Option<bool> {
        match (self.is_female, self.is_at_least(age, year)) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            (_, _) => None,
        }
    }

    /// Tests whether a person is at least this old, or a woman of at least 60.
    pub(super) fn is_pensioner_from(&self, age: i16, year: i16) -> Option<bool> {
        match (self.is_at_least(age, year), self.is_woman_of(60, year)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            (_, _) => None,
        }
    }

    /// Tests whether a person is at least this old and has a low income, as all incomes are.
    pub(super) fn is_poor_of(&self, age: i16, year: i16) -> Option<bool> {
        match self.is_at_least(age, year) {
            Some(true) => self.has_income.then_some(true),
            Some(false) => Some(false),
            None => None,
        }
    }
}
