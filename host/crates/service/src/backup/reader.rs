//! Reads a backup, block by block, checking each before it is used.
//!
//! **Invariant:** input is untrusted: each read is bounded, and a block is returned only after its checksum was
//! verified.

use std::io::{self, Read, Seek, SeekFrom};

use super::BackupProblem;
use super::format::{
    BLOCK_HEAD_BYTES, BlockHead, BlockKind, CHECKSUM_BYTES, Chain, End, HEAD_BYTES_MAX, Head, MAGIC,
    MAGIC_BEFORE_FIRST_RELEASE, Packing,
};
use super::item::Item;
use super::signature::{BackupSignature, SIGNATURE_LINE_BYTES_MAX};
use super::writer::unpacked;

/// A backup that is read.
pub struct BackupReader<R> {
    from: R,
    /// Header of the backup.
    pub(super) head: Head,
    /// The checksum of all bytes read so far.
    pub(super) chain: Chain,
    /// Number of bytes read.
    pub(super) at: u64,
    /// Number of blocks read.
    blocks: u64,
    /// Their unpacked size, in bytes.
    pub(super) bytes: u64,
    /// The signature found after the end.
    pub(super) signature: Option<BackupSignature>,
}

/// One block with a verified checksum.
pub struct Block {
    pub(super) head: BlockHead,
    payload: Vec<u8>,
    /// The block number, counted from 1.
    pub(super) number: u64,
    begins_at: u64,
}

/// The next item of a backup.
pub enum Next {
    /// Items.
    Items(Block),
    /// The trailer.
    End(End),
}

impl Block {
    /// Returns the items of the block.
    ///
    /// # Errors
    /// If the block cannot be unpacked or decoded.
    pub fn items(self) -> Result<Vec<Item>, BackupProblem> {
        let (block, at) = (self.number, self.begins_at);
        let damaged = |reason| BackupProblem::Damaged { block, at, reason };
        let length = usize::try_from(self.head.unpacked).unwrap_or(usize::MAX);
        let bytes = match self.head.packing {
            Packing::Plain if self.payload.len() == length => self.payload,
            Packing::Plain => return Err(damaged("it is not as long as it says".to_owned())),
            Packing::Zstandard => unpacked(&self.payload, length).map_err(damaged)?,
        };
        let mut items = Vec::new();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let (item, after) = Item::read(rest).map_err(|reason| BackupProblem::Content { block, reason })?;
            items.push(item);
            rest = after;
        }
        if u64::try_from(items.len()).is_ok_and(|count| count == u64::from(self.head.items)) {
            return Ok(items);
        }
        Err(damaged(format!("it says that it holds {} things, and holds {}", self.head.items, items.len())))
    }
}

impl<R: Read> BackupReader<R> {
    /// Reads the header line.
    ///
    /// # Errors
    /// If the input is not a backup, or has a format that this daftar cannot read.
    pub fn new(mut from: R) -> Result<Self, BackupProblem> {
        let line = first_line(&mut from)?;
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let head = Head::parse(text)?;
        let at = u64::try_from(line.len()).unwrap_or(u64::MAX);
        Ok(Self { from, head, chain: Chain::of_line(&line), at, blocks: 0, bytes: 0, signature: None })
    }

    /// Returns the next block or the trailer. Must not be called after the trailer.
    ///
    /// # Errors
    /// If the backup is truncated, damaged, or continues after its end.
    pub fn next_block(&mut self) -> Result<Next, BackupProblem> {
        let (begins_at, number) = (self.at, self.blocks.saturating_add(1));
        let damaged = |reason: &str| BackupProblem::Damaged { block: number, at: begins_at, reason: reason.to_owned() };
        let mut head_bytes = [0; BLOCK_HEAD_BYTES];
        self.fill(&mut head_bytes)?;
        let head = BlockHead::parse(&head_bytes).map_err(damaged)?;
        let mut payload = vec![0; usize::try_from(head.packed).unwrap_or_default()];
        self.fill(&mut payload)?;
        let mut checksum = [0; CHECKSUM_BYTES];
        self.fill(&mut checksum)?;
        let chain = self.chain.with(&head_bytes, &payload);
        if *chain.bytes() != checksum {
            let reason = if number == 1 {
                "its checksum is wrong, or the first line is damaged"
            } else {
                "its checksum is wrong"
            };
            return Err(damaged(reason));
        }
        self.chain = chain;
        match head.kind {
            BlockKind::Items => {
                self.blocks = number;
                self.bytes = self.bytes.saturating_add(u64::from(head.unpacked));
                Ok(Next::Items(Block { head, payload, number, begins_at }))
            }
            BlockKind::End => {
                let end: End = serde_json::from_slice(&payload).map_err(|error| damaged(&error.to_string()))?;
                if end.blocks != self.blocks || end.bytes != self.bytes {
                    return Err(damaged("it ends a backup with other blocks than were read"));
                }
                self.read_signature()?;
                Ok(Next::End(end))
            }
        }
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), BackupProblem> {
        let mut filled = 0;
        while let Some(room) = buffer.get_mut(filled..).filter(|room| !room.is_empty()) {
            match self.from.read(room) {
                Ok(0) => return Err(BackupProblem::CutOff { bytes: self.at }),
                Ok(read) => {
                    filled = filled.saturating_add(read);
                    self.at = self.at.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads the data after the last block: none, or exactly one signature.
    fn read_signature(&mut self) -> Result<(), BackupProblem> {
        let line = rest(&mut self.from)?;
        if !line.is_empty() {
            self.signature = Some(BackupSignature::parse(&line)?);
            self.at = self.at.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
        }
        Ok(())
    }
}

/// Reads the remaining data, which is at most one line.
fn rest(from: impl Read) -> Result<Vec<u8>, BackupProblem> {
    let mut line = Vec::new();
    let one_more = u64::try_from(SIGNATURE_LINE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    from.take(one_more).read_to_end(&mut line)?;
    if line.len() > SIGNATURE_LINE_BYTES_MAX { Err(BackupProblem::Longer) } else { Ok(line) }
}

/// Size of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Its unpacked size, in bytes.
    pub unpacked: u64,
    /// True if bytes follow its last block: a signature or an error.
    pub is_signed: bool,
}

/// Computes the size of a backup from the headers of its blocks. Reads nothing else and verifies nothing.
///
/// # Errors
/// If a header cannot be read.
pub fn extent_of(mut from: impl Read + Seek) -> Result<Extent, BackupProblem> {
    let mut at = u64::try_from(first_line(&mut from)?.len()).unwrap_or(u64::MAX);
    let (mut sum, mut block) = (0_u64, 1);
    loop {
        let mut bytes = [0; BLOCK_HEAD_BYTES];
        from.read_exact(&mut bytes)?;
        let damaged = |reason: &str| BackupProblem::Damaged { block, at, reason: reason.to_owned() };
        let head = BlockHead::parse(&bytes).map_err(damaged)?;
        let after = u64::from(head.packed).saturating_add(CHECKSUM_BYTES as u64);
        at = at.saturating_add(BLOCK_HEAD_BYTES as u64).saturating_add(after);
        from.seek(SeekFrom::Start(at))?;
        match head.kind {
            BlockKind::End => return Ok(Extent { unpacked: sum, is_signed: from.read(&mut [0])? > 0 }),
            BlockKind::Items => sum = sum.saturating_add(u64::from(head.unpacked)),
        }
        block += 1;
    }
}

/// Reads the header line with its line end. Stops immediately if the data lacks the prefix of a backup.
fn first_line(from: &mut impl Read) -> Result<Vec<u8>, BackupProblem> {
    let mut line = Vec::new();
    let mut byte = [0; 1];
    loop {
        match from.read(&mut byte) {
            Ok(0) if line.len() < MAGIC.len() => return Err(BackupProblem::Foreign),
            Ok(0) => return Err(BackupProblem::CutOff { bytes: u64::try_from(line.len()).unwrap_or(u64::MAX) }),
            Ok(_) => line.extend_from_slice(&byte),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        }
        if line == MAGIC_BEFORE_FIRST_RELEASE.as_bytes() {
            return Err(BackupProblem::BeforeFirstRelease);
        }
        if line.len() == MAGIC.len() && line != MAGIC.as_bytes() {
            return Err(BackupProblem::Foreign);
        }
        if byte == *b"\n" {
            return Ok(line);
        }
        if line.len() > HEAD_BYTES_MAX {
            return Err(BackupProblem::Head(format!("it is longer than {HEAD_BYTES_MAX} bytes")));
        }
    }
}
