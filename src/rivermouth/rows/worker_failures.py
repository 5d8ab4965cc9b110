"""What the text of a failed Spark job says of a worker's trouble, where that has an error of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivermouth.rows import python_function, schema_registry

if TYPE_CHECKING:
    from rivermouth.errors import RivermouthError


def failure(error_text: str) -> RivermouthError | None:
    """The typed error behind it: no schema registry, or no function of the user's; None if it is neither."""
    return schema_registry.failure(error_text) or python_function.failure(error_text)
