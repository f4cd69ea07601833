//! Writes many new rows at once, by COPY.

use std::sync::LazyLock;

use deadpool_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

use super::columns;
use super::counters::{Gained, Increments, Kind};
use super::entry::{MemberRow, MembershipRow, SubjectRow};
use crate::copy::Table;
use crate::database::Values;
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
    table: Table,
    /// Increments of the counters of that kind.
    gained: Option<(Kind, Gained)>,
}

/// Individuals without rows.
///
/// # Errors
/// As of all functions here: if a value is not of the type of its column.
pub(super) fn individuals(rows: Vec<SubjectRow>) -> Result<Bulk, Failure> {
    subjects(Table::new(&INDIVIDUALS.0, &INDIVIDUALS.1), Kind::Individual, rows)
}

/// Groups without rows, without their members.
pub(super) fn groups(rows: Vec<SubjectRow>) -> Result<Bulk, Failure> {
    subjects(Table::new(&GROUPS.0, &GROUPS.1), Kind::Group, rows)
}

fn subjects(mut table: Table, kind: Kind, rows: Vec<SubjectRow>) -> Result<Bulk, Failure> {
    let gained = Gained::of_all(rows.iter().map(|row| &row.terms));
    for row in rows {
        let (more_words, vector) = (row.terms.words_that_do_not_fit(), row.terms.into_vector());
        let mut values: Vec<&(dyn ToSql + Sync)> =
            vec![&row.id, &vector, &more_words, &row.is_inactive, &row.name, &row.last_updated];
        values.extend(row.days.iter().map(|day| -> &(dyn ToSql + Sync) { day }));
        values.extend(row.codes.iter().map(|code| -> &(dyn ToSql + Sync) { code }));
        table.add(&values)?;
    }
    Ok(Bulk { table, gained: Some((kind, gained)) })
}

/// Members of groups none of whose members has a row.
pub(super) fn members(rows: Vec<MemberRow>) -> Result<Bulk, Failure> {
    let mut table = Table::new(MEMBERS, MEMBER);
    for row in rows {
        let values: Values<'_> =
            &[&row.group, &row.place, &row.individual, &row.role, &row.first_day, &row.last_day, &row.is_set_aside];
        table.add(values)?;
    }
    Ok(Bulk { table, gained: None })
}

/// Memberships without rows.
pub(super) fn memberships(rows: Vec<MembershipRow>) -> Result<Bulk, Failure> {
    let gained = Gained::of_records(rows.len());
    let mut table = Table::new(&MEMBERSHIPS.0, &MEMBERSHIPS.1);
    for row in rows {
        let mut values: Vec<&(dyn ToSql + Sync)> =
            vec![&row.id, &row.beneficiary_kind, &row.beneficiary, &row.program, &row.status, &row.last_updated];
        values.extend(row.days.iter().map(|day| -> &(dyn ToSql + Sync) { day }));
        table.add(&values)?;
    }
    Ok(Bulk { table, gained: Some((Kind::Membership, gained)) })
}

impl Bulk {
    /// Copies them, and adds the increments of their counters.
    ///
    /// # Errors
    /// If the database fails or one of the rows is there already; the transaction cannot continue then.
    pub(super) async fn write(
        mut self,
        transaction: &Transaction<'_>,
        increments: &mut Increments,
    ) -> Result<(), Failure> {
        self.table.flush(transaction).await?;
        if let Some((kind, gained)) = self.gained {
            increments.add(kind, gained);
        }
        Ok(())
    }
}
