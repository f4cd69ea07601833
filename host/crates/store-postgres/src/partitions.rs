//! The register in partitions, and the board of work on them.
//!
//! **Invariant:** moments and claims have connections of their own, so many and no more: a preview neither takes those of requests nor waits for
//! another preview while it holds what that one waits for.
//!
//! **Invariant:** previews of one client hold a quarter of the moments at most, so that those of others find some.

mod board;
mod moment;

use std::sync::Arc;
use std::time::Duration;

use daftar_domain::audit::Actor;
use daftar_domain::fair::FairSemaphore;
use daftar_store::StoreError;
use daftar_store::partition::{Claim, JobId, Moment, Partitions, Wanted};

use self::board::PostgresBoard;
use self::moment::PostgresMoment;
use super::PostgresStore;
use super::database::Database;
use super::feed::Channel;

/// How many moments a process holds at once. One that is asked for beyond is waited for.
const MOMENTS_MAX: usize = 8;
/// How many of them are of previews of one client.
const MOMENTS_OF_CLIENT_MAX: usize = MOMENTS_MAX / 4;

/// The register in partitions.
pub struct PostgresPartitions {
    database: Arc<Database>,
    moments: Arc<FairSemaphore<Actor>>,
    board: PostgresBoard,
    partition_keys: u32,
}

impl PostgresPartitions {
    /// Of the register of a store, in partitions of so many keys.
    #[must_use]
    pub fn of(store: &PostgresStore, partition_keys: u32) -> Self {
        let database = Arc::clone(&store.database);
        let board = PostgresBoard::new(Arc::clone(&database), store.feed.subscribe(Channel::Previews));
        let moments = FairSemaphore::new(MOMENTS_MAX, MOMENTS_OF_CLIENT_MAX);
        Self { database, moments, board, partition_keys }
    }
}

#[async_trait::async_trait]
impl Partitions for PostgresPartitions {
    async fn moment(&self, actor: &Actor) -> Result<Arc<dyn Moment>, StoreError> {
        Ok(Arc::new(PostgresMoment::now(&self.database, &self.moments, actor).await?))
    }

    async fn moment_called(&self, name: &str, actor: &Actor) -> Result<Arc<dyn Moment>, StoreError> {
        Ok(Arc::new(PostgresMoment::called(&self.database, &self.moments, name, actor).await?))
    }

    fn partition_keys(&self) -> u32 {
        self.partition_keys
    }

    async fn post(&self, task: Vec<u8>, parts: Vec<(u64, Vec<u8>)>) -> Result<JobId, StoreError> {
        self.board.post(task, parts).await
    }

    async fn claim(&self, wanted: Wanted<'_>) -> Result<Option<Claim>, StoreError> {
        self.board.claim(wanted).await
    }

    async fn finished(&self, job: JobId, known: &[u64]) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        self.board.finished(job, known).await
    }

    async fn withdraw(&self, job: JobId) -> Result<(), StoreError> {
        self.board.withdraw(job).await
    }

    async fn heard(&self, at_most: Duration) {
        self.board.heard(at_most).await;
    }
}
