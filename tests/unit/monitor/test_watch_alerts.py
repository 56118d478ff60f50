"""Rules while training goes on."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import fullspan as fs
from fullspan.monitor.alerts import CLEAR_AFTER, Alerts
from fullspan.store.records import TableRecord
from fullspan.store.runs import Run
from tests.unit.monitor.watching import table


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run"


def spread(shift=0.0, rows=2000):
    return table(rows, 16) + np.float32(shift)


def test_a_finding_is_told_when_it_comes_and_when_it_is_gone(path, caplog):
    told = []
    E = spread()
    with (
        caplog.at_level(logging.INFO, "fullspan.monitor"),
        fs.watch({"E": E}, path, every=1, on_finding=told.append) as watcher,
    ):
        watcher.step()
        assert watcher.findings == ()
        E += 3
        for _ in range(3):
            watcher.step()
        assert [finding.rule for finding in watcher.findings] == ["mean-shift"]
        assert not watcher.should_stop
        E -= 3
        watcher.step()
        assert watcher.findings  # one reading without it may be chance
        watcher.step()
        assert watcher.findings == ()
        E += 3
        watcher.step()
    events = [event for event in Run.open(path).events() if event.rule == "mean-shift"]
    assert [(event.at.step, event.detail["cleared"]) for event in events] == [(2, False), (6, True), (7, False)]
    assert events[0].level == "fail"
    assert events[0].detail["remedy"]
    assert [finding.rule for finding in told] == ["mean-shift", "mean-shift"]
    levels = [record.levelno for record in caplog.records]
    assert levels == [logging.WARNING, logging.INFO, logging.WARNING]
    assert caplog.records[0].message.startswith("step 2: E: ")


@pytest.mark.parametrize(
    ("stop_on", "stops"),
    [("fail", True), ("warn", True), ("mean-shift", True), (["hubness", "mean-shift"], True), ("dead-rows", False)],
)
def test_a_finding_that_is_named_stops_the_training(path, stop_on, stops):
    E = spread()
    with fs.watch({"E": E}, path, every=1, stop_on=stop_on) as watcher:
        watcher.step()
        assert not watcher.should_stop
        E += 3
        watcher.step()
        assert watcher.should_stop == stops


def test_collapse_is_found_while_it_happens(path):
    E = spread()
    with fs.watch({"E": E}, path, every=1, stop_on="dimensional-collapse") as watcher:
        for _ in range(40):
            E[:, 4:] *= 0.7
            watcher.step()
            if watcher.should_stop:
                break
        assert watcher.should_stop
        assert 5 < watcher.steps < 40


def test_damaged_rows_are_found_by_full_passes_and_not_cleared_by_pulses(path):
    E = spread(rows=300)
    E[:40] = 0
    with fs.watch({"E": E}, path, every=1, full="epoch", sample=50) as watcher:
        watcher.step()
        assert "dead-rows" not in {finding.rule for finding in watcher.findings}
        watcher.epoch()
        assert "dead-rows" in {finding.rule for finding in watcher.findings}
        for _ in range(2 * CLEAR_AFTER):
            watcher.step()
        assert "dead-rows" in {finding.rule for finding in watcher.findings}


def test_rules_of_the_user(path, tmp_path):
    rules = tmp_path / "fullspan.toml"
    rules.write_text(
        '[[rule]]\ntables = ["E"]\nmean-shift = false\n'
        '[[waive]]\ntables = ["F"]\nrule = "mean-shift"\nreason = "by design"\n',
        encoding="utf-8",
    )
    tables = {name: spread(3) for name in "EFG"}
    with fs.watch(tables, path, every=1, rules=rules) as watcher:
        watcher.step()
        assert [(finding.table, finding.rule) for finding in watcher.findings] == [("G", "mean-shift")]


def test_no_rules(path):
    with fs.watch({"E": spread(3)}, path, every=1, rules=False, full="epoch") as watcher:
        watcher.step()
        watcher.epoch()
        assert watcher.findings == ()
    assert [event.level for event in Run.open(path).events()] == ["note"]


def test_a_graver_finding_is_told_again():
    alerts = Alerts()
    record = TableRecord("E", "", "float32", n_rows=1000, dim=8, n_excluded=1)
    [change] = alerts.judge(record)
    assert change.finding.severity == "fail"
    assert alerts.judge(record) == []
    [active] = alerts._active.values()
    active.finding = active.finding.__class__("non-finite", "note", "less grave", table="E")
    [again] = alerts.judge(record)
    assert not again.gone
