"""Word pairs: read as published, refused when changed or malformed."""

from __future__ import annotations

import dataclasses
import hashlib

import pytest

from fullspan.datasets import words
from fullspan.errors import FormatError, MissingFileError, UnknownNameError


@pytest.fixture
def published(monkeypatch, tmp_path):
    def publish(content):
        path = tmp_path / "EN-MEN-TR-3k.txt"
        path.write_bytes(content)
        sha256 = hashlib.sha256(content).hexdigest()
        file = dataclasses.replace(words.WORD_SETS["men"].file, sha256=sha256, archive_sha256=sha256)
        monkeypatch.setitem(words.WORD_SETS, "men", dataclasses.replace(words.WORD_SETS["men"], file=file))
        return path

    return publish


def test_pairs_in_the_order_of_the_file_with_any_line_end(published):
    path = published(b"sun\tsunlight\t50.0\r\ncar\tautomobile 49.5\n\n")
    pairs = words.load_word_pairs("men", path.parent)
    assert (pairs.first, pairs.second, pairs.scores.tolist()) == (
        ("sun", "car"),
        ("sunlight", "automobile"),
        [50, 49.5],
    )
    assert len(pairs) == 2
    assert pairs.source == f"folder: {path}"
    assert not pairs.scores.flags.writeable


def test_the_folder_of_the_environment_is_looked_in(published, monkeypatch):
    monkeypatch.setenv("FULLSPAN_DATA", str(published(b"a b 1\n").parent))
    assert words.load_word_pairs("men").source.startswith("FULLSPAN_DATA: ")


@pytest.mark.parametrize("line", [b"a b nan", b"a b", b"a b c", b"a b 1 2"])
def test_a_line_that_is_no_pair_is_named(published, line):
    folder = published(b"x y 1\n" + line + b"\n").parent
    with pytest.raises(FormatError, match=r"needs two words and a finite number on each line; got '.*' on line 2"):
        words.load_word_pairs("men", folder)


def test_a_changed_file_is_refused(published):
    path = published(b"a b 1\n")
    path.write_bytes(b"a b 2\n")
    with pytest.raises(FormatError, match=r'load_word_pairs\("men"\) needs wordsim/EN-MEN-TR-3k.txt with the sha256'):
        words.load_word_pairs("men", path.parent)


def test_a_folder_without_the_file_and_an_unknown_name(tmp_path):
    with pytest.raises(MissingFileError, match=r"needs wordsim/EN-SIMLEX-999.txt"):
        words.load_word_pairs("simlex", tmp_path)
    with pytest.raises(UnknownNameError, match=r"got 'simlx'.*simlex"):
        words.load_word_pairs("simlx")
