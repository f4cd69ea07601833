//! The request of an operation on records, the response to expect, and its effect.

use jiff::Span;
use serde_json::{Value, json};

use super::audit::Change;
use super::register::{
    Consent, Enrolment, Found, Group, KEY_STORED, LONG_AGO, MINISTRY, Member, PROGRAM, Person, Register, group_name,
    group_path, group_reference, name_of, named, program_reference, role,
};
use super::replay::Stored;
use super::step::{Condition, Step};
use crate::support::http::Response;
use crate::support::records::{NATIONAL_ID, household, path, reference};

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
    /// The outcome that is replayed.
    pub(super) replayed: Option<Stored>,
    /// The changes in the audit log.
    pub(super) changes: Vec<Change>,
    effect: Effect,
}

impl Register {
    /// The request of an operation on records. `None` for one whose outcome is not specified here.
    pub(super) fn plan(&self, step: Step) -> Option<Plan> {
        let plan = self.plan_once(step)?;
        let Some(stored) = plan.key.and_then(|key| self.stored.get(&key)) else { return Some(plan) };
        if self.now.duration_since(stored.at) >= KEY_STORED {
            return Some(plan);
        }
        if stored.may_be_deleted {
            return None;
        }
        if stored.step != step {
            return Some(plan.refused(&[422]));
        }
        let status = if matches!(step, Step::Transaction { .. }) { 200 } else { 201 };
        Some(Plan { replayed: Some(stored.clone()), ..plan.refused(&[status]) })
    }

    fn plan_once(&self, step: Step) -> Option<Plan> {
        let today = self.today();
        match step {
            Step::Register { value, born, key } => {
                let person = Person { identifiers: vec![(value, true)], born, name: None, version: 1 };
                let plan = Plan::new("POST", "/Individual".to_owned(), person.body()).with_key(key);
                if self.is_in_use(value) {
                    return Some(plan.refused(&[409]));
                }
                let plan = plan.changing("create", person.references());
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
            Step::CreateGroup { group, head, other } => self.plan_group(group, [(head, true), (other, false)]),
            Step::AddMember { group, value, is_head, key } => {
                let role = format!("urn:svc:vocab:relationship#{}", role(is_head));
                let body = json!({"entity": {"reference": reference(&named(value))}, "role": role});
                let plan = Plan::new("POST", format!("{}/$add-member", group_path(group)), body).with_key(key);
                let (Some(before), Some(person)) = (self.groups.get(&group), self.one(value)) else {
                    return Some(self.refused_member(plan, group));
                };
                let is_taken =
                    |member: &Member| !member.is_inactive && (member.person == person || (is_head && member.is_head));
                if before.members.iter().any(is_taken) {
                    return Some(plan.refused(&[422]));
                }
                let member = Member { person, is_head, start: Some(today), end: None, is_inactive: false };
                let plan = plan.changing("update", vec![group_reference(group), reference(&named(value))]);
                Some(plan.done(201, Some(before.version + 1), move |register, _| {
                    register.change_group(group, "added", |members| {
                        members.push(member);
                        member
                    });
                }))
            }
            Step::RemoveMember { group, value } => self.plan_removal(group, value),
            Step::Enrol { value, key } => {
                let plan =
                    Plan::new("POST", "/ProgramMembership".to_owned(), enrolment(value, "enrolled")).with_key(key);
                let Some(person) = self.one(value) else { return Some(plan.refused(&[422])) };
                if self.open_enrolment(person).is_some() {
                    return Some(plan.refused(&[409]));
                }
                let new = Enrolment { person, since: today, exited: None, version: 1 };
                let plan = plan.changing("create", vec![program_reference(), reference(&named(value))]);
                Some(plan.done(201, Some(1), move |register, _| register.enrolments.push(new)))
            }
            Step::Exit { value } => self.plan_exit(value),
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
                let plan = people.iter().fold(plan, |plan, person| plan.changing("create", person.references()));
                Some(plan.done(200, None, move |register, _| register.people.extend(people)))
            }
            Step::Consent { value, days } => {
                let last_day = today.checked_add(Span::new().days(i64::from(days))).expect("a day");
                let body = json!({
                    "subject": reference(&named(value)), "grantee": MINISTRY, "scopes": ["individual"],
                    "effective_date": LONG_AGO, "expiry_date": last_day.to_string(),
                });
                let plan = Plan::new("POST", "/consents".to_owned(), body);
                let Some(person) = self.one(value) else { return Some(plan.refused(&[422])) };
                let plan = plan.changing("create", vec![reference(&named(value))]);
                Some(plan.done(201, Some(1), move |register, response| {
                    let id = consent_id(response);
                    register.consents.push(Consent { id, person, last_day, is_withdrawn: false });
                }))
            }
            Step::Withdraw { nth } => {
                let place = usize::from(nth).checked_rem(self.consents.len())?;
                let consent = &self.consents[place];
                let plan = Plan::new("DELETE", format!("/Consent/{}", consent.id), Value::Null);
                let records = vec![format!("Consent/{}", consent.id), self.called(consent.person)];
                let plan = plan.changing("update", records);
                Some(plan.done(204, None, move |register, _| register.consents[place].is_withdrawn = true))
            }
            Step::Spend { .. }
            | Step::Swap
            | Step::Pass { .. }
            | Step::Use { .. }
            | Step::Restart
            | Step::Kill { .. } => None,
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
        let plan = plan.changing("update", person.references());
        Some(plan.done(200, Some(version + 1), move |register, _| register.people[place] = person))
    }

    fn plan_group(&self, group: u8, members: [(u8, bool); 2]) -> Option<Plan> {
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
        let member = |(person, is_head)| Member { person, is_head, start: None, end: None, is_inactive: false };
        let members = [first, second].map(member);
        let history = members.map(|member| ("added", member, 1)).to_vec();
        let created = Group { members: members.to_vec(), version: 1, history };
        let plan = plan.changing("create", vec![group_reference(group)]);
        Some(plan.done(201, Some(1), move |register, _| drop(register.groups.insert(group, created))))
    }

    fn plan_removal(&self, group: u8, value: u8) -> Option<Plan> {
        let body = json!({"entity": {"reference": reference(&named(value))}});
        let plan = Plan::new("POST", format!("{}/$remove-member", group_path(group)), body);
        let Some(before) = self.groups.get(&group) else {
            return Some(self.refused_member(plan, group));
        };
        // A member that the group shows by this identifier comes before the one that has it now.
        let mut shown: Vec<usize> = before.members.iter().map(|member| member.person).collect();
        shown.sort_unstable();
        shown.dedup();
        shown.retain(|person| self.people[*person].called() == value);
        let shown = if let [only] = shown.as_slice() { Some(*only) } else { None };
        let place_of = |person: usize| {
            let is_membership = |member: &Member| !member.is_inactive && member.person == person;
            before.members.iter().position(is_membership)
        };
        let place = [shown, self.one(value)].into_iter().flatten().find_map(place_of);
        let Some(place) = place else { return Some(plan.refused(&[422])) };
        let today = self.today();
        let plan = plan.changing("update", vec![group_reference(group), reference(&named(value))]);
        Some(plan.done(200, Some(before.version + 1), move |register, _| {
            register.change_group(group, "changed", |members| {
                let member = &mut members[place];
                // A membership that has not begun is cancelled, and keeps its period.
                if member.is_active(today) {
                    member.end = Some(today);
                }
                member.is_inactive = true;
                *member
            });
        }))
    }

    fn plan_exit(&self, value: u8) -> Option<Plan> {
        let target = path("ProgramMembership", &named(value));
        let target = format!("{target}?program={}|{PROGRAM}", NATIONAL_ID.replace('#', "%23"));
        let plan = Plan::new("PUT", target, enrolment(value, "exited"));
        let person = match self.resolve(value) {
            Found::One(person) => person,
            Found::None => return Some(plan.refused(&[404])),
            Found::Several => return None,
        };
        let of_person = self.enrolments.iter().enumerate().filter(|(_, of)| of.person == person);
        let of_person: Vec<usize> = of_person.map(|(place, _)| place).collect();
        let place = match (self.open_enrolment(person), of_person.as_slice()) {
            (Some(open), _) => open,
            (None, []) => return Some(plan.refused(&[404])),
            (None, [only]) => *only,
            (None, _) => return Some(plan.refused(&[409])),
        };
        let (before, today) = (self.enrolments[place], self.today());
        // The clock was set back to a day before the enrolment.
        if before.exited.is_none() && today < before.since {
            return Some(plan.refused(&[422]));
        }
        let plan = plan.changing("update", vec![program_reference(), reference(&named(value))]);
        let after = Enrolment { exited: before.exited.or(Some(today)), version: before.version + 1, ..before };
        Some(plan.done(200, Some(after.version), move |register, _| register.enrolments[place] = after))
    }

    fn open_enrolment(&self, person: usize) -> Option<usize> {
        self.enrolments.iter().position(|enrolment| enrolment.person == person && enrolment.exited.is_none())
    }

    /// The group is absent, or the individual is not resolved, or both.
    fn refused_member(&self, plan: Plan, group: u8) -> Plan {
        let statuses: &[u16] = if self.groups.contains_key(&group) { &[422] } else { &[404, 422] };
        plan.refused(statuses)
    }

    fn change_group(&mut self, group: u8, change: &'static str, edit: impl FnOnce(&mut Vec<Member>) -> Member) {
        let group = self.groups.get_mut(&group).expect("a group that was found");
        let member = edit(&mut group.members);
        group.version += 1;
        group.history.push((change, member, group.version));
    }

    /// Applies a response with success.
    pub(super) fn apply(&mut self, step: Step, plan: Plan, response: &Response) {
        let stores = plan.key.filter(|_| plan.replayed.is_none());
        (plan.effect)(self, response);
        let Some(key) = stores else { return };
        let stored = Stored::new(step, self, response);
        self.stored.insert(key, stored);
    }
}

impl Plan {
    fn new(method: &'static str, path: String, body: Value) -> Self {
        let effect: Effect = Box::new(|_, _| ());
        let (key, condition, etag, replayed) = (None, None, None, None);
        let (statuses, changes) = (Vec::new(), Vec::new());
        Self { method, path, key, condition, body, statuses, etag, replayed, changes, effect }
    }

    fn with_key(self, key: Option<u8>) -> Self {
        Self { key, ..self }
    }

    fn changing(mut self, action: &str, records: Vec<String>) -> Self {
        self.changes.push(Change::new(action, records));
        self
    }

    /// The same without an effect.
    fn refused(self, statuses: &[u16]) -> Self {
        let statuses = statuses.to_vec();
        Self { statuses, etag: None, changes: Vec::new(), effect: Box::new(|_, _| ()), ..self }
    }

    fn done(self, status: u16, etag: Option<u64>, effect: impl FnOnce(&mut Register, &Response) + 'static) -> Self {
        Self { statuses: vec![status], etag, effect: Box::new(effect), ..self }
    }

    /// True if the request succeeds, and changes records.
    pub(super) fn is_change(&self) -> bool {
        !self.changes.is_empty()
    }
}

/// The id in a response to the creation of a consent.
pub(super) fn consent_id(response: &Response) -> String {
    response.json()["consent_id"].as_str().expect("an id").to_owned()
}

fn enrolment(value: u8, status: &str) -> Value {
    json!({"program": program_reference(), "beneficiary": reference(&named(value)), "status": status})
}
