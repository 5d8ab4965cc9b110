"""Compile ``src/java`` into ``src/rivermouth/ports/rivermouth.jar``: the classes that Spark's JVM loads.

With the compiler of the lock, so that no JDK is needed, against PySpark's Hadoop and the locked Delta.

    .venv/bin/python -m tools.build_jar
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

import pyspark

from rivermouth.ports import jars, java

SOURCES: Final = Path(__file__).parents[1] / "src/java"
# The oldest Java that rivermouth takes.
RELEASE: Final = "17"
# One date for all, or each build would be another file.
EPOCH: Final = (1980, 1, 1, 0, 0, 0)


def main() -> None:
    """Writes the jar; a build of the same sources is the same file, byte for byte."""
    with tempfile.TemporaryDirectory(dir=jars.OURS.parent) as folder:
        classes, fresh = Path(folder) / "classes", Path(folder) / "fresh.jar"
        _compile(classes)
        with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as jar:
            for path in sorted(classes.rglob("*.class")):
                jar.writestr(zipfile.ZipInfo(path.relative_to(classes).as_posix(), EPOCH), path.read_bytes())
        fresh.replace(jars.OURS)
    print(f"{jars.OURS.name}: {jars.OURS.stat().st_size:,} bytes")


def _compile(classes: Path) -> None:
    (compiler,) = jars.classpath("compiler")
    needed = [*(Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar"), *jars.classpath("spark")]
    sources = sorted(str(path) for path in SOURCES.rglob("*.java"))
    options = ["-source", RELEASE, "-target", RELEASE, "-encoding", "UTF-8", "-failOnWarning", "-proc:none"]
    paths = ["-classpath", os.pathsep.join(map(str, needed)), "-d", str(classes)]
    command = [str(java.find().executable), "-jar", str(compiler), *options, *paths, *sources]
    done = subprocess.run(command, check=False)
    if done.returncode:  # the compiler has said why
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
