"""The plan of a source: its schema, given, or inferred from the files that are there and from what was kept."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.errors import FileColumnsNew, FileSchemaInvalid, FileSchemaShared, FileSourceEmpty
from rivermouth.names import folded
from rivermouth.pipelines.files import inference, listing, schemas
from rivermouth.pipelines.files.first_starts import FirstStart, FirstStarts
from rivermouth.pipelines.files.kept_schema import FileSet, Kept, KeptSchema, SchemasOfRun, default_place
from rivermouth.pipelines.files.known_options import FIXED, TYPED
from rivermouth.pipelines.files.paths import resolved, written
from rivermouth.pipelines.files.plan import Plan
from rivermouth.pipelines.files.rows import csv_rows, json_rows
from rivermouth.pipelines.names import unquoted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from rivermouth.pipelines.files.options import FileOptions
    from rivermouth.pipelines.spec import SourceLine

_FIXED_SCHEMAS = {
    "text": T.StructType([T.StructField("value", T.StringType())]),
    "binaryFile": T.StructType(
        [
            T.StructField("path", T.StringType()),
            T.StructField("modificationTime", T.TimestampType()),
            T.StructField("length", T.LongType()),
            T.StructField("content", T.BinaryType()),
        ]
    ),
}


_SIMPLE = (T.StringType, T.NumericType, T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType)


@dataclass(frozen=True, slots=True)
class FileSite:
    """Where a source of files belongs.

    Attributes:
        state_folder: Below which the schema and what else is known of the source is kept from start to start.
        located: Gives a path as Spark finds it, for one as it is written and the place where it is.
        written: The same of a path that is written to.
        at: Where the source is written.
        writes: Whether what is known of the source is kept; a plan only reads it.
        in_test: Whether a test reads it: ``schemaLocation`` is left alone, and no files are cleaned.
        dataset: The dataset, view or sink whose query reads it.
        starts: Knows which files it leaves out.
        flow: The flow whose query reads it; empty where a view's does.
        schemas: Knows the places of other sources' schemas.
    """

    state_folder: str
    located: Callable[[str, str | None], str] = lambda path, at: resolved(path, {}, at)
    written: Callable[[str, str | None], str] = lambda path, at: written(path, {}, at)
    at: SourceLine | None = None
    writes: bool = True
    in_test: bool = False
    dataset: str = ""
    starts: FirstStarts = field(default_factory=lambda: FirstStarts(settled=True))
    flow: str = ""
    schemas: SchemasOfRun = field(default_factory=SchemasOfRun)

    @property
    def place(self) -> str | None:
        """Where it is written, as text."""
        return None if self.at is None else str(self.at)

    def of(self, dataset: str = "query", at: SourceLine | None = None, flow: str = "") -> FileSite:
        """Of the place of all sources: where one belongs that the query of a dataset reads, or of one of its flows."""
        folder = f"{self.state_folder}/{unquoted(dataset).replace('/', '_')}"
        return replace(self, state_folder=folder, dataset=dataset, at=at, flow=flow)


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and what was found on the way to it.

    Attributes:
        plan: The plan.
        shape: The fields of the files, where they were looked at.
        left_out: Addresses of the files that were there before the first start and are not read.
    """

    plan: Plan
    shape: T.StructType = field(default_factory=T.StructType)
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Planner:
    """Makes the plan of one source.

    Attributes:
        spark: Has the access to the files.
        path: Where Spark reads.
        options: Those of the source.
        site: Where it belongs.
        keeps: Whether the schema is kept from start to start.
    """

    spark: SparkSession
    path: str
    options: FileOptions
    site: FileSite
    keeps: bool

    def planned(self, schema: T.StructType | str | None, files: list[listing.File] | None = None) -> Planned:
        """The plan.

        Args:
            schema: The columns; None: they are inferred.
            files: Those that are there, where they are listed already.

        Raises:
            FileSourceMissing: The folder does not exist.
            FileSourceEmpty: It has no file, and no schema is given.
            FileSchemaInvalid: The schema or the hints cannot be used.
            FileSchemaNotInferred: Spark can infer no schema.
            FileColumnsNew: There are new columns, and the evolution mode is failOnNewColumns.
        """
        if files is None:
            files = listing.files_of(self.spark, self.path, self.options.glob, self.site.place)
        left_out = self._left_out(files)
        given = self._given(schema)
        if given is not None:
            known = T.StructType()
            if self.options.format in TYPED and self.options.rescued is not None and files:
                known = inference.shape_of(self.spark, files, self.path, self.options, self.site.place)
            return Planned(self._checked(self._of_schema(given, files)), known, left_out)
        kept, shape = self._kept(files)
        made = schemas.hinted(kept.partitions, self._hints_of(kept.partitions))
        plan = Plan(self.path, self.options, self._columns(kept), made, inferred=True)
        return Planned(self._checked(plan), shape, left_out)

    def _given(self, schema: T.StructType | str | None) -> T.StructType | None:
        schema = schema if schema is not None else self.options.schema
        if schema is None:
            return None
        declared = self._read("schema", schema) if isinstance(schema, str) else schema
        return schemas.hinted(declared, self._hints())

    def _hints(self) -> list[schemas.Hint]:
        hints: list[schemas.Hint] = self._read("schemaHints", self.options.schema_hints or "")
        return hints

    def _read(self, setting: str, ddl: str) -> Any:
        try:
            return schemas.hints(ddl) if setting == "schemaHints" else schemas.from_ddl(ddl)
        except ValueError as error:
            raise FileSchemaInvalid(at=self.site.place, setting=setting, path=self.path, detail=str(error)) from None

    def _kept(self, files: list[listing.File]) -> tuple[Kept, T.StructType]:
        """What is known of the files now, and the fields of those that are there; it is kept for the next start."""
        place = self._place() if self.keeps else None
        before = None if place is None else self._before(place, files)
        fixed = _FIXED_SCHEMAS.get(self.options.format)
        if before is None and not files and fixed is None:
            raise FileSourceEmpty(at=self.site.place, path=self.path)
        known = before or Kept()
        # CSV alone keeps strings where no types are inferred.
        is_retyped = self.options.format == "csv" and self.options.infer_types and known.typed is False
        known = replace(known, partitions=self._kept_partitions(before, files))
        every = self.options.format in TYPED or is_retyped
        fresh = [each for each in files if every or not known.has_seen(each)]
        shape = T.StructType() if not fresh else fixed
        if shape is None:
            shape = inference.shape_of(self.spark, fresh, self.path, self.options, self.site.place)
        shape = schemas.without(shape, known.partitions.names)
        if before is not None and is_retyped:
            before = replace(before, shape=schemas.retyped(before.shape, shape))
        kept = replace(known.having_seen(files, self._united(before, shape, fixed)), files=str(self._files))
        if self.options.format == "csv" and (before is None or (known.typed is not None and files)):
            kept = replace(kept, typed=self.options.infer_types)
        if place is not None and kept != before:
            self._keep(place, kept)
        return kept, shape

    @property
    def _is_anew(self) -> bool:
        """Whether what is kept below the pipeline's state does not count: the update clears the dataset."""
        site = self.site
        return site.dataset in site.schemas.anew and (site.in_test or not self.options.schema_location)

    def _before(self, place: KeptSchema, files: list[listing.File]) -> Kept | None:
        # Without files there is nothing else to infer from.
        return None if self._is_anew and files else place.read()

    def _keep(self, place: KeptSchema, kept: Kept) -> None:
        if self._is_anew:
            self.site.schemas.hold(self.site.dataset, place, kept)
        else:
            place.write(kept)

    def _united(self, before: Kept | None, shape: T.StructType, fixed: T.StructType | None) -> T.StructType:
        if fixed is not None or before is None:
            return fixed or shape
        known = schemas.hinted(before.shape, self._hints())
        new = schemas.new_names(known, shape) if self.options.infer_types else _new(known, shape)
        if new and self.options.evolution == "failOnNewColumns":
            fix = "add them to schemaHints, or remove the file"
            raise FileColumnsNew(at=self.site.place, file=self.path, columns=", ".join(new), fix=fix)
        return schemas.united(before.shape, shape) if self.options.evolution == "addNewColumns" else before.shape

    def _columns(self, kept: Kept) -> T.StructType:
        hints = self._hints()
        shape = kept.shape if self.options.infer_types else schemas.as_strings(kept.shape, hints)
        if self.options.format in FIXED:
            shape = kept.shape
        shape = schemas.without(shape, kept.partitions.names)
        return schemas.hinted(T.StructType([*shape.fields, *kept.partitions.fields]), hints)

    def _partition_names(self, files: list[listing.File]) -> tuple[str, ...]:
        found = self.options.partitions
        return found if found is not None else listing.agreed(listing.folder_names(files, self.path))

    def _kept_partitions(self, before: Kept | None, files: list[listing.File]) -> T.StructType:
        """The columns that folders make: as the option names them, else as they were found at the first file."""
        if before is None or (not before.has_looked and not before.partitions.names):
            return self._partitions(files)
        names = self.options.partitions
        if names is None or set(map(folded, names)) == set(map(folded, before.partitions.names)):
            return before.partitions
        known = {folded(each.name): each for each in before.partitions.fields}
        return T.StructType([known.get(folded(each.name), each) for each in self._partitions(files).fields])

    def _partitions(self, files: list[listing.File]) -> T.StructType:
        """The columns that folders make, with their types, as hints have them."""
        names, types = self._partition_names(files), {}
        if self.options.infer_types:
            values = [listing.partition_values(each.path, self.path) for each in files]
            types = inference.partition_types(values, names)
        made = T.StructType([T.StructField(name, types.get(name, T.StringType())) for name in names])
        return schemas.hinted(made, self._hints_of(made))

    def _hints_of(self, columns: T.StructType) -> list[schemas.Hint]:
        mine = {folded(name) for name in columns.names}
        return [hint for hint in self._hints() if folded(hint[0][0]) in mine]

    def _of_schema(self, schema: T.StructType, files: list[listing.File]) -> Plan:
        """The plan with a given schema. Files may differ in the columns that their folders make."""
        plan = Plan(self.path, self.options, schema)
        if self.options.partitions is not None:
            return replace(plan, partitions=_columns_of(schema, self.options.partitions))
        of_files = listing.folder_names(files, self.path)
        listed = list({name for names in of_files for name in names})
        if fixed := _FIXED_SCHEMAS.get(self.options.format):
            made = schemas.without(schema, fixed.names)
            if files and (unknown := schemas.without(made, listed).names):
                detail = f"{self.options.format} files have {', '.join(fixed.names)}, and no folder makes {unknown[0]}"
                raise FileSchemaInvalid(at=self.site.place, setting="schema", path=self.path, detail=detail)
            return replace(plan, partitions=made)
        agreed = _columns_of(schema, listing.agreed(of_files))
        names = [each.name for each in agreed if not isinstance(each.dataType, _SIMPLE)]
        if self.options.format == "csv" and not csv_rows.is_named(plan):
            names = listed
        elif self.options.format in TYPED:
            names = agreed.names
        plan = replace(plan, partitions=_columns_of(schema, names))
        own = listing.own_names(self.path)
        simple = T.StructType(
            [
                each
                for each in plan.in_files.fields
                if isinstance(each.dataType, _SIMPLE) and folded(each.name) not in own
            ]
        )
        optional = _columns_of(simple, listed)
        return replace(plan, optional=optional, watched=tuple(schemas.without(simple, optional.names).names))

    def _left_out(self, files: list[listing.File]) -> tuple[str, ...]:
        if self.options.existing or not self.keeps:
            return ()
        there = tuple(each.path for each in files)
        start = FirstStart(self._place(), self.site.dataset, self.path, there, self.site.flow)
        return self.site.starts.left_out(start)

    @property
    def _files(self) -> FileSet:
        return FileSet(self.path, self.options.format, self.options.glob, self.options.reader.get("rowTag"))

    def _place(self) -> KeptSchema:
        """Where the schema of these files is kept, and of no others that this run reads."""
        site, own = self.site, self.options.schema_location
        if own is None or site.in_test:
            flow = "" if site.flow == unquoted(site.dataset) else site.flow
            return default_place(self.spark, site.state_folder, self._files, flow, writes=site.writes)
        folder = site.written(own, site.place)
        if (other := site.schemas.other(folder, self._files)) is not None:
            raise FileSchemaShared(at=site.place, folder=folder, first=str(other), second=str(self._files))
        return KeptSchema(self.spark, folder, self._files, site.writes)

    def _checked(self, plan: Plan) -> Plan:
        check = {"json": json_rows.check, "csv": csv_rows.check}.get(self.options.format)
        try:
            if check is not None:
                check(plan.in_files)
        except ValueError as error:
            raise FileSchemaInvalid(at=self.site.place, setting="schema", path=self.path, detail=str(error)) from None
        return plan


def _columns_of(schema: T.StructType, names: Sequence[str]) -> T.StructType:
    """The columns of a schema that have one of some names."""
    wanted = set(map(folded, names))
    return T.StructType([each for each in schema.fields if folded(each.name) in wanted])


def _new(kept: T.StructType, found: T.StructType) -> list[str]:
    return [each for each in schemas.new_names(kept, found) if "." not in each]
