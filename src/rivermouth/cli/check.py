"""``rivermouth validate`` and ``rivermouth plan``: what is wrong, and what a run would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rivermouth.cli.attend import hooks
from rivermouth.cli.decisions import adoption, with_adoption
from rivermouth.cli.options import with_flows, with_project
from rivermouth.cli.output import Output, count, plain
from rivermouth.cli.pipelines import (
    SettingsChoice,
    are_alone,
    check_selection,
    has_flows,
    meant,
    notes,
    speaking_of,
    with_selection,
    with_settings,
)
from rivermouth.cli.pipelines import plan_text as pipeline_text
from rivermouth.cli.text_table import columns
from rivermouth.errors import FlowsFailed

if TYPE_CHECKING:
    from rivermouth.engine.report.plan import FlowPlan
    from rivermouth.pipelines.running.pipeline import Pipeline
    from rivermouth.pipelines.selection import Selection


@click.command(short_help="Say what is wrong with the project; needs no broker.")
@with_flows
@with_settings
@with_project
def validate(output: Output, flows: tuple[str, ...], file: str, *, settings: SettingsChoice) -> None:
    """Say what is wrong with the project, or with a pipeline, as far as no broker is needed.

    The file, the environment, places and Kafka options are judged first, then Spark analyses schemas, expectations
    and table layouts.
    """
    from rivermouth.project.api import Project
    from rivermouth.project.commands import run_flows

    pipelines, flows = meant(file, flows, settings)
    for pipeline in pipelines:
        _validate_pipeline(pipeline, output)
    if pipelines and not flows and not has_flows(file, pipelines):
        return
    with hooks(output) as given:
        checked = run_flows.validate(Project.load(file), flows, given)
    names = [flow.name for flow in checked]
    output.result(f"{file}: {count(len(names), 'flow')}, nothing wrong", {"file": file, "flows": names})


@click.command(short_help="Say what a run would do, without doing any of it.")
@with_flows
@with_adoption
@with_selection
@with_settings
@click.option("--graph", type=click.Choice(["mermaid", "svg"]), help="Print a pipeline's graph in this form.")
@with_project
def plan(
    output: Output,
    flows: tuple[str, ...],
    file: str,
    *,
    adopt: str | None,
    selected: Selection,
    settings: SettingsChoice,
    graph: str | None,
) -> None:
    """Say what a run would do, without doing any of it.

    Of a pipeline: its datasets in the order in which they are refreshed, what each reads, and what would be done.

    For each flow: the tables that would be made, with their columns; where it starts and why; the offsets it would
    read. A flow without a ledger starts at the earliest offset unless starting_offsets says otherwise.
    """
    from rivermouth.project.api import Project
    from rivermouth.project.commands import run_flows

    taken = adoption(adopt, flows=flows, decided=False, command="plan")
    pipelines, others = meant(file, flows, settings)
    alone = are_alone(file, flows, pipelines, others)
    check_selection(selected, flows, pipelines, alone=alone)
    for pipeline in pipelines:
        with speaking_of(pipeline, output) as told:
            _plan_pipeline(pipeline, selected, told, graph)
    if alone:
        return
    flows = others
    with hooks(output) as given:
        plans = run_flows.plan(Project.load(file), flows, given, adoption=taken)
    if output.json:
        output.result("", {"flows": plain(plans)})
    else:
        output.result("\n\n".join(plan_text(each) for each in plans if each.problem is None), None)
    failed = [each for each in plans if each.problem is not None]
    for each in failed:
        if each.problem is not None:
            output.error(each.problem)
    if failed:
        names = ", ".join(each.flow for each in failed)
        raise FlowsFailed(failed=len(failed), total=len(plans), names=names)


def _validate_pipeline(pipeline: Pipeline, output: Output) -> None:
    from rivermouth.pipelines import commands

    notes(pipeline, output)
    with speaking_of(pipeline, output), hooks(output) as given:
        datasets = commands.validate(pipeline, given, note=output.note)
    text = f"pipeline {pipeline.name}: {count(len(datasets), 'dataset')}, nothing wrong"
    output.result(text, {"pipeline": pipeline.name, "datasets": datasets})


def _plan_pipeline(pipeline: Pipeline, chosen: Selection, output: Output, form: str | None) -> None:
    from rivermouth.pipelines import commands, graph_pictures
    from rivermouth.pipelines.running.plan import plan as planned_of

    notes(pipeline, output)
    with (
        hooks(output) as given,
        commands.opened(pipeline, given, writes=False, use="look", selection=chosen) as loaded,
    ):
        for text in (*commands.notes_of(loaded), *commands.busy_notes(loaded)):
            output.note(text)
        planned, found = planned_of(loaded, chosen), loaded.graph
    pictures = {"mermaid": graph_pictures.mermaid, "svg": graph_pictures.svg}
    if form is not None:
        picture = pictures[form](found)
        output.result(picture.rstrip("\n"), {"pipeline": pipeline.name, "graph": picture})
        return
    body = {"pipeline": pipeline.name, "datasets": plain(planned)}
    output.result(output.hinted(pipeline_text(pipeline, planned)), body)


def plan_text(plan: FlowPlan) -> str:
    """What a run of one flow would do, for a person."""
    table = f"new table {plan.table}" if plan.creates_table else f"table {plan.table}"
    lines = [f"{plan.flow}: {table} at {plan.location}"]
    lines += [f"  warning: {warning}" for warning in plan.warnings]
    lines += [f"  starts at {plan.start}"]
    lines += [f"  looks up {each}" for each in plan.lookups]
    lines += [f"  would read {count(plan.offsets, 'offset')} in {count(plan.batches, 'batch')}"]
    ranges = [
        (topic, str(partition), start, end, end - start)
        for topic, parts in plan.ranges.items()
        for partition, (start, end) in parts.items()
    ]
    if ranges:
        lines.append(columns(("topic", "partition", "from", "to (exclusive)", "offsets"), ranges, indent="    "))
    lines += [f"  dead letters: {plan.dead_letter_table}, made with the first one"]
    lines += [f"  checkpoint: {plan.checkpoint}, with --follow only"]
    if plan.partition_by:
        lines.append(f"  partitioned by {', '.join(plan.partition_by)}")
    if plan.cluster_by:
        lines.append(f"  clustered by {', '.join(plan.cluster_by)}")
    if plan.columns:
        lines += ["  columns:", columns(("name", "type"), plan.columns, indent="    ")]
    return "\n".join(lines)
