-- The queries of the guide "Reporting". Each starts with a line `-- N. Title` and is one statement. They are the same for files of `daftar export
-- --format parquet` in DuckDB and for the schema `reporting` of PostgreSQL (SET search_path TO reporting). The queries are for 30 June 2026;
-- replace the date by CURRENT_DATE for today. Rows are joined by keys: an id may be that of several records.

-- 1. Caseload by month and region
WITH RECURSIVE membership AS (
    SELECT
        joined.enrollment_date, joined.exit_date, joined.program_key, joined.beneficiary_kind, joined.beneficiary_key,
        coalesce(person.address_region, household.address_region) AS region
    FROM program_membership AS joined
    LEFT JOIN individual AS person
        ON joined.beneficiary_kind = 'Individual' AND person.key = joined.beneficiary_key
    LEFT JOIN household
        ON joined.beneficiary_kind = 'Group' AND household.key = joined.beneficiary_key
    WHERE joined.status IN ('enrolled', 'paused', 'exited') AND joined.enrollment_date <= DATE '2026-06-30'
), month AS (
    SELECT CAST(date_trunc('month', min(enrollment_date)) AS date) AS first_day
    FROM membership
    UNION ALL
    SELECT CAST(first_day + INTERVAL '1 month' AS date)
    FROM month
    WHERE first_day + INTERVAL '1 month' <= DATE '2026-06-30'
), served AS (
    SELECT DISTINCT month.first_day, membership.region, program_key, beneficiary_kind, beneficiary_key
    FROM month
    JOIN membership
        ON membership.enrollment_date < month.first_day + INTERVAL '1 month'
        AND (membership.exit_date IS NULL OR membership.exit_date >= month.first_day)
)
SELECT first_day, region, count(*) AS caseload
FROM served
GROUP BY 1, 2
ORDER BY 1, 2;

-- 2. Households with a child under five
SELECT household.id, household.name, count(DISTINCT child.key) AS children
FROM household
JOIN household_member AS member ON member.household_key = household.key
JOIN individual AS child ON child.key = member.individual_key
WHERE NOT member.inactive
    AND (member.period_start IS NULL OR member.period_start <= DATE '2026-06-30')
    AND (member.period_end IS NULL OR member.period_end >= DATE '2026-06-30')
    AND child.birth_date > DATE '2026-06-30' - INTERVAL '5 years'
    AND child.deceased_date IS NULL
GROUP BY household.key, household.id, household.name
ORDER BY household.id;

-- 3. Enrolled but dead
SELECT membership.program_id, person.id, person.name_family, person.name_given, person.deceased_date
FROM program_membership AS membership
JOIN individual AS person ON membership.beneficiary_kind = 'Individual' AND person.key = membership.beneficiary_key
WHERE membership.status = 'enrolled' AND person.deceased_date IS NOT NULL
ORDER BY person.id, membership.program_id;

-- 4. The same name and day of birth
SELECT
    lower(name_family) AS family, lower(name_given) AS given,
    CASE WHEN coalesce(name_family, name_given) IS NULL THEN lower(name_text) END AS text,
    birth_date, count(*) AS people, min(id) AS one, max(id) AS another
FROM individual
WHERE active AND birth_date IS NOT NULL AND coalesce(name_family, name_given, name_text) IS NOT NULL
GROUP BY 1, 2, 3, 4
HAVING count(*) > 1
ORDER BY 1, 2, 3, 4;

-- 5. Consents that end within 30 days
SELECT id, subject_kind, subject_id, grantee, expiry_date
FROM consent
WHERE status <> 'withdrawn' AND expiry_date BETWEEN DATE '2026-06-30' AND DATE '2026-06-30' + 30
ORDER BY expiry_date, subject_id;

-- 6. People without an identity card
SELECT person.id, person.name_family, person.name_given
FROM individual AS person
WHERE NOT EXISTS (
    SELECT 1
    FROM individual_identifier AS card
    WHERE card.individual_key = person.key
        AND card.system = 'urn:svc:vocab:id-type#national_id'
        AND (card.period_start IS NULL OR card.period_start <= DATE '2026-06-30')
        AND (card.period_end IS NULL OR card.period_end >= DATE '2026-06-30')
)
ORDER BY person.id;

-- 7. Exits by month and reason
SELECT CAST(date_trunc('month', exit_date) AS date) AS first_day, exit_reason, count(*) AS exits
FROM program_membership
WHERE status = 'exited'
GROUP BY 1, 2
ORDER BY 1, 2;

-- 8. Average size of households by region
SELECT address_region, count(*) AS households, round(avg(quantity), 2) AS average_size
FROM household
WHERE active
GROUP BY address_region
ORDER BY address_region;

-- 9. Beneficiaries of two programs at once
SELECT one.beneficiary_kind, one.beneficiary_id, one.program_id AS program, other.program_id AS other_program
FROM program_membership AS one
JOIN program_membership AS other
    ON other.beneficiary_kind = one.beneficiary_kind
    AND other.beneficiary_key = one.beneficiary_key
    AND other.program_key > one.program_key
WHERE one.status = 'enrolled' AND other.status = 'enrolled'
ORDER BY 1, 2, 3, 4;

-- 10. Enrolled people by gender and age
SELECT
    coalesce(person.gender_label, person.gender, 'not recorded') AS gender,
    CASE
        WHEN person.birth_date > DATE '2026-06-30' - INTERVAL '18 years' THEN 'under 18'
        WHEN person.birth_date > DATE '2026-06-30' - INTERVAL '60 years' THEN '18 to 59'
        WHEN person.birth_date IS NULL THEN 'not recorded'
        ELSE '60 and more'
    END AS age,
    count(DISTINCT person.key) AS people
FROM program_membership AS membership
JOIN individual AS person ON membership.beneficiary_kind = 'Individual' AND person.key = membership.beneficiary_key
WHERE membership.status = 'enrolled' AND person.deceased_date IS NULL
GROUP BY 1, 2
ORDER BY 1, 2;
