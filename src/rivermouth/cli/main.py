"""The command ``rivermouth``: its groups, and what happens to errors."""

from __future__ import annotations

import io
import itertools
import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Final

import click

from rivermouth.cli import (
    audit,
    check,
    check_records,
    checkpoint,
    convert,
    dead_letters,
    demo,
    dev,
    doctor,
    ingest,
    init,
    jars,
    kinds,
    rebuild,
    run,
    schema,
    status,
    tables,
    topics,
)
from rivermouth.cli.attend import Interrupted
from rivermouth.cli.hints import naming_file
from rivermouth.cli.output import Output, echo, echo_json, to_json
from rivermouth.cli.pipelines import flows_not_found
from rivermouth.cli.synonyms import meant_by, without_guesses
from rivermouth.errors import RivermouthError

DONE: Final = 0
FAILED: Final = 1
WRONG_USAGE: Final = 2
INTERRUPTED: Final = 128 + signal.SIGINT

_COMMANDS: Final = (
    init.init,
    demo.demo,
    doctor.doctor,
    check.validate,
    check.plan,
    check_records.check_records,
    run.run,
    status.status,
    audit.audit,
    rebuild.rebuild,
    convert.convert,
    checkpoint.checkpoint,
    ingest.ingest,
    topics.topics,
    dead_letters.dead_letters,
    tables.tables,
    kinds.kinds,
    schema.schema,
    jars.jars,
    dev.dev,
)


class _InOrder(click.Group):
    """Lists the commands in the order in which a user meets them."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=_InOrder, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(None, "--version", package_name="rivermouth", message="rivermouth %(version)s")
def cli() -> None:
    """Write Kafka topics into Delta tables: every record ends in exactly one place.

    A project is a file rivermouth.yml; `rivermouth init` writes one to start from, and `rivermouth demo` shows
    all of it with a broker of its own.

    Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 130 stopped by Ctrl-C.
    """


for _command in _COMMANDS:
    cli.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command and ends the process with its exit code."""
    _quiet_libraries()
    signal.signal(signal.SIGTERM, _terminated)
    code = invoke(sys.argv[1:] if arguments is None else arguments)
    if code > 128:  # noqa: PLR2004 - ended by a signal
        _end_children()
    # A closed pipe shows only when the rest is flushed.
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def invoke(arguments: Sequence[str]) -> int:
    """Runs the command and returns its exit code; whatever goes wrong is told on standard error."""
    hinted = naming_file(cli, arguments)
    output = Output(json=_wants_json(arguments), traceback="--traceback" in arguments, hinted=hinted)
    try:
        code = cli.main(list(arguments), prog_name="rivermouth", standalone_mode=False, obj=output)
    except RivermouthError as error:
        output.error(flows_not_found(error) or error)
        return FAILED
    except click.ClickException as error:
        _show_usage(error, output)
        return error.exit_code
    except click.Abort as error:
        # click makes this of Ctrl-C, too.
        output.note("stopped")
        return INTERRUPTED if isinstance(error.__cause__, KeyboardInterrupt) else FAILED
    except (KeyboardInterrupt, Interrupted) as error:
        output.note("stopped")
        return error.exit_code if isinstance(error, Interrupted) else INTERRUPTED
    except BrokenPipeError:
        return DONE
    except Exception as error:  # noqa: BLE001 - nobody shall see a stack trace who did not ask for one
        output.unexpected(error)
        return FAILED
    return code if isinstance(code, int) else DONE


def _end_children() -> None:
    """Ends what this process started: a JVM that is only just starting would outlive it.

    PySpark hands its process out only once the JVM has answered, so nobody in this program knows it before.
    """
    for listed in Path("/proc/self/task").glob("*/children"):
        for child in listed.read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)


def _terminated(number: int, _frame: FrameType | None) -> None:
    """Ends a command as Ctrl-C does, with its clean-up; runs hear the signal themselves."""
    raise Interrupted(number)


def _show_usage(error: click.ClickException, output: Output) -> None:
    meant = meant_by(error)
    error = without_guesses(error, meant)
    if not output.json:
        said = io.StringIO()
        error.show(said)
        echo(said.getvalue().rstrip("\n"), err=True)
        if meant:
            echo(f"  hint: {meant}", err=True)
        return
    context = getattr(error, "ctx", None)
    hint = meant or (f"{context.command_path} --help" if context is not None else "rivermouth --help")
    body = {"code": "WRONG_USAGE", "message": error.format_message(), "at": None, "hint": hint}
    echo_json(to_json(body), err=True)


def _wants_json(arguments: Sequence[str]) -> bool:
    return "--output=json" in arguments or ("--output", "json") in itertools.pairwise(arguments)


def _quiet_libraries() -> None:
    """Keeps py4j, Spark's Python side and librdkafka from writing to the terminal by themselves."""
    for name in ("py4j", "pyspark", "rivermouth"):
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
    logging.getLogger().addFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    # Of a JVM that ends in mid-answer it speaks through the root logger, whose filters are asked for nobody else.
    return Path(record.pathname).parent.name != "py4j"
