"""A pipeline's files evaluated in a session: what they define, and the workspace in which their queries run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from rivermouth.errors import NothingDefined
from rivermouth.pipelines.graph import Declared, Graph, declared
from rivermouth.pipelines.python.dbutils import DbUtils
from rivermouth.pipelines.python.files import Evaluation
from rivermouth.pipelines.python.modules import importable
from rivermouth.pipelines.python.notebook_names import frames_with_display, notebook_names
from rivermouth.pipelines.python.printed import output_apart
from rivermouth.pipelines.python.registry import Registry
from rivermouth.pipelines.python.user_modules import importing
from rivermouth.pipelines.running.resolving.begun_sources import settled
from rivermouth.pipelines.running.resolving.dataset_tables import Rewrites, never
from rivermouth.pipelines.running.resolving.resolve import Resolver
from rivermouth.pipelines.running.workspace import Workspace
from rivermouth.pipelines.session.avro_functions import AvroFunctions, with_registry
from rivermouth.pipelines.session.table_properties import with_known_properties
from rivermouth.pipelines.spec import VIEWS
from rivermouth.ports.internals.sessions import standing_in
from rivermouth.ports.spark.worker_modules import worker_modules

if TYPE_CHECKING:
    from rivermouth.pipelines.names import Names
    from rivermouth.pipelines.running.given import GivenSources
    from rivermouth.pipelines.running.pipeline import Pipeline
    from rivermouth.pipelines.spec import Definitions


@dataclass(frozen=True, slots=True)
class Loaded:
    """A pipeline whose files were evaluated and whose queries were looked at.

    Attributes:
        pipeline: The pipeline.
        workspace: Evaluates its queries.
        definitions: What its files define.
        declared: The same by names.
        resolver: Knows the nodes.
        graph: All of them.
    """

    pipeline: Pipeline
    workspace: Workspace
    definitions: Definitions
    declared: Declared
    resolver: Resolver
    graph: Graph


@contextmanager
def loaded(
    pipeline: Pipeline,
    spark: SparkSession,
    *,
    writes: bool,
    given: GivenSources | None = None,
    rewrites: Rewrites,
    redefine: Callable[[Loaded], None],
) -> Iterator[Loaded]:
    """The pipeline, ready to be run in the block: its modules can be imported and its names are known to Spark.

    Args:
        pipeline: The pipeline.
        spark: The session whose context it uses.
        writes: Whether its tables are made; else none is, and those that are missing are empty ones in a folder for
            temporary files.
        given: What a test gives in the place of sources, and of datasets.
        rewrites: Which tables the update writes from the beginning.
        redefine: Gives the misfits of the resolver the columns and partitions of their definitions.

    Raises:
        NothingDefined: The files define no dataset.
        RivermouthError: What is wrong with a file, a definition or a query.
    """
    with ExitStack() as opened:
        folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="rivermouth-pipeline-"))
        state = f"{pipeline.state}/schemas"
        workspace, definitions = opened.enter_context(
            evaluated(pipeline, spark, state=state, writes=writes, given=given)
        )
        if given is not None:
            definitions = given.definitions(definitions, pipeline.names)
        definitions = with_known_properties(workspace.session, definitions)
        found = declared(definitions, pipeline.names)
        workspace.file_site.schemas.anew.update(_inferred_anew(found, pipeline.names, rewrites))
        resolver = Resolver(workspace, found, f"{folder}/tables", rewrites, writes=writes)
        graph = resolver.graph()
        if settled(workspace, graph):
            resolver = Resolver(workspace, found, f"{folder}/begun", rewrites, writes=writes)
            graph = resolver.graph()
        if writes and resolver.tables.misfits:
            redefine(Loaded(pipeline, workspace, definitions, found, resolver, graph))
            resolver = Resolver(workspace, found, f"{folder}/more", replace(rewrites, clears=never), writes=True)
            graph = resolver.graph()
        pipeline.check_registered(graph)
        # Those of queries come while these are looked at.
        notes = tuple(dict.fromkeys((*definitions.notes, *workspace.registry.notes)))
        yield Loaded(pipeline, workspace, replace(definitions, notes=notes), found, resolver, graph)


def _inferred_anew(found: Declared, names: Names, rewrites: Rewrites) -> set[str]:
    """The datasets that the update clears, and views where all that can read them is cleared."""
    tables = {name: each for name, each in found.datasets.items() if each.kind not in VIEWS}
    cleared = {name for name, each in tables.items() if rewrites.clears(name, each)}
    is_all = cleared == tables.keys() and not found.sinks
    return {names.shown(name) for name in (found.datasets if is_all else cleared)}


@contextmanager
def evaluated(
    pipeline: Pipeline, spark: SparkSession, *, state: str, writes: bool = True, given: GivenSources | None = None
) -> Iterator[tuple[Workspace, Definitions]]:
    """The workspace of a pipeline, and what its files define; in the block its modules can be imported.

    Args:
        pipeline: The pipeline.
        spark: The session whose context it uses.
        state: The folder in which sources of files keep what they know.
        writes: Whether they write there; else they only read it.
        given: What a test gives in the place of sources.

    Raises:
        NothingDefined: The files define no dataset.
        RivermouthError: What is wrong with a file or a definition.
    """
    with ExitStack() as opened:
        registry = Registry(pipeline.settings.folder)
        workspace = Workspace(pipeline, spark, registry, state=state, writes=writes, given=given)
        dbutils = DbUtils(lambda: workspace.session, pipeline.project.environ, pipeline.configuration, pipeline.located)
        registry.secret = dbutils.secrets.get
        opened.enter_context(output_apart())
        avro = AvroFunctions(workspace.session, lambda: pipeline.project.schema_registry, registry.here)
        opened.enter_context(with_registry(avro))
        working = Path.cwd() if pipeline.settings.at is None else None
        user_folders = opened.enter_context(
            importing(pipeline.root, pipeline.settings.files, working, pipeline.settings.packages)
        )
        share = opened.enter_context(worker_modules(spark))
        opened.enter_context(standing_in(workspace.session))
        opened.enter_context(frames_with_display())
        names = notebook_names(workspace.session, dbutils)
        opened.enter_context(importable(names))
        evaluation = Evaluation(pipeline.settings.folder, names, pipeline.configuration, registry)
        user_folders.share(share)
        definitions = evaluation.evaluate(pipeline.settings.files)
        # With those that the files have added to sys.path.
        user_folders.share(share)
        if not definitions.datasets and not definitions.sinks:
            shown = ", ".join(pipeline.settings.shown(each) for each in pipeline.settings.files) or "there are none"
            raise NothingDefined(pipeline=pipeline.name, files=shown)
        yield workspace, definitions
