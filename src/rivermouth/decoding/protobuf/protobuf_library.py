"""Whether google.protobuf is there, which is an extra: in this process, and in Spark's Python workers."""

from __future__ import annotations

import importlib
from typing import Final

from rivermouth.errors import ProtobufMissing

_MARK: Final = "RIVERMOUTH_PROTOBUF_MISSING|"


def check_library() -> None:
    """Makes sure that google.protobuf can be imported.

    Raises:
        ProtobufMissing: It cannot.
    """
    try:
        importlib.import_module("google.protobuf.descriptor_pool")
    except ImportError:
        raise ProtobufMissing from None


def check_in_worker() -> None:
    """The same in a worker; ``failure`` reads the error from the text of the job's."""
    try:
        check_library()
    except ProtobufMissing:
        raise RuntimeError(_MARK) from None


def failure(error_text: str) -> ProtobufMissing | None:
    """The typed error behind a Spark job that ended because a worker has no google.protobuf; else None."""
    return ProtobufMissing() if _MARK in error_text else None
