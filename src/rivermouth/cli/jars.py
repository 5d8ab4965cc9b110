"""``rivermouth jars``: the JARs that Spark needs besides its own, for machines with and without a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rivermouth.cli.options import speaking
from rivermouth.cli.output import Output, plain

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.group(short_help="Jars of Spark and the broker: fetch, bundle, unpack.")
def jars() -> None:
    """What Spark and the broker load: fetch, bundle, unpack, paths.

    The jars of Delta, of Spark's Kafka connector, of Hadoop's S3A and of the development broker; each is checked
    against its sha256.
    """


@jars.command()
@speaking
def fetch(output: Output) -> None:
    """Download jars that are missing."""
    from rivermouth.ports.spark.jars import fetch_all

    _told(output, fetch_all(), "ready in", None)


@jars.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@speaking
def bundle(output: Output, file: Path) -> None:
    """Write all jars into one FILE.

    It serves a machine without a network: copy it there, then `rivermouth jars unpack FILE`.
    """
    from rivermouth.ports.spark import jar_bundle

    _told(output, jar_bundle.write(file), "written to", file)


@jars.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@speaking
def unpack(output: Output, file: Path) -> None:
    """Put the jars of a bundle in place.

    FILE is one that `rivermouth jars bundle` wrote; the jars go into this user's cache. Needs no network.
    """
    from rivermouth.ports.spark import jar_bundle

    _told(output, jar_bundle.unpack(file), "ready in", None)


@jars.command()
@click.option("--s3", is_flag=True, help="Also those for a lake on s3a://.")
@speaking
def paths(output: Output, s3: bool) -> None:
    """Print the jars that Spark needs, with commas between.

    For `spark-submit --jars "$(rivermouth jars paths)"`; missing ones are downloaded.
    """
    from rivermouth.ports.spark.jars import for_spark

    found = [str(path) for path in for_spark({"s3a"} if s3 else ())]
    output.result(",".join(found), found, whole=True)


@jars.command()
@speaking
def archive(output: Output) -> None:
    """Archive Spark's classes, so that Spark starts faster.

    Runs a few records through a broker, flows and a pipeline of its own, for about a minute, and writes some 220 MB
    into this user's cache. Run it again after an update of rivermouth, PySpark or Java.
    """
    from rivermouth.pipelines.starter import run_starter
    from rivermouth.project.warm_up import warm_up

    path = warm_up(run_starter)
    size = path.stat().st_size
    output.result(f"Spark's classes, {size / 1e6:.0f} MB, in {path}", plain({"bytes": size, "place": str(path)}))


def _told(output: Output, found: Sequence[Path], where: str, file: Path | None) -> None:
    size = sum(path.stat().st_size for path in found)
    place = file if file is not None else found[0].parent
    output.result(
        f"{len(found)} jars, {size / 1e6:.0f} MB, {where} {place}",
        plain({"jars": len(found), "bytes": size, "place": str(place)}),
    )
