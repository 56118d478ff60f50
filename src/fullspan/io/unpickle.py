"""A reader of pickles that runs nothing: every function and class in the file becomes an inert record.

A pickle is a program. Here its calls are only written down (`Record`), and a name outside a short list of those that
checkpoints need ends the reading. Python's own machine in pure Python is used, because the one in C allocates what a
hostile file asks for.
"""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn

from fullspan.errors import FormatError
from fullspan.io._bounds import one_line

__all__ = ["MAX_PICKLE_BYTES", "Name", "Record", "unpickle"]

MAX_PICKLE_BYTES = 2**28

#: What any checkpoint may hold beside its tensors: plain containers, paths, numbers of NumPy.
HARMLESS = frozenset(
    {
        "_codecs.encode",
        "argparse.Namespace",
        "builtins.bool",
        "builtins.bytearray",
        "builtins.complex",
        "builtins.dict",
        "builtins.float",
        "builtins.frozenset",
        "builtins.int",
        "builtins.list",
        "builtins.set",
        "builtins.slice",
        "builtins.str",
        "builtins.tuple",
        "collections.Counter",
        "collections.OrderedDict",
        "collections.defaultdict",
        "datetime.datetime",
        "numpy._core.multiarray._reconstruct",
        "numpy._core.multiarray.scalar",
        "numpy.core.multiarray._reconstruct",
        "numpy.core.multiarray.scalar",
        "numpy.dtype",
        "numpy.ndarray",
        "pathlib.Path",
        "pathlib.PosixPath",
        "pathlib.PurePosixPath",
        "pathlib.WindowsPath",
    }
)


@dataclass(frozen=True)
class Name:
    """A function or class that the file names; never imported."""

    path: str


@dataclass(eq=False)
class Record:
    """A call that the file asks for, written down and not made."""

    name: str
    args: tuple[Any, ...] = ()
    state: Any = None
    items: list[Any] = field(default_factory=list)
    entries: dict[Any, Any] = field(default_factory=dict)

    def append(self, item: Any) -> None:
        self.items.append(item)

    def extend(self, items: list[Any]) -> None:
        self.items.extend(items)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.entries[key] = value

    def get(self, attribute: str, default: Any = None) -> Any:
        """An attribute of the object that the record stands for."""
        return self.state.get(attribute, default) if isinstance(self.state, dict) else default


class _Bounded:
    """A file that gives a bounded number of bytes, and never sets aside more than it has left."""

    def __init__(self, file: Any) -> None:
        left = os.fstat(file.fileno()).st_size - file.tell()
        self._file, self._left = file, min(left, MAX_PICKLE_BYTES)

    def read(self, count: int) -> bytes:
        return self._took(self._file.read(min(count, self._left)))

    def readline(self) -> bytes:
        return self._took(self._file.readline(self._left))

    def _took(self, data: bytes) -> bytes:
        self._left -= len(data)
        return data


def unpickle(
    data: Any,
    source: str,
    allowed: Collection[str],
    make: Mapping[str, Callable[..., Any]] | None = None,
    persistent: Callable[[Any], Any] | None = None,
) -> Any:
    """The value that a pickle describes, with each call written down as a :class:`Record`.

    Parameters
    ----------
    data
        The bytes of the pickle, or an open file that stands at its start and is left behind its end.
    source
        What is read, for messages: a quoted path.
    allowed
        Names that may occur besides the harmless ones; a trailing dot allows all names of a module.
    make
        Functions of ours that build a value in place of a record, by name.
    persistent
        What to do with a persistent id (the storages of torch); by default the file may have none.
    """
    if isinstance(data, bytes) and len(data) > MAX_PICKLE_BYTES:
        raise FormatError(f"{source} needs a pickle of at most {MAX_PICKLE_BYTES} bytes; got {len(data)}.")
    file = io.BytesIO(data) if isinstance(data, bytes) else _Bounded(data)
    try:
        return _Reader(file, source, allowed, make or {}, persistent).load()
    except FormatError:
        raise
    except Exception as error:  # opcodes of a damaged pickle may raise anything
        cause = one_line(error) or "nothing more"
        raise FormatError(
            f"{source} needs a whole pickle; got {type(error).__name__}: {cause}. Is the file truncated or damaged?"
        ) from error


#: Python's own machine, with a table of opcodes that a subclass may replace.
_Machine: Any = pickle._Unpickler  # type: ignore[attr-defined]  # the machine in Python is not in its stubs


class _Reader(_Machine):
    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(_Machine.dispatch)

    def __init__(
        self,
        file: Any,
        source: str,
        allowed: Collection[str],
        make: Mapping[str, Callable[..., Any]],
        persistent: Callable[[Any], Any] | None,
    ) -> None:
        super().__init__(file)
        self._source, self._make, self._persistent = source, make, persistent
        self._allowed = frozenset(allowed) | HARMLESS

    def find_class(self, module: str, name: str) -> Name:
        module = "builtins" if module == "__builtin__" else module
        path = f"{module}.{name}"
        if path not in self._allowed and not (f"{module}." in self._allowed and name.isidentifier()):
            raise FormatError(
                f"{self._source} needs to hold only tensors and plain values; got a pickle that asks for "
                f"{one_line(path, 80)}. It was refused and never run. Save the tensors alone, as safetensors."
            )
        return Name(path)

    def persistent_load(self, pid: Any) -> Any:
        if self._persistent is None:
            self._refuse("a persistent id")
        return self._persistent(pid)

    def _refuse(self, what: str) -> NoReturn:
        raise FormatError(f"{self._source} needs a plain pickle; got {what}. It was refused and never run.")

    def _call(self, function: Any, args: Any, keywords: Any = None) -> Any:
        if not isinstance(function, Name) or not isinstance(args, tuple) or keywords:
            self._refuse("a call of what is not a function")
        if function.path in self._make:
            return self._make[function.path](*args)
        return Record(function.path, args)

    def load_reduce(self) -> None:
        stack = self.stack
        args = stack.pop()
        stack[-1] = self._call(stack[-1], args)

    def load_newobj_ex(self) -> None:
        keywords, args, function = self.stack.pop(), self.stack.pop(), self.stack.pop()
        self.append(self._call(function, args, keywords))

    def load_build(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, Record):
            target.state = state

    def load_inst(self) -> None:
        self._refuse("an opcode of old classes")


for _opcode, _load in {
    pickle.REDUCE: _Reader.load_reduce,
    pickle.NEWOBJ: _Reader.load_reduce,
    pickle.NEWOBJ_EX: _Reader.load_newobj_ex,
    pickle.BUILD: _Reader.load_build,
    pickle.INST: _Reader.load_inst,
    pickle.OBJ: _Reader.load_inst,
    pickle.EXT1: _Reader.load_inst,
    pickle.EXT2: _Reader.load_inst,
    pickle.EXT4: _Reader.load_inst,
}.items():
    _Reader.dispatch[_opcode[0]] = _load
