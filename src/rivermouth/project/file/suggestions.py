"""Words that people bring from Spark, Kafka and other tools, and settings that are known but not built yet."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rivermouth.extend import kind_names
from rivermouth.names import did_you_mean
from rivermouth.spec import Expectation, Flow, KafkaCluster, Pipeline, Places, ProjectSpec, Table, Trigger

_UPSERT: Final = "write it as sink: {type: upsert, keys: [...]}"
# By the model in which the word was written: a field of that model, or a sentence.
_OTHER_WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "ProjectSpec": {
        "path": "lake",
        "root": "lake",
        "location": "lake",
        "warehouse": "lake",
        "lakehouse": "lake",
        "delta_path": "lake",
        "brokers": "write it as kafka: {bootstrap_servers: ...}",
        "jobs": "flows",
        "streams": "flows",
        "pipelines": "flows",
        "tables": "flows",
    },
    "KafkaCluster": {
        "brokers": "bootstrap_servers",
        "servers": "bootstrap_servers",
        "hosts": "bootstrap_servers",
        "config": "options",
        "conf": "options",
        "properties": "options",
        "provider": "preset",
        "user": "username",
        "security": "write it as options: {security.protocol: ...}",
        "sasl": "write it as options: {sasl.mechanism: ...}",
        "ssl": "write it as options: {ssl.truststore.location: ...}",
        "group_id": "write group_id in the flow",
    },
    "SchemaRegistry": {
        "endpoint": "url",
        "server": "url",
        "user": "username",
        "basic_auth_user_info": "write it as username: ... and password: ...",
        "ca": "ca_file",
        "ssl_ca_location": "ca_file",
        "timeout": "timeout_s",
    },
    "SparkSettings": {"config": "conf", "options": "conf", "memory": "driver_memory"},
    "Places": {"path": "table", "checkpoint_location": "checkpoint", "dead_letters": "dead_letter_table"},
    "Flow": {
        "from": "source",
        "from_table": "write it as source: {table: ...}",
        "source_table": "write it as source: {table: ...}",
        "fail_on_data_loss": "on_data_loss",
        "topic": "topics",
        "subscribe": "topics",
        "subscribe_pattern": "topic_pattern",
        "pattern": "topic_pattern",
        "partitions": "assign",
        "offsets": "starting_offsets",
        "start": "starting_offsets",
        "starting_timestamp": "starting_offsets",
        "end": "ending_offsets",
        "group": "group_id",
        "consumer_group": "group_id",
        "value_format": "format",
        "schema": "write it as format: {type: json, schema: ...}",
        "target": "table",
        "destination": "table",
        "output": "table",
        "table_name": "table",
        "routing": "tables are made by topic, write it as table: bronze.{topic}",
        "route_field": "tables are made by topic, write it as table: bronze.{topic}",
        "max_tables": "write it as table: {name: ..., max_tables: ...}",
        "path": "write it as places: {table: ...}",
        "location": "write it as places: {table: ...}",
        "checkpoint_location": "write it as places: {checkpoint: ...}",
        "dead_letters": "write it as places: {dead_letter_table: ...}",
        "dlq": "write it as places: {dead_letter_table: ...}",
        "max_offsets_per_trigger": "write it as trigger: {max_offsets: ...}",
        "min_offsets_per_trigger": "write it as trigger: {min_offsets: ..., max_delay: ...}",
        "max_trigger_delay": "write it as trigger: {max_delay: ...}",
        "interval": "write it as trigger: {every: ...}",
        "processing_time": "write it as trigger: {every: ...}",
        "include_headers": "write it as metadata_columns: [kafka_headers, ...]",
        **dict.fromkeys(("select_expr", "projection", "transforms", "transformations", "derived_columns"), "select"),
        **dict.fromkeys(("explode_outer", "flatten", "unnest", "array"), "explode"),
        "checks": "expectations",
        "constraints": "expectations",
        "quality": "expectations",
        "rules": "expectations",
        "partitioned_by": "write it as table: {name: ..., partition_by: [...]}",
        "mode": "sink",
        "keys": "write it as sink: {type: ..., keys: [...]}",
        **dict.fromkeys(("primary_key", "dedupe", "deduplicate", "unique_keys"), _UPSERT),
        **dict.fromkeys(("where", "filter"), "write it as expectations: [{name: ..., condition: ..., action: drop}]"),
        "columns": "write it as select: [...], or the columns of the values as format: {type: json, schema: ...}",
        "kafka": "a project has one cluster: write kafka: at the top of the file, or the flow into a file of its own",
        "options": "write it as kafka: {options: ...} at the top of the file",
        "retries": "remove it; a batch that fails is tried again automatically",
    },
    "Csv": {
        "sep": "delimiter",
        "separator": "delimiter",
        "field_delimiter": "delimiter",
        "quotechar": "quote",
        "quote_char": "quote",
        "escapechar": "escape",
        "escape_char": "escape",
        "null": "null_value",
        "null_values": "null_value",
        "na_values": "null_value",
        "columns": "schema",
        "header": "remove it; a value is one line, and a header is a line like any other",
    },
    "KeyValue": {
        **dict.fromkeys(("sep", "separator", "delimiter", "field_delimiter", "pair_delimiter"), "pair_separator"),
        **dict.fromkeys(("kv_separator", "value_separator", "assignment"), "key_value_separator"),
        "quote_char": "quote",
        "escape_char": "escape",
        "null": "null_value",
        "columns": "schema",
    },
    "Regex": {"regex": "pattern", "expression": "pattern", "columns": "schema", "max_steps": "max_reads"},
    "Source": {"name": "table", "flow": "write the name of its table: source: {table: ...}"},
    "Pipeline": {
        **dict.fromkeys(("libraries", "file", "glob", "source", "sources", "include", "path", "paths"), "files"),
        **dict.fromkeys(("target", "database"), "schema"),
        **dict.fromkeys(("config", "conf", "parameters", "params", "variables"), "configuration"),
        **dict.fromkeys(("targets", "environments"), "profiles"),
        **dict.fromkeys(("every", "interval"), "write it as trigger: {every: ...}"),
    },
    "PipelineProfile": {
        **dict.fromkeys(("target", "database"), "schema"),
        **dict.fromkeys(("config", "conf", "parameters", "params", "variables"), "configuration"),
    },
    "Table": {
        "table": "name",
        "path": "write it as places: {table: ...} in the flow",
        "location": "write it as places: {table: ...} in the flow",
        "partitioned_by": "partition_by",
        "partitions": "partition_by",
        "clustered_by": "cluster_by",
        "zorder_by": "write it as maintenance: {optimize: {zorder: [...]}} in the flow",
        "optimize": "write it as maintenance: {optimize: ...} in the flow",
        "vacuum": "write it as maintenance: {vacuum: ...} in the flow",
        "retention": "write it as maintenance: {vacuum: {retain: ...}} in the flow",
        "tblproperties": "properties",
        "table_properties": "properties",
        "description": "comment",
    },
    "Maintenance": {
        "every": "write it as optimize: {every: ...}",
        "retain": "write it as vacuum: {retain: ...}",
        "retention": "write it as vacuum: {retain: ...}",
        "zorder": "write it as optimize: {zorder: [...]}",
        "compact": "optimize",
        "compaction": "optimize",
    },
    "Optimize": {"zorder_by": "zorder", "interval": "every", "schedule": "every"},
    "Vacuum": {
        "retention": "retain",
        "retain_hours": "retain",
        "interval": "every",
        "schedule": "every",
    },
    "Trigger": {
        "interval": "every",
        "processing_time": "every",
        "max_offsets_per_trigger": "max_offsets",
        "min_offsets_per_trigger": "min_offsets",
        "max_trigger_delay": "max_delay",
        "available_now": "remove it; rivermouth run drains and stops, --follow goes on",
        "once": "remove it; rivermouth run drains and stops, --follow goes on",
        "continuous": "remove it; use every: 1 second with rivermouth run --follow",
    },
    "Expectation": {
        "constraint": "condition",
        "expression": "condition",
        "expr": "condition",
        "rule": "condition",
        "predicate": "condition",
        "on_failure": "action",
        "on_violation": "action",
        "on_fail": "action",
    },
}

# Designed and not built: refused by name until a field or a file of this name exists.
_FUTURE_KEYS: Final[Mapping[str, frozenset[str]]] = {
    "ProjectSpec": frozenset({"alerts", "files", "metrics", "page"}),
    "Flow": frozenset(
        {
            "changes",
            "dead_letters_retention",
            "source",
            "transform",
            "watermark",
        }
    ),
}
# Of formats, sinks and actions: the words of other tools, and ours.
_OTHER_KINDS: Final[Mapping[str, Mapping[str, str]]] = {
    "formats": {
        **dict.fromkeys(("binary", "bytes", "byte_array"), "raw"),
        **dict.fromkeys(("string", "str", "utf8", "plain"), "text"),
        **dict.fromkeys(("jsonl", "ndjson", "json_schema"), "json"),
        **dict.fromkeys(("delimited", "tsv"), "csv"),
        **dict.fromkeys(("proto", "protobuf3"), "protobuf"),
        **dict.fromkeys(("grok", "log"), "regex"),
        **dict.fromkeys(("messagepack", "bson"), "msgpack"),
        "goldengate": "ogg",
        "deserializer": "jvm",
        "udf": "python",
    },
    "sinks": {
        **dict.fromkeys(("merge", "merge_into", "scd1", "scd_type_1", "auto_cdc", "apply_changes", "update"), "upsert"),
        **dict.fromkeys(("scd2", "scd_type_2"), "history"),
        **dict.fromkeys(("insert", "delta"), "append"),
        **dict.fromkeys(("topic", "kafka_topic"), "kafka"),
        **dict.fromkeys(("file", "archive", "parquet", "orc", "csv", "s3"), "files"),
    },
    "actions": {
        **dict.fromkeys(("quarantine", "dlq", "dead-letter", "deadletter", "reject"), "dead_letter"),
        **dict.fromkeys(("expect_or_drop", "skip", "ignore", "filter"), "drop"),
        **dict.fromkeys(("expect_or_fail", "abort", "error", "stop", "raise"), "fail"),
        **dict.fromkeys(("expect", "warning", "log", "allow", "keep"), "warn"),
    },
}
# Where a key belongs that was written one level too high or too low.
_ELSEWHERE: Final[tuple[tuple[type[BaseModel], type[BaseModel], str], ...]] = (
    (ProjectSpec, KafkaCluster, "write it as kafka: {{{key}: ...}}"),
    (ProjectSpec, Flow, "write it in a flow: flows: {{NAME: {{{key}: ...}}}}"),
    (Flow, Trigger, "write it as trigger: {{{key}: ...}}"),
    (Flow, Places, "write it as places: {{{key}: ...}}"),
    (Flow, Table, "write it as table: {{name: ..., {key}: ...}}"),
    (Flow, Expectation, "write it as expectations: [{{name: ..., {key}: ...}}]"),
    (Flow, ProjectSpec, "write it at the top of the file, without indentation"),
    (Table, Places, "write it as places: {{{key}: ...}} in the flow"),
    (Trigger, Flow, "write it in the flow, next to trigger:"),
    (Table, Flow, "write it in the flow, next to table:"),
    (KafkaCluster, Flow, "write it in the flow"),
)


def fields_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of a noun by the names that they have in the YAML."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def is_future_key(model: type[BaseModel], key: str) -> bool:
    """Whether ``key`` is a setting of ``model`` that is known but not built yet."""
    return key in _FUTURE_KEYS.get(model.__name__, ()) and key not in fields_of(model)


def kind_hint(family: str, name: str) -> str:
    """What to write instead of a format, sink or action of a name that nothing answers to."""
    meant = _OTHER_KINDS[family].get(name.lower())
    return f"did you mean {meant!r}?" if meant else did_you_mean(name, kind_names(family))


def hint_for(model: type[BaseModel], key: str, value: object, beside: Collection[str] = ()) -> str:
    """What to write instead of the unknown ``key``: one step, as a sentence.

    Args:
        model: The noun in which it was written.
        key: The key.
        value: What it was given.
        beside: The other keys of the mapping: none of them is suggested.
    """
    fields = set(fields_of(model)) - ({"name"} if model in (Flow, Pipeline) else set())
    snake = _snake(key)
    known = snake if snake in fields else _OTHER_WORDS.get(model.__name__, {}).get(snake)
    if known in beside:
        return f"remove {key}: {known} is there already"
    if known is not None:
        return f"did you mean {known!r}?" if known in fields else known
    if model is ProjectSpec and isinstance(value, Mapping) and {"topics", "table", "format"} & set(value):
        return f"indent {key}: and its lines by two spaces under flows:"
    for here, there, sentence in _ELSEWHERE:
        if here is model and snake in fields_of(there) and snake != "name":
            return sentence.format(key=snake)
    near = did_you_mean(key, fields)
    named = re.fullmatch(r"did you mean '(\w+)'\?", near)
    return f"remove {key}: {named[1]} is there already" if named and named[1] in beside else near


def _snake(key: str) -> str:
    """``startingOffsets``, ``starting-offsets`` and ``starting.offsets`` as ``starting_offsets``."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key)
    return re.sub(r"[-. ]+", "_", parted).lower()
