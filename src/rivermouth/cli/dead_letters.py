"""``rivermouth dead-letters``: look at records that did not reach their table, try them again, or give them up."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rivermouth.cli.attend import hooks
from rivermouth.cli.hints import without_files
from rivermouth.cli.letter_text import about, letter_json, letter_text, place, row_json, row_text, utc
from rivermouth.cli.options import Timestamp, WholeNumber, with_flows, with_project
from rivermouth.cli.output import Output, count, plain
from rivermouth.cli.pipelines import SettingsChoice, has_flows, pipelines_of, with_settings
from rivermouth.cli.text_table import columns

if TYPE_CHECKING:
    from rivermouth.engine.query.replays.replayed_rows import ReplayedRows
    from rivermouth.pipelines.dead_letters import LetterFilter
    from rivermouth.pipelines.running.pipeline import Pipeline
    from rivermouth.rows.dead_letter import DeadLetterFilter

Command = TypeVar("Command", bound=Callable[..., Any])
_OF_PIPELINES = ("status", "expectation", "reason", "field", "topic", "partition")


def _reason(_context: click.Context, _option: click.Parameter, code: str | None) -> str | None:
    """The code, if it is one of a dead letter.

    Raises:
        BadParameter: It is none.
    """
    from rivermouth.names import did_you_mean
    from rivermouth.rows.reasons import reasons

    if code is None or code in (known := reasons()):
        return code
    near = did_you_mean(code, known)
    near = f" {near[0].upper()}{near[1:]}" if near.startswith("did") else ""
    msg = f"{code!r} is no reason of a dead letter.{near} Reasons: {', '.join(sorted(known))}."
    raise click.BadParameter(msg)


def filtering(command: Command) -> Command:
    """The options by which dead letters are chosen; the command gets them by the names of ``DeadLetterFilter``."""
    options = (
        click.option("--reason", callback=_reason, metavar="CODE", help="Reason code."),
        click.option("--field", help="Dotted path of the field."),
        click.option("--stage", type=click.Choice(["decode", "conform", "expectation"]), help="Where they failed."),
        click.option("--expectation", help="Name of a failed expectation."),
        click.option("--topic", help="Kafka topic."),
        click.option("--partition", type=int, help="Kafka partition."),
        click.option("--position", type=int, help="Which element of its record, where a flow explodes them."),
        click.option("--first-offset", type=int, help="Smallest offset."),
        click.option("--last-offset", type=int, help="Greatest offset; it is meant too."),
        click.option("--since", type=Timestamp(), help="Earliest time at which they were put there."),
        click.option("--until", type=Timestamp(), help="Latest time."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _with_status(default: str) -> Callable[[Command], Command]:
    choice = click.Choice(["open", "replayed", "discarded", "all"])
    return click.option("--status", type=choice, default=default, show_default=True, help="What became of them.")


@click.group("dead-letters", short_help="Records that could not go into their table.")
def dead_letters() -> None:
    """Records that could not go into their table: look at them, try them again, give them up.

    Of a pipeline the rows that failed an expectation whose action is dead_letter. FLOW is the name of a flow, of a
    pipeline, or of a table of a pipeline. With source files (.py, .sql, .ipynb) among the names, the tables are those
    of their pipeline.
    """


@dead_letters.command("list", short_help="Count dead letters by reason and field.")
@with_flows
@_with_status("all")
@filtering
@with_settings
@with_project
def list_(output: Output, flows: tuple[str, ...], file: str, *, settings: SettingsChoice, **chosen: Any) -> None:
    """Say how many dead letters there are, by reason and field, with the place of one of each kind."""
    from rivermouth.pipelines import dead_letters as of_pipelines
    from rivermouth.project.api import Project
    from rivermouth.project.commands import dead_letters as letters

    where = _where(file, flows, settings, chosen, _OF_PIPELINES)
    with hooks(output) as given:
        groups = letters.listed(Project.load(file), where.flows, _filter(chosen), given) if where.has_flows else []
        of_rows = [
            group
            for pipeline, tables in where.pipelines
            for group in of_pipelines.listed(pipeline, tables, where.filter, given)
        ]
    parts = []
    if groups:
        head = ("flow", "status", "stage", "reason", "field or expectations", "count", "for example")
        rows = [
            (each.flow, each.status, each.stage, each.reason, about(each), each.letters, place(each)) for each in groups
        ]
        parts.append(columns(head, rows))
    if of_rows:
        of_lines = ("table", "flow", "status", "reason", "field or expectations", "count", "newest")
        lines = [
            (each.table, each.flow, each.status, each.reason, about(each), each.letters, utc(each.last_at))
            for each in of_rows
        ]
        parts.append(columns(of_lines, lines))
    body = {"dead_letters": plain(groups)} | ({"rows": plain(of_rows)} if where.pipelines else {})
    output.result("\n\n".join(parts) or "no dead letters", body)


@dead_letters.command(short_help="Print dead letters whole, with value and headers.")
@with_flows
@_with_status("open")
@filtering
@click.option(
    "--limit", type=WholeNumber(min=1), default=20, show_default=True, help="The most that is printed of each flow."
)
@with_settings
@with_project
def show(
    output: Output,
    flows: tuple[str, ...],
    file: str,
    limit: int,
    *,
    settings: SettingsChoice,
    **chosen: Any,
) -> None:
    """Print dead letters whole: where they come from, why they failed, key, value and headers.

    This prints what the records hold. What is no UTF-8 text is printed as hexadecimal digits.
    """
    from rivermouth.pipelines import dead_letters as of_pipelines
    from rivermouth.project.api import Project
    from rivermouth.project.commands import dead_letters as letters

    where = _where(file, flows, settings, chosen, _OF_PIPELINES)
    with hooks(output) as given:
        found = []
        if where.has_flows:
            found = letters.shown(Project.load(file), where.flows, _filter(chosen), limit=limit, hooks=given)
        of_rows = [
            letter
            for pipeline, tables in where.pipelines
            for letter in of_pipelines.shown(pipeline, tables, where.filter, limit=limit, hooks=given)
        ]
    text = "\n\n".join([*(letter_text(letter) for letter in found), *(row_text(letter) for letter in of_rows)])
    body: dict[str, Any] = {"dead_letters": [letter_json(letter) for letter in found]}
    if where.pipelines:
        body["rows"] = [row_json(letter) for letter in of_rows]
    output.result(text or "no dead letters", body, whole=True)


@dead_letters.command(short_help="Try open dead letters again.")
@with_flows
@filtering
@click.option("--dry-run", is_flag=True, help="Only say how many would go into the table.")
@with_settings
@with_project
def replay(
    output: Output,
    flows: tuple[str, ...],
    file: str,
    *,
    dry_run: bool,
    settings: SettingsChoice,
    **chosen: Any,
) -> None:
    """Try open dead letters again, by the current rules of the flow.

    Those that pass go into the table once and are marked as replayed; the others stay open. A flow that runs is asked
    to do it between two batches.

    Of a pipeline's table those rows are written that meet its expectations of now. Records that could not be decoded go
    through its query of now, unless that keeps state. A materialized view and a target of AUTO CDC are left out.
    """
    from rivermouth.cli.event_text import replayed_text
    from rivermouth.pipelines import dead_letters as of_pipelines
    from rivermouth.project.api import Project
    from rivermouth.project.commands import dead_letters as letters

    where = _where(file, flows, settings, chosen, ("expectation",))
    with hooks(output) as given:
        done = []
        if where.has_flows:
            done = letters.replayed(Project.load(file), where.flows, _filter(chosen), dry_run=dry_run, hooks=given)
        of_rows = [
            each
            for pipeline, tables in where.pipelines
            for each in of_pipelines.replayed(pipeline, tables, where.filter.expectation, dry_run=dry_run, hooks=given)
        ]
    lines = [f"{each.flow}: {replayed_text(each)}" for each in done]
    lines += [_replayed_rows(each) for each in of_rows]
    body = {"replayed": plain(done)} | ({"rows": plain(of_rows)} if where.pipelines else {})
    output.result("\n".join(lines) or "no dead letters", body)


@dead_letters.command(short_help="Give open dead letters up.")
@with_flows
@filtering
@click.option("--dry-run", is_flag=True, help="Only say how many would be given up.")
@with_settings
@with_project
def discard(
    output: Output,
    flows: tuple[str, ...],
    file: str,
    *,
    dry_run: bool,
    settings: SettingsChoice,
    **chosen: Any,
) -> None:
    """Give open dead letters up. They stay in their table, marked as discarded."""
    from rivermouth.pipelines import dead_letters as of_pipelines
    from rivermouth.project.api import Project
    from rivermouth.project.commands import dead_letters as letters

    where = _where(file, flows, settings, chosen, ("expectation",))
    with hooks(output) as given:
        done = {}
        if where.has_flows:
            done = letters.discarded(Project.load(file), where.flows, _filter(chosen), dry_run=dry_run, hooks=given)
        for pipeline, tables in where.pipelines:
            done |= of_pipelines.discarded(pipeline, tables, where.filter.expectation, dry_run=dry_run, hooks=given)
    would = " would be" if dry_run else ""
    text = "\n".join(f"{flow}: {count(letters_, 'dead letter')}{would} discarded" for flow, letters_ in done.items())
    output.result(text or "no dead letters", {"discarded": done, "dry_run": dry_run})


@dataclass(frozen=True)
class _Where:
    """What a command is about.

    Attributes:
        flows: Names of flows; all where empty.
        has_flows: Whether flows are meant at all.
        pipelines: Pipelines, each with the names of its tables; all of them where there is none.
        filter: What is asked of the dead letters of the pipelines.
    """

    flows: tuple[str, ...]
    has_flows: bool
    pipelines: list[tuple[Pipeline, tuple[str, ...]]]
    filter: LetterFilter


def _where(
    file: str, names: tuple[str, ...], settings: SettingsChoice, chosen: dict[str, Any], allowed: Collection[str]
) -> _Where:
    """What a command is about. It is known as a whole before the first dead letter is read or changed.

    Raises:
        UsageError: Pipelines are meant, and an option is given that only flows have.
    """
    flows, has_any, pipelines = _meant(file, names, settings)
    return _Where(flows, has_any, pipelines, _filter_of_rows(chosen, allowed if pipelines else chosen))


def _meant(
    file: str, names: tuple[str, ...], settings: SettingsChoice
) -> tuple[tuple[str, ...], bool, list[tuple[Pipeline, tuple[str, ...]]]]:
    from rivermouth.pipelines.dead_letters import tables_called

    files, wanted = without_files(names)
    pipelines = pipelines_of(file, files, settings)
    if not wanted:
        return (), not pipelines or has_flows(file, pipelines), [(each, ()) for each in pipelines]
    chosen: list[tuple[Pipeline, tuple[str, ...]]] = [(each, ()) for each in pipelines if each.name in wanted]
    known = {each.name for each in pipelines}
    others = [name for name in wanted if name not in known]
    for each in pipelines if others else ():
        called = {name for table in tables_called(each, others) for name in (table.dataset, table.table)} & {*others}
        known |= called
        chosen += [(each, tuple(sorted(called)))] if called else []
    flows = tuple(name for name in others if name not in known)
    if flows and files:
        msg = f"{flows[0]} is no table that {pipelines[0].name} has made, and no source file."
        raise click.UsageError(msg)
    return flows, bool(flows), chosen


def _filter_of_rows(chosen: dict[str, Any], allowed: Collection[str]) -> LetterFilter:
    """What is asked of dead letters of pipelines, by the options that are ``allowed``.

    Raises:
        UsageError: Something is asked that only records of Kafka have.
    """
    from rivermouth.pipelines.dead_letters import LetterFilter

    for name, value in chosen.items():
        if value is not None and name not in ("status", *allowed):
            known = ", ".join(f"--{each}" for each in allowed if each != "status")
            msg = f"--{name.replace('_', '-')} is about flows; dead letters of a pipeline are chosen by {known}."
            raise click.UsageError(msg)
    asked = {name: chosen.get(name) for name in _OF_PIPELINES}
    return LetterFilter(**{**asked, "status": None if asked["status"] == "all" else asked["status"]})


def _replayed_rows(done: ReplayedRows) -> str:
    from rivermouth.pipelines.dead_letters import letters_left

    would, rows = "would be " if done.dry_run else "", done.replayed - done.records + done.rows
    parts = [f"{count(done.tried, 'dead letter')} tried", f"{rows:,} {would}in the table"]
    parts += [f"{done.dropped:,} {would}left out"] if done.dropped else []
    parts += [f"{done.dead_lettered:,} {would}dead-lettered as rows"] if done.dead_lettered else []
    parts += [f"{done.remaining:,} still fail"] if done.remaining else []
    return "\n".join([f"{done.table}: {', '.join(parts)}", *map(str, letters_left(done))])


def _filter(chosen: dict[str, Any]) -> DeadLetterFilter:
    from rivermouth.rows.dead_letter import DeadLetterFilter

    if chosen.get("status") == "all":
        chosen["status"] = None
    return DeadLetterFilter(**chosen)
