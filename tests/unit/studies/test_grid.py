"""Cells, their keys and their tasks."""

from __future__ import annotations

import pytest

from fullspan.errors import InputError
from fullspan.studies.base.grid import Cell, Task, grid, key_of, tasks_of


def test_a_grid_has_every_combination_once():
    made = grid({"a": [1, 2], "b": ["x", "y", "z"]})
    assert len(made) == 6
    assert made[0] == {"a": 1, "b": "x"}
    assert len({tuple(each.items()) for each in made}) == 6


def test_a_factor_without_levels_is_refused():
    with pytest.raises(InputError, match=r"grid needs at least one level a factor; got none for b\."):
        grid({"a": [1], "b": []})


@pytest.mark.parametrize("name", ["", "With Capitals", "../up", "a/b", "-leading", "naïve"])
def test_a_cell_whose_name_cannot_name_a_file_is_refused(name):
    with pytest.raises(InputError, match="Cell needs a name of lower-case letters"):
        Cell(name, {})


def test_two_cells_of_one_name_are_refused():
    with pytest.raises(InputError, match=r"tasks_of needs one name a cell; got a more than once\."):
        tasks_of([Cell("a", {}), Cell("b", {}), Cell("a", {"x": 1})], [0], "data", "code")


def test_every_cell_meets_every_seed():
    tasks = tasks_of([Cell("a", {}), Cell("b", {})], range(3), "data", "code")
    assert [(task.cell.name, task.seed) for task in tasks] == [
        ("a", 0),
        ("a", 1),
        ("a", 2),
        ("b", 0),
        ("b", 1),
        ("b", 2),
    ]


def test_the_key_depends_on_all_that_makes_a_result_and_on_nothing_else():
    def key(settings=(("lr", 0.1), ("b", 8)), seed=0, data="d", code="c", cost=1.0, part=""):
        return tasks_of([Cell("a", dict(settings), part, cost)], [seed], data, code)[0].key

    assert key() == key(settings=(("b", 8), ("lr", 0.1)), cost=9.0, part="other")
    others = {key(settings=(("lr", 0.2), ("b", 8))), key(seed=1), key(data="e"), key(code="d")}
    assert len(others | {key()}) == 5


def test_settings_that_json_does_not_know_are_refused():
    with pytest.raises(ValueError, match="Out of range float"):
        key_of({"lr": float("nan")})


def test_the_file_of_a_task_names_its_cell_seed_and_key():
    assert Task(Cell("sgd-b8", {}), 3, "0123456789abcdef").file_name == "sgd-b8--seed-3--0123456789ab.json"
