"""A project over one topic, as a user meets it: values are sent, commands are run, tables are read."""

from __future__ import annotations

import json
import re

from confluent_kafka import Producer
from tests.crashes.oracle import rows_of

from rivermouth.cli.main import invoke

COUNTS = (
    *("consumed", "exploded", "written", "merged", "dropped", "dead_lettered", "null_values", "no_elements"),
    "undeclared_fields",
)
# What two flows that do the same say of themselves, and when.
OURS = {"flow", "target", "batch", "ingested_at", "dead_lettered_at"}


def without_ours(row):
    return {name: value for name, value in row.items() if name not in OURS}


class OneTopic:
    """A project file in ``folder``, which is the working folder, and one topic."""

    def __init__(self, folder, capsys, servers, topic):
        self.folder, self.servers, self.topic = folder, servers, topic
        self._capsys = capsys
        self._producer = Producer({"bootstrap.servers": servers})

    def save(self, text):
        (self.folder / "rivermouth.yml").write_text(text)

    def send(self, *values, **more):
        for value in values:
            self._producer.produce(self.topic, value=value, **more)
        assert self._producer.flush(30) == 0

    def say(self, *arguments):
        """The exit code, and what is printed."""
        code = invoke(list(arguments))
        out, err = self._capsys.readouterr()
        return code, out + err

    def kept(self, table):
        """The rows of a table in the order of their offsets."""
        return sorted(rows_of(str(self.folder / "lake/silver" / table)), key=lambda row: row["kafka_offset"])


class OneFlow(OneTopic):
    """With one flow, whose table is called like it; ``write`` says its format, and what else it has."""

    flow = "orders"

    def write(self, *lines):
        settings = "".join(f"    {line}\n" for line in lines)
        self.save(f"""\
lake: ./lake
kafka: {{bootstrap_servers: "{self.servers}"}}
flows:
  {self.flow}:
    topics: [{self.topic}]
    table: silver.{self.flow}
{settings}""")

    def rows(self, *columns):
        """Offset and columns of each row."""
        return self._told(self.flow, columns)

    def letters(self, *columns):
        """Offset and columns of each dead letter."""
        return self._told(f"{self.flow}__dead_letters", columns)

    def planned(self):
        """What ``plan`` says, and the columns that the table would get by it, up to Kafka's coordinates."""
        code, said = self.say("plan")
        assert code == 0, said
        columns = [tuple(line.split()) for line in said.partition("  columns:\n")[2].splitlines()[1:]]
        return said, columns[: columns.index(("kafka_topic", "string"))]

    def totals(self, *names, flow=None):
        """Counts of the flow, or of another, as its status has them."""
        code, said = self.say("status", "--output", "json")
        assert code == 0, said
        totals = next(each for each in json.loads(said)["flows"] if each["flow"] == (flow or self.flow))["totals"]
        return {name: totals[name] for name in names}

    def declare_too(self, *lines):
        """Adds to the flow, whose schema is inferred, one with the same columns declared, into ``silver.declared``."""
        kept = json.loads((self.folder / f"lake/_rivermouth/schemas/{self.flow}/00001.json").read_text())
        (self.folder / "kept.json").write_text(json.dumps(kept["schema"]))
        form = "format: {type: json, schema: kept.json}"
        lines = (f"topics: [{self.topic}]", "table: silver.declared", form, *lines)
        settings = "".join(f"    {line}\n" for line in lines)
        self.save(f"{(self.folder / 'rivermouth.yml').read_text()}  declared:\n{settings}")

    def is_as_declared(self):
        """Whether both flows have the same rows, the same dead letters and the same counts."""
        for part in ("", "__dead_letters"):
            found = [map(without_ours, self.kept(f"{flow}{part}")) for flow in (self.flow, "declared")]
            mine, others = (sorted(map(str, rows)) for rows in found)
            assert mine == others
        assert self.totals(*COUNTS) == self.totals(*COUNTS, flow="declared")
        return True

    def line_of(self, text):
        """The number of the first line of the project file that has the text."""
        lines = (self.folder / "rivermouth.yml").read_text().splitlines()
        return next(number for number, line in enumerate(lines, 1) if text in line)

    def unusable(self, setting, expression, detail, hint):
        """What is said where an expression of the flow cannot be used."""
        return (
            f"[{setting.upper()}_INVALID] flow {self.flow}: {setting} {expression!r} cannot be used: {detail}; "
            f"nothing was run\n  at: rivermouth.yml:{self.line_of(f'    {setting}:')}\n  hint: {hint}\n"
        )

    def refuses(self, setting, expression, detail, hint):
        """``validate`` says so; ``detail`` is a pattern."""
        told = re.escape(self.unusable(setting, expression, "…", hint)).replace("…", detail)
        code, said = self.say("validate")
        assert code == 1, said
        assert re.fullmatch(told, said), said

    def _told(self, table, columns):
        return [(row["kafka_offset"], *(row[column] for column in columns)) for row in self.kept(table)]
