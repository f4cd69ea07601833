//! The register as its clients may expect it: what each operation returns, and the records that there are then.

use std::collections::HashMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use serde_json::{Value, json};

use super::step::{Condition, Step};
use crate::support::http::Response;
use crate::support::records::{FEMALE, MALE, NATIONAL_ID, household, path, reference, with};

/// The program of all enrolments.
pub(super) const PROGRAM: &str = "P";
/// The organization to which consents are given.
pub(super) const MINISTRY: &str = "Ministry of Health";
/// The limits of the client with small ones.
pub(super) const LIMIT_MINUTE: u8 = 5;
pub(super) const LIMIT_DAY: u8 = 12;
const KEY_STORED_HOURS: i64 = 24;
/// The end of an identifier that has ended.
const ENDED: &str = "2020-01-01";

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
}

/// A membership in a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    pub(super) person: usize,
    pub(super) is_head: bool,
    pub(super) is_active: bool,
}

#[derive(Debug, Clone)]
struct Consent {
    id: String,
    person: usize,
    last_day: Date,
    is_withdrawn: bool,
}

/// A stored outcome of a request with an idempotency key.
#[derive(Debug, Clone)]
struct Stored {
    step: Step,
    at: Timestamp,
    etag: Option<String>,
}

/// The remaining requests of the client with small limits.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    /// Absent while it is unknown: after a restart the minute may start again.
    pub(super) minute: Option<u8>,
    day: Date,
    pub(super) left_today: u8,
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
    pub(super) people: Vec<Person>,
    pub(super) groups: HashMap<u8, Group>,
    /// The enrolments: the individual, and true while it is open.
    pub(super) enrolments: Vec<(usize, bool)>,
    consents: Vec<Consent>,
    stored: HashMap<u8, Stored>,
    pub(super) budget: Budget,
}

/// A change of the register by a response with success.
type Effect = Box<dyn FnOnce(&mut Register, &Response)>;

/// A request, and the response to expect.
pub(super) struct Plan {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) key: Option<u8>,
    pub(super) condition: Option<u64>,
    pub(super) body: Value,
    /// The permitted status codes: where a request is wrong in two ways, either may be reported.
    pub(super) statuses: Vec<u16>,
    /// The version of the record afterwards.
    pub(super) etag: Option<u64>,
    /// The `ETag` of the response that is replayed.
    pub(super) replayed: Option<Option<String>>,
    effect: Effect,
}

impl Register {
    pub(super) fn new(now: Timestamp) -> Self {
        let budget = Budget { minute: Some(LIMIT_MINUTE), day: day(now), left_today: LIMIT_DAY };
        let (people, enrolments, consents) = (Vec::new(), Vec::new(), Vec::new());
        Self { now, people, groups: HashMap::new(), enrolments, consents, stored: HashMap::new(), budget }
    }

    pub(super) fn today(&self) -> Date {
        day(self.now)
    }

    /// Lets time pass.
    pub(super) fn pass(&mut self, minutes: u16) {
        self.now = self.now.checked_add(Span::new().minutes(i64::from(minutes))).expect("a time within the century");
        self.budget.minute = Some(LIMIT_MINUTE);
        if self.budget.day != self.today() {
            (self.budget.day, self.budget.left_today) = (self.today(), LIMIT_DAY);
        }
    }

    /// The record of an identifier, among those that are visible: the one that has it open, or else the only one that
    /// had it.
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

    fn one(&self, value: u8) -> Option<usize> {
        match self.resolve(value) {
            Found::One(place) => Some(place),
            Found::None | Found::Several => None,
        }
    }

    fn is_in_use(&self, value: u8) -> bool {
        self.people.iter().any(|person| person.carries(value) == Some(true))
    }

    /// True if a client of the organization that depends on consents sees the individual.
    pub(super) fn is_consented(&self, place: usize) -> bool {
        let is_valid = |consent: &Consent| !consent.is_withdrawn && consent.last_day >= self.today();
        self.consents.iter().any(|consent| consent.person == place && is_valid(consent))
    }

    /// The request of an operation on records. `None` for one whose outcome is not specified here.
    pub(super) fn plan(&self, step: Step) -> Option<Plan> {
        let plan = self.plan_once(step)?;
        let Some(stored) = plan.key.and_then(|key| self.stored.get(&key)) else { return Some(plan) };
        let age = self.now.duration_since(stored.at).as_hours();
        if age >= KEY_STORED_HOURS {
            return Some(plan);
        }
        let effect: Effect = Box::new(|_, _| ());
        if stored.step != step {
            return Some(Plan { statuses: vec![422], etag: None, effect, ..plan });
        }
        let statuses = vec![if matches!(step, Step::Transaction { .. }) { 200 } else { 201 }];
        Some(Plan { statuses, etag: None, replayed: Some(stored.etag.clone()), effect, ..plan })
    }

    fn plan_once(&self, step: Step) -> Option<Plan> {
        match step {
            Step::Register { value, born, key } => {
                let person = Person { identifiers: vec![(value, true)], born, name: None, version: 1 };
                let plan = Plan::new("POST", "/Individual".to_owned(), person.body()).with_key(key);
                if self.is_in_use(value) {
                    return Some(plan.refused(&[409]));
                }
                Some(plan.done(201, Some(1), move |register, _| register.people.push(person)))
            }
            Step::Replace { value, born, condition } => self.change(value, condition, "PUT", |person| {
                (person.born, person.name) = (born, None);
                person.body()
            }),
            Step::Rename { value, name, condition } => self.change(value, condition, "PATCH", |person| {
                person.name = Some(name);
                json!({"name": name_of(name)})
            }),
            Step::AddIdentifier { value, more } => {
                let place = self.one(value)?;
                if self.people[place].carries(more).is_some() {
                    return None;
                }
                let plan = self.change(value, Condition::Any, "PATCH", |person| {
                    person.identifiers.push((more, true));
                    json!({"identifier": person.identifiers()})
                })?;
                Some(if self.is_in_use(more) { plan.refused(&[409]) } else { plan })
            }
            Step::EndIdentifier { value, ended } => {
                let place = self.one(value)?;
                if self.people[place].carries(ended) != Some(true) {
                    return None;
                }
                self.change(value, Condition::Any, "PATCH", |person| {
                    person.identifiers.iter_mut().filter(|(value, _)| *value == ended).for_each(|held| held.1 = false);
                    json!({"identifier": person.identifiers()})
                })
            }
            Step::CreateGroup { group, head, other } => {
                let members = [(head, true), (other, false)];
                let roles = members.map(|(value, is_head)| (named(value), role(is_head)));
                let roles = roles.each_ref().map(|(value, role)| (value.as_str(), *role));
                let plan = Plan::new("POST", "/Group".to_owned(), household(&group_name(group), &roles));
                let people = members.map(|(value, is_head)| self.one(value).map(|person| (person, is_head)));
                let [Some(first), Some(second)] = people else { return Some(plan.refused(&[422])) };
                if first.0 == second.0 {
                    return Some(plan.refused(&[422]));
                }
                if self.groups.contains_key(&group) {
                    return Some(plan.refused(&[409]));
                }
                let member = |(person, is_head)| Member { person, is_head, is_active: true };
                let made = Group { members: [first, second].map(member).to_vec(), version: 1 };
                Some(plan.done(201, Some(1), move |register, _| drop(register.groups.insert(group, made))))
            }
            Step::AddMember { group, value, is_head, key } => {
                let role = format!("urn:svc:vocab:relationship#{}", role(is_head));
                let body = json!({"entity": {"reference": reference(&named(value))}, "role": role});
                let plan = Plan::new("POST", format!("{}/$add-member", group_path(group)), body).with_key(key);
                let (Some(before), Some(person)) = (self.groups.get(&group), self.one(value)) else {
                    return Some(self.refused_member(plan, group));
                };
                let is_taken =
                    |member: &Member| member.is_active && (member.person == person || (is_head && member.is_head));
                if before.members.iter().any(is_taken) {
                    return Some(plan.refused(&[422]));
                }
                let member = Member { person, is_head, is_active: true };
                Some(plan.done(201, Some(before.version + 1), move |register, _| {
                    register.change_group(group, |members| members.push(member));
                }))
            }
            Step::RemoveMember { group, value } => {
                let body = json!({"entity": {"reference": reference(&named(value))}});
                let plan = Plan::new("POST", format!("{}/$remove-member", group_path(group)), body);
                let Some(before) = self.groups.get(&group) else {
                    return Some(self.refused_member(plan, group));
                };
                let active = before.members.iter().filter(|member| member.is_active).map(|member| member.person);
                let active: Vec<usize> = active.collect();
                let named = self.one(value).filter(|person| active.contains(person));
                // A member without an open identifier is shown by one that has ended, and may be named by it.
                let mut shown =
                    active.iter().copied().filter(|person| self.people[*person].carries(value) == Some(false));
                let person = match (named, shown.next()) {
                    (Some(person), _) => person,
                    (None, None) => return Some(plan.refused(&[422])),
                    (None, Some(only)) if shown.next().is_none() && self.people[only].identifiers.len() == 1 => only,
                    (None, Some(_)) => return None,
                };
                Some(plan.done(200, Some(before.version + 1), move |register, _| {
                    register.change_group(group, |members| {
                        let left = members.iter_mut().filter(|member| member.is_active && member.person == person);
                        left.for_each(|member| member.is_active = false);
                    });
                }))
            }
            Step::Enrol { value, key } => {
                let plan =
                    Plan::new("POST", "/ProgramMembership".to_owned(), enrolment(value, "enrolled")).with_key(key);
                let Some(person) = self.one(value) else { return Some(plan.refused(&[422])) };
                if self.enrolments.contains(&(person, true)) {
                    return Some(plan.refused(&[409]));
                }
                Some(plan.done(201, Some(1), move |register, _| register.enrolments.push((person, true))))
            }
            Step::Exit { value } => {
                let target = path("ProgramMembership", &named(value));
                let target = format!("{target}?program={}|{PROGRAM}", NATIONAL_ID.replace('#', "%23"));
                let plan = Plan::new("PUT", target, enrolment(value, "exited"));
                let person = match self.resolve(value) {
                    Found::One(person) => person,
                    Found::None => return Some(plan.refused(&[404])),
                    Found::Several => return None,
                };
                let of_person = self.enrolments.iter().filter(|(of, _)| *of == person).count();
                match (self.enrolments.contains(&(person, true)), of_person) {
                    (true, _) => Some(plan.done(200, None, move |register, _| {
                        let open = register.enrolments.iter_mut().find(|enrolment| **enrolment == (person, true));
                        open.expect("an open enrolment").1 = false;
                    })),
                    (false, 0) => Some(plan.refused(&[404])),
                    (false, 1) => None,
                    (false, _) => Some(plan.refused(&[409])),
                }
            }
            Step::Transaction { first, second, key } => {
                let people = [first, second].map(|value| Person {
                    identifiers: vec![(value, true)],
                    born: 0,
                    name: None,
                    version: 1,
                });
                let entries = people.each_ref().map(
                    |person| json!({"request": {"method": "POST", "url": "Individual"}, "resource": person.body()}),
                );
                let body = json!({"type": "transaction", "entry": entries});
                let plan = Plan::new("POST", "/$batch".to_owned(), body).with_key(key);
                if first == second || self.is_in_use(first) || self.is_in_use(second) {
                    return Some(plan.refused(&[422]));
                }
                Some(plan.done(200, None, move |register, _| register.people.extend(people)))
            }
            Step::Consent { value, days } => {
                let last_day = self.today().checked_add(Span::new().days(i64::from(days))).expect("a day");
                let body = json!({
                    "subject": reference(&named(value)), "grantee": MINISTRY, "scopes": ["individual"],
                    "effective_date": ENDED, "expiry_date": last_day.to_string(),
                });
                let plan = Plan::new("POST", "/consents".to_owned(), body);
                let Some(person) = self.one(value) else { return Some(plan.refused(&[422])) };
                Some(plan.done(201, Some(1), move |register, response| {
                    let id = response.json()["consent_id"].as_str().expect("an id").to_owned();
                    register.consents.push(Consent { id, person, last_day, is_withdrawn: false });
                }))
            }
            Step::Withdraw { nth } => {
                let place = usize::from(nth).checked_rem(self.consents.len())?;
                let plan = Plan::new("DELETE", format!("/Consent/{}", self.consents[place].id), Value::Null);
                Some(plan.done(204, None, move |register, _| register.consents[place].is_withdrawn = true))
            }
            Step::Spend { .. } | Step::Swap | Step::Pass { .. } | Step::Use { .. } | Step::Restart | Step::Kill => None,
        }
    }

    fn change(
        &self,
        value: u8,
        condition: Condition,
        method: &'static str,
        edit: impl FnOnce(&mut Person) -> Value,
    ) -> Option<Plan> {
        let found = self.resolve(value);
        let place = if let Found::One(place) = found { Some(place) } else { None };
        let absent = Person { identifiers: vec![(value, true)], ..Person::default() };
        let mut person = place.map_or(absent, |place| self.people[place].clone());
        let version = person.version;
        let body = edit(&mut person);
        let mut plan = Plan::new(method, path("Individual", &named(value)), body);
        plan.condition = match condition {
            Condition::Any => None,
            Condition::Current => Some(version),
            Condition::Stale => Some(version + 1_000),
        };
        let Some(place) = place else {
            return Some(plan.refused(&[if found == Found::None { 404 } else { 409 }]));
        };
        if condition == Condition::Stale {
            return Some(plan.refused(&[409]));
        }
        person.version += 1;
        Some(plan.done(200, Some(version + 1), move |register, _| register.people[place] = person))
    }

    /// The group is absent, or the individual is not resolved, or both.
    fn refused_member(&self, plan: Plan, group: u8) -> Plan {
        let statuses: &[u16] = if self.groups.contains_key(&group) { &[422] } else { &[404, 422] };
        plan.refused(statuses)
    }

    fn change_group(&mut self, group: u8, edit: impl FnOnce(&mut Vec<Member>)) {
        let group = self.groups.get_mut(&group).expect("a group that was found");
        edit(&mut group.members);
        group.version += 1;
    }

    /// Applies a response with success.
    pub(super) fn apply(&mut self, step: Step, plan: Plan, response: &Response) {
        if let (Some(key), None) = (plan.key, &plan.replayed) {
            let etag = response.header("etag").map(ToOwned::to_owned);
            self.stored.insert(key, Stored { step, at: self.now, etag });
        }
        (plan.effect)(self, response);
    }
}

impl Plan {
    fn new(method: &'static str, path: String, body: Value) -> Self {
        let effect: Effect = Box::new(|_, _| ());
        let (key, condition, statuses, etag, replayed) = (None, None, Vec::new(), None, None);
        Self { method, path, key, condition, body, statuses, etag, replayed, effect }
    }

    fn with_key(self, key: Option<u8>) -> Self {
        Self { key, ..self }
    }

    fn refused(self, statuses: &[u16]) -> Self {
        Self { statuses: statuses.to_vec(), etag: None, effect: Box::new(|_, _| ()), ..self }
    }

    fn done(self, status: u16, etag: Option<u64>, effect: impl FnOnce(&mut Register, &Response) + 'static) -> Self {
        Self { statuses: vec![status], etag, effect: Box::new(effect), ..self }
    }
}

impl Person {
    /// True if it has the identifier open, false if it has ended there.
    pub(super) fn carries(&self, value: u8) -> Option<bool> {
        self.identifiers.iter().find(|(held, _)| *held == value).map(|(_, is_open)| *is_open)
    }

    /// Its identifiers as in a body.
    pub(super) fn identifiers(&self) -> Value {
        let identifier = |(value, is_open): &(u8, bool)| {
            let identifier = json!({"system": NATIONAL_ID, "value": named(*value)});
            if *is_open { identifier } else { with(identifier, json!({"period": {"end": ENDED}})) }
        };
        self.identifiers.iter().map(identifier).collect()
    }

    fn body(&self) -> Value {
        let gender = if self.born == 0 { FEMALE } else { MALE };
        json!({"identifier": self.identifiers(), "birth_date": birth_date(self.born), "gender": gender})
    }
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

fn group_name(group: u8) -> String {
    format!("g{group}")
}

/// The path of a group.
pub(super) fn group_path(group: u8) -> String {
    path("Group", &group_name(group))
}

fn role(is_head: bool) -> &'static str {
    if is_head { "head" } else { "child" }
}

fn enrolment(value: u8, status: &str) -> Value {
    let program = format!("Program/{NATIONAL_ID}|{PROGRAM}");
    json!({"program": program, "beneficiary": reference(&named(value)), "status": status})
}

fn day(now: Timestamp) -> Date {
    now.to_zoned(TimeZone::UTC).date()
}
