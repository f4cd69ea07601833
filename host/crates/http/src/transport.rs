//! Counters of the listeners, and the limit of concurrent requests.
//!
//! **Invariant:** an admitted request releases its slot in every case.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

use daftar_domain::config::ConnectionsConfig;

/// One in so many request slots may be used by token requests: they are the only requests of unauthenticated clients
/// that wait for a body, so unauthenticated clients alone cannot use all slots.
const TOKEN_SHARE: usize = 4;

daftar_domain::named_enum! {
    /// Reason why the server closed or rejected a connection, other than a close by the client or the server's stop;
    /// with its name on the metrics page.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Cut {
        /// The TLS handshake took too long.
        HandshakeTimeout = "handshake_timeout",
        /// The TLS handshake failed: another version, another protocol, no trust in the certificate.
        HandshakeFailed = "handshake_failed",
        /// The head of a request took too long.
        HeaderTimeout = "header_timeout",
        /// There was no request for too long.
        Idle = "idle",
        /// The client read too little of a response.
        WriteTimeout = "write_timeout",
        /// It was idle while the connection limit was reached.
        EvictedIdle = "evicted_idle",
        /// Its client was the slowest reader when a slot was required.
        EvictedSlow = "evicted_slow",
        /// Its client was the slowest reader when memory for responses was required.
        ResponseMemory = "response_memory",
        /// There were too many connections.
        Full = "full",
        /// There were too many connections from its address.
        AddressFull = "address_full",
        /// It came by plain HTTP and not from a trusted proxy.
        NotAProxy = "not_a_proxy",
    }
}

/// Counters shared by the listeners of a server.
#[derive(Debug)]
pub struct Transport {
    requests_max: usize,
    requests: AtomicUsize,
    token_requests: AtomicUsize,
    requests_refused: AtomicU64,
    connections: AtomicUsize,
    cut: [AtomicU64; Cut::ALL.len()],
    /// Seconds since 1970; 0 without a certificate.
    certificate_expires_s: AtomicI64,
    certificate_is_stale: AtomicBool,
    certificates_taken: AtomicU64,
}

impl Transport {
    /// Counters at zero.
    #[must_use]
    pub fn new(config: &ConnectionsConfig) -> Self {
        Self {
            requests_max: usize::try_from(config.requests_max).unwrap_or(usize::MAX),
            requests: AtomicUsize::new(0),
            token_requests: AtomicUsize::new(0),
            requests_refused: AtomicU64::new(0),
            connections: AtomicUsize::new(0),
            cut: Default::default(),
            certificate_expires_s: AtomicI64::new(0),
            certificate_is_stale: AtomicBool::new(false),
            certificates_taken: AtomicU64::new(0),
        }
    }

    /// Reserves a request slot; `None` if all are in use.
    pub fn enter(&self, is_for_token: bool) -> Option<Place<'_>> {
        let token_max = self.requests_max.div_ceil(TOKEN_SHARE);
        if is_for_token && !take(&self.token_requests, token_max) {
            self.requests_refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        // From here on, dropping the slot releases its counters.
        let place = Place { transport: self, is_for_token, is_whole: take(&self.requests, self.requests_max) };
        if place.is_whole {
            return Some(place);
        }
        self.requests_refused.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Counts a connection that was closed or rejected for that reason.
    pub fn count_cut(&self, cut: Cut) {
        if let Some(count) = self.cut.get(cut as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts an accepted connection.
    pub fn connection_opened(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a closed connection.
    pub fn connection_closed(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Records the expiry of the certificate in use.
    pub fn certificate_taken(&self, expires_s: i64) {
        self.certificate_expires_s.store(expires_s, Ordering::Relaxed);
        self.certificates_taken.fetch_add(1, Ordering::Relaxed);
        self.certificate_is_stale.store(false, Ordering::Relaxed);
    }

    /// Records that the files contain another certificate, which cannot be used.
    pub fn certificate_refused(&self) {
        self.certificate_is_stale.store(true, Ordering::Relaxed);
    }

    /// Records that the files contain the certificate in use again.
    pub fn certificate_is_current(&self) {
        self.certificate_is_stale.store(false, Ordering::Relaxed);
    }

    /// Returns the counters.
    #[must_use]
    pub fn usage(&self) -> TransportUsage {
        let expires_s = self.certificate_expires_s.load(Ordering::Relaxed);
        let mut cut = [("", 0); Cut::ALL.len()];
        for ((to, kind), count) in cut.iter_mut().zip(Cut::ALL).zip(&self.cut) {
            *to = (kind.name(), count.load(Ordering::Relaxed));
        }
        TransportUsage {
            connections: self.connections.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
            requests_max: self.requests_max,
            requests_refused: self.requests_refused.load(Ordering::Relaxed),
            cut,
            certificate_expires_s: (expires_s != 0).then_some(expires_s),
            certificate_is_stale: self.certificate_is_stale.load(Ordering::Relaxed),
            certificates_taken: self.certificates_taken.load(Ordering::Relaxed),
        }
    }
}

/// Increments a count that is below `most`.
fn take(count: &AtomicUsize, most: usize) -> bool {
    count.fetch_update(Ordering::AcqRel, Ordering::Acquire, |taken| (taken < most).then_some(taken + 1)).is_ok()
}

/// A request slot; released when it is dropped.
#[derive(Debug)]
pub struct Place<'t> {
    transport: &'t Transport,
    is_for_token: bool,
    is_whole: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.is_for_token {
            self.transport.token_requests.fetch_sub(1, Ordering::AcqRel);
        }
        if self.is_whole {
            self.transport.requests.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Values of the listeners on the metrics page.
#[derive(Debug, Clone, Copy)]
pub struct TransportUsage {
    /// Open connections of all listeners.
    pub connections: usize,
    /// Requests in progress.
    pub requests: usize,
    /// Limit of concurrent requests.
    pub requests_max: usize,
    /// Requests rejected because no slot was free.
    pub requests_refused: u64,
    /// Connections that the server closed or rejected, by reason.
    pub cut: [(&'static str, u64); Cut::ALL.len()],
    /// Expiry of the certificate in use, in seconds since 1970.
    pub certificate_expires_s: Option<i64>,
    /// True if the files contain another certificate, which cannot be used.
    pub certificate_is_stale: bool,
    /// Number of certificates applied since the start.
    pub certificates_taken: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transport(requests_max: u64) -> Transport {
        Transport::new(&ConnectionsConfig { requests_max, ..ConnectionsConfig::default() })
    }

    #[test]
    fn lets_in_as_many_as_there_are_places_and_no_more() {
        let transport = transport(3);
        let mut places: Vec<_> = (0..3).map(|_| transport.enter(false).unwrap()).collect();
        assert!(transport.enter(false).is_none());
        assert_eq!((transport.usage().requests, transport.usage().requests_refused), (3, 1));
        drop(places.pop());
        drop(transport.enter(false).unwrap());
        drop(places);
        assert_eq!(transport.usage().requests, 0, "every place is given back");
    }

    #[test]
    fn requests_for_tokens_cannot_take_all_places() {
        let transport = transport(8);
        let tokens: Vec<_> = (0..2).map(|_| transport.enter(true).unwrap()).collect();
        assert!(transport.enter(true).is_none());
        let others: Vec<_> = (0..6).map(|_| transport.enter(false).unwrap()).collect();
        assert!(transport.enter(false).is_none());
        drop(tokens);
        assert!(transport.enter(true).is_some(), "and a rejected request holds no slot");
        drop(others);
        let usage = transport.usage();
        assert_eq!((usage.requests, usage.requests_refused), (0, 2));
    }

    #[test]
    fn every_way_to_cut_a_connection_is_counted_by_its_name() {
        let transport = transport(1);
        for (times, cut) in Cut::ALL.into_iter().enumerate() {
            (0..=times).for_each(|_| transport.count_cut(cut));
        }
        let counted: Vec<u64> = transport.usage().cut.iter().map(|(_, count)| *count).collect();
        assert_eq!(counted, (1..=Cut::ALL.len() as u64).collect::<Vec<_>>());
        assert_eq!(transport.usage().cut[0].0, "handshake_timeout");
    }
}
