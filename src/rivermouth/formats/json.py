"""Strict JSON with a declared schema: a value fits it wholly, or it is refused with reason and field."""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, PrivateAttr, ValidationInfo, field_validator, model_validator
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.decoding.declared.declared import INFER, hinted_columns, names_in_ddl, variants_as_declared
from rivermouth.decoding.declared.named_fields import NamedFields
from rivermouth.decoding.json import (
    json_explain,
    json_fast_path,
    json_schema_registry,
    json_spark_parser,
    json_types,
    nested_documents,
    undeclared_fields,
    undeclared_names,
)
from rivermouth.decoding.json.json_decode import KEPT, REFUSED, JsonDecoding, kept_names
from rivermouth.decoding.registry.registry_format import SubjectFormat
from rivermouth.decoding.times import json_times
from rivermouth.decoding.times.json_times import TimeForms
from rivermouth.schemas import column_policies, column_types, evolution
from rivermouth.spec import ArrayFormat, Evolution, InferringFormat, WrappedFormat
from rivermouth.spec.keyed import Texts

_OF_INFERENCE = ("schema_hints", "infer_times", "max_fields", "latest_per_key")
_GROWN = frozenset({"evolve"})
_FAIL = frozenset({"fail"})
_HINTS = 'write schema_hints: "at timestamp" for such columns'


class Json(SubjectFormat, NamedFields, InferringFormat, ArrayFormat, WrappedFormat):
    """JSON objects with a declared schema.

    Attributes:
        type: ``json``.
        schema_hints: Columns that are pinned where the schema is inferred, as DDL: ``amount decimal(10,2)``. A hint
            replaces the inferred type of its column, or adds a column.
        infer_times: Whether strings that are all dates or all timestamps become such columns where the schema is
            inferred.
        timestamp_format: How documents write timestamps, if not as in ISO 8601: one of Spark's datetime patterns,
            in UTC if it has no offset, or ``epoch_s``, ``epoch_ms`` or ``epoch_us`` for whole numbers since 1970.
        date_format: How documents write dates, if not as ``yyyy-MM-dd``: one of Spark's datetime patterns.
        framing: What comes before each document: nothing (``plain``), or as Confluent's serializers write it a zero
            and the id of a schema (``confluent``), unless a header has the id. It is not looked up.
        subject: Subject of the schema registry that has the table's schema, a JSON Schema, where no ``schema`` is
            given.
        version: Its version.
        documents_in_strings: Paths of fields that hold a JSON document as text, ``payload``, ``order.payload`` or
            ``items[].payload``: what is declared, or inferred, of such a field is that document.
        max_fields: An object below the document that has more distinct fields is inferred as a map; 500 by default.
        latest_per_key: Whether the schema is inferred from the newest record of each key alone.
    """

    renames: ClassVar[bool] = True
    variants: ClassVar[bool] = True
    rescues: ClassVar[bool] = True
    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["schema"]}, {"required": ["subject", "version"]}]}
    )
    type: Literal["json"] = "json"
    declared: str | dict[str, Any] = Field(default_factory=dict, alias="schema")
    schema_hints: str | None = None
    infer_times: bool = False
    framing: Literal["plain", "confluent"] = "plain"
    subject: str | None = Field(default=None, min_length=1)
    version: int | None = Field(default=None, gt=0)
    max_fields: int | None = Field(default=None, ge=1, le=5000)
    latest_per_key: bool = False
    timestamp_format: str | None = Field(default=None, min_length=1, max_length=200, examples=["dd/MM/yyyy HH:mm:ss"])
    date_format: str | None = Field(default=None, min_length=1, max_length=200, examples=["dd.MM.yyyy"])
    documents_in_strings: Texts = ()
    _array: ClassVar[str | None] = None
    _of_rows: bool = False
    _evolution: Evolution = Evolution().with_defaults(infers=False)
    _inferred: bool = False
    _before: T.StructType | None = None

    @field_validator("timestamp_format", "date_format")
    @classmethod
    def _readable(cls, value: str | None, info: ValidationInfo) -> str | None:
        """What can be said of a pattern before there is a Spark."""
        if value is not None:
            json_times.check_form(value, of_dates=info.field_name == "date_format")
        return value

    @field_validator("documents_in_strings")
    @classmethod
    def _paths(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        nested_documents.check_paths(value)
        return value

    @model_validator(mode="after")
    def _check_registry(self) -> Self:
        msg, given = self.unpaired, "declared" in self.model_fields_set
        if msg is None and given and self.subject is not None:
            msg = "the table's schema is one of two: schema: infer, or subject and version"
        elif msg is None and not given and self.subject is None:
            msg = 'schema is missing: schema: "id bigint, at timestamp"'
        if msg is not None:
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _check_inference(self) -> Self:
        forms = [name for name in ("timestamp_format", "date_format") if getattr(self, name) is not None]
        if forms and self.infer_times:
            msg = f"infer_times finds times as ISO 8601 has them, and {forms[0]} reads them otherwise: {_HINTS}"
            raise ValueError(msg)
        if forms and self.infers and self.schema_hints is None:
            msg = f"no column is inferred that {forms[0]} is about: {_HINTS}"
            raise ValueError(msg)
        for name in () if self.infers else _OF_INFERENCE:
            if name in self.model_fields_set:
                msg = f"{name} is about a schema that is inferred: write schema: infer, or leave it out"
                raise ValueError(msg)
        if self.infers and "no_declared_field" in self.model_fields_set:
            msg = "no_declared_field is about a declared schema, and this one is inferred: leave it out"
            raise ValueError(msg)
        return self

    @property
    def infers(self) -> bool:
        """Whether the schema is inferred from what is read."""
        return self.declared == INFER

    def with_loaded_files(self, spark: SparkSession) -> Self:
        """The same format; a schema file is read, or the registry asked for the schema.

        Raises:
            SchemaRegistryFailed: The registry has none, or does not give it.
        """
        if self.subject is None:
            return super().with_loaded_files(spark)
        found = json_schema_registry.columns(spark, self.access(), self.subject, self.version or 0)
        return self.model_copy(update={"declared": found.jsonValue(), "subject": None, "version": None})

    @property
    def has_schema_header(self) -> bool:
        """Whether a zero and the id of a schema stand before each document."""
        return self.framing == "confluent"

    @property
    def string_documents(self) -> tuple[str, ...]:
        """Paths of strings that hold documents."""
        return self.documents_in_strings

    @property
    def inference(self) -> Mapping[str, Any]:
        """``infer_times``, ``latest_per_key``, ``max_fields`` if it is given, and the names of columns of any shape."""
        apart = variants_as_declared(self.schema_hints if self.infers else self.declared)
        given = {} if self.max_fields is None else {"max_fields": self.max_fields}
        return {"times": self.infer_times, "latest_per_key": self.latest_per_key, "apart": apart, **given}

    @property
    def pinned(self) -> frozenset[str]:
        """The columns that the hints name."""
        return frozenset(name.lower() for name in names_in_ddl(self.schema_hints or ""))

    def with_schema(self, schema: T.StructType) -> Self:
        """The same format with the columns that were kept.

        Inferred ones with what the hints say of them, or declared ones with what has grown out of them.

        Raises:
            ValueError: The hints, or the schema, cannot be read.
        """
        inferred = self.infers or self._inferred
        known = T.StructType() if self.infers else self.schema_as_declared()
        grown = evolution.overlaid(known, schema, whole=inferred)
        same = self.model_copy(update={"declared": hinted_columns(grown, self.schema_hints).jsonValue()})
        same._inferred, same._before = inferred, None if inferred else self._before or known  # noqa: SLF001
        return same

    def with_policies(self, evolution: Evolution) -> Self:
        """The same format under policies."""
        if evolution == self._evolution:
            return self
        same = self.model_copy()
        same._evolution = evolution  # noqa: SLF001
        return same

    def columns(self, spark: SparkSession) -> T.StructType:
        """The declared columns, all nullable, and ``_rescued`` where fields are rescued.

        Raises:
            ValueError: The schema cannot be read, or a policy is for a column that there never is; the text says why.
        """
        found = super().columns(spark)
        if not self._inferred:
            nested_documents.check(self.documents_in_strings, self.schema_as_declared())
        if self._forms != TimeForms():
            session = {name: spark.conf.get(name, None) for name in json_times.SETTINGS}
            self._forms.check(self.schema_as_declared(), session)
            self._check_digits()
        column_policies.check(self.schema_as_declared(), self._evolution)
        if not self._evolution.rescues:
            return found
        if column_types.RESCUED in (name.lower() for name in found.names):
            msg = f"a column is named {column_types.RESCUED}, and that is the column of rescued fields"
            raise ValueError(msg)
        return T.StructType([*found.fields, T.StructField(column_types.RESCUED, T.StringType())])

    def _check_digits(self) -> None:
        fields = self.schema_as_declared().fields
        if self.refuses_finer_times:
            self._forms.check_digits(fields, "timestamp_precision: refuse")
        elif not self.truncates_times:
            self._forms.check_digits((each for each in fields if self._shall_keep(each)), "on_type_change")

    @property
    def is_fixed(self) -> bool:
        """Whether all columns are declared; else some are inferred."""
        return not self._inferred

    @property
    def _forms(self) -> TimeForms:
        return TimeForms(self.timestamp_format, self.date_format)

    def as_array(self, *, of_rows: bool = False) -> Json:
        """This format for arrays of objects."""
        forms = {"timestamp_format": self.timestamp_format, "date_format": self.date_format}
        found = _Arrays.model_validate({"type": "json", "schema": self.declared, **forms})
        found._of, found._of_rows = self, of_rows  # noqa: SLF001
        return found

    def elements(self, spark: SparkSession) -> Column:
        """The elements of JSON arrays, byte for byte."""
        return json_fast_path.elements(spark, names.VALUE)

    def decode(self, rows: DataFrame) -> DataFrame:
        """Values to columns in one pass, and scans for what a policy asks for."""
        schema = self._read_as(self._forms.marked(self._strict_schema()))
        found = JsonDecoding(schema, self._evolution, self._exact, self.needs_declared_field).decoded(rows)
        return undeclared_names.named(found, self.schema_as_declared()) if self._names_undeclared else found

    def _read_as(self, schema: T.StructType) -> T.StructType:
        return json_types.with_floats_of_rows(schema) if self._of_rows else schema

    @property
    def needs_declared_field(self) -> bool:
        """Whether a document that has none of the declared columns is refused; of an inferred schema none is."""
        return super().needs_declared_field and not self._inferred

    @property
    def _exact(self) -> dict[str, Any]:
        """Where each digit counts: in columns that were inferred, and where it is said what else happens."""
        # Not in times of another form: it says itself how many digits it reads.
        schema = self._forms.marked(self.schema_as_declared())
        times = None if self.timestamp_precision is None else self.refuses_finer_times
        return undeclared_fields.exact_tree(schema, self._shall_keep, self._before, times=times)

    def _shall_keep(self, column: T.StructField) -> bool:
        inferred = self._inferred and column.name.lower() not in self.pinned
        return inferred or self._evolution.is_type_change_given(column.name)

    def rows_to_inspect(self, spark: SparkSession) -> Column:
        """Documents with fields or numbers that the schema may grow by; all that are refused, if one may fail."""
        schema, policies = self.schema_as_declared(), self._evolution
        looked = ~F.col(names.DECODED)
        if policies.rescues:
            looked |= F.col(f"{names.DATA}.{column_types.RESCUED}").isNotNull()
        signs = [undeclared_fields.wider_numbers(spark, schema, policies, names.VALUE, pinned=self.pinned)]
        if evolution.size(schema) < policies.max_columns:
            signs.append(undeclared_fields.fields(spark, schema, policies, _GROWN, names.VALUE).isNotNull())
        if policies.says("fail"):
            signs.append(~F.col(names.DECODED) & undeclared_fields.sound(spark, names.VALUE))
        return looked & F.col(names.VALUE).isNotNull() & functools.reduce(operator.or_, signs)

    def _strict_schema(self) -> T.StructType:
        """The schema as declared; a column whose absence stops the flow is NOT NULL."""
        strict = [
            T.StructField(each.name, each.dataType, False, each.metadata)
            if self._evolution.missing_column(each.name) == "fail"
            else each
            for each in self.schema_as_declared().fields
        ]
        return T.StructType(strict)

    def explain(self, rows: DataFrame) -> DataFrame:
        """Each value is read again in Python, which names the first thing that is wrong with it.

        Reasons: ``INVALID_UTF8``, ``INVALID_JSON``, ``LONE_SURROGATE``, ``TOO_DEEP``, ``TOO_LONG``,
        ``NOT_AN_OBJECT``, ``NOT_AN_ARRAY``, ``FIELD_MISSING``, ``FIELD_TYPE``, ``FIELD_UNDECLARED``,
        ``NO_DECLARED_FIELD``, and ``UNEXPLAINED`` where Python finds nothing.
        """
        schema = self._strict_schema()
        known = undeclared_fields.fields_tree(schema, self._evolution, REFUSED)
        texts = {"known": json.dumps(known), "exact": json.dumps(self._exact), "named": json.dumps(self._named())}
        verdict = json_explain.explainer(self._checked(schema), array=self._array, **texts)
        refused = F.expr(f"CASE WHEN NOT {names.DECODED} THEN {names.VALUE} END")
        parts = {names.REASON: "reason", names.FIELD: "field", names.MESSAGE: "message"}
        told = (f"__verdict.{part} AS {name}" for name, part in parts.items())
        return rows.withColumn("__verdict", verdict(refused)).selectExpr("* EXCEPT (__verdict)", *told)

    def _checked(self, schema: T.StructType) -> json_explain.Documents:
        """With the columns of a schema that a document must fit."""
        fields = [each for each in schema.fields if not undeclared_fields.is_rescued(each, self._evolution)]
        return json_explain.Documents(T.StructType(fields).json(), self._forms, self._of_rows)

    def _named(self) -> Any:
        """As ``json_explain.explainer`` wants it: what a document must have that has none of the checked columns."""
        if not self.needs_declared_field:
            return None
        if self._evolution.on_new_column in KEPT:
            return True
        spared = [each for each in self.schema_as_declared() if undeclared_fields.is_rescued(each, self._evolution)]
        return [*(column_types.name_in_json(each) for each in spared), *kept_names(self._evolution)]

    def stop_reasons(self, rows: DataFrame) -> DataFrame:
        """``rows`` of refused documents with all their problems, a row for each, in ``__reason`` and ``__field``.

        Undeclared fields are included only if their policy is ``fail``.
        """
        schema = self._strict_schema()
        known = undeclared_fields.fields_tree(schema, self._evolution, _FAIL)
        found = json_explain.finder(self._checked(schema), json.dumps(known), json.dumps(self._exact))
        told = rows.withColumn("__found", F.explode(found(F.col(names.VALUE))))
        return told.selectExpr(
            "* EXCEPT (__found)", f"__found.reason AS {names.REASON}", f"__found.field AS {names.FIELD}"
        )

    @property
    def further_columns(self) -> tuple[str, ...]:
        """The undeclared fields, where ``decode`` looks for them."""
        return (names.UNDECLARED,) if self._names_undeclared else ()

    @property
    def _names_undeclared(self) -> bool:
        """Whether the schema has structs, within which undeclared fields are looked for, and ignores them."""
        return self._ignores_new and undeclared_names.has_nested(self.schema_as_declared())

    @property
    def _ignores_new(self) -> bool:
        return self._array is None and self._evolution.on_new_column == "ignore"

    def undeclared_names(self) -> str | None:
        """Those of the document and of the structs in it, of records in a sample; None where they are not ignored."""
        if not self._ignores_new:
            return None
        return names.UNDECLARED if self._names_undeclared else undeclared_names.of_documents(self.schema_as_declared())


class _Arrays(Json):
    """JSON arrays of objects with a declared schema, read as the one field of a document."""

    _array: ClassVar[str | None] = names.ROWS
    _of: Json | None = PrivateAttr(default=None)

    @property
    def _exact(self) -> dict[str, Any]:
        # Of arrays nothing is inferred; the flow's rules say so. Asked for only now: before there is a Spark, flows are
        # checked too.
        elements = {} if self._of is None or self._of.infers else self._of._exact  # noqa: SLF001
        return {"fields": {names.ROWS: {"items": elements}}} if elements else {}

    def schema_as_declared(self) -> T.StructType:
        """One column, an array of what is declared."""
        return T.StructType([T.StructField(names.ROWS, T.ArrayType(super().schema_as_declared()))])

    def decode(self, rows: DataFrame) -> DataFrame:
        """Values to one column."""
        front, end = (f"CAST({names.literal(text)} AS BINARY)" for text in (f'{{"{names.ROWS}":', "}"))
        document = F.expr(f"concat({front}, {names.VALUE}, {end})")
        kept = [name for name in rows.columns if name != names.VALUE]
        wrapped = rows.select(*kept, F.col(names.VALUE).alias("__array"), document.alias(names.VALUE))
        # Behind the array something may follow that makes the document one with more fields.
        alone = f"({names.VALUE} IS NULL OR coalesce(size(json_object_keys({json_spark_parser.TEXT})) = 1, false))"
        return (
            super()
            .decode(wrapped)
            .selectExpr(
                f"* EXCEPT (__array, {names.VALUE}, {names.DECODED})",
                f"__array AS {names.VALUE}",
                f"{names.DECODED} AND {alone} AS {names.DECODED}",
            )
        )


KIND = Json
