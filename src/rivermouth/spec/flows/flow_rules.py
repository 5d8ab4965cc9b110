"""What the parts of a flow cannot say together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rivermouth.names import CHANGE_METADATA_COLUMNS
from rivermouth.spec.evolution import RESCUES, WIDENS
from rivermouth.spec.flows.flow_fields import PLAIN_KEYS
from rivermouth.spec.formats import ArrayFormat, EvolvingFormat, InferringFormat, KeyFormat, WrappedFormat
from rivermouth.spec.source import READ, VERSION

if TYPE_CHECKING:
    from rivermouth.spec.flows.flow_fields import FlowFields
    from rivermouth.spec.formats import Format

_NAME: Final = re.compile(r"^[A-Za-z][A-Za-z0-9_-]{0,99}$")


class Problems(ValueError):
    """What is wrong with a flow: a sentence each, and behind a colon what to write.

    Attributes:
        sentences: One or more.
    """

    def __init__(self, sentences: tuple[str, ...]) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = sentences


def check(flow: FlowFields) -> None:
    """Makes sure that a flow's source, format, columns and sink go together.

    Raises:
        Problems: They do not; all is said at once.
    """
    found = []
    for part in (
        _check_name,
        _check_topics,
        _check_source,
        _check_evolution,
        _check_select,
        _check_explode,
        _check_lookup,
        _check_key_format,
        _check_changes,
        _check_keyed,
        _check_delivery,
        _check_expectations,
        _check_table,
    ):
        try:
            part(flow)
        except ValueError as error:
            found.append(str(error))
    if found:
        raise Problems(tuple(dict.fromkeys(found)))


def _check_name(flow: FlowFields) -> None:
    if not _NAME.match(flow.name):
        wanted = "use letters, digits, _ and -, beginning with a letter"
        if "${" in flow.name:
            wanted = f"{wanted}; variables are for values, not for names of flows"
        msg = f"{flow.name!r} is no flow name: {wanted}"
        raise ValueError(msg)


def _check_delivery(flow: FlowFields) -> None:
    if flow.sink.type in ("kafka", "files") and flow.source is not None:
        kind = flow.sink.type
        msg = f"the sink {kind} is for flows that read Kafka, and this one reads a table: write a pipeline with a sink"
        raise ValueError(msg)


def _check_topics(flow: FlowFields) -> None:
    sources = [name for name in ("topics", "topic_pattern", "assign", "source") if getattr(flow, name)]
    if len(sources) != 1:
        named = " and ".join(sources) if sources else "none"
        msg = (
            f"name the source by exactly one of topics, topic_pattern, assign and source ({named} given): "
            "for example topics: [orders]"
        )
        raise ValueError(msg)


def _check_source(flow: FlowFields) -> None:
    if flow.source is None:
        return
    _check_routing(flow)
    _check_snapshots(flow)
    told = {
        "starting_offsets": flow.starting_offsets.kind in ("timestamp", "group"),
        "ending_offsets": flow.ending_offsets is not None and flow.ending_offsets.kind == "timestamp",
    }
    for name, asked in told.items():
        if asked:
            word = "earliest" if name == "starting_offsets" else "latest"
            msg = f"{name} by time or by group is asked of Kafka, and the flow reads a table: {name}: {word}"
            raise ValueError(msg)
    unheard = {
        "group_id": flow.group_id,
        "trigger.min_offsets": flow.trigger.min_offsets,
        "trigger.min_partitions": flow.trigger.min_partitions,
    }
    for name, value in unheard.items():
        if value is not None:
            msg = f"{name} is about Kafka's consumers, and a flow over a table has none: remove it"
            raise ValueError(msg)


def _check_snapshots(flow: FlowFields) -> None:
    if flow.source is None or flow.source.snapshots is None:
        return
    if flow.keyed is None or not flow.keyed.snapshots:
        msg = f"{flow.source.shown} are snapshots: write sink: {{type: upsert, keys: [id], from: snapshot}}, or history"
        raise ValueError(msg)
    if flow.format.type != "json" or flow.infers:
        msg = 'a snapshot is a JSON array with declared columns here: write format: {type: json, schema: "id bigint"}'
        raise ValueError(msg)
    if flow.compression is not None:
        msg = "a snapshot is read as it is stored: leave compression out"
        raise ValueError(msg)
    name = (flow.source.files or "").rpartition("/")[2]
    if flow.source.files is not None and (name.count(VERSION) != 1 or not name.endswith(READ)):
        ends = ", ".join(READ)
        msg = f'the name of a file has {VERSION} in it once, and ends in one of {ends}: files: "exports/{VERSION}.json"'
        raise ValueError(msg)


def _check_routing(flow: FlowFields) -> None:
    placeholders = flow.table.name.count("{")
    if flow.routed_by is None or placeholders == 1:
        return
    msg = "a table goes by one column of its source: write one placeholder into its name, table: bronze.{event}"
    raise ValueError(msg)


def _check_evolution(flow: FlowFields) -> None:
    if flow.evolution is None:
        return
    if flow.keyed is not None and flow.keyed.partial_updates and flow.policies.rescues:
        msg = (
            "what is rescued of a record is in one column of its row, and here a row is of many records: "
            "write dead_letter in the place of rescue"
        )
        raise ValueError(msg)
    if flow.takes_evolution:
        if flow.policies.rescues and not flow.evolving_format.rescues:
            what = f"no part of a record of the format {flow.format.type} can be kept as it was sent"
            msg = f"{what}: write dead_letter or widen in the place of rescue"
            raise ValueError(msg)
        return
    framing = getattr(flow.format, "framing", "")
    what = f"the format {flow.format.type}" + (f" with the framing {framing}" if framing else "")
    what = "snapshots" if isinstance(flow.format, EvolvingFormat) and flow.format.evolves else what
    msg = f"evolution is for json, and for avro and protobuf with the framing confluent, and not for {what}: remove it"
    raise ValueError(msg)


def _check_select(flow: FlowFields) -> None:
    if not flow.select:
        if "select" in flow.model_fields_set:
            msg = "select names no column: leave it out for all that the format reads"
            raise ValueError(msg)
        return
    kind = flow.format.type
    if flow.change_envelope or (flow.keyed is not None and flow.keyed.snapshots):
        what = f"a record of the format {kind} is a change" if flow.change_envelope else "a record is a snapshot"
        msg = f"{what} of whole rows: leave select out, and name their columns by columns of the sink"
        raise ValueError(msg)
    if flow.explode is None and flow.policies.on_new_column == "evolve" and not flow.gains_columns:
        msg = "new columns have no place in a select without *: write '*' into it, or on_new_column: ignore"
        raise ValueError(msg)
    if flow.keyed is not None and flow.policies.on_types(WIDENS | RESCUES):
        msg = (
            f"select may make the keys and the order of the sink {flow.sink.type} of any column, so none becomes "
            "wider, or is rescued: write on_type_change: dead_letter, or fail"
        )
        raise ValueError(msg)


def _check_explode(flow: FlowFields) -> None:
    kind, wanted = flow.format.type, flow.explosion
    if wanted is None:
        if "kafka_position" in flow.metadata_columns:
            msg = "kafka_position is the place of an element in its record, and nothing is exploded: leave it out"
            raise ValueError(msg)
        return
    if not wanted.sql:
        msg = "explode names no column: write explode: items AS item, or explode: '*' where a value is an array"
        raise ValueError(msg)
    if flow.keyed is not None:
        msg = f"explode makes several rows of a record, which only an append can keep: leave sink {flow.sink.type} out"
        raise ValueError(msg)
    if flow.change_envelope:
        msg = f"a record of the format {kind} is a change of a whole row: leave explode out"
        raise ValueError(msg)
    if flow.policies.grows or flow.policies.rescues:
        msg = (
            "explode is of columns that stay as they are, and of whole records: "
            "leave evolve, widen and rescue out of evolution"
        )
        raise ValueError(msg)
    if flow.infers and wanted.is_whole:
        msg = "objects are inferred, and here a value is an array: write the schema of its elements, schema: id bigint"
        raise ValueError(msg)
    if flow.null_values == "keep":
        msg = "a record without a value has no element to be kept: write null_values: drop or dead_letter"
        raise ValueError(msg)
    if wanted.is_whole:
        _check_whole(flow)


def _check_whole(flow: FlowFields) -> None:
    """That a value may be an array of documents."""
    kind, wanted = flow.format.type, flow.explosion
    if wanted is not None and wanted.called:
        msg = "elements of a whole value have the columns of the format: leave AS out of explode"
        raise ValueError(msg)
    if not isinstance(flow.format, ArrayFormat):
        msg = (
            f"a value of the format {kind} is no array of documents: name a column that has one, explode: items AS item"
        )
        raise ValueError(msg)  # noqa: TRY004 - pydantic reports ValueErrors
    if flow.wraps:
        what = "compression" if flow.compression is not None else "framing"
        msg = f"what is around a whole value is not around its elements: leave {what} out, or explode a column"
        raise ValueError(msg)


def _check_lookup(flow: FlowFields) -> None:
    if not flow.lookup:
        if "lookup" in flow.model_fields_set:
            msg = "lookup names no table: write lookup: {table: silver.customers, on: id, columns: [name]}"
            raise ValueError(msg)
        return
    taken = [*flow.metadata_columns.values()]
    for each in flow.lookup:
        if twice := [name for name in each.columns.values() if name in taken]:
            msg = (
                f"lookup adds a column {twice[0]!r}, and the flow has one already: give it another name, "
                f"columns: {{{next(c for c, n in each.columns.items() if n == twice[0])}: another_name}}"
            )
            raise ValueError(msg)
        taken += each.columns.values()
    called = [each.name for each in flow.all_expectations]
    if twice := [each.name for each in flow.lookup if called.count(each.name) > 1]:
        msg = f"{twice[0]!r} is listed twice: list all its columns in one lookup"
        raise ValueError(msg)


def _only_for_values(form: Format) -> str | None:
    """What of a format keys cannot have; None if there is nothing."""
    if isinstance(form, InferringFormat) and form.infers:
        return "an inferred schema"
    if isinstance(form, WrappedFormat) and form.has_schema_header:
        return "a framing"
    if isinstance(form, WrappedFormat) and form.string_documents:
        return "documents_in_strings"
    if getattr(form, "record_names", ()):
        return "record_names"
    return None if form.reads_keys else f"the format {form.type}"


def _check_key_format(flow: FlowFields) -> None:
    form = flow.key_format
    if form is None or form.type in PLAIN_KEYS:
        return
    if what := _only_for_values(form):
        msg = f"{what} is for values, and not for keys: write key_format: {{type: avro, schema: ...}}, or raw"
        raise ValueError(msg)
    if flow.format.type == "raw":
        msg = "a raw flow keeps keys as bytes, or as text: leave key_format out, or name a format for values too"
        raise ValueError(msg)
    if flow.change_envelope:
        msg = f"the format {flow.format.type} reads keys itself: leave key_format out, or write key_format: text"
        raise ValueError(msg)
    if "kafka_key" not in flow.metadata_columns:
        msg = "key_format is about the column kafka_key: list it in metadata_columns, or leave key_format out"
        raise ValueError(msg)
    is_struct = not isinstance(form, KeyFormat) or form.makes_struct_of_keys
    if flow.keyed is not None and not flow.keyed.keys and is_struct:
        msg = "kafka_key is a struct, which cannot be a key: name its parts, keys: [{id: kafka_key.id}]"
        raise ValueError(msg)


def _check_changes(flow: FlowFields) -> None:
    kind = flow.format.type
    for name in CHANGE_METADATA_COLUMNS:
        if name in flow.metadata_columns and not flow.change_envelope:
            msg = f"the format {kind} tells no {name}: leave it out of metadata_columns"
            raise ValueError(msg)
    envelope = flow.change_envelope
    if envelope is not None and envelope.several_rows and flow.keyed is None:
        several = f"a record of the format {kind} may hold several rows, which append cannot tell apart"
        msg = f"{several}: write sink: upsert"
        raise ValueError(msg)
    if flow.keyed is None:
        if flow.change_envelope and "operation" not in flow.metadata_columns:
            msg = "an append of changes needs operation to show deletions: list it in metadata_columns"
            raise ValueError(msg)
        return
    if flow.change_envelope and flow.keyed.partial_updates:
        msg = (
            f"a change of the format {kind} brings its whole row, where null is a value: "
            "leave ignore_null_updates and columns_to_update out of the sink"
        )
        raise ValueError(msg)
    if (
        envelope is not None
        and envelope.splits
        and any(isinstance(part, dict) or "(" in part for part in flow.keyed.keys)
    ):
        msg = f"an update of the format {kind} may change a key, so keys must be columns: write keys: [id]"
        raise ValueError(msg)


def _check_keyed(flow: FlowFields) -> None:
    if flow.keyed is None:
        return
    kind = flow.format.type
    if flow.keyed.snapshots and flow.change_envelope:
        msg = f"a record of the format {kind} is a change, and no snapshot: leave from: snapshot out of the sink"
        raise ValueError(msg)
    if flow.keyed.snapshots and flow.keyed.rows is None and not isinstance(flow.format, ArrayFormat):
        msg = f"a value of the format {kind} is no array of rows: name the column that has them, rows: items"
        raise ValueError(msg)
    if flow.keyed.snapshots and flow.string_documents:
        msg = "a snapshot has the rows of a table, and no documents in strings: leave documents_in_strings out"
        raise ValueError(msg)
    if flow.keyed.snapshots and flow.keyed.rows is None and flow.infers:
        msg = "objects are inferred, and here a value is an array: write the schema of its rows, schema: id bigint"
        raise ValueError(msg)
    if "null_values" in flow.model_fields_set:
        msg = f"null_values is for an append: write sink: {{type: {flow.sink.type}, tombstones: delete}} or ignore"
        raise ValueError(msg)
    needed = ["kafka_timestamp", *([] if flow.keyed.keys else [flow.default_key])]
    for name in needed:
        if name not in flow.metadata_columns:
            msg = f"the sink {flow.sink.type} goes by {name}: list it in metadata_columns"
            raise ValueError(msg)


def _check_expectations(flow: FlowFields) -> None:
    called = [expectation.name for expectation in flow.expectations]
    twice = sorted({name for name in called if called.count(name) > 1})
    if twice:
        msg = f"expectation {twice[0]!r} is there twice: each name once"
        raise ValueError(msg)


def _check_table(flow: FlowFields) -> None:
    if "max_tables" in flow.table.model_fields_set and not flow.is_family:
        msg = (
            "max_tables is for a flow with a table for each of its topics: "
            "write {topic} into the table's name, and topic_pattern, or remove it"
        )
        raise ValueError(msg)
    if flow.table.cluster_by and flow.zorder:
        msg = "a clustered table has its order by cluster_by: leave zorder out"
        raise ValueError(msg)
