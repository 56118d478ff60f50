"""The comparison of two versions: which rows are the same, what changed, and how it is shown."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import fullspan as fs
from fullspan._typing import Block
from fullspan.errors import InputError, NothingEvaluatedError, UnknownNameError
from fullspan.jobs import aligned
from fullspan.jobs.drift import Change, TableDrift

RANDOM = np.random.default_rng(0)
E = RANDOM.normal(size=(120, 6)).astype(np.float32)
IDS = np.arange(120)
ROTATION = np.linalg.qr(RANDOM.normal(size=(6, 6)))[0]
SHUFFLED = RANDOM.permutation(120)
NORM = ["mean_norm"]
PAIRED = ["linear_cka", "linear_cka_debiased", "neighbor_overlap"]


class Rows:
    """A table in memory with ids, in blocks of any size."""

    def __init__(self, rows, ids=None, step=50, shrinks_to=None, grows_to=None, name="rows", start=True):
        self.rows, self.ids, self.step, self.name = rows, ids, step, name
        self.n_rows, self.dim, self.dtype, self.repeatable = len(rows), rows.shape[1], rows.dtype.name, True
        self.after, self.readings, self.start = shrinks_to or grows_to, 0, start

    def blocks(self, block_rows=None):
        self.readings += block_rows != 1
        rows = self.rows if self.after is None or self.readings < 2 else np.resize(self.rows, (self.after, self.dim))
        for at in range(0, len(rows), self.step):
            ids = None if self.ids is None else self.ids[at : at + self.step]
            yield Block(rows[at : at + self.step], at if self.start else 0, ids)


def only(report) -> TableDrift:
    [table] = report
    return table


def compare(old, new, **options) -> TableDrift:
    return only(fs.drift(old, new, **{"measures": NORM, "sample": 60, **options}))


def test_identical_tables():
    table = compare(E, E, measures=None)
    assert [table[name].value for name in PAIRED] == pytest.approx([1.0] * 3, abs=1e-12)
    for name in ("procrustes_distance", "row_displacement", "mean_shift", "spectrum_difference"):
        assert table[name].value == pytest.approx(0.0, abs=1e-12)
    assert table["row_cosine"].value == pytest.approx(1.0, abs=1e-12)
    assert table["mmd"].detail["p"] > 0.5
    assert all(change.difference == 0.0 for change in table.changes.values())
    assert table.significant() == []
    assert (table.n_common, table.n_added, table.n_removed) == (120, 0, 0)


def test_a_rotation_keeps_the_geometry_and_turns_the_rows():
    table = compare(E, E @ ROTATION, measures=["information_abundance", "mean_norm", "isotropy"])
    assert [table[name].value for name in PAIRED] == pytest.approx([1.0] * 3, abs=1e-6)
    assert table["procrustes_distance"].value < 1e-6
    assert table["row_cosine"].value < 0.9
    assert table.significant() == []
    assert table.moved[0]["cosine"] <= table.moved[-1]["cosine"]


def test_rows_of_length_one_do_not_change_by_rounding():
    unit = E / np.linalg.norm(E, axis=1, keepdims=True)
    table = compare(unit, (unit @ ROTATION).astype(np.float32))
    change = table["mean_norm"]
    assert isinstance(change, Change)
    assert change.difference != 0.0
    assert (change.z, change.p) == (0.0, 1.0)


@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.float64, str, object])
def test_shuffled_rows_find_each_other_by_id(kind):
    ids = IDS.astype(str).astype(object) if kind is object else IDS.astype(kind)
    table = compare(Rows(E, ids), Rows(E[SHUFFLED], ids[SHUFFLED], step=17))
    assert table.aligned_by == "id"
    assert table["row_cosine"].value == pytest.approx(1.0)
    assert table["row_displacement"].value == 0.0


@pytest.mark.parametrize(("old_kind", "new_kind"), [(np.int64, np.uint64), (str, object), (np.int64, object)])
def test_ids_of_one_kind_in_different_types(old_kind, new_kind):
    new_ids = IDS.astype(old_kind).astype(new_kind)
    table = compare(Rows(E, IDS.astype(old_kind)), Rows(E[SHUFFLED], new_ids[SHUFFLED]))
    assert (table.n_common, table["row_displacement"].value) == (120, 0.0)


def test_ids_beyond_the_digits_of_float64():
    large = IDS + 2**60
    table = compare(Rows(E, large), Rows(E[SHUFFLED], large[SHUFFLED].astype(np.uint64)))
    assert (table.n_common, table["row_displacement"].value) == (120, 0.0)


def test_numbers_and_strings_are_no_ids_of_one_kind():
    with pytest.raises(InputError, match="ids of one kind on both sides; got numbers in the old table and strings"):
        compare(Rows(E, IDS), Rows(E, IDS.astype(str)))
    mixed = np.array([None, *IDS[1:].astype(str).tolist()], dtype=object)
    with pytest.raises(InputError, match="all numbers or all strings; got None and str in the new table"):
        compare(Rows(E, IDS.astype(str)), Rows(E, mixed))
    assert compare(Rows(E, IDS), Rows(E, IDS.astype(str)), align="position").aligned_by == "position"


def test_added_and_removed_rows():
    table = compare(Rows(E[:100], IDS[:100]), Rows(E[30:][::-1], IDS[30:][::-1], step=9))
    assert (table.n_common, table.n_added, table.n_removed) == (70, 20, 30)
    assert table["row_displacement"].value == 0.0


def test_rows_moved_are_named_by_id_and_by_position():
    new = E.copy()
    new[41] *= -1
    first = compare(Rows(E, IDS + 1000), Rows(new[SHUFFLED], IDS[SHUFFLED] + 1000)).moved[0]
    assert (first["position"], first["id"], first["cosine"]) == (41, 1041, pytest.approx(-1.0))
    assert compare(E, new).moved[0]["id"] is None


def test_blocks_that_all_start_at_zero_are_aligned_by_their_order():
    table = compare(Rows(E, IDS, start=False), Rows(E[SHUFFLED], IDS[SHUFFLED]))
    assert table["row_displacement"].value == 0.0


@pytest.mark.parametrize("which", ["old", "new"])
def test_an_id_that_occurs_twice(which):
    twice = IDS.copy()
    twice[5] = 4
    sides = {"old": Rows(E, IDS), "new": Rows(E, IDS), which: Rows(E, twice)}
    with pytest.raises(InputError, match=f"every id once; got 4 2 times in the {which} table. Use --align position"):
        compare(**sides)


@pytest.mark.parametrize(("old_step", "new_step"), [(50, 7), (1, 120), (33, 64)])
def test_blocks_of_different_sizes(old_step, new_step):
    new = E * np.float32(1.5)
    table = compare(Rows(E, step=old_step), Rows(new, step=new_step))
    assert table.aligned_by == "position"
    for name, reading in compare(E, new).readings.items():
        assert table[name].value == pytest.approx(reading.value, rel=1e-6)


def test_empty_blocks_are_passed_over():
    old, new = [E[:70], E[:0], E[70:]], [E[:0], E[:9], E[:0], E[9:]]
    assert compare(old, new)["row_displacement"].value == 0.0

    class Holes(Rows):
        def blocks(self, block_rows=None):
            for block in super().blocks(block_rows):
                yield block
                yield Block(E[:0], block.start)

    assert compare(Holes(E, step=50), Holes(E, step=60))["row_displacement"].value == 0.0


def test_different_dims():
    table = compare(E, E[:, :4])
    assert set(table.readings) == {"linear_cka", "linear_cka_debiased", "procrustes_distance", "neighbor_overlap"}
    assert table.notes[-1] == "The rows have 6 and 4 dimensions: what needs one length is left out."
    apart = compare(E, E[:, :4], align="none")
    assert (apart.readings, list(apart.changes)) == ({}, NORM)
    assert "distributions only" in fs.drift(E, E[:, :4], align="none", measures=NORM).to_text()


def test_rows_that_are_not_finite_are_left_out_on_both_sides():
    new = E.copy()
    new[3], new[7, 2] = np.nan, np.inf
    table = compare(E, new)
    clean = compare(np.delete(E, [3, 7], 0), np.delete(new, [3, 7], 0))
    assert table["linear_cka"].value == pytest.approx(clean["linear_cka"].value)
    assert table["row_displacement"].value == 0.0
    assert table.notes[-1] == "Rows with NaN or infinity, 0 in the old table and 2 in the new one, were left out."
    for align in ("position", "none"):
        lost = compare(E, np.full_like(E, np.nan), align=align)
        assert (lost.changes, {reading.value for reading in lost.readings.values()}) == ({}, {None})


@pytest.mark.parametrize("rows", [np.ones((20, 3)), np.zeros((20, 3)), E[:1], E[:3]])
def test_what_is_undefined_says_why(rows):
    report = fs.drift(rows, rows, measures=NORM)
    undefined = [reading for reading in only(report).readings.values() if reading.value is None]
    assert undefined
    assert all(reading.why for reading in undefined)
    assert "undefined" in report.to_text()
    report.to_json()


def test_squares_beyond_the_range_of_float64():
    wide = E.astype(np.float64)
    table = compare(wide, wide * 1e200)
    assert all(reading.value is not None or reading.why for reading in table.readings.values())
    json.loads(fs.drift(wide, wide * 1e200, measures=NORM).to_json())


def test_alignments():
    more = np.concatenate([E, E[:5]])
    assert compare(E, E).notes == ("Rows were aligned by position, since the tables have no ids.",)
    assert compare(Rows(E, IDS), E).notes == ("Rows were aligned by position, since only one table has ids.",)
    apart = compare(E, more)
    assert (apart.aligned_by, apart.n_common, apart.moved) == ("none", None, ())
    assert apart.notes[0].startswith("Rows were not aligned: the tables have no ids, and 120 and 125 rows.")
    assert set(apart.readings) == {"mean_shift", "frechet_distance", "spectrum_difference", "mmd", "classifier_drift"}
    assert compare(Rows(E, IDS), Rows(E, IDS), align="position").aligned_by == "position"
    assert compare(Rows(E, IDS), Rows(E, IDS), align="none").aligned_by == "none"
    assert compare(E, E, ids=IDS, align="id").aligned_by == "id"


@pytest.mark.parametrize(
    ("old", "new", "align", "said"),
    [
        (E, E, "ids", "align needs one of auto, id, position, none; got 'ids'"),
        (E, E, "id", "needs ids on both sides; got none. Name them with --ids"),
        (Rows(E, IDS), E, "id", "needs ids on both sides; got them in the old table only"),
        (E, Rows(E, IDS), "id", "needs ids on both sides; got them in the new table only"),
        (E, E[1:], "position", "as many rows on both sides; got 120 and 119"),
    ],
)
def test_errors_of_alignment(old, new, align, said):
    with pytest.raises(InputError, match=re.escape(said)):
        compare(old, new, align=align)


def test_no_common_id():
    with pytest.raises(NothingEvaluatedError, match=r"none in common \(120 and 120 ids, the first of them 0 and 500\)"):
        compare(Rows(E, IDS), Rows(E, IDS + 500))


def test_a_stream_is_refused():
    with pytest.raises(InputError, match="reads both tables more than once; got a stream for table"):
        compare(iter([E]), E)
    with pytest.raises(InputError, match="got a stream"):
        compare(E, iter([E]))


@pytest.mark.parametrize("ids", [None, IDS])
@pytest.mark.parametrize("after", [{"shrinks_to": 90}, {"grows_to": 130}])
def test_a_table_whose_number_of_rows_changes_between_readings(after, ids):
    with pytest.raises(InputError, match="rows to have as many rows at every reading"):
        compare(Rows(E, None), Rows(E, None, **after), align="position")
    if ids is not None:
        pairs = aligned.Aligned(Rows(E, ids), Rows(E[::-1], ids[::-1]), (ids, ids[::-1]), 120)
        pairs.new = Rows(np.resize(E, (next(iter(after.values())), 6)))
        with pytest.raises(InputError, match="as many rows at every reading"):
            list(pairs.blocks())


def test_a_new_table_too_large_to_be_reordered(monkeypatch):
    monkeypatch.setattr(aligned, "_REORDER_BYTES", 1000)
    with pytest.raises(InputError, match="in another order need the new table in memory"):
        compare(Rows(E, IDS), Rows(E[::-1], IDS[::-1]))
    assert compare(Rows(E, IDS), Rows(E, IDS)).n_common == 120


def test_a_planted_change_is_found_and_its_direction():
    new = np.random.default_rng(9).normal(size=(400, 8))
    new[:, 0] *= 4
    table = compare(np.random.default_rng(8).normal(size=(400, 8)), new, measures=None)
    found = {change.measure: change.difference for change in table.significant()}
    assert found["mean_norm"] > 0
    assert found["effective_rank"] < 0
    assert "numerical_rank" not in found
    assert table["mmd"].detail["p"] < 0.05
    assert table["mean_norm"].p < 1e-6


def test_false_alarms_over_thirty_pairs_of_one_distribution():
    alarms = 0
    for seed in range(30):
        draw = np.random.default_rng(seed)
        old, new = draw.normal(size=(250, 6)) + 0.2, draw.normal(size=(250, 6)) + 0.2
        alarms += bool(compare(old, new, measures=None, align="none", sample=30).significant())
    assert alarms <= 1


def test_significance_is_corrected_for_the_number_of_measures():
    table = compare(E, E)
    changes = {name: Change(name, 0.0, 1.0, 1.0, 1.0, p) for name, p in zip("abc", (0.003, 0.006, 0.004), strict=True)}
    some = TableDrift(table.old, table.new, "none", None, None, None, {}, changes)
    assert [change.measure for change in some.significant()] == ["a", "c", "b"]
    assert [change.measure for change in some.significant(0.005)] == []
    assert [change.measure for change in some.significant(0.0091)] == ["a", "c", "b"]


def test_measures_by_name():
    table = compare(E, E, measures="isotropy, mean_norm")
    assert list(table.changes) == ["isotropy", "mean_norm"]
    assert list(compare(E, E, measures=["mean_norm", "mean_norm"]).changes) == NORM
    with pytest.raises(InputError, match="at least one measure; got an empty list"):
        compare(E, E, measures=[])
    with pytest.raises(InputError, match="measures of one table to set side by side; got linear_cka"):
        compare(E, E, measures="linear_cka")
    with pytest.raises(UnknownNameError, match='No measure is named "isotropi"'):
        compare(E, E, measures="isotropi")


def test_the_same_seed_gives_the_same_report():
    reports = [fs.drift(E, E + 1, measures=NORM, sample=60, seed=seed).to_dict()["tables"] for seed in (3, 3, 4)]
    assert reports[0] == reports[1]
    assert reports[0] != reports[2]


def test_progress():
    told = []
    compare(E, E, progress=lambda *each: told.append(each))
    assert told[0] == ("table (old)", "reading", 120, 120)
    assert told[-1] == ("table", "comparing", 120, 120)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    from safetensors.numpy import save_file

    folder = tmp_path_factory.mktemp("drift")
    tables = {"a.embed.weight": E, "b.embed.weight": E[:, :4].copy(), "gone.embed.weight": E}
    save_file(tables, folder / "old.safetensors")
    other = {"b.embed.weight": E[:, :4] * 2, "a.embed.weight": E, "fresh.embed.weight": E}
    save_file({name: np.ascontiguousarray(rows) for name, rows in other.items()}, folder / "new.safetensors")
    save_file({"z.embed.weight": E, "y.embed.weight": E}, folder / "other.safetensors")
    return folder


def test_tables_are_matched_by_name(checkpoints):
    old, new = checkpoints / "old.safetensors", checkpoints / "new.safetensors"
    report = fs.drift(old, new, measures=NORM, sample=60)
    assert set(report.tables) == {"a.embed.weight", "b.embed.weight"}
    assert report["a.embed.weight"]["row_displacement"].value == 0.0
    assert report["b.embed.weight"]["mean_norm"].difference > 0
    assert report.provenance["only_old"] == ["gone.embed.weight"]
    assert report.provenance["only_new"] == ["fresh.embed.weight"]
    assert "1 table only in the old version: gone.embed.weight" in report.to_text()
    assert "only in the new version: fresh" in report.to_markdown()
    assert (len(report), report.to_dict()["tables"][0]["old"]["table"]) == (2, "a.embed.weight")
    with pytest.raises(UnknownNameError, match='No table is named "c.embed.weight" in this comparison'):
        report["c.embed.weight"]


def test_tables_are_chosen_by_glob_and_by_name(checkpoints):
    old, new = checkpoints / "old.safetensors", checkpoints / "new.safetensors"
    assert list(fs.drift(old, new, table="[ab].*", measures=NORM).tables) == ["a.embed.weight", "b.embed.weight"]
    assert list(fs.drift(old, new, table="b.embed.weight", measures=NORM).tables) == ["b.embed.weight"]
    two = fs.drift(old, new, table=["b.embed.weight", "a.*"], measures=NORM)
    assert list(two.tables) == ["b.embed.weight", "a.embed.weight"]
    with pytest.raises(UnknownNameError, match="gone.embed.weight"):
        fs.drift(old, new, table="gone.embed.weight")


def test_no_table_in_common(checkpoints):
    with pytest.raises(NothingEvaluatedError, match=r"same name on both sides; got a.* and [yz].*Choose one with --t"):
        fs.drift(checkpoints / "old.safetensors", checkpoints / "other.safetensors")


def test_json():
    report = fs.drift(Rows(E, IDS), Rows(E[SHUFFLED] * 1.1, IDS[SHUFFLED]), measures=NORM, sample=60)
    plain = json.loads(report.to_json())
    assert plain["schema"].startswith("fullspan-drift/")
    [table] = plain["tables"]
    assert all(isinstance(row["id"], int) and isinstance(row["cosine"], float) for row in table["moved"])
    assert table["changes"]["mean_norm"]["new"] > table["changes"]["mean_norm"]["old"]
    assert table["readings"]["mmd"]["detail"]["p"] == only(report)["mmd"].detail["p"]
    moved = ({"position": np.int64(3), "id": np.str_("x"), "cosine": np.float32(0.5)},)
    some = TableDrift(only(report).old, only(report).new, "id", 1, 0, 0, moved=moved)
    told = json.loads(fs.DriftReport({"rows": some}).to_json())["tables"][0]["moved"]
    assert told == [{"position": 3, "id": "x", "cosine": 0.5}]


def test_text_fits_the_width_and_has_no_stray_blank_lines():
    report = fs.drift(E, np.random.default_rng(1).normal(size=(120, 6)) * 1e5)
    text = report.to_text()
    assert max(map(len, text.splitlines())) <= 80
    assert "\n\n\n" not in text
    assert text == text.rstrip() + "\n"
    assert "…" not in text
    assert "measures changed by more than chance (Holm-corrected, 1%): " in text
    assert "turned furthest: " in text
    narrow = report.to_text(width=60, ascii_only=True)
    assert max(map(len, narrow.splitlines())) <= 60
    assert narrow.isascii()
    assert "120 x 6 -> 120 x 6" in narrow
    assert re.search(r"^ mean_norm +[\d.]+ +\S+ +\+\S+$", narrow, re.M)
    assert "\x1b[" in report.to_text(color=True)
    assert "turned furthest" not in fs.drift(E, E, measures=NORM).to_text()


def test_markdown():
    report = fs.drift(Rows(E, IDS, name="a|b_*c*"), Rows(E, IDS, name="a|b_*c*"), measures=NORM, sample=60)
    lines = report.to_markdown().splitlines()
    assert lines[0].startswith("## a\\|b\\_\\*c\\*: 120 × 6 → 120 × 6")
    tables = [line for line in lines if line.startswith("|")]
    assert "| mean_norm |" in tables[-1]
    assert {line.count("|") for line in tables[:3]} == {5}
    assert "\n\n\n" not in report.to_markdown()


def test_names_that_are_not_there():
    report = fs.drift(E, E, measures=NORM, sample=60)
    assert repr(report) == "DriftReport(table: 120 x 6 -> 120 x 6, 0 of 1 measures changed)"
    with pytest.raises(UnknownNameError, match='No reading is named "mean_nrom".*mean_norm'):
        report["mean_nrom"]
