//! Tests with a wall clock that is set forwards and backwards, and with the change of the day.

use jiff::Timestamp;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[tokio::test]
async fn the_day_changes_at_midnight_utc_and_not_a_nanosecond_before() {
    let fixture = Fixture::at("2026-03-01T23:59:59Z");
    let caller = client("c", Some(1_000), Some(3));
    assert_eq!(fixture.allowed(&caller, 10).await, 3);
    fixture.clock.advance(SignedDuration::from_nanos(999_999_999));
    let (reason, _, retry_after_s) = refusal(fixture.limits.charge_client(&caller).await.unwrap());
    assert_eq!((reason, retry_after_s), (Refusal::Day, 1));
    fixture.clock.advance(SignedDuration::from_nanos(1));
    assert_eq!(fixture.allowed(&caller, 10).await, 3);
}

#[tokio::test]
async fn setting_the_clock_neither_refills_nor_empties_a_minute() {
    let fixture = Fixture::new();
    let caller = client("c", Some(2), Some(1_000));
    let refused = async || refusal(fixture.limits.charge_client(&caller).await.unwrap());
    assert_eq!(fixture.allowed(&caller, 10).await, 2);
    for shown in ["2026-03-01T13:00:00Z", "2026-03-01T11:00:00Z", "2026-03-01T12:00:00.5Z"] {
        fixture.clock.set(at(shown));
        let (reason, _, retry_after_s) = refused().await;
        assert_eq!((reason, retry_after_s), (Refusal::Minute, 30), "{shown}");
    }
    fixture.wait_s(29);
    assert_eq!(refused().await.2, 1);
    fixture.clock.set(at("2026-03-01T06:00:00Z"));
    assert_eq!(refused().await.2, 1, "the time already waited is not lost");
    fixture.wait_s(1);
    assert_eq!(fixture.allowed(&caller, 10).await, 1);
}

#[tokio::test]
async fn each_day_has_its_own_count_after_a_leap_and_back() {
    let mut fixture = Fixture::new();
    let caller = client("c", Some(1_000), Some(19));
    assert_eq!(fixture.allowed(&caller, 12).await, 12);
    fixture.clock.set(at("2026-03-03T12:00:00Z"));
    assert_eq!(fixture.allowed(&caller, 4).await, 4, "another day has a count of its own");
    fixture.clock.set(at("2026-03-01T12:00:01Z"));
    assert_eq!(fixture.allowed(&caller, 100).await, 7, "the first day continues at its count");
    fixture.clock.set(at("2026-03-03T12:00:01Z"));
    assert_eq!(fixture.allowed(&caller, 100).await, 15);
    fixture.limits.maintain().await.unwrap();
    fixture.restart();
    assert_eq!(fixture.allowed(&caller, 100).await, 0);
    fixture.clock.set(at("2026-03-01T12:00:02Z"));
    assert_eq!(fixture.allowed(&caller, 100).await, 0, "both counts survive a crash");
}

#[tokio::test]
async fn a_clock_at_either_end_of_the_calendar_locks_no_client_out() {
    let fixture = Fixture::new();
    let caller = client("c", Some(5), Some(1_000));
    for shown in [Timestamp::MAX, Timestamp::MIN, Timestamp::UNIX_EPOCH, at("2026-03-01T12:00:00Z")] {
        fixture.clock.set(shown);
        assert_eq!(fixture.allowed(&caller, 100).await, 5, "{shown}");
        fixture.limits.maintain().await.unwrap();
        fixture.wait_s(60);
    }
}
