//! A search in one statement: how many rows match, and those of a page. One statement sees one state of the register.
//!
//! Where few match, all of them are read and put in order. Where many do, an index that runs in the wanted order leads to the first
//! of them soon. Which of both it is follows from the total, in the statement: guesses of PostgreSQL are wrong for rare words.

use super::PostgresIndex;
use super::order::{Led, Order};
use super::row::unreadable;
use super::sql::Parameters;
use daftar_domain::record::RecordId;
use daftar_domain::search::found::Found;
use daftar_domain::search::order::{Position, Start, Window};
use daftar_store::StoreError;

/// What is searched.
pub(super) struct Search<'w> {
    /// The table.
    pub(super) table: &'static str,
    /// What holds of its rows `p`. Nothing: all of them match.
    pub(super) conditions: Vec<String>,
    /// An expression for the total, where it need not be counted.
    pub(super) total: Option<String>,
    /// In which order.
    pub(super) order: Order,
    /// Which part.
    pub(super) window: &'w Window,
}

impl Search<'_> {
    /// Runs it. A position has been put into the order before.
    pub(super) async fn run(self, index: &PostgresIndex, mut parameters: Parameters) -> Result<Found, StoreError> {
        let statement = self.statement(index.few_max, &mut parameters);
        let rows = index.search(&statement, &parameters).await?;
        let told = |error: tokio_postgres::Error| unreadable("answer of the index", &error);
        let mut found = Found::default();
        let count = self.window.count as usize;
        for (number, row) in rows.iter().enumerate() {
            let total: i64 = row.try_get(0).map_err(told)?;
            found.total = total.unsigned_abs();
            let id: Option<i64> = row.try_get(1).map_err(told)?;
            let Some(id) = id else { continue };
            if number >= count {
                break;
            }
            found.ids.push(RecordId(id.unsigned_abs()));
            // One more than wanted tells that there is a next page.
            if number + 1 == count && rows.len() > count {
                let values = self.order.values(row, 2).map_err(told)?;
                let passed = self.window.passed().saturating_add(count as u64);
                found.next = Some(Position { values, record: RecordId(id.unsigned_abs()), passed });
            }
        }
        Ok(found)
    }

    fn statement(&self, few_max: u32, parameters: &mut Parameters) -> String {
        let Self { table, conditions, total, order, window } = self;
        let (selected, joins) = (order.selected(), order.joins());
        let filtered = if conditions.is_empty() { "true".to_owned() } else { conditions.join(" AND ") };
        let total = match total {
            Some(total) => format!("SELECT ({total})::bigint AS records"),
            None => format!("SELECT count(*) AS records FROM daftar.{table} AS p WHERE {filtered}"),
        };
        let skipped = if let Start::Offset(offset) = window.start { offset } else { 0 };
        let skipped = i64::try_from(skipped).unwrap_or(i64::MAX);
        let count = i64::from(window.count).saturating_add(1);
        let least = parameters.bind(skipped.saturating_add(count), "bigint");
        let (skipped, count) = (parameters.bind(skipped, "bigint"), parameters.bind(count, "bigint"));
        let after = order.after().map_or_else(String::new, |after| format!(" AND {after}"));
        let (by, by_first) = (order.by(false), order.by(true));
        let rows = format!("(SELECT {selected} FROM daftar.{table} AS p {joins} WHERE {filtered}) AS row");
        let (mut parts, mut gathered) = (Vec::new(), String::new());
        let led = if conditions.is_empty() { order.led(table, few_max, &least, parameters) } else { None };
        if let Some(Led { statement, missing }) = led {
            gathered = format!(", led AS MATERIALIZED ({statement})");
            parts.push("SELECT * FROM led".to_owned());
            parts.push(format!(
                "(SELECT * FROM (SELECT {selected} FROM daftar.{table} AS p {joins} WHERE {missing}) AS row \
                 WHERE (SELECT count(*) FROM led) < {least} ORDER BY {by} LIMIT {least})"
            ));
        } else {
            let is_many = if conditions.is_empty() {
                "true".to_owned()
            } else {
                gathered = format!(", few AS MATERIALIZED (SELECT * FROM {rows})");
                parts.push(format!(
                    "(SELECT * FROM few WHERE (SELECT records FROM total) <= {few_max}{after} \
                     ORDER BY {by} LIMIT {least})"
                ));
                format!("(SELECT records FROM total) > {few_max}")
            };
            // In each stretch the first value is there, or is missing in all of its rows.
            parts.extend(order.stretches().into_iter().map(|stretch| {
                format!("(SELECT * FROM {rows} WHERE {is_many} AND {stretch} ORDER BY {by_first} LIMIT {least})")
            }));
        }
        format!(
            "WITH total AS MATERIALIZED ({total}){gathered} \
             SELECT total.records, page.* FROM total LEFT JOIN (\
             SELECT * FROM ({}) AS found ORDER BY {by} LIMIT {count} OFFSET {skipped}) AS page ON true ORDER BY {by}",
            parts.join(" UNION ALL ")
        )
    }
}
