//! The register in partitions, as previews read it.
//!
//! **Invariant:** snapshots have a limited number of connections of their own: previews do not use those of requests.
//!
//! **Invariant:** previews of one client use a quarter of the snapshots at most, so that some are left for others.

mod snapshot;

use std::sync::Arc;

use daftar_domain::audit::Actor;
use daftar_domain::fair::FairSemaphore;
use daftar_store::StoreError;
use daftar_store::partition::{Partitions, ReadSnapshot};

pub(super) use self::snapshot::PostgresReadSnapshot;
use super::PostgresStore;
use super::database::Database;

/// Maximum number of snapshots of a process. Further requests wait.
const MOMENTS_MAX: usize = 8;
/// Maximum number of snapshots for previews of one client.
const MOMENTS_OF_CLIENT_MAX: usize = MOMENTS_MAX / 4;

/// The register in partitions.
pub struct PostgresPartitions {
    database: Arc<Database>,
    moments: Arc<FairSemaphore<Actor>>,
    partition_keys: u32,
}

impl PostgresPartitions {
    /// The register of a store, in partitions of so many keys.
    #[must_use]
    pub fn of(store: &PostgresStore, partition_keys: u32) -> Self {
        let moments = FairSemaphore::new(MOMENTS_MAX, MOMENTS_OF_CLIENT_MAX);
        Self { database: Arc::clone(&store.database), moments, partition_keys }
    }
}

#[async_trait::async_trait]
impl Partitions for PostgresPartitions {
    async fn snapshot(&self, actor: &Actor) -> Result<Arc<dyn ReadSnapshot>, StoreError> {
        Ok(Arc::new(PostgresReadSnapshot::for_preview(&self.database, &self.moments, actor).await?))
    }

    fn partition_keys(&self) -> u32 {
        self.partition_keys
    }
}
