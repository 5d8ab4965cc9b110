"""Compile ``src/java`` into ``src/rivermouth/ports/rivermouth.jar``: the classes that Spark's JVM loads.

With the compiler of the lock, so that no JDK is needed, against PySpark's jars and the locked Delta. ``make setup`` and
the build of a wheel do it where ``java_sources`` says that the jar is not of these sources.

    .venv/bin/python -m tools.build_jar
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

import pyspark

from rivermouth.ports import java
from rivermouth.ports.spark import jars
from tools import java_sources

# The oldest Java that rivermouth takes.
RELEASE: Final = "17"
# Of PySpark's own jars.
NEEDED: Final = (
    "avro-1",
    "hadoop-client-api-",
    "jackson-core-",
    "jackson-databind-",
    "orc-core-",
    "parquet-column-",
    "parquet-common-",
    "parquet-hadoop-",
    "scala-library-",
    "spark-catalyst_",
    "spark-common-utils_",
    "spark-core_",
    "spark-sql",
    "zstd-jni-",
    "spark-unsafe_",
    "spark-variant_",
    "univocity-parsers-",
)
# One date for all, or each build would be another file.
EPOCH: Final = (1980, 1, 1, 0, 0, 0)


def main() -> None:
    """Writes the jar; with one Java a build of the same sources is the same file, byte for byte.

    Guarantees:
        Stopped half-way: the jar is the old one, or is missing.
    """
    built = build()
    part = java_sources.JAR.with_suffix(f".{os.getpid()}.part")
    part.write_bytes(built)
    part.replace(java_sources.JAR)
    print(f"{java_sources.JAR.name}: {len(built):,} bytes")


def build() -> bytes:
    """The content of the jar."""
    with tempfile.TemporaryDirectory() as folder:
        _compile(Path(folder))
        return _jar(Path(folder))


def _jar(classes: Path) -> bytes:
    content = io.BytesIO()
    # Not deflated: the libraries that do it differ in their bytes.
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as jar:
        jar.writestr(zipfile.ZipInfo(java_sources.ENTRY, EPOCH), java_sources.sha256())
        for path in sorted(classes.rglob("*.class")):
            jar.writestr(zipfile.ZipInfo(path.relative_to(classes).as_posix(), EPOCH), path.read_bytes())
    return content.getvalue()


def shipped() -> list[Path]:
    """PySpark's own jars, as far as our classes need them."""
    sparks = (Path(pyspark.__file__).parent / "jars").glob("*.jar")
    return sorted(path for path in sparks if path.name.startswith(NEEDED))


def _compile(classes: Path) -> None:
    (compiler,) = jars.classpath("compiler")
    needed = [*shipped(), *jars.classpath("spark"), *jars.classpath("s3")]
    sources = [str(path) for path in java_sources.files()]
    options = ["-source", RELEASE, "-target", RELEASE, "-encoding", "UTF-8", "-failOnWarning", "-proc:none"]
    paths = ["-classpath", os.pathsep.join(map(str, needed)), "-d", str(classes)]
    command = [str(java.find().executable), "-jar", str(compiler), *options, *paths, *sources]
    done = subprocess.run(command, check=False)
    if done.returncode:  # the compiler has printed why
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
