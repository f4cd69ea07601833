//! The resource limits of a plugin, and the limiter that enforces them.
//!
//! **Invariant:** every call runs under a [`PluginLimits`]; no limit can be disabled.
//! **Invariant:** an exceeded limit is an error that stops the guest immediately and is recorded here, so that running
//! out of memory is never mistaken for a panic.

pub use daftar_domain::config::plugin_limits::{
    CORE_INSTANCES_CEILING as CORE_INSTANCES_MAX, MEMORY_BYTES_CEILING, PluginLimits, TABLE_ELEMENTS_CEILING,
};

use super::fault::{FaultKind, Stopped};
use super::kind::row;
use daftar_domain::manifest::PluginKind;

/// The stack of a guest, in bytes. The same for all plugins: wasmtime sets it per engine. Twice the default of
/// wasmtime, because the eligibility engine's parser recurses once per nesting level of an expression.
pub const STACK_BYTES: usize = 1 << 20;

/// The most memories of an instance. Compilers emit one; a slot for a memory reserves gigabytes of addresses.
pub(super) const MEMORIES_MAX: usize = 2;

/// The default limits of a plugin of that kind.
#[must_use]
pub fn default_limits(kind: PluginKind) -> PluginLimits {
    row(kind).limits.clone()
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
        MEMORIES_MAX
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
            ..default_limits(PluginKind::VocabularyPack)
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
            let limits = default_limits(kind);
            assert!(limits.memory_bytes <= MEMORY_BYTES_CEILING, "{kind}");
            assert!(limits.table_elements <= TABLE_ELEMENTS_CEILING, "{kind}");
            assert!(limits.core_instances <= CORE_INSTANCES_MAX, "{kind}");
        }
    }

    #[test]
    fn the_fuel_of_a_call_grows_with_its_rows_and_never_wraps() {
        let limits = PluginLimits { fuel_base: 10, fuel_per_row: 3, ..default_limits(PluginKind::EligibilityEngine) };
        assert_eq!(limits.fuel_for(0), 10);
        assert_eq!(limits.fuel_for(5), 25);
        let limits = PluginLimits { fuel_base: 10, fuel_per_row: u64::MAX, ..limits };
        assert_eq!(limits.fuel_for(2), u64::MAX);
    }
}
