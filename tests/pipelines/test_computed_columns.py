"""Generated columns and defaults of declared columns: values that a table computes."""

import datetime as dt

import pytest

SQL = """
CREATE OR REFRESH STREAMING TABLE orders (
  id BIGINT NOT NULL,
  at TIMESTAMP,
  day DATE GENERATED ALWAYS AS (CAST(at AS DATE)) COMMENT 'of the order',
  country STRING DEFAULT 'de',
  pieces INT DEFAULT 1 + 1,
  PRIMARY KEY (id),
  CONSTRAINT dated EXPECT (day IS NOT NULL) ON VIOLATION DROP ROW
) PARTITIONED BY (day)
AS SELECT id, CAST(at AS TIMESTAMP) AS at, DATE'1999-01-01' AS day, pieces FROM STREAM read_files(
  'data', format => 'json', schema => 'id BIGINT, at STRING, pieces INT');

CREATE OR REFRESH MATERIALIZED VIEW doubled (id BIGINT, twice BIGINT GENERATED ALWAYS AS (id * 2))
AS SELECT id FROM orders;

CREATE OR REFRESH STREAMING TABLE newest (id BIGINT, at TIMESTAMP, month INT GENERATED ALWAYS AS (month(at)));
CREATE FLOW into_newest AS AUTO CDC INTO newest FROM STREAM(orders) KEYS (id) SEQUENCE BY at COLUMNS id, at;
"""
PYTHON = """
from pyspark import pipelines as dp

@dp.table(schema="id bigint, day date generated always as (date_add(DATE'2026-01-01', CAST(id AS INT)))")
def in_python():
    return spark.readStream.table("orders").select("id")
"""


@pytest.mark.long
def test_generated_columns_are_always_computed_and_defaults_where_the_query_brings_no_such_column(folder):
    folder.write("src/a.sql", SQL)
    folder.write("src/b.py", PYTHON)
    folder.feed(
        "data/1.json", {"id": 1, "at": "2026-02-03T04:05:06Z"}, {"id": 2}, {"id": 3, "at": "2026-03-01", "pieces": 9}
    )
    found = folder.run()
    assert {name: each.error and str(each.error) for name, each in found.items()} == dict.fromkeys(found)
    # A null in a column that the query brings is a null.
    assert folder.rows("default.orders", "id, day, country, pieces") == [
        (1, dt.date(2026, 2, 3), "de", None),
        (3, dt.date(2026, 3, 1), "de", 9),
    ]
    assert found["orders"].counts.dropped == 1
    assert folder.rows("default.doubled") == [(1, 2), (3, 6)]
    assert folder.rows("default.newest", "id, month") == [(1, 2), (3, 3)]
    assert folder.rows("default.in_python") == [(1, dt.date(2026, 1, 2)), (3, dt.date(2026, 1, 4))]
    assert folder.plan()["doubled"].flows[0].action in ("append", "nothing")
