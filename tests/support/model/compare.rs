//! Comparison of everything that the servers show with the model.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::audit::{self, AuditedRequest, Expected};
use super::register::{
    Found, Person, birth_date, consent_fields, enrolment_fields, group_path, member_fields, membership_fields, name_of,
    named, person_fields,
};
use super::run::{Account, Run, check};
use super::step::{GROUPS, NAMES, VALUES};
use super::world::World;
use crate::support::client::ApiClient;
use crate::support::http::Response;
use crate::support::packs;
use crate::support::postgres::eventually;
use crate::support::records::{NATIONAL_ID, path, reference};

/// Number of records of a page.
const PAGE: usize = 100;

impl<W: World> Run<W> {
    /// Compares all records, as every server shows them, and the audit log.
    pub(super) fn compare(&mut self) -> Result<(), String> {
        self.since_comparison = 0;
        self.summary.comparisons += 1;
        for server in 0..self.world.servers() {
            self.compare_server(server).map_err(|problem| format!("server {server}: {problem}"))?;
        }
        for request in std::mem::take(&mut self.audited) {
            request.check(&self.world.admin(request.server))?;
        }
        Ok(())
    }

    /// Compares all changes in the audit log with those of the sequence. Requires that [`Self::compare`] has succeeded,
    /// which makes each server write its entries.
    pub(super) fn compare_changes(&self) -> Result<(), String> {
        let (mut shown, mut known) = (audit::changes(&self.world.admin(0)), self.changes.clone());
        shown.sort();
        known.sort();
        if shown == known { Ok(()) } else { Err(format!("changes in the audit log: {shown:?}, and not {known:?}")) }
    }

    /// Checks that a server uses the installed version of the plugin. Other servers than the one that installed it
    /// apply it later.
    pub(super) fn compare_plugin(&mut self, server: usize) -> Result<(), String> {
        let (writer, known) = (self.client(Account::Writer, server), self.plugin);
        let shown = || {
            let response = writer.get(&format!("/Vocabulary/{}", packs::NAMESPACE));
            if response.status == 200 { response.json()["version"].clone() } else { Value::Null }
        };
        if self.world.servers() > 1 {
            eventually("the server uses the installed version of the plugin", || shown() == known);
        }
        check("version of the vocabulary of the plugin", shown(), json!(known))
    }

    fn compare_server(&mut self, server: usize) -> Result<(), String> {
        self.compare_addresses(server)?;
        self.compare_people(server)?;
        self.compare_groups(server)?;
        self.compare_searches(server)?;
        self.compare_enrolments(server)?;
        self.compare_consents(server)?;
        self.compare_plugin(server)
    }

    /// Reads each identifier, and records some of the reads for the comparison of the audit log.
    fn compare_addresses(&mut self, server: usize) -> Result<(), String> {
        let mut audited = HashSet::new();
        for account in [Account::Writer, Account::Ministry] {
            let client = self.client(account, server);
            let register = &self.register;
            for value in 0..VALUES {
                let is_limited = account == Account::Ministry;
                let found = register.find(value, |place| !is_limited || register.is_consented(place));
                let target = path("Individual", &named(value));
                let response = client.get(&target);
                let (status, expected) = match found {
                    Found::One(place) => {
                        let consents = || [register.valid_consents(Some(place)), register.valid_consents(None)];
                        let consents = is_limited.then(consents);
                        (200, Expected::Read { record: reference(&named(value)), consents })
                    }
                    Found::None => (404, Expected::Rejection),
                    Found::Several => (409, Expected::Rejection),
                };
                check(&format!("status of {target} for {account:?}"), response.status, status)?;
                if let Found::One(place) = found {
                    let body = response.json();
                    check(&target, person_fields(&body), register.people[place].fields())?;
                    let memberships = list(&body["group_membership"], membership_fields);
                    let known = if is_limited { Vec::new() } else { register.memberships(place) };
                    same(&format!("memberships of {target} in groups"), memberships, known)?;
                }
                if audited.insert((account, status)) {
                    let (id, client) = (request_id(&response), Some(self.accounts[&account].id.clone()));
                    self.audited.push(AuditedRequest { id, server, client, status, expected });
                }
            }
        }
        Ok(())
    }

    fn compare_people(&mut self, server: usize) -> Result<(), String> {
        let (writer, ministry) = (self.client(Account::Writer, server), self.client(Account::Ministry, server));
        let people = &self.register.people;
        let known = people.iter().map(Person::fields).collect();
        same("individuals", all(&writer, "/Individual", person_fields)?, known)?;
        let consented = (0..people.len()).filter(|place| self.register.is_consented(*place));
        let known = consented.map(|place| people[place].fields()).collect();
        same("individuals that consents cover", all(&ministry, "/Individual", person_fields)?, known)
    }

    fn compare_groups(&mut self, server: usize) -> Result<(), String> {
        let writer = self.client(Account::Writer, server);
        let (register, today) = (&self.register, self.register.today());
        for number in 0..GROUPS {
            let target = group_path(number);
            let response = writer.get(&target);
            let Some(group) = register.groups.get(&number) else {
                check("status of an absent group", response.status, 404)?;
                continue;
            };
            check("status of a group", response.status, 200)?;
            let body = response.json();
            let known: Vec<Value> = group.members.iter().map(|member| register.member(member)).collect();
            check(&format!("members of {target}"), list(&body["member"], member_fields), known)?;
            check("version of a group", &body["meta"]["version_id"], &json!(group.version.to_string()))?;
            let active = group.members.iter().filter(|member| member.is_active(today)).count();
            check("`quantity`", &body["quantity"], &json!(active))?;
            let members = format!("/Individual?group={}|g{number}&_count=1", NATIONAL_ID.replace('#', "%23"));
            check("number of individuals in a group", total(&writer, &members), active)?;
            let history = all(&writer, &format!("{target}/membership-history"), |entry| {
                json!([entry["change"], member_fields(entry), entry["meta"]["version_id"]])
            })?;
            let known = group.history.iter();
            let known: Vec<Value> = known
                .map(|(change, member, version)| json!([change, register.member(member), version.to_string()]))
                .collect();
            check(&format!("history of {target}"), history, known)?;
        }
        check("number of groups", total(&writer, "/Group?_count=1"), register.groups.len())
    }

    fn compare_searches(&mut self, server: usize) -> Result<(), String> {
        let writer = self.client(Account::Writer, server);
        let people = &self.register.people;
        for small in 0..NAMES {
            let named = people.iter().filter(|person| person.name == Some(small)).count();
            let family = name_of(small)["family"].as_str().expect("a name").to_owned();
            check("number found by name", total(&writer, &format!("/Individual?name={family}&_count=1")), named)?;
            let born = people.iter().filter(|person| person.born == small).count();
            let query = format!("/Individual?birth_date={}&_count=1", birth_date(small));
            check("number found by date of birth", total(&writer, &query), born)?;
        }
        Ok(())
    }

    fn compare_enrolments(&mut self, server: usize) -> Result<(), String> {
        let writer = self.client(Account::Writer, server);
        let (register, enrolments) = (&self.register, &self.register.enrolments);
        let known = enrolments.iter().map(|enrolment| register.enrolment(enrolment)).collect();
        same("enrolments", all(&writer, "/ProgramMembership", enrolment_fields)?, known)?;
        let open = enrolments.iter().filter(|enrolment| enrolment.exited.is_none()).count();
        check("number of open enrolments", total(&writer, "/ProgramMembership?status=enrolled&_count=1"), open)
    }

    fn compare_consents(&self, server: usize) -> Result<(), String> {
        let page = self.world.admin(server).get(&format!("/consents?_count={PAGE}")).expect(200).json();
        let (register, consents) = (&self.register, &self.register.consents);
        check("number of consents", &page["total"], &json!(consents.len()))?;
        let known = consents.iter().take(PAGE).map(|consent| register.consent(consent)).collect();
        same("consents", list(&page["data"], consent_fields), known)
    }
}

/// The id of a request in its response.
pub(super) fn request_id(response: &Response) -> String {
    response.header("x-request-id").expect("a request id").to_owned()
}

/// The items of a list, each in that form; none if it is missing.
fn list(items: &Value, form: impl Fn(&Value) -> Value) -> Vec<Value> {
    items.as_array().into_iter().flatten().map(form).collect()
}

/// All records of a search, each in that form.
fn all(client: &ApiClient, target: &str, form: impl Fn(&Value) -> Value) -> Result<Vec<Value>, String> {
    let mut found = Vec::new();
    loop {
        let page = client.get(&format!("{target}?_count={PAGE}&_offset={}", found.len())).expect(200).json();
        let (before, total) = (found.len(), &page["total"]);
        found.extend(list(&page["data"], &form));
        if *total == json!(found.len()) {
            return Ok(found);
        }
        if found.len() == before {
            return Err(format!("{target} shows {before} of {total}"));
        }
    }
}

/// The `total` of a search.
fn total(client: &ApiClient, query: &str) -> usize {
    let page = client.get(query).expect(200).json();
    page["total"].as_u64().and_then(|total| usize::try_from(total).ok()).expect("a total")
}

/// Compares two lists in any order: requests in flight at a kill are completed in any order.
fn same(of: &str, mut shown: Vec<Value>, known: Vec<Value>) -> Result<(), String> {
    let mut missing = Vec::new();
    for one in known {
        match shown.iter().position(|shown| *shown == one) {
            Some(place) => drop(shown.swap_remove(place)),
            None => missing.push(one),
        }
    }
    if shown.is_empty() && missing.is_empty() {
        return Ok(());
    }
    Err(format!("{of}: shown and not in the model {}, in the model and not shown {}", json!(shown), json!(missing)))
}
