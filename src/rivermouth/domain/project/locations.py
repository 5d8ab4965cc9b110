"""Where the things of a flow lie: its table, checkpoint, dead letters and state. Pure names, no storage.

Places are templates over ``{lake}``, ``{schema}``, ``{table}``, ``{topic}`` and ``{bucket_prefix}``. What comes
out is absolute: a plain path on the local disk, or a URI as Spark and Hadoop write it (``s3a://``, ``abfss://``).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from rivermouth.domain.project.catalog import registered_name
from rivermouth.domain.project.references import expand
from rivermouth.errors import EnvironmentMissing, PlaceInvalid
from rivermouth.names import STATE_FOLDER, did_you_mean
from rivermouth.spec import Places

if TYPE_CHECKING:
    from pathlib import Path

    from rivermouth.spec import Flow, ProjectSpec

DEBUG_SUFFIX: Final = "_debug"

_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}|([{}])")
_SCHEME: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):(?://([^/]*))?(/.*)?$")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_]")

_OTHER_WORDS: Final = {
    "s3": "s3a://",
    "s3n": "s3a://",
    "http": "s3a://, abfss://, gs:// or hdfs://",
    "https": "s3a://, abfss://, gs:// or hdfs://",
}


@dataclass(frozen=True, slots=True)
class FlowPlaces:
    """All places of one flow; every location is absolute.

    Attributes:
        flow: Name of the flow.
        name: ``schema.table``, for example ``silver.orders``.
        catalog: The catalog that its own name says; None for a name of two parts.
        registered: Under which name a catalog has the table too; None for a table that only has a path.
        table: Location of the Delta table.
        checkpoint: Location of the query's checkpoint.
        dead_letter_table: Location of the Delta table of dead letters.
        lake: The lake's root.
        state: The folder of rivermouth's own files in the lake.
        ledger_file: The copy of the table's last ledger entry.
        lease_file: The file by which one process owns the table.
        requests: The folder of what others ask of the flow's writer.
        tombstones: The folder of the deleted keys, where the table has its rows by key.
        archive: The folder of the files that the flow's sink writes too; empty where it writes none.
    """

    flow: str
    name: str
    catalog: str | None
    registered: str | None
    table: str
    checkpoint: str
    dead_letter_table: str
    lake: str
    state: str
    ledger_file: str
    lease_file: str
    requests: str
    tombstones: str
    archive: str = ""

    @property
    def full_name(self) -> str:
        """The table's name with its catalog, where it has one."""
        return f"{self.catalog}.{self.name}" if self.catalog else self.name

    def schemas(self, flow: str | None = None) -> str:
        """The folder of the versions of an inferred schema, the flow's own or those of its earlier name."""
        return f"{self.state}/schemas/{flow or self.flow}"

    def family(self, name: str) -> str:
        """The folder of what is kept of a family of flows."""
        return f"{self.state}/families/{name}"

    @property
    def failures(self) -> str:
        """The folder of the last failure of each flow."""
        return f"{self.state}/failures" if self.state else ""

    @property
    def lost(self) -> str:
        """The file that says what was lost for good when the state was deleted."""
        return f"{self.state}/lost/{self.name}.json"

    @property
    def is_trial(self) -> bool:
        """Whether they are those of a trial (``debug``)."""
        return self.state.endswith(DEBUG_SUFFIX)

    @property
    def option(self) -> str:
        """`` --debug`` behind a command about a trial; else nothing."""
        return " --debug" if self.is_trial else ""

    @property
    def erased(self) -> str:
        """The folder of what was erased from the table: coordinates, and reports."""
        return f"{self.state}/erased/{self.name}"


def resolve(
    project: ProjectSpec, flow: Flow, *, base: Path, environ: Mapping[str, str], debug: bool = False
) -> FlowPlaces:
    """The places of ``flow``.

    Args:
        project: Gives the lake and the templates that the flow does not override.
        flow: The flow; its topics may hold references to environment variables.
        base: Absolute folder against which relative local places are resolved: the project file's.
        environ: Environment variables.
        debug: Puts ``_debug`` at the end of every table, checkpoint, archive and state folder.

    Raises:
        PlaceInvalid: A template has an unknown placeholder, or a place cannot be one.
        EnvironmentMissing: A variable without default is not set.
    """
    lake = lake_location(project, base=base, environ=environ)
    templates = {
        name: getattr(flow.places, name) or getattr(project.places, name) or Places.DEFAULTS[name]
        for name in Places.DEFAULTS
    }
    topics = [expand(topic, environ) for topic in (*flow.topics, *flow.assign)]
    *catalogs, schema, table = _table_name(flow, topics)
    prefix = expand(templates["bucket_prefix"], environ)
    values = {"lake": lake, "schema": schema, "table": table, "bucket_prefix": prefix}

    def place(name: str) -> str:
        setting = f"flow {flow.name}: places.{name}" if getattr(flow.places, name) else f"places.{name}"
        # References first: a variable's value is never searched for placeholders.
        return location(
            _filled(templates[name], values, topics, setting, environ), base=base, environ=environ, setting=setting
        )

    places = FlowPlaces(
        flow=flow.name,
        name=f"{schema}.{table}",
        catalog=catalogs[0] if catalogs else None,
        registered=_registered(project, catalogs, schema, table),
        table=place("table"),
        checkpoint=place("checkpoint"),
        dead_letter_table=place("dead_letter_table"),
        lake=lake,
        state="",
        ledger_file="",
        lease_file="",
        requests="",
        tombstones="",
        archive=_archive(flow, lake, base=base, environ=environ),
    )
    return _with_state(_debugged(places) if debug else places, debug=debug)


def lake_location(project: ProjectSpec, *, base: Path, environ: Mapping[str, str]) -> str:
    """The root of the lake as an absolute place.

    Raises:
        PlaceInvalid: The text is empty or cannot be a place.
        EnvironmentMissing: A variable without default is not set.
    """
    text = expand(project.lake, environ)
    if "{" in text or "}" in text:
        raise PlaceInvalid(
            setting="lake",
            detail="placeholders in braces belong into places:, not here",
            fix="lake: ./lake, and places: {table: ...} for a layout of your own",
        )
    return location(text, base=base, environ=environ)


def location(text: str, *, base: Path, environ: Mapping[str, str], setting: str = "lake") -> str:
    """``text`` as an absolute place: normalised, without a slash at its end.

    A path without scheme and a ``file:`` URI become a plain local path, relative ones under ``base``; ``~/`` is
    the home folder. Other schemes are kept.

    Raises:
        PlaceInvalid: The text is empty, or its scheme is none that Spark writes to.
        EnvironmentMissing: ``~/`` without a HOME.
    """
    if not text.strip():
        raise PlaceInvalid(setting=setting, detail="the place is empty", fix="lake: ./lake")
    match = _SCHEME.match(text)
    if match is None:
        return _local(text, base, environ)
    scheme, authority, path = match[1].lower(), match[2], match[3] or "/"
    if scheme in _OTHER_WORDS:
        raise PlaceInvalid(
            setting=setting, detail=f"Spark does not write to {scheme}://", fix=f"write {_OTHER_WORDS[scheme]} instead"
        )
    if scheme == "file":
        if authority not in (None, "", "localhost"):
            fix = "write file:/// with three slashes and the path behind it, or a plain path"
            raise PlaceInvalid(setting=setting, detail="a file: URI names a host", fix=fix)
        return _local(unquote(path), base, environ)
    path = posixpath.normpath("/" + path.lstrip("/"))
    front = f"{scheme}:" if authority is None else f"{scheme}://{authority}"
    return front if path == "/" and authority else front + path


def schemes(places: Iterable[str]) -> frozenset[str]:
    """The schemes of these places; one on this machine has none."""
    return frozenset(match[1] for each in places if (match := _SCHEME.match(each)))


def inside(inner: str, outer: str) -> bool:
    """Whether ``inner`` lies below ``outer``; a place does not lie below itself."""
    return inner.startswith(outer.rstrip("/") + "/")


def name_of_topic(topic: str) -> str:
    """``topic`` as a part of a table's name: what Spark would have to quote becomes ``_``."""
    return _NOT_IN_NAMES.sub("_", topic)


def _archive(flow: Flow, lake: str, *, base: Path, environ: Mapping[str, str]) -> str:
    path = flow.sink.archive
    if path is None:
        return ""
    is_absolute = path == "~" or path.startswith(("/", "~/")) or _SCHEME.match(path) is not None
    place = path if is_absolute else f"{lake.rstrip('/')}/{path}"
    return location(place, base=base, environ=environ, setting=f"flow {flow.name}: sink.path")


def _registered(project: ProjectSpec, catalogs: list[str], schema: str, table: str) -> str | None:
    if catalogs:
        return ".".join((*catalogs, schema, table))
    return registered_name(project.catalog, schema, table) if project.catalog else None


def _table_name(flow: Flow, topics: list[str]) -> list[str]:
    setting = f"flow {flow.name}: table"
    # Parts first: a dot in a topic's name must not make another part.
    return [
        _fill(part, lambda name: name_of_topic(_topic(name, ("topic",), topics, setting)), setting)
        for part in flow.table.name.split(".")
    ]


def _filled(
    template: str, values: Mapping[str, str], topics: list[str], setting: str, environ: Mapping[str, str]
) -> str:
    def value(name: str) -> str:
        return values[name] if name in values else _topic(name, (*values, "topic"), topics, setting)

    # ``${NAME}`` has braces of its own: expand the text between placeholders, never what fills them.
    parts = re.split(r"(\$?\$\{[^{}]*\})", template)
    return "".join(
        expand(part, environ) if index % 2 else _fill(part, value, setting) for index, part in enumerate(parts)
    )


def _fill(text: str, value: Callable[[str], str], setting: str) -> str:
    def one(match: re.Match[str]) -> str:
        if match[2]:
            fix = "write placeholders as {lake}, {schema}, {table}, {topic}, {bucket_prefix}"
            raise PlaceInvalid(setting=setting, detail=f"a {match[2]} has no partner", fix=fix)
        return value(match[1])

    return _PLACEHOLDER.sub(one, text)


def _topic(name: str, known: Iterable[str], topics: list[str], setting: str) -> str:
    if name != "topic":
        detail, fix = f"unknown placeholder {{{name}}}", did_you_mean(name, known)
        if setting.endswith(": table"):
            detail += ", and by what a record holds only a flow over a table is parted"
            if not fix.startswith("did you mean"):
                fix = f"keep the records in a raw table, partition_by: [{{{name}: ...}}], and read it by source:"
        raise PlaceInvalid(setting=setting, detail=detail, fix=fix)
    if len(topics) != 1:
        read = f"it reads {len(topics)}" if topics else "it reads a topic_pattern or a table"
        raise PlaceInvalid(
            setting=setting,
            detail=f"{{topic}} is the flow's one topic, and {read}",
            fix="write the name out instead of {topic}",
        )
    return topics[0]


def _local(path: str, base: Path, environ: Mapping[str, str]) -> str:
    if path == "~" or path.startswith("~/"):
        if "HOME" not in environ:
            raise EnvironmentMissing(name="HOME")
        path = environ["HOME"] + path[1:]
    # normpath keeps two slashes at the front, which mean nothing on any system that Spark runs on.
    return "/" + posixpath.normpath(posixpath.join(base.as_posix(), path)).lstrip("/")


def _debugged(places: FlowPlaces) -> FlowPlaces:
    table = places.table + DEBUG_SUFFIX
    state = _below(places.lake, STATE_FOLDER)
    checkpoint = places.checkpoint + DEBUG_SUFFIX
    for old, new in ((state, state + DEBUG_SUFFIX), (places.table, table)):
        if inside(places.checkpoint, old):
            checkpoint = new + places.checkpoint.removeprefix(old)
    return replace(
        places,
        name=places.name + DEBUG_SUFFIX,
        registered=places.registered and places.registered + DEBUG_SUFFIX,
        table=table,
        dead_letter_table=places.dead_letter_table + DEBUG_SUFFIX,
        checkpoint=checkpoint,
        archive=places.archive and places.archive + DEBUG_SUFFIX,
    )


def _with_state(places: FlowPlaces, *, debug: bool) -> FlowPlaces:
    state = _below(places.lake, STATE_FOLDER + DEBUG_SUFFIX * debug)
    return replace(
        places,
        state=state,
        ledger_file=f"{state}/ledger/{places.name}.json",
        lease_file=f"{state}/leases/{places.name}.json",
        requests=f"{state}/requests/{places.flow}",
        tombstones=f"{state}/tombstones/{places.name}",
    )


def _below(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"
