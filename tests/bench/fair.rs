//! Cost of one client's most expensive requests to another client: explanations of expensive rules, and streamed
//! previews that are not read.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use crate::http::{Connection, send};
use crate::postgres::{Database, server_folder};
use crate::report::{Report, Row, Spread};
use crate::server::{Server, create_client};
use crate::setup::Setup;

/// Number of people in the register: their lines exceed the socket buffers of a connection.
const PEOPLE: u64 = 20_000;
/// Number of concurrent requests for an explanation by one client.
const EXPLAINED: u64 = 50;
/// Number of previews that it starts and does not read.
const UNREAD: u64 = 8;
/// Number of times that the other client's rule and preview are timed on an idle server.
const QUIET: u64 = 100;
const PREVIEWS: u64 = 5;

/// Measures both backends.
pub fn run(setup: &Setup, report: &mut Report) -> Result<(), String> {
    let register = setup.filled("fair", setup.people(PEOPLE))?;
    report.setting("people", register.people);
    report.setting("rules explained concurrently", setup.times(EXPLAINED));
    report.setting("unread previews", setup.times(UNREAD));
    let other = create_client(&register.folder, None, &[])?;
    let server = Server::start(&register.folder)?;
    let tokens = [server.token(&register.client)?, server.token(&other)?];
    server.ready()?;
    measure(setup, report, "embedded", server.address, &tokens)?;
    server.stop()?;

    let database = Database::of(&register, &[])?;
    let own = server_folder(&register, &database, "one", 0)?;
    let server = Server::start_with(&own, Some(&database.config), &crate::server::artifacts()?.join("plugins"))?;
    server.ready()?;
    measure(setup, report, "postgres", server.address, &tokens)?;
    server.stop()?;
    drop(database);
    setup.remove(register)
}

fn measure(
    setup: &Setup,
    report: &mut Report,
    store: &str,
    address: SocketAddr,
    [modest, greedy]: &[String; 2],
) -> Result<(), String> {
    let mut row = |id: &str, what: &str, times: Vec<f64>, target: Option<&str>| {
        let row = Row::new(format!("fair.{store}.{id}"), what, "ms", Spread::of(times))
            .column(if store == "postgres" { "PostgreSQL" } else { store });
        report.row(target.into_iter().fold(row, Row::target));
    };
    let mut connection = Connection::to(address)?;
    let cheap = json!({"expression": "me.active", "subjects": [{"type": "individual", "active": true}]});
    let cheap = post(modest, "$evaluate", &cheap, "");
    let mut time = |request: &[u8]| connection.timed(request, 200).map(|(time_us, _)| time_us / 1e3);
    let quiet: Result<Vec<f64>, String> = (0..setup.times(QUIET)).map(|_| time(&cheap)).collect();
    row("rule-alone", "a cheap rule, alone", quiet?, None);
    let started = Instant::now();
    let ended = AtomicUsize::new(0);
    let explained = setup.times(EXPLAINED);
    let mut beside = Vec::new();
    std::thread::scope(|scope| {
        for number in 0..explained {
            let (ended, request) = (&ended, post(greedy, "$evaluate", &expensive(number), ""));
            scope.spawn(move || {
                let _status =
                    Connection::to(address).and_then(|mut one| one.exchange(&request).map(|(status, _)| status));
                ended.fetch_add(1, Ordering::Relaxed);
            });
        }
        while (ended.load(Ordering::Relaxed) as u64) < explained && started.elapsed() < Duration::from_secs(60) {
            beside.push(time(&cheap)?);
        }
        Ok::<_, String>(())
    })?;
    let what = format!("a cheap rule beside {explained} of the most expensive explanations of another client");
    row("rule-beside", &what, beside, Some("at most 100 ms"));

    let preview = post(modest, "$preview", &json!({"expression": "me.active"}), "");
    let quiet: Result<Vec<f64>, String> = (0..setup.times(PREVIEWS)).map(|_| time(&preview)).collect();
    row("preview-alone", "a preview of all people, alone", quiet?, None);
    let lines = json!({"expression": "me.active", "subjects": true});
    let lines = post(greedy, "$preview", &lines, "Accept: application/x-ndjson\r\n");
    let held: Result<Vec<TcpStream>, String> = (0..setup.times(UNREAD)).map(|_| begin(address, &lines)).collect();
    let held = held?;
    let beside: Result<Vec<f64>, String> = (0..setup.times(PREVIEWS)).map(|_| time(&preview)).collect();
    row("preview-beside", "a preview beside unread previews of another client", beside?, None);
    drop(held);
    Ok(())
}

/// A rule that costs next to nothing to evaluate and nearly as much as a call may to explain; each is different, so
/// that none is answered from memory.
fn expensive(number: u64) -> Value {
    let list = "[1,2,3,4,5,6,7,8,9,10]";
    let opened: String = ["a", "b", "c", "d", "e"].map(|name| format!("{list}.all({name}, ")).concat();
    let rule = format!("me.active || {opened}a+b+c+d+e > -{})))))", number + 1);
    let subjects = vec![json!({"type": "individual", "active": true}); 20];
    json!({"expression": rule, "explain": true, "subjects": subjects})
}

fn post(token: &str, operation: &str, body: &Value, more: &str) -> Vec<u8> {
    send("POST", &format!("/api/v2/Eligibility/{operation}"), token, more, &body.to_string())
}

/// A connection of a client with a tiny receive buffer, with a response that has begun.
fn begin(address: SocketAddr, request: &[u8]) -> Result<TcpStream, String> {
    use std::io::Write as _;
    let begin = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_recv_buffer_size(4_096)?;
        socket.connect(&address.into())?;
        let mut stream = TcpStream::from(socket);
        stream.write_all(request)?;
        stream.peek(&mut [0])?;
        Ok::<_, std::io::Error>(stream)
    };
    begin().map_err(|error| error.to_string())
}
