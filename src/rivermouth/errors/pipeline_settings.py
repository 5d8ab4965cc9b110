"""What declares a pipeline: errors in its settings and in the form of its source files."""

from __future__ import annotations

from rivermouth.errors.base import RivermouthError


class PipelineSettingsMissing(RivermouthError):
    """A folder has files that define tables, and no settings say which of them are a pipeline."""

    code = "PIPELINE_SETTINGS_MISSING"
    what = (
        "{folder} has files that define tables ({files}), and no pipeline.yml, spark-pipeline.yml, databricks.yml or "
        "rivermouth.yml in it declares a pipeline; nothing was run"
    )
    hint = "rivermouth run {first}"


class PipelineSettingsInvalid(RivermouthError):
    """The settings of a pipeline cannot be read, or a value in them does not fit."""

    code = "PIPELINE_SETTINGS_INVALID"
    what = "{detail}; nothing was run"
    hint = "{fix}"


class PipelineFileMissing(RivermouthError):
    """The settings name a source file that does not exist."""

    code = "PIPELINE_FILE_MISSING"
    what = "pipeline {pipeline}: there is no file {path}; nothing was run"
    hint = "{fix}"


class PipelineGlobEmpty(RivermouthError):
    """A pattern of source files that no file matches."""

    code = "PIPELINE_GLOB_EMPTY"
    what = "pipeline {pipeline}: no .py, .sql or .ipynb file matches {pattern}; nothing was run"
    hint = "{fix}"


class PipelineLibraryRefused(RivermouthError):
    """An entry under ``libraries:`` that is no source file of a pipeline."""

    code = "PIPELINE_LIBRARY_REFUSED"
    what = "pipeline {pipeline}: a library of kind {kind} cannot be run; nothing was run"
    hint = "{fix}"


class PipelineNameTwice(RivermouthError):
    """Two pipelines of one folder have the same name."""

    code = "PIPELINE_NAME_TWICE"
    what = "two pipelines are named {name!r}, here and at {other}; neither was run"
    hint = "give one of them another name"


class PipelineReferenceUnknown(RivermouthError):
    """A ``${...}`` in the settings of a bundle that has no value here."""

    code = "PIPELINE_REFERENCE_UNKNOWN"
    what = "{where}: ${{{reference}}} has no value here; nothing was run"
    hint = "--param {reference}=VALUE"


class ProfileUnknown(RivermouthError):
    """A profile, or target of a bundle, that the settings do not have, or none where one must be chosen."""

    code = "PROFILE_UNKNOWN"
    what = "{detail}; nothing was run"
    hint = "{fix}"


class PipelineExists(RivermouthError):
    """A file of a new pipeline would be written over."""

    code = "PIPELINE_EXISTS"
    what = "{path} is there already; nothing was written"
    hint = "rivermouth init --pipeline -f another/pipeline.yml"


class NotebookInvalid(RivermouthError):
    """A source file of a pipeline that cannot be read as one."""

    code = "NOTEBOOK_INVALID"
    what = "{file}: {detail}; nothing was run"
    hint = "{fix}"
