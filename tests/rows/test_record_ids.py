"""The header by which copies of a record in Kafka are known."""

from __future__ import annotations

import pytest

from rivermouth.rows import kafka_records

ROWS = [("k", b"one"), ("k", b"one"), ("k", b"two"), (None, b"one"), ("k", None)]


@pytest.fixture(scope="module")
def ids_of(spark):
    rows = spark.createDataFrame(ROWS, "key string, value binary").coalesce(1)

    def ids(batch, *, ordered, topic="out"):
        found = kafka_records.with_ids(kafka_records.records(rows, topic), batch, ordered=ordered)
        return [dict(row.headers)[kafka_records.ID_HEADER] for row in found.select("headers").collect()]

    return ids


@pytest.mark.parametrize(("ordered", "different"), [(True, len(ROWS)), (False, len(set(ROWS)))])
def test_a_record_has_the_same_id_when_its_batch_comes_again_and_in_no_other_batch(ids_of, ordered, different):
    found = ids_of("query/7", ordered=ordered)
    assert len(set(found)) == different
    assert ids_of("query/7", ordered=ordered) == found
    for other in (ids_of("query/8", ordered=ordered), ids_of("query/7", ordered=ordered, topic="another")):
        assert not set(found) & set(other)
