"""Where a flow's table, checkpoint and dead letters lie: templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from rivermouth.spec.values import ConfigModel


class Places(ConfigModel):
    """Templates of the places where things lie; a flow may override them.

    Placeholders: ``{lake}``, ``{schema}``, ``{table}``, ``{topic}``, ``{bucket_prefix}``.

    Attributes:
        table: Folder of the table.
        checkpoint: Folder of the query's checkpoint. It is a cache: it may be deleted at any time.
        dead_letter_table: Folder of the table of dead letters.
        bucket_prefix: The text of ``{bucket_prefix}``.
    """

    table: str | None = None
    checkpoint: str | None = None
    dead_letter_table: str | None = None
    bucket_prefix: str | None = None

    DEFAULTS: ClassVar[Mapping[str, str]] = {
        "table": "{lake}/{schema}/{table}",
        "checkpoint": "{lake}/_rivermouth/checkpoints/{schema}.{table}",
        "dead_letter_table": "{lake}/{schema}/{table}__dead_letters",
        "bucket_prefix": "",
    }
