//! Faults that suspend a plugin, and its recovery.

use std::sync::Arc;

use jiff::SignedDuration;

use super::rules::verdicts;
use crate::testing::guest::{TestLibrary, now};
use crate::testing::pack_guest::PackGuest;
use crate::testing::rule_guest::letters;
use crate::{BreakerState, EngineError, FaultKind, PluginHost, PluginHostSettings, PluginLibrary, ResolveError};
use daftar_domain::code::{Code, Namespace};
use daftar_domain::context::FakeClock;
use daftar_domain::eligibility::Verdict;
use daftar_domain::manifest::PluginName;

/// A library with an engine, and the clock of its breaker.
fn with_engine() -> (TestLibrary, FakeClock) {
    with(letters("test", "1.0.0"))
}

fn with(plugin: Vec<u8>) -> (TestLibrary, FakeClock) {
    let clock = FakeClock::new(now());
    let settings = PluginHostSettings {
        threads: Some(2),
        clock: Some(Arc::new(clock.clone())),
        trust: crate::testing::guest::lax(),
        ..PluginHostSettings::default()
    };
    let host = Arc::new(PluginHost::start(settings).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let library = Arc::new(PluginLibrary::open(host.clone(), folder.path(), None).unwrap());
    library.install(plugin, now(), &|_| Ok(())).unwrap();
    (TestLibrary { folder, host, library }, clock)
}

fn state(test: &TestLibrary) -> BreakerState {
    test.library.list()[0].loaded().usage().breaker
}

#[test]
fn no_expression_of_a_caller_suspends_an_engine() {
    let (test, clock) = with_engine();
    for round in 0..20 {
        for expression in ["l", "e", "m", "s", "t", "o", "v", "f", "c", "?", "x"] {
            assert!(verdicts(&test, expression, 2).is_err(), "{expression}");
            clock.advance(SignedDuration::from_millis(200));
        }
        assert_eq!(state(&test), BreakerState::Closed, "round {round}");
        assert_eq!(verdicts(&test, "all", 1), Ok(vec![Verdict::Eligible]), "others are served");
    }
    let usage = test.library.list()[0].loaded().usage();
    assert_eq!((usage.rejected, usage.suspensions), (0, 0));
}

#[test]
fn an_engine_with_repeated_faults_is_suspended_tested_and_resumed() {
    let (test, clock) = with_engine();
    for _ in 0..5 {
        test.library.list()[0].loaded().breaker.record_fault();
    }
    let aside = EngineError::Suspended { plugin: PluginName::parse("test").unwrap(), retry_after_s: 1 };
    assert_eq!(verdicts(&test, "all", 1), Err(aside.clone()));
    assert_eq!(aside.to_string(), "plugin `test` is suspended after repeated faults, retry in 1 s");
    clock.advance(SignedDuration::from_secs(1));
    // The next call is the trial: it tests the engine with the host's own input first.
    let calls_before = test.library.list()[0].loaded().usage().calls;
    assert_eq!(verdicts(&test, "all", 1), Ok(vec![Verdict::Eligible]));
    let usage = test.library.list()[0].loaded().usage();
    assert!(usage.calls > calls_before + 7, "a trial has calls of its own");
    assert_eq!((usage.breaker, usage.rejected, usage.suspensions), (BreakerState::Closed, 1, 1));
}

#[test]
fn a_trial_is_independent_of_the_expression_of_the_caller() {
    let (test, clock) = with_engine();
    for _ in 0..5 {
        test.library.list()[0].loaded().breaker.record_fault();
    }
    clock.advance(SignedDuration::from_secs(1));
    assert!(matches!(verdicts(&test, "t", 1), Err(EngineError::Fault(_))));
    assert_eq!(state(&test), BreakerState::Closed);
}

/// Resolves a code with the pack, which traps.
fn requested(test: &TestLibrary) -> ResolveError {
    let [pack] = test.library.list().try_into().unwrap();
    let (namespace, code) = (Namespace::parse("urn:test").unwrap(), Code::parse("c").unwrap());
    test.host.resolve_codes(pack.loaded(), &namespace, &[code]).unwrap_err()
}

/// The kind of the resulting fault.
fn trapped(test: &TestLibrary) -> Option<FaultKind> {
    match requested(test) {
        ResolveError::Fault(fault) => Some(fault.kind),
        _ => None,
    }
}

#[test]
fn no_code_of_a_caller_suspends_a_pack() {
    let (test, clock) = with(PackGuest::default().build());
    for round in 0..20 {
        assert_eq!(trapped(&test), Some(FaultKind::Trap), "round {round}");
        clock.advance(SignedDuration::from_secs(1));
    }
    let usage = test.library.list()[0].loaded().usage();
    assert_eq!((usage.breaker, usage.rejected, usage.suspensions), (BreakerState::Closed, 0, 0));
}

#[test]
fn a_suspended_pack_resolves_no_code_until_a_trial_succeeds() {
    let (test, clock) = with(PackGuest::default().build());
    for _ in 0..5 {
        test.library.list()[0].loaded().breaker.record_fault();
    }
    let calls = test.library.list()[0].loaded().usage().calls;
    assert_eq!(requested(&test), ResolveError::Suspended { retry_after_s: 1 });
    assert_eq!(test.library.list()[0].loaded().usage().calls, calls, "it is not entered");
    clock.advance(SignedDuration::from_secs(1));
    // The trial describes the pack, then the code is resolved.
    assert_eq!(trapped(&test), Some(FaultKind::Trap));
    let usage = test.library.list()[0].loaded().usage();
    assert_eq!((usage.breaker, usage.rejected, usage.suspensions), (BreakerState::Closed, 1, 1));
}
