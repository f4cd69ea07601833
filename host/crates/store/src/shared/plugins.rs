//! Installed plugins in the store: their files by digest, and the list that says which of them count.
//!
//! **Invariant:** the list is replaced whole, by whoever has seen the one that it replaces; a file is there before a list names it.

use crate::StoreError;

/// The longest list: some thousand plugins.
pub const PLUGIN_LIST_BYTES_MAX: usize = 1 << 20;

/// The list as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredList {
    /// How often it was replaced; 0 where there never was one.
    pub revision: u64,
    /// What it holds.
    pub bytes: Vec<u8>,
}

/// Plugins that every process of a register has.
#[async_trait::async_trait]
pub trait SharedPlugins: Send + Sync + 'static {
    /// The list.
    ///
    /// # Errors
    /// When the store fails.
    async fn plugin_list(&self) -> Result<StoredList, StoreError>;

    /// Replaces the list that has that revision, raises the generation of the deployment, and removes files that neither the new list nor the
    /// one before it names. Says which revision the new one has.
    ///
    /// # Errors
    /// [`StoreError::Overtaken`] where the list has another revision: nothing is changed then. When the store fails.
    async fn replace_plugin_list(&self, seen: u64, list: &[u8], named: &[[u8; 32]]) -> Result<u64, StoreError>;

    /// The file of that SHA-256. Who reads it compares.
    ///
    /// # Errors
    /// When the store fails.
    async fn plugin_file(&self, digest: [u8; 32]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Keeps a file under its SHA-256; one that is there already stays.
    ///
    /// # Errors
    /// When the store fails.
    async fn put_plugin_file(&self, digest: [u8; 32], bytes: Vec<u8>) -> Result<(), StoreError>;
}
