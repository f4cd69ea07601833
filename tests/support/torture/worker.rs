//! A worker that writes: its requests, and the records that must exist.

mod bodies;
mod check;

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use self::bodies::{body_of, code_path, people_of, transaction};
use super::super::dice::Dice;
use super::PROGRAM;
use super::ask::Ask;
use crate::support::http::Response;
use crate::support::records::{NATIONAL_ID, household, path, reference, with};

/// A person, as far as it was acknowledged.
#[derive(Debug, Clone)]
struct Person {
    id: String,
    version: u64,
    given: String,
    /// The given name at creation, and whether there was an idempotency key.
    first: (String, bool),
    has_photo: bool,
    /// The status of the membership, and its version.
    place: Option<(&'static str, u64)>,
    is_touched: bool,
}

/// A group, as far as it was acknowledged.
#[derive(Debug, Clone)]
struct Household {
    id: String,
    version: u64,
    members: Vec<String>,
}

/// One request.
#[derive(Debug, Clone)]
enum Step {
    Create { id: String, given: String, has_photo: bool },
    Again { person: usize },
    Change { person: usize, given: String },
    Group { id: String, members: Vec<String> },
    Join { group: usize, member: String },
    Enrol { person: usize },
    Move { person: usize },
    Transaction { id: String },
    Consent { person: usize },
    Client { name: String },
    Code { code: String },
    Read { person: usize },
}

/// A worker that writes.
pub(super) struct Worker {
    number: u64,
    dice: Dice,
    next: u64,
    people: Vec<Person>,
    groups: Vec<Household>,
    /// Paths of the administrator's API under which something is.
    administered: Vec<String>,
    unanswered: Option<Step>,
    pub(super) acknowledged: u64,
}

impl Worker {
    pub(super) fn new(number: u64, seed: u64) -> Self {
        let (people, groups, administered) = (Vec::new(), Vec::new(), Vec::new());
        Self { number, dice: Dice::new(seed), next: 0, people, groups, administered, unanswered: None, acknowledged: 0 }
    }

    fn name(&mut self) -> String {
        self.next += 1;
        format!("{}-{}", self.number, self.next)
    }

    fn choose(&mut self) -> Step {
        let count = self.people.len() as u64;
        if count < 3 {
            return Step::Create { id: self.name(), given: "Amina".to_owned(), has_photo: false };
        }
        let person = self.dice.below(count) as usize;
        let member = self.people[self.dice.below(count) as usize].id.clone();
        match self.dice.below(100) {
            0..25 => {
                let has_photo = self.dice.below(8) == 0;
                Step::Create { id: self.name(), given: format!("Given {}", self.next), has_photo }
            }
            25..30 => Step::Again { person },
            30..55 => Step::Change { person, given: format!("Changed {}", self.dice.below(1_000_000)) },
            55..62 => Step::Group { id: self.name(), members: vec![self.people[person].id.clone()] },
            62..70 if !self.groups.is_empty() => {
                let group = self.dice.below(self.groups.len() as u64) as usize;
                if self.groups[group].members.contains(&member) {
                    Step::Read { person }
                } else {
                    Step::Join { group, member }
                }
            }
            70..78 => match self.people[person].place {
                None => Step::Enrol { person },
                Some(("draft", _)) => Step::Move { person },
                Some(_) => Step::Read { person },
            },
            78..88 => Step::Transaction { id: self.name() },
            88..90 => Step::Consent { person },
            90..91 => Step::Client { name: self.name() },
            91..92 => Step::Code { code: format!("t{}", self.name().replace('-', "_")) },
            _ => Step::Read { person },
        }
    }

    /// Sends requests until there is no response.
    ///
    /// # Errors
    /// If a response is not as expected.
    pub(super) fn work(&mut self, ask: &Ask, answered: &AtomicU64) -> Result<(), String> {
        loop {
            let step = self.choose();
            let Some(response) = self.send(ask, &step) else {
                self.unanswered = Some(step);
                return Ok(());
            };
            self.note(&step, &response)?;
            answered.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn send(&self, ask: &Ask, step: &Step) -> Option<Response> {
        let person_path = |person: &usize| path("Individual", &self.people[*person].id);
        match step {
            Step::Create { id, given, has_photo } => {
                ask.api("POST", "/Individual", &[("Idempotency-Key", id)], Some(&body_of(id, given, *has_photo)))
            }
            Step::Again { person } => {
                let Person { id, first: (given, _), has_photo, .. } = &self.people[*person];
                ask.api("POST", "/Individual", &[("Idempotency-Key", id)], Some(&body_of(id, given, *has_photo)))
            }
            Step::Change { person, given } => {
                let version = format!("\"{}\"", self.people[*person].version);
                let change = json!({"name": {"given": given}});
                ask.api("PATCH", &person_path(person), &[("If-Match", &version)], Some(&change))
            }
            Step::Group { id, members } => {
                let members: Vec<(&str, &str)> = members.iter().map(|member| (member.as_str(), "head")).collect();
                ask.api("POST", "/Group", &[], Some(&household(id, &members)))
            }
            Step::Join { group, member } => {
                let target = format!("{}/$add-member", path("Group", &self.groups[*group].id));
                ask.api("POST", &target, &[], Some(&json!({"entity": {"reference": reference(member)}})))
            }
            Step::Enrol { person } => {
                ask.api("POST", "/ProgramMembership", &[], Some(&self.place_of(*person, "draft")))
            }
            Step::Move { person } => {
                let target = path("ProgramMembership", &format!("M{}", self.people[*person].id));
                ask.api("PUT", &target, &[], Some(&self.place_of(*person, "not_eligible")))
            }
            Step::Transaction { id } => ask.api("POST", "/$batch", &[], Some(&transaction(id))),
            Step::Consent { person } => {
                let subject = reference(&self.people[*person].id);
                let scopes = json!({"scopes": ["individual"], "effective_date": "2026-03-01"});
                ask.admin(
                    "POST",
                    "/consents",
                    Some(&with(json!({"subject": subject, "grantee": "Ministry of Health"}), scopes)),
                )
            }
            Step::Client { name } => {
                ask.admin("POST", "/clients", Some(&json!({"name": name, "scopes": ["individual:read"]})))
            }
            Step::Code { code } => {
                let labels = json!({"en": code});
                let code = format!("urn:svc:vocab:id-type#{code}");
                ask.admin("POST", "/local-codes", Some(&json!({"code": code, "labels": labels})))
            }
            Step::Read { person } => ask.api("GET", &person_path(person), &[], None),
        }
    }

    fn place_of(&self, person: usize, status: &str) -> Value {
        let id = &self.people[person].id;
        json!({
            "identifier": [{"system": NATIONAL_ID, "value": format!("M{id}")}],
            "program": format!("Program/{NATIONAL_ID}|{PROGRAM}"), "beneficiary": reference(id), "status": status,
        })
    }

    /// Records a response.
    fn note(&mut self, step: &Step, response: &Response) -> Result<(), String> {
        let expected = match step {
            Step::Create { .. }
            | Step::Group { .. }
            | Step::Join { .. }
            | Step::Enrol { .. }
            | Step::Consent { .. }
            | Step::Client { .. }
            | Step::Code { .. } => 201,
            Step::Change { .. } | Step::Move { .. } | Step::Transaction { .. } | Step::Read { .. } => 200,
            // Done once, with the same response as the first time; a record created without an idempotency key
            // conflicts.
            Step::Again { person } if self.people[*person].first.1 => 201,
            Step::Again { .. } => 409,
        };
        if response.status != expected {
            return Err(format!("{step:?} is answered {} and not {expected}: {}", response.status, response.text()));
        }
        if !matches!(step, Step::Again { .. } | Step::Read { .. }) {
            self.acknowledged += 1;
        }
        match step {
            Step::Consent { .. } => {
                self.administered
                    .push(format!("/consents/{}", response.json()["consent_id"].as_str().unwrap_or_default()));
            }
            Step::Client { .. } => {
                self.administered
                    .push(format!("/clients/{}", response.json()["client_id"].as_str().unwrap_or_default()));
            }
            Step::Code { code } => self.administered.push(code_path(code)),
            other => self.apply(other),
        }
        Ok(())
    }

    /// Records a completed step.
    fn apply(&mut self, step: &Step) {
        match step {
            Step::Create { id, given, has_photo } => self.people.push(Person::new(id, given, *has_photo, true)),
            Step::Change { person, given } => {
                let person = &mut self.people[*person];
                (person.version, person.given, person.is_touched) = (person.version + 1, given.clone(), true);
            }
            Step::Group { id, members } => {
                self.groups.push(Household { id: id.clone(), version: 1, members: members.clone() });
            }
            Step::Join { group, member } => {
                let group = &mut self.groups[*group];
                group.version += 1;
                group.members.push(member.clone());
            }
            Step::Enrol { person } => self.people[*person].place = Some(("draft", 1)),
            Step::Move { person } => self.people[*person].place = Some(("not_eligible", 2)),
            Step::Transaction { id } => {
                let of_transaction = people_of(id);
                self.people.extend(of_transaction.iter().map(|id| Person::new(id, "Grace", false, false)));
                self.groups.push(Household { id: format!("{id}th"), version: 1, members: of_transaction.to_vec() });
            }
            Step::Again { .. } | Step::Consent { .. } | Step::Client { .. } | Step::Code { .. } | Step::Read { .. } => {
            }
        }
    }
}

impl Person {
    fn new(id: &str, given: &str, has_photo: bool, is_named: bool) -> Self {
        let first = (given.to_owned(), is_named);
        Self { id: id.to_owned(), version: 1, given: given.to_owned(), first, has_photo, place: None, is_touched: true }
    }
}
