//! Sends operations and compares.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::Summary;
use super::register::{
    Found, LIMIT_DAY, LIMIT_MINUTE, MINISTRY, PROGRAM, Plan, Register, birth_date, group_path, name_of, named,
};
use super::step::{GROUPS, NAMES, Step, VALUES};
use super::world::World;
use crate::support::client::{ApiClient, Credentials};
use crate::support::http::Response;
use crate::support::packs;
use crate::support::records::{NATIONAL_ID, path};

/// Number of operations between two comparisons of everything.
const COMPARED_STEPS: usize = 20;

/// A client of the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Account {
    /// May do everything.
    Writer,
    /// Sees what consents to its organization cover.
    Ministry,
    /// Has small limits.
    Limited,
}

/// A sequence in progress.
pub(super) struct Run<W> {
    world: W,
    register: Register,
    accounts: HashMap<Account, Credentials>,
    clients: HashMap<(Account, usize), ApiClient>,
    /// The server that gets the requests.
    at: usize,
    since_comparison: usize,
    /// The ids of the requests whose audit entries are still to be seen.
    unaudited: Vec<String>,
    summary: Summary,
}

impl<W: World> Run<W> {
    pub(super) fn new(world: W) -> Self {
        let admin = world.admin(0);
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        for version in ["1.0.0", "1.1.0"] {
            let pack = std::fs::read(packs::build(folder.path(), version, None)).expect("a pack was built");
            drop(admin.install(&pack).expect(201));
        }
        let program = json!({
            "identifier": [{"system": NATIONAL_ID, "value": PROGRAM}], "name": "Model", "target_type": "individual",
        });
        drop(admin.request("POST", "/programs").json(&program).send().expect(201));
        let everything = ["individual:all", "group:all", "program:all", "program_membership:all"];
        let unlimited = json!(1_000_000);
        let mut accounts = HashMap::new();
        for (account, scopes, limits, basis) in [
            (Account::Writer, everything.as_slice(), (unlimited.clone(), unlimited.clone()), Value::Null),
            (
                Account::Ministry,
                &["individual:read", "consent:delete"],
                (unlimited.clone(), unlimited),
                json!("consent"),
            ),
            (Account::Limited, &["individual:read"], (json!(LIMIT_MINUTE), json!(LIMIT_DAY)), Value::Null),
        ] {
            let body = json!({
                "name": format!("{account:?}"), "scopes": scopes, "organization": MINISTRY, "legal_basis": basis,
                "rate_limit_per_minute": limits.0, "rate_limit_per_day": limits.1,
            });
            accounts.insert(account, admin.create_client(&body));
        }
        let register = Register::new(world.now());
        let (clients, unaudited) = (HashMap::new(), Vec::new());
        Self { world, register, accounts, clients, at: 0, since_comparison: 0, unaudited, summary: Summary::default() }
    }

    /// Runs one operation.
    pub(super) fn take(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Use { server } => self.at = usize::from(server) % self.world.servers(),
            Step::Swap => {
                // The server that installed the versions has their files.
                let back = self.world.admin(0).request("POST", "/plugins/small/rollback").send();
                check("the rollback of a plugin", back.status, 200)?;
            }
            Step::Pass { minutes } => {
                if self.world.pass(minutes) {
                    self.register.pass(minutes);
                    // Tokens end after a day.
                    self.clients.clear();
                }
            }
            Step::Restart | Step::Kill => {
                self.compare()?;
                if step == Step::Restart || !self.world.kill(self.at) {
                    self.world.restart(self.at);
                }
                self.clients.clear();
                self.register.budget.minute = None;
                self.summary.restarts += 1;
                self.compare()?;
            }
            // The limits of servers that share a register are exact within a reserved share only.
            Step::Spend { count } if self.world.servers() == 1 => self.spend(count)?,
            Step::Spend { .. } => {}
            step => {
                if let Some(plan) = self.register.plan(step) {
                    self.send(step, plan)?;
                }
            }
        }
        self.since_comparison += 1;
        if self.since_comparison >= COMPARED_STEPS { self.compare() } else { Ok(()) }
    }

    /// Compares everything a last time.
    pub(super) fn end(mut self) -> Result<Summary, String> {
        self.compare()?;
        self.world.verify()?;
        Ok(self.summary)
    }

    fn client(&mut self, account: Account, server: usize) -> ApiClient {
        let (world, credentials) = (&self.world, &self.accounts[&account]);
        self.clients.entry((account, server)).or_insert_with(|| world.client(server, credentials)).clone()
    }

    fn send(&mut self, step: Step, plan: Plan) -> Result<(), String> {
        let request = match step {
            Step::Consent { .. } => self.world.admin(self.at).request(plan.method, &plan.path),
            Step::Withdraw { .. } => self.client(Account::Ministry, self.at).request(plan.method, &plan.path),
            _ => self.client(Account::Writer, self.at).request(plan.method, &plan.path),
        };
        let request = if plan.body.is_null() { request } else { request.json(&plan.body) };
        let key = plan.key.map(|key| format!("key-{key}"));
        let request = key.into_iter().fold(request, |request, key| request.header("Idempotency-Key", key));
        let condition = plan.condition.map(|version| format!("\"{version}\""));
        let response =
            condition.into_iter().fold(request, |request, version| request.header("If-Match", version)).send();
        let (status, etag) = (response.status, response.header("etag"));
        if !plan.statuses.contains(&status) {
            return Err(format!("status {status}, and the model says {:?}: {}", plan.statuses, response.text()));
        }
        let is_replay = response.header("idempotency-replayed") == Some("true");
        check("`Idempotency-Replayed`", is_replay, plan.replayed.is_some())?;
        if let Some(first) = &plan.replayed {
            check("`ETag` of a replayed response", etag, first.as_deref())?;
            self.summary.replayed += 1;
        }
        if let Some(version) = plan.etag {
            check("`ETag`", etag, Some(format!("\"{version}\"").as_str()))?;
        }
        if (200..300).contains(&status) {
            if plan.replayed.is_none() {
                self.summary.written += 1;
                self.unaudited.push(response.header("x-request-id").expect("a request id").to_owned());
            }
            self.register.apply(step, plan, &response);
        } else {
            self.summary.rejected += 1;
        }
        Ok(())
    }

    /// Uses the limits of the client with small ones.
    fn spend(&mut self, count: u8) -> Result<(), String> {
        let client = self.client(Account::Limited, self.at);
        for _ in 0..count {
            let status = client.get("/Individual?_count=1").status;
            let budget = &mut self.register.budget;
            let is_allowed = match (budget.left_today, budget.minute) {
                (0, _) | (_, Some(0)) => false,
                (_, Some(_)) => true,
                (_, None) => status == 200,
            };
            check("status of a request within limits", status, if is_allowed { 200 } else { 429 })?;
            if is_allowed {
                budget.left_today -= 1;
                budget.minute = budget.minute.map(|left| left - 1);
            }
        }
        Ok(())
    }

    /// Compares all records, as every server shows them.
    fn compare(&mut self) -> Result<(), String> {
        self.since_comparison = 0;
        self.summary.comparisons += 1;
        for server in 0..self.world.servers() {
            self.compare_people(server)?;
            self.compare_groups(server)?;
            self.compare_searches(server).map_err(|problem| format!("server {server}: {problem}"))?;
        }
        let admin = self.world.admin(self.at);
        for id in std::mem::take(&mut self.unaudited) {
            let page = admin.get(&format!("/audit?request_id={id}")).expect(200).json();
            let entries = page["data"].as_array().expect("entries");
            let is_write = |entry: &&Value| {
                entry["outcome"] == "allowed"
                    && ["create", "update", "administer"].iter().any(|action| entry["action"] == *action)
            };
            if !entries.iter().any(|entry| is_write(&entry)) {
                return Err(format!("the write of request {id} has no entry in the audit log: {page}"));
            }
        }
        Ok(())
    }

    fn compare_people(&mut self, server: usize) -> Result<(), String> {
        let (writer, ministry) = (self.client(Account::Writer, server), self.client(Account::Ministry, server));
        let register = &self.register;
        for value in 0..VALUES {
            let target = path("Individual", &named(value));
            for (client, found) in [
                (&writer, register.resolve(value)),
                (&ministry, register.find(value, |place| register.is_consented(place))),
            ] {
                let response = client.get(&target);
                let expected = match found {
                    Found::One(_) => 200,
                    Found::None => 404,
                    Found::Several => 409,
                };
                check(&format!("status of {target} on server {server}"), response.status, expected)?;
                if let Found::One(place) = found {
                    compare_person(&register.people[place], &response)
                        .map_err(|problem| format!("{target}: {problem}"))?;
                }
            }
        }
        let visible = (0..register.people.len()).filter(|place| register.is_consented(*place)).count();
        check("number of individuals that consents cover", total(&ministry, "/Individual?_count=1"), visible)
    }

    fn compare_groups(&mut self, server: usize) -> Result<(), String> {
        let writer = self.client(Account::Writer, server);
        for number in 0..GROUPS {
            let response = writer.get(&group_path(number));
            let Some(group) = self.register.groups.get(&number) else {
                check("status of an absent group", response.status, 404)?;
                continue;
            };
            check("status of a group", response.status, 200)?;
            let body = response.json();
            let members = body["member"].as_array().map(Vec::as_slice).unwrap_or_default();
            let shown = members.iter().map(|member| (member["role"]["code"] == "head", member["inactive"] == false));
            let shown: Vec<(bool, bool)> = shown.collect();
            let known: Vec<_> = group.members.iter().map(|member| (member.is_head, member.is_active)).collect();
            check(&format!("members of group {number}"), shown, known)?;
            check("version of a group", &body["meta"]["version_id"], &json!(group.version.to_string()))?;
            let active = group.members.iter().filter(|member| member.is_active).count();
            check("`quantity`", &body["quantity"], &json!(active))?;
            let members = format!("/Individual?group={}|g{number}&_count=1", NATIONAL_ID.replace('#', "%23"));
            check("number of individuals in a group", total(&writer, &members), active)?;
        }
        Ok(())
    }

    fn compare_searches(&mut self, server: usize) -> Result<(), String> {
        let writer = self.client(Account::Writer, server);
        let people = &self.register.people;
        check("number of individuals", total(&writer, "/Individual?_count=1"), people.len())?;
        for small in 0..NAMES {
            let named = people.iter().filter(|person| person.name == Some(small)).count();
            let family = name_of(small)["family"].as_str().expect("a name").to_owned();
            check("number found by name", total(&writer, &format!("/Individual?name={family}&_count=1")), named)?;
            let born = people.iter().filter(|person| person.born == small).count();
            let query = format!("/Individual?birth_date={}&_count=1", birth_date(small));
            check("number found by date of birth", total(&writer, &query), born)?;
        }
        let enrolments = &self.register.enrolments;
        check("number of enrolments", total(&writer, "/ProgramMembership?_count=1"), enrolments.len())?;
        let open = enrolments.iter().filter(|(_, is_open)| *is_open).count();
        check("number of open enrolments", total(&writer, "/ProgramMembership?status=enrolled&_count=1"), open)
    }
}

fn compare_person(person: &super::register::Person, response: &Response) -> Result<(), String> {
    let body = response.json();
    let shown = body["identifier"].as_array().expect("identifiers").iter();
    let shown: Vec<(&Value, bool)> =
        shown.map(|identifier| (&identifier["value"], identifier["period"]["end"].is_null())).collect();
    let values: Vec<Value> = person.identifiers.iter().map(|(value, _)| json!(named(*value))).collect();
    let known: Vec<(&Value, bool)> =
        values.iter().zip(person.identifiers.iter().map(|(_, is_open)| *is_open)).collect();
    check("identifiers", shown, known)?;
    check("date of birth", &body["birth_date"], &json!(birth_date(person.born)))?;
    let name = person.name.map_or(Value::Null, |name| name_of(name)["family"].clone());
    check("name", &body["name"]["family"], &name)?;
    check("version", &body["meta"]["version_id"], &json!(person.version.to_string()))
}

/// The `total` of a search.
fn total(client: &ApiClient, query: &str) -> usize {
    let page = client.get(query).expect(200).json();
    page["total"].as_u64().and_then(|total| usize::try_from(total).ok()).expect("a total")
}

fn check<T: PartialEq + std::fmt::Debug>(of: &str, shown: T, known: T) -> Result<(), String> {
    if shown == known { Ok(()) } else { Err(format!("{of}: {shown:?}, and the model says {known:?}")) }
}
