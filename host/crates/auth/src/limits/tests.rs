//! Tests of the buckets through their public interface, with a test clock and counts that survive a restart.

mod clock;
mod common;
mod kill;
mod retry;
mod several;

use std::sync::atomic::Ordering;

use futures_util::FutureExt as _;
use jiff::SignedDuration;
use proptest::prelude::*;

use super::bucket::Bucket;
use super::fixtures::{Fixture, address, client, refusal};
use super::*;

#[tokio::test]
async fn each_bucket_allows_exactly_its_minute_as_a_burst() {
    let fixture = Fixture::new();
    let (limits, here) = (&fixture.limits, address("203.0.113.9"));
    let caller = client("c", None, None);
    for left in (0..5).rev() {
        assert_eq!(limits.charge_token_request(here).await.unwrap().headers().remaining, left);
    }
    for left in (0..30).rev() {
        assert_eq!(limits.charge_unauthenticated(here).await.unwrap().headers().remaining, left);
    }
    for left in (0..300).rev() {
        assert_eq!(limits.charge_page(here).await.unwrap().headers().remaining, left);
    }
    for left in (0..60).rev() {
        assert_eq!(limits.charge_client(&caller).await.unwrap().headers().remaining, left);
    }
    let expected =
        |limit, retry_after_s| (Refusal::Minute, RateHeaders { limit, remaining: 0, reset_s: 60 }, retry_after_s);
    assert_eq!(refusal(limits.charge_token_request(here).await.unwrap()), expected(5, 60));
    assert_eq!(refusal(limits.charge_unauthenticated(here).await.unwrap()), expected(30, 2));
    assert_eq!(refusal(limits.charge_page(here).await.unwrap()), expected(300, 1));
    let refused = limits.charge_client(&caller).await.unwrap();
    assert_eq!(refusal(refused), expected(60, 1));
    assert_eq!(refused.detail().unwrap(), "the limit of 60 requests a minute is reached: retry in 1 s");
}

#[tokio::test]
async fn a_bucket_belongs_to_one_client_or_one_network() {
    let fixture = Fixture::new();
    assert_eq!(fixture.allowed(&client("a", Some(3), None), 10).await, 3);
    assert_eq!(fixture.allowed(&client("b", Some(3), None), 10).await, 3);
    let limits = &fixture.limits;
    for _ in 0..5 {
        assert!(limits.charge_token_request(address("2001:db8::1")).await.unwrap().is_allowed());
    }
    assert!(!limits.charge_token_request(address("2001:db8::2")).await.unwrap().is_allowed());
    assert!(limits.charge_token_request(address("2001:db8:0:1::1")).await.unwrap().is_allowed());
    for _ in 0..5 {
        assert!(limits.charge_token_request(address("203.0.113.9")).await.unwrap().is_allowed());
    }
    assert!(!limits.charge_token_request(address("::ffff:203.0.113.9")).await.unwrap().is_allowed());
}

#[tokio::test]
async fn a_client_that_sends_evenly_is_never_rejected() {
    for per_minute in [1, 7, 59, 60, 61, 600] {
        let fixture = Fixture::new();
        let caller = client("c", Some(per_minute), Some(1_000_000));
        let at_ns = |call: i64| call * 60_000_000_000 / i64::from(per_minute);
        for call in 0..i64::from(per_minute) * 60 {
            fixture.clock.advance(SignedDuration::from_nanos(at_ns(call) - at_ns(call - 1).max(0)));
            let decision = fixture.limits.charge_client(&caller).await.unwrap();
            assert!(decision.is_allowed(), "call {call} of {per_minute} a minute: {decision:?}");
        }
    }
}

#[tokio::test]
async fn the_day_is_counted_exactly_and_ends_at_midnight_utc() {
    let fixture = Fixture::at("2026-03-01T23:00:00.5Z");
    let here = address("203.0.113.9");
    for left in (0..50).rev() {
        let decision = fixture.limits.charge_token_request(here).await.unwrap();
        assert!(decision.is_allowed(), "{left} left");
        fixture.wait_s(60);
        // At most 4 are left in the minute, so the headers show the day only when it has as few.
        let headers = decision.headers();
        if left <= 4 {
            assert_eq!((headers.limit, headers.remaining), (50, left));
        } else {
            assert_eq!((headers.limit, headers.remaining), (5, 4));
        }
    }
    let (reason, headers, retry_after_s) = refusal(fixture.limits.charge_token_request(here).await.unwrap());
    assert_eq!((reason, headers.limit, headers.remaining), (Refusal::Day, 50, 0));
    assert_eq!((headers.reset_s, retry_after_s), (600, 600));
    fixture.wait_s(retry_after_s - 1);
    assert!(!fixture.limits.charge_token_request(here).await.unwrap().is_allowed());
    fixture.wait_s(1);
    assert!(fixture.limits.charge_token_request(here).await.unwrap().is_allowed());
}

#[tokio::test]
async fn calls_rejected_by_the_minute_do_not_count_in_the_day() {
    let fixture = Fixture::new();
    let caller = client("c", Some(10), Some(30));
    for _ in 0..3 {
        assert_eq!(fixture.allowed(&caller, 100).await, 10);
        fixture.wait_s(60);
    }
    assert_eq!(refusal(fixture.limits.charge_client(&caller).await.unwrap()).0, Refusal::Day);
}

#[tokio::test]
async fn a_small_day_survives_a_kill_exactly_and_a_big_one_within_a_block() {
    for (per_day, before, lost_max) in [(1, 1, 0), (10, 4, 0), (19, 18, 0), (200, 100, 15), (10_000, 33, 15)] {
        let mut fixture = Fixture::new();
        let caller = client("c", Some(100_000), Some(per_day));
        assert_eq!(fixture.allowed(&caller, before).await, before);
        fixture.restart();
        let after = fixture.allowed(&caller, per_day + 10).await;
        assert!(after <= per_day - before, "{per_day}: {after} after {before}");
        assert!(after + lost_max >= per_day - before, "{per_day}: {after} after {before}");
        fixture.restart();
        assert_eq!(fixture.allowed(&caller, 10).await, 0);
    }
}

#[tokio::test]
async fn changed_limits_apply_to_the_next_call_and_do_not_refill_the_minute() {
    let fixture = Fixture::new();
    assert_eq!(fixture.allowed(&client("c", None, None), 100).await, 60);
    assert_eq!(fixture.allowed(&client("c", Some(90), None), 100).await, 30);
    assert_eq!(fixture.allowed(&client("c", Some(10), None), 100).await, 0);
    fixture.wait_s(60);
    assert_eq!(fixture.allowed(&client("c", Some(10), None), 100).await, 10);
    fixture.wait_s(60);
    let refused = fixture.limits.charge_client(&client("c", Some(10), Some(100))).await.unwrap();
    assert_eq!(refusal(refused).0, Refusal::Day, "100 were allowed today");
    assert_eq!(fixture.allowed(&client("c", Some(10), Some(103)), 10).await, 3);
    assert_eq!(fixture.allowed(&client("c", Some(10), None), 10).await, 7);
}

#[tokio::test]
async fn headers_show_the_window_with_fewer_calls_left_and_the_day_on_a_tie() {
    let fixture = Fixture::at("2026-03-01T23:59:00Z");
    let headers = fixture.limits.charge_client(&client("c", Some(5), Some(100))).await.unwrap().headers();
    assert_eq!(headers, RateHeaders { limit: 5, remaining: 4, reset_s: 12 });
    let headers = fixture.limits.charge_client(&client("d", Some(5), Some(5))).await.unwrap().headers();
    assert_eq!(headers, RateHeaders { limit: 5, remaining: 4, reset_s: 60 });
    let headers = fixture.limits.charge_client(&client("e", Some(50), Some(5))).await.unwrap().headers();
    assert_eq!(headers, RateHeaders { limit: 5, remaining: 4, reset_s: 60 });
}

#[tokio::test]
async fn a_clock_set_back_locks_no_client_out_and_gives_no_second_day() {
    let fixture = Fixture::at("2026-03-02T00:30:00Z");
    let caller = client("c", Some(10), Some(25));
    assert_eq!(fixture.allowed(&caller, 100).await, 10);
    fixture.clock.advance(SignedDuration::from_hours(-1));
    let (reason, _, retry_after_s) = refusal(fixture.limits.charge_client(&caller).await.unwrap());
    assert_eq!((reason, retry_after_s), (Refusal::Minute, 6));
    fixture.wait_s(retry_after_s);
    assert_eq!(fixture.allowed(&caller, 100).await, 1);
    fixture.wait_s(60);
    assert_eq!(fixture.allowed(&caller, 100).await, 10);
    fixture.wait_s(60);
    assert_eq!(fixture.allowed(&caller, 100).await, 4, "25 in all, on whichever day");
    fixture.clock.advance(SignedDuration::from_hours(-24 * 365 * 20));
    assert_eq!(refusal(fixture.limits.charge_client(&caller).await.unwrap()).0, Refusal::Day);
    fixture.clock.advance(SignedDuration::from_hours(24));
    assert_eq!(fixture.allowed(&caller, 100).await, 10);
}

#[tokio::test]
async fn a_broken_disk_allows_only_reserved_calls() {
    let fixture = Fixture::new();
    let caller = client("c", None, None);
    fixture.disk.is_broken.store(true, Ordering::Relaxed);
    assert!(matches!(fixture.limits.charge_client(&caller).await, Err(AppError::Unavailable(_))));
    assert!(matches!(fixture.limits.maintain().await, Err(AppError::Unavailable(_))));
    fixture.disk.is_broken.store(false, Ordering::Relaxed);
    assert!(fixture.limits.charge_client(&caller).await.unwrap().is_allowed());
    fixture.disk.is_broken.store(true, Ordering::Relaxed);
    for _ in 0..15 {
        assert!(fixture.limits.charge_client(&caller).await.unwrap().is_allowed(), "these are reserved");
    }
    assert!(matches!(fixture.limits.charge_client(&caller).await, Err(AppError::Unavailable(_))));
}

#[tokio::test]
async fn writes_to_disk_once_in_eleven_calls() {
    let fixture = Fixture::new();
    let caller = client("c", Some(10_000), None);
    assert_eq!(fixture.allowed(&caller, 1_200).await, 1_200);
    let writes = fixture.disk.writes.load(Ordering::Relaxed);
    assert!((100..=111).contains(&writes), "{writes} writes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_calls_get_no_more_than_the_limit() {
    let fixture = Fixture::new();
    let limits = Arc::new(Limits::new(Arc::new(fixture.clock.clone()), fixture.disk.clone() as Arc<dyn DayCounts>));
    for (id, per_minute, per_day) in [("minute", 500, 1_000_000), ("day", 1_000_000, 500)] {
        let callers = (0..64).map(|_| {
            let limits = Arc::clone(&limits);
            let caller = client(id, Some(per_minute), Some(per_day));
            tokio::spawn(async move {
                let mut allowed = 0;
                for _ in 0..20 {
                    allowed += u32::from(limits.charge_client(&caller).await.unwrap().is_allowed());
                }
                allowed
            })
        });
        let callers: Vec<_> = callers.collect();
        let mut allowed = 0;
        for caller in callers {
            allowed += caller.await.unwrap();
        }
        assert_eq!(allowed, 500, "{id}");
    }
}

#[tokio::test]
async fn idle_keys_are_dropped_and_their_counts_are_not() {
    let fixture = Fixture::new();
    let exact = client("exact", None, Some(10));
    let ahead = client("ahead", None, Some(10_000));
    assert_eq!(fixture.allowed(&exact, 4).await, 4);
    assert_eq!(fixture.allowed(&ahead, 4).await, 4);
    fixture.limits.maintain().await.unwrap();
    assert_eq!(fixture.limits.client.usage().keys, 2, "busy keys are retained");
    fixture.wait_s(60);
    fixture.limits.maintain().await.unwrap();
    assert_eq!(fixture.limits.client.usage().keys, 1, "keys whose count on disk is ahead are retained");
    assert_eq!(fixture.allowed(&exact, 10).await, 6);
    fixture.wait_s(86_400);
    fixture.limits.maintain().await.unwrap();
    assert_eq!(fixture.limits.client.usage().keys, 0, "until its day is over");
}

#[tokio::test]
async fn usage_counts_keys_and_rejections() {
    let fixture = Fixture::new();
    assert_eq!(fixture.allowed(&client("c", Some(1), None), 3).await, 1);
    let [token, clients, ..] = fixture.limits.usage();
    assert_eq!((token.bucket, token.keys, token.keys_max), ("token", 0, 1_120_000));
    assert_eq!((clients.bucket, clients.keys), ("client", 1));
    assert_eq!(clients.refused, [("minute", 2), ("day", 0), ("at_capacity", 0)]);
}

#[tokio::test]
async fn a_key_is_not_dropped_while_its_calls_are_reserved() {
    let fixture = Fixture::new();
    let client = client("a", Some(1_000), Some(40));
    let prune_all_along = async {
        for _ in 0..10 {
            fixture.limits.maintain().await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    let (decision, ()) = tokio::join!(fixture.limits.charge_client(&client), prune_all_along);
    assert_eq!(decision.unwrap().headers().remaining, 39, "the reservation for this call does not count as used");
}

#[tokio::test]
async fn a_client_that_disconnects_loses_no_reserved_calls() {
    let fixture = Fixture::new();
    let caller = client("c", Some(1_000), Some(40));
    let held = fixture.disk.responses.lock().await;
    let mut charge = Box::pin(fixture.limits.charge_client(&caller));
    while fixture.disk.writes.load(Ordering::Relaxed) == 0 {
        assert!((&mut charge).now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    drop(charge);
    drop(held);
    tokio::task::yield_now().await;
    fixture.wait_s(60);
    fixture.limits.maintain().await.unwrap();
    assert_eq!(fixture.allowed(&caller, 100).await, 40, "the reserved calls are allowed");
}

#[tokio::test]
async fn counts_of_past_days_are_removed_once_a_day() {
    let fixture = Fixture::new();
    let caller = client("c", None, None);
    for expected in [1, 2, 3, 3, 3] {
        assert_eq!(fixture.allowed(&caller, 1).await, 1);
        fixture.limits.maintain().await.unwrap();
        assert_eq!(fixture.disk.counts.lock().unwrap().len(), expected);
        fixture.wait_s(86_400);
    }
    let names: Vec<String> = fixture.disk.counts.lock().unwrap().keys().map(|(_, name)| name.clone()).collect();
    assert_eq!(names, ["client/c", "client/c", "client/c"]);
}

#[tokio::test]
async fn a_full_bucket_evicts_idle_keys_and_then_rejects_new_ones() {
    let fixture = Fixture::new();
    let small: Bucket<AddressKey> =
        Bucket::new("small", shards::SHARDS, Arc::clone(&fixture.disk) as Arc<dyn DayCounts>);
    let charge = |index: u32| {
        let key = AddressKey::of(IpAddr::from(index.to_be_bytes()));
        let (small, limits) = (&small, &fixture.limits);
        async move { small.charge(&key, UNAUTHENTICATED_QUOTA, Calls::ONE, || limits.time_reading()).await.unwrap() }
    };
    let mut rejected = 0;
    let mut present = Vec::new();
    for index in 0..1_000 {
        match charge(index).await {
            Decision::Allowed { .. } => present.push(index),
            Decision::Refused { refusal, retry_after_s, .. } => {
                assert_eq!((refusal, retry_after_s), (Refusal::AtCapacity, 60));
                rejected += 1;
            }
        }
    }
    assert!(
        small.len() <= shards::SHARDS && rejected >= 1_000 - shards::SHARDS,
        "{} keys, {rejected} rejected",
        small.len()
    );
    for index in &present {
        assert!(charge(*index).await.is_allowed(), "present keys continue");
    }
    fixture.wait_s(60);
    let newcomer = 5_000;
    assert!(charge(newcomer).await.is_allowed(), "waiting for Retry-After is enough");
    assert!(small.len() <= shards::SHARDS);
    assert_eq!(charge(present[0]).await.headers().remaining, 29);
    let today = calendar::utc_day(fixture.clock.now());
    let name = format!("small/{}", AddressKey::of(IpAddr::from(present[0].to_be_bytes())));
    assert!(fixture.disk.counts.lock().unwrap()[&(today, name)] > 2, "calls used before the eviction still count");
}

/// One step of a simulated history of clients and operators.
#[derive(Debug, Clone)]
enum Step {
    Call(u32),
    WaitMs(i64),
    Kill,
    Limit(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1_u32..40).prop_map(Step::Call),
        3 => (0_i64..90_000).prop_map(Step::WaitMs),
        1 => Just(Step::Kill),
        1 => (1_u32..200).prop_map(Step::Limit),
    ];
    proptest::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any history, a day allows no more calls than its limit, each kill costs at most a block, and a call after
    /// `Retry-After` is allowed.
    #[test]
    fn a_day_is_never_exceeded_and_retry_after_is_enough(steps in steps(), per_day in 1_u32..400) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut fixture = Fixture::new();
            let mut caller = client("c", None, Some(per_day));
            let mut allowed_today = 0;
            let mut kills = 0;
            let mut today = calendar::utc_day(fixture.clock.now());
            for step in steps {
                match step {
                    Step::Call(calls) => {
                        for _ in 0..calls {
                            let decision = fixture.limits.charge_client(&caller).await.unwrap();
                            let Decision::Refused { refusal, retry_after_s, .. } = decision else {
                                allowed_today += 1;
                                continue;
                            };
                            if refusal == Refusal::Day {
                                let lost_max = kills * (day::block(per_day) - 1);
                                prop_assert!(allowed_today + lost_max >= per_day);
                            }
                            fixture.wait_s(retry_after_s);
                            let now = calendar::utc_day(fixture.clock.now());
                            if now != today {
                                (today, allowed_today, kills) = (now, 0, 0);
                            }
                            prop_assert!(fixture.limits.charge_client(&caller).await.unwrap().is_allowed());
                            allowed_today += 1;
                        }
                    }
                    Step::WaitMs(milliseconds) => {
                        fixture.clock.advance(SignedDuration::from_millis(milliseconds));
                        let now = calendar::utc_day(fixture.clock.now());
                        if now != today {
                            (today, allowed_today, kills) = (now, 0, 0);
                        }
                    }
                    Step::Kill => {
                        fixture.restart();
                        kills += 1;
                    }
                    Step::Limit(per_minute) => caller = client("c", Some(per_minute), Some(per_day)),
                }
                prop_assert!(allowed_today <= per_day);
            }
            Ok(())
        })?;
    }
}
