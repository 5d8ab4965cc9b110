"""Pipelines at the shell: which are meant, and what their runs and plans say."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from rivermouth.cli.hints import without_files
from rivermouth.cli.options import FILE_NAME
from rivermouth.cli.output import Output, count, plain
from rivermouth.cli.text_table import columns
from rivermouth.errors import FlowsNotFound, ProjectNotFound, RivermouthError

if TYPE_CHECKING:
    from rivermouth.engine.query.query_events import QueryEvent
    from rivermouth.pipelines.running.pipeline import Pipeline
    from rivermouth.pipelines.running.plan import PlannedDataset
    from rivermouth.pipelines.running.update import DatasetOutcome
    from rivermouth.pipelines.selection import Selection
    from rivermouth.project.commands.managed_session import Stop

Command = TypeVar("Command", bound=Callable[..., Any])
_NAMES: Final = re.compile(r"(?:`(?:[^`]|``)*`|[^,`])+")
_KINDS: Final = {
    "streaming_table": "streaming table",
    "materialized_view": "materialized view",
    "view": "temporary view",
    "sink": "sink",
}


@dataclass(frozen=True, slots=True)
class SettingsChoice:
    """What a command is told of the settings of pipelines.

    Attributes:
        profile: A profile or target.
        params: Values of the configuration, as they are written.
    """

    profile: str | None = None
    params: tuple[str, ...] = ()


def with_settings(command: Command) -> Command:
    """``--profile`` and ``--param``; the command gets them as ``settings``."""

    @functools.wraps(command)
    def told(*args: Any, profile: str | None, params: tuple[str, ...], **named: Any) -> Any:
        return command(*args, settings=SettingsChoice(profile, params), **named)

    for option in (
        click.option(
            "--param", "params", metavar="KEY=VALUE", multiple=True, help="A value of a pipeline's configuration."
        ),
        click.option("--profile", metavar="NAME", help="The profile or target of a pipeline's settings."),
    ):
        told = option(told)
    return cast("Command", told)


def with_selection(command: Command) -> Command:
    """Which datasets of a pipeline are refreshed, and how; the command gets it as ``selected``."""

    @functools.wraps(command)
    def told(*args: Any, **named: Any) -> Any:
        from rivermouth.pipelines.selection import Selection

        listed = {name: _listed(name, named.pop(name)) for name in ("refresh", "full_refresh", "reset_checkpoint")}
        cleared, accepts_loss = named.pop("full_refresh_all"), named.pop("accept_data_loss")
        if accepts_loss and not (cleared or listed["full_refresh"]):
            msg = "--accept-data-loss is about tables that are cleared: add --full-refresh or --full-refresh-all."
            raise click.UsageError(msg)
        selected = Selection(**listed, full_refresh_all=cleared, accepts_loss=accepts_loss)
        return command(*args, selected=selected, **named)

    for option in (
        click.option("--accept-data-loss", is_flag=True, help="Clear also rows that the sources no longer have."),
        click.option("--reset-checkpoint", metavar="NAMES", help="Read sources of tables or flows again; rows stay."),
        click.option("--full-refresh-all", is_flag=True, help="Clear all tables of the pipeline, and fill them again."),
        click.option("--full-refresh", metavar="TABLES", help="Clear these tables, and fill them again: A,B."),
        click.option("--refresh", metavar="TABLES", help="Refresh these tables of the pipeline alone: A,B."),
    ):
        told = option(told)
    return cast("Command", told)


def meant(file: str, names: Sequence[str], settings: SettingsChoice) -> tuple[list[Pipeline], tuple[str, ...]]:
    """The pipelines that a command is about, and the names that are left for flows.

    Args:
        file: The project file, a file with a pipeline's settings, or a folder.
        names: Source files, or names of pipelines and flows.
        settings: What is said of them.

    Raises:
        UsageError: Files and flows are named, or something is said of the settings of a pipeline and none is meant.
    """
    files, names = without_files(names)
    found = pipelines_of(file, files, settings)
    by_name = {each.name: each for each in found}
    chosen, others = [each for each in names if each in by_name], tuple(each for each in names if each not in by_name)
    if files and others:
        msg = f"{others[0]} is no source file: name files, or pipelines and flows."
        raise click.UsageError(msg)
    if files or not names:
        return found, ()
    if not chosen and settings != SettingsChoice():
        msg = f"--profile and --param are about pipelines, and {others[0]} is none."
        raise click.UsageError(msg)
    return [by_name[name] for name in chosen], others


def pipelines_of(file: str, files: Sequence[str], settings: SettingsChoice) -> list[Pipeline]:
    """The pipeline of source files, or, without any, the pipelines of ``file``.

    Raises:
        UsageError: Something is said of the settings of a pipeline, and there are no settings or no pipeline.
    """
    from rivermouth.pipelines import commands

    given = dict(_param(each) for each in settings.params)
    if files and settings.profile is not None:
        msg = f"--profile is about the settings of a pipeline, and {files[0]} is a source file."
        raise click.UsageError(msg)
    found = commands.pipelines(file, files, profile=settings.profile, params=given)
    if not found and (settings.profile is not None or given):
        msg = "--profile and --param are about pipelines, and there is none here."
        raise click.UsageError(msg)
    is_alone = len(found) == 1 and not has_flows(file, found)
    return [replace(each, is_alone=is_alone) for each in found]


def are_alone(file: str, names: Sequence[str], pipelines: Sequence[Pipeline], others: Sequence[str]) -> bool:
    """Whether a command is about pipelines and about no flow."""
    return bool(pipelines) and not others and (bool(names) or not has_flows(file, pipelines))


def check_selection(selected: Selection, names: Sequence[str], pipelines: Sequence[Pipeline], *, alone: bool) -> None:
    """Checks that tables are selected only of one pipeline. To clear all tables, several may be named.

    Args:
        selected: What is selected.
        names: What the command was given.
        pipelines: Those that it is about.
        alone: Whether it is about no flows.

    Raises:
        UsageError: Tables are selected, and there is no pipeline, or more than one pipeline is meant.
    """
    if selected == type(selected)():
        return
    if not pipelines:
        msg = (
            "--refresh, --full-refresh and --reset-checkpoint are about tables of a pipeline, and there is none here. "
            "Of a flow over a table: rivermouth rebuild FLOW."
        )
        raise click.UsageError(msg)
    options = ("refresh", "full_refresh", "reset_checkpoint", *(() if names else ("full_refresh_all",)))
    given = [f"--{each.replace('_', '-')}" for each in options if getattr(selected, each)]
    if given and not (alone and len(pipelines) == 1):
        known = " or ".join(each.name for each in pipelines)
        msg = f"{given[0]} is about tables of one pipeline, and more is meant: name {known}."
        raise click.UsageError(msg)


def check_no_flow_options(given: Mapping[str, object]) -> None:
    """Checks that no option for flows is given.

    Args:
        given: The value of each option.

    Raises:
        UsageError: Such an option is given.
    """
    for option, value in given.items():
        if value:
            msg = f"{option} is about flows, and a pipeline is meant."
            raise click.UsageError(msg)


def check_trial(pipelines: Sequence[Pipeline], *, debug: bool) -> None:
    """Checks that a trial of flows refreshes no pipeline, whose tables are the real ones.

    Args:
        pipelines: Those that the command is about.
        debug: Whether it is a trial.

    Raises:
        UsageError: A trial would refresh a pipeline.
    """
    if debug and pipelines:
        msg = f"--debug is a trial of flows, and pipeline {pipelines[0].name} would be refreshed: name the flows alone."
        raise click.UsageError(msg)


def has_flows(file: str, pipelines: Sequence[Pipeline]) -> bool:
    """Whether the named file is a project file with flows.

    Settings of a pipeline alone have none, even if a project file is in the same folder. A missing file has none
    either, if there are pipelines.
    """
    if not pipelines or pipelines[0].settings.at is None:
        return not pipelines
    named, project = Path(file), pipelines[0].project
    written = named / FILE_NAME if named.is_dir() else named
    if project.file is None or not written.exists() or not written.samefile(project.file):
        return False
    return bool(project.spec.flows)


def flows_not_found(error: RivermouthError) -> RivermouthError | None:
    """What is said of a missing project file of flows where a pipeline is in its folder; None for other errors."""
    if not isinstance(error, ProjectNotFound) or "of_files" in error.facts:
        return None
    from rivermouth.pipelines.settings.find import SETTINGS_FILES

    path = str(error.facts["path"])
    found = next((name for name in SETTINGS_FILES if (Path(path).parent / name).is_file()), None)
    return None if found is None else FlowsNotFound(path=path, pipeline=found)


def _param(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        msg = f"--param {text}: write it as KEY=VALUE."
        raise click.UsageError(msg)
    return name, value


def _listed(name: str, text: str | None) -> tuple[str, ...]:
    """Names that are separated by commas; one in backquotes may have commas.

    Raises:
        UsageError: The option is given, and names nothing. An empty text may be an empty variable of a shell.
    """
    found = tuple(each.strip() for each in _NAMES.findall(text or "") if each.strip())
    if text is not None and not found:
        msg = f"--{name.replace('_', '-')} names no table."
        raise click.UsageError(msg)
    return found


@contextmanager
def speaking_of(pipeline: Pipeline, output: Output) -> Iterator[Output]:
    """How a command speaks of one pipeline: the commands in its hints name it, where there is more in its folder."""
    name = "" if pipeline.is_alone else pipeline.name
    try:
        yield output.of(name)
    except RivermouthError as error:
        error.of_pipeline = name
        raise


def run_pipeline(
    pipeline: Pipeline, chosen: Selection, output: Output, *, follow: bool | None, stop: Stop | None = None
) -> list[DatasetOutcome]:
    """Runs one pipeline, says what goes on, and what it came to.

    Raises:
        PipelineFailed: A dataset failed; the summary was given before.
        RivermouthError: Nothing was run at all.
    """
    from rivermouth.cli.attend import Interrupted, hooks, run_interruptible
    from rivermouth.pipelines import commands

    notes(pipeline, output)
    outcomes: list[DatasetOutcome] = []
    with speaking_of(pipeline, output) as told, hooks(output, stop=stop) as given:
        options = commands.UpdateOptions(chosen, follow, speaker(told))
        try:
            outcomes = run_interruptible(lambda: commands.run(pipeline, options, given), given.stop, output.note)
        except Interrupted:
            output.note("stopped before the first dataset; nothing was read")
    summarise(pipeline, outcomes, output)
    commands.raise_failures(outcomes)
    return outcomes


def speaker(output: Output) -> Callable[[QueryEvent], None]:
    """Says each event of an update."""

    def hear(event: QueryEvent) -> None:
        if text := event_text(event):
            output.note(output.hinted(text))

    return hear


def notes(pipeline: Pipeline, output: Output) -> None:
    """Says once what the settings have that has no effect here."""
    for at, text in pipeline.settings.notes:
        output.note(f"{at}: {text}")


def event_text(event: QueryEvent) -> str:
    """An event as a line; empty for one that needs none."""
    from rivermouth.engine.query import query_events as ev

    match event:
        case ev.BatchWritten(dataset=dataset, counts=counts, seconds=seconds):
            lost = [f"{counts.dropped:,} dropped"] if counts.dropped else []
            lost += [f"{counts.dead_lettered:,} dead-lettered"] if counts.dead_lettered else []
            lost += [f"{counts.late:,} dropped as late"] if counts.late else []
            lost += [f"{each.dropped:,} dropped by view {name}" for name, each in counts.views.items() if each.dropped]
            more = f", {', '.join(lost)}" if lost else ""
            return f"{dataset}: {count(counts.written, 'row')} written{more} ({seconds:.1f} s)"
        case ev.CheckpointMade(flow=flow, reason=reason, aside=aside):
            where = f"; the old one is at {aside}" if aside else ""
            return f"{flow}: a checkpoint was made of the table's ledger: {reason}{where}"
        case ev.QueryChanged(dataset=dataset):
            changed = "its query or a column of its sources has changed"
            return f"{dataset}: {changed}; rows that are in the table stay as they are"
        case ev.ViewDecided(dataset=dataset, refresh=refresh, reason=reason):
            return f"{dataset}: refresh {refresh}: {reason}"
        case ev.FlowRetried(flow=flow, error=error, wait_s=wait_s):
            return f"{flow}: tried again in {wait_s:.0f} s: {error}"
        case ev.FlowFailed(dataset=dataset, error=error):
            return f"{dataset}: {error}"
        case ev.FlowSkipped(dataset=dataset, reason=reason):
            return f"{dataset}: not refreshed: {reason}"
        case ev.Note(message=message):
            return message
        case ev.FlowCompleted(dataset=dataset, late_rows=late, counts=counts) if late and not counts.late:
            return f"{dataset}: {count(late, 'row')} came later than the watermark allows, and were dropped"
    return ""


def summarise(pipeline: Pipeline, outcomes: Sequence[DatasetOutcome], output: Output) -> None:
    """Says what an update came to."""
    output.result(summary_text(outcomes), summary_json(pipeline, outcomes))


def summary_json(pipeline: Pipeline, outcomes: Sequence[DatasetOutcome]) -> dict[str, object]:
    """What an update came to, for a program."""
    datasets = [
        {
            "dataset": each.dataset,
            "result": each.result,
            "counts": plain(each.counts),
            "seconds": round(each.seconds, 3),
            "error": None if each.error is None else str(each.error),
            "refresh": each.refresh,
            "reason": each.reason,
        }
        for each in outcomes
    ]
    return {"pipeline": pipeline.name, "datasets": datasets}


def summary_text(outcomes: Sequence[DatasetOutcome]) -> str:
    """What an update came to, for a person."""
    head = ("dataset", "result", "read", "written", "dropped", "dead letters", "seconds")
    rows = [
        (
            each.dataset,
            each.result,
            each.counts.read,
            each.counts.written,
            each.counts.dropped,
            each.counts.dead_lettered,
            f"{each.seconds:.1f}",
        )
        for each in outcomes
    ]
    return columns(head, rows) if rows else ""


def plan_text(pipeline: Pipeline, planned: Sequence[PlannedDataset]) -> str:
    """A plan for a person."""
    lines = [f"pipeline {pipeline.name}: {count(len(planned), 'dataset')}"]
    for each in planned:
        lines += ["", f"{each.dataset}: {_KINDS[each.kind]}", f"  at: {each.at}"]
        if each.reads:
            lines.append(f"  reads: {', '.join(each.reads)}")
        if each.registered is not None:
            lines.append(f"  in the catalog: {each.registered}")
        lines += [f"    {note}" for note in each.notes]
        for flow in each.flows:
            name = f" {flow.flow}" if len(each.flows) > 1 else ""
            state = "; keeps state" if flow.is_stateful else ""
            action = " or ".join([flow.action, *flow.or_else])
            lines.append(f"  flow{name} ({flow.kind.replace('_', ' ')}): {action}: {flow.reason}{state}")
            lines += [f"    state: {text}" for text in flow.state]
        if each.new_columns:
            lines.append(f"  new columns: {', '.join(each.new_columns)}")
        lines += [f"  expectation {text}" for text in each.expectations]
        if not each.may_be_reset:
            lines.append("  a full refresh does not clear it: pipelines.reset.allowed = false")
    return "\n".join(lines)
