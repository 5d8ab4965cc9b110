"""A flow of Avro whose table grows, without a broker: writers' records are framed, met and decoded."""

from __future__ import annotations

import io
import struct

import fastavro
from pyspark.sql import functions as F
from pyspark.sql import types as T
from tests.rows.formats import frame, outcomes

from rivermouth import names
from rivermouth.decoding.registry.schema_registry import RegistryAccess
from rivermouth.engine.schema.kept_schemas import with_columns
from rivermouth.engine.schema.writer_schemas import grown_by, writers_of
from rivermouth.schemas.evolution import GROWN
from rivermouth.spec import Flow


def record(*fields, name="R"):
    """A record's schema, of (name, type) or (name, type, default)."""
    told = [{"name": each[0], "type": each[1], **({"default": each[2]} if len(each) > 2 else {})} for each in fields]
    return {"type": "record", "name": name, "fields": told}


def maybe(kind):
    return ["null", kind]


NEW = {GROWN: True}


class Evolving:
    """A flow whose table begins with a schema: writers' records are sent, and it grows as a run would let it."""

    def __init__(self, spark, registry, declared, **evolution):
        self.spark, self.registry = spark, registry
        flow = Flow.model_validate(
            {
                "name": "orders",
                "topics": ["orders"],
                "format": self.form(declared),
                "evolution": evolution,
                "table": "silver.orders",
            }
        )
        form = flow.format.with_registry(RegistryAccess(url=registry.url)).with_loaded_files(spark)
        self.flow = flow.model_copy(update={"format": form})

    def form(self, declared):
        """The format of a table that begins with a schema."""
        return {"type": "avro", "schema": declared, "framing": "confluent"}

    def sent(self, writer, content):
        """The bytes of a record of a writer, in Confluent's framing."""
        number = self.registry.register("s", writer)
        body = io.BytesIO()
        fastavro.schemaless_writer(body, fastavro.parse_schema(writer, {}, _force=True), content)
        return struct.pack(">bI", 0, number) + body.getvalue()

    def suspects(self, *values):
        """Whether each stops its batch."""
        decoded = self.flow.value_format.decode(frame(self.spark, values))
        told = decoded.select(names.OFFSET, self.flow.value_format.rows_to_inspect(self.spark))
        return [row[1] for row in sorted(told.collect())]

    def grow(self, *values):
        """What changes as these records are met."""
        decoded = self.flow.value_format.decode(frame(self.spark, values))
        suspects = decoded.where(self.flow.value_format.rows_to_inspect(self.spark))
        return self.meet(writers_of(self.flow, suspects))

    def meet(self, writers):
        """What changes by the schemas of these ids."""
        growth = grown_by(self.flow, self.spark, writers, T.StructType())
        if growth is None:
            self.flow = self.flow.model_copy(update={"format": self.flow.format.knowing_writers(writers)})
            return ()
        known = self.flow.format.schema_as_declared().names
        kept = [
            T.StructField(each.name, each.dataType, True, {**each.metadata, **({} if each.name in known else NEW)})
            for each in growth.schema
        ]
        self.flow = with_columns(self.flow, T.StructType(kept))
        return growth.changes

    def outcomes(self, *values):
        return outcomes(self.spark, self.flow.value_format, values)

    def stops(self, *values):
        decoded = self.flow.value_format.decode(frame(self.spark, values)).where(~F.col(names.DECODED))
        told = self.flow.value_format.stop_reasons(decoded).select(names.OFFSET, names.REASON, names.FIELD)
        return [tuple(row) for row in sorted(told.collect())]


def check_widened(table, before, behind, cases):
    """That columns x0, x1, ... are widened by the second of two writers, and hold what both have sent.

    A case is two types of writers, the wider one, and of each writer a value and what becomes of it.
    """
    sent = [
        table.sent(writer, {f"x{place}": case[which][0] for place, case in enumerate(cases)})
        for which, writer in ((3, before), (4, behind))
    ]
    assert table.grow(*sent) == tuple(
        f"widens x{place}{kind if kind[0] == '[' else f' to {kind}'}" for place, (_, _, kind, *_) in enumerate(cases)
    )
    for which, found in zip((3, 4), table.outcomes(*sent), strict=True):
        assert found.data == {f"x{place}": case[which][1] for place, case in enumerate(cases)}, found
