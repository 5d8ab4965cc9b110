"""The open sets: what a format, a sink and an action must be able to do. Each lives in a file of its name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from rivermouth.extend import find_kind
from rivermouth.spec.values import ConfigModel

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

    from rivermouth.spec.evolution import Evolution


class Action(ConfigModel):
    """What a failed expectation does to its record. Lives in ``actions/<name>.py`` as ``KIND``.

    Attributes:
        name: The word in the YAML.
        strength: Of several failed expectations the one with the greatest strength decides.
        route: Where the record goes: table, dropped, dead_letter, or fail to stop the flow.
    """

    name: str
    strength: int
    route: Literal["table", "dropped", "dead_letter", "fail"]


class Format(ConfigModel):
    """Base of the formats: how the value of a record becomes columns.

    A subclass lives in ``formats/<type>.py`` (assigned there to ``KIND``) and is pure: frames in, frames out.

    Attributes:
        type: Its name in YAML.
        refuses: Whether there is any value that ``decode`` refuses.
        changes: Whether values tell changes of a source's rows; ``decode`` then says which.
        splits: Whether one record may be several changes of a keyed table.
        several_rows: Whether one record may hold several rows of the source, so that only a keyed table can take it.
        truncates: Whether a change may take all rows of the source away.
        whole_deletions: Whether a deletion has its row as it was, and not made-up values in some columns.
        tells: Whether ``decode`` itself says why it refuses a value.
        skips: Whether it may say that a record is left out; then it ``tells`` too.
        has_elements: Whether a value may be an array of what it reads; ``elements`` then takes it apart.
        rescues: Whether ``evolution`` may keep beside what its schema does not foresee, in ``_rescued``.
        further_reasons: Codes of reasons that no format of rivermouth's own has.
        schema_example: A schema as its YAML has it, for hints.
    """

    type: str
    refuses: ClassVar[bool] = True
    changes: ClassVar[bool] = False
    splits: ClassVar[bool] = False
    several_rows: ClassVar[bool] = False
    truncates: ClassVar[bool] = False
    whole_deletions: ClassVar[bool] = True
    tells: ClassVar[bool] = False
    skips: ClassVar[bool] = False
    has_elements: ClassVar[bool] = False
    rescues: ClassVar[bool] = False
    further_reasons: ClassVar[frozenset[str]] = frozenset()
    schema_example: ClassVar[str] = 'schema: "id bigint, at timestamp"'

    @property
    def evolves(self) -> bool:
        """Whether it takes the policies of ``evolution``."""
        return False

    @property
    def counts(self) -> bool:
        """Whether ``decode`` names the fields of a value that no column has: ``__undeclared`` (array of strings)."""
        return False

    @property
    def infers(self) -> bool:
        """Whether its columns are inferred from what is read; then ``with_schema`` gives it those."""
        return False

    @property
    def inference(self) -> Mapping[str, Any]:
        """How what is read is judged for that, as far as it is said.

        ``times``, ``max_fields``, ``latest_per_key`` and ``apart``.
        """
        return {}

    @property
    def pinned(self) -> frozenset[str]:
        """Names, in lower case, of columns whose types are declared though the others are inferred."""
        return frozenset()

    def with_schema(self, schema: StructType) -> Self:
        """The same format with columns that were inferred.

        Raises:
            ValueError: What the format says of them cannot be read.
        """
        raise NotImplementedError

    def below(self, _base: Path) -> Self:
        """The same format with the files that it names resolved against the project file's folder."""
        return self

    def schema_as_declared(self) -> StructType:
        """The columns as they are declared, or were inferred, NOT NULL and all.

        Raises:
            ValueError: They cannot be read; the text says why.
        """
        raise NotImplementedError

    def evolving(self, _evolution: Evolution) -> Self:
        """The same format under the policies for what its schema does not foresee; they are settled."""
        return self

    @property
    def leaves_values(self) -> bool:
        """Whether a change may leave out values that the row of its key has; then it knows the two methods below."""
        return False

    def left_out(self) -> Mapping[str, str]:
        """By column whose value a change may leave out: SQL of what stands there while nobody knows it."""
        return {}

    def keeping(self, _whole: Collection[str]) -> Self:
        """The same format for a table whose rows keep the values that a change leaves out.

        ``decode`` then adds ``__unavailable``, the names of the columns that the change leaves out (array of strings),
        or null. What each change must tell is refused still.

        Args:
            _whole: The names, in lower case, of the columns whose value each change must tell.
        """
        return self

    def suspects(self, _spark: SparkSession) -> Column:
        """Of rows as ``decode`` returns them: whether a value was refused that the policies say more about.

        Never null. A schema that grows may take it, or it stops the flow.
        """
        raise NotImplementedError

    def stops(self, _rows: DataFrame) -> DataFrame:
        """Of refused rows all that is wrong with them and a policy may stop the flow for: ``__reason``, ``__field``.

        A row each, with the columns of ``rows`` beside.
        """
        raise NotImplementedError

    def writer(self) -> Column | None:
        """Of rows as ``decode`` returns them: the id of the schema that a value was written with, a bigint.

        None where a schema grows by what the values hold.
        """
        return None

    def written(self, _spark: SparkSession, _writer: int) -> StructType:
        """What the schema of a writer has, as columns that a table can have; by the names of their fields.

        Raises:
            RivermouthError: It cannot be had.
        """
        raise NotImplementedError

    def having_looked_at(self, _writers: Collection[int]) -> Self:
        """The same format, to which the schemas of these writers are nothing new."""
        return self

    @property
    def reads_registry(self) -> bool:
        """Whether the schemas of its records are in the project's schema registry."""
        return False

    @property
    def jars(self) -> Sequence[str]:
        """Files with classes of its own: on the class path of a session that is started for it."""
        return ()

    @property
    def texts(self) -> Mapping[str, str]:
        """What it has of texts in which references are resolved, by their names in ``config``."""
        return {}

    def with_texts(self, _texts: Mapping[str, str]) -> Self:
        """The same format with these in their place."""
        return self

    def of_keys(self) -> Self:
        """The same format, that reads the keys of records."""
        return self

    @property
    def behind_header(self) -> bool:
        """Whether before each value stands a zero and the id of a schema, which ``decode`` does not get."""
        return False

    @property
    def string_documents(self) -> Sequence[str]:
        """Paths of strings in each value that hold documents, in whose place ``decode`` gets those."""
        return ()

    @property
    def reads_headers(self) -> bool:
        """Whether values are decoded with the headers of their records."""
        return False

    def reaching(self, _registry: object) -> Self:
        """The same format; schemas are asked of this registry (a ``RegistryAccess``)."""
        return self

    def fixed(self, _spark: SparkSession) -> Self:
        """The same format with what its files say now: what they say later does not change it.

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

    def key_type(self, spark: SparkSession) -> DataType:
        """What ``kafka_key`` is of keys that it reads: a struct of its columns, or the type of the only one.

        Raises:
            ValueError: The declared schema cannot be read; the text says why.
        """
        return self.columns(spark)

    @property
    def makes_struct_of_keys(self) -> bool:
        """Whether that is known to be a struct before its schema is read."""
        return True

    def of_tombstones(self) -> Format | None:
        """How the key of a record without a value is read as a row. None: as plain JSON, or as one value."""
        return None

    def several(self) -> str | None:
        """SQL over rows with ``__value``: how many rows of the source the record holds; None if it is always one."""
        return None

    def arrays(self) -> Format | None:
        """This format for values that are arrays of what it reads: in one column, ``rows``. None if it knows none."""
        return None

    def elements(self, _spark: SparkSession) -> Column:
        """The elements of ``__value`` (array of binary), each a value that ``decode`` can judge alone.

        A value that is no array is its own only element. Null where it is null, or its elements cannot be told apart.
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
            is null).

            A format of ``changes`` adds ``__operation`` (insert, read, update, delete, truncate, skip; null where
            ``__value`` is null or was refused), ``__source_timestamp`` (timestamp), ``__source_position`` and
            ``__primary_key`` (string, a JSON object), all null where the envelope does not say, and ``__misfit``,
            which ``explain`` reads. One that ``splits`` adds ``__old`` (like ``__data``, the row before an update, as
            far as it is known, or null), ``__old_primary_key`` and ``__ordinal`` (int), and makes a row of each
            row of the source; the first of a record has the ordinal 0. One that does not split adds ``__moved``, the
            names of the columns that an update changed (array of strings), as far as the row before it is known;
            null where it is not. Columns that hold more than one value are not among them.

            A format that ``tells`` adds ``__verdict``, a struct of ``skipped`` (boolean: the record is left out and
            counted as dropped, if the format ``skips``) and of what ``explain`` says of the value.
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


class Sink(ConfigModel):
    """Base of the sinks: how rows get into the table. Lives in ``sinks/<type>.py`` as ``KIND``."""

    type: str


def kind_from_yaml(family: str) -> Any:
    """A function that makes one of ``family`` of what the YAML says: its name, or a mapping with its ``type``."""

    def build(value: object) -> object:
        if isinstance(value, str):
            value = {"type": value}
        if isinstance(value, Mapping):
            if "type" not in value:
                msg = f"a {family[:-1]} needs a type: {family[:-1]}: {{type: ...}}"
                raise ValueError(msg)
            return find_kind(family, str(value["type"])).model_validate(value)
        return value

    return build
