"""Values that a function of the user's own decodes: what it returns fits the declared schema wholly, or is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Self

from pydantic import Field, PrivateAttr
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.decoding.declared.declared import DeclaredFormat
from rivermouth.decoding.python import python_decode, python_function, python_values
from rivermouth.decoding.python.python_decode import COLUMNS, Call

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_SECONDS: Final = 60.0


class Python(DeclaredFormat):
    """Values that a Python function of your own decodes.

    Attributes:
        type: ``python``.
        function: ``module:function``, as ``decode:orders`` for ``orders`` in a file ``decode.py`` next to the project
            file; or the name of an entry point of the group ``rivermouth.functions``. It gets the value as bytes and
            returns a dict of the declared columns, or None to leave the record out. It may also take ``topic``,
            ``key`` and ``headers``, by these names.
        arrow: Whether the function takes a ``pyarrow.Array`` of many values instead, and returns a
            ``pyarrow.StructArray`` with a row for each of them.
        timeout_s: Seconds after which a call that has not returned is given up, and its record refused.
    """

    reads_keys: ClassVar[bool] = False
    type: Literal["python"] = "python"
    function: str = Field(min_length=1, examples=["decode:orders"])
    arrow: bool = False
    timeout_s: float = Field(default=_SECONDS, gt=0, le=86_400)
    _folder: str | None = PrivateAttr(default=None)
    _call: Call | None = PrivateAttr(default=None)

    def with_base_dir(self, base: Path) -> Self:
        """The same format; the function's module may lie in ``base``."""
        same = super().with_base_dir(base).model_copy()
        same._folder = str(base.absolute())  # noqa: SLF001
        return same

    def with_loaded_files(self, spark: SparkSession) -> Self:
        """The same format; a schema file is read, and the function is looked at.

        Raises:
            FunctionUnusable: It cannot be imported or called, or asks for something that nobody has.
        """
        same = super().with_loaded_files(spark).model_copy()
        same._call = same.call()  # noqa: SLF001
        return same

    def columns(self, spark: SparkSession) -> StructType:
        """The declared columns, in order, all nullable.

        Raises:
            FunctionUnusable: The function cannot be imported or called, or asks for something that nobody has.
        """
        self.call()
        return super().columns(spark)

    def check_types(self, schema: StructType) -> None:
        """Makes sure that Python has values for all declared types, and that names are unambiguous.

        Raises:
            ValueError: It has not, or they are not; the text says which.
        """
        python_values.check(schema)

    @property
    def further_columns(self) -> tuple[str, ...]:
        """The verdict of each value."""
        return (names.VERDICT,)

    @property
    def reads_headers(self) -> bool:
        """Whether the function asks for them."""
        return "headers" in self.call().asks

    def call(self) -> Call:
        """The function and how it is called.

        Raises:
            FunctionUnusable: It cannot be imported or called, or asks for something that nobody has.
        """
        if self._call is not None:
            return self._call
        where = python_function.reference(self.function, self._folder)
        asks = python_function.asked_for(where, arrow=self.arrow)
        schema = json.dumps(self.schema_as_declared().jsonValue())
        return Call(where, schema, asks, self.arrow, self.timeout_s, self.truncates_times)

    def decode(self, rows: DataFrame) -> DataFrame:
        """Values to columns by the function, called once for each; the verdict says why a value has no columns."""
        call = self.call()
        asked = (F.col(COLUMNS[name]) for name in call.asks)
        made = python_decode.decoder(call)(F.col(names.VALUE), *asked)
        # Else Spark might call it once for each column that is taken out of it.
        return rows.select("*", F.inline(F.array(made)).alias(names.DECODED, names.DATA, names.VERDICT))

    def explain(self, rows: DataFrame) -> DataFrame:
        """What was said when the value was decoded: the function is not called for it.

        Reasons: ``FUNCTION_FAILED``, ``FIELD_MISSING``, ``FIELD_UNKNOWN``, ``FIELD_TYPE``.
        """
        parts = {names.REASON: "reason", names.FIELD: "field", names.MESSAGE: "message"}
        told = (f"{names.VERDICT}.{part} AS {name}" for name, part in parts.items())
        return rows.selectExpr("*", *told)


KIND = Python
