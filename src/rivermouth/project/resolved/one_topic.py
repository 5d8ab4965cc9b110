"""The one-liner: one topic into one table, without a file. Arguments are read strictly."""

from __future__ import annotations

import shlex
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rivermouth.decoding.declared.declared import INFER
from rivermouth.domain.project.locations import name_of_topic
from rivermouth.errors import ArgumentInvalid
from rivermouth.extend import find_kind, kind_names
from rivermouth.project.file.dump import plain
from rivermouth.project.file.reading import raise_all
from rivermouth.project.file.validation import validate_document
from rivermouth.project.file.yaml_source import Document
from rivermouth.project.resolved.resolved_project import ResolvedProject
from rivermouth.project.resolved.static_checks import topic_problem
from rivermouth.rows.columns.table_columns import key_columns
from rivermouth.spec import ChangeEnvelope, Flow, Format, ProjectSpec

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

RAW_SCHEMA: Final = "bronze"
DECODED_SCHEMA: Final = "silver"

SINK: Final = "upsert"
"""The sink of a flow that names none: one row a key, the newest."""

AFTER_RUN: Final = "after_run"
NEVER: Final = "never"

MAX_NAME_CHARACTERS: Final = 100

_TRUE: Final = ("true", "yes", "1")
_FALSE: Final = ("false", "no", "0")

Switch = bool | str | int | None
"""A boolean, or a text that says one; None where it was not given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestArguments:
    """The arguments of ``ingest``, as they are given.

    Attributes:
        topic: Name of the topic.
        bootstrap_servers: ``host:port``, several are separated by commas.
        lake: Root of the lake; a relative one is resolved against ``base``.
        format: raw, text, json …; json by default. One with options of its own is a mapping, as in a project file:
            ``{"type": "python", "function": "decode:orders"}``.
        schema: The columns of the values, in the words of the format; those of JSON are inferred by default.
        compression: ``gzip`` or ``zstd``, where each value is compressed; a mapping as in a project file.
        key_format: ``raw``, ``text``, ``long`` or ``int``.
        table: ``schema.table`` instead of the derived name.
        sink: ``upsert`` for one row a key, ``append`` for a row a record, ``history`` for every version of a key.
        keys: Columns that are the key of a row; Kafka's key by default.
        sequence_by: Columns or expressions that say which of two records of a key is newer; Kafka's own order by
            default.
        starting_offsets: As in a project file; earliest by default.
        kafka_options: Options of Kafka's client.
        follow: Go on at the flow's trigger instead of stopping when all is read.
        once: The contrary of ``follow``.
        streaming: Another word for ``follow``.
        debug: A trial: every path ends in ``_debug`` and reads are limited.
        update_schema: Whether the run infers the schema again; here it is only validated.
        maintenance: As in a project file; ``after_run`` looks after the table when all is read, ``never`` does not.
        base: Folder for relative places; the working folder by default.
        environ: Environment variables; the process's own by default.
    """

    topic: str
    bootstrap_servers: str = "localhost:9092"
    lake: str = "./lake"
    format: str | Mapping[str, Any] | None = None
    schema: str | None = None
    compression: str | Mapping[str, Any] | None = None
    key_format: str | None = None
    table: str | None = None
    sink: str | None = None
    keys: str | Mapping[str, str] | Sequence[str | Mapping[str, str]] | None = None
    sequence_by: str | Sequence[str] | None = None
    starting_offsets: Any = None
    kafka_options: Mapping[str, str | int | bool] | None = None
    follow: Switch = None
    once: Switch = None
    streaming: Switch = None
    debug: Switch = None
    update_schema: Switch = None
    maintenance: str | Mapping[str, Any] = AFTER_RUN
    base: str | Path | None = None
    environ: Mapping[str, str] | None = None


def ingest_spec(topic: str, **arguments: Any) -> ResolvedProject:
    """The project that one topic makes.

    The values are JSON (or ``format``) and the table is ``silver.<topic>``; without a schema it is inferred at the
    first run. With the format raw they stay bytes and the table is ``bronze.<topic>``. In the table's name,
    characters that Spark would have to quote become ``_``. The flow has that name without the schema. The table has one
    row for each key, the newest, unless ``sink`` says otherwise. By default the run reads all that is there, maintains
    the table, and stops.

    Args:
        topic: Name of the topic.
        **arguments: Those of ``IngestArguments``.

    Returns:
        A project with one flow; ``debug`` and ``follow`` say what was asked for.

    Raises:
        TopicNameEmpty: The topic has no name.
        TopicNameInvalid: Kafka allows no such name.
        ArgumentInvalid: A switch is neither true nor false, two contradict each other, the schema and the format
            do not go together, there are keys or a sequence for an append, or the schema that shall be inferred again
            is given.
        ProjectInvalid: Another value does not fit.
        UnknownKind: Nothing answers to the format.
        NotSupported: A format that is not built yet.
    """
    given = IngestArguments(topic=topic, **arguments)
    problem = topic_problem(topic, "topic")
    if problem is not None:
        raise problem
    told = _described(given.format, given.schema)
    _check_history(given.sink, given.sequence_by)
    if parse_switch("update_schema", given.update_schema) and told.get("schema") != INFER:
        detail = "the schema is given, or there is none, so it is not inferred"
        raise ArgumentInvalid(argument="update_schema", detail=detail, fix="no --schema and no --format")
    body = {
        "lake": given.lake,
        "kafka": {"bootstrap_servers": given.bootstrap_servers, "options": dict(given.kafka_options or {})},
        "flows": {flow_names(topic)[0]: _flow(given, told)},
    }
    project = ResolvedProject.from_spec(_spec(body), base=given.base, environ=given.environ)
    switches = {name: getattr(given, name) for name in ("follow", "once", "streaming")}
    return project.asked(debug=bool(parse_switch("debug", given.debug)), follow=_follow(**switches))


def _flow(given: IngestArguments, told: Mapping[str, Any]) -> dict[str, Any]:
    """The flow as in a project file."""
    kind, name = told["type"], name_of_topic(given.topic)
    flow: dict[str, Any] = {
        "topics": [given.topic],
        "format": dict(told) if len(told) > 1 else kind,
        "table": given.table or f"{RAW_SCHEMA if kind == 'raw' else DECODED_SCHEMA}.{name}",
        "sink": _sink(given.sink or SINK, keys=_listed(given.keys), sequence_by=_one(given.sequence_by)),
        "compression": given.compression,
        "key_format": given.key_format,
        "starting_offsets": given.starting_offsets,
        "maintenance": None if given.maintenance == NEVER else given.maintenance,
    }
    return {key: value for key, value in flow.items() if value is not None}


def parse_switch(argument: str, value: Switch) -> bool | None:
    """A boolean in one of the ways people write it; None stays None.

    Raises:
        ArgumentInvalid: The text is none of them; the error lists them.
    """
    if value is None or isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    allowed = ", ".join((*_TRUE, *_FALSE))
    raise ArgumentInvalid(argument=argument, detail=f"{str(value)!r} is none of {allowed}", fix=f"{argument}=true")


def derived(project: ResolvedProject, why: str | None = None) -> list[tuple[str, str]]:
    """What was derived from the arguments, as (name, text) in the order of a printout; no secrets.

    ``why`` is the reason for the format, where that was no argument.

    References to environment variables stand in it as written, options of Kafka by their names only.

    Raises:
        PlaceInvalid: A place cannot be one.
        EnvironmentMissing: A variable without default is not set.
    """
    lines = [
        ("mode", "follow" if project.follow else "once"),
        ("debug", str(project.debug).lower()),
        ("bootstrap_servers", project.spec.kafka.bootstrap_servers),
    ]
    if project.spec.kafka.options:
        lines.append(("kafka options", ", ".join(sorted(project.spec.kafka.options))))
    for name, flow in project.spec.flows.items():
        places = project.places(name)
        lines += [
            ("flow", name),
            ("topics", ", ".join(flow.topics)),
            ("starting_offsets", flow.starting_offsets.text()),
            ("format", flow.format.type + (f": {why}" if why else "")),
            *([("compression", flow.compression.type)] if flow.compression else []),
            ("key_format", flow.key_columns.type if flow.key_columns else "text" if flow.key_as_text else "raw"),
            *_ways(flow),
            ("table", f"{places.full_name} at {places.table}"),
            ("dead letters", places.dead_letter_table),
            ("checkpoint", places.checkpoint),
            ("state", places.state),
        ]
        if flow.maintenance is not None:
            lines.append(("maintenance", str(plain(flow.maintenance))))
    return lines


def _ways(flow: Flow) -> list[tuple[str, str]]:
    """How rows get into the table, as lines of ``derived``."""
    keyed = flow.keyed
    if keyed is None:
        return [("sink", flow.sink.type)]
    return [
        ("sink", flow.sink.type),
        ("keys", ", ".join(key_columns(flow))),
        ("sequence_by", ", ".join(keyed.sequence_by) or "Kafka's own order"),
    ]


def derived_text(project: ResolvedProject, why: str | None = None) -> str:
    """``derived`` as aligned lines."""
    lines = derived(project, why)
    width = max(len(name) for name, _ in lines) + 2
    return "\n".join(f"{name + ':':<{width}}{text}" for name, text in lines)


def format_of(format_: str | Mapping[str, Any] | None) -> tuple[str | None, dict[str, Any]]:
    """The name of a format, and its options.

    Raises:
        ArgumentInvalid: There are options, and no name.
    """
    if format_ is None or isinstance(format_, str):
        return format_, {}
    options = dict(format_)
    kind = options.pop("type", None)
    if not isinstance(kind, str):
        fix = "--format python --format-option function=decode:orders"
        raise ArgumentInvalid(argument="format", detail="its options are there, and not its name", fix=fix)
    return kind, options


def _described(format_: str | Mapping[str, Any] | None, schema: Any) -> dict[str, Any]:
    """The format as in a project file, with its type and, if it has one, its schema."""
    kind, options = format_of(format_)
    if schema is None:
        schema = options.pop("schema", None)
    elif "schema" in options:
        detail = "it is given twice, as an option of the format, too"
        raise ArgumentInvalid(argument="schema", detail=detail, fix="one of them")
    kind = _format(kind, schema, options)
    if kind == "json" and schema is None and "subject" not in options:
        schema = INFER
    return {"type": kind, **({} if schema is None else {"schema": schema}), **options}


def _format(kind: str | None, schema: Any, options: Mapping[str, Any]) -> str:
    if kind is None:
        return "json"
    if kind not in kind_names("formats"):
        return kind  # the judgement of the whole says more of it
    model: type[Format] = find_kind("formats", kind)
    fields: Mapping[str, FieldInfo] = {each.alias or name: each for name, each in model.model_fields.items()}
    if schema is not None and "schema" not in fields:
        raise ArgumentInvalid(
            argument="schema", detail=f"format {kind} has no schema", fix="--format json, or no --schema"
        )
    if schema is None and "schema" in fields and fields["schema"].is_required() and kind != "json":
        is_envelope = issubclass(model, ChangeEnvelope)
        whose = "the rows that its envelopes tell of" if is_envelope else "what its values hold"
        detail = f"{kind} needs the schema of {whose}"
        raise ArgumentInvalid(argument="schema", detail=detail, fix='--schema "id bigint, at timestamp"')
    for name, each in fields.items():
        if each.is_required() and name not in (*options, "schema", "type"):
            fix = f"--format-option {name}={shlex.quote((each.examples or ['...'])[0])}"
            raise ArgumentInvalid(argument="format", detail=f"{kind} needs {name}", fix=fix)
    return kind


def _check_history(sink: str | None, sequence_by: str | Sequence[str] | None) -> None:
    """Raises if the sink is a history and nothing says from when a record is valid."""
    if sink == "history" and not sequence_by:
        detail = "a history needs to know from when a record is valid"
        fix = "--sequence-by updated_at, or Kafka's own time: --sequence-by kafka_timestamp"
        raise ArgumentInvalid(argument="sequence_by", detail=detail, fix=fix)


def _sink(kind: str, **settings: list[Any]) -> str | dict[str, Any]:
    given = {name: value for name, value in settings.items() if value}
    for name in given if kind == "append" else ():
        detail = "an append has a row for each record, whatever its key"
        raise ArgumentInvalid(argument=name, detail=detail, fix=f"--sink upsert, or no --{name.replace('_', '-')}")
    return {"type": kind, **given} if given else kind


def _listed(value: str | Mapping[str, str] | Sequence[Any] | None) -> list[Any]:
    """The parts of a list; of a text those between commas, as in the shell."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return [value] if isinstance(value, Mapping) else list(value or ())


def _one(value: str | Sequence[str] | None) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def _follow(**switches: Switch) -> bool:
    asked = {name: parse_switch(name, value) for name, value in switches.items()}
    wanted = {name: (not value if name == "once" else value) for name, value in asked.items() if value is not None}
    if len(set(wanted.values())) > 1:
        said = ", ".join(f"{name}={str(asked[name]).lower()}" for name in wanted)
        raise ArgumentInvalid(
            argument=" and ".join(wanted), detail=f"they contradict each other ({said})", fix="give one"
        )
    return any(wanted.values())


def flow_names(topic: str) -> tuple[str, str]:
    """The name of the flow of a topic, and the one that it has where another topic's flow is called so.

    A flow's name begins with a letter. The second one ends with a checksum of the topic.
    """
    name = name_of_topic(topic)
    name = (name if name[0].isalpha() else f"topic_{name.lstrip('_')}")[:MAX_NAME_CHARACTERS]
    checksum = f"_{zlib.crc32(topic.encode()):08x}"
    return name, f"{name[: MAX_NAME_CHARACTERS - len(checksum)]}{checksum}"


def _spec(body: dict[str, Any]) -> ProjectSpec:
    """The judgement of a project file, without the places that only a file has."""
    spec, problems = validate_document(Document(body), None)
    raise_all(problems, None)
    if spec is None:
        raise ArgumentInvalid(argument="topic", detail="no project can be made of it", fix="rivermouth ingest --help")
    return spec
