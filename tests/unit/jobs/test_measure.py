"""`fs.measure`: sources, measures, groups, options, the smallest singular values, and standard errors."""

from __future__ import annotations

import datetime as dt
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fullspan as fs
from fullspan.errors import InputError, NothingEvaluatedError, UnknownNameError

E = np.random.default_rng(0).normal(size=(60, 5))
NAMES = ["information_abundance", "mean_norm", "gini_index"]


class TwoTables(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.user = torch.nn.Embedding(40, 4)
        self.item = torch.nn.Embedding(50, 6)
        self.head = torch.nn.Linear(4, 3)


def abundance(rows) -> float:
    values = np.linalg.svd(np.asarray(rows, dtype=np.float64), compute_uv=False)
    return float(values.sum() / values[0])


def record(report):
    return next(iter(report)).record


@pytest.fixture
def parquet(tmp_path):
    """A table of 60 rows with a language and a count beside the vectors."""
    path = tmp_path / "words.parquet"
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(E.ravel()), 5)
    columns = {"vec": vectors, "lang": ["en", "de", "fr"] * 20, "count": [1, 20, 300] * 20}
    pq.write_table(pa.table(columns), path)
    return path


# sources


@pytest.mark.parametrize(
    ("source", "dtype", "kind"),
    [
        (E, "float64", "ndarray"),
        (E.astype(np.float32), "float32", "ndarray"),
        (E.astype(np.float16), "float16", "ndarray"),
        (E.tolist(), "float64", "list"),
        (torch.tensor(E), "float64", "Tensor"),
        (torch.tensor(E, dtype=torch.float16), "float16", "Tensor"),
    ],
    ids=["float64", "float32", "float16", "list", "tensor", "half tensor"],
)
def test_arrays_lists_and_tensors(source, dtype, kind):
    report = fs.measure(source, measures="information_abundance")
    assert report["information_abundance"].value == pytest.approx(abundance(source), rel=1e-9)
    assert (record(report).dtype, record(report).n_rows, record(report).dim) == (dtype, 60, 5)
    assert record(report).source == ""
    assert report.provenance["source"] == kind


def test_bfloat16_is_widened_exactly():
    tensor = torch.tensor(E, dtype=torch.bfloat16)
    report = fs.measure(tensor, measures="information_abundance")
    assert record(report).dtype == "bfloat16"
    assert report["information_abundance"].value == pytest.approx(abundance(tensor.double().numpy()), rel=1e-9)


def test_an_embedding_layer():
    layer = torch.nn.Embedding(60, 5)
    report = fs.measure(layer, measures="information_abundance")
    expected = abundance(layer.weight.detach().numpy())
    assert report["information_abundance"].value == pytest.approx(expected, rel=1e-9)
    assert layer.weight.requires_grad
    assert report.provenance["source"] == "Embedding"


def test_the_embeddings_of_a_module():
    module = TwoTables()
    report = fs.measure(module, measures="information_abundance")
    assert list(report.tables) == ["user.weight", "item.weight"]
    for name, layer in (("user.weight", module.user), ("item.weight", module.item)):
        expected = abundance(layer.weight.detach().numpy())
        assert report[name]["information_abundance"].value == pytest.approx(expected, rel=1e-9)
        assert report[name].record.table == name
    with pytest.raises(UnknownNameError, match="needs a table first"):
        report["information_abundance"]


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ("i*", ["item.weight"]),
        ("*.weight", ["user.weight", "item.weight"]),
        ("item.weight", ["item.weight"]),
        (["item.weight", "us*"], ["item.weight", "user.weight"]),
    ],
    ids=str,
)
def test_names_and_globs_of_tables(asked, names):
    assert list(fs.measure(TwoTables(), table=asked, measures="mean_norm").tables) == names


@pytest.mark.parametrize(
    ("asked", "message"), [("zz*", "There are: user.weight, item.weight"), ("usr.weight", 'Did you mean "user.weight"')]
)
def test_tables_that_are_not_there(asked, message):
    with pytest.raises(UnknownNameError, match=message):
        fs.measure(TwoTables(), table=asked)


def test_a_mapping():
    report = fs.measure({"a": E, "b": E[:20]}, measures="information_abundance")
    assert report["a"]["information_abundance"].value == pytest.approx(abundance(E))
    assert report["b"]["information_abundance"].value == pytest.approx(abundance(E[:20]))


def test_a_generator_is_read_once():
    report = fs.measure((E[start : start + 7] for start in range(0, 60, 7)), measures=["information_abundance"])
    assert report["information_abundance"].value == pytest.approx(abundance(E), rel=1e-9)
    assert (record(report).n_rows, record(report).passes) == (60, 1)
    assert any("read once" in note for note in record(report).notes)
    assert report.provenance["source"] == "generator"


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_a_path(suffix, tmp_path):
    path = tmp_path / f"items{suffix}"
    np.save(path, E) if suffix == ".npy" else np.savez(path, items=E)
    for source in (path, str(path)):
        report = fs.measure(source, measures="information_abundance")
        assert list(report.tables) == ["items"]
        assert report["information_abundance"].value == pytest.approx(abundance(E), rel=1e-9)
        assert record(report).source == report.provenance["source"] == str(path)


@pytest.mark.parametrize("source", [np.zeros((0, 4)), iter([])], ids=["array", "iterator"])
def test_no_rows(source):
    with pytest.raises((InputError, NothingEvaluatedError), match="needs at least one row"):
        fs.measure(source)


# measures


def test_measures_as_text_and_as_a_list():
    text, listed = fs.measure(E, measures="ia, mean_norm,gini_index,ia"), fs.measure(E, measures=NAMES)
    assert list(record(text).readings) == list(record(listed).readings) == NAMES
    assert record(text).readings == record(listed).readings
    assert text.provenance["measures"] == NAMES


def test_the_default_set_is_that_of_the_catalog():
    of_frequencies = {"frequency", "weighted_singular_values"}
    shown = [name for name, entry in fs.CATALOG.items() if entry.default and entry.read is not None]
    with_frequencies = fs.measure(E, frequencies=np.ones(60))
    assert list(record(with_frequencies).readings) == shown
    without = [name for name in shown if not of_frequencies & set(fs.CATALOG[name].needs)]
    assert list(record(fs.measure(E)).readings) == without


@pytest.mark.parametrize(
    ("measures", "error", "message"),
    [
        ("informaton_abundance", UnknownNameError, 'Did you mean "information_abundance"'),
        ([], InputError, "at least one measure; got an empty list"),
        ("linear_cka", InputError, "more than one table"),
    ],
)
def test_measures_that_cannot_be_taken(measures, error, message):
    with pytest.raises(error, match=message):
        fs.measure(E, measures=measures)


def test_a_measure_that_needs_frequencies_says_so():
    reading = fs.measure(E, measures="length_frequency_correlation")["length_frequency_correlation"]
    assert reading.value is None
    assert "needs frequencies of the rows" in reading.why
    assert "--frequencies" in reading.why


def test_without_neighbors_and_errors():
    report = fs.measure(E, neighbors=False, standard_errors=False)
    assert "hubness_skew" not in record(report).readings
    assert "uniformity" not in record(report).readings
    assert record(report).error_groups == 0
    assert report["information_abundance"].standard_error is None
    assert "neighbors" not in record(report).profile


# groups and frequencies


def test_groups_by_label():
    labels = np.array(["x", "y"])[np.arange(60) % 2]
    groups = record(fs.measure(E, labels=labels, by="label", measures=NAMES)).groups
    assert set(groups) == {"x", "y"}
    for key, rows in (("x", E[::2]), ("y", E[1::2])):
        assert groups[key]["information_abundance"].value == pytest.approx(abundance(rows), rel=1e-9)
        assert groups[key]["mean_norm"].value == pytest.approx(np.linalg.norm(rows, axis=1).mean(), rel=1e-9)
        assert groups[key]["mean_norm"].detail["n_rows"] == 30
        assert groups[key]["mean_norm"].group == key


def test_groups_by_the_name_of_a_column(parquet):
    report = fs.measure(parquet, by="lang", measures=NAMES)
    groups = record(report).groups
    assert set(groups) == {"de", "en", "fr"}
    assert groups["de"]["information_abundance"].value == pytest.approx(abundance(E[1::3]), rel=1e-9)
    assert report["information_abundance"].value == pytest.approx(abundance(E), rel=1e-9)


def test_groups_by_frequency(parquet):
    groups = record(fs.measure(parquet, by="frequency", frequencies="count", measures=NAMES)).groups
    assert set(groups) == {"frequency 1e0 to 1e1", "frequency 1e1 to 1e2", "frequency 1e2 to 1e3"}
    assert groups["frequency 1e2 to 1e3"]["information_abundance"].value == pytest.approx(abundance(E[2::3]), rel=1e-9)


def alone_and_in_groups(rows, measures):
    """Readings of the odd and of the even rows, as groups and as tables of their own."""
    labels = np.arange(len(rows)) % 2
    groups = record(fs.measure(rows, labels=labels, by="label", measures=measures)).groups
    for key in ("0", "1"):
        alone = fs.measure(rows[labels == int(key)], measures=measures)
        yield {name: (groups[key][name].value, alone[name].value) for name in measures}


@pytest.mark.parametrize("kind", ["small value", "wide", "tiny", "huge", "one group far smaller"])
def test_a_group_reads_as_it_does_alone(kind):
    rows = np.random.default_rng(0).normal(size=(60, 90 if kind == "wide" else 8))
    if kind == "small value":
        rows[:, -1] = rows[:, 0] + 1e-10 * rows[:, 1]
    elif kind == "one group far smaller":
        rows[::2] *= 1e-160
    rows *= {"tiny": 1e-200, "huge": 1e200}.get(kind, 1.0)
    names = ["inverse_condition_number", "information_abundance", "centered_effective_rank", "numerical_rank"]
    for readings in alone_and_in_groups(rows, names):
        for name, (group, alone) in readings.items():
            slack = 1e-4 if name.startswith("inverse") and kind == "small value" else 1e-10
            assert group == pytest.approx(alone, rel=slack), name


def test_a_constant_group_has_no_spectrum_of_rounding():
    rows = np.vstack([E, np.full((60, 5), 3.3)])
    groups = record(fs.measure(rows, labels=np.arange(120) // 60, by="label")).groups
    assert "spectral_entropy" in groups["0"]
    assert "spectral_entropy" not in groups["1"]


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_rows_without_a_label_are_a_group_of_their_own(missing):
    labels = [missing] * 20 + ["None"] * 20 + ["x"] * 20
    groups = record(fs.measure(E, labels=labels, by="label", measures=NAMES)).groups
    assert set(groups) == {"no label", "None", "x"}
    assert groups["no label"]["gini_index"].detail["n_rows"] == 20


def test_what_groups_lack_is_said():
    (note,) = [
        each
        for each in record(fs.measure(E, labels=np.arange(60) % 2, by="label")).notes
        if "Not measured in groups" in each
    ]
    assert "isotropy" in note
    assert "gini_index" not in note


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_smallest_values_that_only_squares_would_give_are_none(dtype, monkeypatch):
    monkeypatch.setattr("fullspan.jobs.passes._TRIANGLE_WORTH", 0)
    rows = E.copy()
    rows[:, -1] = rows[:, 0] + (1e-9 if dtype is np.float64 else 1e-7) * rows[:, 1]
    report = fs.measure(rows.astype(dtype), measures="inverse_condition_number,information_abundance")
    reading = report["inverse_condition_number"]
    assert reading.below_resolution or "needs a QR factor" in reading.why
    assert report["information_abundance"].value == pytest.approx(abundance(rows), rel=1e-5)


@pytest.mark.parametrize("n", [2, 7, 100])
@pytest.mark.parametrize("value", [3.3, 0.1, 1e4 + 0.1])
@pytest.mark.parametrize("stream", [False, True], ids=["array", "stream"])
def test_a_constant_table_is_one_point_and_nothing_else(n, value, stream):
    rows = np.full((n, 16), value)
    report = fs.measure(iter(np.array_split(rows, max(n // 4, 1))) if stream else rows)
    assert {each.rule for each in report.findings} - {"wide-for-data"} == {"complete-collapse"}
    for name in ("spectral_entropy", "participation_ratio", "centered_effective_rank", "iso_score"):
        assert report[name].value is None


@pytest.mark.parametrize("by", ["label", "frequency"])
def test_groups_of_a_table_that_has_none(by):
    with pytest.raises(InputError, match=f"Grouping by {by} needs a {by} for every row; got none"):
        fs.measure(E, by=by)


def test_a_column_that_is_not_there(parquet):
    with pytest.raises(UnknownNameError, match='no column .lng.*Did you mean "lang"'):
        fs.measure(parquet, by="lng")


def test_frequencies_weigh_the_rows():
    counts = np.random.default_rng(1).integers(1, 50, 60).astype(float)
    report = fs.measure(E, frequencies=counts)
    expected = abundance(np.sqrt(counts)[:, None] * E)
    assert report["weighted_information_abundance"].value == pytest.approx(expected, rel=1e-9)
    lengths = np.linalg.norm(E, axis=1)
    expected = 100 * np.corrcoef(lengths, counts)[0, 1]
    assert report["length_frequency_correlation"].value == pytest.approx(expected, rel=1e-7)
    with pytest.raises(InputError, match="60 rows and needs as many frequencies; got 5"):
        fs.measure(E, frequencies=counts[:5])


# options


def test_progress_and_passes():
    calls: list[tuple] = []
    report = fs.measure(E, measures="isotropy", block_rows=20, progress=lambda *call: calls.append(call))
    phases = [("table", phase, done, 60) for phase in ("reading", "second pass") for done in (20, 40, 60)]
    assert calls == phases
    assert record(report).passes == 2
    calls.clear()
    stream = (E[start : start + 30] for start in (0, 30))
    fs.measure(stream, measures="mean_norm", progress=lambda *call: calls.append(call))
    assert calls == [("table", "reading", 30, None), ("table", "reading", 60, None)]


def test_one_pass_where_one_is_enough():
    assert record(fs.measure(E, measures=NAMES)).passes == 1


def test_thresholds_of_a_file(tmp_path):
    bad = np.vstack([E, np.zeros((30, 5))])
    assert "dead-rows" in {finding.rule for finding in fs.measure(bad).findings}
    path = tmp_path / "fullspan.toml"
    path.write_text("[[rule]]\ndead-rows = false\n", encoding="utf-8")
    for limits in (path, str(path), fs.Thresholds.load(path)):
        assert "dead-rows" not in {finding.rule for finding in fs.measure(bad, thresholds=limits).findings}


def test_hygiene_comes_with_the_default_measures_or_when_asked():
    assert record(fs.measure(E, measures=NAMES)).hygiene == {}
    assert record(fs.measure(E, hygiene=False)).hygiene == {}
    broken = E.copy()
    broken[7], broken[9, 0], broken[11] = 0.0, np.inf, E[3]
    found = record(fs.measure(broken, measures=NAMES, hygiene=True)).hygiene
    assert found == record(fs.measure(broken)).hygiene
    assert [row["position"] for row in found["zero_rows"]["rows"]] == [7]
    assert [row["position"] for row in found["inf_rows"]["rows"]] == [9]
    assert found["nan_rows"]["count"] == 0


def test_rows_that_are_not_finite_are_left_out():
    broken = E.copy()
    broken[4, 2], broken[50] = np.nan, np.inf
    report = fs.measure(broken)
    assert (record(report).n_rows, record(report).n_excluded) == (60, 2)
    rest = np.delete(E, [4, 50], axis=0)
    assert report["information_abundance"].value == pytest.approx(abundance(rest), rel=1e-9)


@pytest.mark.parametrize("stream", [False, True])
def test_a_table_of_nan_alone(stream):
    nothing = np.full((10, 3), np.nan)
    report = fs.measure(iter([nothing]) if stream else nothing)
    assert (record(report).n_rows, record(report).n_excluded) == (10, 10)
    assert [(finding.rule, finding.severity) for finding in report.findings] == [("non-finite", "fail")]
    for reading in next(iter(report)):
        assert reading.value is None
        assert reading.why == "every one of the 10 rows holds NaN or infinity."
    report.to_json()


def test_provenance():
    before = dt.datetime.now(dt.UTC).replace(microsecond=0)
    found = fs.measure(E, measures="ia", sample=50, seed=3).provenance
    assert before <= dt.datetime.fromisoformat(found["created"]) <= dt.datetime.now(dt.UTC)
    assert (found["fullspan"], found["numpy"]) == (fs.__version__, np.__version__)
    assert (found["sample"], found["seed"], found["measures"]) == (50, 3, ["information_abundance"])


def test_the_seed_decides_the_sample():
    rows = np.random.default_rng(2).normal(size=(400, 8))
    one, same, other = (fs.measure(rows, measures="hubness_skew,uniformity", sample=50, seed=s) for s in (0, 0, 1))
    assert record(one) == record(same)
    assert record(one).sample_rows == 50
    assert one["hubness_skew"].detail["sample_rows"] == 50
    assert one["uniformity"].value != other["uniformity"].value


# the smallest singular values


@cache
def conditioned(smallest: float, n_rows: int = 400, dim: int = 10) -> np.ndarray:
    """Singular values from 1 down to `smallest`, in turned axes."""
    rng = np.random.default_rng(6)
    left, right = (np.linalg.qr(rng.normal(size=shape))[0] for shape in ((n_rows, dim), (dim, dim)))
    return left * np.geomspace(1.0, smallest, dim) @ right


@pytest.mark.parametrize("stream", [False, True], ids=["array", "stream"])
@pytest.mark.parametrize("smallest", [1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12])
def test_smallest_singular_values_of_float64(smallest, stream):
    rows = conditioned(smallest)
    source = iter(np.array_split(rows, 7)) if stream else rows
    report = fs.measure(source, measures="inverse_condition_number,condition_number,numerical_rank")
    assert report["inverse_condition_number"].value == pytest.approx(smallest, rel=1e-2)
    assert report["condition_number"].value == pytest.approx(1 / smallest, rel=1e-2)
    assert report["numerical_rank"].value == 10
    assert not report["inverse_condition_number"].below_resolution


@pytest.mark.parametrize("stream", [False, True], ids=["array", "stream"])
@pytest.mark.parametrize(("smallest", "below"), [(1e-4, False), (1e-6, False), (1e-9, True), (1e-12, True)])
def test_what_float32_cannot_resolve_is_flagged(smallest, below, stream):
    rows = conditioned(smallest).astype(np.float32)
    source = iter(np.array_split(rows, 7)) if stream else rows
    reading = fs.measure(source, measures="inverse_condition_number")["inverse_condition_number"]
    assert reading.below_resolution is below
    if below:
        assert 0 <= reading.value < 1.2e-7
    else:
        assert reading.value == pytest.approx(smallest, rel=2e-2)


# standard errors


def mixture(seed: int) -> np.ndarray:
    """Rows of three clusters of different size and spread."""
    centers = np.random.default_rng(8).normal(size=(3, 6))
    rng = np.random.default_rng([9, seed])
    which = rng.choice(3, size=300, p=(0.5, 0.3, 0.2))
    return centers[which] + rng.normal(size=(300, 6)) * np.array([0.3, 0.6, 1.0])[which, None]


@cache
def resampled() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    names = ["information_abundance", "participation_ratio", "mean_norm_ratio", "average_cosine"]
    reports = [fs.measure(mixture(seed), measures=names) for seed in range(150)]
    return {
        name: (np.array([r[name].value for r in reports]), np.array([r[name].standard_error for r in reports]))
        for name in names
    }


@pytest.mark.parametrize("name", ["information_abundance", "participation_ratio", "mean_norm_ratio", "average_cosine"])
def test_the_jackknife_gives_the_deviation_over_tables(name):
    values, errors = resampled()[name]
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(values.std(ddof=1), rel=0.35)
    assert np.median(errors) == pytest.approx(values.std(ddof=1), rel=0.35)
