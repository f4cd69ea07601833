//! What can be done for a line before its turn comes, beside other lines: reading its names, checking a new person.

use super::names::{Names, Naming};
use super::{BulkLine, BulkRecord, Importer, OnExisting};
use crate::edit;
use daftar_domain::error::AppError;
use daftar_domain::record::RecordKind;
use daftar_store::Write;

/// A line whose turn may come.
pub struct PreparedLine {
    /// Its number in the input.
    pub line: u64,
    pub(super) bytes: usize,
    pub(super) work: Result<PreparedWork, AppError>,
}

pub(super) struct PreparedWork {
    pub kind: RecordKind,
    pub names: Names,
    pub work: Work,
}

/// What is left to do for a line.
pub(super) enum Work {
    /// Nothing but to write.
    Write(Box<Write>),
    /// Everything.
    Line(Box<BulkLine>),
}

impl PreparedWork {
    /// Whether the line looks for its own record before it writes.
    pub(super) fn looks(&self) -> bool {
        match &self.work {
            Work::Write(_) => false,
            Work::Line(line) => line.on_existing != OnExisting::Refuse,
        }
    }

    /// Whether the line adds to a group, which may be done again.
    pub(super) fn adds_members(&self) -> bool {
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
    /// A preparer of lines that this importer will write.
    #[must_use]
    pub fn new(importer: Importer) -> Self {
        Self { importer, naming: Naming::default() }
    }

    /// The same at another instant.
    #[must_use]
    pub fn at(&self, now: jiff::Timestamp) -> Self {
        let mut later = self.clone();
        later.importer.ctx.now = now;
        later
    }

    /// Prepares a line of so many bytes, as it was read.
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
        // What replaces a record is checked against what that holds, and what refers to others finds them, and so in its turn.
        let work = match read {
            BulkLine { record: BulkRecord::Individual(draft), on_existing: OnExisting::Refuse, .. }
                if names.needs.is_empty() && !edit::must_ask(&self.importer.registry, &draft) =>
            {
                let ctx = self.importer.context(line, super::STATUS_CREATED);
                Work::Write(Box::new(edit::prepare(&ctx, &self.importer.registry, *draft).await?.write))
            }
            other => Work::Line(Box::new(other)),
        };
        Ok(PreparedWork { kind, names, work })
    }
}
