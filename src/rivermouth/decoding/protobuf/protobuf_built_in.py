"""Files that schemas import and descriptors may leave out: Google's, and those that Confluent's registry brings along.

The registry has the latter for all schemas, and no schema has them among its references:
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/serdes-protobuf.html
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from typing import Any, Final

_GOOGLE: Final = "google/protobuf/"
_WELL_KNOWN: Final = (
    "any",
    "api",
    "descriptor",
    "duration",
    "empty",
    "field_mask",
    "source_context",
    "struct",
    "timestamp",
    "type",
    "wrappers",
)
# Fields have the numbers from 1 on, in this order. A name with a point is an entry of a map.
_MESSAGES: Final[Mapping[str, Mapping[str, str]]] = {
    "confluent/meta.proto": {
        "Meta": "string doc, repeated .confluent.Meta.ParamsEntry params, repeated string tags, "
        "repeated .confluent.Rule rules",
        "Meta.ParamsEntry": "string key, string value",
        "Rule": "string name, string doc, string expr, string sql",
    },
    "confluent/type/decimal.proto": {"Decimal": "bytes value, uint32 precision, int32 scale"},
    "confluent/type/variant.proto": {"Variant": "bytes metadata, bytes value"},
    "google/type/color.proto": {
        "Color": "float red, float green, float blue, .google.protobuf.FloatValue alpha",
    },
    "google/type/date.proto": {"Date": "int32 year, int32 month, int32 day"},
    "google/type/datetime.proto": {
        "DateTime": "int32 year, int32 month, int32 day, int32 hours, int32 minutes, int32 seconds, int32 nanos, "
        "oneof time_offset .google.protobuf.Duration utc_offset, oneof time_offset .google.type.TimeZone time_zone",
        "TimeZone": "string id, string version",
    },
    "google/type/expr.proto": {"Expr": "string expression, string title, string description, string location"},
    "google/type/fraction.proto": {"Fraction": "int64 numerator, int64 denominator"},
    "google/type/latlng.proto": {"LatLng": "double latitude, double longitude"},
    "google/type/money.proto": {"Money": "string currency_code, int64 units, int32 nanos"},
    "google/type/postal_address.proto": {
        "PostalAddress": "int32 revision, string region_code, string language_code, string postal_code, "
        "string sorting_code, string administrative_area, string locality, string sublocality, "
        "repeated string address_lines, repeated string recipients, string organization",
    },
    "google/type/quaternion.proto": {"Quaternion": "double x, double y, double z, double w"},
    "google/type/timeofday.proto": {"TimeOfDay": "int32 hours, int32 minutes, int32 seconds, int32 nanos"},
}
# Symbols have the numbers from 0 on.
_ENUMS: Final[Mapping[str, tuple[str, str]]] = {
    "google/type/calendar_period.proto": (
        "CalendarPeriod",
        "CALENDAR_PERIOD_UNSPECIFIED DAY WEEK FORTNIGHT MONTH QUARTER HALF YEAR",
    ),
    "google/type/dayofweek.proto": (
        "DayOfWeek",
        "DAY_OF_WEEK_UNSPECIFIED MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY SUNDAY",
    ),
    "google/type/month.proto": (
        "Month",
        "MONTH_UNSPECIFIED JANUARY FEBRUARY MARCH APRIL MAY JUNE JULY AUGUST SEPTEMBER OCTOBER NOVEMBER DECEMBER",
    ),
}
# Older names of others.
_MOVED: Final[Mapping[str, str]] = {"confluent/types/decimal.proto": "confluent/type/decimal.proto"}
_IMPORTS: Final[Mapping[str, str]] = {
    "google/type/color.proto": "google/protobuf/wrappers.proto",
    "google/type/datetime.proto": "google/protobuf/duration.proto",
}
_FIELD: Final = re.compile(r"(?:(repeated)|oneof (\w+))? ?([\w.]+) (\w+)")


def file(name: str) -> Any:
    """What a file of that name describes, a ``FileDescriptorProto``; None of another name."""
    if name.startswith(_GOOGLE):
        return _of_library(name.removeprefix(_GOOGLE).removesuffix(".proto"))
    if name in _MOVED:
        return _made(name, package="", dependency=[_MOVED[name]], public_dependency=[0])
    if name not in _MESSAGES and name not in _ENUMS:
        return None
    imported = [_IMPORTS[name]] if name in _IMPORTS else []
    return _made(name, package=name.rpartition("/")[0].replace("/", "."), dependency=imported)


def _of_library(short: str) -> Any:
    from google.protobuf import descriptor_pb2  # noqa: PLC0415 - an extra

    if short not in _WELL_KNOWN:
        return None
    module = importlib.import_module(f"google.protobuf.{short}_pb2")
    return descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


def _made(name: str, **parts: Any) -> Any:
    from google.protobuf import descriptor_pb2  # noqa: PLC0415 - an extra

    found = descriptor_pb2.FileDescriptorProto(name=name, syntax="proto3", **parts)
    messages: dict[str, Any] = {}
    for called, declared in _MESSAGES.get(name, {}).items():
        around, _, short = called.rpartition(".")
        message = messages[around].nested_type.add(name=short) if around else found.message_type.add(name=short)
        if around:
            message.options.map_entry = True
        messages[called] = message
        for number, text in enumerate(declared.split(", "), start=1):
            _add_field(message, number, text)
    if name in _ENUMS:
        called, symbols = _ENUMS[name]
        enum = found.enum_type.add(name=called)
        for number, symbol in enumerate(symbols.split()):
            enum.value.add(name=symbol, number=number)
    return found


def _add_field(message: Any, number: int, text: str) -> None:
    [(repeated, oneof, kind, name)] = _FIELD.findall(text)
    field = message.field.add(name=name, number=number)
    field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
    field.type = field.TYPE_MESSAGE if kind.startswith(".") else getattr(field, f"TYPE_{kind.upper()}")
    if kind.startswith("."):
        field.type_name = kind
    if oneof:
        if oneof not in [each.name for each in message.oneof_decl]:
            message.oneof_decl.add(name=oneof)
        field.oneof_index = [each.name for each in message.oneof_decl].index(oneof)
