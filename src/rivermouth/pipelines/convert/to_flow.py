"""A draft as a flow of a project file, and what the flow does otherwise."""

from __future__ import annotations

import datetime as dt
import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

from rivermouth.names import COORDINATES, DEFAULT_METADATA_COLUMNS, METADATA_COLUMNS
from rivermouth.pipelines.convert.model import (
    HAS_KEY,
    HAS_SEQUENCE,
    HAS_VALUE,
    INTERVAL,
    IS_DOCUMENT,
    POSITION,
    SEQUENCE,
    TOMBSTONE,
    VALUE_THERE,
    Difference,
    Draft,
    NotReadable,
    all_null_but,
    trimmed,
    word,
)
from rivermouth.pipelines.convert.query_settings import lost_settings
from rivermouth.pipelines.convert.selects.items import expression
from rivermouth.pipelines.convert.selects.reading import read_steps
from rivermouth.pipelines.convert.selects.rows import Rows
from rivermouth.pipelines.settings.known_settings import REMEMBER, check_properties, setting_of
from rivermouth.pipelines.spec import AutoCdc, Expectation
from rivermouth.spec import duration_s, duration_text

_STARTS: Final = ("startingoffsets", "startingtimestamp")
_TRIGGER: Final = {
    "maxoffsetspertrigger": "max_offsets",
    "minoffsetspertrigger": "min_offsets",
    "maxtriggerdelay": "max_delay",
    "minpartitions": "min_partitions",
}
_PARTIAL: Final = (
    "track_history_columns",
    "track_history_except_columns",
    "ignore_null_updates",
    "ignore_null_updates_columns",
    "ignore_null_updates_except_columns",
    "columns_to_update",
)
_REMEMBERED: Final = "172800"


def flow_of(draft: Draft, schema: str) -> tuple[dict[str, Any], list[Difference]]:
    """The flow as the mapping below its name, and what it does otherwise.

    Args:
        draft: The table of a pipeline.
        schema: The pipeline's, for names without one.

    Raises:
        NotReadable: It does something that a flow does not.
    """
    return _Writing(draft, schema, read_steps(draft)).flow()


@dataclass
class _Writing:
    draft: Draft
    schema: str
    rows: Rows
    differences: list[Difference] = field(default_factory=list)

    def flow(self) -> tuple[dict[str, Any], list[Difference]]:
        """See ``flow_of``."""
        body: dict[str, Any] = self._source()
        body |= self.draft.decode or self._records()
        if expectations := self._expectations():
            body["expectations"] = expectations
        body["table"] = self._table()
        if self.draft.cdc is not None:
            body["sink"] = self._sink()
        if trigger := self._trigger():
            body["trigger"] = trigger
        self._of_flows()
        return body, self.differences

    def _records(self) -> dict[str, Any]:
        """How the records are read."""
        body: dict[str, Any] = {"format": self._format()}
        if self.rows.key and self._differs_from_default_key:
            body["key_format"] = "text" if self.rows.key_is_text else "raw"
        if self.rows.explode:
            body["explode"] = self.rows.explode
        if self.rows.select and self.rows.select != ["*"]:
            body["select"] = self.rows.select
        return body | self._null_values() | self._metadata()

    def _differs(self, setting: str, text: str) -> None:
        self.differences.append(Difference(str(self.draft.at), setting, text))

    def _no(self, reason: str) -> NotReadable:
        return NotReadable(self.draft.at, reason)

    def _of_flows(self) -> None:
        if self.rows.format == "json":
            text = (
                "what is no JSON, or does not fit its column, is a dead letter of the flow; from_json makes nulls of it"
            )
            self._differs("from_json", text)
        if self.rows.format == "text":
            self._differs("value", "a value that is no UTF-8 is a dead letter of the flow; a cast writes it as it is")
        if self.rows.key and self.rows.key_is_text:
            self._differs("key", "a key that is no UTF-8 is a dead letter of the flow; a cast writes it as it is")
        if self.rows.dropped:
            self._differs("WHERE", "a row that is filtered out is counted as dropped, by an expectation")
        if self.draft.cdc is not None and self._own_key is None:
            self._differs("KEYS", "a change whose key or sequence is null is a dead letter; AUTO CDC stops at it")
        self.differences += lost_settings((self.draft.conf, *self.draft.inner), self.draft.at)
        if self.draft.dataset.private:
            self._differs("private", "a flow's table is not private: a catalog of the project has it")
        for name in self.draft.through:
            self._differs(name, f"the flow reads the topic itself, and not {name}")

    # What is read

    def _source(self) -> dict[str, Any]:
        options = {name.lower(): value for name, value in self.draft.kafka.items()}
        found: dict[str, Any]
        if "subscribe" in options:
            found = {"topics": [each.strip() for each in options.pop("subscribe").split(",")]}
        elif "subscribepattern" in options:
            found = {"topic_pattern": options.pop("subscribepattern")}
        elif "assign" in options:
            found = {"assign": json.loads(options.pop("assign"))}
        else:
            raise self._no("its source names no topic")
        start = self._start(options)
        if start != "earliest":
            found["starting_offsets"] = start
        if options.pop("failondataloss", "true").lower() == "false":
            found["on_data_loss"] = "record"
            self._differs("failOnDataLoss", "records that are lost are written down in the ledger")
        for name in ("includeheaders", "startingoffsetsbytimestampstrategy"):
            options.pop(name, None)
        for name in _TRIGGER:
            options.pop(name, None)
        for name in (each for each in self.draft.kafka if each.lower() in options):
            self._differs(name, "a flow has no such option of the source; it is left out")
        return found

    def _start(self, options: dict[str, str]) -> Any:
        timestamp = options.pop("startingtimestamp", None)
        offsets = options.pop("startingoffsets", "latest")
        if timestamp is not None:
            return dt.datetime.fromtimestamp(int(timestamp) / 1000, dt.UTC).isoformat()
        if offsets.lower() in ("earliest", "latest"):
            return offsets.lower()
        try:
            read = json.loads(offsets)
        except ValueError:
            raise self._no("startingOffsets is neither a word nor JSON") from None
        return {topic: {int(part): offset for part, offset in each.items()} for topic, each in read.items()}

    def _format(self) -> Any:
        if self.rows.format != "json":
            return self.rows.format
        found: dict[str, Any] = {"type": "json", "schema": self.rows.schema, **self.rows.options}
        if not self._is_judged and self.draft.cdc is None:
            found["no_declared_field"] = "keep"
        return found

    @property
    def _is_judged(self) -> bool:
        """Whether a document without a declared field is held back."""
        condition = all_null_but(self.rows.fields)
        for each in self.draft.dataset.expectations:
            if each.name == IS_DOCUMENT and each.condition == condition and each.action == "dead_letter":
                return True
        return self.rows.judged or self._own_key is not None

    @property
    def _own_key(self) -> Any:
        return next(
            (e for e in self.draft.dataset.expectations if e.name == HAS_KEY and e.action == "dead_letter"), None
        )

    @property
    def _differs_from_default_key(self) -> bool:
        return self.rows.key_is_text == (self.rows.format == "raw")

    def _null_values(self) -> dict[str, str]:
        if self.draft.cdc is not None:
            return {}
        default = "keep" if self.rows.format == "raw" and not self.rows.explode else "drop"
        said = "drop" if self.rows.with_value else "dead_letter" if self._holds_nulls else "keep"
        return {} if said == default else {"null_values": said}

    @property
    def _holds_nulls(self) -> bool:
        """Whether a record without a value is a dead letter."""
        names = {e.name: e.condition for e in self.draft.dataset.expectations if e.action == "dead_letter"}
        is_document = names.get(IS_DOCUMENT) == all_null_but(self.rows.fields)
        return is_document if self.rows.format == "json" else names.get(HAS_VALUE) == VALUE_THERE

    def _metadata(self) -> dict[str, Any]:
        needed = [*COORDINATES, *([POSITION] if self.rows.explode else [])]
        if self.draft.cdc is not None:
            needed.append("kafka_timestamp")
        chosen = dict(self.rows.metadata)
        missing = [name for name in needed if name not in chosen]
        if missing:
            self._differs("columns", f"the table of a flow has {', '.join(missing)} too")
        chosen |= {name: name for name in missing}
        ordered = {name: chosen[name] for name in METADATA_COLUMNS if name in chosen}
        same = all(name == called for name, called in ordered.items())
        if same and {*ordered} == {*DEFAULT_METADATA_COLUMNS, *([POSITION] if self.rows.explode else [])}:
            return {}
        return {"metadata_columns": list(ordered) if same else ordered}

    # What is written

    def _expectations(self) -> list[dict[str, str]]:
        generated = {(IS_DOCUMENT, all_null_but(self.rows.fields)), (HAS_VALUE, VALUE_THERE)}
        if self.draft.cdc is not None:
            generated |= {(e.name, e.condition) for e in self.draft.dataset.expectations if self._is_made(e.name)}
        found = [
            {"name": each.name, "condition": self._condition(each), "action": each.action}
            for each in self.draft.dataset.expectations
            if (each.name, each.condition) not in generated
        ]
        for each in found:
            if each["action"] == "warn":
                del each["action"]
        dropped = [{"name": name, "condition": text, "action": "drop"} for name, text in self.rows.dropped]
        return [*found, *dropped]

    def _condition(self, expectation: Expectation) -> str:
        """Its condition; where rows are filtered out, it does not judge those: a stop is stronger than a drop."""
        filtered = " OR ".join(f"({text}) IS NOT TRUE" for _, text in self.rows.dropped)
        is_stronger = expectation.action in ("fail", "dead_letter")
        return (
            f"{filtered} OR ({trimmed(expectation.condition)})" if filtered and is_stronger else expectation.condition
        )

    def _is_made(self, name: str) -> bool:
        return self._own_key is not None and name in (HAS_KEY, HAS_SEQUENCE)

    def _table(self) -> Any:
        dataset = self.draft.dataset
        name = dataset.name.replace("`", "")
        if name.upper().startswith("LIVE."):
            name = name[5:]
        found: dict[str, Any] = {"name": name if "." in name else f"{self.schema}.{name}"}
        derived = {name.lower(): text for name, text in self.rows.derived.items()}
        if dataset.partition_by:
            found["partition_by"] = [
                {name: derived[name.lower()]} if name.lower() in derived else name for name in dataset.partition_by
            ]
        if dataset.cluster_by:
            found["cluster_by"] = list(dataset.cluster_by)
        if properties := self._properties():
            found["properties"] = properties
        if dataset.comment is not None:
            found["comment"] = dataset.comment
        if dataset.schema is not None:
            self._differs("schema", "a flow's table has the columns of its format; the declared schema is left out")
        if dataset.path is not None:
            self._differs("path", "a flow's table is at <lake>/<schema>/<table>; see places")
        return found["name"] if len(found) == 1 else found

    def _properties(self) -> dict[str, Any]:
        found = {}
        for key, value in self.draft.dataset.properties.items():
            if key.lower().startswith("delta."):
                found[key] = _typed(value)
            elif key.lower() != REMEMBER.lower():
                self._differs(key, "a flow's table has properties of Delta alone; it is left out")
        return found

    def _sink(self) -> dict[str, Any]:
        cdc: Any = self.draft.cdc
        metadata = {name: column for column, name in self.rows.metadata.items()}
        found: dict[str, Any] = {"type": "history" if cdc.scd_type == 2 else "upsert"}  # noqa: PLR2004 - SCD type 2
        is_kafka_key = len(cdc.keys) == 1 and metadata.get(cdc.keys[0]) == "kafka_key"
        if not is_kafka_key:
            derived = self.rows.derived
            found["keys"] = [{name: derived[name]} if name in derived else name for name in cdc.keys]
        if sequence := self._sequence(cdc.sequence_by, is_kafka_key=is_kafka_key):
            found["sequence_by"] = sequence
        if deletes := self._deletes(cdc.apply_as_deletes):
            found["apply_as_deletes"] = deletes
        if cdc.apply_as_truncates:
            found["apply_as_truncates"] = cdc.apply_as_truncates
        if not self.rows.tombstones:
            found["tombstones"] = "ignore"
        check_properties(self.draft.dataset)
        said = (self.draft.dataset.properties, self.draft.conf)
        remembered = next(filter(None, (setting_of(each, REMEMBER) for each in said)), _REMEMBERED)
        if float(remembered) != 7 * 86400:
            found["remember_deletes"] = duration_text(float(remembered))
        return found | self._columns_of(cdc)

    def _columns_of(self, cdc: AutoCdc) -> dict[str, Any]:
        """Which columns the table has, and which of them keep their values."""
        found: dict[str, Any] = {}
        beside = {*self.rows.metadata.values(), *cdc.keys}
        if columns := [name for name in cdc.columns if name not in beside]:
            found["columns"] = columns
        for name in cdc.except_columns:
            if name in self.rows.metadata.values():
                self._differs(name, "a flow's table has the coordinates of its records")
        if except_columns := [name for name in cdc.except_columns if name not in {*beside, TOMBSTONE}]:
            found["except_columns"] = except_columns
        for name in _PARTIAL:
            if value := getattr(cdc, name):
                found[name] = list(value) if isinstance(value, tuple) else value
        return found

    def _sequence(self, sequence: str, *, is_kafka_key: bool) -> str | list[str] | None:
        """What orders the changes; None where it is Kafka's own order."""
        called = {column: word(name) for column, name in self.rows.metadata.items()}
        own: str | None = SEQUENCE.format(timestamp=called.get("kafka_timestamp"), offset=called.get("kafka_offset"))
        is_history = self.draft.cdc is not None and self.draft.cdc.scd_type == 2  # noqa: PLR2004 - SCD type 2
        if is_history:
            own = None  # a history has its sequence written
        if sequence == own or (not is_history and is_kafka_key and sequence == called.get("kafka_offset")):
            return None
        call = expression(sequence).call()
        return [each.text for each in call[1]] if call is not None and call[0] == "STRUCT" else sequence

    def _deletes(self, deletes: str | None) -> str | None:
        """The condition on what deletes its key, without that on records without a value."""
        if not self.rows.tombstones or not deletes or deletes == TOMBSTONE:
            return None if self.rows.tombstones else deletes
        own = deletes.removeprefix(f"{TOMBSTONE} OR ")
        return own[1:-1] if own != deletes and _is_in_parentheses(own) else own

    def _trigger(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        said = setting_of(self.draft.conf, INTERVAL)
        if said is not None:
            found["every"] = duration_text(float(str(duration_s(said))))
        for option, value in self.draft.kafka.items():
            name = _TRIGGER.get(option.lower())
            if name is not None:
                found[name] = value if name == "max_delay" else int(value)
        return found


def _is_in_parentheses(condition: str) -> bool:
    """Whether the first parenthesis of a condition, without those in strings, is closed by its last character."""
    depth, plain = 0, re.sub(r"'[^']*'", lambda found: "_" * len(found[0]), condition)
    for number, each in enumerate(plain):
        depth += (each == "(") - (each == ")")
        if depth == 0:
            return number > 0 and number == len(plain) - 1
    return False


def _typed(value: str) -> Any:
    return {"true": True, "false": False}.get(value, int(value) if value.isdecimal() else value)
