"""Protobuf values of writers whose schemas a registry has, in Spark's Python workers: rows of a table that grows.

What a worker does not know of a writer comes with the value: only the JVM and the driver ask the registry.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.decoding.protobuf import (
    protobuf_decode,
    protobuf_descriptor,
    protobuf_wire_check,
    protobuf_writer_columns,
)
from rivermouth.decoding.protobuf.protobuf_library import check_in_worker
from rivermouth.decoding.protobuf.protobuf_writer_reader import GrownReader
from rivermouth.decoding.python.python_decode import Outcome, python_udf
from rivermouth.decoding.python.python_scalars import Misfit
from rivermouth.decoding.registry.registry_references import ROOT
from rivermouth.errors import DescriptorUnusable
from rivermouth.schemas import evolution
from rivermouth.schemas.column_policies import Policies
from rivermouth.schemas.column_types import nullable_columns

TOLD: Final = T.StructType(
    [
        *protobuf_decode.TOLD,
        T.StructField("grows", T.BooleanType()),
        T.StructField("stops_by", T.StringType()),
        T.StructField("stops_at", T.StringType()),
    ]
)
"""What is told of each value: as of others, whether the table may grow by its writer, and what stops the flow."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How the values of a flow are encoded whose table grows.

    Attributes:
        content: The table's descriptor file as it was declared.
        message: Full name of the message.
        policies: As ``column_policies.policies_of`` writes them, with the columns as they are now.
        fails: Whether a policy may stop the flow.
        known: Of writers that the plan knows, their ids and descriptor files.
        truncates_times: Whether what is less than a microsecond is cut off of times.
    """

    content: bytes = field(repr=False)
    message: str
    policies: str = field(repr=False)
    fails: bool = False
    known: tuple[tuple[int, bytes], ...] = field(default=(), repr=False)
    truncates_times: bool = False


@dataclass(frozen=True, slots=True)
class Writer:
    """Who wrote values: how they are read.

    Attributes:
        parse: A function from a value to the writer's message.
        reader: Reads them as rows.
        strict: Reads them only for what stops the flow; None where nothing does.
        grows: Whether the table may grow by the writer's schema.
    """

    parse: Callable[[bytes], Any]
    reader: GrownReader
    strict: GrownReader | None
    grows: bool


def decoder(encoding: Encoding) -> Callable[..., Any]:
    """A Spark function from the value and what the registry says of its writer to (decoded, data, verdict)."""
    return python_udf(_columns(encoding.policies), functools.partial(decoded, encoding), TOLD)


def decoded(encoding: Encoding, values: pa.Array, asked: pa.StructArray) -> Outcome:
    """What becomes of the values of one batch."""
    check_in_worker()
    outcome, found = Outcome(len(values)), []
    beside: dict[str, list[Any]] = {
        name: [None] * len(values) for name in ("undeclared", "grows", "stops_by", "stops_at")
    }
    writers, columns = _Writers(encoding, asked), _columns(encoding.policies)
    for place, value in enumerate(values.to_pylist()):
        if value is None:
            continue
        writer = message = None
        try:
            writer = writers.of(value, place)
            beside["grows"][place] = writer.grows
            message = protobuf_decode.read_by(writer.parse, value)
            row = protobuf_decode.read_by(writer.reader.read, message)
        except Misfit as misfit:
            outcome.refused[place] = misfit
            stop = None if writer is None or message is None else _stop(writer, message)
            if stop is not None:
                beside["stops_by"][place], beside["stops_at"][place] = stop.reason, stop.field
        else:
            beside["undeclared"][place] = writer.reader.undeclared(message)
            outcome.places.append(place)
            found.append(row)
    outcome.beside.update(beside)
    return outcome.fitted(found, columns)


def _stop(writer: Writer, message: Any) -> Misfit | None:
    if writer.strict is None:
        return None
    try:
        protobuf_decode.read_by(writer.strict.read, message)
    except Misfit as misfit:
        return misfit
    return None


def written(content: bytes, message: str, columns: T.StructType) -> T.StructType:
    """What a writer's message has, as columns by the names of those that a table has.

    Args:
        content: The writer's descriptor file.
        message: Full name of the message.
        columns: The table's columns, with their numbers.
    """
    try:
        descriptor = protobuf_descriptor.message_class(content, message).DESCRIPTOR
    except DescriptorUnusable:
        return T.StructType()
    return protobuf_writer_columns.of_message(descriptor, columns)


class _Writers:
    """Who wrote the values of one batch."""

    def __init__(self, encoding: Encoding, asked: pa.StructArray) -> None:
        self._encoding = encoding
        self._known = dict(encoding.known)
        self._descriptors, self._why = (asked.field(place) for place in range(2))
        self._found: dict[int, Writer | Misfit] = {}

    def of(self, value: bytes, place: int) -> Writer:
        """The writer of the value at a place; raises a ``Misfit`` where there is none."""
        number = protobuf_wire_check.writer_id(value)
        found = self._found.get(number)
        if found is None:
            found = self._found[number] = self._made(number, place)
        if isinstance(found, Misfit):
            raise Misfit(found.reason, found.field, str(found))
        return found

    def _made(self, number: int, place: int) -> Writer | Misfit:
        content = self._known.get(number)
        if content is None:
            content = self._descriptors[place].as_py()
        if content is None:
            return Misfit("UNKNOWN_SCHEMA", None, str(self._why[place].as_py()))
        return _writer(self._encoding, number, content)


@functools.lru_cache(maxsize=256)
def _writer(encoding: Encoding, number: int, content: bytes) -> Writer | Misfit:
    policies = _policies(encoding.policies)
    try:
        kind = protobuf_descriptor.message_class(content, encoding.message)
    except DescriptorUnusable as unusable:
        why = unusable.facts["detail"]
        if why == protobuf_descriptor.lacks(encoding.message):
            return Misfit("SCHEMA_MISMATCH", None, f"the writer's schema has no message {encoding.message}")
        text = f"the schema registry has no Protobuf schema with the id {number} that can be used: {why}"
        return Misfit("UNKNOWN_SCHEMA", None, text)
    if kind.DESCRIPTOR.file.name != ROOT:
        text = f"the writer's schema only refers to the message {encoding.message}"
        return Misfit("SCHEMA_MISMATCH", None, text)
    declared = protobuf_descriptor.message_class(encoding.content, encoding.message).DESCRIPTOR
    found = protobuf_writer_columns.of_message(kind.DESCRIPTOR, policies.columns)
    is_new, truncates = number not in policies.looked_at, encoding.truncates_times
    return Writer(
        parse=functools.partial(protobuf_decode.message_of, kind=kind, framing="confluent"),
        reader=GrownReader(kind.DESCRIPTOR, declared, policies, truncates=truncates),
        strict=GrownReader(
            kind.DESCRIPTOR, declared, _policies(encoding.policies, only_fails=True), truncates=truncates
        )
        if encoding.fails
        else None,
        grows=is_new and bool(evolution.grown(policies.columns, found, {}, policies).changes),
    )


@functools.lru_cache(maxsize=64)
def _policies(text: str, *, only_fails: bool = False) -> Policies:
    return Policies(text, only_fails=only_fails)


@functools.lru_cache(maxsize=32)
def _columns(policies: str) -> T.StructType:
    return nullable_columns(_policies(policies).columns)
