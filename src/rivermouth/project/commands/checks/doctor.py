"""What a machine and a project need before a flow can run, looked at one by one."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rivermouth.errors import (
    DevPortTaken,
    DiskNearlyFull,
    JarsMissing,
    LakeNotWritable,
    RivermouthError,
    VersionsDisagree,
)
from rivermouth.names import DEV_PORT
from rivermouth.ports import java
from rivermouth.ports.dev.broker import KIND
from rivermouth.ports.dev.dev_server import require_free
from rivermouth.ports.kafka.kafka_cluster import Kafka
from rivermouth.ports.lake.lake_files import is_local, local_path
from rivermouth.ports.lake.lake_reader import LakeReader
from rivermouth.ports.lake.mounts import served_by
from rivermouth.ports.spark import class_archive, jars
from rivermouth.project.resolved.settings import located_errors
from rivermouth.project.resolved.static_checks import validate_static

if TYPE_CHECKING:
    from collections.abc import Callable

    from rivermouth.project.resolved.resolved_project import ResolvedProject

FREE_BYTES: Final = 1 << 30
"""Less room than this is told as a problem: one large batch may need it."""
_CONNECTOR: Final = "spark-sql-kafka-0-10_"
_WANTED_BY_SPARK: Final = ("packages", "Java", "jars", "project", "lake")
_PACKAGES: Final = ("rivermouth", "pyspark", "delta-spark", "confluent-kafka")


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one thing.

    Attributes:
        about: The thing, in one or two words.
        detail: What was found; empty where there is a problem.
        problem: Why a flow could not run, with the remedy; None where all is well.
    """

    about: str
    detail: str = ""
    problem: RivermouthError | None = None


def examine(
    project: ResolvedProject | None = None,
    *,
    timeout_s: float = 1.0,
    stores: Callable[[ResolvedProject], list[str]] | None = None,
) -> list[Finding]:
    """Looks at the machine and, if there is one, at the project.

    Args:
        project: Without one, only the machine is looked at.
        timeout_s: Bound on each answer of the broker and of a lake in an object store, in seconds.
        stores: Tries the stores of a project that are not on this machine, with Spark;
            ``storage_check.tried``, for example. It is asked where there are any, and all that it needs is well.
            Without it none is tried.

    Returns:
        A finding for each thing, in the order in which a run needs them.

    Guarantees:
        Downloads nothing of ours, and leaves nothing behind; a trial file in the lake lives for a moment. A JVM is
        started by ``stores`` only. Run twice: the same, but for what others changed.
    """
    looks: list[tuple[str, Callable[[], str]]] = [
        ("packages", _packages),
        ("Java", _java),
        ("jars", lambda: _jars(project)),
        ("classes", _classes),
        ("Spark's disk", lambda: _room(Path(tempfile.gettempdir()))),
    ]
    if project is not None:
        looks += [
            ("project", lambda: _project(project)),
            ("lake", lambda: _lake(project, timeout_s, tried=stores is not None)),
        ]
    found = [_look(about, look) for about, look in looks]
    if project is not None:
        well = {each.about for each in found if each.problem is None}
        if stores is not None and _schemes(project) and well.issuperset(_WANTED_BY_SPARK):
            found.append(_look("stores", lambda: _stores(stores(project))))
        found.append(_look("broker", lambda: _broker(project, timeout_s)))
    return [*found, _look("dev kafka", _dev_kafka)]


def _look(about: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(about, look())
    except RivermouthError as error:
        return Finding(about, problem=error)


def _packages() -> str:
    found = {name: importlib.metadata.version(name) for name in _PACKAGES}
    (connector,) = (jar for jar in jars.locked()["spark"] if jar.file_name.startswith(_CONNECTOR))
    wanted = connector.coordinate.rpartition(":")[2]
    if found["pyspark"] != wanted:
        raise VersionsDisagree(found=found["pyspark"], wanted=wanted)
    return ", ".join([f"Python {platform.python_version()}", *(f"{name} {version}" for name, version in found.items())])


def _java() -> str:
    found = java.find()
    return f"{found.version}, from {found.origin}: {found.home}"


def _jars(project: ResolvedProject | None) -> str:
    groups = ["spark", *([jars.S3] if project is not None and "s3a" in _schemes(project) else [])]
    there = [path for group in groups for path in jars.classpath(group, fetch=False)]
    return f"all {len(there)} of Spark's are here, in {there[0].parent}"


def _classes() -> str:
    archive = class_archive.kept()
    if archive is None and not class_archive.can_be_made():
        return "not archived: this Java makes no archive; Spark starts without one"
    if archive is None:
        return "not archived: rivermouth jars archive lets Spark start some seconds faster"
    return f"archived for a faster start, {archive.stat().st_size >> 20} MiB in {archive.parent}"


def _schemes(project: ResolvedProject) -> frozenset[str]:
    try:
        return project.schemes
    except RivermouthError:
        return frozenset()  # what is wrong with its places is told of the project


def _room(folder: Path) -> str:
    free = shutil.disk_usage(folder).free
    if free < FREE_BYTES:
        raise DiskNearlyFull(folder=folder, free_mib=free >> 20, needed_mib=FREE_BYTES >> 20)
    return f"{free >> 30} GiB free at {folder}"


def _project(project: ResolvedProject) -> str:
    validate_static(project)
    names = ", ".join(flow.name for flow in project.flows())
    return f"{project.file or 'made in Python'}, flows: {names or 'none'}"


def _lake(project: ResolvedProject, timeout_s: float, *, tried: bool) -> str:
    lake = project.lake
    if not is_local(lake):
        with located_errors(project.at("lake")):
            LakeReader(project.spark_conf, timeout_s=timeout_s).names(lake)
        untried = "" if tried else "; whether it can be written and keeps two writers apart: not tried"
        return f"{lake} answers{untried}"
    folder = local_path(lake)
    # A lake that is not there yet is made below the nearest folder that is.
    there = next(each for each in (folder, *folder.parents) if each.exists())
    with located_errors(project.at("lake")):
        try:
            with tempfile.TemporaryFile(dir=there):
                pass
        except OSError as error:
            raise LakeNotWritable(lake=lake, detail=error.strerror or type(error).__name__) from None
        room = _room(there)
    served = served_by(folder)
    # What a bucket's own door keeps apart, two machines that mount it can overwrite.
    room += f"; it is served by {served}: only one machine may write there" if served else ""
    return f"{lake} can be {'written' if there == folder else 'made'}, {room}"


def _stores(tried: list[str]) -> str:
    if not tried:
        return "no table is there; whether archives can be written and sources can be read: not tried"
    return f"{', '.join(tried)}: can be written, and of two who make one file the second is refused"


def _broker(project: ResolvedProject, timeout_s: float) -> str:
    servers = project.bootstrap_servers
    with (
        located_errors(project.at("kafka", "bootstrap_servers")),
        Kafka(servers, project.kafka_options(), timeout_s) as kafka,
    ):
        cluster = kafka.cluster_id()
        topics = {name for flow in project.flows() if flow.source is None for name in kafka.topics(flow)}
    return f"{servers} answers, cluster {cluster or 'without an id'}; {len(topics)} of the flows' topics are there"


def _dev_kafka() -> str:
    try:
        require_free(DEV_PORT, KIND)
    except DevPortTaken as error:
        return f"port {DEV_PORT} is in use: {error.next_step}"
    try:
        jars.classpath("broker", fetch=False)
    except JarsMissing:
        return f"port {DEV_PORT} is free; the broker's jars are fetched at its first start"
    return f"port {DEV_PORT} is free, the broker's jars are here"
