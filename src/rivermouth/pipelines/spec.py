"""The nouns of a pipeline, as its files define them. Nothing here knows Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from rivermouth.pipelines.names import NO_USE, Use

ExpectationAction = Literal["warn", "drop", "fail", "dead_letter"]
DatasetKind = Literal["table", "streaming_table", "materialized_view", "temporary_view", "view"]
FlowKind = Literal["append", "update", "auto_cdc", "auto_cdc_from_snapshot"]

TABLE_NAME: Final = "tablename"
"""An option of Delta sinks, in lower case."""
VIEWS: Final = ("temporary_view", "view")


@dataclass(frozen=True, slots=True)
class SourceLine:
    """Where something is written.

    Attributes:
        file: The file, as the user would name it: relative to the pipeline's folder where it is below that.
        line: Its line, from 1; in a notebook ``.ipynb`` the line within the cell.
        cell: The cell of a notebook ``.ipynb``, from 1; None for other files.
        before: Characters of the line that are before a text which begins there.
    """

    file: str
    line: int
    cell: int | None = None
    before: int = field(default=0, compare=False)

    def __str__(self) -> str:
        cell = f" cell {self.cell}" if self.cell is not None else ""
        return f"{self.file}{cell}:{self.line}"


@dataclass(frozen=True, slots=True)
class Expectation:
    """A condition on the rows of a dataset, and what happens to a row for which it is not TRUE.

    Attributes:
        name: Unique in its dataset.
        condition: SQL of a boolean. NULL does not meet it.
        action: ``warn`` writes the row and counts it, ``drop`` leaves it out, ``fail`` ends the flow before the commit,
            ``dead_letter`` writes it into the dead letters.
    """

    name: str
    condition: str
    action: ExpectationAction


@dataclass(frozen=True, slots=True)
class NotNull:
    """A column, or a field within one, that its dataset declares NOT NULL.

    Attributes:
        name: The column, or the path of the field.
        condition: SQL that is TRUE for a row that has no null there.
        action: What the rows of a query are judged by; see ``rows.row_expectations``.
    """

    name: str
    condition: str
    action: str = "not_null"


@dataclass(frozen=True, slots=True)
class PythonQuery:
    """A query as a function that returns a frame.

    Attributes:
        function: Takes no argument; called once for the graph, and again before each refresh.
        conf: Spark settings that hold while it is called.
        use: What ``USE`` has chosen before it in the file.
    """

    function: Callable[[], Any]
    conf: Mapping[str, str] = field(default_factory=dict)
    use: Use = NO_USE


@dataclass(frozen=True, slots=True)
class SqlQuery:
    """A query as the text of a SELECT, as it is written in its file.

    Attributes:
        text: SQL, with the file's own names: ``LIVE.x``, ``STREAM(x)``, ``${param}``, ``read_files(...)``.
        at: Where its first line is written.
        conf: Settings that ``SET`` made before it in the file, and those of the pipeline.
        use: What ``USE`` has chosen before it in the file.
    """

    text: str
    at: SourceLine
    conf: Mapping[str, str] = field(default_factory=dict)
    use: Use = NO_USE


Query = PythonQuery | SqlQuery


@dataclass(frozen=True, slots=True)
class Dataset:
    """A table or view that a pipeline makes.

    Attributes:
        name: As it is written: ``orders``, ``silver.orders``, ``main.silver.orders``, with or without ``LIVE.``.
        kind: ``table`` is what its query makes of it: a streaming table of a streaming query, else a materialized view.
        at: Where it is defined.
        query: None for a streaming table that only flows write.
        schema: Its columns, as DDL or as a StructType; None for those of the query.
        comment: Comment on the table.
        properties: Table properties, Delta's and ``pipelines.*``.
        partition_by: Names of partition columns.
        cluster_by: Names of clustering columns.
        path: A folder for the table, if it shall not lie where the pipeline puts it.
        expectations: Conditions on its rows.
        private: Whether it is a table that only the pipeline is meant to read.
        refresh_policy: ``auto``, ``incremental``, ``incremental_strict`` or ``full``; of materialized views.
        flow_conf: Spark settings of all flows that write it, where these do not say another value.
    """

    name: str
    kind: DatasetKind
    at: SourceLine
    query: Query | None = None
    schema: Any = None
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    path: str | None = None
    expectations: tuple[Expectation, ...] = ()
    private: bool = False
    refresh_policy: str | None = None
    flow_conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AutoCdc:
    """What an AUTO CDC flow makes of its changes.

    Attributes:
        keys: Names of key columns.
        sequence_by: SQL of what orders the changes of a key; for snapshots None.
        apply_as_deletes: SQL: whether a change deletes its key.
        apply_as_truncates: SQL: whether a change deletes all keys before it.
        columns: The columns that the target has; all but ``except_columns`` where empty.
        except_columns: Columns of the changes that the target does not have.
        scd_type: 1 keeps the newest row of a key, 2 all versions.
        track_history_columns: A version begins where one of these changes; of all columns where both are empty.
        track_history_except_columns: A version begins where a column changes that is none of these.
        ignore_null_updates: Whether a null keeps the value that the row has.
        ignore_null_updates_columns: The same, for these columns alone.
        ignore_null_updates_except_columns: The same, for all columns but these.
        columns_to_update: A column with the names of the columns that a change brings.
        others_truncate: Whether another flow of the target has ``apply_as_truncates``.
    """

    keys: tuple[str, ...]
    sequence_by: str | None
    apply_as_deletes: str | None = None
    apply_as_truncates: str | None = None
    columns: tuple[str, ...] = ()
    except_columns: tuple[str, ...] = ()
    scd_type: Literal[1, 2] = 1
    track_history_columns: tuple[str, ...] = ()
    track_history_except_columns: tuple[str, ...] = ()
    ignore_null_updates: bool = False
    ignore_null_updates_columns: tuple[str, ...] = ()
    ignore_null_updates_except_columns: tuple[str, ...] = ()
    columns_to_update: str | None = None
    others_truncate: bool = False


@dataclass(frozen=True, slots=True)
class Flow:
    """A query that writes into a dataset or sink that is defined elsewhere.

    Attributes:
        name: Unique in the pipeline; the target's name where none is given.
        target: Name of the dataset or sink, as it is written.
        kind: What it does with the rows of its query.
        query: For ``auto_cdc`` the changes; for ``auto_cdc_from_snapshot`` the snapshots, or a function that is given
            the newest version and returns the next snapshot and its version, or None.
        at: Where it is defined.
        once: Whether it is run once for ever.
        comment: A comment.
        cdc: For the AUTO CDC kinds.
        keys: Of an ``update`` flow into a table the columns by which a row replaces another one.
    """

    name: str
    target: str
    kind: FlowKind
    query: Query
    at: SourceLine
    once: bool = False
    comment: str | None = None
    cdc: AutoCdc | None = None
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sink:
    """A place outside the pipeline that flows write to.

    Attributes:
        name: Unique in the pipeline.
        at: Where it is defined.
        format: A format of Spark's writer; None for a function.
        options: The writer's.
        function: For ``foreach_batch_sink``: takes a frame and the number of the batch.
        given: In a test, the folder of a Delta table that gets the rows in its place; empty otherwise.
    """

    name: str
    at: SourceLine
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    function: Callable[[Any, int], Any] | None = None
    given: str = ""


@dataclass(frozen=True, slots=True)
class EventHook:
    """A function that gets each event of an update as a dict.

    Attributes:
        name: Of the function.
        function: Takes the event.
        max_failures: After this number of failures in a row it is not called any more; None: it is always called.
        at: Where it is defined.
    """

    name: str
    function: Callable[[Mapping[str, Any]], Any]
    max_failures: int | None
    at: SourceLine


@dataclass(frozen=True, slots=True)
class Definitions:
    """All that the files of a pipeline define, in the order in which they are written."""

    datasets: tuple[Dataset, ...] = ()
    flows: tuple[Flow, ...] = ()
    sinks: tuple[Sink, ...] = ()
    hooks: tuple[EventHook, ...] = ()
    notes: tuple[tuple[SourceLine, str], ...] = ()
    """Settings that are written and change nothing here, each to be reported once: where it is, and a sentence."""

    def __add__(self, other: Definitions) -> Definitions:
        return Definitions(
            self.datasets + other.datasets,
            self.flows + other.flows,
            self.sinks + other.sinks,
            self.hooks + other.hooks,
            self.notes + other.notes,
        )
