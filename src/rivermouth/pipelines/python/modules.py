"""The modules that pipeline files import: ``dlt``, ``pyspark.pipelines`` and Databricks' spelling of it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from rivermouth.pipelines.python import datasets, flows
from rivermouth.pipelines.python.registry import current

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def read(name: str) -> Any:
    """A batch frame of a dataset."""
    return current("read").reader.read(name, stream=False)


def read_stream(name: str) -> Any:
    """A streaming frame of a dataset."""
    return current("read_stream").reader.read(name, stream=True)


def enable_local_execution() -> None:
    """Does nothing: the switch of a stub that other projects use to run such files."""


API: Final = {
    **{
        name: getattr(datasets, name)
        for name in (
            "table",
            "materialized_view",
            "temporary_view",
            "create_streaming_table",
            "expect",
            "expect_or_drop",
            "expect_or_fail",
            "expect_or_dead_letter",
            "expect_all",
            "expect_all_or_drop",
            "expect_all_or_fail",
            "expect_all_or_dead_letter",
        )
    },
    **{
        name: getattr(flows, name)
        for name in (
            "append_flow",
            "update_flow",
            "create_auto_cdc_flow",
            "create_auto_cdc_from_snapshot_flow",
            "create_sink",
            "foreach_batch_sink",
            "on_event_hook",
        )
    },
    "read": read,
    "read_stream": read_stream,
    "enable_local_execution": enable_local_execution,
}
"""What the modules offer, by name."""

OLD_NAMES: Final = {
    "view": "temporary_view",
    "create_table": "table",
    "create_view": "temporary_view",
    "create_target_table": "create_streaming_table",
    "create_streaming_live_table": "create_streaming_table",
    "apply_changes": "create_auto_cdc_flow",
    "apply_changes_from_snapshot": "create_auto_cdc_from_snapshot_flow",
    "readStream": "read_stream",
    "read_stream_table": "read_stream",
}
"""Names that earlier versions had, and what they are called now."""

MODULES: Final = (
    "dlt",
    "pyspark.pipelines",
    "databricks.dlt",
    "databricks.pipelines",
    "databricks.declarative_pipelines",
)
_OF_NOTEBOOKS: Final = ("pyspark.dbutils", "databricks.sdk.runtime")
_PACKAGES: Final = ("databricks", "databricks.sdk")


def _module(name: str) -> ModuleType:
    module = ModuleType(name, "Definitions of a rivermouth pipeline.")
    for each, function in API.items():
        setattr(module, each, function)
    for old, now in OLD_NAMES.items():
        setattr(module, old, API[now])
    module.__dict__["__all__"] = [*API, *OLD_NAMES]
    return module


@contextmanager
def importable(names: Mapping[str, Any]) -> Iterator[None]:
    """In the block ``import dlt`` and ``from pyspark import pipelines`` give our modules.

    So do the modules from which files take what notebooks have by itself.

    Args:
        names: Those of notebooks: ``spark``, ``dbutils``, ``display`` and the like.
    """
    import pyspark  # noqa: PLC0415 - pipelines without Python files do not need it here

    known = set(sys.modules)
    before = {name: sys.modules.get(name) for name in (*MODULES, *_OF_NOTEBOOKS, *_PACKAGES)}
    held = pyspark.__dict__.get("pipelines")
    for name in _PACKAGES:
        _stand_in(name)
    databricks = importlib.import_module("databricks")
    for name in MODULES:
        sys.modules[name] = _module(name)
    for name in _OF_NOTEBOOKS:
        sys.modules[name] = ModuleType(name, "Names of notebooks, of a rivermouth pipeline.")
        sys.modules[name].__dict__.update(names, DBUtils=lambda *_session: names["dbutils"])
    pyspark.pipelines = sys.modules["pyspark.pipelines"]  # type: ignore[attr-defined]
    kept = {name: databricks.__dict__.get(name) for name in ("dlt", "pipelines", "declarative_pipelines")}
    for name in kept:
        setattr(databricks, name, sys.modules[f"databricks.{name}"])
    try:
        yield
    finally:
        for name in [each for each in sys.modules if each.startswith("databricks.") and each not in known]:
            del sys.modules[name]
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
        _put_back(pyspark, "pipelines", held)
        for name, value in kept.items():
            _put_back(databricks, name, value)


def _stand_in(name: str) -> None:
    """An empty package, if there is none of that name, neither installed nor in a folder of the pipeline."""
    if name not in sys.modules and importlib.util.find_spec(name) is None:
        sys.modules[name] = ModuleType(name)
        sys.modules[name].__path__ = []


def _put_back(module: ModuleType, name: str, value: Any) -> None:
    if value is None:
        module.__dict__.pop(name, None)
    else:
        setattr(module, name, value)
