"""The step of a wheel's build that compiles ``src/java``, run by hatchling."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# The folder of a build is not on the path of its modules.
_ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "src")]

from tools import java_sources  # noqa: E402 - found by the path above


class JarHook(BuildHookInterface[Any]):
    """Compiles ``rivermouth.jar`` where it is missing or older than its sources.

    Guarantees:
        Run twice: the second does nothing. Stopped half-way: the jar is the old one, or is missing.
    """

    def dependencies(self) -> list[str]:
        """What the build's environment needs: to compile, all that rivermouth needs; else nothing."""
        return [] if java_sources.compiled() else self.metadata.core.dependencies

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's interface
        """Compiles it."""
        if not java_sources.compiled():
            from tools import build_jar  # noqa: PLC0415 - needs what dependencies() asks for

            build_jar.main()
