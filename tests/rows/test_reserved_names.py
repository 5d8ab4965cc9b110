"""Names that Spark, Delta and rivermouth use inside: who has them, in which tables, and what to write instead."""

from __future__ import annotations

import re

import pytest

from rivermouth.errors import ColumnReserved
from rivermouth.rows import conform, reserved_names
from rivermouth.spec import Flow

UPSERT = {"type": "upsert", "keys": ["id"]}
FEED = {"name": "s.t", "properties": {"delta.enableChangeDataFeed": True}}


def a_flow(**fields):
    form = {"type": "json", "schema": "id bigint"}
    return Flow.model_validate({"name": "f", "topics": ["t"], "format": form, "table": "s.t", **fields})


DELTA_MERGE, FEED_OF_DELTA, READER = "Delta's MERGE", "Delta's change data feed", "Spark's reader of Delta tables"
OWNERS = [
    ("_metadata", {"sink": UPSERT}, None),
    ("filePath", {"sink": UPSERT}, None),
    ("_row_id_", {}, None),
    ("_Row_Id_", {"sink": UPSERT}, DELTA_MERGE),
    ("_row_id_", {"sink": {"type": "history", "keys": ["id"], "sequence_by": "kafka_offset"}}, DELTA_MERGE),
    ("_change_type", {}, None),
    ("_change_type", {"sink": UPSERT}, None),
    ("_change_type", {"table": FEED}, FEED_OF_DELTA),
    ("_CHANGE_TYPE", {"table": FEED, "sink": UPSERT}, FEED_OF_DELTA),
    ("_commit_version", {"table": {**FEED, "properties": {"DELTA.enablechangedatafeed": "TRUE"}}}, FEED_OF_DELTA),
    ("_commit_version", {"table": {**FEED, "properties": {"delta.enableChangeDataFeed": "false"}}}, None),
    ("_tmp_metadata_row_index", {}, READER),
    ("__change", {}, None),
    ("__change", {"sink": UPSERT}, "rivermouth"),
    ("_rescued", {}, None),
    ("_corrupt_record", {}, None),
]


@pytest.mark.parametrize(("name", "fields", "owner"), OWNERS)
def test_a_name_is_in_the_way_of_some_tables(name, fields, owner):
    flow = a_flow(**fields)
    assert reserved_names.owner(flow, name) == owner
    if owner:
        assert conform.is_taken(flow, name)
        with pytest.raises(
            ColumnReserved, match=re.escape(f"column {name!r} has a name that {owner} keeps for itself")
        ):
            reserved_names.check(flow, ["id", name], ["id", name])
    else:
        reserved_names.check(flow, ["id", name], ["id", name])


CANAL = {"format": {"type": "canal", "schema": "id bigint"}, "sink": UPSERT}
FIXES = [
    ({"sink": UPSERT}, ["id", "_row_id_"], 'select: ["* EXCEPT (`_row_id_`)", "`_row_id_` AS row_id"]'),
    ({"sink": UPSERT}, ["row_id", "_row_id_"], 'select: ["* EXCEPT (`_row_id_`)", "`_row_id_` AS row_id_2"]'),
    ({"sink": UPSERT, "select": ["id", "_row_id_"]}, ["id", "_row_id_"], "in select, write `_row_id_` AS row_id"),
    (CANAL, ["id", "_row_id_"], "sink: {type: upsert, except_columns: [_row_id_]}"),
    (
        {"sink": UPSERT, "metadata_columns": {"kafka_offset": "_row_id_", "kafka_timestamp": "at"}},
        [],
        (
            "metadata_columns: {kafka_topic: kafka_topic, kafka_partition: kafka_partition, "
            "kafka_offset: record_kafka_offset, kafka_timestamp: at}"
        ),
    ),
    (
        {"sink": {"type": "upsert", "keys": [{"_row_id_": "id + 1"}]}},
        [],
        "write {another_name: ...} for it in keys or in partition_by",
    ),
]


@pytest.mark.parametrize(("fields", "payload", "fix"), FIXES)
def test_the_hint_gives_the_column_another_name(fields, payload, fix):
    with pytest.raises(ColumnReserved) as caught:
        reserved_names.check(a_flow(**fields), ["id", *payload, "_row_id_"], payload)
    assert str(caught.value) == (
        "[COLUMN_RESERVED] flow f: column '_row_id_' has a name that Delta's MERGE keeps for itself; nothing was run\n"
        f"  hint: {fix}"
    )
