"""Sources of pipelines that are tables of other databases."""

from __future__ import annotations

from rivermouth.errors.base import RivermouthError


class JdbcSourceInvalid(RivermouthError):
    """A stream of a database's table that cannot be read so."""

    code = "JDBC_SOURCE_INVALID"
    what = "{source} cannot be read as a stream: {detail}; nothing was read"
    hint = "{fix}"


class JdbcSourceUnreadable(RivermouthError):
    """A database does not give what is asked for."""

    code = "JDBC_SOURCE_UNREADABLE"
    what = "{source} cannot be read: {detail}; nothing was read"
    hint = "{fix}"
