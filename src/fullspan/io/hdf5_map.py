"""Where the data sets of an HDF5 file lie, found in a process of its own.

The HDF5 library is C code that a hostile file may crash. This script is run as a child with little memory; it prints
names, types and byte positions as JSON and never reads rows. The parent checks them and maps the bytes itself.
Run: ``python -P hdf5_map.py PATH START LENGTH``.
"""

from __future__ import annotations

import base64
import io
import json
import sys
from typing import Any

MAX_OBJECTS = 200_000
MAX_CHUNKS = 1_000_000
MAX_DEPTH = 64
MAX_MEMORY = 2**31


class RefusedError(Exception):
    """The file has what is not read: said in the output."""


class Part(io.RawIOBase):
    """A part of a file as a file."""

    def __init__(self, path: str, start: int, length: int) -> None:
        self._file, self._start, self._length, self._at = open(path, "rb"), start, length, 0  # noqa: PTH123, SIM115 (closed below)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._length)[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)[: max(0, self._length - self._at)]
        self._file.seek(self._start + self._at)
        count = self._file.readinto(view)
        self._at += count
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def limit_memory() -> None:
    """Take at most 2 GiB, where the system has such a limit."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    bound = MAX_MEMORY if hard == resource.RLIM_INFINITY else min(MAX_MEMORY, hard)
    if soft == resource.RLIM_INFINITY or soft > bound:
        resource.setrlimit(resource.RLIMIT_AS, (bound, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def describe(path: str, start: int, length: int) -> list[dict[str, Any]]:
    """Every data set of a part of a file, each once, in a walk over its hard links."""
    import h5py

    h5: Any = h5py
    with Part(path, start, length) as part, h5.File(part, "r") as file:
        found: list[dict[str, Any]] = []
        seen: set[Any] = set()
        stack: list[tuple[str, Any, int]] = [("", file, 0)]
        while stack:
            name, group, depth = stack.pop()
            for key in group:
                where = f"{name}/{key}".lstrip("/")
                item = own(h5, group, key, where)
                address = None if item is None else h5.h5o.get_info(item.id).addr
                if item is None or address in seen:
                    continue
                seen.add(address)
                if len(seen) > MAX_OBJECTS or depth > MAX_DEPTH:
                    raise RefusedError("more objects or deeper groups than a checkpoint has")
                if isinstance(item, h5.Dataset):
                    found.append(dataset(h5, where, item, label(group)))
                elif isinstance(item, h5.Group):
                    stack.append((where, item, depth + 1))
    return found


def own(h5: Any, group: Any, key: str, where: str) -> Any:
    """The object under a hard link, None under a soft one; a link to another file is refused."""
    link = group.get(key, getlink=True)
    if isinstance(link, h5.ExternalLink):
        raise RefusedError(f"the link {where!r} to another file")
    return group[key] if isinstance(link, h5.HardLink) else None


def label(group: Any) -> str:
    """The layer's own name, which Keras writes beside its variables."""
    name = group.attrs.get("name")
    return name if isinstance(name, str) else ""


def dataset(h5: Any, name: str, item: Any, layer: str) -> dict[str, Any]:
    """The name, shape, type and place of a data set."""
    entry = {"name": name, "layer": layer, "shape": list(item.shape or ()), "dtype": stored_type(item)}
    plist = item.id.get_create_plist()
    layout = plist.get_layout()
    if layout == h5.h5d.VIRTUAL:
        raise RefusedError(f"the virtual data set {name!r}, which reads other files")
    if plist.get_external_count():
        raise RefusedError(f"the data set {name!r} whose numbers lie in another file")
    if not entry["dtype"] or item.shape is None:
        entry["layout"] = "other"
    elif layout == h5.h5d.CONTIGUOUS:
        entry |= {"layout": "contiguous", "offset": item.id.get_offset()}
    elif layout == h5.h5d.COMPACT:
        entry |= {"layout": "compact", "data": base64.b64encode(item[()].tobytes()).decode()}
    elif len(item.shape) == 2:
        entry |= {"layout": "chunked", **chunks(item, plist)}
    else:
        entry["layout"] = "other"
    return entry


def stored_type(item: Any) -> str:
    """NumPy's string of a plain numeric type, ``"bfloat16"`` as Keras marks it, or an empty string."""
    kind = item.dtype
    if item.attrs.get("dtype") == "bfloat16" and kind.itemsize == 2:
        return "bfloat16"
    return kind.str if kind.kind in "fiu" and kind.names is None and kind.subdtype is None else ""


def chunks(item: Any, plist: Any) -> dict[str, Any]:
    """The places of the chunks of a data set, and the filters they went through."""
    count = item.id.get_num_chunks()
    if count > MAX_CHUNKS:
        raise RefusedError(f"{count} chunks in {item.name!r}")
    found = []
    for index in range(count):
        info = item.id.get_chunk_info(index)
        found.append([*map(int, info.chunk_offset), info.byte_offset, info.size, info.filter_mask])
    filters = [int(plist.get_filter(index)[0]) for index in range(plist.get_nfilters())]
    return {"chunk": list(item.chunks), "filters": filters, "chunks": found, "fill": float(item.fillvalue)}


def main() -> None:
    """Print the answer as one JSON object."""
    limit_memory()
    path, start, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    try:
        answer: dict[str, Any] = {"datasets": describe(path, start, length)}
    except RefusedError as error:
        answer = {"refused": str(error)}
    except Exception as error:  # the answer of this process is what it printed, whatever happened
        answer = {"broken": f"{type(error).__name__}: {error}"}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
