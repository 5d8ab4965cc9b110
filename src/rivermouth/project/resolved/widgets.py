"""The widgets of a Databricks job as arguments of ``ingest``."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any, Final

from rivermouth.errors import ArgumentInvalid
from rivermouth.ports.spark import databricks
from rivermouth.project.resolved.one_topic import IngestArguments

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMES: Final = frozenset(inspect.signature(IngestArguments).parameters) - {"base", "environ"}
"""Widgets of these names are arguments; a job may have others."""

# Words for one thing: what a widget says of it must not contradict an argument.
_MODE: Final = frozenset({"follow", "once", "streaming"})
_OBJECTS: Final = frozenset({"format", "compression", "keys", "starting_offsets", "kafka_options", "maintenance"})
_LISTS: Final = frozenset({"keys", "sequence_by"})


def with_widgets(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of ``ingest``, with those of the widgets that were not given.

    Args:
        arguments: What was given; it wins, also where it is None.

    Raises:
        WidgetsMissing: There are no widgets here.
        ArgumentInvalid: A widget begins as JSON and is none, or is no text for its argument.
    """
    given = set(arguments)
    if _MODE & given:
        given |= _MODE
    found = {name: text for name, text in databricks.widgets().items() if name in NAMES - given and text.strip()}
    return {**{name: _value(name, text) for name, text in found.items()}, **arguments}


def _value(name: str, text: str) -> Any:
    """The value of a widget's text: JSON if the argument is an object or a list."""
    begins = text.lstrip()[0]
    if (begins == "{" and name in _OBJECTS) or (begins == "[" and name in _LISTS):
        try:
            return json.loads(text)
        except ValueError:
            # What was written may be a secret: it is not repeated.
            detail, fix = "it begins as JSON and is none", "print(json.dumps(...)) in Python writes it"
            raise ArgumentInvalid(argument=f"widget {name}", detail=detail, fix=fix) from None
    if name == "kafka_options":
        detail, fix = "options of Kafka's client are a JSON object", '{"security.protocol": "SASL_SSL"}'
        raise ArgumentInvalid(argument=f"widget {name}", detail=detail, fix=fix)
    return text.strip()
