"""A setting that says what is stored for what a source does not say: NULL, or nothing."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, WithJsonSchema

NullOrRefuse = Annotated[
    Literal["null", "refuse"],
    # YAML's own null is the word here.
    BeforeValidator(lambda word: "null" if word is None else word),
    WithJsonSchema({"enum": ["null", "refuse", None]}),
]
