"""Writes ``expected.jsonl``: what each message is, read in plain Python that shares nothing with rivermouth.

Each message is one line of a file. The lines of keys stand before the values that they belong to. Run it in this
folder, and look at what has changed: the file, not this program, is what the tests go by.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
import sys
from decimal import Decimal
from pathlib import Path

HERE = Path(__file__).parent
EPOCH = dt.datetime(1970, 1, 1)
DAY_ZERO = dt.date(1970, 1, 1)
SMALL = ("id", "name", "address", "phone_number", "description")
CANAL = {
    "id": "int",
    "name": "string",
    "address": "string",
    "phone_number": "string",
    "description": "string",
    "weight": "double",
    "enum_c": "string",
    "json_c": "string",
    "point_c": "string",
    "new_col": "int",
    "k": "int",
    "k1": "int",
    "k2": "string",
    "k3": "int",
    "part": "string",
    "_id": "int",
    "pt": "string",
    "_date": "date",
    "v": "string",
    "v0": "string",
    "v1": "string",
    "v2": "string",
    "v3": "string",
    "v4": "string",
    "v5": "string",
    "v6": "string",
    "order_number": "int",
    "order_date": "date",
    "purchaser": "int",
    "quantity": "int",
    "product_id": "int",
}
DEBEZIUM = {
    "id": "bigint",
    "name": "string",
    "address": "string",
    "phone_number": "string",
    "description": "string",
    "weight": "double",
    "enum_c": "string",
    "json_c": "string",
    "point_c": "string",
    "new_col": "int",
    "age": "int",
    "_id": "int",
    "_date": "date",
    "date": "date",
    "value": "string",
    "row": "struct<row_key:string>",
    "first_name": "string",
    "last_name": "string",
    "email": "string",
    "L_ORDERKEY": "bigint",
    "L_QUANTITY": "decimal(10,2)",
    "L_EXTENDEDPRICE": "decimal(12,2)",
    "L_SHIPDATE": "date",
    "L_COMMENT": "string",
}
PLAIN = {
    "id": "int",
    "name": "string",
    "description": "string",
    "weight": "double",
    "address": "string",
    "age": "int",
    "_id": "int",
    "_date": "date",
}
ORDERS = {
    "order_id": "int",
    "order_date": "timestamp",
    "customer_name": "string",
    "price": "decimal(10,2)",
    "product_id": "int",
    "order_status": "smallint",
}
CUSTOMERS = {
    "_id": "bigint",
    "first_name": "string",
    "last_name": "string",
    "email": "string",
}
EVENTS = {
    "_id": "string",
    "created_at": "bigint",
    "created_by": "string",
    "tags": "array<string>",
    "updated_at": "timestamp",
}
UPPER = {"_ID": "int", "_DATE": "date", "K1": "int", "V1": "string", "V2": "string", "v0": "string"}
WIDE = {
    "id": "int",
    "f_binary": "binary",
    "f_blob": "binary",
    "f_long_varbinary": "binary",
    "f_longblob": "binary",
    "f_tinyblob": "binary",
    "f_varbinary": "binary",
    "f_smallint": "smallint",
    "f_smallint_unsigned": "int",
    "f_mediumint": "int",
    "f_mediumint_unsigned": "int",
    "f_int": "int",
    "f_int_unsigned": "bigint",
    "f_integer": "int",
    "f_integer_unsigned": "bigint",
    "f_bigint": "bigint",
    "f_bigint_unsigned": "decimal(20,0)",
    "f_numeric": "decimal(10,0)",
    "f_decimal": "decimal(10,0)",
    "f_float": "float",
    "f_double": "double",
    "f_double_precision": "double",
    "f_longtext": "string",
    "f_mediumtext": "string",
    "f_text": "string",
    "f_tinytext": "string",
    "f_varchar": "string",
    "f_date": "date",
    "f_datetime": "timestamp_ntz",
    "f_timestamp": "timestamp",
    "f_bit1": "boolean",
    "f_bit64": "binary",
    "f_char": "string",
    "f_enum": "string",
    "f_mediumblob": "binary",
    "f_long_varchar": "string",
    "f_real": "double",
    "f_time": "bigint",
    "f_tinyint": "tinyint",
    "f_tinyint_unsigned": "smallint",
    "f_json": "string",
    "f_year": "int",
}


def all_types(*, boolean: str, time: str, shape: str, point: str, bits: bool) -> dict[str, str]:
    """The columns of the tables with a column of each of MySQL's types."""
    found = {"_id": "int", "pt": "decimal(2,1)", "_tinyint1": "tinyint", "_boolean": boolean, "_bool": boolean}
    sizes = {"tinyint": ("tinyint", "smallint"), "smallint": ("smallint", "int"), "mediumint": ("int", "int")}
    sizes |= {"int": ("int", "bigint"), "bigint": ("bigint", "decimal(20,0)")}
    decimals = {"numeric": "decimal(8,3)", "fixed": "decimal(38,3)", "decimal": "decimal(8,0)"}
    floats = {"float": "float", "real": "double", "double": "double", "double_precision": "double"}
    for name, (signed, unsigned) in sizes.items():
        found |= {f"_{name}": signed, f"_{name}_unsigned": unsigned, f"_{name}_unsigned_zerofill": unsigned}
    found["_serial"] = "decimal(20,0)"
    for name, kind in (floats | decimals).items():
        found |= {f"_{name}{more}": kind for more in ("", "_unsigned", "_unsigned_zerofill")}
    found |= {"_date": "date", "_timestamp": "timestamp", "_timestamp0": "timestamp"}
    found |= {f"_datetime{more}": "timestamp_ntz" for more in ("", "3", "6", "_p", "_p2")}
    found |= {f"_{name}": "string" for name in ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")}
    found |= {f"_{name}": "binary" for name in ("bin", "varbin", "tinyblob", "blob", "mediumblob", "longblob")}
    found |= {"_json": "string", "_enum": "string", "_year": "int", "_time": time, "_point": point, "_set": "string"}
    shapes = ("geometry", "linestring", "polygon", "multipoint", "multiline", "multipolygon", "geometrycollection")
    found |= {f"_{name}": shape for name in shapes}
    return found | ({"_bit1": "boolean", "_bit": "binary", "_big_decimal": "decimal(38,10)"} if bits else {})


SHAPE, POINT = "struct<wkb:binary,srid:int>", "struct<x:double,y:double,wkb:binary,srid:int>"
GROUPS = {
    "canal": ({"type": "canal"}, CANAL),
    "canal upper": ({"type": "canal"}, UPPER),
    "canal wide": (
        {"type": "canal"},
        all_types(boolean="boolean", time="string", shape="binary", point="binary", bits=False),
    ),
    "debezium": ({"type": "debezium"}, DEBEZIUM),
    "debezium orders": ({"type": "debezium", "time_precision": "millis"}, ORDERS),
    "debezium avro": (
        {"type": "debezium"},
        all_types(boolean="boolean", time="bigint", shape=SHAPE, point=POINT, bits=False),
    ),
    "debezium wide": (
        {"type": "debezium"},
        all_types(boolean="smallint", time="bigint", shape=SHAPE, point=POINT, bits=True),
    ),
    "debezium f": ({"type": "debezium"}, WIDE),
    "debezium customers": ({"type": "debezium", "connector": "mongodb"}, CUSTOMERS),
    "debezium events": ({"type": "debezium", "connector": "mongodb"}, EVENTS),
    "maxwell": ({"type": "maxwell"}, PLAIN),
    "maxwell text": ({"type": "maxwell"}, {**PLAIN, "weight": "string"}),
    "ogg": ({"type": "ogg"}, PLAIN),
    "ogg upper": ({"type": "ogg"}, {"ID": "int", "NAME": "string", "WEIGHT": "double"}),
}


def group_of(file: str, kind: str) -> str:
    """Which columns are declared for the messages of a file."""
    name = file.rsplit("/", maxsplit=1)[-1]
    if "avro-data" in name:
        return "debezium avro"
    if "alltype" in name:
        return f"{kind} wide"
    if "case-insensitive" in name or name.endswith("computedcolumn__canal-data-2.txt"):
        return f"{kind} upper"
    if "mongo" in name:
        return "debezium customers"
    if "debezium-bson" in name:
        return "debezium events"
    if name.endswith(("mess_key.1", "avro_json.1")):
        return "debezium orders"
    if name == "test__resources__debezium__debezium_data.txt":
        return "debezium f"
    return "maxwell text" if name == "test__resources__maxwell__maxwell_data.txt" else kind


class Refused(Exception):
    """A message with its reason and field."""


def kind_of(body: dict) -> str:
    """The format that a message is of."""
    if "op_type" in body:
        return "ogg"
    if "xid" in body:
        return "maxwell"
    if "isDdl" in body or "pkNames" in body or set(body) == {"data", "type"}:
        return "canal"
    return "debezium"


def changes_of(kind: str, body: dict) -> list[tuple[str, dict]]:
    """Operations, and the rows that they are about."""
    if kind == "maxwell":
        return [(body["type"], body["data"])]
    if kind == "ogg":
        operation = {"I": "insert", "U": "update", "D": "delete"}[body["op_type"]]
        return [(operation, body["before"] if operation == "delete" else body["after"])]
    if kind == "canal":
        if body.get("isDdl"):
            return [("skip", {})]
        return [(body["type"].lower(), each) for each in body["data"]]
    event = body.get("payload", body)
    operation = {"c": "insert", "r": "read", "u": "update", "d": "delete"}.get(event.get("op"))
    if operation is None:
        raise Refused("OPERATION_UNKNOWN" if "op" in event else "NOT_A_CHANGE", None)
    row = event["before"] if operation == "delete" else event["after"]
    return [(operation, json.loads(row) if isinstance(row, str) else row or {})]


def hints_of(body: dict) -> dict[str, dict]:
    """What the schema block says of each column."""
    for field in (body.get("schema") or {}).get("fields", []):
        if field["field"] in {"before", "after"} and "fields" in field:
            return {each["field"]: each for each in field["fields"]}
    return {}


def stored(value: object, declared: str, hint: dict, kind: str, group: str) -> object:  # noqa: PLR0912
    """The value as the table has it, in JSON."""
    if isinstance(value, dict) and group in {"debezium customers", "debezium events"}:
        [(wrapped, inner)] = value.items()
        if wrapped == "$date":
            return (EPOCH + dt.timedelta(milliseconds=inner)).isoformat()
        return int(inner) if wrapped == "$numberLong" else inner
    text = value if isinstance(value, str) else str(value)
    name = hint.get("name") or ""
    if declared in {"tinyint", "smallint", "int", "bigint"}:
        if isinstance(value, str) and kind in {"debezium", "maxwell"}:
            raise TypeError
        if isinstance(value, bool):
            raise TypeError
        bits = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}[declared]
        if not -(1 << bits - 1) <= int(text) < 1 << bits - 1:
            raise ValueError
        return int(text)
    if declared in {"float", "double"}:
        return float(text)
    if declared == "boolean":
        text = text.lower()
        return {"1": True, "0": False, "true": True, "false": False}[text]
    if declared.startswith("decimal"):
        scale = int(declared[:-1].split(",")[1])
        number = Decimal(str(value))
        if name.endswith("Decimal") and isinstance(value, str):
            number = Decimal(int.from_bytes(base64.b64decode(value), "big", signed=True)).scaleb(
                -int(hint["parameters"]["scale"])
            )
        return f"{number:.{scale}f}"
    if declared == "date":
        return (DAY_ZERO + dt.timedelta(days=value)).isoformat() if isinstance(value, int) else value
    if declared.startswith("timestamp"):
        if isinstance(value, int):
            unit = 1000 if name.endswith("MicroTimestamp") else 1
            return (EPOCH + dt.timedelta(microseconds=value * 1000 // unit)).isoformat()
        return dt.datetime.fromisoformat(text.replace("Z", "")).isoformat()
    if declared == "binary":
        return text if kind != "canal" else base64.b64encode(text.encode("latin-1")).decode()
    return value if declared != "string" or isinstance(value, str) else text


def read(kind: str, body: dict, group: str) -> list[list]:
    """The message's changes; only columns that are declared, and are not null."""
    declared, hints, found = GROUPS[group][1], hints_of(body), []
    for operation, row in changes_of(kind, body):
        if operation not in {"delete", "skip"} and not declared.keys() & row.keys():
            raise Refused("NO_DECLARED_FIELD", None)
        columns = {}
        for name, its_type in declared.items():
            if row.get(name) is None:
                continue
            try:
                columns[name] = stored(row[name], its_type, hints.get(name, {}), kind, group)
            except (TypeError, ValueError, KeyError):
                raise Refused("FIELD_TYPE", name) from None
        found.append([operation, columns])
    return found


def main() -> None:
    """Writes the file, and says how many messages there are of each format."""
    told: dict[str, int] = {}
    with (HERE / "expected.jsonl").open("w") as out:
        for path in sorted(each for each in HERE.rglob("*") if each.is_file() and each.parent != HERE):
            file, key = str(path.relative_to(HERE)), None
            for number, line in enumerate(path.read_text().splitlines(), 1):
                text = line.strip()
                if not text or re.match(r"/\*|\*/|\*( |$)", text):
                    continue
                value = text
                if "^" in text and file.endswith((".1",)) and not text.startswith('{"schema"'):
                    key, _, value = text.partition("^")
                body = json.loads(value, parse_float=Decimal) if value else None
                kind = "debezium" if body is None else kind_of(body)
                group = group_of(file, kind)
                expected = {"file": file, "line": number, "group": group}
                is_key = body is not None and (set(body) == {"id"} or set(body.get("payload") or {}) == {"_id"})
                if key is not None:
                    expected["key"] = key
                key = text if is_key else None
                told[kind] = told.get(kind, 0) + 1
                if is_key:
                    expected["is_key"] = True
                elif body is None:
                    expected["changes"] = [[None, {}]]
                else:
                    try:
                        expected["changes"] = read(kind, body, group)
                    except Refused as refused:
                        expected["reason"], expected["field"] = refused.args
                out.write(json.dumps(expected, ensure_ascii=False, default=float) + "\n")
    sys.stdout.write(f"{told} {sum(told.values())}\n")


if __name__ == "__main__":
    main()
