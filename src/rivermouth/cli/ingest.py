"""``rivermouth ingest``: one topic into one table, without a file."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from rivermouth.cli.hints import without_file
from rivermouth.cli.options import FILE_NAME, format_with, listed, pairs, speaking, with_topic
from rivermouth.cli.output import Output, indented
from rivermouth.errors import ArgumentInvalid, ProjectExists


class _Switch(click.Option):
    """An option that may stand alone, for true, or with one of true, yes, 1, false, no and 0."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "is_flag": False, "flag_value": "true", "metavar": "[BOOLEAN]"})


@click.command(short_help="Write one topic into one table, without a project file.")
@with_topic
@click.option("--lake", default="./lake", show_default=True, help="Root of the lake: a folder or a URI.")
@click.option("--table", help="schema.table instead of the name that the topic gives.")
@click.option("--sink", help="upsert, the default: one row a key; append: a row a record; history: every version.")
@click.option("--follow", cls=_Switch, help="Go on until stopped.")
@click.option("--once", cls=_Switch, help="Read what is there, and end: the default.")
@click.option("--streaming", cls=_Switch, help="Another word for --follow.")
@click.option("--debug", cls=_Switch, help="A trial: few records, and _debug added to the name of every place.")
@click.option("--update-schema", cls=_Switch, help="Infer the schema again, and take new fields into the table.")
@click.option(
    "--maintenance",
    type=click.Choice(["after_run", "never"]),
    default="after_run",
    show_default=True,
    help="Optimize and vacuum the table when all is read, or not.",
)
@click.option("--save", is_flag=True, help="Write the project file that says the same; then run.")
@click.option("-f", "--file", default=FILE_NAME, show_default=True, help="The file that --save writes.")
@speaking
def ingest(output: Output, topic: str, format_: Any, file: str, *, save: bool, **arguments: Any) -> None:
    """Write one TOPIC into one Delta table: one row a key, the newest.

    Without --format and --schema the schema of JSON documents is inferred at the first run and kept; a topic that is
    not JSON stays bytes. Records without a value delete their key's row; records without a key are dead letters, which
    --sink append keeps as rows. Prints what it derives from the arguments, the places above all, and then runs. With
    --save the same settings are written into a rivermouth.yml, which you can change and run again.
    """
    from rivermouth.cli.run import run_flows
    from rivermouth.engine.flow.jobs import StartActions
    from rivermouth.project.commands.ingest import wants_update
    from rivermouth.project.commands.schema import ingest_project
    from rivermouth.project.resolved.one_topic import derived, derived_text

    options, keys = pairs(arguments.pop("kafka_options")), listed(arguments.pop("keys"))
    format_ = format_with(format_, arguments.pop("format_options"))
    project, why = ingest_project(topic, format=format_, keys=keys, kafka_options=options, **arguments)
    if output.json:
        output.result("", {"event": "derived", "configuration": dict(derived(project, why))})
    else:
        output.note(indented(derived_text(project, why)))
    if save:
        from rivermouth.project.file.dump import to_yaml

        write_new(Path(file), to_yaml(project.spec))
        output.note(f"written: {file}")
    root = click.get_current_context().find_root().command
    if not save and isinstance(root, click.Group):
        output = replace(output, hinted=without_file(root, f"rivermouth ingest {shlex.quote(topic)} ... --save"))
    update = wants_update(project, arguments["update_schema"])
    run_flows(project, (), follow=project.follow, output=output, start=StartActions(update_schema=update))


def write_new(path: Path, text: str) -> None:
    """Writes a file that was not there, or that holds nothing.

    Raises:
        ProjectExists: It was there, and holds something; it is as before.
        ArgumentInvalid: It cannot be written.
    """
    try:
        empty = path.is_file() and not path.read_bytes().strip()
        with path.open("w" if empty else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ProjectExists(path=str(path)) from None
    except OSError as error:
        detail = f"{path} cannot be written: {error.strerror}"
        raise ArgumentInvalid(argument="--file", detail=detail, fix="name a file in a folder that is there") from None
