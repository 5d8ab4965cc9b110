"""Items of pipeline files that are proved by what they define: nothing is run for them.

Each has the text of a file, and what is found in its definitions afterwards. The reference page
``pipelines-compatibility.md`` is made of these items, and of those in ``compatibility_run.py``.
"""

# ruff: noqa: E501 - the texts of files are as long as they are

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["works", "differs", "refused"]


@dataclass(frozen=True)
class Item:
    """Something that pipeline files have.

    Attributes:
        tier: A: 20 repositories of 86 or more; B: 10 to 19; C: 3 to 9; D: one or two, or the documentation alone.
        name: What it is.
        text: A file that has it.
        want: By name of a dataset, ``flow:NAME``, ``sink:NAME`` or ``notes``, what is found; of a dataset that is run
            its rows; of one that is refused the text of the error.
        suffix: Of the file.
        verdict: ``differs`` where the result is not that of Databricks.
        note: What is different, or why it is refused.
        files: Further files.
    """

    tier: str
    name: str
    text: str
    want: Any
    suffix: str = ".py"
    verdict: Verdict = "works"
    note: str = ""
    files: dict[str, str] = field(default_factory=dict)


def _dp(text: str) -> str:
    return "from pyspark import pipelines as dp\n" + text


def _sql(tier: str, name: str, text: str, want: Any, **more: Any) -> Item:
    return Item(tier, name, text, want, suffix=".sql", **more)


QUERY = "def t():\n    return spark.range(1)\n"
KEYED = 'dp.create_streaming_table("t")\ndp.create_auto_cdc_flow(target="t", source="s", keys=["id"], sequence_by="v"'
CDC = "CREATE STREAMING TABLE t;\nCREATE FLOW f AS AUTO CDC INTO t FROM STREAM(s) KEYS (id) SEQUENCE BY v "
NOTEBOOK = """# Databricks notebook source
# MAGIC %md
# MAGIC # Orders

# COMMAND ----------

# MAGIC %pip install requests-of-nobody

# COMMAND ----------

import dlt

# COMMAND ----------

# MAGIC %sql
# MAGIC CREATE MATERIALIZED VIEW m AS SELECT 1 AS one;

# COMMAND ----------

@dlt.table
def t():
    return spark.range(1)
"""
JUPYTER = """{"cells": [
 {"cell_type": "markdown", "metadata": {}, "source": ["# Orders"]},
 {"cell_type": "code", "metadata": {}, "source": ["import dlt\\n", "@dlt.table\\n", "def t():\\n", "    return 1\\n"],
  "outputs": [], "execution_count": null}
], "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}
"""

DEFINED: tuple[Item, ...] = (
    Item(
        "A",
        "`@dlt.table`, `@dp.table`, `name=`, `comment=`, `table_properties=`",
        "import dlt\n"
        '@dlt.table(name="orders", comment="all", table_properties={"quality": "gold", "delta.appendOnly": True})\n'
        + QUERY,
        {"orders": {"kind": "table", "comment": "all", "properties": {"quality": "gold", "delta.appendOnly": "true"}}},
    ),
    Item("A", "`@table` without parentheses", _dp(f"@dp.table\n{QUERY}"), {"t": {"kind": "table"}}),
    Item(
        "A",
        "`create_streaming_table`, with the name positional or `name=`",
        _dp('dp.create_streaming_table("one")\ndp.create_streaming_table(name="two", comment="c")'),
        {"one": {"kind": "streaming_table"}, "two": {"comment": "c"}},
    ),
    Item(
        "A",
        "notebooks `.py` with `# COMMAND`, `%md`, `%pip`, `%sql`",
        NOTEBOOK,
        {
            "t": {"kind": "table"},
            "m": {"kind": "materialized_view"},
            "notes": ["packages are not installed by a run: pip install requests-of-nobody"],
        },
        note="`%pip` installs nothing: a note names the packages that are missing",
        verdict="differs",
    ),
    _sql(
        "A",
        "notebooks `.sql` with `-- COMMAND`",
        "-- Databricks notebook source\n-- MAGIC %md Orders\n\n-- COMMAND ----------\n\n"
        "CREATE STREAMING TABLE t AS SELECT 1 AS a;\n\n-- COMMAND ----------\n\nCREATE MATERIALIZED VIEW m AS SELECT 2 AS b\n",
        {"t": {"kind": "streaming_table"}, "m": {"kind": "materialized_view"}},
    ),
    Item("A", "notebooks `.ipynb`", JUPYTER, {"t": {"kind": "table"}}, suffix=".ipynb"),
    _sql(
        "A",
        "`CREATE`, `CREATE OR REFRESH`, `CREATE OR REPLACE`",
        "CREATE STREAMING TABLE a AS SELECT 1;\nCREATE OR REFRESH STREAMING TABLE b AS SELECT 1;\n"
        "CREATE OR REPLACE STREAMING TABLE c AS SELECT 1;",
        {name: {"kind": "streaming_table"} for name in "abc"},
    ),
    _sql("A", "`MATERIALIZED VIEW`", "CREATE MATERIALIZED VIEW m AS SELECT 1;", {"m": {"kind": "materialized_view"}}),
    _sql("A", "`STREAMING TABLE`", "CREATE STREAMING TABLE t AS SELECT 1;", {"t": {"kind": "streaming_table"}}),
    Item(
        "A",
        "`create_auto_cdc_flow`",
        _dp(KEYED + ")"),
        {"flow:t": {"kind": "auto_cdc", "cdc.keys": ("id",), "cdc.sequence_by": "v", "cdc.scd_type": 1}},
    ),
    Item(
        "A",
        "`apply_changes`",
        'import dlt\ndlt.create_streaming_table("t")\n'
        'dlt.apply_changes(target="t", source="s", keys=["a", "b"], sequence_by="v", stored_as_scd_type="2")',
        {"flow:t": {"kind": "auto_cdc", "cdc.keys": ("a", "b"), "cdc.scd_type": 2}},
    ),
    Item(
        "A",
        "`expect` and `expect_or_drop`, below and above the decorator of the dataset",
        _dp(
            '@dp.table\n@dp.expect("a", "x > 1")\n'
            + QUERY
            + '@dp.expect_or_drop("b", "y")\n@dp.table\ndef u():\n    ...'
        ),
        {"t": {"expectations": [("a", "x > 1", "warn")]}, "u": {"expectations": [("b", "y", "drop")]}},
    ),
    _sql(
        "A",
        "a list of columns with types, comments and constraints",
        "CREATE STREAMING TABLE t (id BIGINT NOT NULL COMMENT 'key', n STRING, CONSTRAINT ok EXPECT (id > 0)) AS SELECT 1;",
        {"t": {"schema": "id BIGINT NOT NULL COMMENT 'key', n STRING", "expectations": [("ok", "id > 0", "warn")]}},
    ),
    Item("B", "`@materialized_view`", _dp(f"@dp.materialized_view\n{QUERY}"), {"t": {"kind": "materialized_view"}}),
    _sql(
        "B",
        "`CONSTRAINT ... EXPECT`",
        "CREATE MATERIALIZED VIEW m (CONSTRAINT `has id` EXPECT (id IS NOT NULL)) AS SELECT 1 AS id;",
        {"m": {"expectations": [("has id", "id IS NOT NULL", "warn")]}},
    ),
    Item(
        "B",
        "`expect_all_or_drop`",
        _dp('@dp.table\n@dp.expect_all_or_drop({"a": "x", "b": "y"})\n' + QUERY),
        {"t": {"expectations": [("a", "x", "drop"), ("b", "y", "drop")]}},
    ),
    Item(
        "B",
        "`expect_all`",
        _dp('@dp.table\n@dp.expect_all({"a": "x"})\n' + QUERY),
        {"t": {"expectations": [("a", "x", "warn")]}},
    ),
    _sql(
        "B",
        "`TBLPROPERTIES`",
        "CREATE STREAMING TABLE t TBLPROPERTIES ('quality' = 'gold', pipelines.reset.allowed = false) AS SELECT 1;",
        {"t": {"properties": {"quality": "gold", "pipelines.reset.allowed": "false"}}},
    ),
    _sql("B", "`KEYS (...)` and `SEQUENCE BY`", CDC, {"flow:f": {"cdc.keys": ("id",), "cdc.sequence_by": "v"}}),
    Item(
        "B",
        "`partition_cols=`",
        _dp('@dp.table(partition_cols=["a", "b"])\n' + QUERY),
        {"t": {"partition_by": ("a", "b")}},
    ),
    Item("B", "`cluster_by=`", _dp('@dp.table(cluster_by=["a"])\n' + QUERY), {"t": {"cluster_by": ("a",)}}),
    _sql(
        "B",
        "`APPLY CHANGES INTO`",
        "CREATE STREAMING TABLE t;\nAPPLY CHANGES INTO t FROM STREAM(s) KEYS (id) SEQUENCE BY v;",
        {"flow:t": {"kind": "auto_cdc", "target": "t"}},
    ),
    _sql("B", "`LIVE TABLE`", "CREATE LIVE TABLE t AS SELECT 1;", {"t": {"kind": "materialized_view"}}),
    _sql("B", "`COLUMNS * EXCEPT (...)`", CDC + "COLUMNS * EXCEPT (v)", {"flow:f": {"cdc.except_columns": ("v",)}}),
    Item(
        "B",
        "`except_column_list=`",
        _dp(KEYED + ', except_column_list=["v"])'),
        {"flow:t": {"cdc.except_columns": ("v",)}},
    ),
    Item(
        "B",
        "`apply_as_deletes=`",
        _dp(KEYED + """, apply_as_deletes="op = 'D'")"""),
        {"flow:t": {"cdc.apply_as_deletes": "op = 'D'"}},
    ),
    Item(
        "B",
        "`expect_or_fail`",
        _dp('@dp.table\n@dp.expect_or_fail("a", "x")\n' + QUERY),
        {"t": {"expectations": [("a", "x", "fail")]}},
    ),
    Item(
        "B",
        "`expect_all_or_fail`",
        _dp('@dp.table\n@dp.expect_all_or_fail({"a": "x"})\n' + QUERY),
        {"t": {"expectations": [("a", "x", "fail")]}},
    ),
    _sql(
        "C",
        "`STREAMING LIVE TABLE`",
        "CREATE STREAMING LIVE TABLE t AS SELECT 1;",
        {"t": {"kind": "streaming_table"}},
    ),
    _sql(
        "C",
        "`APPLY AS DELETE WHEN`",
        CDC + "APPLY AS DELETE WHEN op = 'D'",
        {"flow:f": {"cdc.apply_as_deletes": "op = 'D'"}},
    ),
    Item(
        "C",
        "`create_sink`: `kafka`, `delta`, `console`, data sources; by position too",
        _dp(
            'dp.create_sink("k", "kafka", {"topic": "t"})\ndp.create_sink(name="d", format="delta", options={"path": "/x"})\n'
            'dp.create_sink(name="own", format="splunk", options={})'
        ),
        {"sink:k": {"format": "kafka", "options": {"topic": "t"}}, "sink:d": {"format": "delta"}, "sink:own": {}},
    ),
    Item("C", "`temporary=True`", _dp(f"@dp.table(temporary=True)\n{QUERY}"), {"t": {"private": True}}),
    Item(
        "C",
        "`ignore_null_updates=`",
        _dp(KEYED + ", ignore_null_updates=True)"),
        {"flow:t": {"cdc.ignore_null_updates": True}},
        note="with SCD type 1; a null in a struct is a part of its value",
        verdict="differs",
    ),
    Item(
        "C",
        "`expect_all=`, `expect_all_or_drop=`, `expect_all_or_fail=` of `create_streaming_table`",
        _dp(
            'dp.create_streaming_table("t", expect_all={"a": "x"}, expect_all_or_drop={"b": "y"}, '
            'expect_all_or_fail={"c": "z"})'
        ),
        {"t": {"expectations": [("a", "x", "warn"), ("b", "y", "drop"), ("c", "z", "fail")]}},
    ),
    _sql(
        "C",
        "`USE CATALOG`, `USE SCHEMA`",
        "USE CATALOG main;\nUSE SCHEMA sales;\nCREATE STREAMING TABLE t AS SELECT 1;",
        {"main.sales.t": {"kind": "streaming_table"}},
    ),
    Item(
        "C",
        "`schema=` as StructType",
        "from pyspark.sql.types import *\n"
        + _dp('@dp.table(schema=StructType([StructField("id", LongType())]))\n' + QUERY),
        {"t": {"schema.simpleString": "struct<id:bigint>"}},
    ),
    Item(
        "C",
        "`schema=` as DDL",
        _dp('@dp.table(schema="id BIGINT NOT NULL, n STRING")\n' + QUERY),
        {"t": {"schema": "id BIGINT NOT NULL, n STRING"}},
    ),
    _sql(
        "C",
        "`NOT NULL`",
        "CREATE STREAMING TABLE t (id BIGINT PRIMARY KEY NOT NULL) AS SELECT 1 AS id;",
        {"t": {"schema": "id BIGINT NOT NULL"}},
        verdict="differs",
        note="a null ends the flow before its commit; in Delta's metadata the column is nullable",
    ),
    _sql(
        "C",
        "`GENERATED ALWAYS AS (...)`, `DEFAULT`",
        "CREATE STREAMING TABLE t (id BIGINT DEFAULT 7, twice BIGINT GENERATED ALWAYS AS (id * 2)) AS SELECT 1;",
        {"t": {"schema": "id BIGINT DEFAULT 7, twice BIGINT GENERATED ALWAYS AS (id * 2)"}},
        verdict="differs",
        note="the pipeline computes the values; Delta's metadata does not have the expressions",
    ),
    Item(
        "C",
        "`%pip`, and lines `pip install` without it",
        "pip install numpy\nimport dlt\n@dlt.table\n" + QUERY,
        {"t": {"kind": "table"}, "notes": []},
        note="nothing is installed",
        verdict="differs",
    ),
    Item(
        "C",
        "`spark_conf=`",
        _dp('@dp.table(spark_conf={"pipelines.trigger.interval": "1 minute"})\n' + QUERY),
        {"t": {"query.conf": {"pipelines.trigger.interval": "1 minute"}}},
    ),
    Item(
        "C",
        "`track_history_except_column_list=`",
        _dp(KEYED + ', stored_as_scd_type=2, track_history_except_column_list=["n"])'),
        {"flow:t": {"cdc.scd_type": 2, "cdc.track_history_except_columns": ("n",)}},
    ),
    Item(
        "C",
        "`track_history_column_list=`",
        _dp(KEYED + ', stored_as_scd_type=2, track_history_column_list=["n"])'),
        {"flow:t": {"cdc.track_history_columns": ("n",)}},
    ),
    Item(
        "C",
        "`once=`",
        _dp('dp.create_streaming_table("t")\n@dp.append_flow(target="t", once=True)\ndef first():\n    ...'),
        {"flow:first": {"once": True, "target": "t"}},
    ),
    _sql(
        "C",
        "`ON VIOLATION FAIL UPDATE`",
        "CREATE STREAMING TABLE t (CONSTRAINT a EXPECT (x) ON VIOLATION FAIL UPDATE) AS SELECT 1;",
        {"t": {"expectations": [("a", "x", "fail")]}},
    ),
    _sql(
        "C",
        "`CREATE FLOW ... AS AUTO CDC INTO`",
        CDC + "STORED AS SCD TYPE 2",
        {"flow:f": {"kind": "auto_cdc", "target": "t", "cdc.scd_type": 2}},
    ),
    _sql(
        "C",
        "`CREATE FLOW ... AS INSERT INTO`",
        "CREATE STREAMING TABLE t;\nCREATE FLOW f AS INSERT INTO t BY NAME SELECT * FROM STREAM(s);",
        {"flow:f": {"kind": "append", "target": "t"}},
    ),
    _sql(
        "C",
        "`TEMPORARY VIEW`, `LIVE VIEW`, `TEMPORARY LIVE VIEW`",
        "CREATE TEMPORARY VIEW a AS SELECT 1;\nCREATE LIVE VIEW b AS SELECT 1;\nCREATE TEMPORARY LIVE VIEW c AS SELECT 1;",
        {name: {"kind": "temporary_view"} for name in "abc"},
    ),
    Item(
        "C",
        "`apply_as_truncates=`",
        _dp(KEYED + """, apply_as_truncates="op = 'T'")"""),
        {"flow:t": {"cdc.apply_as_truncates": "op = 'T'"}},
    ),
    Item("C", "`path=`", _dp('@dp.table(path="/data/t")\n' + QUERY), {"t": {"path": "/data/t"}}),
    Item(
        "C",
        "`create_target_table`",
        'import dlt\ndlt.create_target_table("t")',
        {"t": {"kind": "streaming_table"}},
    ),
    _sql(
        "C",
        "`PRIMARY KEY`",
        "CREATE MATERIALIZED VIEW m (id INT PRIMARY KEY) AS SELECT 1 AS id;",
        {"m": {"schema": "id INT"}},
        note="it is noted once and not enforced; Databricks does not enforce it either",
    ),
    Item(
        "C",
        "`foreach_batch_sink`",
        _dp('@dp.foreach_batch_sink(name="out")\ndef write(frame, number):\n    ...'),
        {"sink:out": {"format": None}},
        note="finds and makes tables of the lake by name; `DROP TABLE` and `RENAME` of them are refused",
    ),
    Item(
        "D",
        "`update_flow`",
        _dp('dp.create_sink("out", "console")\n@dp.update_flow(target="out")\ndef u():\n    ...'),
        {"flow:u": {"kind": "update"}},
        note="into a table it needs `keys=`, and each row replaces the one with its keys",
        verdict="differs",
    ),
    Item(
        "D",
        "`apply_changes_from_snapshot`, `create_auto_cdc_from_snapshot_flow`",
        'import dlt\ndlt.create_streaming_table("t")\ndlt.create_streaming_table("u")\n'
        'dlt.apply_changes_from_snapshot(target="t", source="s", keys=["id"])\n'
        'dlt.create_auto_cdc_from_snapshot_flow(target="u", source="s", keys=["id"], stored_as_scd_type=2)',
        {"flow:t": {"kind": "auto_cdc_from_snapshot"}, "flow:u": {"cdc.scd_type": 2}},
    ),
    Item(
        "D",
        "`once=` of `create_auto_cdc_from_snapshot_flow`",
        'import dlt\ndlt.create_streaming_table("t")\ndlt.create_streaming_table("u")\n'
        'dlt.create_auto_cdc_from_snapshot_flow(target="t", source="s", keys=["id"], once=False)\n'
        'dlt.create_auto_cdc_from_snapshot_flow(target="u", source="s", keys=["id"], once=True)',
        {"flow:t": {"once": False}, "flow:u": {"once": True}},
    ),
    Item(
        "D",
        "`snapshot_and_version=`",
        'import dlt\ndlt.create_streaming_table("t")\n'
        'dlt.apply_changes_from_snapshot(target="t", snapshot_and_version=lambda known: None, keys=["id"])',
        {"flow:t": {"kind": "auto_cdc_from_snapshot"}},
    ),
    Item(
        "D",
        "`on_event_hook`",
        _dp("@dp.on_event_hook(max_allowable_consecutive_failures=3)\ndef hook(event):\n    ...\n@dp.table\n" + QUERY),
        {"hook:hook": {"max_failures": 3}},
    ),
    Item(
        "D",
        "`materialized_view(private=True)`",
        _dp(f"@dp.materialized_view(private=True)\n{QUERY}"),
        {"t": {"private": True}},
    ),
    Item(
        "D",
        "`create_streaming_live_table`",
        'import dlt\ndlt.create_streaming_live_table("t")',
        {"t": {"kind": "streaming_table"}},
    ),
    Item(
        "D",
        "`create_table`, `create_view`",
        "import dlt\n@dlt.create_table\n" + QUERY + "@dlt.create_view\ndef v():\n    ...",
        {"t": {"kind": "table"}, "v": {"kind": "temporary_view"}},
    ),
    Item("D", "`where=` of AUTO CDC", _dp(KEYED + ', where="id > 0")'), {"flow:t": {"kind": "auto_cdc"}}),
    Item("D", "`flow_name=`", _dp(KEYED + ', flow_name="f")'), {"flow:f": {"target": "t"}}),
    Item(
        "D",
        "`ignore_null_updates_column_list=`",
        _dp(KEYED + ', ignore_null_updates_column_list=["n"])'),
        {"flow:t": {"cdc.ignore_null_updates_columns": ("n",)}},
    ),
    Item(
        "D",
        "`cluster_by_auto=`",
        _dp(f"@dp.table(cluster_by_auto=True)\n{QUERY}"),
        {
            "t": {"cluster_by": ()},
            "notes": ["table t: cluster_by_auto is not for Spark without Databricks; nothing is clustered"],
        },
        verdict="differs",
        note="a note says that nothing is clustered",
    ),
    _sql(
        "D",
        "`CLUSTER BY AUTO`",
        "CREATE STREAMING TABLE t CLUSTER BY AUTO AS SELECT 1;",
        {"t": {"cluster_by": ()}, "notes": ["CLUSTER BY AUTO: no clustering columns are chosen"]},
        verdict="differs",
        note="a note says that no columns are chosen",
    ),
    _sql(
        "D",
        "`SCHEDULE`",
        "CREATE MATERIALIZED VIEW m SCHEDULE EVERY 1 HOUR AS SELECT 1;",
        {"m": {}, "notes": ["SCHEDULE of m: `rivermouth run` refreshes it, with --follow all the time"]},
        verdict="differs",
        note="a note says that a run refreshes it",
    ),
    _sql(
        "D",
        "`TRIGGER ON UPDATE`",
        "CREATE MATERIALIZED VIEW m TRIGGER ON UPDATE AS SELECT 1;",
        {"m": {}, "notes": ["TRIGGER of m: `rivermouth run` refreshes it, with --follow all the time"]},
        verdict="differs",
        note="a note says that a run refreshes it",
    ),
    _sql(
        "D",
        "`INCREMENTAL LIVE TABLE`",
        "CREATE INCREMENTAL LIVE TABLE t AS SELECT 1;",
        {"t": {"kind": "streaming_table"}},
    ),
    Item(
        "D",
        "`dlt.enable_local_execution()`",
        "import dlt\ndlt.enable_local_execution()\n@dlt.table\n" + QUERY,
        {"t": {"kind": "table"}},
        note="it does nothing",
    ),
    _sql(
        "D",
        "`PRIVATE`",
        "CREATE PRIVATE MATERIALIZED VIEW m AS SELECT 1;\nCREATE PRIVATE STREAMING TABLE t AS SELECT 1;",
        {"m": {"private": True}, "t": {"private": True}},
    ),
    _sql(
        "D",
        "`INSERT INTO ONCE`",
        "CREATE STREAMING TABLE t;\nCREATE FLOW f AS INSERT INTO ONCE t BY NAME SELECT 1 AS a;",
        {"flow:f": {"once": True}},
    ),
    _sql(
        "D",
        "`AUTO CDC ONCE INTO`",
        "CREATE STREAMING TABLE t;\nCREATE FLOW f AS AUTO CDC ONCE INTO t FROM s KEYS (id) SEQUENCE BY v;",
        {"flow:f": {"once": True, "kind": "auto_cdc"}},
    ),
    _sql(
        "D",
        "`REFRESH POLICY`",
        "CREATE MATERIALIZED VIEW m REFRESH POLICY INCREMENTAL STRICT AS SELECT 1;",
        {"m": {"refresh_policy": "incremental_strict"}},
        note="increments need no row tracking of the sources",
    ),
    Item(
        "D",
        "`refresh_policy=`",
        _dp('@dp.materialized_view(refresh_policy="full")\n' + QUERY),
        {"t": {"refresh_policy": "full"}},
    ),
    _sql(
        "D",
        "`TRACK HISTORY ON`",
        CDC + "STORED AS SCD TYPE 2 TRACK HISTORY ON * EXCEPT (n)",
        {"flow:f": {"cdc.track_history_except_columns": ("n",)}},
    ),
    _sql("D", "`IGNORE NULL UPDATES`", CDC + "IGNORE NULL UPDATES", {"flow:f": {"cdc.ignore_null_updates": True}}),
    _sql(
        "D",
        "`APPLY AS TRUNCATE WHEN`",
        CDC + "APPLY AS TRUNCATE WHEN op = 'T'",
        {"flow:f": {"cdc.apply_as_truncates": "op = 'T'"}},
    ),
    _sql(
        "D", "`COLUMNS TO UPDATE`", CDC + "COLUMNS TO UPDATE changed", {"flow:f": {"cdc.columns_to_update": "changed"}}
    ),
)


def _not_supported(clause: str, place: str, hint: str) -> str:
    return (
        f"[SQL_NOT_SUPPORTED] {clause} is not supported, and without it the results would be different; nothing was run\n"
        f"  at: item.sql:{place}\n  hint: {hint}"
    )


REFUSED: tuple[Item, ...] = (
    Item(
        "D",
        "`row_filter=`",
        _dp('@dp.table(row_filter="f ON (id)")\n' + QUERY),
        "[DEFINITION_INVALID] table t: row_filter changes what readers see, and Spark has no means for it; the pipeline was "
        "not run\n  at: item.py:2\n  hint: remove row_filter; filter in the query instead",
        verdict="refused",
    ),
    _sql(
        "D",
        "`ROW FILTER`",
        "CREATE STREAMING TABLE t WITH ROW FILTER f ON (id) AS SELECT 1;",
        _not_supported("ROW FILTER of t", "1:31", "filter the rows in the SELECT with WHERE"),
        verdict="refused",
    ),
    _sql(
        "D",
        "`MASK`",
        "CREATE STREAMING TABLE t (id INT MASK f) AS SELECT 1;",
        _not_supported("MASK of the column id", "1:34", "mask the value in the SELECT, without MASK"),
        verdict="refused",
    ),
    _sql(
        "D",
        "`IDENTITY`",
        "CREATE STREAMING TABLE t (id BIGINT GENERATED ALWAYS AS IDENTITY, n INT) AS SELECT 1;",
        _not_supported("IDENTITY of the column id", "1:37", "compute id in the SELECT, for example with xxhash64"),
        verdict="refused",
    ),
    Item(
        "D",
        "`system_sequence_by=`",
        _dp(KEYED + ', system_sequence_by="at")'),
        "[DEFINITION_INVALID] AUTO CDC into t: system_sequence_by: a second order of changes is not supported; the pipeline "
        "was not run\n  at: item.py:3\n  hint: remove system_sequence_by",
        verdict="refused",
    ),
    _sql(
        "D",
        "`AUTO CDC ... FROM SNAPSHOT`",
        "CREATE STREAMING TABLE t;\nCREATE FLOW f AS AUTO CDC INTO t FROM SNAPSHOT s KEYS (id)",
        _not_supported("FROM SNAPSHOT", "2:39", "define it in Python: dp.create_auto_cdc_from_snapshot_flow(...)"),
        verdict="refused",
    ),
    _sql(
        "D",
        "`STORED AS BITEMPORAL`",
        CDC + "STORED AS BITEMPORAL",
        _not_supported("STORED AS BITEMPORAL", "2:83", "write STORED AS SCD TYPE 2"),
        verdict="refused",
    ),
)
