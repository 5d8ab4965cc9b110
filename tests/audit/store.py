"""An S3 server behind a proxy, for episodes whose lake does not lie on a disk."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any, Self

from tests.ports.s3_proxy import S3Proxy

from rivermouth.ports.dev.s3_server import S3Server


class Store:
    """Started by ``with``, and gone afterwards.

    Attributes:
        server: Killed and started again by faults; its objects stay.
        proxy: Through it flows reach the server.
        conf: Spark's options, and those of ``rivermouth status``, for a lake on it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "s3"

    def __enter__(self) -> Self:
        self.server = S3Server.start(data_dir=self._folder)
        self.proxy = S3Proxy(self.server.port)
        self.conf = {**self.server.spark_conf, "spark.hadoop.fs.s3a.endpoint": self.proxy.endpoint}
        return self

    def __exit__(self, *_: object) -> None:
        self.proxy.__exit__()
        self.server.kill()

    def kill(self) -> None:
        """As a power cut of its process would."""
        self.server.kill()

    def restart(self) -> None:
        """Starts it again where it was."""
        self.server = S3Server.start(self.proxy.target, self._folder)

    def make_bucket(self, spark: Any) -> str:
        """A new one, which ``spark`` reaches by way of the proxy."""
        name = f"b-{uuid.uuid4().hex[:12]}"
        self.server.store.create_dir(name)
        known = spark.sparkContext._jsc.hadoopConfiguration()
        for option, value in self.conf.items():
            known.set(f"fs.s3a.bucket.{name}.{option.removeprefix('spark.hadoop.fs.s3a.')}", value)
        return name
