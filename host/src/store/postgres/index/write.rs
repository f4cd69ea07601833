//! Writes the rows of records.

use std::collections::BTreeMap;
use std::sync::Arc;

use deadpool_postgres::Transaction;
use tokio_postgres::types::ToSql;

use super::bulk;
use super::entry::{GroupRow, MemberRow, MembershipRow, PersonRow};
use super::row::{array, key, subject_key};
use super::statements;
use super::tally::Gained;
use crate::domain::calendar::days_since_epoch;
use crate::domain::change::ChangedRecord;
use crate::domain::consent::{Consent, is_consent_field};
use crate::domain::group::Group;
use crate::domain::individual::Individual;
use crate::domain::program_membership::ProgramMembership;
use crate::domain::record::{Record, RecordId, RecordKind};
use crate::domain::scope::Resource;
use crate::domain::subject::Subject;
use crate::store::postgres::copy::COPIED_MIN;
use crate::store::postgres::failure::Failure;

/// The most rows of one statement.
const ROWS_MAX: usize = 2_000;

/// Records of one kind, each once, as they stand at last, by key.
type Latest<'c, D> = BTreeMap<RecordId, &'c Arc<Record<D>>>;

/// Puts the rows of these records, as they stand after the write, in the place of those that stand for them. Of a record that occurs
/// more than once the last counts. `is_new` says of which nothing stands there yet. To be called in the transaction that writes the
/// records, one such transaction at a time: tallies change by what the rows said before.
///
/// # Errors
/// When the database fails; the transaction cannot go on then.
pub(in crate::store::postgres) async fn write(
    transaction: &Transaction<'_>,
    changed: &[ChangedRecord],
    is_new: impl Fn(RecordKind, RecordId) -> bool,
) -> Result<(), Failure> {
    let mut individuals: Latest<'_, _> = BTreeMap::new();
    let mut groups: Latest<'_, _> = BTreeMap::new();
    let mut memberships: Latest<'_, _> = BTreeMap::new();
    let mut consents: Latest<'_, _> = BTreeMap::new();
    for record in changed {
        match record {
            ChangedRecord::Individual(record) => drop(individuals.insert(record.id, record)),
            ChangedRecord::Group(record) => drop(groups.insert(record.id, record)),
            ChangedRecord::ProgramMembership(record) => drop(memberships.insert(record.id, record)),
            ChangedRecord::Consent(record) => drop(consents.insert(record.id, record)),
            // Programs are few: they are looked for among the values.
            ChangedRecord::Program(_) => {}
        }
    }
    let [copied, others] = apart(&individuals, |id| is_new(RecordKind::Individual, id));
    for page in copied.chunks(ROWS_MAX) {
        bulk::write_individuals(transaction, page.iter().map(|person| PersonRow::of(person)).collect()).await?;
    }
    for page in others.chunks(ROWS_MAX) {
        write_individuals(transaction, page).await?;
    }
    let [copied, others] = apart(&groups, |id| is_new(RecordKind::Group, id));
    for page in copied.chunks(ROWS_MAX) {
        bulk::write_groups(transaction, page.iter().map(|group| GroupRow::of(group)).collect()).await?;
        write_members(transaction, page).await?;
    }
    for page in others.chunks(ROWS_MAX) {
        write_groups(transaction, page).await?;
        let known = page.iter().filter(|group| !is_new(RecordKind::Group, group.id));
        let known: Vec<i64> = known.map(|group| key(group.id)).collect();
        if !known.is_empty() {
            execute(transaction, statements::REMOVE_MEMBERS, &[&known]).await?;
        }
        write_members(transaction, page).await?;
    }
    let [copied, others] = apart(&memberships, |id| is_new(RecordKind::ProgramMembership, id));
    for page in copied.chunks(ROWS_MAX) {
        let rows = page.iter().map(|membership| MembershipRow::of(membership)).collect();
        bulk::write_memberships(transaction, rows).await?;
    }
    for page in others.chunks(ROWS_MAX) {
        write_memberships(transaction, page).await?;
    }
    for page in values(&consents).chunks(ROWS_MAX) {
        write_consents(transaction, page).await?;
    }
    Ok(())
}

fn values<'c, D>(latest: &Latest<'c, D>) -> Vec<&'c Arc<Record<D>>> {
    latest.values().copied().collect()
}

/// Those that are copied, and the others: all of them where few are new.
fn apart<'c, D>(latest: &Latest<'c, D>, is_new: impl Fn(RecordId) -> bool) -> [Vec<&'c Arc<Record<D>>>; 2] {
    let (new, others): (Vec<_>, Vec<_>) = latest.values().copied().partition(|record| is_new(record.id));
    if new.len() < COPIED_MIN { [Vec::new(), values(latest)] } else { [new, others] }
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

async fn write_individuals(transaction: &Transaction<'_>, page: &[&Arc<Individual>]) -> Result<(), Failure> {
    let rows: Vec<PersonRow> = page.iter().map(|person| PersonRow::of(person)).collect();
    let gained = Gained::of_all(rows.iter().map(|row| &row.terms));
    let codes: [Vec<Option<i64>>; 10] =
        std::array::from_fn(|at| column(&rows, |row| row.codes.get(at).copied().flatten()));
    let (vectors, more_words) = (column(&rows, |row| row.terms.vector()), column(&rows, |row| row.terms.more_words()));
    let names: Vec<Option<&[u8]>> = rows.iter().map(|row| row.name.as_deref()).collect();
    let (keys, inactive) = (column(&rows, |row| row.id), column(&rows, |row| row.is_inactive));
    let (births, deaths) = (column(&rows, |row| row.birth_date), column(&rows, |row| row.deceased_date));
    let instants = column(&rows, |row| row.last_updated);
    let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&keys, &vectors, &more_words, &inactive, &names];
    parameters.extend([&births as &(dyn ToSql + Sync), &deaths, &instants]);
    parameters.extend(codes.iter().map(|column| column as &(dyn ToSql + Sync)));
    parameters.extend([&gained.terms as &(dyn ToSql + Sync), &gained.records]);
    execute(transaction, statements::INDIVIDUALS, &parameters).await
}

async fn write_groups(transaction: &Transaction<'_>, page: &[&Arc<Group>]) -> Result<(), Failure> {
    let rows: Vec<GroupRow> = page.iter().map(|group| GroupRow::of(group)).collect();
    let gained = Gained::of_all(rows.iter().map(|row| &row.terms));
    let names: Vec<Option<&[u8]>> = rows.iter().map(|row| row.name.as_deref()).collect();
    let parameters: [&(dyn ToSql + Sync); 10] = [
        &column(&rows, |row| row.id),
        &column(&rows, |row| row.terms.vector()),
        &column(&rows, |row| row.terms.more_words()),
        &column(&rows, |row| row.is_inactive),
        &names,
        &column(&rows, |row| row.last_updated),
        &column(&rows, |row| row.group_type),
        &column(&rows, |row| row.housing_type),
        &gained.terms,
        &gained.records,
    ];
    execute(transaction, statements::GROUPS, &parameters).await
}

/// Writes who belongs to groups whose members have no rows.
async fn write_members(transaction: &Transaction<'_>, page: &[&Arc<Group>]) -> Result<(), Failure> {
    let rows: Vec<MemberRow> = page.iter().flat_map(|group| MemberRow::of(group)).collect();
    if rows.is_empty() {
        return Ok(());
    }
    if rows.len() >= COPIED_MIN {
        return bulk::write_members(transaction, rows).await;
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

async fn write_memberships(transaction: &Transaction<'_>, page: &[&Arc<ProgramMembership>]) -> Result<(), Failure> {
    let rows: Vec<MembershipRow> = page.iter().map(|membership| MembershipRow::of(membership)).collect();
    let parameters: [&(dyn ToSql + Sync); 7] = [
        &column(&rows, |row| row.id),
        &column(&rows, |row| row.beneficiary),
        &column(&rows, |row| row.program),
        &column(&rows, |row| row.status),
        &column(&rows, |row| row.enrollment_date),
        &column(&rows, |row| row.exit_date),
        &column(&rows, |row| row.last_updated),
    ];
    execute(transaction, statements::MEMBERSHIPS, &parameters).await
}

async fn write_consents(transaction: &Transaction<'_>, page: &[&Arc<Consent>]) -> Result<(), Failure> {
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
