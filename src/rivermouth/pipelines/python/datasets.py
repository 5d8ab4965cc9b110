"""``table``, ``view`` and their kin: functions that define datasets, as decorators or called by themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from rivermouth.domain.query.refresh_decision import POLICIES
from rivermouth.pipelines.python.arguments import column_names, unknown_arguments
from rivermouth.pipelines.python.registry import (
    EXPECTATIONS,
    NO_DATASET,
    ON_THE_TABLE,
    Registry,
    current,
    invalid,
    marked,
    own,
    texts,
    with_marks,
)
from rivermouth.pipelines.spec import Dataset, DatasetKind, Expectation, ExpectationAction, PythonQuery

_DATASETS: Final = "__rivermouth_datasets__"
_TABLE_ARGUMENTS: Final = (
    "name",
    "comment",
    "spark_conf",
    "table_properties",
    "partition_cols",
    "cluster_by",
    "cluster_by_auto",
    "path",
    "schema",
    "temporary",
    "private",
    "refresh_policy",
    "format",
)
Function = Callable[..., Any]


def table(query_function: Any = None, /, **arguments: Any) -> Any:
    """Defines a table: a streaming table where the query is a stream, else a materialized view."""
    return _decorated("table", "table", query_function, arguments)


def materialized_view(query_function: Any = None, /, **arguments: Any) -> Any:
    """Defines a materialized view: a table that equals its batch query."""
    return _decorated("materialized_view", "materialized_view", query_function, arguments)


def temporary_view(query_function: Any = None, /, **arguments: Any) -> Any:
    """Defines a view that only the pipeline has."""
    return _decorated("temporary_view", "temporary_view", query_function, arguments)


def create_streaming_table(name: Any = None, /, **arguments: Any) -> None:
    """Defines a streaming table without a query; flows write to it. Expectations are arguments."""
    registry = current("create_streaming_table")
    name = arguments.pop("name", None) if name is None else name
    what = f"create_streaming_table({name!r})"
    if not isinstance(name, str):
        raise invalid(registry, "create_streaming_table", "name is missing", 'create_streaming_table("orders")')
    groups: tuple[tuple[str, ExpectationAction], ...] = (
        ("expect_all", "warn"),
        ("expect_all_or_drop", "drop"),
        ("expect_all_or_fail", "fail"),
        ("expect_all_or_dead_letter", "dead_letter"),
    )
    expectations: list[Expectation] = []
    for argument, action in groups:
        expectations += _all_of(registry, argument, arguments.pop(argument, None), action)
    fields = _fields(registry, what, arguments)
    fields |= {"expectations": tuple(expectations), "flow_conf": texts(arguments.get("spark_conf"))}
    registry.add(Dataset(name, "streaming_table", registry.here(), **fields))


def _decorated(what: str, kind: DatasetKind, given: Any, arguments: dict[str, Any]) -> Any:
    registry = current(what)
    if isinstance(given, str):
        arguments.setdefault("name", given)
        given = None
    if given is not None and not callable(given):
        raise invalid(registry, what, "it decorates no function", f"@dp.{what} above a def")
    if given is None:
        given = arguments.pop("query_function", None)

    def decorate(function: Function) -> Function:
        return _define(registry, what, kind, function, arguments)

    return decorate if given is None else decorate(given)


def _define(
    registry: Registry, what: str, kind: DatasetKind, function: Function, arguments: dict[str, Any]
) -> Function:
    if not callable(function):
        raise invalid(registry, what, "it decorates no function", f"@dp.{what} above a def")
    name = arguments.get("name") or function.__name__
    fields = _fields(registry, f"{what} {name}", {key: each for key, each in arguments.items() if key != "name"})
    if kind == "table" and arguments.get("temporary") and "private" not in arguments:
        fields["private"] = True
    if kind == "temporary_view" and fields["properties"]:
        raise invalid(registry, f"{what} {name}", "a view has no table_properties", "remove table_properties")
    conf = texts(arguments.get("spark_conf"))
    expectations = tuple(marked(function, EXPECTATIONS, ()))
    query = PythonQuery(own(function), conf, registry.session.use)
    number = registry.add(Dataset(name, kind, registry.here(), query, expectations=expectations, **fields))
    registry.waiting.pop(id(function), None)
    return with_marks(function, **{_DATASETS: (*marked(function, _DATASETS, ()), number)})


def _fields(registry: Registry, what: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a dataset that its arguments say."""
    unknown_arguments(
        registry, what, {k: v for k, v in arguments.items() if k not in _TABLE_ARGUMENTS}, _TABLE_ARGUMENTS
    )
    if (kind := arguments.get("format")) not in (None, "delta"):
        raise invalid(registry, what, f"format is {kind!r}", "tables are Delta tables: remove format, or create_sink")
    if arguments.get("cluster_by_auto"):
        registry.note(
            registry.here(), f"{what}: cluster_by_auto is not for Spark without Databricks; nothing is clustered"
        )
    return {
        "schema": arguments.get("schema"),
        "comment": arguments.get("comment"),
        "properties": texts(arguments.get("table_properties")),
        "partition_by": column_names(registry, what, "partition_cols", arguments.get("partition_cols")),
        "cluster_by": column_names(registry, what, "cluster_by", arguments.get("cluster_by")),
        "path": arguments.get("path"),
        "private": bool(arguments.get("private")),
        "refresh_policy": _policy(registry, what, arguments.get("refresh_policy")),
    }


def _policy(registry: Registry, what: str, policy: Any) -> str | None:
    """How a view is refreshed; None where that is not given."""
    if policy is None or policy in POLICIES:
        return None if policy is None else str(policy)
    raise invalid(registry, what, f"refresh_policy is {policy!r}", f"one of {', '.join(POLICIES)}")


def expect(name: str, condition: Any = None, *, inv: Any = None) -> Callable[[Function], Function]:
    """Rows for which ``condition`` is not TRUE are written and counted."""
    return _expecting("expect", _named(name, condition, inv), "warn")


def expect_or_drop(name: str, condition: Any = None, *, inv: Any = None) -> Callable[[Function], Function]:
    """Rows for which ``condition`` is not TRUE are left out and counted."""
    return _expecting("expect_or_drop", _named(name, condition, inv), "drop")


def expect_or_fail(name: str, condition: Any = None, *, inv: Any = None) -> Callable[[Function], Function]:
    """A row for which ``condition`` is not TRUE ends the flow before the commit."""
    return _expecting("expect_or_fail", _named(name, condition, inv), "fail")


def expect_or_dead_letter(name: str, condition: Any = None, *, inv: Any = None) -> Callable[[Function], Function]:
    """Rows for which ``condition`` is not TRUE go to the dead letters of the table."""
    return _expecting("expect_or_dead_letter", _named(name, condition, inv), "dead_letter")


def expect_all(expectations: Mapping[str, Any]) -> Callable[[Function], Function]:
    """As ``expect``, for conditions by their names."""
    return _expecting("expect_all", expectations, "warn")


def expect_all_or_drop(expectations: Mapping[str, Any]) -> Callable[[Function], Function]:
    """As ``expect_or_drop``, for conditions by their names."""
    return _expecting("expect_all_or_drop", expectations, "drop")


def expect_all_or_fail(expectations: Mapping[str, Any]) -> Callable[[Function], Function]:
    """As ``expect_or_fail``, for conditions by their names."""
    return _expecting("expect_all_or_fail", expectations, "fail")


def expect_all_or_dead_letter(expectations: Mapping[str, Any]) -> Callable[[Function], Function]:
    """As ``expect_or_dead_letter``, for conditions by their names."""
    return _expecting("expect_all_or_dead_letter", expectations, "dead_letter")


def _named(name: str, condition: Any, inv: Any) -> dict[str, Any]:
    """One condition by its name; ``inv`` is what Databricks calls it."""
    return {name: inv if condition is None else condition}


def _expecting(
    what: Literal[
        "expect",
        "expect_or_drop",
        "expect_or_fail",
        "expect_or_dead_letter",
        "expect_all",
        "expect_all_or_drop",
        "expect_all_or_fail",
        "expect_all_or_dead_letter",
    ],
    conditions: Any,
    action: ExpectationAction,
) -> Callable[[Function], Function]:
    registry = current(what)
    expectations = tuple(_all_of(registry, what, conditions, action))

    def decorate(function: Function) -> Function:
        if not callable(function):
            raise invalid(registry, what, "it decorates no function", f"@dp.{what} between @dp.table and def")
        numbers = marked(function, _DATASETS, ())
        if (other := marked(function, NO_DATASET)) is not None:
            raise invalid(registry, other, "its expectations would not be checked", ON_THE_TABLE)
        if numbers:  # above the decorator of the dataset
            registry.expect(numbers[-1], expectations)
            return function
        found = with_marks(function, **{EXPECTATIONS: (*expectations, *marked(function, EXPECTATIONS, ()))})
        error = invalid(registry, what, "no table and no view has it", f"@dp.table above @dp.{what}")
        registry.waiting.pop(id(function), None)
        registry.waiting[id(found)] = found, error
        return found

    return decorate


def _all_of(registry: Registry, what: str, conditions: Any, action: ExpectationAction) -> Sequence[Expectation]:
    if conditions is None:
        return ()
    if not isinstance(conditions, Mapping):
        raise invalid(registry, what, "it takes conditions by name", f'{what}({{"has_id": "id IS NOT NULL"}})')
    for name, condition in conditions.items():
        if not isinstance(condition, str):
            detail = f"the condition of {name!r} is no text"
            raise invalid(registry, what, detail, "write it as SQL: 'id IS NOT NULL'")
    return [Expectation(str(name), condition, action) for name, condition in conditions.items()]
