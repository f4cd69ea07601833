//! Tests that the reported limits are exact: a call after `Retry-After` is allowed, a call a second earlier is not, and
//! exactly the reported number of calls is left.

use super::*;

/// One event: a call, a change of limits or a power loss.
#[derive(Debug, Clone)]
struct Event {
    /// The pause before it.
    pause_ms: i64,
    /// The server is killed and restarted.
    is_kill: bool,
    /// The client gets other limits, per minute and per day.
    limits: Option<(u32, u32)>,
    /// The cost of the call.
    calls: u32,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let limits = proptest::option::weighted(0.15, (1_u32..80, 1_u32..80));
    let event = (0_i64..40_000, proptest::bool::weighted(0.05), limits, 1_u32..12);
    let event = event.prop_map(|(pause_ms, is_kill, limits, calls)| Event { pause_ms, is_kill, limits, calls });
    proptest::collection::vec(event, 1..60)
}

/// The state after a history of events.
struct Played {
    fixture: Fixture,
    caller: Client,
    last: Decision,
    /// The cost of the last call; 1 if its first part was rejected already, since the cost is not known then.
    calls: u32,
}

impl Played {
    /// Starts this many seconds before midnight, and runs until a call is rejected or the events end.
    async fn until_refused(to_midnight_s: i64, limits: (u32, u32), events: &[Event]) -> Self {
        let mut fixture = Fixture::at("2026-03-02T00:00:00Z");
        fixture.clock.advance(SignedDuration::from_secs(-to_midnight_s));
        let mut caller = client("c", Some(limits.0), Some(limits.1));
        let (mut last, mut calls) = (fixture.limits.charge_client(&caller).await.unwrap(), 1);
        for event in events {
            fixture.clock.advance(SignedDuration::from_millis(event.pause_ms));
            if event.is_kill {
                fixture.restart();
            }
            if let Some((per_minute, per_day)) = event.limits {
                caller = client("c", Some(per_minute), Some(per_day));
            }
            let quota = Limits::quota_of(&caller);
            calls = event.calls.min(quota.per_minute).min(quota.per_day);
            last = fixture.limits.charge_client(&caller).await.unwrap();
            if !last.is_allowed() {
                calls = 1;
                break;
            }
            last = fixture.limits.charge_client_rest(&caller, calls).await.unwrap();
            if !last.is_allowed() {
                break;
            }
        }
        Self { fixture, caller, last, calls }
    }

    /// Returns true if the whole last call is allowed when it is retried.
    async fn is_allowed_again(&self) -> bool {
        let limits = &self.fixture.limits;
        limits.charge_client(&self.caller).await.unwrap().is_allowed()
            && limits.charge_client_rest(&self.caller, self.calls).await.unwrap().is_allowed()
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn retry_after_is_enough_and_no_second_too_much(
        to_midnight_s in 1_i64..400,
        limits in (1_u32..80, 1_u32..80),
        events in events(),
    ) {
        block_on(async {
            let early = Played::until_refused(to_midnight_s, limits, &events).await;
            let Decision::Refused { retry_after_s, .. } = early.last else { return Ok(()) };
            early.fixture.wait_s(retry_after_s - 1);
            prop_assert!(!early.is_allowed_again().await, "allowed a second earlier: {:?}", early.last);
            let patient = Played::until_refused(to_midnight_s, limits, &events).await;
            prop_assert_eq!(patient.last, early.last);
            patient.fixture.wait_s(retry_after_s);
            prop_assert!(patient.is_allowed_again().await, "rejected after the wait: {:?}", patient.last);
            Ok(())
        })?;
    }

    #[test]
    fn the_reported_number_of_calls_remains(
        to_midnight_s in 1_i64..400,
        limits in (1_u32..80, 1_u32..80),
        events in events(),
    ) {
        block_on(async {
            let played = Played::until_refused(to_midnight_s, limits, &events).await;
            let reported = played.last.headers();
            prop_assert!(reported.remaining <= reported.limit);
            prop_assert_eq!(played.fixture.allowed(&played.caller, 100).await, reported.remaining);
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn retry_after_covers_both_the_new_day_and_the_minute() {
    let fixture = Fixture::at("2026-03-01T23:59:58.5Z");
    let caller = client("c", Some(1), Some(1));
    assert_eq!(fixture.allowed(&caller, 1).await, 1);
    fixture.clock.advance(SignedDuration::from_millis(500));
    let (reason, headers, retry_after_s) = refusal(fixture.limits.charge_client(&caller).await.unwrap());
    assert_eq!((reason, headers.reset_s), (Refusal::Day, 1), "the day has all its calls again in a second");
    assert_eq!(retry_after_s, 60, "and the minute one after 59.5");
    fixture.wait_s(59);
    assert_eq!(refusal(fixture.limits.charge_client(&caller).await.unwrap()).0, Refusal::Minute);
    fixture.wait_s(1);
    assert!(fixture.limits.charge_client(&caller).await.unwrap().is_allowed());
}

#[tokio::test]
async fn calls_beyond_the_day_wait_for_the_next_day() {
    // Four or five are left of the day, none of the minute. The whole call costs five, which the minute allows in 30 s.
    for (per_day, expected_s) in [(14, 600), (15, 30)] {
        let fixture = Fixture::at("2026-03-01T23:50:00Z");
        let caller = client("c", Some(10), Some(per_day));
        assert_eq!(fixture.allowed(&caller, 10).await, 10);
        let (reason, _, retry_after_s) = refusal(fixture.limits.charge_client_rest(&caller, 5).await.unwrap());
        assert_eq!((reason, retry_after_s), (Refusal::Minute, expected_s), "{per_day}");
    }
}

#[tokio::test]
async fn a_new_address_rejected_at_capacity_is_allowed_after_the_wait() {
    let fixture = Fixture::new();
    let counts = Arc::clone(&fixture.disk) as Arc<dyn DayCounts>;
    let small: Bucket<AddressKey> = Bucket::new("small", shards::SHARDS, counts);
    let quota = Quota { refill: Refill::Even, ..TOKEN_QUOTA };
    let charge = async |number: u32| {
        let key = AddressKey::of(IpAddr::from(number.to_be_bytes()));
        small.charge(&key, quota, Calls::ONE, || fixture.limits.time_reading()).await.unwrap()
    };
    let mut rejected = Vec::new();
    for number in 0..2_000 {
        if !charge(number).await.is_allowed() {
            rejected.push(number);
        }
    }
    assert!(rejected.len() >= 2_000 - shards::SHARDS);
    let counted = fixture.disk.counts.lock().unwrap().len();
    assert_eq!(counted, 2_000 - rejected.len(), "every allowed call is counted on disk");
    // The others continue concurrently, as fast as they may.
    for _ in 0..4 {
        fixture.wait_s(12);
        for number in (0..2_000).filter(|number| !rejected.contains(number)) {
            assert!(charge(number).await.is_allowed());
        }
    }
    fixture.wait_s(12);
    assert!(charge(rejected[0]).await.is_allowed());
}
