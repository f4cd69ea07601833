-- Days since 1970-01-01, as those of births.
ALTER TABLE daftar.search_individual ADD COLUMN registration_date integer;
ALTER TABLE daftar.search_group ADD COLUMN registration_date integer;

CREATE INDEX search_individual_registration_date ON daftar.search_individual (registration_date);
CREATE INDEX search_group_registration_date ON daftar.search_group (registration_date);
