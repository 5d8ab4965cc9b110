"""What a door does with schemas: inferred from a topic or a flow's topics, kept, shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rivermouth.engine.schema import kept_schemas
from rivermouth.engine.schema.infer import Inference, SampleSpec, infer, schema_of_seen, seen_of
from rivermouth.engine.schema.kept_schemas import SchemaUpdate
from rivermouth.errors import ArgumentInvalid, DocumentsTooWide, SchemaEmpty, SchemaNotGrown, SchemaNotKept
from rivermouth.names import EPOCH_COLUMN
from rivermouth.ports.delta import delta_table
from rivermouth.ports.delta.delta_log import read_snapshot
from rivermouth.ports.kafka.kafka_cluster import Kafka
from rivermouth.ports.lake.lake_files import LocalFiles, is_local
from rivermouth.ports.lake.lake_reader import LakeReader
from rivermouth.project.commands.topic_flow import holds_other, in_lake
from rivermouth.project.resolved.arguments import check, checked, kinds_of, known
from rivermouth.project.resolved.known_tables import with_children
from rivermouth.project.resolved.one_topic import IngestArguments, ingest_spec
from rivermouth.project.resolved.resolved_project import ResolvedProject
from rivermouth.project.resolved.static_checks import validate_static
from rivermouth.rows.columns.table_columns import derived_columns

if TYPE_CHECKING:
    from rivermouth.ports.lake.lake_files import LakeFiles
    from rivermouth.ports.sources.protocols import OffsetSource
    from rivermouth.project.commands.managed_session import RunHooks
    from rivermouth.schemas.schema_versions import KeptSchema
    from rivermouth.spec import Flow

READ_TIMEOUT_S: Final = 10.0
_ARGUMENTS: Final = ("bootstrap_servers", "kafka_options", "starting_offsets", "base", "environ")
FEW: Final = 2_000
"""The number of records that decide whether a topic holds JSON."""
MOSTLY: Final = 0.5
"""A topic is not read as JSON if a smaller share of its values are JSON objects."""


@dataclass(frozen=True, slots=True)
class Asked:
    """How a topic shall be looked at, as far as a door was told; None is what the flow says, or the default.

    Attributes:
        sample: About how many records are read.
        whole: Whether all are.
        infer_times: Whether strings that are all dates or times get such a type.
        max_fields: An object with more distinct fields is a map.
        latest_per_key: Whether of each key only the newest record counts.
    """

    sample: int | None = None
    whole: bool = False
    infer_times: bool | None = None
    max_fields: int | None = None
    latest_per_key: bool | None = None

    def look(self, flow: Flow) -> SampleSpec:
        """The same for one flow."""
        look = kept_schemas.look_of(flow)
        if self.whole and self.sample is not None:
            detail = "all of the topic is no sample"
            raise ArgumentInvalid(argument="--all", detail=detail, fix="give --all, or --sample N")
        return replace(
            look,
            records=None if self.whole else self.sample or look.records,
            times=look.times if self.infer_times is None else self.infer_times,
            max_fields=self.max_fields or look.max_fields,
            latest_per_key=look.latest_per_key if self.latest_per_key is None else self.latest_per_key,
        )


def ingest_project(topic: str, **arguments: Any) -> tuple[ResolvedProject, str | None]:
    """The project that one topic makes, and why it has its format where neither that nor a schema is given.

    Then the values are JSON with an inferred schema if most of a few records are JSON objects, and stay bytes if not;
    what an earlier run made of the topic in this lake goes before that.

    Raises:
        ArgumentInvalid: The topic's table is there, and holds another topic, or its schema was not inferred.
        RivermouthError: What is wrong with the arguments, or keeps it from the topic or the lake.

    Guarantees:
        Reads only.
    """
    project = ingest_spec(topic, **arguments)
    reader = LakeReader(project.spark_conf, timeout_s=READ_TIMEOUT_S)
    project = in_lake(project, reader)
    (flow,) = project.flows()
    if not flow.infers:
        return project, None
    is_open = arguments.get("format") is None and arguments.get("schema") is None
    places = project.places(flow.name)
    kept = kept_schemas.newest(flow, reader, places)
    if kept is not None:
        return project, f"schema version {kept.version}, inferred at {kept.kept_at}" if is_open else None
    raw = ingest_spec(topic, **{**arguments, "schema": None, "format": "raw", "update_schema": None})
    if is_open and _is_raw(reader, raw) and not holds_other(raw, reader):
        return in_lake(raw, reader), "its table is there already, without an inferred schema"
    if delta_table.exists(reader, places.table):
        detail = f"table {places.full_name} is there already, and its schema was not inferred"
        fix = 'the schema with which it was made: --schema "id bigint, at timestamp", or another table: --table'
        raise ArgumentInvalid(argument="schema", detail=detail, fix=f"{fix} {places.name}_2")
    if not is_open:
        return project, None
    validate_static(project)
    with _cluster(project) as kafka:
        try:
            seen = seen_of(flow, kafka, SampleSpec(records=FEW))
            shape = seen.shape
            if shape.sound_records and shape.sound_records >= MOSTLY * shape.records:
                schema_of_seen(flow, seen, times=False)
        except (DocumentsTooWide, SchemaEmpty) as error:
            return in_lake(raw, reader), str(error.facts["detail"])
    if shape.sound_records >= MOSTLY * shape.records:
        return project, "the schema is inferred"
    reason, first = min(shape.corrupt.items(), key=lambda each: (-each[1].count, each[0]))
    topic, partition, offset = first.example
    few = f"{shape.sound_records:,} of {shape.records:,} values are JSON objects"
    return in_lake(raw, reader), f"{few}, and {topic}-{partition} offset {offset} is not ({reason})"


def _is_raw(reader: LakeReader, raw: ResolvedProject) -> bool:
    """Whether the table that the topic would have as bytes is there, and one of bytes."""
    (flow,) = raw.flows()
    found = read_snapshot(reader, raw.places(flow.name).table)
    ours = {"value", EPOCH_COLUMN, *flow.metadata_columns.values(), *derived_columns(flow)}
    return found is not None and all(name in ours or name.startswith("__") for name in found.columns)


@checked
def infer_schema(topic: str, **arguments: Any) -> Inference:
    """The schema of a topic's JSON documents: ``infer_schema("orders").inferred.schema``; without Spark.

    Args:
        topic: Name of the topic.
        **arguments: ``bootstrap_servers``, ``kafka_options`` and ``starting_offsets`` as ``ingest`` takes them, and
            ``sample`` (records), ``whole``, ``infer_times``, ``max_fields``, ``latest_per_key``.

    Raises:
        SchemaEmpty: There is no record with a value.
        SchemaNotInferred: No value is a JSON object, or there are too many fields.
        RivermouthError: What else is wrong with the arguments, or keeps it from the topic.

    Guarantees:
        Reads only.
    """
    kinds = {**kinds_of(IngestArguments), **kinds_of(Asked)}
    known("infer_schema", arguments, (*_ARGUMENTS, *Asked.__slots__))
    check("infer_schema", kinds, arguments)
    asked = Asked(**{name: arguments.pop(name) for name in Asked.__slots__ if name in arguments})
    return of_topic(topic, asked, **arguments)


def of_topic(topic: str, asked: Asked, *, beside: ResolvedProject | None = None, **arguments: Any) -> Inference:
    """As ``infer_schema``, with what was asked in one piece; ``beside`` is a project whose cluster has the topic."""
    project = ingest_spec(topic, **arguments)
    if beside is not None:
        project = replace(beside, spec=project.spec.model_copy(update={"kafka": beside.spec.kafka}))
    (flow,) = project.flows()
    with _cluster(project) as kafka:
        return infer(flow, kafka, asked.look(flow))


def of_flow(project: ResolvedProject, name: str, asked: Asked, hooks: RunHooks | None = None) -> Inference:
    """The schema of what a flow reads, whatever its format says; nothing is kept.

    Raises:
        FlowUnknown: The project has no such flow.
        RivermouthError: As ``infer_schema``.
    """
    validate_static(project)
    flow = with_children(project).flow(name)
    with _topics(project, flow, hooks) as topics:
        return infer(flow, topics, asked.look(flow))


def update(project: ResolvedProject, name: str, asked: Asked, hooks: RunHooks | None = None) -> SchemaUpdate:
    """Infers the schema of a flow again, and keeps what is different as a new version; its next run uses it.

    Raises:
        ArgumentInvalid: The flow does not infer its schema.
        SchemaUpdateRefused: What is different no table can be changed to.
        RivermouthError: As ``infer_schema``.

    Guarantees:
        Run twice: the second time finds nothing new. Stopped half-way: a version is kept whole or not at all.
    """
    validate_static(project)
    flow = with_children(project).flow(name)
    _check_infers(project, flow)
    places = project.places_of(flow)
    with ExitStack() as stack:
        topics = stack.enter_context(_topics(project, flow, hooks))
        inference = infer(flow, topics, asked.look(flow))
        files = stack.enter_context(_writable(project, places.lake, hooks))
        return kept_schemas.keep(flow, files, places, inference)


def history(project: ResolvedProject, name: str) -> list[KeptSchema]:
    """The versions of a flow's kept schema, the newest first; without Spark.

    Raises:
        ArgumentInvalid: The flow's schema is declared, and cannot grow.
        SchemaNotKept: It is to be inferred, and was not yet.
        SchemaNotGrown: It is declared, and did not grow yet.
        SchemaFileBroken: A version cannot be used.
    """
    flow = with_children(project).flow(name)
    if not flow.policies.grows:
        _check_infers(project, flow)
    reader = LakeReader(project.spark_conf, timeout_s=READ_TIMEOUT_S)
    found = kept_schemas.history(flow, reader, project.places_of(flow))
    if not found:
        missing = SchemaNotKept if flow.infers else SchemaNotGrown
        raise missing(at=project.at("flows", name), flow=name)
    return found


def save(inference: Inference, file: str | Path) -> None:
    """Writes the schema as a file that ``schema:`` takes: Spark's JSON form.

    Raises:
        ArgumentInvalid: It is no name of a schema file, it is there already, or it cannot be written.
    """
    check_save(file)
    path = Path(file)
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(json.dumps(inference.inferred.complete.jsonValue(), indent=2, ensure_ascii=False) + "\n")
    except FileExistsError:
        raise _there_already(path) from None
    except OSError as error:
        detail = f"{path} cannot be written: {error.strerror}"
        raise ArgumentInvalid(argument="--save", detail=detail, fix="name a file in a folder that is there") from None


def check_save(file: str | Path) -> None:
    """Checks that a schema can be saved there, before any work that would have to be undone.

    Raises:
        ArgumentInvalid: As in ``save``.
    """
    path = Path(file)
    if path.suffix != ".json":
        raise ArgumentInvalid(argument="--save", detail="a schema file ends in .json", fix="--save schema.json")
    if path.exists():
        raise _there_already(path)
    if not path.parent.is_dir():
        detail = f"{path} cannot be written: there is no folder {path.parent}"
        raise ArgumentInvalid(argument="--save", detail=detail, fix="name a file in a folder that is there")


def _there_already(path: Path) -> ArgumentInvalid:
    detail = f"{path} is there already, and stays as it is"
    return ArgumentInvalid(argument="--save", detail=detail, fix="name another file")


def _check_infers(project: ResolvedProject, flow: Flow) -> None:
    if not flow.infers:
        detail = f"flow {flow.name} does not infer its schema, so none is kept"
        at = project.at("flows", flow.name, "format")
        raise ArgumentInvalid(at=at, argument="FLOW", detail=detail, fix="format: {type: json, schema: infer}")


@contextmanager
def _cluster(project: ResolvedProject) -> Iterator[Kafka]:
    with Kafka(project.bootstrap_servers, project.kafka_options()) as kafka:
        yield kafka


@contextmanager
def _topics(project: ResolvedProject, flow: Flow, hooks: RunHooks | None) -> Iterator[OffsetSource]:
    """What the flow reads; a table is read by Spark."""
    if flow.source is None:
        with _cluster(project) as kafka:
            yield kafka
        return
    from rivermouth.engine.open.sources import reading  # noqa: PLC0415 - loads Spark, as below
    from rivermouth.project.commands.managed_session import NO_HOOKS, ManagedSession  # noqa: PLC0415
    from rivermouth.project.resolved.jobs import orders  # noqa: PLC0415

    (job,) = orders(project, [flow.name])
    with ManagedSession(project, hooks or NO_HOOKS) as spark, reading(spark, job) as (topics, _):
        yield topics


@contextmanager
def _writable(project: ResolvedProject, lake: str, hooks: RunHooks | None) -> Iterator[LakeFiles]:
    """The files of the lake; those that are elsewhere are written by Spark."""
    if is_local(lake):
        yield LocalFiles()
        return
    from rivermouth.ports.lake.lake_files import files_for  # noqa: PLC0415
    from rivermouth.project.commands.managed_session import NO_HOOKS, ManagedSession  # noqa: PLC0415

    with ManagedSession(project, hooks or NO_HOOKS) as spark:
        yield files_for(lake, spark)
