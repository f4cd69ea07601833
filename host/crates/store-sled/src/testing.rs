//! Stores in folders that are removed when a test ends.
#![expect(clippy::unwrap_used, reason = "only for tests: an invalid fixture should fail its test immediately")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use super::committer::DiskCalls;
use super::disk::FLUSH_LIMIT;
use super::{SledOptions, SledRefill, SledStore};
use daftar_store::Store;
use daftar_store::archive::{Archive, Refill};
use daftar_store::suite::{Backend, Listener};
use daftar_store::testing::ProxyStore;

/// Returns the options of a small store.
#[must_use]
pub fn options() -> SledOptions {
    SledOptions { cache_bytes: 1024 * 1024, ..SledOptions::default() }
}

/// Opens a new empty store that the servers of one process share.
#[must_use]
pub fn shared_store() -> Arc<ProxyStore> {
    Arc::new(ProxyStore::new(Arc::new(SledStore::temporary())))
}

impl SledStore {
    /// Opens a new empty store in a folder that is removed with it. Does not wait for the disk.
    #[must_use]
    pub fn temporary() -> Self {
        let folder = TempDir::new().unwrap();
        let never = |_| DiskCalls { flush: Box::new(|| Ok(())), flush_limit: FLUSH_LIMIT };
        let mut store = Self::open_calling(&folder.path().join("registry"), options(), never).unwrap();
        store.folder = Some(folder);
        store
    }
}

/// A store that can be closed and reopened, in a folder that is removed with this value.
pub struct Folder {
    store: Option<Arc<SledStore>>,
    folder: TempDir,
}

impl Folder {
    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("registry")
    }

    /// Opens a folder.
    #[must_use]
    pub fn open(path: &Path) -> SledStore {
        SledStore::open(path, options()).unwrap()
    }

    /// Opens a folder, and records the changes.
    #[must_use]
    pub fn listening(path: &Path) -> SledStore {
        let store = Self::open(path);
        store.attach_sink(Arc::new(Listener::default())).unwrap();
        store
    }

    /// Returns the store.
    #[must_use]
    pub fn opened(&self) -> &Arc<SledStore> {
        self.store.as_ref().unwrap()
    }
}

#[async_trait::async_trait]
impl Backend for Folder {
    fn fresh() -> Self {
        let mut fresh = Self { store: None, folder: TempDir::new().unwrap() };
        fresh.store = Some(Arc::new(Self::open(&fresh.path())));
        fresh
    }

    fn store(&self) -> &dyn Store {
        &**self.opened()
    }

    fn whole(&self) -> &dyn Archive {
        &**self.opened()
    }

    fn refill() -> (Box<dyn Refill>, Box<dyn FnOnce() -> Self>) {
        let mut folder = Self { store: None, folder: TempDir::new().unwrap() };
        let filling = SledRefill::open(&folder.path(), 1 << 20).unwrap();
        let finish = move || {
            folder.store = Some(Arc::new(Self::open(&folder.path())));
            folder
        };
        (Box::new(filling), Box::new(finish))
    }

    async fn reopen(&mut self) {
        drop(self.store.take());
        self.store = Some(Arc::new(Self::open(&self.path())));
    }
}
