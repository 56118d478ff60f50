"""Whatever is written, rewound and resumed in whatever order, a run reads as a plain dict would that forgets."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fullspan.store.records import Event, Moment, Point
from fullspan.store.runs import Run, RunWriter

STEPS = st.integers(0, 12)
KEYS = st.tuples(st.sampled_from(["", "item", "user"]), st.sampled_from(["a", "b"]), STEPS)
VALUES = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False))


class Store(RuleBasedStateMachine):
    """The run beside its model: what holds now, and what held when the attempt began."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.writer = RunWriter.open(self.folder / "run")
        self.points: dict = {}
        self.vectors: dict = {}
        self.events: list[tuple[int, int]] = []
        self.base = ({}, {}, [])
        self.wrote, self.resumed, self.count = False, True, 0

    def forget(self, step: int) -> None:
        points, vectors, events = self.base
        self.points = {key: value for key, value in points.items() if key[2] <= step}
        self.vectors = {key: value for key, value in vectors.items() if key <= step}
        mine = [each for each in self.events if each not in events]
        self.events = [each for each in events if each[0] <= step] + mine

    def attempt(self) -> None:
        self.base = (dict(self.points), dict(self.vectors), list(self.events))
        self.wrote = False

    @rule(batch=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=6))
    def add(self, batch) -> None:
        self.writer.add([Point(table, kind, Moment(step), value) for (table, kind, step), value in batch])
        if not self.resumed:
            before, held = self.base[1], self.vectors
            self.forget(min(step for (_, _, step), _ in batch))
            self.vectors |= {key: value for key, value in held.items() if before.get(key) != value}
        self.points.update(batch)
        self.wrote = self.resumed = True

    @rule(step=STEPS)
    def add_vector(self, step: int) -> None:
        self.count += 1
        self.writer.add_vector("item", "singular_values", Moment(step), np.array([self.count]))
        self.vectors[step] = self.count
        self.wrote = True

    @rule(step=STEPS)
    def add_event(self, step: int) -> None:
        self.count += 1
        self.writer.add_event(Event(Moment(step), "note", "", "", str(self.count), {}))
        self.events.append((step, self.count))

    @rule(step=st.integers(-1, 12))
    def rewind(self, step: int) -> None:
        if self.wrote:
            self.attempt()
        self.writer.rewind(step)
        self.forget(step)
        self.resumed = True

    @rule(step=st.one_of(st.none(), st.integers(-1, 12)))
    def reopen(self, step: int | None) -> None:
        self.writer.close()
        self.writer = RunWriter.open(self.folder / "run", resume_step=step)
        self.attempt()
        self.resumed = step is not None
        if step is not None:
            self.forget(step)

    @invariant()
    def agrees(self) -> None:
        run = Run.open(self.folder / "run")
        found = run.points()
        assert [each.at.step for each in found] == sorted(each.at.step for each in found)
        assert len(found) == len(self.points)
        assert {(each.table, each.measure, each.at.step): each.value for each in found} == self.points
        for table, measure in {key[:2] for key in self.points}:
            curve = run.curve(table, measure)
            mine = {key[2]: value for key, value in self.points.items() if key[:2] == (table, measure)}
            assert dict(zip(curve.step.tolist(), curve.value.tolist(), strict=True)) == {
                step: value for step, value in mine.items() if value is not None
            }
            assert (np.diff(curve.step) > 0).all()
            last = [each for each in run.last_points() if (each.table, each.measure) == (table, measure)]
            assert [(each.at.step, each.value) for each in last] == [max(mine.items())]
        if "item" in run.tables:
            vectors = run.vectors("item", "singular_values")
            assert [(at.step, int(values[0])) for at, values in vectors] == sorted(self.vectors.items())
        assert [(each.at.step, int(each.message)) for each in run.events()] == self.events

    def teardown(self) -> None:
        if hasattr(self, "writer"):
            self.writer.close()
            shutil.rmtree(self.folder)


TestStore = Store.TestCase
TestStore.settings = settings(max_examples=12, stateful_step_count=20, deadline=None, derandomize=True)
