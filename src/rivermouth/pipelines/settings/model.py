"""What the settings of a pipeline say, whichever file they are written in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rivermouth.pipelines.spec import SourceLine


@dataclass(frozen=True, slots=True)
class EventLog:
    """The table for the events of a pipeline.

    Attributes:
        name: Of the table.
        catalog: None for the pipeline's.
        schema: None for the pipeline's.
    """

    name: str
    catalog: str | None = None
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """A pipeline: its source files and what they run with.

    Attributes:
        name: Unique in the folder.
        folder: Absolute. Names of files in messages are relative to it: of the file with the settings, of the bundle.
        files: The source files, absolute, in the order of ``libraries``; those of one pattern by their paths. Each
            ends in ``.py``, ``.sql`` or ``.ipynb``.
        at: Where the pipeline is written; None for files that were named on the command line.
        configuration: What ``spark.conf.get`` and ``${key}`` give in the source files. Parameters are in it. Values
            keep their references to secrets and, in a ``rivermouth.yml``, to variables: see
            ``expanded_configuration``.
        catalog: The default catalog of its tables.
        schema: The default schema of its tables.
        continuous: Whether it goes on after it has read what is there.
        storage: Root for checkpoints and the like, as it is written.
        event_log: The table for its events.
        root_path: A folder from which Python files import modules; absolute.
        packages: Folders of packages from which Python files import modules; absolute.
        profile: The profile, or target of a bundle, with which the values were chosen.
        is_project: Whether it is written in a project file, as ``rivermouth.yml``.
        notes: What is written and has no effect here, or was replaced: where, and a sentence. Each is there once.
    """

    name: str
    folder: Path
    files: tuple[Path, ...]
    at: SourceLine | None = None
    configuration: Mapping[str, str] = field(default_factory=dict, repr=False)
    catalog: str | None = None
    schema: str | None = None
    continuous: bool = False
    storage: str | None = None
    event_log: EventLog | None = None
    root_path: Path | None = None
    packages: tuple[Path, ...] = ()
    profile: str | None = None
    is_project: bool = False
    notes: tuple[tuple[SourceLine, str], ...] = ()

    def shown(self, path: Path) -> str:
        """A file's name in messages: relative to ``folder`` where it is below that."""
        return shown_name(path, self.folder)


def shown_name(path: Path, folder: Path) -> str:
    """A file's name in messages: relative to ``folder`` where it is below that."""
    return (
        "the folder of the settings"
        if path == folder
        else str(path.relative_to(folder))
        if path.is_relative_to(folder)
        else str(path)
    )
