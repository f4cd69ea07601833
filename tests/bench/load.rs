//! Sends requests over kept connections and counts the answers.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// What a round of load measured.
pub struct Measured {
    /// Answers a second.
    pub per_second: f64,
    /// The median time of an answer, in microseconds.
    pub median_us: f64,
    /// The time that 99 of 100 answers stay below, in microseconds.
    pub p99_us: f64,
    /// The body of the last answer.
    pub body: Vec<u8>,
}

/// Sends `requests` in turn over `connections` connections for `duration`.
pub async fn run(
    address: SocketAddr,
    requests: Arc<Vec<Vec<u8>>>,
    connections: usize,
    duration: Duration,
) -> Result<Measured, String> {
    let mut senders = JoinSet::new();
    let started = Instant::now();
    for at in 0..connections {
        let requests = requests.clone();
        senders.spawn(async move { send(address, &requests, at, started, duration).await });
    }
    let mut times_us = Vec::new();
    let mut body = Vec::new();
    while let Some(sent) = senders.join_next().await {
        let (mut times, last) = sent.map_err(|error| error.to_string())??;
        times_us.append(&mut times);
        body = last;
    }
    let elapsed = started.elapsed().as_secs_f64();
    times_us.sort_unstable_by(f64::total_cmp);
    let at = |part: f64| {
        let index = ((times_us.len() as f64 - 1.0) * part) as usize;
        times_us.get(index).copied().unwrap_or_default()
    };
    Ok(Measured { per_second: times_us.len() as f64 / elapsed, median_us: at(0.5), p99_us: at(0.99), body })
}

/// A request of some kind, to be sent once.
pub struct Request {
    /// Which kind.
    pub kind: usize,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// What the requests of one kind took.
#[derive(Default)]
pub struct OfKind {
    /// Microseconds each, sorted.
    pub times_us: Vec<f64>,
    /// The body of the last answer.
    pub body: Vec<u8>,
}

impl OfKind {
    /// The time that this part of the answers stays below, in microseconds.
    pub fn at(&self, part: f64) -> f64 {
        let index = ((self.times_us.len() as f64 - 1.0) * part) as usize;
        self.times_us.get(index).copied().unwrap_or_default()
    }
}

/// Sends each request once, in their order, over `connections` connections until none is left or `duration` is over. Gives what each
/// kind took, and how many seconds all took.
pub async fn run_once(
    address: SocketAddr,
    requests: Arc<Vec<Request>>,
    connections: usize,
    duration: Duration,
) -> Result<(Vec<OfKind>, f64), String> {
    let kinds = requests.iter().map(|request| request.kind + 1).max().unwrap_or_default();
    let next = Arc::new(AtomicUsize::new(0));
    let mut senders = JoinSet::new();
    let started = Instant::now();
    for _ in 0..connections {
        let (requests, next) = (requests.clone(), next.clone());
        senders.spawn(async move {
            let mut stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
            stream.set_nodelay(true).map_err(|error| error.to_string())?;
            let mut buffer = Vec::with_capacity(16 * 1024);
            let mut sent = Vec::new();
            let mut body = (0, Vec::new());
            while started.elapsed() < duration {
                let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                let begun = Instant::now();
                stream.write_all(&request.bytes).await.map_err(|error| error.to_string())?;
                body = (request.kind, read_answer(&mut stream, &mut buffer).await?);
                sent.push((request.kind, begun.elapsed().as_secs_f64() * 1e6));
            }
            Ok::<_, String>((sent, body))
        });
    }
    let mut all: Vec<OfKind> = (0..kinds).map(|_| OfKind::default()).collect();
    while let Some(done) = senders.join_next().await {
        let (sent, (kind, body)) = done.map_err(|error| error.to_string())??;
        for (kind, time_us) in sent {
            if let Some(of_kind) = all.get_mut(kind) {
                of_kind.times_us.push(time_us);
            }
        }
        if let Some(of_kind) = all.get_mut(kind) {
            of_kind.body = body;
        }
    }
    let elapsed = started.elapsed().as_secs_f64();
    all.iter_mut().for_each(|of_kind| of_kind.times_us.sort_unstable_by(f64::total_cmp));
    Ok((all, elapsed))
}

async fn send(
    address: SocketAddr,
    requests: &[Vec<u8>],
    first: usize,
    started: Instant,
    duration: Duration,
) -> Result<(Vec<f64>, Vec<u8>), String> {
    let mut stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let mut times_us = Vec::new();
    let mut buffer = Vec::with_capacity(16 * 1024);
    let mut body = Vec::new();
    for request in requests.iter().cycle().skip(first * 97 % requests.len().max(1)) {
        if started.elapsed() >= duration {
            break;
        }
        let sent = Instant::now();
        stream.write_all(request).await.map_err(|error| error.to_string())?;
        body = read_answer(&mut stream, &mut buffer).await?;
        times_us.push(sent.elapsed().as_secs_f64() * 1e6);
    }
    Ok((times_us, body))
}

async fn read_answer(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<Vec<u8>, String> {
    let (status, body) = read_any(stream, buffer).await?;
    if !matches!(status, 200 | 201) {
        return Err(format!("an answer has the status {status}: {}", String::from_utf8_lossy(&body)));
    }
    Ok(body)
}

/// Reads an answer, whatever it says: its status and its body.
pub async fn read_any(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<(u16, Vec<u8>), String> {
    buffer.clear();
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut answer = httparse::Response::new(&mut headers);
        let parsed = answer.parse(buffer).map_err(|error| error.to_string())?;
        if let httparse::Status::Complete(head) = parsed {
            let length = answer.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
            let length = length.and_then(|header| std::str::from_utf8(header.value).ok()?.parse::<usize>().ok());
            let length = length.ok_or("an answer has no length")?;
            if let Some(body) = buffer.get(head..head + length) {
                return Ok((answer.code.unwrap_or_default(), body.to_vec()));
            }
        }
        if stream.read_buf(buffer).await.map_err(|error| error.to_string())? == 0 {
            return Err("the server closed a connection".to_owned());
        }
    }
}

/// Sends a request and waits for the whole answer, which has to have that status. Gives what it took, in microseconds.
pub async fn time_us(stream: &mut TcpStream, buffer: &mut Vec<u8>, request: &[u8], status: u16) -> Result<f64, String> {
    let sent = Instant::now();
    stream.write_all(request).await.map_err(|error| error.to_string())?;
    let (answered, body) = read_any(stream, buffer).await?;
    let time_us = sent.elapsed().as_secs_f64() * 1e6;
    if answered == status {
        return Ok(time_us);
    }
    Err(format!("an answer has the status {answered} instead of {status}: {}", String::from_utf8_lossy(&body)))
}

/// Connects from a loopback address, on which the server counts what comes without a token.
pub async fn connect_from(source: Ipv4Addr, to: SocketAddr) -> Result<TcpStream, String> {
    let connect = async {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((source, 0)))?;
        let stream = socket.connect(to).await?;
        stream.set_nodelay(true)?;
        Ok::<_, std::io::Error>(stream)
    };
    connect.await.map_err(|error| format!("cannot connect from {source}: {error}"))
}
