//! Orders of rows, and where in one a page begins.

use tokio_postgres::Row;

use super::row::key;
use super::sees::Sight;
use super::sql::Parameters;
use crate::domain::record::RecordId;
use crate::domain::scope::Resource;
use crate::domain::search::order::{
    Direction, Position, SortKey, SortValue, number_of_code, number_of_day, number_of_instant,
};

/// Where a key reads its values.
#[derive(Debug, Clone, Copy)]
pub(super) enum SortColumn {
    /// A text.
    Text(&'static str),
    /// A day.
    Day(&'static str),
    /// When the record was last written, which no record is without and which may always be looked at.
    Instant,
    /// A code.
    Code(&'static str),
    /// The place of a word among a few, counted from 0.
    Word(&'static str),
    /// Records of this kind have no such value.
    Nothing,
}

/// Where each of some codes stands among all: what a statement needs to put rows in order by one.
#[derive(Debug, Clone, Default)]
pub(super) struct Ranks {
    pub(super) codes: Vec<i64>,
    pub(super) ranks: Vec<i64>,
}

impl Ranks {
    /// The places of the codes that records hold.
    pub(super) fn new(held: Vec<i64>, places: &[u32]) -> Self {
        let rank = |code: &i64| u32::try_from(*code).map_or(i64::MAX, |code| signed(number_of_code(code, places)));
        Self { ranks: held.iter().map(rank).collect(), codes: held }
    }
}

/// The place of a status or a day counted from the least number of a position's.
const DAY_OFFSET: i64 = (1 << 31) + 1;
/// What is added to the place of a word in a position: so the register in memory counts.
const WORD_OFFSET: i64 = 4;

/// One key as a statement reads it.
struct Key {
    column: SortColumn,
    direction: Direction,
    /// What rows are compared by.
    value: String,
    /// What else is given: the number of a code.
    shown: Option<String>,
    /// What the value needs beside the table.
    join: Option<String>,
}

/// What a position says of a key.
enum Bound {
    Missing,
    /// A parameter.
    At(String),
}

/// An order of the rows of a table, which a statement calls `p`.
pub(super) struct Order {
    keys: Vec<Key>,
    after: Option<After>,
}

/// The place after which a page begins.
struct After {
    bounds: Vec<Bound>,
    record: String,
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number that sorts as a text's beginning does.
fn head(text: &str) -> u64 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(text.bytes()) {
        *to = from;
    }
    u64::from_be_bytes(bytes)
}

impl Order {
    /// `keys` with what each reads, and the places of the codes that one needs. `record` is what consents open.
    pub(super) fn new(
        keys: Vec<(SortKey, SortColumn, Ranks)>,
        (resource, record, sight): (Resource, &str, Option<&Sight>),
        parameters: &mut Parameters,
    ) -> Self {
        let mut built = Vec::new();
        for (number, (key, column, ranks)) in keys.into_iter().enumerate() {
            // What is not asked for must not be bound.
            let is_there = !matches!(column, SortColumn::Nothing);
            let hidden = key.field.field().zip(sight).filter(|_| is_there);
            let opens = hidden.map(|(field, sight)| sight.opens(resource, record, Some(field), parameters));
            let shown_only = |value: String| match &opens {
                Some(opens) => format!("CASE WHEN {opens} THEN {value} END"),
                None => value,
            };
            let (value, shown, join) = match column {
                SortColumn::Text(name) | SortColumn::Day(name) | SortColumn::Word(name) => {
                    (shown_only(format!("p.{name}")), None, None)
                }
                SortColumn::Instant => ("p.last_updated".to_owned(), None, None),
                SortColumn::Code(name) => {
                    let codes = parameters.bind(ranks.codes, "bigint[]");
                    let places = parameters.bind(ranks.ranks, "bigint[]");
                    let join = format!(
                        "LEFT JOIN unnest({codes}, {places}) AS rank{number}(code, place) ON rank{number}.code = p.{name}"
                    );
                    // Codes without a place come last, by their number.
                    let value = shown_only(format!("coalesce(rank{number}.place, p.{name} + 4294967296)"));
                    (value, Some(shown_only(format!("p.{name}"))), Some(join))
                }
                SortColumn::Nothing => ("NULL::bigint".to_owned(), None, None),
            };
            built.push(Key { column, direction: key.direction, value, shown, join });
        }
        Self { keys: built, after: None }
    }

    /// Begins after a position. One of another order begins nowhere.
    pub(super) fn begin_after(&mut self, position: &Position, places: &[u32], parameters: &mut Parameters) {
        if position.values.len() != self.keys.len() && !self.keys.is_empty() {
            return;
        }
        let bounds =
            self.keys.iter().zip(&position.values).map(|(key, value)| key.bound(value, places, parameters)).collect();
        self.after = Some(After { bounds, record: parameters.bind(row_key(position.record), "bigint") });
    }

    /// Whether the first key may have no value.
    pub(super) fn is_first_nullable(&self) -> bool {
        self.keys.first().is_some_and(Key::is_nullable)
    }

    /// What is read of each row, the values under the names by which the other parts call them.
    pub(super) fn selected(&self) -> String {
        let mut selected = "p.id".to_owned();
        for (number, key) in self.keys.iter().enumerate() {
            selected.push_str(&format!(", {} AS o{number}", key.value));
            if let Some(shown) = &key.shown {
                selected.push_str(&format!(", {shown} AS v{number}"));
            }
        }
        selected
    }

    /// What the values need beside the table.
    pub(super) fn joins(&self) -> String {
        self.keys.iter().filter_map(|key| key.join.as_deref()).collect::<Vec<_>>().join(" ")
    }

    /// By what rows are put in order. The first value is known to be there, where `is_first_there`: then an index runs either way.
    pub(super) fn by(&self, is_first_there: bool) -> String {
        let mut by = String::new();
        for (number, key) in self.keys.iter().enumerate() {
            let direction = match key.direction {
                Direction::Ascending => "ASC",
                Direction::Descending => "DESC",
            };
            let is_there = !key.is_nullable() || (number == 0 && is_first_there);
            let missing = if is_there { "" } else { " NULLS LAST" };
            by.push_str(&format!("o{number} {direction}{missing}, "));
        }
        by.push_str("id");
        by
    }

    /// What holds of the rows after the position.
    pub(super) fn after(&self) -> Option<String> {
        let After { bounds, record } = self.after.as_ref()?;
        let mut alternatives = Vec::new();
        let mut same = String::new();
        for (number, (key, bound)) in self.keys.iter().zip(bounds).enumerate() {
            match bound {
                // Nothing comes after what has no value, but for other keys.
                Bound::Missing => same.push_str(&format!("o{number} IS NULL AND ")),
                Bound::At(value) => {
                    let missing = if key.is_nullable() { format!(" OR o{number} IS NULL") } else { String::new() };
                    alternatives.push(format!("({same}(o{number} {} {value}{missing}))", key.beyond()));
                    same.push_str(&format!("o{number} = {value} AND "));
                }
            }
        }
        alternatives.push(format!("({same}id > {record})"));
        Some(format!("({})", alternatives.join(" OR ")))
    }

    /// What holds of the first value of rows that have one and may come after the position; none, where there are no such rows.
    pub(super) fn first_from(&self) -> Option<String> {
        let Some(key) = self.keys.first() else { return Some("true".to_owned()) };
        match self.after.as_ref().and_then(|after| after.bounds.first()) {
            None => Some("o0 IS NOT NULL".to_owned()),
            Some(Bound::Missing) => None,
            Some(Bound::At(value)) => Some(format!("o0 IS NOT NULL AND o0 {}= {value}", key.beyond())),
        }
    }

    /// What a row has to show, key by key, from the column `at` on.
    pub(super) fn values(&self, row: &Row, mut at: usize) -> Result<Vec<SortValue>, tokio_postgres::Error> {
        let mut values = Vec::with_capacity(self.keys.len());
        for key in &self.keys {
            values.push(key.read(row, at)?.unwrap_or(SortValue::Missing));
            at = at.saturating_add(if key.shown.is_some() { 2 } else { 1 });
        }
        Ok(values)
    }
}

/// Half of all keys are never given: those are after all others.
fn row_key(record: RecordId) -> i64 {
    if record.pending_number().is_some() { i64::MAX } else { key(record) }
}

impl Key {
    fn is_nullable(&self) -> bool {
        !matches!(self.column, SortColumn::Instant)
    }

    fn beyond(&self) -> &'static str {
        match self.direction {
            Direction::Ascending => ">",
            Direction::Descending => "<",
        }
    }

    /// A value of a position as the statement compares it.
    fn bound(&self, value: &SortValue, places: &[u32], parameters: &mut Parameters) -> Bound {
        let number = match value {
            SortValue::Missing => return Bound::Missing,
            SortValue::Number(number) => *number,
            SortValue::Text(text) => {
                if let SortColumn::Text(_) = self.column {
                    return Bound::At(parameters.bind(text.as_bytes().to_vec(), "bytea"));
                }
                head(text)
            }
        };
        let number = match self.column {
            SortColumn::Text(_) => {
                return Bound::At(parameters.bind(number.to_be_bytes().to_vec(), "bytea"));
            }
            SortColumn::Day(_) => signed(number).saturating_sub(DAY_OFFSET),
            SortColumn::Instant => (number ^ (1 << 63)).cast_signed(),
            SortColumn::Code(_) => {
                u32::try_from(number).map_or(signed(number), |code| signed(number_of_code(code, places)))
            }
            SortColumn::Word(_) => signed(number).saturating_sub(WORD_OFFSET),
            SortColumn::Nothing => signed(number),
        };
        Bound::At(parameters.bind(number, "bigint"))
    }

    /// What a row has to show, in the form in which it lasts.
    fn read(&self, row: &Row, at: usize) -> Result<Option<SortValue>, tokio_postgres::Error> {
        let value = match self.column {
            SortColumn::Text(_) => {
                let text: Option<Vec<u8>> = row.try_get(at)?;
                text.map(|text| SortValue::Text(String::from_utf8_lossy(&text).into_owned()))
            }
            SortColumn::Day(_) => {
                let day: Option<i32> = row.try_get(at)?;
                day.map(|day| SortValue::Number(number_of_day(day)))
            }
            SortColumn::Instant => {
                let at_ms: Option<i64> = row.try_get(at)?;
                at_ms.map(|at_ms| SortValue::Number(number_of_instant(at_ms)))
            }
            SortColumn::Code(_) => {
                let code: Option<i64> = row.try_get(at.saturating_add(1))?;
                code.map(|code| SortValue::Number(code.unsigned_abs()))
            }
            SortColumn::Word(_) => {
                let word: Option<i16> = row.try_get(at)?;
                word.map(|word| SortValue::Number(i64::from(word).saturating_add(WORD_OFFSET).unsigned_abs()))
            }
            SortColumn::Nothing => None,
        };
        Ok(value)
    }
}
