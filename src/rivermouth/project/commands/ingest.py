"""One topic into one table, without a file."""

from __future__ import annotations

from typing import Any

from rivermouth.engine.flow.jobs import FlowOutcome, StartActions
from rivermouth.errors import ArgumentInvalid
from rivermouth.project.commands.managed_session import NO_HOOKS, RunHooks
from rivermouth.project.commands.run_flows import run
from rivermouth.project.resolved.arguments import check, checked, kinds_of, known
from rivermouth.project.resolved.one_topic import IngestArguments, Switch, parse_switch
from rivermouth.project.resolved.resolved_project import ResolvedProject


@checked
def ingest(
    topic: str | None = None, *, widgets: bool = False, hooks: RunHooks = NO_HOOKS, **arguments: Any
) -> FlowOutcome:
    """One topic into one table, without a file: ``ingest("orders", lake="./lake")``.

    Without ``format`` and ``schema`` the schema is inferred at the first run, and a topic that is not JSON stays bytes.

    Args:
        topic: Name of the topic.
        widgets: Whether the widgets of a Databricks notebook or job are arguments too, the topic among them. Those
            are taken that bear the name of an argument, all others are left alone, and so is an empty one. What is
            given here wins, also where it is None; one of ``follow``, ``once`` and ``streaming`` wins over all three.
            Where an argument is a mapping or a list, its widget holds JSON.
        hooks: Hears of it, and may stop it.
        **arguments: Those of ``IngestArguments`` of ``project.resolved.one_topic``: ``bootstrap_servers``, ``lake``,
            ``format``, ``schema``, ``key_format``, ``table``, ``starting_offsets``, ``kafka_options``, ``follow`` …

    Raises:
        WidgetsMissing: The widgets were asked for, and this is no Databricks notebook or job.
        ArgumentInvalid: There is no such argument, or it is of another type.
        RivermouthError: The arguments contradict each other, or the flow failed.

    Guarantees:
        As ``run``.
    """
    from rivermouth.project.commands.schema import ingest_project  # noqa: PLC0415 - that imports this one where it starts Spark

    kinds = kinds_of(IngestArguments)
    known("ingest", arguments, kinds)
    check("ingest", kinds, arguments)
    if topic is not None:
        arguments["topic"] = topic
    if widgets:
        from rivermouth.project.resolved.widgets import with_widgets  # noqa: PLC0415 - hardly anybody asks for them

        arguments = with_widgets(arguments)
    if "topic" not in arguments:
        detail = "it is neither an argument nor a widget" if widgets else "it is missing"
        raise ArgumentInvalid(argument="topic", detail=detail, fix='rivermouth.ingest("orders", ...)')
    project, _ = ingest_project(**arguments)
    update = wants_update(project, arguments.get("update_schema"))
    (outcome,) = run(project, follow=project.follow, hooks=hooks, start=StartActions(update_schema=update))
    if outcome.error is not None:
        raise outcome.error
    return outcome


def wants_update(project: ResolvedProject, switch: Switch) -> bool:
    """Whether a run shall infer the schema again; a topic whose values stay bytes has none."""
    return bool(parse_switch("update_schema", switch)) and any(flow.infers for flow in project.flows())
