"""This package for the Python workers of a cluster, where nobody has installed it."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pooch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

# One date for all, so that the same package is the same file.
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


def ship(spark: SparkSession) -> None:
    """Sees to it that Spark's Python workers can import this package, whatever machine they run on.

    They name the reasons of refused values. What that code imports is Python's own and PySpark.

    Guarantees:
        Run twice for a context, by whichever process: the second time changes nothing. The file stays in the user's
        cache, because Spark hands it to workers that join later, also after this process.
    """
    package = Path(__file__).parents[2]
    modules = ((f"{package.name}/{path.relative_to(package).as_posix()}", path) for path in package.rglob("*.py"))
    add(spark.sparkContext, zipped("rivermouth", modules))


def add(context: Any, file: Path) -> None:
    """Workers of the context can import what is in an archive, by the functions that are made afterwards.

    Guarantees:
        As ``ship``, of a file in the user's cache.
    """
    if file.name not in {Path(each).name for each in context.listFiles}:
        context.addPyFile(str(file))
    elif file.name not in context._python_includes:  # noqa: SLF001 - another process of this context added it
        context._python_includes.append(file.name)  # noqa: SLF001


def zipped(name: str, modules: Iterable[tuple[str, Path]]) -> Path:
    """An archive of modules in the user's cache, whose name has a hash of its content.

    Args:
        name: How its name begins.
        modules: Each by its path there.
    """
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for place, path in sorted(modules):
            archive.writestr(zipfile.ZipInfo(place, _EPOCH), path.read_bytes())
    digest = hashlib.sha256(content.getvalue()).hexdigest()[:16]
    folder = Path(pooch.os_cache("rivermouth")) / "workers"
    file = folder / f"{name}-{digest}.zip"
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        beside = file.with_name(f".{file.name}.{os.getpid()}")
        beside.write_bytes(content.getvalue())
        beside.replace(file)
    return file
