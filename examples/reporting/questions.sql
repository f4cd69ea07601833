-- The queries of the guide "Reporting". Each starts with a line `-- N. Title` and is one statement. They are the same for files of `daftar export
-- --format parquet` in DuckDB and for the schema `reporting` of PostgreSQL (SET search_path TO reporting). The queries are for 30 June 2026;
-- replace the date by CURRENT_DATE for today.

-- 1. Caseload by month and region
WITH month AS (
    SELECT DISTINCT CAST(date_trunc('month', enrollment_date) AS date) AS first_day
    FROM program_membership
    WHERE enrollment_date IS NOT NULL
)
SELECT month.first_day, coalesce(person.address_region, household.address_region) AS region, count(*) AS caseload
FROM month
JOIN program_membership AS membership
    ON membership.enrollment_date < month.first_day + INTERVAL '1 month'
    AND (membership.exit_date IS NULL OR membership.exit_date >= month.first_day)
LEFT JOIN individual AS person
    ON membership.beneficiary_kind = 'Individual' AND person.id = membership.beneficiary_id
LEFT JOIN household
    ON membership.beneficiary_kind = 'Group' AND household.id = membership.beneficiary_id
WHERE membership.status IN ('enrolled', 'paused', 'exited')
GROUP BY 1, 2
ORDER BY 1, 2;

-- 2. Households with a child under five
SELECT household.id, household.name, count(*) AS children
FROM household
JOIN household_member AS member ON member.household_id = household.id
JOIN individual AS child ON child.id = member.individual_id
WHERE NOT member.inactive
    AND (member.period_end IS NULL OR member.period_end >= DATE '2026-06-30')
    AND child.birth_date > DATE '2026-06-30' - INTERVAL '5 years'
    AND child.deceased_date IS NULL
GROUP BY household.id, household.name
ORDER BY household.id;

-- 3. Enrolled but dead
SELECT membership.program_id, person.id, person.name_family, person.name_given, person.deceased_date
FROM program_membership AS membership
JOIN individual AS person ON membership.beneficiary_kind = 'Individual' AND person.id = membership.beneficiary_id
WHERE membership.status = 'enrolled' AND person.deceased_date IS NOT NULL
ORDER BY person.id, membership.program_id;

-- 4. The same name and day of birth
SELECT lower(name_family) AS family, lower(name_given) AS given, birth_date, count(*) AS people, min(id) AS one, max(id) AS another
FROM individual
WHERE active AND birth_date IS NOT NULL
GROUP BY 1, 2, 3
HAVING count(*) > 1
ORDER BY 1, 2, 3;

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
    WHERE card.individual_id = person.id
        AND card.system = 'urn:svc:vocab:id-type#national_id'
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
    AND other.beneficiary_id = one.beneficiary_id
    AND other.program_id > one.program_id
WHERE one.status = 'enrolled' AND other.status = 'enrolled'
ORDER BY 1, 2, 3, 4;

-- 10. Enrolled people by gender and age
SELECT
    coalesce(person.gender_label, 'not recorded') AS gender,
    CASE
        WHEN person.birth_date > DATE '2026-06-30' - INTERVAL '18 years' THEN 'under 18'
        WHEN person.birth_date > DATE '2026-06-30' - INTERVAL '60 years' THEN '18 to 59'
        WHEN person.birth_date IS NULL THEN 'not recorded'
        ELSE '60 and more'
    END AS age,
    count(DISTINCT person.id) AS people
FROM program_membership AS membership
JOIN individual AS person ON membership.beneficiary_kind = 'Individual' AND person.id = membership.beneficiary_id
WHERE membership.status = 'enrolled' AND person.deceased_date IS NULL
GROUP BY 1, 2
ORDER BY 1, 2;
