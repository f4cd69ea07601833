#!/bin/sh
# Creates the roles and the database of host/docs/POSTGRESQL.md, "Roles and database". The image of PostgreSQL runs this once, as the
# superuser `postgres` on the socket, when its volume is empty.
set -eu

owner_password=$(cat /run/secrets/owner-password)
server_password=$(cat /run/secrets/server-password)
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres \
    --set owner_password="$owner_password" --set server_password="$server_password" <<'SQL'
CREATE ROLE daftar_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE daftar_server LOGIN PASSWORD :'server_password';
CREATE ROLE daftar_reader NOLOGIN;
CREATE DATABASE daftar OWNER daftar_owner TEMPLATE template0 ENCODING 'UTF8';
REVOKE ALL ON DATABASE daftar FROM PUBLIC;
GRANT CONNECT ON DATABASE daftar TO daftar_server, daftar_reader;
GRANT pg_read_all_stats TO daftar_server;
\connect daftar
CREATE SCHEMA daftar AUTHORIZATION daftar_owner;
CREATE SCHEMA reporting AUTHORIZATION daftar_owner;
ALTER DEFAULT PRIVILEGES FOR ROLE daftar_owner REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
GRANT USAGE ON SCHEMA daftar TO daftar_server;
ALTER DEFAULT PRIVILEGES FOR ROLE daftar_owner IN SCHEMA daftar GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO daftar_server;
ALTER DEFAULT PRIVILEGES FOR ROLE daftar_owner IN SCHEMA daftar GRANT USAGE ON SEQUENCES TO daftar_server;
ALTER DEFAULT PRIVILEGES FOR ROLE daftar_owner IN SCHEMA daftar GRANT EXECUTE ON FUNCTIONS TO daftar_server;
GRANT USAGE ON SCHEMA reporting TO daftar_reader;
ALTER DEFAULT PRIVILEGES FOR ROLE daftar_owner IN SCHEMA reporting GRANT SELECT ON TABLES TO daftar_reader;
ALTER DEFAULT PRIVILEGES FOR ROLE daftar_owner IN SCHEMA reporting GRANT EXECUTE ON FUNCTIONS TO daftar_reader;
SQL
