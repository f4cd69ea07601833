//! The wasmtime engine that all plugins share, configured for untrusted code.
//!
//! **Invariant:** only the WebAssembly features listed in [`FEATURES`] are enabled, regardless of the defaults of a new
//! wasmtime.
//! **Invariant:** exactly one thread increments the epoch of an engine, and it ends with the engine.

use std::time::Duration;

use wasmtime::{
    Config, Enabled, Engine, EngineWeak, InstanceAllocationStrategy, PoolingAllocationConfig, Strategy, WasmFeatures,
};

use super::limits::{CORE_INSTANCES_MAX, MEMORIES_MAX, MEMORY_BYTES_CEILING, STACK_BYTES, TABLE_ELEMENTS_CEILING};

/// The interval of the epoch. A call is stopped at most one tick after its time limit.
pub(super) const TICK: Duration = Duration::from_millis(5);

/// The most threads that run plugins.
pub(super) const THREADS_MAX: usize = 32;

/// The most concurrent instances, independent of the number of threads: each thread runs one, and no more are idle between
/// two time slices of a preview. Each reserves address space, not memory.
pub(super) const INSTANCES_MAX: usize = 2 * THREADS_MAX;

/// The features that current compilers emit: no threads, no 64-bit memories, no garbage collection, no exceptions, and
/// no relaxed SIMD, whose results differ between machines.
pub(super) const FEATURES: WasmFeatures = WasmFeatures::MUTABLE_GLOBAL
    .union(WasmFeatures::SATURATING_FLOAT_TO_INT)
    .union(WasmFeatures::SIGN_EXTENSION)
    .union(WasmFeatures::REFERENCE_TYPES)
    .union(WasmFeatures::MULTI_VALUE)
    .union(WasmFeatures::BULK_MEMORY)
    .union(WasmFeatures::SIMD)
    .union(WasmFeatures::TAIL_CALL)
    .union(WasmFeatures::FLOATS)
    .union(WasmFeatures::EXTENDED_CONST)
    .union(WasmFeatures::COMPONENT_MODEL);

/// An engine, with the thread that increments its epoch.
pub(super) struct SandboxEngine {
    engine: Engine,
}

impl SandboxEngine {
    /// Creates an engine, with a pool of instances if the machine has the address space for one.
    ///
    /// # Errors
    /// This machine cannot run or compile WebAssembly, or the thread cannot be started.
    pub fn new() -> Result<Self, EngineError> {
        let engine = match Engine::new(&config(Allocation::Pooled)) {
            Ok(engine) => engine,
            Err(error) => {
                tracing::warn!(error = %error, "cannot reserve a pool of plugin instances, allocating each on demand");
                Engine::new(&config(Allocation::OnDemand)).map_err(|error| EngineError(error.to_string()))?
            }
        };
        start_ticker(engine.weak()).map_err(|error| EngineError(error.to_string()))?;
        Ok(Self { engine })
    }

    /// An engine whose epoch only a test increments.
    #[cfg(test)]
    pub fn with_stopped_clock() -> Self {
        Self { engine: Engine::new(&config(Allocation::OnDemand)).unwrap() }
    }

    /// The engine.
    pub fn wasmtime(&self) -> &Engine {
        &self.engine
    }
}

/// An engine that compiles for [`SandboxEngine`] and runs no code: without a pool, whose address space a process with a
/// memory limit does not have, and without a ticker.
///
/// # Errors
/// This machine cannot compile WebAssembly.
pub(super) fn compiling_engine() -> Result<Engine, EngineError> {
    Engine::new(&config(Allocation::OnDemand)).map_err(|error| EngineError(error.to_string()))
}

/// The reason why there is no engine.
#[derive(Debug, thiserror::Error)]
#[error("this machine cannot run plugins: {0}")]
pub struct EngineError(String);

/// Memory of an instance that stays mapped for the next one, in bytes. The eligibility engine uses some MiB.
const RESIDENT_BYTES_MAX: usize = 8 << 20;

/// The memory allocation of instances.
#[derive(Debug, Clone, Copy)]
enum Allocation {
    Pooled,
    OnDemand,
}

fn config(allocation: Allocation) -> Config {
    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .wasm_features(WasmFeatures::all(), false)
        .wasm_features(FEATURES, true)
        .consume_fuel(true)
        .epoch_interruption(true)
        .max_wasm_stack(STACK_BYTES)
        // The bits of a NaN differ between processors otherwise, and a guest can read them.
        .cranelift_nan_canonicalization(true)
        // Guest backtraces are not used; collecting them takes time at each trap.
        .wasm_backtrace_max_frames(None);
    if let Allocation::Pooled = allocation {
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool()));
    }
    config
}

/// All totals are set together: one that is too low would become the limit.
fn pool() -> PoolingAllocationConfig {
    let instances = saturated(INSTANCES_MAX);
    let per_component = saturated(CORE_INSTANCES_MAX);
    let parts = instances.saturating_mul(per_component);
    let memories = saturated(MEMORIES_MAX);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(instances)
        .total_core_instances(parts)
        .total_tables(parts)
        .total_memories(instances.saturating_mul(memories))
        .max_core_instances_per_component(per_component)
        .max_tables_per_component(per_component)
        .max_tables_per_module(per_component)
        // Checked with a reason at installation.
        .max_memories_per_component(per_component)
        // An instance that ends leaves its pages to the next one in its place, with their first contents: unmapping them
        // and faulting them in again takes longer than compiling a rule.
        .linear_memory_keep_resident(RESIDENT_BYTES_MAX)
        .pagemap_scan(Enabled::Auto)
        .max_memory_size(MEMORY_BYTES_CEILING)
        .table_elements(TABLE_ELEMENTS_CEILING);
    pool
}

fn saturated(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A dedicated thread: the guest that it should stop could block a task of the runtime.
fn start_ticker(engine: EngineWeak) -> std::io::Result<()> {
    let tick = move || {
        while let Some(engine) = engine.upgrade() {
            engine.increment_epoch();
            drop(engine);
            std::thread::sleep(TICK);
        }
    };
    std::thread::Builder::new().name("plugin-epoch".to_owned()).spawn(tick).map(drop)
}

#[cfg(test)]
mod tests {
    use wasmtime::Module;

    use super::*;

    #[test]
    fn both_allocation_strategies_are_valid_configurations() {
        assert!(Engine::new(&config(Allocation::Pooled)).is_ok());
        assert!(Engine::new(&config(Allocation::OnDemand)).is_ok());
    }

    #[test]
    fn code_compiled_without_a_pool_runs_with_one() {
        let hash = |engine: &Engine| {
            use std::hash::{DefaultHasher, Hash, Hasher};
            let mut hasher = DefaultHasher::new();
            engine.precompile_compatibility_hash().hash(&mut hasher);
            hasher.finish()
        };
        let pooled = Engine::new(&config(Allocation::Pooled)).unwrap();
        assert_eq!(hash(&compiling_engine().unwrap()), hash(&pooled));
        let code = compiling_engine().unwrap().precompile_module(b"\0asm\x01\0\0\0").unwrap();
        #[expect(unsafe_code, reason = "the code was made in the line above")]
        // SAFETY: see the reason.
        let loaded = unsafe { Module::deserialize(&pooled, code) };
        assert!(loaded.is_ok());
    }

    #[test]
    fn features_that_are_not_listed_are_rejected() {
        let engine = SandboxEngine::new().unwrap();
        let bytes_of = |limits: wasm_encoder::MemoryType| {
            let mut module = wasm_encoder::Module::new();
            let mut memories = wasm_encoder::MemorySection::new();
            memories.memory(limits);
            module.section(&memories);
            module.finish()
        };
        let plain = wasm_encoder::MemoryType {
            minimum: 1,
            maximum: Some(2),
            memory64: false,
            shared: false,
            page_size_log2: None,
        };
        assert!(Module::from_binary(engine.wasmtime(), &bytes_of(plain)).is_ok());
        for wrong in [
            wasm_encoder::MemoryType { memory64: true, ..plain },
            wasm_encoder::MemoryType { shared: true, ..plain },
            wasm_encoder::MemoryType { page_size_log2: Some(0), ..plain },
        ] {
            assert!(Module::from_binary(engine.wasmtime(), &bytes_of(wrong)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_ticker_does_not_keep_an_engine_alive() {
        let weak = SandboxEngine::new().unwrap().wasmtime().weak();
        // The ticker holds the engine for an instant at each tick.
        let is_gone = (0..200).any(|_| {
            std::thread::sleep(TICK);
            weak.upgrade().is_none()
        });
        assert!(is_gone);
    }
}
