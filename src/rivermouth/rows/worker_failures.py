"""What the text of a failed Spark job says of a worker's trouble, where that has an error of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivermouth.rows import protobuf_values, python_function, schema_registry

if TYPE_CHECKING:
    from rivermouth.errors import RivermouthError


def failure(error_text: str) -> RivermouthError | None:
    """The typed error behind it: no schema registry, no function of the user's, no library; else None."""
    readers = (schema_registry.failure, python_function.failure, protobuf_values.failure)
    return next(filter(None, (read(error_text) for read in readers)), None)
