"""Typed errors of Kinesis on their way through Spark, which hands errors of its Python processes on as text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rivermouth.errors import (
    KinesisClientMissing,
    KinesisDataLost,
    KinesisSourceInvalid,
    KinesisSourceUnreadable,
    KinesisThrottled,
    RivermouthError,
)

_MARK: Final = "RIVERMOUTH_KINESIS"
_FAILURE: Final = re.compile(_MARK + r"\|(\w+)\|(\{[^\n]*\})\|")
_CLASSES: Final[dict[str, type[RivermouthError]]] = {
    each.__name__: each
    for each in (
        KinesisClientMissing,
        KinesisDataLost,
        KinesisSourceInvalid,
        KinesisSourceUnreadable,
        KinesisThrottled,
    )
}


@contextmanager
def as_text() -> Iterator[None]:
    """Typed errors within the block become text that ``failure`` reads.

    Raises:
        RuntimeError: With that text.
    """
    try:
        yield
    except RivermouthError as error:
        raise RuntimeError(f"{_MARK}|{type(error).__name__}|{json.dumps(error.facts)}|") from None


def failure(error_text: str) -> RivermouthError | None:
    """The typed error behind a query that ended because of Kinesis; else None."""
    found = _FAILURE.search(error_text)
    return None if found is None else _CLASSES[found[1]](**json.loads(found[2]))
