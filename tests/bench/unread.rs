//! The memory of responses that are not read: many clients ask for the largest photo concurrently, and take the first
//! bytes of it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use socket2::{Domain, Socket, Type};

use crate::http::{Connection, get, send};
use crate::report::{Report, Row, Spread};
use crate::server::{Server, create_client};
use crate::setup::Setup;

/// Number of requests.
const READS: u64 = 1_000;
/// Number of clients that send them.
const CLIENTS: u64 = 20;
/// Number of threads that send at the same time.
const THREADS: u64 = 16;
/// The photo, before it is written as text.
const PHOTO_BYTES: usize = 5_000_000;
/// Interval at which an ordinary client sends a request and the memory is read.
const EVERY: Duration = Duration::from_millis(20);
/// Time for which they are left open when all have been answered.
const REST: Duration = Duration::from_secs(3);
const PERSON: &str = "/api/v2/Individual/urn:svc:vocab:id-type%23national_id%7CBIG";

/// Measures it.
pub fn run(setup: &Setup, report: &mut Report) -> Result<(), String> {
    let register = setup.empty("unread")?;
    let reads = if setup.is_smoke { 50 } else { READS };
    report.setting("reads", reads);
    report.setting("clients", CLIENTS);
    let server = Server::start(&register.folder)?;
    let token = server.token(&register.client)?;
    let photo = STANDARD.encode(vec![7; PHOTO_BYTES]);
    let body = format!(
        "{{\"identifier\":[{{\"system\":\"urn:svc:vocab:id-type#national_id\",\"value\":\"BIG\"}}],\"photo\":\"{photo}\"}}"
    );
    let mut connection = Connection::to(server.address)?;
    connection.timed(&send("POST", "/api/v2/Individual", &token, "", &body), 201)?;
    let mut requests = Vec::new();
    for _ in 0..CLIENTS {
        let client = create_client(&register.folder, None, &[])?;
        requests.push(get(PERSON, &server.token(&client)?));
    }
    for _ in 0..5 {
        connection.timed(&get(PERSON, &token), 200)?;
    }
    let before = server.resident_mib();
    let ordinary = get("/api/v2/Individual?_count=1&_elements=type", &token);
    let (mut most, mut times) = (before, Vec::new());
    let is_over = AtomicBool::new(false);
    let held = std::thread::scope(|scope| {
        let (requests, is_over) = (&requests, &is_over);
        let reading = scope.spawn(move || {
            let held: Vec<(TcpStream, Option<u16>)> = std::thread::scope(|scope| {
                let readers: Vec<_> = (0..THREADS)
                    .map(|thread| {
                        scope.spawn(move || {
                            let numbers = (thread..reads).step_by(THREADS as usize);
                            let begin =
                                |number: u64| begin(server.address, requests.get((number % CLIENTS) as usize)?).ok();
                            numbers.filter_map(begin).collect::<Vec<_>>()
                        })
                    })
                    .collect();
                readers.into_iter().filter_map(|reader| reader.join().ok()).flatten().collect()
            });
            std::thread::sleep(REST);
            is_over.store(true, Ordering::Relaxed);
            held
        });
        while !is_over.load(Ordering::Relaxed) {
            let due = Instant::now() + EVERY;
            times.push(connection.timed(&ordinary, 200)?.0 / 1e3);
            most = f64::max(most, server.resident_mib());
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        reading.join().map_err(|_| "the readers failed".to_owned())
    })?;
    let sent = held.iter().filter(|(_, status)| *status == Some(200)).count();
    let mib = |id: &str, what: &str, value| Row::new(format!("unread.{id}"), what, "MiB", Spread::of([value]));
    let what = format!("{reads} unread responses of 6.7 MB, {sent} of them begun: most memory above that before");
    report.row(mib("most", &what, most - before).target("the bound `responses_mib` (256) and 50"));
    report.row(mib("after", "the same 3 s later", server.resident_mib() - before));
    report.row(Row::new("unread.search", "an ordinary search beside them", "ms", Spread::of(times)));
    drop(held);
    server.stop()?;
    setup.remove(register)
}

/// Asks, and takes the first bytes: the connection, and the status, if any came.
fn begin(address: SocketAddr, request: &[u8]) -> std::io::Result<(TcpStream, Option<u16>)> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_recv_buffer_size(4_096)?;
    socket.connect(&address.into())?;
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.write_all(request)?;
    let mut first = [0; 12];
    let is_whole = stream.read_exact(&mut first).is_ok();
    let status = std::str::from_utf8(&first).ok().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.parse().ok());
    Ok((stream, status.filter(|_| is_whole)))
}
