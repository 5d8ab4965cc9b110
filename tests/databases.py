"""A PostgreSQL and a MariaDB server, of the machine's own, with a folder and a port for each."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rivermouth.ports.dev.local_ports import free_port

TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Database:
    """A server that runs.

    Attributes:
        url: For JDBC.
        user: Who may do everything.
        password: Of that user.
        port: On this machine.
        client: The command that carries out SQL, which it reads.
        time: The type of its columns with a date and microseconds.
    """

    url: str
    user: str
    password: str
    port: int
    client: tuple[str, ...]
    time: str = "timestamp(6)"

    @property
    def options(self) -> dict[str, str]:
        return {"url": self.url, "user": self.user, "password": self.password}

    @property
    def environ(self) -> dict[str, str]:
        """The variables that PostgreSQL's own programs read."""
        names = {"PGHOST": "localhost", "PGPORT": str(self.port), "PGDATABASE": "shop"}
        return {**names, "PGUSER": self.user, "PGPASSWORD": self.password}

    def sql(self, text: str) -> str:
        """What the server answers."""
        done = subprocess.run(self.client, input=text, text=True, capture_output=True, check=False, timeout=TIMEOUT_S)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@contextmanager
def postgres() -> Iterator[Database]:
    """A PostgreSQL with an empty database ``shop``."""
    with _folder("postgres") as folder:
        port, data = free_port(), folder / "data"
        password = folder / "password"
        password.write_text("secret-of-postgres")
        _give(folder)
        options = ("-D", str(data), "-U", "shop", "-A", "scram-sha-256", "--pwfile", str(password), "--no-sync")
        _run([_program("initdb"), *options, "--encoding=UTF8", "--locale=C"])
        server = [_program("postgres"), "-D", str(data), "-p", str(port), "-k", str(folder), "-F"]
        client = ("psql", "-qtA", "-v", "ON_ERROR_STOP=1", f"postgresql://shop:secret-of-postgres@localhost:{port}/")
        with _server([*server, "-c", "listen_addresses=localhost"], (*client[:-1], client[-1] + "postgres"), folder):
            first = Database("", "", "", port, (*client[:-1], client[-1] + "postgres"))
            first.sql("CREATE DATABASE shop;")
            url = f"jdbc:postgresql://localhost:{port}/shop"
            yield Database(url, "shop", "secret-of-postgres", port, (*client[:-1], client[-1] + "shop"))


@contextmanager
def mariadb() -> Iterator[Database]:
    """A MariaDB with an empty database ``shop``."""
    with _folder("mariadb") as folder:
        port, data, gate = free_port(), folder / "data", folder / "gate"
        _give(folder)
        _run([_program("mariadb-install-db"), f"--datadir={data}", "--auth-root-authentication-method=normal"])
        server = [_program("mariadbd"), "--no-defaults", f"--datadir={data}", f"--port={port}"]
        # What is lost with the machine need not be on its disk.
        quick = ["--innodb-flush-log-at-trx-commit=0", "--skip-log-bin", "--bind-address=127.0.0.1"]
        client = ("mariadb", "--no-defaults", "-N", "-B", "-u", "root", f"--socket={gate}")
        with _server([*server, f"--socket={gate}", *quick], client, folder):
            first = Database("", "", "", port, client)
            first.sql(
                "CREATE DATABASE shop; CREATE USER shop@'%' IDENTIFIED BY 'secret-of-mariadb'; "
                "GRANT ALL ON shop.* TO shop@'%'; DROP USER IF EXISTS ''@localhost;"
            )
            yield Database(
                f"jdbc:mariadb://localhost:{port}/shop",
                "shop",
                "secret-of-mariadb",
                port,
                (*client, "shop"),
                "datetime(6)",
            )


@contextmanager
def _server(command: Sequence[str], client: Sequence[str], folder: Path) -> Iterator[None]:
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, user=_user())
        try:
            end = time.monotonic() + TIMEOUT_S
            while subprocess.run(client, input="SELECT 1;", text=True, capture_output=True, check=False).returncode:
                assert running.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < end, (folder / "log").read_text()
                time.sleep(0.1)
            yield
        finally:
            running.terminate()
            running.wait(TIMEOUT_S)


@contextmanager
def _folder(name: str) -> Iterator[Path]:
    # Not below pytest's folder, which only this user may enter.
    folder = Path(tempfile.mkdtemp(prefix=f"rivermouth-{name}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _user() -> str | None:
    """Databases refuse to run as root."""
    return "nobody" if os.geteuid() == 0 else None


def _give(folder: Path) -> None:
    if (user := _user()) is not None:
        for each in (folder, *folder.iterdir()):
            os.chown(each, pwd.getpwnam(user).pw_uid, -1)


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(
        command, text=True, capture_output=True, check=False, timeout=TIMEOUT_S, user=_user(), cwd="/tmp"
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _program(name: str) -> str:
    # Debian puts servers where only the system looks.
    folders = ["/usr/sbin", *sorted(str(each) for each in Path("/usr/lib/postgresql").glob("*/bin"))]
    found = shutil.which(name, path=os.pathsep.join([*folders, os.environ["PATH"]]))
    assert found, f"{name} is missing: apt-get install postgresql mariadb-server"
    return found
