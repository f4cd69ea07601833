//! What answers say of limits, held against what happens next: whoever waits as long as told is let through, whoever comes a
//! second earlier is not, and as many calls are left as is said.

use super::*;

/// Something that a caller, an operator or a power cut does.
#[derive(Debug, Clone)]
struct Event {
    /// After so long.
    pause_ms: i64,
    /// The server is killed and started again.
    is_kill: bool,
    /// The caller gets other limits, a minute and a day.
    limits: Option<(u32, u32)>,
    /// A call that costs so many.
    calls: u32,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let limits = proptest::option::weighted(0.15, (1_u32..80, 1_u32..80));
    let event = (0_i64..40_000, proptest::bool::weighted(0.05), limits, 1_u32..12);
    let event = event.prop_map(|(pause_ms, is_kill, limits, calls)| Event { pause_ms, is_kill, limits, calls });
    proptest::collection::vec(event, 1..60)
}

/// Where a history has led to.
struct Played {
    fixture: Fixture,
    caller: Client,
    last: Decision,
    /// What the last call costs; 1 where its first was refused already, since nobody knows by then how many there are.
    calls: u32,
}

impl Played {
    /// Begins so many seconds before a midnight, and goes on until a call is refused or nothing more happens.
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

    /// Whether the last call is let through, all of it, when it is made again.
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
            prop_assert!(!early.is_allowed_again().await, "let through a second earlier: {:?}", early.last);
            let patient = Played::until_refused(to_midnight_s, limits, &events).await;
            prop_assert_eq!(patient.last, early.last);
            patient.fixture.wait_s(retry_after_s);
            prop_assert!(patient.is_allowed_again().await, "refused after the wait: {:?}", patient.last);
            Ok(())
        })?;
    }

    #[test]
    fn as_many_calls_follow_as_are_said_to_be_left(
        to_midnight_s in 1_i64..400,
        limits in (1_u32..80, 1_u32..80),
        events in events(),
    ) {
        block_on(async {
            let played = Played::until_refused(to_midnight_s, limits, &events).await;
            let told = played.last.headers();
            prop_assert!(told.remaining <= told.limit);
            prop_assert_eq!(played.fixture.allowed(&played.caller, 100).await, told.remaining);
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn a_day_that_begins_is_waited_for_together_with_the_minute() {
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
async fn several_calls_that_the_day_has_no_room_for_wait_for_the_next() {
    let fixture = Fixture::at("2026-03-01T23:50:00Z");
    let caller = client("c", Some(10), Some(14));
    assert_eq!(fixture.allowed(&caller, 9).await, 9);
    assert!(fixture.limits.charge_client(&caller).await.unwrap().is_allowed());
    // Four are left of the day, none of the minute. The whole of it costs five.
    let (reason, _, retry_after_s) = refusal(fixture.limits.charge_client_rest(&caller, 5).await.unwrap());
    assert_eq!((reason, retry_after_s), (Refusal::Minute, 600), "in 30 s there were room but for the day");
}

#[tokio::test]
async fn a_new_address_that_finds_no_room_is_let_through_after_the_wait() {
    let fixture = Fixture::new();
    let counts = Arc::clone(&fixture.disk) as Arc<dyn DayCounts>;
    let small: Bucket<AddressKey> = Bucket::new("small", shards::SHARDS, counts);
    let quota = Quota { refill: Refill::Even, ..TOKEN_QUOTA };
    let charge = async |number: u32| {
        let key = AddressKey::of(IpAddr::from(number.to_be_bytes()));
        small.charge(&key, quota, Calls::ONE, || fixture.limits.moment()).await.unwrap()
    };
    let mut crowded = Vec::new();
    for number in 0..2_000 {
        if !charge(number).await.is_allowed() {
            crowded.push(number);
        }
    }
    assert!(crowded.len() >= 2_000 - shards::SHARDS);
    let counted = fixture.disk.counts.lock().unwrap().len();
    assert_eq!(counted, 2_000 - crowded.len(), "whoever is let through is counted on disk");
    // The others go on meanwhile, as fast as they may.
    for _ in 0..4 {
        fixture.wait_s(12);
        for number in (0..2_000).filter(|number| !crowded.contains(number)) {
            assert!(charge(number).await.is_allowed());
        }
    }
    fixture.wait_s(12);
    assert!(charge(crowded[0]).await.is_allowed());
}
