"""What is recorded, when, and under which counts."""

from __future__ import annotations

import itertools
import logging

import numpy as np
import pytest

import fullspan as fs
from fullspan.errors import InputError, UnknownNameError
from fullspan.monitor.recorder import Recorder
from fullspan.store.runs import Run
from tests.unit.monitor.watching import Slow, read, steps, table

FEW = ["gini_index", "effective_rank", "isotropy"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def slow(monkeypatch):
    return Slow(monkeypatch)


def test_a_whole_watch_of_arrays_loads_no_torch(python, tmp_path):
    code = (
        "import sys, numpy as np, fullspan as fs, fullspan.monitor.watcher\n"
        "assert not {'torch', 'pyarrow'} & set(sys.modules)\n"
        f"with fs.watch({{'E': np.eye(8)}}, {str(tmp_path / 'run')!r}, every=1, full='epoch') as watcher:\n"
        "    watcher.step(); watcher.epoch()\n"
        "print([name for name in ('torch', 'pandas', 'matplotlib', 'sklearn', 'scipy') if name in sys.modules])"
    )
    assert python(code).strip() == "[]"


def test_readings_are_those_of_measure(path):
    E = table()
    with fs.watch({"E": E}, path, every=2, full="epoch", sample=64) as watcher:
        rows = np.random.default_rng(0)
        for _ in range(4):
            E += rows.normal(size=E.shape).astype(np.float32) * 0.1
            watcher.step()
        pulsed = E.copy()
        E *= np.linspace(0.5, 2, 4, dtype=np.float32)
        watcher.step()
        watcher.epoch()
    run = Run.open(path)
    from fullspan.monitor.sample import sample_rows

    sampled = pulsed[sample_rows(200, 64)]
    for measure in fs.CATALOG.keys() & {point.measure for point in run.points("E")}:
        points = {point.at.step: point for point in run.points("E", measure)}
        assert points[5].value == pytest.approx(read(E, measure), abs=1e-6)
        assert points[5].n_rows == 200
        if measure != "isotropy":
            assert points[4].value == pytest.approx(read(sampled, measure), abs=1e-6)
            assert points[4].n_rows == 64
    assert [point.at.step for point in run.points("E", "isotropy")] == [5]
    [(at, values)] = run.vectors("E", "singular_values")
    assert at.step == 5
    assert values == pytest.approx(np.linalg.svd(E, compute_uv=False), rel=1e-5)


def test_every_point_bears_step_epoch_samples_and_time(path):
    E = table()
    with fs.watch({"E": E}, path, every=1, measures=FEW) as watcher:
        watcher.begin()
        for _ in range(2):
            for _ in range(3):
                watcher.step(loss=1.0, samples=32)
            watcher.epoch(test_loss=2.0)
    run = Run.open(path)
    points = run.points("E", "gini_index")
    assert [point.at.step for point in points] == [0, 1, 2, 3, 4, 5, 6]
    assert [point.at.samples for point in points] == [None, 32, 64, 96, 128, 160, 192]
    assert [point.at.epoch for point in points] == pytest.approx([0, None, None, 1, 4 / 3, 5 / 3, 2])
    assert all(a.at.wall <= b.at.wall for a, b in itertools.pairwise(points))
    assert points[0].at.wall > 1.6e9
    assert run.curve("", "loss").step.tolist() == [1, 2, 3, 4, 5, 6]
    assert [point.at.epoch for point in run.points("", "test_loss")] == [1.0, 2.0]
    assert run.status == "finished"
    assert run.tables["E"].n_rows == 200
    assert run.measures()["effective_rank"].better == "higher"


def test_several_steps_at_once_and_the_count_of_the_caller(path):
    E = table()
    with fs.watch({"E": E}, path, every=10, measures=FEW) as watcher:
        for n in (7, 7, 7, 1):
            watcher.step(n)
        assert watcher.steps == 22
        watcher.observe(100, epoch=2.5)
        watcher.observe()
    assert steps(path) == [7, 14, 21, 22, 100] or steps(path) == [7, 14, 21, 100]
    assert [point.at.epoch for point in Run.open(path).points("E", "gini_index")][-1] == 2.5


def test_observing_whole_tables_without_a_loop(path):
    E = table()
    watcher = fs.watch({"E": lambda: E}, path, measures=FEW)
    for step in (0, 500, 1000):
        watcher.observe(step, full=True)
        E = E * 0.5
    watcher.close()
    run = Run.open(path)
    assert steps(path, "isotropy") == [0, 500, 1000]
    assert len(run.snapshots("E")) == 3
    assert [moment.step for moment, _ in run.vectors("E", "map:pca")] == [0, 500, 1000]


def test_ends_of_epochs_only(path):
    E = table()
    with fs.watch({"E": E}, path, every=None, full="epoch", measures=FEW) as watcher:
        for _ in range(3):
            for _ in range(5):
                watcher.step()
            watcher.epoch()
    assert steps(path, "isotropy") == [5, 10, 15]
    assert steps(path) == [1, 5, 10, 15]


def test_the_first_rows_are_copied_and_measured_when_the_budget_allows(path, slow):
    E = table()
    watcher = fs.watch({"E": E}, path, measures=FEW).begin()
    before = read(E, "effective_rank")
    E[:, 0] *= 30
    slow.train(watcher, 10, 0.1)
    assert slow.pulses == 0
    slow.train(watcher, 700, 0.1)
    assert slow.pulses >= 1
    watcher.close()
    first = Run.open(path).points("E", "effective_rank")[0]
    assert first.at.step == 0
    assert first.value == pytest.approx(before, rel=1e-6)


def test_a_run_within_its_budget(path, slow):
    E = table()
    watcher = fs.watch({"E": E}, path, measures=FEW)
    worst = []
    for _ in range(20):
        for _ in range(20):
            slow.train(watcher, 10, 0.1)
            worst.append(watcher.overhead)
        watcher.epoch()
        worst.append(watcher.overhead)
    assert max(worst) <= 0.01
    fulls = slow.fulls
    watcher.close()
    # 400 s of training allow 4 s: three full passes of a second, the pulses between them, and no more.
    assert 2 <= fulls <= 3
    assert slow.pulses > 50
    told = Run.open(path).curve("", "monitor_overhead")
    assert (told.value <= 0.01).all()
    assert told.value[-1] > 0.005


def test_full_passes_at_all_ends_of_epochs_when_asked(path, slow):
    E = table()
    watcher = fs.watch({"E": E}, path, measures=FEW, full="epoch")
    for _ in range(5):
        slow.train(watcher, 50)
        watcher.epoch()
    assert slow.fulls == 5
    assert watcher.overhead > 0.5
    watcher.close()
    assert steps(path, "isotropy") == [50, 100, 150, 200, 250]
    last = Run.open(path).events()[-1]
    assert "Its budget was 1.00%. Starting, and reading" in last.message


def test_never_means_no_full_pass(path, slow):
    E = table()
    watcher = fs.watch({"E": E}, path, measures=FEW, full="never")
    slow.train(watcher, 500, 1.0)
    watcher.epoch()
    watcher.close()
    assert slow.fulls == 0


def test_without_epochs_full_passes_come_when_affordable(path, slow):
    E = table()
    watcher = fs.watch({"E": E}, path, measures=FEW)
    slow.train(watcher, 1500, 0.2)
    assert 1 <= slow.fulls <= 3
    assert watcher.overhead <= 0.01
    watcher.close()


def test_a_short_run_reads_its_first_and_last_weights(path):
    E = table()
    with fs.watch({"E": E}, path, measures=FEW) as watcher:
        watcher.begin()
        for _ in range(7):
            watcher.step()
    assert steps(path) == [0, 7]


def test_scalars_of_one_step_are_averaged_and_odd_ones_told_once(path, caplog):
    E = table()
    with fs.watch({"E": E}, path, every=100, measures=FEW) as watcher:
        watcher.step(loss=1.0, lr=0.1)
        watcher.log(loss=2.0)
        watcher.log(5, note=3)
        with caplog.at_level(logging.WARNING, "fullspan.monitor"):
            for value in (float("nan"), float("nan"), 1.0, float("inf")):
                watcher.step(loss=value)
    run = Run.open(path)
    loss = run.points("", "loss")
    assert [(point.at.step, point.value) for point in loss] == [(1, 1.5), (2, None), (3, None), (4, 1.0), (5, None)]
    assert loss[1].why == "loss is nan at step 2"
    assert [point.at.step for point in run.points("", "note")] == [5]
    assert [record.message for record in caplog.records] == ["loss is nan at step 2", "loss is inf at step 5"]
    assert [event.message for event in run.events() if event.level == "warn"] == [
        "loss is nan at step 2",
        "loss is inf at step 5",
    ]


def test_losses_of_very_short_steps_are_averaged(path, slow, monkeypatch):
    def add(self, points):
        points = list(points)
        slow.hands.pass_(1e-5 * len(points))
        real(self, points)

    real = Recorder.add
    monkeypatch.setattr(Recorder, "add", add)
    E = table()
    watcher = fs.watch({"E": E}, path, measures=FEW)
    for number in range(15_000):
        slow.hands.pass_(0.001)
        watcher.step(loss=float(number))
    watcher.close()
    points = [point for point in Run.open(path).points("", "loss") if point.at.step > 10_000]
    assert 900 < len(points) < 1_300  # 10 microseconds a point, 2.5 a step: four steps a point
    some = points[len(points) // 2]
    assert some.value == pytest.approx(some.at.step - 1 - 1.5, abs=1)


def test_sinks_get_each_moment(path):
    got, closed = [], []

    class Sink:
        def __call__(self, values, at):
            got.append((at.step, values))

        def close(self):
            closed.append(True)

    E = table()
    with fs.watch({"E": E}, path, every=2, measures=["gini_index"], sinks=[Sink()]) as watcher:
        for step in range(1, 5):
            watcher.step(loss=step)
    assert closed == [True]
    losses = {step: values["loss"] for step, values in got if "loss" in values}
    assert losses == {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0}
    ginis = {step: values["E/gini_index"] for step, values in got if "E/gini_index" in values}
    assert ginis == {point.at.step: point.value for point in Run.open(path).points("E", "gini_index")}


def test_names_of_measures_and_what_they_need(path):
    E = table(80)
    with fs.watch({"E": E}, path, every=1, measures="ia, iso, hubness", full="epoch") as watcher:
        watcher.step()
        watcher.epoch()
    run = Run.open(path)
    assert {point.measure for point in run.points("E")} == {"information_abundance", "isotropy", "hubness_skew"}


def test_frequencies_bring_their_measure(path):
    E = table()
    counts = np.arange(200)
    with fs.watch({"E": E}, path, every=1, frequencies=counts, sample=50, full="epoch") as watcher:
        watcher.step()
        watcher.epoch()
    run = Run.open(path)
    full = run.points("E", "length_frequency_correlation")[-1]
    assert full.value == pytest.approx(read(E, "length_frequency_correlation", frequencies=counts), abs=1e-6)
    ids = run.snapshots("E")[-1].read()[0]
    assert set(range(175, 200)) <= set(ids.tolist())  # the most frequent half of the 50


def test_snapshots_keep_rows_and_labels(path):
    E = table()
    labels = np.array(["a", "b"] * 100)
    with fs.watch({"E": E}, path, every=None, sample=50, labels=labels, full="epoch", measures=FEW) as watcher:
        for _ in range(36):
            E += 0.1
            watcher.step()
            watcher.epoch()
    run = Run.open(path)
    kept = run.snapshots("E")
    ids, vectors, names = kept[-1].read()
    assert np.array_equal(vectors, E[ids])
    assert np.array_equal(names, labels[ids])
    assert [each.at.step for each in kept] == [*range(1, 33), 34, 36]


def test_snapshots_can_be_left_out(path):
    E = table()
    with fs.watch({"E": E}, path, snapshots=False, full="epoch", measures=FEW) as watcher:
        watcher.step()
        watcher.epoch()
    assert Run.open(path).snapshots("E") == []


def test_maps_do_not_turn_between_frames(path):
    E = table(300, 6)
    with fs.watch({"E": E}, path, every=None, full="epoch", measures=FEW) as watcher:
        for turn in range(6):
            E[:, [0, 1]] = E[:, [1, 0]] * (1, -1)  # a quarter turn
            E[:, turn % 6] *= 1.02
            watcher.step()
            watcher.epoch()
    frames = [positions for _, positions in Run.open(path).vectors("E", "map:pca")]
    assert frames[0].shape == (300, 2)
    for before, after in itertools.pairwise(frames[1:]):
        assert fs.map_displacement(after, before) < 0.5


def test_a_config_is_kept_with_the_settings(path):
    with fs.watch({"E": table()}, path, config={"lr": 0.1}, every=5) as watcher:
        watcher.step()
    config = Run.open(path).config
    assert config["lr"] == 0.1
    assert config["watch"]["every"] == 5


def test_training_is_bit_for_bit_the_same(path):
    def trained(watched):
        rng = np.random.default_rng(0)
        np.random.seed(0)  # noqa: NPY002
        E = table()
        watcher = fs.watch({"E": E}, path, every=1, full="epoch") if watched else None
        for _ in range(3):
            E += rng.normal(size=E.shape).astype(np.float32) * np.random.rand()  # noqa: NPY002
            if watcher is not None:
                watcher.step()
                watcher.epoch()
        if watcher is not None:
            watcher.close()
        return E

    assert np.array_equal(trained(True), trained(False))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"full": "always"}, InputError, r'watch needs full="auto", "epoch" or "never"; got \'always\'.'),
        ({"measures": []}, InputError, r"watch needs at least one measure; got an empty list."),
        ({"measures": ["linear_cka"]}, InputError, r"watch needs measures of one table; got linear_cka"),
        ({"measures": ["ginny_index"]}, UnknownNameError, r'No measure is named "ginny_index". Did you mean'),
        ({"sample": 1}, InputError, r"watch needs a sample of 2 rows or more; got 1."),
        (
            {"stop_on": "dimensional-colapse"},
            UnknownNameError,
            r'or the name of a rule; got "dimensional-colapse". Did',
        ),
        ({"stop_on": [3]}, InputError, r"watch needs stop_on to name severities or rules; got 3."),
        ({"stop_on": "fail", "rules": False}, InputError, r"watch needs rules for stop_on to name; got rules=False."),
        ({"rank": -1}, InputError, r"watch needs a rank of 0 or more, or None; got -1."),
        ({"frequencies": {"F": [1]}}, InputError, r"watch needs frequencies of a table that is watched; got 'F'."),
    ],
)
def test_arguments_are_checked_before_training(path, change, error, message):
    with pytest.raises(error, match=message):
        fs.watch({"E": table()}, path, **change)
    assert not path.exists()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda watcher: watcher.step(0), r"watcher.step needs a whole number of steps, 1 or more; got 0."),
        (lambda watcher: watcher.step(1.5), r"watcher.step needs a whole number of steps, 1 or more; got 1.5."),
        (lambda watcher: watcher.observe(-1), r"watcher.observe needs a whole number of steps, 0 or more; got -1."),
        (lambda watcher: watcher.log("5"), r"watcher.log needs a whole number of steps, 0 or more; got '5'."),
        (lambda watcher: watcher.epoch(-1), r"watcher needs an epoch of 0 or more; got -1."),
        (lambda watcher: watcher.step(loss="high"), r"watcher.step needs loss to be one number; got str."),
        (lambda watcher: watcher.step(loss=[1, 2]), r"watcher.step needs loss to be one number; got list."),
    ],
)
def test_wrong_calls_are_recorded_and_raise_only_when_strict(tmp_path, call, message):
    with fs.watch({"E": table()}, tmp_path / "a", measures=FEW) as watcher:
        call(watcher)
        [event] = watcher.errors
    assert event.level == "error"
    with pytest.raises(InputError, match=message) as raised:
        call(fs.watch({"E": table()}, tmp_path / "b", measures=FEW, strict=True))
    assert str(raised.value) in event.message


def test_the_end_is_said_once(path):
    watcher = fs.watch({"E": table()}, path, measures=FEW)
    with pytest.raises(InputError, match=r"watcher.finish needs one of finished, stopped, failed; got 'done'."):
        watcher.finish("done")
    watcher.step()
    watcher.finish("stopped")
    watcher.close()
    watcher.step()
    watcher.epoch()
    watcher.log(loss=1.0)
    assert Run.open(path).status == "stopped"
    assert "watcher.log needs a run that is watched; got one that is finished." in watcher.errors[0].message


@pytest.mark.parametrize(
    ("error", "status"), [(KeyboardInterrupt, "stopped"), (ZeroDivisionError, "failed"), (None, "finished")]
)
def test_leaving_the_block_says_how_it_ended(path, error, status):
    def block():
        with fs.watch({"E": table()}, path, measures=FEW) as watcher:
            watcher.step()
            if error is not None:
                raise error

    if error is None:
        block()
    else:
        with pytest.raises(error):
            block()
    run = Run.open(path)
    assert run.status == status
    assert (steps(path) == []) == (status == "failed")


def test_the_last_step_of_an_epoch_lies_at_its_end(path):
    with fs.watch({"E": table()}, path, every=5, rules=False) as watcher:
        for _ in range(2):
            for _ in range(5):
                watcher.step(loss=1.0)
            watcher.epoch()
        watcher.step(6, loss=1.0)  # longer than the ones before: not past its end until that is told
    points = {point.at.step: point.at.epoch for point in Run.open(path).points("", "loss")}
    assert (points[9], points[10], points[16]) == (1.8, 2.0, 3.0)
