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
    /// The column that it is in, beside the same of others.
    column: Option<String>,
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

/// A median with the least and the greatest; a value that cannot be measured is `null`.
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

    /// Reason why these figures may not be in a document, if any.
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

    /// The attributes after the name in the marker of the block.
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
        let (alone, beside): (Vec<&Row>, Vec<&Row>) = self.rows.iter().partition(|row| row.column.is_none());
        for table in [one_each(&alone), in_columns(&beside)].into_iter().filter(|table| !table.is_empty()) {
            let _ = write!(text, "\n\n{}", markdown(&table));
        }
        text.push('\n');
        text
    }
}

/// A table with a line for each figure.
fn one_each(rows: &[&Row]) -> Vec<Vec<String>> {
    if rows.is_empty() {
        return Vec::new();
    }
    let has_ratio = rows.iter().any(|row| row.ratio.is_some());
    let has_target = rows.iter().any(|row| row.target.is_some());
    let head = [
        (true, "figure"),
        (true, "median"),
        (true, "low to high (n)"),
        (true, "unit"),
        (has_ratio, "ratio"),
        (has_target, "target"),
    ];
    let mut lines = vec![head.iter().filter(|(is_there, _)| *is_there).map(|(_, name)| (*name).to_owned()).collect()];
    for row in rows {
        let mut cells = vec![row.description.clone(), shown(row.value.median), row.value.range(), row.unit.clone()];
        if has_ratio {
            let ratio = |ratio: &Ratio| format!("{} of {}", ratio.value.with_range(), ratio.to);
            cells.push(row.ratio.as_ref().map(ratio).unwrap_or_default());
        }
        if has_target {
            cells.push(row.target.clone().unwrap_or_default());
        }
        lines.push(cells);
    }
    lines
}

/// A table with a line for all figures of the same description.
fn in_columns(rows: &[&Row]) -> Vec<Vec<String>> {
    let mut columns: Vec<&str> = Vec::new();
    let mut descriptions: Vec<(&str, &str, Option<&str>)> = Vec::new();
    for row in rows {
        let column = row.column.as_deref().unwrap_or_default();
        let description = (row.description.as_str(), row.unit.as_str(), row.target.as_deref());
        if !columns.contains(&column) {
            columns.push(column);
        }
        if !descriptions.contains(&description) {
            descriptions.push(description);
        }
    }
    if columns.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![["figure"].into_iter().chain(columns.iter().copied()).map(str::to_owned).collect()];
    for (description, unit, target) in descriptions {
        let target = target.map(|target| format!(" (target: {target})")).unwrap_or_default();
        let cell = |column: &&str| {
            let is_it = |row: &&&Row| row.description == description && row.column.as_deref() == Some(*column);
            rows.iter().find(is_it).map(|row| row.value.with_range()).unwrap_or_default()
        };
        lines.push([format!("{description}, {unit}{target}")].into_iter().chain(columns.iter().map(cell)).collect());
    }
    lines
}

/// Lines of cells, the first of them the head, as a table of Markdown.
fn markdown(lines: &[Vec<String>]) -> String {
    let mut text = Vec::new();
    for (at, cells) in lines.iter().enumerate() {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        text.push(format!("| {} |", cells.join(" | ")));
        if at == 0 {
            text.push(format!("|---|{}", "---|".repeat(cells.len().saturating_sub(1))));
        }
    }
    text.join("\n")
}

impl Spread {
    fn range(&self) -> String {
        match self.n {
            0 | 1 => String::new(),
            n => format!("{} to {} ({n})", shown(self.low), shown(self.high)),
        }
    }

    fn with_range(&self) -> String {
        match self.n {
            0 | 1 => shown(self.median),
            _ => format!("{} ({} to {})", shown(self.median), shown(self.low), shown(self.high)),
        }
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
            {{"id": "read.start", "description": "start", "unit": "ms", "median": 3.25, "low": 3.25, "high": 3.25, "n": 1}},
            {{"description": "disk", "unit": "MiB", "column": "embedded", "median": 5.0, "low": 4.0, "high": 6.0, "n": 3}},
            {{"description": "disk", "unit": "MiB", "column": "PostgreSQL", "median": 7.5, "low": 7.5, "high": 7.5, "n": 1}},
            {{"description": "import", "unit": "1/s", "column": "PostgreSQL", "median": 10.0, "low": 10.0, "high": 10.0, "n": 1}}]}}"#
        )
    }

    #[test]
    fn a_table_has_a_row_for_each_figure() {
        let figures: Figures = serde_json::from_str(&example("0123456789abcdef")).unwrap();
        let expected = "\
Commit `0123456789ab`, 2026-03-01; 2 cores of A processor, 24 GiB, Linux 6.1, `fdatasync` 0.21 ms (at most 3.0 ms). Settings: people: 1000000.

| figure | median | low to high (n) | unit | ratio | target |
|---|---|---|---|---|---|
| reads | 12,346 | 12,000 to 13,000 (5) | 1/s | 0.500 (0.400 to 0.600) of bare axum | 0.65 of bare axum |
| start | 3.25 |  | ms |  |  |

| figure | embedded | PostgreSQL |
|---|---|---|
| disk, MiB | 5.00 (4.00 to 6.00) | 7.50 |
| import, 1/s |  | 10.0 |
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
