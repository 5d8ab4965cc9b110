"""Protobuf values in Spark's Python workers: an Arrow batch of bytes in, verdicts and rows out."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.decoding.protobuf import protobuf_descriptor, protobuf_reader
from rivermouth.decoding.protobuf.protobuf_library import check_in_worker
from rivermouth.decoding.protobuf.protobuf_wire_check import confluent, wrong_bytes
from rivermouth.decoding.python.python_decode import VERDICT, Outcome, python_udf
from rivermouth.decoding.python.python_scalars import Misfit

TOLD: Final = T.StructType([*VERDICT, T.StructField("undeclared", T.ArrayType(T.StringType()))])
"""What is told of each value: the verdict, and which of the message's own fields no column has."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How values are encoded.

    Attributes:
        content: What the descriptor file holds.
        message: Full name of the message.
        framing: plain or confluent.
        truncates_times: Whether what is less than a microsecond is cut off of times.
    """

    content: bytes = field(repr=False)
    message: str
    framing: str = "plain"
    truncates_times: bool = False


def decoder(encoding: Encoding) -> Callable[..., Any]:
    """A Spark function from the value to (decoded, data, verdict), which is never null."""
    return python_udf(_schema(encoding), functools.partial(decoded, encoding), TOLD)


def decoded(encoding: Encoding, values: pa.Array) -> Outcome:
    """What becomes of the values of one batch."""
    check_in_worker()
    kind = protobuf_descriptor.message_class(encoding.content, encoding.message)
    read = protobuf_reader.reader(encoding.content, encoding.message, truncates=encoding.truncates_times)
    outcome, found = Outcome(len(values)), []
    undeclared: list[list[str]] = [[] for _ in range(len(values))]
    unread = protobuf_reader.unread(kind.DESCRIPTOR)
    parse = functools.partial(message_of, kind=kind, framing=encoding.framing)
    for place, value in enumerate(values.to_pylist()):
        if value is None:
            continue
        try:
            message = read_by(parse, value)
            row = read_by(read, message)
        except Misfit as misfit:
            outcome.refused[place] = misfit
        else:
            undeclared[place] = protobuf_reader.numbered(unread(message))
            outcome.places.append(place)
            found.append(row)
    outcome.beside["undeclared"] = undeclared
    return outcome.fitted(found, _schema(encoding))


def read_by(read: Callable[[Any], Any], message: Any) -> Any:
    """What a function reads of a message; all that it can be refused for is a ``Misfit``."""
    try:
        return read(message)
    except UnicodeDecodeError:
        # The keys of proto2's maps are not looked at when they are parsed.
        raise Misfit("INVALID_UTF8", None, "a string in the value is not valid UTF-8") from None
    except (TypeError, ValueError, RecursionError) as error:
        # Not known to happen. Uncaught, it would end the worker, and the batch's other records would fail with it.
        text = f"google.protobuf cannot read it: {type(error).__name__}"
        raise Misfit("INVALID_PROTOBUF", None, text) from None


def message_of(value: bytes, kind: Any, framing: str) -> Any:
    """The message that a value is.

    Raises:
        Misfit: It is none, or not wholly.
    """
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - of an extra

    body = confluent(value, kind.DESCRIPTOR) if framing == "confluent" else value
    if framing == "plain" and body[:1] == b"\0":
        text = "the value begins with a zero, and no message does: framing: confluent is for those of a schema registry"
        raise Misfit("INVALID_PROTOBUF", None, text)
    try:
        message = kind.FromString(body)
    except (DecodeError, UnicodeDecodeError):
        # Where the library is not C, it raises the latter for strings.
        invalid = Misfit("INVALID_PROTOBUF", None, "the bytes are no message of the descriptor")
        raise wrong_bytes(body, kind.DESCRIPTOR) or invalid from None
    # Methods of the class: fields may bear their names.
    if not kind.IsInitialized(message):
        name = next(iter(kind.FindInitializationErrors(message)))
        raise Misfit("FIELD_MISSING", name, f"field {name} is required, and not set")
    # The same bytes again: nothing was cut off, whatever number it was read as.
    wrong = None if kind.SerializeToString(message) == body else wrong_bytes(body, kind.DESCRIPTOR)
    if wrong is not None:
        raise wrong
    return message


@functools.lru_cache(maxsize=32)
def _schema(encoding: Encoding) -> Any:
    return protobuf_descriptor.columns(encoding.content, encoding.message)
