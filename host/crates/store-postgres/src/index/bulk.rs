//! Writes many new rows at once, by COPY.

use std::sync::LazyLock;

use deadpool_postgres::Transaction;
use tokio_postgres::types::Type;

use super::columns;
use super::counters::{Gained, Kind};
use super::entry::{MemberRow, MembershipRow, SubjectRow};
use super::write;
use crate::copy::{Table, cell};
use crate::database::execute;
use crate::failure::Failure;

/// A table with its columns, and their types.
type Copying = LazyLock<(String, Vec<Type>)>;

static INDIVIDUALS: Copying = LazyLock::new(|| columns::INDIVIDUALS.copy());
static GROUPS: Copying = LazyLock::new(|| columns::GROUPS.copy());
static MEMBERSHIPS: Copying = LazyLock::new(|| columns::MEMBERSHIPS.copy());
const MEMBERS: &str = "search_member (group_id, place, individual, role, first_day, last_day, is_set_aside)";
const MEMBER: &[Type] = &[Type::INT8, Type::INT4, Type::INT8, Type::INT8, Type::DATE, Type::DATE, Type::BOOL];

/// Many new rows of one table, ready to be copied.
pub(super) struct Bulk {
    table: Table<'static>,
    /// Increments of the counters of that kind.
    gained: Option<(Kind, Gained)>,
}

/// Individuals without rows.
pub(super) fn individuals(rows: Vec<SubjectRow>) -> Bulk {
    subjects(Table::new(&INDIVIDUALS.0, &INDIVIDUALS.1), Kind::Individual, rows)
}

/// Groups without rows, without their members.
pub(super) fn groups(rows: Vec<SubjectRow>) -> Bulk {
    subjects(Table::new(&GROUPS.0, &GROUPS.1), Kind::Group, rows)
}

fn subjects(mut table: Table<'static>, kind: Kind, rows: Vec<SubjectRow>) -> Bulk {
    let gained = Gained::of_all(rows.iter().map(|row| &row.terms));
    for row in rows {
        let more_words = row.terms.words_that_do_not_fit();
        let mut cells = vec![
            cell(row.id),
            cell(row.terms.into_vector()),
            cell(more_words),
            cell(row.is_inactive),
            cell(row.name),
            cell(row.last_updated),
        ];
        cells.extend(row.days.into_iter().map(cell));
        cells.extend(row.codes.into_iter().map(cell));
        table.add(cells);
    }
    Bulk { table, gained: Some((kind, gained)) }
}

/// Members of groups none of whose members has a row.
pub(super) fn members(rows: Vec<MemberRow>) -> Bulk {
    let mut table = Table::new(MEMBERS, MEMBER);
    for row in rows {
        table.add(vec![
            cell(row.group),
            cell(row.place),
            cell(row.individual),
            cell(row.role),
            cell(row.first_day),
            cell(row.last_day),
            cell(row.is_set_aside),
        ]);
    }
    Bulk { table, gained: None }
}

/// Memberships without rows.
pub(super) fn memberships(rows: Vec<MembershipRow>) -> Bulk {
    let gained = Gained::of_records(rows.len());
    let mut table = Table::new(&MEMBERSHIPS.0, &MEMBERSHIPS.1);
    for row in rows {
        let mut cells = vec![
            cell(row.id),
            cell(row.beneficiary_kind),
            cell(row.beneficiary),
            cell(row.program),
            cell(row.status),
            cell(row.last_updated),
        ];
        cells.extend(row.days.into_iter().map(cell));
        table.add(cells);
    }
    Bulk { table, gained: Some((Kind::Membership, gained)) }
}

impl Bulk {
    /// Copies them.
    ///
    /// # Errors
    /// If the database fails or one of the rows is there already; the transaction cannot continue then.
    pub(super) async fn write(mut self, transaction: &Transaction<'_>) -> Result<(), Failure> {
        self.table.flush(transaction).await?;
        match &self.gained {
            Some((kind, gained)) => {
                execute(transaction, write::GAIN, &[&(*kind as i16), &gained.terms, &gained.records]).await?;
                Ok(())
            }
            None => Ok(()),
        }
    }
}
