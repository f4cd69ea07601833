//! The load generator: a closed loop over persistent connections on one thread, and an open loop that sends at a fixed
//! rate.
//!
//! The closed loop sends a request on each connection when the response to the previous one has arrived. While the
//! server stalls it sends nothing, so that its p99 is not that of independent clients (coordinated omission). The open
//! loop measures each response from the scheduled time of its request.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use daftar_tests::fresh_address;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::http::{Connection, Head};
use crate::report::percentile;

/// Writes the request with a number into the buffer and returns its kind; `None` after the last request.
pub type Make = Arc<dyn Fn(u64, &mut Vec<u8>) -> Option<usize> + Send + Sync>;

/// Returns requests of one kind, repeated in their order.
pub fn cycle(requests: Vec<Vec<u8>>) -> Make {
    Arc::new(move |number, buffer| {
        let at = usize::try_from(number).ok()? % requests.len().max(1);
        buffer.extend_from_slice(requests.get(at)?);
        Some(0)
    })
}

/// Returns requests of one kind, each once.
pub fn once(requests: Vec<Vec<u8>>) -> Make {
    Arc::new(move |number, buffer| {
        buffer.extend_from_slice(requests.get(usize::try_from(number).ok()?)?);
        Some(0)
    })
}

/// Returns a number of connections in words.
pub fn connections(count: usize) -> String {
    if count == 1 { "1 connection".to_owned() } else { format!("{count} connections") }
}

/// Target servers, number of connections and duration of a load.
#[derive(Clone)]
pub struct Load {
    /// The servers; connections are divided evenly among them.
    pub addresses: Vec<SocketAddr>,
    /// Number of connections open at the same time.
    pub connections: usize,
    /// Time after which no further request is sent.
    pub duration: Duration,
    /// The permitted response statuses.
    pub statuses: &'static [u16],
    /// Number of requests after which a connection is replaced by one from a previously unused loopback address; `None`
    /// for no replacement.
    pub requests_per_address: Option<u32>,
}

impl Load {
    /// Creates a load of requests that must succeed.
    pub fn new(address: SocketAddr, connections: usize, duration: Duration) -> Self {
        Self { addresses: vec![address], connections, duration, statuses: &[200, 201], requests_per_address: None }
    }

    fn address(&self, place: usize) -> Result<SocketAddr, String> {
        let address = self.addresses.get(place % self.addresses.len().max(1));
        address.copied().ok_or_else(|| "there is no server".to_owned())
    }

    fn source(&self) -> Ipv4Addr {
        if self.requests_per_address.is_some() { fresh_address() } else { Ipv4Addr::LOCALHOST }
    }

    fn check(&self, status: u16, body: &[u8]) -> Result<(), String> {
        if self.statuses.contains(&status) {
            return Ok(());
        }
        Err(format!("a response has the status {status}: {}", String::from_utf8_lossy(body)))
    }

    /// Sends requests in a closed loop.
    pub fn run(&self, make: &Make) -> Result<Taken, String> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
        runtime.block_on(async {
            let next = Arc::new(AtomicU64::new(0));
            let mut senders = JoinSet::new();
            let started = Instant::now();
            for place in 0..self.connections {
                senders.spawn(self.clone().send_all(place, Arc::clone(make), Arc::clone(&next), started));
            }
            let mut taken = Taken::default();
            while let Some(sent) = senders.join_next().await {
                taken.merge(sent.map_err(|error| error.to_string())??);
            }
            Ok(taken.finish(started))
        })
    }

    async fn send_all(self, place: usize, make: Make, next: Arc<AtomicU64>, started: Instant) -> Result<Taken, String> {
        let address = self.address(place)?;
        let mut taken = Taken::default();
        let (mut request, mut arrived) = (Vec::with_capacity(4 * 1_024), Vec::with_capacity(16 * 1_024));
        'connections: loop {
            let mut stream = connect(self.source(), address).await.map_err(|error| error.to_string())?;
            for _ in 0..self.requests_per_address.unwrap_or(u32::MAX) {
                if started.elapsed() >= self.duration {
                    break 'connections;
                }
                request.clear();
                let Some(kind) = make(next.fetch_add(1, Ordering::Relaxed), &mut request) else { break 'connections };
                let sent = Instant::now();
                stream.write_all(&request).await.map_err(|error| error.to_string())?;
                let head = receive(&mut stream, &mut arrived).await?;
                taken.push(kind, sent.elapsed(), head.status);
                self.check(head.status, arrived.get(head.head_bytes..).unwrap_or_default())?;
            }
        }
        Ok(taken)
    }

    /// Sends `per_second` requests a second in total, each connection on a separate thread.
    pub fn run_open(&self, per_second: f64, make: &Make) -> Result<Taken, String> {
        let next = AtomicU64::new(0);
        let started = Instant::now();
        std::thread::scope(|scope| {
            let senders: Vec<_> = (0..self.connections)
                .map(|place| {
                    let next = &next;
                    scope.spawn(move || self.send_paced(place, per_second, make, next, started))
                })
                .collect();
            let mut taken = Taken::default();
            for sender in senders {
                taken.merge(sender.join().map_err(|_| "a sender failed".to_owned())??);
            }
            Ok(taken.finish(started))
        })
    }

    fn send_paced(
        &self,
        place: usize,
        per_second: f64,
        make: &Make,
        next: &AtomicU64,
        started: Instant,
    ) -> Result<Taken, String> {
        let mut taken = Taken::default();
        let mut request = Vec::with_capacity(4 * 1_024);
        let every = self.connections as f64 / per_second;
        let mut sent = 0_u32;
        let address = self.address(place)?;
        let mut connection = Connection::from(self.source(), address)?;
        loop {
            let due =
                started + Duration::from_secs_f64(every * (f64::from(sent) + place as f64 / self.connections as f64));
            // Bounds the time for a server that is too slow.
            if due.duration_since(started) >= self.duration || started.elapsed() >= self.duration * 2 {
                return Ok(taken);
            }
            if let Some(pause) = due.checked_duration_since(Instant::now()) {
                std::thread::sleep(pause);
            }
            if self.requests_per_address.is_some_and(|most| sent > 0 && sent.is_multiple_of(most)) {
                connection = Connection::from(self.source(), address)?;
            }
            request.clear();
            let Some(kind) = make(next.fetch_add(1, Ordering::Relaxed), &mut request) else { return Ok(taken) };
            let (status, body) = connection.exchange(&request)?;
            self.check(status, body)?;
            taken.push(kind, due.elapsed(), status);
            sent += 1;
        }
    }
}

/// Connects from a loopback address.
pub async fn connect(source: Ipv4Addr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((source, 0)))?;
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Reads one complete response.
async fn receive(stream: &mut TcpStream, arrived: &mut Vec<u8>) -> Result<Head, String> {
    arrived.clear();
    loop {
        if stream.read_buf(arrived).await.map_err(|error| error.to_string())? == 0 {
            return Err("the server closed a connection".to_owned());
        }
        if let Some(head) = Head::parse(arrived)?
            && arrived.len() >= head.whole_bytes
        {
            return Ok(head);
        }
    }
}

/// Times of requests.
#[derive(Default)]
pub struct Taken {
    /// Duration of each request by kind, in microseconds, sorted.
    pub times_us: Vec<Vec<f64>>,
    /// Number of responses by status.
    pub statuses: std::collections::BTreeMap<u16, u64>,
    /// Total duration, in seconds.
    pub seconds: f64,
}

impl Taken {
    fn push(&mut self, kind: usize, time: Duration, status: u16) {
        if self.times_us.len() <= kind {
            self.times_us.resize_with(kind + 1, Vec::new);
        }
        if let Some(times) = self.times_us.get_mut(kind) {
            times.push(time.as_secs_f64() * 1e6);
        }
        *self.statuses.entry(status).or_default() += 1;
    }

    fn merge(&mut self, other: Self) {
        self.times_us.resize_with(self.times_us.len().max(other.times_us.len()), Vec::new);
        for (all, mut some) in self.times_us.iter_mut().zip(other.times_us) {
            all.append(&mut some);
        }
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
    }

    fn finish(mut self, started: Instant) -> Self {
        self.seconds = started.elapsed().as_secs_f64();
        self.times_us.iter_mut().for_each(|times| times.sort_unstable_by(f64::total_cmp));
        self
    }

    /// Returns the number of responses.
    pub fn count(&self) -> usize {
        self.times_us.iter().map(Vec::len).sum()
    }

    /// Responses per second.
    pub fn per_second(&self) -> f64 {
        self.count() as f64 / self.seconds
    }

    /// Returns the percentile `part` of the response times of a kind, in milliseconds.
    pub fn ms(&self, kind: usize, part: f64) -> f64 {
        self.times_us.get(kind).map_or(f64::NAN, |times| percentile(times, part) / 1e3)
    }
}
