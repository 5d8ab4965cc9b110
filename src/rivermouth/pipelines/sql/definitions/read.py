"""Files and cells of SQL: which datasets and flows their statements define."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from rivermouth.errors.pipeline_sql import SqlStatementRefused
from rivermouth.pipelines.names import Use
from rivermouth.pipelines.spec import (
    VIEWS,
    AutoCdc,
    Dataset,
    DatasetKind,
    Definitions,
    Flow,
    FlowKind,
    Sink,
    SourceLine,
    SqlQuery,
)
from rivermouth.pipelines.sql.definitions.cdc import read_cdc
from rivermouth.pipelines.sql.definitions.cursor import MODIFIERS, NOUNS, Cursor, near
from rivermouth.pipelines.sql.definitions.datasets import Head, begins_query, read_head, read_properties
from rivermouth.pipelines.sql.definitions.filled import filled
from rivermouth.pipelines.sql.definitions.sql_session import SqlSession
from rivermouth.pipelines.sql.definitions.statements import Statement, statements
from rivermouth.pipelines.sql.parameters import SqlText, with_variables

_STATEMENTS: Final = ("CREATE", "APPLY", "SET", "USE")
_MISSPELT: Final = "did you mean"
_SHOWS: Final = frozenset(
    ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "LIST", "(")
)
_SET: Final = re.compile(r"\s*(`[^`]+`|[^\s=]+)\s*=\s*(.*?)\s*", re.DOTALL)
_VARIABLE: Final = re.compile(r"(VAR|VARIABLE)\s+\(?\s*(`[^`]+`|[^\s=(),]+)\s*[=,)]", re.IGNORECASE)
_NEXT_STATEMENT: Final = re.compile(r"\n\s*(?:CREATE|APPLY|SET|USE)\b", re.IGNORECASE)


@dataclass(slots=True)
class _File:
    """What has been read of a text."""

    session: SqlSession
    datasets: list[Dataset] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    sinks: list[Sink] = field(default_factory=list)
    notes: list[tuple[SourceLine, str]] = field(default_factory=list)

    def query(self, text: str, at: SourceLine) -> SqlQuery:
        """A query with the settings that hold now."""
        return SqlQuery(text, at, dict(self.session.conf), self.session.use)


def read_sql(
    text: str,
    at: SourceLine,
    *,
    conf: Mapping[str, str] | None = None,
    session: SqlSession | None = None,
    of_notebook: bool = False,
) -> Definitions:
    """All that the statements of a file or cell of SQL define; nothing is run.

    Args:
        text: A ``.sql`` file, or a cell of a notebook.
        at: Where its first line is.
        conf: The pipeline's configuration: values of ``${name}`` and ``:name`` in names, conditions and properties.
        session: What earlier cells have chosen, in place of ``conf``; it is changed by ``SET`` and ``USE``.
        of_notebook: Whether it is a cell of a notebook, which may have statements that set up or clean up: they are
            noted, and not run.

    Returns:
        Datasets, flows and sinks in the order of the text. The text of a query is as it is written; its ``conf`` is
        the pipeline's with what ``SET`` has changed before it. Where ``USE`` chose a schema, names are in it.

    Raises:
        SqlInvalid: A statement is not written as SQL wants it.
        SqlNotSupported: A clause would change the results and is not supported: ROW FILTER, MASK, IDENTITY ...
        SqlStatementRefused: A statement is not one of a pipeline: DROP, INSERT ...
        SqlParameterUnknown: A parameter outside of a query has no value.
        SqlNotConstant: The argument of IDENTIFIER() is not constant.
    """
    file = _File(session or SqlSession(dict(conf or {})))
    for statement in statements(text, at):
        params = {} if statement.value is not None else file.session.conf
        source, found = filled(text, at, statement.found, params)
        if not found:
            continue
        cursor = Cursor(source, found, file.session.conf, notes=file.notes)
        line = cursor.line
        try:
            _statement(file, cursor, statement)
        except SqlStatementRefused as error:
            if not of_notebook or str(error.facts["fix"]).startswith(_MISSPELT):
                raise
            cursor.note(f"{error.facts['statement']} defines nothing: it is not run", line)
    return Definitions(tuple(file.datasets), tuple(file.flows), tuple(file.sinks), (), tuple(file.notes))


def _statement(file: _File, cursor: Cursor, statement: Statement) -> None:
    if statement.value is not None:
        _set(file, cursor, statement)
    elif cursor.takes("CREATE"):
        _create(file, cursor)
    elif cursor.sees("APPLY", "CHANGES"):
        _apply_changes(file, cursor)
    elif cursor.takes("USE"):
        _use(file, cursor)
    elif cursor.word() in _SHOWS:
        cursor.note(f"{cursor.word()} shows rows and defines nothing: it is not run")
    else:
        raise _refused(cursor)


def _refused(cursor: Cursor, *words: str) -> SqlStatementRefused:
    shown = cursor.shown
    word = shown if "${" in shown else cursor.word() or shown
    statement = " ".join([*words, word]).strip()
    like = None if words or word in _STATEMENTS else near(word, _STATEMENTS)
    fix = f"{_MISSPELT} {like}?" if like else "run it elsewhere, before the pipeline, and remove it from this file"
    position = cursor.found[0].start if words else cursor.token().start
    return SqlStatementRefused(at=cursor.source.place(position), statement=statement, fix=fix)


def _set(file: _File, cursor: Cursor, statement: Statement) -> None:
    written = statement.value or ""
    if _NEXT_STATEMENT.search(written):
        raise cursor.invalid("SET does not end before the next statement", "write ; behind the value of SET")
    line = cursor.line
    written = written.strip()
    if variable := _VARIABLE.match(written):
        name = variable[2].strip("`")
        fix = f"write SET {name} = ..., and ${{{name}}} where its value is used"
        at = cursor.source.place(cursor.found[0].start)
        raise SqlStatementRefused(at=at, statement=f"SET {variable[1].upper()}", fix=fix)
    zone = re.fullmatch(r"TIME\s+ZONE\s+(.+)", written, re.IGNORECASE)
    if zone:
        written = f"spark.sql.session.timeZone = {zone[1]}"
    found = _SET.fullmatch(written)
    if not found:
        cursor.note("SET without a value changes nothing", line)
        return
    key, value = found[1].strip("`"), with_variables(found[2], file.session.conf, line)
    # A setting has no quotes; a parameter keeps them, because ${name} puts its text into the query as it is.
    is_setting = key.startswith(("spark.", "pipelines."))
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\"`"
    file.session.conf[key] = value[1:-1] if is_setting and is_quoted else SqlText(value)


def _use(file: _File, cursor: Cursor) -> None:
    session = file.session
    if cursor.takes("CATALOG"):
        name = cursor.string() if cursor.token().is_string else cursor.parts("the name of a catalog")[-1]
        session.use = Use(name)
    elif cursor.takes("SCHEMA") or cursor.takes("DATABASE") or not cursor.ended:
        *catalog, schema = cursor.parts("the name of a schema")
        session.use = Use(catalog[-1] if catalog else session.use.catalog, schema)
    if not cursor.ended:
        raise cursor.unexpected(";")


def _create(file: _File, cursor: Cursor) -> None:
    line = cursor.source.line_of(cursor.found[0].start)
    if cursor.takes("OR") and not (cursor.takes("REFRESH") or cursor.takes("REPLACE")):
        raise cursor.unexpected("REFRESH", "REPLACE")
    modifiers = set()
    while cursor.word() in MODIFIERS:
        modifiers.add(cursor.word())
        cursor.i += 1
    if cursor.takes("TABLE") or cursor.takes("VIEW"):
        kind = _kind(modifiers, cursor.token(-1).word, cursor, line)
        head = read_head(cursor, kind, private=bool(modifiers & {"PRIVATE", "TEMPORARY", "TEMP"}))
        _dataset(file, cursor, head, line)
    elif not modifiers and cursor.takes("FLOW"):
        _flow(file, cursor, line)
    elif not modifiers and cursor.takes("SINK"):
        _sink(file, cursor, line)
    elif modifiers or near(cursor.word(), [*MODIFIERS, *NOUNS]):
        raise cursor.unexpected(*sorted(MODIFIERS), *NOUNS)
    else:
        raise _refused(cursor, "CREATE")


def _kind(modifiers: set[str], noun: str, cursor: Cursor, line: SourceLine) -> DatasetKind:
    streaming = modifiers & {"STREAMING", "INCREMENTAL"}
    if noun == "VIEW" and streaming and "LIVE" not in modifiers:
        raise cursor.invalid("there are no streaming views", "write CREATE STREAMING TABLE, or CREATE TEMPORARY VIEW")
    if noun == "TABLE" and modifiers & {"MATERIALIZED", "PERSISTED"}:
        raise cursor.invalid("there are no materialized tables", "write CREATE MATERIALIZED VIEW")
    if "MATERIALIZED" in modifiers and noun == "VIEW":
        return "materialized_view"
    if noun == "VIEW":
        if modifiers & {"LIVE", "TEMPORARY", "TEMP", "PRIVATE"}:
            return "temporary_view"
        cursor.note("CREATE VIEW: this pipeline alone can read the view; CREATE MATERIALIZED VIEW makes a table", line)
        return "view"
    if streaming:
        return "streaming_table"
    if "LIVE" in modifiers:
        return "materialized_view"
    cursor.note("CREATE TABLE defines a materialized view, or a streaming table where its query is streaming", line)
    return "table"


def _dataset(file: _File, cursor: Cursor, head: Head, line: SourceLine) -> None:
    name = head.name if head.kind == "temporary_view" else file.session.full(head.name)
    query = None
    if head.kind == "streaming_table" and cursor.takes("FLOW"):
        file.flows.append(_flow_of(file, cursor, (name, name), line))
    elif not cursor.ended:
        query = _query(file, cursor, head)
    elif head.kind != "streaming_table":
        what = {"materialized_view": "materialized view", "table": "table"}.get(head.kind, "view")
        fix = "write AS SELECT ..., or CREATE STREAMING TABLE for a table that flows write"
        raise cursor.invalid(f"the {what} {head.name} has no query", fix)
    file.datasets.append(
        Dataset(
            name,
            head.kind,
            line,
            query=query,
            schema=head.schema,
            comment=head.comment,
            properties=head.properties,
            partition_by=head.partition_by,
            cluster_by=head.cluster_by,
            path=head.path,
            expectations=tuple(head.expectations),
            private=head.private and head.kind not in VIEWS,
            refresh_policy=head.refresh_policy,
        )
    )


def _query(file: _File, cursor: Cursor, head: Head | None = None) -> SqlQuery:
    """Reads the query that ends a statement."""
    cursor.takes("AS")
    if cursor.ended or cursor.sees("FLOW") or not begins_query(cursor):
        raise cursor.unexpected("SELECT")
    line, text = cursor.line, cursor.raw(cursor.i, len(cursor.found))
    for _ in range(cursor.i, len(cursor.found)):
        cursor.refuse_next_statement()
        cursor.i += 1
    labelled = head.labelled(text) if head else text
    return file.query(labelled, replace(line, before=line.before - labelled.index(text)))


def _flow(file: _File, cursor: Cursor, line: SourceLine) -> None:
    cursor.takes("IF", "NOT", "EXISTS")
    name = cursor.name("the name of the flow")
    comment = cursor.string() if cursor.takes("COMMENT") else None
    cursor.needs("AS")
    file.flows.append(_flow_of(file, cursor, (name, None), line, comment=comment))


def _apply_changes(file: _File, cursor: Cursor) -> None:
    file.flows.append(_flow_of(file, cursor, (None, None), cursor.line))


def _flow_of(
    file: _File,
    cursor: Cursor,
    names: tuple[str | None, str | None],
    line: SourceLine,
    *,
    comment: str | None = None,
) -> Flow:
    """Reads from INSERT, AUTO CDC or APPLY CHANGES on; ``names`` are the flow's and its target's where known."""
    name, target = names
    kind: FlowKind = "append"
    if cursor.takes("AUTO", "CDC") or cursor.takes("APPLY", "CHANGES"):
        kind = "auto_cdc"
    elif not cursor.takes("INSERT") and not (target and cursor.sees("REPLACE", "WHERE")):
        raise cursor.unexpected("INSERT INTO", "AUTO CDC INTO")
    once = cursor.takes("ONCE")
    if target is None:
        cursor.needs("INTO")
        once = cursor.takes("ONCE") or once
        target = file.session.full(cursor.name("the name of the target"))
    cdc: AutoCdc | None = None
    if kind == "auto_cdc":
        cursor.needs("FROM")
        text, at, cdc = read_cdc(cursor)
        query = file.query(text, at)
    else:
        once = cursor.takes("ONCE") or once
        _by_name(cursor)
        query = _query(file, cursor)
    return Flow(name or target, target, kind, query, line, once=once, comment=comment, cdc=cdc)


def _by_name(cursor: Cursor) -> None:
    by_name = cursor.takes("BY", "NAME")
    if cursor.sees("REPLACE"):
        clause = f"REPLACE {cursor.word(1)}"
        raise cursor.not_supported(clause, "define a materialized view with the query instead")
    if by_name:
        return
    if cursor.word() == "(" and cursor.word(1) not in ("SELECT", "WITH", "FROM", "VALUES", "("):
        raise cursor.invalid("INSERT INTO has a list of columns", "write BY NAME, and name the columns in the SELECT")
    cursor.note("INSERT INTO matches columns by their names, as BY NAME says")


def _sink(file: _File, cursor: Cursor, line: SourceLine) -> None:
    cursor.takes("IF", "NOT", "EXISTS")
    name = cursor.name("the name of the sink")
    format_, options = None, {}
    while not cursor.ended:
        if cursor.takes("FORMAT") or cursor.takes("USING"):
            format_ = cursor.string() if cursor.token().is_string else cursor.name("a format")
        elif cursor.takes("OPTIONS") or cursor.takes("WITH"):
            options.update(read_properties(cursor))
        elif cursor.takes("COMMENT"):
            cursor.string()
        else:
            raise cursor.unexpected("FORMAT", "OPTIONS")
    if format_ is None:
        raise cursor.invalid(f"the sink {name} has no format", "write FORMAT 'kafka' OPTIONS ('topic' = 'orders', ...)")
    file.sinks.append(Sink(name, line, format_, options))
