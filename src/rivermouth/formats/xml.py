"""XML, strictly: each value is one document whose parts fit the columns, or the value is refused."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.decoding.declared.jvm_row_format import StepFormat
from rivermouth.decoding.declared.named_fields import NamedFields
from rivermouth.decoding.python import python_values


class Xml(StepFormat, NamedFields):
    """XML documents: the columns of the schema are elements in the root, and further ones are ignored.

    A column ``_name`` is the attribute ``name`` and ``_VALUE`` an element's own text, as in Spark's reader of XML.
    Names are those without their namespace. Values are refused for ``INVALID_XML``, ``INVALID_UTF8``, ``TOO_DEEP``,
    ``NOT_AN_OBJECT``, ``NO_DECLARED_FIELD``, ``FIELD_TYPE`` and ``FIELD_MISSING``.

    Attributes:
        type: ``xml``.
        row_tag: The name of the root element; documents with another one are refused. Any will do if not given.
        null_value: An element or attribute whose text is this is null, as is one with ``xsi:nil="true"``; an empty text
            for one: ``null_value: ""``.
    """

    type: Literal["xml"] = "xml"
    row_tag: str | None = Field(default=None, min_length=1)
    null_value: str | None = None

    def check_types(self, schema: T.StructType) -> None:
        """Makes sure that XML has texts for all declared types, and that names are unambiguous.

        Raises:
            ValueError: It has not, or they are not; the text says which.
        """
        python_values.check(schema, of="XML", keyed="map")
        for field in schema.fields:
            _check_arrays(field.dataType, field.name)

    def step(self) -> tuple[Any, ...]:
        """The class that reads XML, with the schema and what else decides."""
        schema, any_fields = self.schema_as_declared().json(), not self.needs_declared_field
        return ("values.Xml", schema, self.row_tag, self.null_value, any_fields, self.truncates_times)


def _check_arrays(declared: T.DataType, path: str) -> None:
    match declared:
        case T.StructType():
            for field in declared.fields:
                _check_arrays(field.dataType, f"{path}.{field.name}")
        case T.MapType():
            _check_arrays(declared.valueType, f"{path}[]")
        case T.ArrayType(elementType=T.ArrayType()):
            msg = f"column {path}: an array in XML is an element that is repeated, and so is none of arrays"
            raise ValueError(msg)
        case T.ArrayType():
            _check_arrays(declared.elementType, f"{path}[]")


KIND = Xml
