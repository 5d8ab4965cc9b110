"""A user's own modules for Spark's Python workers, which import the functions of UDFs by the names of their modules."""

from __future__ import annotations

import functools
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rivermouth.ports.spark import python_package
from rivermouth.ports.spark.session_conf import in_one_jvm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

_PATH: Final = "PYTHONPATH"
_MODULES: Final = "RIVERMOUTH_MODULES"
"""Says which modules a worker has imported: workers with another value of it are other processes."""
_NOT_MODULES: Final = frozenset({"site-packages", "node_modules", "__pycache__"})


@contextmanager
def worker_modules(spark: SparkSession) -> Iterator[Callable[[Sequence[Path]], None]]:
    """Gives a function that says from which folders workers import modules, for what is made of them in the block.

    Workers of this machine read the folders themselves. Those of a cluster get a copy of the modules. A module with
    the name of one of Python's own is left out, because Spark's workers would import it in its place.

    Args:
        spark: A session of the context.

    Guarantees:
        Afterwards new functions are as before the block. Pipelines with different modules of one name share no worker.
    """
    context: Any = spark.sparkContext
    archive = functools.cache(lambda folder: python_package.zipped("modules", _modules(folder)))
    environment, includes = dict(context.environment), list(context._python_includes)  # noqa: SLF001

    def share(folders: Sequence[Path]) -> None:
        if in_one_jvm(spark.sparkContext.master or ""):
            places = [str(archive(each) if _hides_pythons_own(each) else each) for each in folders]
            first = [environment[_PATH]] if _PATH in environment else []
            context.environment[_PATH] = os.pathsep.join([*first, *places])
            return
        files = [archive(each) for each in reversed(folders) if each.is_dir()]
        for file in files:
            python_package.add(context, file)
        context.environment[_MODULES] = " ".join(each.stem for each in files)

    try:
        yield share
    finally:
        context.environment.clear()
        context.environment.update(environment)
        context._python_includes[:] = includes  # noqa: SLF001


def _hides_pythons_own(folder: Path) -> bool:
    return folder.is_dir() and any(_is_named_as_pythons_own(each) for each in folder.iterdir())


def _modules(folder: Path) -> Iterator[tuple[str, Path]]:
    """The modules in a folder and in its packages, by their paths in it, without those named as Python's own."""
    for place, folders, files in os.walk(folder):
        at = Path(place)
        left_out = {name for name in (*folders, *files) if at == folder and _is_named_as_pythons_own(at / name)}
        folders[:] = [name for name in folders if name.isidentifier() and name not in _NOT_MODULES | left_out]
        for name in files:
            if name.endswith(".py") and name not in left_out:
                yield (at / name).relative_to(folder).as_posix(), at / name


def _is_named_as_pythons_own(path: Path) -> bool:
    is_module = path.suffix == ".py" or (path / "__init__.py").is_file()
    return is_module and path.stem in sys.stdlib_module_names
