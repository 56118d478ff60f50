"""Journals by file system, locks, and whether a writer still lives."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fullspan.errors import InputError
from fullspan.store import alive, opening
from fullspan.store.alive import STALE, Writer, is_alive, this_process
from fullspan.store.places import journal_for, on_network
from fullspan.store.runs import Run, RunBusyError, RunWriter, StoreError
from tests.unit.store.conftest import point

MOUNTS = r"""/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/me/local xfs rw 0 0
//nas/share /mnt/my\040share cifs rw 0 0
user@host: /mnt/ssh fuse.sshfs rw 0 0
lustre@tcp:/scratch /scratch lustre rw 0 0
gpfs0 /gpfs gpfs rw 0 0
nas:/old /data nfs rw 0 0
/dev/sdc1 /data ext4 rw 0 0
broken
"""


@pytest.mark.parametrize(
    ("place", "network"),
    [
        ("/var/runs", False),
        ("/home/me/runs", True),
        ("/home", True),
        ("/homestead/runs", False),
        ("/home/me/local/runs", False),
        ("/mnt/my share/runs", True),
        ("/mnt/ssh/a/b", True),
        ("/scratch/me", True),
        ("/gpfs/x", True),
        ("/data/runs", False),
    ],
)
def test_file_systems_that_span_machines(tmp_path: Path, monkeypatch, place: str, network: bool) -> None:
    monkeypatch.delenv("FULLSPAN_JOURNAL", raising=False)
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    assert on_network(Path(place), mounts) == network
    assert journal_for(Path(place), mounts) == ("delete" if network else "wal")
    assert not on_network(Path(place), tmp_path / "no such file")


def test_a_link_leads_to_the_file_system_it_points_at(tmp_path: Path) -> None:
    (tmp_path / "mounts").write_text(f"x / ext4 rw 0 0\ny {tmp_path.resolve()}/net nfs rw 0 0\n")
    (tmp_path / "net").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "net")
    assert on_network(tmp_path / "link" / "run", tmp_path / "mounts")


def test_the_journal_can_be_chosen(home: Path, monkeypatch) -> None:
    for wanted, journal in (("delete", "delete"), (" WAL ", "wal"), ("", "wal")):
        monkeypatch.setenv("FULLSPAN_JOURNAL", wanted)
        with RunWriter.open(home) as writer:
            assert writer._connection.execute("PRAGMA journal_mode").fetchone() == (journal,)
            assert writer._connection.execute("PRAGMA synchronous").fetchone() == ({"wal": 1, "delete": 2}[journal],)
            assert Run.open(home).attempts[-1].journal == journal
    monkeypatch.setenv("FULLSPAN_JOURNAL", "truncate")
    with pytest.raises(InputError, match="FULLSPAN_JOURNAL needs 'wal' or 'delete'; got 'truncate'"):
        RunWriter.open(home)


HOLD = """
import sys
from fullspan.store.runs import RunWriter
writer = RunWriter.open(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


def held(home: Path) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "open\n"
    return child


def ended(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.communicate()


def test_a_second_writer_is_refused_until_the_first_is_dead(home: Path) -> None:
    child = held(home)
    try:
        words = f"got .*run', which is written by process {child.pid} on {socket.gethostname()}, since 20"
        with pytest.raises(RunBusyError, match=words):
            RunWriter.open(home)
        assert Run.open(home).status == "running"
        child.kill()
        child.wait()
        assert Run.open(home).status == "died"
        with RunWriter.open(home) as writer:
            assert writer.attempt == 2
            assert Run.open(home).status == "running"
    finally:
        ended(child)


def test_a_second_writer_in_one_process_is_refused(writer: RunWriter, home: Path) -> None:
    for path in (home, home / "run.sqlite", home.parent / "x" / ".." / "run"):
        with pytest.raises(RunBusyError, match="which is written by this process, since"):
            RunWriter.open(path)
    writer.add([point(1)])  # and the first one has kept its lock
    child = subprocess.run(
        [sys.executable, "-c", HOLD, str(home)], input="", capture_output=True, text=True, check=False
    )
    assert "RunBusyError" in child.stderr


def test_a_writer_that_was_forgotten_lets_go(home: Path) -> None:
    RunWriter.open(home)
    with RunWriter.open(home) as second:
        assert second.attempt == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_may_not_write_and_does_not_keep_the_run(writer: RunWriter, home: Path) -> None:
    writer.add([point(1)])
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            writer.add([point(2)])
        except StoreError as error:
            os.write(into, str(error).encode())
        writer.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert b"needs the process that opened the run; got a fork of it" in os.read(out, 1000)
    os.close(out)
    os.close(into)
    writer.add([point(3)])
    assert [each.at.step for each in Run.open(home).points()] == [1, 3]
    with pytest.raises(RunBusyError):
        RunWriter.open(home)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_may_go_on_with_a_run_that_its_parent_has_closed(home: Path) -> None:
    writer = RunWriter.open(home)
    wait, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(wait, 1)
        code = 1
        try:
            with RunWriter.open(home) as mine:
                mine.add([point(1)])
                code = 0
        finally:
            os._exit(code)
    writer.close()
    os.write(go, b".")
    assert os.waitpid(child, 0)[1] == 0
    os.close(wait)
    os.close(go)
    assert [each.at.step for each in Run.open(home).points()] == [1]


def test_threads_share_a_writer(writer: RunWriter, home: Path) -> None:
    def write(start: int) -> None:
        for step in range(start, start + 40):
            writer.add([point(step, table=f"t{step % 3}")])

    threads = [threading.Thread(target=write, args=(start,)) for start in (0, 100, 200)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(Run.open(home).points()) == 120


def test_who_is_alive() -> None:
    me = this_process()
    assert is_alive(me, None)
    if me.pid_started is not None:
        assert not is_alive(replace(me, pid_started="1"), None)  # its number was given to another
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert not is_alive(replace(me, pid=gone.pid, pid_started=None), time.time())


def test_a_process_that_only_waits_to_be_reaped_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    writer = replace(this_process(), pid=child.pid, pid_started=alive._started(child.pid))
    assert is_alive(writer, None)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(writer, time.time())
    child.communicate()


def test_on_another_machine_the_last_sign_of_life_counts() -> None:
    far = Writer("another-host", "boot/pid:[1]", 1, None)
    assert is_alive(far, 1000.0, now=1000.0 + STALE - 1)
    assert not is_alive(far, 1000.0, now=1000.0 + STALE + 1)
    assert not is_alive(far, None)


def test_a_machine_that_was_started_anew_has_none_of_its_old_processes() -> None:
    me = this_process()
    if me.boot is None:
        pytest.skip("the system does not tell its starts apart")
    assert not is_alive(replace(me, boot="another-start/pid:[1]"), time.time())
    other_container = replace(me, boot=f"{me.boot.partition('/')[0]}/pid:[1]")
    assert is_alive(other_container, time.time())
    assert not is_alive(other_container, time.time() - STALE - 1)


def test_writing_gives_signs_of_life(writer: RunWriter, home: Path) -> None:
    os.utime(home / "writer.lock", (1, 1))
    writer.add([point(1)])
    assert (home / "writer.lock").stat().st_mtime == 1  # one was given just now
    writer._lock._next = 0.0
    writer.beat()
    assert time.time() - (home / "writer.lock").stat().st_mtime < 60


def test_where_locks_mean_nothing_the_writer_is_asked_for(home: Path, monkeypatch) -> None:
    child = held(home)
    try:
        monkeypatch.setattr(alive, "_lock", lambda handle: False)
        with pytest.raises(RunBusyError, match=f"written by process {child.pid}"):
            RunWriter.open(home)
        monkeypatch.setattr(opening, "on_network", lambda path: True)
        monkeypatch.setattr(alive, "_lock", lambda handle: True)
        with pytest.raises(RunBusyError, match=f"written by process {child.pid}"):
            RunWriter.open(home)
        ended(child)
        RunWriter.open(home).close()
        RunWriter.open(home)  # forgotten in this process
        RunWriter.open(home).close()
    finally:
        ended(child)
