"""A flow as a table of a pipeline, and what a pipeline does otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from rivermouth.decoding.declared.declared import INFER, names_in_ddl
from rivermouth.errors import FlowNotConvertible, FlowSettingsNotConvertible
from rivermouth.names import METADATA_COLUMNS
from rivermouth.pipelines.convert.changes import auto_cdc, further_place
from rivermouth.pipelines.convert.flow_in_file import FlowInFile
from rivermouth.pipelines.convert.model import (
    HAS_KEY,
    HAS_VALUE,
    INTERVAL,
    IS_DOCUMENT,
    KAFKA_COLUMNS,
    POSITION,
    TOMBSTONE,
    VALUE_THERE,
    Difference,
    Draft,
    Step,
    all_null_but,
    listed,
    trimmed,
    word,
)
from rivermouth.pipelines.python.decode import SETTINGS
from rivermouth.pipelines.python.registry import texts
from rivermouth.pipelines.spec import Dataset, Expectation, SourceLine
from rivermouth.pipelines.sql.tokens import quoted_string
from rivermouth.project.file.dump import flow_body
from rivermouth.spec import Flow, duration_text
from rivermouth.spec.selection import STAR, is_star

FORMATS: Final = ("json", "raw", "text")
"""The formats that a query over Spark's Kafka source can read."""

_REFUSED: Final = {
    "lookup": "it looks up columns in another table, which is a join in the query of a pipeline",
    "source": "it reads no Kafka topic but {value}",
    "compression": "its values are compressed, and Spark has no function that reads them",
}
_LEFT_OUT: Final = {
    "group_id": "a pipeline does not show its progress under a consumer group",
    "ending_offsets": "a pipeline reads to the end of the topic",
    "evolution": "from_json reads the declared columns alone: no column is added, widened, rescued or refused",
    "places": "the table is at <lake>/<schema>/<table>",
    "maintenance": "a run of a pipeline does not optimize or vacuum its tables",
    "previously": "a table of a pipeline has no former name",
}
_DECODED_EVOLUTION: Final = "a query has fixed columns: no column is added, widened, rescued or refused"
_LEFT_OUT_OF_JSON: Final = {
    "timestamp_precision": "from_json cuts digits behind the microsecond off",
    "reads_names_as": "from_json reads fields by their own names",
}
_NOT_READ: Final = ("framing", "documents_in_strings", "subject", "schema_hints")
_CARRIED_OF_JSON: Final = ("type", "schema", "timestamp_format", "date_format", "no_declared_field")


def draft_of(
    found: FlowInFile, leave_out: Collection[str] = (), *, decodes: bool = False
) -> tuple[Draft, list[Difference]]:
    """The flow as a table of a pipeline, and what is different there.

    Args:
        found: A flow of a project file.
        leave_out: Settings that may be left out: ``group_id``, ``table.column_comments``.
        decodes: Whether its query may read records as flows do, by ``decode``. Else Spark's own functions read them.

    Raises:
        FlowNotConvertible: A pipeline cannot make the same table of the same topic.
        FlowSettingsNotConvertible: It has settings that a pipeline does not have, and that may not be left out.
    """
    return _Carrying(found.flow, found.place, leave_out, decodes, [*found.differences]).draft()


@dataclass
class _Carrying:
    flow: Flow
    place: Callable[..., str | None]
    leave_out: Collection[str]
    may_decode: bool
    differences: list[Difference] = field(default_factory=list)
    refused: list[Difference] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.body: dict[str, Any] = flow_body(self.flow)

    def draft(self) -> tuple[Draft, list[Difference]]:
        """See ``draft_of``."""
        self._refuse()
        kafka = self._kafka()
        steps, expectations = self._decoded_steps() if self._decodes else self._steps()
        cdc, properties = None, texts(self.flow.table.properties)
        if self.flow.keyed is not None:
            cdc, more, held = auto_cdc(self.flow, self._differs)
            expectations, properties = [*held, *expectations], properties | more
        conf = {INTERVAL: duration_text(self.flow.trigger.every)} if "every" in self.body.get("trigger", {}) else {}
        if conf and cdc is not None:
            self._differs(
                f"a pipeline has it for all its flows: --param {INTERVAL}='{conf[INTERVAL]}'", "trigger", "every"
            )
            conf = {}
        self._left_out()
        self._raise_refused()
        dataset = Dataset(
            name=self._table(),
            kind="table" if cdc is None else "streaming_table",
            at=SourceLine(self.place() or self.flow.name, 1),
            comment=self.flow.table.comment,
            properties=properties,
            partition_by=tuple(
                name for part in self.flow.table.partition_by for name in ([part] if isinstance(part, str) else part)
            ),
            cluster_by=self.flow.table.cluster_by,
            expectations=tuple(expectations),
        )
        made = Draft(dataset, kafka, tuple(steps), conf, cdc, flow=self.flow.name, decode=self._decode)
        return made, self.differences

    @property
    def _decodes(self) -> bool:
        """Whether its records are read by ``decode``: of a change that deletes by its envelope a query has no mark."""
        keyed = self.flow.keyed
        if keyed is not None and (keyed.snapshots or self.flow.change_envelope is not None or self._has_tombstones):
            return False
        return self.may_decode

    @property
    def _decode(self) -> dict[str, Any]:
        return {name: self.body[name] for name in SETTINGS if name in self.body} if self._decodes else {}

    def _decoded_steps(self) -> tuple[list[Step], list[Expectation]]:
        if self.flow.infers:
            raise self._refused("its schema is inferred: write the schema that `rivermouth schema` shows", "format")
        if self.flow.keyed is not None and self.flow.keyed.tombstones_delete:
            self._differs("a record without a value is left out, and deletes no key", "sink")
        return [Step(("*", *derived))] if (derived := self._computed()) else [], self._own

    def _differs(self, text: str, *path: Any) -> None:
        self.differences.append(Difference(self.place(*path), ".".join(map(str, path)), text))

    def _leaves(self, text: str, *path: Any) -> None:
        """A setting of the file has no equal in a pipeline: it is refused, unless it may be left out."""
        found = Difference(self.place(*path), ".".join(map(str, path)), text)
        (self.differences if found.setting in self.leave_out else self.refused).append(found)

    def _raise_refused(self) -> None:
        if self.refused:
            names = ",".join(dict.fromkeys([*self.leave_out, *(each.setting for each in self.refused)]))
            settings = "\n  ".join(map(str, self.refused))
            raise FlowSettingsNotConvertible(flow=self.flow.name, settings=settings, names=names)

    def _refused(self, detail: str, *path: Any, fix: str | None = None) -> FlowNotConvertible:
        kept = f"keep the flow; a query of a pipeline reads its table by name: FROM STREAM {self.flow.table.name}"
        return FlowNotConvertible(at=self.place(*path), flow=self.flow.name, detail=detail, fix=fix or kept)

    def _refuse(self) -> None:
        flow = self.flow
        for name, text in _REFUSED.items():
            if (value := getattr(flow, name)) not in (None, ()) and not (self._decodes and name in SETTINGS):
                raise self._refused(text.format(value=getattr(value, "shown", "")), name)
        if flow.is_family:
            raise self._refused("it has a table for each topic, and a query of a pipeline has one", "table")
        if flow.format.type not in FORMATS and not self._decodes:
            raise self._refused(f"Spark has no function that reads the format {flow.format.type} as it does", "format")
        if flow.keyed is not None and flow.keyed.snapshots:
            raise self._refused("its records are snapshots, and a query of a stream has none", "sink", "from")
        if further := further_place(flow):
            raise self._refused(further, "sink")
        if flow.starting_offsets.kind == "group":
            raise self._refused("Spark does not start at the offsets of a consumer group", "starting_offsets")

    def _left_out(self) -> None:
        for name, text in _LEFT_OUT.items():
            if name in self.body:
                self._leaves(_DECODED_EVOLUTION if name == "evolution" and self._decodes else text, name)
        if self.flow.on_data_loss == "record":
            self._differs("records that are lost are passed over, and not written down", "on_data_loss")
        if self.flow.table.column_comments:
            self._leaves("a converted table has no comments on its columns", "table", "column_comments")
        if self.flow.format.type == "json" and not self._decodes:
            said = "a row of nulls" if self._judged is None else f"a dead letter that fails {self._judged}"
            if self._judged == "where":
                self._leaves("a value that is no JSON is left out, and no dead letter", "dead_letters")
                said = "left out"
            text = f"a value that is no JSON is {said}; a field that does not fit its type is null, and no dead letter"
            self._differs(text, "format")
        if self.flow.key_as_text and not self._decodes:
            self._differs("a key that is no UTF-8 is written with replaced characters", "key_format")

    def _table(self) -> str:
        name = self.flow.table.name
        if name.count(".") > 1:
            self._differs(f"the table is {name.split('.', 1)[1]}, and not registered in a catalog", "table", "name")
            name = name.split(".", 1)[1]
        return name

    def _kafka(self) -> dict[str, str]:
        flow = self.flow
        if flow.topics:
            found = {"subscribe": ",".join(flow.topics)}
        elif flow.topic_pattern is not None:
            found = {"subscribePattern": flow.topic_pattern}
        else:
            found = {"assign": json.dumps({topic: list(each) for topic, each in flow.assign.items()})}
        start = flow.starting_offsets
        if start.timestamp is not None:
            found["startingTimestamp"] = str(round(start.timestamp.timestamp() * 1000))
            found["startingOffsetsByTimestampStrategy"] = "latest"
        elif start.kind == "offsets":
            found["startingOffsets"] = json.dumps(start.offsets)
            self._differs("Spark wants an offset for each partition of the topic", "starting_offsets")
        else:
            found["startingOffsets"] = start.kind
        if flow.on_data_loss == "record":
            found["failOnDataLoss"] = "false"
        if "kafka_headers" in flow.metadata_columns or self._decodes:  # dead letters have them too
            found["includeHeaders"] = "true"
        trigger = flow.trigger
        limits = {
            "maxOffsetsPerTrigger": trigger.max_offsets,
            "minOffsetsPerTrigger": trigger.min_offsets,
            "maxTriggerDelay": None if trigger.max_delay is None else duration_text(trigger.max_delay),
            "minPartitions": trigger.min_partitions,
        }
        return found | {name: str(value) for name, value in limits.items() if value is not None}

    # The SELECTs

    @property
    def _metadata(self) -> dict[str, str]:
        """The metadata columns but the position: the name in the table, and what it is of Kafka's columns."""
        found = {}
        for column in METADATA_COLUMNS:
            name = self.flow.metadata_columns.get(column)
            if name is None or column == POSITION:
                continue
            found[name] = KAFKA_COLUMNS.get(column) or self._key()
        return found

    def _key(self) -> str:
        form = self.flow.key_format
        if form is not None and form.type not in ("raw", "text"):
            raise self._refused(f"the pipeline has no key format {form.type}", "key_format")
        return "CAST(key AS STRING)" if self.flow.key_as_text else "key"

    def _steps(self) -> tuple[list[Step], list[Expectation]]:
        where = self._values()
        beside = [f"{sql} AS {word(name)}" if sql != name else sql for name, sql in self._metadata.items()]
        if self._has_tombstones:
            beside.append(f"value IS NULL AS {TOMBSTONE}")
        meta = [*map(word, self._metadata), *([TOMBSTONE] if len(beside) > len(self._metadata) else [])]
        self._judged: str | None = None
        if self.flow.format.type == "json":
            steps, expectations = self._json(where, beside, meta)
        else:
            value = "value" if self.flow.format.type == "raw" else "CAST(value AS STRING) AS value"
            steps, expectations = [Step((value, *beside), where)], self._held_values()
        if self.flow.select:
            steps.append(
                Step((*(self._starred(trimmed(each), meta) for each in self.flow.select), *self._with_position(meta)))
            )
        if derived := self._computed():
            steps.append(Step(("*", *derived)))
        return steps, [*expectations, *self._own]

    @property
    def _own(self) -> list[Expectation]:
        return [Expectation(each.name, trimmed(each.condition), each.action) for each in self.flow.expectations]  # type: ignore[arg-type]

    def _computed(self) -> list[str]:
        """SQL of the columns in which partitions and keys are computed."""
        parts = [*self.flow.table.partition_by, *(self.flow.keyed.keys if self.flow.keyed is not None else ())]
        computed = [part for part in parts if isinstance(part, dict)]
        return [f"{trimmed(sql)} AS {word(name)}" for part in computed for name, sql in part.items()]

    def _values(self) -> str | None:
        """The condition that leaves out records without a value; None where all records are read."""
        if self.flow.keyed is not None:
            if self.flow.keyed.tombstones_delete and not self._has_tombstones:
                self._differs("a record without a value is left out, and deletes no key", "sink")
            return None if self._has_tombstones else VALUE_THERE
        if self.flow.null_values == "drop":
            return VALUE_THERE
        is_held = self._is_judged_in_table if self.flow.format.type == "json" else not self.flow.select
        if self.flow.null_values == "keep" or is_held:
            return None
        self._leaves("a record without a value is left out, and no dead letter", "null_values")
        return VALUE_THERE

    def _held_values(self) -> list[Expectation]:
        """That a value is there, where a record without one is a dead letter."""
        is_held = self.flow.keyed is None and self.flow.null_values == "dead_letter" and not self.flow.select
        return [Expectation(HAS_VALUE, VALUE_THERE, "dead_letter")] if is_held else []

    @property
    def _is_judged_in_table(self) -> bool:
        """Whether an expectation on the table can say which values were no documents."""
        flow: Any = self.flow
        plain = not flow.select or any(each.strip() == "*" for each in flow.select)
        return flow.format.needs_declared_field and flow.keyed is None and plain and flow.explosion is None

    def _json(self, where: str | None, beside: list[str], meta: list[str]) -> tuple[list[Step], list[Expectation]]:
        form: Any = self.flow.format
        self._check_json()
        schema = form.declared
        columns = tuple(names_in_ddl(schema))
        record = "record" if "record" not in meta else "record_"
        options = {"timestampFormat": form.timestamp_format, "dateFormat": form.date_format}
        pairs = [f"{quoted_string(name)}, {quoted_string(text)}" for name, text in options.items() if text is not None]
        more = f", map({', '.join(pairs)})" if pairs else ""
        explosion = self.flow.explosion
        whole = explosion is not None and explosion.is_whole
        kind = f"array<struct<{schema}>>" if whole else schema
        decoded = f"from_json(CAST(value AS STRING), {quoted_string(kind)}{more})"
        if whole:
            position = self._position()
            first = Step((f"posexplode({decoded}) AS ({position}, {record})", *beside), where)
        else:
            first = Step((f"{decoded} AS {record}", *beside), where)
        items = [f"{record}.*"]
        if explosion is not None and not whole:
            items = self._exploded(record, columns)
        judged = self._judge(columns, record)
        own: list[Expectation] = []
        if judged == IS_DOCUMENT:
            own, judged = [Expectation(IS_DOCUMENT, all_null_but(columns), "dead_letter")], None
        return [first, Step((*items, *self._with_position(meta, whole=whole)), judged)], own

    def _judge(self, columns: tuple[str, ...], record: str) -> str | None:
        """How a document without a declared field is held back: the name of an expectation, or a condition."""
        flow = self.flow
        form: Any = flow.format
        if not form.needs_declared_field or (flow.keyed is None and flow.null_values == "keep"):
            return None
        if flow.keyed is not None and flow.keyed.keys:
            self._judged = HAS_KEY
            return None
        if self._is_judged_in_table:
            self._judged = IS_DOCUMENT
            return IS_DOCUMENT
        self._judged = "where"
        condition = all_null_but(columns, f"{record}.")
        return f"{TOMBSTONE} OR {condition}" if self._has_tombstones else condition

    @property
    def _has_tombstones(self) -> bool:
        keyed = self.flow.keyed
        return keyed is not None and keyed.tombstones_delete and not keyed.keys and not keyed.sequence_by

    def _check_json(self) -> None:
        form = self.body["format"]
        for name in form if isinstance(form, dict) else ():
            if name in _NOT_READ:
                raise self._refused(f"from_json has nothing like {name}", "format", name)
            if name not in _CARRIED_OF_JSON:
                text = _LEFT_OUT_OF_JSON.get(name, "from_json has nothing like it")
                self._leaves(text, "format", name)
        declared = self.flow.format.declared  # type: ignore[attr-defined]
        if declared == INFER:
            raise self._refused("its schema is inferred: write the schema that `rivermouth schema` shows", "format")
        if not isinstance(declared, str) or declared.endswith(".json"):
            raise self._refused("its schema is in a file, or in Spark's JSON form: write it as DDL", "format", "schema")
        for option, value in (("timestamp_format", "epoch"), ("date_format", "epoch")):
            if str(getattr(self.flow.format, option) or "").startswith(value):
                raise self._refused("from_json reads no times that are numbers", "format", option)

    def _position(self) -> str:
        return word(self.flow.metadata_columns.get(POSITION, POSITION))

    def _with_position(self, meta: list[str], *, whole: bool = True) -> Iterator[str]:
        if self.flow.explosion is not None and whole:
            yield self._position()
        yield from meta

    def _exploded(self, record: str, columns: tuple[str, ...]) -> list[str]:
        explosion = self.flow.explosion
        if explosion is None or explosion.column is None:
            raise self._refused("it explodes an expression: name it as a column with select first", "explode")
        inner = f"{record}.{word(explosion.column)}"
        called = explosion.called or (explosion.column,)
        taken = f"posexplode({inner}) AS ({self._position()}, {listed(called)})"
        return [taken if name.lower() == explosion.column.lower() else f"{record}.{word(name)}" for name in columns]

    def _starred(self, item: str, meta: list[str]) -> str:
        """An item of ``select``, whose ``*`` does not mean the metadata columns."""
        if not is_star(item):
            return item
        hidden = ", ".join(self._with_position(meta))
        rest = STAR.sub("", item).strip()
        if rest.upper().startswith("EXCEPT"):
            inner = rest[rest.index("(") + 1 : rest.rindex(")")]
            return f"* EXCEPT ({inner.strip()}, {hidden})"
        return f"* EXCEPT ({hidden}){f' {rest}' if rest else ''}"
