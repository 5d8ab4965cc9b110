"""What episodes share: one broker behind a proxy, one Spark session, processes that may be killed."""

from __future__ import annotations

import contextlib
import tempfile
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from tests.audit import disks
from tests.audit.disks import Disk
from tests.audit.plan import Plan
from tests.audit.proxy import HOST, Proxy
from tests.audit.store import Store
from tests.crashes.conftest import ProcessPool
from tests.ports import cluster as clusters

from rivermouth.ports.dev.broker import Broker
from rivermouth.ports.dev.local_ports import free_ports
from rivermouth.ports.spark import session, session_conf
from rivermouth.spec import SparkSettings

# So that a worker that hangs is given up while somebody still waits for it.
_ON_A_CLUSTER = {
    "spark.driver.host": HOST,
    "spark.network.timeout": "10s",
    "spark.network.timeoutInterval": "5s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "10s",
    "spark.executor.heartbeatInterval": "2s",
    "spark.executor.memory": "512m",
    "spark.executor.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


class Environment:
    """Started by ``with``, and gone afterwards.

    Attributes:
        proxy: Through it flows reach the broker.
        processes: Brings up processes that run flows whose lake lies on a disk.
        spark: A session for the runs in this process.
        disk: What Spark keeps its own local files on, if it has a disk for them alone.
        restarts: How often the broker or the store was killed and started again.
        clean: Plans that were played and clean, so that a planted bug in them is all that is amiss.
        bound_s: Within this time after a fault a flow must have caught up.
    """

    def __init__(self, spark: Any = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rivermouth-audit-")
        self._owned = spark is None
        self.folder = Path(self._folder.name)
        self.spark = spark
        self.disk: Disk | None = None
        self.restarts = 0
        self.bound_s = 120.0
        self.clean: set[Plan] = set()
        self.processes = ProcessPool(self.folder)
        self._ends, self._mounts = contextlib.ExitStack(), contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._direct, flows, controller = free_ports(3)
        self.proxy = Proxy(flows)
        self._properties = {
            # The broker's own business and that of the harness go past the proxy.
            "listeners": f"PLAINTEXT://{HOST}:{flows},DIRECT://{HOST}:{self._direct},CONTROLLER://{HOST}:{controller}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{self.proxy.port},DIRECT://{HOST}:{self._direct}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,DIRECT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "DIRECT",
            "log.cleaner.backoff.ms": "1000",
        }
        controller = self._properties["listeners"].rpartition("//")[2]
        self._properties["controller.quorum.voters"] = f"1@{controller}"
        self._start(flows)
        if self._owned:
            settings = SparkSettings(master="local[2]", driver_memory="1g")
            if disks.can_be_made():
                self.disk = self.make_disk(self.folder / "spark")
            local = session_conf.local_folder_conf(self.folder / "spark")
            self.spark = session.start(settings, app_name="rivermouth-audit", schemes=["s3a"], extra=local)
            # Faults make it complain, and rightly.
            self.spark.sparkContext.setLogLevel("OFF")
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.ExitStack() as ends:
            # Last in, first out; each is done whatever the others say.
            ends.callback(self._folder.cleanup)
            ends.callback(self._mounts.close)
            self._end_broker(ends)
            if self._owned:
                ends.callback(self.spark.stop)
            ends.callback(self.processes.close)
            ends.callback(self._ends.close)

    def _end_broker(self, ends: contextlib.ExitStack) -> None:
        ends.callback(self.proxy.__exit__)
        ends.callback(self.broker.kill)

    def make_disk(self, place: Path) -> Disk:
        """A disk of its own for ``place``, which is taken away at the latest when the environment is left."""
        disk = Disk(place)
        self._mounts.callback(disk.close)
        return disk

    @cached_property
    def store(self) -> Store:
        """An S3 server, for episodes whose lake lies on one; started when it is first asked for."""
        return self._ends.enter_context(Store(self.folder))

    @cached_property
    def nursery_on_s3(self) -> ProcessPool:
        """Brings up processes that run flows whose lake lies on S3."""
        processes = ProcessPool(self.folder, self.store.conf)
        self._ends.callback(processes.close)
        return processes

    @cached_property
    def cluster(self) -> clusters.Cluster:
        """A master and two workers, started when they are first asked for."""
        folder = self.folder / "cluster"
        folder.mkdir()
        return self._ends.enter_context(clusters.running(folder))

    @cached_property
    def nursery_on_cluster(self) -> ProcessPool:
        """Brings up processes whose flows are carried by the workers of the cluster."""
        processes = ProcessPool(self.folder, _ON_A_CLUSTER, self.cluster.master)
        self._ends.callback(processes.close)
        return processes

    @property
    def direct(self) -> str:
        """The broker's address past the proxy."""
        return f"{HOST}:{self._direct}"

    @property
    def servers(self) -> str:
        """The broker's address as flows know it."""
        return f"{HOST}:{self.proxy.port}"

    @property
    def jvm(self) -> int:
        """Process id of this process's Spark."""
        pid: int = self.spark.sparkContext._gateway.proc.pid
        return pid

    def kill_broker(self) -> None:
        """As a power cut of its process would; its files stay."""
        self.broker.kill()

    def restart_broker(self) -> None:
        """Starts it again where it was."""
        self._start(self.proxy.target)
        self.restarts += 1

    def _start(self, port: int) -> None:
        self.broker = Broker.start(port, self.folder / "broker", properties=self._properties)


class CalmEnvironment(Environment):
    """Over a broker that others use as well: for faults that leave the broker and the network alone."""

    def __init__(self, spark: Any, broker: Broker) -> None:
        super().__init__(spark)
        self.broker = broker

    def __enter__(self) -> Self:
        return self

    def _end_broker(self, ends: contextlib.ExitStack) -> None:
        """Nothing: it is that of others."""

    @property
    def direct(self) -> str:
        """The broker's address; there is no proxy."""
        return self.broker.bootstrap_servers

    @property
    def servers(self) -> str:
        """The same."""
        return self.direct
