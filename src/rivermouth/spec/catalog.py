"""The catalog in which the tables of a project are found by name."""

from __future__ import annotations

import re
from typing import Final, Self

from pydantic import Field, model_validator

from rivermouth.spec.values import ConfigModel

EMBEDDED: Final = "embedded"
SESSION: Final = "session"

_NAME: Final = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")


class Catalog(ConfigModel):
    """A catalog in which the tables of all flows are registered, so that ``SELECT … FROM bronze.orders`` finds them.

    In YAML its name alone, or a mapping. Characters that Spark would have to quote become ``_``: a table of the
    topic ``a-b`` is found as ``a_b``.

    Attributes:
        name: Of the catalog; ``spark_catalog`` is the session's own.
        naming: Template of the schema's name there; ``{schema}`` is that of the table.
        metastore: Where ``spark_catalog`` keeps its names: ``embedded`` in the lake's state, for one process at a time;
            the URI of a Hive metastore, ``thrift://host:9083``; or ``session``, as Spark's own options say.
    """

    name: str = "spark_catalog"
    naming: str = Field(default="{schema}", alias="schema", min_length=1)
    metastore: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not _NAME.match(self.name):
            msg = f"{self.name!r} is no name of a catalog: use letters, digits and _, as in spark_catalog"
            raise ValueError(msg)
        if self.metastore is not None and self.name != "spark_catalog":
            msg = f"metastore is for spark_catalog: leave it out, and say what {self.name} is in spark.conf"
            raise ValueError(msg)
        if self.metastore not in (None, EMBEDDED, SESSION) and not self.metastore.startswith("thrift://"):
            msg = f"{self.metastore!r} is no metastore: write embedded, session or thrift://host:9083"
            raise ValueError(msg)
        return self

    @property
    def metastore_uri(self) -> str | None:
        """The URI of its Hive metastore, if it has one."""
        kept = self.metastore
        return kept if kept is not None and kept not in (EMBEDDED, SESSION) else None

    @property
    def is_embedded(self) -> bool:
        """Whether its names are kept in the lake's state."""
        return self.name == "spark_catalog" and self.metastore in (None, EMBEDDED)
