//! `[plugins.limits.<name>]`: what one plugin may use, where that is not the default of its kind.
//!
//! **Invariant:** no limit can be switched off: each lies between 1 and its ceiling.

use serde::Deserialize;
use toml::{Table, Value};

use crate::manifest::PluginName;

/// The table within the file.
pub(super) const TABLE: &str = "plugins.limits";

/// The most memory that any plugin can be given, in bytes: the size of a slot of the instance pool.
pub const MEMORY_BYTES_CEILING: usize = 256 << 20;
/// The most table elements that any plugin can be given: the size of a slot of the instance pool.
pub const TABLE_ELEMENTS_CEILING: usize = 20_000;
/// The most core instances, tables and memories of one component: `wit-component` makes up to four for one core module.
pub const CORE_INSTANCES_CEILING: usize = 8;
/// The most fuel of a call before rows are counted: about a minute.
pub const FUEL_BASE_CEILING: u64 = 50_000_000_000;
/// The most fuel of a row.
pub const FUEL_PER_ROW_CEILING: u64 = 100_000_000;
/// The longest time of a call, in milliseconds: as long as a client may wait.
pub const CALL_MS_CEILING: u64 = 60_000;
/// The most bytes that a call may give to a plugin.
pub const INPUT_BYTES_CEILING: usize = 128 << 20;
/// The most bytes of host memory that an answer may take.
pub const OUTPUT_BYTES_CEILING: usize = 128 << 20;
/// The most calls to the host that one call may make.
pub const HOST_CALLS_CEILING: u64 = 1_000_000;
/// The most bytes that one call may give to the host through its imports.
pub const HOST_CALL_BYTES_CEILING: usize = 64 << 20;
/// The most requests that may wait for a plugin or run in it.
pub const CONCURRENT_REQUESTS_CEILING: usize = 4_096;

/// What one plugin may use; absent is the default of its kind. `host/docs/PLUGINS.md` says what each limit is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PluginLimitsConfig {
    /// Linear memory of one instance, in bytes.
    pub memory_bytes: Option<usize>,
    /// Elements of all tables of one instance.
    pub table_elements: Option<usize>,
    /// Core instances, tables and memories of one instance, each.
    pub core_instances: Option<usize>,
    /// Fuel of a call before any rows are counted.
    pub fuel_base: Option<u64>,
    /// Fuel that each row of a batch, or each concept of a page, adds.
    pub fuel_per_row: Option<u64>,
    /// How long one call may take, in milliseconds.
    pub call_ms: Option<u64>,
    /// How many bytes one call may give to the plugin.
    pub input_bytes: Option<usize>,
    /// How many bytes the answer to one call may take.
    pub output_bytes: Option<usize>,
    /// How many times one call may call the host.
    pub host_calls: Option<u64>,
    /// How many bytes one call may give to the host that way.
    pub host_call_bytes: Option<usize>,
    /// How many requests may wait for the plugin or run in it.
    pub concurrent_requests: Option<usize>,
}

/// The keys, each with its ceiling.
const KEYS: [(&str, u64); 11] = [
    ("memory_bytes", MEMORY_BYTES_CEILING as u64),
    ("table_elements", TABLE_ELEMENTS_CEILING as u64),
    ("core_instances", CORE_INSTANCES_CEILING as u64),
    ("fuel_base", FUEL_BASE_CEILING),
    ("fuel_per_row", FUEL_PER_ROW_CEILING),
    ("call_ms", CALL_MS_CEILING),
    ("input_bytes", INPUT_BYTES_CEILING as u64),
    ("output_bytes", OUTPUT_BYTES_CEILING as u64),
    ("host_calls", HOST_CALLS_CEILING),
    ("host_call_bytes", HOST_CALL_BYTES_CEILING as u64),
    ("concurrent_requests", CONCURRENT_REQUESTS_CEILING as u64),
];

/// One sentence for each thing that is wrong in the table.
pub(super) fn problems(limits: &Table) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, of_plugin) in limits {
        let path = format!("{TABLE}.{name}");
        if let Err(error) = PluginName::parse(name) {
            problems.push(format!("`{path}` does not name a plugin: {error}"));
        }
        match of_plugin {
            Value::Table(keys) => problems.extend(keys.iter().filter_map(|(key, value)| problem(&path, key, value))),
            _ => problems
                .push(format!("`{path}` is a table of limits, such as `[{path}]` with `memory_bytes = 67108864`")),
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
    (!is_allowed).then(|| format!("`{path}.{key}` is {value}; it is a whole number from 1 to its ceiling {ceiling}"))
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
    fn every_limit_is_taken_up_to_its_ceiling_and_refused_above_and_at_zero() {
        for (key, ceiling) in KEYS {
            for allowed in [1, ceiling - 1, ceiling] {
                assert_eq!(problems_of(&format!("{key} = {allowed}")), Vec::<String>::new());
            }
            for refused in [0, ceiling + 1] {
                let told = problems_of(&format!("{key} = {refused}"));
                let expected = format!(
                    "`plugins.limits.eligibility-cel.{key}` is {refused}; it is a whole number from 1 to its ceiling {ceiling}"
                );
                assert_eq!(told, [expected]);
            }
        }
    }

    #[test]
    fn an_unknown_limit_a_wrong_name_and_the_stack_are_refused_with_a_reason() {
        assert_eq!(
            problems_of("memory_byte = 1\nstack_bytes = 1\nsunshine = 1"),
            [
                "unknown key `plugins.limits.eligibility-cel.memory_byte`; did you mean `plugins.limits.eligibility-cel.memory_bytes`?",
                "`plugins.limits.eligibility-cel.stack_bytes` cannot be set: all plugins run on stacks of one size, 1 MiB",
                "unknown key `plugins.limits.eligibility-cel.sunshine`; the limits are memory_bytes, table_elements, core_instances, fuel_base, fuel_per_row, call_ms, input_bytes, output_bytes, host_calls, host_call_bytes, concurrent_requests",
            ]
        );
        let told = Config::parse("[plugins.limits.'No Name']\n").unwrap_err().problems;
        assert!(told[0].starts_with("`plugins.limits.No Name` does not name a plugin"), "{told:?}");
        let told = Config::parse("[plugins.limits]\ngender = 5\n").unwrap_err().problems;
        assert!(told[0].starts_with("`plugins.limits.gender` is a table of limits"), "{told:?}");
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
