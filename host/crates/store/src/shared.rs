//! Shared state of the processes of a register, outside its records: change notifications, the exclusive lock for
//! changes of plugins and settings, installed plugins, call counts, the checkpoint of their keys.

use std::sync::Arc;

use jiff::Timestamp;

use super::StoreError;
use daftar_domain::call_counts::{OfDay, OfMinute, OfWindow, Wanted};
use daftar_domain::context::Clock;

/// The stored list of installed plugins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredList {
    /// Number of replacements; 0 for no list.
    pub revision: u64,
    /// The encoded list.
    pub bytes: Vec<u8>,
}

/// Timeline id of a database: it differs from that of any other database with a possibly earlier state, such as a
/// promoted replica, a restored copy, or the same database after a restart. Responses of one timeline never go back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct History(pub [u64; 2]);

/// Version counters of the data that processes cache, raised by any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Generation {
    /// Changes of clients.
    pub clients: u64,
    /// Changes of settings, installed plugins and numbers of codes.
    pub deployment: u64,
    /// The timeline of the counters.
    pub history: History,
}

impl Generation {
    /// The number of all changes, which is notified.
    #[must_use]
    pub fn changes(self) -> u64 {
        self.clients.saturating_add(self.deployment)
    }
}

/// The label of a code in one language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeLabel {
    /// The URI of the code.
    pub uri: String,
    /// The language.
    pub language: String,
    /// Index of the language in the vocabulary; the first is the default.
    pub place: usize,
    /// The label.
    pub text: String,
}

/// Exclusive lock for changes of plugins or settings, among all processes; released when it is dropped.
pub type Turn = Box<dyn Send + Sync>;

/// Accounts of a database other than the program's own, its owner and superusers. Their reads bypass consent, field
/// limits and the audit log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OtherReaders {
    /// Accounts that may read or change tables of the register.
    pub of_tables: Vec<String>,
    /// Accounts that may read reports, and no tables.
    pub of_reports: Vec<String>,
}

/// State of the views for reports by SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportViews {
    /// They exist, and are those of this program; or a newer program manages them.
    Current,
    /// They are those of another program.
    Outdated,
    /// These views or functions do not exist.
    Missing(Vec<String>),
}

/// Shared state of the processes of a register. A backend with several processes implements it; a store of one process
/// has none.
///
/// - Atomicity: the store executes every call in one step: concurrent calls of two processes behave as if they were
///   sequential.
/// - Order: a [`Generation`] is raised in the same write as the change: a process that reads a generation and then the
///   clients or settings has read all of its changes. Generations are comparable within one [`History`] only: another
///   one may use the same numbers. A plugin file is stored before a list names it.
/// - Durability: stored, reserved, released and replaced data is on disk when the call returns, except minutes and
///   windows.
/// - A crash of a process releases its lock, but not its reserved counts. A crash of the store may lose minutes, which
///   are full then, and windows, which are empty; afterwards a process may be notified of a change again.
#[async_trait::async_trait]
pub trait Shared: Send + Sync + 'static {
    /// Returns the current generation. Costs one small query.
    ///
    /// # Errors
    /// If the store does not respond.
    async fn generation(&self) -> Result<Generation, StoreError>;

    /// Waits for a notification of a change, or until the notifications start or stop. A notification without a waiting
    /// caller ends the next wait immediately. May return without a reason.
    async fn heard(&self);

    /// True if changes are notified immediately. Otherwise a caller that requires current data compares the generation.
    fn is_listening(&self) -> bool;

    /// Sets the timeline of this process's cached codes: from now on records are written on this timeline only, and
    /// only by requests begun after this call by that clock, if there is one. Earlier ones may use numbers of another
    /// timeline. Before the first call every record is written. After the clock was set back, requests may be rejected
    /// for a minute.
    fn rest_on(&self, history: History, since: Option<Arc<dyn Clock>>);

    /// The last notified value of [`Generation::changes`].
    fn heard_of(&self) -> u64;

    /// Waits for the exclusive lock for changes of plugins and settings.
    ///
    /// # Errors
    /// If the store does not respond, or the lock is not available within the timeout of a request.
    async fn turn(&self) -> Result<Turn, StoreError>;

    /// Stores a value under a name unless one exists; returns the stored value.
    ///
    /// # Errors
    /// If the store fails.
    async fn keep_once(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, StoreError>;

    /// Returns the other accounts that may read the shared data.
    ///
    /// # Errors
    /// If the store does not respond.
    async fn other_readers(&self) -> Result<OtherReaders, StoreError>;

    /// Returns the state of the views for reports by SQL.
    ///
    /// # Errors
    /// If the store does not respond.
    async fn report_views(&self) -> Result<ReportViews, StoreError>;

    /// Returns the time of the store's clock.
    ///
    /// # Errors
    /// If the store does not respond.
    async fn time(&self) -> Result<Timestamp, StoreError>;

    /// Reserves calls by raising a named counter of the store, up to its limit. An absent counter is 0.
    ///
    /// # Errors
    /// If the store fails.
    async fn take(&self, name: &str, wanted: Wanted, limit: u32) -> Result<OfDay, StoreError>;

    /// Releases unused calls by lowering a named counter, not below 0.
    ///
    /// # Errors
    /// If the store fails.
    async fn give_back(&self, name: &str, calls: u32) -> Result<(), StoreError>;

    /// Reserves calls from the minute of a name, by the store's clock: a bucket of that many calls that refills evenly
    /// (GCRA), at first all of them, then one every minute divided by their number.
    ///
    /// # Errors
    /// If the store fails.
    async fn lease(&self, name: &str, wanted: Wanted, per_minute: u32) -> Result<OfMinute, StoreError>;

    /// Counts calls in the sliding window of a name, by the store's clock, if it then has at most `limit`.
    ///
    /// # Errors
    /// If the store fails.
    async fn window(&self, name: &str, calls: u32, limit: u32) -> Result<OfWindow, StoreError>;

    /// Deletes full minutes and empty windows, and returns their number.
    ///
    /// # Errors
    /// If the store fails.
    async fn forget_full_minutes(&self) -> Result<u64, StoreError>;

    /// Returns the list of installed plugins.
    ///
    /// # Errors
    /// If the store fails.
    async fn plugin_list(&self) -> Result<StoredList, StoreError>;

    /// Replaces the list with that revision, raises the generation of the deployment, and removes files that neither
    /// the new list nor the one before names. Returns the new revision.
    ///
    /// # Errors
    /// [`StoreError::Overtaken`] if the list has another revision: nothing is changed then. If the store fails.
    async fn replace_plugin_list(&self, seen: u64, list: &[u8], named: &[[u8; 32]]) -> Result<u64, StoreError>;

    /// Returns the plugin file with that SHA-256. The caller verifies the digest.
    ///
    /// # Errors
    /// If the store fails.
    async fn plugin_file(&self, digest: [u8; 32]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Stores a plugin file under its SHA-256, unless it exists. A partially stored file does not exist.
    ///
    /// # Errors
    /// If the store fails.
    async fn put_plugin_file(&self, digest: [u8; 32], bytes: Vec<u8>) -> Result<(), StoreError>;

    /// Stores the labels of all codes of a vocabulary snapshot for reports by SQL, replacing those of the same codes.
    /// Codes outside the snapshot keep their labels: records may contain them. Does nothing if these labels were stored
    /// last.
    ///
    /// # Errors
    /// If the store fails.
    async fn put_labels(&self, labels: Vec<CodeLabel>) -> Result<(), StoreError>;
}
