"""What formats have in common whose records name the schemas that they were written with, by which tables grow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.decoding.registry.registry_format import SubjectFormat
from rivermouth.schemas import evolution
from rivermouth.schemas.json_limits import SAMPLED
from rivermouth.spec import EvolvingFormat

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import StructType

    from rivermouth.spec import Evolution


POLICED: Final = ("FIELD_UNDECLARED", "FIELD_TYPE", "SCHEMA_MISMATCH", "FIELD_MISSING")
"""Reasons that policies say more about."""


def reason_of_change(reason: str) -> str:
    """SQL of the reason that policies know: to ``on_type_change`` a writer's type that does not fit is as a value."""
    return f"CASE {reason} WHEN 'SCHEMA_MISMATCH' THEN 'FIELD_TYPE' ELSE {reason} END"


class WritersFormat(SubjectFormat, EvolvingFormat):
    """Base of the formats whose columns grow by writers' schemas, which the schema registry has by their ids."""

    _evolution: Evolution | None = None
    _declared_columns: StructType | None = None
    _kept: StructType | None = None
    _looked_at: frozenset[int] = frozenset()

    def with_policies(self, evolution: Evolution) -> Self:
        """The same format under policies; the format's own rules hold where they say nothing."""
        said = None if evolution.is_default else evolution
        if said == self._evolution:
            return self
        same = self.model_copy()
        same._evolution = said  # noqa: SLF001
        return same

    def with_schema(self, schema: StructType) -> Self:
        """The same format with what has grown out of its schema."""
        same = self.model_copy()
        same._kept = schema  # noqa: SLF001
        return same

    def knowing_writers(self, writers: Collection[int]) -> Self:
        """The same format; the schemas of these ids are nothing new to it."""
        same = self.model_copy()
        same._looked_at = self._looked_at.union(writers)  # noqa: SLF001
        return same

    @property
    def further_columns(self) -> tuple[str, ...]:
        """The verdict of each value, and its undeclared fields."""
        return (names.VERDICT, names.UNDECLARED)

    def schema_as_declared(self) -> StructType:
        """The fields of the schema, in order, and what has grown out of them; only after ``with_loaded_files``."""
        if self._declared_columns is None:
            msg = "its schema was not read yet"
            raise ValueError(msg)
        return self.grown(self._declared_columns)

    def grown(self, declared: StructType) -> StructType:
        """These columns with what has grown out of them."""
        return declared if self._kept is None else evolution.overlaid(declared, self._kept)

    def writer_columns(self, spark: SparkSession, writer: int) -> StructType:
        """What the schema of a writer has, as columns that a table can have; by the names of their fields.

        Raises:
            RivermouthError: It cannot be had.
        """
        raise NotImplementedError

    def writer_id(self) -> Column:
        """The id of the writer's schema, as values in Confluent's framing have it: signed, of 32 bits (bigint)."""
        number = F.conv(F.hex(F.substring(F.col(names.VALUE), 2, 4)), 16, 10).cast("bigint")
        return F.when(number >= 1 << 31, number - (1 << 32)).otherwise(number)

    def undeclared_names(self) -> str | None:
        """Those of the record itself as its writer names them; None where they are not ignored."""
        if self._evolution is not None and self._evolution.on_new_column != "ignore":
            return None
        return f"CASE WHEN {SAMPLED} THEN {names.UNDECLARED} END"
