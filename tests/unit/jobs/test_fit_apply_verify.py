"""Fitting to a table, mapping it into a file that can be continued, and telling what stored rows are."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import fullspan as fs
from fullspan.errors import FormatError, InputError
from fullspan.jobs import apply as job
from fullspan.jobs.fit import strategy_from

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

E = np.random.default_rng(0).normal(3.0, 2.0, (1000, 8)).astype(np.float32)
WORDS = [f"w{row}" for row in range(len(E))]
CHAINS = ("center | whiten | l2", "standardize", "whiten", "center", "clip | minmax")
ROWS = [".npy", ".safetensors", ".vec", ".bin", ".glove", ".csv", ".tsv", ".csv.gz", ".vec.gz", ".parquet", ".feather"]


@pytest.fixture(scope="module")
def fitted():
    return fs.fit(E, "center | whiten | l2")


def _rows(path):
    return np.concatenate([block.rows for block in fs.open_table(path).blocks()])


@pytest.mark.parametrize("suffix", ROWS)
def test_every_format_holds_the_mapped_rows(fitted, tmp_path, suffix):
    done = fs.apply(fitted, E, tmp_path / f"a{suffix}", ids=WORDS, block_rows=130)
    np.testing.assert_allclose(_rows(done.path), fitted.transform(E), atol=1e-7)
    block = next(iter(fs.open_table(done.path).blocks()))
    if suffix not in (".npy", ".safetensors"):
        assert list(block.ids[:2]) == ["w0", "w1"]
    assert [each.name for each in tmp_path.iterdir()] == [f"a{suffix}"]


def _parquet(path, kind="fixed"):
    flat = pa.array(E.reshape(-1))
    if kind == "fixed":
        vectors = pa.FixedSizeListArray.from_arrays(flat, 8)
    else:
        vectors = pa.ListArray.from_arrays(pa.array(np.arange(0, E.size + 1, 8, dtype=np.int32)), flat)
    table = pa.table({"key": list(range(len(E))), "emb": vectors, "text": WORDS})
    pq.write_table(table.replace_schema_metadata({"x": "y"}), path)
    return table


@pytest.mark.parametrize("kind", ["fixed", "free"])
def test_other_columns_and_metadata_are_kept(fitted, tmp_path, kind):
    table = _parquet(tmp_path / "i.parquet", kind)
    fs.apply(fitted, tmp_path / "i.parquet", tmp_path / "o.parquet", block_rows=300)
    made = pq.read_table(tmp_path / "o.parquet")
    assert made.drop(["emb"]).equals(table.drop(["emb"]))
    assert made.schema.metadata[b"x"] == b"y"
    assert made.schema.field("emb").type == table.schema.field("emb").type
    np.testing.assert_array_equal(_rows(tmp_path / "o.parquet")[:300], fitted.transform(E[:300]))


def test_other_tensors_are_kept(fitted, tmp_path):
    from safetensors.numpy import load_file, save_file

    save_file({"a": np.arange(5), "wte": E, "z": np.eye(3, dtype=np.float16)}, tmp_path / "m.safetensors")
    fs.apply(fitted, tmp_path / "m.safetensors", tmp_path / "o.safetensors", table="wte")
    made = load_file(tmp_path / "o.safetensors")
    assert made["a"].tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(made["z"], np.eye(3))
    np.testing.assert_array_equal(made["wte"], fitted.transform(E))


def test_a_stamped_file_is_not_mapped_again(fitted, tmp_path):
    fs.apply(fitted, E, tmp_path / "a.safetensors")
    with pytest.raises(InputError, match="not applied to"):
        fs.apply(fitted, tmp_path / "a.safetensors", tmp_path / "b.npy")
    fs.apply(fitted, tmp_path / "a.safetensors", tmp_path / "b.npy", again=True)
    other = fs.fit(E, "standardize")
    assert fs.verify(other, tmp_path / "a.safetensors").verdict == "other fit"


def test_what_must_not_be_written(fitted, tmp_path):
    np.save(tmp_path / "a.npy", E)
    before = (tmp_path / "a.npy").read_bytes()
    with pytest.raises(InputError, match="other than its input"):
        fs.apply(fitted, tmp_path / "a.npy", tmp_path / "a.npy", force=True)
    with pytest.raises(InputError, match="does not exist"):
        fs.apply(fitted, E, tmp_path / "a.npy")
    assert (tmp_path / "a.npy").read_bytes() == before
    with pytest.raises(InputError, match="suffix"):
        fs.apply(fitted, E, tmp_path / "a.xyz")
    with pytest.raises(InputError, match="rows of 8 numbers"):
        fs.apply(fitted, E[:, :4], tmp_path / "b.npy")
    with pytest.raises(InputError, match="without ids"):
        fs.apply(fitted, E, tmp_path / "b.vec")


def test_rows_that_are_broken_are_named_or_left(fitted, tmp_path):
    broken = E.copy()
    broken[612, 3] = np.nan
    with pytest.raises(InputError, match="row 612"):
        fs.apply(fitted, broken, tmp_path / "a.npy", block_rows=100)
    assert list(tmp_path.iterdir()) == []
    done = fs.apply(fitted, broken, tmp_path / "a.npy", nan_rows="skip")
    assert done.left_rows == 1
    np.testing.assert_array_equal(np.load(done.path)[612], broken[612])


def test_a_type_that_cannot_hold_a_row_is_an_error(tmp_path):
    huge = fs.fit(E * 1e6, "center")
    with pytest.raises(InputError, match="overflow in row 0"):
        fs.apply(huge, E * 1e6, tmp_path / "a.npy", dtype="float16")


CHILD = """
import sys, fullspan as fs
from fullspan.jobs import apply as job
import time
job._JOURNAL_SECONDS = 0.0
def slow(*_):
    print("block", flush=True)
    time.sleep(0.01)
fs.apply(sys.argv[1], sys.argv[2], sys.argv[3], block_rows=50, progress=slow)
"""


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".npy", ".parquet", ".safetensors", ".feather", ".vec.gz"])
def test_a_killed_run_is_continued_to_the_same_bytes(fitted, tmp_path, suffix):
    if suffix == ".parquet":
        _parquet(tmp_path / f"i{suffix}")
    else:
        fs.apply(fs.fit(E, "center"), E, tmp_path / f"i{suffix}", ids=WORDS)
    fs.save(fitted, tmp_path / "f.norm")
    whole = fs.apply(tmp_path / "f.norm", tmp_path / f"i{suffix}", tmp_path / f"whole{suffix}", block_rows=50)
    command = [sys.executable, "-c", CHILD, *(str(tmp_path / n) for n in ("f.norm", f"i{suffix}", f"out{suffix}"))]
    for blocks in (3, 2, 4):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            for _ in range(blocks):
                child.stdout.readline()
            child.send_signal(signal.SIGKILL)
        assert not (tmp_path / f"out{suffix}").exists()
    done = fs.apply(tmp_path / "f.norm", tmp_path / f"i{suffix}", tmp_path / f"out{suffix}", block_rows=50)
    assert done.resumed_rows >= 200
    assert (tmp_path / f"out{suffix}").read_bytes() == Path(whole.path).read_bytes()


def test_a_changed_input_is_not_mixed_with_an_old_part(fitted, tmp_path, monkeypatch):
    monkeypatch.setattr(job, "_JOURNAL_SECONDS", 0.0)
    np.save(tmp_path / "i.npy", E)

    def stop(_table, _phase, done, _total):
        if done >= 300:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fs.apply(fitted, tmp_path / "i.npy", tmp_path / "o.npy", block_rows=100, progress=stop)
    time.sleep(0.01)
    np.save(tmp_path / "i.npy", E + 1)
    done = fs.apply(fitted, tmp_path / "i.npy", tmp_path / "o.npy", block_rows=100)
    assert done.resumed_rows == 0
    assert "not continued" in done.notes[0]
    np.testing.assert_allclose(np.load(done.path), fitted.transform(E + 1), atol=1e-7)


def test_a_full_disk_leaves_the_old_file(fitted, tmp_path, monkeypatch):
    (tmp_path / "o.npy").write_bytes(b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(job, "_synced", full)
    with pytest.raises(job.ApplyError, match="No space left"):
        fs.apply(fitted, E, tmp_path / "o.npy", force=True)
    assert (tmp_path / "o.npy").read_bytes() == b"old"


def test_memory_is_a_few_blocks(tmp_path):
    rows = np.lib.format.open_memmap(tmp_path / "i.npy", "w+", np.float32, (60_000, 64))
    rows[:] = np.arange(64)
    rows.flush()
    fitted = fs.UnitNorm().fit(np.ones((2, 64)))
    fs.apply(fitted, tmp_path / "i.npy", tmp_path / "warm.npy", block_rows=1000)
    tracemalloc.start()
    fs.apply(fitted, tmp_path / "i.npy", tmp_path / "o.npy", block_rows=1000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 1000 * 64 * 4


@pytest.mark.parametrize("chain", CHAINS)
def test_verify_tells_what_rows_are(chain):
    fitted = fs.fit(E, chain)
    once = fitted.transform(E)
    top = np.abs(once).max()
    others = np.random.default_rng(1).normal(-1.0, 1.0, (1000, 8))
    said = {
        "raw": E,
        "transformed": once,
        "twice": fitted.transform(once),
        "other": fitted.transform(others),
        "undetermined": once[:5],
        "other dims": once[:, :4],
    }
    for verdict, rows in said.items():
        assert fs.verify(fitted, rows).verdict == verdict
    assert fs.verify(fitted, fs.fit(others, chain).transform(E)).verdict == "other"
    assert fs.verify(fitted, once.astype(np.float16)).verdict == "transformed"
    assert fs.verify(fitted, np.round(once / top * 127) / 127 * top).verdict == "transformed"
    assert fs.verify(fitted, once[:100]).verdict == "transformed"


def test_verify_without_a_fit():
    unit = E / np.linalg.norm(E, axis=1, keepdims=True)
    assert fs.verify(unit).properties["unit_norm"] is True
    assert fs.verify(unit).exit_code == 0
    mixed = E @ np.random.default_rng(2).normal(size=(8, 8))
    assert fs.verify(mixed).verdict == "not normalized"
    assert fs.verify(fs.fit(mixed, "standardize").transform(mixed)).properties["whitened"] is False
    assert fs.verify(fs.fit(mixed, "whiten").transform(mixed)).properties["whitened"] is True
    assert fs.verify(np.zeros((20, 3))).exit_code == 3


def test_a_file_without_moments_says_so(tmp_path):
    fs.save(fs.UnitNorm().fit(E), tmp_path / "f.norm")
    assert fs.verify(tmp_path / "f.norm", E).exit_code == 3


def test_the_choice_of_a_report(tmp_path):
    (tmp_path / "report.json").write_text(json.dumps({"recommendation": {"strategy": "center | l2", "why": "x"}}))
    assert strategy_from(tmp_path) == strategy_from(tmp_path / "report.json") == "center | l2"
    (tmp_path / "report.json").write_text("{}")
    with pytest.raises(FormatError, match=r"recommendation\.strategy"):
        strategy_from(tmp_path)


def test_fit_needs_rows_to_read_again():
    with pytest.raises(InputError, match="read again"):
        fs.fit(iter([E]), "center")
    with pytest.raises(InputError, match="strategy as text"):
        fs.fit(E, 3)
