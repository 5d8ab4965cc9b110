"""Spark's classes as one JVM left them: read, checked and linked, so that the next JVM starts faster.

An archive is a file of HotSpot's class data sharing. It fits one Java and one class path, the JVM checks both, and
one that does not fit is passed over. There is at most one for each environment, in the user's cache.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pooch

from rivermouth.errors import ClassesNotArchived
from rivermouth.ports import java
from rivermouth.ports.spark import jars

if TYPE_CHECKING:
    from rivermouth.ports.java import Java

_CHECK_TIMEOUT_S: Final = 60
# One that does not fit any more is no news to who runs a flow; it is passed over.
_SILENT: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def folder() -> Path:
    """Where archives are kept."""
    return Path(pooch.os_cache("rivermouth")) / "classes"


def java_options(found: Java) -> str:
    """Options with which a JVM of ``found`` uses the archive of this environment; empty if there is none."""
    archive = _kept(found)
    return "" if archive is None else f'-XX:SharedArchiveFile="{archive}" -Xshare:auto {_SILENT}'


def can_be_made() -> bool:
    """Whether this Java brings an archive of its own classes, without which it makes no other."""
    return any(java.find().home.glob("lib/server/classes*.jsa"))


def check_java() -> None:
    """Checks that this Java can make an archive.

    Raises:
        ClassesNotArchived: It cannot.
    """
    if not can_be_made():
        raise ClassesNotArchived(detail=f"the Java in {java.find().home} has no lib/server/classes.jsa")


@contextmanager
def recording() -> Iterator[str]:
    """Java options for one JVM that shall leave its classes behind; kept if it has ended by the end of the block.

    Guarantees:
        What is kept was complete and opened by another JVM before it got its name, in one step, in the place of
        this environment's older ones. A JVM that reads an older one goes on with it. Stopped half-way, nothing
        changes. Where this Java can make none, nothing is kept.
    """
    found = java.find()
    folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder()) as scratch:
        fresh = Path(scratch) / "classes.jsa"
        yield f'-XX:ArchiveClassesAtExit="{fresh}" {_SILENT}'
        if fresh.is_file() and _opens(found, fresh):
            older = _of_this_environment()
            archive = folder() / f"{_environment()}-{_content(found)}.{fresh.stat().st_size}.jsa"
            fresh.replace(archive)
            for path in older:
                if path != archive:
                    path.unlink(missing_ok=True)


def made() -> Path:
    """The archive, behind a ``recording``.

    Raises:
        ClassesNotArchived: The JVM left none that can be opened.
    """
    archive = kept()
    if archive is None:
        raise ClassesNotArchived(detail=f"the Java in {java.find().home} wrote no archive that it can open")
    return archive


def kept() -> Path | None:
    """The archive that a JVM which is started now would use."""
    return _kept(java.find())


def _kept(found: Java) -> Path | None:
    for path in folder().glob(f"{_environment()}-{_content(found)}.*.jsa"):
        # A JVM crashes on a file that was cut short; the size in its name shows whether it was.
        if path.stem.rpartition(".")[2] == str(path.stat().st_size):
            return path
    return None


def _of_this_environment() -> list[Path]:
    return list(folder().glob(f"{_environment()}-*.jsa"))


def _environment() -> str:
    return _digest(sys.prefix)


def _content(found: Java) -> str:
    """Names the Java and the class path as they are: a JVM takes no archive for jars that were written after it."""
    release = found.home / "release"
    return _digest(
        str(found.executable),
        release.read_text("utf-8") if release.is_file() else str(found.version),
        importlib.metadata.version("pyspark"),
        os.environ.get(jars.FOLDER_VARIABLE, ""),
        *(jar.sha256 for jar in jars.locked()["spark"]),
        hashlib.sha256(jars.ours().read_bytes()).hexdigest(),
        repr(jars.written()),
    )


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _opens(found: Java, archive: Path) -> bool:
    try:
        tried = subprocess.run(
            [found.executable, f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-version"],
            capture_output=True,
            check=False,
            timeout=_CHECK_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return tried.returncode == 0
