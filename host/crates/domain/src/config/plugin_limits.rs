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
/// Maximum number of core instances, tables and memories of one component: `wit-component` creates up to four for one
/// core module.
pub const CORE_INSTANCES_CEILING: usize = 8;

/// Resource limits of one plugin; if absent, the default of its kind applies. `host/docs/PLUGINS.md` describes each
/// limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct PluginLimitsConfig {
    /// Linear memory of one instance, in bytes.
    pub memory_bytes: Option<usize>,
    /// Elements of all tables of one instance.
    pub table_elements: Option<usize>,
    /// Core instances, tables and memories of one instance, each.
    pub core_instances: Option<usize>,
    /// Fuel of a call, independent of the number of rows.
    pub fuel_base: Option<u64>,
    /// Additional fuel for each row of a batch, or each concept of a page.
    pub fuel_per_row: Option<u64>,
    /// Time limit of one call, in milliseconds.
    pub call_ms: Option<u64>,
    /// Maximum input of one call, in bytes.
    pub input_bytes: Option<usize>,
    /// Maximum output of one call, in bytes.
    pub output_bytes: Option<usize>,
    /// Maximum number of host calls during one call.
    pub host_calls: Option<u64>,
    /// Maximum data passed to the host during one call, in bytes.
    pub host_call_bytes: Option<usize>,
    /// Maximum number of requests that wait for the plugin or run in it.
    pub concurrent_requests: Option<usize>,
}

/// The keys, each with its ceiling.
const KEYS: [(&str, u64); 11] = [
    ("memory_bytes", MEMORY_BYTES_CEILING as u64),
    ("table_elements", TABLE_ELEMENTS_CEILING as u64),
    ("core_instances", CORE_INSTANCES_CEILING as u64),
    // About a minute.
    ("fuel_base", 50_000_000_000),
    ("fuel_per_row", 100_000_000),
    // The maximum request time of a client.
    ("call_ms", 60_000),
    ("input_bytes", 128 << 20),
    ("output_bytes", 128 << 20),
    ("host_calls", 1_000_000),
    ("host_call_bytes", 64 << 20),
    ("concurrent_requests", 4_096),
];

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
        for (key, ceiling) in KEYS {
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

    #[test]
    fn the_keys_are_those_of_the_struct() {
        let all: String = KEYS.iter().map(|(key, _)| format!("{key} = 1\n")).collect();
        let config = Config::parse(&format!("[plugins.limits.x]\n{all}")).unwrap();
        let one = PluginLimitsConfig {
            memory_bytes: Some(1),
            table_elements: Some(1),
            core_instances: Some(1),
            fuel_base: Some(1),
            fuel_per_row: Some(1),
            call_ms: Some(1),
            input_bytes: Some(1),
            output_bytes: Some(1),
            host_calls: Some(1),
            host_call_bytes: Some(1),
            concurrent_requests: Some(1),
        };
        assert_eq!(config.plugins.limits[&PluginName::parse("x").unwrap()], one);
    }
}
