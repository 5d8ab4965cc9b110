"""What declares a pipeline: errors in its settings and in the form of its source files."""

from __future__ import annotations

from rivermouth.errors.base import RivermouthError


class NotebookInvalid(RivermouthError):
    """A source file of a pipeline that cannot be read as one."""

    code = "NOTEBOOK_INVALID"
    what = "{file}: {detail}; nothing was run"
    hint = "{fix}"
