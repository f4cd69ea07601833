//! The register in partitions, as previews read it.
//!
//! **Invariant:** moments have connections of their own, so many and no more: a preview does not take those of requests.
//!
//! **Invariant:** previews of one client hold a quarter of the moments at most, so that those of others find some.

mod snapshot;

use std::sync::Arc;

use daftar_domain::audit::Actor;
use daftar_domain::fair::FairSemaphore;
use daftar_store::StoreError;
use daftar_store::partition::{Partitions, ReadSnapshot};

pub(super) use self::snapshot::PostgresReadSnapshot;
use super::PostgresStore;
use super::database::Database;

/// How many moments a process holds at once. One that is asked for beyond is waited for.
const MOMENTS_MAX: usize = 8;
/// How many of them are of previews of one client.
const MOMENTS_OF_CLIENT_MAX: usize = MOMENTS_MAX / 4;

/// The register in partitions.
pub struct PostgresPartitions {
    database: Arc<Database>,
    moments: Arc<FairSemaphore<Actor>>,
    partition_keys: u32,
}

impl PostgresPartitions {
    /// Of the register of a store, in partitions of so many keys.
    #[must_use]
    pub fn of(store: &PostgresStore, partition_keys: u32) -> Self {
        let moments = FairSemaphore::new(MOMENTS_MAX, MOMENTS_OF_CLIENT_MAX);
        Self { database: Arc::clone(&store.database), moments, partition_keys }
    }
}

#[async_trait::async_trait]
impl Partitions for PostgresPartitions {
    async fn moment(&self, actor: &Actor) -> Result<Arc<dyn ReadSnapshot>, StoreError> {
        Ok(Arc::new(PostgresReadSnapshot::for_preview(&self.database, &self.moments, actor).await?))
    }

    fn partition_keys(&self) -> u32 {
        self.partition_keys
    }
}
