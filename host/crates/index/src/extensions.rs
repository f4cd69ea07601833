//! Which fields of modules codes stand in, as numbers.
//!
//! **Invariant:** a field keeps its number as long as the process runs, and in what its checkpoints become; there are as many numbers as fields that any record ever
//! held a code in.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::codes::CodeAt;
use super::stored::{Bytes, Stored, Unsound};
use daftar_domain::manifest::ExtensionPath;
use daftar_domain::search::CodedPlace;

/// The number of a field that a module adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ExtensionNumber(u16);

impl Stored for ExtensionNumber {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
    }

    fn take(from: &mut Bytes<'_>) -> Result<Self, Unsound> {
        u16::take(from).map(Self)
    }
}

/// The numbers of all fields that modules add. Copies share them.
#[derive(Debug, Clone, Default)]
pub(super) struct ExtensionNumbers(Arc<RwLock<BTreeMap<ExtensionPath, ExtensionNumber>>>);

impl ExtensionNumbers {
    /// The number of a field, a new one where it has none yet; none, where the numbers are used up.
    pub(super) fn number(&self, path: &ExtensionPath) -> Option<ExtensionNumber> {
        if let Some(number) = self.find(path) {
            return Some(number);
        }
        let mut numbers = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let next = ExtensionNumber(u16::try_from(numbers.len()).ok()?);
        Some(*numbers.entry(path.clone()).or_insert(next))
    }

    /// The number of a field, if any record ever held a code in it.
    pub(super) fn find(&self, path: &ExtensionPath) -> Option<ExtensionNumber> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(path).copied()
    }

    /// Where a code stands; none, where no record holds one there.
    pub(super) fn place(&self, place: &CodedPlace) -> Option<CodeAt> {
        match place {
            CodedPlace::Field(field) => Some(CodeAt::Field(*field)),
            CodedPlace::Extension(path) => self.find(path).map(CodeAt::Extension),
        }
    }

    /// Every field in the order of the numbers.
    pub(super) fn paths(&self) -> Vec<ExtensionPath> {
        let numbers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut paths: Vec<_> = numbers.iter().map(|(path, number)| (*number, path.clone())).collect();
        paths.sort_unstable();
        paths.into_iter().map(|(_, path)| path).collect()
    }

    /// The fields have the numbers of their places.
    pub(super) fn of_paths(paths: Vec<ExtensionPath>) -> Result<Self, Unsound> {
        let numbers = Self::default();
        for (path, at) in paths.iter().zip(0_u16..) {
            if numbers.number(path) != Some(ExtensionNumber(at)) {
                return Err(Unsound("a field of a module has two numbers"));
            }
        }
        Ok(numbers)
    }

    /// Every number that is given.
    pub(super) fn every(&self) -> Vec<ExtensionNumber> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).values().copied().collect()
    }
}
