//! What processes share in the database beside the records: counts of calls, plugins, whose turn it is.

mod limits;
mod plugins;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::database::{Database, Link};
use super::failure::{Failure, Meaning};
use super::rows::signed;
use super::{Channel, PostgresStore, locks};
use daftar_store::StoreError;
use daftar_store::generation::{Feed, Generation, History};
use daftar_store::shared::{Shared, Turn};

/// The longest that the turn is waited for: a plugin may take its compiler's whole time.
const TURN_WAIT: Duration = Duration::from_secs(120);
/// After so long it is logged that it is waited for.
const TURN_LOGGED: Duration = Duration::from_secs(1);
/// How often it is asked whether it has come.
const TURN_PAUSE: Duration = Duration::from_millis(25);

/// What processes share.
pub struct PostgresShared {
    store: Arc<PostgresStore>,
    heard: Mutex<watch::Receiver<u64>>,
    /// The same, for whoever looks and does not wait.
    last_heard: watch::Receiver<u64>,
}

impl PostgresShared {
    /// What the processes of that register share.
    #[must_use]
    pub fn of(store: Arc<PostgresStore>) -> Self {
        let last_heard = store.feed().subscribe(Channel::Generation);
        Self { store, heard: Mutex::new(last_heard.clone()), last_heard }
    }

    fn database(&self) -> &Database {
        &self.store.database
    }
}

#[async_trait::async_trait]
impl Feed for PostgresShared {
    async fn generation(&self) -> Result<Generation, StoreError> {
        self.store.generation().await
    }

    async fn heard(&self) {
        if self.heard.lock().await.changed().await.is_err() {
            // Nobody tells of anything any more: the store is closed.
            std::future::pending::<()>().await;
        }
    }

    fn is_listening(&self) -> bool {
        self.store.feed().is_listening()
    }

    fn rest_on(&self, history: History, since: Option<Timestamp>) {
        self.store.basis.set(history, since);
    }

    fn heard_of(&self) -> u64 {
        *self.last_heard.borrow()
    }
}

/// Held on a connection of its own: when that is gone, so is the turn.
struct HeldTurn {
    _link: Link,
}

impl Turn for HeldTurn {}

#[async_trait::async_trait]
impl Shared for PostgresShared {
    async fn turn(&self) -> Result<Box<dyn Turn>, StoreError> {
        let link = self.database().link("daftar (turn)").await?;
        let asked = Instant::now();
        let (until, mut is_logged) = (asked + TURN_WAIT, false);
        loop {
            let locked = link.client.query_one("SELECT pg_try_advisory_lock($1)", &[&locks::TURN]);
            let answered = tokio::time::timeout(self.database().answer_timeout(), locked).await;
            let row = answered.map_err(|_| Failure::slow())?.map_err(|error| Failure::from(&error))?;
            if row.try_get::<_, bool>(0).map_err(|error| Failure::from(&error))? {
                if is_logged {
                    let waited_ms = asked.elapsed().as_secs_f64() * 1_000.0;
                    tracing::info!(waited_ms, "the other server has changed plugins or settings");
                }
                return Ok(Box::new(HeldTurn { _link: link }));
            }
            if !is_logged && asked.elapsed() >= TURN_LOGGED {
                is_logged = true;
                tracing::info!("waiting for another server that changes plugins or settings, as at its first start");
            }
            if Instant::now() >= until {
                let reason = "another process has been changing plugins or settings for two minutes";
                return Err(Failure::new(Meaning::Exhausted, reason).into());
            }
            tokio::time::sleep(TURN_PAUSE).await;
        }
    }

    async fn keep_once(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        let kept = "INSERT INTO daftar.kept_once (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
        self.database().query(kept, &[&name, &value]).await?;
        let row = self.database().query_opt("SELECT value FROM daftar.kept_once WHERE name = $1", &[&name]).await?;
        let row = row.ok_or_else(|| StoreError::Failed("what was kept once is gone".into()))?;
        row.try_get(0).map_err(|error| Failure::from(&error).into())
    }

    async fn time(&self) -> Result<Timestamp, StoreError> {
        let statement = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
        let row = self.database().query_opt(statement, &[]).await?;
        let row = row.ok_or_else(|| StoreError::Failed("the database did not return its time".into()))?;
        let time: i64 = row.try_get(0).map_err(|error| Failure::from(&error))?;
        Timestamp::from_microsecond(time).map_err(|error| StoreError::Failed(error.into()))
    }
}

/// A number as the database has it.
fn number(value: impl Into<u64>) -> i64 {
    signed(value.into())
}

#[cfg(test)]
mod tests;
