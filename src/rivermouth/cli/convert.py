"""``rivermouth convert``: a flow as a file of a pipeline, and files of a pipeline as flows."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from rivermouth.cli.hints import without_files
from rivermouth.cli.options import listed, with_project
from rivermouth.cli.output import Output
from rivermouth.cli.pipelines import SettingsChoice, meant, with_settings
from rivermouth.errors import ArgumentInvalid, ConvertedFileExists, NothingConverted

if TYPE_CHECKING:
    from rivermouth.pipelines.convert.conversions import Converted

_SETTINGS: Final = (".yml", ".yaml", ".json")
_LANGUAGES: Final = {".py": "python", ".sql": "sql"}


@click.command(short_help="Convert a flow to a pipeline file, or such files to flows.")
@click.argument("what", nargs=-1, required=True, metavar="FLOW|FILE...|FOLDER")
@click.option("--to", type=click.Choice(["python", "sql"]), help="The language of the pipeline file.")
@click.option("-o", "target", metavar="FILE", help="Write this file; without it the text is printed.")
@click.option("--leave-out", metavar="SETTINGS", help="Settings of the flow that the pipeline shall not have: A,B.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@with_settings
@with_project
def convert(
    output: Output, file: str, what: tuple[str, ...], settings: SettingsChoice, target: str | None, **named: Any
) -> None:
    """Convert a flow to a pipeline file that makes the same table, or pipeline files to a project file with flows.

    A flow of the project file is written as Python, or as SQL with --to sql. Source files (.py, .sql, .ipynb), a folder
    or a file with settings are written as a project file: each table that is Kafka records, one format and columns
    becomes a flow. For each other table the result says why it is none.

    What is different afterwards is listed: with -o below the name of the file, else on standard error. A setting that a
    pipeline does not have is refused, unless --leave-out names it.
    """
    check_target(target, force=named["force"])
    is_pipeline = _is_pipeline(file, what)
    leave_out = tuple(listed(named["leave_out"]))
    if is_pipeline and named["to"]:
        msg = "--to is the language of a pipeline file, and files of a pipeline become flows."
        raise click.UsageError(msg)
    if is_pipeline and leave_out:
        msg = "--leave-out is about settings of a flow."
        raise click.UsageError(msg)
    if not is_pipeline and settings != SettingsChoice():
        msg = f"--profile and --param are about pipelines, and {what[0]} is a flow."
        raise click.UsageError(msg)
    if is_pipeline:
        found = _flows(file, what, settings)
    else:
        language = named["to"] or _LANGUAGES.get(Path(target or "").suffix.lower(), "python")
        found = _pipeline(file, what[0], language, leave_out)
    _say(output, found, target)


def _is_pipeline(file: str, what: tuple[str, ...]) -> bool:
    """Whether the names are files of a pipeline, or a folder; a folder may have the name of a flow.

    Raises:
        UsageError: They are more than one thing to convert.
    """
    files, others = without_files(what)
    if len(what) > 1 and others:
        msg = f"{others[0]} is no source file: name source files, or one flow, folder or file with settings."
        raise click.UsageError(msg)
    [name, *_] = what
    if files or name.lower().endswith(_SETTINGS):
        return True
    return Path(name).is_dir() and ("/" in name or not _is_flow(file, name))


def _is_flow(file: str, name: str) -> bool:
    from rivermouth.project.file.reading import read_project

    return Path(file).is_file() and name in read_project(Path(file), file, os.environ)[0].flows


def check_target(target: str | None, *, force: bool) -> None:
    """Checks that the file may be written.

    Raises:
        ConvertedFileExists: The file exists, and ``force`` is not set.
    """
    if target is not None and not force and Path(target).exists():
        raise ConvertedFileExists(path=target)


def _pipeline(file: str, flow: str, language: Any, leave_out: tuple[str, ...]) -> Converted:
    from rivermouth.pipelines.convert.conversions import to_pipeline
    from rivermouth.pipelines.convert.flow_in_file import flow_in_file

    return to_pipeline(flow_in_file(file, flow, os.environ), language, leave_out)


def _flows(file: str, what: tuple[str, ...], settings: SettingsChoice) -> Converted:
    from rivermouth.pipelines.convert.conversions import left_behind, to_flows
    from rivermouth.pipelines.convert.load import read

    is_source = bool(without_files(what)[0])
    found, _ = meant(file if is_source else what[0], what if is_source else (), settings)
    if len(found) != 1:
        detail = f"{what[0]} has {len(found)} pipelines" if found else f"{what[0]} has no pipeline"
        raise ArgumentInvalid(argument="FILE", detail=detail, fix="name the source files of one pipeline")
    [pipeline] = found
    with read(pipeline) as known:
        converted = to_flows(known, pipeline.name, pipeline.project.spec.lake)
    if not converted.text:
        reasons = "\n  ".join(map(str, converted.no_flows)) or "there is no table"
        raise NothingConverted(files=" ".join(what), reasons=reasons)
    return replace(converted, differences=(*left_behind(pipeline), *converted.differences))


def _say(output: Output, found: Converted, target: str | None) -> None:
    value = {
        "file": target,
        "text": found.text,
        "made": found.made,
        "differences": found.differences,
        "no_flows": found.no_flows,
    }
    differences = [str(each) for each in (*found.differences, *found.no_flows)]
    if target is None:
        output.result(found.text.rstrip("\n"), value, whole=True)
        for each in differences:
            output.note(each)
        return
    try:
        Path(target).write_text(found.text, encoding="utf-8")
    except OSError as error:
        detail = f"{target} cannot be written: {error.strerror}"
        raise ArgumentInvalid(argument="-o", detail=detail, fix="name a file in a folder that is there") from None
    lines = [f"{target} is written: {', '.join(found.made)}", *(f"  {each}" for each in differences)]
    output.result("\n".join(lines), value)
