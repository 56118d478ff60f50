"""``fullspan fit``, ``apply`` and ``verify`` as a user runs them."""

from __future__ import annotations

import json

import numpy as np


def test_fit_apply_verify(cli, tmp_path):
    E = np.random.default_rng(0).normal(3.0, 2.0, (500, 4)).astype(np.float32)
    np.save(tmp_path / "items.npy", E)
    norm, items, unit = (tmp_path / name for name in ("items.norm", "items.npy", "unit.npy"))
    ended = cli("fit", items, "-s", "center | whiten | l2", "-o", norm)
    assert (ended.code, "1 pass" in ended.err, "500 rows" in ended.out) == (0, True, True)
    assert cli("fit", items, "-s", "l2", "-o", norm).code == 2
    ended = cli("apply", norm, items, "-o", unit, "--json")
    assert json.loads(ended.out)["n_rows"] == 500
    assert cli("apply", norm, items, "-o", unit).code == 2
    assert cli("verify", norm, unit).code == 0
    ended = cli("verify", norm, items, "--json")
    assert (ended.code, json.loads(ended.out)["verdict"]) == (1, "raw")
    assert cli("verify", unit).code == 0
    assert cli("fit", items, "-o", tmp_path / "x.norm").code == 2


def test_fit_from_a_report(cli, tmp_path):
    np.save(tmp_path / "items.npy", np.eye(4))
    (tmp_path / "report.json").write_text(json.dumps({"recommendation": {"strategy": "center", "why": ""}}))
    ended = cli("fit", tmp_path / "items.npy", "--from", tmp_path, "-o", tmp_path / "f.norm")
    assert (ended.code, "recommended by" in ended.err) == (0, True)
