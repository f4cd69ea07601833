//! Import of many records by the administrator: each line is one operation, as in a single call.
//!
//! **Invariant:** a line is written atomically, with an audit entry that contains the import and the number of the
//! line. The audit log therefore records the progress of an import, even after a crash ([`written_before`]).
//!
//! **Invariant:** lines of one kind are written in their order, and a line that refers to a record of an earlier line
//! is written after that line (`run`). The outcome of a line does not depend on the speed of other lines.
//!
//! **Invariant:** an import that waits for its next part stays the current one for [`SILENCE_MAX`]: parts of two
//! imports never mix.

pub mod export;
pub mod run;
mod write;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Semaphore;

use crate::audit::AuditLog;
use crate::consent::ConsentDraft;
use crate::edit;
use crate::group::GroupDraft;
use crate::individual::IndividualDraft;
use crate::program_membership::MembershipDraft;
use crate::registry::Registry;
use daftar_domain::audit::query::{AuditPosition, AuditQuery};
use daftar_domain::audit::{AuditAction, AuditEntry, AuditOutcome};
use daftar_domain::code::CodeUri;
use daftar_domain::context::audit_context::{AuditContext, AuditedRequest};
use daftar_domain::context::{Clock, OpContext};
use daftar_domain::error::AppError;
use daftar_domain::error_code::ErrorCode;
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::program::ProgramDetails;
use daftar_domain::program_membership::{BENEFICIARY, PROGRAM};
use daftar_domain::record::{RecordKind, VersionCondition};
use daftar_domain::schema::Tag;
use daftar_domain::value::{Reference, Value, Values};
use daftar_domain::{group, individual};
use daftar_sandbox::EligibilityEngine;
use daftar_store::overlay::Overlay;
use daftar_store::{Store, Write};

/// Handling of a line whose record exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExisting {
    /// The line is rejected.
    Reject,
    /// The line is skipped.
    Skip,
    /// It replaces the record.
    Update,
    /// The listed members are added to the group; existing members stay; only for groups.
    AddMembers,
    /// The listed relationships are added to the record; existing ones stay; only for records that exist.
    AddRelationships,
}

impl OnExisting {
    /// The names in requests and commands. Lines request the other ones ([`OnExisting::of_lines`]).
    pub const NAMES: [(&'static str, Self); 3] =
        [("reject", Self::Reject), ("skip", Self::Skip), ("update", Self::Update)];

    /// Those that a line may request for its record.
    #[must_use]
    pub fn of_lines(kind: RecordKind) -> Vec<Self> {
        let own: &[Self] = match kind {
            RecordKind::Individual => &[Self::AddRelationships],
            RecordKind::Group => &[Self::AddMembers, Self::AddRelationships],
            RecordKind::Program | RecordKind::ProgramMembership | RecordKind::Consent => &[],
        };
        Self::NAMES.iter().map(|(_, known)| known).chain(own).copied().collect()
    }

    /// The name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Reject => "reject",
            Self::Skip => "skip",
            Self::Update => "update",
            Self::AddMembers => "add-members",
            Self::AddRelationships => "add-relationships",
        }
    }
}

/// A record as a line contains it, before references are resolved.
#[derive(Debug, Clone)]
pub enum BulkRecord {
    /// An individual.
    Individual(Box<IndividualDraft>),
    /// A group with its members.
    Group(Box<GroupDraft>),
    /// A program.
    Program(Box<ProgramDetails>),
    /// A membership in a program.
    ProgramMembership(Box<MembershipDraft>),
    /// A consent.
    Consent(Box<ConsentDraft>),
}

impl BulkRecord {
    /// The kind of the record.
    #[must_use]
    pub fn kind(&self) -> RecordKind {
        match self {
            Self::Individual(_) => RecordKind::Individual,
            Self::Group(_) => RecordKind::Group,
            Self::Program(_) => RecordKind::Program,
            Self::ProgramMembership(_) => RecordKind::ProgramMembership,
            Self::Consent(_) => RecordKind::Consent,
        }
    }

    /// Its fields with the one of its relationships; none if its kind has no relationships.
    fn with_relationships(&mut self) -> Option<(&mut Values<CodeUri, IdentifierKey>, Tag)> {
        match self {
            Self::Individual(draft) => Some((&mut draft.details.values, individual::RELATIONSHIP.tag())),
            Self::Group(draft) => Some((&mut draft.details.values, group::RELATIONSHIP.tag())),
            Self::Program(_) | Self::ProgramMembership(_) | Self::Consent(_) => None,
        }
    }

    /// Its relationships.
    fn relationships(&mut self) -> &[Value<CodeUri, IdentifierKey>] {
        match self.with_relationships().and_then(|(values, tag)| values.value(tag)) {
            Some(Value::List(relationships)) => relationships,
            Some(_) | None => &[],
        }
    }

    /// Limits its relationships to the first ones.
    fn truncate_relationships(&mut self, count: usize) {
        let Some((values, tag)) = self.with_relationships() else { return };
        if let Some(Value::List(mut relationships)) = values.take(tag) {
            relationships.truncate(count);
            values.put(tag, (!relationships.is_empty()).then_some(Value::List(relationships)));
        }
    }

    /// Its identifiers; none for a consent, which is found by its id.
    fn identifiers(&self) -> &[Identifier] {
        match self {
            Self::Individual(draft) => &draft.details.identifiers,
            Self::Group(draft) => &draft.details.identifiers,
            Self::Program(details) => &details.identifiers,
            Self::ProgramMembership(draft) => &draft.identifiers,
            Self::Consent(_) => &[],
        }
    }
}

/// A line that was parsed.
#[derive(Debug, Clone)]
pub struct BulkLine {
    /// Its content.
    pub record: BulkRecord,
    /// The version at which it replaces a record.
    pub condition: VersionCondition,
    /// Handling if the record exists.
    pub on_existing: OnExisting,
    /// Number of its last relationships that a later line adds, because their records may not exist yet.
    pub later_relationships: usize,
}

/// The outcome of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// It created a record.
    Created,
    /// It changed a record.
    Updated,
    /// Its record exists already and stays unchanged.
    Skipped,
}

/// Names an import in requests and in its audit entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportId(Arc<str>);

/// Maximum length of the name of an import, in bytes.
pub const IMPORT_ID_BYTES_MAX: usize = 64;

impl ImportId {
    /// Reads a name.
    ///
    /// # Errors
    /// [`AppError::Malformed`] if it is not a valid name.
    pub fn parse(text: &str) -> Result<Self, AppError> {
        let is_right = (8..=IMPORT_ID_BYTES_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if is_right {
            return Ok(Self(text.into()));
        }
        Err(AppError::Malformed(format!(
            "`id` names the import: 8 to {IMPORT_ID_BYTES_MAX} small letters, digits and `-`, the same for all its parts"
        )))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ImportId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Prefix of the number of a line in the audit log.
const LINE_MARK: &str = " line ";
const STATUS_CREATED: u16 = 201;
const STATUS_OK: u16 = 200;

/// Writes lines as one actor.
#[derive(Clone)]
pub struct Importer {
    /// The actor and the request.
    pub ctx: OpContext,
    /// The destination.
    pub registry: Arc<Registry>,
    /// Decides on enrolments.
    pub engine: Arc<dyn EligibilityEngine>,
    /// The import.
    pub id: ImportId,
    /// True for a dry run, which evaluates no program rules.
    pub is_dry_run: bool,
    /// Lines that may query a pack at the same time: [`LOOKUPS_AT_ONCE`].
    lookups: Arc<Semaphore>,
}

/// Number of lines of an import that query packs of open vocabularies at the same time. Their writes are serialized, so
/// that more would only fill the queue of the plugin pool, which rejects work of a client beyond its share.
const LOOKUPS_AT_ONCE: usize = 2;

impl Importer {
    /// An importer of the lines of one request; `is_dry_run` is true if `registry` writes nothing.
    #[must_use]
    pub fn new(
        ctx: OpContext,
        registry: Arc<Registry>,
        engine: Arc<dyn EligibilityEngine>,
        id: ImportId,
        is_dry_run: bool,
    ) -> Self {
        Self { ctx, registry, engine, id, is_dry_run, lookups: Arc::new(Semaphore::new(LOOKUPS_AT_ONCE)) }
    }

    /// The context of one line: its audit entries contain the import and the line.
    fn context(&self, line: u64, success_status: u16) -> OpContext {
        let operation = self.ctx.trail.operation();
        let trail = AuditContext::new(AuditedRequest {
            request_id: Arc::clone(&self.id.0),
            operation: format!("{}{LINE_MARK}{line}", operation.as_deref().unwrap_or("import")).into(),
            address: self.ctx.trail.address(),
            success_status,
        });
        OpContext { request_id: Arc::clone(&self.id.0), trail, ..self.ctx.clone() }
    }
}

/// True if an error is caused by the server, not by the line: the import stops and continues later.
#[must_use]
pub fn is_no_fault_of_the_line(error: &AppError) -> bool {
    const SERVER_ERROR: u16 = 500;
    !matches!(error, AppError::DryRun) && error.code().entry().status >= SERVER_ERROR
}

/// Number of audit entries that are checked together.
const PAGE_LINES: usize = 1_000;

/// Number of different lines below the first one, read without a line from the first one on in between, after which no
/// older entry is of a line from the first one on. The lower lines that a request writes after such a line were in the
/// window with it, and a window has fewer lines: at most [`run::WINDOW_LINES_MAX`], and the rest of one batch. A
/// difference of line numbers proves nothing: blank lines are counted, and are not in the window.
const LOWER_LINES_MAX: usize = 2 * run::WINDOW_LINES_MAX;

/// The lines from `first_line` on that the import with that name has written. The parts of an import arrive in order,
/// and entries are read only as far as lines were written out of order.
///
/// # Errors
/// If the store fails.
pub async fn written_before(audit: &AuditLog, id: &ImportId, first_line: u64) -> Result<HashMap<u64, Done>, AppError> {
    let query = AuditQuery { request_id: Some(id.as_str().to_owned()), ..AuditQuery::default() };
    let mut written = WrittenLines::from_line(first_line);
    let mut before = AuditPosition::END;
    loop {
        let page = audit.look(query.clone(), before, PAGE_LINES).await?;
        for entry in page.entries.iter().filter(|entry| entry.outcome == AuditOutcome::Allowed) {
            if let Some((line, done)) = line_of(entry) {
                written.add(line, done);
            }
        }
        match page.next {
            Some(next) if !written.is_complete() => before = next,
            Some(_) | None => return Ok(written.lines),
        }
    }
}

/// The lines from a first one on that audit entries record.
struct WrittenLines {
    first_line: u64,
    lines: HashMap<u64, Done>,
    /// The lines below the first one that were added since the last one from it on.
    lower: HashSet<u64>,
}

impl WrittenLines {
    fn from_line(first_line: u64) -> Self {
        Self { first_line, lines: HashMap::new(), lower: HashSet::new() }
    }

    /// Adds the line of the next older entry.
    fn add(&mut self, line: u64, done: Done) {
        if line < self.first_line {
            self.lower.insert(line);
            return;
        }
        self.lower.clear();
        // If a line changed a group several times, its oldest entry counts, which may record the creation of the group.
        self.lines.insert(line, done);
    }

    /// True if no older entry is of a line from the first one on.
    fn is_complete(&self) -> bool {
        self.lower.len() >= LOWER_LINES_MAX
    }
}

fn line_of(entry: &AuditEntry) -> Option<(u64, Done)> {
    let done = match entry.action {
        AuditAction::Create => Done::Created,
        AuditAction::Update => Done::Updated,
        AuditAction::Read
        | AuditAction::Search
        | AuditAction::Evaluate
        | AuditAction::Administer
        | AuditAction::Plugin
        | AuditAction::Authenticate
        | AuditAction::Audit => return None,
    };
    let (_, line) = entry.operation.as_deref()?.rsplit_once(LINE_MARK)?;
    Some((line.parse().ok()?, done))
}

/// A name, hashed with secret keys to 128 bits, so that two different names never collide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Name(u128);

/// Hashes names.
#[derive(Debug, Clone, Default)]
struct Naming {
    high: RandomState,
    low: RandomState,
}

/// Identifiers of the record of a line, and its references.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Names {
    pub own: Vec<Name>,
    pub needs: Vec<Name>,
}

impl Naming {
    fn name(&self, kind: RecordKind, key: &IdentifierKey) -> Name {
        self.hash((kind, key))
    }

    fn hash<T: std::hash::Hash>(&self, of: T) -> Name {
        Name(u128::from(self.high.hash_one(&of)) << 64 | u128::from(self.low.hash_one(&of)))
    }

    #[cfg(test)]
    fn numbered(&self, number: usize) -> Name {
        self.hash(number)
    }

    /// The names of a record.
    fn of(&self, record: &BulkRecord) -> Names {
        let kind = record.kind();
        let mut names = Names::default();
        let needs = |references: Vec<&Reference<IdentifierKey>>| {
            references.into_iter().map(|other| self.name(other.kind, &other.id)).collect()
        };
        match record {
            BulkRecord::Individual(draft) => names.needs = needs(draft.details.references()),
            BulkRecord::Group(draft) => names.needs = needs(draft.details.references()),
            BulkRecord::Program(_) => {}
            BulkRecord::ProgramMembership(draft) => {
                names.needs = needs(draft.references());
                // A beneficiary has at most one open membership in a program.
                names.own.push(self.hash((draft.get(PROGRAM), draft.get(BENEFICIARY))));
            }
            BulkRecord::Consent(draft) => {
                names.needs = needs(draft.references());
                names.own.push(self.name(kind, &draft.id().key()));
            }
        }
        names.own.extend(record.identifiers().iter().map(|identifier| self.name(kind, &identifier.key)));
        names
    }
}

/// A line that may be admitted to the window.
pub struct PreparedLine {
    /// Its number in the input.
    pub line: u64,
    bytes: usize,
    work: Result<PreparedWork, AppError>,
}

struct PreparedWork {
    pub kind: RecordKind,
    pub names: Names,
    pub work: Work,
}

/// Remaining work for a line.
enum Work {
    /// Write only.
    Write(Box<Write>),
    /// All steps.
    Line(Box<BulkLine>),
}

impl PreparedWork {
    /// True if the line adds members to a group, which is idempotent.
    fn adds_members(&self) -> bool {
        matches!(&self.work, Work::Line(line) if line.on_existing == OnExisting::AddMembers)
    }
}

/// Prepares lines of one import.
#[derive(Clone)]
pub struct Preparer {
    importer: Importer,
    naming: Naming,
}

impl Preparer {
    /// Returns a preparer of lines that this importer will write.
    #[must_use]
    pub fn new(importer: Importer) -> Self {
        Self { importer, naming: Naming::default() }
    }

    /// Returns the same preparer with another time.
    #[must_use]
    pub fn at(&self, now: jiff::Timestamp) -> Self {
        let mut later = self.clone();
        later.importer.ctx.now = now;
        later
    }

    /// Prepares a line with its size in bytes.
    pub async fn prepare(&self, line: u64, bytes: usize, read: Result<BulkLine, AppError>) -> PreparedLine {
        let work = match read {
            Ok(read) => self.work(line, read).await,
            Err(error) => Err(error),
        };
        PreparedLine { line, bytes, work }
    }

    async fn work(&self, line: u64, read: BulkLine) -> Result<PreparedWork, AppError> {
        let kind = read.record.kind();
        let names = self.naming.of(&read.record);
        // A replacement is checked against the stored record, and references are resolved, in the order of the lines.
        let work = match read {
            BulkLine { record: BulkRecord::Individual(draft), on_existing: OnExisting::Reject, .. }
                if names.needs.is_empty() && !edit::needs_lookup(&self.importer.registry, &draft) =>
            {
                let ctx = self.importer.context(line, STATUS_CREATED);
                Work::Write(Box::new(edit::prepare(&ctx, &self.importer.registry, *draft).await?.write))
            }
            other => Work::Line(Box::new(other)),
        };
        Ok(PreparedWork { kind, names, work })
    }
}

/// Time without a request after which another import may begin.
pub const SILENCE_MAX: SignedDuration = SignedDuration::from_secs(30);

/// Prefix of the rejection while another import runs.
pub const TAKEN: &str = "another import, or another part of this one, is being written";

/// Owner of the time slice.
pub struct ImportScheduler {
    clock: Arc<dyn Clock>,
    current: Mutex<Option<Current>>,
}

struct Current {
    id: ImportId,
    is_running: bool,
    since: Timestamp,
    dry_run: Option<Arc<Overlay>>,
}

/// The time slice of one request; ends when it is dropped.
pub struct TimeSlice {
    scheduler: Arc<ImportScheduler>,
}

impl ImportScheduler {
    /// A scheduler without a current import.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, current: Mutex::new(None) }
    }

    /// Acquires the time slice for a part of an import.
    ///
    /// # Errors
    /// [`AppError::Conflict`] while another import owns it, or while a part of the same import is being written.
    pub fn begin(self: &Arc<Self>, id: &ImportId) -> Result<TimeSlice, AppError> {
        let now = self.clock.now();
        let mut current = self.lock();
        let is_taken = current.as_ref().is_some_and(|current| {
            current.is_running || (current.id != *id && now.duration_since(current.since).abs() < SILENCE_MAX)
        });
        if is_taken {
            let detail = format!(
                "{TAKEN}: one at a time; retry when it has ended, or {} seconds after it was interrupted",
                SILENCE_MAX.as_secs()
            );
            return Err(AppError::conflict(ErrorCode::OperationInProgress, detail));
        }
        let dry_run = current.take().filter(|current| current.id == *id).and_then(|current| current.dry_run);
        *current = Some(Current { id: id.clone(), is_running: true, since: now, dry_run });
        Ok(TimeSlice { scheduler: Arc::clone(self) })
    }

    /// The time of the last request of an unfinished import, if its silence was so long that it was interrupted.
    #[must_use]
    pub fn interrupted(&self, now: Timestamp) -> Option<Timestamp> {
        let current = self.lock();
        let silent = current.as_ref().filter(|current| !current.is_running && current.dry_run.is_none())?;
        (now.duration_since(silent.since) >= SILENCE_MAX).then_some(silent.since)
    }

    /// Ends an import: another may begin immediately.
    pub fn end(&self, id: &ImportId) {
        let mut current = self.lock();
        if current.as_ref().is_some_and(|current| current.id == *id && !current.is_running) {
            *current = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Current>> {
        // Each change is one assignment.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TimeSlice {
    /// The view of the register for a dry run: the same for all parts of the import.
    #[must_use]
    pub fn dry_run(&self, registry: &Registry) -> Registry {
        let mut current = self.scheduler.lock();
        let made = || Arc::new(Overlay::dry_run(Arc::clone(&registry.store)));
        let dry_run = match current.as_mut() {
            Some(current) => Arc::clone(current.dry_run.get_or_insert_with(made)),
            None => made(),
        };
        drop(current);
        let store: Arc<dyn Store> = dry_run;
        Registry { audit: AuditLog::new(Arc::clone(&store)), store, bodies: Arc::default(), ..registry.clone() }
    }
}

impl Drop for TimeSlice {
    fn drop(&mut self) {
        let now = self.scheduler.clock.now();
        if let Some(current) = self.scheduler.lock().as_mut() {
            current.is_running = false;
            current.since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit;
    use daftar_domain::audit::Actor;
    use daftar_domain::context::FakeClock;
    use daftar_store_sled::testing::shared_store;

    /// The audit entry of a line of an import.
    fn entry_of(id: &ImportId, line: u64, action: AuditAction, outcome: AuditOutcome) -> AuditEntry {
        let trail = AuditContext::new(AuditedRequest {
            request_id: Arc::clone(&id.0),
            operation: format!("POST /admin/v1/import{LINE_MARK}{line}").into(),
            address: None,
            success_status: STATUS_CREATED,
        });
        let ctx = OpContext::unbound(Actor::Administrator, Arc::clone(&id.0), Timestamp::UNIX_EPOCH, trail);
        audit::entry(&ctx, action, outcome, vec![format!("Group/urn:x|{line}")])
    }

    #[tokio::test]
    async fn lines_that_were_written_before_an_earlier_line_are_found() {
        let (log, id) = (AuditLog::new(shared_store()), ImportId::parse("import-one").unwrap());
        let created = |line| entry_of(&id, line, AuditAction::Create, AuditOutcome::Allowed);
        let changed = |line| entry_of(&id, line, AuditAction::Update, AuditOutcome::Allowed);
        let refused = entry_of(&id, 8, AuditAction::Create, AuditOutcome::Refused);
        // Line 3, of another kind than the others, waits while lines from 6 on are written.
        let entries = vec![created(1), created(6), changed(6), changed(7), refused, created(4), created(3), changed(3)];
        log.record_now(entries).await.unwrap();
        let written = written_before(&log, &id, 5).await.unwrap();
        assert_eq!(written, HashMap::from([(6, Done::Created), (7, Done::Updated)]));
        let written = written_before(&log, &id, 8).await.unwrap();
        assert_eq!(written, HashMap::new());
    }

    #[test]
    fn entries_are_read_until_so_many_lines_are_lower_that_none_was_in_the_window_with_a_later_one() {
        let first = 10_000;
        let lower = (1..first).rev().take(LOWER_LINES_MAX);
        let mut written = WrittenLines::from_line(first);
        for line in lower.clone().skip(1) {
            // Each member that a line adds has its own entry.
            written.add(line, Done::Updated);
            written.add(line, Done::Updated);
        }
        assert!(!written.is_complete());
        written.add(first, Done::Created);
        for line in lower {
            assert!(!written.is_complete());
            written.add(line, Done::Created);
        }
        assert!(written.is_complete());
        assert_eq!(written.lines, HashMap::from([(first, Done::Created)]));
    }

    #[test]
    fn one_import_has_the_turn_until_it_ends_or_is_silent() {
        let clock = FakeClock::new("2026-03-01T12:00:00Z".parse().unwrap());
        let scheduler = Arc::new(ImportScheduler::new(Arc::new(clock.clone())));
        let [one, two] = ["import-one", "import-two"].map(|id| ImportId::parse(id).unwrap());
        let turn = scheduler.begin(&one).unwrap();
        assert!(scheduler.begin(&one).is_err() && scheduler.begin(&two).is_err());
        clock.advance(SignedDuration::from_secs(60));
        assert_eq!(scheduler.interrupted(clock.now()), None, "a part of it is being written");
        drop(turn);
        drop(scheduler.begin(&one).unwrap());
        clock.advance(SILENCE_MAX - SignedDuration::from_millis(1));
        assert!(scheduler.begin(&two).is_err());
        clock.advance(SignedDuration::from_millis(1));
        drop(scheduler.begin(&two).unwrap());
        scheduler.end(&one);
        assert!(scheduler.begin(&one).is_err(), "it is the turn of the other one");
        scheduler.end(&two);
        assert!(scheduler.begin(&one).is_ok());
    }

    #[test]
    fn errors_of_the_server_are_no_fault_of_a_line() {
        let namespace = daftar_domain::code::Namespace::parse("urn:x").unwrap();
        let of_the_server = [
            AppError::Busy,
            AppError::Unavailable("a disk".into()),
            AppError::internal("a defect"),
            AppError::NoEngine,
            AppError::EngineCompiling(daftar_domain::manifest::PluginName::parse("cel").unwrap()),
            AppError::EngineNotInstalled("gear".to_owned()),
            AppError::VocabularyUnavailable(namespace),
            AppError::PluginSuspended {
                plugin: daftar_domain::manifest::PluginName::parse("cel").unwrap(),
                retry_after_s: 1,
            },
        ];
        assert!(of_the_server.iter().all(is_no_fault_of_the_line));
        let of_the_line =
            [AppError::DryRun, AppError::Overtaken, AppError::Ambiguous, AppError::Malformed(String::new())];
        assert!(!of_the_line.iter().any(is_no_fault_of_the_line));
    }

    #[test]
    fn a_silent_import_that_has_not_ended_was_interrupted() {
        let clock = FakeClock::new("2026-03-01T12:00:00Z".parse().unwrap());
        let scheduler = Arc::new(ImportScheduler::new(Arc::new(clock.clone())));
        let id = ImportId::parse("import-one").unwrap();
        drop(scheduler.begin(&id).unwrap());
        let silent_since = clock.now();
        clock.advance(SILENCE_MAX - SignedDuration::from_secs(1));
        assert_eq!(scheduler.interrupted(clock.now()), None);
        clock.advance(SignedDuration::from_secs(1));
        assert_eq!(scheduler.interrupted(clock.now()), Some(silent_since));
        scheduler.end(&id);
        assert_eq!(scheduler.interrupted(clock.now()), None);
    }
}
