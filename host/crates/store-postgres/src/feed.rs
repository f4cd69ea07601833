//! Notifications of changes by other processes (LISTEN/NOTIFY).
//!
//! **Invariant:** a process reports when it does not listen. Changes in the meantime are read when it listens again,
//! before `is_listening` is true.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::Transaction;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use daftar_store::StoreError;
use daftar_store::shared::Generation;

use super::PostgresStore;
use super::database::{Database, Link, execute};
use super::failure::Failure;
use super::rows::{history, history_of, number};
use super::supervise;

/// The first pause before the next attempt to listen.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Time without a notification after which the connection is checked.
const QUIET_MAX: Duration = Duration::from_secs(5);

daftar_domain::named_enum! {
    /// Kind of change that is notified.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Channel {
        /// Clients, configuration or plugins were changed: the number of changes so far.
        Generation = "daftar_generation",
        /// Records were written: the last write.
        Changes = "daftar_changes",
    }
}

/// Receives the changes of all processes, including this one.
pub struct PostgresFeed {
    is_listening: Arc<AtomicBool>,
    heard: [watch::Receiver<u64>; Channel::ALL.len()],
    task: JoinHandle<()>,
}

impl PostgresFeed {
    /// Begins to listen.
    pub(super) fn start(database: Arc<Database>) -> Self {
        let (listener, heard) = Listener::new(database);
        let is_listening = Arc::clone(&listener.is_listening);
        let listener = Arc::new(listener);
        let task = supervise("change_feed", move || Arc::clone(&listener).run());
        Self { is_listening, heard, task }
    }

    /// True if changes are received now. Otherwise the caller must query the database.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        self.is_listening.load(Ordering::Acquire)
    }

    /// Changes on every notification of that channel, and when one may have been missed; contains the last number.
    #[must_use]
    pub fn subscribe(&self, channel: Channel) -> watch::Receiver<u64> {
        let [generation, changes] = &self.heard;
        match channel {
            Channel::Generation => generation.clone(),
            Channel::Changes => changes.clone(),
        }
    }
}

impl Drop for PostgresFeed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Listener {
    database: Arc<Database>,
    reported: [watch::Sender<u64>; Channel::ALL.len()],
    is_listening: Arc<AtomicBool>,
}

/// Changes are received while this exists: a panic ends it too.
struct Listening<'l>(&'l Listener);

impl<'l> Listening<'l> {
    fn begin(listener: &'l Listener) -> Self {
        listener.is_listening.store(true, Ordering::Release);
        Self(listener)
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.0.is_listening.store(false, Ordering::Release);
        // Wakes all waiting callers, so that they query the database now.
        self.0.wake();
    }
}

impl Listener {
    /// A listener that has not begun, and the receivers of its channels.
    fn new(database: Arc<Database>) -> (Self, [watch::Receiver<u64>; Channel::ALL.len()]) {
        let channels = Channel::ALL.map(|_| watch::channel(0));
        let heard = channels.each_ref().map(|(_, receiver)| receiver.clone());
        let reported = channels.map(|(sender, _)| sender);
        (Self { database, reported, is_listening: Arc::default() }, heard)
    }

    async fn run(self: Arc<Self>) {
        let mut pause = PAUSE_MIN;
        loop {
            let started = Instant::now();
            let listened = self.listen().await;
            self.database.note(started, &listened);
            if let Ok(link) = listened {
                pause = PAUSE_MIN;
                let listening = Listening::begin(&self);
                self.hear(link).await;
                drop(listening);
                tracing::warn!("changes by other processes are not received until the database responds again");
            }
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(PAUSE_MAX);
        }
    }

    async fn listen(&self) -> Result<Link, Failure> {
        let link = self.database.link("daftar (listen)").await?;
        let listened = async {
            for channel in Channel::ALL {
                link.client.batch_execute(&format!("LISTEN {}", channel.name())).await?;
            }
            // Read after LISTEN: every later change is notified.
            let row = link.client.query_one(NUMBERS, &[]).await?;
            Ok::<_, tokio_postgres::Error>((row.try_get::<_, i64>(0)?, row.try_get::<_, i64>(1)?))
        };
        let timed = tokio::time::timeout(self.database.answer_timeout(), listened).await;
        let (generation, sequence) = timed.map_err(|_| Failure::slow())??;
        self.publish(Channel::Generation, generation.unsigned_abs());
        self.publish(Channel::Changes, sequence.unsigned_abs());
        self.wake();
        Ok(link)
    }

    /// Receives notifications until the connection is lost.
    async fn hear(&self, mut link: Link) {
        loop {
            match tokio::time::timeout(QUIET_MAX, link.notifications.recv()).await {
                Ok(None) => return,
                Ok(Some(notification)) => {
                    let channel = Channel::parse(notification.channel());
                    if let (Some(channel), Ok(number)) = (channel, notification.payload().parse()) {
                        self.publish(channel, number);
                    }
                }
                Err(_) => {
                    let requested =
                        tokio::time::timeout(self.database.answer_timeout(), link.client.batch_execute("")).await;
                    if !matches!(requested, Ok(Ok(()))) {
                        return;
                    }
                }
            }
        }
    }

    fn publish(&self, channel: Channel, number: u64) {
        let [generation, changes] = &self.reported;
        match channel {
            Channel::Generation => generation.send_replace(number),
            Channel::Changes => changes.send_replace(number),
        };
    }

    /// Wakes all waiting callers.
    fn wake(&self) {
        self.reported.iter().for_each(|reported| reported.send_modify(|_| {}));
    }
}

const NUMBERS: &str = "SELECT clients_generation + deployment_generation, sequence FROM daftar.last";

/// Increments the version counter of the configuration of the deployment, and notifies it on commit.
pub(super) async fn raise_deployment(transaction: &Transaction<'_>) -> Result<(), Failure> {
    let raised = "UPDATE daftar.last SET deployment_generation = deployment_generation + 1 \
                  RETURNING clients_generation + deployment_generation";
    let statement = transaction.prepare_cached(raised).await?;
    let row = transaction.query_one(&statement, &[]).await?;
    notify(transaction, Channel::Generation, row.try_get::<_, i64>(0)?).await
}

/// Notifies a change when the transaction is committed.
pub(super) async fn notify(transaction: &Transaction<'_>, channel: Channel, number: i64) -> Result<(), Failure> {
    execute(transaction, "SELECT pg_notify($1, $2)", &[&channel.name(), &number.to_string()]).await?;
    Ok(())
}

impl PostgresStore {
    /// Returns the version counters of clients and of the configuration of the deployment, changed by any process.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn generation(&self) -> Result<Generation, StoreError> {
        let statement = concat!("SELECT clients_generation, deployment_generation, ", history!(), " FROM daftar.last");
        let row = self.database.last_row(statement, &[]).await?;
        Ok(Generation { clients: number(&row, 0)?, deployment: number(&row, 1)?, history: history_of(&row, 2)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::PostgresOptions;

    #[tokio::test]
    async fn a_panic_while_changes_are_received_is_visible_and_wakes_the_receivers() {
        let options = PostgresOptions::new("postgres://d@127.0.0.1:1/r".to_owned().into());
        let (listener, heard) = Listener::new(Arc::new(Database::new(&options).unwrap()));
        let is_listening = Arc::clone(&listener.is_listening);
        let listener = Arc::new(listener);
        let receiving = Arc::clone(&listener);
        let task = tokio::spawn(async move {
            let _listening = Listening::begin(&receiving);
            assert!(!receiving.is_listening.load(Ordering::Acquire), "on purpose");
        });
        assert!(task.await.unwrap_err().is_panic());
        assert!(!is_listening.load(Ordering::Acquire));
        assert!(heard.iter().all(|heard| heard.has_changed().unwrap()));
    }
}
