"""``from_avro`` and ``to_avro`` by a schema registry, with the arguments that Databricks adds to Spark's functions.

See https://docs.databricks.com/en/structured-streaming/avro-dataframe.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.avro import functions as of_spark

from rivermouth.decoding.avro import avro_document
from rivermouth.decoding.avro.avro_document import Encoding
from rivermouth.decoding.registry import schema_registry
from rivermouth.decoding.registry.schema_registry import NEWEST, RegistryAccess
from rivermouth.encoding.framing import frame
from rivermouth.errors import DefinitionInvalid
from rivermouth.names import did_you_mean
from rivermouth.ports.internals.expressions import literal_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark's own, also while others are in their place.
_FROM_AVRO: Final[Callable[..., Column]] = of_spark.from_avro
_TO_AVRO: Final[Callable[..., Column]] = of_spark.to_avro
_REGISTRY: Final = "confluent.schema.registry."
_LOGIN: Final = f"{_REGISTRY}basic.auth.user.info"
_LOGIN_SOURCE: Final = f"{_REGISTRY}basic.auth.credentials.source"
_ID: Final = f"{_REGISTRY}schema.id"
_MODE: Final = "mode"
_EVOLUTION: Final = "avroSchemaEvolutionMode"
_OF_BOTH: Final = (_LOGIN, _LOGIN_SOURCE)
_OF_READS: Final = (*_OF_BOTH, _ID, _MODE, _EVOLUTION)
_TAKEN: Final = {_LOGIN_SOURCE: ("USER_INFO",), _MODE: ("FAILFAST", "PERMISSIVE"), _EVOLUTION: ("NONE", "RESTART")}


@dataclass(frozen=True)
class AvroFunctions:
    """The two functions, in one pipeline.

    Attributes:
        spark: The pipeline's session.
        access: How the project reaches its schema registry; None where it has none.
        here: Gives the line of the user's code that calls.
    """

    spark: SparkSession
    access: Callable[[], RegistryAccess | None]
    here: Callable[[], object]

    def from_avro(
        self,
        data: Column | str,
        jsonFormatSchema: str | None = None,  # noqa: N803
        options: Mapping[str, str] | None = None,
        subject: Column | str | None = None,
        schemaRegistryAddress: str | None = None,  # noqa: N803
    ) -> Column:
        """The values of a binary column in Confluent's framing, by the newest schema of a subject.

        The option ``confluent.schema.registry.schema.id`` or ``jsonFormatSchema`` gives another schema. Without
        ``subject`` and ``schemaRegistryAddress`` it is Spark's own function.

        Returns:
            A struct of the schema's columns, or the value of a schema that is no record; null for null.

        Raises:
            DefinitionInvalid: An argument or an option is wrong.
            SchemaRegistryFailed: The registry has no such schema, or does not say.
        """
        if subject is None and schemaRegistryAddress is None:
            return _FROM_AVRO(data, jsonFormatSchema, options)
        call = self._call("from_avro", subject, schemaRegistryAddress, options, _OF_READS)
        fails_on = {
            *(() if call.option(_MODE) == "PERMISSIVE" else ("refused",)),
            *(("undeclared",) if call.option(_EVOLUTION) == "RESTART" else ()),
        }
        try:
            schema = jsonFormatSchema or self._schema(call)
            encoding = Encoding(schema, "confluent", registry=call.registry, id_header="")
            return avro_document.values(self.spark, encoding, _column(data), fails_on=fails_on)
        except ValueError as error:
            fix = 'jsonFormatSchema=\'{"type": "record", ...}\'' if jsonFormatSchema else "name another subject"
            raise call.invalid(str(error), fix) from error

    def to_avro(
        self,
        data: Column | str,
        jsonFormatSchema: str = "",  # noqa: N803
        subject: Column | str | None = None,
        schemaRegistryAddress: str | None = None,  # noqa: N803
        options: Mapping[str, str] | None = None,
    ) -> Column:
        """Values in Confluent's framing, by the newest schema of a subject.

        Without ``subject`` and ``schemaRegistryAddress`` it is Spark's own function.

        Returns:
            A binary column; null for null.

        Raises:
            DefinitionInvalid: An argument or an option is wrong.
            SchemaRegistryFailed: The registry has no such subject, or does not say.
        """
        if subject is None and schemaRegistryAddress is None:
            return _TO_AVRO(data, jsonFormatSchema)
        call = self._call("to_avro", subject, schemaRegistryAddress, options, _OF_BOTH)
        if jsonFormatSchema:
            detail = "it has a subject and jsonFormatSchema, and rivermouth registers no schemas"
            raise call.invalid(detail, "register the schema, and leave jsonFormatSchema out")
        version, number = schema_registry.newest(self.spark, call.registry, call.subject)
        schema = avro_document.of_registry(self.spark, call.registry, call.subject, version)
        return F.when(_column(data).isNotNull(), F.concat(F.lit(frame(number)), _TO_AVRO(data, schema)))

    def _schema(self, call: _Call) -> str:
        number = call.option(_ID)
        if not number:
            return avro_document.of_registry(self.spark, call.registry, call.subject, NEWEST)
        if not number.isdecimal():
            raise call.invalid(f"the option {_ID} is no number", f'options={{"{_ID}": "1"}}')
        return avro_document.with_id(self.spark, call.registry, int(number))

    def _call(
        self,
        function: str,
        subject: Column | str | None,
        address: str | None,
        options: Mapping[str, str] | None,
        known: tuple[str, ...],
    ) -> _Call:
        def invalid(detail: str, fix: str) -> DefinitionInvalid:
            return DefinitionInvalid(at=str(self.here()), definition=function, detail=detail, fix=fix)

        name = literal_value(self.spark, subject) if isinstance(subject, Column) else subject
        if not isinstance(name, str) or not address:
            raise invalid("subject and schemaRegistryAddress go together, as texts", 'subject="orders-value"')
        found = {}
        for given, value in (options or {}).items():
            option = {each.lower(): each for each in known}.get(given.lower())
            if option is None:
                raise invalid(f"it has no option {given}", did_you_mean(given, known))
            if option in _TAKEN and str(value).upper() not in _TAKEN[option]:
                raise invalid(f"the option {option} is one of {', '.join(_TAKEN[option])}", f"leave {option} out")
            found[option] = str(value)
        return _Call(name, self._registry(address, found.get(_LOGIN, ""), invalid), found, invalid)

    def _registry(self, address: str, login: str, invalid: Callable[[str, str], DefinitionInvalid]) -> RegistryAccess:
        """The project's registry, with its login and certificates, if it has that address; else one without."""
        if (problem := schema_registry.address_problem(address)) is not None:
            fix = 'schemaRegistryAddress="https://registry.example:8081"'
            raise invalid(f"schemaRegistryAddress: {problem[0]}", fix)
        found = self.access()
        if found is None or found.url.rstrip("/") != address.rstrip("/"):
            found = RegistryAccess(url=address)
        if not login:
            return found
        username, colon, password = login.partition(":")
        if not colon:
            raise invalid(f"the option {_LOGIN} is no login", f'options={{"{_LOGIN}": f"{{name}}:{{password}}"}}')
        return replace(found, username=username, password=password)


@dataclass(frozen=True)
class _Call:
    """What one call says."""

    subject: str
    registry: RegistryAccess
    options: Mapping[str, str] = field(repr=False)
    invalid: Callable[[str, str], DefinitionInvalid]

    def option(self, name: str) -> str:
        """An option in capitals; empty if it is not given."""
        return self.options.get(name, "").upper()


@contextmanager
def with_registry(functions: AvroFunctions) -> Iterator[None]:
    """In the block ``pyspark.sql.avro.functions`` has these functions."""
    before = {name: getattr(of_spark, name) for name in ("from_avro", "to_avro")}
    for name in before:
        setattr(of_spark, name, getattr(functions, name))
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(of_spark, name, function)


def _column(data: Column | str) -> Column:
    return F.col(data) if isinstance(data, str) else data
