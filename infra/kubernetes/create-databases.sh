#!/bin/sh
# Two databases with an owner each, who cannot enter the other: Prefect's, and the ledger of releases. `metrics` reads the ledger.
# PostgreSQL's image runs this once, when its volume is empty.
set -eu
psql --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres \
    --set prefect_password="$PREFECT_DATABASE_PASSWORD" --set ledger_password="$LEDGER_DATABASE_PASSWORD" \
    --set metrics_password="$METRICS_DATABASE_PASSWORD" <<'SQL'
CREATE ROLE prefect LOGIN PASSWORD :'prefect_password';
CREATE ROLE ledger LOGIN PASSWORD :'ledger_password';
CREATE ROLE metrics LOGIN PASSWORD :'metrics_password';
CREATE DATABASE prefect OWNER prefect;
CREATE DATABASE ledger OWNER ledger;
REVOKE CONNECT ON DATABASE prefect, ledger FROM PUBLIC;
GRANT CONNECT ON DATABASE ledger TO metrics;
\connect ledger
ALTER DEFAULT PRIVILEGES FOR ROLE ledger GRANT SELECT ON TABLES TO metrics;
SQL
