//! Tests of the entries and evictions of the cache, and that it never changes a result.

use jiff::SignedDuration;
use proptest::prelude::*;

use super::*;
use crate::authenticate::{AuthFaultKind, Authenticator, authenticate};
use crate::fixtures::{Fixture, at, scopes};
use crate::token::TokenDefect;
use daftar_domain::client::ClientStatus;
use daftar_domain::scope::ScopeSet;

fn bounds(entries: usize, bytes: usize) -> TokenCacheBounds {
    TokenCacheBounds { entries, bytes }
}

fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.put_client("c", |client| client.grants = scopes("individual:read").iter().collect());
    fixture
}

type Answer = Result<(String, ScopeSet), AuthFaultKind>;

/// Authenticates a token with a cache, under the active keys.
fn response(fixture: &Fixture, cache: &TokenCache, token: &str, now: Timestamp) -> Answer {
    let (value, keys) = (format!("Bearer {token}"), fixture.ring.load());
    let door = Authenticator { cache, keys: &keys, ..fixture.authenticator() };
    let caller = authenticate([value.as_bytes()], door, now).map_err(|fault| fault.kind)?;
    Ok((caller.client.id.to_string(), caller.scopes))
}

#[test]
fn a_token_is_verified_once_and_then_cached() {
    let (fixture, cache) = (fixture(), TokenCache::new(bounds(1_000, 1_000 * ENTRY_BYTES)));
    let token = fixture.token("c", "individual:read", at(0));
    let first = cache.verify(&token, &fixture.keys, &fixture.config, at(1)).unwrap();
    for second in 2..12 {
        assert_eq!(cache.verify(&token, &fixture.keys, &fixture.config, at(second)).unwrap(), first);
    }
    let usage = cache.usage();
    assert_eq!((usage.hits, usage.misses, usage.entries, usage.dropped), (10, 1, 1, 0));
    assert_eq!(usage.bytes, bytes_of(&token));
    assert!(!format!("{cache:?}").contains(&token));
}

#[test]
fn a_token_that_differs_in_one_character_is_a_miss() {
    let (fixture, cache) = (fixture(), TokenCache::default());
    let token = fixture.token("c", "individual:read", at(0));
    assert!(cache.verify(&token, &fixture.keys, &fixture.config, at(1)).is_ok());
    for place in 0..token.len() {
        let mut forged = token.clone().into_bytes();
        forged[place] = if forged[place] == b'A' { b'B' } else { b'A' };
        let forged = String::from_utf8(forged).unwrap();
        assert!(cache.verify(&forged, &fixture.keys, &fixture.config, at(1)).is_err(), "{place}");
        assert!(cache.verify(&token[..place], &fixture.keys, &fixture.config, at(1)).is_err(), "{place}");
    }
    assert!(cache.verify(&format!("{token}A"), &fixture.keys, &fixture.config, at(1)).is_err());
    let usage = cache.usage();
    assert_eq!((usage.hits, usage.entries), (0, 1), "forged tokens are not cached");
}

#[test]
fn a_cached_token_does_not_outlive_exp_or_a_clock_set_back() {
    let (fixture, cache) = (fixture(), TokenCache::default());
    let token = fixture.token("c", "individual:read", at(10));
    let verify = |now| cache.verify(&token, &fixture.keys, &fixture.config, now).err();
    assert_eq!(verify(at(10)), None);
    assert_eq!(verify(at(10 + 86_400) - SignedDuration::from_micros(1)), None);
    assert_eq!(verify(at(10 + 86_400)), Some(TokenFault::Expired));
    assert_eq!(verify(at(9)), Some(TokenFault::Malformed(TokenDefect::IssuedInFuture)));
    assert_eq!(verify(at(11)), None);
    cache.prune(&fixture.keys, at(86_409));
    assert_eq!(cache.usage().entries, 1);
    cache.prune(&fixture.keys, at(86_410));
    assert_eq!((cache.usage().entries, cache.usage().bytes), (0, 0));
}

#[test]
fn a_cached_token_does_not_outlive_a_disable_a_revocation_or_a_grant() {
    let (fixture, cache) = (fixture(), TokenCache::default());
    let token = fixture.token("c", "individual:read", at(0));
    let ask = || response(&fixture, &cache, &token, at(5));
    assert_eq!(ask().unwrap().1, scopes("individual:read"));
    fixture.put_client("c", |client| client.updated_at = at(1));
    assert!(ask().unwrap().1.is_empty(), "a revoked grant");
    fixture.put_client("c", |client| (client.status, client.updated_at) = (ClientStatus::Disabled, at(2)));
    assert_eq!(ask(), Err(AuthFaultKind::Disabled));
    fixture.put_client("c", |client| (client.not_before, client.updated_at) = (Some(at(3)), at(3)));
    assert_eq!(ask(), Err(AuthFaultKind::Revoked), "enabled again, and its tokens revoked");
    assert_eq!(cache.usage().hits, 3, "all were cache hits, and none was accepted by them");
}

#[test]
fn a_cached_token_does_not_outlive_the_key_that_signed_it() {
    let (fixture, cache) = (fixture(), TokenCache::default());
    let token = fixture.token("c", "individual:read", at(0));
    assert!(response(&fixture, &cache, &token, at(1)).is_ok());
    fixture.ring.carry_out(fixture.ring.prepare(None, at(2)).unwrap(), at(2)).unwrap();
    assert!(response(&fixture, &cache, &token, at(3)).is_ok(), "a replaced key is accepted");
    // As if the key had been dropped early.
    let other = Fixture::new();
    let unknown = TokenFault::Malformed(TokenDefect::UnknownKey);
    assert_eq!(cache.verify(&token, &other.keys, &fixture.config, at(4)), Err(unknown));
    cache.prune(&other.keys, at(4));
    assert_eq!(cache.usage().entries, 0);
}

#[test]
fn the_number_of_tokens_is_bounded_and_used_ones_are_retained() {
    let fixture = fixture();
    let cache = TokenCache::new(bounds(64, 1 << 40));
    let used = fixture.token("c", "individual:read", at(0));
    for number in 0..1_000 {
        let granted = if number % 2 == 0 { "group:read" } else { "group:all" };
        let token = fixture.token("c", granted, at(0) + SignedDuration::from_micros(number));
        assert!(cache.verify(&token, &fixture.keys, &fixture.config, at(1)).is_ok());
        assert!(cache.verify(&used, &fixture.keys, &fixture.config, at(1)).is_ok());
        assert!(cache.usage().entries <= 64);
    }
    let usage = cache.usage();
    assert_eq!(usage.entries, 64, "it is full");
    assert_eq!(usage.hits, 999, "tokens used once do not evict a frequently used one");
    assert_eq!(usage.misses - usage.dropped, usage.entries as u64);
    cache.prune(&fixture.keys, at(86_401));
    let pruned = cache.usage();
    assert_eq!(
        (pruned.entries, pruned.bytes, pruned.dropped),
        (0, 0, usage.dropped),
        "an expired token is not dropped"
    );
}

#[test]
fn the_memory_is_bounded_below_at_and_above_the_limit() {
    let fixture = fixture();
    let token = fixture.token("c", "individual:read", at(0));
    let one = bytes_of(&token);
    // Few enough tokens to fit in one shard, of which a token may take half.
    const ENTRIES: usize = 31;
    for (bytes, stored) in [(0, 0), (2 * one - 1, 0), (2 * one, 1), (2 * one + 1, 1)] {
        let cache = TokenCache::new(bounds(ENTRIES, bytes));
        assert!(cache.verify(&token, &fixture.keys, &fixture.config, at(1)).is_ok());
        assert_eq!((cache.usage().entries, cache.usage().dropped), (stored, 0), "{bytes}");
    }
    let none = TokenCache::new(bounds(0, 1 << 20));
    assert!(none.verify(&token, &fixture.keys, &fixture.config, at(1)).is_ok());
    assert_eq!(none.usage().entries, 0);
    let cache = TokenCache::new(bounds(ENTRIES, 4 * one));
    for number in 0..200 {
        let token = fixture.token("c", "individual:read", at(0) + SignedDuration::from_micros(number));
        assert!(cache.verify(&token, &fixture.keys, &fixture.config, at(1)).is_ok());
        assert!(cache.usage().bytes <= 4 * one);
    }
    assert!(cache.usage().entries > 0);
    let too_long = "a".repeat(TOKEN_BYTES_MAX + 1);
    let fault = TokenFault::Malformed(TokenDefect::TooLong);
    let misses = cache.usage().misses;
    assert_eq!(cache.verify(&too_long, &fixture.keys, &fixture.config, at(1)), Err(fault));
    assert_eq!(cache.usage().misses, misses, "it is not looked up");
}

/// An event of tokens, clients, keys or the clock.
#[derive(Debug, Clone)]
enum Event {
    Issue {
        client: usize,
    },
    Disable {
        client: usize,
    },
    Enable {
        client: usize,
    },
    RevokeTokens {
        client: usize,
    },
    Grant {
        client: usize,
        granted: usize,
    },
    RotateKey,
    DropKeys,
    Prune,
    /// Moves the clock, also backwards.
    Time {
        seconds: i64,
    },
    /// Uses the newest tokens.
    Use,
}

const CLIENTS: [&str; 3] = ["a", "b", "c"];
const GRANTS: [&str; 3] = ["", "individual:read", "individual:all group:read"];

fn event() -> impl Strategy<Value = Event> {
    let client = 0..CLIENTS.len();
    prop_oneof![
        4 => client.clone().prop_map(|client| Event::Issue { client }),
        1 => client.clone().prop_map(|client| Event::Disable { client }),
        1 => client.clone().prop_map(|client| Event::Enable { client }),
        1 => client.clone().prop_map(|client| Event::RevokeTokens { client }),
        1 => (client, 0..GRANTS.len()).prop_map(|(client, granted)| Event::Grant { client, granted }),
        1 => Just(Event::RotateKey),
        1 => Just(Event::DropKeys),
        1 => Just(Event::Prune),
        2 => (-3_000_i64..50_000).prop_map(|seconds| Event::Time { seconds }),
        1 => (-2_i64..3).prop_map(|seconds| Event::Time { seconds }),
        4 => Just(Event::Use),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// For any sequence of events, results are the same with a cache, with a cache that is too small, and without a
    /// cache.
    #[test]
    fn results_with_and_without_the_cache_are_equal(events in proptest::collection::vec(event(), 1..60)) {
        let fixture = Fixture::new();
        for id in CLIENTS {
            fixture.put_client(id, |client| client.grants = scopes(GRANTS[2]).iter().collect());
        }
        let caches = [TokenCache::default(), TokenCache::new(bounds(2, 4_000))];
        let (mut now, mut changes, mut tokens) = (at(0), 0, Vec::new());
        for event in events {
            let mut change = |id: usize, change: &dyn Fn(&mut daftar_domain::client::Client)| {
                changes += 1;
                let id = daftar_domain::client::ClientId::parse(CLIENTS[id]).unwrap();
                let mut client = (*fixture.directory.find(&id).unwrap()).clone();
                change(&mut client);
                client.updated_at = at(changes);
                fixture.directory.put(Arc::new(client));
            };
            match event {
                Event::Issue { client } => {
                    let id = daftar_domain::client::ClientId::parse(CLIENTS[client]).unwrap();
                    let name = format!("token-{}", tokens.len());
                    let granted = scopes(GRANTS[tokens.len() % GRANTS.len()]);
                    let keys = fixture.ring.load();
                    let issued = token::issue(&keys, &fixture.config, &id, &granted, name, now).unwrap();
                    tokens.push(secrecy::ExposeSecret::expose_secret(&issued.text).to_owned());
                }
                Event::Disable { client } => change(client, &|client| {
                    client.status = ClientStatus::Disabled;
                    client.not_before = client.not_before.max(Some(now));
                }),
                Event::Enable { client } => change(client, &|client| client.status = ClientStatus::Active),
                Event::RevokeTokens { client } => {
                    change(client, &|client| client.not_before = client.not_before.max(Some(now)));
                }
                Event::Grant { client, granted } => {
                    change(client, &|client| client.grants = scopes(GRANTS[granted]).iter().collect());
                }
                // At the limit of eight accepted keys the rotation is rejected without effect.
                Event::RotateKey => {
                    if let Ok(rotation) = fixture.ring.prepare(None, now) {
                        fixture.ring.carry_out(rotation, now).unwrap();
                    }
                }
                Event::DropKeys => drop(fixture.ring.drop_expired(now).unwrap()),
                Event::Prune => caches.iter().for_each(|cache| cache.prune(&fixture.ring.load(), now)),
                Event::Time { seconds } => now += SignedDuration::from_secs(seconds),
                Event::Use => {}
            }
            for token in tokens.iter().rev().take(12) {
                let uncached = response(&fixture, &fixture.no_cache, token, now);
                for cache in &caches {
                    prop_assert_eq!(&response(&fixture, cache, token, now), &uncached);
                }
            }
        }
    }
}
