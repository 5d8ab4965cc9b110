"""The queries of a pipeline in a session of Spark's: each is evaluated there, and what it reads is found and noted."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it
from pyspark.sql.streaming.readwriter import DataStreamReader

from rivermouth.engine.query.counted_view import CountedView, counted_view
from rivermouth.errors import DatasetUnknown, QueryFunctionFailed, RivermouthError, first_line
from rivermouth.pipelines import event_columns
from rivermouth.pipelines.files.first_starts import FirstStarts
from rivermouth.pipelines.files.options import notes_of
from rivermouth.pipelines.files.planning import FileSite
from rivermouth.pipelines.files.sources import read_files, stream_files
from rivermouth.pipelines.graph import Declared, Input, Node
from rivermouth.pipelines.names import TableName, Use, parted
from rivermouth.pipelines.python.files import user_line
from rivermouth.pipelines.python.registry import Reader, Registry, collecting
from rivermouth.pipelines.running.reads import Evaluated, Reads, refuse_version_of_view
from rivermouth.pipelines.running.sql_text import spark_sql
from rivermouth.pipelines.session import decoded_records, encoded_values, lake_tables
from rivermouth.pipelines.session.flow_settings import OF_PIPELINES
from rivermouth.pipelines.session.kafka_clusters import KafkaClusters
from rivermouth.pipelines.session.pipeline_session import PipelineSession, is_followed
from rivermouth.pipelines.session.spark_errors import refused_query
from rivermouth.pipelines.session.sql_frames import SqlWithViews, frame_of
from rivermouth.pipelines.spec import VIEWS, Query, SourceLine, SqlQuery
from rivermouth.pipelines.sql.definitions.read import read_sql
from rivermouth.pipelines.sql.definitions.sql_session import is_use
from rivermouth.ports.delta import delta_table
from rivermouth.ports.internals import sessions
from rivermouth.ports.internals.query_plans import with_fresh_files
from rivermouth.ports.kafka.kafka_ends import KafkaEnds
from rivermouth.ports.kafka.kafka_source import FETCHES
from rivermouth.ports.lake.lake_files import PlacedFiles
from rivermouth.rows import row_expectations

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from rivermouth.domain.kinesis.options import KinesisOptions
    from rivermouth.pipelines.running.given import GivenSources
    from rivermouth.pipelines.running.pipeline import Pipeline


class Nodes(Protocol):
    """Gives the datasets of the pipeline, with tables that can be read."""

    declared: Declared
    """What the files define."""

    def node(self, name: TableName) -> Node:
        """The node of a dataset, which is looked at now if it was not yet."""


class Workspace(Reader):
    """Evaluates queries. Implements the session's ``Catalogue``, and the reader of ``dlt.read``.

    Args:
        pipeline: The pipeline.
        spark: The session whose context it uses.
        registry: What the pipeline's files define, and where.
        state: The folder in which sources of files keep what they know.
        writes: Whether they write there; else they only read it.
        given: What a test gives in the place of sources.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        registry: Registry,
        *,
        state: str,
        writes: bool = True,
        given: GivenSources | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.names = pipeline.names
        self.params = pipeline.configuration
        self.files_of_lake = PlacedFiles(spark)
        self.registry = registry
        self.session = PipelineSession(spark, self, None if given is None else given.now)
        self.kafka_ends = KafkaEnds(self.session)
        self.lock = threading.RLock()
        self.nodes: Nodes | None = None
        self.in_test = given is not None
        starts = FirstStarts()
        self.file_site = FileSite(state, pipeline.located, pipeline.written, None, writes, self.in_test, starts=starts)
        self._given = given
        self.of_views: dict[TableName, Evaluated] = {}
        """Queries of views, kept while the graph is made."""
        self._reads: list[Reads] = []
        self.clusters = KafkaClusters(pipeline)
        self.kinesis_options: list[KinesisOptions] = []
        registry.reader = self
        lake_tables.find_by_name(self.session, pipeline.project.lake.rstrip("/"), pipeline.names)
        for name, value in {**OF_PIPELINES, **pipeline.configuration}.items():
            self.session.conf.set(name, value)
        self.session.note_unheeded(pipeline.configuration, pipeline.settings.at, registry.note)

    def evaluate(
        self, query: Query, dataset: str, at: SourceLine, *, flow: str = "", nested: bool = False
    ) -> Evaluated:
        """The frame of a query, as it is now, and what it reads; in a session with its settings.

        One that is nested is a part of the query that is evaluated now, and has its settings too.

        Raises:
            QueryFunctionFailed: The function raised an error.
            QueryInvalid: Spark refuses the query.
            DatasetUnknown: It reads a table that is nowhere.
        """
        reads = Reads(dataset, at, query.use, flow)
        # A query in SQL has those of the pipeline as well, and these are not its own.
        others = self.params if isinstance(query, SqlQuery) else {}
        own = {name: value for name, value in query.conf.items() if others.get(name) != value}
        with (
            self.session.with_settings(own, nested=nested),
            self.lock,
            collecting(self.registry),
            self.errors(at, dataset),
        ):
            self.session.note_unheeded(own, at, self.registry.note)
            self._reads.append(reads)
            try:
                frame = self.session.here(self._frame(query, dataset, at))
            finally:
                self._reads.pop()
            decoded = decoded_records.used_once(reads, frame)
            frame = with_fresh_files(frame) if frame.isStreaming else frame
        read = tuple(reads.found.values())
        return Evaluated(frame, read, tuple(reads.views), decoded, frozenset(reads.shared), tuple(reads.kafka))

    def _frame(self, query: Query, dataset: str, at: SourceLine) -> DataFrame:
        if isinstance(query, SqlQuery):
            return self._sql_frame(query, dataset)
        try:
            frame = query.function()
        except (RivermouthError, PySparkException):
            raise
        except Exception as error:
            line = user_line(self.registry, error, self.pipeline.root) or at
            kind, detail = type(error).__name__, first_line(error)
            raise QueryFunctionFailed(at=str(line), dataset=dataset, error=kind, detail=detail) from error
        if not isinstance(frame, DataFrame):
            detail = f"it returned {type(frame).__name__}, and no frame"
            raise QueryFunctionFailed(at=str(at), dataset=dataset, error="TypeError", detail=detail)
        return frame

    def _sql_frame(self, query: SqlQuery, dataset: str) -> DataFrame:
        statement = spark_sql(query.text, self, query.at, params={**self.params, **query.conf})
        places = [str(query.at)]
        try:
            with statement as text:
                return frame_of(text, self.session.plain_sql, places.append)
        except PySparkException as error:
            raise self._refused(error, places[-1], dataset) from error

    @contextmanager
    def errors(self, at: SourceLine, dataset: str) -> Iterator[None]:
        """Errors of Spark's within the block become typed ones, with their place."""
        try:
            yield
        except PySparkException as error:
            raise self._refused(error, self._place(error, at), dataset) from error
        except RivermouthError as error:
            raise error.located(self._place(error, at)) from error.__cause__

    def _place(self, error: Exception, at: SourceLine) -> str:
        return str(user_line(self.registry, error, self.pipeline.root) or at)

    def _refused(self, error: PySparkException, place: str, dataset: str) -> RivermouthError:
        known = [] if self.nodes is None else [self.names.shown(each) for each in self.nodes.declared.datasets]
        return refused_query(error, place, dataset, known)

    def activate(self) -> None:
        """Delta takes its settings from the session that is the thread's: from now on this one, in this thread."""
        sessions.make_active(self.session)

    def now(self) -> dt.datetime:
        """The current time: that of the machine, or the one that a test gives."""
        given = None if self._given is None else self._given.now
        return dt.datetime.now(dt.UTC) if given is None else given

    # What sessions ask

    def decode(self, frame: DataFrame, settings: Mapping[str, Any], at: str = "") -> DataFrame:
        """See ``Reader``; ``at`` is the place in SQL."""
        reads = decoded_records.within_query(self._reads, "decode", at := at or str(self.registry.here()))
        return decoded_records.decoded(self.pipeline, frame, settings, reads, at)

    def encode(self, frame: DataFrame, settings: str | Mapping[str, Any]) -> Column:
        """See ``Reader``."""
        reads = decoded_records.within_query(self._reads, "encode", at := self.registry.here())
        return encoded_values.encoded(self.pipeline, frame, settings, reads, at)

    def read(self, name: str, *, stream: bool) -> DataFrame:
        """See ``Reader``."""
        return self.session.readStream.table(name) if stream else self.session.read.table(name)

    def table(self, name: str, *, stream: bool, options: Mapping[str, str]) -> DataFrame | None:
        """See ``Catalogue``."""
        return self._table(name, parted(name) or (), stream=stream, options=options)

    def table_of_parts(self, parts: tuple[str, ...], *, stream: bool, options: Mapping[str, str]) -> DataFrame | None:
        """As ``table``, of the parts of a name in SQL."""
        return self._table(".".join(parts), parts, stream=stream, options=options)

    def _meant(self, parts: tuple[str, ...]) -> TableName | None:
        if not parts or self.nodes is None:
            return self.names.of_parts(parts, self._use) if parts else None
        return self.nodes.declared.meant(self.names, parts, self._use)

    @property
    def _use(self) -> Use:
        return self._reads[-1].use if self._reads else self.registry.session.use

    def _table(
        self, text: str, parts: tuple[str, ...], *, stream: bool, options: Mapping[str, str]
    ) -> DataFrame | None:
        name = self._meant(parts)
        location = None if self._given is None else self._given_table(self._given, text, parts, name)
        if location is None:
            return self.table_named(name, stream=stream, options=options)
        self.note(Input(str(name or text), stream, inside=False, location=location))
        return self._delta(location, stream=stream, options=options)

    def _given_table(
        self, given: GivenSources, text: str, parts: tuple[str, ...], name: TableName | None
    ) -> str | None:
        """The table that a test gives; a dataset in whose place it is given is not declared any more."""
        is_declared = self.nodes is not None and name in self.nodes.declared.datasets
        others = () if is_declared or not parts else self.names.spellings(parts, self._use)
        return next(filter(None, (given.table(text, each) for each in (name, *others))), None)

    def has_table(self, name: str) -> bool:
        """See ``Catalogue``."""
        found = self._meant(parted(name) or ())
        dataset = None if found is None or self.nodes is None else self.nodes.declared.datasets.get(found)
        if found is None or (dataset is not None and dataset.kind in VIEWS):
            return dataset is not None
        return delta_table.exists(self.files_of_lake, self.pipeline.table(found, dataset))

    def table_named(self, name: TableName | None, *, stream: bool, options: Mapping[str, str]) -> DataFrame | None:
        """A frame of a dataset, or of a table of the lake; None where there is none of this name."""
        if name is None:
            return None
        with self.lock:
            if self.nodes is not None and name in self.nodes.declared.datasets:
                with self.session.with_settings({}):  # a dataset does not have the settings of those that read it
                    node = self.nodes.node(name)
                return self._dataset(node, stream=stream, options=options)
            location = self.pipeline.table(name)
            if not delta_table.exists(self.files_of_lake, location):
                return None
            self.note(Input(str(name), stream, inside=False, location=location))
            return self._delta(location, stream=stream, options=options)

    def _dataset(self, node: Node, *, stream: bool, options: Mapping[str, str]) -> DataFrame:
        shown = self.names.shown(node.name)
        self.note(Input(shown, stream, inside=True, location=node.location))
        if node.kind == "view":
            refuse_version_of_view(shown, options)
            return self._view(node, shown)
        if node.columns is None:
            fix = f'give it a schema, or a flow: @dp.append_flow(target="{shown}")'
            raise DatasetUnknown(at=str(node.at), reader="a query", name=f"{shown}, which no flow writes,", fix=fix)
        # An older version has columns of its own.
        place = (node.stand_in if is_followed("delta", options) else None) or node.location
        return self._delta(place or "", stream=stream, options=options)

    def _view(self, node: Node, shown: str) -> DataFrame:
        """The rows of a view. Those of a stream are counted by its expectations in each batch that reads them."""
        evaluated, found = self._of_view(node, shown), list[CountedView]()
        frame, expectations = self.session.here(evaluated.frame), node.expectations
        with self.errors(node.at, shown):
            if expectations and frame.isStreaming:
                frame, counted = counted_view(shown, frame, expectations)
                found.append(counted)
            else:
                frame = row_expectations.passed(frame, expectations)
        if self._reads:
            self._reads[-1].take(evaluated, found)
        return frame

    def _of_view(self, node: Node, shown: str) -> Evaluated:
        """The query of a view: as it was evaluated for the graph, or once more; see ``Reads.shares``."""
        kept = self.of_views.get(node.name)
        may_share = len(self._reads) == 1 and not self.session.is_cloned
        if kept is not None and may_share and self._reads[-1].shares(node.name, kept):
            return kept
        return self.evaluate(node.flows[0].query, shown, node.at, nested=True)

    def _delta(self, location: str, *, stream: bool, options: Mapping[str, str]) -> DataFrame:
        reader: Any = DataStreamReader(self.session) if stream else DataFrameReader(self.session)
        found: DataFrame = reader.format("delta").options(**options).load(location)
        return found

    def sql(self, text: str, args: Any) -> SqlWithViews:
        """See ``Catalogue``."""
        given = {str(name): str(value) for name, value in args.items()} if isinstance(args, Mapping) else {}
        with self.lock:
            at, params = self.registry.here(), {**self.params, **given}
            if is_use(text, at, in_query=bool(self._reads)):
                read_sql(text, at, session=self.registry.session)
                text = "SELECT 1 WHERE false"
            return spark_sql(text, self, at, params=params, keep_markers=args is not None)

    def files(self, path: str, options: Mapping[str, str], schema: T.StructType | str | None) -> DataFrame:
        """See ``Catalogue``."""
        self.note(Input(f"files {path}", stream=True, inside=False))
        self._note_options(options)
        return stream_files(self.session, self.pipeline.located(path), options, schema=schema, site=self.site())

    def files_by_sql(self, path: str, options: Mapping[str, str], *, stream: bool) -> DataFrame:
        """A frame of ``read_files`` or ``cloud_files``."""
        self.note(Input(f"read_files {path}", stream, inside=False))
        path = self.pipeline.located(path)
        given = {name: value for name, value in options.items() if name.lower() != "schema"}
        schema = next((value for name, value in options.items() if name.lower() == "schema"), None)
        self._note_options(given)
        if stream:
            return stream_files(self.session, path, given, schema=schema, site=self.site(), infers_types=True)
        return read_files(self.session, path, given, schema=schema, site=self.site())

    def _note_options(self, options: Mapping[str, str]) -> None:
        at = self._reads[-1].at if self._reads else self.registry.here()
        for text in notes_of(options):
            self.registry.note(at, text)

    def event_log(self, name: str, at: str) -> DataFrame:
        """See ``SqlSources``. Before the first update of the pipeline it is empty.

        Raises:
            DatasetUnknown: There is no such pipeline or dataset.
        """
        is_dataset = self.nodes is not None and self.names.resolve(name) in self.nodes.declared.datasets
        known = self.pipeline.name if is_dataset else name
        location = self.pipeline.event_log_of(known)
        if not delta_table.exists(self.files_of_lake, location):
            if known == self.pipeline.name:
                return self.session.createDataFrame([], event_columns.COLUMNS)
            raise DatasetUnknown(at=at, reader="event_log", name=name, fix=f"write event_log('{self.pipeline.name}')")
        self.note(Input(f"event_log {name}", stream=False, inside=False, location=location))
        return self._delta(location, stream=False, options={})

    def site(self) -> FileSite:
        """Where the source of files belongs that the query reads which is evaluated now."""
        reads = self._reads[-1] if self._reads else None
        return self.file_site.of(reads.dataset, reads.at, reads.flow) if reads else self.file_site.of()

    def current(self) -> tuple[str | None, str]:
        """See ``Catalogue``."""
        return self._use.catalog or self.names.catalog, self._use.schema or self.names.schema

    def located(self, path: str) -> str:
        """See ``Catalogue``."""
        return self.pipeline.located(path)

    def reads(
        self, what: str, *, stream: bool = False, notes: tuple[str, ...] = (), location: str | None = None
    ) -> None:
        """See ``Catalogue``."""
        self.note(Input(what, stream, inside=False, location=location, notes=notes))

    def kinesis(self, options: KinesisOptions) -> None:
        """See ``Catalogue``."""
        self.kinesis_options.append(options)

    def note(self, what: Input) -> None:
        """Hears what the query reads which is evaluated now."""
        if self._reads:
            self._reads[-1].note(what)

    def kafka(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """See ``Catalogue``: the options of the cluster, and how a reader fetches where that is not given."""
        said = {key.lower() for key in options}
        fetches = {f"kafka.{name}": value for name, value in FETCHES.items() if f"kafka.{name}" not in said}
        found = {**fetches, **self.clusters.options_for(options)}
        if self._reads:
            self._reads[-1].kafka.append({**options, **found})
        return found

    def given_records(self, options: Mapping[str, str], *, stream: bool) -> DataFrame | None:
        """See ``Catalogue``."""
        return None if self._given is None else self._given.records(self.session, options, stream=stream)

    def secret(self, scope: str, key: str) -> str:
        """A secret, as ``dbutils.secrets.get`` gives it."""
        secrets: Callable[[str, str], str] = self.registry.secret
        return secrets(scope, key)
