//! Rows of figures: a table on standard output, and a JSON file that `cargo xtask bench` writes into the documents.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::machine::Machine;

/// The median of some values with the least and the greatest.
#[derive(Debug, Clone, Copy)]
pub struct Spread {
    /// The median; the mean of the two middle values of an even number.
    pub median: f64,
    /// The least.
    pub low: f64,
    /// The greatest.
    pub high: f64,
    /// Number of values.
    pub n: usize,
}

impl Spread {
    /// Of some values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        let middle = sorted.len() / 2;
        let below = if sorted.len().is_multiple_of(2) { middle.saturating_sub(1) } else { middle };
        Self {
            median: f64::midpoint(at(below), at(middle)),
            low: at(0),
            high: at(sorted.len().saturating_sub(1)),
            n: sorted.len(),
        }
    }

    fn json(self) -> Value {
        json!({"median": self.median, "low": self.low, "high": self.high, "n": self.n})
    }
}

/// The value that this part of the values stays below; they are sorted.
pub fn percentile(sorted: &[f64], part: f64) -> f64 {
    sorted.get(((sorted.len() as f64 - 1.0) * part) as usize).copied().unwrap_or(f64::NAN)
}

/// One figure.
#[derive(Debug, Clone)]
pub struct Row {
    id: String,
    description: String,
    unit: &'static str,
    value: Spread,
    column: Option<String>,
    target: Option<String>,
    ratio: Option<(String, Spread)>,
}

impl Row {
    /// A figure, its identifier unique within the benchmark.
    pub fn new(id: impl Into<String>, description: impl Into<String>, unit: &'static str, value: Spread) -> Self {
        Self { id: id.into(), description: description.into(), unit, value, column: None, target: None, ratio: None }
    }

    /// The same in a column of its own beside figures with the same description, such as those of another backend.
    pub fn column(mut self, column: impl Into<String>) -> Self {
        self.column = Some(column.into());
        self
    }

    /// The same with a target, such as `≥ 0.65 of bare axum`.
    pub fn target(mut self, target: impl Into<String>) -> Self {
        self.target = Some(target.into());
        self
    }

    /// The same with the ratio to something that was measured in the same rounds.
    pub fn ratio(mut self, to: impl Into<String>, ratio: Spread) -> Self {
        self.ratio = Some((to.into(), ratio));
        self
    }

    fn json(&self) -> Value {
        let mut row = json!({"id": self.id, "description": self.description, "unit": self.unit});
        if let (Some(row), Value::Object(value)) = (row.as_object_mut(), self.value.json()) {
            row.extend(value);
            if let Some(column) = &self.column {
                row.insert("column".to_owned(), column.as_str().into());
            }
            if let Some(target) = &self.target {
                row.insert("target".to_owned(), target.as_str().into());
            }
            if let Some((to, ratio)) = &self.ratio {
                let Value::Object(mut about) = ratio.json() else { return Value::Null };
                about.insert("to".to_owned(), to.as_str().into());
                row.insert("ratio".to_owned(), Value::Object(about));
            }
        }
        row
    }
}

/// The rows of one benchmark.
#[derive(Debug, Default)]
pub struct Report {
    settings: Vec<(String, String)>,
    rows: Vec<Value>,
}

impl Report {
    /// Notes a setting that the figures depend on, such as a number of people.
    pub fn setting(&mut self, name: &str, value: impl ToString) {
        self.settings.push((name.to_owned(), value.to_string()));
    }

    /// Adds a figure and shows it.
    pub fn row(&mut self, row: Row) {
        self.add(row.json());
    }

    /// Adds a figure that another program wrote as JSON.
    pub fn add(&mut self, row: Value) {
        println!("  {}", line(&row));
        self.rows.push(row);
    }

    /// Number of figures.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Writes everything into `FOLDER/NAME-COMMIT.json` and gives its path.
    pub fn write(&self, folder: &Path, name: &str, seconds: f64, of: &Provenance) -> Result<PathBuf, String> {
        let settings: serde_json::Map<String, Value> =
            self.settings.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        let text = json!({
            "benchmark": name,
            "commit": of.commit,
            "modified": of.is_modified,
            "date": of.date,
            "profile": of.profile,
            "smoke": of.is_smoke,
            "seconds": seconds.round(),
            "machine": of.machine.json(),
            "settings": settings,
            "rows": self.rows,
        });
        let path = folder.join(format!("{name}-{}.json", of.commit.get(..12).unwrap_or(&of.commit)));
        let write = || {
            std::fs::create_dir_all(folder)?;
            std::fs::write(&path, format!("{text:#}\n"))
        };
        write().map_err(|error| format!("`{}` cannot be written: {error}", path.display()))?;
        Ok(path)
    }
}

/// Origin of figures.
pub struct Provenance {
    /// The commit of the sources; `unknown` without git.
    pub commit: String,
    /// True if a file was changed after the commit.
    pub is_modified: bool,
    /// The day, as RFC 3339 writes it.
    pub date: String,
    /// Build profile of the server: `release` or `debug`.
    pub profile: String,
    /// True if this run only shows that the benchmarks work.
    pub is_smoke: bool,
    /// The machine.
    pub machine: Machine,
}

/// A row as a line of text.
fn line(row: &Value) -> String {
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let spread = |value: &Value| {
        let of = |name: &str| shown(value.get(name).and_then(Value::as_f64).unwrap_or(f64::NAN));
        match value.get("n").and_then(Value::as_u64) {
            Some(0 | 1) | None => of("median"),
            Some(n) => format!("{} ({} to {}, n = {n})", of("median"), of("low"), of("high")),
        }
    };
    let mut line =
        format!("{:<34} {}: {} {}", text(row, "id"), text(row, "description"), spread(row), text(row, "unit"));
    if let Some(ratio) = row.get("ratio") {
        line.push_str(&format!("; {} of {}", spread(ratio), text(ratio, "to")));
    }
    if row.get("column").is_some() {
        line.push_str(&format!("; {}", text(row, "column")));
    }
    if row.get("target").is_some() {
        line.push_str(&format!("; target {}", text(row, "target")));
    }
    line
}

/// A number with three significant digits, and no fraction from 100 on.
fn shown(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
