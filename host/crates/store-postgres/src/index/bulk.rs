//! Writes many new rows at once, by COPY.

use deadpool_postgres::Transaction;
use tokio_postgres::types::Type;

use super::entry::{GroupRow, MemberRow, MembershipRow, PersonRow};
use super::row::Terms;
use super::statements;
use super::tally::{Gained, Kind};
use crate::copy::{Cell, Table, cell};
use crate::failure::Failure;

const INDIVIDUALS: &str = "COPY daftar.search_individual (id, terms, more_words, is_inactive, name, birth_date, \
                           deceased_date, last_updated, gender, marital_status, country, religion, \
                           ethnocultural_status, education, occupation, economic_activity, pregnancy_status, \
                           income_currency) FROM STDIN BINARY";
const INDIVIDUAL: &[Type] = &[
    Type::INT8,
    Type::TS_VECTOR,
    Type::TEXT_ARRAY,
    Type::BOOL,
    Type::BYTEA,
    Type::INT4,
    Type::INT4,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
];
const GROUPS: &str = "COPY daftar.search_group (id, terms, more_words, is_inactive, name, last_updated, group_type, \
                      housing_type) FROM STDIN BINARY";
const GROUP: &[Type] =
    &[Type::INT8, Type::TS_VECTOR, Type::TEXT_ARRAY, Type::BOOL, Type::BYTEA, Type::INT8, Type::INT8, Type::INT8];
const MEMBERS: &str = "COPY daftar.search_member (group_id, place, individual, role, first_day, last_day, \
                       is_set_aside) FROM STDIN BINARY";
const MEMBER: &[Type] = &[Type::INT8, Type::INT4, Type::INT8, Type::INT8, Type::INT4, Type::INT4, Type::BOOL];
const MEMBERSHIPS: &str = "COPY daftar.search_membership (id, beneficiary, program, status, enrollment_date, \
                           exit_date, last_updated) FROM STDIN BINARY";
const MEMBERSHIP: &[Type] = &[Type::INT8, Type::INT8, Type::INT8, Type::INT2, Type::INT4, Type::INT4, Type::INT8];

/// Many new rows of one table, ready to be copied.
pub(super) struct Bulk {
    table: Table<'static>,
    /// What tallies of that kind gain by them.
    gained: Option<(Kind, Gained)>,
}

/// People of whom there are no rows.
pub(super) fn individuals(rows: Vec<PersonRow>) -> Bulk {
    let gained = Gained::of_all(rows.iter().map(|row| &row.terms));
    let mut table = Table::new(INDIVIDUALS, INDIVIDUAL);
    for row in rows {
        let mut cells = with_terms(row.id, row.terms, row.is_inactive, row.name);
        cells.extend([cell(row.birth_date), cell(row.deceased_date), cell(row.last_updated)]);
        cells.extend(row.codes.map(cell));
        table.add(cells);
    }
    Bulk { table, gained: Some((Kind::Individual, gained)) }
}

/// Groups of which there are no rows, without their members.
pub(super) fn groups(rows: Vec<GroupRow>) -> Bulk {
    let gained = Gained::of_all(rows.iter().map(|row| &row.terms));
    let mut table = Table::new(GROUPS, GROUP);
    for row in rows {
        let mut cells = with_terms(row.id, row.terms, row.is_inactive, row.name);
        cells.extend([cell(row.last_updated), cell(row.group_type), cell(row.housing_type)]);
        table.add(cells);
    }
    Bulk { table, gained: Some((Kind::Group, gained)) }
}

/// Members of groups none of whose members have rows.
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

/// Memberships of which there are no rows.
pub(super) fn memberships(rows: Vec<MembershipRow>) -> Bulk {
    let gained = Gained::of_records(rows.len());
    let mut table = Table::new(MEMBERSHIPS, MEMBERSHIP);
    for row in rows {
        table.add(vec![
            cell(row.id),
            cell(row.beneficiary),
            cell(row.program),
            cell(row.status),
            cell(row.enrollment_date),
            cell(row.exit_date),
            cell(row.last_updated),
        ]);
    }
    Bulk { table, gained: Some((Kind::Membership, gained)) }
}

impl Bulk {
    /// Copies them.
    ///
    /// # Errors
    /// When the database fails or one of the rows is there already; the transaction cannot go on then.
    pub(super) async fn write(mut self, transaction: &Transaction<'_>) -> Result<(), Failure> {
        self.table.flush(transaction).await?;
        match &self.gained {
            Some((kind, gained)) => gain(transaction, *kind, gained).await,
            None => Ok(()),
        }
    }
}

/// The columns with which rows of people and of groups begin.
fn with_terms(id: i64, terms: Terms, is_inactive: bool, name: Option<Vec<u8>>) -> Vec<Cell<'static>> {
    let more_words = terms.words_that_do_not_fit();
    vec![cell(id), cell(terms.into_vector()), cell(more_words), cell(is_inactive), cell(name)]
}

async fn gain(transaction: &Transaction<'_>, kind: Kind, gained: &Gained) -> Result<(), Failure> {
    let statement = transaction.prepare_cached(statements::GAIN).await?;
    transaction.execute(&statement, &[&(kind as i16), &gained.terms, &gained.records]).await?;
    Ok(())
}
