"""Finding a kind by its name, which is that of a file in the folder or of an installed entry point.

A family is a folder of this package (``formats``, ``sinks``, ``actions``). Each module in it names its kind
``KIND``: a class of ``spec`` whose ``type`` is the module's name, or a ready object for an action. Other packages
add kinds through entry points of the group ``rivermouth.<family>``. Nothing is imported before it is asked for.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
from typing import Any

from rivermouth.errors import UnknownKind
from rivermouth.names import did_you_mean


def kind_names(family: str) -> list[str]:
    """The names of all kinds of ``family``, sorted; reads no module of them."""
    return sorted({*_own(family), *_installed(family)})


def find_kind(family: str, name: str) -> Any:
    """What the module of kind ``name`` calls its ``KIND``.

    Raises:
        UnknownKind: No file in the folder and no entry point has the name.
    """
    if name in _own(family):
        module = importlib.import_module(f"rivermouth.{family}.{name}")
        return module.KIND
    installed = _installed(family)
    if name in installed:
        return installed[name].load()
    raise UnknownKind(family=family[:-1], name=name, fix=did_you_mean(name, kind_names(family)))


def _own(family: str) -> set[str]:
    package = importlib.import_module(f"rivermouth.{family}")
    return {module.name for module in pkgutil.iter_modules(package.__path__) if not module.name.startswith("_")}


def _installed(family: str) -> dict[str, importlib.metadata.EntryPoint]:
    return {point.name: point for point in importlib.metadata.entry_points(group=f"rivermouth.{family}")}


def function_names() -> list[str]:
    """The names of all functions that installed packages bring for ``format: python``, sorted."""
    return sorted(_installed("functions"))


def installed_function(name: str) -> str | None:
    """Where the function of that name is, as ``module:function``; None if no package brings one."""
    point = _installed("functions").get(name)
    return None if point is None else f"{point.module}:{point.attr}"
