//! The records as a client may expect them, and the forms in which they are compared with responses.

use std::collections::{BTreeMap, HashMap};

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::replay::Stored;
use crate::support::records::{FEMALE, MALE, NATIONAL_ID, path, reference, with};

/// The program of all enrolments.
pub(super) const PROGRAM: &str = "P";
/// The organization to which consents are given.
pub(super) const MINISTRY: &str = "Ministry of Health";
/// The end of an identifier that has ended, and the begin of consents.
pub(super) const LONG_AGO: &str = "2020-01-01";
/// The time for which an outcome is stored under its idempotency key.
pub(super) const KEY_STORED: SignedDuration = SignedDuration::from_hours(24);
/// A record may be written by a clock that is earlier by so much than the clock of its previous version.
const SET_BACK_MAX: SignedDuration = SignedDuration::from_hours(24);

/// An individual.
#[derive(Debug, Clone, Default)]
pub(super) struct Person {
    /// Values of its identifiers, each with true if it is open.
    pub(super) identifiers: Vec<(u8, bool)>,
    pub(super) born: u8,
    pub(super) name: Option<u8>,
    pub(super) version: u64,
}

/// A group.
#[derive(Debug, Clone, Default)]
pub(super) struct Group {
    pub(super) members: Vec<Member>,
    pub(super) version: u64,
    /// The changes of its members: the kind, the membership afterwards, and the version of the group.
    pub(super) history: Vec<(&'static str, Member, u64)>,
}

/// A membership in a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    pub(super) person: usize,
    pub(super) is_head: bool,
    pub(super) start: Option<Date>,
    /// Only of a membership that has ended.
    pub(super) end: Option<Date>,
    pub(super) is_inactive: bool,
}

/// A membership in the program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Enrolment {
    pub(super) person: usize,
    pub(super) since: Date,
    pub(super) exited: Option<Date>,
    pub(super) version: u64,
}

/// A consent of an individual.
#[derive(Debug, Clone)]
pub(super) struct Consent {
    pub(super) id: String,
    pub(super) person: usize,
    pub(super) last_day: Date,
    pub(super) is_withdrawn: bool,
}

/// The records that an identifier resolves to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    None,
    One(usize),
    Several,
}

/// The records.
#[derive(Debug, Clone)]
pub(super) struct Register {
    pub(super) now: Timestamp,
    begun: Timestamp,
    /// The latest time that the clock has shown.
    latest: Timestamp,
    pub(super) people: Vec<Person>,
    pub(super) groups: BTreeMap<u8, Group>,
    pub(super) enrolments: Vec<Enrolment>,
    pub(super) consents: Vec<Consent>,
    pub(super) stored: HashMap<u8, Stored>,
}

impl Register {
    pub(super) fn new(now: Timestamp) -> Self {
        let (people, groups, enrolments, consents) = (Vec::new(), BTreeMap::new(), Vec::new(), Vec::new());
        Self { now, begun: now, latest: now, people, groups, enrolments, consents, stored: HashMap::new() }
    }

    pub(super) fn today(&self) -> Date {
        day(self.now)
    }

    /// Sets the clock, by a negative number of minutes back. Returns false without a change if it would be earlier than
    /// the register, or than a record by more than a day.
    pub(super) fn pass(&mut self, minutes: i16) -> bool {
        let now = self.now + SignedDuration::from_mins(i64::from(minutes));
        if now < self.begun || self.latest.duration_since(now) > SET_BACK_MAX {
            return false;
        }
        (self.now, self.latest) = (now, self.latest.max(now));
        // The server deletes expired outcomes from time to time: after the clock is set back they may be missing.
        for stored in self.stored.values_mut() {
            stored.may_be_deleted |= now.duration_since(stored.at) >= KEY_STORED;
        }
        true
    }

    /// The record of an identifier, of those that are visible: the one that has it open, or else the only one that had
    /// it.
    pub(super) fn find(&self, value: u8, is_visible: impl Fn(usize) -> bool) -> Found {
        let holders = self.people.iter().enumerate().filter(|(place, _)| is_visible(*place));
        let holders = holders.filter_map(|(place, person)| Some((place, person.carries(value)?)));
        let holders: Vec<(usize, bool)> = holders.collect();
        match (holders.iter().find(|(_, is_open)| *is_open), holders.as_slice()) {
            (Some((place, _)), _) | (None, [(place, _)]) => Found::One(*place),
            (None, []) => Found::None,
            (None, _) => Found::Several,
        }
    }

    /// The record of an identifier, to a client that sees all.
    pub(super) fn resolve(&self, value: u8) -> Found {
        self.find(value, |_| true)
    }

    /// The only record of an identifier, to a client that sees all.
    pub(super) fn one(&self, value: u8) -> Option<usize> {
        match self.resolve(value) {
            Found::One(place) => Some(place),
            Found::None | Found::Several => None,
        }
    }

    pub(super) fn is_in_use(&self, value: u8) -> bool {
        self.people.iter().any(|person| person.carries(value) == Some(true))
    }

    /// The ids of the valid consents, of one individual or of all.
    pub(super) fn valid_consents(&self, person: Option<usize>) -> Vec<String> {
        let is_valid = |consent: &&Consent| !consent.is_withdrawn && consent.last_day >= self.today();
        let valid = self.consents.iter().filter(is_valid);
        let valid = valid.filter(|consent| person.is_none_or(|person| consent.person == person));
        valid.map(|consent| consent.id.clone()).collect()
    }

    /// True if a client of the organization that depends on consents sees the individual.
    pub(super) fn is_consented(&self, person: usize) -> bool {
        !self.valid_consents(Some(person)).is_empty()
    }

    /// The reference by which other records show an individual.
    pub(super) fn called(&self, person: usize) -> String {
        reference(&named(self.people[person].called()))
    }

    /// A membership in a group, from the side of the group.
    pub(super) fn member(&self, member: &Member) -> Value {
        with(json!({"entity": self.called(member.person)}), member.place())
    }

    /// The memberships of an individual in groups.
    pub(super) fn memberships(&self, person: usize) -> Vec<Value> {
        let places = self.groups.iter().flat_map(|(group, content)| {
            let members = content.members.iter().filter(move |member| member.person == person);
            members.map(move |member| with(json!({"group": group_reference(*group)}), member.place()))
        });
        places.collect()
    }

    /// An enrolment.
    pub(super) fn enrolment(&self, enrolment: &Enrolment) -> Value {
        let Enrolment { person, since, exited, version } = *enrolment;
        json!({
            "program": program_reference(), "beneficiary": self.called(person),
            "status": if exited.is_none() { "enrolled" } else { "exited" }, "enrollment_date": since.to_string(),
            "exit_date": exited.map(|day| day.to_string()), "version": version.to_string(),
        })
    }

    /// A consent.
    pub(super) fn consent(&self, consent: &Consent) -> Value {
        let status = match consent.is_withdrawn {
            true => "withdrawn",
            false if consent.last_day < self.today() => "expired",
            false => "given",
        };
        json!({
            "consent_id": consent.id, "subject": self.called(consent.person), "grantee": MINISTRY,
            "effective_date": LONG_AGO, "expiry_date": consent.last_day.to_string(), "scopes": ["individual"],
            "status": status, "version": if consent.is_withdrawn { "2" } else { "1" },
        })
    }
}

impl Person {
    /// True if it has the identifier open, false if it has ended there.
    pub(super) fn carries(&self, value: u8) -> Option<bool> {
        self.identifiers.iter().find(|(held, _)| *held == value).map(|(_, is_open)| *is_open)
    }

    /// The identifier by which other records show it: the first open one, or else the first.
    pub(super) fn called(&self) -> u8 {
        let open = self.identifiers.iter().find(|(_, is_open)| *is_open);
        open.or(self.identifiers.first()).expect("an individual has an identifier").0
    }

    /// All references of it.
    pub(super) fn references(&self) -> Vec<String> {
        self.identifiers.iter().map(|(value, _)| reference(&named(*value))).collect()
    }

    /// Its identifiers as in a body.
    pub(super) fn identifiers(&self) -> Value {
        let identifier = |(value, is_open): &(u8, bool)| {
            let identifier = json!({"system": NATIONAL_ID, "value": named(*value)});
            if *is_open { identifier } else { with(identifier, json!({"period": {"end": LONG_AGO}})) }
        };
        self.identifiers.iter().map(identifier).collect()
    }

    /// Its body in a request.
    pub(super) fn body(&self) -> Value {
        json!({"identifier": self.identifiers(), "birth_date": birth_date(self.born), "gender": self.gender()})
    }

    fn gender(&self) -> &'static str {
        if self.born == 0 { FEMALE } else { MALE }
    }

    /// Its fields as in a response.
    pub(super) fn fields(&self) -> Value {
        json!({
            "identifier": self.identifiers(), "birth_date": birth_date(self.born), "gender": self.gender(),
            "family": self.name.map(|name| name_of(name)["family"].clone()), "version": self.version.to_string(),
        })
    }
}

impl Member {
    /// True if it counts on a day.
    pub(super) fn is_active(&self, day: Date) -> bool {
        !self.is_inactive && self.start.is_none_or(|start| start <= day)
    }

    fn place(&self) -> Value {
        let [start, end] = [self.start, self.end].map(|day| day.map(|day| day.to_string()));
        json!({"role": role(self.is_head), "start": start, "end": end, "inactive": self.is_inactive})
    }
}

/// The fields of an individual in a response, in the form of [`Person::fields`].
pub(super) fn person_fields(body: &Value) -> Value {
    json!({
        "identifier": body["identifier"], "birth_date": body["birth_date"], "gender": body["gender"]["uri"],
        "family": body["name"]["family"], "version": body["meta"]["version_id"],
    })
}

/// A membership in a response, in the form of [`Register::member`].
pub(super) fn member_fields(member: &Value) -> Value {
    with(json!({"entity": member["entity"]["reference"]}), place_fields(member))
}

/// A membership in a response about an individual, in the form of [`Register::memberships`].
pub(super) fn membership_fields(member: &Value) -> Value {
    with(json!({"group": member["group"]["reference"]}), place_fields(member))
}

fn place_fields(member: &Value) -> Value {
    let Value::Object(_) = member else { return json!({}) };
    let (role, period) = (&member["role"]["code"], &member["period"]);
    json!({"role": role, "start": period["start"], "end": period["end"], "inactive": member["inactive"]})
}

/// An enrolment in a response, in the form of [`Register::enrolment`].
pub(super) fn enrolment_fields(body: &Value) -> Value {
    json!({
        "program": body["program"], "beneficiary": body["beneficiary"], "status": body["status"],
        "enrollment_date": body["enrollment_date"], "exit_date": body["exit_date"],
        "version": body["meta"]["version_id"],
    })
}

/// A consent in a response, in the form of [`Register::consent`].
pub(super) fn consent_fields(body: &Value) -> Value {
    json!({
        "consent_id": body["consent_id"], "subject": body["subject"], "grantee": body["grantee"],
        "effective_date": body["effective_date"], "expiry_date": body["expiry_date"], "scopes": body["scopes"],
        "status": body["status"], "version": body["meta"]["version_id"],
    })
}

/// The value of an identifier.
pub(super) fn named(value: u8) -> String {
    format!("m{value}")
}

/// A name as in a body.
pub(super) fn name_of(name: u8) -> Value {
    json!({"family": format!("Family{name}")})
}

/// A date of birth.
pub(super) fn birth_date(born: u8) -> String {
    format!("19{}-05-01", 50 + born)
}

/// The identifier of a group.
pub(super) fn group_name(group: u8) -> String {
    format!("g{group}")
}

/// The path of a group.
pub(super) fn group_path(group: u8) -> String {
    path("Group", &group_name(group))
}

/// The reference of a group.
pub(super) fn group_reference(group: u8) -> String {
    format!("Group/{NATIONAL_ID}|{}", group_name(group))
}

/// The reference of the program.
pub(super) fn program_reference() -> String {
    format!("Program/{NATIONAL_ID}|{PROGRAM}")
}

/// The code of a role in a group.
pub(super) fn role(is_head: bool) -> &'static str {
    if is_head { "head" } else { "child" }
}

/// The day of a time, in UTC.
pub(super) fn day(now: Timestamp) -> Date {
    now.to_zoned(TimeZone::UTC).date()
}
