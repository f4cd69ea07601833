//! What the worst that one client may send costs another: rules that are expensive to explain, and previews whose lines it does not read.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use daftar_test_postgres::Server as Database;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::load::{connect_from, read_any, time_us};
use crate::postgres::{beside, migrate};
use crate::program::Program;
use crate::register::fill;
use crate::server::{Server, token_of};
use crate::start::runtime;

/// How many people the register has: their lines are more than what waits in the sockets of a connection.
const PEOPLE: u64 = 20_000;
/// How many rules one client asks to be explained at once.
const EXPLAINED: usize = 50;
/// How many previews it begins and does not read.
const UNREAD: usize = 8;
/// How often the other client's rule is timed on a quiet server, and its preview.
const QUIET: usize = 100;
const PREVIEWS: usize = 5;
/// After this time nothing is waited for any more.
const ROUND: Duration = Duration::from_secs(60);

/// Who asks, and the one who is to notice nothing of it.
struct Clients {
    greedy: String,
    modest: String,
}

/// Runs the benchmark and prints its figures.
pub fn run() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let clients = prepare(folder.path())?;
    let embedded = Program::start(folder.path())?;
    runtime()?.block_on(measure("embedded", embedded.address, &clients))?;
    embedded.stop()?;

    let database = Database::start(&[]);
    let config = folder.path().join("daftar.toml");
    let text =
        format!("[store]\nbackend = \"postgres\"\n\n[store.postgres]\nurl = \"{}\"\n", database.create_database());
    std::fs::write(&config, text).map_err(|error| error.to_string())?;
    let _speed = migrate(&folder.path().join("data"), &config)?;
    let own = beside(folder.path(), 1, 0)?;
    let program = Program::start_with(&own, &["--config".as_ref(), config.as_os_str()])?;
    runtime()?.block_on(measure("PostgreSQL", program.address, &clients))?;
    program.stop()?;
    Ok(())
}

fn prepare(folder: &Path) -> Result<Clients, String> {
    runtime()?.block_on(async {
        let server = Server::start(folder).await?;
        fill(&server, PEOPLE).await?;
        let clients = Clients { greedy: token_of(&server.app, None).await?, modest: server.token.clone() };
        server.stop().await;
        Ok(clients)
    })
}

async fn measure(store: &str, address: SocketAddr, clients: &Clients) -> Result<(), String> {
    explained(store, address, clients).await?;
    unread(store, address, clients).await
}

/// Times a cheap rule beside fifty requests that cost as much as one may.
async fn explained(store: &str, address: SocketAddr, Clients { greedy, modest }: &Clients) -> Result<(), String> {
    let cheap = json!({"expression": "me.active", "subjects": [{"type": "individual", "active": true}]});
    let cheap = post(modest, "$evaluate", &cheap, "");
    let mut modest = connect_from(Ipv4Addr::LOCALHOST, address).await?;
    let mut buffer = Vec::new();
    let mut quiet = Vec::with_capacity(QUIET);
    for _ in 0..QUIET {
        quiet.push(time_us(&mut modest, &mut buffer, &cheap, 200).await? / 1_000.0);
    }
    let mut greedy_requests = JoinSet::new();
    let started = Instant::now();
    for number in 0..EXPLAINED {
        let request = post(greedy, "$evaluate", &expensive(number), "");
        greedy_requests.spawn(async move {
            let mut stream = connect_from(Ipv4Addr::LOCALHOST, address).await?;
            let mut buffer = Vec::new();
            stream.write_all(&request).await.map_err(|error| error.to_string())?;
            let (status, _) = read_any(&mut stream, &mut buffer).await?;
            Ok::<_, String>(status)
        });
    }
    let mut beside = Vec::new();
    let mut statuses = Vec::new();
    while !greedy_requests.is_empty() && started.elapsed() < ROUND {
        beside.push(time_us(&mut modest, &mut buffer, &cheap, 200).await? / 1_000.0);
        while let Some(ended) = greedy_requests.try_join_next() {
            statuses.push(ended.map_err(|error| error.to_string())??);
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let with = |status: u16| statuses.iter().filter(|one| **one == status).count();
    println!(
        "fair: {store}: a cheap rule {}; beside {EXPLAINED} of the most expensive explanations of another client {} (target: less than 100 ms); these took {seconds:.1} s, {} were answered, {} exhausted their budget, {} were 503",
        summary(quiet),
        summary(beside),
        with(200),
        with(422),
        with(503)
    );
    Ok(())
}

/// Times a preview beside eight of another client that reads nothing.
async fn unread(store: &str, address: SocketAddr, Clients { greedy, modest }: &Clients) -> Result<(), String> {
    let preview = post(modest, "$preview", &json!({"expression": "me.active"}), "");
    let mut modest = connect_from(Ipv4Addr::LOCALHOST, address).await?;
    let mut buffer = Vec::new();
    let mut quiet = Vec::with_capacity(PREVIEWS);
    for _ in 0..PREVIEWS {
        quiet.push(time_us(&mut modest, &mut buffer, &preview, 200).await? / 1_000.0);
    }
    let lines = json!({"expression": "me.active", "subjects": true});
    let lines = post(greedy, "$preview", &lines, "Accept: application/x-ndjson\r\n");
    let mut held = Vec::with_capacity(UNREAD);
    for _ in 0..UNREAD {
        let mut stream = narrow(address).await.map_err(|error| error.to_string())?;
        stream.write_all(&lines).await.map_err(|error| error.to_string())?;
        // The response has begun.
        stream.readable().await.map_err(|error| error.to_string())?;
        held.push(stream);
    }
    let mut beside = Vec::with_capacity(PREVIEWS);
    for _ in 0..PREVIEWS {
        beside.push(time_us(&mut modest, &mut buffer, &preview, 200).await? / 1_000.0);
    }
    println!(
        "fair: {store}: a preview of {PEOPLE} people {}; beside {UNREAD} unread previews of another client {}",
        summary(quiet),
        summary(beside)
    );
    drop(held);
    Ok(())
}

/// A rule that costs next to nothing to evaluate and nearly as much as a call may to explain; each another one, so that none is answered
/// from memory.
fn expensive(number: usize) -> Value {
    let list = "[1,2,3,4,5,6,7,8,9,10]";
    let opened: String = ["a", "b", "c", "d", "e"].map(|name| format!("{list}.all({name}, ")).concat();
    let rule = format!("me.active || {opened}a+b+c+d+e > {})))))", -1 - i64::try_from(number).unwrap_or_default());
    let subjects = vec![json!({"type": "individual", "active": true}); 20];
    json!({"expression": rule, "explain": true, "subjects": subjects})
}

fn post(token: &str, operation: &str, body: &Value, more: &str) -> Vec<u8> {
    let body = body.to_string();
    let head = format!(
        "POST /api/v2/Eligibility/{operation} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{more}\r\n",
        body.len()
    );
    [head.into_bytes(), body.into_bytes()].concat()
}

/// A connection whose client has room for next to nothing.
async fn narrow(address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4_096)?;
    socket.connect(address).await
}

/// The median and the longest of some times, in milliseconds.
fn summary(mut times: Vec<f64>) -> String {
    times.sort_unstable_by(f64::total_cmp);
    let at = |index: usize| times.get(index).copied().unwrap_or_default();
    format!("median {:.1} ms, at most {:.1} ms", at(times.len() / 2), at(times.len().saturating_sub(1)))
}
