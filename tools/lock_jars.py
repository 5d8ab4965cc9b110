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
        # Avro files as a source, and from_avro.
        "org.apache.spark:spark-avro_2.13:4.2.0",
    ],
    # Hadoop's S3A, for a lake on s3a://. Instead of Amazon's whole SDK (500 MB) the parts of it that S3A uses.
    "s3": [
        "org.apache.hadoop:hadoop-aws:3.5.0",
        "software.amazon.awssdk:apache-client:2.35.4",
        "software.amazon.awssdk:s3:2.35.4",
        "software.amazon.awssdk:s3-transfer-manager:2.35.4",
        "software.amazon.awssdk:sts:2.35.4",
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
    # Databases that the tests read: users bring the driver of theirs.
    "drivers": ["org.postgresql:postgresql:42.7.7", "org.mariadb.jdbc:mariadb-java-client:3.5.3"],
}
# What S3A does without, and a logging interface that Spark brings under another name.
EXCLUDED: Final = {
    # Logins by Waffle and by Amazon's IAM, which no test uses.
    "drivers": ["com.github.waffle:waffle-jna", "org.checkerframework:checker-qual", "software.amazon.awssdk:bom"],
    "s3": [
        "software.amazon.awssdk:bundle",
        "org.wildfly.openssl:wildfly-openssl",
        "commons-logging:commons-logging",
    ],
}
# Groups that join Spark's own jars on one class path.
IN_SPARK: Final = ("spark", "s3")


def main() -> None:
    shipped = {_artifact(jar.name) for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    groups = {}
    for name, roots in ROOTS.items():
        with tempfile.TemporaryDirectory() as folder:
            jars = _resolve(roots, EXCLUDED.get(name, []), Path(folder))
            # Spark's own versions win on its class path; a second copy there would only confuse.
            wanted = [jar for jar in jars if name not in IN_SPARK or _artifact(jar.name) not in shipped]
            groups[name] = sorted((_entry(jar, Path(folder)) for jar in wanted), key=lambda e: str(e["coordinate"]))
        print(f"{name}: {len(groups[name])} jars, {sum(int(str(e['bytes'])) for e in groups[name]):,} bytes")
    LOCK.write_text(json.dumps({"format": 1, "groups": groups}, indent=1) + "\n", encoding="utf-8")


def _resolve(roots: list[str], excluded: list[str], folder: Path) -> list[Path]:
    (folder / "pom.xml").write_text(_pom(roots, excluded), encoding="utf-8")
    options = ["-DoutputDirectory=jars", "-Dmdep.useRepositoryLayout=true", "-DincludeScope=runtime"]
    subprocess.run(["mvn", "-B", "-q", COPY, *options], cwd=folder, check=True)
    return list((folder / "jars").rglob("*.jar"))


def _pom(roots: list[str], excluded: list[str]) -> str:
    tags = ("groupId", "artifactId", "version")

    def xml(coordinate: str) -> str:
        return "".join(f"<{tag}>{part}</{tag}>" for tag, part in zip(tags, coordinate.split(":"), strict=False))

    left_out = "".join(f"<exclusion>{xml(each)}</exclusion>" for each in excluded)
    listed = "".join(f"<dependency>{xml(root)}<exclusions>{left_out}</exclusions></dependency>" for root in roots)
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
