"""Object stores that pipelines name: Spark needs classes for them when it starts, before any file is evaluated."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_S3: Final = re.compile(r"\bs3[an]?://", re.IGNORECASE)


def stores(values: Iterable[str], files: Iterable[Path]) -> tuple[str, ...]:
    """The object stores whose addresses are written in values of the configuration, or in source files.

    A file that does not exist is left out: its evaluation says so.
    """
    texts = (each.read_text("utf-8", errors="replace") for each in files if each.is_file())
    return ("s3a://",) if any(map(_S3.search, chain(values, texts))) else ()
