"""torch checkpoints against torch.load; pickles that would run code."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fullspan.errors import FormatError, UnknownNameError
from fullspan.io import torch_
from fullspan.io.base import OpenOptions
from fullspan.io.unpickle import Record, unpickle

torch = pytest.importorskip("torch")

E = torch.from_numpy(np.random.default_rng(0).standard_normal((40, 6)).astype(np.float32))


def one(path: Path, name: str | None = None, **options: Any) -> Any:
    (table,) = torch_.open_tables(path, None if name is None else [name], OpenOptions(**options))
    return table


def rows_of(table: Any) -> np.ndarray:
    return np.concatenate([block.rows for block in table.blocks(7)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint.pt"


TENSORS = {
    "float32": E,
    "float64": E.double(),
    "float16": E.half(),
    "bfloat16": E.bfloat16(),
    "float8_e4m3fn": E.to(torch.float8_e4m3fn),
    "float8_e5m2": E.to(torch.float8_e5m2),
    "transposed": E.T,
    "part": E[3:30, 1:5],
    "steps": E[::3],
    "column": E[:, :1],
    "expanded": E[:1].expand(5, 6),
    "parameter": torch.nn.Parameter(E.clone()),
    "uint16": torch.ones(4, 3, dtype=torch.uint16),
    "int64": torch.arange(12).reshape(4, 3),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_every_kind_of_tensor_as_torch_reads_it(path: Path, kind: str) -> None:
    torch.save({"x": TENSORS[kind]}, path)
    expected = torch.load(path, weights_only=True)["x"].detach().double().numpy()
    np.testing.assert_array_equal(rows_of(one(path, "x")), expected)


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float8_e5m2", "float16", "part", "int64"])
def test_the_format_before_torch_1_6(path: Path, kind: str) -> None:
    tied = {"x": TENSORS[kind], "y": TENSORS[kind]}
    torch.save(tied, path, _use_new_zipfile_serialization=False)
    table = one(path, "x")
    np.testing.assert_array_equal(rows_of(table), TENSORS[kind].double().numpy())
    assert [info.also for info in torch_.list_tables(path)] == ([] if kind == "int64" else [("y",)])


def test_nested_state_dicts_lists_and_tied_weights(path: Path) -> None:
    state = OrderedDict({"embed_tokens.weight": E, "lm_head.weight": E, "mlp.weight": E * 2})
    checkpoint = {"epoch": 3, "state_dict": state, "ema": [{"wte.weight": E + 1}], "args": {"lr": 0.1, "name": "a"}}
    torch.save(checkpoint, path)
    infos = {info.name: info for info in torch_.list_tables(path)}
    assert list(infos) == ["state_dict.embed_tokens.weight", "state_dict.mlp.weight", "ema.0.wte.weight"]
    assert infos["state_dict.embed_tokens.weight"].also == ("state_dict.lm_head.weight",)
    tables = torch_.open_tables(path, None, OpenOptions())
    assert [table.name for table in tables] == ["state_dict.embed_tokens.weight", "ema.0.wte.weight"]
    assert one(path, "state_dict.lm_head.weight").name == "state_dict.embed_tokens.weight"
    with pytest.raises(UnknownNameError, match=r"has no tensor 'embed_token.weight'.*Did you mean"):
        one(path, "embed_token.weight")


def test_a_bare_tensor_is_named_after_the_file(path: Path) -> None:
    torch.save(E, path)
    table = one(path)
    assert table.name == "checkpoint"
    np.testing.assert_array_equal(rows_of(table), E.numpy())


def test_a_real_module_and_its_optimizer(path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Embedding(30, 4), torch.nn.Linear(4, 2))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.arange(30)).sum().backward()
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    names = [info.name for info in torch_.list_tables(path)]
    assert names[:2] == ["model.0.weight", "model.1.weight"]
    assert "optimizer.state.0.exp_avg" in names
    np.testing.assert_array_equal(rows_of(one(path, "model.0.weight")), model[0].weight.detach().numpy())


@pytest.mark.filterwarnings("ignore:.*quantize.*deprecated", "ignore:TypedStorage is deprecated")
def test_quantized_tensors(path: Path) -> None:
    scales, zeros = torch.rand(40, dtype=torch.float64) / 9 + 0.01, torch.arange(40) - 20
    whole = torch.quantize_per_tensor(E, 0.05, 7, torch.quint8)
    rows = torch.quantize_per_channel(E, scales, zeros, 0, torch.qint8)
    columns = torch.quantize_per_channel(E, scales[:6], zeros[:6], 1, torch.qint8)
    torch.save({"whole": whole, "rows": rows, "columns": columns}, path)
    for name, tensor in {"whole": whole, "rows": rows, "columns": columns}.items():
        table = one(path, name)
        assert table.dtype in ("qint8", "quint8")
        np.testing.assert_allclose(rows_of(table), tensor.dequantize().numpy(), rtol=1e-6)


def test_harmless_values_beside_tensors_are_passed_over(path: Path) -> None:
    torch.save({"emb": E, "loss": np.float64(3.0), "where": Path("a"), "history": np.arange(3)}, path)
    np.testing.assert_array_equal(rows_of(one(path)), E.numpy())


class Evil:
    """Would create a file when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.system, (f"touch '{self.target}'",)


@pytest.mark.parametrize("legacy", [False, True])
def test_a_malicious_pickle_is_refused_and_never_run(path: Path, tmp_path: Path, legacy: bool) -> None:
    proof = tmp_path / "proof"
    torch.save({"emb": E, "x": Evil(proof)}, path, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(FormatError, match=r"asks for posix.system. It was refused and never run"):
        torch_.list_tables(path)
    assert not proof.exists()


def test_a_plain_pickle_is_refused_and_never_run(path: Path, tmp_path: Path) -> None:
    path.write_bytes(pickle.dumps(Evil(tmp_path / "proof")))
    with pytest.raises(FormatError, match=r"got a pickle that torch.save did not write; it was refused and never run"):
        torch_.list_tables(path)
    assert not (tmp_path / "proof").exists()


def test_whole_models_are_refused_by_the_name_of_their_class(path: Path) -> None:
    torch.save(torch.nn.Linear(2, 3), path)
    with pytest.raises(FormatError, match=r"asks for torch.nn.modules.linear.Linear. It was refused and never run"):
        torch_.list_tables(path)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_torchscript_is_refused(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/data.pkl", b"\x80\x02N.")
        archive.writestr("m/constants.pkl", b"\x80\x02).")
    with pytest.raises(FormatError, match=r"written by torch.save; got a TorchScript program. Save a state_dict"):
        torch_.list_tables(path)


def test_other_files_are_refused(path: Path) -> None:
    path.write_bytes(b"hello")
    with pytest.raises(FormatError, match=r"needs a checkpoint written by torch.save; got b'hello'"):
        torch_.list_tables(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "a")
    with pytest.raises(FormatError, match=r"got a zip archive without data.pkl"):
        torch_.list_tables(path)


def rewritten(path: Path, **members: bytes | None) -> Path:
    """The archive with members replaced, or left out where None."""
    with zipfile.ZipFile(path) as archive:
        content = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            key = name.partition("/")[2].replace(".", "_").replace("/", "_")
            data = members.get(key, data)
            if data is not None:
                archive.writestr(name, data)
    return path


def test_archives_that_lie(path: Path) -> None:
    torch.save({"emb": E}, path)
    with pytest.raises(FormatError, match="needs 960 bytes in the storage '0'; got 10"):
        torch_.list_tables(rewritten(path, data_0=bytes(10)))
    torch.save({"emb": E}, path)
    with pytest.raises(FormatError, match="needs the storage '0'; the file does not have it"):
        torch_.list_tables(rewritten(path, data_0=None))
    torch.save({"emb": E}, path)
    with pytest.raises(FormatError, match="needs little-endian numbers; got byte order b'big'"):
        torch_.list_tables(rewritten(path, byteorder=b"big"))


def test_compressed_members_are_refused(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", bytes(10**6))
    with pytest.raises(FormatError, match=r"'a/data.pkl' needs to be stored uncompressed; got a compressed one"):
        torch_.list_tables(path)


def test_tensors_larger_than_their_storage(path: Path) -> None:
    torch.save({"emb": torch.zeros(1, 1).expand(10**9, 10**3)}, path)
    (info,) = torch_.list_tables(path)
    assert info.shape == (10**9, 10**3)
    with pytest.raises(FormatError, match=r"needs 1000000000000 numbers for shape .* its storage has 1"):
        one(path)


def test_a_truncated_stream(path: Path) -> None:
    torch.save({"emb": E}, path, _use_new_zipfile_serialization=False)
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    with pytest.raises(FormatError, match=r"needs 960 bytes in the storage .*; got 950. Is the file truncated"):
        torch_.list_tables(path)
    path.write_bytes(whole[:200])
    with pytest.raises(FormatError, match="needs a whole pickle"):
        torch_.list_tables(path)


@pytest.mark.parametrize("zipped", [True, False])
def test_checkpoints_need_no_torch(path: Path, zipped: bool) -> None:
    torch.save({"emb": E}, path, _use_new_zipfile_serialization=zipped)
    code = (
        "import sys; from pathlib import Path; from fullspan.io import torch_;"
        "from fullspan.io.base import OpenOptions;"
        "t, = torch_.open_tables(Path(sys.argv[1]), None, OpenOptions()); next(t.blocks());"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)


def nested(depth: int, width: int) -> bytes:
    """A small pickle that expands to `width` ** `depth` values."""
    layers = b"N" + b"".join(b"q%c0" % i + b"(" + b"h%c" % i * width + b"l" for i in range(depth))
    return b"\x80\x02" + layers + b"."


def test_pickles_that_grow_are_bounded(path: Path) -> None:
    torch.save({"emb": E}, path)
    with pytest.raises(FormatError, match="needs at most 1000000 values, 32 deep; got more"):
        torch_.list_tables(rewritten(path, data_pkl=nested(9, 10)))
    torch.save({"emb": E}, path)
    with pytest.raises(FormatError, match="32 deep; got more"):
        torch_.list_tables(rewritten(path, data_pkl=nested(40, 1)))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x80\x02(i__main__\nX\n.", "an opcode of old classes"),
        (b"\x80\x02\x82\x01.", "an opcode of old classes"),
        (b"\x80\x02X\x01\x00\x00\x00a)R.", "a call of what is not a function"),
        (b"\x80\x02K\x01Q.", "a persistent id"),
        (b"\x80\x02cos\nsystem\n.", "asks for os.system"),
        (b"\x80\x04\x8c\x05torch\x8c\x08hub.load\x93.", "asks for torch.hub.load"),
        (b"\x80\x02", "needs a whole pickle; got EOFError"),
        (b"\x80\x02r\xff\xff\xff\xff.", "needs a whole pickle"),
        (b"", "needs a whole pickle"),
    ],
)
def test_pickles_are_only_read(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        unpickle(data, "'file'", {"torch."})


def test_an_unpickled_call_is_a_record() -> None:
    with io.BytesIO() as buffer:
        pickle.dump([np.float64(1.5), OrderedDict(a=1)], buffer)
        found = unpickle(buffer.getvalue(), "'file'", ())
    assert isinstance(found[0], Record)
    assert found[0].name.endswith("multiarray.scalar")
    assert isinstance(found[1], Record)
    assert found[1].entries == {"a": 1}


def test_a_pickle_may_not_be_huge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fullspan.io.unpickle.MAX_PICKLE_BYTES", 3)
    with pytest.raises(FormatError, match="needs a pickle of at most 3 bytes; got 4"):
        unpickle(b"\x80\x02N.", "'file'", ())
