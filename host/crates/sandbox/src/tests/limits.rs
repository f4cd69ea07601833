//! Limits with guests that use exactly that much: just below, at, and above. Those of memory, core instances, input and
//! requests are in `faults.rs` and `rules.rs`.

use std::sync::Arc;

use wasmtime::component::{Component, Linker};

use crate::engine::SandboxEngine;
use crate::host::PluginLog;
use crate::limits::default_limits;
use crate::package::Package;
use crate::sandbox::{Sandbox, SandboxOf};
use crate::stats::PluginStats;
use crate::testing::guest::{host_with, manifest};
use crate::testing::pack_guest::{LOG, PackGuest};
use crate::{FaultKind, PluginLimits};
use daftar_domain::context::SystemClock;
use daftar_domain::manifest::{PluginKind, PluginName};

fn defaults() -> PluginLimits {
    default_limits(PluginKind::VocabularyPack)
}

/// The fault of a guest under these limits, if any.
fn outcome(guest: &PackGuest, limits: PluginLimits) -> Option<FaultKind> {
    let host = host_with(Some(limits));
    let plugin = Arc::new(host.load(&Package::read(guest.build()).unwrap()).unwrap());
    let outcome = host.try_out(&plugin);
    let fault = plugin.usage().faults.first().map(|(kind, _)| *kind);
    assert_eq!(outcome.is_err(), fault.is_some(), "{outcome:?}");
    fault
}

/// The least sufficient number of a range.
fn least(range: std::ops::Range<u64>, is_enough: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (range.start, range.end);
    assert!(is_enough(high));
    while low < high {
        let middle = low + (high - low) / 2;
        if is_enough(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

fn leaked(text: String) -> &'static str {
    text.leak()
}

/// A guest that writes that many lines of that many bytes in each `describe`.
fn logging(lines: u32, bytes: u32) -> PackGuest {
    let describe = leaked(format!(
        "(local $left i32) (local.set $left (i32.const {lines}))
        (loop $again
            (call $log (i32.const 0) (i32.const 1024) (i32.const {bytes}))
            (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
        (global.get $descriptions)"
    ));
    PackGuest { imports: LOG, describe, ..PackGuest::default() }
}

#[test]
fn calls_to_the_host() {
    let limits = || PluginLimits { host_calls: 10, ..defaults() };
    for (lines, expected) in [(9, None), (10, None), (11, Some(FaultKind::HostCalls))] {
        assert_eq!(outcome(&logging(lines, 1), limits()), expected, "{lines} lines");
    }
}

#[test]
fn bytes_given_to_the_host() {
    let limits = || PluginLimits { host_call_bytes: 100, ..defaults() };
    for (bytes, expected) in [(49, None), (50, None), (51, Some(FaultKind::HostCalls))] {
        assert_eq!(outcome(&logging(2, bytes), limits()), expected, "two lines of {bytes} bytes");
    }
}

#[test]
fn table_elements() {
    for (growth, expected) in [(98, None), (99, None), (100, Some(FaultKind::Table))] {
        // Only the first of its calls grows the table.
        let describe = leaked(format!(
            "(if (i32.eq (table.size $table) (i32.const 1))
                (then (drop (table.grow $table (ref.null func) (i32.const {growth})))))
            (global.get $descriptions)"
        ));
        let guest = PackGuest { top: "(table $table 1 funcref)", describe, ..PackGuest::default() };
        let limits = PluginLimits { table_elements: 100, ..defaults() };
        assert_eq!(outcome(&guest, limits), expected, "1 + {growth} elements");
    }
}

#[test]
fn fuel_to_the_unit() {
    let fault = |fuel| outcome(&PackGuest::default(), PluginLimits { fuel_base: fuel, fuel_per_row: 0, ..defaults() });
    let enough = least(1..100_000, |fuel| fault(fuel).is_none());
    assert_eq!([enough - 1, enough, enough + 1].map(fault), [Some(FaultKind::Fuel), None, None]);
}

/// Calls a guest that lets that many clock ticks pass and then runs one more loop.
fn after_ticks(ticks: u32, limits: &PluginLimits) -> Option<FaultKind> {
    let engine = SandboxEngine::with_stopped_clock();
    let bytes = wat::parse_str(
        r#"(component
            (import "tick" (func $tick))
            (core func $ticked (canon lower (func $tick)))
            (core module $module
                (import "host" "tick" (func $tick))
                (func (export "run") (param $left i32)
                    (loop $again
                        (call $tick)
                        (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
                    (local.set $left (i32.const 2))
                    (loop $again (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))))
            (core instance $host (export "tick" (func $ticked)))
            (core instance $instance (instantiate $module (with "host" (instance $host))))
            (func (export "run") (param "left" u32) (canon lift (core func $instance "run"))))"#,
    );
    let component = Component::new(engine.wasmtime(), bytes.unwrap()).unwrap();
    let mut linker = Linker::new(engine.wasmtime());
    let tick = |store: wasmtime::StoreContextMut<'_, _>, (): ()| {
        store.engine().increment_epoch();
        Ok(())
    };
    linker.root().func_wrap("tick", tick).unwrap();
    let name = PluginName::parse("test").unwrap();
    let stats = Arc::new(PluginStats::new(Arc::new(SystemClock), metrics::Histogram::noop()));
    let log = PluginLog::new(&manifest("test", "1.0.0", PluginKind::VocabularyPack), Arc::new(SystemClock));
    let of = SandboxOf { engine: engine.wasmtime(), plugin: &name, limits, stats: &stats, log: &Arc::new(log) };
    let mut sandbox = Sandbox::start(of, |store| linker.instantiate(store, &component)).unwrap();
    let outcome = sandbox.call(limits.fuel_base, |store, instance| {
        let run = instance.get_typed_func::<(u32,), ()>(&mut *store, "run")?;
        Ok(run.call(store, (ticks,))?)
    });
    outcome.err().map(|fault| fault.kind)
}

#[test]
fn time_to_the_tick() {
    // 20 ms are four ticks; the first may come immediately, so the fifth is the first that is too late.
    let limits = PluginLimits { call_ms: 20, ..defaults() };
    assert_eq!([3, 4, 5].map(|ticks| after_ticks(ticks, &limits)), [None, None, Some(FaultKind::Timeout)]);
}

#[test]
fn bytes_of_an_answer() {
    let fault = |bytes: u64| {
        let output_bytes = usize::try_from(bytes).unwrap();
        outcome(&PackGuest::default(), PluginLimits { output_bytes, ..defaults() })
    };
    let enough = least(1..100_000, |bytes| fault(bytes).is_none());
    assert_eq!([enough - 1, enough, enough + 1].map(fault), [Some(FaultKind::OutputTooLarge), None, None]);
}

#[test]
fn stack_which_is_the_same_for_all_plugins() {
    let fault = |depth: u64| {
        let top = "(func $deeper (param i32) (result i32)
            (if (result i32) (local.get 0)
                (then (i32.add (call $deeper (i32.sub (local.get 0) (i32.const 1))) (i32.const 1)))
                (else (i32.const 0))))";
        let describe = leaked(format!("(drop (call $deeper (i32.const {depth}))) (global.get $descriptions)"));
        outcome(&PackGuest { top, describe, ..PackGuest::default() }, defaults())
    };
    let too_deep = least(1..200_000, |depth| fault(depth).is_some());
    assert_eq!([too_deep - 2, too_deep - 1, too_deep].map(fault), [None, None, Some(FaultKind::Stack)]);
}

#[test]
fn the_example_file_names_every_limit_with_the_default_of_an_engine() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy/daftar.example.toml");
    let example = daftar_domain::config::Config::load(&path).unwrap();
    let named: Vec<_> = example.plugins.limits.into_values().collect();
    assert_eq!(named, [default_limits(PluginKind::EligibilityEngine).into()]);
}

#[test]
fn every_setting_reaches_the_plugin_and_the_rest_is_the_default() {
    let config = daftar_domain::config::plugin_limits::PluginLimitsConfig {
        memory_bytes: Some(1 << 20),
        host_calls: Some(7),
        ..Default::default()
    };
    let expected = PluginLimits { memory_bytes: 1 << 20, host_calls: 7, ..defaults() };
    assert_eq!(defaults().with(&config), expected);
}
