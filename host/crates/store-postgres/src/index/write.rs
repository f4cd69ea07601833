//! Writes the rows of records.

use std::sync::Arc;

use deadpool_postgres::Transaction;
use tokio_postgres::types::ToSql;

use super::apart::{Apart, ROWS_MAX};
use super::bulk;
use super::entry::{GroupRow, MemberRow, MembershipRow, PersonRow};
use super::row::{array, key, subject_key};
use super::statements;
use super::tally::Gained;
use crate::failure::Failure;
use daftar_domain::calendar::days_since_epoch;
use daftar_domain::consent::{Consent, is_consent_field};
use daftar_domain::scope::Resource;
use daftar_domain::subject::Subject;

/// Puts the rows of records in the place of those that stand for them. To be called in the transaction that writes the records, one such
/// transaction at a time: tallies change by what the rows said before.
///
/// # Errors
/// When the database fails; the transaction cannot go on then.
pub(crate) async fn write(transaction: &Transaction<'_>, apart: Apart) -> Result<(), Failure> {
    let rows = apart.rows().await?;
    for bulk in rows.bulks {
        bulk.write(transaction).await?;
    }
    for page in rows.individuals.chunks(ROWS_MAX) {
        write_individuals(transaction, page).await?;
    }
    for page in rows.groups.chunks(ROWS_MAX) {
        write_groups(transaction, page).await?;
    }
    if !rows.known_groups.is_empty() {
        execute(transaction, statements::REMOVE_MEMBERS, &[&rows.known_groups]).await?;
    }
    write_members(transaction, rows.members, rows.copied_min).await?;
    for page in rows.memberships.chunks(ROWS_MAX) {
        write_memberships(transaction, page).await?;
    }
    for page in rows.consents.chunks(ROWS_MAX) {
        write_consents(transaction, page).await?;
    }
    Ok(())
}

async fn execute(
    transaction: &Transaction<'_>,
    statement: &'static str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<(), Failure> {
    let statement = transaction.prepare_cached(statement).await?;
    transaction.execute(&statement, parameters).await?;
    Ok(())
}

/// One column of some rows.
fn column<R, V>(rows: &[R], of: impl Fn(&R) -> V) -> Vec<V> {
    rows.iter().map(of).collect()
}

async fn write_individuals(transaction: &Transaction<'_>, rows: &[PersonRow]) -> Result<(), Failure> {
    let gained = Gained::of_all(rows.iter().map(|row| &row.terms));
    let codes: [Vec<Option<i64>>; 10] =
        std::array::from_fn(|at| column(rows, |row| row.codes.get(at).copied().flatten()));
    let (vectors, more_words) = (column(rows, |row| row.terms.vector()), column(rows, |row| row.terms.more_words()));
    let names: Vec<Option<&[u8]>> = rows.iter().map(|row| row.name.as_deref()).collect();
    let (keys, inactive) = (column(rows, |row| row.id), column(rows, |row| row.is_inactive));
    let (births, deaths) = (column(rows, |row| row.birth_date), column(rows, |row| row.deceased_date));
    let instants = column(rows, |row| row.last_updated);
    let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&keys, &vectors, &more_words, &inactive, &names];
    parameters.extend([&births as &(dyn ToSql + Sync), &deaths, &instants]);
    parameters.extend(codes.iter().map(|column| column as &(dyn ToSql + Sync)));
    parameters.extend([&gained.terms as &(dyn ToSql + Sync), &gained.records]);
    execute(transaction, statements::INDIVIDUALS, &parameters).await
}

async fn write_groups(transaction: &Transaction<'_>, rows: &[GroupRow]) -> Result<(), Failure> {
    let gained = Gained::of_all(rows.iter().map(|row| &row.terms));
    let names: Vec<Option<&[u8]>> = rows.iter().map(|row| row.name.as_deref()).collect();
    let parameters: [&(dyn ToSql + Sync); 10] = [
        &column(rows, |row| row.id),
        &column(rows, |row| row.terms.vector()),
        &column(rows, |row| row.terms.more_words()),
        &column(rows, |row| row.is_inactive),
        &names,
        &column(rows, |row| row.last_updated),
        &column(rows, |row| row.group_type),
        &column(rows, |row| row.housing_type),
        &gained.terms,
        &gained.records,
    ];
    execute(transaction, statements::GROUPS, &parameters).await
}

/// Writes who belongs to groups whose members have no rows.
async fn write_members(transaction: &Transaction<'_>, rows: Vec<MemberRow>, copied_min: usize) -> Result<(), Failure> {
    if rows.is_empty() {
        return Ok(());
    }
    if rows.len() >= copied_min {
        return bulk::members(rows).write(transaction).await;
    }
    let parameters: [&(dyn ToSql + Sync); 7] = [
        &column(&rows, |row| row.group),
        &column(&rows, |row| row.place),
        &column(&rows, |row| row.individual),
        &column(&rows, |row| row.role),
        &column(&rows, |row| row.first_day),
        &column(&rows, |row| row.last_day),
        &column(&rows, |row| row.is_set_aside),
    ];
    execute(transaction, statements::MEMBERS, &parameters).await
}

async fn write_memberships(transaction: &Transaction<'_>, rows: &[MembershipRow]) -> Result<(), Failure> {
    let parameters: [&(dyn ToSql + Sync); 7] = [
        &column(rows, |row| row.id),
        &column(rows, |row| row.beneficiary),
        &column(rows, |row| row.program),
        &column(rows, |row| row.status),
        &column(rows, |row| row.enrollment_date),
        &column(rows, |row| row.exit_date),
        &column(rows, |row| row.last_updated),
    ];
    execute(transaction, statements::MEMBERSHIPS, &parameters).await
}

async fn write_consents(transaction: &Transaction<'_>, page: &[Arc<Consent>]) -> Result<(), Failure> {
    let details = || page.iter().map(|consent| &consent.details);
    let keys: Vec<i64> = page.iter().map(|consent| key(consent.id)).collect();
    let ids: Vec<String> = details().map(|details| details.id.to_string()).collect();
    let subjects: Vec<i64> = details().map(|details| subject_key(details.subject)).collect();
    let grantees: Vec<&str> = details().map(|details| details.grantee.as_str()).collect();
    let purposes: Vec<Option<&str>> = details().map(|details| details.purpose.as_deref().and_then(purpose)).collect();
    let firsts: Vec<i32> = details().map(|details| days_since_epoch(details.effective_date)).collect();
    let lasts: Vec<i32> = details().map(|details| details.expiry_date.map_or(i32::MAX, days_since_epoch)).collect();
    let withdrawn: Vec<bool> = details().map(|details| details.is_withdrawn).collect();
    let own = |kind| match kind {
        Subject::Individual => Resource::Individual,
        Subject::Group => Resource::Group,
    };
    let of_subject: Vec<bool> =
        details().map(|details| details.resources.contains(&own(details.subject.kind))).collect();
    let of_memberships: Vec<bool> =
        details().map(|details| details.resources.contains(&Resource::ProgramMembership)).collect();
    let fields: Vec<Option<String>> = details().map(|details| details.fields.as_deref().map(fields)).collect();
    let parameters: [&(dyn ToSql + Sync); 11] = [
        &keys,
        &ids,
        &subjects,
        &grantees,
        &purposes,
        &firsts,
        &lasts,
        &withdrawn,
        &of_subject,
        &of_memberships,
        &fields,
    ];
    execute(transaction, statements::CONSENTS, &parameters).await
}

/// A purpose as filters name it. One with characters that no filter has, and PostgreSQL does not keep, is nobody's.
fn purpose(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|purpose| !purpose.is_empty() && !purpose.contains('\0'))
}

/// The fields that a consent opens; what is no field opens nothing.
fn fields(names: &[String]) -> String {
    let known: Vec<&String> = names.iter().filter(|name| is_consent_field(name)).collect();
    array(&known)
}
