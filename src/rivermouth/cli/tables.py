"""``rivermouth tables``: look at the tables of the flows, read them, and look after them."""

from __future__ import annotations

import datetime as dt
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from rivermouth.cli.attend import hooks
from rivermouth.cli.hints import without_files
from rivermouth.cli.letter_text import readable
from rivermouth.cli.options import Duration, Timestamp, WholeNumber, listed, with_project
from rivermouth.cli.output import Output, count, echo_json, plain
from rivermouth.cli.pipelines import SettingsChoice, has_flows, pipelines_of, with_settings
from rivermouth.cli.reports import erasure_text, lost_text, report_json, report_text, reports_json, reports_text
from rivermouth.cli.text_table import columns
from rivermouth.errors import ArgumentInvalid

if TYPE_CHECKING:
    from rivermouth.domain.ledger.erasure import ForgetReport
    from rivermouth.engine.table.describe_tables import TableDescription
    from rivermouth.pipelines.tables.described import ChosenTables
    from rivermouth.project.commands.maintenance import TableRows

Command = TypeVar("Command", bound=Callable[..., Any])

MAX_CELL_CHARACTERS: Final = 100


def _with_tables(command: Command) -> Command:
    """Names of tables and source files as arguments; the command gets the tuple ``tables``, empty for all."""
    return click.argument("tables", nargs=-1, metavar="[TABLE]...")(command)


@click.group("tables", short_help="Tables: describe, read, optimize, vacuum, forget.")
def tables() -> None:
    """The tables of flows and pipelines: look at them, read them, keep their files in order.

    TABLE is schema.table, or the name of its flow or dataset; dead letters are schema.table__dead_letters. With source
    files (.py, .sql, .ipynb) among the names, the tables are those of their pipeline.
    """


@tables.command(short_help="Say what tables consist of, and what would help.")
@_with_tables
@with_settings
@with_project
def describe(output: Output, tables: tuple[str, ...], file: str, *, settings: SettingsChoice) -> None:
    """Say what tables consist of: version, rows, files by size, bytes on storage, and what would help.

    Of flows, and of pipelines that have run. Reads the tables' logs and lists their folders, without starting Spark.
    """
    from rivermouth.pipelines.tables import described as of_pipelines
    from rivermouth.project.api import Project
    from rivermouth.project.resolved import tables as of_project

    chosen, of_flows = _chosen(file, tables, settings)
    found = of_project.described(Project.load(file), chosen.others) if of_flows else []
    found += [each for each in of_pipelines.described(chosen) if each.exists or tables]
    text = "\n\n".join(description_text(each) for each in found)
    told = [
        {
            **plain(each),
            "advice": [output.hinted(advice) for advice in each.advice],
            "reports": [report_json(report) for report in each.reports],
        }
        for each in found
    ]
    output.result(output.hinted(text) or "no tables", {"tables": told})


@tables.command(short_help="Print rows of one table.")
@click.argument("tables", nargs=-1, required=True, metavar="TABLE")
@click.option("--columns", "wanted", metavar="NAME,...", help="Only these columns.")
@click.option("--limit", type=WholeNumber(min=1), default=20, show_default=True, help="The most rows that are printed.")
@click.option("--version", type=WholeNumber(min=0), help="As of this version of the table.")
@click.option("--timestamp", type=Timestamp(), help="As it was then; without an offset it is UTC.")
@with_settings
@with_project
def read(
    output: Output,
    tables: tuple[str, ...],
    wanted: str | None,
    file: str,
    *,
    settings: SettingsChoice,
    **asked: Any,
) -> None:
    """Print rows of one table, in no order; with --output json one line a row, with bytes as base64.

    This prints what the records hold. In text, bytes that are no UTF-8 are hexadecimal digits.
    """
    from rivermouth.pipelines.tables import maintenance as of_pipelines
    from rivermouth.project.api import Project
    from rivermouth.project.commands import maintenance

    asked |= {"columns": None if wanted is None else listed(wanted), "as_json": output.json}
    if len(without_files(tables)[1]) != 1:
        msg = "name one table: its rows are printed."
        raise click.UsageError(msg)
    found, of_flows = _chosen(file, tables, settings)
    with hooks(output) as given:
        if of_flows:
            rows = maintenance.rows(Project.load(file), *tables, hooks=given, **asked)
        else:
            rows = of_pipelines.rows(found, hooks=given, **asked)
    show_rows(output, rows)


@tables.command(short_help="Put small files together, also while flows run.")
@_with_tables
@click.option("--where", metavar="CONDITION", help="Only partitions for which this is true, of one table.")
@click.option("--zorder", metavar="COLUMN,...", help="Order the rows by these columns, of one table.")
@with_settings
@with_project
def optimize(
    output: Output,
    tables: tuple[str, ...],
    file: str,
    where: str | None,
    zorder: str | None,
    *,
    settings: SettingsChoice,
) -> None:
    """Put small files together, also while flows and pipelines run; rows that are marked as deleted are left out.

    The old files stay for older versions until `rivermouth tables vacuum`. What was done is kept in the lake.
    """
    from rivermouth.pipelines.tables import maintenance as of_pipelines
    from rivermouth.project.api import Project
    from rivermouth.project.commands import maintenance

    asked: dict[str, Any] = {"where": where, "zorder": listed(zorder)}
    maintenance.check_optimize(without_files(tables)[1], **asked)
    found, of_flows = _chosen(file, tables, settings)
    with hooks(output) as given:
        asked |= {"hooks": given, "hear": lambda report: output.note(report_text(report))}
        reports = maintenance.optimized(Project.load(file), found.others, **asked) if of_flows else []
        reports += of_pipelines.optimized(found, **asked)
    output.result(reports_text(reports), reports_json(reports))


@tables.command(short_help="Delete files that only older versions need.")
@_with_tables
@click.option("--retain", type=Duration(), default="7 days", show_default=True, help="Keep the versions of this time.")
@click.option("--even-below-168-hours", is_flag=True, help="Let --retain be shorter, while no flow writes the tables.")
@click.option("--dry-run", is_flag=True, help="Only say what would go; without starting Spark.")
@with_settings
@with_project
def vacuum(
    output: Output, tables: tuple[str, ...], file: str, retain: float, *, settings: SettingsChoice, **asked: bool
) -> None:
    """Delete files that only older versions need, and say first which versions will not be readable any more.

    What was done is kept in the lake.
    """
    from rivermouth.pipelines.tables import maintenance as of_pipelines
    from rivermouth.project.api import Project
    from rivermouth.project.commands import maintenance

    wanted = maintenance.Vacuum(retain, **asked)
    found, of_flows = _chosen(file, tables, settings)
    with hooks(output) as given:
        said: dict[str, Any] = {
            "hooks": given,
            "announce": lambda foreseen: output.note(lost_text(foreseen)),
            "hear": lambda report: output.note(report_text(report)),
        }
        reports = maintenance.vacuumed(Project.load(file), found.others, wanted, **said) if of_flows else []
        reports += of_pipelines.vacuumed(found, wanted, **said)
    output.result(reports_text(reports), reports_json(reports))


def _chosen(file: str, names: Sequence[str], settings: SettingsChoice) -> tuple[ChosenTables, bool]:
    """The tables of pipelines that a command is about, and whether it is about tables of flows too.

    It is where some names mean no table of a pipeline, and where none is named.

    Raises:
        TableUnknown: A name means no table, and there are no flows.
    """
    from rivermouth.pipelines.tables import described

    files, names = without_files(names)
    pipelines = pipelines_of(file, files, settings)
    found = described.chosen(pipelines, names)
    flows_exist = has_flows(file, pipelines)
    if found.others and not flows_exist:
        raise found.unknown()
    return found, flows_exist and (not names or bool(found.others))


def show_rows(output: Output, found: TableRows) -> None:
    """Rows for a person, or a line of JSON each."""
    if output.json:
        for (line,) in found.rows:
            echo_json(line)
        return
    cells = [[_shown(value) for value in row] for row in found.rows]
    output.result(columns(found.columns, cells) if cells else "no rows", None)


@tables.command(short_help="Erase a person's rows and dead letters.")
@click.argument("table")
@click.option("--where", metavar="CONDITION", help="Rows for which this SQL over the table's columns is true.")
@click.option("--dead-letters", metavar="CONDITION", help="Dead letters for which this SQL over their columns is true.")
@click.option("--why", metavar="TEXT", default="", help="The reason; it is kept, so do not name the person in it.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_project
def forget(output: Output, table: str, file: str, *, yes: bool, dry_run: bool, **asked: Any) -> None:
    """Erase a person's rows and dead letters: nothing brings them back, and the audit still adds up.

    In a table with one row or every version of a key, one row that fits is enough: all rows of its key are erased. A
    dead letter is erased, too, if its Kafka key is the key of erased rows and of no other row. A flow that runs does it
    between two batches. The conditions are not kept, only their hashes. Older versions hold the rows until `rivermouth
    tables vacuum`.
    """
    from rivermouth.domain.ledger.erasure import ForgetRequest
    from rivermouth.project.api import Project
    from rivermouth.project.commands import forget as of_project

    asks = not (yes or dry_run)
    if asks and not sys.stdin.isatty():
        fix = f"rivermouth tables forget {table} ... --dry-run, then with --yes"
        raise ArgumentInvalid(
            argument="--yes", detail="erasing cannot be undone, and there is no terminal to ask on", fix=fix
        )

    def confirm(foreseen: ForgetReport) -> bool:
        return click.confirm(f"{output.hinted(erasure_text(foreseen))}\nerase that?", err=True)

    with hooks(output) as given:
        request = ForgetRequest(**asked)
        done = of_project.forgotten(
            Project.load(file), table, request, dry_run=dry_run, confirm=confirm if asks else None, hooks=given
        )
    output.result(output.hinted(erasure_text(done)), plain(done))


def description_text(table: TableDescription) -> str:
    """What a table consists of, for a person."""
    from rivermouth.domain.delta.table_files import bytes_text

    if not table.exists:
        return f"{table.table}: not made yet\n  hint: rivermouth run {shlex.quote(table.flow)}"
    lines = [f"{table.table}: version {table.version}{_made(table)}", f"  at {table.location}"]
    rows = "rows unknown" if table.rows is None else count(table.rows, "row")
    deleted = f", {table.deleted_rows:,} more are marked as deleted" if table.deleted_rows else ""
    lines.append(f"  {rows}{deleted}")
    for what, names in (("partitioned", table.partition_by), ("clustered", table.cluster_by)):
        lines += [f"  {what} by {', '.join(names)}"] if names else []
    average = f"{bytes_text(table.average_file_bytes)} a file on average"
    lines.append(f"  {count(table.files, 'file')}, {bytes_text(table.live_bytes)}, {average}")
    lines.append(f"  on storage: {bytes_text(table.stored_bytes)}, and {bytes_text(table.log_bytes)} of log")
    entry = "no ledger entry known" if table.entry is None else f"ledger entry {table.entry}"
    runs = f"{_run('optimized', table.optimized_at)}, {_run('vacuumed', table.vacuumed_at)}"
    lines.append(f"  {runs}" if table.kind == "dead_letters" else f"  {entry}; {runs}")
    bars = [(each.size, each.files, bytes_text(each.bytes)) for each in table.histogram if each.files]
    lines += [columns(("size", "files", "together"), bars, indent="    ")] if bars else []
    lines += [f"  would help: {each}" for each in table.advice]
    return "\n".join(lines)


def _run(done: str, at: float | None) -> str:
    return f"never {done}" if at is None else f"{done} at {_time(at)}"


def _time(at: float) -> str:
    return dt.datetime.fromtimestamp(at, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _made(table: TableDescription) -> str:
    if table.committed_at is None:
        return ""
    return f", {table.operation} at {_time(table.committed_at)}"


def _shown(value: object) -> str | None:
    """A cell on one line that no terminal takes for more than text; long ones are cut."""
    if value is None:
        return "null"
    text = readable(bytes(value) if isinstance(value, bytes | bytearray) else str(value).encode())
    return text if len(text) <= MAX_CELL_CHARACTERS else f"{text[: MAX_CELL_CHARACTERS - 1]}…"
