"""Hatchling's hook: no wheel without the package's own jar."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface  # type: ignore[import-not-found]


class WheelHook(BuildHookInterface):  # type: ignore[misc]
    """Refuses to pack a wheel that could not start Spark. A checkout in use is no wheel yet: `make setup` comes."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Called before the files are collected."""
        jar = Path(self.root) / "src/rivermouth/ports/rivermouth.jar"
        if version != "editable" and not jar.is_file():
            message = f"{jar} is not there; run `make setup` first"
            raise FileNotFoundError(message)
