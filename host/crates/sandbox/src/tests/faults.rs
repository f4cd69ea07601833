//! Each kind of fault, with a guest that causes it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use wasmtime::component::{Component, Linker};

use crate::engine::{INSTANCES_MAX, SandboxEngine};
use crate::host::PluginLog;
use crate::limits::default_limits;
use crate::package::Package;
use crate::sandbox::{Sandbox, SandboxOf};
use crate::stats::PluginStats;
use crate::testing::guest::{TestLibrary, host_with};
use crate::testing::pack_guest::{
    ENDLESS_EMPTY_PAGES, ENDLESS_PAGES, LOG, LOOP, MEMORY_BOMB, PackGuest, STANDING_PAGES, TABLE_BOMB,
};
use crate::{Blame, FaultKind, InstallError, InstallStep, LoadedPlugin, PluginFault, PluginHost, PluginLimits};
use daftar_domain::context::SystemClock;
use daftar_domain::manifest::{PluginKind, PluginName};

/// Loads a guest and calls it for the first time.
fn tried(host: &PluginHost, guest: &PackGuest) -> (Arc<LoadedPlugin>, Result<(), InstallError>) {
    let package = Package::read(guest.build()).unwrap();
    let plugin = Arc::new(host.load(&package).unwrap());
    let outcome = host.try_out(&plugin).map(drop);
    (plugin, outcome)
}

/// Returns the step and the reason of an error, after checking that it was counted as that fault.
fn fault(guest: &PackGuest, limits: Option<PluginLimits>, kind: FaultKind) -> (InstallStep, String) {
    let (plugin, outcome) = tried(&host_with(limits), guest);
    let error = outcome.unwrap_err();
    let usage = plugin.usage();
    assert_eq!(usage.faults, [(kind, 1)], "{error}");
    assert_eq!(usage.instances, 0, "an instance outlived its fault");
    assert!(error.reason.starts_with(kind.name()), "{error}");
    (error.step, error.reason)
}

fn limits() -> PluginLimits {
    default_limits(PluginKind::VocabularyPack)
}

/// Limits of which the fuel ends a loop, not the time: on a busy machine a guest waits for a processor.
fn patient() -> PluginLimits {
    PluginLimits { call_ms: 60_000, ..limits() }
}

#[test]
fn a_valid_pack_has_no_fault_and_its_use_is_counted() {
    let (plugin, outcome) = tried(&host_with(None), &PackGuest::default());
    outcome.unwrap();
    let usage = plugin.usage();
    assert_eq!(usage.faults, []);
    assert_eq!(usage.peak_memory_bytes, 2 * 65_536);
    assert!(usage.fuel > 0 && usage.calls > 4, "{usage:?}");
}

#[test]
fn an_endless_loop_burns_its_fuel() {
    let guest = PackGuest { describe: LOOP, ..PackGuest::default() };
    let (step, reason) = fault(&guest, Some(patient()), FaultKind::Fuel);
    assert_eq!(step, InstallStep::Smoke);
    assert!(reason.contains("fuel"), "{reason}");
}

#[test]
fn an_endless_loop_with_enough_fuel_is_stopped_by_the_clock() {
    let limits = PluginLimits { fuel_base: u64::MAX / 2, call_ms: 100, ..limits() };
    let started = Instant::now();
    let (_, reason) = fault(&PackGuest { describe: LOOP, ..PackGuest::default() }, Some(limits), FaultKind::Timeout);
    assert!(reason.contains("100 ms"), "{reason}");
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn an_endless_tail_call_burns_its_fuel() {
    let top = "(func $again (return_call $again))";
    let describe = "(call $again) (i32.const 0)";
    let (step, _) = fault(&PackGuest { top, describe, ..PackGuest::default() }, Some(patient()), FaultKind::Fuel);
    assert_eq!(step, InstallStep::Smoke);
}

#[test]
fn a_loop_in_the_start_function_is_stopped_like_any_other() {
    let top = "(func $start (loop $again (br $again))) (start $start)";
    let (step, _) = fault(&PackGuest { top, ..PackGuest::default() }, Some(patient()), FaultKind::Fuel);
    assert_eq!(step, InstallStep::Smoke);
}

#[test]
fn an_allocation_bomb_meets_the_memory_limit() {
    let (_, reason) = fault(&PackGuest { describe: MEMORY_BOMB, ..PackGuest::default() }, None, FaultKind::Memory);
    assert!(reason.contains(&limits().memory_bytes.to_string()), "{reason}");
}

#[test]
fn memory_is_granted_up_to_the_exact_limit() {
    let page = 65_536;
    for (allowed, is_enough) in [(3 * page - 1, false), (3 * page, true), (3 * page + 1, true)] {
        let limits = PluginLimits { memory_bytes: allowed, ..limits() };
        let guest = PackGuest {
            describe: "(drop (memory.grow (i32.const 1))) (global.get $descriptions)",
            // The second call of `describe` would allocate again.
            memory: "2 3",
            ..PackGuest::default()
        };
        let (_, outcome) = tried(&host_with(Some(limits)), &guest);
        // With enough memory the smoke call succeeds; the module's own maximum then stops the second growth.
        let step = outcome.unwrap_err().step;
        assert_eq!(step == InstallStep::Content, is_enough, "{allowed} bytes: {step}");
    }
}

#[test]
fn a_table_bomb_meets_the_table_limit() {
    let guest = PackGuest { top: "(table $table 1 funcref)", describe: TABLE_BOMB, ..PackGuest::default() };
    let (_, reason) = fault(&guest, None, FaultKind::Table);
    assert!(reason.contains("4000"), "{reason}");
}

#[test]
fn deep_recursion_overflows_the_stack() {
    let top = "(func $deeper (param i32) (result i32) (i32.add (call $deeper (local.get 0)) (i32.const 1)))";
    let guest = PackGuest { top, describe: "(call $deeper (i32.const 0))", ..PackGuest::default() };
    fault(&guest, None, FaultKind::Stack);
}

#[test]
fn a_panic_is_a_trap_wherever_it_happens() {
    let unreachable = "(unreachable)";
    let start = PackGuest { top: "(func $start (unreachable)) (start $start)", ..PackGuest::default() };
    assert_eq!(fault(&start, None, FaultKind::Trap).0, InstallStep::Smoke);
    let describe = PackGuest { describe: unreachable, ..PackGuest::default() };
    assert_eq!(fault(&describe, None, FaultKind::Trap).0, InstallStep::Smoke);
    let page = PackGuest { concepts: unreachable, ..PackGuest::default() };
    assert_eq!(fault(&page, None, FaultKind::Trap).0, InstallStep::Content);
    let groups = PackGuest { groups: unreachable, ..PackGuest::default() };
    assert_eq!(fault(&groups, None, FaultKind::Trap).0, InstallStep::Content);
}

#[test]
fn an_illegal_operation_is_a_trap_that_names_it() {
    let guest = PackGuest { describe: "(i32.div_u (i32.const 1) (i32.const 0))", ..PackGuest::default() };
    assert!(fault(&guest, None, FaultKind::Trap).1.contains("divide by zero"));
    let guest = PackGuest { describe: "(i32.load (i32.const -8))", ..PackGuest::default() };
    assert!(fault(&guest, None, FaultKind::Trap).1.contains("out of bounds"));
}

/// A list of one description whose name is nine million bytes of the guest's memory.
const HUGE_NAME: &str = "
    (i32.store offset=8 (i32.load (global.get $descriptions)) (i32.const 131072))
    (i32.store offset=12 (i32.load (global.get $descriptions)) (i32.const 9000000))
    (global.get $descriptions)";

#[test]
fn a_response_of_one_huge_text_is_too_large() {
    let guest = PackGuest { memory: "160", describe: HUGE_NAME, ..PackGuest::default() };
    let (_, reason) = fault(&guest, None, FaultKind::OutputTooLarge);
    assert!(reason.contains(&limits().output_bytes.to_string()), "{reason}");
}

#[test]
fn a_page_of_too_many_items_is_too_large() {
    // A hundred thousand concepts of 76 bytes in a memory of ten megabytes.
    let concepts = "(i32.store offset=8 (global.get $page) (i32.const 100000)) (global.get $page)";
    fault(&PackGuest { memory: "160", concepts, ..PackGuest::default() }, None, FaultKind::OutputTooLarge);
}

#[test]
fn a_text_that_is_not_utf_8_is_an_invalid_response() {
    let guest = PackGuest { vocabulary_name: b"\xff\xfe", ..PackGuest::default() };
    assert!(fault(&guest, None, FaultKind::InvalidAnswer).1.contains("utf-8"));
}

#[test]
fn an_address_outside_the_memory_is_an_invalid_response() {
    let describe = "(i32.store (global.get $descriptions) (i32.const -4)) (global.get $descriptions)";
    fault(&PackGuest { describe, ..PackGuest::default() }, None, FaultKind::InvalidAnswer);
}

#[test]
fn a_negative_count_is_an_invalid_response() {
    let concepts = "(i32.store offset=8 (global.get $page) (i32.const -1)) (global.get $page)";
    fault(&PackGuest { concepts, ..PackGuest::default() }, None, FaultKind::InvalidAnswer);
    let describe = "(i32.store offset=4 (global.get $descriptions) (i32.const -1)) (global.get $descriptions)";
    fault(&PackGuest { describe, ..PackGuest::default() }, None, FaultKind::InvalidAnswer);
}

#[test]
fn items_that_overlap_are_an_invalid_response() {
    // The second concept begins inside the first, so that a length is read as an address.
    let concepts =
        "(i32.store offset=4 (global.get $page) (i32.add (i32.load offset=4 (global.get $page)) (i32.const 4)))
        (global.get $page)";
    fault(&PackGuest { concepts, ..PackGuest::default() }, None, FaultKind::InvalidAnswer);
}

#[test]
fn a_loop_of_calls_to_the_host_is_stopped() {
    let describe = "(loop $again (call $log (i32.const 2) (i32.const 1024) (i32.const 1)) (br $again)) (unreachable)";
    let guest = PackGuest { imports: LOG, describe, ..PackGuest::default() };
    let (step, reason) = fault(&guest, None, FaultKind::HostCalls);
    assert_eq!(step, InstallStep::Smoke);
    assert!(reason.contains(&limits().host_calls.to_string()), "{reason}");
}

#[test]
fn a_log_line_larger_than_any_response_is_not_copied() {
    let describe = "(call $log (i32.const 2) (i32.const 1024) (i32.const 9000000)) (unreachable)";
    let guest = PackGuest { imports: LOG, memory: "160", describe, ..PackGuest::default() };
    fault(&guest, None, FaultKind::OutputTooLarge);
}

#[test]
fn a_log_line_that_is_not_utf_8_or_outside_the_memory_is_an_invalid_response() {
    for describe in [
        "(i32.store8 (i32.const 131072) (i32.const 255)) (call $log (i32.const 2) (i32.const 131072) (i32.const 1)) (unreachable)",
        "(call $log (i32.const 2) (i32.const -8) (i32.const 16)) (unreachable)",
        "(call $log (i32.const 9) (i32.const 1024) (i32.const 1)) (unreachable)",
    ] {
        let guest = PackGuest { imports: LOG, memory: "3", describe, ..PackGuest::default() };
        fault(&guest, None, FaultKind::InvalidAnswer);
    }
}

#[test]
fn a_case_that_does_not_exist_is_an_invalid_response() {
    let concepts = "(i32.store8 (global.get $page) (i32.const 7)) (global.get $page)";
    let (step, _) = fault(&PackGuest { concepts, ..PackGuest::default() }, None, FaultKind::InvalidAnswer);
    assert_eq!(step, InstallStep::Content);
}

#[test]
fn a_pack_without_vocabularies_is_an_invalid_response() {
    let guest = PackGuest { describe: "(global.get $empty)", ..PackGuest::default() };
    assert!(fault(&guest, None, FaultKind::InvalidAnswer).1.contains("no vocabulary"));
}

#[test]
fn paging_without_end_is_an_invalid_response() {
    for (concepts, message) in [
        (ENDLESS_PAGES, "more than the 2 concepts"),
        (ENDLESS_EMPTY_PAGES, "do not end"),
        (STANDING_PAGES, "do not end"),
    ] {
        let guest = PackGuest { concepts, ..PackGuest::default() };
        let (step, reason) = fault(&guest, None, FaultKind::InvalidAnswer);
        assert_eq!(step, InstallStep::Content);
        assert!(reason.contains(message), "{reason}");
    }
}

#[test]
fn paging_up_to_the_declared_count_burns_the_fuel_of_the_whole_reading() {
    // Every page is allowed by itself; together they would take hours.
    let concepts = "(local $left i32) (local.set $left (i32.const 30000000))
        (loop $again (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
        (i32.store offset=16 (global.get $short_page) (i32.add (local.get $cursor) (i32.const 1)))
        (global.get $short_page)";
    let guest = PackGuest { concepts, promised: 200_000, ..PackGuest::default() };
    fault(&guest, Some(patient()), FaultKind::Fuel);
}

#[test]
fn a_wrong_concept_count_is_an_invalid_response() {
    for (promised, message) in [(1, "more than the 1 concepts"), (3, "has 2 concepts; it declared 3")] {
        let guest = PackGuest { promised, ..PackGuest::default() };
        let (_, reason) = fault(&guest, None, FaultKind::InvalidAnswer);
        assert!(reason.contains(message), "{reason}");
    }
    let guest = PackGuest { promised: u32::MAX, ..PackGuest::default() };
    fault(&guest, None, FaultKind::OutputTooLarge);
}

#[test]
fn a_pack_with_changing_descriptions_is_an_invalid_response() {
    let describe = "(global.set $asked (i32.add (global.get $asked) (i32.const 1)))
        (i32.store offset=80 (i32.load (global.get $descriptions)) (i32.add (global.get $asked) (i32.const 1)))
        (global.get $descriptions)";
    let guest = PackGuest { top: "(global $asked (mut i32) (i32.const 0))", describe, ..PackGuest::default() };
    assert!(fault(&guest, None, FaultKind::InvalidAnswer).1.contains("second description differs"));
}

/// An instance that consists of this many core instances.
fn started(engine: &SandboxEngine, core_instances: usize, limits: &PluginLimits) -> Result<Sandbox<()>, PluginFault> {
    let parts = "(core instance (instantiate $module))".repeat(core_instances);
    let bytes = wat::parse_str(format!("(component (core module $module) {parts})")).unwrap();
    let component = Component::new(engine.wasmtime(), bytes).unwrap();
    let name = PluginName::parse("test").unwrap();
    let stats = Arc::new(PluginStats::new(Arc::new(SystemClock), metrics::Histogram::noop()));
    let manifest = crate::testing::guest::manifest("test", "1.0.0", PluginKind::VocabularyPack);
    let log = Arc::new(PluginLog::new(&manifest, Arc::new(SystemClock)));
    let of = SandboxOf { engine: engine.wasmtime(), plugin: &name, limits, stats: &stats, log: &log };
    Sandbox::start(of, |store| Linker::new(engine.wasmtime()).instantiate(store, &component).map(drop))
}

#[test]
fn core_instances_are_granted_up_to_their_limit() {
    let engine = SandboxEngine::new().unwrap();
    let limits = PluginLimits { core_instances: 3, ..limits() };
    assert!(started(&engine, 2, &limits).is_ok());
    assert!(started(&engine, 3, &limits).is_ok());
    let fault = started(&engine, 4, &limits).map(|_| ()).unwrap_err();
    assert_eq!((fault.kind, fault.kind.blame()), (FaultKind::Instances, Blame::Guest), "{fault}");
}

#[test]
fn a_full_instance_pool_is_a_fault_of_the_host() {
    let engine = SandboxEngine::new().unwrap();
    if engine.wasmtime().pooling_allocator_metrics().is_none() {
        let how = "allow this process to reserve address space (`ulimit -v unlimited`)";
        return daftar_test_needs::not_run("address space for a pool of instances", how);
    }
    let mut running = Vec::new();
    for _ in 0..INSTANCES_MAX {
        running.push(started(&engine, 1, &limits()).unwrap());
    }
    let fault = started(&engine, 1, &limits()).map(|_| ()).unwrap_err();
    assert_eq!((fault.kind, fault.kind.blame()), (FaultKind::Unavailable, Blame::Host), "{fault}");
    running.pop();
    assert!(started(&engine, 1, &limits()).is_ok());
}

/// Set in the child process that causes the faults, so that memory of other tests is not measured.
const ALONE: &str = "DAFTAR_TEST_ALONE";

/// Resident memory of this process in KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse().unwrap()
}

#[test]
fn ten_thousand_faults_do_not_grow_anything() {
    if std::env::var_os(ALONE).is_some() {
        return commit_ten_thousand_faults();
    }
    let name = "tests::faults::ten_thousand_faults_do_not_grow_anything";
    let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
    let output = alone.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let message = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && message.contains("1 passed"), "{message}");
}

fn commit_ten_thousand_faults() {
    const ROUNDS: u64 = 2_000;
    let host = host_with(None);
    let guests = [
        PackGuest { describe: "(unreachable)", ..PackGuest::default() },
        PackGuest { describe: MEMORY_BOMB, ..PackGuest::default() },
        PackGuest { vocabulary_name: b"\xff", ..PackGuest::default() },
        PackGuest { concepts: ENDLESS_PAGES, ..PackGuest::default() },
        PackGuest {
            imports: LOG,
            describe: "(loop $again (call $log (i32.const 2) (i32.const 1024) (i32.const 9)) (br $again)) (unreachable)",
            ..PackGuest::default()
        },
    ];
    let loaded: Vec<_> =
        guests.iter().map(|guest| Arc::new(host.load(&Package::read(guest.build()).unwrap()).unwrap())).collect();
    let mut resident_after_warming_up = 0;
    for round in 0..ROUNDS {
        if round == ROUNDS / 10 {
            resident_after_warming_up = resident_kib();
        }
        for plugin in &loaded {
            assert!(host.try_out(plugin).is_err(), "round {round}");
            assert_eq!(plugin.usage().instances, 0);
        }
    }
    for plugin in &loaded {
        assert_eq!(plugin.usage().faults.iter().map(|(_, count)| count).sum::<u64>(), ROUNDS);
    }
    // A leak of 4 KiB per fault would be detected.
    let (before, after) = (resident_after_warming_up, resident_kib());
    assert!(before > 0 && after < before + 32 * 1_024, "resident memory grew from {before} KiB to {after} KiB");
    if let Some(metrics) = host.engine.wasmtime().pooling_allocator_metrics() {
        let alive = (metrics.component_instances(), metrics.core_instances(), metrics.memories(), metrics.tables());
        assert_eq!(alive, (0, 0, 0, 0));
    }
}

#[test]
fn a_fault_does_not_affect_other_plugins() {
    let test = TestLibrary::new();
    let sound = PackGuest { name: "sound", ..PackGuest::default() };
    let installed = test.library.install(sound.build(), crate::testing::guest::now(), &|_| Ok(())).unwrap();
    let bad = PackGuest { describe: LOOP, ..PackGuest::default() };
    assert!(test.library.install(bad.build(), crate::testing::guest::now(), &|_| Ok(())).is_err());
    assert_eq!(test.host.load_pack(&installed).unwrap().vocabularies.len(), 1);
}
