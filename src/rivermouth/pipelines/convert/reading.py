"""What the SELECTs of a draft make of Kafka's columns, in the words of a flow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rivermouth.decoding.declared.declared import names_in_ddl
from rivermouth.names import COORDINATES, DEFAULT_METADATA_COLUMNS
from rivermouth.pipelines.convert.items import Item, expression, item
from rivermouth.pipelines.convert.model import POSITION, TOMBSTONE, Draft, NotReadable, Step, all_null_but, listed, word

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
_NOT_NULL: Final = "VALUE IS NOT NULL"


@dataclass
class Rows:
    """What the SELECTs make, in the words of a flow.

    Attributes:
        format: ``raw``, ``text`` or ``json``.
        schema: Of ``json``: its columns as DDL.
        options: Of ``json``: the forms of times.
        fields: The names of these columns.
        metadata: Metadata columns by their names in a flow: the names in the table.
        key_is_text: Whether the key is text there.
        select: SQL of the payload columns; None for all.
        explode: As a flow says it.
        with_value: Whether records without a value are left out.
        judged: Whether documents without a declared field are left out.
        tombstones: Whether a column says which records have no value.
        dropped: Conditions on rows, each with a name.
        derived: Columns that a partition or key is computed in, by name.
    """

    format: str | None = None
    schema: str = ""
    options: dict[str, str] = field(default_factory=dict)
    fields: tuple[str, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)
    key_is_text: bool = False
    select: list[str] | None = None
    explode: str | None = None
    with_value: bool = False
    judged: bool = False
    tombstones: bool = False
    dropped: list[tuple[str, str]] = field(default_factory=list)
    derived: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> bool:
        """Whether the table has the key."""
        return "kafka_key" in self.metadata


def read_steps(draft: Draft) -> Rows:
    """See ``Rows``.

    Raises:
        NotReadable: A SELECT does something that a flow does not.
    """
    if draft.decode:
        return _of_decoded(draft)
    reading = _Reading(draft)
    for step in _merged(draft.steps):
        reading.step(step)
    return reading.finished()


def _of_decoded(draft: Draft) -> Rows:
    """The metadata columns of decoded records, and what is computed of their columns."""
    said = draft.decode.get("metadata_columns")
    beside = (POSITION,) if draft.decode.get("explode") else ()
    chosen = [*(DEFAULT_METADATA_COLUMNS if said is None else said), *COORDINATES, *beside]
    metadata = {name: name for name in dict.fromkeys(chosen)}
    if isinstance(said, Mapping):
        metadata |= {name: called or name for name, called in said.items()}
    rows = Rows("decode", metadata=metadata)
    for step in draft.steps:
        found = [item(text) for text in step.items]
        if step.where is not None or found[0].text != "*" or any(len(each.names) != 1 for each in found[1:]):
            raise NotReadable(draft.at, "it selects of decoded rows: use the setting select of decode()")
        rows.derived |= {each.names[0]: each.text for each in found[1:]}
    return rows


def _merged(steps: Sequence[Step]) -> list[Step]:
    """The steps with each condition in the SELECT behind it."""
    found: list[Step] = []
    for step in steps:
        before = found[-1] if found else None
        if before is not None and before.items == ("*",):
            both = [each for each in (before.where, step.where) if each is not None]
            found[-1] = Step(step.items, both[0] if len(both) == 1 else _joined(both))
        else:
            found.append(step)
    return found


def _joined(conditions: list[str]) -> str | None:
    return " AND ".join(f"({each})" for each in conditions) if conditions else None


class _Reading:
    """Reads SELECT by SELECT."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.rows = Rows()
        # Of each column so far: what of Kafka's it is.
        self.kafka: dict[str, str] | None = None
        self.record: str | None = None
        self.payload: list[str] | None = None
        """The names of payload columns once they are columns of their own; None before."""
        self.computed = False

    def step(self, step: Step) -> None:
        """Reads one SELECT."""
        if step.where is not None:
            self._where(step.where)
        items = [item(text) for text in step.items]
        if [each.text for each in items] == ["*"] and self.kafka is not None:
            return
        if self.kafka is None or (self.record is None and self.payload is None):
            self._of_kafka(items)
        elif self.payload is None:
            self._of_record(items)
        else:
            self._of_payload(items)

    def finished(self) -> Rows:
        """What was read, after the last SELECT."""
        if self.kafka is None:
            self._of_kafka([item("*")])
        if self.record is not None and self.payload is None:
            raise self._no(f"the document is one column, {self.record}: select {self.record}.*")
        if self.rows.format is None:
            self._values()
        found = self.kafka or {}
        for name, column in found.items():
            if column in ("key", "key_text"):
                self.rows.key_is_text = column == "key_text"
                column = "kafka_key"  # noqa: PLW2901 - its name in a flow
            if column == "tombstone":
                self.rows.tombstones = True
            elif column not in ("value", "value_text"):
                if column in self.rows.metadata:
                    raise self._no(f"it has {column.removeprefix('kafka_')} twice")
                self.rows.metadata[column] = name
        return self.rows

    def _values(self) -> None:
        """The value itself is the payload."""
        values = {name: column for name, column in (self.kafka or {}).items() if column in ("value", "value_text")}
        if len(values) != 1:
            reason = "it has no value: a flow's table has one" if not values else "it has the value twice"
            raise self._no(reason)
        [(name, column)] = values.items()
        self.rows.format = "raw" if column == "value" else "text"
        if name.lower() != "value":
            self.rows.select = [f"value AS {word(name)}"]

    def _no(self, reason: str) -> NotReadable:
        return NotReadable(self.draft.at, reason)

    def _where(self, condition: str) -> None:
        read = expression(condition)
        if read.plain == _NOT_NULL and self.record is None and self.payload is None:
            self.rows.with_value = True
            return
        if self.record is not None and self.payload is None:
            judged = all_null_but(self.rows.fields, f"{self.record}.")
            if condition in (judged, f"{TOMBSTONE} OR {judged}"):
                self.rows.judged = True
                return
        if self.record is None and self.payload is None:
            raise self._no(f"a flow reads all records of its topics: WHERE {condition}")
        if self.payload is None or self.computed:
            known = self.rows.fields if self.payload is None else ()
            condition = read.replaced(lambda parts: self._field(parts, known))
        name = "where" if not self.rows.dropped else f"where_{len(self.rows.dropped) + 1}"
        self.rows.dropped.append((name, condition))

    def _field(self, parts: tuple[str, ...], fields: Sequence[str]) -> str | None:
        """A field of the record as a column."""
        if len(parts) > 1 and self.record is not None and parts[0].lower() == self.record.lower():
            return ".".join(map(word, parts[1:]))
        if self.record is not None and parts == (self.record,) and self.record not in fields:
            raise self._no(f"it uses the whole document, {self.record}")
        return None

    # SELECTs over Kafka's columns

    def _of_kafka(self, items: list[Item]) -> None:
        known = {name: _KAFKA[name.upper()] for name in _ALL} if self.kafka is None else self.kafka
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

    def _kafka_column(self, each: Item, known: Mapping[str, str]) -> str | None:
        names = {name.upper(): column for name, column in known.items()}
        if each.column is not None and each.column.upper() in names:
            return names[each.column.upper()]
        inner = each.as_text
        if inner is not None and names.get(inner.upper()) in ("key", "value", "value_text", "key_text"):
            return f"{names[inner.upper()].removesuffix('_text')}_text"
        if each.plain == "VALUE IS NULL" and "VALUE" in names and each.names == (TOMBSTONE,):
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
        call = more[0].call() if more else None
        pairs = [each.found[0].value for each in call[1]] if call else []
        for name, text in zip(pairs[::2], pairs[1::2], strict=False):
            if name not in _OPTIONS:
                raise self._no(f"a flow has nothing like the option {name} of from_json")
            self.rows.options[_OPTIONS[name]] = text
        return schema.found[0].value

    def _name(self, each: Item) -> str:
        if len(each.names) == 1:
            return each.names[0]
        name = each.column or (each.path[-1] if each.path else None)
        if name is None:
            raise self._no(f"a column has no name: {each.text}")
        return name

    # SELECTs over the record, and over what it becomes

    def _of_record(self, items: list[Item]) -> None:
        record: Any = self.record
        metadata, selected, exploded = dict[str, str](), list[tuple[str, str]](), None
        known = self.kafka or {}
        for each in items:
            path = each.path
            if self._passes(each, known, metadata):
                continue
            if path == (record, "*"):
                selected.append(("*", "*"))
                continue
            explosion = self._explosion(each)
            if explosion is not None:
                exploded = explosion
                selected.append((explosion[1], explosion[1]))
                continue
            if each.excepted is not None or path == (record,):
                raise self._no(f"the document stays one column, {record}: select {record}.*")
            name = self._name(each)
            text = each.replaced(lambda parts: self._field(parts, ()))
            selected.append((name, text if text == word(name) else f"{text} AS {word(name)}"))
        self.kafka = metadata
        self._chosen(selected, exploded)

    def _passes(self, each: Item, known: Mapping[str, str], metadata: dict[str, str]) -> bool:
        """Whether an item is a metadata column, which is kept."""
        if each.column is not None and each.column in known:
            metadata[self._name(each)] = known[each.column]
            return True
        if each.column is not None and each.column == self.rows.metadata.get(POSITION):
            self.rows.metadata[POSITION] = self._name(each)
            return True
        column = self._kafka_column(each, known) if each.plain.startswith(("CURRENT_TIMESTAMP", "NOW")) else None
        if column is not None:
            metadata[self._name(each)] = column
        return column is not None

    def _explosion(self, each: Item) -> tuple[str, str] | None:
        """The array that an item explodes and the name of its elements."""
        call = each.call()
        if call is None or call[0] not in ("EXPLODE", "POSEXPLODE"):
            return None
        path = call[1][0].path
        if self.rows.explode is not None or len(path) != 2 or path[0] != self.record:  # noqa: PLR2004 - record and field
            raise self._no(f"a flow explodes one column of its format: {each.text}")
        names = each.names or (("pos", "col") if call[0] == "POSEXPLODE" else ("col",))
        if call[0] == "POSEXPLODE":
            self.rows.metadata[POSITION], *names = names  # type: ignore[assignment]
        return path[1], names[0] if len(names) == 1 else f"({listed(names)})"

    def _chosen(self, selected: list[tuple[str, str]], exploded: tuple[str, str] | None) -> None:
        texts = [text for _, text in selected]
        fields = list(self.rows.fields)
        if exploded is not None:
            column, called = exploded
            same = called.lower() == column.lower()
            elements = called if "(" in called else word(called)
            self.rows.explode = word(column) if same else f"{word(column)} AS {elements}"
            fields = [called if name.lower() == column.lower() else name for name in fields]
        self.payload = fields if texts == ["*"] else [name for name, _ in selected]
        if texts == ["*"] or texts == [name if "(" in name else word(name) for name in fields]:
            self.rows.select = None
            self.payload = fields
        else:
            self.rows.select, self.computed = texts, True

    def _of_payload(self, items: list[Item]) -> None:
        known, metadata = self.kafka or {}, dict[str, str]()
        selected: list[tuple[str, str]] = []
        partitions = {name.lower() for name in self.draft.dataset.partition_by}
        keys = {name.lower() for name in (self.draft.cdc.keys if self.draft.cdc else ())}
        for each in items:
            excepted = each.excepted
            if excepted is not None:
                left = {name.lower() for name in excepted}
                metadata |= {name: column for name, column in known.items() if name.lower() not in left}
                beside = {name.lower() for name in (*known, *self.rows.metadata.values())}
                payload = [name for name in excepted if name.lower() not in beside]
                selected.append(("*", f"* EXCEPT ({listed(payload)})" if payload else "*"))
            elif not self._passes(each, known, metadata):
                name = self._name(each)
                is_derived = name.lower() in partitions | keys and each.column is None and len(items) > 1
                if is_derived and items[0].excepted is not None:
                    self.rows.derived[name] = each.text
                    continue
                text = each.text if each.column == name else f"{each.text} AS {word(name)}"
                selected.append((name, word(name) if each.column == name else text))
        self.kafka = metadata
        texts = [text for _, text in selected]
        if texts == ["*"]:
            return
        if self.computed:
            raise self._no("it computes columns of columns that are computed: a flow has one select")
        if "*" not in [name for name, _ in selected] and texts == list(map(word, self.payload or [])):
            return
        self.rows.select, self.computed = texts, True
