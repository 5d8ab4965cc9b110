"""Settings that a user names, such as the options of a writer: YAML's numbers and booleans become text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

from rivermouth.domain.kafka.kafka_options import text


def _as_texts(value: object) -> object:
    return {str(name): text(each) for name, each in value.items()} if isinstance(value, dict) else value


Texts = Annotated[
    Mapping[str, str],
    BeforeValidator(_as_texts),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}),
]
