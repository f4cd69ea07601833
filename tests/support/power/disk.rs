//! A disk in memory that is mounted by FUSE and records every request.
//!
//! **Invariant:** the kernel caches no content of the disk: every read and write of a file is a request, so that the
//! history is complete.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
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

/// Failure mode of a mounted disk.
#[derive(Debug)]
pub(super) struct Faults {
    dice: Dice,
    /// One in this number of calls fails; absent while none does.
    one_in: Option<u64>,
    /// Number of failed calls.
    failed: u64,
}

enum Content {
    File(Vec<u8>),
    Folder(BTreeMap<String, Node>),
}

/// Content of the disk as programs see it, and its history.
pub(super) struct State {
    nodes: BTreeMap<Node, Content>,
    history: Vec<Event>,
    faults: Faults,
}

impl State {
    fn new(seed: u64) -> Self {
        let faults = Faults { dice: Dice::new(seed), one_in: None, failed: 0 };
        Self { nodes: BTreeMap::from([(ROOT, Content::Folder(BTreeMap::new()))]), history: Vec::new(), faults }
    }

    /// Fails at random: as a broken disk, or a full one.
    fn fail(&mut self) -> Result<(), Errno> {
        let Some(one_in) = self.faults.one_in else { return Ok(()) };
        if self.faults.dice.below(one_in) != 0 {
            return Ok(());
        }
        self.faults.failed += 1;
        Err(if self.faults.dice.below(2) == 0 { Errno::EIO } else { Errno::ENOSPC })
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
        self.fail()?;
        let name = text(name)?.to_owned();
        // Removed nodes are retained, as for files that are open: a number is never reused.
        let node = self.nodes.len() as Node + ROOT;
        if self.names(folder)?.contains_key(&name) {
            return Err(Errno::EEXIST);
        }
        self.names(folder)?.insert(name.clone(), node);
        let content = if is_folder { Content::Folder(BTreeMap::new()) } else { Content::File(Vec::new()) };
        self.nodes.insert(node, content);
        self.history.push(Event::Create { folder, name, node, is_folder });
        self.attributes(node)
    }

    fn remove(&mut self, folder: Node, name: &OsStr, is_folder: bool) -> Result<(), Errno> {
        self.fail()?;
        let name = text(name)?.to_owned();
        let node = *self.names(folder)?.get(&name).ok_or(Errno::ENOENT)?;
        if is_folder && !self.names(node)?.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        self.names(folder)?.remove(&name);
        self.history.push(Event::Remove { folder, name });
        Ok(())
    }

    fn rename(&mut self, folder: Node, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
        self.fail()?;
        let (from, to) = (text(from)?.to_owned(), text(to)?.to_owned());
        let node = self.names(folder)?.remove(&from).ok_or(Errno::ENOENT)?;
        self.names(folder)?.insert(to.clone(), node);
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
        let length = match self.fail() {
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
        self.fail()?;
        self.history.push(Event::Sync { node });
        Ok(())
    }

    fn extend(&mut self, node: Node, length: usize) -> Result<(), Errno> {
        self.fail()?;
        if self.file(node)?.len() < length { self.change(node, Change::Length(length)) } else { Ok(()) }
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
        let folder = tempfile::Builder::new().prefix("daftar-power").tempdir()?;
        let state = Arc::new(Mutex::new(State::new(seed)));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("daftar-power".to_owned()), MountOption::NoAtime];
        let session = fuser::Session::new(Mounted(Arc::clone(&state)), folder.path(), &config)?.spawn()?;
        Ok(Self { state, session, folder })
    }

    /// The mount point.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
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

    /// From now on one in this number of calls fails.
    pub(super) fn fail_one_in(&self, calls: Option<u64>) {
        self.state().faults.one_in = calls;
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
            Some(size) => state.fail().and_then(|()| state.change(node.0, Change::Length(size as usize))),
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
        if parent != new_parent || !flags.is_empty() {
            return reply.error(Errno::EXDEV);
        }
        done(lock(&self.0).rename(parent.0, name, new_name), reply);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn create(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        match lock(&self.0).create(parent.0, name, false) {
            Ok(attributes) => {
                reply.created(&TTL, &attributes, Generation(0), FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
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
        match lock(&self.0).file(node.0) {
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
