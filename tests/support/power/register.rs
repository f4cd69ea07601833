//! Writes to a store on a recording disk, and checks of its content after a power cut.
//!
//! **Invariant:** the writes follow from the seed alone; their grouping by the store does not.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use daftar_domain::audit::query::{AuditBounds, AuditPosition, AuditQuery};
use daftar_domain::audit::{Actor, AuditAction, AuditEntry, AuditOutcome};
use daftar_domain::change::{Change, ChangedRecord, Details};
use daftar_domain::client::ClientId;
use daftar_domain::code::CodeUri;
use daftar_domain::deployment::Setting;
use daftar_domain::extension::Extension;
use daftar_domain::group::GroupDetails;
use daftar_domain::idempotency::{IdempotencyKey, IdempotentRequest, RequestName, StoredResponse};
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::individual::{Individual, IndividualDetails, PHOTO};
use daftar_domain::photo::Photo;
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_domain::value::Values;
use daftar_domain::verification::VerificationEvent;
use daftar_domain::vocabulary::ConceptGroup;
use daftar_store::archive::{Archive, CatchUp, Refill, Snapshot};
use daftar_store::change_log::RegisterId;
use daftar_store::verify::{Pace, verify};
use daftar_store::{ChangeSink, Operation, Store, StoreError, Write};
use daftar_store_sled::{OpenError, SledOptions, SledRefill, SledStore};

use super::super::dice::Dice;
use super::Seen;
use super::disk::{Disk, Fault};

/// The folder of the store on the disk.
const STORE: &str = "store";
/// The folder into which the contents of the store are copied.
const REFILLED: &str = "refilled";
/// Photos of a round that fills several segments of the log, in bytes.
const LARGE_PHOTO_BYTES: std::ops::Range<u64> = 300_000..900_000;
/// Sizes of long entries of the audit log. The database stores a value of more than about 500 kB in a file of its own.
const LONG_LINES: [usize; 2] = [200_000, 600_000];
const ALL: usize = 100_000;
/// Timestamp of every write.
const AT: &str = "2026-01-02T03:04:05.678Z";

/// Returns up to `limit` entries of the audit log, newest first.
async fn logged(store: &dyn Store, limit: usize) -> Result<Vec<AuditEntry>, StoreError> {
    let bounds = AuditBounds { lines_max: limit, examined_max: usize::MAX };
    Ok(store.audit_page(AuditQuery::default(), AuditPosition::END, bounds).await?.entries)
}

/// A write that was sent.
struct Sent {
    /// Length of the history of the disk before it.
    began: usize,
    what: Content,
}

#[derive(Clone)]
enum Content {
    /// The store was opened; its register once it was.
    Open(Option<RegisterId>),
    /// A person was written.
    Person(Box<Person>),
    /// A code was numbered.
    Code(CodeUri, Option<u32>),
    /// The one counter was raised.
    Counter(u64),
    /// An entry of the audit log that belongs to no write.
    Line(AuditEntry),
    /// A folder was filled with the content of the store: people, and entries of the audit log.
    Refill(Vec<Arc<Individual>>, usize),
}

/// A write of a person, with its dependent data.
#[derive(Clone)]
struct Person {
    key: IdentifierKey,
    /// The record that is changed and its version; absent for a new record.
    of: Option<(RecordId, VersionId)>,
    details: IndividualDetails,
    photo: Option<Photo>,
    setting: Option<ConceptGroup>,
    /// The identifier of a group that is created with it.
    group: Option<IdentifierKey>,
    /// The idempotency key of the request.
    request: Option<IdempotencyKey>,
    line: AuditEntry,
    /// The sequence of the write, once it was acknowledged.
    sequence: Option<u64>,
    id: Option<RecordId>,
}

/// All writes that were sent.
pub(super) struct Model {
    /// One round of so many consists of large photos.
    large_one_in: u64,
    sent: Vec<Sent>,
    /// People as last acknowledged, without unacknowledged changes.
    people: Vec<(RecordId, VersionId, IndividualDetails)>,
    /// True if the last refill did not end.
    is_refill_unfinished: bool,
}

struct NoSink;

impl ChangeSink for NoSink {
    fn apply(&self, _: &[Change]) {}
}

fn open(path: &Path) -> Result<Arc<SledStore>, OpenError> {
    let options = SledOptions { cache_bytes: 1 << 20, ..SledOptions::default() };
    let store = SledStore::open(path, options)?;
    store.attach_sink(Arc::new(NoSink)).expect("it has none yet");
    Ok(Arc::new(store))
}

/// Opens the store of a disk and closes it.
///
/// # Errors
/// The reason why it is not opened.
pub(super) fn reopen(disk: &Path) -> Result<(), String> {
    open(&disk.join(STORE)).map(drop).map_err(|error| format!("the store is not opened: {error}"))
}

/// Opens the store of a disk that has lost the content of the database, which the system still has in memory. Removes the
/// note of a clean stop before, unless `was_clean`.
///
/// # Errors
/// The reason why it is not opened.
pub(super) fn reopen_lost(disk: &Disk, was_clean: bool) -> Result<(), String> {
    // The system then has it in memory.
    reopen(&disk.path())?;
    disk.lose(&format!("{STORE}/db"));
    if !was_clean {
        std::fs::remove_file(disk.path().join(STORE).join("closed")).expect("it was stopped without an error");
    }
    reopen(&disk.path())
}

fn line(request: String, target: String) -> AuditEntry {
    AuditEntry {
        at: AT.parse().expect("an instant"),
        actor: Actor::System,
        address: None,
        request_id: request,
        operation: None,
        action: AuditAction::Read,
        outcome: AuditOutcome::Allowed,
        status: None,
        targets: vec![target],
        fields: Arc::default(),
        consents: Vec::new(),
        reason: None,
        note: None,
        count: 1,
    }
}

/// A photo whose bytes follow from a number.
fn photo(number: usize, length: usize) -> Photo {
    let mut dice = Dice::new(number as u64);
    let bytes: Vec<u8> = (0..length).map(|_| dice.next() as u8).collect();
    Photo::new(bytes, |bytes| Sha256::digest(bytes).into()).expect("it is not too large")
}

impl Person {
    fn write(&self) -> Write {
        let mut operations = Vec::new();
        operations.extend(self.photo.clone().map(Operation::PutPhoto));
        operations.push(match self.of {
            None => Operation::create(self.details.clone()),
            Some((id, version)) => Operation::update(id, version, self.details.clone()),
        });
        operations.extend(self.setting.clone().map(|group| Operation::PutSetting(Setting::ConceptGroup(group))));
        operations.extend(self.group.clone().map(|key| {
            let identifiers = vec![Identifier { key, period: None }];
            let details: GroupDetails = GroupDetails::new(identifiers, Values::default(), Extension::default());
            Operation::create(details)
        }));
        Write {
            at: AT.parse().expect("an instant"),
            source: None,
            operations,
            audit: vec![self.line.clone()],
            read_set: Vec::new(),
        }
    }

    fn version(&self) -> VersionId {
        self.of.map_or(VersionId(1), |(_, version)| VersionId(version.0 + 1))
    }

    fn idempotent_request(&self) -> Option<IdempotentRequest> {
        let key = self.request.clone()?;
        Some(IdempotentRequest {
            name: RequestName { client: client(), key, part: 0 },
            digest: [7; 32],
            at: AT.parse().expect("an instant"),
            responses: vec![StoredResponse { status: 200, record: None }],
        })
    }
}

/// The client of every idempotency key.
fn client() -> ClientId {
    ClientId::parse("power").expect("a client id")
}

impl Model {
    pub(super) fn new(large_one_in: u64) -> Self {
        Self { large_one_in, sent: Vec::new(), people: Vec::new(), is_refill_unfinished: false }
    }

    fn send(&mut self, disk: &Disk, what: Content) -> usize {
        self.sent.push(Sent { began: disk.now(), what });
        self.sent.len() - 1
    }

    fn draw(&mut self, dice: &mut Dice, has_large_photo: bool) -> Content {
        let number = self.sent.len();
        if has_large_photo {
            let length = LARGE_PHOTO_BYTES.start + dice.below(LARGE_PHOTO_BYTES.end - LARGE_PHOTO_BYTES.start);
            return Content::Person(Box::new(self.draw_person(number, false, Some(length), dice)));
        }
        match dice.below(20) {
            0 => Content::Code(CodeUri::from_parts("urn:x:codes", &number.to_string()).expect("a code"), None),
            1 => Content::Counter(number as u64),
            2 => {
                let length = draw_length(dice, 3);
                Content::Line(line(number.to_string(), "t".repeat(length)))
            }
            kind => {
                // Some fill several segments of the log, together or alone.
                let bytes_max = if dice.below(8) == 0 { 3_000_000 } else { 150_000 };
                let photo_bytes = (dice.below(6) == 0).then(|| 1 + dice.below(bytes_max));
                Content::Person(Box::new(self.draw_person(number, kind < 9, photo_bytes, dice)))
            }
        }
    }

    fn draw_person(&mut self, number: usize, is_update: bool, photo_bytes: Option<u64>, dice: &mut Dice) -> Person {
        let key = IdentifierKey::parse(&format!("urn:x:w|{number}")).expect("an identifier");
        let mut identifiers = Vec::new();
        let mut of = None;
        if is_update && !self.people.is_empty() {
            // Removed until it is acknowledged: otherwise its state is uncertain.
            let (id, version, before) = self.people.swap_remove(dice.below(self.people.len() as u64) as usize);
            identifiers.extend(before.identifiers.iter().cloned());
            of = Some((id, version));
        }
        identifiers.push(Identifier { key: key.clone(), period: None });
        let mut details = IndividualDetails::new(identifiers, Values::default(), Extension::default());
        let photo = photo_bytes.map(|bytes| photo(number, bytes as usize));
        if let Some(photo) = &photo {
            details = details.with(PHOTO, photo.reference());
        }
        let setting = (dice.below(6) == 0).then(|| ConceptGroup {
            name: format!("w{number}"),
            description: "What a write put.".to_owned(),
            includes: Vec::new(),
            excludes: Vec::new(),
        });
        let group =
            (dice.below(8) == 0).then(|| IdentifierKey::parse(&format!("urn:x:g|{number}")).expect("an identifier"));
        let request =
            (dice.below(8) == 0).then(|| IdempotencyKey::parse(&format!("w{number}")).expect("an idempotency key"));
        let line = line(number.to_string(), "t".repeat(draw_length(dice, 40)));
        Person { key, of, details, photo, setting, group, request, line, sequence: None, id: None }
    }

    fn answered(&mut self, number: usize, what: Content) {
        if let Content::Person(person) = &what
            && let Some(id) = person.id
        {
            self.people.push((id, person.version(), person.details.clone()));
        }
        self.sent[number].what = what;
    }
}

/// Draws the length of an entry of the audit log, of which one in that number is long.
fn draw_length(dice: &mut Dice, one_in: u64) -> usize {
    match dice.below(one_in) {
        0 => LONG_LINES[dice.below(LONG_LINES.len() as u64) as usize],
        _ => 10,
    }
}

/// Sends one write. Returns it with the result.
async fn send(store: &SledStore, what: Content) -> Result<Content, StoreError> {
    Ok(match what {
        Content::Person(mut person) => {
            let committed = match person.idempotent_request() {
                Some(request) => store.commit_once(person.write(), request).await?,
                None => store.commit(person.write()).await?,
            };
            let written = committed.written.iter().filter_map(|written| written.record());
            person.id = written.map(|record| record.place().1).next();
            person.sequence = Some(committed.sequence.0);
            Content::Person(person)
        }
        Content::Code(code, _) => {
            let (numbers, _) = store.number_codes(vec![code.clone()], Vec::new()).await?;
            Content::Code(code, numbers.first().map(|number| number.0))
        }
        Content::Counter(value) => {
            store.raise_counter("power", value).await?;
            Content::Counter(value)
        }
        Content::Line(line) => {
            store.append_audit(vec![line.clone()]).await?;
            logged(store, 1).await?;
            Content::Line(line)
        }
        Content::Open(_) | Content::Refill(..) => what,
    })
}

/// Opens the store of the disk, sends random writes, and closes it. Ends early if the store fails. The disk fails in
/// that way once the store is open.
///
/// # Errors
/// The reason of an early end.
pub(super) async fn session(
    model: &mut Model,
    disk: &Arc<Disk>,
    dice: &mut Dice,
    rounds: u64,
    fault: Option<Fault>,
) -> Result<(), String> {
    disk.begin("open");
    let opening = model.send(disk, Content::Open(None));
    let path = disk.path().join(STORE);
    let store = open(&path).map_err(|error| error.to_string())?;
    let register = store.register_id().await.map_err(|error| error.to_string())?;
    model.sent[opening].what = Content::Open(Some(register));
    disk.acknowledge(opening as u64);
    if fault.is_some() {
        disk.fail(fault);
    }
    disk.begin("write");
    for _ in 0..rounds {
        let mut requested = tokio::task::JoinSet::new();
        // A round of many large writes fills several segments of the log between two acknowledgements.
        let is_large = dice.below(model.large_one_in) == 0;
        let writes = if is_large { 6 + dice.below(8) } else { 1 + dice.below(6) };
        for _ in 0..writes {
            let what = model.draw(dice, is_large);
            let number = model.send(disk, what.clone());
            let (store, disk) = (Arc::clone(&store), Arc::clone(disk));
            requested.spawn(async move {
                let response = send(&store, what).await;
                if response.is_ok() {
                    disk.acknowledge(number as u64);
                }
                (number, response)
            });
        }
        let mut failure = None;
        for (number, response) in requested.join_all().await {
            match response {
                Ok(what) => model.answered(number, what),
                Err(error) => failure = Some(format!("{error} {:?}", std::error::Error::source(&error))),
            }
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
    }
    if dice.below(3) == 0 {
        let has_origin = dice.below(4) > 0;
        refill(model, disk, &store, has_origin).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Fills another folder of the disk with the content of the store, or catches it up. A folder that is filled without an
/// origin is a register of its own afterwards, and is not caught up.
async fn refill(model: &mut Model, disk: &Disk, store: &SledStore, has_origin: bool) -> Result<(), StoreError> {
    disk.begin("refill");
    let path = disk.path().join(REFILLED);
    let refused = |error: OpenError| StoreError::Failed(error.into());
    let people = (store as &dyn Store).scan::<IndividualDetails>(RecordId(0), ALL).await?;
    let lines = logged(store, ALL).await?.len();
    let number = model.send(disk, Content::Refill(people, lines));
    let is_caught_up = path.exists();
    let was_unfinished = std::mem::replace(&mut model.is_refill_unfinished, true);
    let (mut filling, mut snapshot): (Box<dyn Refill>, Snapshot) = if is_caught_up {
        match SledRefill::catch_up(&path, 1 << 20) {
            Ok(CatchUp { held, refill, .. }) => (refill, store.since(&held).await?),
            // It is a register of its own.
            Err(OpenError::NotFilled(_)) => return Ok(()),
            // The disk failed while it was filled.
            Err(_) if was_unfinished => return Ok(()),
            Err(error) => return Err(refused(error)),
        }
    } else {
        (Box::new(SledRefill::open(&path, 1 << 20).map_err(refused)?), store.snapshot().await?)
    };
    if is_caught_up || has_origin {
        filling.note_origin(snapshot.mark());
    }
    loop {
        let entries = snapshot.next().await?;
        if entries.is_empty() {
            break;
        }
        filling.put(entries).await?;
    }
    filling.finish().await?;
    model.is_refill_unfinished = false;
    disk.acknowledge(number as u64);
    Ok(())
}

/// Opens the files that a power cut left in a folder, and searches for lost, partial or invented writes. `at` is the
/// point of the history.
///
/// # Errors
/// A description of the problem.
pub(super) async fn check(
    model: &Model,
    acknowledged: &BTreeSet<u64>,
    at: usize,
    folder: &Path,
) -> Result<Seen, String> {
    let failed = |error: StoreError| format!("the store failed: {error} {:?}", std::error::Error::source(&error));
    let store = open(&folder.join(STORE)).map_err(|error| format!("the store is not opened: {error}"))?;
    find_nothing(&store).await?;
    let found = Found::read(&store).await.map_err(failed)?;
    let mut seen = Seen::default();
    let mut counters = (0, 0);
    let mut refilled = Vec::new();
    let mut last_sequence = 0;
    for (number, sent) in model.sent.iter().enumerate() {
        let is_acknowledged = acknowledged.contains(&(number as u64));
        let is_there = match &sent.what {
            Content::Open(register) => is_acknowledged && *register == Some(found.register),
            Content::Refill(people, lines) => {
                if is_acknowledged {
                    refilled.clear();
                }
                if is_acknowledged || sent.began <= at {
                    refilled.push((people.as_slice(), *lines, is_acknowledged));
                }
                is_acknowledged
            }
            Content::Counter(value) => {
                if is_acknowledged {
                    counters.0 = counters.0.max(*value);
                } else if sent.began <= at {
                    counters.1 = counters.1.max(*value);
                }
                continue;
            }
            Content::Code(code, given) => match (given, found.codes.get(code)) {
                (Some(given), Some(here)) if is_acknowledged && given != here => {
                    return Err(format!("code {number} has the number {here}, and {given} was acknowledged"));
                }
                (_, here) => here.is_some(),
            },
            Content::Line(line) => found.lines.get(&line.request_id).is_some_and(|here| here == line),
            Content::Person(person) => {
                last_sequence = last_sequence.max(person.sequence.filter(|_| is_acknowledged).unwrap_or(0));
                found.has(&store, number, person).await?
            }
        };
        match (is_acknowledged, is_there) {
            (true, true) => seen.acknowledged += 1,
            (true, false) => {
                return Err(format!("{} {number} was acknowledged, and is not there", sent.what.name()));
            }
            (false, true) if sent.began > at => {
                return Err(format!("{} {number} is there, and was sent later", sent.what.name()));
            }
            (false, true) => seen.whole += 1,
            (false, false) => seen.absent += 1,
        }
    }
    check_refilled(&folder.join(REFILLED), &refilled).await?;
    let most = counters.0.max(counters.1);
    if found.counter < counters.0 || found.counter > most {
        return Err(format!("the counter is {}, and {} was acknowledged of {most}", found.counter, counters.0));
    }
    accepts_next_write(&store, last_sequence)
        .await
        .map_err(failed)?
        .then_some(seen)
        .ok_or_else(|| format!("a write after the cut comes before the acknowledged write {last_sequence}"))
}

/// True if another write gets a later sequence than all acknowledged ones.
async fn accepts_next_write(store: &SledStore, last_sequence: u64) -> Result<bool, StoreError> {
    let model = Person {
        key: IdentifierKey::parse("urn:x:after|1").expect("an identifier"),
        of: None,
        details: IndividualDetails::new(Vec::new(), Values::default(), Extension::default()),
        photo: None,
        setting: None,
        group: None,
        request: None,
        line: line("after".to_owned(), String::new()),
        sequence: None,
        id: None,
    };
    Ok(store.commit(model.write()).await?.sequence.0 > last_sequence)
}

/// Runs the verification of the store, which must find nothing.
async fn find_nothing(store: &SledStore) -> Result<(), String> {
    let values = store.raw_values().await.map_err(|error| format!("it cannot be verified: {error}"))?;
    let (events, mut heard) = tokio::sync::mpsc::channel(64);
    let listen = async {
        let mut findings = Vec::new();
        while let Some(event) = heard.recv().await {
            if let VerificationEvent::Finding(finding) = event {
                findings.push(finding.to_string());
            }
        }
        findings
    };
    let (verified, findings) = tokio::join!(verify(values, Pace::Fast, events), listen);
    verified.map_err(|error| format!("it cannot be verified: {error}"))?;
    if findings.is_empty() { Ok(()) } else { Err(format!("the verification finds: {}", findings.join("; "))) }
}

/// Checks a folder that was filled and caught up: it has the content of the last acknowledged time, or of a later one.
/// During a later one it may be unfinished, and it is then refused.
async fn check_refilled(path: &Path, times: &[(&[Arc<Individual>], usize, bool)]) -> Result<(), String> {
    let is_acknowledged = times.iter().any(|(.., is_acknowledged)| *is_acknowledged);
    let is_in_work = times.iter().any(|(.., is_acknowledged)| !is_acknowledged);
    let store = match open(path) {
        Ok(store) => store,
        Err(OpenError::Unfinished { .. }) if is_in_work => return Ok(()),
        Err(_) if !is_acknowledged => return Ok(()),
        Err(error) => return Err(format!("what was filled is not opened: {error}")),
    };
    find_nothing(&store).await.map_err(|error| format!("of what was filled {error}"))?;
    let store: &dyn Store = &*store;
    let here = store.scan::<IndividualDetails>(RecordId(0), ALL).await.map_err(|error| error.to_string())?;
    let here_lines = logged(store, ALL).await.map_err(|error| error.to_string())?.len();
    let is_of = |(people, lines): (&[Arc<Individual>], usize)| here == people && here_lines == lines;
    if times.iter().any(|(people, lines, _)| is_of((people, *lines))) || (!is_acknowledged && is_of((&[], 0))) {
        return Ok(());
    }
    let times: Vec<_> = times.iter().map(|(people, lines, _)| (people.len(), lines)).collect();
    Err(format!("{} people and {here_lines} lines are there, of a folder filled with {times:?}", here.len()))
}

/// Content of a store.
struct Found {
    register: RegisterId,
    lines: HashMap<String, AuditEntry>,
    codes: BTreeMap<CodeUri, u32>,
    settings: Vec<Setting>,
    counter: u64,
}

impl Found {
    async fn read(store: &SledStore) -> Result<Self, StoreError> {
        let lines = logged(store, ALL).await?.into_iter().map(|line| (line.request_id.clone(), line));
        let codes = store.code_table().await?.codes;
        Ok(Self {
            register: store.register_id().await?,
            lines: lines.collect(),
            codes: codes.into_iter().zip(0..).collect(),
            settings: store.settings().await?,
            counter: store.counter("power").await?.unwrap_or(0),
        })
    }

    /// True if a write of a person is completely present; an error if a part of it is.
    async fn has(&self, store: &SledStore, number: usize, person: &Person) -> Result<bool, String> {
        let failed = |error: StoreError| format!("write {number} cannot be read: {error}");
        let owners = store.identifier_owners(RecordKind::Individual, &person.key, 2).await.map_err(failed)?;
        let id = owners.first().map(|owner| owner.id);
        let version = match id.or(person.of.map(|(id, _)| id)) {
            None => None,
            Some(id) => {
                let version = store.record_version(RecordKind::Individual, id, person.version()).await;
                version.map_err(failed)?.as_ref().and_then(individual)
            }
        };
        if let Some(individual) = &version
            && (individual.details != person.details || person.id.is_some_and(|id| id != individual.id))
        {
            return Err(format!("write {number} is there with another value"));
        }
        let line = self.lines.get(&person.line.request_id).filter(|line| **line == person.line);
        let mut parts = vec![("identifier", id.is_some()), ("record", version.is_some()), ("audit", line.is_some())];
        if let Some(group) = &person.setting {
            parts.push(("setting", self.settings.contains(&Setting::ConceptGroup(group.clone()))));
        }
        if let Some(group) = &person.group {
            let owners = store.identifier_owners(RecordKind::Group, group, 1).await.map_err(failed)?;
            parts.push(("group", !owners.is_empty()));
        }
        if let Some(request) = &person.request {
            let stored = store.remembered(&client(), request).await.map_err(failed)?;
            parts.push(("idempotency key", !stored.is_empty()));
        }
        if let Some(photo) = &person.photo {
            let here = store.photo(photo.reference()).await.map_err(failed)?;
            parts.push(("photo", here.is_some_and(|bytes| bytes == *photo.bytes())));
        }
        let there = parts.iter().filter(|(_, is_there)| *is_there).count();
        if there != 0 && there != parts.len() {
            return Err(format!("of write {number} a part is there: {parts:?}"));
        }
        Ok(there != 0)
    }
}

fn individual(record: &ChangedRecord) -> Option<Arc<Individual>> {
    IndividualDetails::of(record.clone())
}

impl Content {
    fn name(&self) -> &'static str {
        match self {
            Self::Open(_) => "opening",
            Self::Person(_) => "write",
            Self::Code(..) => "code",
            Self::Counter(_) => "counter",
            Self::Line(_) => "line",
            Self::Refill(..) => "refill",
        }
    }
}
