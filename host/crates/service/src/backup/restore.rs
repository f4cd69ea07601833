//! Reads a complete backup, to verify its contents or to restore it.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::BackupProblem;
use super::examine::Examiner;
use super::format::{Chain, Head};
use super::item::Item;
use super::reader::{BackupReader, Next};
use super::signature::BackupSignature;

/// Number of blocks that are read ahead during a restore.
const BLOCKS_AHEAD: usize = 2;

/// Content of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// Its header.
    pub head: Head,
    /// Number of items of each kind.
    pub counts: BTreeMap<String, u64>,
    /// Number of blocks.
    pub blocks: u64,
    /// Its length.
    pub bytes: u64,
    /// The checksum of the complete backup.
    pub checksum: Chain,
    /// Signer, as named in the file.
    pub signature: Option<BackupSignature>,
}

/// Depth of the checks of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Its blocks are intact and its end exists: the checks that are possible while it arrives.
    Blocks,
    /// Everything in it can be restored.
    Everything,
}

/// Receives the number of checked items after each block.
pub type Heard<'h> = &'h mut dyn FnMut(&Head, u64);

/// Header of a backup: its first line.
///
/// # Errors
/// If the input is not a backup, or has a format that this daftar cannot read.
pub fn head_of(from: impl Read) -> Result<Head, BackupProblem> {
    Ok(BackupReader::new(from)?.head)
}

/// Reads a backup to its end and returns its content.
///
/// # Errors
/// The problem with it.
pub fn inspect(from: impl Read, depth: Depth, heard: Heard<'_>) -> Result<Contents, BackupProblem> {
    read(from, depth, heard, |_, _| Ok(()))
}

/// Reads a backup to its end, checks everything, and passes its items on, each time with the total unpacked size so
/// far, in bytes.
fn read(
    from: impl Read,
    depth: Depth,
    heard: Heard<'_>,
    mut take: impl FnMut(Vec<Item>, u64) -> Result<(), BackupProblem>,
) -> Result<Contents, BackupProblem> {
    let mut reader = BackupReader::new(from)?;
    let mut examiner = Examiner::default();
    let mut things = 0_u64;
    heard(&reader.head, things);
    let end = loop {
        let block = match reader.next_block()? {
            Next::End(end) => break end,
            Next::Items(block) => block,
        };
        let (number, count) = (block.number, u64::from(block.head.items));
        if depth == Depth::Everything {
            let items = block.items()?;
            examiner.inspect(number, &items)?;
            take(items, reader.bytes)?;
        }
        things = things.saturating_add(count);
        heard(&reader.head, things);
    };
    let counts = match depth {
        Depth::Everything => examiner.finish(&reader.head, &end)?,
        Depth::Blocks => end.counts.clone(),
    };
    Ok(Contents {
        head: reader.head,
        counts,
        blocks: end.blocks,
        bytes: reader.at,
        checksum: reader.chain,
        signature: reader.signature,
    })
}

/// A backup that is read and checked in a separate thread, ahead of the caller.
pub struct ReadAhead {
    items: Receiver<(Vec<Item>, u64)>,
    thread: std::thread::JoinHandle<Result<Contents, BackupProblem>>,
}

impl ReadAhead {
    /// Starts the thread.
    ///
    /// # Errors
    /// If no thread can be created.
    pub fn start(
        from: impl Read + Send + 'static,
        mut heard: impl FnMut(&Head, u64) + Send + 'static,
    ) -> Result<Self, BackupProblem> {
        let (sender, items) = sync_channel(BLOCKS_AHEAD);
        let thread = std::thread::Builder::new()
            .name("backup-reader".to_owned())
            .spawn(move || read(from, Depth::Everything, &mut heard, |items, at| hand_on(&sender, (items, at))))?;
        Ok(Self { items, thread })
    }

    /// Returns the next checked items with the total unpacked size including them, in bytes; none at the end, or after
    /// a problem.
    pub fn next(&self) -> Option<(Vec<Item>, u64)> {
        self.items.recv().ok()
    }

    /// Returns the content of the backup, if it was complete.
    ///
    /// # Errors
    /// The problem with it.
    pub fn finish(self) -> Result<Contents, BackupProblem> {
        // A caller that stopped does not wait for the remaining blocks.
        drop(self.items);
        let panicked = |_| BackupProblem::Io(std::io::Error::other("the thread that reads the backup has panicked"));
        self.thread.join().map_err(panicked)?
    }
}

fn hand_on(sender: &SyncSender<(Vec<Item>, u64)>, items: (Vec<Item>, u64)) -> Result<(), BackupProblem> {
    let gone = |_| BackupProblem::Io(std::io::Error::other("the caller reads no more items of the backup"));
    sender.send(items).map_err(gone)
}
