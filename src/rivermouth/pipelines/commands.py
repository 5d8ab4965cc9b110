"""What the shell and Python do with pipelines: find them, validate, plan and run them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rivermouth.engine.flow.failures import keep_unstarted
from rivermouth.engine.query.query_events import Note
from rivermouth.errors import PipelineFailed, ProjectNotFound
from rivermouth.pipelines.running.known import UNSTARTED
from rivermouth.pipelines.running.pipeline import Pipeline
from rivermouth.pipelines.selection import Selection
from rivermouth.pipelines.settings.find import find_pipelines, single_files
from rivermouth.pipelines.settings.known_settings import check_configuration, without_effect
from rivermouth.pipelines.settings.project_file import expanded_configuration
from rivermouth.pipelines.settings.stores import stores
from rivermouth.ports.lake.lake_files import files_for
from rivermouth.ports.lake.lake_writer import LakeWriter
from rivermouth.ports.lake.lease import PipelineLease, living_holder
from rivermouth.ports.spark.session import has_ended
from rivermouth.project.commands.managed_session import NO_HOOKS, ManagedSession, RunHooks
from rivermouth.project.file.reading import FILE_NAME
from rivermouth.project.resolved.resolved_project import ResolvedProject

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from rivermouth.engine.query.query_events import QueryListener
    from rivermouth.pipelines.running.load import Loaded
    from rivermouth.pipelines.running.update import DatasetOutcome
    from rivermouth.pipelines.settings.model import PipelineSettings
    from rivermouth.ports.spark.session_conf import JvmUse

_LAKE = "./lake"
_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class UpdateOptions:
    """How an update is run.

    Attributes:
        selection: Which datasets it is about.
        follow: Whether it goes on until it is stopped; None as the pipeline's settings say.
        listener: Gets the events.
        step: Called at each step of a batch with its name, for tests of crashes.
    """

    selection: Selection = field(default_factory=Selection)
    follow: bool | None = None
    listener: QueryListener = lambda _: None
    step: Callable[[str], None] = lambda _: None


def pipelines(
    place: str | Path = FILE_NAME,
    files: Sequence[str | Path] = (),
    *,
    profile: str | None = None,
    params: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> list[Pipeline]:
    """The pipelines of a folder, of a file with settings, or of source files.

    Args:
        place: The folder, or a file with settings; of a ``rivermouth.yml`` that is not there its folder. With source
            files the project file, or its folder.
        files: Source files, in place of settings.
        profile: See ``find_pipelines``; none with source files.
        params: Values of the configuration, which win over the files.
        environ: Environment variables; the process's own where None.

    Raises:
        ProjectNotFound: Source files are given, and another project file than that of the working folder is missing.
        RivermouthError: Settings or a project file cannot be read.
    """
    environ = os.environ if environ is None else environ
    path = Path(place)
    own = path / FILE_NAME if path.is_dir() else path
    if files:
        found = [single_files([Path(each) for each in files], params=params)]
        if own != Path(FILE_NAME) and not own.is_file():
            raise ProjectNotFound(path=str(own), of_files=True)
    elif path.name != FILE_NAME and not path.exists():
        return []  # the project file is missing, and its own error says so
    else:
        start = own.parent if path.name == FILE_NAME else path
        found = find_pipelines(start, profile=profile, params=params, environ=environ)
    made = [_pipeline(each, own if files or each.is_project else own.with_name(FILE_NAME), environ) for each in found]
    # One Spark may run them all.
    read = frozenset[str]().union(
        *(stores(each.configuration.values(), each.settings.files, each.paths) for each in made)
    )
    return [replace(each, project=replace(each.project, stores=tuple(read))) for each in made]


def _pipeline(settings: PipelineSettings, project_file: Path, environ: Mapping[str, str]) -> Pipeline:
    written = next((file for file in (project_file, settings.folder / FILE_NAME) if file.is_file()), None)
    if written is not None:
        project = ResolvedProject.load(written, environ)
    else:
        lake = settings.storage or _LAKE
        base = settings.folder if settings.at is not None else Path.cwd()
        project = ResolvedProject.from_spec({"name": settings.name, "lake": lake}, base, environ)
        settings = replace(settings, storage=None)
    configuration = expanded_configuration(settings, project.environ)
    check_configuration(configuration, settings.at)
    if settings.at is not None:
        settings = replace(settings, notes=(*settings.notes, *without_effect(configuration, settings.at)))
    return Pipeline(settings, project, configuration)


@contextmanager
def opened(
    pipeline: Pipeline,
    hooks: RunHooks = NO_HOOKS,
    *,
    writes: bool,
    use: JvmUse = "drain",
    selection: Selection | None = None,
) -> Iterator[Loaded]:
    """The pipeline loaded into a Spark session, which ends with the block if it began with it.

    Args:
        pipeline: The pipeline.
        hooks: Whose log Spark writes.
        writes: Whether its tables are made.
        use: What the JVM is for, if one is started for the block.
        selection: What the update is about; None where there is none.

    Raises:
        RivermouthError: What is wrong with its files, definitions or queries.
    """
    with ManagedSession(pipeline.project, hooks, use=use) as spark:
        # Flows that follow begin side by side, so that one may read a view before it is computed.
        follows = use == "follow" or (use == "look" and pipeline.settings.continuous)
        computes = selection is not None and not follows
        with _loaded(pipeline, spark, selection, writes=writes, computes=computes) as found:
            yield found


@contextmanager
def _loaded(
    pipeline: Pipeline, spark: SparkSession, selection: Selection | None, *, writes: bool, computes: bool
) -> Iterator[Loaded]:
    from rivermouth.pipelines.running.reset import loaded_for  # noqa: PLC0415 - loads Spark

    with loaded_for(selection or Selection(), pipeline, spark, writes=writes, computes=computes) as found:
        yield found


def run(pipeline: Pipeline, options: UpdateOptions | None = None, hooks: RunHooks = NO_HOOKS) -> list[DatasetOutcome]:
    """Refreshes the datasets of a pipeline, each behind those that it reads.

    Args:
        pipeline: The pipeline.
        options: How.
        hooks: Whose wish to stop is heard.

    Returns:
        An outcome for each table and sink.

    Raises:
        DatasetNotInPipeline: A dataset is named that the pipeline does not define.
        PipelineBusy: Another process runs an update of the pipeline.
        RivermouthError: Nothing was run at all.

    Guarantees:
        Run twice: the second run goes on where the tables' ledgers are. Of two at once one runs. Stopped anywhere:
        every row of a batch is in its table and its dead letters once, or comes with the next run.
    """
    options = options or UpdateOptions()
    follows, stopping = _follows(pipeline, options), threading.Event()
    engine = ManagedSession(pipeline.project, hooks, use="follow" if follows else "drain")
    outcomes: list[DatasetOutcome] | None = None
    with noting_failure(pipeline), engine as spark, _lease(pipeline, spark, options, hooks, stopping):
        opening = _loaded(pipeline, spark, options.selection, writes=True, computes=not follows)
        try:
            with opening as loaded, _stopped_by(hooks, stopping, engine.kill):
                outcomes = updated(loaded, options, stopping)
        except Exception:
            # The settings of a session cannot be put back in a JVM that is gone.
            if not has_ended(spark) or (outcomes is None and not hooks.stop.asked):
                raise
    return outcomes or []


def _lease(
    pipeline: Pipeline, spark: SparkSession, options: UpdateOptions, hooks: RunHooks, stopping: threading.Event
) -> PipelineLease:
    return PipelineLease(
        files_for(pipeline.project.lake, spark),
        pipeline.lease_file,
        pipeline.name,
        pause=lambda seconds: stopping.wait(seconds) or hooks.stop.asked,
        say=lambda words: options.listener(Note("", "", words)),
    )


def updated(loaded: Loaded, options: UpdateOptions, stopping: threading.Event | None = None) -> list[DatasetOutcome]:
    """As ``run``, of a pipeline that is loaded already."""
    from rivermouth.pipelines.running.event_log import EventLog  # noqa: PLC0415 - loads Spark
    from rivermouth.pipelines.running.known import keep_known  # noqa: PLC0415
    from rivermouth.pipelines.running.reset import prepare_selection  # noqa: PLC0415
    from rivermouth.pipelines.running.update import Update  # noqa: PLC0415

    log = EventLog(loaded, options.listener)
    update = Update(loaded, log.hear, stopping or threading.Event(), options.step)
    keep_known(loaded)
    with log.of_update(options.selection):
        for text in notes_of(loaded):
            log.hear(Note("", "", text))
        chosen = prepare_selection(loaded, options.selection, log.hear)
        outcomes = update.follow(chosen) if _follows(loaded.pipeline, options) else update.run(chosen)
        log.finished(outcomes, stopped=update.stopping.is_set())
    return outcomes


def _follows(pipeline: Pipeline, options: UpdateOptions) -> bool:
    return pipeline.settings.continuous if options.follow is None else options.follow


def notes_of(loaded: Loaded) -> list[str]:
    """A line for each thing in the pipeline's files that has no effect here."""
    return [f"{at}: {text}" for at, text in loaded.definitions.notes]


def busy_notes(loaded: Loaded) -> list[str]:
    """A line where a run now would be refused, because another process runs an update."""
    pipeline = loaded.pipeline
    writer = living_holder(files_for(pipeline.project.lake, loaded.workspace.session), pipeline.lease_file)
    return [] if writer is None else [f"the pipeline is being updated by {writer}: a run now would be refused"]


@contextmanager
def noting_failure(pipeline: Pipeline) -> Iterator[None]:
    """Keeps in the lake's state why an update ended before it refreshed a dataset; nothing where that cannot be."""
    lake = LakeWriter(pipeline.project.spark_conf, timeout_s=_TIMEOUT_S)
    try:
        yield
    except Exception as error:
        keep_unstarted(lake, pipeline.failures, [UNSTARTED], error)
        raise


@contextmanager
def _stopped_by(hooks: RunHooks, stopping: threading.Event, kill: Callable[[], None]) -> Iterator[None]:
    class _Supervised:
        def stop(self) -> None:
            stopping.set()

    with hooks.stop.over(_Supervised(), kill):  # type: ignore[arg-type]
        yield


def validate(
    pipeline: Pipeline, hooks: RunHooks = NO_HOOKS, *, note: Callable[[str], None] = lambda _: None
) -> list[str]:
    """The names of the datasets, after all files were evaluated and all queries were looked at by Spark.

    Args:
        pipeline: The pipeline.
        hooks: Whose log Spark writes.
        note: Gets a line for each thing in the pipeline's files that has no effect here.

    Raises:
        RivermouthError: What is wrong.

    Guarantees:
        No table is made.
    """
    with opened(pipeline, hooks, writes=False, use="look", selection=Selection()) as loaded:
        for text in notes_of(loaded):
            note(text)
        return [loaded.graph.names.shown(node.name) for node in loaded.graph.nodes if node.kind != "sink"]


def raise_failures(outcomes: Sequence[DatasetOutcome]) -> None:
    """Raises if a dataset failed.

    Raises:
        PipelineFailed: Some datasets failed; names them.
    """
    failed = [each for each in outcomes if each.result == "failed"]
    if failed:
        names = ", ".join(each.dataset for each in failed)
        raise PipelineFailed(failed=len(failed), total=len(outcomes), names=names) from failed[0].error
