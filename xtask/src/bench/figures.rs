//! The figures of one benchmark, as its program wrote them, and the table that is made from them.

use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::files;

/// The figures of one run of one benchmark.
#[derive(Debug, Deserialize)]
pub struct Figures {
    pub commit: String,
    modified: bool,
    date: String,
    profile: String,
    smoke: bool,
    machine: Machine,
    settings: Map<String, Value>,
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Machine {
    processor: String,
    cores: u32,
    memory_gib: f64,
    kernel: String,
    fdatasync_ms: f64,
    fdatasync_most_ms: f64,
}

#[derive(Debug, Deserialize)]
struct Row {
    description: String,
    unit: String,
    #[serde(flatten)]
    value: Spread,
    target: Option<String>,
    ratio: Option<Ratio>,
}

#[derive(Debug, Deserialize)]
struct Ratio {
    to: String,
    #[serde(flatten)]
    value: Spread,
}

/// A median with the least and the greatest; what cannot be measured is `null`.
#[derive(Debug, Deserialize)]
struct Spread {
    median: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    n: u64,
}

impl Figures {
    /// Reads a file that the benchmarks wrote.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        serde_json::from_str(&files::read_text(path)?).map_err(|error| Failure::file(path, error))
    }

    /// Why these figures may not be in a document, if they may not.
    pub fn unfit(&self) -> Option<&'static str> {
        match (self.smoke, self.profile.as_str()) {
            (true, _) => Some("of a smoke run"),
            (false, "release") => None,
            (false, _) => Some("not of a release"),
        }
    }

    /// The commit, short.
    pub fn short_commit(&self) -> &str {
        self.commit.get(..12).unwrap_or(&self.commit)
    }

    /// What stands behind the name in the marker of the block.
    pub fn attributes(&self) -> String {
        let Machine { processor, cores, .. } = &self.machine;
        format!("commit={} date={} machine=\"{cores} × {processor}\"", self.short_commit(), self.date)
    }

    /// The table, with a line above it that says where the figures come from.
    pub fn table(&self) -> String {
        let Machine { processor, cores, memory_gib, kernel, fdatasync_ms, fdatasync_most_ms } = &self.machine;
        let modified = if self.modified { " with changes that are not committed" } else { "" };
        let mut text = format!(
            "Commit `{}`{modified}, {}; {cores} cores of {processor}, {memory_gib:.0} GiB, Linux {kernel}, `fdatasync` {fdatasync_ms:.2} ms (at most {fdatasync_most_ms:.1} ms).",
            self.short_commit(),
            self.date
        );
        let settings =
            self.settings.iter().map(|(name, value)| format!("{name}: {}", value.as_str().unwrap_or_default()));
        let settings: Vec<String> = settings.collect();
        if !settings.is_empty() {
            let _ = write!(text, " Settings: {}.", settings.join("; "));
        }
        let has_ratio = self.rows.iter().any(|row| row.ratio.is_some());
        let has_target = self.rows.iter().any(|row| row.target.is_some());
        let mut head = vec!["figure", "median", "low to high (n)", "unit"];
        let mut rule = vec!["---", "---:", "---:", "---"];
        for (is_there, name) in [(has_ratio, "ratio"), (has_target, "target")] {
            if is_there {
                head.push(name);
                rule.push("---");
            }
        }
        let _ = write!(text, "\n\n| {} |\n|{}|\n", head.join(" | "), rule.join("|"));
        for row in &self.rows {
            let range = match row.value.n {
                0 | 1 => String::new(),
                n => format!("{} to {} ({n})", shown(row.value.low), shown(row.value.high)),
            };
            let mut cells = vec![row.description.clone(), shown(row.value.median), range, row.unit.clone()];
            if has_ratio {
                let ratio = row.ratio.as_ref().map(|ratio| match ratio.value.n {
                    0 | 1 => format!("{} of {}", shown(ratio.value.median), ratio.to),
                    _ => {
                        let Spread { median, low, high, .. } = &ratio.value;
                        format!("{} ({} to {}) of {}", shown(*median), shown(*low), shown(*high), ratio.to)
                    }
                });
                cells.push(ratio.unwrap_or_default());
            }
            if has_target {
                cells.push(row.target.clone().unwrap_or_default());
            }
            let _ = writeln!(
                text,
                "| {} |",
                cells.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>().join(" | ")
            );
        }
        text
    }
}

/// A number with three significant digits, and thousands apart.
fn shown(value: Option<f64>) -> String {
    let Some(value) = value else { return "–".to_owned() };
    match value.abs() {
        size if size >= 1_000.0 => {
            let digits = format!("{size:.0}");
            let mut text = if value < 0.0 { "-".to_owned() } else { String::new() };
            for (at, digit) in digits.chars().enumerate() {
                if at > 0 && (digits.len() - at).is_multiple_of(3) {
                    text.push(',');
                }
                text.push(digit);
            }
            text
        }
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Figures of a commit, as a benchmark writes them.
    pub fn example(commit: &str) -> String {
        format!(
            r#"{{"benchmark": "read", "commit": "{commit}", "modified": false, "date": "2026-03-01", "profile": "release", "smoke": false,
            "seconds": 12.0, "machine": {{"processor": "A processor", "cores": 2, "memory_gib": 24.0, "kernel": "6.1", "fdatasync_ms": 0.21,
            "fdatasync_most_ms": 3.0}}, "settings": {{"people": "1000000"}}, "rows": [{{"id": "read.warm", "description": "reads", "unit": "1/s",
            "median": 12345.6, "low": 12000.0, "high": 13000.4, "n": 5, "target": "0.65 of bare axum",
            "ratio": {{"to": "bare axum", "median": 0.5, "low": 0.4, "high": 0.6, "n": 5}}}},
            {{"id": "read.start", "description": "start", "unit": "ms", "median": 3.25, "low": 3.25, "high": 3.25, "n": 1}}]}}"#
        )
    }

    #[test]
    fn a_table_has_a_row_for_each_figure() {
        let figures: Figures = serde_json::from_str(&example("0123456789abcdef")).unwrap();
        let expected = "\
Commit `0123456789ab`, 2026-03-01; 2 cores of A processor, 24 GiB, Linux 6.1, `fdatasync` 0.21 ms (at most 3.0 ms). Settings: people: 1000000.

| figure | median | low to high (n) | unit | ratio | target |
|---|---:|---:|---|---|---|
| reads | 12,346 | 12,000 to 13,000 (5) | 1/s | 0.500 (0.400 to 0.600) of bare axum | 0.65 of bare axum |
| start | 3.25 |  | ms |  |  |
";
        assert_eq!(figures.table(), expected);
    }

    #[test]
    fn figures_of_a_smoke_run_or_of_a_development_build_are_unfit() {
        let text = example("0123456789abcdef");
        for (from, to, is_unfit) in
            [("", "", false), ("\"smoke\": false", "\"smoke\": true", true), ("\"release\"", "\"debug\"", true)]
        {
            let figures: Figures = serde_json::from_str(&text.replace(from, to)).unwrap();
            assert_eq!(figures.unfit().is_some(), is_unfit, "{to}");
        }
    }
}
