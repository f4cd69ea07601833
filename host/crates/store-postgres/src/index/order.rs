//! Orders of rows, and the position in one at which a page begins.

use tokio_postgres::Row;

use super::super::rows::column;
use super::filter::Parameters;
use super::row::key;
use super::sees::Sight;
use super::term;
use super::time::{Day, Instant};
use daftar_domain::program_membership::MembershipStatus;
use daftar_domain::record::RecordId;
use daftar_domain::scope::Resource;
use daftar_domain::search::order::{
    Direction, Position, SortKey, SortValue, Start, Window, number_of_code, number_of_day, number_of_instant,
};
use daftar_domain::vocabulary::CodedField;
use daftar_store::StoreError;

/// Column from which a key reads its values.
#[derive(Debug, Clone, Copy)]
pub(super) enum SortColumn {
    /// A text.
    Text(&'static str),
    /// A day.
    Day(&'static str),
    /// The last update of the record, which every record has and which may always be checked.
    Instant,
    /// A code, and its field.
    Code(&'static str, CodedField),
    /// The status of a membership, by its name.
    Status,
    /// Records of this kind do not have such a value.
    Nothing,
}

/// Ranks of some codes: required by a statement to sort rows by a code.
#[derive(Debug, Clone, Default)]
pub(super) struct Ranks {
    codes: Vec<i64>,
    ranks: Vec<i64>,
    /// Number of records with each.
    records: Vec<i64>,
}

impl Ranks {
    /// The ranks of codes, with the number of records that have each.
    pub(super) fn new(held: Vec<(i64, i64)>, places: &[u32]) -> Self {
        let rank = |code: i64| u32::try_from(code).map_or(i64::MAX, |code| signed(number_of_code(code, places)));
        let ranks = held.iter().map(|(code, _)| rank(*code)).collect();
        let (codes, records) = held.into_iter().unzip();
        Self { codes, ranks, records }
    }
}

/// Offset of the rank of a status or a day from the least number of a position.
const DAY_OFFSET: i64 = (1 << 31) + 1;
/// Offset of the rank of a status by name in a position: the in-memory index counts in the same way.
const STATUS_OFFSET: i64 = 4;

/// One key as a statement reads it.
struct Key {
    column: SortColumn,
    direction: Direction,
    /// Expression by which rows are compared.
    value: String,
    /// Another value that is returned: the number of a code.
    shown: Option<String>,
    /// Join that the value requires.
    join: Option<String>,
    /// The codes that records have, if the key is a code.
    held: Option<Held>,
}

/// The codes that records have in a field.
struct Held {
    /// The column of the table.
    column: &'static str,
    /// The parameters of the codes and of their ranks.
    codes: String,
    places: String,
    /// Number of records with each.
    records: Vec<i64>,
}

/// Value of a key in a position.
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

/// Statements that lead to the first rows by a code.
pub(super) struct Led {
    /// Rows with a code, in order.
    pub(super) statement: String,
    /// Condition of the rows `p` without a code.
    pub(super) missing: String,
    /// Sort order of those rows.
    pub(super) missing_by: String,
}

/// The position after which a page begins.
struct After {
    bounds: Vec<Bound>,
    record: String,
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Type of a text of a position in a statement: compared by bytes, in the order of the column.
const TEXT: &str = "text COLLATE \"C\"";

/// A text of a position as PostgreSQL accepts it. No name that is sorted by has a character before the space.
fn text_bound(text: &str) -> String {
    text.replace('\0', "\u{1}")
}

/// Name of the status that has that rank by name.
fn status_bound(place: i64) -> String {
    let status = MembershipStatus::ALL.into_iter().find(|status| i64::from(status.place()) == place);
    let beyond = if place < 0 { "" } else { "~" };
    status.map_or(beyond, MembershipStatus::name).to_owned()
}

/// A number that sorts in the order of the beginnings of texts.
fn head(text: &str) -> u64 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(text.bytes()) {
        *to = from;
    }
    u64::from_be_bytes(bytes)
}

impl Order {
    /// `keys` with the column of each, and the ranks of the codes that one requires; begins where the page begins.
    pub(super) fn new(
        keys: Vec<(SortKey, SortColumn, Ranks)>,
        (resource, sight): (Resource, Option<&Sight>),
        (window, places): (&Window, &[u32]),
        parameters: &mut Parameters,
    ) -> Self {
        let mut built = Vec::new();
        for (number, (key, column, ranks)) in keys.into_iter().enumerate() {
            // Unused values must not be bound.
            let is_there = !matches!(column, SortColumn::Nothing);
            let hidden = key.field.field().zip(sight).filter(|_| is_there);
            let opens = hidden.map(|(field, sight)| sight.opens(resource, "p.id", Some(field), parameters));
            let shown_only = |value: String| match &opens {
                Some(opens) => format!("CASE WHEN {opens} THEN {value} END"),
                None => value,
            };
            let mut held = None;
            let (value, shown, join) = match column {
                SortColumn::Text(name) | SortColumn::Day(name) => (shown_only(format!("p.{name}")), None, None),
                SortColumn::Status => (shown_only("p.status".to_owned()), None, None),
                SortColumn::Instant => ("p.last_updated".to_owned(), None, None),
                SortColumn::Code(name, _) => {
                    let codes = parameters.bind(ranks.codes, "bigint[]");
                    let places = parameters.bind(ranks.ranks, "bigint[]");
                    let join = format!(
                        "LEFT JOIN unnest({codes}, {places}) AS rank{number}(code, place) ON rank{number}.code = p.{name}"
                    );
                    held = Some(Held { column: name, codes, places, records: ranks.records });
                    // Codes without a rank are last, by their number.
                    let value = shown_only(format!("coalesce(rank{number}.place, p.{name} + 4294967296)"));
                    (value, Some(shown_only(format!("p.{name}"))), Some(join))
                }
                SortColumn::Nothing => ("NULL::bigint".to_owned(), None, None),
            };
            built.push(Key { column, direction: key.direction, value, shown, join, held });
        }
        let mut order = Self { keys: built, after: None };
        if let Start::After(position) = &window.start {
            order.begin_after(position, places, parameters);
        }
        order
    }

    /// Begins after a position. A position of another order is ignored.
    fn begin_after(&mut self, position: &Position, places: &[u32], parameters: &mut Parameters) {
        if position.values.len() != self.keys.len() && !self.keys.is_empty() {
            return;
        }
        let bounds =
            self.keys.iter().zip(&position.values).map(|(key, value)| key.bound(value, places, parameters)).collect();
        self.after = Some(After { bounds, record: parameters.bind(row_key(position.record), "bigint") });
    }

    /// Returns the selected columns of each row, with the values under the names that the other parts use.
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

    /// Returns the joins that the values require.
    pub(super) fn joins(&self) -> String {
        self.keys.iter().filter_map(|key| key.join.as_deref()).collect::<Vec<_>>().join(" ")
    }

    /// Returns the sort order of rows. With `is_first_there` the first value is never null: an index serves both ways.
    pub(super) fn by(&self, is_first_there: bool) -> String {
        self.by_from(0, is_first_there)
    }

    /// Returns the sort order of rows that are equal by the keys before `first`.
    fn by_from(&self, first: usize, is_first_there: bool) -> String {
        let mut by = String::new();
        for (number, key) in self.keys.iter().enumerate().skip(first) {
            let direction = key.direction_name();
            let is_there = !key.is_nullable() || (number == 0 && is_first_there);
            let missing = if is_there { "" } else { " NULLS LAST" };
            by.push_str(&format!("o{number} {direction}{missing}, "));
        }
        by.push_str("id");
        by
    }

    /// Returns the condition of the rows after the position.
    pub(super) fn after(&self) -> Option<String> {
        self.after_from(0)
    }

    /// Returns the condition of the rows after the position among those that are equal by the keys before `first`.
    fn after_from(&self, first: usize) -> Option<String> {
        let After { bounds, record } = self.after.as_ref()?;
        let mut alternatives = Vec::new();
        let mut same = String::new();
        for (number, (key, bound)) in self.keys.iter().zip(bounds).enumerate().skip(first) {
            match bound {
                // After a missing value only other keys decide.
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

    /// Returns the conditions of the rows after the position, one for each range that an index of the first key leads
    /// through, in their order, each with the sort order of its rows. Rows without the first value are sorted by the
    /// other keys alone: PostgreSQL does not know that `o0 IS NULL` makes it constant, and would sort all of them.
    pub(super) fn stretches(&self) -> Vec<(String, String)> {
        let by = self.by(true);
        let Some(key) = self.keys.first() else {
            return vec![(self.after().unwrap_or_else(|| "true".to_owned()), by)];
        };
        let of_missing = || key.is_nullable().then(|| ("o0 IS NULL".to_owned(), self.by_from(1, false)));
        match self.after.as_ref().and_then(|after| after.bounds.first()) {
            None if key.is_nullable() => [("o0 IS NOT NULL".to_owned(), by)].into_iter().chain(of_missing()).collect(),
            None => vec![("true".to_owned(), by)],
            Some(Bound::Missing) => {
                let rest = self.after_from(1).unwrap_or_else(|| "true".to_owned());
                vec![(format!("o0 IS NULL AND {rest}"), self.by_from(1, false))]
            }
            Some(Bound::At(value)) => {
                let rest = self.after_from(1).unwrap_or_else(|| "true".to_owned());
                let same = format!("o0 = {value} AND {rest}");
                let beyond = format!("o0 {} {value}", key.beyond());
                [(same, by.clone()), (beyond, by)].into_iter().chain(of_missing()).collect()
            }
        }
    }

    /// Returns the statement that leads to the first rows by a code, if every row matches: code by code in their order,
    /// from the position on. Of a rare code all rows are read; a scan of all rows soon meets one with a common code.
    pub(super) fn led(&self, table: &str, few_max: u32, count: &str, parameters: &mut Parameters) -> Option<Led> {
        let (key, others) = self.keys.split_first()?;
        let Held { column, codes, places, records } = key.held.as_ref()?;
        let SortColumn::Code(_, field) = key.column else { return None };
        let bound = self.after.as_ref().map(|after| (after, after.bounds.first()));
        let (mut from, mut after, mut from_record) = (String::new(), String::new(), String::new());
        match bound {
            None => {}
            Some((position, Some(Bound::At(place)))) => {
                from = format!("WHERE place {}= {place} ", key.beyond());
                after = format!(" AND {}", self.after()?);
                if others.is_empty() {
                    let record = &position.record;
                    from_record = format!(" AND id >= CASE ranked.place WHEN {place} THEN {record} ELSE 0 END");
                }
            }
            Some((_, Some(Bound::Missing) | None)) => return None,
        }
        let records = parameters.bind(records.clone(), "bigint[]");
        let term = parameters.bind(format!("'{}", term::of_field(field)), "text");
        let (selected, joins, direction) = (self.selected(), self.joins(), key.direction_name());
        // Rows of one code are sorted by the other keys.
        let by = self.by_from(1, false);
        let of_all = format!("SELECT {selected} FROM daftar.{table} AS p {joins} WHERE");
        let statement = format!(
            "SELECT found.* FROM (SELECT * FROM unnest({codes}, {places}, {records}) AS held(code, place, records) \
             {from}ORDER BY place {direction} OFFSET 0) AS ranked CROSS JOIN LATERAL (\
             (SELECT * FROM ({of_all} p.terms @@ ({term} || ranked.code || '''')::tsquery AND p.{column} = ranked.code OFFSET 0) AS row \
             WHERE ranked.records <= {few_max}{after} ORDER BY {by} LIMIT {count}) UNION ALL \
             (SELECT * FROM ({of_all} p.{column} = ranked.code) AS row \
             WHERE ranked.records > {few_max}{after}{from_record} ORDER BY {by} LIMIT {count})) AS found \
             ORDER BY ranked.place {direction}, {by} LIMIT {count}"
        );
        Some(Led { statement, missing: format!("p.{column} IS NULL"), missing_by: by })
    }

    /// Reads the sort values of a row, key by key, from the column `at` on.
    pub(super) fn values(&self, row: &Row, mut at: usize) -> Result<Vec<SortValue>, StoreError> {
        let mut values = Vec::with_capacity(self.keys.len());
        for key in &self.keys {
            values.push(key.read(row, at)?.unwrap_or(SortValue::Missing));
            at = at.saturating_add(if key.shown.is_some() { 2 } else { 1 });
        }
        Ok(values)
    }
}

/// Key by which rows are compared: a pending record is after all others.
fn row_key(record: RecordId) -> i64 {
    if record.pending_number().is_some() { i64::MAX } else { key(record) }
}

impl Key {
    fn is_nullable(&self) -> bool {
        !matches!(self.column, SortColumn::Instant)
    }

    fn direction_name(&self) -> &'static str {
        match self.direction {
            Direction::Ascending => "ASC",
            Direction::Descending => "DESC",
        }
    }

    fn beyond(&self) -> &'static str {
        match self.direction {
            Direction::Ascending => ">",
            Direction::Descending => "<",
        }
    }

    /// Binds a value of a position as the statement compares it.
    fn bound(&self, value: &SortValue, places: &[u32], parameters: &mut Parameters) -> Bound {
        let number = match value {
            SortValue::Missing => return Bound::Missing,
            SortValue::Number(number) => *number,
            SortValue::Text(text) => {
                if let SortColumn::Text(_) = self.column {
                    return Bound::At(parameters.bind(text_bound(text), TEXT));
                }
                head(text)
            }
        };
        let number = match self.column {
            SortColumn::Text(_) => {
                let text = String::from_utf8_lossy(&number.to_be_bytes()).into_owned();
                return Bound::At(parameters.bind(text_bound(&text), TEXT));
            }
            SortColumn::Day(_) => {
                let day = signed(number).saturating_sub(DAY_OFFSET);
                let day = i32::try_from(day).unwrap_or(if day < 0 { i32::MIN } else { i32::MAX });
                return Bound::At(parameters.bind(Day(day), "date"));
            }
            SortColumn::Instant => {
                let instant = Instant((number ^ (1 << 63)).cast_signed());
                return Bound::At(parameters.bind(instant, "timestamptz"));
            }
            SortColumn::Code(..) => {
                u32::try_from(number).map_or(signed(number), |code| signed(number_of_code(code, places)))
            }
            SortColumn::Status => {
                return Bound::At(parameters.bind(status_bound(signed(number).saturating_sub(STATUS_OFFSET)), TEXT));
            }
            SortColumn::Nothing => signed(number),
        };
        Bound::At(parameters.bind(number, "bigint"))
    }

    /// Reads the sort value of a row, in the form in which positions store it.
    fn read(&self, row: &Row, at: usize) -> Result<Option<SortValue>, StoreError> {
        let number = match self.column {
            SortColumn::Text(_) => return Ok(column::<Option<String>>(row, at)?.map(SortValue::Text)),
            SortColumn::Day(_) => column::<Option<Day>>(row, at)?.map(|Day(day)| number_of_day(day)),
            SortColumn::Instant => column::<Option<Instant>>(row, at)?.map(|Instant(at_ms)| number_of_instant(at_ms)),
            SortColumn::Code(..) => column::<Option<i64>>(row, at.saturating_add(1))?.map(i64::unsigned_abs),
            SortColumn::Status => {
                let name: Option<String> = column(row, at)?;
                let status = name.as_deref().and_then(MembershipStatus::parse);
                let place = |status: MembershipStatus| i64::from(status.place()).saturating_add(STATUS_OFFSET);
                status.map(|status| place(status).unsigned_abs())
            }
            SortColumn::Nothing => None,
        };
        Ok(number.map(SortValue::Number))
    }
}
