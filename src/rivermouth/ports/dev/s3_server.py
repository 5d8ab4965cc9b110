"""An S3 server for development and tests: SeaweedFS, one process, only on 127.0.0.1."""

from __future__ import annotations

import json
import shutil
import sysconfig
from typing import TYPE_CHECKING, Final

from rivermouth.errors import S3ServerMissing
from rivermouth.ports.dev.dev_server import DevServer, Kind, require_free
from rivermouth.ports.dev.local_ports import HOST, free_port, free_ports

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyarrow.fs import S3FileSystem

KIND: Final = Kind("S3 server", "s3")
ACCESS_KEY: Final = "rivermouth"
# No secret: it opens a server on this machine only, and `dev s3` prints it.
SECRET_KEY: Final = "rivermouth"  # noqa: S105
REGION: Final = "us-east-1"

_TRIAL: Final = "rivermouth-trial"
_ACTIONS: Final = ("Admin", "Read", "List", "Tagging", "Write")
# Each bucket takes some of these at once; they grow as they are filled.
_VOLUMES: Final = 200
_VOLUME_MB: Final = 1024


class S3Server(DevServer):
    """A running S3 server; made by ``S3Server.start``, stopped by ``stop`` or ``with``.

    Attributes:
        endpoint: Its URL.
    """

    endpoint: str

    @classmethod
    def start(
        cls,
        port: int | None = None,
        data_dir: Path | None = None,
        *,
        buckets: Sequence[str] = (),
        timeout_s: float = 60,
    ) -> S3Server:
        """Start a server and wait until its buckets are there.

        Args:
            port: Where S3 is spoken; a free one if None. SeaweedFS listens on seven more, free ones.
            data_dir: Keeps the objects beyond this server's life; if None, a temporary folder.
            buckets: Made where they are not there yet.
            timeout_s: How long it may take.

        Raises:
            S3ServerMissing: SeaweedFS is not installed.
            DevPortTaken: Something listens on ``port``; nothing was started.
            DevFolderTaken: Another server runs on ``data_dir``.
            DevServerFailed: It ended, or did not answer in time; no process is left behind.

        Guarantees:
            Started again on a ``data_dir``, it has its buckets and objects, whatever the port. It does not hear
            Ctrl-C in the terminal, and it ends with this process, also when that is killed. A temporary folder is
            gone after ``stop``.
        """
        program = shutil.which("weed", path=sysconfig.get_path("scripts")) or shutil.which("weed")
        if program is None:
            raise S3ServerMissing
        chosen = free_port() if port is None else require_free(port, KIND)
        others = free_ports(7, besides=chosen)
        server = cls(KIND, chosen, data_dir, lambda folder: [program, *_arguments(folder, chosen, others)])
        server.endpoint = f"http://{HOST}:{chosen}"
        server.wait_until(lambda: server._has(buckets), timeout_s)
        return server

    @property
    def spark_conf(self) -> dict[str, str]:
        """The lines of ``spark.conf`` with which a lake on ``s3a://`` lies on this server."""
        return {
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": REGION,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": ACCESS_KEY,
            "spark.hadoop.fs.s3a.secret.key": SECRET_KEY,
        }

    @property
    def store(self) -> S3FileSystem:
        """What is in it, for a client that may also make and delete buckets: each is a folder at the top."""
        from pyarrow.fs import S3FileSystem  # noqa: PLC0415 - only who asks pays for this import

        return S3FileSystem(
            access_key=ACCESS_KEY,
            secret_key=SECRET_KEY,
            region=REGION,
            endpoint_override=f"{HOST}:{self.port}",
            scheme="http",
            allow_bucket_creation=True,
            allow_bucket_deletion=True,
            request_timeout=2,
            connect_timeout=2,
        )

    def stop(self, timeout_s: float = 0) -> None:
        """End the server at once: asked to end, it would wait for clients first, and keep no more than now."""
        del timeout_s
        self.kill()

    def _has(self, buckets: Sequence[str]) -> bool:
        try:
            store = self.store
            # Its parts find each other one by one: only who has read an object knows that all are there.
            store.create_dir(_TRIAL)
            with store.open_output_stream(f"{_TRIAL}/object") as file:
                file.write(b"trial")
            with store.open_input_stream(f"{_TRIAL}/object") as file:
                file.read()
            store.delete_dir(_TRIAL)
            for bucket in buckets:
                store.create_dir(bucket)
        except OSError:
            return False  # not yet; the caller knows how long to ask
        return True


def _arguments(folder: Path, port: int, others: Sequence[int]) -> list[str]:
    who = {"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}
    identities = {"identities": [{"name": ACCESS_KEY, "credentials": [who], "actions": _ACTIONS}]}
    (folder / "identities.json").write_text(json.dumps(identities), encoding="utf-8")
    (folder / "objects").mkdir(exist_ok=True)
    names = ("s3.port.grpc", "master.port", "master.port.grpc", "volume.port", "volume.port.grpc")
    ports = dict(zip((*names, "filer.port", "filer.port.grpc"), others, strict=True))
    settings: dict[str, object] = {
        "ip": HOST,
        "ip.bind": HOST,
        "dir": folder / "objects",
        "filer": "true",
        "s3": "true",
        "s3.port": port,
        "s3.config": folder / "identities.json",
        # As S3 has it.
        "s3.autoCreateBucket": "false",
        # Services other than S3, which would listen too.
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
        "s3.iam": "false",
        "master.telemetry": "false",
        "master.volumeSizeLimitMB": _VOLUME_MB,
        "volume.max": _VOLUMES,
        **ports,
    }
    return ["server", *(f"-{name}={value}" for name, value in settings.items())]
