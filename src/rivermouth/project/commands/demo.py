"""The demonstration: real records through a broker of its own into tables that stay, with a project file to edit."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rivermouth.errors import DemoFolderTaken, LakeNotWritable
from rivermouth.ports.dev.broker import Broker
from rivermouth.ports.dev.local_ports import HOST
from rivermouth.ports.kafka.kafka_produce import ProduceSettings, Record, produce
from rivermouth.project.commands import managed_session, run_flows
from rivermouth.project.file.reading import FILE_NAME
from rivermouth.project.resolved.resolved_project import ResolvedProject

if TYPE_CHECKING:
    from rivermouth.engine.flow.jobs import FlowOutcome

ADDRESS: Final = "RIVERMOUTH_DEMO_KAFKA"
"""Environment variable that moves the demo's project to another broker."""

BROKER_FOLDER: Final = "broker"
_PARTITIONS: Final = 2
_BROKEN_EVERY: Final = 2_000
_HEAP: Final = "512m"
_PROJECT: Final = "rivermouth.yml.template"
_PIPELINE: Final = "lookups.sql"


@dataclass(frozen=True, slots=True)
class Demo:
    """What the demonstration left behind.

    Attributes:
        folder: Its folder, absolute.
        project: The project in it.
        bootstrap_servers: Where its broker answered, and where the project file looks for it.
        sent: Records that were sent, by topic.
        again: Whether the folder held an earlier demonstration, which went on.
        outcomes: One a flow.
    """

    folder: Path
    project: ResolvedProject
    bootstrap_servers: str
    sent: dict[str, int]
    again: bool
    outcomes: Sequence[FlowOutcome]

    @property
    def port(self) -> int:
        """The port in ``bootstrap_servers``."""
        return int(self.bootstrap_servers.rpartition(":")[2])


def demo(folder: Path, hooks: managed_session.RunHooks = managed_session.NO_HOOKS) -> Demo:
    """Starts a broker, sends real records and a few broken ones, and writes them into tables.

    Args:
        folder: Made if it is not there; gets ``rivermouth.yml``, ``lookups.sql``, ``lake/`` and ``broker/``.
        hooks: Hears of it, and may stop it.

    Raises:
        DemoFolderTaken: There is something else in the folder; it was left alone.
        DevPortTaken: Something listens on the port of an earlier demonstration.
        LakeNotWritable: The folder cannot be made.
        RivermouthError: What else kept it from running.

    Guarantees:
        Run twice on one folder: the records are sent once more, the project file is used as it is, and the tables
        continue at their ledgers. Stopped half-way: what was sent stays in the broker's folder; no JVM is
        left behind.
    """
    folder = folder.absolute()
    file = folder / FILE_NAME
    again = _prepared(folder, file)
    port = port_of(ResolvedProject.load(file)) if again else None
    with hooks.waits("starting a Kafka broker"):
        started = Broker.start(port, folder / BROKER_FOLDER, heap=_HEAP)
    with started as broker:
        project = ResolvedProject.load(file) if again else write_project(folder, broker.bootstrap_servers)
        sent = {topic: _send(broker, topic, records, hooks) for topic, records in topics().items()}
        outcomes = run_flows.run(project, hooks=hooks)
    return Demo(folder, project, broker.bootstrap_servers, sent, again, outcomes)


def write_project(folder: Path, bootstrap_servers: str) -> ResolvedProject:
    """The demonstration's project with its pipeline, written into ``folder`` in the place of what was there."""
    file = folder / FILE_NAME
    (folder / _PIPELINE).write_text((_data() / _PIPELINE).read_text(encoding="utf-8"), encoding="utf-8")
    file.write_text(_template().format(address=bootstrap_servers), encoding="utf-8")
    return ResolvedProject.load(file)


def port_of(project: ResolvedProject) -> int | None:
    """The port of the demonstration's broker in its project file; None if it names another machine by now."""
    host, _, port = project.bootstrap_servers.rpartition(":")
    return int(port) if host == HOST and port.isdigit() else None


def zeek_records() -> Iterator[Record]:
    """Network log events of eight types, keyed by connection, and now and then a document that is no JSON."""
    broken = _broken()
    for number, line in enumerate(_lines("zeek-wrccdc-2018")):
        key = json.loads(line).get("uid")
        yield None if key is None else key.encode(), line, ()
        if number % _BROKEN_EVERY == 0:
            document = next(broken, None)
            if document is not None:
                yield None, document, ()


def github_records() -> Iterator[Record]:
    """GitHub events, keyed by repository, and three documents that are no JSON."""
    for line in _lines("github-events"):
        yield str(json.loads(line)["repo"]["id"]).encode(), line, ()
    for document in list(_broken())[:3]:
        yield None, document, ()


def topics() -> dict[str, Iterator[Record]]:
    """The demonstration's topics, each with its records."""
    return {"zeek": zeek_records(), "github": github_records()}


def _send(broker: Broker, topic: str, records: Iterator[Record], hooks: managed_session.RunHooks) -> int:
    hooks.say(f"sending records to topic {topic}")
    return produce(broker.bootstrap_servers, {}, topic, records, how=ProduceSettings(partitions=_PARTITIONS)).delivered


def _prepared(folder: Path, file: Path) -> bool:
    """Makes the folder; says whether it holds an earlier demonstration.

    Raises:
        DemoFolderTaken: It holds something else.
        LakeNotWritable: It cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = sorted(path.name for path in folder.iterdir())
    except OSError as error:
        raise LakeNotWritable(lake=str(folder), detail=error.strerror or str(error)) from error
    if file.is_file() and (folder / BROKER_FOLDER).is_dir():
        return True
    # A demonstration that was stopped before its project file was written leaves the broker's folder alone.
    if found and found != [BROKER_FOLDER]:
        raise DemoFolderTaken(folder=str(folder))
    return False


def _data() -> Traversable:
    return resources.files("rivermouth.project") / "demo_data"


def _template() -> str:
    return (_data() / _PROJECT).read_text(encoding="utf-8")


def _lines(folder: str) -> Iterator[bytes]:
    for file in sorted((_data() / folder).iterdir(), key=lambda each: each.name):
        if file.name.endswith(".gz"):
            with file.open("rb") as packed, gzip.open(packed) as lines:
                yield from (line.rstrip(b"\n") for line in lines)


def _broken() -> Iterator[bytes]:
    text = (_data() / "json-test-suite" / "broken.jsonl").read_text(encoding="utf-8")
    return (base64.b64decode(json.loads(line)["b64"]) for line in text.splitlines())
