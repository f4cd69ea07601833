//! Rules in the sandbox: faults of the expression, and of the engine.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use crate::limits::default_limits;
use crate::testing::guest::{TestLibrary, now};
use crate::testing::rule_guest::letters;
use crate::{
    EligibilityEngine, EngineError, FaultKind, IdleSessions, InstallStep, PluginLibrary, PluginLimits, Priority,
    RuleRequest, RuleSession, run_rule,
};
use daftar_domain::audit::Actor;
use daftar_domain::code::CodeNumber;
use daftar_domain::context::Cancellation;
use daftar_domain::eligibility::{Answer, Batch, Bindings, Column, ColumnValues, RowSpace, Schema, Subject, Verdict};
use daftar_domain::explanation::{Cost, Explanation, RuleSummary};
use daftar_domain::manifest::{PluginKind, PluginName};

fn with_engine(limits: Option<PluginLimits>) -> TestLibrary {
    let test = TestLibrary::with_limits(limits);
    test.library.install(letters("test", "1.0.0"), now(), &|_| Ok(())).unwrap();
    test
}

fn schema() -> Arc<Schema> {
    Arc::new(Schema { version: "1".to_owned(), subject: Subject::Individual, fields: Vec::new() })
}

/// A rule that the administrator evaluates.
pub fn request(expression: &str) -> RuleRequest {
    RuleRequest { actor: Actor::Administrator, expression: expression.to_owned(), schema: schema(), idle: None }
}

fn batch(rows: u32) -> Batch {
    Batch { as_of: 0, rows, members: None, programs: None, columns: Vec::new() }
}

/// Compiles, binds and evaluates over some rows.
pub fn verdicts(test: &TestLibrary, expression: &str, rows: u32) -> Result<Vec<Verdict>, EngineError> {
    let (sender, receiver) = sync_channel(1);
    let task = move |session: Result<&mut crate::RuleSession, EngineError>| {
        let verdicts = session.and_then(|rule| {
            rule.bind(&Bindings::default())?;
            Ok(rule.evaluate(&batch(rows))?.verdicts)
        });
        sender.send(verdicts).unwrap();
    };
    test.library.submit(Priority::Interactive, request(expression), Cancellation::default(), Box::new(task))?;
    receiver.recv().unwrap()
}

/// The summary of a rule, and its explanation of one row of a batch of one.
pub fn inspected(test: &TestLibrary, expression: &str, row: u32) -> (RuleSummary, Result<Explanation, EngineError>) {
    let (sender, receiver) = sync_channel(1);
    let task = move |session: Result<&mut crate::RuleSession, EngineError>| {
        let rule = session.unwrap();
        rule.bind(&Bindings::default()).unwrap();
        sender.send((rule.summary().clone(), rule.explain(&batch(1), row))).unwrap();
    };
    test.library.submit(Priority::Interactive, request(expression), Cancellation::default(), Box::new(task)).unwrap();
    receiver.recv().unwrap()
}

fn faults(test: &TestLibrary) -> Vec<(FaultKind, u64)> {
    test.library.list()[0].loaded().usage().faults
}

#[test]
fn a_valid_rule_returns_one_verdict_per_row() {
    let test = with_engine(None);
    assert_eq!(verdicts(&test, "all", 3).unwrap(), [Verdict::Eligible; 3]);
    assert_eq!(verdicts(&test, "all", 0).unwrap(), []);
    assert_eq!(faults(&test), []);
}

#[test]
fn an_invalid_expression_returns_its_diagnostics() {
    let error = verdicts(&with_engine(None), "!", 1).unwrap_err();
    assert_eq!(error.to_string(), "This cannot be read. (line 1, column 2)");
    let EngineError::Diagnostics(diagnostics) = error else { panic!("{error:?}") };
    assert_eq!((diagnostics.len(), diagnostics[0].code.as_str()), (1, "syntax"));
}

#[test]
fn budgets_are_charged_to_the_expression() {
    // So much time that the fuel ends a loop on a busy machine too.
    let limits = PluginLimits { call_ms: 60_000, ..default_limits(PluginKind::EligibilityEngine) };
    let test = with_engine(Some(limits.clone()));
    let memory = u64::try_from(limits.memory_bytes).unwrap();
    for (expression, expected) in [
        ("l", EngineError::Exhausted { budget: "fuel", allowed: limits.fuel_base }),
        ("e", EngineError::Exhausted { budget: "fuel", allowed: limits.fuel_for(5) }),
        ("m", EngineError::Exhausted { budget: "memory", allowed: memory }),
        ("s", EngineError::Exhausted { budget: "stack", allowed: 1 << 20 }),
        ("o", EngineError::Exhausted { budget: "output", allowed: 8 << 20 }),
        ("x", EngineError::EngineBudget { budget: "width".to_owned(), allowed: 80 }),
    ] {
        assert_eq!(verdicts(&test, expression, 5).unwrap_err(), expected, "{expression}");
    }
    assert_eq!(verdicts(&test, "all", 1).unwrap(), [Verdict::Eligible]);
}

/// Returns the number of evaluations of a rule over a thousand rows before it is stopped, at most 100, and the error.
fn evaluations(rule: &mut RuleSession) -> (u32, Option<EngineError>) {
    if let Err(error) = rule.bind(&Bindings::default()) {
        return (0, Some(error));
    }
    for done in 0..100 {
        if let Err(error) = rule.evaluate(&batch(1_000)) {
            return (done, Some(error));
        }
    }
    (100, None)
}

#[tokio::test]
async fn one_fuel_budget_covers_all_calls_of_a_request() {
    let unlimited = with_engine(None);
    let used = run_rule(&*unlimited.library, Priority::Interactive, request("all"), |rule| {
        rule.bind(&Bindings::default()).unwrap();
        let before = rule.usage().fuel;
        rule.evaluate(&batch(1_000)).unwrap();
        (before, rule.usage().fuel - before)
    });
    let (before, of_one) = used.await.unwrap();
    // Enough for compiling and binding, and for a few evaluations.
    let fuel_base = before + 3 * of_one;
    let limits = PluginLimits { fuel_base, fuel_per_row: 0, ..default_limits(PluginKind::EligibilityEngine) };
    let test = with_engine(Some(limits));
    let (done, stopped) = run_rule(&*test.library, Priority::Interactive, request("all"), evaluations).await.unwrap();
    assert!((3..100).contains(&done), "{done} of {of_one} each, of {fuel_base}");
    assert_eq!(stopped, Some(EngineError::Exhausted { budget: "fuel", allowed: fuel_base }));
    let in_background = run_rule(&*test.library, Priority::Background, request("all"), evaluations).await.unwrap();
    assert_eq!(in_background, (100, None), "batches of previews have a budget each");
}

#[tokio::test]
async fn compared_rules_share_an_instance_and_have_fuel_of_their_own() {
    let unlimited = with_engine(None);
    let used = run_rule(&*unlimited.library, Priority::Interactive, request("all"), |rule| {
        rule.bind(&Bindings::default()).unwrap();
        let before = rule.usage().fuel;
        rule.evaluate(&batch(1_000)).unwrap();
        (before, rule.usage().fuel - before)
    });
    let (before, of_one) = used.await.unwrap();
    let fuel_base = before + 3 * of_one;
    let limits = PluginLimits { fuel_base, fuel_per_row: 0, ..default_limits(PluginKind::EligibilityEngine) };
    let test = with_engine(Some(limits));
    let loaded = test.library.list()[0].loaded().clone();
    let compared = run_rule(&*test.library, Priority::Interactive, request("all"), move |rule| {
        let mut second = rule.compare("any").unwrap();
        second.bind(&Bindings::default()).unwrap();
        let verdicts = second.evaluate(&batch(2)).unwrap().verdicts;
        let mut of_second = 0;
        let stopped = loop {
            match second.evaluate(&batch(1_000)) {
                Ok(_) if of_second < 100 => of_second += 1,
                other => break other.err(),
            }
        };
        (verdicts, of_second, stopped, loaded.usage().instances)
    });
    let (verdicts, of_second, stopped, instances) = compared.await.unwrap();
    assert_eq!((verdicts, instances), (vec![Verdict::Eligible; 2], 1));
    assert!((2..100).contains(&of_second), "{of_second}");
    assert_eq!(stopped, Some(EngineError::Exhausted { budget: "fuel", allowed: fuel_base }));
    let spared = run_rule(&*test.library, Priority::Interactive, request("all"), |rule| {
        rule.compare("any").unwrap();
        evaluations(rule).0
    });
    assert!(spared.await.unwrap() >= 3, "the fuel of the first rule is not that of the second");
}

#[tokio::test]
async fn a_fault_of_the_compared_rule_ends_the_session() {
    let test = with_engine(None);
    let failed = run_rule(&*test.library, Priority::Interactive, request("all"), |rule| {
        rule.bind(&Bindings::default()).unwrap();
        let mut second = rule.compare("t").unwrap();
        second.bind(&Bindings::default()).unwrap();
        let first = second.evaluate(&batch(1)).map(drop);
        (first, rule.evaluate(&batch(1)).map(drop))
    });
    let (second, first) = failed.await.unwrap();
    assert!(matches!(&second, Err(EngineError::Fault(fault)) if fault.kind == FaultKind::Trap), "{second:?}");
    assert_eq!(first, second);
    let refused = run_rule(&*test.library, Priority::Interactive, request("all"), |rule| {
        let refused = rule.compare("!").map(drop);
        rule.bind(&Bindings::default()).unwrap();
        (refused, rule.evaluate(&batch(2)).map(|outcomes| outcomes.verdicts.len()))
    });
    let (refused, first) = refused.await.unwrap();
    assert!(matches!(refused, Err(EngineError::Diagnostics(_))), "{refused:?}");
    assert_eq!(first, Ok(2), "an invalid second expression is not a fault");
}

/// Runs a task in the background with the idle sessions of a preview, which it leaves there before this returns.
async fn in_slice<R: Send + 'static>(
    test: &TestLibrary,
    request: &RuleRequest,
    task: impl FnOnce(&mut RuleSession) -> R + Send + 'static,
) -> Result<R, EngineError> {
    let found = run_rule(&*test.library, Priority::Background, request.clone(), task).await;
    while test.library.list()[0].loaded().usage().requests > 0 {
        tokio::task::yield_now().await;
    }
    found
}

#[tokio::test]
async fn an_instance_serves_the_time_slices_of_one_preview() {
    let test = with_engine(None);
    let usage = || test.library.list()[0].loaded().usage();
    let idle = IdleSessions::new(2);
    let of_preview = |idle: &Arc<IdleSessions>| RuleRequest { idle: Some(idle.of_rule()), ..request("all") };
    let first = of_preview(&idle);
    let fresh = in_slice(&test, &first, |rule| {
        let is_bound = rule.is_bound();
        rule.bind(&Bindings::default()).unwrap();
        rule.evaluate(&batch(3)).unwrap();
        (is_bound, rule.time())
    });
    assert!(!fresh.await.unwrap().0);
    assert_eq!(usage().instances, 1);
    let calls = usage().calls;
    let later = in_slice(&test, &first, |rule| {
        let before = (rule.is_bound(), rule.time());
        (before, rule.evaluate(&batch(3)).unwrap().verdicts.len())
    });
    assert_eq!(later.await.unwrap(), ((true, Duration::ZERO), 3));
    assert_eq!((usage().instances, usage().calls), (1, calls + 1), "neither compiled nor bound again");

    let others = [of_preview(&idle), of_preview(&idle)];
    for other in &others {
        assert!(!in_slice(&test, other, |rule| rule.is_bound()).await.unwrap(), "of another preview");
    }
    assert_eq!(usage().instances, 2, "the oldest is dropped");
    assert!(!in_slice(&test, &first, |rule| rule.is_bound()).await.unwrap());
    drop((first, others));
    assert_eq!(usage().instances, 0, "they end with their previews");
}

#[tokio::test]
async fn an_instance_that_failed_or_served_enough_rows_is_not_used_again() {
    let test = with_engine(None);
    let idle = IdleSessions::new(2);
    let instances = || test.library.list()[0].loaded().usage().instances;
    let evaluate = |rows: u32| {
        move |rule: &mut RuleSession| {
            rule.bind(&Bindings::default())?;
            rule.evaluate(&batch(rows)).map(drop)
        }
    };
    let trapped = RuleRequest { idle: Some(idle.of_rule()), ..request("t") };
    assert!(in_slice(&test, &trapped, evaluate(1)).await.unwrap().is_err());
    assert_eq!(instances(), 0);
    let many = RuleRequest { idle: Some(idle.of_rule()), ..request("all") };
    for slice in 0..128 {
        assert_eq!(in_slice(&test, &many, evaluate(4_096)).await.unwrap(), Ok(()));
        assert_eq!(instances(), u64::from(slice < 127), "{slice}");
    }
    let replaced = RuleRequest { idle: Some(idle.of_rule()), ..request("all") };
    assert_eq!(in_slice(&test, &replaced, evaluate(1)).await.unwrap(), Ok(()));
    test.library.install(letters("test", "99.0.0"), now(), &|_| Ok(())).unwrap();
    let engine = in_slice(&test, &replaced, |rule| (rule.engine_name().to_owned(), rule.is_bound())).await.unwrap();
    assert!(engine.0.starts_with("test@99.0.0") && !engine.1, "the active engine decides: {engine:?}");
}

#[tokio::test]
async fn a_rule_whose_request_is_cancelled_ends_at_its_next_call() {
    let test = with_engine(None);
    let (started, has_started) = sync_channel(0);
    let (go_on, goes_on) = sync_channel(0);
    let (sender, receiver) = sync_channel(1);
    let mut running = Box::pin(run_rule(&*test.library, Priority::Interactive, request("all"), move |rule| {
        let first = rule.bind(&Bindings::default());
        started.send(()).unwrap();
        goes_on.recv().unwrap();
        let second = rule.evaluate(&batch(1)).map(drop);
        sender.send((first, second, rule.cancellation().is_cancelled())).unwrap();
    }));
    assert!(futures_util::poll!(&mut running).is_pending());
    has_started.recv().unwrap();
    drop(running);
    go_on.send(()).unwrap();
    assert_eq!(receiver.recv(), Ok((Ok(()), Err(EngineError::Abandoned), true)));
}

#[test]
fn fuel_decides_at_the_same_unit_every_time() {
    let fuel = |rows: u32| {
        let test = with_engine(None);
        let (sender, receiver) = sync_channel(1);
        let task = move |session: Result<&mut crate::RuleSession, EngineError>| {
            let rule = session.unwrap();
            rule.bind(&Bindings::default()).unwrap();
            rule.evaluate(&batch(rows)).unwrap();
            sender.send(rule.usage().fuel).unwrap();
        };
        test.library.submit(Priority::Interactive, request("all"), Cancellation::default(), Box::new(task)).unwrap();
        receiver.recv().unwrap()
    };
    assert_eq!(fuel(7), fuel(7));
    assert!(fuel(7) > 0);
}

#[test]
fn a_broken_engine_is_a_fault_of_the_engine() {
    let test = with_engine(None);
    for (expression, kind) in [
        ("t", FaultKind::Trap),
        ("v", FaultKind::InvalidAnswer),
        ("?", FaultKind::InvalidAnswer),
        ("f", FaultKind::InvalidAnswer),
        ("c", FaultKind::RefusedInput),
    ] {
        let error = verdicts(&test, expression, 2).unwrap_err();
        let EngineError::Fault(fault) = error else { panic!("{expression}: {error:?}") };
        assert_eq!(fault.kind, kind, "{fault}");
    }
}

#[test]
fn a_rule_has_a_type_and_a_cost_and_must_explain_existing_rows() {
    let test = with_engine(None);
    let (summary, explanation) = inspected(&test, "all", 0);
    let cost = Cost { steps_min: 1, steps_max: 1, list_items: 100 };
    assert_eq!(summary, RuleSummary { result_type: "bool".to_owned(), cost });
    // This engine never explains, which breaks the interface.
    let error = explanation.unwrap_err();
    assert!(matches!(&error, EngineError::Fault(fault) if fault.kind == FaultKind::InvalidAnswer), "{error:?}");
    let error = inspected(&test, "all", 1).1.unwrap_err();
    assert!(matches!(&error, EngineError::Fault(fault) if fault.kind == FaultKind::RefusedInput), "{error:?}");
}

#[test]
fn the_clock_is_a_fault_and_not_a_verdict() {
    let limits =
        PluginLimits { fuel_base: u64::MAX / 2, call_ms: 100, ..default_limits(PluginKind::EligibilityEngine) };
    let error = verdicts(&with_engine(Some(limits)), "e", 1).unwrap_err();
    assert!(matches!(&error, EngineError::Fault(fault) if fault.kind == FaultKind::Timeout), "{error:?}");
}

#[test]
fn a_session_that_had_a_fault_is_not_entered_again() {
    let test = with_engine(None);
    let (sender, receiver) = sync_channel(1);
    let task = move |session: Result<&mut crate::RuleSession, EngineError>| {
        let rule = session.unwrap();
        let first = rule.evaluate(&batch(1));
        let fuel = rule.usage().fuel;
        let second = rule.evaluate(&batch(1));
        sender.send((first, second, rule.usage().fuel == fuel)).unwrap();
    };
    test.library.submit(Priority::Interactive, request("t"), Cancellation::default(), Box::new(task)).unwrap();
    let (first, second, is_untouched) = receiver.recv().unwrap();
    assert!(first.is_err() && first == second && is_untouched);
    assert_eq!(faults(&test), [(FaultKind::Trap, 1)]);
}

#[test]
fn oversized_input_is_rejected_by_the_host() {
    let limits = PluginLimits { input_bytes: 1_000, ..default_limits(PluginKind::EligibilityEngine) };
    let test = with_engine(Some(limits));
    for (bytes, is_refused) in [(999, false), (1_000, false), (1_001, true)] {
        let (sender, receiver) = sync_channel(1);
        let task = move |session: Result<&mut crate::RuleSession, EngineError>| {
            let column = Column {
                space: RowSpace::Me,
                path: String::new(),
                valid: Vec::new(),
                values: ColumnValues::Booleans(vec![0; bytes]),
            };
            let batch = Batch { columns: vec![column], ..batch(1) };
            sender.send(session.unwrap().evaluate(&batch).map(drop)).unwrap();
        };
        test.library.submit(Priority::Interactive, request("all"), Cancellation::default(), Box::new(task)).unwrap();
        let outcome = receiver.recv().unwrap();
        assert_eq!(outcome.is_err(), is_refused, "{bytes}: {outcome:?}");
    }
}

#[test]
fn unrequested_answers_are_a_fault_of_the_host() {
    let test = with_engine(None);
    let (sender, receiver) = sync_channel(1);
    let task = move |session: Result<&mut crate::RuleSession, EngineError>| {
        let bindings = Bindings { answers: vec![Answer::Number(CodeNumber(1))], texts: Vec::new() };
        sender.send(session.unwrap().bind(&bindings)).unwrap();
    };
    test.library.submit(Priority::Interactive, request("all"), Cancellation::default(), Box::new(task)).unwrap();
    let error = receiver.recv().unwrap().unwrap_err();
    assert!(matches!(&error, EngineError::Fault(fault) if fault.kind == FaultKind::RefusedInput), "{error:?}");
}

#[test]
fn an_oversized_expression_does_not_reach_the_engine() {
    let error = verdicts(&with_engine(None), &"a".repeat((64 << 10) + 1), 1).unwrap_err();
    assert!(matches!(&error, EngineError::Fault(fault) if fault.kind == FaultKind::RefusedInput), "{error:?}");
}

#[test]
fn too_many_requests_of_one_engine_are_rejected_immediately() {
    let limits = PluginLimits { concurrent_requests: 1, ..default_limits(PluginKind::EligibilityEngine) };
    let test = with_engine(Some(limits));
    let (started, has_started) = sync_channel(0);
    let (release, released) = sync_channel::<()>(0);
    let task = move |_: Result<&mut crate::RuleSession, EngineError>| {
        started.send(()).unwrap();
        let _ = released.recv();
    };
    test.library.submit(Priority::Interactive, request("all"), Cancellation::default(), Box::new(task)).unwrap();
    has_started.recv().unwrap();
    assert_eq!(verdicts(&test, "all", 1), Err(EngineError::Busy));
    drop(release);
    // The slot is free once the job has ended.
    while test.library.list()[0].loaded().usage().requests > 0 {
        std::thread::yield_now();
    }
    assert_eq!(verdicts(&test, "all", 1), Ok(vec![Verdict::Eligible]));
}

#[test]
fn no_engine_and_several_engines_are_no_engine_unless_one_is_named() {
    let test = TestLibrary::new();
    assert_eq!(verdicts(&test, "all", 1), Err(EngineError::NoEngine));
    assert_eq!(test.library.engine_name(), Err(EngineError::NoEngine));
    test.library.install(letters("one", "1.0.0"), now(), &|_| Ok(())).unwrap();
    assert!(test.library.engine_name().unwrap().starts_with("one@1.0.0 sha256:"));
    let second = || letters("two", "2.0.0");
    let refused = test.library.install(second(), now(), &|_| Ok(())).unwrap_err();
    assert_eq!(refused.step, InstallStep::Content);
    assert_eq!(
        refused.reason,
        "the eligibility engine `one` is already installed, and with two engines rules that name none have none; set `engine` in `[plugins]` to the one that decides them, or remove `one` first"
    );
    assert_eq!(verdicts(&test, "all", 1), Ok(vec![Verdict::Eligible]));

    let TestLibrary { folder, host, library } = test;
    drop(library);
    let open = |engine: Option<&str>| {
        let engine = engine.map(|name| PluginName::parse(name).unwrap());
        PluginLibrary::open(host.clone(), folder.path(), engine).unwrap()
    };
    let named = open(Some("two"));
    named.install(second(), now(), &|_| Ok(())).unwrap();
    assert!(named.engine_name().unwrap().starts_with("two@2.0.0 sha256:"));
    drop(named);
    assert_eq!(open(None).engine_name(), Err(EngineError::NoEngine));
}

#[test]
fn an_engine_is_found_by_its_name_if_another_one_is_active() {
    let TestLibrary { folder, host, library } = TestLibrary::new();
    drop(library);
    let active = PluginName::parse("one").ok();
    let library = Arc::new(PluginLibrary::open(host, folder.path(), active).unwrap());
    library.install(letters("one", "1.0.0"), now(), &|_| Ok(())).unwrap();
    let missed = Arc::clone(&library).named("two").err();
    let installed = vec![PluginName::parse("one").unwrap()];
    assert_eq!(missed, Some(EngineError::NotInstalled { engine: "two".to_owned(), installed }));
    library.install(letters("two", "2.0.0"), now(), &|_| Ok(())).unwrap();
    let two = Arc::clone(&library).named("two").unwrap();
    assert!(library.engine_name().unwrap().starts_with("one@1.0.0"));
    assert!(two.engine_name().unwrap().starts_with("two@2.0.0"));
    assert!(Arc::clone(&two).named("one").unwrap().engine_name().unwrap().starts_with("one@1.0.0"));
    library.install(letters("two", "3.0.0"), now(), &|_| Ok(())).unwrap();
    assert!(two.engine_name().unwrap().starts_with("two@3.0.0"), "a name means the installed version");
    library.remove(&PluginName::parse("two").unwrap()).unwrap();
    assert_eq!(
        two.engine_name(),
        Err(EngineError::NotInstalled { engine: "two".to_owned(), installed: vec![PluginName::parse("one").unwrap()] })
    );
    let task = Box::new(|_: Result<&mut RuleSession, EngineError>| ());
    let refused = two.submit(Priority::Interactive, request("all"), Cancellation::default(), task);
    assert!(matches!(refused, Err(EngineError::NotInstalled { .. })), "{refused:?}");
}

#[tokio::test]
async fn async_code_waits_for_a_rule_without_blocking() {
    let test = with_engine(None);
    let library: &dyn EligibilityEngine = &*test.library;
    let rows = run_rule(library, Priority::Interactive, request("all"), |rule| {
        rule.bind(&Bindings::default())?;
        rule.evaluate(&batch(4)).map(|outcomes| outcomes.verdicts.len())
    });
    assert_eq!(rows.await, Ok(Ok(4)));
    let refused = run_rule(library, Priority::Interactive, request("!"), |_| ());
    assert!(matches!(refused.await, Err(EngineError::Diagnostics(_))));
    let panicked = run_rule(library, Priority::Interactive, request("all"), |_| -> u8 { panic!("a test's panic") });
    assert_eq!(panicked.await, Err(EngineError::Abandoned));
}

#[tokio::test]
async fn a_session_keeps_the_engine_that_it_began_with() {
    let test = with_engine(None);
    let replaced = test.library.clone();
    let library: &dyn EligibilityEngine = &*test.library;
    let began_with = library.engine_name().unwrap();
    let session = run_rule(library, Priority::Interactive, request("all"), move |rule| {
        replaced.install(letters("test", "99.0.0"), now(), &|_| Ok(())).unwrap();
        rule.bind(&Bindings::default()).unwrap();
        let rows = rule.evaluate(&batch(4)).unwrap().verdicts.len();
        (rule.engine_name().to_owned(), rows)
    });
    assert_eq!(session.await, Ok((began_with, 4)));
    assert!(library.engine_name().unwrap().starts_with("test@99.0.0 sha256:"));
}
