"""When the files of a flow's tables are put in order, by the flow itself."""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from rivermouth.spec.values import ConfigModel, DurationS, bounded_s, duration_s, duration_text

_WORDS_S: Final = {"hourly": 3600.0, "daily": 86400.0, "weekly": 604800.0}
_LEAST_RETAIN_S: Final = 168 * 3600.0


def _every_s(text: object) -> object:
    if isinstance(text, str) and text in _WORDS_S:
        return _WORDS_S[text]
    try:
        return duration_s(text)
    except ValueError:
        msg = f"{text!r} says no time: write hourly, daily, weekly or a duration, for example '6 hours'"
        raise ValueError(msg) from None


def every_text(seconds: float) -> str:
    """``86400.0`` as ``daily``, other times as ``duration_text`` writes them."""
    return next((word for word, length in _WORDS_S.items() if length == seconds), duration_text(seconds))


EveryS = Annotated[
    float,
    BeforeValidator(_every_s),
    Field(gt=0, allow_inf_nan=False),
    AfterValidator(bounded_s),
    PlainSerializer(every_text, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["daily", "weekly", "6 hours"]}),
]


class Optimize(ConfigModel):
    """OPTIMIZE at times: small files are put together. In YAML also the time alone.

    Attributes:
        every: Time from one to the next: ``hourly``, ``daily``, ``weekly`` or a duration.
        zorder: Columns of the flow's table by which its rows are ordered within the files.
    """

    every: EveryS = 86400.0
    zorder: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _from_time(cls, value: object) -> object:
        return {"every": value} if isinstance(value, str) else value


class Vacuum(ConfigModel):
    """VACUUM at times: files are deleted that only older versions need. In YAML also the time alone.

    Attributes:
        every: Time from one to the next: ``hourly``, ``daily``, ``weekly`` or a duration.
        retain: How long older versions can be read, in whole hours.
        even_below_168_hours: Lets ``retain`` be shorter than that.
    """

    every: EveryS = 86400.0
    retain: DurationS = _LEAST_RETAIN_S
    even_below_168_hours: bool = False

    @model_validator(mode="before")
    @classmethod
    def _from_time(cls, value: object) -> object:
        return {"every": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _long_enough(self) -> Self:
        if self.retain < _LEAST_RETAIN_S and not self.even_below_168_hours:
            msg = (
                f"{duration_text(self.retain)} is under 168 hours, in which a reader may still need the files: "
                "write retain: 7 days, or even_below_168_hours: true"
            )
            raise ValueError(msg)
        return self


class Maintenance(ConfigModel):
    """What a flow does for the files of its tables, between batches and after a run that drained.

    In YAML ``after_run`` alone sets all three, with their defaults.

    Attributes:
        optimize: When small files are put together; never where it is left out.
        vacuum: When old files are deleted; never where it is left out.
        after_run: Do both after each run that drained and wrote something, whether it is time or not.
    """

    optimize: Optimize | None = None
    vacuum: Vacuum | None = None
    after_run: bool = False

    @model_validator(mode="before")
    @classmethod
    def _from_word(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        if value != "after_run":
            msg = f"{value!r} is no maintenance: write after_run, or a mapping: {{optimize: daily, vacuum: weekly}}"
            raise ValueError(msg)
        whole: dict[str, Any] = {"optimize": {}, "vacuum": {}, "after_run": True}
        return whole

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.after_run and self.optimize is None and self.vacuum is None:
            msg = "after_run does what optimize and vacuum say: write {optimize: daily, after_run: true}"
            raise ValueError(msg)
        return self
