"""What a worker of Spark imports as ``dlt``: a module with functions for UDFs may define datasets too, in a run."""

from __future__ import annotations

from typing import Any


class _Nothing:
    """A definition, or a decorator, that does nothing."""

    def __call__(self, *values: Any, **_arguments: Any) -> Any:
        return values[0] if len(values) == 1 and callable(values[0]) else self


def __getattr__(name: str) -> _Nothing:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Nothing()
