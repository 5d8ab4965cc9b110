"""The environment of a project: variables, and secrets of providers read when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from rivermouth.errors import SecretMissing, UnknownKind
from rivermouth.extend import find_kind


class Environment(Mapping[str, str]):
    """Variables by name, and secrets by ``provider:reference``; neither is ever printed.

    A secret is read each time, so that one which is renewed is new with the next run.

    Args:
        variables: By name.
        base: The folder against which relative paths of ``${file:...}`` are resolved, as all of a project's are.
    """

    def __init__(self, variables: Mapping[str, str], base: Path) -> None:
        self._variables = variables
        self._base = base

    def __getitem__(self, name: str) -> str:
        """What the variable or the provider holds.

        Raises:
            KeyError: There is no such variable.
            SecretMissing: There is no such provider, or it has no such secret.
        """
        provider, colon, reference = name.partition(":")
        if not colon:
            return self._variables[name]
        try:
            read = find_kind("secrets", provider)
        except UnknownKind as error:
            detail = f"no provider is named {provider!r}"
            raise SecretMissing(reference=f"${{{name}}}", detail=detail, fix=error.facts["fix"]) from None
        secret: str = read(str(self._base / reference) if provider == "file" else reference)
        return secret

    def __iter__(self) -> Iterator[str]:
        """The names of the variables; secrets cannot be listed."""
        return iter(self._variables)

    def __len__(self) -> int:
        """How many variables there are."""
        return len(self._variables)

    def __repr__(self) -> str:
        """No names and no values."""
        return f"{type(self).__name__}(...)"
