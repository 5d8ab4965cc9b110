"""What formats can do. Each decodes values and explains what it refuses; the other classes here are capabilities.

A format has a capability by being a subclass of its class. ``FlowFields`` looks which of them a format has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from rivermouth import names
from rivermouth.spec.values import ConfigModel

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

    from rivermouth.spec.evolution import Evolution


class Format(ConfigModel):
    """Base of the formats: how the value of a record becomes columns.

    A subclass lives in ``formats/<type>.py`` (assigned there to ``KIND``) and is pure: frames in, frames out. It needs
    ``columns``, ``decode`` and ``explain``; all else here has a default.

    Attributes:
        type: Its name in YAML.
        accepts_all: Whether ``decode`` refuses no value at all.
        reads_keys: Whether it may be a ``key_format``.
        further_reasons: Codes of reasons that no format of rivermouth's own has.
        schema_example: A schema as its YAML has it, for hints.
    """

    type: str
    accepts_all: ClassVar[bool] = False
    reads_keys: ClassVar[bool] = True
    further_reasons: ClassVar[frozenset[str]] = frozenset()
    schema_example: ClassVar[str] = 'schema: "id bigint, at timestamp"'

    @property
    def further_columns(self) -> tuple[str, ...]:
        """What ``decode`` adds besides ``__data`` and ``__decoded``: ``__verdict``, ``__undeclared`` or both."""
        return ()

    @property
    def has_verdict(self) -> bool:
        """Whether ``decode`` itself says why it refuses a value."""
        return names.VERDICT in self.further_columns

    @property
    def reads_headers(self) -> bool:
        """Whether values are decoded with the headers of their records."""
        return False

    def with_base_dir(self, _base: Path) -> Self:
        """The same format with relative paths of its files resolved against the project file's folder."""
        return self

    def with_loaded_files(self, _spark: SparkSession) -> Self:
        """The same format with what its files say now: later changes of the files do not change it.

        Raises:
            ValueError: A file cannot be read; the text says why.
        """
        return self

    def columns(self, spark: SparkSession) -> StructType:
        """The payload columns, in order, all nullable.

        Raises:
            ValueError: The declared schema cannot be read; the text says why.
        """
        raise NotImplementedError

    def decode(self, rows: DataFrame) -> DataFrame:
        """Values to columns, at full speed and without reasons.

        Called once for many batches, over a frame without rows: by expressions over its columns alone.

        Args:
            rows: Has the envelope columns (``names.ENVELOPE``), ``__value`` binary.

        Returns:
            ``rows`` with ``__data`` (a struct of the payload columns: null ones where ``__value`` is null, and
            whatever they are where it was refused) and ``__decoded`` (boolean, never null; true where ``__value``
            is null), and ``further_columns``.

            ``__verdict`` is a struct of ``skipped`` (boolean: the record is left out and counted as dropped) and of
            what ``explain`` says of the value. ``__undeclared`` (array of strings) has the names of the value's fields
            that no column has.
        """
        raise NotImplementedError

    def explain(self, rows: DataFrame) -> DataFrame:
        """Why values were refused.

        Args:
            rows: As ``decode`` returns them. What is said of those with ``__decoded`` true is not looked at.

        Returns:
            ``rows`` with ``__reason`` (a closed code), ``__field`` (dotted path or null) and ``__message``
            (a sentence without row contents), all strings.
        """
        raise NotImplementedError

    def undeclared_names(self) -> str | None:
        """SQL over a routed row: the names of the value's fields that no column has; None where nobody looks for them.

        An array of strings, empty where there are none, null for a record that is not looked at: a sample is enough.
        The names are counted in the same pass as the write.
        """
        return None


class EvolvingFormat(Format):
    """A format whose schema may grow, by the policies of ``evolution``.

    Attributes:
        rescues: Whether policies may keep in ``_rescued`` what the schema does not foresee.
    """

    rescues: ClassVar[bool] = False

    @property
    def evolves(self) -> bool:
        """Whether its settings allow ``evolution``."""
        return True

    @property
    def pinned(self) -> frozenset[str]:
        """Names, in lower case, of columns whose types are declared though the others are inferred."""
        return frozenset()

    def schema_as_declared(self) -> StructType:
        """The columns as they are declared, or were inferred, NOT NULL and all.

        Raises:
            ValueError: They cannot be read; the text says why.
        """
        raise NotImplementedError

    def with_schema(self, schema: StructType) -> Self:
        """The same format with columns that were inferred, or that its schema has grown to.

        Raises:
            ValueError: What the format says of them cannot be read.
        """
        raise NotImplementedError

    def with_policies(self, evolution: Evolution) -> Self:
        """The same format under policies for what its schema does not foresee; each of them is given."""
        raise NotImplementedError

    def rows_to_inspect(self, spark: SparkSession) -> Column:
        """Of rows as ``decode`` returns them: whether a value was refused that the policies say more about.

        Never null. A schema that grows may take it, or it stops the flow.
        """
        raise NotImplementedError

    def stop_reasons(self, rows: DataFrame) -> DataFrame:
        """Of refused rows all that is wrong with them and a policy may stop the flow for: ``__reason``, ``__field``.

        A row each, with the columns of ``rows``.
        """
        raise NotImplementedError


class InferringFormat(EvolvingFormat):
    """A format that can infer its columns from what is read; ``with_schema`` gives it those."""

    @property
    def infers(self) -> bool:
        """Whether its columns are inferred."""
        raise NotImplementedError

    @property
    def inference(self) -> Mapping[str, Any]:
        """Those of its settings that are given: ``times``, ``max_fields``, ``latest_per_key`` and ``apart``."""
        return {}


class ArrayFormat(Format):
    """A format of documents, for which a value may also be an array of documents."""

    def as_array(self, *, of_rows: bool = False) -> Format:
        """The format for values that are such arrays: it has one column, ``rows``.

        Args:
            of_rows: Whether the documents were written of rows. Then numbers that documents cannot have are texts in
                them: NaN, and the infinities.
        """
        raise NotImplementedError

    def elements(self, spark: SparkSession) -> Column:
        """The elements of ``__value`` (array of binary), each a value that ``decode`` can judge alone.

        A value that is no array is its own only element. Null where it is null, or its elements cannot be found.
        """
        raise NotImplementedError


class WrappedFormat(Format):
    """A format whose documents may be inside of something that ``decode`` does not get."""

    @property
    def has_schema_header(self) -> bool:
        """Whether each value begins with a zero and the id of a schema."""
        return False

    @property
    def string_documents(self) -> Sequence[str]:
        """Paths of strings in each value that hold documents; ``decode`` gets these in their place."""
        return ()


class KeyFormat(Format):
    """A format that reads keys in another way than values."""

    @property
    def makes_struct_of_keys(self) -> bool:
        """Whether ``key_type`` is known to be a struct before the schema is read."""
        return True

    def key_type(self, spark: SparkSession) -> DataType:
        """The type of ``kafka_key``: a struct of the columns, or the type of the only one.

        Raises:
            ValueError: The declared schema cannot be read; the text says why.
        """
        return self.columns(spark)

    def for_keys(self) -> Self:
        """The same format, for the keys of records."""
        return self

    def for_tombstone_keys(self) -> Format | None:
        """The format that reads a row from the key of a record without a value.

        None: the key is plain JSON, or one value.
        """
        return None


class RegistryFormat(Format):
    """A format that may read schemas from the project's schema registry."""

    @property
    def reads_registry(self) -> bool:
        """Whether it does, as it is configured."""
        raise NotImplementedError

    def with_registry(self, registry: object) -> Self:
        """The same format, that asks this registry (a ``RegistryAccess``)."""
        raise NotImplementedError


def reads_registry(form: Format | None) -> bool:
    """Whether a format reads schemas from the project's schema registry."""
    return isinstance(form, RegistryFormat) and form.reads_registry


class EncodingFormat(Format):
    """A format that can also write values: what a sink makes of rows."""

    @property
    def unwritable(self) -> str | None:
        """Why no value can be written with these settings, and what to write instead; None if it can."""
        raise NotImplementedError

    def encoded(self, spark: SparkSession, there: StructType) -> Column:
        """The value of a row, binary, of the columns that have the names of the format's.

        Called with each batch; files and the registry are read with the first.

        Args:
            spark: Any session.
            there: The columns of a row.

        Raises:
            ValueError: The columns are not those of the schema; the text says why.
            RivermouthError: The schema cannot be read.
        """
        raise NotImplementedError


class JarFormat(Format):
    """A format that runs Java classes of the user's."""

    @property
    def jars(self) -> Sequence[str]:
        """Files with the classes: they are on the class path of a session that is started for it."""
        raise NotImplementedError

    @property
    def config_texts(self) -> Mapping[str, str]:
        """Texts of its ``config``, by their names; references in them are resolved."""
        raise NotImplementedError

    def with_config_texts(self, texts: Mapping[str, str]) -> Self:
        """The same format with these texts in its ``config``."""
        raise NotImplementedError


class ChangeEnvelope(Format):
    """A format whose values are changes of a source's rows.

    ``decode`` also adds ``__operation`` (insert, read, update, delete, truncate, skip; null where ``__value`` is null
    or was refused), ``__source_timestamp`` (timestamp), ``__source_position`` and ``__primary_key`` (string, a JSON
    object), all null where the envelope does not have them, and ``__misfit``, which ``explain`` reads.

    A format that ``splits`` adds ``__old`` (like ``__data``, the row before an update, as far as it is known, or null),
    ``__old_primary_key`` and ``__ordinal`` (int), and makes a row of each row of the source; the first of a record has
    the ordinal 0. One that does not split adds ``__moved``, the names of the columns that an update changed (array of
    strings), as far as the row before it is known; null where it is not. Columns that hold more than one value are not
    among them.

    Attributes:
        splits: Whether one record may be several changes of a keyed table.
        several_rows: Whether one record may hold several rows of the source, so that only a keyed table can take it.
        truncates: Whether a change may delete all rows of the source.
        whole_deletions: Whether a deletion has its row as it was, and not made-up values in some columns.
    """

    reads_keys: ClassVar[bool] = False
    splits: ClassVar[bool] = False
    several_rows: ClassVar[bool] = False
    truncates: ClassVar[bool] = False
    whole_deletions: ClassVar[bool] = True

    def rows_of_record(self) -> str | None:
        """SQL over rows with ``__value``: how many rows of the source the record holds; None if it is always one."""
        return None

    @property
    def omits_values(self) -> bool:
        """Whether a change may leave out values that the row of its key has."""
        return False

    def omitted_values(self) -> Mapping[str, str]:
        """By column whose value a change may leave out: SQL of what the column has while nobody knows the value."""
        return {}

    def keeping_values(self, _whole: Collection[str]) -> Self:
        """The same format for a table whose rows keep the values that a change leaves out.

        ``decode`` then adds ``__unavailable``, the names of the columns that the change leaves out (array of strings),
        or null. A change that lacks another value is still refused.

        Args:
            _whole: The names, in lower case, of the columns whose value each change must have.
        """
        return self


_F = TypeVar("_F", bound=Format)


def require_capability(form: Format, capability: type[_F]) -> _F:
    """The same object, for type checkers too.

    Raises:
        TypeError: It does not have the capability, which the rules of flows exclude before.
    """
    if not isinstance(form, capability):
        msg = f"the format {form.type} is no {capability.__name__}"
        raise TypeError(msg)
    return form
