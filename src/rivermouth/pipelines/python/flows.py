"""Flows, sinks and event hooks as Python files define them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from rivermouth.domain.kafka.sink_options import OF_READERS
from rivermouth.pipelines.python.arguments import column_names, column_text, scd_type, unknown_arguments
from rivermouth.pipelines.python.printed import printing_apart
from rivermouth.pipelines.python.registry import Registry, current, invalid, own, refuse_expectations, texts
from rivermouth.pipelines.spec import TABLE_NAME, AutoCdc, EventHook, Flow, FlowKind, PythonQuery, Sink

Function = Callable[..., Any]
_AUTO_CDC: Final = (
    "target",
    "source",
    "keys",
    "sequence_by",
    "where",
    "ignore_null_updates",
    "ignore_null_updates_column_list",
    "ignore_null_updates_except_column_list",
    "columns_to_update",
    "apply_as_deletes",
    "apply_as_truncates",
    "column_list",
    "except_column_list",
    "stored_as_scd_type",
    "track_history_column_list",
    "track_history_except_column_list",
    "flow_name",
    "name",
    "once",
)
_FROM_SNAPSHOT: Final = (
    "target",
    "source",
    "snapshot_and_version",
    "keys",
    "stored_as_scd_type",
    "track_history_column_list",
    "track_history_except_column_list",
    "flow_name",
    "name",
    "once",
)
# Each changes the result, and Delta's plain tables have no place for what it needs.
_REFUSED: Final = {
    "system_sequence_by": "a second order of changes is not supported",
    "stored_as_bitemporal": "bitemporal tables are not supported",
}


def append_flow(target: Any = None, /, **arguments: Any) -> Any:
    """Defines a flow that appends the rows of its query to ``target``."""
    return _flow("append_flow", "append", target, arguments)


def update_flow(target: Any = None, /, **arguments: Any) -> Any:
    """Defines a flow whose query is written in update mode, into a sink, or by its ``keys`` into a table."""
    return _flow("update_flow", "update", target, arguments)


def _flow(what: str, kind: FlowKind, target: Any, arguments: dict[str, Any]) -> Any:
    registry = current(what)
    target = arguments.pop("target", None) if target is None else target
    if not isinstance(target, str):
        raise invalid(registry, what, "target is missing", f'@dp.{what}(target="orders")')
    known = ("target", "name", "comment", "spark_conf", "once", *(("keys",) if kind == "update" else ()))
    unknown_arguments(registry, f"{what} into {target}", {k: v for k, v in arguments.items() if k not in known}, known)

    def decorate(function: Function) -> Function:
        decorated = refuse_expectations(registry, f"{what} into {target}", function)
        registry.add_flow(
            Flow(
                name=arguments.get("name") or function.__name__,
                target=target,
                kind=kind,
                query=PythonQuery(own(function), texts(arguments.get("spark_conf")), registry.session.use),
                at=registry.here(),
                once=bool(arguments.get("once")),
                comment=arguments.get("comment"),
                keys=column_names(registry, f"{what} into {target}", "keys", arguments.get("keys")),
            )
        )
        return decorated

    return decorate


def create_auto_cdc_flow(
    target: Any = None, source: Any = None, keys: Any = None, sequence_by: Any = None, /, **given: Any
) -> None:
    """Defines a flow that keeps ``target`` as the changes that ``source`` reads say."""
    registry = current("create_auto_cdc_flow")
    positional = {"target": target, "source": source, "keys": keys, "sequence_by": sequence_by}
    given = {name: value for name, value in positional.items() if value is not None} | given
    what = f"AUTO CDC into {given.get('target')}"
    _refuse(registry, what, given)
    unknown_arguments(registry, what, {k: v for k, v in given.items() if k not in _AUTO_CDC}, _AUTO_CDC)
    _need(registry, what, given, "target", "source", "keys", "sequence_by")
    _once_said(registry, what, given, "column_list", "except_column_list")
    _once_said(registry, what, given, "track_history_column_list", "track_history_except_column_list")

    source_name, where = given["source"], _sql(given, "where")

    def changes() -> Any:
        frame = registry.reader.read(source_name, stream=True)
        return frame if where is None else frame.where(where)

    registry.add_flow(
        Flow(
            name=given.get("name") or given.get("flow_name") or given["target"],
            target=given["target"],
            kind="auto_cdc",
            query=PythonQuery(changes, use=registry.session.use),
            at=registry.here(),
            once=bool(given.get("once")),
            cdc=_settings_of(registry, what, given),
        )
    )


def _sql(given: dict[str, Any], argument: str) -> str | None:
    value = given.get(argument)
    return None if value is None else column_text(value)


def _settings_of(registry: Registry, what: str, given: dict[str, Any]) -> AutoCdc:
    """What the arguments of an AUTO CDC flow say of its changes."""

    def names(argument: str) -> tuple[str, ...]:
        return column_names(registry, what, argument, given.get(argument))

    return AutoCdc(
        keys=names("keys"),
        sequence_by=_sql(given, "sequence_by"),
        apply_as_deletes=_sql(given, "apply_as_deletes"),
        apply_as_truncates=_sql(given, "apply_as_truncates"),
        columns=names("column_list"),
        except_columns=names("except_column_list"),
        scd_type=scd_type(registry, what, given.get("stored_as_scd_type")),  # type: ignore[arg-type]
        track_history_columns=names("track_history_column_list"),
        track_history_except_columns=names("track_history_except_column_list"),
        ignore_null_updates=bool(given.get("ignore_null_updates")),
        ignore_null_updates_columns=names("ignore_null_updates_column_list"),
        ignore_null_updates_except_columns=names("ignore_null_updates_except_column_list"),
        columns_to_update=given.get("columns_to_update"),
    )


def create_auto_cdc_from_snapshot_flow(
    target: Any = None, source: Any = None, keys: Any = None, stored_as_scd_type: Any = None, /, **given: Any
) -> None:
    """Defines a flow that keeps ``target`` as the snapshots that ``source`` reads or returns say."""
    registry = current("create_auto_cdc_from_snapshot_flow")
    positional = {"target": target, "source": source, "keys": keys, "stored_as_scd_type": stored_as_scd_type}
    given = {name: value for name, value in positional.items() if value is not None} | given
    what = f"AUTO CDC from snapshots into {given.get('target')}"
    _refuse(registry, what, given)
    unknown_arguments(registry, what, {k: v for k, v in given.items() if k not in _FROM_SNAPSHOT}, _FROM_SNAPSHOT)
    given.setdefault("source", given.get("snapshot_and_version"))
    _need(registry, what, given, "target", "source", "keys")
    snapshots = given["source"]
    if isinstance(snapshots, str):
        name = snapshots

        def query() -> Any:
            return registry.reader.read(name, stream=False)
    else:
        query = snapshots
    names = ("keys", "track_history_column_list", "track_history_except_column_list")
    own_keys, tracked, untracked = (column_names(registry, what, each, given.get(each)) for each in names)
    registry.add_flow(
        Flow(
            name=given.get("name") or given.get("flow_name") or given["target"],
            target=given["target"],
            kind="auto_cdc_from_snapshot",
            query=PythonQuery(query, use=registry.session.use),
            at=registry.here(),
            once=bool(given.get("once")),
            cdc=AutoCdc(
                keys=own_keys,
                sequence_by=None,
                scd_type=scd_type(registry, what, given.get("stored_as_scd_type")),  # type: ignore[arg-type]
                track_history_columns=tracked,
                track_history_except_columns=untracked,
            ),
        )
    )


def create_sink(name: Any = None, format: Any = None, options: Any = None, /, **given: Any) -> None:  # noqa: A002
    """Defines a sink of a format of Spark's writer: ``kafka``, ``delta``, ``console`` or a data source."""
    registry = current("create_sink")
    positional = {"name": name, "format": format, "options": options}
    given = {key: value for key, value in positional.items() if value is not None} | given
    what, known = f"sink {given.get('name')}", ("name", "format", "options")
    unknown_arguments(registry, what, {k: v for k, v in given.items() if k not in known}, known)
    _need(registry, what, given, "name", "format")
    options = texts(given.get("options"))
    if str(given["format"]).lower() == "kafka":
        of_readers = {each.lower() for each in OF_READERS}
        for option in [each for each in options if each.lower() in of_readers]:
            del options[option]
            registry.note(registry.here(), f"{what}: {option} has no effect, it is an option of readers")
    for option in [each for each in options if each.lower() == TABLE_NAME]:
        options[option] = registry.session.full(options[option])
    registry.sinks.append(Sink(given["name"], registry.here(), str(given["format"]), options))


def foreach_batch_sink(function: Any = None, /, *, name: str | None = None) -> Any:
    """Defines a sink whose function gets each batch and its number."""
    registry = current("foreach_batch_sink")
    if isinstance(function, str):
        name, function = function, None

    def decorate(function: Function) -> Function:
        decorated = refuse_expectations(registry, f"sink {name or function.__name__}", function)
        registry.sinks.append(Sink(name or function.__name__, registry.here(), function=printing_apart(function)))
        return decorated

    return decorate if function is None else decorate(function)


def on_event_hook(function: Any = None, /, *, max_allowable_consecutive_failures: int | None = None) -> Any:
    """Defines a function that gets each event of an update as a dict."""
    registry = current("on_event_hook")

    def decorate(function: Function) -> Function:
        hook = EventHook(
            function.__name__, printing_apart(function), max_allowable_consecutive_failures, registry.here()
        )
        registry.hooks.append(hook)
        return function

    return decorate if function is None else decorate(function)


def _need(registry: Registry, what: str, given: dict[str, Any], *arguments: str) -> None:
    for argument in arguments:
        if given.get(argument) is None:
            raise invalid(registry, what, f"{argument} is missing", f"give {argument}=")


def _once_said(registry: Registry, what: str, given: dict[str, Any], one: str, other: str) -> None:
    if given.get(one) and given.get(other):
        raise invalid(registry, what, f"{one} and {other} say one thing twice", f"keep one of {one} and {other}")


def _refuse(registry: Registry, what: str, given: dict[str, Any]) -> None:
    for argument, why in _REFUSED.items():
        if given.get(argument) is not None:
            raise invalid(registry, what, f"{argument}: {why}", f"remove {argument}")
