"""What all nouns share: strictness about keys, and durations in words."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
)

from rivermouth.errors import ProjectInvalid, ProjectProblems, RivermouthError, UnknownKey
from rivermouth.names import did_you_mean

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)  # pydantic does not export it

MOST_INT: Final = 2**31 - 1
"""The largest ``int`` of Java: Spark takes no larger one."""
MOST_LONG: Final = 2**63 - 1
"""The same of a ``long``."""
_MOST_DAYS: Final = 100_000
_DURATION = re.compile(
    r"^\s*(\d+(?:\.\d+)?)\s*(ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)\s*$"
)
_UNIT_S = {"ms": 0.001, "mi": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_MEMORY = re.compile(r"^([0-9]+)(?:([kmgt])|([kmgt]i?b))$")
_SHIFT = {"k": 10, "m": 20, "g": 30, "t": 40}
_LEAST_MIB = 450


class _Constructed(ModelMetaclass):
    """What is constructed in Python with wrong values raises errors of ours; judging a file is pydantic's as ever."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 - of a metaclass
        try:
            return super().__call__(*args, **kwargs)
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False)
            # Of a default that another field decides nothing is said: that field has its own problem.
            problems = [_problem(cls, each) for each in found if each["type"] != "default_factory_not_called"]
        if len(problems) > 1:
            raise ProjectProblems(count=len(problems), file=cls.__name__, problems=tuple(problems))
        raise problems[0]


def _problem(cls: Any, detail: Any) -> RivermouthError:
    """One of pydantic's findings, without the value that it is about: that may be a secret."""
    path, said = [*map(str, detail["loc"])], str(detail["msg"]).removeprefix("Value error, ")
    if detail["type"] == "extra_forbidden":
        where = ".".join([cls.__name__, *path[:-1]])
        fix = did_you_mean(path[-1], cls.model_fields) if len(path) == 1 else "remove it"
        return UnknownKey(key=path[-1], where=where, fix=fix)
    where = ".".join(path)
    if detail["type"] == "missing":
        said = "it is missing"
    return ProjectInvalid(detail=f"{cls.__name__}: {where}: {said}", fix=f"help(rivermouth.spec.{cls.__name__})")


class ConfigModel(BaseModel):
    """Base of all nouns: frozen, and strict about keys."""

    # What pydantic says of a wrong value goes without it: that may be a secret.
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), hide_input_in_errors=True)


class Constructed(ConfigModel, metaclass=_Constructed):
    """Base of the nouns that users make in Python: a wrong value raises an error of ours."""


def duration_s(text: object) -> object:
    """``"30 seconds"`` as 30.0; other values pass, for the type check to judge.

    Raises:
        ValueError: The text is no duration.
    """
    if not isinstance(text, str):
        return text
    match = _DURATION.match(text)
    if match is None:
        msg = f"{text!r} is no duration: write a number and a unit, for example '30 seconds' (ms, s, m, h, d, w)"
        raise ValueError(msg)
    number, unit = match.groups()
    key = "ms" if unit.startswith(("ms", "milli")) else unit[0]
    return float(number) * _UNIT_S[key]


def bounded_s(seconds: float) -> float:
    """A duration that Spark and Python can wait for.

    Raises:
        ValueError: It is longer.
    """
    if seconds > _MOST_DAYS * _UNIT_S["d"]:
        msg = f"longer than {_MOST_DAYS} days: write {_MOST_DAYS} days or less"
        raise ValueError(msg)
    return seconds


def duration_text(seconds: float) -> str:
    """``30.0`` as ``"30 seconds"``; read back it is the same number."""
    days = seconds / _UNIT_S["d"]
    if days > 1 and days.is_integer():
        return f"{days:.0f} days"
    number = f"{Decimal(repr(seconds)):f}"
    return f"{number.removesuffix('.0')} seconds"


def heap_size(text: str) -> str:
    """A size of the driver's heap as Java's ``-Xmx`` takes it: ``2g``.

    Raises:
        ValueError: The text is none, or one with which Spark does not start.
    """
    if (wrong := heap_problem(text)) is not None:
        raise ValueError(": ".join(wrong))
    return text


def heap_problem(text: str) -> tuple[str, str] | None:
    """Why a text is no size of the driver's heap, and what to write instead; None if it is one."""
    match = _MEMORY.match(text.lower())
    if match is None:
        return f"{text!r} is no size of a heap", "write a whole number and k, m, g or t, for example 2g"
    number, unit, longer = match.groups()
    if longer:
        return f"{text!r} is no size of a heap, as Java has no unit {longer}", f"write {number}{longer[0]}"
    if int(number) << _SHIFT[unit] < _LEAST_MIB << _SHIFT["m"]:
        return f"{text} is too little for Spark, which needs {_LEAST_MIB} MiB", "write 1g"
    return None


HeapSize = Annotated[str, AfterValidator(heap_size), WithJsonSchema({"type": "string", "examples": ["2g", "512m"]})]
DurationS = Annotated[
    float,
    BeforeValidator(duration_s),
    Field(gt=0, allow_inf_nan=False),
    AfterValidator(bounded_s),
    PlainSerializer(duration_text, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["30 seconds", "500 ms"]}),
]
