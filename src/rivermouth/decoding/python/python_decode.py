"""Values that a Python function decodes, in Spark's workers: an Arrow batch in, its verdicts and rows out.

The function is called once for each value, or once for a batch of them. What it raises, and what it returns that does
not fit, is the verdict on that record alone; what keeps a worker from calling it at all ends the job.
"""

from __future__ import annotations

import functools
import json
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.decoding.python import python_function, python_precision, python_values
from rivermouth.decoding.python.python_arrays import NotPlain, as_declared, rows_of
from rivermouth.decoding.python.python_function import Reference
from rivermouth.decoding.python.python_scalars import Misfit, arrow_type
from rivermouth.names import HEADERS, KEY, TOPIC
from rivermouth.schemas.column_types import nullable

VERDICT: Final = T.StructType(
    [
        T.StructField("skipped", T.BooleanType()),
        *(T.StructField(name, T.StringType()) for name in ("reason", "field", "message")),
    ]
)
COLUMNS: Final[Mapping[str, str]] = {"topic": TOPIC, "key": KEY, "headers": HEADERS}
"""The envelope's column for each thing that a function can ask for."""

MESSAGE_LENGTH: Final = 500
_REMINDER_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Call:
    """A function and how it is called.

    Attributes:
        function: Where it is.
        schema: The declared schema in Spark's JSON form.
        asks: What it gets besides the value.
        arrow: Whether it takes whole Arrow arrays.
        timeout_s: Bound on one call.
        truncates_times: Whether what is less than a microsecond is cut off of times.
    """

    function: Reference
    schema: str
    asks: tuple[str, ...]
    arrow: bool
    timeout_s: float
    truncates_times: bool = False


def decoder(call: Call) -> Callable[..., Any]:
    """A Spark function from the value and what the call asks for to (decoded, data, verdict), which is never null."""
    return python_udf(T.StructType.fromJson(json.loads(call.schema)), functools.partial(_decoded, call))


def python_udf(
    schema: T.StructType, decode: Callable[..., Outcome], verdict: T.StructType = VERDICT
) -> Callable[..., Any]:
    """A Spark function of what ``decode`` makes of Arrow arrays, the values first.

    Args:
        schema: The columns.
        decode: Called in Spark's workers.
        verdict: ``VERDICT``, or that and the further fields that ``decode`` returns in ``beside``.
    """
    data = nullable(schema)
    made = [("decoded", T.BooleanType()), ("data", data), ("verdict", verdict)]
    target = arrow_type(T.StructType([T.StructField(name, kind) for name, kind in made]))

    def decoded(*arrays: pa.Array) -> pa.Array:
        return decode(*arrays).to_arrow(target)

    functions: Any = F  # its stubs do not know this one
    # Spark looks for annotations where it is not told the kind.
    decoded.__annotations__ = {}
    returned = T.StructType([T.StructField(name, kind) for name, kind in made])
    found: Callable[..., Any] = functions.arrow_udf(decoded, returned)
    return found


@dataclass(slots=True)
class Outcome:
    """What became of the values of one Arrow batch.

    Attributes:
        values: How many there are.
        places: Of the rows, in their order, the places of their values.
        rows: The rows that were made.
        skipped: Places of the values whose records are left out.
        refused: By place, why a value was refused.
        beside: Further fields of the verdict: by the name of the field, what it has for each value.
    """

    values: int
    places: list[int] = field(default_factory=list)
    rows: pa.StructArray | None = None
    skipped: set[int] = field(default_factory=set)
    refused: dict[int, Misfit] = field(default_factory=dict)
    beside: dict[str, Sequence[Any]] = field(default_factory=dict)

    def fitted(self, found: Sequence[Any], schema: T.StructType) -> Outcome:
        """The same outcome with those of ``found``, the dicts of its places, that fit the schema; why others do not."""
        self.rows, misfits = python_values.sifted(found, schema)
        if misfits:
            self.refused |= {self.places[number]: misfit for number, misfit in misfits.items()}
            self.places = [place for number, place in enumerate(self.places) if number not in misfits]
        return self

    def to_arrow(self, target: pa.StructType) -> pa.StructArray:
        """One row a value, of (decoded, data, verdict); none of them is null, nor is their data."""
        data, verdict = target.field("data").type, target.field("verdict").type
        columns = [pa.nulls(self.values, each.type) for each in data]
        if self.rows is not None and len(self.rows):
            found: list[int | None] = [None] * self.values
            for number, place in enumerate(self.places):
                found[place] = number
            taken = pa.array(found, pa.int64())
            columns = [column.take(taken) for column in self.rows.flatten()]
        refused = [self.refused.get(place) for place in range(self.values)]
        told = [
            pa.array([place in self.skipped for place in range(self.values)]),
            pa.array([each and each.reason for each in refused], pa.string()),
            pa.array([each and each.field for each in refused], pa.string()),
            pa.array([each and bounded(str(each)) for each in refused], pa.string()),
        ]
        told += [pa.array(self.beside[each.name], each.type) for each in list(verdict)[len(told) :]]
        parts = [
            pa.array([each is None for each in refused]),
            pa.StructArray.from_arrays(columns, fields=list(data)),
            pa.StructArray.from_arrays(told, fields=list(verdict)),
        ]
        return pa.StructArray.from_arrays(parts, fields=list(target))


def bounded(text: str) -> str:
    """A text of at most ``MESSAGE_LENGTH`` characters that is UTF-8 whatever it holds."""
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= MESSAGE_LENGTH else f"{text[: MESSAGE_LENGTH - 1]}…"


def _decoded(call: Call, values: pa.Array, *beside: pa.Array) -> Outcome:
    function = python_function.loaded(call.function)
    schema = _schema(call.schema)
    outcome = Outcome(len(values))
    present = [place for place, there in enumerate(values.is_valid().to_pylist()) if there]
    if not present:
        return outcome
    if len(present) < len(values):
        values, beside = values.take(present), tuple(array.take(present) for array in beside)
    with _limited(call.timeout_s) as limit:
        asked = dict(zip(call.asks, beside, strict=True))
        if call.arrow:
            cut = python_precision.cut_arrays if call.truncates_times else _itself
            made = _by_arrays(_Limited(function, limit, cut), values, asked, schema)
        else:
            copied = _copied(call, schema)
            made = _one_by_one(_Limited(function, limit, copied), values, asked, schema)
    outcome.rows = made.rows
    outcome.places = [present[place] for place in made.places]
    outcome.skipped = {present[place] for place in made.skipped}
    outcome.refused = {present[place]: misfit for place, misfit in made.refused.items()}
    return outcome


@functools.cache
def _schema(schema_json: str) -> T.StructType:
    return T.StructType.fromJson(json.loads(schema_json))


def _one_by_one(call: _Limited, values: pa.Array, asked: Mapping[str, pa.Array], schema: T.StructType) -> Outcome:
    outcome, found = Outcome(len(values)), []
    beside = {name: _headers(array) if name == "headers" else array.to_pylist() for name, array in asked.items()}
    for place, value in enumerate(values.to_pylist()):
        try:
            result = call(value, **{name: column[place] for name, column in beside.items()})
        except Misfit as failed:
            outcome.refused[place] = failed
            continue
        if result is None:
            outcome.skipped.add(place)
        else:
            outcome.places.append(place)
            found.append(result)
    return outcome.fitted(found, schema)


def _copied(call: Call, schema: T.StructType) -> Callable[[Any], Any]:
    """What becomes of a dict that was returned before it is looked at."""
    copied = python_values.copier(schema) or _itself
    cut = python_precision.cutter(schema) if call.truncates_times else None
    return copied if cut is None else lambda found: cut(copied(found))


def _headers(array: pa.Array) -> list[list[tuple[str, bytes | None]]]:
    return [[(each["key"], each["value"]) for each in headers or ()] for headers in array.to_pylist()]


def _by_arrays(call: _Limited, values: pa.Array, asked: Mapping[str, pa.Array], schema: T.StructType) -> Outcome:
    """The whole batch in one call; where that fails, its halves, down to the single value that fails."""
    outcome, parts = Outcome(len(values)), []
    waiting = [(0, len(values))]
    while waiting:
        start, end = waiting.pop()
        here = {name: array.slice(start, end - start) for name, array in asked.items()}
        try:
            result = call(values.slice(start, end - start), **here)
        except Misfit as failed:
            if end - start == 1:
                outcome.refused[start] = failed
            else:
                middle = (start + end) // 2
                waiting += [(middle, end), (start, middle)]
            continue
        wrong = _no_rows(result, end - start)
        if wrong is not None:
            outcome.refused |= dict.fromkeys(range(start, end), wrong)
            continue
        part = _of_array(result, schema)
        parts.append(part.rows if end - start == len(values) else _kept(part.rows))
        outcome.places += [start + place for place in part.places]
        outcome.skipped |= {start + place for place in part.skipped}
        outcome.refused |= {start + place: misfit for place, misfit in part.refused.items()}
    outcome.rows = pa.concat_arrays(parts) if parts else None
    return outcome


def _kept(rows: pa.StructArray) -> pa.StructArray:
    """The same rows in memory of their own: the next call may fill the function's buffers again."""
    return rows.take(pa.array(range(len(rows)), pa.int64()))


def _no_rows(result: Any, wanted: int) -> Misfit | None:
    if not isinstance(result, pa.StructArray):
        return Misfit("FUNCTION_FAILED", None, f"it returned a {type(result).__name__}, and no pyarrow.StructArray")
    if len(result) != wanted:
        return Misfit("FUNCTION_FAILED", None, f"it returned {len(result)} rows for {wanted} values")
    return None


def _of_array(result: pa.StructArray, schema: T.StructType) -> Outcome:
    outcome = Outcome(len(result))
    there = result.is_valid()
    outcome.places = [place for place, each in enumerate(there.to_pylist()) if each]
    outcome.skipped = set(range(len(result))) - set(outcome.places)
    present = result.filter(there) if outcome.skipped else result
    try:
        outcome.rows = as_declared(present, schema)
    except NotPlain:
        return _unlike(outcome, present, schema)
    return outcome


def _unlike(outcome: Outcome, present: pa.StructArray, schema: T.StructType) -> Outcome:
    """Rows in other types than the declared ones, judged value by value."""
    found, places = [], []
    for place, row in zip(outcome.places, rows_of(present), strict=True):
        if isinstance(row, Misfit):
            outcome.refused[place] = row
        else:
            places.append(place)
            found.append(row)
    outcome.places = places
    return outcome.fitted(found, schema)


# --- calls that end ---------------------------------------------------------------------------------


class _TimedOut(BaseException):
    """Not an Exception: the function itself would catch it."""


class _Interrupted(KeyboardInterrupt):
    """The process was told to end. Any other one is raised by the function itself."""


def _itself(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class _Limited:
    """The function; whatever it raises is a ``Misfit``."""

    function: Callable[..., Any]
    limit_s: float | None
    copied: Callable[[Any], Any] = _itself

    def __call__(self, value: Any, **beside: Any) -> Any:
        if self.limit_s is None:
            return self._called(value, beside)
        try:
            signal.setitimer(signal.ITIMER_REAL, self.limit_s, _REMINDER_S)
            try:
                return self._called(value, beside)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except _TimedOut:
            # Again: it may have come just before the timer was stopped.
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise Misfit("FUNCTION_FAILED", None, f"it did not return within {self.limit_s:g} s") from None

    def _called(self, value: Any, beside: Mapping[str, Any]) -> Any:
        try:
            return self.copied(self.function(value, **beside))
        except (_TimedOut, _Interrupted):
            raise
        except BaseException as error:  # noqa: BLE001 - sys.exit() and panics of extensions are no more than that, too
            raise Misfit("FUNCTION_FAILED", None, _said(error)) from None


def _said(error: BaseException) -> str:
    name = type(error).__name__
    try:
        text = str(error)
        return bounded(f"{name}: {text}" if text else name)
    except (_TimedOut, _Interrupted):
        raise
    except BaseException:  # noqa: BLE001 - a user's class may do anything there
        return bounded(name)


@contextmanager
def _limited(timeout_s: float) -> Iterator[float | None]:
    """Bounds calls in the block; None where this cannot be done, since only a main thread gets signals."""
    if threading.current_thread() is not threading.main_thread():
        yield None
        return

    def ring(number: int, _frame: Any) -> None:
        raise _TimedOut if number == signal.SIGALRM else _Interrupted

    before = {number: signal.signal(number, ring) for number in (signal.SIGALRM, signal.SIGINT)}
    try:
        yield timeout_s
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
