"""What the SELECTs of a draft make of Kafka's columns, in the words of a flow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rivermouth.names import COORDINATES, DEFAULT_METADATA_COLUMNS
from rivermouth.pipelines.convert.model import (
    POSITION,
    TOMBSTONE,
    Draft,
    NotReadable,
    Step,
    all_null_but,
    listed,
    trimmed,
    word,
)
from rivermouth.pipelines.convert.selects.items import Item, expression, item
from rivermouth.pipelines.convert.selects.kafka_columns import NOT_NULL, VALUES, KafkaReading
from rivermouth.pipelines.convert.selects.kept import Kept, Lost
from rivermouth.pipelines.convert.selects.rows import Rows

_GONE: Final = "its WHERE is over a column that its SELECT changes or leaves out"
_GONE_FROM_PARTS: Final = "a partition or key is computed of a column that its SELECT changes or leaves out"


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
    if further := [name for name in rows.derived if name.lower() not in draft.parts]:
        reason = f"it computes {', '.join(further)} of decoded rows: use the setting select of decode()"
        raise NotReadable(draft.at, reason)
    return rows


def _merged(steps: Sequence[Step]) -> list[Step]:
    """The steps with each condition in the SELECT behind it."""
    found: list[Step] = []
    for step in steps:
        before = found[-1] if found else None
        if before is not None and before.items == ("*",):
            both = [each for each in (before.where, step.where) if each is not None]
            found[-1] = Step(step.items, both[0] if len(both) == 1 else _joined(both), step.replaces)
        else:
            found.append(step)
    return found


def _joined(conditions: list[str]) -> str | None:
    return " AND ".join(f"({trimmed(each)})" for each in conditions) if conditions else None


class _Reading(KafkaReading):
    """Reads SELECT by SELECT."""

    def step(self, step: Step) -> None:
        """Reads one SELECT."""
        if step.where is not None:
            self._where(step.where)
        items = [item(text) for text in step.items]
        if [each.text for each in items] == ["*"] and self.kafka is not None:
            return
        self.kept = Kept(self._known())
        position = self.rows.metadata.get(POSITION)
        if self.kafka is None or (self.record is None and self.payload is None):
            self._of_kafka(items)
            return
        if self.payload is None:
            self._of_record(items)
        else:
            self._of_payload(items, step.replaces)
        if position is not None and self.kept.name((position,)) is None:
            del self.rows.metadata[POSITION]
        self._carry()

    def _known(self) -> set[str]:
        """The columns before a SELECT, in lower case."""
        payload = self.payload if self.payload is not None else [self.record] if self.record is not None else []
        position = self.rows.metadata.get(POSITION)
        beside = [*(self.kafka or ()), *self.rows.derived, *([] if position is None else [position])]
        return {name.lower() for name in (*payload, *beside)}

    def _carry(self) -> None:
        """Conditions and partitions are over the columns behind the SELECT, as a flow judges them."""
        rows = self.rows
        rows.dropped = [(name, self._behind(text, _GONE)) for name, text in rows.dropped]
        rows.derived = {name: self._behind(text, _GONE_FROM_PARTS) for name, text in rows.derived.items()}

    def _behind(self, text: str, reason: str) -> str:
        try:
            return self.kept.behind(expression(text))
        except Lost:
            raise self._no(reason) from None

    def finished(self) -> Rows:
        """What was read, after the last SELECT."""
        if self.kafka is None:
            self._of_kafka([item("*")])
        if self.record is not None and self.payload is None:
            raise self._no(f"the document is one column, {self.record}: select {self.record}.*")
        if self.rows.format is None:
            self._values()
        found = self.kafka or {}
        self._check_kept(found)
        for name, column in found.items():
            if column in ("key", "key_text"):
                self.rows.key_is_text = column == "key_text"
                column = "kafka_key"  # noqa: PLW2901 - its name in a flow
            if column == "tombstone":
                self.rows.tombstones = True
            elif column not in VALUES:
                if column in self.rows.metadata:
                    raise self._no(f"it has {column.removeprefix('kafka_')} twice")
                self.rows.metadata[column] = name
        return self.rows

    def _check_kept(self, found: Mapping[str, str]) -> None:
        """That the table has what its columns are computed of, and not more than that of a flow."""
        if gone := self.used - {*found}:
            raise self._no(f"a column is computed of {', '.join(sorted(gone))}, which it leaves out")
        if self.rows.format == "json" and any(column in VALUES for column in found.values()):
            raise self._no("it has the value next to the columns of the document, and a flow's table has not")

    def _where(self, condition: str) -> None:
        read = expression(condition)
        is_of_kafka = self.record is None and self.payload is None
        if read.plain == NOT_NULL and is_of_kafka and (self.kafka or {"value": "value"}).get("value") in VALUES:
            self.rows.with_value = True
            return
        if self.record is not None and self.payload is None:
            judged = all_null_but(self.rows.fields, f"{self.record}.")
            if condition in (judged, f"{TOMBSTONE} OR {judged}"):
                self.rows.judged = True
                return
            read.replaced(lambda parts: self._field(parts, self.rows.fields))  # refuses the whole document
        if is_of_kafka:
            raise self._no(f"a flow reads all records of its topics: WHERE {condition}")
        name = "where" if not self.rows.dropped else f"where_{len(self.rows.dropped) + 1}"
        self.rows.dropped.append((name, read.text))

    def _field(self, parts: tuple[str, ...], fields: Sequence[str]) -> str | None:
        """A field of the record as a column."""
        if len(parts) > 1 and self.record is not None and parts[0].lower() == self.record.lower():
            return ".".join(map(word, parts[1:]))
        if self.record is not None and parts == (self.record,) and self.record not in fields:
            raise self._no(f"it uses the whole document, {self.record}")
        return None

    # SELECTs over the record, and over what it becomes

    def _of_record(self, items: list[Item]) -> None:
        record: Any = self.record
        metadata, selected, exploded = dict[str, str](), list[tuple[str, str]](), None
        known = self.kafka or {}
        for each in [each for each in items if not self._passes(each, known, metadata)]:
            path = each.path
            if path == (record, "*"):
                selected.append(("*", "*"))
                for name in self.rows.fields:
                    self.kept.add((record, name), name)
                continue
            explosion = self._explosion(each)
            if explosion is not None:
                exploded = explosion
                selected += [(name, word(name)) for name in explosion[1]]
                continue
            if each.excepted is not None or path == (record,):
                raise self._no(f"the document stays one column, {record}: select {record}.*")
            name = self._name(each)
            text = self._computed(each, known)
            self.kept.add(path, name)
            selected.append((name, text if text == word(name) else f"{text} AS {word(name)}"))
        self.kafka = metadata
        self._chosen(selected, exploded)

    def _computed(self, each: Item, known: Iterable[str]) -> str:
        """SQL of a column over those that a flow selects of: fields, and metadata columns by their names there."""
        names = {name.lower() for name in known}

        def changed(parts: tuple[str, ...]) -> str | None:
            if parts[0].lower() not in names:
                return self._field(parts, ())
            behind = self.kept.name(parts[:1])
            if behind is None:
                raise self._no(f"a column is computed of {parts[0]}, which it leaves out: {each.text}")
            self.used.add(behind)
            return ".".join(map(word, (behind, *parts[1:])))

        return each.replaced(changed)

    def _passes(self, each: Item, known: Mapping[str, str], metadata: dict[str, str]) -> bool:
        """Whether an item is a metadata column, which is kept."""
        named = (each.column or "").lower()
        if own := next((name for name in known if name.lower() == named), None):
            self._keep(own, self._name(each), known, metadata)
            return True
        if each.column is not None and each.column == self.rows.metadata.get(POSITION):
            self.rows.metadata[POSITION] = self._name(each)
            self.kept.add((each.column,), self._name(each))
            return True
        column = self._kafka_column(each, known) if each.plain.startswith(("CURRENT_TIMESTAMP", "NOW")) else None
        if column is not None:
            metadata[self._name(each)] = column
        return column is not None

    def _keep(self, name: str, behind: str, known: Mapping[str, str], metadata: dict[str, str]) -> None:
        metadata[behind] = known[name]
        if known[name] not in (*VALUES, "tombstone"):  # which no column of a flow is
            self.kept.add((name,), behind)

    def _explosion(self, each: Item) -> tuple[str, list[str]] | None:
        """The array that an item explodes and the names of its elements."""
        call = each.call()
        if call is None or call[0] not in ("EXPLODE", "POSEXPLODE"):
            return None
        path = call[1][0].path
        if self.rows.explode is not None or len(path) != 2 or path[0] != self.record:  # noqa: PLR2004 - record and field
            raise self._no(f"a flow explodes one column of its format: {each.text}")
        names = each.names or (("pos", "col") if call[0] == "POSEXPLODE" else ("col",))
        if call[0] == "POSEXPLODE":
            self.rows.metadata[POSITION], *names = names  # type: ignore[assignment]
        return path[1], [*names]

    def _chosen(self, selected: list[tuple[str, str]], exploded: tuple[str, list[str]] | None) -> None:
        texts = [text for _, text in selected]
        fields = list(self.rows.fields)
        if exploded is not None:
            column, called = exploded
            same = [name.lower() for name in called] == [column.lower()]
            elements = word(called[0]) if len(called) == 1 else f"({listed(called)})"
            self.rows.explode = word(column) if same else f"{word(column)} AS {elements}"
            fields = [name for each in fields for name in (called if each.lower() == column.lower() else [each])]
        self.payload = fields if texts == ["*"] else [name for name, _ in selected]
        if texts == ["*"] or texts == list(map(word, fields)):
            self.rows.select = None
            self.payload = fields
        else:
            self.rows.select, self.computed = texts, True
            self.payload = [name for each in self.payload for name in (fields if each == "*" else [each])]

    def _of_payload(self, items: list[Item], replaces: Sequence[str]) -> None:
        known, metadata = self.kafka or {}, dict[str, str]()
        payload = self.payload or []
        replaced = {name.lower() for name in replaces}
        selected, behind = list[str](), list[str]()
        for each in self._kept_items(items, known, metadata, replaced):
            if each.excepted is not None:
                left = {name.lower() for name in each.excepted} | replaced
                beside = {name.lower() for name in (*known, *self.rows.metadata.values())}
                hidden = [name for name in each.excepted if name.lower() not in beside]
                hidden += [name for name in payload if name.lower() in replaced]
                selected.append(f"* EXCEPT ({listed(hidden)})" if hidden else "*")
                behind += [name for name in payload if name.lower() not in left]
                continue
            name = self._name(each)
            if name in self.rows.derived and each.column == name:
                continue
            if self._is_part(name, each, items):
                self.rows.derived[name] = each.text
                continue
            text = self._computed(each, known)
            selected.append(word(name) if each.column == name else f"{text} AS {word(name)}")
            behind.append(name)
        self.kafka = metadata
        if selected == ["*"]:
            return
        if self.computed:
            raise self._no("it computes columns of columns that are computed: a flow has one select")
        if "*" not in selected and selected == list(map(word, payload)):
            return
        self.rows.select, self.computed, self.payload = selected, True, behind

    def _kept_items(
        self, items: list[Item], known: Mapping[str, str], metadata: dict[str, str], replaced: set[str]
    ) -> list[Item]:
        """The items but metadata columns; which columns are kept, and how they are called, is noted."""
        rest = []
        for each in items:
            if each.excepted is not None:
                left = {name.lower() for name in each.excepted} | replaced
                for name in (name for name in known if name.lower() not in left):
                    self._keep(name, name, known, metadata)
                position = self.rows.metadata.get(POSITION)
                others = [*(self.payload or ()), *([] if position is None else [position])]
                for name in (name for name in others if name.lower() not in left):
                    self.kept.add((name,), name)
            elif self._passes(each, known, metadata):
                continue
            elif each.path and each.path[0].lower() not in {name.lower() for name in self.rows.derived}:
                self.kept.add(each.path, self._name(each))
            rest.append(each)
        return rest

    def _is_part(self, name: str, each: Item, items: list[Item]) -> bool:
        """Whether a column is one that a partition or a key is computed in, next to all others."""
        is_there = name.lower() in {other.lower() for other in self.payload or ()}
        has_all = len(items) > 1 and items[0].excepted is not None
        return name.lower() in self.draft.parts and each.column is None and has_all and not is_there
