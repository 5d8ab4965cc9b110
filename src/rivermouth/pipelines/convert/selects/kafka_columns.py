"""SELECTs over the columns of Spark's Kafka source, down to the one that decodes the value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rivermouth.decoding.declared.declared import names_in_ddl
from rivermouth.pipelines.convert.model import POSITION, TOMBSTONE, Draft, NotReadable, word
from rivermouth.pipelines.convert.selects.items import Item
from rivermouth.pipelines.convert.selects.kept import Kept
from rivermouth.pipelines.convert.selects.rows import Rows

_KAFKA: Final[Mapping[str, str]] = {
    "TOPIC": "kafka_topic",
    "PARTITION": "kafka_partition",
    "OFFSET": "kafka_offset",
    "TIMESTAMP": "kafka_timestamp",
    "TIMESTAMPTYPE": "kafka_timestamp_type",
    "HEADERS": "kafka_headers",
    "CURRENT_TIMESTAMP ( )": "ingested_at",
    "CURRENT_TIMESTAMP": "ingested_at",
    "NOW ( )": "ingested_at",
    "KEY": "key",
    "VALUE": "value",
}
_ALL: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
_OPTIONS: Final = {"timestampFormat": "timestamp_format", "dateFormat": "date_format"}
NOT_NULL: Final = "VALUE IS NOT NULL"
VALUES: Final = ("value", "value_text")
"""The value of a record among Kafka's columns, as bytes and as text."""


class KafkaReading:
    """What was read so far, and SELECTs over Kafka's columns."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.rows = Rows()
        # Of each column so far: what of Kafka's it is.
        self.kafka: dict[str, str] | None = None
        self.record: str | None = None
        self.payload: list[str] | None = None
        """The names of payload columns once they are columns of their own; None before."""
        self.computed = False
        self.kept = Kept()
        """What the columns before the SELECT that is read are called behind it."""
        self.used = set[str]()
        """Metadata columns, by their names, that other columns are computed of."""

    def _values(self) -> None:
        """The value itself is the payload."""
        values = {name: column for name, column in (self.kafka or {}).items() if column in VALUES}
        if len(values) != 1:
            reason = "it has no value: a flow's table has one" if not values else "it has the value twice"
            raise self._no(reason)
        [(name, column)] = values.items()
        self.rows.format = "raw" if column == "value" else "text"
        if name.lower() != "value":
            self.rows.select = [f"value AS {word(name)}"]

    def _no(self, reason: str) -> NotReadable:
        return NotReadable(self.draft.at, reason)

    def _of_kafka(self, items: list[Item]) -> None:
        known = self._of_source() if self.kafka is None else self.kafka
        found: dict[str, str] = {}
        for each in items:
            excepted = each.excepted
            if excepted is not None:
                left = {name.lower() for name in excepted}
                found |= {name: column for name, column in known.items() if name.lower() not in left}
                continue
            if self._decodes(each, known):
                continue
            column = self._kafka_column(each, known)
            if column is None:
                raise self._no(f"a column is computed of Kafka's columns: {each.text}")
            found[self._name(each)] = column
        self.kafka = found

    def _of_source(self) -> dict[str, str]:
        said = {name.lower(): value.lower() for name, value in self.draft.kafka.items()}.get("includeheaders")
        return {name: _KAFKA[name.upper()] for name in (*_ALL, *(("headers",) if said == "true" else ()))}

    def _kafka_column(self, each: Item, known: Mapping[str, str]) -> str | None:
        names = {name.upper(): column for name, column in known.items()}
        if each.column is not None and each.column.upper() in names:
            return names[each.column.upper()]
        inner = each.as_text
        if inner is not None and names.get(inner.upper()) in ("key", "value", "value_text", "key_text"):
            return f"{names[inner.upper()].removesuffix('_text')}_text"
        if each.plain == "VALUE IS NULL" and names.get("VALUE") in VALUES and each.names == (TOMBSTONE,):
            return "tombstone"
        of_source = self.kafka is None or each.plain.startswith(("CURRENT_TIMESTAMP", "NOW"))
        return _KAFKA.get(each.plain) if of_source else None

    def _decodes(self, each: Item, known: Mapping[str, str]) -> bool:
        """Reads ``from_json(...) AS record``; whether it is that."""
        call = each.call()
        if call is None:
            return False
        function, arguments = call
        if function in ("POSEXPLODE", "EXPLODE"):
            inner = arguments[0].call()
            if inner is None or inner[0] != "FROM_JSON":
                return False
            schema = self._decoded(inner[1], known).strip()
            rest = schema[len("array<struct<") : -2] if schema.lower().startswith("array<struct<") else None
            if rest is None:
                raise self._no("the elements of its array are no documents")
            *position, self.record = each.names or ("col",)
            self.rows.schema, self.rows.explode = rest, "*"
            if position:
                self.rows.metadata[POSITION] = position[0]
        elif function == "FROM_JSON":
            self.rows.schema = self._decoded(arguments, known)
            self.record = self._name(each)
        else:
            return False
        self.rows.format, self.rows.fields = "json", tuple(names_in_ddl(self.rows.schema))
        return True

    def _decoded(self, arguments: list[Item], known: Mapping[str, str]) -> str:
        """The schema of ``from_json``."""
        if self.record is not None:
            raise self._no("it decodes twice, and a flow has one format")
        source, schema, *more = arguments
        if self._kafka_column(source, known) != "value_text":
            raise self._no(f"from_json reads {source.text}, and not the value as text")
        if len(schema.found) != 1 or not schema.found[0].is_string:
            raise self._no("the schema of from_json is no constant")
        call = more[0].call() if more else ("MAP", [])
        if (
            call is None
            or call[0] != "MAP"
            or any(len(each.found) != 1 or not each.found[0].is_string for each in call[1])
        ):
            raise self._no("the options of from_json are no constants")
        pairs = [each.found[0].value for each in call[1]]
        for name, text in zip(pairs[::2], pairs[1::2], strict=False):
            if name not in _OPTIONS:
                raise self._no(f"a flow has nothing like the option {name} of from_json")
            self.rows.options[_OPTIONS[name]] = text
        return schema.found[0].value

    def _name(self, each: Item) -> str:
        if len(each.names) == 1:
            return each.names[0]
        name = each.column or (each.path[-1] if each.path else None)
        if name is None or name == "*":
            raise self._no(f"a column has no name: {each.text}")
        return name
