"""Descriptor files for tests, from field declarations as a ``.proto`` has them; no protoc is needed."""

from __future__ import annotations

import re

from google.protobuf import descriptor_pb2

WELL_KNOWN = {
    "Timestamp": "timestamp",
    "Duration": "duration",
    "Struct": "struct",
    "Value": "struct",
    "ListValue": "struct",
    "Any": "any",
    "Empty": "empty",
    "FieldMask": "field_mask",
    **{
        f"{kind}Value": "wrappers"
        for kind in ("Int32", "Int64", "UInt64", "String", "Bytes", "Bool", "Double", "Float")
    },
}
_FIELD = re.compile(r"(?:(optional|required|repeated|oneof \w+) )?(map<(\w+), ?([\w.]+)>|[\w.]+) (\w+) = (\d+)")


def descriptor_set(messages, *, enums=None, syntax="proto3", package="shop", imports=None):
    """The bytes of a ``FileDescriptorSet`` with one file ``shop.proto``.

    Args:
        messages: By name, a list of fields: ``repeated int32 numbers = 3``, ``oneof kind string text = 4``.
        enums: By name, names by number.
        syntax: proto2 or proto3.
        package: Of all of them.
        imports: Files that it imports; those of the well-known types that are used by default.
    """
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package=package, syntax=syntax)
    for name, values in (enums or {}).items():
        enum = file.enum_type.add(name=name)
        for number, value in values.items():
            enum.value.add(name=value, number=number)
    used = set()
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for text in fields:
            _add(message, text, set(enums or {}), package, used, syntax)
    found = {f"google/protobuf/{WELL_KNOWN[each]}.proto" for each in used}
    file.dependency.extend(sorted(found) if imports is None else imports)
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


def _add(message, text, enums, package, used, syntax):
    label, kind, key, value, name, number = _FIELD.fullmatch(text).groups()
    field = message.field.add(name=name, number=int(number), label=1)
    if key:
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        for place, (part, its) in enumerate((("key", key), ("value", value)), start=1):
            _typed(entry.field.add(name=part, number=place, label=1), its, enums, package, used)
        field.label, field.type, field.type_name = 3, 11, f".{package}.{message.name}.{entry.name}"
        return
    _typed(field, kind, enums, package, used)
    if label in ("required", "repeated"):
        field.label = {"required": 2, "repeated": 3}[label]
    elif label == "optional" and syntax == "proto3":
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")
    elif label and label.startswith("oneof"):
        names = [each.name for each in message.oneof_decl]
        if label[6:] not in names:
            message.oneof_decl.add(name=label[6:])
            names.append(label[6:])
        field.oneof_index = names.index(label[6:])


def _typed(field, kind, enums, package, used):
    scalar = getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{kind.upper()}", None)
    if scalar is not None:
        field.type = scalar
        return
    field.type = 14 if kind in enums else 11
    field.type_name = f".google.protobuf.{kind}" if kind in WELL_KNOWN else f".{package}.{kind}"
    if kind in WELL_KNOWN:
        used.add(kind)
