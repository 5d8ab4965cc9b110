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
    context: Any = spark.sparkContext
    file = _zipped(Path(pooch.os_cache("rivermouth")) / "workers")
    if file.name not in {Path(each).name for each in context.listFiles}:
        context.addPyFile(str(file))
    elif file.name not in context._python_includes:  # noqa: SLF001 - another process of this context added it
        context._python_includes.append(file.name)  # noqa: SLF001


def _zipped(folder: Path) -> Path:
    package = Path(__file__).parents[2]
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(package.rglob("*.py")):
            name = (Path(package.name) / path.relative_to(package)).as_posix()
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), path.read_bytes())
    digest = hashlib.sha256(content.getvalue()).hexdigest()[:16]
    file = folder / f"rivermouth-{digest}.zip"
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        beside = file.with_name(f".{file.name}.{os.getpid()}")
        beside.write_bytes(content.getvalue())
        beside.replace(file)
    return file
