//! What processes of one register share beside its records: notifications of changes, the exclusive right to change plugins and settings,
//! installed plugins, counts of calls, the mark of their keys.

pub mod limits;

use jiff::Timestamp;

use super::StoreError;

pub use self::limits::{Lease, Leased, Take, Taken, Windowed};

/// The longest list of plugins: some thousand plugins.
pub const PLUGIN_LIST_BYTES_MAX: usize = 1 << 20;

/// The list of installed plugins as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredList {
    /// How often it was replaced; 0 where there never was one.
    pub revision: u64,
    /// What it holds.
    pub bytes: Vec<u8>,
}

/// What tells the database that answers from every other that may answer in its place and may stand at an earlier state: a copy that took
/// over, one that was put back, or the same one started again. Two answers of one history never go back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct History(pub [u64; 2]);

/// How often what processes keep in memory was changed, by any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Generation {
    /// Of clients.
    pub clients: u64,
    /// Of settings, installed plugins and numbers of codes.
    pub deployment: u64,
    /// In which history that was counted.
    pub history: History,
}

impl Generation {
    /// How often anything was changed: what is told of to those who listen.
    #[must_use]
    pub fn changes(self) -> u64 {
        self.clients.saturating_add(self.deployment)
    }
}

/// What a code is called in one language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeLabel {
    /// The URI of the code.
    pub uri: String,
    /// The language.
    pub language: String,
    /// Its place among the languages of the vocabulary, of which the first is the default.
    pub place: usize,
    /// The label.
    pub text: String,
}

/// Held while plugins or settings are changed: by one process at a time, and until it is dropped.
pub type Turn = Box<dyn Send + Sync>;

/// Accounts of a database beside the program's own, its owner and superusers. What they read goes past consent, field limits and the audit log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OtherReaders {
    /// Those that may read or change tables of the register.
    pub of_tables: Vec<String>,
    /// Those that may read reports, and no table.
    pub of_reports: Vec<String>,
}

/// What the processes of one register share. A backend behind several processes implements it; a store of one process has none.
///
/// - Atomicity: every call is decided by the store in one step: two processes that ask at the same time get answers as if one had asked
///   after the other.
/// - Order: a [`Generation`] is raised in the very write that makes the change: a process that reads a generation and then the clients or
///   settings has read all that belongs to it. Generations are compared within one [`History`] only: another one may have given the same
///   numbers for something else. A file of a plugin is there before a list names it.
/// - Durability: what is kept, taken, given back or replaced is on disk when the call returns, except minutes and windows.
/// - A crash of a process ends its turn, and leaves what it took of counts taken. A crash of the store may forget minutes, which are full
///   then, and windows, which are empty; after it a process may be notified of a change again.
#[async_trait::async_trait]
pub trait Shared: Send + Sync + 'static {
    /// The generation now. Asks the store: one small question.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn generation(&self) -> Result<Generation, StoreError>;

    /// Waits until a change is heard of, or until changes are heard of again or no longer. One that came while no caller waited ends
    /// the next wait at once. May return without a reason.
    async fn heard(&self);

    /// Whether changes are heard of as they are made. A caller that needs the newest compares the generation while this is not so.
    fn is_listening(&self) -> bool;

    /// Says that what this process keeps in memory of codes is of that history: records are written in it only, and only what began after
    /// `since`. Whatever began before may hold numbers that another history gave. Until it is said for the first time everything is written.
    fn rest_on(&self, history: History, since: Option<Timestamp>);

    /// How often anything was changed, as far as that was heard of: see [`Generation::changes`].
    fn heard_of(&self) -> u64;

    /// Waits for the turn to change plugins and settings.
    ///
    /// # Errors
    /// When the store does not answer, or the turn does not come in the time that a request may take.
    async fn turn(&self) -> Result<Turn, StoreError>;

    /// Keeps a value under a name unless one is kept under it already; says what is kept.
    ///
    /// # Errors
    /// When the store fails.
    async fn keep_once(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, StoreError>;

    /// Who else may read what the processes share, past this program.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn other_readers(&self) -> Result<OtherReaders, StoreError>;

    /// What time it is by the clock of what the processes share.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn time(&self) -> Result<Timestamp, StoreError>;

    /// Raises a named counter of the store by what is asked, as far as its limit allows. It is one of the store's counters: an absent
    /// one is 0.
    ///
    /// # Errors
    /// When the store fails.
    async fn take(&self, name: &str, take: Take) -> Result<Taken, StoreError>;

    /// Lowers a named counter by what was taken of it and not used, not below 0.
    ///
    /// # Errors
    /// When the store fails.
    async fn give_back(&self, name: &str, count: u64) -> Result<(), StoreError>;

    /// Takes calls out of the minute of a name, by the store's clock: a bucket of so many calls that fills evenly (GCRA), all of them at
    /// once, then one every minute divided by them.
    ///
    /// # Errors
    /// When the store fails.
    async fn lease(&self, name: &str, lease: Lease) -> Result<Leased, StoreError>;

    /// Counts calls in the sliding window of a name, by the store's clock, if it then has at most `limit`.
    ///
    /// # Errors
    /// When the store fails.
    async fn window(&self, name: &str, calls: u32, limit: u32) -> Result<Windowed, StoreError>;

    /// Forgets minutes that are full again and windows that are empty, and returns their number.
    ///
    /// # Errors
    /// When the store fails.
    async fn forget_full_minutes(&self) -> Result<u64, StoreError>;

    /// The list of installed plugins.
    ///
    /// # Errors
    /// When the store fails.
    async fn plugin_list(&self) -> Result<StoredList, StoreError>;

    /// Replaces the list that has that revision, raises the generation of the deployment, and removes files that neither the new list nor the
    /// one before it names. Says which revision the new one has.
    ///
    /// # Errors
    /// [`StoreError::Overtaken`] where the list has another revision: nothing is changed then. When the store fails.
    async fn replace_plugin_list(&self, seen: u64, list: &[u8], named: &[[u8; 32]]) -> Result<u64, StoreError>;

    /// The file of a plugin with that SHA-256. Who reads it compares.
    ///
    /// # Errors
    /// When the store fails.
    async fn plugin_file(&self, digest: [u8; 32]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Keeps the file of a plugin under its SHA-256; one that is there already stays. A file that was put in part is none.
    ///
    /// # Errors
    /// When the store fails.
    async fn put_plugin_file(&self, digest: [u8; 32], bytes: Vec<u8>) -> Result<(), StoreError>;

    /// Puts the labels of all codes of a snapshot of vocabularies where reports by SQL read them, in the place of those of the same codes.
    /// Codes that the snapshot does not have keep theirs: records may hold them. Does nothing where these labels were put last.
    ///
    /// # Errors
    /// When the store fails.
    async fn put_labels(&self, labels: Vec<CodeLabel>) -> Result<(), StoreError>;
}
