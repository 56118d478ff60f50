"""One file, no pickle: what is loaded is what was saved, and a hostile file is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fullspan.errors import FormatError, FullspanError, MissingFileError
from fullspan.normalize.base import NotFittedError
from fullspan.normalize.persist import load, save, transform_id
from fullspan.normalize.pipeline import make_pipeline
from fullspan.normalize.scale import Standardize
from fullspan.normalize.unit import UnitNorm
from fullspan.normalize.whiten import Whiten
from tests.cases import NORMALIZERS

TABLE = np.random.default_rng(3).normal(size=(200, 5)) * np.linspace(0.2, 3.0, 5) + 4.0


@pytest.mark.parametrize("case", NORMALIZERS, ids=str)
def test_what_is_loaded_maps_as_what_was_saved(case, tmp_path):
    fitted = case.make().fit(TABLE)
    made = load(save(fitted, tmp_path / "a.norm"))
    for kind in (np.float64, np.float32, np.float16):
        rows = TABLE.astype(kind)
        assert np.array_equal(made.transform(rows), fitted.transform(rows))
    assert (made.dim_in, made.dim_out) == (5, fitted.dim_out_)
    assert made.info["n_rows"] == 200
    assert transform_id(made) == transform_id(fitted)
    assert [path.name for path in tmp_path.iterdir()] == ["a.norm"]


def test_a_small_offset_is_loaded_bit_for_bit(tmp_path):
    rows = (TABLE - TABLE.mean(axis=0) + 0.1).astype(np.float32)
    fitted = Standardize().fit(rows)
    assert fitted.stages[0].parts(np.float32).rest is None  # far below rounding of a deviation
    assert np.array_equal(load(save(fitted, tmp_path / "a.norm")).transform(rows), fitted.transform(rows))
    assert np.abs(fitted.transform(rows) - fitted.transform(rows.astype(np.float64))).max() < 1e-6


def test_any_reader_of_safetensors_opens_it(tmp_path):
    import safetensors.numpy

    pipe = make_pipeline(Standardize(), Whiten(power=0.5), UnitNorm()).fit(TABLE)
    path = save(pipe, tmp_path / "a.safetensors")
    with safetensors.safe_open(path, "np") as opened:
        header = json.loads(opened.metadata()["fullspan"])
    assert header["info"]["strategy"] == "standardize | whiten(power=0.5) | l2"
    assert header["info"]["steps"][1]["kind"] == "Whiten"
    assert header["info"]["passes"] == 1
    tensors = safetensors.numpy.load_file(path)
    assert np.array_equal(tensors["stage.0.matrix"], pipe.stages[0].matrix)
    assert np.allclose(tensors["stamp.in_mean"], TABLE.mean(axis=0))
    assert np.allclose(tensors["stamp.in_variance"], TABLE.var(axis=0))


def test_the_stamp_knows_what_comes_out(tmp_path):
    made = load(save(Whiten("pca").fit(TABLE), tmp_path / "a.norm"))
    rows = made.transform(TABLE)
    assert np.allclose(made.stamp["out_mean"], rows.mean(axis=0), atol=1e-9)
    assert np.allclose(made.stamp["out_variance"], rows.var(axis=0))


def test_ids_and_fingerprints_tell_maps_and_tables_apart(tmp_path):
    first, again, other = (load(save(Standardize().fit(rows), tmp_path / "a")) for rows in (TABLE, TABLE, TABLE[1:]))
    assert transform_id(first) == transform_id(again) != transform_id(other)
    assert first.info["fingerprint"] == again.info["fingerprint"] != other.info["fingerprint"]


def test_an_old_file_stays_until_the_new_one_is_complete(tmp_path):
    path = save(Standardize().fit(TABLE), tmp_path / "a.norm")
    before = path.read_bytes()
    with pytest.raises(NotFittedError, match=r"This Standardize instance is not fitted yet"):
        save(Standardize(), path)
    assert path.read_bytes() == before


def test_a_missing_file_and_folder(tmp_path):
    with pytest.raises(MissingFileError, match=r"load needs a file; got .*none\.norm, which does not exist\."):
        load(tmp_path / "none.norm")
    with pytest.raises(MissingFileError, match=r"save needs a folder that exists; got .*nowhere\. Make it first\."):
        save(Standardize().fit(TABLE), tmp_path / "nowhere" / "a.norm")


def parts(raw: bytes) -> tuple[dict, bytes]:
    length = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def joined(entries: dict, data: bytes) -> bytes:
    head = json.dumps(entries).encode()
    return len(head).to_bytes(8, "little") + head + data


def with_header(raw: bytes, **changes: object) -> bytes:
    entries, data = parts(raw)
    header = json.loads(entries["__metadata__"]["fullspan"]) | changes
    entries["__metadata__"]["fullspan"] = json.dumps(header)
    return joined(entries, data)


def with_entry(raw: bytes, name: str, **changes: object) -> bytes:
    entries, data = parts(raw)
    entries[name] |= changes
    return joined(entries, data)


def parts_changed(raw: bytes) -> bytes:
    entries, data = parts(raw)
    start = entries["stage.0.shift"]["data_offsets"][0]
    return joined(entries, data[:start] + np.array(7.0).tobytes() + data[start + 8 :])


HOSTILE = {
    "empty": (lambda raw: b"", "a header of 0 bytes in a file of 0"),
    "long header": (lambda raw: (1 << 62).to_bytes(8, "little") + raw[8:], "a header of 4611686018427387904 bytes"),
    "header over the limit": (lambda raw: (2 << 20).to_bytes(8, "little") + b" " * (3 << 20), "a header of 2097152"),
    "no json": (lambda raw: raw[:8] + b"x" + raw[9:], "a header that is no JSON"),
    "deep json": (lambda raw: (200_000).to_bytes(8, "little") + b"[" * 200_000, "a header that is no JSON"),
    "a list": (lambda raw: (2).to_bytes(8, "little") + b"[]", "a header that is no object"),
    "cut": (lambda raw: raw[:-8], "bytes of data where the header lists"),
    "more": (lambda raw: raw + b"12345678", "bytes of data where the header lists"),
    "kind of number": (lambda raw: with_entry(raw, "stage.0.shift", dtype="F32"), "that is no float64 array"),
    "shape": (lambda raw: with_entry(raw, "stage.0.shift", shape=[4]), r"40 bytes for 'stage\.0\.shift' of shape"),
    "true shape": (lambda raw: with_entry(raw, "stage.0.shift", shape=[True, 5]), "that is no float64 array"),
    "overlap": (lambda raw: with_entry(raw, "stage.0.shift", data_offsets=[8, 48]), "a gap or an overlap before"),
    "no entry": (lambda raw: with_entry(raw, "stage.0.shift", shape=None), "that is not one"),
    "twice": (lambda raw: (16).to_bytes(8, "little") + b'{"a": 1, "a": 2}', "a header that is no JSON"),
    "no metadata": (lambda raw: joined({}, b""), "no header of a normalizer"),
    "other metadata": (lambda raw: joined({"__metadata__": {"fullspan": "["}}, b""), "no header of a normalizer"),
    "kind": (lambda raw: with_header(raw, stages=[{"kind": "os.system"}]), r"a stage of unknown kind 'os\.system'"),
    "no kind": (lambda raw: with_header(raw, stages=[{"kind": ["unit"]}]), "a stage of unknown kind"),
    "no arrays": (lambda raw: with_header(raw, stages=[{"kind": "clip"}]), "a stage of the kind 'clip' without its"),
    "stages": (lambda raw: with_header(raw, stages=7), "no list of stages"),
    "many stages": (lambda raw: with_header(raw, stages=[{"kind": "unit"}] * 300), "no list of stages"),
    "dim": (lambda raw: with_header(raw, dim_in=6), "that does not fit rows of length 6"),
    "dim out": (lambda raw: with_header(raw, dim_out=6), "rows of length 5 at the end, not 6"),
    "no dim": (lambda raw: with_header(raw, dim_in="5"), "no dim_in"),
    "info": (lambda raw: with_header(raw, info=None), "no facts about the fit"),
    "id": (lambda raw: with_header(raw, transform_id="0" * 16), "arrays that do not have the id in the header"),
    "nan": (lambda raw: raw[:-8] + np.array(np.nan).tobytes(), "values that are not finite"),
    "digit": (parts_changed, "arrays that do not have the id in the header"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused(name, tmp_path):
    change, message = HOSTILE[name]
    path = save(Standardize().fit(TABLE), tmp_path / "a.norm")
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(FormatError, match=f"load needs a normalizer saved by fullspan; got a.norm with .*{message}"):
        load(path)


def test_another_version_of_the_format(tmp_path):
    path = save(Standardize().fit(TABLE), tmp_path / "a.norm")
    path.write_bytes(with_header(path.read_bytes(), format_version=2))
    with pytest.raises(FormatError, match=r"load needs version 1 of the format; got a\.norm of version 2\."):
        load(path)


def test_random_damage_never_goes_unnoticed(tmp_path):
    path = save(make_pipeline(Standardize(), UnitNorm()).fit(TABLE), tmp_path / "a.norm")
    raw, rng = path.read_bytes(), np.random.default_rng(0)
    wanted = load(path).transform(TABLE)
    for _ in range(150):
        broken = bytearray(raw)
        broken[rng.integers(len(raw))] ^= 1 << rng.integers(8)
        path.write_bytes(bytes(broken))
        try:
            made = load(path)
        except FullspanError:
            continue
        assert np.array_equal(made.transform(TABLE), wanted)  # a letter of the facts about the fit, or of the stamp
