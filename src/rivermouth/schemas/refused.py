"""A declared schema that cannot be used, with what to write or do instead."""

from __future__ import annotations

import os
from pathlib import Path

from rivermouth.names import did_you_mean


class SchemaRefused(ValueError):
    """A schema that cannot be used.

    Attributes:
        fix: One step, as a sentence or as YAML.
    """

    def __init__(self, detail: str, fix: str) -> None:
        super().__init__(detail)
        self.fix = fix


def fix_of(error: ValueError, otherwise: str) -> str:
    """The one step that corrects a schema, of the error that refused it; ``otherwise`` where that names none."""
    return error.fix if isinstance(error, SchemaRefused) else otherwise


def unreadable(path: str, error: OSError) -> SchemaRefused:
    """The refusal of a schema whose file cannot be read; names a file of the folder that may be meant."""
    folder = Path(path).parent
    near = [each.name for each in folder.iterdir() if each.suffix == Path(path).suffix] if folder.is_dir() else []
    fix = did_you_mean(Path(path).name, near) if near else f"put the file there, or correct the path: {path}"
    if isinstance(error, PermissionError):
        fix = f"chmod u+r {path}"
    return SchemaRefused(
        f"the schema file {path} cannot be read: {error.strerror or os.strerror(error.errno or 0)}", fix
    )
