"""The data set in other encodings: the same orders, whatever their format."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache
from typing import Any, Final

import fastavro
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from bench import records

FORMATS: Final = ("json", "avro", "protobuf", "csv")
MESSAGE: Final = "bench.Order"

_TIMESTAMP: Final = ".google.protobuf.Timestamp"
_TIMES: Final = ("created_at", "updated_at")
_PROTOBUF: Final = descriptor_pb2.FieldDescriptorProto
AVRO_SCHEMA: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": name, "type": {"order_id": "long", "quantity": "int"}.get(name, "string")}
        if name not in ("amount", *_TIMES)
        else {"name": name, "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}}
        if name == "amount"
        else {"name": name, "type": {"type": "long", "logicalType": "timestamp-millis"}}
        for name in records.COLUMNS
    ],
}


def descriptor() -> bytes:
    """The descriptor file of the orders; an amount is a double, for Protobuf has no decimals."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="bench", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    message = file.message_type.add(name="Order")
    kinds = {"order_id": _PROTOBUF.TYPE_INT64, "quantity": _PROTOBUF.TYPE_INT32, "amount": _PROTOBUF.TYPE_DOUBLE}
    for number, name in enumerate(records.COLUMNS, start=1):
        field = message.field.add(name=name, number=number, label=_PROTOBUF.LABEL_OPTIONAL)
        field.type = kinds.get(name, _PROTOBUF.TYPE_STRING)
        if name in _TIMES:
            field.type, field.type_name = _PROTOBUF.TYPE_MESSAGE, _TIMESTAMP
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


def values(form: str, count: int) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of ``count`` orders: those of ``records.values``."""
    if form == "json":
        yield from records.values(count)
        return
    begin, rest = {"avro": (_zigzag, _avro), "protobuf": (_field_one, _protobuf), "csv": (_digits, _csv)}[form]
    # The number is the first field in each encoding, so the rest of an order is made once.
    ends = [rest(json.loads(before + b"0" + after)) for before, after in records.templates()]
    for number in range(count):
        order_id = 100_000_000 + number
        yield b"%d" % order_id, begin(order_id) + ends[number % len(ends)]


def _avro(order: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    typed = {name: _time(text) if name in _TIMES else text for name, text in order.items()}
    fastavro.schemaless_writer(
        out, AVRO_SCHEMA, {**typed, "amount": Decimal(str(order["amount"])).quantize(Decimal("0.01"))}
    )
    return out.getvalue()[1:]


def _protobuf(order: dict[str, Any]) -> bytes:
    message = _message()()
    for name, value in order.items():
        if name in _TIMES:
            getattr(message, name).FromDatetime(_time(value))
        elif name != "order_id":
            setattr(message, name, value)
    return bytes(message.SerializeToString())


@cache
def _message() -> Callable[[], Any]:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor()).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(MESSAGE))


def _csv(order: dict[str, Any]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(list(order.values())[1:])
    return b"," + out.getvalue().encode()


def _time(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def _digits(number: int) -> bytes:
    return b"%d" % number


def _zigzag(number: int) -> bytes:
    return _varint(number << 1)


def _field_one(number: int) -> bytes:
    return b"\x08" + _varint(number)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
