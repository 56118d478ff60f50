"""Every rule finds what was planted, names where, and offers code that helps; and none speaks on Gaussian tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import fullspan as fs
from fullspan._typing import Array
from fullspan.diagnose import RULES
from fullspan.measures import catalog

SIZES = [(300, 16), (2000, 64), (5000, 128)]
#: Rules may need neighbors; nothing else in the default set that reads the rows twice matters to a finding.
MEASURES = [
    entry.name
    for entry in catalog.CATALOG.values()
    if entry.default and not {"partition", "centered_partition", "weighted_singular_values"} & set(entry.needs)
]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Small matrices: threads of BLAS would mostly wait for each other."""
    with threadpool_limits(1):
        yield


class Planted(NamedTuple):
    """A table with one kind of damage, and where it is."""

    E: Array
    severity: str = "fail"
    rows: tuple[int, ...] = ()
    dimensions: tuple[int, ...] = ()
    frequencies: Array | None = None


def measured(E: Array, *, neighbors: bool = True, frequencies: Array | None = None, exact: bool = False) -> fs.Report:
    """Measured as float32 unless `exact`: float64 tables of small rank are read twice."""
    names = [name for name in MEASURES if frequencies is not None or "frequency" not in catalog.get(name).needs]
    return fs.measure(
        E.astype(np.float32) if E.dtype == np.float64 and not exact else E,
        measures=names,
        hygiene=True,
        standard_errors=False,
        sample=512,
        neighbors=neighbors,
        frequencies=frequencies,
    )


def found(report: fs.Report, rule: str) -> list[Any]:
    return [finding for finding in report.findings if finding.rule == rule]


def gaussian(n: int, d: int, seed: int = 0) -> Array:
    return np.random.default_rng([n, d, seed]).standard_normal((n, d))


def one_point(n: int, d: int) -> Planted:
    return Planted(100 + 1e-3 * gaussian(n, d))


def equal_rows(n: int, d: int) -> Planted:
    return Planted(np.tile(gaussian(1, d), (n, 1)))


def subspace(n: int, d: int) -> Planted:
    return Planted(gaussian(n, d // 8) @ gaussian(d // 8, d, 1) + 1e-3 * gaussian(n, d, 2))


def one_axis(n: int, d: int) -> Planted:
    axis = gaussian(1, d, 1)
    return Planted(gaussian(n, d) + 10 * gaussian(n, 1, 2) * axis / np.linalg.norm(axis) * d**0.5 / 4)


def offset(n: int, d: int) -> Planted:
    return Planted(gaussian(n, d) + 2 * gaussian(1, d, 1))


def rogue_mean(n: int, d: int) -> Planted:
    E = gaussian(n, d)
    E[:, 5] += 3 * d**0.5
    return Planted(E, dimensions=(5,))


def rogue_spread(n: int, d: int) -> Planted:
    E = gaussian(n, d)
    E[:, 7] *= 4 * d**0.5
    return Planted(E, dimensions=(7,))


def slight_offset(n: int, d: int) -> Planted:
    mean = gaussian(1, d, 1)
    return Planted(gaussian(n, d) + 0.25 * mean * d**0.5 / np.linalg.norm(mean), "note")


def turned(E: Array) -> Array:
    """The same table along other axes, so that no column stands out."""
    return E @ np.linalg.qr(gaussian(E.shape[1], E.shape[1], 3))[0]


def learned_spectrum(n: int, d: int) -> Planted:
    return Planted(turned(gaussian(n, d) / np.sqrt(np.arange(1, d + 1))), "note")


def mild_spectrum(n: int, d: int) -> Planted:
    return Planted(turned(gaussian(n, d) * np.geomspace(1, 10, d)), "note")


def frequent_is_long(n: int, d: int) -> Planted:
    frequencies = np.random.default_rng(1).permutation(n) + 1.0
    return Planted(gaussian(n, d) * (0.5 + frequencies[:, None] / n), "warn", frequencies=frequencies)


def never_seen(n: int, d: int) -> Planted:
    frequencies = np.where(np.arange(n) % 2 == 0, 0.0, 5.0)
    return Planted(gaussian(n, d), frequencies=frequencies)


def short_cluster(n: int, d: int) -> Planted:
    E = gaussian(n, d)
    E[: n // 10] *= 0.02
    shortest = np.argsort(np.linalg.norm(E, axis=1))[:10]
    return Planted(E, "warn", rows=tuple(shortest.tolist()))


def zero_rows(n: int, d: int) -> Planted:
    E = gaussian(n, d)
    E[3 : 3 + n // 8] = 0
    return Planted(E, rows=(3, 4, 5))


def copied_rows(n: int, d: int) -> Planted:
    E = gaussian(n, d)
    E[: n // 3] = E[-1]
    return Planted(E, rows=(0, 1))


def nearly_copied_rows(n: int, d: int) -> Planted:
    E = gaussian(n, d)
    E[: n // 4] = E[n // 2 : n // 2 + n // 4] * (1 + 1e-3 * gaussian(n // 4, d, 1))
    return Planted(E, "warn" if n <= 2000 else "note")  # a sample of 512 holds both rows of few pairs


def many_of_one(n: int, d: int) -> Planted:
    E = gaussian(n, d)
    E[: n // 6] = (E[-1] + 1e-3 * gaussian(n // 6, d, 1)) * np.linspace(0.5, 2, n // 6)[:, None]
    return Planted(E, "warn")


def idle_columns(n: int, d: int) -> Planted:
    E = gaussian(n, d)
    E[:, 2] = 0
    E[:, 4] = 1.5
    E[:, 9] = E[:, 8]
    E[:, -(d // 4) :] = 0
    return Planted(E, dimensions=(2, 4))


def not_finite(n: int, d: int) -> Planted:
    E = gaussian(n, d)
    E[11, 3] = np.nan
    E[12, 4] = np.inf
    return Planted(E, rows=(11, 12))


def long_rows(n: int, d: int) -> Planted:
    E = gaussian(n, d)
    E[[21, 22]] *= 500
    return Planted(E, rows=(21, 22))


def one_entry(n: int, d: int) -> Planted:
    E = gaussian(n, d)
    E[:, 1] *= 60
    E[31, 9] = 300
    return Planted(E, "warn", rows=(31,), dimensions=(9,))


def hubs(n: int, d: int) -> Planted:
    E = gaussian(n, d) + 2
    E[: n // 20] = 2 + 0.3 * gaussian(n // 20, d, 1)
    return Planted(E, "warn")


def wide(n: int, d: int) -> Planted:
    return Planted(gaussian(d // 2, d), "note")


def coarse_offset(n: int, d: int) -> Planted:
    E = gaussian(n, d)
    E[:, 6] += 1e7
    return Planted(E.astype(np.float32))


def full_range(n: int, d: int) -> Planted:
    E = gaussian(n, d) * 1000
    E[8, 3] = 65504
    return Planted(E.astype(np.float16), "warn", rows=(8,))


def denormal(n: int, d: int) -> Planted:
    return Planted((gaussian(n, d) * 2e-5).astype(np.float16), "warn")


PLANTED: list[tuple[str, Callable[[int, int], Planted]]] = [
    ("complete-collapse", one_point),
    ("complete-collapse", equal_rows),
    ("dimensional-collapse", subspace),
    ("dominant-direction", one_axis),
    ("mean-shift", offset),
    ("mean-shift", slight_offset),
    ("anisotropic-spectrum", learned_spectrum),
    ("anisotropic-spectrum", mild_spectrum),
    ("rogue-dimensions", rogue_mean),
    ("rogue-dimensions", rogue_spread),
    ("norm-tied-to-frequency", frequent_is_long),
    ("untrained-rows", never_seen),
    ("untrained-rows", short_cluster),
    ("dead-rows", zero_rows),
    ("duplicate-rows", copied_rows),
    ("near-duplicate-rows", nearly_copied_rows),
    ("near-duplicate-rows", many_of_one),
    ("dead-columns", idle_columns),
    ("non-finite", not_finite),
    ("scale-outliers", long_rows),
    ("scale-outliers", one_entry),
    ("hubness", hubs),
    ("wide-for-data", wide),
    ("precision-loss", coarse_offset),
    ("precision-loss", full_range),
    ("precision-loss", denormal),
]


def all_of(evidence: Any, key: str) -> set[int]:
    """Every row position or dimension that the evidence names."""
    named: set[int] = set()
    for each in evidence:
        if key == "rows":
            named |= {row["position"] for row in each.get("rows", [])}
            for group in each.get("groups", []):
                named |= {row["position"] if isinstance(row, dict) else row for row in group["rows"]}
        else:
            named |= set(each.get("dimensions", [])) | set(each.get("constant", []))
    return named


def test_every_rule_is_planted() -> None:
    assert {rule for rule, _ in PLANTED} == set(RULES)


@pytest.mark.parametrize(("n", "d"), SIZES)
@pytest.mark.parametrize(("rule", "plant"), PLANTED, ids=lambda each: getattr(each, "__name__", each))
def test_rule_finds_what_was_planted(rule: str, plant: Callable[[int, int], Planted], n: int, d: int) -> None:
    case = plant(n, d)
    options: dict[str, Any] = {"neighbors": rule in ("hubness", "near-duplicate-rows")}
    before = measured(case.E, frequencies=case.frequencies, **options)
    findings = found(before, rule)
    assert findings, f"{rule} is silent; there is {[each.rule for each in before.findings]}"
    finding = findings[0]
    assert finding.severity == case.severity
    assert set(case.rows) <= all_of(finding.evidence, "rows")
    assert set(case.dimensions) <= all_of(finding.evidence, "dimensions")
    assert finding.cause
    assert finding.verify.startswith("fullspan measure")
    assert finding.docs == f"fullspan rules {rule}"
    json.dumps([each.evidence for each in before.findings], allow_nan=False)

    _, *code = finding.remedy.split("\n")
    if not code:
        assert plant in (equal_rows,)
        return
    scope = {"np": np, "E": case.E.copy(), "frequencies": case.frequencies}
    exec("\n".join(code[:-1]), scope)
    repaired = scope["E"]
    frequencies = case.frequencies if len(repaired) == len(case.E) else None
    after = found(measured(repaired, frequencies=frequencies, **options), rule)
    assert not after, f"{rule} still says: {after[0].title}"


def test_the_code_of_a_remedy_saves_what_its_command_reads(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    case = offset(300, 16)
    (finding,) = found(measured(case.E), "mean-shift")
    _, *code = finding.remedy.split("\n")
    exec("\n".join(code), {"np": np, "E": case.E})
    assert "repaired.npy" in finding.verify
    assert abs(fs.measure("repaired.npy", measures=["average_cosine"])["average_cosine"].value) < 0.01


def test_gaussian_tables_are_not_blamed() -> None:
    """1,000 Gaussian tables, a third of them with fewer rows than dimensions: at most 1% get a finding.

    `wide-for-data` states the shape: it speaks on every table with n - 1 < dim, and on no other.
    """
    random = np.random.default_rng(7)
    shapes = [(int(2 ** random.uniform(1, 7)), int(2 ** random.uniform(0, 6))) for _ in range(25)]
    alarms: Counter[str] = Counter()
    noisy = narrow = 0
    for number in range(1000):
        n, d = shapes[number % len(shapes)]
        dtype = ("float32", "float64", "float16")[number % 3]
        E = (random.standard_normal((n, d)) * 10 ** random.uniform(-1.5, 2)).astype(dtype)
        frequencies = random.zipf(1.5, n).astype(float) if number % 5 == 0 else None
        findings = measured(E, neighbors=number % 4 == 0, frequencies=frequencies, exact=True).findings
        alarms.update(finding.rule for finding in findings)
        noisy += any(finding.rule != "wide-for-data" for finding in findings)
        narrow += n - 1 < d
    assert narrow > 200
    assert alarms.pop("wide-for-data") == narrow
    assert noisy <= 10, alarms
    assert all(count <= 10 for count in alarms.values()), alarms


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d"), [(40, 22), (100, 22), (200, 21), (1000, 30), (5000, 200)])
def test_the_entries_of_a_one_hot_table_are_no_outliers(n: int, d: int, dtype: type) -> None:
    E = np.eye(d, dtype=dtype)[np.arange(n) % d]  # the 95th percentile of a dimension lies between its 0 and its 1
    assert not found(fs.measure(E, neighbors=False, standard_errors=False), "scale-outliers")


def test_a_huge_entry_of_a_sparse_table_is_an_outlier() -> None:
    E = np.eye(22)[np.arange(200) % 22]
    E[31, 4] = 1000
    (finding,) = found(fs.measure(E, neighbors=False, standard_errors=False), "scale-outliers")
    assert 31 in all_of(finding.evidence, "rows")


def test_exact_copies_and_low_dimensions_are_no_near_copies() -> None:
    for E in (
        copied_rows(2000, 64).E,
        zero_rows(2000, 64).E,
        gaussian(3000, 2),
        gaussian(3000, 1),
        subspace(300, 16).E,
    ):
        assert not found(measured(E, exact=True), "near-duplicate-rows")


def test_near_copies_are_named_with_their_ids() -> None:
    E = gaussian(400, 32)
    E[:20] = E[100:120] + 1e-4 * gaussian(20, 32, 1)
    E[30:40] = E[200:210]  # exact copies, which are not counted again
    ids = [f"item {row}" for row in range(400)]
    (finding,) = found(fs.measure(E, ids=ids, standard_errors=False), "near-duplicate-rows")
    assert finding.title == "10.0% of a sample of 400 rows nearly repeat another row"
    (evidence,) = finding.evidence
    assert evidence["exact_copies"] == 20 / 400
    named = {row["position"] for row in evidence["rows"]}
    assert len(named) == 20
    assert named <= {*range(20), *range(100, 120)}
    assert all(row["id"] == f"item {row['position']}" for row in evidence["rows"])
