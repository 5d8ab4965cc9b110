"""What a door does with a topic itself: its records as rows, without a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rivermouth.engine.report import read_topic as engine
from rivermouth.engine.table.read_table import picked, rows_of
from rivermouth.errors import ArgumentInvalid
from rivermouth.extend import find_kind, kind_names
from rivermouth.ports.kafka.kafka_client import KafkaClient
from rivermouth.ports.kafka.kafka_topics import create_topics
from rivermouth.ports.spark.session import for_flow
from rivermouth.project.commands.maintenance import TableRows
from rivermouth.project.commands.managed_session import NO_HOOKS, ManagedSession, RunHooks, check_broker
from rivermouth.project.resolved.arguments import check, checked, kinds_of, known
from rivermouth.project.resolved.jobs import orders
from rivermouth.project.resolved.one_topic import NEVER, IngestArguments, format_of, ingest_spec
from rivermouth.project.resolved.static_checks import topic_problem
from rivermouth.spec import ChangeEnvelope, Format

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.project.resolved.resolved_project import ResolvedProject


_ARGUMENTS: Final = frozenset(
    {
        *("bootstrap_servers", "format", "schema", "compression", "key_format", "starting_offsets", "kafka_options"),
        *("keys", "sequence_by", "base", "environ"),
    }
)


@checked
def read_topic(
    topic: str,
    *,
    latest_per_key: bool = False,
    columns: Sequence[str] | None = None,
    spark: SparkSession | None = None,
    **arguments: Any,
) -> DataFrame:
    """The records of a topic as a frame, now and without a table: ``read_topic("orders", schema="id bigint")``.

    Args:
        topic: Name of the topic.
        latest_per_key: Only the newest record of each key, and none for a key whose newest record has no value: the
            state that a compacted topic describes. For change envelopes, the newest row of each key that is not
            deleted, by ``keys`` or by the primary key in the envelope.
        columns: Only these columns.
        spark: A session with our settings; by default the one of this process, started if there is none.
        **arguments: As ``ingest`` takes them: ``bootstrap_servers``, ``format``, ``schema``, ``compression``,
            ``key_format``, ``starting_offsets``, ``kafka_options``; with ``latest_per_key`` also ``keys`` and
            ``sequence_by``.

    Returns:
        The columns that ``ingest`` gives its table. Records that would be dead letters there are not in it, nor are
        those without a value.

    Raises:
        ArgumentInvalid: The arguments contradict each other, or there is no such column.
        TopicMissing: There is no such topic.
        RivermouthError: What else is wrong with the arguments.

    Guarantees:
        Reads only: nothing is written to Kafka, and no table, no checkpoint is made.
    """
    kinds = {name: kind for name, kind in kinds_of(IngestArguments).items() if name in _ARGUMENTS}
    known("read_topic", arguments, kinds)
    check("read_topic", kinds, arguments)
    project = _project(topic, latest_per_key=latest_per_key, arguments=arguments)
    return _frame(project, project.spark() if spark is None else spark, columns)


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """Settings of topics that are made.

    Attributes:
        partitions: Of each.
        replication_factor: Copies of each; the broker's default where None.
        config: Other settings, for example ``{"cleanup.policy": "compact"}``.
    """

    partitions: int = 1
    replication_factor: int | None = None
    config: Mapping[str, str] | None = None


def created(
    bootstrap_servers: str,
    options: Mapping[str, str],
    topics: Sequence[str],
    settings: TopicSettings,
    timeout_s: float = 10.0,
) -> dict[str, bool]:
    """Sees to it that topics exist; by name, whether each had to be made.

    Raises:
        TopicNameInvalid: Kafka allows no such name; nothing was made.
        BrokerUnreachable: No broker answered.
        KafkaRefused: The broker does not make a topic.

    Guarantees:
        A topic that exists stays as it is. Run twice: the second time makes none.
    """
    for topic in topics:
        if (problem := topic_problem(topic, "topic")) is not None:
            raise problem
    client = KafkaClient(bootstrap_servers, options, timeout_s)
    try:
        return create_topics(
            client,
            topics,
            partitions=settings.partitions,
            replication_factor=settings.replication_factor,
            config=settings.config,
        )
    finally:
        client.close()


def rows(
    topic: str,
    *,
    latest_per_key: bool,
    columns: Sequence[str] | None,
    limit: int,
    as_json: bool,
    hooks: RunHooks = NO_HOOKS,
    **arguments: Any,
) -> TableRows:
    """At most ``limit`` rows of a topic; the arguments are those of ``read_topic``.

    Raises:
        RivermouthError: What is wrong with what was asked for.
    """
    project = _project(topic, latest_per_key=latest_per_key, arguments=arguments)
    check_broker(project)
    with ManagedSession(project, hooks) as spark:
        frame = _frame(project, for_flow(spark), columns)
        return TableRows(frame.columns, rows_of(frame, limit, as_json=as_json))


def _project(topic: str, *, latest_per_key: bool, arguments: dict[str, Any]) -> ResolvedProject:
    for name in () if latest_per_key else ("keys", "sequence_by"):
        if arguments.get(name):
            detail = "without latest_per_key each record is a row, whatever its key"
            raise ArgumentInvalid(argument=name, detail=detail, fix="--latest-per-key")
    kind, _ = format_of(arguments.get("format"))
    form: type[Format] = find_kind("formats", str(kind)) if kind in kind_names("formats") else Format
    if issubclass(form, ChangeEnvelope) and form.several_rows and not latest_per_key:
        detail = f"a record of the format {kind} may be several rows, which only their keys tell apart"
        raise ArgumentInvalid(argument="format", detail=detail, fix="--latest-per-key")
    sink = "upsert" if latest_per_key else "append"
    if arguments.get("format") is None and arguments.get("schema") is None:
        # A look shows what is there; --format json infers.
        arguments = {**arguments, "format": "raw"}
    return ingest_spec(topic, sink=sink, maintenance=NEVER, **arguments)


def _frame(project: ResolvedProject, spark: SparkSession, columns: Sequence[str] | None) -> DataFrame:
    (job,) = orders(project)
    return picked(engine.frame_of(spark, job), job.flow.topics[0], columns)
