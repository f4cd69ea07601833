//! Images of the whole in-memory register at one transaction, for checkpoints and for comparing two registers.

use std::fmt;
use std::hash::Hasher as _;
use std::io;

use serde::Serialize;
use siphasher::sip128::{Hasher128, SipHasher24};

use super::bitmaps::Posting;
use super::blobs::Blobs;
use super::checkpoint::{CheckpointWriter, Loading, Stored, join, stored_fields};
use super::codes::ExtensionNumbers;
use super::identifiers::IdentifierHasher;
use super::rows::Rows;
use super::stored::{self, Corrupt, bytes_of};
use super::subjects::{PARTS, Subjects};
use super::{Snapshot, about};
use daftar_domain::change::Sequence;
use daftar_domain::manifest::ExtensionPath;

/// The index terms of each row at its last write, which only the writer uses.
#[derive(Clone, Default)]
pub(super) struct Terms {
    pub(super) individuals: Blobs,
    pub(super) groups: Blobs,
    /// The members of each group.
    pub(super) members: Blobs,
    pub(super) about: about::Terms,
}

stored_fields!(Terms { individuals, groups, members, about });

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

    /// Returns a fingerprint for comparing this register with another image of it or of its
    /// [`super::Columns::sibling`]: the same records give the same fingerprint, in any write order.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let mut visitor = Visitor::default();
        let Snapshot { hasher: _, extensions: _, individuals, groups, members, places, about, covers } = &self.snapshot;
        individuals.visit(&mut visitor, "individuals");
        visitor.of_rows("terms of individuals", &individuals.rows, |row| self.terms.individuals.get(row).to_vec());
        groups.visit(&mut visitor, "groups");
        visitor.of_rows("terms of groups", &groups.rows, |row| self.terms.groups.get(row).to_vec());
        members.visit(&mut visitor, &groups.rows);
        visitor.of_rows("individuals named by groups", &groups.rows, |row| self.terms.members.get(row).to_vec());
        places.visit(&mut visitor, &individuals.rows);
        about.visit(&mut visitor);
        let of_memberships = |row| self.terms.about.memberships.get(row).to_vec();
        visitor.of_rows("terms of memberships by row", &about.memberships.rows, of_memberships);
        let of_consents = |row| self.terms.about.consents.get(row).to_vec();
        visitor.of_rows("terms of consents by row", &about.consents.rows, of_consents);
        covers.visit(&mut visitor);
        Fingerprint(visitor.parts)
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

/// The content of a register, as one number for each of its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint(Vec<(String, u128)>);

impl Fingerprint {
    /// Returns the names of the parts in which two registers differ; empty if they are equal.
    #[must_use]
    pub fn differs_in(&self, other: &Self) -> Vec<&str> {
        let pairs = self.0.iter().zip(&other.0);
        pairs.filter(|(one, other)| one != other).map(|((part, _), _)| part.as_str()).collect()
    }
}

/// Hashes the parts of a register.
#[derive(Default)]
pub(super) struct Visitor {
    parts: Vec<(String, u128)>,
}

impl Visitor {
    /// Visits the record of each row.
    pub(super) fn rows(&mut self, part: &str, rows: &Rows) {
        self.of_rows(part, rows, |row| rows.id(row));
    }

    /// Visits one value per row.
    pub(super) fn of_rows<T: Serialize>(&mut self, part: impl Into<String>, rows: &Rows, value: impl Fn(u32) -> T) {
        self.values(part, (0..rows.count()).map(value));
    }

    /// Visits the rows by key.
    pub(super) fn postings<'p, K: Serialize + ?Sized + 'p>(
        &mut self,
        part: impl Into<String>,
        postings: impl IntoIterator<Item = (&'p K, &'p Posting)>,
    ) {
        self.values(part, postings.into_iter().map(|(key, rows)| (bytes_of(key), rows.rows())));
    }

    /// Visits values in their order.
    pub(super) fn values<T: Serialize>(&mut self, part: impl Into<String>, values: impl IntoIterator<Item = T>) {
        // No secret key is required: there is no benefit in forging a collision of two registers.
        let mut hasher = SipHasher24::new();
        let mut bytes = Vec::new();
        for value in values {
            stored::put(&mut bytes, &value);
            if bytes.len() >= 1 << 16 {
                hasher.write(&bytes);
                bytes.clear();
            }
        }
        hasher.write(&bytes);
        self.parts.push((part.into(), hasher.finish128().as_u128()));
    }
}
