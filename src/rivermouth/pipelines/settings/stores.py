"""Object stores that a pipeline names: Spark needs classes for them when it starts, before any file is evaluated."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rivermouth.pipelines.files.paths import resolved

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_S3: Final = re.compile(r"\bs3[an]?://[^\s'\"`,)]*", re.IGNORECASE)
_COMMENT: Final = re.compile(r"^\s*(?:--|#)(?!\s*MAGIC).*$", re.MULTILINE)


def stores(values: Iterable[str], files: Iterable[Path], paths: Mapping[str, str]) -> frozenset[str]:
    """The object stores whose addresses are written in the configuration, or in source files outside of comments.

    Args:
        values: Of the configuration.
        files: The source files. One that does not exist is left out: its evaluation says so.
        paths: By prefix of an address, the folder that is used in its place.
    """
    texts = (_COMMENT.sub("", each.read_text("utf-8", errors="replace")) for each in files if each.is_file())
    found = (address[0] for text in (*values, *texts) for address in _S3.finditer(text))
    return frozenset("s3a://" for each in found if resolved(each, paths).lower().startswith("s3a://"))
