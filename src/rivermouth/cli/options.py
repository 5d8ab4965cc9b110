"""Options that many commands share."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from rivermouth.domain.kafka.broker_addresses import wrong_addresses
from rivermouth.errors import ArgumentInvalid
from rivermouth.names import DEV_PORT

Command = TypeVar("Command", bound=Callable[..., Any])

FILE_NAME = "rivermouth.yml"


class WholeNumber(click.IntRange):
    """A whole number within bounds; what is none is no "integer range", as click would say."""

    name = "integer"


class Timestamp(click.ParamType[dt.datetime]):
    """A time in ISO 8601; without an offset it is UTC."""

    name = "timestamp"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dt.datetime:
        """The value that was meant; fails with words of usage."""
        if isinstance(value, dt.datetime):
            return value
        try:
            found = dt.datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is no timestamp, for example 2026-01-31T12:00:00Z.", param, ctx)
        return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


class Duration(click.ParamType[float]):
    """A duration in words, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The value that was meant; fails with words of usage."""
        from rivermouth.spec import duration_s

        try:
            found = duration_s(value)
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)
        return float(found)  # type: ignore[arg-type]


def speaking(command: Command) -> Command:
    """``--output`` and ``--traceback``; the command's first argument is an ``Output`` that heeds them."""
    choice = click.Choice(["text", "json"])
    help_text = "Text for people, or one JSON value a line."
    # Main reads both before any command: errors of usage have a JSON twin too.
    output = click.option("--output", type=choice, default="text", expose_value=False, help=help_text)
    traceback = click.option(
        "--traceback", is_flag=True, expose_value=False, help="Show the full trace of an unexpected error."
    )
    return cast("Command", click.pass_obj(output(traceback(command))))


def with_project(command: Command) -> Command:
    """``--file`` and the options of ``speaking``; the command gets ``file``."""
    option = click.option("-f", "--file", default=FILE_NAME, show_default=True, help="The project file.")
    return option(speaking(command))


def with_flows(command: Command) -> Command:
    """Names of flows as arguments; the command gets the tuple ``flows``, empty for all."""
    return click.argument("flows", nargs=-1, metavar="[FLOW]...")(command)


def with_topic(command: Command) -> Command:
    """A topic and how to read it, as the arguments of ``project.resolved.one_topic.IngestArguments``.

    The command gets ``topic``, ``format_``, ``format_options``, ``keys`` and ``kafka_options`` as they were written,
    and what else there is by its name.
    """
    for option in reversed(
        (
            click.argument("topic"),
            click.option(
                "--bootstrap-servers", default="localhost:9092", show_default=True, help="Kafka's brokers, host:port."
            ),
            click.option(
                "--format", "format_", metavar="FORMAT", help="raw, text, json ...; by default what is found."
            ),
            click.option(
                "--format-option",
                "format_options",
                multiple=True,
                metavar="NAME=VALUE",
                help="An option of the format, for example function=decode:orders.",
            ),
            click.option("--schema", help='Columns of the values as DDL, for example "id bigint, at timestamp".'),
            click.option("--compression", type=click.Choice(["gzip", "zstd"]), help="How each value is compressed."),
            click.option(
                "--key-format", type=click.Choice(["raw", "text", "long", "int"]), help="How the key is read."
            ),
            click.option(
                "--keys", metavar="COLUMN,...", help="Columns that are the key of a row; Kafka's key by default."
            ),
            click.option(
                "--sequence-by",
                metavar="COLUMN",
                help="Which record of a key is newer; Kafka's own order by default.",
            ),
            click.option("--starting-offsets", help="earliest (the default), latest or a timestamp."),
            click.option(
                "--kafka-option", "kafka_options", multiple=True, metavar="NAME=VALUE", help="An option of the client."
            ),
        )
    ):
        command = option(command)
    return command


def cluster(file: str, bootstrap_servers: str | None) -> tuple[str, dict[str, str]]:
    """The brokers that a command talks to, and the options for them: those of the project file are for its own alone.

    Without ``bootstrap_servers`` and without a project file it is the broker for development.

    Raises:
        ArgumentInvalid: What is given is no address of a broker.
    """
    if bootstrap_servers is not None:
        return _addresses(bootstrap_servers, "--bootstrap-servers", "--bootstrap-servers "), {}
    if file == FILE_NAME and not Path(file).exists():
        return f"localhost:{DEV_PORT}", {}
    from rivermouth.project.api import Project

    project = Project.load(file)
    servers = _addresses(project.bootstrap_servers, "kafka.bootstrap_servers", "bootstrap_servers: ")
    return servers, project.kafka_options()


def _addresses(servers: str, argument: str, write: str) -> str:
    wrong = wrong_addresses(servers)
    if wrong is not None:
        detail, instead = wrong
        raise ArgumentInvalid(argument=argument, detail=detail, fix=f"{write}{instead}")
    return servers


def listed(text: str | None) -> list[str]:
    """The names in a text with commas."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def pairs(options: tuple[str, ...]) -> Mapping[str, str]:
    """Options of Kafka's client by name.

    Raises:
        ArgumentInvalid: One is not written as NAME=VALUE.
    """
    return _pairs(options, "an option of Kafka", "--kafka-option", "security.protocol=SASL_SSL")


def settings(options: tuple[str, ...]) -> Mapping[str, str]:
    """Settings of a topic by name.

    Raises:
        ArgumentInvalid: One is not written as NAME=VALUE.
    """
    return _pairs(options, "a setting of a topic", "--config", "cleanup.policy=compact")


def format_with(kind: str | None, options: tuple[str, ...]) -> str | Mapping[str, str] | None:
    """A format as ``project.resolved.one_topic.IngestArguments`` takes it.

    Raises:
        ArgumentInvalid: An option is not written as NAME=VALUE, or is the format's name.
    """
    found = _pairs(options, "an option of a format", "--format-option", "function=decode:orders")
    if "type" in found:
        detail = "the name of a format is none of its options"
        raise ArgumentInvalid(argument="--format-option", detail=detail, fix=f"--format {found['type']}")
    return {**({} if kind is None else {"type": kind}), **found} if found else kind


def _pairs(options: tuple[str, ...], what: str, argument: str, example: str) -> dict[str, str]:
    found = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals or not name:
            # What was written may be a secret: it is not repeated.
            raise ArgumentInvalid(
                argument=argument, detail=f"{what} is written as NAME=VALUE", fix=f"{argument} {example}"
            )
        found[name] = value
    return found
