"""``rivermouth run``: run_flows what is there, or go on until stopped."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

import click

from rivermouth.cli.attend import Interrupted, hooks, run_interruptible
from rivermouth.cli.decisions import adoption, decision, with_adoption, with_decisions
from rivermouth.cli.options import with_flows, with_project
from rivermouth.cli.output import Output, echo, echo_json, to_json
from rivermouth.cli.pipelines import (
    SettingsChoice,
    are_alone,
    check_no_flow_options,
    check_selection,
    check_trial,
    meant,
    run_pipeline,
    with_selection,
    with_settings,
)
from rivermouth.cli.text_table import columns
from rivermouth.cli.undeclared import undeclared_text
from rivermouth.errors import FlowBroken, RivermouthError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rivermouth.engine.flow.jobs import FlowOutcome, StartActions
    from rivermouth.pipelines.running.pipeline import Pipeline
    from rivermouth.pipelines.selection import Selection
    from rivermouth.project.commands.managed_session import Stop
    from rivermouth.project.resolved.resolved_project import ResolvedProject


class Work(Protocol):
    """Something that is run until it has read what there is, or until it is stopped."""

    def __call__(self, *, stop: Stop | None) -> object:
        """Runs it."""


@click.command(short_help="Write records into their tables, or refresh a pipeline.")
@with_flows
@with_selection
@with_settings
@click.option("--follow", is_flag=True, help="Go on at each flow's trigger until stopped.")
@click.option("--once", is_flag=True, help="Read what is there, and end: the default.")
@click.option("--debug", is_flag=True, help="A trial: few records, and _debug added to the name of every place.")
@with_adoption
@click.option(
    "--update-schema",
    is_flag=True,
    help="Infer again the schemas that are inferred, and add what is new to the tables.",
)
@with_decisions
@with_project
def run(
    output: Output,
    flows: tuple[str, ...],
    file: str,
    *,
    follow: bool,
    once: bool,
    debug: bool,
    adopt: str | None,
    update_schema: bool,
    accept_loss: tuple[str, ...],
    new_epoch: tuple[str, ...],
    rewind: tuple[str, ...],
    why: str,
    selected: Selection,
    settings: SettingsChoice,
) -> None:
    """Write the records of all flows, or of those named, into their tables.

    In a folder with a pipeline, or with the names of its source files (.py, .sql, .ipynb), its tables are refreshed.

    Without --follow everything that is there by now is read, and then the run ends. Ctrl-C and SIGTERM end it
    after the current batch; the next run goes on from there.

    Where Kafka no longer holds what a flow expects, it stops until somebody decides: --accept-loss, --new-epoch and
    --rewind record the decision in the table's ledger, with --why, and the flow goes on.
    """
    from rivermouth.engine.flow.jobs import StartActions
    from rivermouth.project.api import Project

    check_mode(follow=follow, once=once)
    decided = decision(accept_loss, new_epoch, rewind, why=why, flows=flows)
    taken = adoption(adopt, flows=flows, decided=bool(decided))
    pipelines, others = meant(file, flows, settings)
    alone = are_alone(file, flows, pipelines, others)
    check_selection(selected, flows, pipelines, alone=alone)
    check_follow(pipelines, alone=alone, follow=follow, once=once)
    if alone:
        of_flows = {"--adopt": adopt, "--update-schema": update_schema, "--debug": debug, "--why": why}
        check_no_flow_options(of_flows | {"--accept-loss": accept_loss, "--new-epoch": new_epoch, "--rewind": rewind})
        goes_on = follow if follow or once else None
        run_each([partial(run_pipeline, each, selected, output, follow=goes_on) for each in pipelines], output)
        return
    check_trial(pipelines, debug=debug)
    project = Project.load(file).with_debug(debug=debug)
    start = StartActions(decision=decided, adoption=taken, update_schema=update_schema)
    works: list[Work] = [partial(run_flows, project, others, follow=follow, output=output, start=start)]
    run_each([*works, *(partial(run_pipeline, each, selected, output, follow=False) for each in pipelines)], output)


def run_each(works: Sequence[Work], output: Output) -> None:
    """Does each of these, one after the other. A failure keeps none from being done; after a stop none begins.

    Args:
        works: Each hears the wish to stop that it is given.
        output: Says the errors, if there are several; the last one is raised.
    """
    from rivermouth.project.commands.managed_session import Stop

    failures: list[Exception] = []
    for work in works:
        stop = Stop()
        try:
            work(stop=stop)
        except Interrupted:
            raise
        except Exception as error:  # noqa: BLE001 - raised at the end
            failures.append(error)
        if stop.asked:
            break
    for each in failures[:-1]:
        if isinstance(each, RivermouthError):
            output.error(each)
        else:
            output.unexpected(each)
    if failures:
        raise failures[-1]


def check_follow(pipelines: Sequence[Pipeline], *, alone: bool, follow: bool, once: bool) -> None:
    """Checks that what goes on until it is stopped is the flows, or one pipeline.

    Raises:
        UsageError: It is about more.
    """
    if follow and pipelines and not alone:
        msg = "--follow goes on with the flows or with a pipeline: name which."
        raise click.UsageError(msg)
    if follow and len(pipelines) > 1:
        named = ", ".join(each.name for each in pipelines)
        msg = f"--follow goes on with one pipeline, and there are several: {named}. Name one."
        raise click.UsageError(msg)
    others = alone and len(pipelines) > 1  # next to flows a pipeline does not go on
    if going := [each.name for each in pipelines if each.settings.continuous and others and not once]:
        msg = f"Pipeline {going[0]} is continuous: it goes on, and the others would not run. Name it, or add --once."
        raise click.UsageError(msg)


def check_mode(*, follow: bool, once: bool) -> None:
    """Checks that at most one of the two is given.

    Raises:
        UsageError: Both are given.
    """
    if follow and once:
        msg = "--follow goes on and --once ends: give one of them."
        raise click.UsageError(msg)


def run_flows(
    project: ResolvedProject,
    flows: Sequence[str],
    *,
    follow: bool,
    output: Output,
    start: StartActions,
    stop: Stop | None = None,
) -> list[FlowOutcome]:
    """Runs flows with progress, a summary and a clean end.

    Raises:
        FlowsFailed: A flow failed; the summary was given before.
        RivermouthError: Nothing was run at all.
    """
    from rivermouth.cli.progress import progress
    from rivermouth.project.commands import run_flows
    from rivermouth.project.resolved.jobs import run_jobs

    run_jobs(project, flows, follow=follow)  # what is wrong is said before Spark is started
    shown = progress(output)
    outcomes: list[FlowOutcome] = []
    with hooks(output, shown, stop) as given:
        try:
            outcomes = run_interruptible(
                lambda: run_flows.run(project, flows, follow=follow, hooks=given, start=start),
                given.stop,
                shown.echo,
            )
        except Interrupted:
            # A service that is told to stop has not failed, however early that is.
            shown.echo("stopped before the first batch; nothing was read")
        finally:
            shown.close()
        summarise(outcomes, stopped=given.stop.asked, output=output)
        run_flows.raise_failures(outcomes)
    return outcomes


def summarise(outcomes: Sequence[FlowOutcome], *, stopped: bool, output: Output) -> None:
    """Says what the run came to; errors that are none of ours with the place of their traces."""
    from rivermouth.cli.event_text import dropped_text
    from rivermouth.cli.progress import SUMMARY_HEAD, summary_json, summary_row

    if output.json:
        echo_json(to_json(summary_json(outcomes, stopped=stopped)))
    elif outcomes:
        echo(columns(SUMMARY_HEAD, [summary_row(outcome) for outcome in outcomes]))
        for each in outcomes:
            if each.counts.dropped and each.dropped_by:
                echo(f"{each.flow}: {dropped_text(each.counts.dropped, each.dropped_by)}")
        for outcome in outcomes:
            if text := undeclared_text(outcome.flow, outcome.counts, outcome.undeclared_names):
                output.note(output.hinted(f"{outcome.flow}: {text}"))
    failures_told(outcomes, output)


def failures_told(outcomes: Sequence[FlowOutcome], output: Output) -> None:
    """Says where the traces are of flows that ended for a reason that is none of ours."""
    for outcome in outcomes:
        if isinstance(outcome.error, FlowBroken) and outcome.error.__cause__ is not None:
            output.unexpected(outcome.error.__cause__)
