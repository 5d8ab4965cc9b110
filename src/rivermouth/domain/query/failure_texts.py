"""What a failure of a query says: its whole text, and the error in it that its user can do something about."""

from __future__ import annotations

import re
from typing import Final

from rivermouth.errors import first_line, said_lines

_PYTHON_ERROR: Final = re.compile(r"(?:pyspark\.errors\.\w+\.|\w+\.)*(\w+(?:Error|Exception)): (.+)")
_JAVA_ERROR: Final = re.compile(r"(?:[a-z_]\w*\.)+(?:\w+\$)*(\w+): (.+)")
_WRAPPING: Final = re.compile(r"^\[STREAM_FAILED\] Query \[[^]]*\] terminated with exception: | SQLSTATE: XXKST$")
"""What Spark puts around the reason for which a query ended: ids that change with each run."""


def whole_text(error: BaseException) -> str:
    """The texts of an error of Spark's and of its cause."""
    java = getattr(error, "java_exception", None)
    parts = [str(error), "" if java is None else str(java.toString())]
    if error.__cause__ is not None:
        parts.append(str(error.__cause__))
    return "\n".join(parts)


def cause(error: BaseException) -> tuple[str, str]:
    """What went wrong: the name of an error, and one line. Where a function of Python or Java raised it, its own."""
    for line in reversed(said_lines(error)):
        found = _PYTHON_ERROR.match(line)
        if found is not None and not found[1].startswith("Py4J"):
            return found[1], found[2]
    said = _WRAPPING.sub("", first_line(error))
    of_java = _JAVA_ERROR.fullmatch(said) if type(error).__name__ == "Py4JJavaError" else None
    return (of_java[1], of_java[2]) if of_java is not None else (type(error).__name__, said)
