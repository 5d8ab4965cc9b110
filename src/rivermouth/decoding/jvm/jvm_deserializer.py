"""Values that a user's own Kafka deserializer decodes, in Spark's JVM, by our class around it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.classic.column import Column as ClassicColumn

from rivermouth import names
from rivermouth.decoding.jvm import jvm_classes
from rivermouth.decoding.jvm.java_objects import jvm
from rivermouth.errors import DeserializerLost, DeserializerUnusable

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_CLASS: Final = "values.Deserialized"
_LOST: Final = re.compile(r"RIVERMOUTH_DESERIALIZER_LOST\|([^|]*)\|(.*?)\|(?:\n|$)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Deserializer:
    """A class and how it is called.

    Attributes:
        name: Of the class.
        jars: Files in which it may be.
        config: What its ``configure`` gets.
        schema: The declared columns in Spark's JSON form.
        is_key: Whether it reads keys; its ``configure`` gets to know.
        truncates_times: Whether what is less than a microsecond is cut off of times.
    """

    name: str
    jars: Sequence[str]
    config: Mapping[str, Any] = field(repr=False)
    schema: str
    is_key: bool = False
    truncates_times: bool = False


def check(spark: SparkSession, called: Deserializer) -> None:
    """Makes sure that the class is there, can be made, and takes its configuration.

    Raises:
        DeserializerUnusable: It is not, or cannot, or does not.
    """
    for jar in called.jars:
        if not Path(jar).is_file():
            fix = "put it there, or correct jars: [...]"
            raise DeserializerUnusable(name=called.name, detail=f"there is no file {jar}", fix=fix)
    trouble = _made(spark, called).trouble()
    if trouble is None:
        return
    if trouble:
        fix = "correct class, config or jars of the format"
        raise DeserializerUnusable(name=called.name, detail=trouble, fix=fix)
    if _has_all(spark, called.jars):
        detail, fix = "no jar of the session has the class", "name the jar that has it: jars: [orders.jar]"
    else:
        detail = "its jars are not in this session, which was started without them"
        fix = f"start it with --jars {','.join(called.jars)}"
    raise DeserializerUnusable(name=called.name, detail=detail, fix=fix)


def decoded(spark: SparkSession, called: Deserializer) -> Column:
    """A struct of ``decoded``, ``data`` and ``verdict``, never null, over envelope rows.

    Raises:
        ValueError: No Java object becomes one of the types.
    """
    return ClassicColumn(_made(spark, called).over(names.VALUE, names.TOPIC, names.HEADERS))


def failure(error_text: str) -> DeserializerLost | None:
    """The typed error behind a Spark job that ended because a task could not use its deserializer; else None."""
    match = _LOST.search(error_text)
    return None if match is None else DeserializerLost(name=match[1], detail=match[2])


def _made(spark: SparkSession, called: Deserializer) -> Any:
    settings = (called.schema, called.is_key, called.truncates_times)
    return jvm_classes.made(spark, _CLASS, called.name, dict(called.config), *settings)


def _has_all(spark: SparkSession, jars: Sequence[str]) -> bool:
    """Whether the session was started with these jars."""
    path = jvm(spark).java.lang.System.getProperty("java.class.path")
    known = f"{path}:{spark.sparkContext.getConf().get('spark.jars', '')}"
    return all(str(Path(jar).absolute()) in known for jar in jars)
