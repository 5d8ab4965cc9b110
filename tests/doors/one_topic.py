"""A project over one topic, as a user meets it: values are sent, commands are run, tables are read."""

from __future__ import annotations

from confluent_kafka import Producer
from tests.crashes.oracle import rows_of

from rivermouth.cli.main import invoke


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

    def _told(self, table, columns):
        return [(row["kafka_offset"], *(row[column] for column in columns)) for row in self.kept(table)]
