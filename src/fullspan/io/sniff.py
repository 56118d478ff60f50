"""Which format the first bytes of a file, or the entries of a folder, show. Nothing here parses more than a line."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from fullspan.errors import FormatError

__all__ = ["is_text", "never", "refuse_known_others", "text_kind"]

_ZIP = b"PK\x03\x04"
_WORD2VEC = re.compile(rb"\A(\d{1,19})[ \t](\d{1,9})[ \t]*\r?\n")
_NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:nan|inf(?:inity)?)", re.IGNORECASE)
_FAISS = (b"IxF2", b"IxFI", b"IxFl", b"IxMp", b"IxM2", b"IxSQ", b"IwFl", b"IwPQ", b"IwSQ", b"IHNf", b"IBxF", b"IBMp")
#: Kinds that are often met and never a table that can be read here, with what to do.
_OTHERS = (
    (b"version https://git-lfs", "a Git LFS pointer", "Fetch the file itself: git lfs pull"),
    (b"\xba\x16\x4f\x2f", "a fastText model", "Save its vectors as text (.vec) with fastText's print-word-vectors"),
    (b"FEA1", "a Feather file of version 1", "Write it again with pyarrow.feather.write_feather"),
    (b"SQLite format 3\0", "a SQLite database", "Export the vectors to parquet or npy"),
    (b"<!DOCTYPE", "an HTML page", "Was the download refused?"),
    (b"<html", "an HTML page", "Was the download refused?"),
    (b"%PDF", "a PDF", "Give a file of vectors"),
    (b"BZh", "a bzip2 file", "Decompress it first: bunzip2 -k"),
    (b"\xfd7zXZ\0", "an xz file", "Decompress it first: unxz -k"),
)


def never(path: Path, first: bytes) -> bool:
    return False


def npy(path: Path, first: bytes) -> bool:
    return first.startswith(b"\x93NUMPY")


def _members(path: Path, first: bytes) -> list[str]:
    """Names in a zip archive; none where it is no archive, or a broken one."""
    if not first.startswith((_ZIP, b"PK\x05\x06")):
        return []
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except Exception:  # a damaged archive may raise anything: then it is none
        return []


def npz(path: Path, first: bytes) -> bool:
    names = _members(path, first)
    if not names:
        return first.startswith((_ZIP, b"PK\x05\x06")) and path.suffix.lower() == ".npz"
    return all(name.endswith(".npy") for name in names)


def torch(path: Path, first: bytes) -> bool:
    if any(name.rpartition("/")[2] in ("data.pkl", "constants.pkl") for name in _members(path, first)):
        return True
    return first.startswith((b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.",))


def keras(path: Path, first: bytes) -> bool:
    if first.startswith(b"\x89HDF\r\n\x1a\n"):
        return True
    return any(name.endswith(".weights.h5") for name in _members(path, first))


def safetensors(path: Path, first: bytes) -> bool:
    if path.name.lower().endswith(".safetensors.index.json"):
        return first.lstrip()[:1] == b"{"
    size = int.from_bytes(first[:8], "little")
    return len(first) > 9 and first[8:9] == b"{" and 2 <= size < 2**40 and first[9:10] in (b'"', b"}", b" ", b"\n")


def gguf(path: Path, first: bytes) -> bool:
    return first.startswith(b"GGUF")


def faiss(path: Path, first: bytes) -> bool:
    return first.startswith(_FAISS)


def parquet(path: Path, first: bytes) -> bool:
    return first.startswith((b"PAR1", b"PARE"))


def arrow(path: Path, first: bytes) -> bool:
    return first.startswith((b"ARROW1\0\0", b"\xff\xff\xff\xff"))


def word2vec_text(path: Path, first: bytes) -> bool:
    lines = first.split(b"\n", 2)
    match = _WORD2VEC.match(first)
    if match is None or len(lines) < 2 or not is_text(first):
        return False
    return _has_numbers(lines[1], int(match[2]), whole=len(lines) > 2)


def word2vec_binary(path: Path, first: bytes) -> bool:
    return _WORD2VEC.match(first) is not None and not is_text(first)


def _has_numbers(line: bytes, n_numbers: int, *, whole: bool) -> bool:
    """Whether a line is a word and `n_numbers` numbers; a line cut off by the end of the head may have fewer."""
    fields = line.strip().split()
    if whole and len(fields) < n_numbers + 1:
        return False
    return len(fields) > 1 and all(_NUMBER.fullmatch(field) for field in fields[-min(n_numbers, 4) : -1] or fields[-1:])


def is_text(first: bytes) -> bool:
    """Whether the bytes are UTF-8 text without control characters; the last character may be cut off."""
    if any(control in first for control in (0, 1, 2, 3, 4, 5, 6, 14, 15, 16)):
        return False
    try:
        first.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data" and error.start >= len(first) - 4
    return True


def text_kind(first: bytes) -> str:
    """The name of the text format that the first line shows."""
    line = first.removeprefix(b"\xef\xbb\xbf").lstrip().split(b"\n", 1)[0].strip()
    if line[:1] in (b"{", b"["):
        return "jsonl"
    counts = {b"\t": "tsv", b",": "csv", b" ": "GloVe text"}
    return max(counts.items(), key=lambda item: (line.count(item[0]), item[0] == b"\t"))[1]


def refuse_known_others(path: Path, first: bytes) -> None:
    """The error for kinds of file that are often given and are no table."""
    if first.startswith(b"\x80") and first[1:2] in b"\x02\x03\x04\x05" and first[1:2]:
        raise FormatError(
            f"fullspan needs a file of numbers; got a pickle, {str(path)!r}, which can run code when it is read. "
            "Load it where you trust it, and save the array with numpy.save or safetensors."
        )
    if first.startswith(_ZIP):
        raise FormatError(
            f"fullspan needs an archive of arrays (npz, torch, keras); got another zip file, {str(path)!r}. "
            "Is it damaged?"
        )
    for magic, kind, what_to_do in _OTHERS:
        if first.startswith(magic):
            raise FormatError(f"fullspan needs a file of vectors; got {kind}, {str(path)!r}. {what_to_do}.")


def dcp_folder(path: Path, first: bytes) -> bool:
    return (path / ".metadata").is_file()


def huggingface_folder(path: Path, first: bytes) -> bool:
    from fullspan.io import huggingface

    return huggingface.is_model_folder(path) or getattr(huggingface, "is_dataset_folder", never_folder)(path)


def never_folder(path: Path) -> bool:
    return False


def columnar_folder(path: Path, first: bytes) -> bool:
    return any(path.glob("*.parquet")) or any(path.glob("*.arrow")) or any(path.glob("*/*.parquet"))
