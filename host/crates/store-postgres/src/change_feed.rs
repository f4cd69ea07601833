//! Changes of the register in a database, by any process.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, watch};

use daftar_domain::change::Sequence;
use daftar_store::StoreError;
use daftar_store::change_feed::ChangeFeed;
use daftar_store::partition::ReadSnapshot;
use daftar_store::shared::History;

use super::PostgresStore;
use super::database::{Database, Link};
use super::feed::Channel;
use super::partitions::PostgresReadSnapshot;

/// Feed of the changes of the register in a database.
pub struct PostgresChangeFeed {
    database: Arc<Database>,
    changes: Mutex<watch::Receiver<u64>>,
    /// The connection of snapshots, while it is idle.
    link: Arc<Mutex<Option<Arc<Link>>>>,
}

impl PostgresStore {
    /// Returns the feed of changes of the register, by any process.
    #[must_use]
    pub fn change_feed(&self) -> PostgresChangeFeed {
        let changes = Mutex::new(self.feed.subscribe(Channel::Changes));
        PostgresChangeFeed { database: Arc::clone(&self.database), changes, link: Arc::default() }
    }
}

#[async_trait::async_trait]
impl ChangeFeed for PostgresChangeFeed {
    async fn last(&self) -> Result<(History, Sequence), StoreError> {
        self.database.last().await
    }

    async fn snapshot(&self) -> Result<Arc<dyn ReadSnapshot>, StoreError> {
        let keeping = Arc::clone(&self.link).lock_owned().await;
        Ok(Arc::new(PostgresReadSnapshot::of_feed(&self.database, keeping).await?))
    }

    async fn heard(&self, at_most: Duration) {
        let heard = async { self.changes.lock().await.changed().await };
        // After a notification or the timeout: the caller checks again.
        let _in_time = tokio::time::timeout(at_most, heard).await;
    }
}
