//! The entries of the audit log that requests must leave.

use serde_json::Value;

use crate::support::admin::Admin;

/// The actions of entries of changes.
const CHANGES: [&str; 2] = ["create", "update"];

/// A change in the audit log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Change {
    action: String,
    /// Sorted.
    records: Vec<String>,
}

impl Change {
    /// A change of these records.
    pub(super) fn new(action: &str, mut records: Vec<String>) -> Self {
        records.sort();
        Self { action: action.to_owned(), records }
    }

    /// The same with one more record.
    pub(super) fn with_record(self, record: String) -> Self {
        let records = self.records.into_iter().chain([record]).collect();
        Self::new(&self.action, records)
    }

    fn shown(entry: &Value) -> Self {
        Self::new(entry["action"].as_str().unwrap_or_default(), records(entry))
    }
}

/// The entries of a request.
#[derive(Debug, Clone)]
pub(super) enum Expected {
    /// An entry for each change, with the status of its request, and none of another change.
    Changes(Vec<Change>),
    /// The response is replayed: an entry of the read, and none of a change.
    Replay,
    /// One entry of the rejection, and none of a change.
    Rejection,
    /// An entry for each rejected entry of the transaction, and none of a change.
    RejectedTransaction,
    /// One entry of the read.
    Read {
        /// The record that the client named.
        record: String,
        /// For a client that depends on consents: those of the individual, and all that are valid.
        consents: Option<[Vec<String>; 2]>,
    },
}

/// A request whose entries are still to be checked.
#[derive(Debug, Clone)]
pub(super) struct AuditedRequest {
    /// Its id.
    pub(super) id: String,
    /// The server that handled it: only this one finds entries that are not written yet.
    pub(super) server: usize,
    /// The client; absent for the administrator.
    pub(super) client: Option<String>,
    /// The status of the entries.
    pub(super) status: u16,
    /// The entries.
    pub(super) expected: Expected,
}

impl AuditedRequest {
    /// Compares the audit log with the expected entries.
    pub(super) fn check(&self, admin: &Admin) -> Result<(), String> {
        let page = admin.get(&format!("/audit?request_id={}&_count=1000", self.id)).expect(200).json();
        let entries = page["data"].as_array().expect("entries");
        let is_of_client = |entry: &Value| entry["client"].as_str() == self.client.as_deref();
        let is_complete = entries.iter().all(is_of_client) && self.is_in(entries);
        if is_complete { Ok(()) } else { Err(format!("the audit log has other entries of {self:?}: {page}")) }
    }

    fn is_in(&self, entries: &[Value]) -> bool {
        let changes: Vec<&Value> = entries.iter().filter(|entry| is_change(entry)).collect();
        let with_status = |outcome: &str| {
            entries.iter().filter(|entry| entry["outcome"] == outcome && entry["status"] == self.status).count()
        };
        match &self.expected {
            Expected::Changes(known) => {
                let mut shown: Vec<Change> = changes.iter().map(|entry| Change::shown(entry)).collect();
                let mut known = known.clone();
                shown.sort();
                known.sort();
                shown == known && changes.iter().all(|entry| entry["status"] == self.status)
            }
            Expected::Replay => changes.is_empty() && entries.iter().any(is_read),
            Expected::Rejection => changes.is_empty() && with_status("refused") == 1,
            Expected::RejectedTransaction => {
                changes.is_empty() && entries.iter().any(|entry| entry["outcome"] == "refused")
            }
            Expected::Read { record, consents } => {
                let [entry] = entries else { return false };
                let named: Vec<&str> =
                    entry["consents"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                let are_right = consents.as_ref().is_none_or(|[own, valid]| {
                    let is_in = |id: &&str, ids: &[String]| ids.iter().any(|one| one == id);
                    named.iter().any(|id| is_in(id, own)) && named.iter().all(|id| is_in(id, valid))
                });
                is_read(entry) && with_status("allowed") == 1 && records(entry).contains(record) && are_right
            }
        }
    }
}

/// All changes in the audit log, without those of programs.
pub(super) fn changes(admin: &Admin) -> Vec<Change> {
    let query = format!("/audit?outcome=allowed&action={}&_count=1000", CHANGES.join("&action="));
    let (mut found, mut page) = (Vec::new(), admin.get(&query).expect(200).json());
    loop {
        let entries = page["data"].as_array().expect("entries").iter().filter(|entry| is_change(entry));
        let is_of_program = |change: &Change| {
            let [record] = change.records.as_slice() else { return false };
            record.starts_with("Program/")
        };
        found.extend(entries.map(Change::shown).filter(|change| !is_of_program(change)));
        let Some(cursor) = page["next"].as_str() else { return found };
        page = admin.get(&format!("{query}&cursor={cursor}")).expect(200).json();
    }
}

fn is_change(entry: &Value) -> bool {
    entry["outcome"] == "allowed" && CHANGES.iter().any(|action| entry["action"] == *action)
}

fn is_read(entry: &Value) -> bool {
    entry["outcome"] == "allowed" && entry["action"] == "read"
}

fn records(entry: &Value) -> Vec<String> {
    let records = entry["records"].as_array().into_iter().flatten();
    records.filter_map(Value::as_str).map(ToOwned::to_owned).collect()
}
