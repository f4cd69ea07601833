//! Writes the rows of records.

use std::sync::{Arc, LazyLock};

use deadpool_postgres::Transaction;
use tokio_postgres::types::ToSql;

use super::bulk;
use super::columns::{self, Columns};
use super::counters::{Gained, Increments, Kind};
use super::entry::{Apart, MemberRow, MembershipRow, ROWS_MAX, SubjectRow};
use super::row::{array, key, subject_kind};
use super::time::Day;
use crate::copy::{Cell, cell, column, values};
use crate::database::execute;
use crate::failure::Failure;
use daftar_domain::consent::{Consent, ConsentDetails, EXPIRY_DATE, FIELD_NAMES, PURPOSE, is_consent_field};
use daftar_domain::scope::Resource;
use daftar_domain::subject::Subject;

/// Replaces the rows of records. To be called in the transaction that writes the records, one such transaction at a
/// time: counters change by the difference to the rows before.
///
/// # Errors
/// If the database fails; the transaction cannot continue then.
pub(crate) async fn write(transaction: &Transaction<'_>, apart: Apart) -> Result<(), Failure> {
    let mut increments = Increments::default();
    write_rows(transaction, apart, &mut increments).await?;
    increments.write(transaction).await
}

/// As [`write()`], but the caller writes the increments of the counters by copied rows.
///
/// # Errors
/// As of [`write()`].
pub(crate) async fn write_rows(
    transaction: &Transaction<'_>,
    apart: Apart,
    increments: &mut Increments,
) -> Result<(), Failure> {
    let rows = apart.rows().await?;
    for bulk in rows.bulks {
        bulk.write(transaction, increments).await?;
    }
    for page in rows.individuals.chunks(ROWS_MAX) {
        write_subjects(transaction, &INDIVIDUALS, page).await?;
    }
    for page in rows.groups.chunks(ROWS_MAX) {
        write_subjects(transaction, &GROUPS, page).await?;
    }
    if !rows.known_groups.is_empty() {
        execute(transaction, REMOVE_MEMBERS, &[&rows.known_groups]).await?;
    }
    write_members(transaction, rows.members, rows.copied_min).await?;
    for page in rows.memberships.chunks(ROWS_MAX) {
        execute(transaction, &MEMBERSHIPS, &values(&memberships_columns(page))).await?;
    }
    for page in rows.consents.chunks(ROWS_MAX) {
        execute(transaction, &CONSENTS, &values(&consents_columns(page))).await?;
    }
    Ok(())
}

/// The columns of some rows, each with as many values.
fn each_column<'r, R, V>(rows: &'r [R], of: impl Fn(&R) -> &[Option<V>]) -> impl Iterator<Item = Cell<'r>>
where
    V: ToSql + Sync + Send + Copy + 'r,
{
    let count = rows.first().map_or(0, |row| of(row).len());
    (0..count).map(move |at| column(rows, |row| of(row).get(at).copied().flatten()))
}

async fn write_subjects(transaction: &Transaction<'_>, statement: &str, rows: &[SubjectRow]) -> Result<(), Failure> {
    let gained = Gained::of_all(rows.iter().map(|row| &row.terms));
    let mut columns = subjects_columns(rows);
    columns.extend([cell(gained.terms), cell(gained.records)]);
    execute(transaction, statement, &values(&columns)).await?;
    Ok(())
}

/// Rows of individuals or groups, one array per column, in the order of [`Columns`].
pub(super) fn subjects_columns(rows: &[SubjectRow]) -> Vec<Cell<'_>> {
    let mut columns = vec![
        column(rows, |row| row.id),
        column(rows, |row| row.terms.vector()),
        column(rows, |row| row.terms.more_words()),
        column(rows, |row| row.is_inactive),
        column(rows, |row| row.name.as_deref()),
        column(rows, |row| row.last_updated),
    ];
    columns.extend(each_column(rows, |row| row.days.as_slice()));
    columns.extend(each_column(rows, |row| row.codes.as_slice()));
    columns
}

/// Writes the members of groups whose members have no rows.
async fn write_members(transaction: &Transaction<'_>, rows: Vec<MemberRow>, copied_min: usize) -> Result<(), Failure> {
    if rows.is_empty() {
        return Ok(());
    }
    if rows.len() >= copied_min {
        return bulk::members(rows)?.write(transaction, &mut Increments::default()).await;
    }
    execute(transaction, MEMBERS, &values(&members_columns(&rows))).await?;
    Ok(())
}

/// Rows of members of groups, one array per column.
pub(super) fn members_columns(rows: &[MemberRow]) -> Vec<Cell<'_>> {
    vec![
        column(rows, |row| row.group),
        column(rows, |row| row.place),
        column(rows, |row| row.individual),
        column(rows, |row| row.role),
        column(rows, |row| row.first_day),
        column(rows, |row| row.last_day),
        column(rows, |row| row.is_set_aside),
    ]
}

/// Rows of memberships in programs, one array per column, in the order of [`Columns`].
pub(super) fn memberships_columns(rows: &[MembershipRow]) -> Vec<Cell<'_>> {
    let mut columns = vec![
        column(rows, |row| row.id),
        column(rows, |row| row.beneficiary_kind),
        column(rows, |row| row.beneficiary),
        column(rows, |row| row.program),
        column(rows, |row| row.status),
        column(rows, |row| row.last_updated),
    ];
    columns.extend(each_column(rows, |row| row.days.as_slice()));
    columns
}

/// Rows of consents, one array per column.
pub(super) fn consents_columns(consents: &[Arc<Consent>]) -> Vec<Cell<'_>> {
    let opens = |details: &ConsentDetails, resource| details.resources().any(|opened| opened == resource);
    let own = |kind| match kind {
        Subject::Individual => Resource::Individual,
        Subject::Group => Resource::Group,
    };
    vec![
        column(consents, |consent| key(consent.id)),
        each(consents, |details| details.id().to_string()),
        each(consents, |details| subject_kind(details.subject().kind)),
        each(consents, |details| key(details.subject().id)),
        each(consents, ConsentDetails::grantee),
        each(consents, |details| details.get(PURPOSE).and_then(purpose)),
        each(consents, |details| Day::from(details.effective_date())),
        each(consents, |details| details.get(EXPIRY_DATE).map_or(Day::LAST, Day::from)),
        each(consents, ConsentDetails::is_withdrawn),
        each(consents, |details| opens(details, own(details.subject().kind))),
        each(consents, |details| opens(details, Resource::ProgramMembership)),
        each(consents, fields),
    ]
}

/// One column of some consents.
fn each<'r, V>(consents: &'r [Arc<Consent>], of: impl Fn(&'r ConsentDetails) -> V) -> Cell<'r>
where
    V: ToSql + Sync + Send + 'r,
{
    column(consents, |consent| of(&consent.details))
}

/// A purpose as filters name it. One with characters that no filter has and PostgreSQL cannot store never matches.
fn purpose(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|purpose| !purpose.is_empty() && !purpose.contains('\0'))
}

/// The fields to which a consent grants access, if it names some; unknown names are dropped.
fn fields(details: &ConsentDetails) -> Option<String> {
    let known: Vec<&str> = details.items(FIELD_NAMES).filter(|name| is_consent_field(name)).collect();
    details.has(FIELD_NAMES).then(|| array(&known))
}

/// Individuals, and last the terms whose counters change and by how much.
pub(super) static INDIVIDUALS: LazyLock<String> = LazyLock::new(|| subjects(&columns::INDIVIDUALS, Kind::Individual));

/// Groups without their members, and last the terms whose counters change and by how much.
pub(super) static GROUPS: LazyLock<String> = LazyLock::new(|| subjects(&columns::GROUPS, Kind::Group));

fn subjects(columns: &Columns, kind: Kind) -> String {
    let (table, insert, kind) = (columns.table, columns.insert(), kind as i16);
    let (terms, records) = (columns.count() + 1, columns.count() + 2);
    format!(
        "\
WITH old AS (SELECT id, terms FROM daftar.{table} WHERE id = ANY($1)),
     lost AS (
         SELECT old.id, held.term FROM old CROSS JOIN LATERAL unnest(tsvector_to_array(old.terms)) AS held(term)
         WHERE left(held.term, 1) IN ('c', 'e', 'x')
     ),
     written AS ({insert}),
     counted AS (
         SELECT term, records FROM unnest(${terms}::text[], ${records}::bigint[]) AS gained(term, records)
         UNION ALL SELECT '', -count(*) FROM old
         UNION ALL SELECT term, -count(*) FROM lost GROUP BY term
         UNION ALL
         SELECT 'k' || code, -count(*)
         FROM (SELECT DISTINCT id, split_part(term, '#', 2) AS code FROM lost WHERE term <> 'x') AS anywhere
         GROUP BY code
     )
INSERT INTO daftar.search_tally (kind, term, code, records)
SELECT {kind}, term, CASE WHEN left(term, 1) IN ('c', 'e') THEN split_part(term, '#', 2)::bigint END, sum(records)::bigint
FROM counted GROUP BY term HAVING sum(records) <> 0 ORDER BY term
ON CONFLICT (kind, term) DO UPDATE SET records = daftar.search_tally.records + excluded.records"
    )
}

/// Deletes the members of some groups.
pub(super) const REMOVE_MEMBERS: &str = "DELETE FROM daftar.search_member WHERE group_id = ANY($1::bigint[])";

/// Members of groups.
pub(super) const MEMBERS: &str = "\
INSERT INTO daftar.search_member (group_id, place, individual, role, first_day, last_day, is_set_aside)
SELECT * FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::bigint[], $5::date[], $6::date[],
    $7::boolean[])";

/// Memberships in programs.
pub(super) static MEMBERSHIPS: LazyLock<String> = LazyLock::new(|| {
    let insert = columns::MEMBERSHIPS.insert();
    format!(
        "\
WITH old AS (SELECT id FROM daftar.search_membership WHERE id = ANY($1)),
     written AS ({insert})
INSERT INTO daftar.search_tally (kind, term, records)
SELECT 4, '', cardinality($1) - count(*) FROM old
ON CONFLICT (kind, term) DO UPDATE SET records = daftar.search_tally.records + excluded.records"
    )
});

/// Consents in the form of parameters.
pub(super) const NEW_CONSENTS: &str = "\
SELECT id, consent_id::uuid, subject_kind, subject, grantee, purpose, first_day, last_day, is_withdrawn, opens_subject,
    opens_memberships, fields::text[] COLLATE \"C\" AS fields
FROM unnest($1::bigint[], $2::text[], $3::smallint[], $4::bigint[], $5::text[], $6::text[], $7::date[], $8::date[],
    $9::boolean[], $10::boolean[], $11::boolean[], $12::text[])
AS new(id, consent_id, subject_kind, subject, grantee, purpose, first_day, last_day, is_withdrawn, opens_subject,
    opens_memberships, fields)";

/// Consents.
pub(super) static CONSENTS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "\
WITH old AS (SELECT id FROM daftar.search_consent WHERE id = ANY($1)),
     written AS (
     INSERT INTO daftar.search_consent (id, consent_id, subject_kind, subject, grantee, purpose, first_day, last_day,
         is_withdrawn, opens_subject, opens_memberships, fields)
     {NEW_CONSENTS}
     ON CONFLICT (id) DO UPDATE SET consent_id = excluded.consent_id, subject_kind = excluded.subject_kind,
         subject = excluded.subject, grantee = excluded.grantee, purpose = excluded.purpose,
         first_day = excluded.first_day, last_day = excluded.last_day, is_withdrawn = excluded.is_withdrawn,
         opens_subject = excluded.opens_subject, opens_memberships = excluded.opens_memberships,
         fields = excluded.fields
     )
INSERT INTO daftar.search_tally (kind, term, records)
SELECT 5, '', cardinality($1) - count(*) FROM old
ON CONFLICT (kind, term) DO UPDATE SET records = daftar.search_tally.records + excluded.records"
    )
});
