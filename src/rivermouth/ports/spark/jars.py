"""The jars that Spark does not bring itself: locked by sha256, fetched once, never resolved at start-up."""

from __future__ import annotations

import hashlib
import importlib.resources
import importlib.util
import json
import logging
import os
import re
import shutil
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pooch
from rich.console import Console

from rivermouth.errors import JarChecksum, JarNotCompiled, JarsMissing

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rich.progress import Progress

FOLDER_VARIABLE: Final = "RIVERMOUTH_JARS_DIR"
MIRROR_VARIABLE: Final = "RIVERMOUTH_MAVEN_URL"

OURS: Final = Path(__file__).parents[1] / "rivermouth.jar"
"""Our own classes for Spark's JVM. ``tools/build_jar.py`` compiles them from ``src/java``; a wheel has them."""

S3: Final = "s3"
DRIVERS: Final = "drivers"
_OF_DEVELOPERS: Final = ("compiler", DRIVERS)

_PARALLEL: Final = 8
_RETRIES: Final = 2


@dataclass(frozen=True, slots=True)
class Jar:
    """One entry of the lock.

    Attributes:
        coordinate: ``group:artifact:version``.
        sha256: Of the file's content.
        bytes: The file's size.
    """

    coordinate: str
    sha256: str
    bytes: int

    @property
    def file_name(self) -> str:
        """``artifact-version.jar``."""
        _, artifact, version = self.coordinate.split(":")
        return f"{artifact}-{version}.jar"

    @property
    def path(self) -> str:
        """Where a Maven repository keeps it, relative to its root."""
        group, artifact, version = self.coordinate.split(":")
        return f"{group.replace('.', '/')}/{artifact}/{version}/{self.file_name}"


def locked() -> dict[str, tuple[Jar, ...]]:
    """The lock: the jars of each group, ``spark``, ``s3``, ``broker``, ``compiler`` and ``drivers``."""
    text = importlib.resources.files("rivermouth.ports").joinpath("jars.lock.json").read_text("utf-8")
    return {name: tuple(Jar(**jar) for jar in jars) for name, jars in json.loads(text)["groups"].items()}


def cache_folder() -> Path:
    """Where downloaded jars are kept."""
    return Path(pooch.os_cache("rivermouth")) / "jars"


def classpath(group: str, *, fetch: bool = True) -> list[Path]:
    """The files of a group, in the order of the lock.

    Args:
        group: ``spark`` for what Spark loads, ``s3`` for what it also loads where a lake is on ``s3a://``,
            ``broker`` for the development broker, ``compiler`` for ``src/java``, ``drivers`` for the databases that
            the tests read.
        fetch: Whether missing ones may be downloaded.

    Returns:
        Absolute paths. A jar in the folder that RIVERMOUTH_JARS_DIR names wins over the cache.

    Raises:
        JarsMissing: At least one is neither there nor to be had.
        JarChecksum: A file has another content than the lock says.

    Guarantees:
        No network if all are there. Every returned file was read and has the locked sha256. A download
        takes its name only when it is complete, so stopping half-way or running twice at once leaves
        nothing but complete jars, and the next call fetches the rest.
    """
    wanted = locked()[group]
    missing = [jar for jar in wanted if _present(jar) is None]
    if missing:
        if not fetch:
            raise _missing(group, missing, "downloads are switched off")
        _download(group, missing)
    return [_verified(jar) for jar in wanted]


def ours() -> Path:
    """``OURS``, which is there.

    Raises:
        JarNotCompiled: It is not: this is a clone without ``make setup``.
    """
    if not OURS.is_file():
        raise JarNotCompiled(file=OURS)
    return OURS


def for_spark(schemes: Collection[str] = ()) -> list[Path]:
    """All that Spark's JVM loads in addition to its own jars: those of the lock, and ours.

    Args:
        schemes: Of the places that it reads and writes: ``s3a`` brings Hadoop's S3A and the parts of Amazon's SDK.

    Raises:
        JarsMissing: At least one is neither there nor to be had.
        JarChecksum: A file has another content than the lock says.
        JarNotCompiled: Ours is missing.

    Guarantees:
        As ``classpath``.
    """
    return [*classpath("spark"), ours(), *(classpath(S3) if "s3a" in schemes else [])]


def groups_to_run() -> list[str]:
    """The groups that a user needs: all but those of developers."""
    return [group for group in locked() if group not in _OF_DEVELOPERS]


def fetch_all() -> list[Path]:
    """All jars that are needed to run, downloaded where they are missing.

    Raises:
        JarsMissing: At least one is neither there nor to be had.
        JarChecksum: A file has another content than the lock says.

    Guarantees:
        As ``classpath``.
    """
    return [path for group in groups_to_run() for path in classpath(group)]


def written() -> list[tuple[int, int]]:
    """Bytes and time of writing, in seconds, of the files of ``for_spark`` that are there; a JVM compares them."""
    there = [path for jar in locked()["spark"] if (path := _present(jar)) is not None]
    return [(found.st_size, int(found.st_mtime)) for found in (path.stat() for path in (*there, ours()))]


def _present(jar: Jar) -> Path | None:
    folders = [Path(given)] if (given := os.environ.get(FOLDER_VARIABLE)) else []
    for folder in (*folders, cache_folder()):
        if (path := folder.absolute() / jar.file_name).is_file():
            return path
    return None


def _verified(jar: Jar) -> Path:
    path = _present(jar)
    if path is None:  # removed by somebody since the look a moment ago
        raise _missing("", [jar], "removed while it was looked for")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != jar.sha256:
        raise JarChecksum(coordinate=jar.coordinate, source=path.parent, expected=jar.sha256)
    return path


def _download(group: str, missing: Sequence[Jar]) -> None:
    import requests  # noqa: PLC0415 - only here, and it takes a tenth of a second

    base = _base_url(group, missing)
    registry = pooch.create(
        path=cache_folder(),
        base_url=base,
        registry={jar.file_name: f"sha256:{jar.sha256}" for jar in missing},
        urls={jar.file_name: base + jar.path for jar in missing},
        retry_if_failed=_RETRIES,
    )
    pooch.get_logger().setLevel(logging.WARNING)  # it would print two lines for each jar
    downloader = _copy if base.startswith("file:") else pooch.HTTPDownloader()
    bar = _bar()
    task = bar.add_task(f"{group} jars", total=sum(jar.bytes for jar in missing))

    def fetch(jar: Jar) -> None:
        try:
            registry.fetch(jar.file_name, downloader=downloader)
        except ValueError as error:  # so pooch says that the content is another one
            source = _without_credentials(base)
            raise JarChecksum(coordinate=jar.coordinate, source=source, expected=jar.sha256) from error
        bar.advance(task, jar.bytes)

    # The large ones first: they decide how long it takes.
    by_size = sorted(missing, key=lambda jar: -jar.bytes)
    try:
        with bar, ThreadPoolExecutor(_PARALLEL) as pool:
            for done in [pool.submit(fetch, jar) for jar in by_size]:
                try:
                    done.result()
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
    except (OSError, requests.RequestException) as error:
        detail = f"{_without_credentials(base)} gave {type(error).__name__}"
        left = [jar for jar in missing if _present(jar) is None]
        raise _missing(group, left, detail) from error


def _copy(url: str, output_file: str, _: object) -> None:
    shutil.copyfile(url2pathname(urlsplit(url).path), output_file)


def _base_url(group: str, missing: Sequence[Jar]) -> str:
    base = os.environ.get(MIRROR_VARIABLE) or _repository_of_spark()
    if base is None:
        raise _missing(group, missing, f"PySpark names no repository, and {MIRROR_VARIABLE} is not set")
    return base.rstrip("/") + "/"


def _repository_of_spark() -> str | None:
    # The same repository that Spark's own --packages uses: it is a constant of the Ivy that PySpark
    # ships. Reading it there means that a distribution which changed it is followed, and that this
    # package sends nobody to a host that their Spark would not have contacted.
    spec = importlib.util.find_spec("pyspark")
    folders = spec.submodule_search_locations if spec else None
    for folder in folders or ():
        for ivy in (Path(folder) / "jars").glob("ivy-*.jar"):
            with zipfile.ZipFile(ivy) as archive:
                constants = archive.read("org/apache/ivy/plugins/resolver/IBiblioResolver.class")
            if found := re.search(rb"https://[\w./-]+/maven2/", constants):
                return found[0].decode("ascii")
    return None


def _missing(group: str, jars: Sequence[Jar], detail: str) -> JarsMissing:
    folder = os.environ.get(FOLDER_VARIABLE) or cache_folder()
    total = len(locked().get(group, jars))
    return JarsMissing(count=len(jars), total=total, group=group, folder=folder, detail=detail)


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _bar() -> Progress:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn  # noqa: PLC0415 - only for a download

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal)
