"""Errors in the SQL of a pipeline's files."""

from __future__ import annotations

from rivermouth.errors.base import RivermouthError


class SqlInvalid(RivermouthError):
    """A statement is not written as SQL wants it."""

    code = "SQL_INVALID"
    what = "{detail}; nothing was run"
    hint = "{fix}"


class SqlNotSupported(RivermouthError):
    """A clause is valid SQL of a pipeline, and without it the results would be others."""

    code = "SQL_NOT_SUPPORTED"
    what = "{clause} is not supported, and without it the results would be different; nothing was run"
    hint = "{fix}"


class SqlStatementRefused(RivermouthError):
    """A statement that a pipeline does not have."""

    code = "SQL_STATEMENT_REFUSED"
    what = "{statement} is not a statement of a pipeline; nothing was run"
    hint = "{fix}"


class SqlParameterUnknown(RivermouthError):
    """A parameter of a statement has no value."""

    code = "SQL_PARAMETER_UNKNOWN"
    what = "the parameter {parameter} has no value; nothing was run"
    hint = "{fix}"


class SqlNotConstant(RivermouthError):
    """An expression must be known before the query runs, and is not."""

    code = "SQL_NOT_CONSTANT"
    what = "{subject} must be a constant; nothing was run"
    hint = "write a literal, a parameter (:name, ${{name}}), secret('scope', 'key'), or these joined by ||"
