"""A pipeline of a project: its source files and what they run with."""

from __future__ import annotations

import re
from typing import Final, Self

from pydantic import Field, model_validator

from rivermouth.spec.values import ConfigModel, DurationS

_NAME: Final = re.compile(r"^[A-Za-z][A-Za-z0-9_-]{0,99}$")


class PipelineTrigger(ConfigModel):
    """How often a pipeline looks for rows.

    Attributes:
        every: Time from the start of one batch of a query to the start of the next, with ``--follow``.
    """

    every: DurationS


class PipelineProfile(ConfigModel):
    """What a pipeline has otherwise with one profile.

    Attributes:
        configuration: Values in addition, or in place of those of the pipeline.
        catalog: In place of the pipeline's.
        schema_name: ``schema`` in YAML: in place of the pipeline's.
        continuous: In place of the pipeline's.
        trigger: In place of the pipeline's.
    """

    configuration: dict[str, str | int | float | bool] = {}
    catalog: str | None = None
    schema_name: str | None = Field(default=None, alias="schema")
    continuous: bool | None = None
    trigger: PipelineTrigger | None = None


class Pipeline(ConfigModel):
    """A declarative pipeline: files in Python and SQL that define tables.

    Attributes:
        name: Its identity; in YAML the key under ``pipelines``.
        files: Source files, or patterns of them such as ``transformations/**``; relative to the project file. A
            notebook may be written without its suffix.
        configuration: What ``spark.conf.get`` and ``${key}`` give in the source files.
        catalog: The default catalog of its tables.
        schema_name: ``schema`` in YAML: the default schema of its tables.
        continuous: Whether ``rivermouth run`` goes on after it has read what is there.
        trigger: How often it looks for rows.
        profiles: Values for ``--profile``, by name; without that option those of ``dev`` are taken, if it is there.
    """

    name: str
    files: tuple[str, ...] = Field(min_length=1)
    configuration: dict[str, str | int | float | bool] = {}
    catalog: str | None = None
    schema_name: str | None = Field(default=None, alias="schema")
    continuous: bool = False
    trigger: PipelineTrigger | None = None
    profiles: dict[str, PipelineProfile] = {}

    @model_validator(mode="after")
    def _well_named(self) -> Self:
        if not _NAME.match(self.name):
            msg = f"{self.name!r} is no pipeline name: use letters, digits, _ and -, beginning with a letter"
            raise ValueError(msg)
        return self
