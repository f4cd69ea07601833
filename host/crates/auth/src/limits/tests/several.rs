//! Tests of calls with a cost above one.

use super::*;

#[tokio::test]
async fn the_rest_of_a_call_that_costs_several_is_counted_completely_or_not_at_all() {
    let fixture = Fixture::new();
    let caller = client("c", Some(60), Some(200));
    let limits = &fixture.limits;
    assert!(limits.charge_client(&caller).await.unwrap().is_allowed());
    let decision = limits.charge_client_rest(&caller, 40).await.unwrap();
    assert_eq!((decision.is_allowed(), decision.headers().remaining), (true, 20));
    // 20 are left, of which the next call takes one: 21 in total are one too many.
    assert!(limits.charge_client(&caller).await.unwrap().is_allowed());
    let (why, _, retry_after_s) = refusal(limits.charge_client_rest(&caller, 21).await.unwrap());
    assert_eq!((why, retry_after_s), (Refusal::Minute, 2));
    fixture.wait_s(2);
    assert!(limits.charge_client(&caller).await.unwrap().is_allowed(), "21 are refilled");
    let decision = limits.charge_client_rest(&caller, 21).await.unwrap();
    assert_eq!((decision.is_allowed(), decision.headers().remaining), (true, 0));
    // A call that costs one has no rest.
    assert!(limits.charge_client_rest(&caller, 1).await.unwrap().is_allowed());

    fixture.wait_s(60);
    assert!(limits.charge_client(&caller).await.unwrap().is_allowed());
    assert!(limits.charge_client_rest(&caller, 60).await.unwrap().is_allowed());
    fixture.wait_s(60);
    assert_eq!(fixture.allowed(&caller, 20).await, 20);
    fixture.wait_s(60);
    // 1 + 39 + 1 + 1 + 20 + 60 + 20 are counted, 58 are left of the day.
    assert!(limits.charge_client(&caller).await.unwrap().is_allowed());
    let refused = limits.charge_client_rest(&caller, 59).await.unwrap();
    assert_eq!(refused.headers().remaining, 57);
    assert_eq!(refusal(refused).0, Refusal::Day);
    let decision = limits.charge_client_rest(&caller, 58).await.unwrap();
    assert_eq!((decision.is_allowed(), decision.headers().remaining), (true, 0));
}
