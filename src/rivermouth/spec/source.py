"""Where a flow's records come from, if not from Kafka itself."""

from __future__ import annotations

from typing import Final, Self

from pydantic import Field, model_validator

from rivermouth.spec.values import ConfigModel

VERSION: Final = "{version}"
"""In the name of a file: the placeholder for digits, which may have punctuation between them."""
READ: Final = (".json", ".jsonl", ".ndjson", ".parquet")
"""The ends of the names of files that are read."""


class Source(ConfigModel):
    """Where a flow's records come from, if not from Kafka itself.

    Attributes:
        table: Name of the table of another flow of the project, one with ``format: raw``.
        versions_of: A Delta table each of whose versions is a snapshot: ``schema.table`` in the lake, or a path.
        files: Files that are one snapshot each: a path with ``{version}`` in the file's name, which matches digits.
        max_bytes: The most bytes on storage, of a version or a file, that are read at once.
        where: A Spark SQL condition over the table's columns: only rows for which it is TRUE are the flow's. One over
            partition columns reads no other files.
    """

    table: str | None = None
    versions_of: str | None = Field(default=None, min_length=1)
    files: str | None = Field(default=None, min_length=1)
    max_bytes: int = Field(default=64 << 20, gt=0)
    where: str | None = Field(default=None, min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _of_pipelines(cls, value: object) -> object:
        named = [*value, value.get("type")] if isinstance(value, dict) else [value]
        if "kinesis" in named:
            msg = (
                "a flow reads Kafka, and streams of Kinesis are read by pipelines: "
                "write a pipeline, see docs/how-to/read-a-kinesis-stream.md"
            )
            raise ValueError(msg)
        return value

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [name for name in ("table", "versions_of", "files") if getattr(self, name) is not None]
        if len(given) != 1:
            named = " and ".join(given) if given else "none"
            msg = f"a source is one of table, versions_of and files ({named} given): source: {{table: bronze.orders}}"
            raise ValueError(msg)
        if self.where is not None and self.table is None:
            msg = "where chooses rows of a raw flow's table, and a snapshot is read whole: leave where out"
            raise ValueError(msg)
        if self.table is not None and "max_bytes" in self.model_fields_set:
            msg = "max_bytes is about snapshots, and a raw flow's table is read record by record: leave max_bytes out"
            raise ValueError(msg)
        return self

    @property
    def snapshots(self) -> str | None:
        """Where snapshots are that are no messages; None where records are."""
        return self.versions_of or self.files

    @property
    def has_rows(self) -> bool:
        """Whether its snapshots are rows of tables or of Parquet, and no documents."""
        return self.versions_of is not None or (self.files or "").endswith(".parquet")

    @property
    def shown(self) -> str:
        """What it is, in words."""
        words = {"table": self.table, "the versions of table": self.versions_of, "files": self.files}
        return next(f"{what} {name}" for what, name in words.items() if name is not None)
