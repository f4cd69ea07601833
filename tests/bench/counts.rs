//! What it costs that several processes count calls together: in PostgreSQL, as they do, and in Redis, which could take its place.
//!
//! Both give the same answers: that is looked at before anything is measured. Both run on this machine, and write to its disk what they
//! promise to keep: a day's count, not a minute's.

mod redis;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use daftar::store::postgres::{PostgresOptions, PostgresShared, PostgresStore};
use daftar::store::shared::{Lease, SharedLimits as _, Take};
use daftar_test_postgres::Server as Database;
use secrecy::SecretString;
use tokio::task::JoinSet;

use self::redis::Redis;
use crate::cpu;
use crate::start::runtime;

/// How many clients have calls counted.
const CLIENTS: u64 = 1_000;
/// How long each is measured.
const ROUND: Duration = Duration::from_secs(4);
/// A block of a day as an ordinary limit has it.
const DAY: Take = Take { least: 1, most: 16, limit: u64::MAX >> 1 };
/// A chunk of a minute of a client with 6,000 calls.
const MINUTE: Lease = Lease { per_minute: 6_000, least: 1, most: 50 };

/// Who keeps counts.
#[derive(Clone)]
enum Keeper {
    Postgres(Arc<PostgresShared>),
    Redis(Redis),
}

/// What is asked.
#[derive(Clone, Copy)]
enum Ask {
    Day,
    Minute,
}

/// Measures both and prints a table.
pub fn run() -> Result<(), String> {
    let runtime = runtime()?;
    let database = Database::start(&[("max_connections", "100")]);
    let options = PostgresOptions::new(SecretString::from(database.create_database()));
    let store = runtime.block_on(PostgresStore::open(options)).map_err(|error| error.to_string())?;
    let store = Arc::new(store);
    let mut keepers = vec![(
        "PostgreSQL",
        runtime.block_on(async { Keeper::Postgres(Arc::new(PostgresShared::of(Arc::clone(&store)))) }),
        database.pid(),
    )];
    let mut servers = Vec::new();
    for (name, appendfsync) in [("Redis, every write to disk", "always"), ("Redis, to disk once a second", "everysec")]
    {
        let server = redis::Server::start(appendfsync)?;
        keepers.push((name, Keeper::Redis(runtime.block_on(Redis::connect(server.port))?), Some(server.pid())));
        servers.push(server);
    }
    for (name, keeper, _) in &keepers {
        runtime.block_on(agrees(keeper)).map_err(|error| format!("{name}: {error}"))?;
    }
    println!(
        "| | what | callers | median, ms | p99, ms | a second | processor time each, µs |\n|---|---|---:|---:|---:|---:|---:|"
    );
    for (what, ask) in [("16 calls of a day", Ask::Day), ("50 calls of a minute", Ask::Minute)] {
        for (name, keeper, pid) in &keepers {
            for callers in [1, 16] {
                let before = pid.map_or(0.0, cpu::seconds);
                let mut times = runtime.block_on(round(keeper, ask, callers))?;
                let worked = pid.map_or(0.0, cpu::seconds) - before;
                times.sort_unstable_by(f64::total_cmp);
                let at = |part: f64| times.get((times.len() as f64 * part) as usize).copied().unwrap_or_default();
                println!(
                    "| {name} | {what} | {callers} | {:.3} | {:.3} | {:.0} | {:.0} |",
                    at(0.5) * 1e3,
                    at(0.99) * 1e3,
                    times.len() as f64 / ROUND.as_secs_f64(),
                    worked * 1e6 / times.len().max(1) as f64,
                );
            }
        }
    }
    runtime.block_on(store.close());
    Ok(())
}

/// That a keeper gives what is left and no more.
async fn agrees(keeper: &Keeper) -> Result<(), String> {
    let few = Take { least: 1, most: 16, limit: 20 };
    let mut given = Vec::new();
    for take in [few, few, few, Take { least: 2, most: 9, limit: 21 }, Take { least: 1, most: 9, limit: 21 }] {
        given.push(keeper.take("a day", take).await?);
    }
    if given != [(16, 16), (4, 20), (0, 20), (0, 20), (1, 21)] {
        return Err(format!("of a day it gave {given:?}"));
    }
    let mut given = Vec::new();
    // The next call comes back after half a minute, which is not waited for.
    for (least, most) in [(1, 1), (1, 1), (2, 9), (1, 9)] {
        given.push(keeper.lease("a minute", Lease { per_minute: 2, least, most }).await?);
    }
    if given == [1, 1, 0, 0] { Ok(()) } else { Err(format!("of a minute it gave {given:?}")) }
}

/// How long each question took, in seconds.
async fn round(keeper: &Keeper, ask: Ask, callers: usize) -> Result<Vec<f64>, String> {
    let next = Arc::new(AtomicU64::new(0));
    let until = Instant::now() + ROUND;
    let mut asking = JoinSet::new();
    for _ in 0..callers {
        let (keeper, next) = (keeper.clone(), Arc::clone(&next));
        asking.spawn(async move {
            let mut times = Vec::new();
            while Instant::now() < until {
                let name = format!("limits/client/{}", next.fetch_add(1, Ordering::Relaxed) % CLIENTS);
                let asked = Instant::now();
                match ask {
                    Ask::Day => drop(keeper.take(&name, DAY).await?),
                    Ask::Minute => drop(keeper.lease(&name, MINUTE).await?),
                }
                times.push(asked.elapsed().as_secs_f64());
            }
            Ok::<_, String>(times)
        });
    }
    let mut all = Vec::new();
    while let Some(times) = asking.join_next().await {
        all.extend(times.map_err(|error| error.to_string())??);
    }
    Ok(all)
}

impl Keeper {
    /// What was given of a day, and its count.
    async fn take(&self, name: &str, take: Take) -> Result<(u64, u64), String> {
        match self {
            Self::Postgres(shared) => {
                let taken = shared.take(name, take).await.map_err(|error| error.to_string())?;
                Ok((taken.taken, taken.count))
            }
            Self::Redis(redis) => redis.take(name, take).await,
        }
    }

    /// What was given of a minute.
    async fn lease(&self, name: &str, lease: Lease) -> Result<u64, String> {
        match self {
            Self::Postgres(shared) => {
                Ok(shared.lease(name, lease).await.map_err(|error| error.to_string())?.calls.into())
            }
            Self::Redis(redis) => redis.lease(name, lease).await,
        }
    }
}
