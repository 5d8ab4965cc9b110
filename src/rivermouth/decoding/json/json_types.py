"""How each declared type is read from JSON so that nothing is rounded, wrapped around or guessed.

Spark's JSON parser is lenient where this project must not be: it reads 200 as the TINYINT -56, 9.999 as the
DECIMAL(10,2) 10.00, ``"12:30"`` as a time of today, 1e400 as infinity. So such types are read as one that
keeps what was sent, and then cast and compared. What fits by itself costs nothing.

Everything here is SQL text over columns that have been parsed already; a frame is nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.decoding.json.json_spark_parser import TEXT
from rivermouth.decoding.times import time_texts
from rivermouth.decoding.times.json_times import TimeByForm
from rivermouth.names import below, folded, quoted
from rivermouth.schemas.column_types import EXACT_IN_DOUBLE, NAME_IN_JSON, name_in_json

# Casting 1e-999999999 to a decimal takes hours, so exponents have at most three digits, as doubles have.
_EXPONENT: Final = r"^[^eE]*[eE][+-]?[0-9]{1,3}[\x00-\x20]*\z"
LONGEST_DECIMAL: Final = 400
_UNDERFLOW: Final = "[1-9][0-9.]*[eE]-[0-9]{3}"
# What says nothing behind the point: zeros, and blanks, which Spark's cast to a decimal ignores.
_ZEROS_AND_BLANKS: Final = f"CAST(X'{bytes([ord('0'), *range(ord(' ') + 1)]).hex()}' AS STRING)"
_DATE_LENGTH: Final = len("2026-01-31")

_TIMES: Final = (T.TimestampType, T.TimestampNTZType)
_AS_IS: Final = (T.BooleanType, T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType, T.BinaryType)


class FloatOfRows(T.DataType):
    """A FLOAT or DOUBLE of documents that were written of rows: NaN and the infinities, which JSON lacks, are texts.

    Attributes:
        declared: The type of the column.
    """

    WORDS: Final = ("NaN", "Infinity", "-Infinity")

    def __init__(self, declared: T.DataType) -> None:
        self.declared = declared

    def simpleString(self) -> str:  # noqa: N802 - Spark's
        """That of the declared type."""
        return self.declared.simpleString()

    def convert(self, read: str) -> str:
        """SQL of the declared type; null where a value is neither a number nor one of the texts."""
        text, sql = f"CAST({read} AS STRING)", self.simpleString()
        fits = f"{_is_text(read)} = ({text} IN {self.WORDS})"
        return f"CASE WHEN {fits} THEN try_cast({text} AS {sql}) END"

    def misfit(self, read: str, done: str) -> str:
        """SQL that is true where what was read does not fit: a number may be beyond the range."""
        beyond = f"NOT {_is_text(read)} AND abs({done}) = {self.simpleString()}('Infinity')"
        return f"CAST({read} AS STRING) IS NOT NULL AND ({done} IS NULL OR {beyond})"


def _is_text(variant: str) -> str:
    return f"(schema_of_variant({variant}) = 'STRING')"


def with_floats_of_rows(declared: T.StructType, *, back: bool = False) -> T.StructType:
    """A schema with ``FloatOfRows`` in the place of the types that are such; or the other way round."""
    fields = ((each, _of_rows(each.dataType, back)) for each in declared.fields)
    return T.StructType([T.StructField(each.name, kind, each.nullable, each.metadata) for each, kind in fields])


def _of_rows(declared: T.DataType, back: bool) -> T.DataType:
    match declared:
        case T.StructType():
            return with_floats_of_rows(declared, back=back)
        case T.ArrayType():
            return T.ArrayType(_of_rows(declared.elementType, back), declared.containsNull)
        case T.MapType():
            return T.MapType(declared.keyType, _of_rows(declared.valueType, back), declared.valueContainsNull)
        case T.FloatType() | T.DoubleType() if not back:
            return FloatOfRows(declared)
    return declared.declared if isinstance(declared, FloatOfRows) else declared


def check(declared: T.StructType, path: str = "", *, renames: bool = False, variants: bool = False) -> None:
    """Makes sure that every type can be read from JSON and that names are unambiguous.

    Args:
        declared: The schema, or a struct within it.
        path: Of that struct.
        renames: Whether its fields may be read from fields of other names.
        variants: Whether VARIANT is read.

    Raises:
        ValueError: A type cannot; or two fields differ in nothing but case; the text says which.
    """
    if not declared.fields:
        where = f"column {path}" if path else "the schema"
        msg = f"{where} has no fields"
        raise ValueError(msg)
    seen: dict[str, str] = {}
    read: set[str] = set()
    for field in declared.fields:
        name = below(path, field.name)
        if NAME_IN_JSON in field.metadata and not renames:
            msg = f"column {name}: {NAME_IN_JSON} is for columns of the table itself, in the format json"
            raise ValueError(msg)
        twin = seen.setdefault(folded(field.name), field.name)
        if twin is not field.name:
            msg = f"columns {twin!r} and {field.name!r} are the same to Spark and Delta"
            raise ValueError(msg)
        if name_in_json(field) in read:
            msg = f"two columns are read from the field {name_in_json(field)!r}"
            raise ValueError(msg)
        read.add(name_in_json(field))
        _check_type(field.dataType, name, variants=variants)


def _check_type(declared: T.DataType, path: str, *, variants: bool) -> None:
    match declared:
        case T.StructType():
            check(declared, path, variants=variants)
        case T.ArrayType():
            _check_type(declared.elementType, f"{path}[]", variants=variants)
        case T.MapType():
            if type(declared.keyType) is not T.StringType:
                msg = f"column {path}: keys in JSON are strings, so declare map<string, ...>"
                raise ValueError(msg)
            _check_type(declared.valueType, f"{path}[]", variants=variants)
        case T.VarcharType() | T.CharType():
            msg = f"column {path}: type {declared.simpleString()} is not read from JSON: declare string"
            raise ValueError(msg)
        case T.StringType() if declared != T.StringType():
            msg = f"column {path}: a collation cannot be read from JSON: declare string"
            raise ValueError(msg)
        case T.VariantType() if not variants:
            msg = f"column {path}: type variant is not read from the JSON of this format: declare string"
            raise ValueError(msg)
        case _ if _known(declared) or isinstance(declared, T.VariantType):
            return
        case _:
            msg = f"column {path}: type {declared.simpleString()} is not read from JSON"
            raise ValueError(msg)


def _known(declared: T.DataType) -> bool:
    others = (T.StringType, T.ByteType, T.DecimalType, T.DateType, T.TimestampType, T.TimestampNTZType)
    return isinstance(declared, (*_AS_IS, *others))


def read_as(declared: T.DataType, leaf: Callable[[T.DataType], T.DataType] | None = None) -> T.DataType:
    """The type that the parser is told, so that what was sent is kept until it is judged.

    Args:
        declared: The type of a column.
        leaf: The same for types without values inside; ``leaf_read_as``, if there is none.
    """
    match declared:
        case T.StructType():
            return T.StructType([T.StructField(field.name, read_as(field.dataType, leaf)) for field in declared.fields])
        case T.ArrayType():
            return T.ArrayType(read_as(declared.elementType, leaf))
        case T.MapType():
            return T.MapType(T.StringType(), read_as(declared.valueType, leaf))
    return (leaf or leaf_read_as)(declared)


def leaf_read_as(declared: T.DataType) -> T.DataType:
    """``read_as`` of a type without values inside."""
    match declared:
        case T.ByteType():
            return T.ShortType()
        case T.DecimalType() | FloatOfRows():
            return T.VariantType()
        case T.DateType() | T.TimestampType() | T.TimestampNTZType() | T.VariantType():
            return T.StringType()
        case TimeByForm():
            return declared.read_as
    return declared


def convert(read: str, declared: T.DataType, names: Iterator[int] | None = None) -> str:
    """SQL of the declared type for a column that was read as ``read_as`` says; null where it does not fit.

    Args:
        read: SQL of the column as it was read.
        declared: The type that it should have.
        names: Numbers for the variables of nested lambdas.
    """
    names = names or count()
    match declared:
        case T.StructType():
            if not _changes(declared):
                return read
            fields = (
                f"{convert(f'{read}.{quoted(field.name)}', field.dataType, names)} AS {quoted(field.name)}"
                for field in declared.fields
            )
            return f"CASE WHEN {read} IS NOT NULL THEN struct({', '.join(fields)}) END"
        case T.ArrayType():
            item = f"x{next(names)}"
            inner = convert(item, declared.elementType, names)
            return read if inner == item else f"transform({read}, {item} -> {inner})"
        case T.MapType():
            item = f"x{next(names)}"
            inner = convert(item, declared.valueType, names)
            entries = last_wins(read, item)
            return entries if inner == item else f"transform_values({entries}, (k{item}, {item}) -> {inner})"
    return _convert_leaf(read, declared)


def _convert_leaf(read: str, declared: T.DataType) -> str:
    sql = declared.simpleString()
    match declared:
        case T.ByteType() | T.DateType():
            return f"try_cast({read} AS {sql})"
        case T.DecimalType():
            text = _decimal_text(read)
            return f"CASE WHEN {_castable(text)} THEN try_cast({text} AS {sql}) END"
        case T.TimestampType():
            return time_texts.instant(read, blanks=True)
        case T.VariantType():
            return f"try_parse_json({read})"
        case T.TimestampNTZType():
            return time_texts.local(read)
        case TimeByForm() | FloatOfRows():
            return declared.convert(read)
    return read


def misfit(
    read: str,
    declared: T.DataType,
    names: Iterator[int] | None = None,
    done: str | None = None,
    *,
    exact_times: bool = False,
) -> str | None:
    """SQL that is true where a value does not fit its declared type, else false or null; None: all fit.

    The parser itself refuses the other kinds of JSON value (an object as a BIGINT, ``"1"`` as a DOUBLE).

    Args:
        read: SQL of the column as it was read.
        declared: The type that it should have.
        names: Numbers for the variables of nested lambdas.
        done: SQL of the column as ``convert`` made it, where it is at hand already.
        exact_times: Whether times with digits behind the microsecond do not fit.
    """
    names = names or count()
    match declared:
        case T.StructType():
            parts = [_field_misfit(f"{read}.{quoted(f.name)}", f, names, read, exact_times) for f in declared.fields]
            return any_of(parts)
        case T.ArrayType():
            item = f"y{next(names)}"
            inner = _item_misfit(item, declared.elementType, declared.containsNull, names, exact_times)
            return inner and f"exists({read}, {item} -> {inner})"
        case T.MapType():
            item = f"y{next(names)}"
            inner = _item_misfit(item, declared.valueType, declared.valueContainsNull, names, exact_times)
            return inner and f"exists(map_values({read}), {item} -> {inner})"
    wrong = _leaf_misfit(read, declared, done or _convert_leaf(read, declared))
    finer = time_texts.is_finer(read) if exact_times and isinstance(declared, _TIMES) else None
    return any_of([wrong, finer]) if finer else wrong


def field_misfit(read: str, field: T.StructField, done: str | None = None) -> str | None:
    """``misfit`` for a top-level column, where NOT NULL counts too."""
    parts = [misfit(read, field.dataType, done=done), None if field.nullable else f"{read} IS NULL"]
    return any_of(parts)


def any_of(parts: Iterable[str | None]) -> str | None:
    """The parts joined by OR, without those that are None; None if nothing is left."""
    return " OR ".join(f"({part})" for part in parts if part) or None


def _field_misfit(read: str, field: T.StructField, names: Iterator[int], inside: str, exact_times: bool) -> str | None:
    parts = [misfit(read, field.dataType, names, exact_times=exact_times)]
    if not field.nullable:
        parts.append(f"{inside} IS NOT NULL AND {read} IS NULL")
    return any_of(parts)


def _item_misfit(
    item: str, declared: T.DataType, may_be_null: bool, names: Iterator[int], exact_times: bool
) -> str | None:
    parts = [misfit(item, declared, names, exact_times=exact_times), None if may_be_null else f"{item} IS NULL"]
    inner = any_of(parts)
    return inner and f"coalesce({inner}, false)"


def _leaf_misfit(read: str, declared: T.DataType, done: str) -> str | None:
    match declared:
        case T.FloatType() | T.DoubleType():
            sql = declared.simpleString()
            return f"{read} = {sql}('Infinity') OR {read} = {sql}('-Infinity')"
        case T.DateType():
            # Spark writes and reads +10000-01-01, and a year 0.
            fits = f"CAST({done} AS STRING) = {read} AND octet_length({read}) = {_DATE_LENGTH} AND {read} >= '0001'"
            return f"{read} IS NOT NULL AND NOT coalesce({fits}, false)"
        case T.DecimalType():
            text = _decimal_text(read)
            return f"{text} IS NOT NULL AND NOT coalesce({_unrounded(read, text, done, declared)}, false)"
        case T.ByteType() | T.TimestampType() | T.TimestampNTZType() | T.VariantType():
            return f"{read} IS NOT NULL AND {done} IS NULL"
        case TimeByForm() | FloatOfRows():
            return declared.misfit(read, done)
    return None


def _decimal_text(read: str) -> str:
    return f"CAST({read} AS STRING)"


def _castable(text: str) -> str:
    # Java takes the digits of every script.
    ascii_only = f"octet_length({text}) = char_length({text})"
    form = f"{_plain(text)} OR {text} RLIKE r'{_EXPONENT}'"
    return f"octet_length({text}) <= {LONGEST_DECIMAL} AND {ascii_only} AND ({form})"


def _plain(text: str) -> str:
    return f"(NOT contains({text}, 'e') AND NOT contains({text}, 'E'))"


def _unrounded(read: str, text: str, done: str, declared: T.DecimalType) -> str:
    """Whether a decimal is what was sent; the cast alone rounds 9.999 to 10.00."""
    point = f"instr({text}, '.')"
    digits = f"CASE WHEN {point} = 0 THEN 0 ELSE octet_length(rtrim({_ZEROS_AND_BLANKS}, {text})) - {point} END"
    mantissa = f"rtrim('0', substring_index(upper({text}), 'E', 1))"
    exponent = f"CAST(substring_index(upper({text}), 'E', -1) AS INT)"
    shifted = f"CASE WHEN {point} = 0 THEN 0 ELSE octet_length({mantissa}) - {point} END - {exponent}"
    # Numbers with an exponent, or of more than 38 digits, are read as doubles: only the first digits are sure, and
    # what comes out as 0 may have been too small for one.
    # A long number elsewhere in the document is no doubt about this one, unless both have the same double.
    sent = f"regexp_extract_all({TEXT}, '-?[0-9][0-9.]{{38,}}([eE][+-]?[0-9]+)?', 0)"
    same = f"exists({sent}, of_long -> coalesce(try_cast(of_long AS DOUBLE) = try_cast({text} AS DOUBLE), true))"
    is_long = f"({TEXT} RLIKE '[0-9][0-9.]{{38}}' AND {same})"
    long = f"octet_length({mantissa}) > {EXACT_IN_DOUBLE + 1} OR {is_long}"
    small = f"{done} = 0 AND {TEXT} RLIKE '{_UNDERFLOW}'"
    unsure = f"schema_of_variant({read}) = 'DOUBLE' AND ({long} OR {small})"
    counted = f"CASE WHEN {_plain(text)} THEN {digits} ELSE {shifted} END"
    return f"{done} IS NOT NULL AND {counted} <= {declared.scale} AND NOT ({unsure})"


def item_type(declared: T.ArrayType | T.MapType) -> T.DataType:
    """The type of the elements of an array, or of the values of a map."""
    return declared.elementType if isinstance(declared, T.ArrayType) else declared.valueType


def is_text_map(declared: T.DataType) -> bool:
    """Whether a type is a map of texts, as an hstore is."""
    return isinstance(declared, T.MapType) and type(declared.valueType) is T.StringType


def last_wins(entries: str, item: str) -> str:
    """SQL of a map whose keys are unique; the parser keeps both entries of a key that is there twice."""
    last = f"array_position(reverse(map_keys({entries})), e{item}.key) = size({entries}) - i{item}"
    unique = f"map_from_entries(filter(map_entries({entries}), (e{item}, i{item}) -> {last}))"
    twice = f"size(array_distinct(map_keys({entries}))) < size({entries})"
    return f"CASE WHEN {twice} THEN {unique} ELSE {entries} END"


def _changes(declared: T.DataType) -> bool:
    """Whether a type is read as another one, or holds maps, whose keys must be made unique."""
    match declared:
        case T.StructType():
            return any(_changes(field.dataType) for field in declared.fields)
        case T.ArrayType():
            return _changes(declared.elementType)
        case T.MapType():
            return True
    return read_as(declared) != declared


def holds(declared: T.DataType, kinds: tuple[type[T.DataType], ...]) -> bool:
    """Whether a type, or one within it, is of some kinds; keys of maps count."""
    match declared:
        case T.StructType():
            inner = [field.dataType for field in declared.fields]
        case T.ArrayType():
            inner = [declared.elementType]
        case T.MapType():
            inner = [declared.keyType, declared.valueType]
        case _:
            return isinstance(declared, kinds)
    return any(holds(each, kinds) for each in inner)


def read_columns(declared: T.StructType) -> T.StructType:
    """``read_as`` for a whole schema."""
    return T.StructType([T.StructField(name_in_json(field), read_as(field.dataType)) for field in declared.fields])
