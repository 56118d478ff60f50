"""A file is written whole or not at all: crashes, full disks, and targets that must not be overwritten."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys

import pytest

from fullspan.errors import InputError
from fullspan.jobs.formats.write import OutputError, write_output

KILLED_WHILE_WRITING = """
import os, signal, sys
from fullspan.jobs.formats import write
os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)
write.write_output("new" * 100_000, sys.argv[1])
"""
NO_ROOM = """
import resource, signal, sys
from fullspan.errors import FullspanError
from fullspan.jobs.formats.write import write_output
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    write_output("new" * 100_000, sys.argv[1])
except FullspanError as error:
    print(error)
"""


def names_in(folder):
    return sorted(each.name for each in folder.iterdir())


def test_writes_and_replaces(tmp_path):
    path = tmp_path / "a name, é.json"
    write_output("één\n", path)
    assert path.read_text("utf-8") == "één\n"
    path.chmod(0o600)
    write_output("two", path)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("two", 0o600)
    assert names_in(tmp_path) == [path.name]


def test_a_lone_surrogate_does_not_stop_it(tmp_path):
    write_output("\udcff", tmp_path / "r")
    assert (tmp_path / "r").read_text() == "\\udcff"


def test_new_files_get_the_mode_of_the_process(tmp_path):
    old = os.umask(0o027)
    try:
        write_output("x", tmp_path / "r")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "r").stat().st_mode) == 0o640


@pytest.mark.parametrize("script", [KILLED_WHILE_WRITING, NO_ROOM], ids=["kill -9", "no room"])
def test_the_old_file_survives(tmp_path, script):
    path = tmp_path / "report.json"
    path.write_text("old and whole")
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, timeout=60)
    assert path.read_text() == "old and whole"
    if script == KILLED_WHILE_WRITING:
        assert done.returncode == -signal.SIGKILL
    else:
        assert "needs a place that can be written; got File too large" in done.stdout
        assert names_in(tmp_path) == ["report.json"]


def test_a_full_disk_is_one_line_and_leaves_nothing_behind(tmp_path, monkeypatch):
    path = tmp_path / "report.json"
    path.write_text("old")

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left on device at .*report.json.*untouched"):
        write_output("new", path)
    assert (path.read_text(), names_in(tmp_path)) == ("old", ["report.json"])


def test_links_are_followed_and_kept(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_output("new", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_device_is_written_to_directly():
    write_output("x", os.devnull)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)  # noqa: PTH116


def test_the_input_is_never_overwritten(tmp_path):
    (tmp_path / "items.npy").write_text("data")
    (tmp_path / "link").symlink_to(tmp_path / "items.npy")
    for path in ("items.npy", "link", "./items.npy"):
        with pytest.raises(InputError, match="--out needs a path other than its input"):
            write_output("x", tmp_path / path, inputs=(str(tmp_path / "items.npy"), None, 3))
    assert (tmp_path / "items.npy").read_text() == "data"


def test_a_place_that_cannot_be(tmp_path):
    with pytest.raises(InputError, match="--out needs the path of a file; got the directory"):
        write_output("x", tmp_path)
    with pytest.raises(InputError, match="--out needs a directory that exists"):
        write_output("x", tmp_path / "none" / "r.json")


def test_dash_is_standard_output(capsys):
    write_output("to the pipe\n", "-")
    assert capsys.readouterr().out == "to the pipe\n"
