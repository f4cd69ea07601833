//! Generated records with missing facts.

use super::Maker;
use crate::rules::support::{Case, Cell, Record};

impl Maker<'_> {
    pub(super) fn cell(&mut self, kind: &str) -> Cell {
        match kind {
            "boolean" => Cell::Boolean(self.choose(2) == 0),
            "integer" => Cell::Integer([1, 3, 0, 2, -1, i64::MAX, i64::MIN, 60][self.choose(8)]),
            "number" => {
                Cell::Number([100.0, 5000.0, 1.5, -0.0, f64::INFINITY, 1e308, 9_007_199_254_740_992.0][self.choose(7)])
            }
            "date" => Cell::Day(self.one_of(&[
                "1966-03-01",
                "1966-03-02",
                "1960-02-29",
                "2008-02-29",
                "2008-03-01",
                "2026-03-01",
                "2026-03-02",
                "1900-12-31",
            ])),
            "code" => Cell::Code([2, 1, 0, 10, 11, 20, 21, 30][self.choose(8)]),
            _ => Cell::Text(self.one_of(&["north", "", "é", "12", "2026-01-31", "norther", "2"])),
        }
    }

    pub(super) fn record(&mut self, fields: &[(&'static str, &str)]) -> Record {
        let mut record = Record::new();
        for (name, kind) in fields {
            // Most facts are recorded, so that most outcomes are known.
            if self.choose(9) != 8 {
                record.push((*name, self.cell(kind)));
            }
        }
        record
    }

    pub(super) fn cells(&mut self, kind: &str) -> Cell {
        let count = self.choose(4);
        Cell::List((0..count).map(|_| if self.choose(12) == 11 { Cell::Absent } else { self.cell(kind) }).collect())
    }

    pub(super) fn case(&mut self) -> Case {
        let mut me = self.record(&[
            ("active", "boolean"),
            ("insured", "boolean"),
            ("dependants", "integer"),
            ("rooms", "integer"),
            ("income.amount", "number"),
            ("name.family", "text"),
            ("name.given", "text"),
            ("district", "text"),
            ("pregnancy_status", "code"),
            ("birth_date", "date"),
            ("deceased_date", "date"),
            ("gender", "code"),
        ]);
        if self.choose(8) != 7 {
            me.push(("languages", self.cells("code")));
        }
        if self.choose(8) != 7 {
            me.push(("tags", self.cells("text")));
        }
        if self.choose(8) != 7 {
            let count = self.choose(3);
            let addresses = (0..count).map(|_| {
                let mut address = self.record(&[("district", "text")]);
                if self.choose(4) != 3 {
                    address.push(("line", self.cells("text")));
                }
                address
            });
            me.push(("address", Cell::Records(addresses.collect())));
        }
        let member = [
            ("birth_date", "date"),
            ("deceased_date", "date"),
            ("gender", "code"),
            ("role", "code"),
            ("dependants", "integer"),
            ("pregnancy_status", "code"),
        ];
        let members = (self.choose(8) != 7).then(|| (0..self.choose(5)).map(|_| self.record(&member)).collect());
        let program = [("program", "text"), ("enrollment_date", "date")];
        let programs = (self.choose(8) != 7).then(|| (0..self.choose(3)).map(|_| self.record(&program)).collect());
        Case { me, members, programs }
    }
}
