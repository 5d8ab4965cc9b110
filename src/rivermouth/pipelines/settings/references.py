"""``${var.x}``, ``${bundle.target}``, ``${workspace.file_path}`` and their like in the files of a bundle."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rivermouth.errors import PipelineReferenceUnknown
from rivermouth.pipelines.settings.written import Written
from rivermouth.pipelines.spec import SourceLine

# Of texts like ${NAME} and ${secrets/a/b} nothing is made: a bundle has no such references.
_REFERENCE: Final = re.compile(
    r"\$\{((?:var|variables|bundle|workspace|resources|targets|artifacts)(?:\.[\w-]+(?:\[\d+\])?)+)\}"
)
_DEPTH: Final = 20
VARIABLE_KEYS: Final = frozenset({"default", "description", "type", "lookup"})
"""The keys of a variable."""
_USER: Final = "workspace.current_user."


@dataclass(frozen=True, slots=True)
class References:
    """What the references of a bundle mean.

    Attributes:
        tree: The bundle with its included files and its target.
        target: Name of the target.
        params: Values by reference, which win over all others.
        environ: Environment variables: ``BUNDLE_VAR_x`` is the value of the variable ``x``.
        used: Filled with the parameters that were used.
        notes: Filled with values that are others than they are on Databricks.
    """

    tree: Written
    target: str
    params: Mapping[str, str]
    environ: Mapping[str, str]
    used: set[str] = field(default_factory=set)
    notes: list[tuple[SourceLine, str]] = field(default_factory=list)

    def resolved(self, written: Written, where: str, depth: int = 0) -> Written:
        """The value with the values of its references in their places.

        Args:
            written: Any value.
            where: Its name in messages.
            depth: Of references within values of references.

        Raises:
            PipelineReferenceUnknown: A reference has no value here, or means itself.
        """
        value = written.value
        if isinstance(value, Mapping):
            parts = {key: self.resolved(part, f"{where}.{key}", depth) for key, part in value.items()}
            return Written(parts, written.file, written.at)
        if isinstance(value, list):
            return Written([self.resolved(part, where, depth) for part in value], written.file, written.at)
        if value is None or (whole := _REFERENCE.search(value)) is None:
            return written
        if whole[0] == value:
            # A variable may be a mapping or a list, which takes the place of the whole text.
            return Written(self._value(whole[1], written, where, depth).value, written.file, written.at)
        text = _REFERENCE.sub(lambda found: self._value(found[1], written, where, depth).text(where), value)
        return Written(text, written.file, written.at)

    def _value(self, reference: str, written: Written, where: str, depth: int) -> Written:
        if reference in self.params:
            self.used.add(reference)
            return Written(self.params[reference], written.file, written.at)
        known = self._known(reference, written.at)
        if known is not None:
            return Written(known, written.file, written.at)
        found = self._in_tree(reference)
        if found is None or depth > _DEPTH:
            raise PipelineReferenceUnknown(at=str(written.at), where=where, reference=reference)
        return self.resolved(found, where, depth + 1)

    def _known(self, reference: str, at: SourceLine) -> str | None:
        """Of what no file says: the target, and what belongs to this machine."""
        kind, _, name = reference.partition(".")
        if kind == "var":
            return self.environ.get(f"BUNDLE_VAR_{name}")
        if reference in ("bundle.target", "bundle.environment"):
            return self.target
        if reference.startswith(_USER):
            user = re.sub(r"\W", "_", _user()) if reference.endswith("short_name") else _user()
            self._note(at, f"${{{reference}}} is {user!r} here, the user of this machine")
            return user
        if reference in ("workspace.file_path", "workspace.root_path") and self.tree.get(*reference.split(".")) is None:
            folder = str(self.tree.file.parent)
            self._note(at, f"${{{reference}}} is the folder of the bundle here")
            return folder
        return None

    def _in_tree(self, reference: str) -> Written | None:
        kind, _, name = reference.partition(".")
        if kind == "var":
            variable = self.tree.get("variables", name)
            return variable.get("default") if variable is not None else None
        here: Written | None = self.tree
        for part in reference.split("."):
            key, _, index = part.partition("[")
            here = here.get(key) if here is not None else None
            if index and here is not None:
                listed = here.items(reference)
                number = int(index.rstrip("]"))
                here = listed[number] if number < len(listed) else None
        return here

    def _note(self, at: SourceLine, sentence: str) -> None:
        if all(sentence != said for _, said in self.notes):
            self.notes.append((at, sentence))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())  # in a container it may have no name
