-- What is searched, beside the values of the records: rewritten in the transaction that writes them.
--
-- `terms` holds everything that a record is found by as one set: a letter and what stands behind it.
--   n, a    a word of the name, of an address        p       a text of a part, whole, behind its tags
--   c, e    a code in a field of every registry (by the number of the field), in a field of a module (by its path); `c7#123`
--   i       an identifier, as a digest               x       the record says that it is not in use
--   !       there are more words, which do not fit: `more_words`
-- One index over all of it answers any combination by itself, and a beginning of a word is looked up as a word is.

CREATE TABLE daftar.search_individual (
    id bigint PRIMARY KEY,
    terms tsvector NOT NULL,
    more_words text[] COLLATE "C",
    is_inactive boolean NOT NULL,
    -- Folded, cut to what counts in an order.
    name bytea,
    -- Days since 1970-01-01.
    birth_date integer,
    deceased_date integer,
    registration_date integer,
    -- Milliseconds since 1970-01-01.
    last_updated bigint NOT NULL,
    -- Numbers of codes, by which people are put in order.
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
);

-- A list of pending entries is read by every search: it stays short.
CREATE INDEX search_individual_terms ON daftar.search_individual USING gin (terms) WITH (gin_pending_list_limit = 512);
CREATE INDEX search_individual_name ON daftar.search_individual (name);
CREATE INDEX search_individual_birth_date ON daftar.search_individual (birth_date);
CREATE INDEX search_individual_deceased_date ON daftar.search_individual (deceased_date);
CREATE INDEX search_individual_registration_date ON daftar.search_individual (registration_date);
CREATE INDEX search_individual_last_updated ON daftar.search_individual (last_updated);

CREATE TABLE daftar.search_group (
    id bigint PRIMARY KEY,
    terms tsvector NOT NULL,
    more_words text[] COLLATE "C",
    is_inactive boolean NOT NULL,
    name bytea,
    -- Days since 1970-01-01.
    registration_date integer,
    last_updated bigint NOT NULL,
    group_type bigint,
    housing_type bigint
);

CREATE INDEX search_group_terms ON daftar.search_group USING gin (terms) WITH (gin_pending_list_limit = 512);
CREATE INDEX search_group_name ON daftar.search_group (name);
CREATE INDEX search_group_registration_date ON daftar.search_group (registration_date);
CREATE INDEX search_group_last_updated ON daftar.search_group (last_updated);

-- Who belongs to which group. A place that is set aside leads from the person to the group still, and counts in no search.
CREATE TABLE daftar.search_member (
    group_id bigint NOT NULL,
    place integer NOT NULL,
    individual bigint NOT NULL,
    -- The number of the code that says as what.
    role bigint,
    -- The least and the greatest number where a side is open.
    first_day integer NOT NULL,
    last_day integer NOT NULL,
    is_set_aside boolean NOT NULL,
    PRIMARY KEY (group_id, place)
);

CREATE INDEX search_member_individual ON daftar.search_member (individual, group_id);

-- A beneficiary or subject is the key of its record times two, one more where it is a group.
CREATE TABLE daftar.search_membership (
    id bigint PRIMARY KEY,
    beneficiary bigint NOT NULL,
    program bigint NOT NULL,
    -- The place among all statuses by name.
    status smallint NOT NULL,
    enrollment_date integer,
    exit_date integer,
    last_updated bigint NOT NULL
);

CREATE INDEX search_membership_beneficiary ON daftar.search_membership (beneficiary);
CREATE INDEX search_membership_program ON daftar.search_membership (program, status, id);
CREATE INDEX search_membership_status ON daftar.search_membership (status, id);
CREATE INDEX search_membership_status_last ON daftar.search_membership (status DESC, id);
CREATE INDEX search_membership_enrollment_date ON daftar.search_membership (enrollment_date);
CREATE INDEX search_membership_exit_date ON daftar.search_membership (exit_date);
CREATE INDEX search_membership_last_updated ON daftar.search_membership (last_updated);

CREATE TABLE daftar.search_consent (
    id bigint PRIMARY KEY,
    consent_id uuid NOT NULL,
    subject bigint NOT NULL,
    -- The same in two: the key of the record, and which kind.
    record bigint NOT NULL,
    is_group boolean NOT NULL,
    grantee text COLLATE "C" NOT NULL,
    -- Without white space around it; nothing where none is meant.
    purpose text COLLATE "C",
    first_day integer NOT NULL,
    last_day integer NOT NULL,
    is_withdrawn boolean NOT NULL,
    opens_subject boolean NOT NULL,
    opens_memberships boolean NOT NULL,
    -- Every field, where absent.
    fields text[] COLLATE "C"
);

CREATE INDEX search_consent_subject ON daftar.search_consent (subject);
CREATE INDEX search_consent_grantee ON daftar.search_consent (grantee, subject);
CREATE INDEX search_consent_record ON daftar.search_consent (grantee, record);

-- How many records of a kind (1 people, 2 groups, 4 memberships, 5 consents) hold a term: the empty one is held by all of them,
-- `x` as above, codes as above, and `k123` by those that hold the code in whatever field.
CREATE TABLE daftar.search_tally (
    kind smallint NOT NULL,
    term text COLLATE "C" NOT NULL,
    -- The code of `c` and `e`.
    code bigint,
    records bigint NOT NULL,
    PRIMARY KEY (kind, term)
) WITH (fillfactor = 50);

CREATE INDEX search_tally_code ON daftar.search_tally (code) WHERE code IS NOT NULL;

-- Records whose rows a program wrote that does not know all of their fields: one that knows this revision of the schema writes them again.
CREATE TABLE daftar.search_behind (
    kind smallint NOT NULL,
    id bigint NOT NULL,
    revision integer NOT NULL,
    PRIMARY KEY (kind, id)
);
