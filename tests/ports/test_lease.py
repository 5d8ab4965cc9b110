"""One holder at a time; a dead or silent one is replaced, a living one never."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rivermouth.errors import LakeNotReadable, LeaseFileLost, LeaseLost, TableBusy
from rivermouth.ports.lake import lease as lease_port
from rivermouth.ports.lake.lake_files import LocalFiles
from rivermouth.ports.lake.lease import Holder, TableLease, read_holder

FILES = LocalFiles()


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "leases" / "silver.t.json")


def a_lease(path):
    return TableLease(FILES, path, flow="f", table="/lake/silver/t")


def leave(path, **changes):
    """Leaves the file of a holder that is not this process."""
    holder = {"owner": "x", "host": "elsewhere", "pid": 7, "started": "1", "renewed_at": time.time()}
    FILES.write(path, json.dumps(holder | changes))


def test_it_is_there_while_held_and_gone_afterwards(path):
    with a_lease(path) as lease:
        holder = read_holder(FILES, path)
        assert (holder.host, holder.pid) == (socket.gethostname(), os.getpid())
        assert holder.is_alive
        lease.check()
    assert read_holder(FILES, path) is None


class Away(LocalFiles):
    """A lake that can be away for a while."""

    def __init__(self):
        self.away = False

    def read(self, path):
        if self.away:
            raise LakeNotReadable(place=path, detail="away")
        return super().read(path)


def test_one_that_could_not_be_given_back_is_taken_over_by_the_same_process(path):
    files = Away()
    with TableLease(files, path, flow="f", table="/lake/silver/t"):
        files.away = True
    assert read_holder(FILES, path).pid == os.getpid()
    with a_lease(path) as again:
        again.check()
    assert read_holder(FILES, path) is None


def test_it_is_renewed_after_the_lake_was_away(path, monkeypatch):
    monkeypatch.setattr("rivermouth.ports.lake.lease.RENEWAL_S", 0.02)
    files = Away()
    with TableLease(files, path, flow="f", table="/lake/silver/t"):
        files.away = True
        time.sleep(0.2)
        before = read_holder(FILES, path).renewed_at
        files.away = False
        deadline = time.monotonic() + 10
        while read_holder(FILES, path).renewed_at == before:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_it_is_gone_after_an_error_too(path):
    with pytest.raises(ZeroDivisionError), a_lease(path):
        raise ZeroDivisionError
    assert read_holder(FILES, path) is None


def test_a_second_one_is_refused(path):
    with a_lease(path):
        with pytest.raises(TableBusy) as caught, a_lease(path):
            pytest.fail("two hold one lease")
        assert str(caught.value) == (
            f"[TABLE_BUSY] flow f: table /lake/silver/t is being written by process {os.getpid()} on "
            f"{socket.gethostname()}; nothing was written\n"
            "  hint: rivermouth status f"
        )
        assert read_holder(FILES, path) is not None


def waiting(path, pause, **more):
    return TableLease(FILES, path, flow="f", table="/lake/silver/t", pause=pause, **more)


def test_a_holder_elsewhere_that_gives_a_sign_of_life_keeps_it(path):
    leave(path)
    waits = []

    def pause(seconds):
        waits.append(seconds)
        if len(waits) == 3:
            leave(path, renewed_at=time.time() + 1)

    with pytest.raises(TableBusy) as caught, waiting(path, pause):
        pytest.fail("two hold one lease")
    assert str(caught.value) == (
        "[TABLE_BUSY] flow f: table /lake/silver/t is being written by process 7 on elsewhere; nothing was written\n"
        "  hint: rivermouth status f  # to end its writer on elsewhere: kill 7"
    )
    assert waits == [1.0] * 3


@pytest.fixture
def quick(monkeypatch):
    """Everything takes a hundredth of its time."""
    for name, seconds in (("EXPIRY_S", 0.3), ("RENEWAL_S", 0.05), ("_LONG_AGO_S", 3.0)):
        monkeypatch.setattr(f"rivermouth.ports.lake.lease.{name}", seconds)


@pytest.mark.parametrize("age_s", [0.0, 0.2, 0.31, 2.0, -3600.0])
def test_a_holder_elsewhere_that_is_silent_is_replaced_when_that_was_seen(age_s, path, quick):
    """Also where its clock is ahead of this machine's, or behind."""
    leave(path, renewed_at=time.time() - age_s)
    waits = []

    def pause(_seconds):
        waits.append(time.monotonic())
        time.sleep(0.01)

    with waiting(path, pause) as lease:
        lease.check()
    assert waits[-1] - waits[0] > 0.05


def test_of_a_holder_that_was_silent_for_very_long_nothing_is_waited_for(path, quick):
    leave(path, renewed_at=time.time() - 4)
    with waiting(path, pytest.fail) as lease:
        lease.check()


def test_a_sign_of_life_in_the_last_moment_counts(path, quick):
    leave(path, renewed_at=time.time() - 0.31)
    last = []

    def pause(_seconds):
        time.sleep(0.2)
        last.append(leave(path, renewed_at=time.time()))

    with pytest.raises(TableBusy), waiting(path, pause):
        pytest.fail("two hold one lease")
    assert len(last) == 1


def test_a_holder_elsewhere_that_gives_it_back_is_followed_at_once(path):
    leave(path)
    said = []
    with waiting(path, lambda _seconds: FILES.delete(path), say=said.append) as lease:
        lease.check()
    assert said == ["process 7 on elsewhere had the table last: for up to 30 s it is seen whether it still lives"]


def test_who_is_told_to_stop_waits_no_more(path):
    leave(path)
    stop = threading.Event()
    stop.set()
    with pytest.raises(TableBusy), waiting(path, stop.wait):
        pytest.fail("two hold one lease")
    assert read_holder(FILES, path).host == "elsewhere"


def test_a_holder_on_this_machine_is_judged_by_its_process_and_not_by_the_clock(path):
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        started = Path(f"/proc/{sleeper.pid}/stat").read_text().rpartition(")")[2].split()[19]
        alive = {"host": socket.gethostname(), "pid": sleeper.pid, "started": started, "renewed_at": 0}
        leave(path, **alive)
        with pytest.raises(TableBusy), a_lease(path):
            pytest.fail("two hold one lease")
        # Another process with the number of a dead one.
        leave(path, **(alive | {"started": "1", "renewed_at": time.time()}))
        with a_lease(path):
            pass
        leave(path, **(alive | {"renewed_at": time.time()}))
        os.kill(sleeper.pid, signal.SIGKILL)
        while Holder("x", socket.gethostname(), sleeper.pid, started, 0).is_alive:
            time.sleep(0.01)
        # A zombie that nobody has waited for is dead.
        with a_lease(path):
            pass
    finally:
        sleeper.kill()
        sleeper.wait()


@pytest.mark.parametrize("content", ["", "\xff\x00", "[]", '{"owner": "x"}', "null"])
def test_a_damaged_file_is_no_holder(path, content, monkeypatch):
    monkeypatch.setattr(lease_port, "_READ_AGAIN_S", ())
    FILES.write(path, content)
    assert read_holder(FILES, path) is None
    with a_lease(path):
        assert read_holder(FILES, path).pid == os.getpid()


def test_who_lost_it_is_told_and_leaves_it_to_the_other(path):
    with a_lease(path) as lease:
        leave(path)
        with pytest.raises(LeaseLost) as caught:
            lease.check()
        assert str(caught.value) == (
            "[LEASE_LOST] flow f: the lease on table /lake/silver/t was taken over by process 7 on elsewhere; "
            "the current batch was not written\n"
            "  hint: rivermouth status"
        )
        leave(path)
    assert read_holder(FILES, path).owner == "x"


@pytest.mark.parametrize("content", [None, "", '{"owner": "x"'])
def test_who_lost_its_file_is_told_so(path, content, monkeypatch):
    monkeypatch.setattr(lease_port, "_READ_AGAIN_S", ())
    with a_lease(path) as lease:
        if content is None:
            FILES.delete(path)
        else:
            FILES.write(path, content)
        with pytest.raises(LeaseFileLost) as caught:
            lease.check()
        assert str(caught.value) == (
            f"[LEASE_FILE_LOST] flow f: the lease on table /lake/silver/t is lost: its file {path} is gone or "
            "damaged; the current batch was not written\n"
            "  hint: rivermouth run f"
        )


class InSteps(LocalFiles):
    """A store that replaces a file in two steps: a reader that comes between them finds what is in ``found``."""

    def __init__(self):
        self.found = []

    def read(self, path):
        return self.found.pop(0) if self.found else super().read(path)


def test_a_file_that_is_replaced_while_it_is_read_is_no_lost_lease(path):
    files = InSteps()
    with TableLease(files, path, flow="f", table="/lake/silver/t") as lease:
        whole = FILES.read(path)
        for cut in ("", whole[: len(whole) // 2]):
            files.found = [cut]
            lease.check()
        # Nor one that another process may take over.
        files.found = [""]
        with pytest.raises(TableBusy, match=f"by process {os.getpid()} on "):
            TableLease(files, path, flow="f", table="/lake/silver/t").__enter__()
        lease.check()


def test_of_many_that_find_a_dead_holder_one_gets_it(path):
    leave(path, renewed_at=0)
    start, entered, refused = threading.Barrier(8), [], []
    done = threading.Event()

    def enter():
        start.wait()
        try:
            with a_lease(path) as lease:
                entered.append(lease)
                done.wait()
        except TableBusy as error:
            refused.append(error)

    threads = [threading.Thread(target=enter) for _ in range(8)]
    for thread in threads:
        thread.start()
    while len(entered) + len(refused) < 8:
        time.sleep(0.01)
    try:
        assert len(entered) == 1
        entered[0].check()
    finally:
        done.set()
        for thread in threads:
            thread.join()


def test_it_is_renewed(path, monkeypatch):
    monkeypatch.setattr("rivermouth.ports.lake.lease.RENEWAL_S", 0.01)
    with a_lease(path):
        before = read_holder(FILES, path).renewed_at
        while read_holder(FILES, path).renewed_at == before:
            time.sleep(0.01)
        assert read_holder(FILES, path).renewed_at > before
