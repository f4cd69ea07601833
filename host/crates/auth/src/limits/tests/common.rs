//! Tests of limits shared by several processes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use jiff::SignedDuration;
use jiff::civil::Date;
use proptest::prelude::*;

use crate::limits::common::CommonCounts;
use crate::limits::day::block;
use crate::limits::fixtures::{address, client, refusal};
use crate::limits::{Limits, Refusal, TOKEN_QUOTA};
use daftar_domain::call_counts::{OfDay, OfMinute, OfWindow, Wanted};
use daftar_domain::context::{Clock, FakeClock};
use daftar_domain::error::Cause;

/// A store shared by several processes.
struct Common {
    clock: FakeClock,
    days: Mutex<BTreeMap<(Date, String), u64>>,
    minutes: Mutex<BTreeMap<String, (u128, u32)>>,
    /// The time of each call of a window.
    windows: Mutex<BTreeMap<String, Vec<Duration>>>,
    requested: AtomicUsize,
    is_broken: AtomicBool,
    /// Locked by a test to delay the responses to reservations of a day.
    responses: tokio::sync::Mutex<()>,
}

impl Common {
    fn ask(&self) -> Result<(), Cause> {
        self.requested.fetch_add(1, Ordering::Relaxed);
        if self.is_broken.load(Ordering::Relaxed) { Err("the database is unavailable".into()) } else { Ok(()) }
    }
}

#[async_trait::async_trait]
impl CommonCounts for Common {
    async fn take_of_day(&self, day: Date, name: &str, wanted: Wanted, limit: u32) -> Result<OfDay, Cause> {
        self.ask()?;
        tokio::task::yield_now().await;
        let given = {
            let mut days = self.days.lock().unwrap();
            let count = days.entry((day, name.to_owned())).or_default();
            let left = u32::try_from(u64::from(limit).saturating_sub(*count)).unwrap();
            let taken = if left < wanted.least { 0 } else { left.min(wanted.most) };
            *count += u64::from(taken);
            OfDay { taken, count: *count }
        };
        let _answers = self.responses.lock().await;
        Ok(given)
    }

    async fn give_back(&self, day: Date, name: &str, calls: u32) -> Result<(), Cause> {
        self.ask()?;
        let mut days = self.days.lock().unwrap();
        let count = days.get_mut(&(day, name.to_owned())).unwrap();
        *count = count.checked_sub(calls.into()).expect("no more is returned than was reserved");
        Ok(())
    }

    async fn take_of_minute(&self, name: &str, wanted: Wanted, limit: u32) -> Result<OfMinute, Cause> {
        self.ask()?;
        tokio::task::yield_now().await;
        let cell = |limit: u32| 60_000_000_000 / u128::from(limit);
        let now = self.clock.elapsed().as_nanos();
        let mut minutes = self.minutes.lock().unwrap();
        let (full_at, before) = minutes.entry(name.to_owned()).or_insert((0, limit));
        let used = full_at.saturating_sub(now).div_ceil(cell(*before)).min(limit.into());
        let left = limit - u32::try_from(used).unwrap();
        let taken = if left < wanted.least { 0 } else { left.min(wanted.most) };
        let base = if *before == limit { (*full_at).max(now) } else { now + used * cell(limit) };
        (*full_at, *before) = (base + cell(limit) * u128::from(taken), limit);
        Ok(OfMinute { taken, until_full: Duration::from_nanos((*full_at - now) as u64) })
    }

    async fn take_of_window(&self, name: &str, calls: u32, limit: u32) -> Result<OfWindow, Cause> {
        self.ask()?;
        tokio::task::yield_now().await;
        let now = self.clock.elapsed();
        let mut windows = self.windows.lock().unwrap();
        let window = windows.entry(name.to_owned()).or_default();
        window.retain(|called_at| now.saturating_sub(*called_at) < Duration::from_secs(60));
        let is_taken = window.len() + calls as usize <= limit as usize;
        window.extend((0..calls).filter(|_| is_taken).map(|_| now));
        let until_left = window.iter().map(|called_at| *called_at + Duration::from_secs(60) - now).collect();
        Ok(OfWindow { is_taken, until_left })
    }

    async fn forget_before(&self, day: Date) -> Result<(), Cause> {
        self.ask()?;
        self.days.lock().unwrap().retain(|(of, _), _| *of >= day);
        Ok(())
    }
}

/// Several processes, one store, one clock.
struct Several {
    clock: FakeClock,
    common: Arc<Common>,
    processes: Vec<Arc<Limits>>,
}

impl Several {
    fn new(count: usize) -> Self {
        let clock = FakeClock::new("2026-03-01T12:00:00Z".parse().unwrap());
        let (days, minutes, windows) = (Mutex::default(), Mutex::default(), Mutex::default());
        let common = Arc::new(Common {
            clock: clock.clone(),
            days,
            minutes,
            windows,
            requested: AtomicUsize::new(0),
            is_broken: AtomicBool::new(false),
            responses: tokio::sync::Mutex::default(),
        });
        let start = |_| Arc::new(Limits::common(Arc::new(clock.clone()), common.clone() as Arc<dyn CommonCounts>));
        let processes = (0..count).map(start).collect();
        Self { clock, common, processes }
    }

    fn requested(&self) -> usize {
        self.common.requested.swap(0, Ordering::Relaxed)
    }

    fn count(&self) -> u64 {
        self.common.days.lock().unwrap().values().sum()
    }
}

async fn allowed(limits: &Limits, caller: &daftar_domain::client::Client, tries: u32) -> u32 {
    let mut allowed = 0;
    for _ in 0..tries {
        allowed += u32::from(limits.charge_client(caller).await.unwrap().is_allowed());
    }
    allowed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn processes_share_a_day_and_a_minute() {
    for (per_minute, per_day, expected) in [(1_000_000, 500, 500), (500, 1_000_000, 500), (7, 1_000, 7), (1_000, 1, 1)]
    {
        let several = Several::new(3);
        let caller = Arc::new(client("c", Some(per_minute), Some(per_day)));
        let callers = (0..24).map(|number| {
            let (limits, caller) = (several.processes[number % 3].clone(), caller.clone());
            tokio::spawn(async move { allowed(&limits, &caller, 50).await })
        });
        let mut sum = 0;
        for caller in callers.collect::<Vec<_>>() {
            sum += caller.await.unwrap();
        }
        let held_most = 3 * (per_minute / 20).max(1).max(block(per_day));
        assert!(sum <= expected, "{per_minute} {per_day}: {sum}");
        assert!(sum + held_most >= expected, "{per_minute} {per_day}: {sum}");
    }
}

#[tokio::test]
async fn reserved_calls_are_returned_at_shutdown() {
    let several = Several::new(2);
    let caller = client("c", Some(1_000), Some(100));
    assert_eq!(allowed(&several.processes[0], &caller, 41).await, 41);
    assert!(several.count() > 41, "a block is reserved");
    several.processes[0].give_back().await.unwrap();
    assert_eq!(several.count(), 41);
    assert_eq!(allowed(&several.processes[1], &caller, 100).await, 59, "to the last call");
    assert_eq!(refusal(several.processes[1].charge_client(&caller).await.unwrap()).0, Refusal::Day);
}

#[tokio::test]
async fn reserved_calls_of_an_idle_client_are_returned() {
    let several = Several::new(2);
    let caller = client("c", Some(1_000), Some(40));
    assert_eq!(allowed(&several.processes[0], &caller, 1).await, 1);
    assert_eq!(
        allowed(&several.processes[1], &caller, 100).await,
        36,
        "the other process has four calls of a block reserved"
    );
    several.clock.advance(SignedDuration::from_secs(60));
    several.processes[0].maintain().await.unwrap();
    assert_eq!(several.processes[0].usage()[1].keys, 0);
    assert_eq!(allowed(&several.processes[1], &caller, 100).await, 3);
    assert_eq!(several.count(), 40);
}

#[tokio::test]
async fn a_client_that_disconnects_loses_nothing_of_its_day() {
    let several = Several::new(1);
    let (limits, caller) = (&several.processes[0], client("c", Some(1_000), Some(1_000)));
    let held = several.common.responses.lock().await;
    for _ in 0..20 {
        // Each future is polled until it waits, then dropped.
        let mut charge = Box::pin(limits.charge_client(&caller));
        for _ in 0..20 {
            assert!((&mut charge).now_or_never().is_none());
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(several.count(), u64::from(block(1_000)), "the next call waits for the query of the first");
    drop(held);
    assert_eq!(allowed(limits, &caller, 1).await, 1);
    assert_eq!(several.count(), u64::from(block(1_000)), "a block that includes the call");
    let held = several.common.responses.lock().await;
    let other = client("d", Some(1_000), Some(1_000));
    assert!(Box::pin(limits.charge_client(&other)).now_or_never().is_none());
    while several.count() == u64::from(block(1_000)) {
        tokio::task::yield_now().await;
    }
    let stopped = tokio::join!(limits.give_back(), async {
        tokio::task::yield_now().await;
        drop(held);
    });
    stopped.0.unwrap();
    assert_eq!(several.count(), 1, "a reservation in progress at shutdown is returned with the rest");
}

#[tokio::test]
async fn an_unavailable_store_allows_only_reserved_calls() {
    let several = Several::new(1);
    let (limits, caller) = (&several.processes[0], client("c", Some(6_000), Some(100_000)));
    assert_eq!(allowed(limits, &caller, 10).await, 10);
    several.common.is_broken.store(true, Ordering::Relaxed);
    let mut held = 0;
    while held < 100 && limits.charge_client(&caller).await.is_ok_and(|decision| decision.is_allowed()) {
        held += 1;
    }
    assert!((1..=16).contains(&held), "{held}");
    assert!(limits.charge_client(&caller).await.is_err(), "it is not allowed");
    several.common.is_broken.store(false, Ordering::Relaxed);
    assert_eq!(allowed(limits, &caller, 1).await, 1, "it is allowed again when the store is available");
}

#[tokio::test]
async fn busy_clients_need_few_queries_and_rejected_floods_need_none() {
    let several = Several::new(1);
    let (limits, busy) = (&several.processes[0], client("busy", Some(60_000), Some(10_000_000)));
    assert_eq!(allowed(limits, &busy, 10_000).await, 10_000);
    let requested = several.requested();
    assert!(requested < 40, "{requested} queries for 10,000 calls");
    for _ in 0..1_000 {
        limits.charge_token_request(address("192.0.2.1")).await.unwrap();
    }
    let requested = several.requested();
    assert!(requested < 4 * TOKEN_QUOTA.per_minute as usize, "{requested} questions");
}

#[tokio::test]
async fn only_unused_calls_of_idle_clients_are_returned() {
    let several = Several::new(1);
    let limits = &several.processes[0];
    for (id, per_day) in [("busy", 100), ("exact", 1)] {
        assert_eq!(allowed(limits, &client(id, Some(1_000), Some(per_day)), 1).await, 1);
    }
    let (reserved, keys) = (several.count(), limits.usage()[1].keys);
    assert_eq!((reserved, keys), (u64::from(block(100)) + 1, 2));
    limits.maintain().await.unwrap();
    assert_eq!((several.count(), limits.usage()[1].keys), (reserved, keys), "neither is idle");
    several.requested();
    limits.give_back().await.unwrap();
    assert_eq!((several.count(), several.requested()), (2, 1), "one of them has unused calls");
}

#[tokio::test]
async fn a_new_day_has_all_its_calls() {
    let several = Several::new(1);
    let (limits, caller) = (&several.processes[0], client("c", Some(1_000), Some(20)));
    for _ in 0..2 {
        assert_eq!(allowed(limits, &caller, 100).await, 20);
        let (reason, _, retry_after_s) = refusal(limits.charge_client(&caller).await.unwrap());
        let to_midnight = several.clock.now().as_second().rem_euclid(86_400).abs_diff(86_400);
        assert_eq!((reason, retry_after_s), (Refusal::Day, to_midnight));
        several.clock.advance(SignedDuration::from_secs(to_midnight as i64));
    }
}

#[tokio::test]
async fn a_rejection_just_before_midnight_ends_with_its_day() {
    let several = Several::new(1);
    let (limits, caller) = (&several.processes[0], client("c", Some(1_000), Some(20)));
    several.clock.advance(SignedDuration::from_hours(12) - SignedDuration::from_millis(500));
    assert_eq!(allowed(limits, &caller, 100).await, 20);
    let (reason, _, retry_after_s) = refusal(limits.charge_client(&caller).await.unwrap());
    assert_eq!((reason, retry_after_s), (Refusal::Day, 1));
    several.clock.advance(SignedDuration::from_millis(500));
    assert_eq!(allowed(limits, &caller, 100).await, 20, "the rejection is not repeated on the new day");
}

#[tokio::test]
async fn a_reservation_that_is_answered_after_midnight_is_repeated_for_the_new_day() {
    let several = Several::new(1);
    let (limits, caller) = (&several.processes[0], client("c", Some(1_000), Some(20)));
    several.clock.advance(SignedDuration::from_hours(12) - SignedDuration::from_millis(500));
    assert_eq!(allowed(limits, &caller, 20).await, 20);
    several.requested();
    let held = several.common.responses.lock().await;
    let mut charge = Box::pin(limits.charge_client(&caller));
    while several.common.requested.load(Ordering::Relaxed) == 0 {
        assert!((&mut charge).now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    several.clock.advance(SignedDuration::from_millis(500));
    drop(held);
    assert!(charge.await.unwrap().is_allowed());
}

#[tokio::test]
async fn a_retry_waits_for_the_day_if_that_has_too_few_calls() {
    for (per_day, expected_s) in [(14, 43_200), (15, 30)] {
        let several = Several::new(1);
        let (limits, caller) = (&several.processes[0], client("c", Some(10), Some(per_day)));
        assert_eq!(allowed(limits, &caller, 10).await, 10);
        let (reason, _, retry_after_s) = refusal(limits.charge_client_rest(&caller, 5).await.unwrap());
        assert_eq!((reason, retry_after_s), (Refusal::Minute, expected_s), "{per_day}");
    }
}

#[tokio::test]
async fn reserved_calls_of_a_minute_expire_after_ten_seconds() {
    for (wait_ms, queries) in [(9_999, 0), (10_000, 1)] {
        let several = Several::new(1);
        let (limits, caller) = (&several.processes[0], client("c", Some(600), Some(10_000)));
        assert_eq!((allowed(limits, &caller, 1).await, several.requested()), (1, 2));
        several.clock.advance(SignedDuration::from_millis(wait_ms));
        assert_eq!((allowed(limits, &caller, 1).await, several.requested()), (1, queries), "{wait_ms}");
    }
}

#[tokio::test]
async fn a_rejection_is_repeated_without_a_query_until_a_call_is_allowed() {
    let several = Several::new(1);
    for per_minute in [1, 600] {
        let (limits, caller) = (&several.processes[0], client("c", Some(per_minute), Some(1_000_000)));
        assert_eq!(allowed(limits, &caller, 1_000).await, per_minute);
        several.requested();
        several.clock.advance(SignedDuration::from_millis(99));
        assert_eq!((allowed(limits, &caller, 1_000).await, several.requested()), (0, 0));
        several.clock.advance(SignedDuration::from_millis(1));
        let expected = u32::from(per_minute == 600);
        assert_eq!((allowed(limits, &caller, 1).await, several.requested()), (expected, expected as usize));
        several.clock.advance(SignedDuration::from_mins(1));
    }
}

#[tokio::test]
async fn a_rejected_client_is_allowed_after_retry_after() {
    let several = Several::new(2);
    let caller = client("c", Some(30), Some(1_000));
    for process in &several.processes {
        allowed(process, &caller, 100).await;
    }
    for process in several.processes.iter().rev() {
        let (reason, _, retry_after_s) = refusal(process.charge_client(&caller).await.unwrap());
        assert_eq!(reason, Refusal::Minute);
        assert!((1..=4).contains(&retry_after_s), "{retry_after_s}");
        several.clock.advance(SignedDuration::from_secs(retry_after_s as i64));
        assert!(process.charge_client(&caller).await.unwrap().is_allowed());
    }
    let changed = client("c", Some(300), Some(1_000));
    assert!(
        several.processes[0].charge_client(&changed).await.unwrap().is_allowed(),
        "a raised limit applies to the next call"
    );
    let lowered = client("c", Some(300), Some(10));
    let refused = several.processes[0].charge_client(&lowered).await.unwrap();
    assert_eq!(refusal(refused).0, Refusal::Day, "a lowered day applies too");
}

#[tokio::test]
async fn a_batch_is_counted_completely_or_not_at_all() {
    let several = Several::new(2);
    let caller = client("c", Some(1_000), Some(30));
    let batch = |process: usize| several.processes[process].charge_client_rest(&caller, 21);
    assert!(batch(0).await.unwrap().is_allowed());
    assert_eq!(refusal(batch(1).await.unwrap()).0, Refusal::Day);
    assert_eq!(allowed(&several.processes[1], &caller, 100).await, 10, "no part of it was counted");
}

#[tokio::test]
async fn a_process_reserves_at_most_a_twentieth_of_a_minute() {
    let several = Several::new(2);
    let caller = client("c", Some(400), Some(10_000));
    assert_eq!(allowed(&several.processes[0], &caller, 100).await, 100);
    let others = allowed(&several.processes[1], &caller, 1_000).await;
    assert!((280..300).contains(&others), "{others}");
}

#[tokio::test]
async fn a_batch_uses_reserved_calls_and_the_last_ones_of_the_store() {
    for (per_minute, per_day, before) in [(1_000, 20, 17), (40, 1_000, 37)] {
        let several = Several::new(1);
        let (limits, caller) = (&several.processes[0], client("c", Some(per_minute), Some(per_day)));
        assert_eq!(allowed(limits, &caller, before).await, before);
        assert!(limits.charge_client_rest(&caller, 4).await.unwrap().is_allowed(), "one is reserved, two are left");
        assert!(!limits.charge_client(&caller).await.unwrap().is_allowed());
    }
}

/// One step of a simulated history of clients and operators.
#[derive(Debug, Clone)]
enum Step {
    Call(usize, u32),
    WaitMs(i64),
    Kill(usize),
    Stop(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0_usize..3, 1_u32..60).prop_map(|(process, calls)| Step::Call(process, calls)),
        3 => (0_i64..90_000).prop_map(Step::WaitMs),
        1 => (0_usize..3).prop_map(Step::Kill),
        1 => (0_usize..3).prop_map(Step::Stop),
    ];
    proptest::collection::vec(step, 1..40)
}

#[tokio::test]
async fn token_requests_are_at_most_five_in_any_minute_over_all_processes() {
    let several = Several::new(3);
    let here = address("192.0.2.1");
    let mut allowed_at_s: Vec<i64> = Vec::new();
    for second in 0..300 {
        for process in &several.processes {
            let decision = process.charge_token_request(here).await.unwrap();
            if decision.is_allowed() {
                allowed_at_s.push(second);
                let recent = allowed_at_s.iter().filter(|at_s| second - **at_s < 60).count();
                assert!(recent <= 5, "{recent} calls in the 60 seconds up to {second} s");
                assert_eq!(decision.headers().remaining, 5 - recent as u32);
            } else {
                let (reason, headers, retry_after_s) = refusal(decision);
                assert_eq!((reason, headers.remaining), (Refusal::Minute, 0));
                let oldest = allowed_at_s[allowed_at_s.len() - 5];
                assert_eq!(retry_after_s as i64, oldest + 60 - second);
            }
        }
        several.clock.advance(SignedDuration::from_secs(1));
    }
    assert_eq!(allowed_at_s.len(), 25, "and no fewer: {allowed_at_s:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any history, a day allows no more calls than its limit, and a kill costs at most a block.
    #[test]
    fn no_daily_limit_is_exceeded_by_concurrent_callers(steps in steps(), per_day in 1_u32..400) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut several = Several::new(3);
            let caller = client("c", Some(100_000), Some(per_day));
            let (mut let_through, mut kills) = (0, 0);
            for step in steps {
                match step {
                    Step::Call(process, calls) => let_through += allowed(&several.processes[process], &caller, calls).await,
                    Step::WaitMs(milliseconds) => several.clock.advance(SignedDuration::from_millis(milliseconds)),
                    Step::Kill(process) | Step::Stop(process) => {
                        if matches!(step, Step::Stop(_)) {
                            several.processes[process].give_back().await.unwrap();
                        } else {
                            kills += 1;
                        }
                        let clock = Arc::new(several.clock.clone());
                        several.processes[process] = Arc::new(Limits::common(clock, several.common.clone()));
                    }
                }
                prop_assert!(let_through <= per_day);
            }
            for process in &several.processes {
                process.give_back().await.unwrap();
            }
            prop_assert!(several.count() >= u64::from(let_through));
            prop_assert!(several.count() <= u64::from(let_through + kills * block(per_day)));
            Ok(())
        })?;
    }
}
