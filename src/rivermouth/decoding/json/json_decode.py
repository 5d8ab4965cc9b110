"""JSON documents to columns under the policies of a schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.decoding.json import json_fast_path, json_spark_columns, json_spark_parser, undeclared_fields
from rivermouth.names import quoted
from rivermouth.schemas import column_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

    from rivermouth.decoding.json.undeclared_fields import Exact
    from rivermouth.spec import Evolution

REFUSED: Final = frozenset({"evolve", "dead_letter", "fail"})
"""What policies say of new fields for which a document is refused: under ``evolve`` until the schema has grown."""
KEPT: Final = frozenset({"evolve", "rescue"})
"""What policies say of new fields that are kept somewhere."""
_SENT: Final = "__sent"


def kept_names(policies: Evolution) -> list[str]:
    """The names that have a policy of their own by which new fields of that name are kept."""
    return [name for name in policies.columns if policies.new_column(name) in KEPT]


@dataclass(frozen=True, slots=True)
class JsonDecoding:
    """How documents become columns.

    Attributes:
        schema: The columns; NOT NULL where a document must have a value, and with ``TimeByForm`` for times in a form
            of the user's.
        policies: What happens to what the schema does not foresee.
        exact: Where each digit counts, as of ``undeclared_fields.exact_tree``.
        needs_declared_field: Whether a document is refused that has none of the declared fields, and no other that a
            policy takes.
        rescues_nested: Whether only the fields that do not fit are rescued, in structs and in arrays of structs.
            Otherwise the whole column is.
    """

    schema: T.StructType
    policies: Evolution
    exact: Exact
    needs_declared_field: bool = False
    rescues_nested: bool = False

    def decoded(self, rows: DataFrame) -> DataFrame:
        """``rows`` with ``__decoded`` and ``__data``, in one pass, and scanned for what a policy asks for."""
        schema, policies = self.schema, self.policies
        spared = {place for place, field in enumerate(schema.fields) if undeclared_fields.is_rescued(field, policies)}
        quick = None if spared else json_fast_path.row(rows.sparkSession, schema, self.exact)
        changed = quick is None
        if quick is None:
            checked = json_spark_columns.parse_columns(self._changed(rows, spared), schema, spared)
            if self.exact:
                checked = self._exactly(checked, spared)
        else:
            columns = (f"__row.c{place} AS __done_{place}" for place in range(len(schema.fields)))
            read = rows.select("*", quick.alias("__row"))
            flags = {"others": "false", "named": "true"}
            parts = (f"coalesce(__row.{name}, {default}) AS __{name}" for name, default in flags.items())
            told = ("__row IS NOT NULL AS __fits", *parts)
            checked = read.selectExpr("* EXCEPT (__row)", *told, *columns)
        if self.needs_declared_field:
            checked = checked.withColumn("__fits", F.expr(f"__fits AND ({self._is_of_the_schema()})"))
        ours = ", ".join(json_spark_columns.ours(schema, spared))
        if policies.on_new(REFUSED) or policies.rescues:
            return self._scanned(checked, spared, changed=changed).selectExpr(f"* EXCEPT ({ours})")
        data = ", ".join(f"__done_{place} AS {quoted(field.name)}" for place, field in enumerate(schema.fields))
        decoded = f"{names.VALUE} IS NULL OR __fits AS {names.DECODED}"
        found = checked.selectExpr(f"* EXCEPT ({ours})", decoded, f"struct({data}) AS {names.DATA}")
        return found.selectExpr(f"* EXCEPT ({names.VALUE}, {_SENT})", f"{_SENT} AS {names.VALUE}") if changed else found

    def _is_of_the_schema(self) -> str:
        """SQL: whether a document has a declared field, or one that a policy keeps; names are read in rare cases."""
        names_there = f"json_object_keys({json_spark_parser.TEXT})"
        if self.policies.on_new_column in KEPT:
            return f"__named OR (__others AND coalesce(size({names_there}) > 0, true))"
        kept = kept_names(self.policies)
        if not kept:
            return "__named"
        listed = ", ".join(map(names.literal, kept))
        return f"__named OR (__others AND coalesce(arrays_overlap({names_there}, array({listed})), true))"

    def _exactly(self, checked: DataFrame, spared: set[int]) -> DataFrame:
        """``checked`` rows, where those with a value that is more exact than its column can keep do not fit."""
        told = {column_types.name_in_json(self.schema.fields[place]) for place in spared}
        others = {name: part for name, part in self.exact["fields"].items() if name not in told}
        if not others:
            return checked
        exact = undeclared_fields.is_kept_exactly(checked.sparkSession, {"fields": others}, _SENT)
        return checked.withColumn("__fits", F.col("__fits") & exact)

    def _changed(self, rows: DataFrame, spared: set[int]) -> DataFrame:
        """The documents for Spark's parser; as they were sent in ``__sent``.

        In text columns they have strings alone, and nothing that is rescued and the parser would not take.
        """
        spark = rows.sparkSession
        others = (name for name in rows.columns if name != names.VALUE)
        kept = json_fast_path.kept(spark, self.schema, _SENT).alias(names.VALUE)
        found = rows.select(*others, F.col(names.VALUE).alias(_SENT)).select("*", kept)
        if not spared:
            return found
        fitted = undeclared_fields.fitted(spark, self._kinds(), names.VALUE)
        # What is taken out of a document is not checked any more, and must be text as well.
        return found.withColumn(
            names.VALUE, F.when(F.expr(json_spark_parser.TEXT_SOUND), fitted).otherwise(F.col(names.VALUE))
        )

    def _kinds(self) -> dict[str, Any]:
        return undeclared_fields.kinds_tree(self.schema, self.policies, self.exact, nested=self.rescues_nested)

    def _scanned(self, checked: DataFrame, spared: set[int], *, changed: bool) -> DataFrame:
        """Rows with ``__decoded`` and ``__data``; policies decide about undeclared fields and misfits."""
        spark, sent = checked.sparkSession, _SENT if changed else names.VALUE
        done = (
            f"CASE WHEN NOT __not_{place} THEN __done_{place} END" if place in spared else f"__done_{place}"
            for place in range(len(self.schema.fields))
        )
        data = [f"{sql} AS {quoted(field.name)}" for sql, field in zip(done, self.schema.fields, strict=True)]
        found = {}
        if self.policies.on_new(REFUSED):
            found["__surplus"] = undeclared_fields.fields(spark, self.schema, self.policies, REFUSED, sent)
        if self.policies.rescues:
            told = (
                f"CASE WHEN __not_{place} THEN {names.literal(column_types.name_in_json(field))} END"
                for place, field in enumerate(self.schema.fields)
                if place in spared
            )
            misfits = f"CAST(array_compact(array({', '.join(told)})) AS array<string>)"
            tree = undeclared_fields.rescued_tree(self.schema, self.policies, self._kinds())
            found["__rescued"] = undeclared_fields.rescued(spark, tree, sent, misfits)
            data.append(f"__rescued AS {quoted(column_types.RESCUED)}")
        looked = F.col("__fits") if spared else F.expr("__fits AND __others")
        scanned = checked.withColumns({name: F.when(looked, column) for name, column in found.items()})
        complete = "__fits AND __surplus IS NULL" if "__surplus" in found else "__fits"
        return scanned.selectExpr(
            f"* EXCEPT ({', '.join([*found, names.VALUE, *([_SENT] if changed else [])])})",
            f"{sent} AS {names.VALUE}",
            f"{sent} IS NULL OR ({complete}) AS {names.DECODED}",
            f"struct({', '.join(data)}) AS {names.DATA}",
        )
