"""``fullspan datasets`` as a user runs it."""

from __future__ import annotations

import json

from fullspan.cli.main import run


def test_what_is_bundled_and_what_is_not_here(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("FULLSPAN_CACHE", str(tmp_path))
    monkeypatch.delenv("FULLSPAN_DATA", raising=False)
    assert run(["datasets", "--json"]) == 0
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert list(found) == ["glove", "movielens 100k", "movielens latest-small"]
    assert found["glove"]["place"] == "bundled"
    assert found["movielens latest-small"]["place"] == "not here"
    assert "no redistribution" in found["movielens 100k"]["license"]
    assert list(tmp_path.iterdir()) == []


def test_a_broken_copy_is_told_and_the_others_are_listed(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("FULLSPAN_DATA", str(tmp_path))
    (tmp_path / "u.data").write_bytes(b"1\t1\t1\t1\n")
    assert run(["datasets"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "movielens 100k MovieLens 100K" in told
    assert 'broken: load_movielens("100k") needs ml-100k/u.data with the sha256 06416e' in told
    assert "movielens latest-small" in told
