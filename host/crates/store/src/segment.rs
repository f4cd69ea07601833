//! Summaries of audit log segments: the time range of their entries, and a Bloom filter of the actors, targets and
//! requests that these name. A search skips segments that cannot contain a matching entry.
//!
//! **Invariant:** a segment without a summary is read. Summaries only save work.
//!
//! **Invariant:** the digests are stored: they never change.

use std::collections::HashSet;

use crate::record::audit::AuditSegment;
use crate::record::instant::milliseconds;
use daftar_domain::audit::query::{AuditQuery, lookup_key};
use daftar_domain::audit::{Actor, AuditEntry};

/// Number of entries that complete a segment.
pub const SEGMENT_LINES: u64 = 4_096;
/// Number of distinct names that complete a segment.
const SEGMENT_NAMES: usize = 32_768;
/// Bits of the filter for each name: one lookup in some 120 is a false positive, at the cost of reading a segment.
const BITS_PER_NAME: usize = 10;
/// Number of bits that each name sets.
const BITS_SET: u64 = 7;

/// Kind of a digested name, so that a client and a target of the same name differ.
#[derive(Clone, Copy)]
enum Named {
    Actor = 1,
    Target = 2,
    Request = 3,
}

/// FNV-1a of 64 bits, mixed at the end as in `splitmix64`: fast and the same on every platform. A client that
/// constructs collisions slows down searches of the audit log, but hides nothing.
fn digest(named: Named, name: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in [named as u8].into_iter().chain(name.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

fn actor_digest(actor: &Actor) -> u64 {
    match actor {
        Actor::Client(client) => digest(Named::Actor, client.as_str()),
        // No client has this name: the names of clients begin differently.
        Actor::Administrator => digest(Named::Actor, " administrator"),
        Actor::System => digest(Named::Actor, " system"),
        Actor::Unknown => digest(Named::Actor, " unknown"),
    }
}

/// The bits that a digest sets in a filter of that many bits.
fn bits(digest: u64, filter_bits: u64) -> impl Iterator<Item = u64> {
    let step = (digest >> 32) | 1;
    (0..BITS_SET).filter_map(move |turn| digest.wrapping_add(turn.wrapping_mul(step)).checked_rem(filter_bits))
}

/// The segment that is being written.
#[derive(Debug, Default)]
pub struct OpenSegment {
    span: Option<(u64, u64)>,
    lines: u64,
    at_ms: Option<(i64, i64)>,
    names: HashSet<u64>,
}

impl OpenSegment {
    /// Adds the entries of the next value.
    pub fn add<'e>(&mut self, number: u64, lines: impl IntoIterator<Item = &'e AuditEntry>) {
        self.span = Some((self.span.map_or(number, |(first, _)| first), number));
        for line in lines {
            self.lines = self.lines.saturating_add(1);
            let at = milliseconds(line.at);
            self.at_ms = Some(self.at_ms.map_or((at, at), |(min, max)| (min.min(at), max.max(at))));
            self.names.insert(actor_digest(&line.actor));
            self.names.insert(digest(Named::Request, &line.request_id));
            self.names.extend(line.targets.iter().map(|target| digest(Named::Target, lookup_key(target))));
        }
    }

    /// Number of its entries.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Its summary, if it is full; a new segment begins then.
    pub fn take_full(&mut self) -> Option<AuditSegment> {
        if self.lines < SEGMENT_LINES && self.names.len() < SEGMENT_NAMES {
            return None;
        }
        let full = std::mem::take(self);
        let ((first, last), (at_min_ms, at_max_ms)) = (full.span?, full.at_ms?);
        let filter = filter_of(&full.names);
        Some(AuditSegment { first, last, lines: full.lines, at_min_ms, at_max_ms, filter })
    }
}

fn filter_of(names: &HashSet<u64>) -> Vec<u8> {
    let mut filter = vec![0_u8; names.len().saturating_mul(BITS_PER_NAME).div_ceil(8)];
    let filter_bits = bit_count(&filter);
    for name in names {
        for bit in bits(*name, filter_bits) {
            let byte = usize::try_from(bit / 8).ok().and_then(|byte| filter.get_mut(byte));
            if let Some(byte) = byte {
                *byte |= 1 << (bit % 8);
            }
        }
    }
    filter
}

fn bit_count(filter: &[u8]) -> u64 {
    u64::try_from(filter.len()).unwrap_or(u64::MAX).saturating_mul(8)
}

/// True if a segment may contain an entry that matches a query.
pub fn may_hold(segment: &AuditSegment, query: &AuditQuery) -> bool {
    let is_in_time = query.from.is_none_or(|from| segment.at_max_ms >= milliseconds(from))
        && query.to.is_none_or(|to| segment.at_min_ms <= milliseconds(to));
    let names = [
        query.actor.as_ref().map(actor_digest),
        query.request_id.as_deref().map(|id| digest(Named::Request, id)),
        query.target.as_deref().map(|target| digest(Named::Target, lookup_key(target))),
    ];
    is_in_time && names.into_iter().flatten().all(|name| is_named(&segment.filter, name))
}

fn is_named(filter: &[u8], name: u64) -> bool {
    bits(name, bit_count(filter)).all(|bit| {
        let byte = usize::try_from(bit / 8).ok().and_then(|byte| filter.get(byte));
        byte.is_none_or(|byte| byte & (1 << (bit % 8)) != 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::audit_entry;

    fn line(number: u64) -> AuditEntry {
        AuditEntry { targets: vec![format!("Individual/urn:x:a|{number}")], ..audit_entry(&number.to_string()) }
    }

    fn full() -> AuditSegment {
        let mut open = OpenSegment::default();
        for number in 0..SEGMENT_LINES - 1 {
            open.add(number + 7, &[line(number)]);
            assert!(open.take_full().is_none(), "{number}");
        }
        open.add(SEGMENT_LINES + 6, &[line(SEGMENT_LINES - 1)]);
        open.take_full().unwrap()
    }

    #[test]
    fn is_summed_up_when_it_is_full() {
        let segment = full();
        assert_eq!((segment.first, segment.last, segment.lines), (7, SEGMENT_LINES + 6, SEGMENT_LINES));
        let mut named = OpenSegment::default();
        let targets = (0..SEGMENT_NAMES).map(|number| number.to_string()).collect();
        named.add(1, &[AuditEntry { targets, ..audit_entry("r") }]);
        assert!(named.take_full().is_some(), "many names in one line");
    }

    #[test]
    fn skips_most_segments_without_a_name_and_none_with_it() {
        let segment = full();
        let on = |target: String| may_hold(&segment, &AuditQuery { target: Some(target), ..AuditQuery::default() });
        for number in 0..SEGMENT_LINES {
            assert!(on(format!("urn:x:a|{number}")) && on(format!("Group/urn:x:a|{number}")), "{number}");
        }
        let wrong = (0..10_000).filter(|number| on(format!("urn:x:b|{number}"))).count();
        assert!(wrong < 200, "{wrong} of 10000");
        let by = |actor| may_hold(&segment, &AuditQuery { actor: Some(actor), ..AuditQuery::default() });
        assert!(by(Actor::System));
        let request = |id: &str| AuditQuery { request_id: Some(id.to_owned()), ..AuditQuery::default() };
        assert!(may_hold(&segment, &request("12")));
    }

    #[test]
    fn passes_over_other_times() {
        let segment = full();
        let at = line(0).at;
        let later = at + jiff::SignedDuration::from_millis(1);
        assert!(may_hold(&segment, &AuditQuery { from: Some(at), to: Some(later), ..AuditQuery::default() }));
        assert!(!may_hold(&segment, &AuditQuery { from: Some(later), ..AuditQuery::default() }));
        let earlier = at - jiff::SignedDuration::from_millis(1);
        assert!(!may_hold(&segment, &AuditQuery { to: Some(earlier), ..AuditQuery::default() }));
    }

    #[test]
    fn digests_are_as_stored_ones() {
        assert_eq!(format!("{:016x}", digest(Named::Target, "urn:x:a|1")), "02987bb7acfe55a4");
    }
}
