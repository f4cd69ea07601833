//! The connections of a listener: their number, their sources, and eviction when all slots are in use.
//!
//! When all slots are in use, a new connection evicts an idle one. The first candidate is the oldest connection that
//! never sent a complete request, then the connection that has waited longest for its next request, then the connection
//! whose client reads its response most slowly. So connections that make no progress cannot lock out clients,
//! independent of their number.
//!
//! Additional slots exist for connections that are rejected, and for health probes. These connections use HTTP/1.1
//! only.
//!
//! **Invariant:** a connection is never evicted while the server processes all its requests, or while its client reads
//! its response at [`FAST_BYTES_PER_S`] or faster.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::activity::Activity;
use daftar_auth::limits::response_memory::ClosesSlowest;
use daftar_domain::audit::stored_address;
use daftar_http::api::middleware::entrance::Refusal;
use daftar_http::transport::{Cut, Transport};

/// Number of additional connections that are open concurrently, for responses that report the lack of slots and for
/// health probes.
const REFUSED_MAX: usize = 64;
/// Maximum number of additional connections from one address.
const REFUSED_PER_ADDRESS_MAX: usize = 16;
/// A connection whose client reads its response at this rate retains its slot.
const FAST_BYTES_PER_S: u64 = 16 << 10;

/// Maximum number of connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionLimits {
    /// Maximum in total.
    pub(super) max: usize,
    /// Maximum from one address.
    pub(super) per_address_max: usize,
    /// Time after which the rate of a waiting response is measured.
    pub(super) slow_after: Duration,
}

/// The connections of a listener.
#[derive(Debug)]
pub(super) struct ConnectionLimiter {
    limits: ConnectionLimits,
    transport: Arc<Transport>,
    places: Mutex<Places>,
    is_empty: Notify,
}

#[derive(Debug, Default)]
struct Places {
    next: u64,
    members: HashMap<u64, Member>,
    served: usize,
    refused: usize,
    /// Number of connections that are served, by address or network.
    by_address: HashMap<IpAddr, usize>,
    /// Number of connections that are rejected, by address or network.
    refused_by_address: HashMap<IpAddr, usize>,
}

#[derive(Debug)]
struct Member {
    activity: Arc<Activity>,
    leave: Arc<Notify>,
    /// Slot of the connection, if it is served; `None` if the slot was reassigned.
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Served { address: Option<IpAddr> },
    Refused { address: Option<IpAddr> },
    Leaving,
}

impl Kind {
    fn is_served(self) -> bool {
        matches!(self, Self::Served { .. })
    }
}

/// Source of a new connection, for the counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct IncomingConnection {
    /// Address of the source.
    pub(super) address: IpAddr,
    /// True if the source represents many clients.
    pub(super) is_proxy: bool,
    /// Reason for which its connections are rejected, independent of free slots.
    pub(super) refusal: Option<Refusal>,
}

/// The slot of a connection; released when dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    limiter: Arc<ConnectionLimiter>,
    id: u64,
    /// Activity of the connection.
    pub(super) activity: Arc<Activity>,
    /// Notified when the connection must close.
    pub(super) leave: Arc<Notify>,
    /// Reason why the connection is not served.
    pub(super) refusal: Option<Refusal>,
}

impl ConnectionLimiter {
    /// Creates a limiter without connections.
    pub(super) fn new(limits: ConnectionLimits, transport: Arc<Transport>) -> Arc<Self> {
        Arc::new(Self { limits, transport, places: Mutex::default(), is_empty: Notify::new() })
    }

    /// Reserves a slot for a connection: to serve it, or to send it the reason of its rejection. Returns `None` if no
    /// slot is free for a rejection either.
    pub(super) fn admit(self: &Arc<Self>, incoming: IncomingConnection) -> Option<ConnectionSlot> {
        let address = (!incoming.is_proxy).then(|| stored_address(incoming.address));
        let mut places = self.places();
        let refusal = incoming.refusal.or_else(|| {
            let from_there = address.and_then(|address| places.by_address.get(&address)).copied().unwrap_or_default();
            if from_there >= self.limits.per_address_max {
                return Some(Refusal::AddressFull);
            }
            let has_place = places.served < self.limits.max
                || self.evict_idle(&mut places, Kind::is_served)
                || self.evict_slowest(&mut places, Cut::EvictedSlow).is_some();
            (!has_place).then_some(Refusal::Full)
        });
        let kind = match refusal {
            None => Kind::Served { address },
            Some(refusal) => {
                self.transport.count_cut(match refusal {
                    Refusal::Full => Cut::Full,
                    Refusal::AddressFull => Cut::AddressFull,
                    Refusal::NotAProxy => Cut::NotAProxy,
                });
                let kind = Kind::Refused { address };
                let from_there = address.and_then(|address| places.refused_by_address.get(&address));
                let is_free = if from_there.is_some_and(|count| *count >= REFUSED_PER_ADDRESS_MAX) {
                    self.evict_idle(&mut places, |other| other == kind)
                } else {
                    places.refused < REFUSED_MAX
                        || self.evict_idle(&mut places, |other| matches!(other, Kind::Refused { .. }))
                };
                if !is_free {
                    return None;
                }
                kind
            }
        };
        let (activity, leave) = (Arc::new(Activity::new()), Arc::new(Notify::new()));
        places.count(kind, 1);
        let id = places.next;
        places.next = id.wrapping_add(1);
        places.members.insert(id, Member { activity: Arc::clone(&activity), leave: Arc::clone(&leave), kind });
        self.transport.connection_opened();
        Some(ConnectionSlot { limiter: Arc::clone(self), id, activity, leave, refusal })
    }

    /// Evicts an idle connection of that kind, if one exists.
    fn evict_idle(&self, places: &mut Places, is_meant: impl Fn(Kind) -> bool) -> bool {
        let meant = places.members.iter().filter(|(_, member)| is_meant(member.kind));
        let ranked = meant.filter_map(|(id, member)| member.activity.waiting().map(|waiting| (waiting, *id)));
        // The longest-waiting connection that never sent a request; if none exists, the longest-waiting of the others.
        let first = ranked.max_by_key(|((is_known, since), _)| (!is_known, *since));
        let Some((_, id)) = first else { return false };
        self.evict(places, id, Cut::EvictedIdle);
        true
    }

    /// Evicts the connection whose client reads its response most slowly, if one may be evicted; returns the number of
    /// its unread bytes.
    fn evict_slowest(&self, places: &mut Places, cut: Cut) -> Option<u64> {
        let served = places.members.iter().filter(|(_, member)| member.kind.is_served());
        let rates = served.filter_map(|(id, member)| Some((member.activity.reading_rate()?, *id)));
        let slow = rates.filter(|(rate, _)| match cut {
            Cut::ResponseMemory => rate.unread > 0 && rate.time >= self.limits.slow_after,
            _ => rate.bytes_per_s < FAST_BYTES_PER_S && rate.time >= self.limits.slow_after,
        });
        let (rate, id) = slow.min_by_key(|(rate, _)| (rate.bytes_per_s, Reverse(rate.time)))?;
        self.evict(places, id, cut);
        Some(rate.unread)
    }

    fn evict(&self, places: &mut Places, id: u64, cut: Cut) {
        let Some(member) = places.members.get_mut(&id) else { return };
        let kind = std::mem::replace(&mut member.kind, Kind::Leaving);
        member.leave.notify_one();
        places.count(kind, -1);
        self.transport.count_cut(cut);
    }

    /// Waits until every connection is closed.
    pub(super) async fn emptied(&self) {
        loop {
            let is_empty = self.is_empty.notified();
            if self.places().members.is_empty() {
                return;
            }
            is_empty.await;
        }
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        // Each change is complete before anything can panic.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClosesSlowest for ConnectionLimiter {
    fn close_slowest(&self, bytes: u64) -> bool {
        let mut places = self.places();
        let leaving = places.members.values().filter(|member| member.kind == Kind::Leaving);
        let mut freed: u64 = leaving.map(|member| member.activity.unread()).sum();
        while freed < bytes {
            let Some(unread) = self.evict_slowest(&mut places, Cut::ResponseMemory) else { return false };
            freed = freed.saturating_add(unread);
        }
        true
    }
}

impl Places {
    fn count(&mut self, kind: Kind, by: isize) {
        let (count, by_address, address) = match kind {
            Kind::Served { address } => (&mut self.served, &mut self.by_address, address),
            Kind::Refused { address } => (&mut self.refused, &mut self.refused_by_address, address),
            Kind::Leaving => return,
        };
        *count = count.saturating_add_signed(by);
        if let Some(address) = address {
            let count = by_address.entry(address).or_default();
            *count = count.saturating_add_signed(by);
            if *count == 0 {
                by_address.remove(&address);
            }
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut places = self.limiter.places();
        if let Some(member) = places.members.remove(&self.id) {
            places.count(member.kind, -1);
            self.limiter.transport.connection_closed();
        }
        if places.members.is_empty() {
            self.limiter.is_empty.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Version;

    use super::*;
    use daftar_domain::config::ConnectionsConfig;

    fn limiter(max: usize, per_address_max: usize) -> Arc<ConnectionLimiter> {
        let transport = Arc::new(Transport::new(&ConnectionsConfig::default()));
        let slow_after = Duration::from_secs(1);
        ConnectionLimiter::new(ConnectionLimits { max, per_address_max, slow_after }, transport)
    }

    fn incoming(address: &str) -> IncomingConnection {
        IncomingConnection { address: address.parse().unwrap(), is_proxy: false, refusal: None }
    }

    fn is_evicted(slot: &ConnectionSlot) -> bool {
        use futures_util::FutureExt;
        slot.leave.notified().now_or_never().is_some()
    }

    #[test]
    fn one_address_has_its_number_of_places_and_a_network_of_ipv6_is_one() {
        let limiter = limiter(100, 3);
        for addresses in [
            ["192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1", "192.0.2.1"],
            ["2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::", "2001:db8::3"],
        ] {
            let mut slots: Vec<ConnectionSlot> =
                addresses.iter().map(|one| limiter.admit(incoming(one)).unwrap()).collect();
            let refusals: Vec<_> = slots.iter().map(|slot| slot.refusal).collect();
            assert_eq!(refusals, [None, None, None, Some(Refusal::AddressFull)]);
            slots.remove(0);
            assert_eq!(limiter.admit(incoming(addresses[0])).unwrap().refusal, None, "a place that was given back");
        }
        let proxies: Vec<ConnectionSlot> = (0..10)
            .map(|_| limiter.admit(IncomingConnection { is_proxy: true, ..incoming("192.0.2.1") }).unwrap())
            .collect();
        assert!(proxies.iter().all(|slot| slot.refusal.is_none()), "a proxy stands for many");
        drop(proxies);
        let places = limiter.places();
        assert!(places.by_address.is_empty() && places.served == 0 && places.refused == 0, "{places:?}");
    }

    #[test]
    fn idle_connections_are_evicted_unknown_ones_first() {
        let limiter = limiter(3, 100);
        let slots: Vec<ConnectionSlot> =
            (1..=3).map(|number| limiter.admit(incoming(&format!("192.0.2.{number}"))).unwrap()).collect();
        let [known, unknown, busy] = &slots[..] else { panic!("three came") };
        drop(known.activity.begin(Version::HTTP_11));
        let request = busy.activity.begin(Version::HTTP_11);
        slots.iter().for_each(|slot| slot.activity.pass_ms(1_000));
        let fourth = limiter.admit(incoming("192.0.2.4")).unwrap();
        assert_eq!(fourth.refusal, None);
        assert!(is_evicted(unknown) && !is_evicted(known));
        drop(fourth.activity.begin(Version::HTTP_11));
        let fifth = limiter.admit(incoming("192.0.2.5")).unwrap();
        assert!(fifth.refusal.is_none() && is_evicted(known), "it waits longer than the fourth");
        let (_fourth, _fifth) = (fourth.activity.begin(Version::HTTP_11), fifth.activity.begin(Version::HTTP_11));
        let sixth = limiter.admit(incoming("192.0.2.6")).unwrap();
        assert_eq!(sixth.refusal, Some(Refusal::Full), "no connection with a request in progress is closed");
        assert!(!is_evicted(busy));
        drop(request);
        assert_eq!(limiter.admit(incoming("192.0.2.7")).unwrap().refusal, None);
    }

    #[tokio::test]
    async fn a_bounded_number_of_connections_get_503_concurrently() {
        let limiter = limiter(1, 100);
        let served = limiter.admit(incoming("192.0.2.1")).unwrap();
        let _request = served.activity.begin(Version::HTTP_11);
        let from = |number: usize| incoming(&format!("192.0.2.{}", 2 + number / REFUSED_PER_ADDRESS_MAX));
        let refused: Vec<ConnectionSlot> =
            (0..REFUSED_MAX).map(|number| limiter.admit(from(number)).unwrap()).collect();
        assert!(refused.iter().all(|slot| slot.refusal == Some(Refusal::Full)));
        let requests: Vec<_> = refused.iter().map(|slot| slot.activity.begin(Version::HTTP_11)).collect();
        assert!(limiter.admit(incoming("192.0.2.99")).is_none());
        drop(requests);
        assert!(limiter.admit(incoming("192.0.2.99")).is_some(), "an idle one of them is evicted");
        drop((refused, served));
        limiter.emptied().await;
    }

    #[test]
    fn one_address_gets_503_on_a_bounded_number_of_connections() {
        let limiter = limiter(1, 100);
        let served = limiter.admit(incoming("192.0.2.1")).unwrap();
        let _request = served.activity.begin(Version::HTTP_11);
        let refused: Vec<ConnectionSlot> =
            (0..REFUSED_PER_ADDRESS_MAX).map(|_| limiter.admit(incoming("192.0.2.2")).unwrap()).collect();
        refused.iter().for_each(|slot| slot.activity.pass_ms(1_000));
        let other = limiter.admit(incoming("192.0.2.3")).unwrap();
        assert!(limiter.admit(incoming("192.0.2.2")).is_some(), "it takes the place of one from there");
        assert_eq!(refused.iter().filter(|slot| is_evicted(slot)).count(), 1);
        assert!(!is_evicted(&other));
        let busy = limiter.admit(incoming("192.0.2.4")).unwrap();
        let more: Vec<ConnectionSlot> =
            (1..REFUSED_PER_ADDRESS_MAX).map(|_| limiter.admit(incoming("192.0.2.4")).unwrap()).collect();
        let _requests: Vec<_> = more.iter().chain([&busy]).map(|slot| slot.activity.begin(Version::HTTP_11)).collect();
        assert!(limiter.admit(incoming("192.0.2.4")).is_none(), "none of its own does nothing");
    }

    #[test]
    fn the_slowest_reader_is_evicted() {
        let limiter = limiter(4, 100);
        let slots: Vec<ConnectionSlot> =
            (1..=4).map(|number| limiter.admit(incoming(&format!("192.0.2.{number}"))).unwrap()).collect();
        let [fast, slow, stalled, made] = &slots[..] else { panic!("four came") };
        let requests: Vec<_> = slots.iter().map(|slot| slot.activity.begin(Version::HTTP_2)).collect();
        let [to_fast, to_slow, to_stalled, _in_the_making] = &requests[..] else { panic!("four came") };
        [to_fast, to_slow, to_stalled].iter().for_each(|request| request.finished(1 << 20));
        assert_eq!(limiter.admit(incoming("192.0.2.9")).unwrap().refusal, Some(Refusal::Full), "none waited for long");
        slots.iter().for_each(|slot| slot.activity.pass_ms(2_000));
        to_fast.taken(40_000);
        to_slow.taken(8_000);
        let fifth = limiter.admit(incoming("192.0.2.5")).unwrap();
        let _busy = fifth.activity.begin(Version::HTTP_11);
        assert!(fifth.refusal.is_none() && is_evicted(stalled));
        let sixth = limiter.admit(incoming("192.0.2.6")).unwrap();
        let _busy_too = sixth.activity.begin(Version::HTTP_11);
        assert!(sixth.refusal.is_none() && is_evicted(slow));
        let seventh = limiter.admit(incoming("192.0.2.7")).unwrap();
        assert_eq!(seventh.refusal, Some(Refusal::Full));
        assert!(!is_evicted(fast) && !is_evicted(made));
    }

    #[test]
    fn slow_connections_are_closed_until_there_is_memory() {
        let limiter = limiter(4, 100);
        let slots: Vec<ConnectionSlot> =
            (1..=4).map(|number| limiter.admit(incoming(&format!("192.0.2.{number}"))).unwrap()).collect();
        let requests: Vec<_> = slots.iter().map(|slot| slot.activity.begin(Version::HTTP_2)).collect();
        requests.iter().for_each(|request| request.finished(100_000));
        slots.iter().for_each(|slot| slot.activity.pass_ms(2_000));
        requests.iter().zip([9_000, 0, 50_000, 3_000]).for_each(|(request, taken)| request.taken(taken));
        assert!(limiter.close_slowest(150_000));
        let left: Vec<bool> = slots.iter().map(is_evicted).collect();
        assert_eq!(left, [false, true, false, true]);
        assert!(limiter.close_slowest(190_000), "what is being closed counts");
        assert!(!is_evicted(&slots[0]));
        assert!(!limiter.close_slowest(1_000_000));
        assert!(is_evicted(&slots[0]) && is_evicted(&slots[2]));
    }
}
