"""A flow's part of a batch that was carried together with those of other flows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rivermouth.ports.internals.multi_table_write import PartedFiles

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class SharedBatchPart:
    """A flow's part of a batch that was carried together.

    Attributes:
        files: Of all of them.
        number: Whose of them are the flow's.
        seen: What was counted of the flow's records.
    """

    files: PartedFiles
    number: int
    seen: Mapping[str, Any]
