"""Distributed checkpoints against torch.distributed.checkpoint, and metadata that would run code."""

from __future__ import annotations

import os
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fullspan.errors import FormatError, MissingFileError
from fullspan.io import dcp
from fullspan.io.base import OpenOptions

torch = pytest.importorskip("torch")

E = torch.from_numpy(np.random.default_rng(0).standard_normal((40, 6)).astype(np.float32))


def rows_of(table: Any, block_rows: int | None = 7) -> np.ndarray:
    return np.concatenate([block.rows for block in table.blocks(block_rows)])


def save(folder: Path, state: dict[str, Any]) -> Path:
    import torch.distributed.checkpoint as checkpoint

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checkpoint.save(state, checkpoint_id=str(folder))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    state = {
        "embed_tokens.weight": E,
        "model": {"half": E.half(), "brain": E.bfloat16(), "cube": torch.zeros(2, 2, 2)},
        "optimizer": {"step": 3, "name": "adam"},
    }
    return save(tmp_path_factory.mktemp("dcp") / "a folder", state)


def test_tables_as_torch_saved_them(folder: Path) -> None:
    infos = {info.name: info for info in dcp.list_tables(folder)}
    assert set(infos) == {"embed_tokens.weight", "model.half", "model.brain"}
    assert infos["model.brain"].dtype == "bfloat16"
    (table,) = dcp.open_tables(folder, None, OpenOptions())
    assert table.name == "embed_tokens.weight"
    np.testing.assert_array_equal(rows_of(table), E.numpy())
    half, brain = dcp.open_tables(folder, ["model.half", "model.brain"], OpenOptions())
    np.testing.assert_array_equal(rows_of(half), E.half().numpy())
    np.testing.assert_array_equal(rows_of(brain), E.bfloat16().float().numpy())


def edited(folder: Path, target: Path, change: Any) -> Path:
    """A copy of the checkpoint whose metadata went through `change`."""
    target.mkdir()
    for file in folder.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    metadata = pickle.loads((target / ".metadata").read_bytes())
    change(metadata)
    (target / ".metadata").write_bytes(pickle.dumps(metadata))
    return target


@pytest.mark.parametrize("cuts", [((0, 16, 40), (0, 6)), ((0, 13, 20, 40), (0, 2, 6)), ((0, 40), (0, 3, 6))])
def test_chunks_of_rows_and_columns(tmp_path: Path, cuts: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """Shards as several ranks write them, joined under one name."""
    from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex

    boxes = [
        ((top, left), (bottom, right))
        for top, bottom in zip(cuts[0], cuts[0][1:], strict=False)
        for left, right in zip(cuts[1], cuts[1][1:], strict=False)
    ]
    parts = {f"p{i}": E[a[0] : b[0], a[1] : b[1]].clone() for i, (a, b) in enumerate(boxes)}
    saved = save(tmp_path / "parts", parts)

    def join(metadata: Any) -> None:
        whole = metadata.state_dict_metadata["p0"]
        whole.size = torch.Size((40, 6))
        whole.chunks, places = [], {}
        for i, (low, high) in enumerate(boxes):
            sizes = torch.Size(h - a for a, h in zip(low, high, strict=True))
            whole.chunks.append(ChunkStorageMetadata(torch.Size(low), sizes))
            place = next(place for index, place in metadata.storage_data.items() if index.fqn == f"p{i}")
            places[MetadataIndex("emb", torch.Size(low))] = place
        metadata.state_dict_metadata = {"emb": whole}
        metadata.storage_data = places

    (table,) = dcp.open_tables(edited(saved, tmp_path / "joined", join), None, OpenOptions())
    for block_rows in (1, 7, 40):
        np.testing.assert_array_equal(rows_of(table, block_rows), E.numpy())


class Evil:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.system, (f"touch '{self.target}'",)


def test_evil_metadata_is_refused_and_never_run(folder: Path, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    target = edited(folder, tmp_path / "evil", lambda metadata: setattr(metadata, "planner_data", Evil(proof)))
    with pytest.raises(FormatError, match=r"asks for posix.system. It was refused and never run"):
        dcp.list_tables(target)
    assert not proof.exists()


def place_of(metadata: Any, name: str = "embed_tokens.weight") -> Any:
    return next(place for index, place in metadata.storage_data.items() if index.fqn == name)


@pytest.mark.parametrize("file", ["../__0_0.distcp", "/etc/passwd", "..", "", "a\\b"])
def test_shards_outside_the_folder_are_not_opened(folder: Path, tmp_path: Path, file: str) -> None:
    target = edited(folder, tmp_path / "x", lambda metadata: setattr(place_of(metadata), "relative_path", file))
    with pytest.raises(FormatError, match=r"got a shard outside the folder, .*It was not opened"):
        dcp.list_tables(target)


def no_cover(metadata: Any) -> None:
    metadata.state_dict_metadata["embed_tokens.weight"].size = torch.Size((41, 6))


def outside(metadata: Any) -> None:
    metadata.state_dict_metadata["embed_tokens.weight"].size = torch.Size((39, 6))


def no_place(metadata: Any) -> None:
    metadata.storage_data = {}


def compressed(metadata: Any) -> None:
    place_of(metadata).transform_descriptors = ["zstd"]


def negative(metadata: Any) -> None:
    place_of(metadata).offset = -1


def nothing(metadata: Any) -> None:
    metadata.state_dict_metadata = None


def no_size(metadata: Any) -> None:
    metadata.state_dict_metadata["embed_tokens.weight"].size = None


def no_sizes(metadata: Any) -> None:
    metadata.state_dict_metadata["embed_tokens.weight"].chunks = [3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (no_cover, "chunks of 'embed_tokens.weight' that do not cover its shape"),
        (outside, "a chunk of 'embed_tokens.weight' outside its shape"),
        (no_place, r"no place of the chunk at \(0, 0\) of 'embed_tokens.weight'"),
        (compressed, "needs shards without transforms"),
        (negative, "a chunk of 'embed_tokens.weight' without a place in '__0_0.distcp'"),
        (nothing, "no state_dict_metadata or storage_data"),
        (no_size, "a tensor 'embed_tokens.weight' without a size, a dtype or chunks"),
        (no_sizes, "a chunk of 'embed_tokens.weight' without offsets or sizes"),
    ],
)
def test_metadata_that_lies(folder: Path, tmp_path: Path, change: Any, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        dcp.list_tables(edited(folder, tmp_path / "x", change))


def read_first(folder: Path) -> np.ndarray:
    (table,) = dcp.open_tables(folder, ["embed_tokens.weight"], OpenOptions())
    return rows_of(table)


def test_shards_that_lie(folder: Path, tmp_path: Path) -> None:
    def swap(metadata: Any) -> None:
        place = place_of(metadata)
        other = place_of(metadata, "model.half")
        place.offset, place.length = other.offset, other.length

    with pytest.raises(FormatError, match=r"needs a tensor of shape \(40, 6\) and dtype float32 at byte"):
        read_first(edited(folder, tmp_path / "swapped", swap))
    far = edited(folder, tmp_path / "far", lambda metadata: setattr(place_of(metadata), "offset", 10**9))
    with pytest.raises(FormatError, match=r"needs bytes 1000000000 to"):
        read_first(far)
    (far / "__0_0.distcp").unlink()
    with pytest.raises(MissingFileError, match=r"needs the shard .*__0_0.distcp'; it is missing"):
        read_first(far)


def test_overlapping_chunks_are_refused(folder: Path, tmp_path: Path) -> None:
    from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex

    def overlap(metadata: Any) -> None:
        half = torch.Size((20, 6))
        table = metadata.state_dict_metadata["embed_tokens.weight"]
        table.chunks = [ChunkStorageMetadata(torch.Size((start, 0)), half) for start in (0, 10)]
        for start in (0, 10):
            index = MetadataIndex("embed_tokens.weight", torch.Size((start, 0)))
            metadata.storage_data[index] = place_of(metadata)

    with pytest.raises(FormatError, match=r"needs chunks that cover rows 0 to 7 once|needs a tensor of shape"):
        read_first(edited(folder, tmp_path / "overlap", overlap))


def test_a_folder_without_metadata(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match=r"needs the file '.metadata' of a distributed checkpoint"):
        dcp.list_tables(tmp_path)


def test_metadata_may_not_be_huge(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dcp, "MAX_PICKLE_BYTES", 10)
    with pytest.raises(FormatError, match=r"needs at most 10 bytes; got"):
        dcp.list_tables(folder)
