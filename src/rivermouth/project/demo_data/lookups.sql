-- A pipeline over the tables of the flows. `rivermouth run` refreshes its tables after theirs.

CREATE OR REFRESH STREAMING TABLE gold.failed_lookups (
  CONSTRAINT has_name EXPECT (query IS NOT NULL) ON VIOLATION DROP ROW
) AS
SELECT ts, `id.orig_h` AS client, query, rcode_name
FROM STREAM silver.dns
WHERE rcode_name <> 'NOERROR';

CREATE OR REFRESH MATERIALIZED VIEW gold.names AS
SELECT query, count(*) AS lookups, max(ts) AS last_at
FROM silver.dns
GROUP BY query;
