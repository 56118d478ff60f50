"""How the command line ends: exit codes, one line an error, pipes, interrupts, colors, and what it does not import."""

from __future__ import annotations

import json
import os
import pickle
import re
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from fullspan.cli import main as command_line
from fullspan.cli import output, progress
from fullspan.jobs import measure as job


def broken(folder, kind):
    """A file or folder that cannot be measured."""
    path = folder / kind
    good = np.random.default_rng(0).normal(size=(50, 4))
    if kind == "truncated.npy":
        np.save(path, good)
        path.write_bytes(path.read_bytes()[:-64])
    elif kind == "lying.npy":
        np.save(path, good)
        path.write_bytes(path.read_bytes().replace(b"(50, 4)", b"(9999999999, 4)"[:7]))
    elif kind == "objects.npy":
        np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    elif kind == "a pickle.pkl":
        path.write_bytes(pickle.dumps(print))
    elif kind == "lying.safetensors":
        path.write_bytes(struct.pack("<Q", 2**60) + b"{}")
    elif kind == "ragged.csv":
        path.write_text("1,2,3\n4,5\n6,7,8\n")
    elif kind == "empty.npy":
        path.write_bytes(b"")
    elif kind == "words.txt":
        path.write_text("this is no table\nat all\n")
    elif kind == "bomb.npz":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("E.npy", b"\x93NUMPY" + b"\0" * 5_000_000)
    elif kind == "a folder":
        path.mkdir()
        (path / "readme.md").write_text("nothing")
    elif kind == "a fifo":
        os.mkfifo(path)
    elif kind == "none\x1b[31m\n.npy":
        pass
    return path


HOSTILE = [
    "truncated.npy",
    "lying.npy",
    "objects.npy",
    "a pickle.pkl",
    "lying.safetensors",
    "ragged.csv",
    "empty.npy",
    "words.txt",
    "bomb.npz",
    "a folder",
    "a fifo",
    "none\x1b[31m\n.npy",
]


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_cannot_be_read_is_one_line_and_exit_2(cli, tmp_path, kind):
    ended = cli("measure", broken(tmp_path, kind), "--json")
    assert (ended.code, ended.out) == (2, ""), ended.err
    assert re.fullmatch(r"fullspan: [^\n\x1b]+\n", ended.err)
    assert "Internal error" not in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["measure"], "Missing argument 'FILE'. See `fullspan measure --help`."),
        (["measure", "x", "--nope"], "No such option"),
        (["measure", "x", "--sample", "0"], "Invalid value for '--sample'"),
        (["measur", "x"], "No command is named 'measur'. Did you mean \"measure\"?"),
        (["measure", "x", "--json", "--format", "text"], "--json and --format text ask for two forms"),
        (["measure", "x", "-m", "gini_index", "--all-measures"], "--measures and --all-measures ask for two sets"),
        (["measure", "x", "--out", "/nowhere/at/all.json"], "--out needs a directory that exists"),
        (["check", "x", "--init", "--json"], "--init writes a file of rules"),
        (["words", "x"], "words needs --pairs FILE to score against, or --coupled-adam."),
        (["words", "x", "--pairs", "y", "--frequencies", "z"], "--frequencies is for --coupled-adam"),
        (["words", "x", "--coupled-adam", "--sets", "code"], "--sets code chooses among the files of a folder"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(cli, args, message):
    ended = cli(*args)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert message in ended.err


def test_an_unknown_measure_is_named(cli, tables):
    ended = cli("measure", tables / "good.npy", "-m", "gini")
    assert ended.code == 2
    assert 'No measure is named "gini". Did you mean "gini_index"?' in ended.err


def test_nothing_to_evaluate_is_exit_3(cli, tables, tmp_path):
    rules = tmp_path / "fullspan.toml"
    rules.write_text('[[check]]\ntables = "*"\nmeasure = "no_such_measure"\nmin = 1\n')
    ended = cli("check", tables / "good.npy", "--rules", rules)
    assert (ended.code, ended.out, ended.err.count("\n")) == (3, "", 1)


def failing(error):
    def call(*args, **options):
        raise error

    return call


def test_an_internal_error_is_one_line_and_exit_4(cli, tables, monkeypatch):
    monkeypatch.setattr(job, "measure", failing(RuntimeError("bad\nluck")))
    ended = cli("measure", tables / "good.npy")
    assert (ended.code, ended.out) == (4, "")
    assert re.fullmatch(
        r"fullspan: Internal error \(RuntimeError: bad luck\)\. Please report it .*--debug.*\n", ended.err
    )
    with pytest.raises(RuntimeError, match="bad"):
        cli("measure", tables / "good.npy", "--debug")


def test_too_little_memory_says_what_to_do(cli, tables, monkeypatch):
    monkeypatch.setattr(job, "measure", failing(MemoryError()))
    ended = cli("measure", tables / "good.npy")
    assert ended.code == 2
    assert "more memory than there is" in ended.err


def test_an_interrupt_is_quiet_and_130(cli, tables, monkeypatch):
    monkeypatch.setattr(job, "measure", failing(KeyboardInterrupt()))
    assert cli("measure", tables / "good.npy") == (130, "", "")


def test_what_the_system_refuses_is_one_line_and_exit_2(cli, tables, monkeypatch):
    monkeypatch.setattr(job, "measure", failing(PermissionError(13, "Permission denied", "x.npy")))
    ended = cli("measure", tables / "good.npy")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.endswith("got Permission denied at 'x.npy'.\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")  # noqa: PTH110
def test_a_full_standard_output_is_one_line_and_exit_2():
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            [sys.executable, "-m", "fullspan", "measures"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "No space left on device" in done.stderr


def test_a_closed_pipe_is_quiet():
    with subprocess.Popen(
        [sys.executable, "-m", "fullspan", "measures"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        err = process.stderr.read()
    assert (process.returncode, err) == (141, b"")


def test_the_module_runs_and_its_help_imports_little():
    code = (
        "import sys; sys.argv = ['fullspan', '--help']\n"
        "from fullspan.cli.main import run\n"
        "assert run(sys.argv[1:]) == 0\n"
        "heavy = {'numpy', 'rich', 'pyarrow', 'jinja2', 'torch', 'json', 'importlib.metadata'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"


class Stream:
    def __init__(self, terminal, encoding="utf-8"):
        self.encoding, self.isatty = encoding, lambda: terminal


@pytest.mark.parametrize(
    ("terminal", "environment", "colors"),
    [
        (False, {}, False),
        (True, {}, True),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (False, {"FORCE_COLOR": "1"}, True),
        (False, {"FORCE_COLOR": "0"}, False),
        (True, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_colors(monkeypatch, terminal, environment, colors):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert output.colored(Stream(terminal)) is colors


def test_forced_colors_reach_the_report_but_never_json(cli, tables, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in cli("measure", tables / "good.npy", "-m", "gini_index").out
    assert "\x1b[" in cli("measures", "gini_index").out
    json.loads(cli("measure", tables / "good.npy", "-m", "gini_index", "--json").out)


def test_a_console_without_unicode_gets_ascii():
    assert output.speaks_unicode(Stream(True))
    assert not output.speaks_unicode(Stream(True, "ascii"))
    assert not output.speaks_unicode(Stream(True, "latin-1"))
    assert not output.speaks_unicode(Stream(True, None))


def test_the_width_is_that_of_the_terminal_within_bounds(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert output.width_of(Stream(False)) == 80
    for columns, width in (("300", 100), ("64", 64), ("10", 40)):
        monkeypatch.setenv("COLUMNS", columns)
        assert output.width_of(Stream(True)) == width


def test_progress_is_only_for_a_terminal(monkeypatch):
    with progress.progress_bar() as told:
        assert told is None
    monkeypatch.setattr(sys, "stderr", Stream(True))
    with progress.progress_bar(quiet=True) as told:
        assert told is None
    with progress.progress_bar() as told:
        assert told is not None
        told("table", "reading", 1, 10)  # too early to be shown


def test_progress_shows_table_phase_and_rows_of_long_runs(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_PATIENCE", -1)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with progress.progress_bar() as told:
        told("items\x1b", "reading", 5, 10)
        told("items", "second pass", 7, None)
        told("items", "second pass", 8, None)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "second pass" in captured.err


def test_main_ends_the_process(monkeypatch, capsys):
    with pytest.raises(SystemExit) as ended:
        command_line.main(["measures", "gini_index"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("gini_index")
