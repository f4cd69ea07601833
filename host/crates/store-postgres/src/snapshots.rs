//! Snapshots of the register in a database, for previews and for the register in memory.
//!
//! **Invariant:** snapshots have a limited number of connections of their own: they do not use those of requests.
//!
//! **Invariant:** previews of one client use a quarter of the snapshots at most, so that some are left for others.

mod read;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, watch};

use daftar_domain::audit::Actor;
use daftar_domain::change::Sequence;
use daftar_domain::fair::FairSemaphore;
use daftar_store::StoreError;
use daftar_store::shared::History;
use daftar_store::snapshot::{ReadSnapshot, SnapshotReader, SnapshotSource};

use self::read::PostgresReadSnapshot;
use super::PostgresStore;
use super::database::{Database, Link};
use super::feed::Channel;

/// Maximum number of snapshots of a process for previews. Further requests wait.
const SNAPSHOTS_MAX: usize = 8;
/// Maximum number of snapshots for previews of one client.
const SNAPSHOTS_OF_CLIENT_MAX: usize = SNAPSHOTS_MAX / 4;

/// Snapshots of the register in a database, and notifications of its changes.
pub struct PostgresSnapshots {
    database: Arc<Database>,
    changes: Mutex<watch::Receiver<u64>>,
    slots: Arc<FairSemaphore<Actor>>,
    /// The connection of snapshots for the register in memory, while it is idle.
    link: Arc<Mutex<Option<Arc<Link>>>>,
}

impl PostgresStore {
    /// Returns the source of snapshots of the register.
    #[must_use]
    pub fn snapshots(&self) -> PostgresSnapshots {
        PostgresSnapshots {
            database: Arc::clone(&self.database),
            changes: Mutex::new(self.feed.subscribe(Channel::Changes)),
            slots: FairSemaphore::new(SNAPSHOTS_MAX, SNAPSHOTS_OF_CLIENT_MAX),
            link: Arc::default(),
        }
    }
}

#[async_trait::async_trait]
impl SnapshotSource for PostgresSnapshots {
    async fn last(&self) -> Result<(History, Sequence), StoreError> {
        self.database.last().await
    }

    async fn snapshot(&self, reader: SnapshotReader<'_>) -> Result<Arc<dyn ReadSnapshot>, StoreError> {
        let snapshot = match reader {
            SnapshotReader::Index => {
                let keeping = Arc::clone(&self.link).lock_owned().await;
                PostgresReadSnapshot::for_index(&self.database, keeping).await?
            }
            SnapshotReader::Preview(actor) => {
                PostgresReadSnapshot::for_preview(&self.database, &self.slots, actor).await?
            }
        };
        Ok(Arc::new(snapshot))
    }

    async fn heard(&self, at_most: Duration) {
        let heard = async { self.changes.lock().await.changed().await };
        // After a notification or the timeout: the caller checks again.
        let _in_time = tokio::time::timeout(at_most, heard).await;
    }
}
