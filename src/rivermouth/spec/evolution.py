"""What happens to documents that a flow's schema does not foresee."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from rivermouth.spec.values import ConfigModel

OnNewColumn = Literal["ignore", "evolve", "rescue", "dead_letter", "fail"]
OnTypeChange = Literal["widen", "widen_or_rescue", "rescue", "dead_letter", "fail"]
OnMissingColumn = Literal["null", "fail"]
# YAML's own null is the word here.
_NULL_IS_A_WORD = BeforeValidator(lambda word: "null" if word is None else word)

RESCUES: Final = frozenset({"rescue", "widen_or_rescue"})
WIDENS: Final = frozenset({"widen", "widen_or_rescue"})
_UNRESCUED: Final[Mapping[OnTypeChange, OnTypeChange]] = {"rescue": "dead_letter", "widen_or_rescue": "widen"}


class ColumnEvolution(ConfigModel):
    """What one column does otherwise than its flow.

    Attributes:
        on_new_column: As of the flow: where the column is not declared, or for fields within it.
        on_type_change: As of the flow.
        on_missing_column: As of the flow.
    """

    on_new_column: OnNewColumn | None = None
    on_type_change: OnTypeChange | None = None
    on_missing_column: Annotated[OnMissingColumn | None, _NULL_IS_A_WORD] = None


class Evolution(ConfigModel):
    """What happens to records that a flow's schema does not foresee.

    What is not given is ``evolve`` and ``widen`` where the schema is inferred, and ``ignore`` and ``dead_letter``
    where it is declared. With ``explode`` it is as if the schema were declared, with a ``select`` that has no ``*`` new
    columns are ignored, and with ``select`` and a keyed table no column becomes wider.

    Attributes:
        on_new_column: A field that is not declared, other than null: ``evolve`` adds it to the schema and the table
            before its record is written (of Avro and Protobuf, each field that the writer's schema has), ``rescue``
            keeps it as JSON in the column ``_rescued``, ``dead_letter`` refuses the record, ``fail`` stops the flow,
            ``ignore`` leaves the field out, and counts it.
        on_type_change: A value that its column's type does not hold: ``widen`` widens the column where Delta can (and
            no key is computed of it), and else refuses the record, ``rescue`` keeps it as JSON in the column
            ``_rescued`` and null in its own (what is NOT NULL, or says what a record does to a keyed table, is
            refused), ``widen_or_rescue`` widens where Delta can, and else rescues, ``dead_letter`` refuses the record,
            ``fail`` stops the flow.
        on_missing_column: A record that does not have a column, or has null there: ``null``, or ``fail`` to stop
            the flow. What is not given is ``null``, and what the rules of Avro and Protobuf say of these.
        max_columns: ``evolve`` adds no field where the schema would have more than that, fields within columns
            included; records with further ones are dead letters.
        columns: By name, what single columns do otherwise.
    """

    on_new_column: OnNewColumn | None = None
    on_type_change: OnTypeChange | None = None
    on_missing_column: Annotated[OnMissingColumn | None, _NULL_IS_A_WORD] = None
    max_columns: int = Field(default=1000, ge=1, le=5000)
    columns: dict[str, ColumnEvolution] = {}
    _never_rescued: frozenset[str] = frozenset()
    _never_widened: frozenset[str] = frozenset()
    _is_type_change_default: bool = False

    @model_validator(mode="after")
    def _tells_columns_apart(self) -> Self:
        seen: dict[str, str] = {}
        for name in self.columns:
            twin = seen.setdefault(name.lower(), name)
            if twin != name:
                msg = f"columns {twin!r} and {name!r} are the same to Spark and Delta: keep one"
                raise ValueError(msg)
        return self

    def with_defaults(self, *, infers: bool, gains: bool = True, widens: bool = True) -> Evolution:
        """The same with every word given.

        Args:
            infers: Whether the schema is inferred.
            gains: Whether the table has a place for new columns.
            widens: Whether columns may become wider.
        """
        new = "evolve" if infers and gains else "ignore"
        change = "widen" if infers and widens else "dead_letter"
        given = {"on_new_column": self.on_new_column or new, "on_type_change": self.on_type_change or change}
        same = self.model_copy(update=given)
        same._is_type_change_default = self._is_type_change_default or self.on_type_change is None  # noqa: SLF001
        return same

    def new_column(self, name: str) -> OnNewColumn:
        """What happens to fields of a name, and to those within its column; only of what ``with_defaults`` gives."""
        mine = self._of(name).on_new_column or self.on_new_column
        return mine or "ignore"

    def type_change(self, name: str) -> OnTypeChange:
        """What happens to values that a column does not hold; only of what ``with_defaults`` gives."""
        word = self._of(name).on_type_change or self.on_type_change or "dead_letter"
        word = _UNRESCUED.get(word, word) if name.lower() in self._never_rescued else word
        return "dead_letter" if word in WIDENS and name.lower() in self._never_widened else word

    def is_type_change_given(self, name: str) -> bool:
        """Whether the project says what happens to values that a column does not hold; false where the default does."""
        given = self.on_type_change is not None and not self._is_type_change_default
        return given or self._of(name).on_type_change is not None

    def holding(self, *, never_rescued: Collection[str], never_widened: Collection[str]) -> Evolution:
        """The same, but that columns of these names, in lower case, are not rescued, or do not become wider."""
        same = self.model_copy()
        same._never_rescued, same._never_widened = frozenset(never_rescued), frozenset(never_widened)  # noqa: SLF001
        return same

    def missing_column(self, name: str) -> OnMissingColumn | None:
        """What happens to records without a column; None if no policy is set."""
        return self._of(name).on_missing_column or self.on_missing_column

    @property
    def is_default(self) -> bool:
        """Whether it equals the defaults of a declared schema; only for a result of ``with_defaults``."""
        words = (self.on_new_column, self.on_type_change, self.on_missing_column)
        return not self.columns and words == ("ignore", "dead_letter", None)

    @property
    def grows(self) -> bool:
        """Whether the schema may change while the flow runs; only of what ``with_defaults`` gives."""
        return self.says("evolve", "widen", "widen_or_rescue")

    @property
    def rescues(self) -> bool:
        """Whether the table has a column ``_rescued``."""
        return self.says("rescue", "widen_or_rescue")

    def says(self, *words: str) -> bool:
        """Whether the flow or one of its columns has one of these policies."""
        every: list[Evolution | ColumnEvolution] = [self, *self.columns.values()]
        return any(
            word in (each.on_new_column, each.on_type_change, each.on_missing_column)
            for each in every
            for word in words
        )

    def on_types(self, words: Collection[str]) -> bool:
        """Whether one of the words is what happens to values of other types, of the flow or of a column."""
        return self.on_type_change in words or any(each.on_type_change in words for each in self.columns.values())

    def on_new(self, words: Collection[str]) -> bool:
        """Whether one of the words is what happens to new fields, of the flow or of a column.

        Only of what ``with_defaults`` gives.
        """
        return self.on_new_column in words or any(each.on_new_column in words for each in self.columns.values())

    @property
    def scans(self) -> bool:
        """Whether documents are inspected in addition to the parse; only for a result of ``with_defaults``."""
        return self.on_new(("dead_letter",)) or self.grows or self.rescues or self.says("fail")

    def _of(self, name: str) -> ColumnEvolution:
        lower = name.lower()
        return next((each for known, each in self.columns.items() if known.lower() == lower), ColumnEvolution())
