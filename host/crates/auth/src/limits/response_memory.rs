//! The memory of finished responses that wait to be read: limits for one client and for all clients together.
//!
//! The full size of a response is counted when it is finished, under the requesting client, or under its address if it
//! is not authenticated, and decreases with each part that the socket accepts. Every response is counted, also copies:
//! a response shared with the response cache is copied on sending only if it is larger than the cache accepts, so the
//! count is never below the actual use. Streamed responses have no size, occupy a part or two, and are not counted.
//! Neither are the administrator's.
//!
//! **Invariant:** a client with nothing unread gets its response, however large: the limits decide between responses,
//! not on their size. **Invariant:** a response to a change is never rejected: a completed change is reported as
//! completed. A client at its limit is rejected before the change.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use daftar_domain::audit::stored_address;
use daftar_domain::client::ClientId;
use daftar_domain::config::ConnectionsConfig;

/// The key under which a response is counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reader {
    /// A client whose token is valid.
    Client(ClientId),
    /// An address, or a network of 64 bits of IPv6.
    Address(IpAddr),
}

impl Reader {
    /// Returns the reader with this address.
    #[must_use]
    pub fn of_address(address: IpAddr) -> Self {
        Self::Address(stored_address(address))
    }
}

daftar_domain::named_enum! {
    /// The limit that a response exceeds.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum MemoryBound {
        /// The limit of one client.
        Client = "client",
        /// The limit of all clients.
        Total = "total",
    }
}

/// Closes connections, slowest readers first.
pub trait ClosesSlowest: fmt::Debug + Send + Sync {
    /// Closes as many connections as free `bytes`, including those already closing; returns true if there were enough.
    fn close_slowest(&self, bytes: u64) -> bool;
}

/// Counts the bytes of finished responses.
#[derive(Debug)]
pub struct ResponseMemory {
    per_client_max: u64,
    max: u64,
    waiting: Mutex<Waiting>,
    closes: Mutex<Option<Weak<dyn ClosesSlowest>>>,
    refused: [AtomicU64; MemoryBound::ALL.len()],
}

#[derive(Debug, Default)]
struct Waiting {
    total: u64,
    by_reader: HashMap<Reader, u64>,
}

impl ResponseMemory {
    /// Creates an empty counter.
    #[must_use]
    pub fn new(config: &ConnectionsConfig) -> Arc<Self> {
        let bytes = |mib: u64| mib.saturating_mul(1 << 20);
        Arc::new(Self {
            per_client_max: bytes(config.responses_per_client_mib),
            max: bytes(config.responses_mib),
            waiting: Mutex::default(),
            closes: Mutex::default(),
            refused: Default::default(),
        })
    }

    /// Sets the component that closes connections when the total limit is reached.
    pub fn set_closes_slowest(&self, closes: Weak<dyn ClosesSlowest>) {
        *self.closes.lock().unwrap_or_else(PoisonError::into_inner) = Some(closes);
    }

    /// Returns true if this client may send a request: its unread responses are within its limit.
    pub fn admits(&self, reader: &Reader) -> bool {
        let is_admitted = self.waiting().of(reader) < self.per_client_max;
        if !is_admitted {
            self.count_refused(MemoryBound::Client);
        }
        is_admitted
    }

    /// Counts a finished response of `bytes`.
    ///
    /// # Errors
    /// The limit that it exceeds, if the client has unread responses.
    pub fn reserve(self: &Arc<Self>, reader: &Reader, bytes: u64) -> Result<ReservedMemory, MemoryBound> {
        let over = |count: u64, max: u64| count.saturating_add(bytes).saturating_sub(max);
        let too_much = {
            let mut waiting = self.waiting();
            let of_reader = waiting.of(reader);
            if of_reader > 0 && over(of_reader, self.per_client_max) > 0 {
                drop(waiting);
                self.count_refused(MemoryBound::Client);
                return Err(MemoryBound::Client);
            }
            let too_much = over(waiting.total, self.max);
            if waiting.total == 0 || too_much == 0 {
                return Ok(self.add(&mut waiting, reader, bytes));
            }
            too_much
        };
        // Not under the lock, which connections acquire when they release memory.
        if !self.close_slowest(too_much) {
            self.count_refused(MemoryBound::Total);
            return Err(MemoryBound::Total);
        }
        Ok(self.add(&mut self.waiting(), reader, bytes))
    }

    /// Counts a response that is sent in any case, such as an error or the response to a change.
    #[must_use]
    pub fn reserve_always(self: &Arc<Self>, reader: &Reader, bytes: u64) -> ReservedMemory {
        let too_much = self.waiting().total.saturating_add(bytes).saturating_sub(self.max);
        if too_much > 0 {
            self.close_slowest(too_much);
        }
        self.add(&mut self.waiting(), reader, bytes)
    }

    /// Returns the metrics.
    #[must_use]
    pub fn usage(&self) -> ResponseMemoryUsage {
        let (bytes, clients) = {
            let waiting = self.waiting();
            (waiting.total, waiting.by_reader.len())
        };
        let mut refused = [("", 0); MemoryBound::ALL.len()];
        for ((to, bound), count) in refused.iter_mut().zip(MemoryBound::ALL).zip(&self.refused) {
            *to = (bound.name(), count.load(Ordering::Relaxed));
        }
        ResponseMemoryUsage { bytes, bytes_max: self.max, clients, refused }
    }

    fn add(self: &Arc<Self>, waiting: &mut Waiting, reader: &Reader, bytes: u64) -> ReservedMemory {
        waiting.total = waiting.total.saturating_add(bytes);
        if bytes > 0 {
            let of_reader = waiting.by_reader.entry(reader.clone()).or_default();
            *of_reader = of_reader.saturating_add(bytes);
        }
        ReservedMemory { memory: Arc::clone(self), reader: reader.clone(), bytes: AtomicU64::new(bytes) }
    }

    fn close_slowest(&self, bytes: u64) -> bool {
        let closes = self.closes.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(Weak::upgrade);
        closes.is_some_and(|closes| closes.close_slowest(bytes))
    }

    fn count_refused(&self, bound: MemoryBound) {
        if let Some(count) = self.refused.get(bound as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Each change is complete before anything can panic.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn of(&self, reader: &Reader) -> u64 {
        self.by_reader.get(reader).copied().unwrap_or_default()
    }
}

/// The memory of one finished response; released on drop.
#[derive(Debug)]
pub struct ReservedMemory {
    memory: Arc<ResponseMemory>,
    reader: Reader,
    bytes: AtomicU64,
}

impl ReservedMemory {
    /// Returns the remaining bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Releases `bytes` of it.
    pub fn release(&self, bytes: u64) {
        let taken =
            self.bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, |held| Some(held.saturating_sub(bytes)));
        let released = taken.unwrap_or_else(|held| held).min(bytes);
        if released == 0 {
            return;
        }
        let mut waiting = self.memory.waiting();
        waiting.total = waiting.total.saturating_sub(released);
        if let Some(of_reader) = waiting.by_reader.get_mut(&self.reader) {
            *of_reader = of_reader.saturating_sub(released);
            if *of_reader == 0 {
                waiting.by_reader.remove(&self.reader);
            }
        }
    }
}

impl Drop for ReservedMemory {
    fn drop(&mut self) {
        self.release(u64::MAX);
    }
}

/// The metrics of the response memory.
#[derive(Debug, Clone, Copy)]
pub struct ResponseMemoryUsage {
    /// Bytes that wait to be read.
    pub bytes: u64,
    /// The limit of these bytes.
    pub bytes_max: u64,
    /// Clients and addresses with unread responses.
    pub clients: usize,
    /// Rejected responses and requests, by limit.
    pub refused: [(&'static str, u64); MemoryBound::ALL.len()],
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn memory(per_client_mib: u64, mib: u64) -> Arc<ResponseMemory> {
        let defaults = ConnectionsConfig::default();
        let config = ConnectionsConfig { responses_per_client_mib: per_client_mib, responses_mib: mib, ..defaults };
        ResponseMemory::new(&config)
    }

    fn reader(name: &str) -> Reader {
        Reader::Client(ClientId::parse(name).unwrap())
    }

    /// A test double with this many bytes to close, and the requested bytes of each call.
    #[derive(Debug)]
    struct Slow(Mutex<u64>, Mutex<Vec<u64>>);

    impl ClosesSlowest for Slow {
        fn close_slowest(&self, bytes: u64) -> bool {
            self.1.lock().unwrap().push(bytes);
            let mut left = self.0.lock().unwrap();
            let is_enough = *left >= bytes;
            *left = left.saturating_sub(bytes);
            is_enough
        }
    }

    #[test]
    fn unread_responses_of_a_client_are_limited() {
        let memory = memory(2, 100);
        let (one, other) = (reader("one"), reader("other"));
        let first = memory.reserve(&one, 5 * MIB).expect("the only response, however large");
        assert!(!memory.admits(&one) && memory.admits(&other));
        assert!(!memory.admits(&one), "rejected again");
        assert_eq!(memory.reserve(&one, 1).err(), Some(MemoryBound::Client));
        let _other = memory.reserve(&other, MIB).unwrap();
        first.release(4 * MIB);
        assert!(memory.admits(&one));
        assert_eq!(memory.reserve(&one, MIB + 1).err(), Some(MemoryBound::Client));
        let second = memory.reserve(&one, MIB).unwrap();
        assert!(!memory.admits(&one));
        let error = memory.reserve_always(&one, 300);
        assert_eq!(memory.usage().bytes, 3 * MIB + 300);
        drop((first, second, error));
        let usage = memory.usage();
        assert_eq!((usage.bytes, usage.clients), (MIB, 1));
        assert_eq!(usage.refused, [("client", 5), ("total", 0)]);
    }

    #[test]
    fn connections_are_closed_at_the_total_limit() {
        let memory = memory(10, 10);
        let first = memory.reserve(&reader("one"), 9 * MIB).unwrap();
        assert_eq!(memory.reserve(&reader("other"), 2 * MIB).err(), Some(MemoryBound::Total), "nothing is slow");
        let slow: Arc<dyn ClosesSlowest> = Arc::new(Slow(Mutex::new(MIB), Mutex::default()));
        memory.set_closes_slowest(Arc::downgrade(&slow));
        assert!(memory.reserve(&reader("other"), 2 * MIB).is_ok(), "one megabyte above the limit was closed");
        assert_eq!(memory.reserve(&reader("other"), 2 * MIB).err(), Some(MemoryBound::Total));
        drop(first);
        assert!(memory.reserve(&reader("other"), 2 * MIB).is_ok());
        assert_eq!(memory.usage().refused, [("client", 0), ("total", 2)]);
    }

    #[test]
    fn connections_are_closed_for_a_response_that_is_sent_in_any_case() {
        let memory = memory(10, 10);
        let slow = Arc::new(Slow(Mutex::new(MIB), Mutex::default()));
        let closes: Arc<dyn ClosesSlowest> = slow.clone();
        memory.set_closes_slowest(Arc::downgrade(&closes));
        let first = memory.reserve_always(&reader("one"), 10 * MIB);
        let second = memory.reserve_always(&reader("other"), 7);
        assert_eq!(*slow.1.lock().unwrap(), [7], "only if the limit is exceeded");
        assert_eq!((first.bytes(), second.bytes()), (10 * MIB, 7));
        assert_eq!(memory.usage().bytes, 10 * MIB + 7);
    }

    #[test]
    fn an_empty_response_leaves_nothing_behind() {
        let memory = memory(10, 10);
        drop(memory.reserve(&reader("one"), 0).unwrap());
        assert_eq!(memory.usage().clients, 0);
    }

    #[test]
    fn a_network_of_ipv6_is_one_reader() {
        let of = |text: &str| Reader::of_address(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::2"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
