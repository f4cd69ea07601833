//! A disk in memory that is mounted by FUSE and records every request.
//!
//! As with other disks, the kernel keeps in memory what was read: reading it again is no request, and does not fail.
//!
//! **Invariant:** every write to a file is a request, so that the history is complete.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::mount::UnmountFlags;
use tempfile::TempDir;

use super::super::dice::Dice;
use super::history::{Change, Event, Node, ROOT};

/// Names and attributes are not cached.
const TTL: Duration = Duration::ZERO;

/// The way in which a disk fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// One in this number of calls that change the disk fails: the disk is broken, or full for a short time.
    Changes(u64),
    /// One in this number of calls fails that open or read a file.
    Reads(u64),
    /// After this number of calls that take space, all of them fail: the disk is full, and stays so.
    NoSpaceAfter(u64),
}

impl Fault {
    /// The way in which the disk of the history with this number fails.
    pub(super) fn draw(number: u64, dice: &mut Dice) -> Self {
        match number % 4 {
            1 => Self::NoSpaceAfter(dice.below(25)),
            2 => Self::Reads(8 + dice.below(80)),
            _ => Self::Changes(10 + dice.below(60)),
        }
    }
}

/// A call that may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    /// Opens or reads a file.
    Read,
    /// Changes the disk and takes no space.
    Change,
    /// Takes space.
    Growth,
}

/// The failures of a mounted disk.
#[derive(Debug)]
struct Faults {
    dice: Dice,
    /// Absent while no call fails.
    fault: Option<Fault>,
    /// Number of calls that took space.
    growths: u64,
    /// Number of failed calls.
    failed: u64,
}

enum Content {
    File(Vec<u8>),
    Folder(BTreeMap<String, Node>),
}

impl Content {
    /// An empty folder.
    fn folder() -> Self {
        Self::Folder(BTreeMap::new())
    }
}

/// Content of the disk as programs see it, and its history.
pub(super) struct State {
    nodes: BTreeMap<Node, Content>,
    history: Vec<Event>,
    faults: Faults,
}

impl State {
    fn new(seed: u64) -> Self {
        let faults = Faults { dice: Dice::new(seed), fault: None, growths: 0, failed: 0 };
        Self { nodes: BTreeMap::from([(ROOT, Content::folder())]), history: Vec::new(), faults }
    }

    /// The disk after these requests, as programs see it.
    fn after(history: Vec<Event>, seed: u64) -> Self {
        let mut state = Self::new(seed);
        history.iter().for_each(|event| state.apply(event).expect("it was possible before"));
        state.history = history;
        state
    }

    fn apply(&mut self, event: &Event) -> Result<(), Errno> {
        match event {
            Event::Create { folder, name, node, is_folder } => {
                self.names(*folder)?.insert(name.clone(), *node);
                self.nodes.insert(*node, if *is_folder { Content::folder() } else { Content::File(Vec::new()) });
            }
            Event::Remove { folder, name } => drop(self.names(*folder)?.remove(name)),
            Event::Rename { folder, from, to } => {
                let names = self.names(*folder)?;
                let node = names.remove(from).ok_or(Errno::ENOENT)?;
                names.insert(to.clone(), node);
            }
            Event::Bytes { node, change } => change.apply(self.file(*node)?),
            Event::Sync { .. } | Event::Begun(_) | Event::Acknowledged(_) => {}
        }
        Ok(())
    }

    /// Puts the files of another folder into an empty one, synced.
    fn fill(&mut self, folder: Node, from: &Path) -> io::Result<()> {
        for entry in std::fs::read_dir(from)? {
            let entry = entry?;
            let is_folder = entry.file_type()?.is_dir();
            let created = self.create(folder, &entry.file_name(), is_folder).expect("the name is new");
            let node = created.ino.0;
            if is_folder {
                self.fill(node, &entry.path())?;
            } else {
                let bytes = std::fs::read(entry.path())?;
                self.change(node, Change::Write { at: 0, bytes }).expect("it is a file");
                self.history.push(Event::Sync { node });
            }
        }
        self.history.push(Event::Sync { node: folder });
        Ok(())
    }

    fn fail(&mut self, call: Call) -> Result<(), Errno> {
        let Faults { dice, fault, growths, failed } = &mut self.faults;
        let error = match (*fault, call) {
            (Some(Fault::Changes(one_in)), Call::Change | Call::Growth) if dice.below(one_in) == 0 => {
                if dice.below(2) == 0 { Errno::EIO } else { Errno::ENOSPC }
            }
            (Some(Fault::Reads(one_in)), Call::Read) if dice.below(one_in) == 0 => Errno::EIO,
            (Some(Fault::NoSpaceAfter(calls)), Call::Growth) => {
                *growths += 1;
                if *growths <= calls {
                    return Ok(());
                }
                Errno::ENOSPC
            }
            _ => return Ok(()),
        };
        *failed += 1;
        Err(error)
    }

    /// The file or folder at a path.
    fn at(&mut self, path: &str) -> Option<Node> {
        path.split('/').try_fold(ROOT, |folder, name| self.names(folder).ok()?.get(name).copied())
    }

    fn names(&mut self, folder: Node) -> Result<&mut BTreeMap<String, Node>, Errno> {
        match self.nodes.get_mut(&folder) {
            Some(Content::Folder(names)) => Ok(names),
            Some(Content::File(_)) => Err(Errno::ENOTDIR),
            None => Err(Errno::ENOENT),
        }
    }

    fn file(&mut self, node: Node) -> Result<&mut Vec<u8>, Errno> {
        match self.nodes.get_mut(&node) {
            Some(Content::File(content)) => Ok(content),
            Some(Content::Folder(_)) => Err(Errno::EISDIR),
            None => Err(Errno::ENOENT),
        }
    }

    fn attributes(&self, node: Node) -> Result<FileAttr, Errno> {
        let (kind, size) = match self.nodes.get(&node).ok_or(Errno::ENOENT)? {
            Content::File(content) => (FileType::RegularFile, content.len() as u64),
            Content::Folder(_) => (FileType::Directory, 0),
        };
        Ok(FileAttr {
            ino: INodeNo(node),
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm: 0o700,
            nlink: 1,
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn find(&mut self, folder: Node, name: &OsStr) -> Result<FileAttr, Errno> {
        let node = *self.names(folder)?.get(text(name)?).ok_or(Errno::ENOENT)?;
        self.attributes(node)
    }

    fn create(&mut self, folder: Node, name: &OsStr, is_folder: bool) -> Result<FileAttr, Errno> {
        self.fail(Call::Growth)?;
        let name = text(name)?.to_owned();
        // Removed nodes are retained, as for files that are open: a number is never reused.
        let node = self.nodes.len() as Node + ROOT;
        if self.names(folder)?.contains_key(&name) {
            return Err(Errno::EEXIST);
        }
        self.names(folder)?.insert(name.clone(), node);
        self.nodes.insert(node, if is_folder { Content::folder() } else { Content::File(Vec::new()) });
        self.history.push(Event::Create { folder, name, node, is_folder });
        self.attributes(node)
    }

    fn remove(&mut self, folder: Node, name: &OsStr, is_folder: bool) -> Result<(), Errno> {
        self.fail(Call::Change)?;
        let name = text(name)?.to_owned();
        let node = *self.names(folder)?.get(&name).ok_or(Errno::ENOENT)?;
        if is_folder && !self.names(node)?.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        self.names(folder)?.remove(&name);
        self.history.push(Event::Remove { folder, name });
        Ok(())
    }

    fn rename(&mut self, folder: Node, from: &OsStr, to: &OsStr, is_replacing: bool) -> Result<(), Errno> {
        self.fail(Call::Change)?;
        let (from, to) = (text(from)?.to_owned(), text(to)?.to_owned());
        let names = self.names(folder)?;
        if !is_replacing && names.contains_key(&to) {
            return Err(Errno::EEXIST);
        }
        let node = names.remove(&from).ok_or(Errno::ENOENT)?;
        names.insert(to.clone(), node);
        self.history.push(Event::Rename { folder, from, to });
        Ok(())
    }

    fn change(&mut self, node: Node, change: Change) -> Result<(), Errno> {
        change.apply(self.file(node)?);
        self.history.push(Event::Bytes { node, change });
        Ok(())
    }

    /// Writes; where the disk fails, sometimes a part of it.
    fn write(&mut self, node: Node, at: usize, bytes: &[u8]) -> Result<u32, Errno> {
        let call = if at + bytes.len() > self.file(node)?.len() { Call::Growth } else { Call::Change };
        let length = match self.fail(call) {
            Ok(()) => bytes.len(),
            Err(_) if bytes.len() > 1 && self.faults.dice.below(3) == 0 => {
                1 + self.faults.dice.below(bytes.len() as u64 - 1) as usize
            }
            Err(error) => return Err(error),
        };
        self.change(node, Change::Write { at, bytes: bytes[..length].to_vec() })?;
        Ok(length as u32)
    }

    fn sync(&mut self, node: Node) -> Result<(), Errno> {
        self.fail(Call::Change)?;
        self.history.push(Event::Sync { node });
        Ok(())
    }

    fn extend(&mut self, node: Node, length: usize) -> Result<(), Errno> {
        if self.file(node)?.len() >= length {
            return Ok(());
        }
        self.fail(Call::Growth)?;
        self.change(node, Change::Length(length))
    }

    fn set_length(&mut self, node: Node, length: usize) -> Result<(), Errno> {
        let call = if length > self.file(node)?.len() { Call::Growth } else { Call::Change };
        self.fail(call)?;
        self.change(node, Change::Length(length))
    }
}

fn text(name: &OsStr) -> Result<&str, Errno> {
    name.to_str().ok_or(Errno::EINVAL)
}

/// A disk that is mounted until this is dropped.
pub(super) struct Disk {
    state: Arc<Mutex<State>>,
    session: BackgroundSession,
    folder: TempDir,
}

impl Disk {
    /// Mounts an empty disk.
    pub(super) fn mount(seed: u64) -> io::Result<Self> {
        Self::of(State::new(seed))
    }

    fn of(state: State) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("daftar-power").tempdir()?;
        let state = Arc::new(Mutex::new(state));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("daftar-power".to_owned()), MountOption::NoAtime];
        let session = fuser::Session::new(Mounted(Arc::clone(&state)), folder.path(), &config)?.spawn()?;
        Ok(Self { state, session, folder })
    }

    /// The mount point.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Mounts the disk again, as if the programs that use it were killed after that number of events.
    pub(super) fn killed(self, after: usize, seed: u64) -> io::Result<Self> {
        let mut history = self.unmount()?;
        history.truncate(after);
        Self::of(State::after(history, seed))
    }

    /// The indexes of the syncs in the history so far.
    pub(super) fn syncs(&self) -> Vec<usize> {
        let state = self.state();
        let syncs = state.history.iter().enumerate().filter(|(_, event)| matches!(event, Event::Sync { .. }));
        syncs.map(|(at, _)| at).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Records that this write was acknowledged to the caller.
    pub(super) fn acknowledge(&self, number: u64) {
        self.state().history.push(Event::Acknowledged(number));
    }

    /// Length of the history.
    pub(super) fn now(&self) -> usize {
        self.state().history.len()
    }

    /// Records that an operation begins.
    pub(super) fn begin(&self, operation: &'static str) {
        self.state().history.push(Event::Begun(operation));
    }

    /// Reads a file as programs see it, even if the disk fails; `None` if there is none.
    pub(super) fn content(&self, path: &str) -> Option<Vec<u8>> {
        let mut state = self.state();
        let node = state.at(path)?;
        state.file(node).ok().cloned()
    }

    /// Replaces the bytes of a file by zeros, without the knowledge of the kernel.
    pub(super) fn lose(&self, path: &str) {
        let mut state = self.state();
        let node = state.at(path).expect("it exists");
        state.file(node).expect("it is a file").fill(0);
    }

    /// The names in a folder as programs see them; none if it does not exist.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let mut state = self.state();
        let names = state.at(path).and_then(|node| state.names(node).ok().cloned());
        names.unwrap_or_default().into_keys().collect()
    }

    /// Puts the files of a folder on the empty disk, synced.
    pub(super) fn fill(&self, from: &Path) -> io::Result<()> {
        self.state().fill(ROOT, from)
    }

    /// From now on calls fail in that way; none if absent.
    pub(super) fn fail(&self, fault: Option<Fault>) {
        self.state().faults.fault = fault;
    }

    /// Number of failed calls.
    pub(super) fn failed(&self) -> u64 {
        self.state().faults.failed
    }

    /// Unmounts the disk and returns every recorded request. A store that is closing, or that failed, may still have
    /// open files: the disk is removed when the last of them is closed.
    pub(super) fn unmount(self) -> io::Result<Vec<Event>> {
        let history = std::mem::take(&mut self.state().history);
        let unmounted = rustix::mount::unmount(self.folder.path(), UnmountFlags::DETACH);
        // Dropping the session would unmount the disk a second time, and block.
        std::mem::forget(self.session);
        unmounted?;
        Ok(history)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The disk's side of the FUSE connection.
struct Mounted(Arc<Mutex<State>>);

fn done(outcome: Result<(), Errno>, reply: ReplyEmpty) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

fn entry(outcome: Result<FileAttr, Errno>, reply: ReplyEntry) {
    match outcome {
        Ok(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
        Err(error) => reply.error(error),
    }
}

fn attributes(outcome: Result<FileAttr, Errno>, reply: ReplyAttr) {
    match outcome {
        Ok(attributes) => reply.attr(&TTL, &attributes),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Mounted {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(lock(&self.0).find(parent.0, name), reply);
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        attributes(lock(&self.0).attributes(node.0), reply);
    }

    fn setattr(
        &self,
        _: &Request,
        node: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<std::time::SystemTime>,
        _: Option<FileHandle>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut state = lock(&self.0);
        let set = match size {
            Some(size) => state.set_length(node.0, size as usize),
            None => Ok(()),
        };
        attributes(set.and_then(|()| state.attributes(node.0)), reply);
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        entry(lock(&self.0).create(parent.0, name, true), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(lock(&self.0).remove(parent.0, name, false), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(lock(&self.0).remove(parent.0, name, true), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let is_replacing = !flags.contains(RenameFlags::RENAME_NOREPLACE);
        if parent != new_parent || !flags.difference(RenameFlags::RENAME_NOREPLACE).is_empty() {
            return reply.error(Errno::EXDEV);
        }
        done(lock(&self.0).rename(parent.0, name, new_name, is_replacing), reply);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match lock(&self.0).fail(Call::Read) {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
            Err(error) => reply.error(error),
        }
    }

    fn create(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        match lock(&self.0).create(parent.0, name, false) {
            Ok(attributes) => {
                reply.created(&TTL, &attributes, Generation(0), FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
            }
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        at: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut state = lock(&self.0);
        if let Err(error) = state.fail(Call::Read) {
            return reply.error(error);
        }
        match state.file(node.0) {
            Ok(content) => {
                let from = (at as usize).min(content.len());
                let to = (from + size as usize).min(content.len());
                reply.data(&content[from..to]);
            }
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        at: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match lock(&self.0).write(node.0, at as usize, bytes) {
            Ok(length) => reply.written(length),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        done(lock(&self.0).sync(node.0), reply);
    }

    fn fsyncdir(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        done(lock(&self.0).sync(node.0), reply);
    }

    fn readdir(&self, _: &Request, node: INodeNo, _: FileHandle, from: u64, mut reply: ReplyDirectory) {
        let mut state = lock(&self.0);
        let names = match state.names(node.0) {
            Ok(names) => names.clone(),
            Err(error) => return reply.error(error),
        };
        let own = [(".".to_owned(), node.0), ("..".to_owned(), ROOT)];
        for (at, (name, node)) in (1..).zip(own.into_iter().chain(names)).skip(from as usize) {
            let kind = state.attributes(node).map_or(FileType::RegularFile, |attributes| attributes.kind);
            if reply.add(INodeNo(node), at, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn fallocate(&self, _: &Request, node: INodeNo, _: FileHandle, at: u64, length: u64, _: i32, reply: ReplyEmpty) {
        done(lock(&self.0).extend(node.0, (at + length) as usize), reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 4096, 255, 4096);
    }
}
