"""Maps over training time: the same rows in every frame, drawn from the last frame back, and what is said of them."""

from __future__ import annotations

import logging
import sys
import warnings

import numpy as np
import pytest

from fullspan.errors import InputError, MissingExtraError, UnknownNameError
from fullspan.measures.projection import map_displacement, pca_map
from fullspan.monitor import layouts
from fullspan.monitor.projections import project
from fullspan.monitor.watcher import watch
from fullspan.store.records import Moment
from fullspan.store.runs import Run, RunWriter

LABELS = np.random.default_rng(1).integers(0, 4, 200)


def trained(frames=4, n=200, dim=6, seed=0):
    """A table in which four labels move apart."""
    random = np.random.default_rng(seed)
    noise, away = random.normal(size=(n, dim)), 6 * random.normal(size=(4, dim))
    return [noise + share * away[LABELS[:n]] for share in np.linspace(0, 1, frames)]


def written(path, frames, row_ids=None, table="item", **more):
    with RunWriter.open(path) as writer:
        writer.table(table, n_rows=1000, dim=frames[0].shape[1], dtype="float32")
        for each, vectors in enumerate(frames):
            ids = np.arange(len(vectors)) if row_ids is None else row_ids[each]
            writer.add_snapshot(table, Moment(10 * each, epoch=float(each)), ids, vectors, **more)
    return path


@pytest.mark.parametrize("method", ["pca", "pca-shared"])
def test_a_run_is_drawn_from_its_snapshots(tmp_path, method):
    frames = trained()
    maps = project(written(tmp_path / "run", frames, labels=LABELS), "item", method)
    assert (maps.table, maps.method, maps.positions.shape, maps.positions.dtype) == ("item", method, (4, 200, 2), "f4")
    assert maps.steps.tolist() == [0, 10, 20, 30]
    assert maps.epochs.tolist() == [0, 1, 2, 3]
    assert maps.row_ids.tolist() == list(range(200))
    assert maps.colors["label"].tolist() == LABELS.tolist()
    assert maps.colors["norm"] == pytest.approx(np.linalg.norm(frames[-1], axis=1))
    assert maps.positions[-1] == pytest.approx(pca_map(frames[-1]), abs=1e-5)


def test_the_only_table_needs_no_name_and_a_run_may_be_open(tmp_path):
    with Run.open(written(tmp_path / "run", trained())) as run:
        assert project(run).table == "item"


def test_each_frame_lies_on_the_one_after_it():
    """A table that only turns and mirrors itself does not move on the map."""
    random = np.random.default_rng(3)
    E = random.normal(size=(100, 2)) * [3, 1]
    frames = [E @ np.linalg.qr(random.normal(size=(2, 2)))[0] + shift for shift in range(6)]
    maps = project(frames=frames)
    assert maps.displacement == pytest.approx(np.zeros(6), abs=1e-5)
    assert maps.preservation == pytest.approx(np.ones(6), abs=1e-3)


def test_a_shared_basis_shows_shifts_and_growth():
    E = np.random.default_rng(3).normal(size=(100, 2)) * [3, 1]
    maps = project(frames=[E * 0.1 + 4, E], method="pca-shared")
    assert maps.positions[0].std(axis=0) == pytest.approx(0.1 * maps.positions[1].std(axis=0), rel=1e-4)
    assert np.linalg.norm(maps.positions[0].mean(axis=0)) > 3
    assert maps.displacement[1] > 1


def test_displacement_and_preservation_of_every_frame():
    frames = trained()
    maps = project(frames=frames)
    assert maps.displacement[0] == 0
    for frame in (1, 2, 3):
        expected = map_displacement(maps.positions[frame - 1], maps.positions[frame])
        assert maps.displacement[frame] == expected > 0
    assert ((maps.preservation > 10 / 199) & (maps.preservation < 1)).all()
    assert any("5% by chance" in note for note in maps.notes)


def test_rows_are_matched_by_id_and_those_missing_somewhere_are_counted(tmp_path):
    frames, random = trained(3), np.random.default_rng(5)
    ids = [random.permutation(200) for _ in frames]
    kept = [each[:190] if frame == 1 else each for frame, each in enumerate(ids)]
    rows = [vectors[each] for vectors, each in zip(frames, kept, strict=True)]
    path = written(tmp_path / "run", rows, kept)
    maps = project(path)
    shared = np.sort(kept[1])
    assert maps.row_ids.tolist() == shared.tolist()
    assert maps.positions[-1] == pytest.approx(pca_map(frames[-1][shared]), abs=1e-5)
    assert "10 rows left out that are missing from some frames." in maps.notes


def test_rows_that_are_not_finite_somewhere_are_counted():
    frames = trained(3)
    frames[0][5, 2], frames[2][7, 0] = np.nan, np.inf
    maps = project(frames=frames)
    assert len(maps.row_ids) == 198
    assert not {5, 7} & set(maps.row_ids.tolist())
    assert np.isfinite(maps.positions).all()
    assert "2 rows left out that hold NaN or infinity in some frames." in maps.notes


def test_too_many_frames_are_thinned_evenly():
    maps = project(frames=trained(31), max_frames=4)
    assert maps.steps.tolist() == [0, 10, 20, 30]
    assert "4 of 31 frames, evenly spaced." in maps.notes
    assert len(project(frames=trained(31), max_frames=None).steps) == 31
    assert project(frames=trained(31), max_frames=1).steps.tolist() == [30]


def test_half_of_the_rows_are_the_most_frequent():
    counts = np.random.default_rng(2).permutation(200)
    maps = project(frames=trained(), rows=50, frequencies=counts, seed=4)
    top = set(np.argsort(-counts)[:25].tolist())
    assert top < set(maps.row_ids.tolist())
    assert len(maps.row_ids) == 50
    assert (np.diff(maps.row_ids) > 0).all()
    assert maps.colors["frequency_decile"].tolist() == (1 + 10 * counts[maps.row_ids] // 200).tolist()
    again = project(frames=trained(), rows=50, frequencies=counts, seed=4)
    other = project(frames=trained(), rows=50, frequencies=counts, seed=5)
    assert again.row_ids.tolist() == maps.row_ids.tolist() != other.row_ids.tolist()
    assert any("50 of 200 rows: the 25 most frequent" in note for note in maps.notes)


def test_frequencies_may_come_from_the_run(tmp_path):
    frames = trained(2)
    with RunWriter.open(tmp_path / "run") as writer:
        writer.table("item", n_rows=200, dim=6, dtype="float32")
        for step, vectors in enumerate(frames):
            writer.add_snapshot("item", Moment(step), np.arange(200)[::-1], vectors)
        writer.add_vector("item", "frequencies", Moment(0), np.arange(200.0)[::-1])
    maps = project(tmp_path / "run", rows=20)
    assert set(range(190, 200)) < set(maps.row_ids.tolist())
    assert maps.colors["frequency_decile"].max() == 10


def test_a_watched_run_holds_the_frequencies_it_was_told(tmp_path):
    counts, E = np.random.default_rng(1).permutation(500), trained(1, 200)[0]
    E = np.vstack([E, E, E[:100]])
    with watch(
        {"item": E}, tmp_path / "run", every=None, full="epoch", frequencies=counts, sample=100, rules=False
    ) as to:
        to.begin()
        E *= 2
        to.step()
        to.epoch()
    maps = project(tmp_path / "run", rows=20)
    assert set(np.argsort(-counts)[:10].tolist()) < set(maps.row_ids.tolist())
    assert maps.colors["frequency_decile"].max() == 10
    assert "Tenths of frequency are among the rows of the snapshots, not of the table." in maps.notes


def test_the_same_seed_gives_the_same_digits():
    first, again = (project(frames=trained(), rows=80, seed=9) for _ in range(2))
    assert first.positions.tobytes() == again.positions.tobytes()
    assert first.preservation.tolist() == again.preservation.tolist()


def test_a_frame_of_equal_rows_is_one_point():
    frames = [np.zeros((200, 6)), *trained(2)]
    maps = project(frames=frames)
    assert np.ptp(maps.positions[0], axis=0).tolist() == [0, 0]
    assert np.isnan(maps.preservation[0])
    assert np.isfinite(maps.preservation[1:]).all()
    assert np.isfinite(maps.displacement).all()
    collapsed = project(frames=[*trained(2), np.ones((200, 6)), np.ones((200, 6))])
    assert np.isfinite(collapsed.positions).all()
    assert collapsed.displacement[1:] == pytest.approx([collapsed.displacement[1], 1, 0], abs=0.5)


def test_tables_of_one_dimension_and_of_two_rows():
    assert project(frames=[[[0.0], [1.0]], [[0.0], [2.0]]]).positions[1, :, 1].tolist() == [0, 0]
    assert project(frames=[np.eye(2)]).positions.shape == (1, 2, 2)


def test_half_precision_is_read():
    frames = trained()
    halves = project(frames=[each.astype(np.float16) for each in frames])
    assert halves.positions == pytest.approx(project(frames=frames).positions, abs=0.02)


def test_progress_is_told_frame_by_frame():
    told = []
    project(frames=trained(), progress=lambda *each: told.append(each))
    assert told == [("", "map by pca", done, 4) for done in (1, 2, 3, 4)]


# -- layouts by other packages


@pytest.fixture
def recorded(monkeypatch):
    """A layout that records what it is asked and answers with the first two columns, turned by its turn."""
    asked = []

    def layout(vectors, start, seed):
        asked.append((vectors, start, seed))
        return vectors[:, 1::-1] * [1, -1]

    monkeypatch.setitem(layouts.LAYOUTS, "pacmap", lambda: (layout, "Recorder 1.0"))
    return asked


def test_the_last_frame_is_drawn_first_and_each_other_starts_from_the_one_after_it(recorded):
    frames = trained(3)
    maps = project(frames=frames, method="pacmap", seed=6)
    for (vectors, _, _), frame in zip(recorded, frames[::-1], strict=True):
        centered = frame - frame.mean(axis=0)
        assert vectors == pytest.approx(centered / np.sqrt(np.vecdot(centered, centered).mean()))
    starts = [start for _, start, _ in recorded]
    assert starts[0] is None
    assert starts[1] == pytest.approx(maps.positions[2], abs=1e-5)
    assert starts[2] == pytest.approx(maps.positions[1], abs=1e-5)
    assert {seed for _, _, seed in recorded} == {6}
    assert any("Recorder 1.0, seed 6: the last frame drawn first" in note for note in maps.notes)


def test_layouts_are_turned_too(recorded):
    frames = trained(2)
    maps = project(frames=[frames[1] * [1, -1, 1, 1, 1, 1], frames[1]], method="pacmap")
    assert maps.displacement[1] == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("factor", [1e-200, 1e20])
def test_layouts_see_tables_of_any_scale_as_the_same(recorded, factor):
    frames = trained(2)
    project(frames=[*frames, *(factor * (each + 3) for each in frames)], method="pacmap")
    assert recorded[0][0] == pytest.approx(recorded[2][0])
    assert recorded[1][0] == pytest.approx(recorded[3][0])


def test_a_layout_that_only_grows_does_not_move(monkeypatch):
    sizes = iter([1.0, 5.0, 0.2])
    monkeypatch.setitem(layouts.LAYOUTS, "umap", lambda: (lambda E, start, seed: E[:, :2] * next(sizes), "Grower 1"))
    maps = project(frames=[trained(1)[0]] * 3, method="umap")
    assert maps.displacement == pytest.approx(np.zeros(3), abs=1e-5)


def test_a_layout_of_one_point_has_no_size_to_match(monkeypatch):
    drawn = iter([1.0, 0.0, 1.0])
    monkeypatch.setitem(layouts.LAYOUTS, "umap", lambda: (lambda E, start, seed: E[:, :2] * next(drawn), "Point 1"))
    maps = project(frames=trained(3), method="umap")
    assert np.isfinite(maps.positions).all()
    assert np.isnan(maps.preservation).tolist() == [False, True, False]


def test_layouts_see_no_frame_of_equal_rows(recorded):
    project(frames=[np.zeros((200, 6)), *trained(2), np.ones((200, 6))], method="pacmap")
    assert [start is None for _, start, _ in recorded] == [True, False]


def test_layouts_need_some_rows(recorded):
    with pytest.raises(InputError, match=r'project\(method="pacmap"\) needs at least 50 rows; got 49. Draw so few'):
        project(frames=[each[:49] for each in trained()], method="pacmap")


@pytest.mark.parametrize(
    ("method", "package", "extra"),
    [("pacmap", "pacmap", "maps"), ("tsne", "openTSNE", "tsne"), ("umap", "umap", "umap")],
)
def test_a_missing_package_is_named_with_its_extra(monkeypatch, method, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    message = rf'project\(method="{method}"\) needs the extra \'{extra}\' .* pip install "fullspan\[{extra}\]"'
    with pytest.raises(MissingExtraError, match=message):
        project(frames=trained(), method=method)


def test_nothing_leaks_out_of_a_layout(monkeypatch, caplog, capsys):
    def layout(vectors, start, seed):
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        logging.getLogger("pacmap.pacmap").warning("random state is set")
        np.random.seed(0)  # noqa: NPY002
        return vectors[:, :2]

    monkeypatch.setitem(layouts.LAYOUTS, "pacmap", lambda: (layout, "Loud 1.0"))
    np.random.seed(99)  # noqa: NPY002
    expected = np.random.random()  # noqa: NPY002
    np.random.seed(99)  # noqa: NPY002
    project(frames=trained(), method="pacmap")
    assert np.random.random() == expected  # noqa: NPY002
    assert not caplog.records
    assert capsys.readouterr() == ("", "")
    assert logging.getLogger("pacmap.pacmap").level == logging.NOTSET


@pytest.mark.slow
@pytest.mark.parametrize("method", ["pacmap", "tsne", "umap"])
def test_real_layouts_are_quiet_repeatable_and_part_the_labels(method, caplog, capsys):
    frames = trained(2)
    first, again = (project(frames=frames, method=method, labels=LABELS, seed=3) for _ in range(2))
    assert first.positions.tobytes() == again.positions.tobytes()
    assert not caplog.records
    assert capsys.readouterr() == ("", "")
    assert np.isfinite(first.positions).all()
    from fullspan.measures.separability import neighbor_purity

    assert neighbor_purity(first.positions[-1], LABELS, metric="euclidean") > 0.95
    assert first.preservation.min() > 3 * 10 / 199
    assert 0 < first.displacement[1] < 1.2


@pytest.mark.slow
def test_pacmap_leaves_the_threads_of_faiss_alone():
    faiss = pytest.importorskip("faiss")
    before = faiss.omp_get_max_threads()
    try:
        faiss.omp_set_num_threads(2)
        project(frames=trained(1), method="pacmap")
        assert faiss.omp_get_max_threads() == 2
    finally:
        faiss.omp_set_num_threads(before)


# -- wrong calls


def test_wrong_calls(tmp_path):
    frames = trained()
    with pytest.raises(InputError, match="project needs a run or frames=, one of the two; got neither"):
        project()
    with pytest.raises(InputError, match="project needs a run or frames=, one of the two; got both"):
        project(tmp_path, frames=frames)
    with pytest.raises(InputError, match='project needs method to be one of "pca", .*; got "mds"'):
        project(frames=frames, method="mds")
    with pytest.raises(InputError, match=r"project needs values up to 1e\+30; got .*e\+40. Has the training diverged"):
        project(frames=[1e40 * frames[0]])
    with pytest.raises(InputError, match="project needs rows ≥ 2; got 1"):
        project(frames=frames, rows=1)
    with pytest.raises(InputError, match="project needs max_frames ≥ 1; got 0"):
        project(frames=frames, max_frames=0)
    with pytest.raises(InputError, match="project needs at least one frame; got none"):
        project(frames=[])
    with pytest.raises(InputError, match=r"project needs frames of one shape \(rows, dim\); got .*\(199, 6\)"):
        project(frames=[frames[0], frames[1][1:]])
    with pytest.raises(InputError, match=r"needs one step a frame, increasing; got \[0, 2, 1, 3\] for 4 frames"):
        project(frames=frames, steps=[0, 2, 1, 3])
    with pytest.raises(InputError, match="needs one id a row, each once; got 1 for 200 rows"):
        project(frames=frames, row_ids=np.zeros(200))
    with pytest.raises(InputError, match="needs labels for each row of the table, .* got 150 and a row 199"):
        project(frames=frames, labels=LABELS[:150])
    with pytest.raises(
        InputError, match="needs frequencies for each row of the table, .* got 150 and a row named 'r0'"
    ):
        project(frames=frames, frequencies=np.ones(150), row_ids=[f"r{each}" for each in range(200)])
    with pytest.raises(InputError, match=r"needs labels as a 1-D array; got shape \(200, 2\)"):
        project(frames=frames, labels=np.ones((200, 2)))
    with pytest.raises(InputError, match="needs at least two finite rows that all frames share; got 1"):
        project(frames=[[[1.0, 2.0]]])


def test_a_frame_of_nan_is_left_out_and_named():
    frames = trained(4)
    frames[2][1:] = np.nan
    maps = project(frames=frames, steps=[0, 10, 20, 30])
    assert maps.steps.tolist() == [0, 10, 30]
    assert len(maps.row_ids) == 200
    assert "One frame left out, with NaN or infinity in every row or all but one: step 20." in maps.notes


def test_wrong_runs(tmp_path):
    path = written(tmp_path / "run", trained())
    with pytest.raises(UnknownNameError, match='project needs a table of the run; got "items". Did you mean "item"?'):
        project(path, "items")
    with RunWriter.open(tmp_path / "empty") as writer:
        writer.table("item", n_rows=10, dim=4, dtype="float32")
        writer.table("user", n_rows=10, dim=4, dtype="float32")
    with pytest.raises(InputError, match="needs table= to name one of the tables of the run; .*'item', 'user'"):
        project(tmp_path / "empty")
    with pytest.raises(InputError, match="needs a table with snapshots; got none of 'user'"):
        project(tmp_path / "empty", "user")
    narrow = [trained()[0], trained(dim=5)[0]]
    with pytest.raises(InputError, match=r"needs snapshots of one dim; got \[5, 6\] of 'item'"):
        project(written(tmp_path / "narrow", narrow))
    ids = [np.zeros(200, dtype=int)] * 2
    with pytest.raises(InputError, match="needs snapshots with each row once; got 200 rows with repeated ids"):
        project(written(tmp_path / "same", trained(2), ids))
    with pytest.raises(InputError, match="needs at least two finite rows that all frames share; got 0"):
        project(written(tmp_path / "apart", trained(2), [np.arange(200), np.arange(200, 400)]))
