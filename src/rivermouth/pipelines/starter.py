"""A small pipeline to start from, as files."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Final

from rivermouth.errors import ArgumentInvalid, PipelineExists

SETTINGS: Final = "pipeline.yml"
RECORDS: Final = "orders.jsonl"
TOPIC: Final = "shop-orders"

_FILES: Final = {
    SETTINGS: "pipeline.yml",
    "transformations/orders.py": "orders.py",
    "transformations/daily.sql": "daily.sql",
    RECORDS: "orders.jsonl",
}


def write_starter(settings: Path, name: str) -> list[Path]:
    """Writes a pipeline and records to try it with; the files that were written.

    Args:
        settings: The file of its settings; the others are in and below the same folder, which is made.
        name: The pipeline's name.

    Raises:
        PipelineExists: One of the files is there and holds something; none was written.
        ArgumentInvalid: They cannot be written.
    """
    folder = settings.parent
    texts = {settings if file == SETTINGS else folder / file: _text(template) for file, template in _FILES.items()}
    texts[settings] = texts[settings].format(name=name)
    for path in texts:
        if path.is_file() and path.read_bytes().strip():
            raise PipelineExists(path=str(path))
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            detail = f"{path} cannot be written: {error.strerror}"
            fix = "name a file in a folder that you may write to"
            raise ArgumentInvalid(argument="--file", detail=detail, fix=fix) from None
    return list(texts)


def run_starter(folder: Path, bootstrap_servers: str) -> None:
    """Writes the pipeline into a folder, sends its records to a broker, and refreshes its tables there.

    Args:
        folder: An empty one.
        bootstrap_servers: Of the broker.

    Raises:
        RivermouthError: What kept the pipeline from running.
    """
    from rivermouth.pipelines import commands  # noqa: PLC0415 - who only writes the files loads no Spark
    from rivermouth.ports.kafka.kafka_produce import produce  # noqa: PLC0415

    write_starter(folder / SETTINGS, "starter")
    produce(bootstrap_servers, {}, TOPIC, (folder / RECORDS).read_bytes().splitlines())
    (pipeline,) = commands.pipelines(folder, params={"kafka.bootstrap.servers": bootstrap_servers})
    commands.raise_failures(commands.run(pipeline))


def _text(template: str) -> str:
    return (resources.files("rivermouth.pipelines") / "templates" / f"{template}.template").read_text("utf-8")
