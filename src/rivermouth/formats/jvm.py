"""Values that an existing Kafka deserializer decodes: what it returns fits the schema wholly, or is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self

from pydantic import Field, PrivateAttr, model_validator
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.decoding.declared.declared import DeclaredFormat
from rivermouth.decoding.jvm import jvm_deserializer
from rivermouth.decoding.jvm.jvm_deserializer import Deserializer
from rivermouth.decoding.python import python_values
from rivermouth.names import below
from rivermouth.spec import JarFormat, KeyFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEME: Final = re.compile(r"^[a-z0-9]+:")
# Their values differ where Java takes them for equal, or the other way round.
_NO_KEYS: Final = (T.BinaryType, T.FloatType, T.DoubleType)


class Jvm(DeclaredFormat, KeyFormat, JarFormat):
    """Values that a Kafka deserializer of your own, a Java class, decodes.

    Attributes:
        type: ``jvm``.
        class_name: ``class`` in YAML: full name of a class that implements
            ``org.apache.kafka.common.serialization.Deserializer``.
        files: ``jars`` in YAML: files with the class and what it needs, relative to the project file.
        config: What its ``configure`` gets; a text may hold references, as ``${REGISTRY_PASSWORD}``.
    """

    type: Literal["jvm"] = "jvm"
    class_name: str = Field(
        alias="class", pattern=r"^[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*$", examples=["com.acme.OrderDeserializer"]
    )
    files: tuple[str, ...] = Field(default=(), alias="jars")
    config: dict[str, str | bool | int | float] = Field(default={}, repr=False)
    _is_key: bool = PrivateAttr(default=False)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for jar in self.files:
            if _SCHEME.match(jar) or not jar.endswith(".jar"):
                msg = f"jars are files on this machine, with the ending .jar, and {jar} is none"
                raise ValueError(msg)
        return self

    @property
    def jars(self) -> tuple[str, ...]:
        """Files with its classes."""
        return self.files

    @property
    def config_texts(self) -> Mapping[str, str]:
        """The texts of its configuration."""
        return {name: value for name, value in self.config.items() if isinstance(value, str)}

    def with_config_texts(self, texts: Mapping[str, str]) -> Self:
        """The same format with these texts in its configuration."""
        return self.model_copy(update={"config": {**self.config, **texts}})

    def for_keys(self) -> Self:
        """The same format; the class is configured for keys."""
        same = self.model_copy()
        same._is_key = True  # noqa: SLF001 - of its own class
        return same

    @property
    def further_columns(self) -> tuple[str, ...]:
        """The verdict of each value."""
        return (names.VERDICT,)

    @property
    def reads_headers(self) -> bool:
        """A deserializer may look at them."""
        return True

    def with_base_dir(self, base: Path) -> Self:
        """The same format; paths of jars, and of a schema file, are resolved against ``base``."""
        files = tuple(str((base / jar).absolute()) for jar in self.files)
        return super().with_base_dir(base).model_copy(update={"files": files})

    def check_types(self, schema: T.StructType) -> None:
        """Makes sure that Java has values for all declared types, and that names are unambiguous.

        Raises:
            ValueError: It has not, or they are not; the text says which.
        """
        python_values.check(schema, of="Java", keyed="map")
        _check_keys(schema, "")

    def columns(self, spark: SparkSession) -> T.StructType:
        """The declared columns, in order, all nullable.

        Raises:
            DeserializerUnusable: The class is not in the session, is no deserializer, or refuses its configuration.
        """
        found = super().columns(spark)
        jvm_deserializer.check(spark, self._called())
        return found

    def decode(self, rows: DataFrame) -> DataFrame:
        """Values to columns by the class, called once for each; the verdict says why a value has no columns."""
        made = jvm_deserializer.decoded(rows.sparkSession, self._called())
        parts = {"decoded": names.DECODED, "data": names.DATA, "verdict": names.VERDICT}
        told = (f"__made.{part} AS {name}" for part, name in parts.items())
        return rows.select("*", made.alias("__made")).selectExpr("* EXCEPT (__made)", *told)

    def explain(self, rows: DataFrame) -> DataFrame:
        """What was said when the value was decoded: the class is not called for it.

        Reasons: ``DESERIALIZER_FAILED``, ``NO_DECLARED_FIELD``, ``FIELD_MISSING``, ``FIELD_TYPE``, ``INVALID_UTF8``.
        """
        parts = {names.REASON: "reason", names.FIELD: "field", names.MESSAGE: "message"}
        told = (f"{names.VERDICT}.{part} AS {name}" for name, part in parts.items())
        return rows.selectExpr("*", *told)

    def _called(self) -> Deserializer:
        schema = json.dumps(self.schema_as_declared().jsonValue())
        return Deserializer(self.class_name, self.files, self.config, schema, self._is_key, self.truncates_times)


def _check_keys(declared: T.DataType, path: str) -> None:
    match declared:
        case T.StructType():
            for each in declared.fields:
                _check_keys(each.dataType, below(path, each.name))
        case T.ArrayType():
            _check_keys(declared.elementType, f"{path}[]")
        case T.MapType():
            if isinstance(declared.keyType, _NO_KEYS):
                msg = f"column {path}: the keys of a map are no {declared.keyType.simpleString()}"
                raise ValueError(msg)  # noqa: TRY004 - the caller reports ValueErrors
            _check_keys(declared.valueType, f"{path}[]")


KIND = Jvm
