"""A short run of the demonstration's flows, after which Spark starts faster: its classes are archived."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rivermouth.engine.events import BatchDone, Event
from rivermouth.ports.dev.broker import Broker
from rivermouth.ports.kafka.kafka_produce import ProduceSettings, produce
from rivermouth.ports.spark import class_archive, session, session_conf
from rivermouth.project.commands import managed_session, run_flows
from rivermouth.project.commands.demo import topics, write_project
from rivermouth.spec import SparkSettings

_RECORDS: Final = 300
# To write some 200 MB of linked classes takes a JVM many seconds, on a busy machine a minute.
_END_TIMEOUT_S: Final = 600.0


def warm_up(run_more: Callable[[Path, str], None]) -> Path:
    """Carries a few records in both ways of running, and archives the classes of the JVM that did.

    Args:
        run_more: What else the JVM runs. Gets an empty folder, and the bootstrap servers of a broker.

    Returns:
        The archive.

    Raises:
        ClassesNotArchived: This Java makes none.
        RivermouthError: What kept the flows from running.

    Guarantees:
        Everything but the archive is in a temporary folder that is gone afterwards. Run twice: the second archive
        takes the place of the first. Stopped half-way: there is no new archive.
    """
    class_archive.check_java()
    with tempfile.TemporaryDirectory(prefix="rivermouth-warm-up-") as name, class_archive.recording() as options:
        folder = Path(name)
        extra = {**session_conf.local_folder_conf(folder / "spark"), "spark.driver.defaultJavaOptions": options}
        settings = SparkSettings(master="local[2]", driver_memory="1g")
        spark = session.start(settings, app_name="rivermouth warm-up", extra=extra, log=folder / "spark.log")
        try:
            with Broker.start(data_dir=folder / "broker", heap="512m") as broker:
                _run_flows(folder, broker)
                (folder / "more").mkdir()
                run_more(folder / "more", broker.bootstrap_servers)
        finally:
            session.end(spark, _END_TIMEOUT_S)
    return class_archive.made()


def _run_flows(folder: Path, broker: Broker) -> None:
    stop = managed_session.Stop()

    def end_after_a_batch(event: Event) -> None:
        if isinstance(event, BatchDone):
            stop.ask()

    project = write_project(folder, broker.bootstrap_servers)
    _send(broker, 0)
    run_flows.raise_failures(run_flows.run(project))
    _send(broker, _RECORDS)
    run_flows.raise_failures(
        run_flows.run(project, follow=True, hooks=managed_session.RunHooks(end_after_a_batch, stop=stop))
    )


def _send(broker: Broker, first: int) -> None:
    for topic, records in topics().items():
        some = itertools.islice(records, first, first + _RECORDS)
        produce(broker.bootstrap_servers, {}, topic, some, how=ProduceSettings(partitions=2))
