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
_PART: Final = re.compile(r"[\w-]+|\[\d+\]")
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
            found = self._value(whole[1], written, where, depth)
            return Written(found.value, written.file, written.at, found.unsaid)
        parts = {each[0]: self._value(each[1], written, where, depth) for each in _REFERENCE.finditer(value)}
        text = _REFERENCE.sub(lambda found: parts[found[0]].text(where), value)
        shown = _REFERENCE.sub(lambda found: parts[found[0]].shown(where), value)
        return Written(text, written.file, written.at, None if shown == text else shown)

    def _value(self, reference: str, written: Written, where: str, depth: int) -> Written:
        given = self._given(reference, written)
        if given is not None:
            return given
        found = self._in_tree(reference, where, depth) if depth <= _DEPTH else None
        if found is None:
            raise PipelineReferenceUnknown(at=str(written.at), where=where, reference=reference)
        return self.resolved(self._with_params(found, reference), where, depth + 1)

    def _given(self, reference: str, written: Written) -> Written | None:
        """The value that no file says, in the place of a value; None where there is none."""
        if reference in self.params:
            self.used.add(reference)
            return Written(self.params[reference], written.file, written.at, f"${{{reference}}}")
        if reference.startswith("var.") and (said := self.environ.get(f"BUNDLE_VAR_{reference[4:]}")) is not None:
            return Written(said, written.file, written.at, f"${{{reference}}}")
        known = self._known(reference, written.at)
        return None if known is None else Written(known, written.file, written.at)

    def _with_params(self, found: Written, reference: str) -> Written:
        """A mapping with the parameters of its keys, such as ``var.x.key`` of the variable ``x``."""
        if not isinstance(found.value, Mapping):
            return found
        parts = dict(found.value)
        for name in self.params:
            key = name.removeprefix(f"{reference}.").partition(".")[0].partition("[")[0]
            if name.startswith(f"{reference}.") and name != f"{reference}.{key}":
                part = parts.get(key, Written({}, found.file, found.at))
                parts[key] = self._with_params(part, f"{reference}.{key}")
            elif name.startswith(f"{reference}."):
                self.used.add(name)
                parts[key] = Written(self.params[name], found.file, found.at, f"${{{name}}}")
        return Written(parts, found.file, found.at)

    def _known(self, reference: str, at: SourceLine) -> str | None:
        """Of what no file says: the target, and what belongs to this machine."""
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

    def _in_tree(self, reference: str, where: str, depth: int) -> Written | None:
        """The value that the files say, in which references are not replaced."""
        parts = _PART.findall(reference)
        here: Written | None = self.tree
        if parts[0] == "var":
            variable, done = self.tree.get("variables", parts[1]), f"var.{parts[1]}"
            given = None if len(parts) == 2 else self._given(done, self.tree)  # noqa: PLR2004 - without a key
            here = given or (variable.get("default") if variable is not None else None)
            parts = parts[2:]
        for part in parts:
            if here is not None and isinstance(here.value, str) and (whole := _REFERENCE.fullmatch(here.value)):
                here = self._value(whole[1], here, where, depth + 1)
            if here is not None:
                here = _part_of(here, part, reference)
        return here

    def _note(self, at: SourceLine, sentence: str) -> None:
        if all(sentence != said for _, said in self.notes):
            self.notes.append((at, sentence))


def _part_of(written: Written, part: str, reference: str) -> Written | None:
    """The value of a key, or of a number such as ``[0]``; None where there is none."""
    if not part.startswith("["):
        return written.get(part)
    listed, number = written.items(reference), int(part[1:-1])
    return listed[number] if number < len(listed) else None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())  # in a container it may have no name
