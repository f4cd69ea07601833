//! Operations on a data folder on a recording disk, and checks of its files after a power cut.
//!
//! A start creates the folder with everything in it, as `serve` does: by `App::open`, or part by part in the same
//! order, so that each part is acknowledged alone. Then keys are rotated, plugins installed, replaced and removed,
//! checkpoints and backups written, and a backup is restored into another folder. Servers that share a database have
//! their keys in a third folder.
//!
//! After each operation its files are recorded as programs see them. After a power cut a file has the content after the
//! last acknowledged operation, or after one that was interrupted, and the register can be opened.
//!
//! **Invariant:** operations are sequential, so one at most is interrupted by a power cut. The first failure ends a
//! session.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use daftar::app::restore::{RestoreTrust, is_unfinished, restore};
use daftar::app::{App, AppOptions, CompileBounds, CompileIn, packs};
use daftar::auth::{AdminToken, CursorSeal, DecisionKeyRing, KeyRing, SecretHasher};
use daftar::columns::checkpoint::CheckpointFolder;
use daftar::config::Config;
use daftar::context::FakeClock;
use daftar::plugin::{
    Digest, Downgrade, Loss, PinnedDigests, PluginHost, PluginHostSettings, PluginLibrary, PluginList, PluginOffer,
    RecordedPlugin, TrustPolicy, UnsignedPlugins,
};
use daftar::service::backup::KeyInclusion;
use daftar::service::signing_key::KeyUse;
use daftar_domain::extension::Extension;
use daftar_domain::folders;
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::individual::IndividualDetails;
use daftar_domain::manifest::PluginName;
use daftar_domain::record::RecordKind;
use daftar_domain::value::Values;
use daftar_store::change_log::RegisterId;
use daftar_store::{Operation, Store, Write};
use daftar_store_sled::{SledOptions, SledStore};
use jiff::Timestamp;
use serde_json::Value;

use super::super::dice::Dice;
use super::super::packs as small_packs;
use super::Seen;
use super::disk::{Disk, Fault};

/// The data folder. The folder above it is created with it.
const DATA: &str = "srv/data";
/// The folder that servers of one database share.
const SHARED: &str = "shared";
/// The folder of the backup, and its file.
const BACKUPS: &str = "backups";
const BACKUP: &str = "backups/register.daftar";
/// The folder into which the backup is restored.
const RESTORED: &str = "restored";
/// The checkpoints of the data folder, and the end of their names.
const CHECKPOINTS: &str = "srv/data/checkpoints";
const CHECKPOINT_SUFFIX: &str = ".checkpoint";
/// The operation that writes a checkpoint.
const CHECKPOINT: &str = "checkpoint";
/// The files that are compared.
const FILES: [&str; 16] = [
    "srv/data/keys/token.json",
    "srv/data/keys/decisions.json",
    "srv/data/keys/client-secrets.json",
    "srv/data/keys/cursors.json",
    "srv/data/admin.token",
    "srv/data/plugins/installed.json",
    "shared/keys/token.json",
    "shared/keys/decisions.json",
    "shared/keys/client-secrets.json",
    "shared/keys/cursors.json",
    BACKUP,
    "restored/keys/token.json",
    "restored/keys/decisions.json",
    "restored/keys/client-secrets.json",
    "restored/keys/cursors.json",
    "restored/plugins/installed.json",
];
/// The name of the pack that is installed, replaced and removed.
const PACK: &str = "small";
/// Maximum number of rotations of the keys of tokens: a file has eight keys at most.
const ROTATIONS_MAX: u32 = 5;
/// A program that does not exist, in place of the one that compiles plugins.
const NO_COMPILER: &str = "/nonexistent/daftar";

/// The content of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Missing,
    Digest(Digest),
    /// An operation that failed may have written it.
    Unknown,
}

/// The files that are on disk after an operation.
#[derive(Debug, Clone)]
struct Stored {
    files: BTreeMap<&'static str, Content>,
    /// The last transaction in the newest checkpoint.
    checkpoint: u64,
}

impl Default for Stored {
    fn default() -> Self {
        Self { files: FILES.map(|path| (path, Content::Missing)).into(), checkpoint: 0 }
    }
}

/// An operation that was begun.
struct Step {
    operation: &'static str,
    /// Length of the history of the disk before it.
    began: usize,
    /// The files after it; absent if it failed.
    after: Option<Stored>,
}

impl Step {
    /// True if this file may have that content when the operation is interrupted.
    fn may_leave(&self, path: &str, found: Content) -> bool {
        match &self.after {
            Some(after) => after.files[path] == found || after.files[path] == Content::Unknown,
            None => is_written(self.operation, path),
        }
    }
}

/// True if a file is on disk after an operation.
fn is_written(operation: &str, path: &str) -> bool {
    let folder = match operation {
        "shared keys" | "shared rotation" => "shared/",
        "backup" => "backups/",
        "restore" => "restored/",
        "write" | CHECKPOINT => return false,
        // A start and the operations of a server, in their data folder.
        _ => "srv/",
    };
    path.starts_with(folder)
}

/// All operations that were begun.
pub(super) struct Model {
    steps: Vec<Step>,
    /// The files after the last of them.
    stored: Stored,
    /// The id of the register, and the step that first acknowledged it.
    register: Option<(u64, RegisterId)>,
    /// The individuals, each with the step that wrote it.
    written: Vec<(u64, IdentifierKey)>,
    /// The last step before the backup that is there.
    backup: Option<u64>,
    /// The step of the restore, and the last step before the backup that it restores.
    restored: Option<(u64, u64)>,
    /// True once the shared folder was used.
    is_shared: bool,
    /// Number of rotations of the keys of tokens.
    rotations: u32,
    /// How the server differed from its files after one call of the disk had failed.
    differs: Option<String>,
}

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().expect("an instant")
}

fn config() -> Config {
    let mut config = Config::default();
    config.plugins.allow_unsigned = true;
    config
}

fn options(data_dir: PathBuf, compile_in: CompileIn) -> AppOptions {
    AppOptions { clock: Arc::new(FakeClock::new(now())), compile_in, ..AppOptions::new(data_dir) }
}

/// Opens a register as `serve` does, without compiling: a plugin whose machine code is not cached stays inactive.
async fn opened(data_dir: PathBuf) -> Result<App, String> {
    let compile_in = CompileIn::Child { program: PathBuf::from(NO_COMPILER), bounds: CompileBounds::default() };
    App::open(config(), options(data_dir, compile_in)).await.map_err(text)
}

fn text(error: impl Display) -> String {
    error.to_string()
}

/// Two versions of a small pack.
fn pack(version: usize) -> PluginOffer {
    static PACKS: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
        let folder = tempfile::tempdir().expect("a folder can be made");
        ["1.0.0", "2.0.0"].map(|version| {
            let source = small_packs::source(folder.path(), version, "");
            packs::build(&source, None).expect("the source is a pack")
        })
    });
    let unsigned = UnsignedPlugins::Allowed;
    let bytes = PACKS[version].clone();
    PluginOffer { unsigned, downgrade: Downgrade::Allowed, loss: Loss::Accepted, ..PluginOffer::from(bytes) }
}

impl Stored {
    /// Records what an operation has written, or may have written if it failed.
    fn note(&mut self, disk: &Disk, operation: &str, has_succeeded: bool) {
        for (path, content) in self.files.iter_mut().filter(|(path, _)| is_written(operation, path)) {
            *content = match disk.content(path) {
                // The first steps of a start write none of these files: a killed start may have left some, unsynced.
                _ if !has_succeeded || matches!(operation, "data folder" | "store") => Content::Unknown,
                None => Content::Missing,
                Some(content) => Content::Digest(Digest::of(&content)),
            };
        }
    }

    /// Records the newest checkpoint.
    fn note_checkpoint(&mut self, disk: &Disk) {
        let names = disk.names(CHECKPOINTS).into_iter();
        let sequences = names.filter_map(|name| name.strip_suffix(CHECKPOINT_SUFFIX)?.parse().ok());
        self.checkpoint = sequences.max().unwrap_or_default();
    }
}

impl Model {
    /// Creates the folders that an operator creates.
    pub(super) fn of(disk: &Disk) -> io::Result<Self> {
        disk.begin("set-up");
        for name in [SHARED, BACKUPS] {
            fs::create_dir(disk.path().join(name))?;
        }
        folders::sync(&disk.path())?;
        Ok(Self {
            steps: Vec::new(),
            stored: Stored::default(),
            register: None,
            written: Vec::new(),
            backup: None,
            restored: None,
            is_shared: false,
            rotations: 0,
            differs: None,
        })
    }

    /// The number of the last step.
    fn last(&self) -> u64 {
        self.steps.len() as u64 - 1
    }
}

/// Runs an operation, records the files after it, and acknowledges it.
async fn step<T, E: Display>(
    model: &mut Model,
    disk: &Disk,
    operation: &'static str,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    disk.begin(operation);
    model.steps.push(Step { operation, began: disk.now(), after: None });
    let number = model.last();
    let failed = disk.failed();
    let output = work.await.map_err(|error| format!("{operation}: {error}"));
    model.stored.note(disk, operation, output.is_ok());
    // That a checkpoint cannot be written is only logged.
    if operation == CHECKPOINT && disk.failed() == failed {
        model.stored.note_checkpoint(disk);
    }
    if output.is_ok() {
        model.steps[number as usize].after = Some(model.stored.clone());
        disk.acknowledge(number);
    }
    output
}

/// Opens the register of a disk and closes it.
///
/// # Errors
/// The reason why it is not opened.
pub(super) async fn reopen(disk: &Path) -> Result<(), String> {
    let app = opened(disk.join(DATA)).await.map_err(|error| format!("the register is not opened: {error}"))?;
    app.close();
    Ok(())
}

/// Starts a register on the disk, operates it and stops it. Ends early if an operation fails. The disk fails in that
/// way once the register is open.
///
/// # Errors
/// The reason of an early end.
pub(super) async fn session(
    model: &mut Model,
    disk: &Disk,
    dice: &mut Dice,
    rounds: u64,
    fault: Option<Fault>,
) -> Result<(), String> {
    let data_dir = disk.path().join(DATA);
    if model.steps.is_empty() && dice.below(2) == 0 {
        start_in_parts(model, disk, &data_dir).await?;
    }
    if !model.is_shared && dice.below(2) == 0 {
        model.is_shared = true;
        share_keys(model, disk).await?;
    }
    let app = step(model, disk, "start", App::open(config(), options(data_dir, CompileIn::ThisProcess))).await?;
    if fault.is_some() {
        disk.fail(fault);
    }
    let failed = disk.failed();
    let operated = operate(model, disk, dice, &app, rounds).await;
    if disk.failed() == failed + 1 {
        model.differs = difference(disk, &app);
    }
    app.close();
    drop(app);
    operated?;
    if let Some(backup) = model.backup
        && model.restored.is_none()
        && dice.below(4) > 0
    {
        model.restored = Some((model.last() + 1, backup));
        let restoring = async {
            let file = File::open(disk.path().join(BACKUP)).map_err(text)?;
            let folder = disk.path().join(RESTORED);
            restore(file, &folder, &config(), RestoreTrust::default(), |_, _| ()).await.map_err(text)
        };
        step(model, disk, "restore", restoring).await?;
    }
    Ok(())
}

/// Creates a data folder in the order of a start, and acknowledges each part.
async fn start_in_parts(model: &mut Model, disk: &Disk, data_dir: &Path) -> Result<(), String> {
    step(model, disk, "data folder", async { folders::make_all(data_dir) }).await?;
    let opening = async {
        let store = SledStore::open(&data_dir.join("store"), SledOptions::default()).map_err(text)?;
        store.register_id().await.map_err(text)
    };
    let register = step(model, disk, "store", opening).await?;
    model.register = Some((model.last(), register));
    load_keys(model, disk, data_dir, ["token keys", "decision keys", "secrets key", "cursor key"]).await?;
    step(model, disk, "admin token", async { AdminToken::load_or_create(data_dir).map(drop) }).await?;
    let trust = TrustPolicy::new(config().plugins.trusted_keys, PinnedDigests::default(), UnsignedPlugins::Allowed);
    let installing = async {
        let code_folder = Some(data_dir.join("compiled"));
        let settings = PluginHostSettings { code_folder, trust, ..PluginHostSettings::default() };
        let host = Arc::new(PluginHost::start(settings).map_err(text)?);
        let library = PluginLibrary::open(host, &data_dir.join("plugins"), None).map_err(text)?;
        library.install(pack(0), now(), &|_| Ok(())).map(drop).map_err(text)
    };
    step(model, disk, "plugins", installing).await
}

/// Creates the keys in the folder that servers of one database share, and replaces one.
async fn share_keys(model: &mut Model, disk: &Disk) -> Result<(), String> {
    let home = disk.path().join(SHARED);
    let tokens = load_keys(model, disk, &home, ["shared keys"; 4]).await?;
    let rotating = async {
        let rotation = tokens.prepare(None, now()).map_err(text)?;
        tokens.carry_out(rotation, now()).map_err(text)
    };
    step(model, disk, "shared rotation", rotating).await
}

/// Loads or creates every key of a folder.
async fn load_keys(
    model: &mut Model,
    disk: &Disk,
    home: &Path,
    [tokens, decisions, secrets, cursors]: [&'static str; 4],
) -> Result<KeyRing, String> {
    let lifetime_s = config().token.lifetime_s;
    let ring = step(model, disk, tokens, async { KeyRing::load_or_create(home, lifetime_s, now()) }).await?;
    step(model, disk, decisions, async { DecisionKeyRing::load_or_create(home, now()).map(drop) }).await?;
    step(model, disk, secrets, async { SecretHasher::load_or_create(home, now()).map(drop) }).await?;
    step(model, disk, cursors, async { CursorSeal::load_or_create(home, now()).map(drop) }).await?;
    Ok(ring)
}

/// Operates an open register.
async fn operate(model: &mut Model, disk: &Disk, dice: &mut Dice, app: &App, rounds: u64) -> Result<(), String> {
    let register = app.registry.store.register_id().await.map_err(text)?;
    model.register.get_or_insert((model.steps.len() as u64 - 1, register));
    let pack_name = PluginName::parse(PACK).expect("the name of a plugin");
    // Another one could begin before the server has recorded the end of the first.
    let mut has_backup = false;
    for _ in 0..rounds {
        let ctx = app.system_context();
        match dice.below(10) {
            0 if model.rotations < ROTATIONS_MAX => {
                model.rotations += 1;
                step(model, disk, "rotate", app.signing_keys.rotate(&ctx, KeyUse::Tokens, None)).await.map(drop)?;
            }
            1 => {
                step(model, disk, "rotate", app.signing_keys.rotate(&ctx, KeyUse::Decisions, None)).await.map(drop)?;
            }
            2..=4 => {
                let offer = pack(dice.below(2) as usize);
                step(model, disk, "install", app.plugins.install(&ctx, offer)).await.map(drop)?;
            }
            5 if app.plugins.recorded(&pack_name).is_some() => {
                step(model, disk, "remove", app.plugins.remove(&ctx, &pack_name, true)).await?;
            }
            6 | 7 if !has_backup => {
                has_backup = true;
                let before = model.last();
                step(model, disk, "backup", back_up(app, &disk.path())).await?;
                model.backup = Some(before);
            }
            8 => {
                let writing = async {
                    app.checkpoint().await;
                    Ok::<_, String>(())
                };
                step(model, disk, CHECKPOINT, writing).await?;
            }
            _ => {
                let key = IdentifierKey::parse(&format!("urn:x:w|{}", model.steps.len())).expect("an identifier");
                model.written.push((model.last() + 1, key.clone()));
                step(model, disk, "write", app.registry.store.commit(creating(key))).await.map(drop)?;
            }
        }
    }
    Ok(())
}

/// Returns how the keys and the plugin of a server differ from its files, as programs see them. An operation that failed
/// says that it has changed nothing.
fn difference(disk: &Disk, app: &App) -> Option<String> {
    for (usage, path) in
        [(KeyUse::Tokens, "srv/data/keys/token.json"), (KeyUse::Decisions, "srv/data/keys/decisions.json")]
    {
        let used: Vec<String> = app.signing_keys.list_of(usage).into_iter().map(|key| key.id).collect();
        let file: Value = serde_json::from_slice(&disk.content(path)?).expect("a file of keys is JSON");
        let stored: Vec<&str> = file["keys"].as_array()?.iter().filter_map(|key| key["kid"].as_str()).collect();
        if used != stored {
            return Some(format!("the server uses the keys {used:?}, and `{path}` has {stored:?}"));
        }
    }
    let name = PluginName::parse(PACK).expect("the name of a plugin");
    let digest_of = |recorded: &RecordedPlugin| recorded.digest;
    let used = app.plugins.recorded(&name).as_ref().map(digest_of);
    let list = disk.content("srv/data/plugins/installed.json")?;
    let stored = PluginList::parse(&list).expect("a list of plugins").recorded(&name).map(digest_of);
    (used != stored).then(|| format!("the server uses the plugin {used:?}, and the list has {stored:?}"))
}

/// Writes a backup with the keys, as the command line does.
async fn back_up(app: &App, disk: &Path) -> Result<(), String> {
    let mut blocks = app.backups.begin(&app.system_context(), KeyInclusion::Included).await.map_err(text)?;
    let mut file = tempfile::Builder::new();
    let file = file.prefix(".daftar-backup-").suffix(".unfinished").tempfile_in(disk.join(BACKUPS));
    let mut file = file.map_err(text)?;
    while let Some(block) = blocks.recv().await {
        file.write_all(&block.map_err(text)?).map_err(text)?;
    }
    packs::persist(file, &disk.join(BACKUP), true).map_err(text)
}

/// The creation of an individual.
fn creating(key: IdentifierKey) -> Write {
    let identifiers = vec![Identifier { key, period: None }];
    let details: IndividualDetails = IndividualDetails::new(identifiers, Values::default(), Extension::default());
    Write {
        at: now(),
        source: None,
        operations: vec![Operation::create(details)],
        audit: Vec::new(),
        read_set: Vec::new(),
    }
}

/// Compares the files that a power cut left in a folder with the operations, and opens what is there. `at` is the point
/// of the history. `is_started` if a start that is no operation came before: one that was killed, or one between two
/// power cuts. It may have created keys.
///
/// # Errors
/// A description of the problem.
pub(super) async fn check(
    model: &Model,
    acknowledged: &BTreeSet<u64>,
    at: usize,
    is_started: bool,
    folder: &Path,
) -> Result<Seen, String> {
    if let Some(difference) = &model.differs {
        return Err(difference.clone());
    }
    let next = acknowledged.last().map_or(0, |last| *last as usize + 1);
    let begun: Vec<&Step> = model.steps[next..].iter().take_while(|step| step.began <= at).collect();
    let first = Stored::default();
    let before = next.checked_sub(1).and_then(|last| model.steps[last].after.as_ref()).unwrap_or(&first);
    let mut seen = Seen::default();
    compare_files(before, &begun, is_started, folder, &mut seen)?;
    let shared = folder.join(SHARED);
    KeyRing::load_or_create(&shared, config().token.lifetime_s, now()).map_err(text)?;
    DecisionKeyRing::load_or_create(&shared, now()).map_err(text)?;
    SecretHasher::load_or_create(&shared, now()).map_err(text)?;
    CursorSeal::load_or_create(&shared, now()).map_err(text)?;
    let data_dir = folder.join(DATA);
    check_plugins(&data_dir)?;
    let app = opened(data_dir).await.map_err(|error| format!("the register is not opened: {error}"))?;
    let checked = check_register(model, acknowledged, &app, &mut seen).await;
    app.close();
    drop(app);
    checked?;
    check_restored(model, acknowledged, &folder.join(RESTORED), &mut seen).await?;
    Ok(seen)
}

/// Compares each file with its content after the last acknowledged operation and after later ones, which had begun.
fn compare_files(
    before: &Stored,
    begun: &[&Step],
    is_started: bool,
    folder: &Path,
    seen: &mut Seen,
) -> Result<(), String> {
    let operations: Vec<&str> = begun.iter().map(|step| step.operation).collect();
    for path in FILES {
        let found = match fs::read(folder.join(path)) {
            Ok(content) => Content::Digest(Digest::of(&content)),
            Err(error) if error.kind() == ErrorKind::NotFound => Content::Missing,
            Err(error) => return Err(format!("`{path}` cannot be read: {error}")),
        };
        let old = before.files[path];
        let is_created_again = is_started && old == Content::Missing;
        if found == old {
            seen.acknowledged += usize::from(old != Content::Missing);
            seen.absent += usize::from(begun.iter().any(|step| !step.may_leave(path, old)));
        } else if begun.iter().any(|step| step.may_leave(path, found)) {
            seen.whole += 1;
        } else if old != Content::Unknown && !is_created_again {
            return Err(format!(
                "`{path}` is {found:?}; it was {old:?} when the last operation was acknowledged, before {operations:?}"
            ));
        }
    }
    let newest = newest_checkpoint(&folder.join(CHECKPOINTS))?;
    if newest < before.checkpoint {
        return Err(format!("the newest checkpoint is of {newest}, and one of {} was written", before.checkpoint));
    }
    Ok(())
}

/// The last transaction in the newest checkpoint of a folder; each of them must be whole.
fn newest_checkpoint(path: &Path) -> Result<u64, String> {
    let Some(folder) = CheckpointFolder::existing(path.to_owned()) else { return Ok(0) };
    let mut newest = 0;
    for file in folder.newest_first().map_err(text)? {
        let file = file.map_err(|(path, reason)| format!("`{}`: {reason}", path.display()))?;
        file.load().map_err(|reason| format!("`{}`: {reason}", file.path.display()))?;
        newest = newest.max(file.sequence.0);
    }
    Ok(newest)
}

/// Checks that the installed plugins are there as they were installed.
fn check_plugins(data_dir: &Path) -> Result<(), String> {
    let folder = data_dir.join("plugins");
    let list = match fs::read(folder.join("installed.json")) {
        Ok(list) => PluginList::parse(&list).map_err(text)?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(text(error)),
    };
    for digest in list.digests() {
        let path = folder.join(format!("{}.wasm", digest.to_hex()));
        let found = fs::read(&path).map(|content| Digest::of(&content));
        if !matches!(&found, Ok(found) if *found == digest) {
            return Err(format!("an installed plugin has the digest {digest:?}, and its file: {found:?}"));
        }
    }
    Ok(())
}

/// Searches the acknowledged individuals in an open register.
async fn check_register(model: &Model, acknowledged: &BTreeSet<u64>, app: &App, seen: &mut Seen) -> Result<(), String> {
    let register = app.registry.store.register_id().await.map_err(text)?;
    if let Some((step, before)) = model.register
        && acknowledged.contains(&step)
        && register != before
    {
        return Err("the register was acknowledged, and another one is there".to_owned());
    }
    let written = model.written.iter().filter(|(step, _)| acknowledged.contains(step));
    seen.acknowledged += find(app, written).await?;
    Ok(())
}

/// Searches individuals in an open register, and returns their number.
async fn find<'w>(app: &App, written: impl Iterator<Item = &'w (u64, IdentifierKey)>) -> Result<usize, String> {
    let mut found = 0;
    for (step, key) in written {
        let owners = app.registry.store.identifier_owners(RecordKind::Individual, key, 1).await.map_err(text)?;
        if owners.is_empty() {
            return Err(format!("the individual of step {step} was acknowledged, and is not there"));
        }
        found += 1;
    }
    Ok(found)
}

/// Checks the folder of a restore: complete once it was acknowledged; before that also missing, empty, or refused.
async fn check_restored(
    model: &Model,
    acknowledged: &BTreeSet<u64>,
    folder: &Path,
    seen: &mut Seen,
) -> Result<(), String> {
    let restored = model.restored.filter(|(step, _)| acknowledged.contains(step));
    let is_empty = !fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    if restored.is_none() && is_empty {
        return Ok(());
    }
    if restored.is_none() && is_unfinished(folder) {
        return match opened(folder.to_owned()).await {
            Ok(_) => Err("a restore that is not finished is opened".to_owned()),
            Err(_) => Ok(()),
        };
    }
    check_plugins(folder)?;
    let app = opened(folder.to_owned()).await.map_err(|error| format!("the restored register: {error}"))?;
    let (_, backup) = model.restored.ok_or("nothing was restored, and a register is there")?;
    let is_in_backup = |step: u64| step <= backup && model.steps[step as usize].after.is_some();
    let found = find(&app, model.written.iter().filter(|(step, _)| is_in_backup(*step))).await;
    app.close();
    seen.acknowledged += found.map_err(|reason| format!("the restored register: {reason}"))?;
    Ok(())
}
