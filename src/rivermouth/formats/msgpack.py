"""MessagePack, strictly: each value is one map, and every column fits, or the value is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from rivermouth.decoding.declared.jvm_row_format import StepFormat
from rivermouth.decoding.declared.named_fields import NamedFields
from rivermouth.decoding.python import python_values

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class Msgpack(StepFormat, NamedFields):
    """Maps in MessagePack: the columns of the schema are keys, and further keys are ignored.

    Values are refused for ``NOT_AN_OBJECT``, ``TRUNCATED``, ``TRAILING_BYTES``, ``INVALID_MSGPACK``, ``INVALID_UTF8``,
    ``TOO_DEEP``, ``NO_DECLARED_FIELD``, ``FIELD_TYPE`` and ``FIELD_MISSING``.

    Attributes:
        type: ``msgpack``.
    """

    type: Literal["msgpack"] = "msgpack"

    def check_types(self, schema: StructType) -> None:
        """Makes sure that MessagePack has values for all declared types, and that names are unambiguous.

        Raises:
            ValueError: It has not, or they are not; the text says which.
        """
        python_values.check(schema, of="MessagePack", keyed="map")

    def step(self) -> tuple[Any, ...]:
        """The class that reads MessagePack, with the schema."""
        schema, any_fields = self.schema_as_declared().json(), not self.needs_declared_field
        return ("values.MessagePack", schema, any_fields, self.truncates_times)


KIND = Msgpack
