//! Requests to a disk, in order, and the files that may remain after a power cut at a point of them.
//!
//! Possible effects of a power cut on unsynced data:
//!
//! - The bytes of a file since its last sync: all writes are present, or none, or a prefix of them, or any subset, or
//!   any sector of 512 bytes in the state after any of the writes to it, or all but some successive ones. The length of
//!   the file is the end of the present data. A sector is never partly written.
//! - The names of a folder since its last sync: the first changes are present, in the order in which they were made,
//!   and the remaining ones are not. ext4, XFS, btrfs and ZFS write names in that order. The names of two folders are
//!   independent.
//!
//! A sync of a file does not cover its name. A failed sync, and one that is omitted, makes nothing durable: its data
//! remains unsynced, and the next sync of the file writes it to disk.
//!
//! **Invariant:** the files that a cut leaves follow from the history, the point and the seed alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;

use super::super::dice::Dice;

/// The number of a file or a folder.
pub(super) type Node = u64;
/// The folder in which everything is.
pub(super) const ROOT: Node = 1;
/// Unit that a disk writes atomically.
const SECTOR: usize = 512;
/// Number of points with the most unsynced bytes.
const PEAKS_MAX: usize = 12;
/// Zeros of this length are left out where a file is written.
const HOLE: [u8; 4096] = [0; 4096];

/// A request that was completed, or a point of the program between two.
#[derive(Debug, Clone)]
pub(super) enum Event {
    Create {
        folder: Node,
        name: String,
        node: Node,
        is_folder: bool,
    },
    Remove {
        folder: Node,
        name: String,
    },
    /// Within a folder: nothing that is written here moves files between folders, and the disk refuses it.
    Rename {
        folder: Node,
        from: String,
        to: String,
    },
    Bytes {
        node: Node,
        change: Change,
    },
    /// A completed sync of a file or a folder.
    Sync {
        node: Node,
    },
    /// The operation with this name begins.
    Begun(&'static str),
    /// The write with this number was acknowledged to the caller.
    Acknowledged(u64),
}

/// A change of a file's content.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Length(usize),
}

impl Change {
    /// Applies it.
    pub(super) fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Length(length) => content.resize(*length, 0),
            Self::Write { at, bytes } => {
                let end = at + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[*at..end].copy_from_slice(bytes);
            }
        }
    }
}

/// A sync in a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Synced {
    /// Its index in the history.
    pub(super) at: usize,
    /// The operation during which it was requested, and the path: `install: srv/data/plugins/`. A path has the names
    /// at the creation, without their random parts; that of a folder ends with `/`.
    pub(super) class: String,
    pub(super) node: Node,
}

/// Returns all syncs of a history.
pub(super) fn syncs(events: &[Event]) -> Vec<Synced> {
    let mut paths = BTreeMap::from([(ROOT, String::new())]);
    let (mut operation, mut syncs) = ("", Vec::new());
    for (at, event) in events.iter().enumerate() {
        match event {
            Event::Begun(name) => operation = *name,
            Event::Create { folder, name, node, is_folder } => {
                let end = if *is_folder { "/" } else { "" };
                let path = format!("{}{}{end}", paths[folder], without_random_parts(&paths[folder], name));
                paths.insert(*node, path);
            }
            Event::Sync { node } => {
                let path = if *node == ROOT { "/" } else { paths[node].as_str() };
                syncs.push(Synced { at, class: format!("{operation}: {path}"), node: *node });
            }
            Event::Remove { .. } | Event::Rename { .. } | Event::Bytes { .. } | Event::Acknowledged(_) => {}
        }
    }
    syncs
}

/// Returns the points with the most unsynced bytes, each right before a sync, from a point on.
pub(super) fn peaks(events: &[Event], from: usize) -> Vec<usize> {
    let mut unsynced: BTreeMap<Node, usize> = BTreeMap::new();
    let mut before_syncs = Vec::new();
    for (at, event) in events.iter().enumerate() {
        match event {
            Event::Bytes { node, change: Change::Write { bytes, .. } } => {
                *unsynced.entry(*node).or_default() += bytes.len();
            }
            Event::Sync { node } if unsynced.contains_key(node) => {
                before_syncs.push((unsynced.values().sum::<usize>(), at));
                unsynced.remove(node);
            }
            _ => {}
        }
    }
    before_syncs.retain(|(_, at)| *at >= from);
    before_syncs.sort_unstable_by(|one, other| other.cmp(one));
    before_syncs.into_iter().take(PEAKS_MAX).map(|(_, at)| at).collect()
}

/// The beginnings of names that end with a number or a random text.
const BEGINNINGS: [&str; 5] = ["snap.", ".unfinished-", ".daftar-backup-", ".daftar-", ".tmp"];
/// The ends of names that begin with a number or a digest.
const ENDS: [&str; 3] = [".wasm", ".code", ".checkpoint.writing"];

fn without_random_parts(folder: &str, name: &str) -> String {
    if folder.ends_with("blobs/") {
        return "*".to_owned();
    }
    let beginning = BEGINNINGS.into_iter().find(|beginning| name.starts_with(beginning));
    let end = ENDS.into_iter().find(|end| name.ends_with(end));
    match (beginning, end) {
        (Some(beginning), _) => format!("{beginning}*"),
        (None, Some(end)) => format!("*{end}"),
        (None, None) => name.to_owned(),
    }
}

/// A change of a folder's names.
#[derive(Debug, Clone)]
enum Naming {
    Add(String, Node),
    Remove(String),
    Rename(String, String),
}

impl Naming {
    fn apply(&self, names: &mut BTreeMap<String, Node>) {
        match self {
            Self::Add(name, node) => drop(names.insert(name.clone(), *node)),
            Self::Remove(name) => drop(names.remove(name)),
            Self::Rename(from, to) => {
                if let Some(node) = names.remove(from) {
                    names.insert(to.clone(), node);
                }
            }
        }
    }
}

#[derive(Debug, Default)]
struct StoredFile {
    synced: Vec<u8>,
    since: Vec<Change>,
}

#[derive(Debug, Default)]
struct StoredFolder {
    synced: BTreeMap<String, Node>,
    since: Vec<Naming>,
}

/// A disk at a point of its history: its synced content, and the content that may be lost.
#[derive(Debug, Default)]
pub(super) struct Replay {
    files: BTreeMap<Node, StoredFile>,
    folders: BTreeMap<Node, StoredFolder>,
    /// Number of events applied.
    applied: usize,
    /// The indexes of the syncs that are ignored.
    left_out: BTreeSet<usize>,
    acknowledged: BTreeSet<u64>,
}

/// The unsynced writes of a file that are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// None, all, any, or some successive ones.
    Any,
    /// Some successive ones; all others are present.
    Hole,
}

impl Replay {
    /// An empty disk, on which the syncs with these indexes do nothing.
    pub(super) fn new(left_out: BTreeSet<usize>) -> Self {
        Self { folders: BTreeMap::from([(ROOT, StoredFolder::default())]), left_out, ..Self::default() }
    }

    /// The writes acknowledged up to this point.
    pub(super) fn acknowledged(&self) -> &BTreeSet<u64> {
        &self.acknowledged
    }

    /// Applies the events up to that index.
    pub(super) fn advance(&mut self, events: &[Event], to: usize) {
        for (at, event) in events.iter().enumerate().take(to).skip(self.applied) {
            if !self.left_out.contains(&at) {
                self.apply(event);
            }
        }
        self.applied = self.applied.max(to);
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::Create { folder, name, node, is_folder } => {
                if *is_folder {
                    self.folders.insert(*node, StoredFolder::default());
                } else {
                    self.files.insert(*node, StoredFile::default());
                }
                self.name(*folder, Naming::Add(name.clone(), *node));
            }
            Event::Remove { folder, name } => self.name(*folder, Naming::Remove(name.clone())),
            Event::Rename { folder, from, to } => self.name(*folder, Naming::Rename(from.clone(), to.clone())),
            Event::Bytes { node, change } => {
                self.files.get_mut(node).expect("it was made").since.push(change.clone());
            }
            Event::Sync { node } => self.sync(*node),
            Event::Begun(_) => {}
            Event::Acknowledged(number) => drop(self.acknowledged.insert(*number)),
        }
    }

    fn name(&mut self, folder: Node, naming: Naming) {
        self.folders.get_mut(&folder).expect("it was made").since.push(naming);
    }

    fn sync(&mut self, node: Node) {
        if let Some(file) = self.files.get_mut(&node) {
            file.since.drain(..).for_each(|change| change.apply(&mut file.synced));
        } else if let Some(folder) = self.folders.get_mut(&node) {
            folder.since.drain(..).for_each(|naming| naming.apply(&mut folder.synced));
        }
    }

    /// Writes the files that remain after a cut into an empty folder.
    pub(super) fn cut(&self, loss: Loss, dice: &mut Dice, to: &Path) -> io::Result<()> {
        self.cut_folder(ROOT, loss, dice, to)
    }

    fn cut_folder(&self, node: Node, loss: Loss, dice: &mut Dice, to: &Path) -> io::Result<()> {
        let folder = &self.folders[&node];
        let stored = match dice.below(3) {
            0 => 0,
            1 => folder.since.len(),
            _ => up_to(dice, folder.since.len()),
        };
        let mut names = folder.synced.clone();
        folder.since[..stored].iter().for_each(|naming| naming.apply(&mut names));
        for (name, node) in names {
            let path = to.join(name);
            if let Some(file) = self.files.get(&node) {
                write_sparse(&path, &file.cut(loss, dice))?;
            } else {
                DirBuilder::new().mode(0o700).create(&path)?;
                self.cut_folder(node, loss, dice, &path)?;
            }
        }
        Ok(())
    }
}

/// A number from 0 to that one.
fn up_to(dice: &mut Dice, most: usize) -> usize {
    dice.below(most as u64 + 1) as usize
}

impl StoredFile {
    fn cut(&self, loss: Loss, dice: &mut Dice) -> Vec<u8> {
        let mut content = self.synced.clone();
        let mode = match loss {
            Loss::Any => dice.below(6),
            Loss::Hole => 5,
        };
        let (one, other) = (up_to(dice, self.since.len()), up_to(dice, self.since.len()));
        let hole = one.min(other)..one.max(other);
        for (at, change) in self.since.iter().enumerate() {
            match (mode, change) {
                (0, _) => break,
                (1, _) => change.apply(&mut content),
                (2, _) if at < one => change.apply(&mut content),
                (2, _) => break,
                (5, _) if hole.contains(&at) => {}
                (5, _) => change.apply(&mut content),
                (3, _) | (_, Change::Length(_)) => {
                    if dice.below(2) == 0 {
                        change.apply(&mut content);
                    }
                }
                (_, Change::Write { at, bytes }) => write_torn(*at, bytes, dice, &mut content),
            }
        }
        content
    }
}

/// Applies a write, of which only some sectors reach the disk.
fn write_torn(at: usize, bytes: &[u8], dice: &mut Dice, content: &mut Vec<u8>) {
    let mut from = 0;
    while from < bytes.len() {
        let sector_end = ((at + from) / SECTOR + 1) * SECTOR - at;
        let to = sector_end.min(bytes.len());
        if dice.below(2) == 0 {
            Change::Write { at: at + from, bytes: bytes[from..to].to_vec() }.apply(content);
        }
        from = to;
    }
}

/// Writes a file whose zeros take no space.
fn write_sparse(path: &Path, content: &[u8]) -> io::Result<()> {
    let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.set_len(content.len() as u64)?;
    for (number, piece) in content.chunks(HOLE.len()).enumerate() {
        if piece != &HOLE[..piece.len()] {
            file.write_all_at(piece, (number * HOLE.len()) as u64)?;
        }
    }
    Ok(())
}
