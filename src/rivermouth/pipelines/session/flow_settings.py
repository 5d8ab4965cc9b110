"""Settings of flows: each query is evaluated and run in a session that has them, and no other query has them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.conf import RuntimeConfig

from rivermouth.decoding.jvm.java_objects import java_frame, java_session
from rivermouth.pipelines.spec import SourceLine
from rivermouth.ports.internals import sessions
from rivermouth.ports.internals import settings as internals
from rivermouth.ports.internals.query_plans import CONSTRAINTS

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

OF_PIPELINES: Final = {
    # As of flows: long expressions over many columns, as AUTO CDC has them, would be planned for minutes.
    CONSTRAINTS: "false",
    # State is on disk and not on Java's heap, and each batch writes what it changed instead of the whole. A query that
    # has begun with another provider keeps it: its checkpoint says so.
    "spark.sql.streaming.stateStore.providerClass": internals.ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""Settings that the session of a pipeline has, where its configuration does not say another value."""

_COMMAND_LINE: Final = SourceLine("command line", 1)


class Settings(RuntimeConfig):
    """Settings of Spark's, and others that Spark does not let a session set, which are kept here.

    Args:
        java: The settings of Java's session.
        kept: The others.

    Attributes:
        kept: The others, by name.
    """

    def __init__(self, java: Any, kept: Mapping[str, str]) -> None:
        super().__init__(java)
        self.kept = dict(kept)

    def set(self, key: str, value: Any) -> None:
        """Sets it, for the code that asks for it and for Spark, if that takes it."""
        try:
            super().set(key, value)
        except AnalysisException:
            self.kept[key] = str(value)

    def get(self, key: str, *default: Any, **named: Any) -> str | None:
        """The value.

        Raises:
            PySparkException: There is none, and no default was given.
        """
        return self.kept[key] if key in self.kept else super().get(key, *default, **named)


@dataclass(frozen=True, slots=True)
class _Clone:
    """A session with settings of a flow.

    Attributes:
        session: As its queries know it.
        conf: All of its settings.
    """

    session: SparkSession
    conf: Settings


class SessionOfFlows(SparkSession):
    """A session that files of a pipeline know as ``spark``.

    While a query with settings is evaluated, it is a clone with these settings for the thread that evaluates it.

    Args:
        context: Spark's context.
        java: Java's session.
    """

    def __init__(self, context: SparkContext, java: Any) -> None:
        self._sc = context  # first: if somebody pickles the session, it is Spark's context that says why it cannot be
        self._of_thread = threading.local()
        self._noted = set[tuple[str, str]]()
        super().__init__(context, java)
        self._own_conf = Settings(java.conf(), {})

    @property
    def _jsparkSession(self) -> Any:  # noqa: N802 - PySpark's own name of Java's session, which it asks for each time
        clone = self._clone
        return self._java if clone is None else java_session(clone.session)

    @_jsparkSession.setter
    def _jsparkSession(self, java: Any) -> None:  # noqa: N802
        self._java = java

    @property
    def _clone(self) -> _Clone | None:
        found: _Clone | None = getattr(self._of_thread, "clone", None)
        return found

    @property
    def is_cloned(self) -> bool:
        """Whether it is a session with settings of a flow in this thread."""
        return self._clone is not None

    @property
    def conf(self) -> Settings:
        """The session's settings; also those that only the pipeline knows."""
        return self._own_conf if self._clone is None else self._clone.conf

    def note_unheeded(
        self, names: Iterable[str], at: SourceLine | None, note: Callable[[SourceLine, str], None]
    ) -> None:
        """Notes settings that Spark takes only when it starts, and that it was started without: once a file.

        Args:
            names: Settings of the session.
            at: Where they are written; None on the command line.
            note: Gets a sentence for each of these.
        """
        at, kept = at or _COMMAND_LINE, self.conf.kept
        asked = [n for n in names if n in kept and n.startswith("spark.") and (at.file, n) not in self._noted]
        there = dict(self.sparkContext.getConf().getAll()) if asked else {}
        for name in asked:
            if there.get(name) != kept[name]:
                self._noted.add((at.file, name))
                fix = f"write it as spark: {{conf: {{{name}: ...}}}} in rivermouth.yml"
                note(at, f"{name} has no effect here, Spark takes it when it starts: {fix}")

    @contextmanager
    def with_settings(self, conf: Mapping[str, str], *, nested: bool = False) -> Iterator[None]:
        """In the block this thread works in a session that has these settings too.

        Args:
            conf: Settings of a flow. Where the session has them already, there is no clone.
            nested: Whether they are added to those of the flow whose query is evaluated in this thread. Else these do
                not hold in the block.

        Guarantees:
            Queries of other flows do not have the settings. Temporary views and functions that are made in a clone are
            not in the session afterwards.
        """
        before = self._clone
        self._of_thread.clone = before if nested else None
        try:
            if any(self.conf.get(name, None) != value for name, value in conf.items()):
                self._of_thread.clone = self._cloned(conf)
            with sessions.active(self) if self._clone is not before else nullcontext():
                yield
        finally:
            self._of_thread.clone = before

    def _cloned(self, conf: Mapping[str, str]) -> _Clone:
        session = sessions.cloned(self)
        settings = Settings(java_session(session).conf(), self.conf.kept)
        for name, value in conf.items():
            settings.set(name, value)
        return _Clone(session, settings)

    def here(self, frame: DataFrame) -> DataFrame:
        """The same query in the session in which this thread works, whose settings then hold for it."""
        own = self if self._clone is None else self._clone.session
        if not java_frame(frame).sparkSession().equals(java_session(own)):
            return sessions.rehomed(frame, own)
        return frame if frame.sparkSession is own else ClassicDataFrame(java_frame(frame), own)
