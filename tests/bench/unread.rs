//! The memory of responses that are not read: many clients ask for the largest photo at once, and take the first bytes of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::load::{read_any, time_us};
use crate::server::{Server, token_of};

/// How many ask.
const READS: usize = 1_000;
/// How many clients they are.
const CLIENTS: usize = 20;
/// The photo, before it is written as text.
const PHOTO_BYTES: usize = 5_000_000;
/// How often an ordinary client asks for something meanwhile.
const EVERY: Duration = Duration::from_millis(50);
/// How long they are left as they are when all have been answered.
const REST: Duration = Duration::from_secs(3);

/// Runs the benchmark and prints its figures.
pub fn run() -> Result<(), String> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(measure())
}

async fn measure() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let server = Server::start(folder.path()).await?;
    let bound = server.app.response_memory.usage().bytes_max;
    create(&server).await?;
    let mut tokens = Vec::new();
    for _ in 0..CLIENTS {
        tokens.push(token_of(&server.app, None).await?);
    }
    // The first reads fill the caches.
    for _ in 0..5 {
        let mut stream = TcpStream::connect(server.address).await.map_err(|error| error.to_string())?;
        stream.write_all(&request(&server.token)).await.map_err(|error| error.to_string())?;
        read_any(&mut stream, &mut Vec::new()).await?;
    }
    let before = resident_bytes()?;
    let peak = Arc::new(AtomicUsize::new(before));
    let is_over = Arc::new(AtomicBool::new(false));
    let watch = std::thread::spawn({
        let (peak, is_over) = (Arc::clone(&peak), Arc::clone(&is_over));
        move || {
            while !is_over.load(Ordering::Relaxed) {
                peak.fetch_max(resident_bytes().unwrap_or_default(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    });
    let begun = Instant::now();
    let mut readers = JoinSet::new();
    for number in 0..READS {
        let request = request(tokens.get(number % CLIENTS).ok_or("there are no clients")?);
        readers.spawn(begin_to_read(server.address, request));
    }
    let (mut streams, mut counts) = (Vec::new(), [0; 3]);
    let mut times_us = Vec::new();
    let ordinary = format!(
        "GET /api/v2/Individual?_count=1&_elements=type HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n",
        server.token
    );
    let mut ask = TcpStream::connect(server.address).await.map_err(|error| error.to_string())?;
    let mut ticks = tokio::time::interval(EVERY);
    let mut until = None;
    loop {
        tokio::select! {
            Some(read) = readers.join_next() => {
                let (stream, status) = read.map_err(|error| error.to_string())?;
                streams.push(stream);
                let kind = match status { Some(200) => 0, Some(503) => 1, _ => 2 };
                if let Some(count) = counts.get_mut(kind) {
                    *count += 1;
                }
                if streams.len() == READS {
                    until = Some(Instant::now() + REST);
                }
            }
            _ = ticks.tick() => {
                times_us.push(time_us(&mut ask, &mut Vec::new(), ordinary.as_bytes(), 200).await?);
                if until.is_some_and(|until| Instant::now() >= until) {
                    break;
                }
            }
        }
    }
    let answered = begun.elapsed() - REST;
    let after = resident_bytes()?;
    is_over.store(true, Ordering::Relaxed);
    let _ = watch.join();
    times_us.sort_unstable_by(f64::total_cmp);
    let most_ms = times_us.last().copied().unwrap_or_default() / 1_000.0;
    let [sent, refused, closed] = counts;
    let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
    println!(
        "unread: {READS} reads of 6.7 MB by {CLIENTS} clients that take the first bytes: {sent} begun, {refused} refused, {closed} closed, in {:.1} s",
        answered.as_secs_f64()
    );
    println!(
        "unread: resident {:.0} MiB before; {:.0} MiB more at most, {:.0} MiB more after {} s; {:.0} MiB are counted (target: the bound of {:.0} MiB and 50 MB)",
        mib(before),
        mib(peak.load(Ordering::Relaxed).saturating_sub(before)),
        mib(after.saturating_sub(before)),
        REST.as_secs(),
        server.app.response_memory.usage().bytes as f64 / f64::from(1 << 20),
        bound as f64 / f64::from(1 << 20),
    );
    println!("unread: an ordinary search beside them takes {most_ms:.1} ms at most, of {}", times_us.len());
    drop(streams);
    server.stop().await;
    Ok(())
}

async fn create(server: &Server) -> Result<(), String> {
    let photo = STANDARD.encode(vec![7; PHOTO_BYTES]);
    let body = format!(
        "{{\"identifier\":[{{\"system\":\"urn:svc:vocab:id-type#national_id\",\"value\":\"BIG\"}}],\"photo\":\"{photo}\"}}"
    );
    let head = format!(
        "POST /api/v2/Individual HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        server.token,
        body.len()
    );
    let mut stream = TcpStream::connect(server.address).await.map_err(|error| error.to_string())?;
    let request = [head.as_bytes(), body.as_bytes()].concat();
    time_us(&mut stream, &mut Vec::new(), &request, 201).await.map(|_| ())
}

fn request(token: &str) -> Vec<u8> {
    format!(
        "GET /api/v2/Individual/urn:svc:vocab:id-type%23national_id%7CBIG HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    )
    .into_bytes()
}

/// Asks, and takes the first bytes: the connection, and the status, if any came.
async fn begin_to_read(address: SocketAddr, request: Vec<u8>) -> (Option<TcpStream>, Option<u16>) {
    let begin = async {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(4_096)?;
        let mut stream = socket.connect(address).await?;
        stream.write_all(&request).await?;
        let mut first = [0; 12];
        let is_whole = stream.read_exact(&mut first).await.is_ok();
        let status = std::str::from_utf8(&first).ok().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.parse().ok());
        Ok::<_, std::io::Error>((stream, status.filter(|_| is_whole)))
    };
    begin.await.map_or((None, None), |(stream, status)| (Some(stream), status))
}

fn resident_bytes() -> Result<usize, String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| "the process has no resident memory".to_owned())
}
