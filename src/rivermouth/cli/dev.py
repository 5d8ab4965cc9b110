"""``rivermouth dev``: a broker of one's own, and records to fill it."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Final

import click

from rivermouth.cli.options import FILE_NAME, speaking, with_project
from rivermouth.cli.output import Output, count, is_terminal
from rivermouth.names import DEV_PORT

_POLL_S: Final = 0.2


@click.group()
def dev() -> None:
    """A Kafka broker for development, and records for it."""


@dev.command()
@click.option("--port", type=click.IntRange(1, 65535), default=DEV_PORT, show_default=True, help="Of 127.0.0.1.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder that keeps the records; without one they are gone when the broker ends.",
)
@speaking
def kafka(output: Output, port: int, data_dir: Path | None) -> None:
    """Run a Kafka broker in the foreground until Ctrl-C or SIGTERM.

    Prints its address once it answers. It listens on 127.0.0.1 only, without passwords.
    """
    from rivermouth.ports.broker import Broker

    ended = threading.Event()

    def hear(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, hear)
    output.note("starting the broker …")
    with Broker.start(port, data_dir) as broker:
        value = {"bootstrap_servers": broker.bootstrap_servers, "data_dir": data_dir and str(data_dir)}
        output.result(f"Kafka answers at {broker.bootstrap_servers}; Ctrl-C ends it", value)
        while not ended.wait(_POLL_S):
            broker.check()
    output.note("the broker has ended")


@dev.command()
@click.argument("topic")
@click.argument("source", metavar="FILE", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--key", metavar="FIELD", help="Top-level field whose value becomes the record's key.")
@click.option("--partitions", type=click.IntRange(min=1), default=1, show_default=True, help="Of a topic that is made.")
@click.option("--bootstrap-servers", help="Kafka's brokers; else those of the project file, else localhost:9092.")
@with_project
def produce(
    output: Output,
    topic: str,
    source: str,
    file: str,
    key: str | None,
    partitions: int,
    bootstrap_servers: str | None,
) -> None:
    """Send each line of FILE to TOPIC as one record; - is standard input.

    Lines are sent as they are, whether or not they are JSON. A file that ends in .gz is unpacked. The topic is made
    if it is not there.
    """
    from rivermouth.ports.kafka_produce import produce as send
    from rivermouth.ports.kafka_produce import read_lines
    from rivermouth.project.validate import topic_problem

    problem = topic_problem(topic, "topic")
    if problem is not None:
        raise problem
    servers, options = _cluster(file, bootstrap_servers)
    shown = is_terminal() and not output.json

    def on_progress(sent: int) -> None:
        if shown:
            click.echo(f"\r{count(sent, 'record')}", err=True, nl=False)

    done = send(servers, options, topic, read_lines(source), key, partitions=partitions, on_progress=on_progress)
    if shown:
        click.echo("\r", err=True, nl=False)
    lines = [f"{count(done.delivered, 'record')} sent to {topic} in {done.seconds:.1f} s"]
    lines += [f"made topic {topic} with {count(partitions, 'partition')}"] if done.created else []
    lines += (
        [f"{count(done.without_key, 'record')} had no field {key!r}: sent without a key"] if done.without_key else []
    )
    output.result("\n".join(lines), done)


def _cluster(file: str, bootstrap_servers: str | None) -> tuple[str, dict[str, str]]:
    """Where to send, and the options for it: those of the project file go with its brokers only."""
    if bootstrap_servers is not None:
        return bootstrap_servers, {}
    if file == FILE_NAME and not Path(file).exists():
        return f"localhost:{DEV_PORT}", {}
    from rivermouth.project.load import Project

    project = Project.load(file)
    return project.bootstrap_servers, project.kafka_options()
