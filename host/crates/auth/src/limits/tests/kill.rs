//! Tests of a killed server: the day counts of addresses survive, like those of clients.

use std::net::IpAddr;

use super::*;

/// Counts a call of an address in one of the two buckets of addresses.
async fn charge(limits: &Limits, quota: Quota, here: IpAddr) -> Decision {
    let decision = match quota {
        TOKEN_QUOTA => limits.charge_token_request(here).await,
        UNAUTHENTICATED_QUOTA => limits.charge_unauthenticated(here).await,
        other => panic!("no bucket of addresses has the limits {other:?}"),
    };
    decision.unwrap()
}

#[tokio::test]
async fn the_days_of_an_address_outlive_kills() {
    for (quota, before, lost_max) in [(TOKEN_QUOTA, [7, 16], 4), (UNAUTHENTICATED_QUOTA, [33, 2_500], 15)] {
        let mut fixture = Fixture::at("2026-03-01T00:00:00Z");
        let here = address("2001:db8::1");
        let neighbour = address("2001:db8::ffff");
        let (mut allowed, mut refused) = (0, None);
        // As fast as the minute allows, with kills in between.
        for _ in 0..3 * quota.per_day {
            let decision = charge(&fixture.limits, quota, if allowed % 2 == 0 { here } else { neighbour }).await;
            let Decision::Refused { refusal, .. } = decision else {
                allowed += 1;
                if before.contains(&allowed) {
                    fixture.restart();
                }
                continue;
            };
            if refusal == Refusal::Day {
                refused = Some(decision);
                break;
            }
            fixture.wait_s(u64::from(60 / quota.per_minute));
        }
        let refused = refused.unwrap();
        assert_eq!(refused.headers().limit, quota.per_day);
        let least = quota.per_day - lost_max * before.len() as u32;
        assert!((least..=quota.per_day).contains(&allowed), "{allowed} of {quota:?}");
        fixture.restart();
        assert!(!charge(&fixture.limits, quota, here).await.is_allowed(), "the day stays used up");
        assert!(charge(&fixture.limits, quota, address("2001:db8:0:1::1")).await.is_allowed());
    }
}
