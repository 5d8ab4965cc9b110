"""What the options of a reader of files say. Pure: nothing here knows Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Final, Literal, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rivermouth.errors import FileOptionInvalid, FileOptionRefused, FileOptionUnknown
from rivermouth.names import did_you_mean
from rivermouth.pipelines.files import known_options as known

EvolutionMode = Literal["addNewColumns", "rescue", "failOnNewColumns", "none"]
Mode = Literal["PERMISSIVE", "DROPMALFORMED", "FAILFAST"]

RESCUED: Final = "_rescued_data"
CORRUPT: Final = "_corrupt_record"
DEFAULT_MAX_FILES: Final = 1000

_EVOLUTION: Final = ("addNewColumns", "rescue", "failOnNewColumns", "none")
_MODES: Final = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
_NO_TIME: Final = re.compile(r"\s*(?:interval\s+)?0+(?:\.0+)?\s*[a-z]*\s*", re.IGNORECASE)
_BYTES: Final = re.compile(r"([0-9]+)\s*([kmgtp]?)b?", re.IGNORECASE)
_SHIFT: Final = "[+-][0-9]{1,2}(?::?[0-9]{2})?"
_OFFSET: Final = re.compile(r"([+-])([0-9]{1,2}):?([0-9]{2})?")
_ZONED: Final = re.compile(
    rf"(?P<local>.*?[0-9.])(?:\s*(?:Z|UTC?|GMT)(?P<of_utc>{_SHIFT})?|\s+(?P<plain>{_SHIFT})"
    r"|\s*(?P<region>[A-Za-z_]+/[\w+/-]+))"
)
_LONE_DIGIT: Final = re.compile(r"(?<![0-9.,])([0-9])(?![0-9])")
_MOST_OFFSET: Final = timedelta(hours=18)
_MOST_FILES: Final = 2**31 - 1
_MOST_BYTES: Final = 2**63 - 1
_UNITS: Final = {unit: 1 << (10 * place) for place, unit in enumerate(("", "k", "m", "g", "t", "p"))}


@dataclass(frozen=True, slots=True)
class FileOptions:
    """Options of a source of files, each with its value or default.

    Attributes:
        format: One of ``known_options.FORMATS``.
        schema: DDL, where it is an option.
        schema_location: Folder for the schema that is kept; None for the default.
        infer_types: Whether types are inferred; else columns of JSON, CSV and XML are strings.
        schema_hints: DDL of columns whose types are not inferred.
        evolution: What happens to columns that the schema does not have.
        rescued: Name of the rescued data column; None where there is none.
        corrupt: Name of the column for records that cannot be read, where the schema has it.
        mode: What happens to records that cannot be read.
        max_files: Files of a batch at most; None for no limit.
        max_bytes: Bytes of a batch at about most; None for no limit.
        existing: Whether files are read that were there before the first start.
        glob: Pattern of the names of files; None for all.
        partitions: Names of the columns that are read from folders ``name=value``; None: they are inferred.
        modified_after: Only files that were changed after this ISO 8601 time are read.
        modified_before: Only files that were changed before this one.
        exact_case: Whether names that differ in case are different.
        clean: Options of Spark's file source for files that were read.
        skips: ``ignoreMissingFiles`` and ``ignoreCorruptFiles``, where they are given.
        reader: Options of the format's reader, by the names that Spark has for them.
    """

    format: str
    schema: str | None = None
    schema_location: str | None = None
    infer_types: bool = False
    schema_hints: str | None = None
    evolution: EvolutionMode = "none"
    rescued: str | None = None
    corrupt: str = CORRUPT
    mode: Mode = "PERMISSIVE"
    max_files: int | None = DEFAULT_MAX_FILES
    max_bytes: int | None = None
    existing: bool = True
    glob: str | None = None
    partitions: tuple[str, ...] | None = None
    modified_after: str | None = None
    modified_before: str | None = None
    exact_case: bool = True
    clean: Mapping[str, str] = field(default_factory=dict)
    skips: Mapping[str, str] = field(default_factory=dict)
    reader: Mapping[str, str] = field(default_factory=dict)

    @property
    def multi_line(self) -> bool:
        """Whether a record may be several lines."""
        return self.reader.get("multiLine", "false").lower() == "true"


def _evolution(read: _Given, *, has_schema: bool, fixed: bool) -> EvolutionMode:
    default = "none" if has_schema or fixed else "addNewColumns"
    evolution = cast("EvolutionMode", read.word("schemaEvolutionMode", _EVOLUTION, default))
    if evolution == "addNewColumns" and has_schema and not fixed:
        raise FileOptionInvalid(
            at=read.at,
            option="schemaEvolutionMode",
            detail="addNewColumns infers the schema, and one is given",
            fix="leave out the schema, or give it as schemaHints",
        )
    return evolution


def parse(options: Mapping[str, str], *, has_schema: bool, infers_types: bool, at: str | None) -> FileOptions:
    """The options as values.

    Args:
        options: As they are written; names in any letter case, with or without ``cloudFiles.``.
        has_schema: Whether a schema is given apart from the options.
        infers_types: Whether types are inferred where no option says so.
        at: Where they are written.

    Raises:
        FileOptionUnknown: The format has no such option.
        FileOptionInvalid: A value is not allowed.
        FileOptionRefused: An option cannot be honoured.
    """
    given = by_name(options)
    kind = _format(given, at)
    read = _Given(kind, given, at)
    read.check({_key(name): name for name in options})
    has_schema = has_schema or read.text("schema") is not None
    fixed = kind in known.FIXED
    evolution = _evolution(read, has_schema=has_schema, fixed=fixed)
    types = read.flag("inferColumnTypes", default=read.flag("inferSchema", default=infers_types))
    return FileOptions(
        format=kind,
        schema=read.text("schema"),
        schema_location=read.text("schemaLocation"),
        infer_types=types or kind in known.TYPED,
        schema_hints=read.text("schemaHints"),
        evolution=evolution,
        rescued=None if fixed else _rescued(read, evolution, has_schema=has_schema),
        corrupt=read.text("columnNameOfCorruptRecord") or CORRUPT,
        mode=cast("Mode", read.word("mode", _MODES, "PERMISSIVE")),
        max_files=_max_files(read),
        max_bytes=_max_bytes(read),
        existing=read.flag("includeExistingFiles", default=True),
        glob=glob_of(read.values),
        partitions=_partitions(read),
        modified_after=read.time("modifiedAfter"),
        modified_before=read.time("modifiedBefore"),
        # The second is the older name of the first, for CSV alone.
        exact_case=read.flag("readerCaseSensitive", default=read.flag("parserCaseSensitive", default=True)),
        clean=_clean(read),
        skips={
            name: str(read.flag(name, default=False)).lower()
            for name in ("ignoreMissingFiles", "ignoreCorruptFiles")
            if name.lower() in given
        },
        reader=_reader(read, has_schema=has_schema),
    )


def time_of(text: str) -> datetime:
    """A time in ISO 8601, or as Spark casts it: with parts of one digit, or with a zone behind it.

    Raises:
        ValueError: The text is none.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = _zoned(text)
    if abs(found.utcoffset() or timedelta()) > _MOST_OFFSET:
        raise ValueError(text)
    return found


def _zoned(text: str) -> datetime:
    """A time such as ``2021-01-01 00:00:00 UTC+1``, or with the name of a region."""
    zoned = _ZONED.fullmatch(text)
    found = datetime.fromisoformat(_LONE_DIGIT.sub(r"0\1", text if zoned is None else zoned["local"]))
    if zoned is None:
        return found
    if zoned["region"] is not None:
        try:
            return found.replace(tzinfo=ZoneInfo(zoned["region"]))
        except ZoneInfoNotFoundError:
            raise ValueError(text) from None
    sign, hours, minutes = _OFFSET.findall(zoned["of_utc"] or zoned["plain"] or "+0")[0]
    shift = timedelta(hours=int(hours), minutes=int(minutes or 0))
    return found.replace(tzinfo=timezone(-shift if sign == "-" else shift))


def by_name(options: Mapping[str, str]) -> dict[str, str]:
    """The options by their names in lower case, without ``cloudFiles.``."""
    return {_key(name): str(value) for name, value in options.items()}


def _key(name: str) -> str:
    return name.lower().removeprefix(known.PREFIX)


def glob_of(values: Mapping[str, str]) -> str | None:
    """Pattern of the names of files, from options by name; None for all."""
    return values.get("pathglobfilter") or values.get("filenamepattern")


def notes_of(options: Mapping[str, str]) -> tuple[str, ...]:
    """A sentence for each option that has no effect here."""
    given = by_name(options)
    why = {
        **dict.fromkeys(known.PASSED_BY, "the source's folders are listed"),
        **dict.fromkeys(known.OF_TABLES, "it is for Delta tables"),
    }
    why |= {name: "the source's folders are listed" for name in given if name.startswith(known.TAGS)}
    if given.get("recursivefilelookup", "true").strip().lower() == "false":
        why["recursiveFileLookup"] = "all folders below the path are read"
    if given.get("cleansource", "OFF").upper() != "OFF" and _waits(given.get("cleansource.retentionduration")):
        why["cleanSource"] = "files are cleaned only where cleanSource.retentionDuration is '0 seconds'"
    if "maxfilespertrigger" in given:
        why["maxBytesPerTrigger"] = "maxFilesPerTrigger limits the batches"
    return tuple(f"option {name} has no effect here: {reason}" for name, reason in why.items() if name.lower() in given)


def _format(given: Mapping[str, str], at: str | None) -> str:
    kinds = {kind.lower(): kind for kind in known.FORMATS}
    if "format" not in given:
        fix = f"set it to one of {', '.join(known.FORMATS)}"
        detail = "the format of the files is not given, and their names do not say one"
        raise FileOptionInvalid(at=at, option="format", detail=detail, fix=fix)
    word = given["format"]
    if word.lower() not in kinds:
        detail = f"files are not read in the format {word!r}"
        raise FileOptionInvalid(at=at, option="format", detail=detail, fix=did_you_mean(word, known.FORMATS))
    return kinds[word.lower()]


def _rescued(read: _Given, evolution: str, *, has_schema: bool) -> str | None:
    named = read.text("rescuedDataColumn")
    if named is not None:
        return named or None
    return RESCUED if evolution == "rescue" or (not has_schema and evolution != "none") else None


def _max_files(read: _Given) -> int | None:
    text = read.text("maxFilesPerTrigger")
    if text is None:
        return None if read.text("maxBytesPerTrigger") is not None else DEFAULT_MAX_FILES
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise read.invalid("maxFilesPerTrigger", "it is not a whole number above 0", "for example: 1000")
    return min(int(text), _MOST_FILES)


def bytes_of(text: str) -> int | None:
    """The number that a size says, as ``10g`` or ``512 kb``; None where it says none."""
    found = _BYTES.fullmatch(text.strip())
    return None if found is None else int(found[1]) * _UNITS[found[2].lower()]


def _max_bytes(read: _Given) -> int | None:
    text = read.text("maxBytesPerTrigger")
    if text is None:
        return None
    found = bytes_of(text)
    if not found:
        raise read.invalid("maxBytesPerTrigger", "it is not a number of bytes above 0", "for example: 10g")
    # Spark limits a batch by files or by bytes.
    return min(found, _MOST_BYTES) if read.text("maxFilesPerTrigger") is None else None


def _partitions(read: _Given) -> tuple[str, ...] | None:
    text = read.text("partitionColumns")
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


def _clean(read: _Given) -> Mapping[str, str]:
    """Spark's own option cleans files after the batch behind theirs. It knows no time to wait: then it is not used."""
    word = read.word("cleanSource", ("OFF", "DELETE", "MOVE"), "OFF")
    if word == "OFF" or _waits(read.text("cleanSource.retentionDuration")):
        return {}
    if passing := _passes_files_by(read):
        detail = f"files that {passing} leaves out would be cleaned too, and their rows are in no table"
        raise read.refused("cleanSource", detail, f"leave out {passing}, or choose files by pathGlobFilter")
    if word == "DELETE":
        return {"cleanSource": "delete"}
    target = read.text("cleanSource.moveDestination")
    if target is None:
        detail = "MOVE needs the option cleanSource.moveDestination"
        raise read.invalid("cleanSource", detail, "name the folder that files are moved to")
    return {"cleanSource": "archive", "sourceArchiveDir": target}


def _passes_files_by(read: _Given) -> str | None:
    """The option with which Spark takes files into a batch, and does not read them."""
    if not read.flag("includeExistingFiles", default=True):
        return "includeExistingFiles"
    return next((name for name in ("modifiedAfter", "modifiedBefore") if read.text(name) is not None), None)


def _waits(duration: str | None) -> bool:
    """Whether files are kept for a while after they were read; thirty days where none is given."""
    return duration is None or not _NO_TIME.fullmatch(duration)


def _reader(read: _Given, *, has_schema: bool) -> Mapping[str, str]:
    found = {}
    for name in known.OF_FORMAT[read.format]:
        text = read.text(name)
        if text is not None and name != "parserCaseSensitive":
            found[name] = text
    if read.format == "csv" and not has_schema:
        found.setdefault("header", "true")
    if not re.fullmatch("-1|[0-9]|1[0-5]", found.get("recursiveFieldMaxDepth", "0")):
        raise read.invalid("recursiveFieldMaxDepth", "it is not a whole number from -1 to 15", "for example: 3")
    if read.format == "xml" and "rowTag" not in found:
        raise read.invalid("rowTag", "XML files need it", "set it to the name of the element that is a row")
    return found


@dataclass(frozen=True, slots=True)
class _Given:
    """Options by their names in lower case."""

    format: str
    values: Mapping[str, str]
    at: str | None

    def text(self, name: str) -> str | None:
        return self.values.get(name.lower())

    def flag(self, name: str, *, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.strip().lower() not in {"true", "false"}:
            raise self.invalid(name, "it is neither true nor false", "write true or false")
        return text.strip().lower() == "true"

    def word(self, name: str, words: tuple[str, ...], default: str) -> str:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() == "addnewcolumnswithtypewidening" and name == "schemaEvolutionMode":
            detail = "the mode addNewColumnsWithTypeWidening changes types of columns that a table has"
            raise self.refused(name, detail, "set it to addNewColumns: wider values are in the rescued data column")
        found = {word.lower(): word for word in words}.get(text.strip().lower())
        if found is None:
            raise self.invalid(name, "it cannot have this value", f"one of {', '.join(words)}")
        return found

    def time(self, name: str) -> str | None:
        """A time in the form that Spark casts: of the others in ISO 8601 it makes null."""
        text = self.text(name)
        if text is None:
            return None
        try:
            return time_of(text.strip()).isoformat()
        except ValueError:
            raise self.invalid(name, "it is not a time in ISO 8601", "for example: 2026-01-31T12:00:00Z") from None

    def invalid(self, option: str, detail: str, fix: str) -> FileOptionInvalid:
        return FileOptionInvalid(at=self.at, option=option, detail=detail, fix=fix)

    def refused(self, option: str, detail: str, fix: str) -> FileOptionRefused:
        return FileOptionRefused(at=self.at, option=option, detail=detail, fix=fix)

    def check(self, written: Mapping[str, str]) -> None:
        """Makes sure that every option is known and can be honoured."""
        honoured = (*known.OURS, *known.PASSED_BY, *known.OF_TABLES, *known.OF_FORMAT[self.format])
        names = {name.lower() for name in honoured}
        refused, why = known.REFUSED.get(self.format, ((), ""))
        for name in self.values:
            is_utf8 = name in {"encoding", "charset"} and self.values[name].lower().replace("-", "") == "utf8"
            if is_utf8:
                continue
            if name in {each.lower() for each in refused}:
                if self.values[name].strip().lower() == known.AS_READ.get(name):
                    continue
                raise self.refused(written[name], why, "leave it out")
            if name not in names and not name.startswith(known.TAGS):
                near = did_you_mean(written[name], honoured)
                raise FileOptionUnknown(at=self.at, format=self.format, option=written[name], near=near)
        if "badrecordspath" in self.values:
            detail = "nothing but the table is written"
            raise self.refused("badRecordsPath", detail, "leave it out: such records are in the rescued data column")
        if self.flag("allowOverwrites", default=False):
            detail = "a file that was read is not read again when it is overwritten"
            raise self.refused("allowOverwrites", detail, "write each new version under a name of its own")
        if self.format == "json" and not self.flag("readerCaseSensitive", default=True):
            detail = "fields of JSON are found by their exact names"
            raise self.refused("readerCaseSensitive", detail, "leave it out: others are in the rescued data column")
