"""Whether ``rivermouth.jar`` was compiled from the Java sources that are here.

The jar names the sha256 of what it was compiled from. Needs nothing but Python, so that a build of a wheel can ask
before it installs what the compiler needs.

    .venv/bin/python -m tools.java_sources && echo compiled
"""

from __future__ import annotations

import hashlib
import sys
import zipfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "src/java"
JAR: Final = ROOT / "src/rivermouth/ports/rivermouth.jar"
ENTRY: Final = "META-INF/sources.sha256"
"""The entry of the jar with the sha256."""

# The lock names the compiler and Delta, pyproject.toml names PySpark, build_jar.py has the compiler's options.
_OTHERS: Final = (
    ROOT / "src/rivermouth/ports/jars.lock.json",
    ROOT / "pyproject.toml",
    ROOT / "tools/build_jar.py",
)


def files() -> list[Path]:
    """The Java sources, in a fixed order."""
    return sorted(FOLDER.rglob("*.java"))


def sha256() -> str:
    """Of the sources and of all that says how they are compiled; 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for path in (*files(), *_OTHERS):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def compiled() -> bool:
    """Whether the jar is there, and was compiled from these sources."""
    try:
        with zipfile.ZipFile(JAR) as jar:
            return jar.read(ENTRY).decode() == sha256()
    except (FileNotFoundError, KeyError, zipfile.BadZipFile):
        return False


if __name__ == "__main__":
    sys.exit(0 if compiled() else 1)
