"""``rivermouth doctor``: what is missing on this machine or in the project, each with its remedy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rivermouth.cli.attend import hooks
from rivermouth.cli.options import FILE_NAME, with_project
from rivermouth.cli.output import Output, indented, plain
from rivermouth.cli.text_table import hanging
from rivermouth.errors import NotReady

if TYPE_CHECKING:
    from rivermouth.project.commands.checks.doctor import Finding
    from rivermouth.project.resolved.resolved_project import ResolvedProject


@click.command(short_help="Check what a run needs: Java, jars, disk, lake, broker.")
@click.option("--no-spark", is_flag=True, help="Start no Spark: whether a store can be written is not tried then.")
@with_project
def doctor(output: Output, file: str, *, no_spark: bool) -> None:
    """Look at what a run needs, one by one: packages, Java, jars, disk, project, lake, stores, broker.

    Where places are not on this machine, on S3 for example, Spark is started here and writes a small file there twice,
    as each run does: a store must refuse the second. The file is taken away again. Downloads nothing. Where there is no
    rivermouth.yml the machine alone is looked at.
    """
    from rivermouth.project.api import Project
    from rivermouth.project.commands.checks.doctor import examine

    def stores(project: ResolvedProject) -> list[str]:
        from rivermouth.project.commands.checks.storage_check import tried

        with hooks(output) as given:
            return tried(project, given)

    alone = file == FILE_NAME and not Path(file).exists()
    if alone:
        output.note(f"no {FILE_NAME} here: the machine alone is looked at")
    found = examine(None if alone else Project.load(file), stores=None if no_spark else stores)
    output.result(_text(found), {"checks": plain(found)})
    failed = [each.about for each in found if each.problem is not None]
    if failed:
        raise NotReady(failed=len(failed), total=len(found), names=", ".join(failed))


def _text(found: list[Finding]) -> str:
    about = max(len(each.about) for each in found)
    lines = []
    for each in found:
        word = "ok" if each.problem is None else "problem"
        lines.append(hanging(f"{word:<7}  {each.about:<{about}}  ", each.detail))
        if each.problem is not None:
            lines.append(indented(str(each.problem), "         "))
    return "\n".join(lines)
