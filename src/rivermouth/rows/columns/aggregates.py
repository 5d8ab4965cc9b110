"""What can be counted of rows while they pass: five kinds of aggregates that need no order and no memory of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

BETWEEN_MEMBERS: Final = ","
BETWEEN_NAMES: Final = "\0"
_NAMES_OF_A_ROW: Final = 50
_LETTERS_OF_A_ROW: Final = 5_000


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One number or text over rows.

    Attributes:
        kind: ``count_if``: how many rows meet the condition ``of``. ``sum``: of the bigint ``of``, 0 for no rows.
            ``bit_xor``: of the bigint ``of``, null if it is null in all rows. ``collect_set``: the different strings
            ``of``, with commas between; no string holds a comma. ``count_each``: by name, how many rows have it among
            the first names of the array ``of``.
        of: SQL over a row; where it is null the row does not count.
    """

    kind: Literal["count_if", "sum", "bit_xor", "collect_set", "count_each"]
    of: str

    @property
    def of_row(self) -> str:
        """SQL of what a row adds: of names a text of them, with a NUL between."""
        if self.kind != "count_each":
            return self.of
        # Of functions for which Spark generates code, and so none with a lambda.
        return f"left(array_join(slice({self.of}, 1, {_NAMES_OF_A_ROW}), char(0)), {_LETTERS_OF_A_ROW})"

    @property
    def sql(self) -> str:
        """The aggregate as Spark's SQL has it."""
        match self.kind:
            case "sum":
                return f"coalesce(sum({self.of}), CAST(0 AS BIGINT))"
            case "collect_set":
                return f"array_join(collect_set({self.of}), '{BETWEEN_MEMBERS}')"
            case "count_each":
                return f"array_join(collect_list({self.of_row}), char(0))"
            case kind:
                return f"{kind}({self.of})"


def struct_of(aggregates: dict[str, Aggregate]) -> str:
    """SQL aggregate: a struct with all of them, by their names."""
    return f"struct({', '.join(f'{each.sql} AS {name}' for name, each in aggregates.items())})"
