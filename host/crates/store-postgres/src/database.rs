//! The connections to the database: for reads, one for writes, one for audit entries, and those that a task owns.
//!
//! **Invariant:** every wait for the database is bounded: taking a connection, opening one and every statement have
//! limits here and in the database. A statement without a timely response or a waiting caller closes its connection.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Hook, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime, Status, Transaction};
use tokio::time::Instant;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row};
use tracing::{Instrument, info_span};

use daftar_domain::change::Sequence;
use daftar_store::StoreError;
use daftar_store::change_log::RegisterId;
use daftar_store::shared::History;

use super::OpenError;
use super::connection::{Canceller, tls_connector};
pub(super) use super::connection::{Connection, Link};
use super::failure::{Failure, Meaning, corrupt};
use super::lock_waits::LockWaits;
use super::meters::{Outage, Outages};
use super::options::{BulkLimits, PostgresOptions, Target};
use super::rows::{history, history_of, number};

/// Time to wait for a response beyond the time limit of its statement.
const ANSWER_GRACE: Duration = Duration::from_secs(2);
/// Planner options for lookups by key: reads and writes use nothing else, are planned once, and their plans must stay
/// good while tables grow. Searches have connections of their own.
const BY_KEYS: &str =
    "-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c plan_cache_mode=force_generic_plan";

/// Values of a statement.
pub(super) type Values<'v> = &'v [&'v (dyn ToSql + Sync)];

/// Runs a statement that is prepared once per connection, and returns the number of its rows.
pub(super) async fn execute(
    transaction: &Transaction<'_>,
    statement: &str,
    values: Values<'_>,
) -> Result<u64, tokio_postgres::Error> {
    let statement = transaction.prepare_cached(statement).await?;
    transaction.execute(&statement, values).await
}

/// As [`execute`], and returns the rows.
pub(super) async fn rows(
    transaction: &Transaction<'_>,
    statement: &str,
    values: Values<'_>,
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let statement = transaction.prepare_cached(statement).await?;
    transaction.query(&statement, values).await
}

/// The database.
pub(super) struct Database {
    readers: Pool,
    searchers: Pool,
    writers: Pool,
    auditors: Pool,
    target: Target,
    canceller: Canceller,
    connect_timeout: Duration,
    answer_timeout: Duration,
    pub(super) lock_timeout: Duration,
    pub(super) outages: Arc<Outages>,
    pub(super) outage: Outage,
    pub(super) lock_waits: LockWaits,
    pub(super) bulk: BulkLimits,
    tag: String,
}

impl Database {
    /// Creates the pools; does not connect yet.
    pub(super) fn new(options: &PostgresOptions) -> Result<Self, OpenError> {
        let target = options.target()?;
        let tls = if target.is_tls {
            let connector = tls_connector(options.ca_file.as_deref());
            Some(connector.map_err(|reason| OpenError::Tls { place: target.place.clone(), reason })?)
        } else {
            None
        };
        let outages = Arc::new(Outages::default());
        let pool = |config: Config, size: usize| {
            let manager_config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
            let manager = match &tls {
                Some(tls) => Manager::from_config(config, tls.clone(), manager_config),
                None => Manager::from_config(config, NoTls, manager_config),
            };
            let outages = Arc::clone(&outages);
            Pool::builder(manager)
                .max_size(size)
                .runtime(Runtime::Tokio1)
                .wait_timeout(Some(options.acquire_timeout))
                .create_timeout(Some(options.connect_timeout))
                .recycle_timeout(Some(options.connect_timeout))
                .post_create(Hook::sync_fn(move |_, _| {
                    outages.note_connection();
                    Ok(())
                }))
                .build()
                .map_err(|error| OpenError::Url(error.to_string()))
        };
        // Names this process in `pg_stat_activity`.
        let tag: String = RegisterId::draw().to_string().chars().take(6).chain([')']).collect();
        // Less than the statement timeout, so that a lock and a slow statement are distinguished.
        let lock_timeout = options.lock_timeout.min(options.statement_timeout.saturating_mul(3) / 4).as_millis().max(1);
        let with = |purpose: &str, options: &str| {
            let mut config = target.config.clone();
            let name = config.get_application_name().unwrap_or("daftar").to_owned();
            config.application_name(format!("{name} ({purpose} {tag}"));
            let given = config.get_options().unwrap_or_default();
            config.options(format!("{given} -c lock_timeout={lock_timeout} {options}"));
            config
        };
        let searchers = options.connections_max.div_euclid(2).max(1);
        Ok(Self {
            readers: pool(with("read", BY_KEYS), options.connections_max.saturating_sub(searchers).max(1))?,
            searchers: pool(with("search", super::index::SEARCH_OPTIONS), searchers)?,
            writers: pool(with("write", BY_KEYS), 1)?,
            auditors: pool(with("audit", BY_KEYS), 1)?,
            canceller: Canceller::new(tls, options.connect_timeout),
            connect_timeout: options.connect_timeout,
            answer_timeout: options.statement_timeout.saturating_add(ANSWER_GRACE),
            lock_timeout: options.lock_timeout,
            bulk: options.bulk,
            outages,
            outage: Outage::default(),
            lock_waits: LockWaits::default(),
            tag,
            target,
        })
    }

    /// Host and database, for messages.
    pub(super) fn place(&self) -> &str {
        &self.target.place
    }

    /// Number of connections for reads and searches, of idle ones and of waiting callers.
    pub(super) fn status(&self) -> Status {
        let (readers, searchers) = (self.readers.status(), self.searchers.status());
        Status {
            max_size: readers.max_size.saturating_add(searchers.max_size),
            size: readers.size.saturating_add(searchers.size),
            available: readers.available.saturating_add(searchers.available),
            waiting: readers.waiting.saturating_add(searchers.waiting),
        }
    }

    /// True if it is unavailable, as far as is known.
    pub(super) fn is_unavailable(&self) -> bool {
        self.outage.is_on()
    }

    /// Notes the outcome of a read that started then.
    pub(super) fn note<T>(&self, started: Instant, outcome: &Result<T, Failure>) {
        self.outage.note_read(started, outcome);
    }

    /// Notes the outcome of a write that started then.
    pub(super) fn note_write<T>(&self, started: Instant, outcome: &Result<T, Failure>) {
        self.outage.note_write(started, outcome);
    }

    /// Suffix of the application names of this process's pools.
    pub(super) fn tag(&self) -> &str {
        &self.tag
    }

    /// Takes a connection for reads.
    pub(super) async fn connection(&self) -> Result<Connection, Failure> {
        self.taken(&self.readers).await
    }

    /// Takes the connection for writes. Only the writer does.
    pub(super) async fn writer(&self) -> Result<Connection, Failure> {
        self.taken(&self.writers).await
    }

    /// Takes the connection for audit entries. Only their writer does.
    pub(super) async fn auditor(&self) -> Result<Connection, Failure> {
        self.taken(&self.auditors).await
    }

    async fn taken(&self, pool: &Pool) -> Result<Connection, Failure> {
        let started = Instant::now();
        let taken = pool.get().await.map_err(Failure::from);
        if taken.is_err() {
            self.note(started, &taken);
        }
        Ok(Connection::new(taken?, self.answer_timeout, self.canceller.clone()))
    }

    /// Runs one statement; again on another connection if the first was closed.
    pub(super) async fn query(&self, statement: &str, values: Values<'_>) -> Result<Vec<Row>, StoreError> {
        Ok(self.answer(statement, values).await?)
    }

    /// As [`Database::query`], on a connection whose statements are planned for their values.
    pub(super) async fn search(&self, statement: &str, values: Values<'_>) -> Result<Vec<Row>, StoreError> {
        Ok(self.answer_of(&self.searchers, statement, values).await?)
    }

    /// As [`Database::query`], with the failure itself.
    pub(super) async fn answer(&self, statement: &str, values: Values<'_>) -> Result<Vec<Row>, Failure> {
        self.answer_of(&self.readers, statement, values).await
    }

    async fn answer_of(&self, pool: &Pool, statement: &str, values: Values<'_>) -> Result<Vec<Row>, Failure> {
        let ask = async || self.watched(async { self.taken(pool).await?.query(statement, values).await }).await;
        let started = Instant::now();
        let requested = async {
            let first = ask().await;
            match first {
                Err(failure) if failure.meaning == Meaning::Unreachable => {
                    self.outages.note_retry();
                    ask().await
                }
                answered => answered,
            }
        };
        let answered = requested.instrument(info_span!("store.read")).await;
        self.note(started, &answered);
        answered
    }

    /// As [`Database::query`], for one row at most.
    pub(super) async fn query_opt(&self, statement: &str, values: Values<'_>) -> Result<Option<Row>, StoreError> {
        Ok(self.query(statement, values).await?.into_iter().next())
    }

    /// As [`Database::query`], for the row of last numbers.
    pub(super) async fn last_row(&self, statement: &str, values: Values<'_>) -> Result<Row, StoreError> {
        let row = self.query_opt(statement, values).await?;
        row.ok_or_else(|| corrupt("row of last numbers", "it is not there"))
    }

    /// The timeline of the database, and the last write.
    pub(super) async fn last(&self) -> Result<(History, Sequence), StoreError> {
        let row = self.last_row(concat!("SELECT sequence, ", history!(), " FROM daftar.last"), &[]).await?;
        Ok((history_of(&row, 1)?, Sequence(number(&row, 0)?)))
    }

    /// Opens a connection outside the pools, with its notifications.
    pub(super) async fn link(&self, application: &str) -> Result<Link, Failure> {
        let mut config = self.target.config.clone();
        config.application_name(application);
        let connecting = Link::connect(&config, self.canceller.clone());
        let linked = tokio::time::timeout(self.connect_timeout, connecting).await;
        linked.unwrap_or_else(|_| {
            Err(Failure::new(Meaning::Unreachable, "the database did not take a connection in time"))
        })
    }

    /// True if a session has the options of its startup packet: a pooler in between may drop them.
    pub(super) async fn has_session_options(&self, client: &Client) -> Result<bool, Failure> {
        let limit = "SELECT setting::bigint FROM pg_settings WHERE name = 'statement_timeout'";
        let limit: i64 = client.query_one(limit, &[]).await?.try_get(0)?;
        Ok(u128::try_from(limit).ok() == Some(self.answer_timeout.saturating_sub(ANSWER_GRACE).as_millis().max(1)))
    }

    /// Closes the connections of the pools.
    pub(super) fn close(&self) {
        self.readers.close();
        self.searchers.close();
        self.writers.close();
        self.auditors.close();
    }

    /// The maximum time to wait for a response.
    pub(super) fn answer_timeout(&self) -> Duration {
        self.answer_timeout
    }
}
