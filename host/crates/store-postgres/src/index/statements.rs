//! The statements that write rows. Each takes its rows as one array a column, and changes the tallies by what it took away and what it
//! brought.

use std::sync::LazyLock;

use super::columns::{self, Columns};
use super::tally::Kind;

/// People, and last the terms that tallies gain and how often.
pub(super) static INDIVIDUALS: LazyLock<String> = LazyLock::new(|| subjects(&columns::INDIVIDUALS, Kind::Individual));

/// Groups without their members, and last the terms that tallies gain and how often.
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

/// The terms that the tallies of a kind gain, and how often.
pub(super) const GAIN: &str = "\
INSERT INTO daftar.search_tally (kind, term, code, records)
SELECT $1, term, CASE WHEN left(term, 1) IN ('c', 'e') THEN split_part(term, '#', 2)::bigint END, records
FROM unnest($2::text[], $3::bigint[]) AS gained(term, records) ORDER BY term
ON CONFLICT (kind, term) DO UPDATE SET records = daftar.search_tally.records + excluded.records";

/// Takes away who belongs to some groups.
pub(super) const REMOVE_MEMBERS: &str = "DELETE FROM daftar.search_member WHERE group_id = ANY($1::bigint[])";

/// Who belongs to groups.
pub(super) const MEMBERS: &str = "\
INSERT INTO daftar.search_member (group_id, place, individual, role, first_day, last_day, is_set_aside)
SELECT * FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::bigint[], $5::integer[], $6::integer[],
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

/// Consents.
pub(super) const CONSENTS: &str = "\
WITH old AS (SELECT id FROM daftar.search_consent WHERE id = ANY($1)),
     written AS (
     INSERT INTO daftar.search_consent (id, consent_id, subject, record, is_group, grantee, purpose, first_day, last_day,
         is_withdrawn, opens_subject, opens_memberships, fields)
     SELECT id, consent_id::uuid, subject, subject / 2, subject % 2 = 1, grantee, purpose, first_day, last_day, is_withdrawn, opens_subject,
         opens_memberships, fields::text[]
     FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::integer[], $7::integer[],
         $8::boolean[], $9::boolean[], $10::boolean[], $11::text[])
     AS new(id, consent_id, subject, grantee, purpose, first_day, last_day, is_withdrawn, opens_subject,
         opens_memberships, fields)
     ON CONFLICT (id) DO UPDATE SET consent_id = excluded.consent_id, subject = excluded.subject, record =
         excluded.record, is_group = excluded.is_group, grantee =
         excluded.grantee, purpose = excluded.purpose, first_day = excluded.first_day, last_day = excluded.last_day,
         is_withdrawn = excluded.is_withdrawn, opens_subject = excluded.opens_subject, opens_memberships =
         excluded.opens_memberships, fields = excluded.fields
     )
INSERT INTO daftar.search_tally (kind, term, records)
SELECT 5, '', cardinality($1) - count(*) FROM old
ON CONFLICT (kind, term) DO UPDATE SET records = daftar.search_tally.records + excluded.records";
