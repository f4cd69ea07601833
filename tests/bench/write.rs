//! Acknowledged creates and changes over HTTP, all checks on, against the bare store and against a bare handler that reads the same
//! bodies and sends the same answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use daftar::domain::change::Change;
use daftar::store::sled::{SledOptions, SledStore};
use daftar::store::{ChangeSink, Operation, Store, Write};
use tokio::task::JoinSet;

use crate::load::{self, OfKind, Request};
use crate::people::{Codes, bodies, person};
use crate::register::{SEED, fill};
use crate::server::{Server, bare};

/// How long a round lasts at most.
const ROUND: Duration = Duration::from_secs(4);
/// How many rounds each gets, in turn.
const ROUNDS: u64 = 5;
/// The most creates of a round.
const CREATES_MAX: u64 = 40_000;

/// Runs the benchmark and prints its figures.
pub fn run() -> Result<(), String> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(measure())
}

async fn measure() -> Result<(), String> {
    println!("write: {ROUNDS} rounds of {} s each; load generator and server share the machine", ROUND.as_secs());
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let server = Server::start(folder.path()).await?;
    let generation = server.app.registry.vocabularies.current();
    let codes = Codes::of(&generation)?;
    let mut next = 1;
    let mut creates = |count: u64| -> Result<Arc<Vec<Request>>, String> {
        let request = |id| {
            let body = bodies::body(&*person(SEED, id, &codes)?, &generation);
            Ok(Request { kind: 0, bytes: bodies::request("POST", "/Individual", &server.token, "", &body) })
        };
        let requests: Result<Vec<Request>, String> = (next..next + count).map(request).collect();
        next += count;
        Ok(Arc::new(requests?))
    };
    let (warm, _) = load::run_once(server.address, creates(2_000)?, 16, ROUND).await?;
    let body = warm.first().map(|of_kind| of_kind.body.clone()).unwrap_or_default();
    println!("write: an answer to a create has {} bytes", body.len());
    let bare_address = bare(body).await?;

    for connections in [1, 16] {
        let most = if connections == 1 { CREATES_MAX / 4 } else { CREATES_MAX };
        let (mut rates, mut of_bare, mut of_store) = (Vec::new(), Vec::new(), Vec::new());
        for round in 1..=ROUNDS {
            let (ours, seconds) = load::run_once(server.address, creates(most)?, connections, ROUND).await?;
            let ours = Taken::of(&ours, seconds);
            let (theirs, seconds) = load::run_once(bare_address, creates(most)?, connections, ROUND).await?;
            let theirs = Taken::of(&theirs, seconds);
            let store = bare_store(connections, most, &codes).await?;
            println!(
                "write: {connections:>2} writers, round {round}: daftar {:.0}/s (median {:.0} us, p99 {:.0} us), bare handler {:.0}/s, bare store {store:.0}/s",
                ours.per_second, ours.median_us, ours.p99_us, theirs.per_second
            );
            rates.push(ours.per_second);
            of_bare.push(ours.per_second / theirs.per_second);
            of_store.push(ours.per_second / store);
        }
        let target = if connections == 16 { " (target 5000)" } else { "" };
        println!(
            "write: {connections:>2} writers: median {:.0} creates/s{target}, {:.3} of a bare handler, {:.3} of the bare store",
            median(&mut rates),
            median(&mut of_bare),
            median(&mut of_store)
        );
    }
    server.stop().await;
    changes(&codes).await
}

/// Patches of people that were not changed before, each at its first version.
async fn changes(codes: &Codes) -> Result<(), String> {
    let count = 8_000;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let server = Server::start(folder.path()).await?;
    fill(&server, ROUNDS * count).await?;
    let mut rates = Vec::new();
    for round in 0..ROUNDS {
        let mut requests = Vec::new();
        for id in (1 + round * count..).take(count as usize) {
            let person = person(SEED, id, codes)?;
            let Some(identifier) = person.details.identifiers.first() else { continue };
            let system = identifier.key.system.as_str().replace('#', "%23");
            let path = format!("/Individual/{system}%7C{}", identifier.key.value.as_str());
            let body = r#"{"name":{"family":"Traoré","given":"Moussa"},"active":true}"#;
            let bytes = bodies::request("PATCH", &path, &server.token, "If-Match: \"1\"\r\n", body);
            requests.push(Request { kind: 0, bytes });
        }
        let (ours, seconds) = load::run_once(server.address, Arc::new(requests), 16, ROUND).await?;
        let ours = Taken::of(&ours, seconds);
        println!(
            "write: 16 writers, round {}: {:.0} changes/s (median {:.0} us, p99 {:.0} us)",
            round + 1,
            ours.per_second,
            ours.median_us,
            ours.p99_us
        );
        rates.push(ours.per_second);
    }
    println!("write: 16 writers: median {:.0} changes/s", median(&mut rates));
    server.stop().await;
    Ok(())
}

/// What a round took.
pub struct Taken {
    /// Answers a second.
    pub per_second: f64,
    /// The median time of an answer, in microseconds.
    pub median_us: f64,
    /// The time that 99 of 100 answers stay below, in microseconds.
    pub p99_us: f64,
}

impl Taken {
    /// Of the requests of one kind.
    pub fn of(kinds: &[OfKind], seconds: f64) -> Self {
        let none = OfKind::default();
        let kind = kinds.first().unwrap_or(&none);
        Self { per_second: kind.times_us.len() as f64 / seconds, median_us: kind.at(0.5), p99_us: kind.at(0.99) }
    }
}

/// The middle one.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

struct Deaf;

impl ChangeSink for Deaf {
    fn apply(&self, _: &[Change]) {}
}

/// Creates a second in a store of its own, without anything above it: no audit lines, no codes to check, nobody who searches.
async fn bare_store(writers: usize, most: u64, codes: &Codes) -> Result<f64, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let store = SledStore::open(folder.path(), SledOptions::default()).map_err(|error| error.to_string())?;
    store.attach_sink(Arc::new(Deaf)).map_err(|error| error.to_string())?;
    let store = Arc::new(store);
    let mut shares: Vec<Vec<Operation>> = (0..writers).map(|_| Vec::new()).collect();
    for id in 1..=most {
        let operation = Operation::create(person(SEED, id, codes)?.details.clone());
        if let Some(share) = shares.get_mut(usize::try_from(id).unwrap_or_default() % writers) {
            share.push(operation);
        }
    }
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for share in shares {
        let store = store.clone();
        tasks.spawn(async move {
            let mut written = 0_u64;
            for operation in share {
                if started.elapsed() >= ROUND {
                    break;
                }
                let write = Write {
                    at: jiff::Timestamp::UNIX_EPOCH,
                    source: None,
                    operations: vec![operation],
                    audit: Vec::new(),
                    rests_on: Vec::new(),
                };
                store.commit(write).await.map_err(|error| error.to_string())?;
                written += 1;
            }
            Ok::<_, String>(written)
        });
    }
    let mut written = 0;
    while let Some(done) = tasks.join_next().await {
        written += done.map_err(|error| error.to_string())??;
    }
    Ok(written as f64 / started.elapsed().as_secs_f64())
}
