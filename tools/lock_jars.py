"""Resolve the jars that rivermouth needs and rewrite ``src/rivermouth/ports/jars.lock.json``.

For maintainers, after a change of ``ROOTS`` or of PySpark's version: needs Maven's ``mvn`` on PATH.

    .venv/bin/python -m tools.lock_jars
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import pyspark

LOCK: Final = Path(__file__).parents[1] / "src/rivermouth/ports/jars.lock.json"
COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"

ROOTS: Final = {
    # Loaded into Spark. The token provider of Spark 4.2.0 is on no registry: 4.0.0 serves its connector.
    "spark": [
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "io.delta:delta-spark_4.2_2.13:4.4.0",
    ],
    # The development broker. Without a logging backend it does not even say why it stops.
    "broker": [
        "org.apache.kafka:kafka_2.13:4.2.1",
        "org.slf4j:slf4j-api:2.0.17",
        "org.apache.logging.log4j:log4j-api:2.25.4",
        "org.apache.logging.log4j:log4j-core:2.25.4",
        "org.apache.logging.log4j:log4j-slf4j2-impl:2.25.4",
    ],
    # Compiles src/java, also where Java is no JDK.
    "compiler": ["org.eclipse.jdt:ecj:3.46.100"],
}


def main() -> None:
    shipped = {_artifact(jar.name) for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    groups = {}
    for name, roots in ROOTS.items():
        with tempfile.TemporaryDirectory() as folder:
            jars = _resolve(roots, Path(folder))
            # Spark's own versions win on its class path; a second copy there would only confuse.
            wanted = [jar for jar in jars if name != "spark" or _artifact(jar.name) not in shipped]
            groups[name] = sorted((_entry(jar, Path(folder)) for jar in wanted), key=lambda e: str(e["coordinate"]))
        print(f"{name}: {len(groups[name])} jars, {sum(int(str(e['bytes'])) for e in groups[name]):,} bytes")
    LOCK.write_text(json.dumps({"format": 1, "groups": groups}, indent=1) + "\n", encoding="utf-8")


def _resolve(roots: list[str], folder: Path) -> list[Path]:
    (folder / "pom.xml").write_text(_pom(roots), encoding="utf-8")
    options = ["-DoutputDirectory=jars", "-Dmdep.useRepositoryLayout=true", "-DincludeScope=runtime"]
    subprocess.run(["mvn", "-B", "-q", COPY, *options], cwd=folder, check=True)
    return list((folder / "jars").rglob("*.jar"))


def _pom(roots: list[str]) -> str:
    tags = ("groupId", "artifactId", "version")
    listed = "".join(
        "<dependency>"
        + "".join(f"<{tag}>{part}</{tag}>" for tag, part in zip(tags, root.split(":"), strict=True))
        + "</dependency>"
        for root in roots
    )
    # Managed as well, so that no transitive wish changes a root's version.
    return (
        "<project><modelVersion>4.0.0</modelVersion>"
        "<groupId>rivermouth</groupId><artifactId>lock</artifactId><version>1</version>"
        f"<dependencyManagement><dependencies>{listed}</dependencies></dependencyManagement>"
        f"<dependencies>{listed}</dependencies></project>"
    )


def _artifact(file_name: str) -> str:
    return re.sub(r"-\d[^/]*\.jar$", "", file_name)


def _entry(jar: Path, folder: Path) -> dict[str, object]:
    *group, artifact, version, _ = jar.relative_to(folder / "jars").parts
    content = jar.read_bytes()
    return {
        "coordinate": f"{'.'.join(group)}:{artifact}:{version}",
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
    }


if __name__ == "__main__":
    main()
