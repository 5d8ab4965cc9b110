"""How the producer compressed the values of a flow, each value by itself."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field, model_validator

from rivermouth.spec.values import ConfigModel

DEFAULT_MAX_BYTES: Final = 64 << 20


class Compression(ConfigModel):
    """How each value is compressed; in YAML also its type alone.

    Kafka's own compression, of batches, is none of it: Kafka's clients remove that themselves.

    Attributes:
        type: ``gzip`` (RFC 1952) or ``zstd`` (RFC 8878).
        max_bytes: A value that expands to more is a dead letter, ``TOO_LARGE``; 64 MiB by default.
    """

    type: Literal["gzip", "zstd"]
    max_bytes: int = Field(default=DEFAULT_MAX_BYTES, ge=1, le=(1 << 31) - 1_024)

    @model_validator(mode="before")
    @classmethod
    def _from_word(cls, value: object) -> object:
        return {"type": value} if isinstance(value, str) else value
