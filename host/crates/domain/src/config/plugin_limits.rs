//! `[plugins.limits.<name>]`: resource limits of one plugin that override the defaults of its kind.
//!
//! **Invariant:** no limit can be disabled: each is between 1 and its ceiling.

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::manifest::PluginName;

/// Path of the table in the file.
pub(super) const TABLE: &str = "plugins.limits";

/// Maximum memory of any plugin, in bytes: the size of a slot of the instance pool.
pub const MEMORY_BYTES_CEILING: usize = 256 << 20;
/// Maximum number of table elements of any plugin: the size of a slot of the instance pool.
pub const TABLE_ELEMENTS_CEILING: usize = 20_000;
/// Maximum number of core instances and tables of one component: `wit-component` creates up to four for one core module.
pub const CORE_INSTANCES_CEILING: usize = 8;

/// Declares the limits, each with its ceiling.
macro_rules! limits {
    ($($(#[$doc:meta])+ $limit:ident: $number:ty = $ceiling:expr;)+) => {
        /// The resource limits of a plugin. `host/docs/PLUGINS.md` describes each.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct PluginLimits {
            $($(#[$doc])+ pub $limit: $number,)+
        }

        /// Resource limits of one plugin in the configuration; if absent, the default of its kind applies.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct PluginLimitsConfig {
            $($(#[$doc])+ pub $limit: Option<$number>,)+
        }

        /// The keys, each with its ceiling.
        const KEYS: &[(&str, u64)] = &[$((stringify!($limit), $ceiling)),+];

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

limits! {
    /// Linear memory of one instance, in bytes, summed over its memories.
    memory_bytes: usize = MEMORY_BYTES_CEILING as u64;
    /// Elements of all tables of one instance.
    table_elements: usize = TABLE_ELEMENTS_CEILING as u64;
    /// Core instances and tables of one instance, each.
    core_instances: usize = CORE_INSTANCES_CEILING as u64;
    /// Fuel of a call before rows are counted; for a request that evaluates a rule, of all its calls together. One unit
    /// is about one WebAssembly instruction; the ceiling is about a minute.
    fuel_base: u64 = 50_000_000_000;
    /// Additional fuel for each row of a batch, or each concept of a page.
    fuel_per_row: u64 = 100_000_000;
    /// Time limit of one call, in milliseconds, or of all calls of a request that evaluates a rule: the backstop behind
    /// the fuel, about five times the time that the fuel takes on a slow machine. The ceiling is the maximum request
    /// time of a client.
    call_ms: u64 = 60_000;
    /// Maximum input of one call, in bytes.
    input_bytes: usize = 128 << 20;
    /// Maximum host memory for the response to one call, in bytes.
    output_bytes: usize = 128 << 20;
    /// Maximum number of host calls during one call.
    host_calls: u64 = 1_000_000;
    /// Maximum data passed to the host during one call, in bytes.
    host_call_bytes: usize = 64 << 20;
    /// Maximum number of requests that wait for the plugin or run in it.
    concurrent_requests: usize = 4_096;
}

impl PluginLimits {
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

/// Returns one sentence for each problem of the table.
pub(super) fn problems(limits: &Table) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, of_plugin) in limits {
        let path = format!("{TABLE}.{name}");
        if let Err(error) = PluginName::parse(name) {
            problems.push(format!("`{path}` is not a plugin name: {error}"));
        }
        match of_plugin {
            Value::Table(keys) => problems.extend(keys.iter().filter_map(|(key, value)| problem(&path, key, value))),
            _ => problems
                .push(format!("`{path}` must be a table of limits, such as `[{path}]` with `memory_bytes = 67108864`")),
        }
    }
    problems
}

fn problem(path: &str, key: &str, value: &Value) -> Option<String> {
    let Some((_, ceiling)) = KEYS.iter().find(|(known, _)| *known == key) else {
        if key == "stack_bytes" {
            return Some(format!("`{path}.{key}` cannot be set: all plugins run on stacks of one size, 1 MiB"));
        }
        let scored = KEYS.iter().map(|(known, _)| (strsim::damerau_levenshtein(key, known), *known));
        let nearest = scored.min().filter(|(distance, _)| *distance <= 3);
        return Some(match nearest {
            Some((_, known)) => format!("unknown key `{path}.{key}`; did you mean `{path}.{known}`?"),
            None => {
                let known: Vec<&str> = KEYS.iter().map(|(known, _)| *known).collect();
                format!("unknown key `{path}.{key}`; the limits are {}", known.join(", "))
            }
        });
    };
    let is_allowed = value
        .as_integer()
        .is_some_and(|number| u64::try_from(number).is_ok_and(|number| (1..=*ceiling).contains(&number)));
    (!is_allowed).then(|| format!("`{path}.{key}` is {value}; it must be a whole number from 1 to {ceiling}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn problems_of(text: &str) -> Vec<String> {
        Config::parse(&format!("[plugins.limits.eligibility-cel]\n{text}"))
            .map_or_else(|error| error.problems, |_| Vec::new())
    }

    #[test]
    fn every_limit_is_accepted_up_to_its_ceiling_and_rejected_above_and_at_zero() {
        for &(key, ceiling) in KEYS {
            for allowed in [1, ceiling - 1, ceiling] {
                assert_eq!(problems_of(&format!("{key} = {allowed}")), Vec::<String>::new());
            }
            for refused in [0, ceiling + 1] {
                let reported = problems_of(&format!("{key} = {refused}"));
                let expected = format!(
                    "`plugins.limits.eligibility-cel.{key}` is {refused}; it must be a whole number from 1 to {ceiling}"
                );
                assert_eq!(reported, [expected]);
            }
        }
    }

    #[test]
    fn an_unknown_limit_an_invalid_name_and_the_stack_are_rejected_with_a_reason() {
        assert_eq!(
            problems_of("memory_byte = 1\nstack_bytes = 1\nsunshine = 1"),
            [
                "unknown key `plugins.limits.eligibility-cel.memory_byte`; did you mean `plugins.limits.eligibility-cel.memory_bytes`?",
                "`plugins.limits.eligibility-cel.stack_bytes` cannot be set: all plugins run on stacks of one size, 1 MiB",
                "unknown key `plugins.limits.eligibility-cel.sunshine`; the limits are memory_bytes, table_elements, core_instances, fuel_base, fuel_per_row, call_ms, input_bytes, output_bytes, host_calls, host_call_bytes, concurrent_requests",
            ]
        );
        let reported = Config::parse("[plugins.limits.'No Name']\n").unwrap_err().problems;
        assert!(reported[0].starts_with("`plugins.limits.No Name` is not a plugin name"), "{reported:?}");
        let reported = Config::parse("[plugins.limits]\ngender = 5\n").unwrap_err().problems;
        assert!(reported[0].starts_with("`plugins.limits.gender` must be a table of limits"), "{reported:?}");
    }
}
