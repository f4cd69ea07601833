//! Comparison of the records after a kill with the acknowledged writes.

use serde_json::{Value, json};

use super::bodies::{body_of, code_path, people_of, photo};
use super::{Household, Person, Step, Worker};
use crate::support::http::Response;
use crate::support::records::{NATIONAL_ID, path, reference};
use crate::support::torture::Summary;
use crate::support::torture::ask::Ask;

/// Number of records not written in a round that are checked after it.
const SAMPLES: u64 = 6;

impl Worker {
    /// Checks the steps without a response, the writes of the round, and some other records.
    ///
    /// # Errors
    /// A description of the mismatch.
    pub(in crate::support::torture) fn check(&mut self, ask: &Ask, summary: &mut Summary) -> Result<(), String> {
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

    /// Checks everything that was ever acknowledged.
    ///
    /// # Errors
    /// A description of the mismatch.
    pub(in crate::support::torture) fn check_everything(
        &mut self,
        ask: &Ask,
        summary: &mut Summary,
    ) -> Result<(), String> {
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

    /// Determines whether a step without a response was done: completely, or not at all. Records it if it was.
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
                let is_done = ask.admin("GET", &code_path(code), None).is_some_and(|response| response.status == 200);
                if is_done {
                    self.administered.push(code_path(code));
                }
                is_done
            }
            // They could be found only by the identifiers in their response.
            Step::Consent { .. } | Step::Client { .. } | Step::Again { .. } | Step::Read { .. } => false,
        };
        if is_done {
            self.apply(step);
            summary.done += 1;
        }
        let Step::Create { id, given, has_photo } = step else { return Ok(()) };
        // Sent again with the same key, it is stored once and gets the same response as the first time.
        let again = ask.api("POST", "/Individual", &[("Idempotency-Key", id)], Some(&body_of(id, given, *has_photo)));
        let again = again.ok_or_else(|| format!("no answer when {id} is created again"))?;
        if again.status != 201 {
            return Err(format!("{step:?}, sent again, is answered {}: {}", again.status, again.text()));
        }
        if !is_done {
            self.acknowledged += 1;
            self.apply(step);
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
        let reported = place.as_ref().map(|place| place.json()["status"].clone());
        if reported != Some(json!(status)) || version(place.as_ref()) != at_version {
            return Err(format!("the membership of {person:?} is there as {reported:?}"));
        }
        Ok(())
    }

    /// Checks that the audit log contains one entry for every change of an individual, and no others.
    fn check_audit(&self, ask: &Ask, at: usize) -> Result<(), String> {
        let Person { id, version, .. } = &self.people[at];
        let record = format!("Individual/{NATIONAL_ID}|{id}").replace('#', "%23");
        let query = format!("/audit?record={record}&action=update&outcome=allowed&_count=1000");
        let response = ask.admin("GET", &query, None).ok_or("no answer from the audit log")?;
        let reported = response.json();
        // The audit entry of a change of a group also names a member who joins it.
        let is_change = |line: &&Value| line["operation"] == "PATCH /api/v2/Individual/{identifier}";
        let lines = reported["data"].as_array().into_iter().flatten().filter(is_change).count() as u64;
        if lines + 1 != *version {
            return Err(format!("the person {id} is at version {version}, and {lines} changes are in the audit log"));
        }
        Ok(())
    }
}

/// Reads a record; `None` if it does not exist.
fn read(ask: &Ask, path: &str) -> Result<Option<Response>, String> {
    match ask.api("GET", path, &[], None) {
        Some(response) if response.status == 200 => Ok(Some(response)),
        Some(response) if response.status == 404 => Ok(None),
        Some(response) => Err(format!("{path} is answered {}: {}", response.status, response.text())),
        None => Err(format!("{path} is not answered")),
    }
}

fn version(response: Option<&Response>) -> u64 {
    let tag = response.and_then(|response| response.header("etag")).unwrap_or_default();
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
        Some(response) if response.status == 200 => Ok(()),
        Some(response) => Err(format!("{path} was acknowledged and is answered {}", response.status)),
        None => Err(format!("{path} is not answered")),
    }
}
