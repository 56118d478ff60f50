"""Laws of a report: blocks do not matter, declared invariances hold, and JSON brings back what was written."""

from __future__ import annotations

import itertools
import json
import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fullspan as fs
from fullspan.jobs.saved import load_report
from fullspan.measures.catalog import CATALOG
from tests.strategies import TABLE_KINDS, table

READABLE = [name for name, entry in CATALOG.items() if entry.read is not None]
#: Two passes: a stream has no value for them.
SECOND_PASS = {"isotropy", "isotropy_eigh", "centered_isotropy"}
N_ROWS, DIM = 90, 6


@cache
def rows(seed: int = 0) -> np.ndarray:
    """Correlated rows of uneven length with a common offset."""
    rng = np.random.default_rng(seed)
    E = rng.normal(size=(N_ROWS, DIM)) @ np.diag(np.arange(1, DIM + 1) ** -0.5)
    return E * rng.uniform(0.5, 1.5, (N_ROWS, 1)) + 0.3 * rng.normal(size=DIM)


FREQUENCIES = np.floor(1e4 / np.arange(1, N_ROWS + 1) ** 1.1)


def readings(source, measures=READABLE, frequencies=FREQUENCIES, **options) -> dict[str, float | None]:
    report = fs.measure(source, measures=measures, frequencies=frequencies, standard_errors=False, **options)
    return {reading.measure: reading.value for table_report in report for reading in table_report}


def agree(found, expected, rel=1e-9, names=None):
    wrong = {
        name: (found[name], expected[name])
        for name in names or expected
        if (found[name] is None) != (expected[name] is None)
        or (expected[name] is not None and not math.isclose(found[name], expected[name], rel_tol=rel, abs_tol=1e-12))
    }
    assert not wrong


@cache
def whole() -> dict[str, float | None]:
    return readings(rows())


@pytest.mark.parametrize("block_rows", [1, 7, N_ROWS])
def test_the_size_of_a_block_does_not_matter(block_rows):
    agree(readings(rows(), block_rows=block_rows), whole())


def uneven(E: np.ndarray, cuts: list[int]):
    """Blocks between the cuts, once."""
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < len(E)}), len(E)]
    yield from (E[start:stop] for start, stop in itertools.pairwise(edges))


@settings(max_examples=10)
@given(cuts=st.lists(st.integers(1, N_ROWS - 1), max_size=12))
def test_a_stream_of_uneven_blocks_reads_as_the_array(cuts):
    names = [name for name in READABLE if name not in SECOND_PASS]
    agree(readings(uneven(rows(), cuts), measures=names), whole(), names=names)


def test_a_stream_says_why_it_has_no_isotropy():
    report = fs.measure(uneven(rows(), [30]), measures=sorted(SECOND_PASS))
    for reading in next(iter(report)):
        assert reading.value is None
        assert "second pass" in reading.why


@settings(max_examples=10)
@given(cuts=st.lists(st.integers(1, N_ROWS - 1), max_size=12), kind=st.sampled_from(sorted(TABLE_KINDS)))
def test_quantiles_of_small_tables_are_exact_in_any_blocks(cuts, kind):
    E = table(kind, N_ROWS, DIM, seed=3)
    streamed = fs.measure(uneven(E, cuts), hygiene=True, standard_errors=False, neighbors=False)
    norm = streamed.to_dict()["tables"][0]["profile"].get("norm")
    assert norm is not None
    norms = np.linalg.norm(E, axis=1)
    assert norm["values"] == pytest.approx(np.quantile(norms, norm["q"]), rel=1e-9)


def test_findings_and_hygiene_do_not_rest_on_the_blocks():
    E = rows().copy()
    E[5], E[17:20], E[40, 2], E[41] = np.nan, E[3], np.inf, 0.0
    dicts = [
        fs.measure(E if size else uneven(E, [1, 2, 18, 60]), block_rows=size, hygiene=True).to_dict()["tables"][0]
        for size in (1, 7, N_ROWS, None)
    ]
    for each in dicts[1:]:
        assert each["hygiene"] == dicts[0]["hygiene"]
        assert [f["rule"] for f in each["findings"]] == [f["rule"] for f in dicts[0]["findings"]]


def declared(invariance: str) -> list[str]:
    return [name for name in READABLE if invariance in CATALOG[name].invariances]


@pytest.mark.parametrize("factor", [2.0**-40, 3.7, 1e6])
def test_scale(factor):
    agree(readings(rows() * factor), whole(), rel=1e-7, names=declared("scale"))


def test_rotation():
    turn = np.linalg.qr(np.random.default_rng(4).normal(size=(DIM, DIM)))[0]
    agree(readings(rows() @ turn), whole(), rel=1e-7, names=declared("rotation"))


def test_translation():
    agree(readings(rows() + 5.0), whole(), rel=1e-7, names=declared("translation"))


def test_order_of_rows():
    order = np.random.default_rng(5).permutation(N_ROWS)
    moved = readings(rows()[order], frequencies=FREQUENCIES[order])
    agree(moved, whole(), rel=1e-7, names=declared("row_permutation"))


def test_order_of_columns():
    agree(readings(rows()[:, ::-1]), whole(), rel=1e-7, names=declared("column_permutation"))


def refuse(constant: str):
    raise AssertionError(constant)


@pytest.mark.parametrize("kind", sorted(TABLE_KINDS))
@pytest.mark.parametrize("n_rows", [1, 2, 30])
def test_json_of_any_table(kind, n_rows):
    """A number or a reason, never NaN, and the saved report is the report."""
    with np.errstate(all="ignore"):
        E, weights = table(kind, n_rows, 5, seed=1), FREQUENCIES[:n_rows]
        report = fs.measure(E, measures=READABLE, frequencies=weights, hygiene=True)
    (one,) = report
    assert [reading.measure for reading in one] == READABLE
    for reading in one:
        assert (reading.value is None) != (reading.why is None), reading.measure
    text = report.to_json()
    parsed = json.loads(text, parse_constant=refuse)
    back = load_report(parsed)
    assert back.to_json() == text
    assert next(iter(back)).record.readings == one.record.readings
    assert [f.rule for f in back.findings] == [f.rule for f in report.findings]


def test_json_of_several_tables_with_groups(tmp_path):
    report = fs.measure({"a_embedding": rows(), "b_embedding": rows(1)}, labels=np.arange(N_ROWS) % 3, by="label")
    path = tmp_path / "report.json"
    path.write_text(report.to_json(), encoding="utf-8")
    back = load_report(path)
    assert back.to_json() == report.to_json()
    assert list(back.tables) == ["a_embedding", "b_embedding"]
    assert set(back["a_embedding"].record.groups) == {"0", "1", "2"}
