//! The register in partitions, and the board of work on them.
//!
//! **Invariant:** moments and claims have connections of their own, so many and no more: a preview neither takes those of requests nor waits for
//! another preview while it holds what that one waits for.

mod board;
mod moment;

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::store::StoreError;
use crate::store::partition::{Board, Moment, Partitions};

use self::board::PostgresBoard;
use self::moment::PostgresMoment;
use super::PostgresStore;
use super::database::Database;
use super::feed::Channel;

/// How many moments a process holds at once. One that is asked for beyond is waited for.
const MOMENTS_MAX: usize = 8;

/// The register in partitions.
pub struct PostgresPartitions {
    database: Arc<Database>,
    moments: Arc<Semaphore>,
    board: PostgresBoard,
    partition_keys: u32,
}

impl PostgresPartitions {
    /// Of the register of a store, in partitions of so many keys.
    #[must_use]
    pub fn of(store: &PostgresStore, partition_keys: u32) -> Self {
        let database = Arc::clone(&store.database);
        let board = PostgresBoard::new(Arc::clone(&database), store.feed.subscribe(Channel::Previews));
        Self { database, moments: Arc::new(Semaphore::new(MOMENTS_MAX)), board, partition_keys }
    }
}

#[async_trait::async_trait]
impl Partitions for PostgresPartitions {
    async fn moment(&self) -> Result<Arc<dyn Moment>, StoreError> {
        Ok(Arc::new(PostgresMoment::now(&self.database, &self.moments).await?))
    }

    async fn moment_called(&self, name: &str) -> Result<Arc<dyn Moment>, StoreError> {
        Ok(Arc::new(PostgresMoment::called(&self.database, &self.moments, name).await?))
    }

    fn partition_keys(&self) -> u32 {
        self.partition_keys
    }

    fn board(&self) -> &dyn Board {
        &self.board
    }
}
