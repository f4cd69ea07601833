-- Tables that SQL reports read besides records. The views and the function of the schema `reporting` are generated from
-- the schema of records (`reporting.rs`) and created again when they change or are missing, without a step here.

CREATE TABLE daftar.label (
    uri text COLLATE "C" NOT NULL,
    language text COLLATE "C" NOT NULL,
    -- 0 is the default language of the vocabulary.
    place smallint NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (uri, language)
);

CREATE TABLE daftar.reporting_state (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    schema_revision integer,
    views_revision integer,
    views bytea,
    labels bytea
);
INSERT INTO daftar.reporting_state DEFAULT VALUES;

COMMENT ON TABLE daftar.label IS 'Labels of the codes of published vocabularies. Codes that a vocabulary no longer has keep theirs, since records may contain them.';
COMMENT ON COLUMN daftar.label.uri IS 'The URI of the code.';
COMMENT ON COLUMN daftar.label.language IS 'The language, such as en or pt-BR.';
COMMENT ON COLUMN daftar.label.place IS 'The position of the language in the vocabulary; 0 is its default language.';
COMMENT ON COLUMN daftar.label.text IS 'The label.';
COMMENT ON CONSTRAINT label_pkey ON daftar.label IS 'A code has one label in a language.';
COMMENT ON TABLE daftar.reporting_state IS 'One row: the sources of the views and the labels.';
COMMENT ON COLUMN daftar.reporting_state.is_only IS 'Always true: there is one row.';
COMMENT ON CONSTRAINT reporting_state_pkey ON daftar.reporting_state IS 'With the CHECK: at most one row.';
COMMENT ON CONSTRAINT reporting_state_is_only_check ON daftar.reporting_state IS 'The key has one value.';
COMMENT ON COLUMN daftar.reporting_state.schema_revision IS 'The revision of the schema of records from which the views were created; NULL if there are none.';
COMMENT ON COLUMN daftar.reporting_state.views_revision IS 'The revision of the views within that revision of the schema; NULL if there are none.';
COMMENT ON COLUMN daftar.reporting_state.views IS 'SHA-256 of the statements that created the views.';
COMMENT ON COLUMN daftar.reporting_state.labels IS 'SHA-256 of the labels that were inserted last; NULL if there are none.';
