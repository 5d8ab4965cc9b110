"""What formats have in common whose schemas a schema registry has."""

from __future__ import annotations

from typing import Self

from pydantic import PrivateAttr, field_validator

from rivermouth.decoding.registry import schema_headers
from rivermouth.decoding.registry.schema_registry import RegistryAccess
from rivermouth.spec import KeyFormat, RegistryFormat


class SubjectFormat(KeyFormat, RegistryFormat):
    """Base of the formats whose columns may be a version of a subject of the schema registry.

    Each has ``subject`` and ``version``, where it wants them among its settings.
    """

    _registry: RegistryAccess | None = PrivateAttr(default=None)
    _id_header: str = PrivateAttr(default=schema_headers.OF_VALUES)

    @field_validator("version", mode="before", check_fields=False)
    @classmethod
    def _pinned_version(cls, value: object) -> object:
        if value == "latest":
            msg = "the newest version changes, and may lack columns of the table: version: 1, or whichever it is"
            raise ValueError(msg)
        return value

    @property
    def unpaired(self) -> str | None:
        """What to say where one of subject and version is there alone."""
        if (getattr(self, "subject", None) is None) == (getattr(self, "version", None) is None):
            return None
        return "subject and version go together: subject: orders-value, version: 1"

    @property
    def asks_for(self) -> str:
        """Begins the sentence that says that there is no registry."""
        return "subject and version need"

    @property
    def asks_for_writers(self) -> bool:
        """Whether the registry is asked for the schema of each record's writer."""
        return False

    @property
    def reads_registry(self) -> bool:
        """Whether the table's schema is in the schema registry."""
        return getattr(self, "subject", None) is not None

    @property
    def reads_headers(self) -> bool:
        """Where the schema's id may be in a header."""
        return getattr(self, "framing", "plain") == "confluent"

    def for_keys(self) -> Self:
        """The same format for keys: the ids of their schemas are in another header."""
        same = self.model_copy()
        same._id_header = schema_headers.OF_KEYS  # noqa: SLF001
        return same

    def with_registry(self, registry: object) -> Self:
        """The same format; schemas are asked of this registry."""
        if not isinstance(registry, RegistryAccess):
            return self
        same = self.model_copy()
        same._registry = registry  # noqa: SLF001
        return same

    def access(self) -> RegistryAccess:
        """How the registry is reached.

        Raises:
            ValueError: The project has none.
        """
        if self._registry is None:
            msg = f"{self.asks_for} a schema_registry in the project"
            raise ValueError(msg)
        return self._registry
