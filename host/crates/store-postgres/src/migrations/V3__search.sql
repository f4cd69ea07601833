-- The search index, next to the values of the records: rewritten in the transaction that writes them.
--
-- The tables of memberships and consents have a foreign key to their own record. Those of individuals, groups and members
-- have none: the comments of `search_individual` and `search_member` state its cost. No table has foreign keys to other
-- records: a register with dangling references can be moved and verified too. The program writes rows and records in one
-- transaction, and `daftar verify` compares both.

CREATE TABLE daftar.search_individual (
    id bigint PRIMARY KEY,
    terms tsvector NOT NULL,
    more_words text[] COLLATE "C",
    is_inactive boolean NOT NULL,
    name text COLLATE "C",
    birth_date date,
    deceased_date date,
    registration_date date,
    last_updated timestamptz NOT NULL,
    gender bigint,
    marital_status bigint,
    country bigint,
    religion bigint,
    ethnocultural_status bigint,
    education bigint,
    occupation bigint,
    economic_activity bigint,
    pregnancy_status bigint,
    income_currency bigint
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);
CREATE INDEX search_individual_terms ON daftar.search_individual USING gin (terms) WITH (gin_pending_list_limit = 512);
CREATE INDEX search_individual_name ON daftar.search_individual (name);
CREATE INDEX search_individual_birth_date ON daftar.search_individual (birth_date);
CREATE INDEX search_individual_deceased_date ON daftar.search_individual (deceased_date);
CREATE INDEX search_individual_registration_date ON daftar.search_individual (registration_date);
CREATE INDEX search_individual_last_updated ON daftar.search_individual (last_updated);

COMMENT ON TABLE daftar.search_individual IS 'Search index of individuals: one row for each record of kind 1, written in the transaction that writes the record. '
    'No foreign key to daftar.record: its check took 6 microseconds a row and locked the record, 0.6 of the 12.6 seconds of an import of 100,000 individuals (5 %), and daftar verify compares both. '
    'Vacuumed at 2 % of changed and 5 % of new rows, not at 20 %: searches read the index over terms, into which vacuum merges pending entries, and a table of ten million rows would wait for two million changes.';
COMMENT ON COLUMN daftar.search_individual.id IS 'Key of the record (daftar.record.id).';
COMMENT ON COLUMN daftar.search_individual.terms IS 'All search terms of the record, as one set, so that one index serves any combination of words, phrases, codes and identifiers. The first letter is the kind of term: '
    'n, a: a word of the name, of an address; p: a text of a part, whole, behind its tags; c, e: a code in a field of every registry (by the number of the field), in a field of a module (by its path), as in c7#123 with the number of daftar.code; '
    'i: an identifier, as a digest; x: the record is inactive; !: there are more words, in more_words.';
COMMENT ON COLUMN daftar.search_individual.more_words IS 'Words that are too long or too many for terms; NULL if there are none.';
COMMENT ON COLUMN daftar.search_individual.is_inactive IS 'True if the record is inactive (active = false).';
COMMENT ON COLUMN daftar.search_individual.name IS 'The text by which names are sorted: folded, without case and accents, family name first, truncated to the part that counts in an order. NULL if there is none.';
COMMENT ON COLUMN daftar.search_individual.birth_date IS 'The field birth_date.';
COMMENT ON COLUMN daftar.search_individual.deceased_date IS 'The field deceased_date.';
COMMENT ON COLUMN daftar.search_individual.registration_date IS 'The field registration_date.';
COMMENT ON COLUMN daftar.search_individual.last_updated IS 'Time at which the current version was written, to the millisecond.';
COMMENT ON COLUMN daftar.search_individual.gender IS 'Number in daftar.code of the field gender, for orders.';
COMMENT ON COLUMN daftar.search_individual.marital_status IS 'Number in daftar.code of the field marital_status, for orders.';
COMMENT ON COLUMN daftar.search_individual.country IS 'Number in daftar.code of the field country, for orders.';
COMMENT ON COLUMN daftar.search_individual.religion IS 'Number in daftar.code of the field religion, for orders.';
COMMENT ON COLUMN daftar.search_individual.ethnocultural_status IS 'Number in daftar.code of the field ethnocultural_status, for orders.';
COMMENT ON COLUMN daftar.search_individual.education IS 'Number in daftar.code of the field education, for orders.';
COMMENT ON COLUMN daftar.search_individual.occupation IS 'Number in daftar.code of the field occupation, for orders.';
COMMENT ON COLUMN daftar.search_individual.economic_activity IS 'Number in daftar.code of the field economic_activity, for orders.';
COMMENT ON COLUMN daftar.search_individual.pregnancy_status IS 'Number in daftar.code of the field pregnancy_status, for orders.';
COMMENT ON COLUMN daftar.search_individual.income_currency IS 'Number in daftar.code of the currency of the field income, for orders.';
COMMENT ON CONSTRAINT search_individual_pkey ON daftar.search_individual IS 'One row for each individual.';
COMMENT ON INDEX daftar.search_individual_terms IS 'Serves every filter except those on days. Every search reads the list of pending entries (gin_pending_list_limit, in KiB): it stays short.';
COMMENT ON INDEX daftar.search_individual_name IS 'Order by name.';
COMMENT ON INDEX daftar.search_individual_birth_date IS 'Filter and order by birth_date.';
COMMENT ON INDEX daftar.search_individual_registration_date IS 'Filter and order by registration_date.';
COMMENT ON INDEX daftar.search_individual_last_updated IS 'Filter and order by last_updated.';
COMMENT ON INDEX daftar.search_individual_deceased_date IS 'For searches by deceased_date alone, which the API offers as filter and order. It has no scans while no client uses them; it is kept since NULLs, which most rows have here, are stored once for many rows.';

CREATE TABLE daftar.search_group (
    id bigint PRIMARY KEY,
    terms tsvector NOT NULL,
    more_words text[] COLLATE "C",
    is_inactive boolean NOT NULL,
    name text COLLATE "C",
    registration_date date,
    last_updated timestamptz NOT NULL,
    group_type bigint,
    housing_type bigint
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);
CREATE INDEX search_group_terms ON daftar.search_group USING gin (terms) WITH (gin_pending_list_limit = 512);
CREATE INDEX search_group_name ON daftar.search_group (name);
CREATE INDEX search_group_registration_date ON daftar.search_group (registration_date);
CREATE INDEX search_group_last_updated ON daftar.search_group (last_updated);

COMMENT ON TABLE daftar.search_group IS 'Search index of groups: one row for each record of kind 2. No foreign key, and vacuumed early, for the reasons of search_individual.';
COMMENT ON COLUMN daftar.search_group.id IS 'Key of the record (daftar.record.id).';
COMMENT ON COLUMN daftar.search_group.terms IS 'All search terms of the record, as in search_individual.';
COMMENT ON COLUMN daftar.search_group.more_words IS 'Words that are too long or too many for terms; NULL if there are none.';
COMMENT ON COLUMN daftar.search_group.is_inactive IS 'True if the record is inactive (active = false).';
COMMENT ON COLUMN daftar.search_group.name IS 'The name, folded, truncated to the part that counts in an order. NULL if there is none.';
COMMENT ON COLUMN daftar.search_group.registration_date IS 'The field registration_date.';
COMMENT ON COLUMN daftar.search_group.last_updated IS 'Time at which the current version was written, to the millisecond.';
COMMENT ON COLUMN daftar.search_group.group_type IS 'Number in daftar.code of the field group_type, for orders.';
COMMENT ON COLUMN daftar.search_group.housing_type IS 'Number in daftar.code of the field housing_type, for orders.';
COMMENT ON CONSTRAINT search_group_pkey ON daftar.search_group IS 'One row for each group.';
COMMENT ON INDEX daftar.search_group_terms IS 'As search_individual_terms.';
COMMENT ON INDEX daftar.search_group_name IS 'Order by name.';
COMMENT ON INDEX daftar.search_group_registration_date IS 'Filter and order by registration_date.';
COMMENT ON INDEX daftar.search_group_last_updated IS 'Filter and order by last_updated.';

CREATE TABLE daftar.search_member (
    group_id bigint NOT NULL,
    place integer NOT NULL,
    individual bigint NOT NULL,
    role bigint,
    first_day date NOT NULL,
    last_day date NOT NULL,
    is_set_aside boolean NOT NULL,
    PRIMARY KEY (group_id, place),
    CONSTRAINT search_member_period CHECK (first_day <= last_day)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);
CREATE INDEX search_member_individual ON daftar.search_member (individual, group_id);

COMMENT ON TABLE daftar.search_member IS 'The members of groups: one row for each member of each group. All rows of a group are rewritten with it. '
    'No foreign key to daftar.record: its check took 8 microseconds a row at COMMIT, while daftar.last is locked and no statement_timeout applies: 1.6 seconds instead of 0.04 for 200,000 rows. daftar verify compares both. '
    'Vacuumed at 5 % and analyzed at 2 % of changed rows, not at 20 % and 10 %, for the reason of daftar.record.';
COMMENT ON COLUMN daftar.search_member.group_id IS 'Key of the group (daftar.record.id of kind 2).';
COMMENT ON COLUMN daftar.search_member.place IS 'Position of the member in the group''s list, counted from 0.';
COMMENT ON COLUMN daftar.search_member.individual IS 'Key of the individual (daftar.record.id of kind 1). No foreign key: a register with dangling references can be moved and verified too.';
COMMENT ON COLUMN daftar.search_member.role IS 'Number in daftar.code of the member''s role; NULL if it has none.';
COMMENT ON COLUMN daftar.search_member.first_day IS 'First day of the membership in the group; -infinity if that side is open.';
COMMENT ON COLUMN daftar.search_member.last_day IS 'Last day of the membership in the group; infinity if that side is open, so that a comparison needs no second condition.';
COMMENT ON COLUMN daftar.search_member.is_set_aside IS 'True if the record marks the member as inactive: the row still leads from the individual to the group, and counts in no search.';
COMMENT ON CONSTRAINT search_member_pkey ON daftar.search_member IS 'A position in a group belongs to one member.';
COMMENT ON CONSTRAINT search_member_period ON daftar.search_member IS 'A membership does not end before it begins.';
COMMENT ON INDEX daftar.search_member_individual IS 'From an individual to the groups.';

CREATE TABLE daftar.search_membership (
    id bigint PRIMARY KEY,
    beneficiary_kind smallint NOT NULL CHECK (beneficiary_kind IN (1, 2)),
    beneficiary bigint NOT NULL,
    program bigint NOT NULL,
    status text COLLATE "C" NOT NULL
        CONSTRAINT search_membership_status_is_known CHECK (status IN ('draft', 'duplicated', 'enrolled', 'exited', 'not_eligible', 'paused')),
    enrollment_date date,
    exit_date date,
    last_updated timestamptz NOT NULL,
    membership_kind smallint NOT NULL DEFAULT 4 CHECK (membership_kind = 4),
    CONSTRAINT search_membership_record FOREIGN KEY (membership_kind, id) REFERENCES daftar.record DEFERRABLE INITIALLY DEFERRED
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
CREATE INDEX search_membership_beneficiary ON daftar.search_membership (beneficiary, beneficiary_kind);
CREATE INDEX search_membership_program ON daftar.search_membership (program, status, id);
CREATE INDEX search_membership_status ON daftar.search_membership (status, id);
CREATE INDEX search_membership_status_last ON daftar.search_membership (status DESC, id);
CREATE INDEX search_membership_enrollment_date ON daftar.search_membership (enrollment_date);
CREATE INDEX search_membership_exit_date ON daftar.search_membership (exit_date);
CREATE INDEX search_membership_last_updated ON daftar.search_membership (last_updated);

COMMENT ON TABLE daftar.search_membership IS 'Search index of memberships in programs: one row for each record of kind 4. '
    'Vacuumed and analyzed at 2 % of changed rows, not at 20 % and 10 %, for the reason of search_individual.';
COMMENT ON COLUMN daftar.search_membership.id IS 'Key of the record (daftar.record.id).';
COMMENT ON COLUMN daftar.search_membership.beneficiary_kind IS 'Kind of the beneficiary, as in daftar.record: 1 an individual, 2 a group.';
COMMENT ON COLUMN daftar.search_membership.beneficiary IS 'Key of the beneficiary (daftar.record.id of that kind). No foreign key, as for daftar.search_member.individual.';
COMMENT ON COLUMN daftar.search_membership.program IS 'Key of the program (daftar.record.id of kind 3). No foreign key, as for daftar.search_member.individual.';
COMMENT ON COLUMN daftar.search_membership.status IS 'The field status. The API sorts memberships by its name, as COLLATE "C" does.';
COMMENT ON COLUMN daftar.search_membership.enrollment_date IS 'The field enrollment_date.';
COMMENT ON COLUMN daftar.search_membership.exit_date IS 'The field exit_date.';
COMMENT ON COLUMN daftar.search_membership.last_updated IS 'Time at which the current version was written, to the millisecond.';
COMMENT ON COLUMN daftar.search_membership.membership_kind IS 'Always 4, for the foreign key.';
COMMENT ON CONSTRAINT search_membership_pkey ON daftar.search_membership IS 'One row for each membership.';
COMMENT ON CONSTRAINT search_membership_beneficiary_kind_check ON daftar.search_membership IS 'The beneficiary is an individual or a group.';
COMMENT ON CONSTRAINT search_membership_status_is_known ON daftar.search_membership IS 'The statuses of memberships. A release that adds one changes this first.';
COMMENT ON CONSTRAINT search_membership_membership_kind_check ON daftar.search_membership IS 'The kind of memberships.';
COMMENT ON CONSTRAINT search_membership_record ON daftar.search_membership IS 'The membership exists. Checked at the end of the transaction.';
COMMENT ON INDEX daftar.search_membership_beneficiary IS 'Memberships of one beneficiary.';
COMMENT ON INDEX daftar.search_membership_program IS 'Memberships in one program, by status.';
COMMENT ON INDEX daftar.search_membership_enrollment_date IS 'Filter and order by enrollment_date.';
COMMENT ON INDEX daftar.search_membership_exit_date IS 'Filter and order by exit_date.';
COMMENT ON INDEX daftar.search_membership_last_updated IS 'Filter and order by last_updated.';
COMMENT ON INDEX daftar.search_membership_status IS 'Leads through all memberships by status, and within one in the order in which they were registered.';
COMMENT ON INDEX daftar.search_membership_status_last IS 'The same from the last status to the first: the order within one status is ascending in both directions, so a backward scan of search_membership_status does not suffice.';

CREATE TABLE daftar.search_consent (
    id bigint PRIMARY KEY,
    consent_id uuid NOT NULL,
    subject_kind smallint NOT NULL CHECK (subject_kind IN (1, 2)),
    subject bigint NOT NULL,
    grantee text COLLATE "C" NOT NULL,
    purpose text COLLATE "C",
    first_day date NOT NULL,
    last_day date NOT NULL,
    is_withdrawn boolean NOT NULL,
    opens_subject boolean NOT NULL,
    opens_memberships boolean NOT NULL,
    fields text[] COLLATE "C",
    consent_kind smallint NOT NULL DEFAULT 5 CHECK (consent_kind = 5),
    CONSTRAINT search_consent_period CHECK (first_day <= last_day),
    CONSTRAINT search_consent_record FOREIGN KEY (consent_kind, id) REFERENCES daftar.record DEFERRABLE INITIALLY DEFERRED
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);
CREATE UNIQUE INDEX search_consent_consent_id ON daftar.search_consent (consent_id);
CREATE INDEX search_consent_subject ON daftar.search_consent (subject, subject_kind);
CREATE INDEX search_consent_grantee ON daftar.search_consent (grantee, subject, subject_kind);

COMMENT ON TABLE daftar.search_consent IS 'Access that consents grant, for searches and reads: one row for each record of kind 5. '
    'Vacuumed at 5 % and analyzed at 2 % of changed rows, not at 20 % and 10 %, for the reason of daftar.record.';
COMMENT ON COLUMN daftar.search_consent.id IS 'Key of the record (daftar.record.id).';
COMMENT ON COLUMN daftar.search_consent.consent_id IS 'The id in the API and in the audit log.';
COMMENT ON COLUMN daftar.search_consent.subject_kind IS 'Kind of the subject, as in daftar.record: 1 an individual, 2 a group.';
COMMENT ON COLUMN daftar.search_consent.subject IS 'Key of the subject (daftar.record.id of that kind). No foreign key, as for daftar.search_member.individual.';
COMMENT ON COLUMN daftar.search_consent.grantee IS 'The organization to which the consent is given.';
COMMENT ON COLUMN daftar.search_consent.purpose IS 'The purpose, without white space around it; NULL if there is none.';
COMMENT ON COLUMN daftar.search_consent.first_day IS 'The field effective_date.';
COMMENT ON COLUMN daftar.search_consent.last_day IS 'The field expiry_date; infinity if there is none.';
COMMENT ON COLUMN daftar.search_consent.is_withdrawn IS 'True if it was withdrawn: then it permits nothing.';
COMMENT ON COLUMN daftar.search_consent.opens_subject IS 'True if it permits reading the record of the subject.';
COMMENT ON COLUMN daftar.search_consent.opens_memberships IS 'True if it permits reading the subject''s memberships in programs.';
COMMENT ON COLUMN daftar.search_consent.fields IS 'The fields that it permits; NULL if it permits every field.';
COMMENT ON COLUMN daftar.search_consent.consent_kind IS 'Always 5, for the foreign key.';
COMMENT ON CONSTRAINT search_consent_pkey ON daftar.search_consent IS 'One row for each consent.';
COMMENT ON CONSTRAINT search_consent_subject_kind_check ON daftar.search_consent IS 'The subject is an individual or a group.';
COMMENT ON CONSTRAINT search_consent_period ON daftar.search_consent IS 'A consent does not expire before it begins.';
COMMENT ON CONSTRAINT search_consent_consent_kind_check ON daftar.search_consent IS 'The kind of consents.';
COMMENT ON CONSTRAINT search_consent_record ON daftar.search_consent IS 'The consent exists. Checked at the end of the transaction.';
COMMENT ON INDEX daftar.search_consent_consent_id IS 'Guard: an id in the API belongs to one consent. No query uses it, so it has no scans: do not drop it.';
COMMENT ON INDEX daftar.search_consent_subject IS 'Consents of one subject.';
COMMENT ON INDEX daftar.search_consent_grantee IS 'Access of one organization: for conditions on each row of a search.';

CREATE TABLE daftar.search_tally (
    kind smallint NOT NULL CHECK (kind IN (1, 2, 4, 5)),
    term text COLLATE "C" NOT NULL,
    code bigint,
    records bigint NOT NULL,
    PRIMARY KEY (kind, term)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);
CREATE INDEX search_tally_code ON daftar.search_tally (code) WHERE code IS NOT NULL;

COMMENT ON TABLE daftar.search_tally IS 'Number of records of a kind that have a term, so that the commonest totals are read and not counted. '
    'Every write changes the same few rows: pages are half empty, so that a new version of a row finds space in its page (HOT), and vacuum runs early.';
COMMENT ON COLUMN daftar.search_tally.kind IS 'Kind of the records, as in daftar.record.';
COMMENT ON COLUMN daftar.search_tally.term IS 'A code (c…, e…) or x, as in search_individual.terms; empty for every record; k123 for records that have code 123 in any field.';
COMMENT ON COLUMN daftar.search_tally.code IS 'Number in daftar.code of a term c or e.';
COMMENT ON COLUMN daftar.search_tally.records IS 'Number of records that have the term.';
COMMENT ON CONSTRAINT search_tally_pkey ON daftar.search_tally IS 'A term has one count for each kind.';
COMMENT ON CONSTRAINT search_tally_kind_check ON daftar.search_tally IS 'The kinds of records that have search rows.';
COMMENT ON INDEX daftar.search_tally_code IS 'Fields in which records have a code.';

CREATE TABLE daftar.search_behind (
    kind smallint NOT NULL,
    id bigint NOT NULL,
    revision integer NOT NULL,
    PRIMARY KEY (kind, id)
);

COMMENT ON TABLE daftar.search_behind IS 'Records whose search rows were written by a program that does not know all of their fields, as during an upgrade. Empty otherwise: a program that knows their fields rewrites the rows and deletes the entry.';
COMMENT ON COLUMN daftar.search_behind.kind IS 'Kind of the record, as in daftar.record.';
COMMENT ON COLUMN daftar.search_behind.id IS 'Key of the record (daftar.record.id).';
COMMENT ON COLUMN daftar.search_behind.revision IS 'The revision of the schema that knows all of its fields.';
COMMENT ON CONSTRAINT search_behind_pkey ON daftar.search_behind IS 'A record is noted once.';
