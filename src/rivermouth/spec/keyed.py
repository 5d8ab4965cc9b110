"""What the sinks of keyed tables share: which rows are one, which of two is newer, and which delete."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from rivermouth.spec.kinds import Sink
from rivermouth.spec.values import DurationS


def _listed(value: object) -> object:
    return [value] if isinstance(value, str | dict) else value


Texts = Annotated[
    tuple[str, ...],
    BeforeValidator(_listed),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
_WORD = re.compile(r"`(?:[^`]|``)+`|\w+")
_DERIVED = {"type": "object", "additionalProperties": {"type": "string"}}
_Keys = Annotated[
    tuple[str | dict[str, str], ...],
    BeforeValidator(_listed),
    WithJsonSchema(
        {"anyOf": [{"type": "string"}, _DERIVED, {"type": "array", "items": {"anyOf": [{"type": "string"}, _DERIVED]}}]}
    ),
]


def words(texts: Iterable[str]) -> frozenset[str]:
    """The words of SQL texts, and the texts themselves, in lower case: among them are the columns that they name."""
    found = (word for text in texts for word in (text, *_WORD.findall(text)))
    return frozenset(word.strip("`").replace("``", "`").lower() for word in found)


class KeyedSink(Sink):
    """A sink whose table has its rows by key. The words are those of ``create_auto_cdc_flow``.

    https://learn.microsoft.com/azure/databricks/ldp/developer/ldp-python-ref-apply-changes

    Attributes:
        keys: Columns that tell rows apart; ``{name: expression}`` derives one. Without any, Kafka's key does.
        sequence_by: A column or an expression, or several, that say which of two records of a key is newer. Without
            one Kafka's own order does: by offset, and between partitions by timestamp.
        apply_as_deletes: A condition over the record's columns: where it is TRUE the record deletes its key.
        apply_as_truncates: A condition: where it is TRUE the record deletes all rows that are older than it.
        tombstones: What a record without a value does: delete its key, or nothing.
        remember_deletes: So long a deleted key is remembered, so that an older record does not bring it back.
        columns: The payload columns that the table has; all if empty. Keys are always there.
        except_columns: The payload columns that it does not have.
        from_: What a record is. Of ``changes`` each is a row or a deletion. A ``snapshot`` is all rows of its source:
            those that it does not have are deleted, and ``sequence_by`` is its version.
        rows: The column in which a snapshot has its rows, an array of structs; without one the value is the array.
    """

    versions: ClassVar[bool] = False
    """Whether the table keeps every version of a key, each with its time of validity."""

    keys: _Keys = ()
    sequence_by: Texts = ()
    apply_as_deletes: str | None = Field(default=None, min_length=1)
    apply_as_truncates: str | None = Field(default=None, min_length=1)
    tombstones: Literal["delete", "ignore"] = "delete"
    remember_deletes: DurationS = 7 * 86400.0
    columns: Texts = ()
    except_columns: Texts = ()
    from_: Literal["changes", "snapshot"] = Field(default="changes", alias="from")
    rows: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.columns and self.except_columns:
            msg = "a table has the columns that are listed, or all but some: keep one of columns and except_columns"
            raise ValueError(msg)
        if self.apply_as_truncates and len(self.sequence_by) != 1:
            msg = "apply_as_truncates needs to know what is older: give sequence_by too, as one expression"
            raise ValueError(msg)
        named = [name for part in self.keys for name in ([part] if isinstance(part, str) else part or [""])]
        if len(set(named)) < len(named) or "" in named:
            msg = "a key is named twice, or not at all: keys: [id]"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _is_of_snapshots(self) -> Self:
        if not self.snapshots:
            if self.rows is not None:
                msg = "rows names the rows of a snapshot, and a record is a change: write from: snapshot too"
                raise ValueError(msg)
            return self
        if not self.keys:
            msg = "the rows of a snapshot have one Kafka key together: name columns that tell them apart, keys: [id]"
            raise ValueError(msg)
        for name in ("apply_as_deletes", "apply_as_truncates"):
            if getattr(self, name):
                msg = f"a snapshot deletes the rows that it does not have: leave {name} out"
                raise ValueError(msg)
        if "tombstones" in self.model_fields_set and self.tombstones != "ignore":
            msg = "a record without a value is no snapshot, and deletes nothing: leave tombstones out"
            raise ValueError(msg)
        if len(self.sequence_by) > 1:
            msg = "a snapshot has one version: give sequence_by as one expression"
            raise ValueError(msg)
        if self.partial_updates:
            msg = "a snapshot has whole rows: leave ignore_null_updates and columns_to_update out"
            raise ValueError(msg)
        return self

    @property
    def reads(self) -> frozenset[str]:
        """The words, in lower case, among which are the columns that say what a record does to the table."""
        conditions = (self.apply_as_deletes, self.apply_as_truncates, self.listed_by)
        columns = (part for part in self.keys if isinstance(part, str))
        return words([*columns, *self.sequence_by, *filter(None, conditions)]) | self.computes_keys_of

    @property
    def computes_keys_of(self) -> frozenset[str]:
        """Words in lower case that include the columns from which keys are computed."""
        computed = (text for part in self.keys if isinstance(part, dict) for text in part.values())
        return words([*computed, *(part for part in self.keys if isinstance(part, str) and "(" in part)])

    @property
    def snapshots(self) -> bool:
        """Whether a record is a state of all rows, and not a change of one."""
        return self.from_ == "snapshot"

    @property
    def tombstones_delete(self) -> bool:
        """Whether a record without a value deletes its key."""
        return self.tombstones == "delete" and not self.snapshots

    @property
    def keeps_values(self) -> bool:
        """Whether the row of a key keeps the values that a change does not tell."""
        return False

    @property
    def partial_updates(self) -> bool:
        """Whether a record need not bring all columns of its row."""
        return False

    @property
    def listed_by(self) -> str | None:
        """The column in which a record lists the columns that it brings; None if none does."""
        return None

    def partial(self, _payload: Sequence[str]) -> tuple[str, ...]:
        """Of these payload columns those that keep their value where a record does not bring one."""
        return ()

    def tracked(self, _payload: Sequence[str]) -> tuple[str, ...] | None:
        """Of these payload columns those whose change makes a version; None if every record makes one."""
        return None
