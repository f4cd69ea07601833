//! Requests to a disk, in order, and the files that may remain after a power cut at a point of them.
//!
//! Possible effects of a power cut on unsynced data:
//!
//! - The bytes of a file since its last sync: all writes are present, or none, or a prefix of them, or any subset, or
//!   any sector of 512 bytes in the state after any of the writes to it. The length of the file is the end of the
//!   present data. A sector is never partly written.
//! - The names of a folder since its last sync: the first changes are present, in the order in which they were made,
//!   and the remaining ones are not. ext4, XFS, btrfs and ZFS write names in that order. The names of two folders are
//!   independent.
//!
//! A sync of a file does not cover its name. A failed sync, and one that is omitted, makes nothing durable: its data
//! remains unsynced, and the next sync of the file writes it to disk.
//!
//! **Invariant:** the files that a cut leaves follow from the history, the point and the seed alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::super::dice::Dice;

/// The number of a file or a folder.
pub(super) type Node = u64;
/// The folder in which everything is.
pub(super) const ROOT: Node = 1;
/// Unit that a disk writes atomically.
const SECTOR: usize = 512;
/// Zeros of this length are left out where a file is written.
const HOLE: usize = 4096;

/// A request that was completed.
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
    /// The path of each file and folder, by the name at its creation; see [`class`]. The path of a folder ends with
    /// `/`.
    paths: BTreeMap<Node, String>,
    /// The syncs of this path are ignored.
    left_out: Option<String>,
    acknowledged: BTreeSet<u64>,
}

/// Name of every folder of the root where syncs are counted: each is one of a store.
const STORE: &str = "store";

/// The path under which the syncs of files of one sort are counted, which differ in their numbers.
fn class(folder: &str, name: &str) -> String {
    if folder.ends_with("blobs/") {
        return format!("{folder}*");
    }
    let name = if name.starts_with("snap.") { "snap*" } else { name };
    format!("{folder}{name}")
}

impl Replay {
    /// An empty disk, on which syncs of that path do nothing.
    pub(super) fn new(left_out: Option<&str>) -> Self {
        Self {
            folders: BTreeMap::from([(ROOT, StoredFolder::default())]),
            paths: BTreeMap::from([(ROOT, "/".to_owned())]),
            left_out: left_out.map(str::to_owned),
            ..Self::default()
        }
    }

    /// The writes acknowledged up to this point.
    pub(super) fn acknowledged(&self) -> &BTreeSet<u64> {
        &self.acknowledged
    }

    /// The path whose sync an event is.
    pub(super) fn synced_path(&self, event: &Event) -> Option<&str> {
        match event {
            Event::Sync { node } => self.paths.get(node).map(String::as_str),
            _ => None,
        }
    }

    /// Applies the next event.
    pub(super) fn take(&mut self, event: &Event) {
        match event {
            Event::Create { folder, name, node, is_folder } => {
                let path = if *folder == ROOT { STORE.to_owned() } else { class(&self.paths[folder], name) };
                if *is_folder {
                    self.folders.insert(*node, StoredFolder::default());
                    self.paths.insert(*node, format!("{path}/"));
                } else {
                    self.files.insert(*node, StoredFile::default());
                    self.paths.insert(*node, path);
                }
                self.name(*folder, Naming::Add(name.clone(), *node));
            }
            Event::Remove { folder, name } => self.name(*folder, Naming::Remove(name.clone())),
            Event::Rename { folder, from, to } => self.name(*folder, Naming::Rename(from.clone(), to.clone())),
            Event::Bytes { node, change } => {
                self.files.get_mut(node).expect("it was made").since.push(change.clone());
            }
            Event::Sync { node } if self.left_out.as_ref() == self.paths.get(node) => {}
            Event::Sync { node } => self.sync(*node),
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
    pub(super) fn cut(&self, dice: &mut Dice, to: &Path) -> io::Result<()> {
        self.cut_folder(ROOT, dice, to)
    }

    fn cut_folder(&self, node: Node, dice: &mut Dice, to: &Path) -> io::Result<()> {
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
                write_sparse(&path, &file.cut(dice))?;
            } else {
                std::fs::create_dir(&path)?;
                self.cut_folder(node, dice, &path)?;
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
    fn cut(&self, dice: &mut Dice) -> Vec<u8> {
        let mut content = self.synced.clone();
        let mode = dice.below(5);
        let first = up_to(dice, self.since.len());
        for (at, change) in self.since.iter().enumerate() {
            match (mode, change) {
                (0, _) => break,
                (1, _) => change.apply(&mut content),
                (2, _) if at < first => change.apply(&mut content),
                (2, _) => break,
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
    let file = File::create_new(path)?;
    file.set_len(content.len() as u64)?;
    for (number, piece) in content.chunks(HOLE).enumerate() {
        if piece.iter().any(|byte| *byte != 0) {
            file.write_all_at(piece, (number * HOLE) as u64)?;
        }
    }
    Ok(())
}
