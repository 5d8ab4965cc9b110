"""``rivermouth rebuild``: rebuilds a flow's table from the table that the flow reads."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from rivermouth.cli.attend import hooks, run_interruptible
from rivermouth.cli.options import with_project
from rivermouth.cli.output import Output, count, echo, echo_json, is_terminal, to_json
from rivermouth.cli.text_table import columns
from rivermouth.errors import ArgumentInvalid

if TYPE_CHECKING:
    from rivermouth.project.commands.rebuild import Rebuilt


@click.command(short_help="Make the table of a flow again from its source table.")
@click.argument("flow", metavar="FLOW")
@click.option("--yes", is_flag=True, help="Do not ask before the table is emptied.")
@click.option("--why", default="", help="The reason; the ledger keeps it.")
@with_project
def rebuild(output: Output, flow: str, file: str, *, yes: bool, why: str) -> None:
    """Empty the table of FLOW, and rebuild it from the table that the flow reads.

    For flows with source: {table: ...}: no broker is asked, and Kafka need not hold the records any more. One commit
    deletes all rows, and is recorded in the table's ledger. Then the flow reads all of its source again, with its
    current settings. If it is killed half-way, the next run goes on. While another process writes the table, nothing
    is done.
    """
    from rivermouth.cli.progress import progress
    from rivermouth.project.api import Project
    from rivermouth.project.commands import run_flows
    from rivermouth.project.commands.rebuild import order_of
    from rivermouth.project.commands.rebuild import rebuild as make_anew
    from rivermouth.project.resolved.current_user import current_user

    project = Project.load(file)
    job = order_of(project, flow)  # what is wrong is said before anybody is asked
    if not yes:
        _confirm(flow, job.places.table, output)
    shown = progress(output)
    with hooks(output, shown) as given:
        try:
            done = run_interruptible(
                lambda: make_anew(project, flow, who=current_user(), why=why, hooks=given), given.stop, shown.echo
            )
        finally:
            shown.close()
        _summarise(done, stopped=given.stop.asked, output=output)
        run_flows.raise_failures([done.outcome])


def _confirm(flow: str, table: str, output: Output) -> None:
    if output.json or not (is_terminal() and sys.stdin.isatty()):
        detail = f"all rows of {table} would be deleted, and there is no terminal to ask on"
        raise ArgumentInvalid(argument="rebuild", detail=detail, fix=f"rivermouth rebuild {flow} --yes")
    click.confirm(f"delete all rows of {table}, and rebuild it?", abort=True)


def _summarise(done: Rebuilt, *, stopped: bool, output: Output) -> None:
    from rivermouth.cli.progress import SUMMARY_HEAD, summary_json, summary_row

    if output.json:
        rows = {"table": done.table, "rows_before": done.rows_before, "rows_after": done.rows_after}
        echo_json(to_json({**summary_json([done.outcome], stopped=stopped), **rows}))
        return
    echo(columns(SUMMARY_HEAD, [summary_row(done.outcome)]))
    before, after = (
        "none known" if rows is None else count(rows, "row") for rows in (done.rows_before, done.rows_after)
    )
    echo(f"{done.table}: {before} before, {after} now")
