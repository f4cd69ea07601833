//! Rounds of load, alternating with the bare server that they are compared with.

use crate::load::Taken;
use crate::report::{Report, Row, Spread};

/// Measurements of each round.
#[derive(Default)]
pub struct Rounds {
    rates: Vec<f64>,
    medians_ms: Vec<f64>,
    p99s_ms: Vec<f64>,
    processor_us: Vec<f64>,
    bare_rates: Vec<f64>,
    ratios: Vec<f64>,
}

impl Rounds {
    /// Measures this number of rounds; `worked` returns the processor seconds used by the server.
    pub fn measure(
        count: u64,
        worked: impl Fn() -> f64,
        mut ours: impl FnMut() -> Result<Taken, String>,
    ) -> Result<Self, String> {
        let mut rounds = Self::default();
        for _ in 0..count {
            rounds.one(&worked, &mut ours)?;
        }
        Ok(rounds)
    }

    /// The same, each round followed by one of the bare server.
    pub fn against(
        count: u64,
        worked: impl Fn() -> f64,
        mut ours: impl FnMut() -> Result<Taken, String>,
        mut bare: impl FnMut() -> Result<Taken, String>,
    ) -> Result<Self, String> {
        let mut rounds = Self::default();
        for _ in 0..count {
            let rate = rounds.one(&worked, &mut ours)?;
            let bare_rate = bare()?.per_second();
            rounds.bare_rates.push(bare_rate);
            rounds.ratios.push(rate / bare_rate);
        }
        Ok(rounds)
    }

    fn one(
        &mut self,
        worked: &impl Fn() -> f64,
        ours: &mut impl FnMut() -> Result<Taken, String>,
    ) -> Result<f64, String> {
        let before = worked();
        let taken = ours()?;
        self.processor_us.push((worked() - before) * 1e6 / taken.count() as f64);
        self.rates.push(taken.per_second());
        self.medians_ms.push(taken.ms(0, 0.5));
        self.p99s_ms.push(taken.ms(0, 0.99));
        Ok(taken.per_second())
    }

    /// The median rate.
    pub fn rate(&self) -> f64 {
        Spread::of(self.rates.iter().copied()).median
    }

    /// Adds the rows: rate, response times, and processor time of each request. `targets` are those of the rate
    /// and of the p99.
    pub fn rows(&self, report: &mut Report, id: &str, what: &str, targets: [Option<&str>; 2]) {
        self.column(report, id, what, targets, None);
    }

    /// The same in a column of their own.
    pub fn column(&self, report: &mut Report, id: &str, what: &str, targets: [Option<&str>; 2], column: Option<&str>) {
        let with = |row: Row, target: Option<&str>| {
            column.into_iter().fold(target.into_iter().fold(row, Row::target), Row::column)
        };
        let of = |values: &[f64]| Spread::of(values.iter().copied());
        let mut row = with(Row::new(id, what, "1/s", of(&self.rates)), targets[0]);
        if !self.ratios.is_empty() {
            row = row.ratio(format!("bare axum ({:.0}/s)", of(&self.bare_rates).median), of(&self.ratios));
        }
        report.row(row);
        report.row(with(Row::new(format!("{id}.median"), format!("{what}: median"), "ms", of(&self.medians_ms)), None));
        report.row(with(Row::new(format!("{id}.p99"), format!("{what}: p99"), "ms", of(&self.p99s_ms)), targets[1]));
        let what = format!("{what}: processor time of the server for each");
        report.row(with(Row::new(format!("{id}.processor"), what, "µs", of(&self.processor_us)), None));
    }
}
