"""What SELECTs over the records of Kafka make, in the words of a flow."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Rows:
    """What the SELECTs make, in the words of a flow.

    Attributes:
        format: ``raw``, ``text`` or ``json``.
        schema: Of ``json``: its columns as DDL.
        options: Of ``json``: the forms of times.
        fields: The names of these columns.
        metadata: Metadata columns by their names in a flow: the names in the table.
        key_is_text: Whether the key is text there.
        select: SQL of the payload columns; None for all.
        explode: As a flow says it.
        with_value: Whether records without a value are left out.
        judged: Whether documents without a declared field are left out.
        tombstones: Whether a column says which records have no value.
        dropped: Conditions on rows, each with a name.
        derived: Columns that a partition or key is computed in, by name.
    """

    format: str | None = None
    schema: str = ""
    options: dict[str, str] = field(default_factory=dict)
    fields: tuple[str, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)
    key_is_text: bool = False
    select: list[str] | None = None
    explode: str | None = None
    with_value: bool = False
    judged: bool = False
    tombstones: bool = False
    dropped: list[tuple[str, str]] = field(default_factory=list)
    derived: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> bool:
        """Whether the table has the key."""
        return "kafka_key" in self.metadata
