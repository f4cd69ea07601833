//! Prepares a database: its tables in the layout of this version, and the row of last numbers.
//!
//! **Invariant:** only the role that owns the schema changes tables. A role with rights on them uses existing ones.
//!
//! **Invariant:** one process at a time changes tables, and tables that a newer daftar has changed are left unchanged.
//! An older daftar uses them as long as the newer one permits it: `daftar.last` contains the oldest layout that is
//! compatible. A step that adds tables, indexes, and columns that may be null or have a default does not change that
//! value; any other step raises it, for the row and as the default.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio_postgres::Client;

use daftar_store::BEFORE_FIRST_RELEASE;
use daftar_store::change_log::RegisterId;

use super::database::{Database, Link};
use super::failure::{Failure, Meaning};
use super::locks;
use super::reporting::{self, ViewsOutcome};
use super::rows::signed;

/// The table in which applied migrations are recorded.
const HISTORY: &str = "daftar.layout_history";
/// The table in which they were recorded before the first release.
const HISTORY_BEFORE_FIRST_RELEASE: &str = "daftar.schema_history";
/// Maximum time to wait for another process that changes tables.
const LOCK_WAIT: Duration = Duration::from_secs(120);

/// The row of last numbers. Never inserted next to the remains of a register that lost its row: keys would be reused.
const FIRST_ROW: &str = "INSERT INTO daftar.last (register) SELECT $1::bytea \
    WHERE NOT EXISTS (SELECT FROM daftar.record) AND NOT EXISTS (SELECT FROM daftar.change) \
    AND NOT EXISTS (SELECT FROM daftar.audit) AND NOT EXISTS (SELECT FROM daftar.client) \
    AND NOT EXISTS (SELECT FROM daftar.setting) AND NOT EXISTS (SELECT FROM daftar.code) \
    ON CONFLICT DO NOTHING";

mod steps {
    refinery::embed_migrations!("src/migrations");
}

/// Reasons why a register in PostgreSQL cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL is invalid.
    #[error("the URL of the database is not `postgres://<role>:<password>@<host>:<port>/<database>`: {0}")]
    Url(String),
    /// TLS is unavailable.
    #[error("no TLS to the {place}: {reason}")]
    Tls {
        /// The database.
        place: String,
        /// The reason.
        reason: String,
    },
    /// It is unavailable, or rejects the connection.
    #[error("the {place} cannot be reached: {reason}")]
    Unreachable {
        /// The database.
        place: String,
        /// The reason and the remedy.
        reason: String,
    },
    /// An unsupported connection pooler is in between.
    #[error(
        "the connection to the {place} goes through a pooler such as PgBouncer, which drops what a session begins with: name PostgreSQL itself. daftar has pools of its own, and sessions with their time limits, prepared statements, LISTEN and locks"
    )]
    Pooled {
        /// The database.
        place: String,
    },
    /// The database denies the role access or a required privilege.
    #[error("the {place} refuses this role: {reason}")]
    Denied {
        /// The database.
        place: String,
        /// The reason and the remedy.
        reason: String,
    },
    /// The server has no database of that name.
    #[error("the {place} is not there: {reason}")]
    NoDatabase {
        /// The database.
        place: String,
        /// The server's message, and the remedy.
        reason: String,
    },
    /// It is read-only.
    #[error("the {place} takes no writes: name the primary, or end its read-only state")]
    ReadOnly {
        /// The database.
        place: String,
    },
    /// Another process is changing its tables.
    #[error(
        "another process has been changing the tables of the {place} for {seconds} seconds: check what it does, and try again"
    )]
    Busy {
        /// The database.
        place: String,
        /// Time waited.
        seconds: u64,
    },
    /// A newer daftar has changed it, and an older one cannot use it.
    #[error(
        "the {place} has layout {found}, and this daftar knows layouts up to {known}: use the newer daftar that changed it"
    )]
    Newer {
        /// The database.
        place: String,
        /// The layout found.
        found: i64,
        /// The newest one that is known.
        known: i64,
    },
    /// A daftar from before the first release created its tables.
    #[error("the {place} {BEFORE_FIRST_RELEASE}")]
    BeforeFirstRelease {
        /// The database.
        place: String,
    },
    /// Its tables cannot be created or upgraded.
    #[error("the tables of the {place} cannot be made ready: {reason}")]
    Tables {
        /// The database.
        place: String,
        /// The reason and the remedy.
        reason: String,
    },
    /// It contains a register, and only an empty one can be filled.
    #[error("the {place} holds a register, and only an empty one is filled: name another database")]
    NotEmpty {
        /// The database.
        place: String,
    },
    /// It was not filled from another store, so it cannot be caught up.
    #[error(
        "no register was moved into the {place} from a folder: name the database that was filled by `daftar migrate fill --to postgres --backup FILE`, or fill an empty one so first"
    )]
    NotFilled {
        /// The database.
        place: String,
    },
    /// It was caught up, and not compared with its source to the end, or differs from it.
    #[error(
        "the register in the {place} was caught up, and not compared with its source to the end, or they differ: run `daftar migrate catch-up --to postgres` again"
    )]
    NotCompared {
        /// The database.
        place: String,
    },
    /// It was written to since it was filled.
    #[error(
        "the {place} was written to since the register was moved into it: {how}; later writes to the folder can no longer be applied. Continue with the database as it is, or continue with the folder and fill an empty database from it"
    )]
    WrittenSince {
        /// The database.
        place: String,
        /// Its position, and the expected position.
        how: String,
    },
}

/// The newest layout that this version knows.
pub(super) fn known_layout() -> i64 {
    steps::migrations::runner().get_migrations().iter().map(|step| i64::from(step.version())).max().unwrap_or(0)
}

/// A database that was opened.
struct Opened {
    link: Link,
    register: RegisterId,
    /// The layout of the tables before; `None` if there were none.
    before: Option<i64>,
    /// The layout of the tables now.
    layout: i64,
}

/// Connects, upgrades tables and views to this version if permitted (`makes_tables`), and returns the register's id.
/// Views that cannot be upgraded are logged.
pub(super) async fn open(database: &Database, makes_tables: bool) -> Result<RegisterId, OpenError> {
    let Opened { mut link, register, layout, .. } = opened(database, makes_tables).await?;
    if makes_tables && layout == known_layout() {
        // A new field in the schema of records is a column of a view, without a step of the layout.
        reporting::make(&mut link.client).await;
    }
    Ok(register)
}

/// Connects, and upgrades the tables to this version's layout if permitted.
async fn opened(database: &Database, makes_tables: bool) -> Result<Opened, OpenError> {
    let place = || database.place().to_owned();
    let link = database.link("daftar (open)").await.map_err(|failure| unreachable(database, &failure))?;
    if !database.has_session_options(&link.client).await.map_err(|failure| unreachable(database, &failure))? {
        return Err(OpenError::Pooled { place: place() });
    }
    let failed = |failure: Failure| failed(database, &failure);
    if is_before_first_release(&link.client).await.map_err(failed)? {
        return Err(OpenError::BeforeFirstRelease { place: place() });
    }
    let known = known_layout();
    let before = layout(&link.client).await.map_err(failed)?;
    let is_ready = before > Some(known) || (before == Some(known) && has_row(&link.client).await.map_err(failed)?);
    if is_ready {
        let register = checked(database, &link, before, known).await?;
        return Ok(Opened { link, register, before, layout: before.unwrap_or(known) });
    }
    if !makes_tables {
        let reason = match before {
            None => "there is no register in it",
            Some(_) => {
                "its tables are of an older daftar: `daftar migrate prepare`, or a server that starts with the role that owns them, brings them up to date"
            }
        };
        return Err(OpenError::Tables { place: place(), reason: reason.to_owned() });
    }
    let link = migrated(database, link).await?;
    let now = layout(&link.client).await.map_err(failed)?;
    let register = checked(database, &link, now, known).await?;
    Ok(Opened { link, register, before, layout: now.unwrap_or_default() })
}

/// Layouts before and after the preparation of a database, and the outcome for its views.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// The layout of the tables before; `None` if there were none.
    pub before: Option<i64>,
    /// The layout of the tables now.
    pub layout: i64,
    /// Outcome for the views of the schema `reporting`.
    pub views: ViewsOutcome,
}

/// Upgrades tables and views to this version, and returns the outcome. Waits for reports that use a view.
pub(super) async fn prepare(database: &Database) -> Result<Prepared, OpenError> {
    let Opened { mut link, before, layout, .. } = opened(database, true).await?;
    let views = if layout == known_layout() {
        reporting::make_within(&mut link.client, reporting::PATIENCE).await
    } else {
        ViewsOutcome::Unchanged
    };
    Ok(Prepared { before, layout, views })
}

async fn checked(database: &Database, link: &Link, found: Option<i64>, known: i64) -> Result<RegisterId, OpenError> {
    let place = || database.place().to_owned();
    let found = found.unwrap_or(0);
    let unreadable = |reason: &str| OpenError::Tables { place: place(), reason: reason.to_owned() };
    let row = link.client.query_opt("SELECT register, oldest_layout FROM daftar.last", &[]).await;
    let row = row.map_err(|error| failed(database, &error.into()))?;
    let row: Option<(Vec<u8>, i64)> = row.and_then(|row| Some((row.try_get(0).ok()?, row.try_get(1).ok()?)));
    // A newer daftar may have created the tables but not yet the row. Then the oldest compatible layout is unknown.
    if found > known && row.as_ref().is_none_or(|(_, oldest)| *oldest > known) {
        return Err(OpenError::Newer { place: place(), found, known });
    }
    let (register, _) =
        row.ok_or_else(|| unreadable("the table `daftar.last` has lost its row: restore the database from a backup"))?;
    if found > known {
        tracing::info!(
            layout = found,
            known,
            "a newer daftar has changed the tables of the database, and this one can use them: finish the upgrade"
        );
    }
    let register = register.try_into().map_err(|_| unreadable("the id of the register is invalid"))?;
    Ok(RegisterId(register))
}

/// Returns the layout of the database; `None` if the database has none.
async fn layout(client: &Client) -> Result<Option<i64>, Failure> {
    if !has_table(client, HISTORY).await? {
        return Ok(None);
    }
    let newest = client.query_one(&format!("SELECT max(version)::bigint FROM {HISTORY}"), &[]).await?;
    Ok(newest.try_get(0)?)
}

async fn has_table(client: &Client, name: &str) -> Result<bool, Failure> {
    Ok(client.query_one("SELECT to_regclass($1::text) IS NOT NULL", &[&name]).await?.try_get(0)?)
}

/// True if the row of last numbers exists. It is inserted after the tables are created: another process may be about
/// to, or was ended before it could.
async fn has_row(client: &Client) -> Result<bool, Failure> {
    Ok(client.query_one("SELECT EXISTS (SELECT FROM daftar.last)", &[]).await?.try_get(0)?)
}

/// Upgrades the tables to the layout of this version, and inserts the first row into empty ones, under the lock.
async fn migrated(database: &Database, mut link: Link) -> Result<Link, OpenError> {
    let refused = |reason: String| OpenError::Tables { place: database.place().to_owned(), reason };
    let reported = |error: tokio_postgres::Error| failed(database, &error.into());
    may_change_tables(database, &link).await?;
    let wait =
        format!("SET statement_timeout = {}; SET idle_in_transaction_session_timeout = 0", LOCK_WAIT.as_millis());
    link.client.batch_execute(&wait).await.map_err(reported)?;
    let locked = link.client.query_one("SELECT pg_advisory_lock($1)", &[&locks::TABLES]).await;
    locked.map_err(|error| {
        if Failure::from(&error).meaning == Meaning::Interrupted {
            return OpenError::Busy { place: database.place().to_owned(), seconds: LOCK_WAIT.as_secs() };
        }
        reported(error)
    })?;
    // A step may process the complete register.
    link.client.batch_execute("SET statement_timeout = 0").await.map_err(reported)?;
    let found = layout(&link.client).await.map_err(|failure| failed(database, &failure))?.unwrap_or(0);
    let known = known_layout();
    if found > known {
        // A newer one was first. The caller checks whether this one can continue; the lock ends with the connection.
        return Ok(link);
    }
    let there = link.client.query_one("SELECT to_regnamespace('daftar') IS NOT NULL", &[]).await.map_err(reported)?;
    if !there.try_get::<_, bool>(0).map_err(reported)? {
        link.client.batch_execute("CREATE SCHEMA daftar").await.map_err(reported)?;
    }
    let mut runner = steps::migrations::runner().set_abort_missing(false);
    runner.set_migration_table_name(HISTORY);
    let done = runner.run_async(&mut link.client).await;
    done.map_err(|error| match std::error::Error::source(&error).and_then(|source| source.downcast_ref()) {
        Some(source) => refused(Failure::from(source).to_string()),
        None => refused(error.to_string()),
    })?;
    let id = RegisterId::draw();
    link.client.execute(FIRST_ROW, &[&id.0.as_slice()]).await.map_err(reported)?;
    link.client.execute("SELECT pg_advisory_unlock($1)", &[&locks::TABLES]).await.map_err(reported)?;
    let limits = "RESET statement_timeout; RESET idle_in_transaction_session_timeout";
    link.client.batch_execute(limits).await.map_err(reported)?;
    let known = signed(known.unsigned_abs());
    tracing::info!(layout = known, "the tables of the database are up to date");
    Ok(link)
}

/// Checks that the role may change the tables; the error names the role that may.
async fn may_change_tables(database: &Database, link: &Link) -> Result<(), OpenError> {
    const OWNER: &str = "SELECT pg_get_userbyid(nspowner)::text, current_user::text, pg_has_role(nspowner, 'USAGE') \
                         FROM pg_namespace WHERE nspname = 'daftar'";
    const MAKER: &str = "SELECT current_user::text, has_database_privilege(current_database(), 'CREATE')";
    let row = link.client.query_opt(OWNER, &[]).await.map_err(|error| failed(database, &error.into()))?;
    let read = |error: tokio_postgres::Error| failed(database, &error.into());
    let denied = |reason| Err(OpenError::Denied { place: database.place().to_owned(), reason });
    let known = known_layout();
    if let Some(row) = row {
        let (owner, role): (String, String) = (row.try_get(0).map_err(read)?, row.try_get(1).map_err(read)?);
        if row.try_get(2).map_err(read)? {
            return Ok(());
        }
        let found = match layout(&link.client).await.map_err(|failure| failed(database, &failure))? {
            None => "there are no tables in it yet".to_owned(),
            Some(found) if found == known => "the table `daftar.last` has no row".to_owned(),
            Some(found) => format!("its tables are of layout {found}"),
        };
        return denied(format!(
            "{found}, this daftar needs layout {known}, and the schema `daftar` belongs to the role `{owner}`, not to `{role}`: \
             run `daftar migrate prepare` with the URL of `{owner}` first"
        ));
    }
    let row = link.client.query_one(MAKER, &[]).await.map_err(read)?;
    if row.try_get(1).map_err(read)? {
        return Ok(());
    }
    let role: String = row.try_get(0).map_err(read)?;
    denied(format!(
        "there is no schema `daftar`, and the role `{role}` may not make it: GRANT CREATE ON DATABASE … TO …, or \
         CREATE SCHEMA daftar AUTHORIZATION …; or run `daftar migrate prepare` with the URL of a role that may"
    ))
}

/// True if a program from before the first release created its tables: steps of the same number differ, or were
/// removed. Steps of a release never change, so its registers have those of every program that knows their layout.
async fn is_before_first_release(client: &Client) -> Result<bool, Failure> {
    if has_table(client, HISTORY_BEFORE_FIRST_RELEASE).await? {
        return Ok(true);
    }
    if !has_table(client, HISTORY).await? {
        return Ok(false);
    }
    let rows = client.query(&format!("SELECT version::bigint, name::text, checksum::text FROM {HISTORY}"), &[]).await?;
    let mut done = BTreeMap::new();
    for row in &rows {
        done.insert(row.try_get::<_, i64>(0)?, (row.try_get::<_, String>(1)?, row.try_get::<_, String>(2)?));
    }
    let newest = done.keys().next_back().copied().unwrap_or_default();
    let runner = steps::migrations::runner();
    let mut known = runner.get_migrations().iter().filter(|step| i64::from(step.version()) <= newest);
    let is_done = |step: &refinery::Migration| {
        let same = (step.name().to_owned(), step.checksum().to_string());
        done.get(&i64::from(step.version())) == Some(&same)
    };
    Ok(!known.all(is_done))
}

/// The error for a failure of a database that is available.
fn failed(database: &Database, failure: &Failure) -> OpenError {
    let place = database.place().to_owned();
    match failure.meaning {
        Meaning::ReadOnly => OpenError::ReadOnly { place },
        Meaning::Unreachable => unreachable(database, failure),
        Meaning::Refused if failure.is_of("42501") => {
            let right =
                "see that the role has the rights that host/docs/POSTGRESQL.md gives it under \"Roles and database\"";
            OpenError::Denied { place, reason: format!("{failure}; {right}") }
        }
        Meaning::Slow
        | Meaning::Interrupted
        | Meaning::Locked
        | Meaning::Exhausted
        | Meaning::Conflict
        | Meaning::DiskFull
        | Meaning::Refused => OpenError::Tables { place, reason: failure.to_string() },
    }
}

/// The error, with a remedy, for a database that is unavailable.
fn unreachable(database: &Database, failure: &Failure) -> OpenError {
    let (place, message) = (database.place().to_owned(), failure.to_string());
    if message.contains("unsupported startup parameter") {
        return OpenError::Pooled { place };
    }
    if message.contains("(3D000)") {
        let reason = format!("{message}; create the database first, as with `createdb`");
        return OpenError::NoDatabase { place, reason };
    }
    // Rejected by password, for this role, or for this database.
    if ["(28P01)", "(28000)", "(42501)"].iter().any(|code| message.contains(code)) {
        let right =
            "see that the role and its password are those of the database, and that `pg_hba.conf` lets it in from here";
        return OpenError::Denied { place, reason: format!("{message}; {right}") };
    }
    let right = if message.contains("(53300)") {
        "; let the server have more connections (`max_connections`), or this process fewer"
    } else if message.contains("TLS") || message.contains("certificate") {
        "; see that the certificate of the server is for this host and comes from the authorities that are trusted here"
    } else {
        "; see that it runs and can be reached from here"
    };
    OpenError::Unreachable { place, reason: format!("{message}{right}") }
}
