//! Compares the stored rows of the index with those derived from the records.

use std::sync::{Arc, LazyLock};

use tokio_postgres::Client;

use super::columns;
use super::entry::{MemberRow, MembershipRow, SubjectRow};
use super::write::{NEW_CONSENTS, consents_columns, members_columns, memberships_columns, subjects_columns};
use crate::copy::{Cell, cell, values};
use crate::failure::Failure;
use crate::rows::kind_number;
use daftar_domain::change::ChangedRecord;
use daftar_domain::group::Group;
use daftar_domain::record::RecordKind;

static INDIVIDUALS: LazyLock<String> = LazyLock::new(|| columns::INDIVIDUALS.differing());
static GROUPS: LazyLock<String> = LazyLock::new(|| columns::GROUPS.differing());
static MEMBERSHIPS: LazyLock<String> = LazyLock::new(|| columns::MEMBERSHIPS.differing());

/// Groups whose members differ. The last parameter has the keys of all the groups.
const MEMBERS: &str = "\
WITH new AS (
         SELECT * FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::bigint[], $5::date[], $6::date[], $7::boolean[])
         AS new(group_id, place, individual, role, first_day, last_day, is_set_aside)
     ),
     held AS (
         SELECT group_id, place, individual, role, first_day, last_day, is_set_aside FROM daftar.search_member
         WHERE group_id = ANY($8::bigint[])
     )
SELECT DISTINCT group_id FROM (
    (SELECT * FROM new EXCEPT SELECT * FROM held) UNION ALL (SELECT * FROM held EXCEPT SELECT * FROM new)
) AS differing";

/// Consents whose rows differ.
static CONSENTS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "\
SELECT new.id FROM ({NEW_CONSENTS}) AS new LEFT JOIN daftar.search_consent AS held ON held.id = new.id
WHERE ROW(held.consent_id, held.subject_kind, held.subject, held.grantee, held.purpose, held.first_day, held.last_day,
        held.is_withdrawn, held.opens_subject, held.opens_memberships, held.fields)
    IS DISTINCT FROM ROW(new.consent_id, new.subject_kind, new.subject, new.grantee, new.purpose, new.first_day,
        new.last_day, new.is_withdrawn, new.opens_subject, new.opens_memberships, new.fields)"
    )
});

/// The kinds of records that have rows.
pub(crate) const KINDS: [RecordKind; 4] =
    [RecordKind::Individual, RecordKind::Group, RecordKind::ProgramMembership, RecordKind::Consent];

/// The tables of rows, each with the kind of its records and the column of their keys.
pub(crate) const TABLES: [(RecordKind, &str, &str); 5] = [
    (RecordKind::Individual, "search_individual", "id"),
    (RecordKind::Group, "search_group", "id"),
    (RecordKind::Group, "search_member", "group_id"),
    (RecordKind::ProgramMembership, "search_membership", "id"),
    (RecordKind::Consent, "search_consent", "id"),
];

/// The statement that returns keys of a table of rows after one, and for each whether its record exists.
pub(crate) fn rows_and_records(kind: RecordKind, table: &str, key: &str) -> String {
    let kind = kind_number(kind);
    format!(
        "SELECT held.id, record.id IS NOT NULL \
         FROM (SELECT DISTINCT {key} AS id FROM daftar.{table} WHERE {key} > $1 ORDER BY {key} LIMIT $2) AS held \
         LEFT JOIN daftar.record AS record ON record.kind = {kind} AND record.id = held.id ORDER BY held.id"
    )
}

/// Returns the keys of those records of one kind whose rows differ from those derived from them.
///
/// # Errors
/// If the database fails.
pub(crate) async fn differing(client: &Client, records: &[ChangedRecord]) -> Result<Vec<i64>, Failure> {
    let (mut people, mut groups, mut memberships, mut consents) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for record in records {
        match record {
            ChangedRecord::Individual(person) => people.push(SubjectRow::of_individual(person)),
            ChangedRecord::Group(group) => groups.push(Arc::clone(group)),
            ChangedRecord::ProgramMembership(membership) => memberships.push(MembershipRow::of(membership)),
            ChangedRecord::Consent(consent) => consents.push(Arc::clone(consent)),
            ChangedRecord::Program(_) => {}
        }
    }
    let mut differing = Vec::new();
    if !people.is_empty() {
        differing.extend(keys(client, &INDIVIDUALS, subjects_columns(&people)).await?);
    }
    if !groups.is_empty() {
        differing.extend(differing_groups(client, &groups).await?);
    }
    if !memberships.is_empty() {
        differing.extend(keys(client, &MEMBERSHIPS, memberships_columns(&memberships)).await?);
    }
    if !consents.is_empty() {
        differing.extend(keys(client, &CONSENTS, consents_columns(&consents)).await?);
    }
    differing.sort_unstable();
    differing.dedup();
    Ok(differing)
}

async fn differing_groups(client: &Client, groups: &[Arc<Group>]) -> Result<Vec<i64>, Failure> {
    let rows: Vec<SubjectRow> = groups.iter().map(|group| SubjectRow::of_group(group)).collect();
    let mut differing = keys(client, &GROUPS, subjects_columns(&rows)).await?;
    let members: Vec<MemberRow> = groups.iter().flat_map(|group| MemberRow::of(group)).collect();
    let mut columns = members_columns(&members);
    columns.push(cell(rows.iter().map(|row| row.id).collect::<Vec<i64>>()));
    differing.extend(keys(client, MEMBERS, columns).await?);
    Ok(differing)
}

async fn keys(client: &Client, statement: &str, columns: Vec<Cell<'_>>) -> Result<Vec<i64>, Failure> {
    let rows = client.query(statement, &values(&columns)).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}
