"""A wrapped value as it is within, in plain Python: what ``unwrap`` does in Spark, for the readers of samples."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from rivermouth.decoding.json import nested_documents
from rivermouth.decoding.wrapped.unwrap import HEADER_BYTES
from rivermouth.schemas.inference import Corrupt

if TYPE_CHECKING:
    from rivermouth.spec import Flow

Unwrap = Callable[[bytes], bytes]
"""From a value to what it is within; raises ``Corrupt``."""

_GZIP: Final = 31


def unwrap_of(flow: Flow, *, id_in_header: bool = False) -> Unwrap:
    """How the values of a flow are unwrapped; as they are where nothing is around them.

    Args:
        flow: Says how its values are wrapped.
        id_in_header: Whether a header of the record has the id of the schema: then there is none before the value.
    """
    steps: list[Unwrap] = []
    if flow.compression is not None:
        expand, max_bytes = _EXPANDERS[flow.compression.type], flow.compression.max_bytes
        steps.append(lambda value: expand(value, max_bytes))
    if flow.has_schema_header and not id_in_header:
        steps.append(_without_header)
    if flow.string_documents:
        where = nested_documents.tree(flow.string_documents)
        steps.append(lambda value: _opened(value, where))

    def unwrap(value: bytes) -> bytes:
        for step in steps:
            value = step(value)
        return value

    return unwrap


def _without_header(value: bytes) -> bytes:
    if len(value) < HEADER_BYTES or value[0] != 0:
        raise Corrupt("WRONG_MAGIC")
    return value[HEADER_BYTES:]


def _opened(value: bytes, where: dict[str, Any]) -> bytes:
    try:
        return nested_documents.opened(value, where)
    except nested_documents.Refused as refused:
        raise Corrupt(str(refused)) from None
    except RecursionError:
        raise Corrupt("TOO_DEEP") from None


def _expanded_gzip(value: bytes, max_bytes: int) -> bytes:
    made = bytearray()
    while True:
        member = zlib.decompressobj(_GZIP)
        try:
            made += member.decompress(value, max_bytes + 1 - len(made))
        except zlib.error:
            raise Corrupt("INVALID_COMPRESSION") from None
        if len(made) > max_bytes:
            raise Corrupt("TOO_LARGE")
        if not member.eof:
            raise Corrupt("INVALID_COMPRESSION")
        value = member.unused_data
        if not value:
            return bytes(made)


def _expanded_zstd(value: bytes, max_bytes: int) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - for those values alone

    try:
        with pa.CompressedInputStream(io.BytesIO(value), "zstd") as stream:
            made = stream.read(max_bytes + 1)
    except OSError:
        raise Corrupt("INVALID_COMPRESSION") from None
    if len(made) > max_bytes:
        raise Corrupt("TOO_LARGE")
    if not value:
        raise Corrupt("INVALID_COMPRESSION")
    return bytes(made)


_EXPANDERS: Final = {"gzip": _expanded_gzip, "zstd": _expanded_zstd}
