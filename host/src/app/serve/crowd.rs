//! The connections of a listener: how many there are, from where, and who makes room when there is none.
//!
//! Whoever comes when all places are taken takes the place of a connection that does nothing: first of one that never sent a whole
//! request, of these the one that came first, then of the one that has waited longest for its next request. So connections that only
//! stand there cannot keep anybody out, however many they are.
//!
//! **Invariant:** a connection with a request under way is never cut to make room.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::activity::Activity;
use crate::api::middleware::caller::Refusal;
use crate::app::transport::{Cut, Transport};
use crate::domain::audit::kept_address;

/// How many connections beyond the others are open at once for being told that there is no place, and for probes of health.
const REFUSED_MAX: usize = 64;

/// How many connections there may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct CrowdLimits {
    /// In all.
    pub(super) max: usize,
    /// From one address.
    pub(super) per_address_max: usize,
}

/// The connections of a listener.
#[derive(Debug)]
pub(super) struct Crowd {
    limits: CrowdLimits,
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
    /// Of those that are served, by address or network.
    by_address: HashMap<IpAddr, usize>,
}

#[derive(Debug)]
struct Member {
    activity: Arc<Activity>,
    leave: Arc<Notify>,
    /// Where it is counted, if it is served; its place is given away already, if it is neither.
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Served { address: Option<IpAddr> },
    Refused,
    Leaving,
}

/// Where somebody who comes is counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Comer {
    /// Their address.
    pub(super) address: IpAddr,
    /// Whether they stand for many clients.
    pub(super) is_proxy: bool,
    /// Why they are not served whatever places there are.
    pub(super) refusal: Option<Refusal>,
}

/// The place of a connection; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    crowd: Arc<Crowd>,
    id: u64,
    /// What the connection is doing.
    pub(super) activity: Arc<Activity>,
    /// Told when it is to leave.
    pub(super) leave: Arc<Notify>,
    /// Why it is not served.
    pub(super) refusal: Option<Refusal>,
}

impl Crowd {
    /// Nobody yet.
    pub(super) fn new(limits: CrowdLimits, transport: Arc<Transport>) -> Arc<Self> {
        Arc::new(Self { limits, transport, places: Mutex::default(), is_empty: Notify::new() })
    }

    /// A place for a connection: to be served, or to be told why it is not. None where there is not even one for that.
    pub(super) fn admit(self: &Arc<Self>, comer: Comer) -> Option<Seat> {
        let address = (!comer.is_proxy).then(|| kept_address(comer.address));
        let mut places = self.places();
        let refusal = comer.refusal.or_else(|| {
            let from_there = address.and_then(|address| places.by_address.get(&address)).copied().unwrap_or_default();
            if from_there >= self.limits.per_address_max {
                return Some(Refusal::AddressFull);
            }
            let has_place = places.served < self.limits.max || self.make_room(&mut places, false);
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
                if places.refused >= REFUSED_MAX && !self.make_room(&mut places, true) {
                    return None;
                }
                Kind::Refused
            }
        };
        let (activity, leave) = (Arc::new(Activity::new()), Arc::new(Notify::new()));
        places.count(kind, 1);
        let id = places.next;
        places.next = id.wrapping_add(1);
        places.members.insert(id, Member { activity: Arc::clone(&activity), leave: Arc::clone(&leave), kind });
        self.transport.connection_opened();
        Some(Seat { crowd: Arc::clone(self), id, activity, leave, refusal })
    }

    /// Gives away the place of a connection that does nothing, if there is one.
    fn make_room(&self, places: &mut Places, among_refused: bool) -> bool {
        let waiting = places.members.values_mut().filter(|member| match member.kind {
            Kind::Served { .. } => !among_refused,
            Kind::Refused => among_refused,
            Kind::Leaving => false,
        });
        let ranked = waiting.filter_map(|member| member.activity.waiting().map(|waiting| (waiting, member)));
        // Of those that nobody knows, and then of the others, the one that waits longest.
        let first = ranked.max_by_key(|((is_known, since), _)| (!is_known, *since));
        let Some((_, member)) = first else { return false };
        let kind = std::mem::replace(&mut member.kind, Kind::Leaving);
        member.leave.notify_one();
        places.count(kind, -1);
        self.transport.count_cut(Cut::MadeRoom);
        true
    }

    /// Waits until every connection is gone.
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
        // Each change is whole before anything can panic.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    fn count(&mut self, kind: Kind, by: isize) {
        match kind {
            Kind::Served { address } => {
                self.served = self.served.saturating_add_signed(by);
                if let Some(address) = address {
                    let count = self.by_address.entry(address).or_default();
                    *count = count.saturating_add_signed(by);
                    if *count == 0 {
                        self.by_address.remove(&address);
                    }
                }
            }
            Kind::Refused => self.refused = self.refused.saturating_add_signed(by),
            Kind::Leaving => {}
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut places = self.crowd.places();
        if let Some(member) = places.members.remove(&self.id) {
            places.count(member.kind, -1);
            self.crowd.transport.connection_closed();
        }
        if places.members.is_empty() {
            self.crowd.is_empty.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Version;

    use super::*;
    use crate::config::ConnectionsConfig;

    fn crowd(max: usize, per_address_max: usize) -> Arc<Crowd> {
        let transport = Arc::new(Transport::new(&ConnectionsConfig::default()));
        Crowd::new(CrowdLimits { max, per_address_max }, transport)
    }

    fn comer(address: &str) -> Comer {
        Comer { address: address.parse().unwrap(), is_proxy: false, refusal: None }
    }

    fn is_told_to_leave(seat: &Seat) -> bool {
        use futures_util::FutureExt;
        seat.leave.notified().now_or_never().is_some()
    }

    #[test]
    fn one_address_has_its_number_of_places_and_a_network_of_ipv6_is_one() {
        let crowd = crowd(100, 3);
        for addresses in [
            ["192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1", "192.0.2.1"],
            ["2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::", "2001:db8::3"],
        ] {
            let mut seats: Vec<Seat> = addresses.iter().map(|one| crowd.admit(comer(one)).unwrap()).collect();
            let refusals: Vec<_> = seats.iter().map(|seat| seat.refusal).collect();
            assert_eq!(refusals, [None, None, None, Some(Refusal::AddressFull)]);
            seats.remove(0);
            assert_eq!(crowd.admit(comer(addresses[0])).unwrap().refusal, None, "a place that was given back");
        }
        let proxies: Vec<Seat> =
            (0..10).map(|_| crowd.admit(Comer { is_proxy: true, ..comer("192.0.2.1") }).unwrap()).collect();
        assert!(proxies.iter().all(|seat| seat.refusal.is_none()), "a proxy stands for many");
        drop(proxies);
        let places = crowd.places();
        assert!(places.by_address.is_empty() && places.served == 0 && places.refused == 0, "{places:?}");
    }

    #[test]
    fn who_does_nothing_makes_room_strangers_first() {
        let crowd = crowd(3, 100);
        let seats: Vec<Seat> =
            (1..=3).map(|number| crowd.admit(comer(&format!("192.0.2.{number}"))).unwrap()).collect();
        let [known, stranger, busy] = &seats[..] else { panic!("three came") };
        drop(known.activity.begin(Version::HTTP_11));
        let request = busy.activity.begin(Version::HTTP_11);
        seats.iter().for_each(|seat| seat.activity.pass_ms(1_000));
        let fourth = crowd.admit(comer("192.0.2.4")).unwrap();
        assert_eq!(fourth.refusal, None);
        assert!(is_told_to_leave(stranger) && !is_told_to_leave(known));
        drop(fourth.activity.begin(Version::HTTP_11));
        let fifth = crowd.admit(comer("192.0.2.5")).unwrap();
        assert!(fifth.refusal.is_none() && is_told_to_leave(known), "it waits longer than the fourth");
        let (_fourth, _fifth) = (fourth.activity.begin(Version::HTTP_11), fifth.activity.begin(Version::HTTP_11));
        let sixth = crowd.admit(comer("192.0.2.6")).unwrap();
        assert_eq!(sixth.refusal, Some(Refusal::Full), "nobody with a request under way is cut");
        assert!(!is_told_to_leave(busy));
        drop(request);
        assert_eq!(crowd.admit(comer("192.0.2.7")).unwrap().refusal, None);
    }

    #[tokio::test]
    async fn so_many_are_told_that_there_is_no_place_and_no_more_at_once() {
        let crowd = crowd(1, 100);
        let served = crowd.admit(comer("192.0.2.1")).unwrap();
        let _request = served.activity.begin(Version::HTTP_11);
        let refused: Vec<Seat> = (0..REFUSED_MAX).map(|_| crowd.admit(comer("192.0.2.2")).unwrap()).collect();
        assert!(refused.iter().all(|seat| seat.refusal == Some(Refusal::Full)));
        let requests: Vec<_> = refused.iter().map(|seat| seat.activity.begin(Version::HTTP_11)).collect();
        assert!(crowd.admit(comer("192.0.2.3")).is_none());
        drop(requests);
        assert!(crowd.admit(comer("192.0.2.3")).is_some(), "one of them that does nothing makes room");
        drop((refused, served));
        crowd.emptied().await;
    }
}
