//! One who writes: what it sends, and what it knows to be there.

use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::ask::Ask;
use super::dice::Dice;
use super::{PROGRAM, Summary};
use crate::support::http::Response;
use crate::support::records::{NATIONAL_ID, household, path, person, reference, with};

/// What a photo holds: more than one part of those that the store keeps.
const PHOTO_BYTES: usize = 300_000;
/// How many records that were not written in a round are looked at after it.
const SAMPLES: u64 = 6;

/// A person, as far as it was acknowledged.
#[derive(Debug, Clone)]
struct Person {
    id: String,
    version: u64,
    given: String,
    /// What it was created with, and whether under a name of its own.
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

/// One who writes.
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

    /// Sends until there is no answer.
    ///
    /// # Errors
    /// When an answer is not what it has to be.
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

    /// Takes up what was answered.
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
            // Done once, and answered as the first time; what was created under no name is in use.
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
            other => self.take_up(other),
        }
        Ok(())
    }

    /// Takes up that a step was done.
    fn take_up(&mut self, step: &Step) {
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

    /// Looks at what has no answer, at what was written in the round, and at some of the rest.
    ///
    /// # Errors
    /// What is not as it has to be.
    pub(super) fn check(&mut self, ask: &Ask, summary: &mut Summary) -> Result<(), String> {
        if let Some(step) = self.unanswered.take() {
            self.settle(ask, &step, summary)?;
        }
        for at in 0..self.people.len() {
            if std::mem::take(&mut self.people[at].is_touched) {
                self.check_person(ask, at)?;
                summary.checked += 1;
            }
        }
        for _ in 0..SAMPLES.min(self.people.len() as u64) {
            let at = self.dice.below(self.people.len() as u64) as usize;
            self.check_person(ask, at)?;
            self.check_audit(ask, at)?;
            summary.checked += 1;
        }
        for at in self.groups.len().saturating_sub(4)..self.groups.len() {
            check_group(ask, &self.groups[at])?;
            summary.checked += 1;
        }
        for path in self.administered.iter().rev().take(2) {
            is_there(ask, path)?;
            summary.checked += 1;
        }
        Ok(())
    }

    /// Looks at everything that was ever acknowledged.
    ///
    /// # Errors
    /// What is not as it has to be.
    pub(super) fn check_everything(&mut self, ask: &Ask, summary: &mut Summary) -> Result<(), String> {
        for at in 0..self.people.len() {
            self.check_person(ask, at)?;
        }
        for group in &self.groups {
            check_group(ask, group)?;
        }
        for path in &self.administered {
            is_there(ask, path)?;
        }
        summary.checked += (self.people.len() + self.groups.len() + self.administered.len()) as u64;
        Ok(())
    }

    /// Finds out whether a step without an answer was done: whole, or not at all. Takes it up when it was.
    fn settle(&mut self, ask: &Ask, step: &Step, summary: &mut Summary) -> Result<(), String> {
        if matches!(step, Step::Again { .. } | Step::Read { .. }) {
            return Ok(());
        }
        summary.unanswered += 1;
        let is_done = match step {
            Step::Create { id, .. } => read(ask, &path("Individual", id))?.is_some(),
            Step::Change { person, .. } => {
                let known = &self.people[*person];
                version(read(ask, &path("Individual", &known.id))?.as_ref()) > known.version
            }
            Step::Group { id, .. } => read(ask, &path("Group", id))?.is_some(),
            Step::Join { group, .. } => {
                let known = &self.groups[*group];
                version(read(ask, &path("Group", &known.id))?.as_ref()) > known.version
            }
            Step::Enrol { person } => {
                read(ask, &path("ProgramMembership", &format!("M{}", self.people[*person].id)))?.is_some()
            }
            Step::Move { person } => {
                version(read(ask, &path("ProgramMembership", &format!("M{}", self.people[*person].id)))?.as_ref()) > 1
            }
            Step::Transaction { id } => {
                let mut there = 0;
                for id in people_of(id) {
                    there += usize::from(read(ask, &path("Individual", &id))?.is_some());
                }
                there += usize::from(read(ask, &path("Group", &format!("{id}th")))?.is_some());
                if there != 0 && there != 3 {
                    return Err(format!("{there} of the 3 records of the transaction {id} are there"));
                }
                there == 3
            }
            Step::Code { code } => {
                let is_done = ask.admin("GET", &code_path(code), None).is_some_and(|answer| answer.status == 200);
                if is_done {
                    self.administered.push(code_path(code));
                }
                is_done
            }
            // They are found by what their answer would have named.
            Step::Consent { .. } | Step::Client { .. } | Step::Again { .. } | Step::Read { .. } => false,
        };
        if is_done {
            self.take_up(step);
            summary.done += 1;
        }
        let Step::Create { id, given, has_photo } = step else { return Ok(()) };
        // Sent again under the same name it is there once, and answered as the first time.
        let again = ask.api("POST", "/Individual", &[("Idempotency-Key", id)], Some(&body_of(id, given, *has_photo)));
        let again = again.ok_or_else(|| format!("no answer when {id} is created again"))?;
        if again.status != 201 {
            return Err(format!("{step:?}, sent again, is answered {}: {}", again.status, again.text()));
        }
        if !is_done {
            self.acknowledged += 1;
            self.take_up(step);
        }
        Ok(())
    }

    fn check_person(&self, ask: &Ask, at: usize) -> Result<(), String> {
        let person = &self.people[at];
        let Some(there) = read(ask, &path("Individual", &person.id))? else {
            return Err(format!("the person {} was acknowledged and is lost", person.id));
        };
        let body = there.json();
        let photo = person.has_photo.then(|| photo(&person.id));
        let is_same = version(Some(&there)) == person.version
            && body["name"]["given"] == json!(person.given)
            && body["photo"].as_str() == photo.as_deref();
        if !is_same {
            return Err(format!(
                "the person {person:?} is there as version {}: {}",
                version(Some(&there)),
                body["name"]
            ));
        }
        let Some((status, at_version)) = person.place else { return Ok(()) };
        let place = read(ask, &path("ProgramMembership", &format!("M{}", person.id)))?;
        let told = place.as_ref().map(|place| place.json()["status"].clone());
        if told != Some(json!(status)) || version(place.as_ref()) != at_version {
            return Err(format!("the membership of {person:?} is there as {told:?}"));
        }
        Ok(())
    }

    /// Every change of a person has its line in the audit log, and there are no others.
    fn check_audit(&self, ask: &Ask, at: usize) -> Result<(), String> {
        let Person { id, version, .. } = &self.people[at];
        let record = format!("Individual/{NATIONAL_ID}|{id}").replace('#', "%23");
        let query = format!("/audit?record={record}&action=update&outcome=allowed&_count=1000");
        let answer = ask.admin("GET", &query, None).ok_or("no answer from the audit log")?;
        let told = answer.json();
        // Who joins a group is named in that group's line, too.
        let is_change = |line: &&Value| line["operation"] == "PATCH /api/v2/Individual/{identifier}";
        let lines = told["data"].as_array().into_iter().flatten().filter(is_change).count() as u64;
        if lines + 1 != *version {
            return Err(format!("the person {id} is at version {version}, and {lines} changes are in the audit log"));
        }
        Ok(())
    }
}

impl Person {
    fn new(id: &str, given: &str, has_photo: bool, is_named: bool) -> Self {
        let first = (given.to_owned(), is_named);
        Self { id: id.to_owned(), version: 1, given: given.to_owned(), first, has_photo, place: None, is_touched: true }
    }
}

fn photo(id: &str) -> String {
    let bytes: Vec<u8> = id.bytes().cycle().take(PHOTO_BYTES).collect();
    STANDARD.encode(bytes)
}

fn body_of(id: &str, given: &str, has_photo: bool) -> Value {
    let body = person(id, json!({"name": {"given": given, "family": "Torture"}, "birth_date": "1990-01-01"}));
    if has_photo { with(body, json!({"photo": photo(id)})) } else { body }
}

fn people_of(transaction: &str) -> [String; 2] {
    [format!("{transaction}t1"), format!("{transaction}t2")]
}

/// Two people and their household, which names them before they are there.
fn transaction(id: &str) -> Value {
    let placeholder = |number: usize| format!("urn:uuid:00000000-0000-4000-8000-{number:012}");
    let member = |number: usize| json!({"entity": {"reference": placeholder(number)}});
    let group = with(household(&format!("{id}th"), &[]), json!({"member": [member(1), member(2)]}));
    let mut entries = vec![json!({"request": {"method": "POST", "url": "/Group"}, "resource": group})];
    for (number, id) in (1..).zip(people_of(id)) {
        let person = person(&id, json!({"name": {"given": "Grace", "family": "Torture"}}));
        let request = json!({"method": "POST", "url": "/Individual"});
        entries.push(json!({"full_url": placeholder(number), "request": request, "resource": person}));
    }
    json!({"type": "transaction", "entry": entries})
}

fn code_path(code: &str) -> String {
    format!("/local-codes/urn:svc:vocab:id-type%23{code}")
}

/// A record; none where there is none.
fn read(ask: &Ask, path: &str) -> Result<Option<Response>, String> {
    match ask.api("GET", path, &[], None) {
        Some(answer) if answer.status == 200 => Ok(Some(answer)),
        Some(answer) if answer.status == 404 => Ok(None),
        Some(answer) => Err(format!("{path} is answered {}: {}", answer.status, answer.text())),
        None => Err(format!("{path} is not answered")),
    }
}

fn version(answer: Option<&Response>) -> u64 {
    let tag = answer.and_then(|answer| answer.header("etag")).unwrap_or_default();
    tag.trim_matches('"').parse().unwrap_or_default()
}

fn check_group(ask: &Ask, group: &Household) -> Result<(), String> {
    let Some(there) = read(ask, &path("Group", &group.id))? else {
        return Err(format!("the group {} was acknowledged and is lost", group.id));
    };
    let body = there.json();
    let mut members: Vec<&str> = Vec::new();
    for member in body["member"].as_array().into_iter().flatten() {
        members.extend(member["entity"]["reference"].as_str());
    }
    let expected: Vec<String> = group.members.iter().map(|member| reference(member)).collect();
    if version(Some(&there)) != group.version || members != expected {
        return Err(format!("the group {group:?} is there as version {} with {members:?}", version(Some(&there))));
    }
    Ok(())
}

fn is_there(ask: &Ask, path: &str) -> Result<(), String> {
    match ask.admin("GET", path, None) {
        Some(answer) if answer.status == 200 => Ok(()),
        Some(answer) => Err(format!("{path} was acknowledged and is answered {}", answer.status)),
        None => Err(format!("{path} is not answered")),
    }
}
