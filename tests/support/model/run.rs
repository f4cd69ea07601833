//! Sends operations and compares their responses.

use std::collections::HashMap;
use std::time::Instant;

use serde_json::{Value, json};

use super::Summary;
use super::audit::{AuditedRequest, Change, Expected};
use super::budget::Budget;
use super::compare::request_id;
use super::in_flight::FIRST_NEW;
use super::plan::{Plan, consent_id};
use super::register::{MINISTRY, PROGRAM, Register};
use super::step::Step;
use super::world::World;
use crate::support::client::{ApiClient, Credentials};
use crate::support::http::{Request, Response};
use crate::support::packs;
use crate::support::records::NATIONAL_ID;

/// Number of operations between two comparisons of everything.
const COMPARED_STEPS: usize = 20;
/// The versions of the plugin, in the order of their installation.
const VERSIONS: [&str; 2] = ["1.0.0", "1.1.0"];
/// Limits that no sequence reaches, a minute and a day.
const UNLIMITED: (u32, u32) = (1_000_000, 1_000_000);
/// The limits of the clients with small ones.
const LIMITED: [(Account, (u32, u32)); 2] = [(Account::Limited, (5, 12)), (Account::Daily, (1_000_000, 40))];

/// A client of the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Account {
    /// May do everything.
    Writer,
    /// Sees what consents to its organization cover.
    Ministry,
    /// Has small limits of the minute and of the day.
    Limited,
    /// Has a small limit of the day, of which servers reserve several calls together.
    Daily,
}

/// True if the request of a response may have been completed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeated {
    /// As the model says.
    No,
    /// The server was killed during the first request.
    Perhaps,
}

/// A sequence in progress.
pub(super) struct Run<W> {
    pub(super) world: W,
    pub(super) register: Register,
    pub(super) accounts: HashMap<Account, Credentials>,
    clients: HashMap<(Account, usize), ApiClient>,
    budgets: Vec<(Account, Budget)>,
    /// The server that gets the requests.
    pub(super) at: usize,
    pub(super) since_comparison: usize,
    /// The installed version of the plugin.
    pub(super) plugin: &'static str,
    /// The next identifier and key that no operation has used.
    pub(super) next_new: u8,
    /// The requests whose audit entries are still to be compared.
    pub(super) audited: Vec<AuditedRequest>,
    /// All changes that must be in the audit log.
    pub(super) changes: Vec<Change>,
    pub(super) summary: Summary,
}

impl<W: World> Run<W> {
    pub(super) fn new(world: W) -> Self {
        let admin = world.admin(0);
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        for version in VERSIONS {
            let pack = std::fs::read(packs::build(folder.path(), version, None)).expect("a pack was built");
            drop(admin.install(&pack).expect(201));
        }
        let program = json!({
            "identifier": [{"system": NATIONAL_ID, "value": PROGRAM}], "name": "Model", "target_type": "individual",
        });
        drop(admin.request("POST", "/programs").json(&program).send().expect(201));
        let everything = ["individual:all", "group:all", "program:all", "program_membership:all", "vocabulary:read"];
        let reading = ["individual:read"];
        let consenting = ["individual:read", "consent:delete"];
        let mut accounts = HashMap::new();
        for (account, scopes, limits, basis) in [
            (Account::Writer, everything.as_slice(), UNLIMITED, Value::Null),
            (Account::Ministry, consenting.as_slice(), UNLIMITED, json!("consent")),
            (Account::Limited, reading.as_slice(), LIMITED[0].1, Value::Null),
            (Account::Daily, reading.as_slice(), LIMITED[1].1, Value::Null),
        ] {
            let body = json!({
                "name": format!("{account:?}"), "scopes": scopes, "organization": MINISTRY, "legal_basis": basis,
                "rate_limit_per_minute": limits.0, "rate_limit_per_day": limits.1,
            });
            accounts.insert(account, admin.create_client(&body));
        }
        let register = Register::new(world.now());
        let budget = |limits| Budget::new(limits, world.servers(), W::IS_CLOCK_SET, register.today());
        let budgets = Vec::from(LIMITED.map(|(account, limits)| (account, budget(limits))));
        let [_, plugin] = VERSIONS;
        Self {
            world,
            register,
            accounts,
            clients: HashMap::new(),
            budgets,
            at: 0,
            since_comparison: 0,
            plugin,
            next_new: FIRST_NEW,
            audited: Vec::new(),
            changes: Vec::new(),
            summary: Summary::default(),
        }
    }

    /// Runs one operation.
    pub(super) fn take(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Use { server } => self.at = usize::from(server) % self.world.servers(),
            Step::Swap => self.swap()?,
            Step::Pass { minutes } => self.pass(minutes),
            Step::Kill { group, value, pause } if W::CAN_KILL => {
                self.compare()?;
                self.kill(group, value, pause)?;
                self.compare()?;
            }
            Step::Restart | Step::Kill { .. } => {
                self.compare()?;
                self.world.restart(self.at);
                self.summary.restarts += 1;
                self.stopped(self.at);
                self.compare()?;
            }
            Step::Spend { count } => self.spend(count)?,
            step => {
                if let Some(plan) = self.register.plan(step) {
                    self.send(step, plan)?;
                }
            }
        }
        self.since_comparison += 1;
        if self.since_comparison >= COMPARED_STEPS { self.compare() } else { Ok(()) }
    }

    /// Compares everything a last time, and verifies the register.
    pub(super) fn end(mut self) -> Result<Summary, String> {
        self.compare()?;
        self.compare_changes()?;
        self.world.verify()?;
        Ok(self.summary)
    }

    pub(super) fn client(&mut self, account: Account, server: usize) -> ApiClient {
        let (world, credentials) = (&self.world, &self.accounts[&account]);
        self.clients.entry((account, server)).or_insert_with(|| world.client(server, credentials)).clone()
    }

    /// Sends the request of an operation, and compares the response.
    pub(super) fn send(&mut self, step: Step, plan: Plan) -> Result<(), String> {
        let server = self.at;
        let response = self.request(step, &plan, server).send();
        self.receive(step, plan, &response, (server, Repeated::No))
    }

    /// The request of an operation to a server.
    pub(super) fn request(&mut self, step: Step, plan: &Plan, server: usize) -> Request {
        let request = match sender(step) {
            Some(account) => self.client(account, server).request(plan.method, &plan.path),
            None => self.world.admin(server).request(plan.method, &plan.path),
        };
        let request = if plan.body.is_null() { request } else { request.json(&plan.body) };
        let key = plan.key.map(|key| format!("key-{key}"));
        let request = key.into_iter().fold(request, |request, key| request.header("Idempotency-Key", key));
        let condition = plan.condition.map(|version| format!("\"{version}\""));
        condition.into_iter().fold(request, |request, version| request.header("If-Match", version))
    }

    /// Compares a response of a server with the plan, and applies it.
    pub(super) fn receive(
        &mut self,
        step: Step,
        mut plan: Plan,
        response: &Response,
        (server, repeated): (usize, Repeated),
    ) -> Result<(), String> {
        let (status, etag) = (response.status, response.header("etag"));
        if !plan.statuses.contains(&status) {
            return Err(format!("status {status}, and the model says {:?}: {}", plan.statuses, response.text()));
        }
        let is_replay = response.header("idempotency-replayed") == Some("true");
        if repeated == Repeated::No {
            check("`Idempotency-Replayed`", is_replay, plan.replayed.is_some())?;
        }
        if let Some(stored) = &plan.replayed {
            self.register.check_replayed(stored, response)?;
        }
        if let Some(version) = plan.etag {
            check("`ETag`", etag, Some(format!("\"{version}\"").as_str()))?;
        }
        if matches!(step, Step::Consent { .. })
            && let Some(change) = plan.changes.pop()
        {
            plan.changes.push(change.with_record(format!("Consent/{}", consent_id(response))));
        }
        let is_transaction = matches!(step, Step::Transaction { .. });
        let is_success = (200..300).contains(&status);
        let expected = match (is_success, is_replay) {
            (true, true) => Expected::Replay,
            (true, false) => Expected::Changes(plan.changes.clone()),
            (false, _) if is_transaction => Expected::RejectedTransaction,
            (false, _) => Expected::Rejection,
        };
        let client = sender(step).map(|account| self.accounts[&account].id.clone());
        // The entries of a transaction have the status of their own request.
        let status = if is_success && is_transaction { 201 } else { status };
        self.audited.push(AuditedRequest { id: request_id(response), server, client, status, expected });
        if !is_success {
            self.summary.rejected += 1;
            return Ok(());
        }
        self.summary.written += u64::from(plan.replayed.is_none());
        self.summary.replayed += u64::from(is_replay);
        self.summary.completed += u64::from(is_replay && repeated == Repeated::Perhaps);
        self.changes.append(&mut plan.changes);
        self.register.apply(step, plan, response);
        Ok(())
    }

    /// A server was stopped or killed: its clients need new tokens, and it has lost what it counted in memory.
    pub(super) fn stopped(&mut self, server: usize) {
        self.clients.retain(|(_, of), _| *of != server);
        self.budgets.iter_mut().for_each(|(_, budget)| budget.restart());
    }

    /// Installs the other version of the plugin. The server that installed the versions has their files.
    fn swap(&mut self) -> Result<(), String> {
        let back = self.world.admin(0).request("POST", "/plugins/small/rollback").send();
        check("the rollback of a plugin", back.status, 200)?;
        let other = VERSIONS.into_iter().find(|version| *version != self.plugin);
        self.plugin = other.expect("there are two versions");
        check("version of the plugin", &back.json()["version"], &json!(self.plugin))?;
        (0..self.world.servers()).try_for_each(|server| self.compare_plugin(server))
    }

    fn pass(&mut self, minutes: i16) {
        if !W::IS_CLOCK_SET || !self.register.pass(minutes) {
            return;
        }
        self.world.pass(minutes);
        // A token ends after a day, and is not valid before it was issued.
        self.clients.clear();
        if minutes > 0 {
            self.budgets.iter_mut().for_each(|(_, budget)| budget.pass_minute());
        }
    }

    /// Uses the limits of the clients with small ones.
    fn spend(&mut self, count: u8) -> Result<(), String> {
        let today = self.register.today();
        for (account, _) in LIMITED {
            let client = self.client(account, self.at);
            let (_, budget) = self.budgets.iter_mut().find(|(of, _)| *of == account).expect("it has a budget");
            for _ in 0..count {
                let began = Instant::now();
                let response = client.get("/Individual?_count=1");
                self.summary.limited += u64::from(response.status == 429);
                budget.count(today, began, &response).map_err(|problem| format!("{account:?}: {problem}"))?;
            }
        }
        Ok(())
    }
}

/// The client that sends an operation; absent for the administrator.
fn sender(step: Step) -> Option<Account> {
    match step {
        Step::Consent { .. } => None,
        Step::Withdraw { .. } => Some(Account::Ministry),
        _ => Some(Account::Writer),
    }
}

pub(super) fn check<T: PartialEq + std::fmt::Debug>(of: &str, shown: T, known: T) -> Result<(), String> {
    if shown == known { Ok(()) } else { Err(format!("{of}: {shown:?}, and the model says {known:?}")) }
}
