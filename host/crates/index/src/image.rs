//! Images of the whole in-memory register at one transaction, for checkpoints.

use std::fmt;
use std::io;

use super::blobs::Blobs;
use super::checkpoint::{CheckpointWriter, Loading, Stored, join, stored_fields};
use super::codes::ExtensionNumbers;
use super::identifiers::IdentifierHasher;
use super::stored::Corrupt;
use super::subjects::{PARTS, Subjects};
use super::{Snapshot, about};
use daftar_domain::change::Sequence;
use daftar_domain::manifest::ExtensionPath;

/// The index terms of each row at its last write, which only the writer uses.
#[derive(Clone, Default)]
pub(super) struct Terms {
    pub(super) individuals: Blobs,
    pub(super) groups: Blobs,
    pub(super) about: about::Terms,
}

stored_fields!(Terms { individuals, groups, about });

/// An image of the whole in-memory register. It shares unchanged data with the register.
#[derive(Clone)]
pub struct Image {
    pub(super) snapshot: Snapshot,
    pub(super) terms: Terms,
    pub(super) sequence: Sequence,
}

impl fmt::Debug for Image {
    /// Shows the number of records, never their content.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Image");
        shown.field("sequence", &self.sequence).field("snapshot", &self.snapshot).finish_non_exhaustive()
    }
}

impl Image {
    /// Returns the last transaction in the image: it contains everything up to it, and nothing after it.
    #[must_use]
    pub fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// Returns the number of records of all kinds.
    #[must_use]
    pub fn record_count(&self) -> u64 {
        let about = &self.snapshot.about;
        let others = [about.memberships.rows.count(), about.consents.rows.count()];
        let others = others.into_iter().map(u64::from).sum::<u64>().saturating_add(about.programs.len() as u64);
        self.snapshot.individual_count().saturating_add(self.snapshot.group_count()).saturating_add(others)
    }

    /// Writes everything except the programs to a checkpoint.
    pub(super) fn store(&self, checkpoint: &mut CheckpointWriter<'_>) -> io::Result<()> {
        let Snapshot { hasher, extensions, individuals, groups, members, places, about, covers } = &self.snapshot;
        checkpoint.one(&hasher.key())?;
        checkpoint.one(&extensions.paths().into_iter().map(String::from).collect::<Vec<_>>())?;
        individuals.store(checkpoint)?;
        groups.store(checkpoint)?;
        members.store(checkpoint)?;
        places.store(checkpoint)?;
        about.store(checkpoint)?;
        covers.store(checkpoint)?;
        self.terms.store(checkpoint)
    }

    /// Reads it from a checkpoint of this transaction. Programs must be read from the store.
    pub(super) fn load(checkpoint: &mut Loading<'_>, sequence: Sequence) -> Result<Self, Corrupt> {
        let hasher = IdentifierHasher::of_key(checkpoint.one()?);
        let paths: Vec<String> = checkpoint.one()?;
        let paths: Result<Vec<_>, _> = paths.iter().map(|path| ExtensionPath::parse(path)).collect();
        let extensions = ExtensionNumbers::of_paths(paths.map_err(|_| Corrupt("a field of a module has no name"))?)?;
        let mut of_individuals = checkpoint.fork(PARTS);
        let (individuals, (groups, members, places, about, covers, terms)) = join(
            || {
                let individuals = Subjects::load(&mut of_individuals)?;
                of_individuals.end().map(|()| individuals)
            },
            || {
                let groups = Subjects::load(checkpoint)?;
                let (members, places) = (Stored::load(checkpoint)?, Stored::load(checkpoint)?);
                let (about, covers) = (Stored::load(checkpoint)?, Stored::load(checkpoint)?);
                Ok((groups, members, places, about, covers, Terms::load(checkpoint)?))
            },
        )?;
        checkpoint.end()?;
        let snapshot = Snapshot { hasher, extensions, individuals, groups, members, places, about, covers };
        Ok(Self { snapshot, terms, sequence })
    }
}
