"""Errors of Spark's, which ask a JVM for their words."""

from __future__ import annotations


class _Outlasting(Exception):
    """Says what it said when it was made to outlast its JVM."""

    words: str

    def __str__(self) -> str:
        return self.words


def outlasting(error: BaseException) -> None:
    """Has an error, and all that led to it, say for ever what it says now.

    PySpark's and py4j's exceptions ask the JVM whenever they are made text, and fail themselves once it has ended.
    Their classes stay what they are to ``except`` and ``isinstance``.

    Guarantees:
        Called twice, or with an error that has its words at hand, it changes nothing.
    """
    seen: set[int] = set()
    chain: list[BaseException | None] = [error]
    while chain:
        each = chain.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        chain += [each.__cause__, each.__context__]
        cls = type(each)
        if cls.__module__.startswith(("pyspark.", "py4j.")) and not isinstance(each, _Outlasting):
            words = _words(each)
            names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
            each.__class__ = type(cls.__name__, (_Outlasting, cls), names)
            each.words = words  # type: ignore[attr-defined]


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the JVM has gone already, and took them along
        return "its JVM ended before it said what was amiss"
