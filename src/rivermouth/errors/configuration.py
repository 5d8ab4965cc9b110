"""What the user wrote: errors in the project file, in its values and in the arguments of commands."""

from __future__ import annotations

from typing import Self

from rivermouth.errors.base import At, RivermouthError


class ProjectNotFound(RivermouthError):
    """There is no project file where one was looked for."""

    code = "PROJECT_NOT_FOUND"
    what = "no project file at {path}; nothing was read"
    hint = "rivermouth init"


class FlowsNotFound(RivermouthError):
    """A command that is about flows was called where only a pipeline is."""

    code = "FLOWS_NOT_FOUND"
    what = "there are no flows here: {path} is missing, and {pipeline} defines a pipeline; nothing was read"
    hint = "for a pipeline: rivermouth validate, plan, run, status, audit, dead-letters, tables"


class ProjectExists(RivermouthError):
    """A project file would be written over."""

    code = "PROJECT_EXISTS"
    what = "{path} is there already; it was not changed"
    hint = "edit {path}, or name another file: -f other.yml"


class ProjectInvalid(RivermouthError):
    """The project file is no YAML, or a value in it does not fit."""

    code = "PROJECT_INVALID"
    what = "{detail}; nothing was run"
    hint = "{fix}"


class ProjectProblems(ProjectInvalid):
    """Several problems of one project or of one flow, reported all at once.

    Args:
        at: Not used: each problem has a place of its own.
        **facts: ``count``, ``file`` and ``problems``, a tuple of the errors in the order of the file. Of one flow
            ``file`` is ``flow NAME``.
    """

    what = "{count} problems in {file}; nothing was run"
    hint = ""

    problems: tuple[RivermouthError, ...] = ()

    def located(self, at: At) -> Self:
        """The same, with the place ``at`` for each problem that has none."""
        facts = {**self.facts, "problems": tuple(each.located(at) for each in self.problems)}
        return type(self)(at=None, **facts)

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *(str(problem) for problem in self.problems)])


class UnknownKey(RivermouthError):
    """A key that the project file does not know."""

    code = "UNKNOWN_KEY"
    what = "unknown key {key!r} in {where}; nothing was run"
    hint = "{fix}"


class UnknownKind(RivermouthError):
    """A format, sink or action of a name that nothing answers to."""

    code = "UNKNOWN_KIND"
    what = "unknown {family} {name!r}; nothing was run"
    hint = "{fix}"


class NotSupported(RivermouthError):
    """A setting that is known but not built yet: refused, never ignored."""

    code = "NOT_SUPPORTED"
    what = "{setting} is not supported yet; nothing was run"
    hint = "remove {setting}"


class EnvironmentMissing(RivermouthError):
    """A ``${NAME}`` without default whose variable is not set."""

    code = "ENVIRONMENT_MISSING"
    what = "environment variable {name} is not set; nothing was run"
    hint = "export {name}=..., or write ${{{name}:-default}}"


class SecretMissing(RivermouthError):
    """A reference to a secret that its provider does not have."""

    code = "SECRET_MISSING"
    what = "secret {reference}: {detail}; nothing was run"
    hint = "{fix}"


class WidgetsMissing(RivermouthError):
    """The widgets of a Databricks job were asked for, and there are none to be had."""

    code = "WIDGETS_MISSING"
    what = "the widgets of this job cannot be read: {detail}; nothing was run"
    hint = "{fix}"


class KafkaOptionRefused(RivermouthError):
    """A Kafka option that rivermouth or Spark decides itself, or one that loads code."""

    code = "KAFKA_OPTION_REFUSED"
    what = "kafka option {option!r} is refused: {reason}; nothing was run"
    hint = "{fix}"


class KafkaClientUnable(RivermouthError):
    """A Kafka option that the Java client takes and librdkafka cannot."""

    code = "KAFKA_CLIENT_UNABLE"
    what = (
        "kafka option {option!r} cannot be handed to librdkafka, by which rivermouth asks for topics and offsets: "
        "{reason}; nothing was run"
    )
    hint = "{fix}"


class PlaceInvalid(RivermouthError):
    """A template of a place that cannot be filled, or a place that cannot be one."""

    code = "PLACE_INVALID"
    what = "{setting}: {detail}; nothing was run"
    hint = "{fix}"


class TableShared(RivermouthError):
    """Two flows write into one table, keep one checkpoint, or have an archive and a table in one folder."""

    code = "TABLE_SHARED"
    what = "flows {first!r} and {second!r} share the {place} {location}; neither was run"
    hint = "{fix}"

    def __init__(self, *, at: str | None = None, **facts: object) -> None:
        super().__init__(at=at, **{"fix": "give each flow its own table", **facts})


class TopicNameEmpty(RivermouthError):
    """A topic without a name."""

    code = "TOPIC_NAME_EMPTY"
    what = "{where}: the name of a topic is empty; nothing was run"
    hint = "{fix}"


class TopicNameInvalid(RivermouthError):
    """A name that no Kafka topic can have."""

    code = "TOPIC_NAME_INVALID"
    what = "{where}: {name!r} is no name of a Kafka topic: {reason}; nothing was run"
    hint = "{fix}"


class ArgumentInvalid(RivermouthError):
    """An argument that cannot be read, or that contradicts another one."""

    code = "ARGUMENT_INVALID"
    what = "{argument}: {detail}; nothing was run"
    hint = "{fix}"


class FlowUnknown(RivermouthError):
    """A flow was named that the project does not have."""

    code = "FLOW_UNKNOWN"
    what = "no flow named {name!r} in this project; nothing was run"
    hint = "{fix}"


class SchemaInvalid(RivermouthError):
    """A declared schema that Spark cannot read or Delta cannot hold."""

    code = "SCHEMA_INVALID"
    what = "flow {flow}: the schema cannot be used: {detail}; nothing was run"
    hint = "{fix}"


class PatternInvalid(RivermouthError):
    """A regular expression of the format regex that Java does not compile, or whose groups are not the columns."""

    code = "PATTERN_INVALID"
    what = "flow {flow}: the pattern of its format cannot be used: {detail}; nothing was run"
    hint = "write it in the words of java.util.regex.Pattern, with a group (?<name>...) for each column"


class FunctionUnusable(RivermouthError):
    """A function that the project names and that cannot be used."""

    code = "FUNCTION_UNUSABLE"
    what = "function {function!r} cannot be used: {detail}; nothing was run"
    hint = "{fix}"


class DeserializerUnusable(RivermouthError):
    """A Java class that the project names and that cannot be used."""

    code = "DESERIALIZER_UNUSABLE"
    what = "deserializer {name} cannot be used: {detail}; nothing was run"
    hint = "{fix}"


class DescriptorUnusable(RivermouthError):
    """A Protobuf descriptor file that is none, lacks something, or has what no table can hold."""

    code = "DESCRIPTOR_UNUSABLE"
    what = "the descriptor {file} cannot be used: {detail}; nothing was run"
    hint = "{fix}"


class ColumnCollision(RivermouthError):
    """A payload column has the name of a metadata column."""

    code = "COLUMN_COLLISION"
    what = "flow {flow}: column {column!r} is both in the payload and in the metadata columns; nothing was run"
    hint = "{fix}"


class ColumnReserved(RivermouthError):
    """A column has a name that records have on their way into the table, or that Spark or Delta uses there itself."""

    code = "COLUMN_RESERVED"
    what = "flow {flow}: column {column!r} has a name that {owner} keeps for itself; nothing was run"
    hint = "{fix}"


class SelectInvalid(RivermouthError):
    """Something of ``select`` that is no column of each record."""

    code = "SELECT_INVALID"
    what = "flow {flow}: select {expression!r} cannot be used: {detail}; nothing was run"
    hint = "{fix}"


class ExplodeInvalid(RivermouthError):
    """What ``explode`` names is no array and no map of each record."""

    code = "EXPLODE_INVALID"
    what = "flow {flow}: explode {expression!r} cannot be used: {detail}; nothing was run"
    hint = "{fix}"


class ExpectationInvalid(RivermouthError):
    """An expectation's condition that Spark cannot analyse over the flow's columns."""

    code = "EXPECTATION_INVALID"
    what = "flow {flow}: expectation {name!r} cannot be used: {detail}; nothing was run"
    hint = "{fix}"


class KeysInvalid(RivermouthError):
    """Keys, an order or a condition of a keyed table that its flow's columns do not give."""

    code = "KEYS_INVALID"
    what = "flow {flow}: sink {sink}: {detail}; nothing was run"
    hint = "{fix}"


class LayoutInvalid(RivermouthError):
    """Partition or cluster columns that the table does not have or cannot use."""

    code = "LAYOUT_INVALID"
    what = "flow {flow}: the table's layout cannot be used: {detail}; nothing was run"
    hint = "{fix}"


class SchemaNotInferred(RivermouthError):
    """There are no documents from which a schema could be inferred."""

    code = "SCHEMA_NOT_INFERRED"
    what = "{subject}: no schema can be inferred: {detail}; nothing was run"
    hint = "{fix}"


class DocumentsTooWide(RivermouthError):
    """Documents have more fields than a schema can have."""

    code = "DOCUMENTS_TOO_WIDE"
    what = "{subject}: no schema can be inferred: {detail}; nothing was run"
    hint = "{fix}"


class SchemaEmpty(RivermouthError):
    """There are no documents yet from which a schema could be inferred: the first records have not come.

    Attributes:
        has_values: Whether there may be values: False where all records were read, and all of them are tombstones.
    """

    code = "SCHEMA_EMPTY"
    has_values: bool = True
    what = "{subject}: no schema can be inferred yet: {detail}; nothing was run"
    hint = "{fix}"


class SchemaNotKept(RivermouthError):
    """A flow infers its schema, and has not done so yet."""

    code = "SCHEMA_NOT_KEPT"
    what = "flow {flow}: its schema is inferred by its first run, and it did not run yet; nothing was done"
    hint = "rivermouth run {flow}, or rivermouth schema infer {flow} --update"


class SchemaNotGrown(RivermouthError):
    """A flow declares its schema, and no version is kept of what has grown out of it."""

    code = "SCHEMA_NOT_GROWN"
    what = "flow {flow}: its schema is as declared, and nothing came that it grew by; nothing was done"
    hint = "rivermouth plan {flow}"


class SchemaFileBroken(RivermouthError):
    """The file of a kept schema cannot be used."""

    code = "SCHEMA_FILE_BROKEN"
    what = "flow {flow}: the kept schema {file} cannot be used: {detail}; nothing was run"
    hint = "put back its text, or take it away, for the version before it: rm {file}"


class SchemaUpdateRefused(RivermouthError):
    """An inference would change a kept schema as no table can be changed."""

    code = "SCHEMA_UPDATE_REFUSED"
    what = (
        "flow {flow}: the kept schema cannot become what was inferred: {detail}; it is as before, and nothing was run"
    )
    hint = "rivermouth run {flow}, without --update-schema: records that do not fit are dead letters"
