//! The resource limits of a plugin, and the limiter that enforces them.
//!
//! **Invariant:** every call runs under a [`PluginLimits`]; no limit can be disabled.
//! **Invariant:** an exceeded limit is an error that stops the guest immediately and is recorded here, so that running
//! out of memory is never mistaken for a panic.

pub use daftar_domain::config::plugin_limits::{
    CORE_INSTANCES_CEILING as CORE_INSTANCES_MAX, MEMORY_BYTES_CEILING, TABLE_ELEMENTS_CEILING,
};

use super::fault::{FaultKind, Stopped};
use super::kind::row;
use daftar_domain::config::plugin_limits::PluginLimitsConfig;
use daftar_domain::manifest::PluginKind;

/// The stack of a guest, in bytes. The same for all plugins: wasmtime sets it per engine. Twice the default of
/// wasmtime, because the eligibility engine's parser recurses once per nesting level of an expression.
pub const STACK_BYTES: usize = 1 << 20;

/// The resource limits of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginLimits {
    /// Linear memory of one instance, in bytes, summed over its memories.
    pub memory_bytes: usize,
    /// Elements of all tables of one instance.
    pub table_elements: usize,
    /// Core instances, tables and memories of one instance, each.
    pub core_instances: usize,
    /// Fuel of a call before rows are counted; for a request that evaluates a rule, of all its calls together. One unit
    /// is about one WebAssembly instruction.
    pub fuel_base: u64,
    /// Fuel that each row of a batch, or each concept of a page, adds to its call.
    pub fuel_per_row: u64,
    /// The time limit of one call, in milliseconds, or of all calls of a request that evaluates a rule: the backstop
    /// behind the fuel, about five times the time that the fuel takes on a slow machine.
    pub call_ms: u64,
    /// The most input bytes of one call.
    pub input_bytes: usize,
    /// The most bytes of host memory for the response to one call.
    pub output_bytes: usize,
    /// The most calls to the host within one call.
    pub host_calls: u64,
    /// The most bytes passed to the host within one call.
    pub host_call_bytes: usize,
    /// The most requests that wait for the plugin or run in it.
    pub concurrent_requests: usize,
}

/// Converts between the limits and their configuration, field by field.
macro_rules! configured {
    ($($limit:ident),+ $(,)?) => {
        impl From<PluginLimits> for PluginLimitsConfig {
            fn from(limits: PluginLimits) -> Self {
                Self { $($limit: Some(limits.$limit)),+ }
            }
        }

        impl PluginLimits {
            /// Returns these limits with the settings of the configuration. The limits that a manifest requests are
            /// shown, never granted automatically.
            #[must_use]
            pub fn with(self, config: &PluginLimitsConfig) -> Self {
                Self { $($limit: config.$limit.unwrap_or(self.$limit)),+ }
            }
        }
    };
}

configured![
    memory_bytes,
    table_elements,
    core_instances,
    fuel_base,
    fuel_per_row,
    call_ms,
    input_bytes,
    output_bytes,
    host_calls,
    host_call_bytes,
    concurrent_requests,
];

impl PluginLimits {
    /// The default limits of a plugin of that kind.
    #[must_use]
    pub fn for_kind(kind: PluginKind) -> Self {
        row(kind).limits.clone()
    }

    /// The fuel of a call over that many rows.
    #[must_use]
    pub fn fuel_for(&self, rows: u32) -> u64 {
        self.fuel_base.saturating_add(self.fuel_of_rows(rows))
    }

    /// The fuel that this many rows add to a call or a request.
    #[must_use]
    pub fn fuel_of_rows(&self, rows: u32) -> u64 {
        self.fuel_per_row.saturating_mul(u64::from(rows))
    }
}

/// A limited resource: the fault when it is exceeded, and its unit.
type Resource = (FaultKind, &'static str);
const MEMORY: Resource = (FaultKind::Memory, "bytes of memory");
const TABLE: Resource = (FaultKind::Table, "table elements");

/// Enforces the limits of one instance and records its use.
#[derive(Debug)]
pub(super) struct Limiter {
    memory_bytes_max: usize,
    table_elements_max: usize,
    core_instances_max: usize,
    memory_bytes: usize,
    table_elements: usize,
}

impl Limiter {
    pub fn new(limits: &PluginLimits) -> Self {
        Self {
            memory_bytes_max: limits.memory_bytes,
            table_elements_max: limits.table_elements,
            core_instances_max: limits.core_instances,
            memory_bytes: 0,
            table_elements: 0,
        }
    }

    /// The memory of the instance, in bytes. It never shrinks, so this is also its peak.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }
}

/// Returns the new total after one memory or table grew, if the limit and its own maximum allow it.
fn grown(
    (kind, unit): Resource,
    total: usize,
    (current, desired): (usize, usize),
    own_maximum: Option<usize>,
    allowed: usize,
) -> Result<usize, Stopped> {
    let new_total = total.saturating_add(desired.saturating_sub(current));
    let (wanted, allowed) = match own_maximum {
        _ if new_total > allowed => (new_total, allowed),
        Some(maximum) if desired > maximum => (desired, maximum),
        _ => return Ok(new_total),
    };
    Err(Stopped { kind, detail: format!("it requested {wanted} {unit}; the limit is {allowed}") })
}

/// The error of a growth that the limits allow and the machine could not provide.
fn not_provided(error: &wasmtime::Error) -> wasmtime::Result<()> {
    let detail = format!("the host could not provide memory: {error}");
    Err(Stopped { kind: FaultKind::Unavailable, detail }.into())
}

impl wasmtime::ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let growth = (current, desired);
        self.memory_bytes = grown(MEMORY, self.memory_bytes, growth, maximum, self.memory_bytes_max)?;
        Ok(true)
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        not_provided(&error)
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let growth = (current, desired);
        self.table_elements = grown(TABLE, self.table_elements, growth, maximum, self.table_elements_max)?;
        Ok(true)
    }

    fn table_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        not_provided(&error)
    }

    fn instances(&self) -> usize {
        self.core_instances_max
    }

    fn tables(&self) -> usize {
        self.core_instances_max
    }

    fn memories(&self) -> usize {
        self.core_instances_max
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::ResourceLimiter;

    use super::*;

    fn limiter() -> Limiter {
        Limiter::new(&PluginLimits {
            memory_bytes: 1_000,
            table_elements: 10,
            ..PluginLimits::for_kind(PluginKind::VocabularyPack)
        })
    }

    #[test]
    fn memory_is_allowed_up_to_its_limit_and_denied_above() {
        assert!(limiter().memory_growing(0, 999, None).is_ok());
        assert!(limiter().memory_growing(0, 1_000, None).is_ok());
        let stopped = limiter().memory_growing(0, 1_001, None).unwrap_err().downcast::<Stopped>().unwrap();
        let detail = "it requested 1001 bytes of memory; the limit is 1000".to_owned();
        assert_eq!(stopped, Stopped { kind: FaultKind::Memory, detail });
    }

    #[test]
    fn several_memories_share_one_limit() {
        let mut limiter = limiter();
        assert!(limiter.memory_growing(0, 600, None).is_ok());
        assert!(limiter.memory_growing(0, 401, None).is_err());
        assert!(limiter.memory_growing(0, 400, None).is_ok());
        assert_eq!(limiter.memory_bytes(), 1_000);
    }

    #[test]
    fn a_guests_own_maximum_is_enforced_too() {
        let stopped = limiter().memory_growing(0, 500, Some(400)).unwrap_err().downcast::<Stopped>().unwrap();
        assert!(stopped.detail.ends_with("limit is 400"), "{stopped}");
    }

    #[test]
    fn tables_are_allowed_up_to_their_limit_and_denied_above() {
        assert!(limiter().table_growing(0, 9, None).is_ok());
        assert!(limiter().table_growing(0, 10, None).is_ok());
        let stopped = limiter().table_growing(0, 11, None).unwrap_err().downcast::<Stopped>().unwrap();
        let detail = "it requested 11 table elements; the limit is 10".to_owned();
        assert_eq!(stopped, Stopped { kind: FaultKind::Table, detail });
    }

    #[test]
    fn no_default_exceeds_the_instance_pool() {
        for kind in PluginKind::ALL {
            let limits = PluginLimits::for_kind(kind);
            assert!(limits.memory_bytes <= MEMORY_BYTES_CEILING, "{kind}");
            assert!(limits.table_elements <= TABLE_ELEMENTS_CEILING, "{kind}");
            assert!(limits.core_instances <= CORE_INSTANCES_MAX, "{kind}");
        }
    }

    #[test]
    fn the_fuel_of_a_call_grows_with_its_rows_and_never_wraps() {
        let limits =
            PluginLimits { fuel_base: 10, fuel_per_row: 3, ..PluginLimits::for_kind(PluginKind::EligibilityEngine) };
        assert_eq!(limits.fuel_for(0), 10);
        assert_eq!(limits.fuel_for(5), 25);
        let limits = PluginLimits { fuel_base: 10, fuel_per_row: u64::MAX, ..limits };
        assert_eq!(limits.fuel_for(2), u64::MAX);
    }
}
