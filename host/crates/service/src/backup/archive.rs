//! A backup as what a store may be filled from: what the store kept, without keys and plugins.
//!
//! **Invariant:** the end is told only when everything was read and nothing is wrong with it.

use std::fs::File;
use std::io::{BufReader, Seek};
use std::path::PathBuf;

use super::problem::BackupProblem;
use super::restore::{ReadAhead, head_of};
use super::{Head, Item};
use daftar_domain::change::Sequence;
use daftar_domain::record::RecordKind;
use daftar_store::StoreError;
use daftar_store::archive::{Entry, Kept, Mark, Snapshot};
use daftar_store::change_log::RegisterId;

/// A backup in a file.
#[derive(Debug, Clone)]
pub struct BackupFile(pub PathBuf);

impl BackupFile {
    /// What the store kept. Everything was read, and it was sound, where the snapshot comes to its end.
    ///
    /// # Errors
    /// When it cannot be read. What is wrong with it stays to be asked for: [`BackupProblem`] is the cause.
    pub async fn snapshot(&self) -> Result<Snapshot, StoreError> {
        let path = self.0.clone();
        let begun = tokio::task::spawn_blocking(move || begin(path)).await;
        let begun = begun.unwrap_or_else(|error| Err(BackupProblem::Io(error.into())));
        let (mark, reading) = begun.map_err(wrong)?;
        Ok(Snapshot::new(mark, Some(reading), |reading| async move {
            let Some(reading) = reading else { return Ok((None, Vec::new())) };
            let read = tokio::task::spawn_blocking(move || next(reading)).await;
            let read = read.unwrap_or_else(|error| Err(BackupProblem::Io(error.into())));
            Ok(read.map_err(wrong)?.map_or((None, Vec::new()), |(reading, entries)| (Some(reading), entries)))
        }))
    }
}

fn begin(path: PathBuf) -> Result<(Mark, ReadAhead), BackupProblem> {
    let mut file = File::open(path)?;
    let mark = mark_of(&head_of(&mut file)?)?;
    file.rewind()?;
    Ok((mark, ReadAhead::start(BufReader::new(file), |_, _| ())?))
}

fn mark_of(head: &Head) -> Result<Mark, BackupProblem> {
    let register = RegisterId::parse(&head.register);
    let register = register.ok_or_else(|| BackupProblem::Head("the id of its register is none".to_owned()))?;
    let count = |kind| head.records.get(Kept::of_kind(kind).name()).copied().unwrap_or_default();
    let records = RecordKind::ALL.map(|kind| (kind, count(kind)));
    Ok(Mark { register, sequence: Sequence(head.sequence), records })
}

/// The problem is the cause of the error.
fn wrong(problem: BackupProblem) -> StoreError {
    StoreError::Failed(problem.into())
}

/// The next things that a store kept; none at the end of a backup with which nothing is wrong.
fn next(reading: ReadAhead) -> Result<Option<(ReadAhead, Vec<Entry>)>, BackupProblem> {
    loop {
        let Some((items, _)) = reading.next() else {
            reading.finish()?;
            return Ok(None);
        };
        let mut entries = Vec::with_capacity(items.len());
        for item in items {
            match item {
                Item::Kept(entry) => entries.push(entry),
                Item::Key { .. } | Item::PluginList { .. } | Item::PluginPart { .. } => {}
            }
        }
        if !entries.is_empty() {
            return Ok(Some((reading, entries)));
        }
    }
}
