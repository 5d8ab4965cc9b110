"""The columns of the table of events of a pipeline: those of Databricks."""

from __future__ import annotations

from typing import Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

_STACK: Final = T.StructType(
    [
        T.StructField("declaring_class", T.StringType()),
        T.StructField("method_name", T.StringType()),
        T.StructField("file_name", T.StringType()),
        T.StructField("line_number", T.LongType()),
    ]
)
_EXCEPTION: Final = T.StructType(
    [
        T.StructField("class_name", T.StringType()),
        T.StructField("message", T.StringType()),
        T.StructField("stack", T.ArrayType(_STACK)),
    ]
)
_ERROR: Final = T.StructType(
    [
        T.StructField("fatal", T.BooleanType()),
        T.StructField("message", T.StringType()),
        T.StructField("exceptions", T.ArrayType(_EXCEPTION)),
    ]
)
COLUMNS: Final = T.StructType(
    [
        T.StructField("id", T.StringType()),
        T.StructField(
            "sequence",
            T.StructType(
                [
                    T.StructField("control_plane_seq_no", T.LongType()),
                    T.StructField("data_plane_id", T.StructType([T.StructField("seq_no", T.LongType())])),
                ]
            ),
        ),
        T.StructField(
            "origin",
            T.StructType(
                [
                    T.StructField(name, T.StringType())
                    for name in ("pipeline_id", "pipeline_name", "update_id", "flow_name", "dataset_name", "engine")
                ]
            ),
        ),
        T.StructField("timestamp", T.TimestampType()),
        T.StructField("message", T.StringType()),
        T.StructField("level", T.StringType()),
        T.StructField("error", _ERROR),
        T.StructField("details", T.StringType()),
        T.StructField("event_type", T.StringType()),
        T.StructField("maturity_level", T.StringType()),
    ]
)
"""Of the table of events: https://docs.databricks.com/aws/en/ldp/monitor-event-log-schema; ``details`` is JSON."""
