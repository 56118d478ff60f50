"""Bounds that keep a hostile file from taking memory, and the one place where a parser's failure becomes our error."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from fullspan.errors import (
    FormatError,
    FullspanError,
    InputError,
    MissingExtraError,
    MissingFileError,
    UnknownNameError,
    did_you_mean,
)

__all__ = [
    "MAX_DIM",
    "MAX_HEADER",
    "MAX_LINE",
    "MAX_WORD",
    "chosen_names",
    "note_left_out",
    "checked_shape",
    "checked_size",
    "file_size",
    "one_line",
    "read_exactly",
    "reading",
    "too_large",
]

#: No embedding is wider; a header that says so lies.
MAX_DIM = 2**20
#: Bytes of a header that describes a table (npy, word2vec); checkpoints set their own.
MAX_HEADER = 2**16
#: Bytes of one line of text: 2**20 numbers of 25 characters.
MAX_LINE = 25 * MAX_DIM
#: Bytes of one word of a word2vec binary file.
MAX_WORD = 4096


def one_line(message: object, limit: int = 200) -> str:
    """The message of another library on one line, cut to `limit` characters."""
    text = " ".join(str(message).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


@contextmanager
def reading(source: Any, what: str) -> Iterator[None]:
    """Translate whatever a parser raises on `source` into a child of FullspanError; our own errors pass.

    Parameters
    ----------
    source
        The path, for the message.
    what
        The format with its article, as the message says it: ``"a parquet file"``.
    """
    try:
        yield
    except FullspanError:
        raise
    except FileNotFoundError as error:
        raise MissingFileError(f"fullspan needs an existing file; got {str(source)!r}. Check the path.") from error
    except PermissionError as error:
        raise InputError(f"fullspan needs to read {str(source)!r}; got permission denied. Check its owner.") from error
    except ImportError as error:
        raise MissingExtraError(one_line(error)) from error
    except MemoryError as error:
        raise too_large(source, what, "no memory") from error
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise too_large(source, what, one_line(error)) from error
        if error.errno in (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.ENFILE):
            raise InputError(f"Reading {str(source)!r} failed in the system; got: {one_line(error)}.") from error
        raise _broken(source, what, error) from error
    except Exception as error:  # parsers of damaged files may raise anything
        raise _broken(source, what, error) from error


def too_large(source: Any, what: str, cause: str) -> InputError:
    """The error of a file that does not fit into the memory, or into the addresses, of this process."""
    return InputError(
        f"Reading {str(source)!r} as {what} needs more memory than this process may take; got: {cause.rstrip('.')}. "
        "Free some or raise the limit (ulimit -v); a damaged file may ask for too much as well."
    )


def _broken(source: Any, what: str, error: Exception) -> FormatError:
    cause = (one_line(error) or type(error).__name__).rstrip(".")
    return FormatError(
        f"Reading {str(source)!r} needs {what}; got: {cause}. Is the file truncated, damaged or of another kind?"
    )


def file_size(path: Path) -> int:
    """Bytes of a regular file, which must not be empty."""
    size = path.stat().st_size
    if size == 0:
        raise FormatError(f"Reading {str(path)!r} needs a table; got an empty file.")
    return size


def checked_shape(shape: Any, name: str) -> tuple[int, int]:
    """A header's shape as two positive numbers; otherwise the error that says how to get there."""
    sizes = tuple(shape)
    if not all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in sizes):
        raise FormatError(f"{name!r} needs a shape of whole numbers; got {one_line(shape, 80)}. Is the file damaged?")
    if len(sizes) != 2:
        hint = {
            1: " Is it one value a row? One vector is E[None, :].",
            3: " Flatten the leading dimensions with E.reshape(-1, E.shape[-1]), or save one slice.",
        }.get(len(sizes), "")
        raise InputError(
            f"A table needs 2 dimensions, rows and dim; got shape {one_line(sizes, 80)} in {name!r}.{hint}"
        )
    if 0 in sizes:
        raise InputError(f"A table needs at least one row and one dimension; got shape {sizes} in {name!r}.")
    if sizes[1] > MAX_DIM:
        raise FormatError(f"{name!r} needs at most {MAX_DIM} dimensions; got {sizes[1]}. Is its shape transposed?")
    return sizes


def checked_size(name: str, needed: int, found: int, shape: Any) -> None:
    """Compare the bytes that a header announces with those that the file has, before anything is allocated."""
    if needed != found:
        cause = "Is the file truncated or still being written?" if found < needed else "Is its header damaged?"
        raise FormatError(f"{name!r} needs {needed} bytes of rows for shape {shape}; got {found}. {cause}")


def read_exactly(stream: BinaryIO, n_bytes: int, name: str) -> bytes:
    """The next `n_bytes`, or the error that the file ends early."""
    parts, missing = [], n_bytes
    while missing > 0:
        part = stream.read(min(missing, 2**24))
        if not part:
            raise FormatError(f"{name!r} needs {missing} more bytes; got the end of the file. Is it truncated?")
        parts.append(part)
        missing -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def chosen_names(source: Any, known: Sequence[str], names: Sequence[str] | None, default: Sequence[str]) -> list[str]:
    """The wanted `names`, each of which must be `known`; the `default` ones where nothing was asked for."""
    for name in names or ():
        if name not in known:
            raise UnknownNameError(
                f"{str(source)!r} has no table named {name!r}.{did_you_mean(name, known)} "
                f"It has: {one_line(', '.join(known))}."
            )
    return list(default if names is None else names)


def note_left_out(tables: Sequence[Any], names: Sequence[str], reason: str = "") -> None:
    """Let the report of the first table say which other 2-D arrays the source has; `reason` adds to the cause."""
    if not names or not tables:
        return
    some = one_line(", ".join(names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    arrays = "array was" if len(names) == 1 else "arrays were"
    tables[0].note = (
        f"{len(names)} other 2-D {arrays} left out, not being embeddings by name{reason}: {some}. "
        'Measure them too with table="*".'
    )
