"""Paper figures of runs: what is drawn, where it is written, and that the same run gives the same bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fullspan.errors import InputError
from fullspan.report.run_content import content_of
from fullspan.report.run_figures import curve_figure, map_figure, save_run_figures, spectrum_figure
from fullspan.store.records import Moment, Point
from tests.unit.report import planted_runs as planted

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return content_of(planted.write_small(tmp_path_factory.mktemp("runs") / "mf", epochs=4))


def test_a_curve_has_gaps_where_it_is_undefined(small):
    (axes,) = curve_figure([small], "isotropy").axes
    line = axes.get_lines()[0]
    assert line.get_xdata().tolist() == [0, 1, 2, 3, 4]
    assert np.isnan(line.get_ydata()).tolist() == [False, False, True, True, False]
    assert axes.get_xlabel() == "epoch"
    assert axes.get_ylabel() == "Isotropy"
    assert [each.get_text() for each in axes.get_legend().get_texts()] == ["user", "item"]


def test_full_passes_are_dots(small):
    lines = curve_figure([small], "gini_index", ["user"]).axes[0].get_lines()
    assert [len(line.get_xdata()) for line in lines] == [17, 5]
    assert lines[1].get_marker() == "o"


def test_steps_stand_in_for_epochs_that_nobody_counted(small):
    bare = [replace(each, at=Moment(each.at.step)) for each in small.series[0].points]
    other = replace(small, series=[replace(small.series[0], points=bare)])
    (axes,) = curve_figure([other], small.series[0].measure).axes
    assert axes.get_xlabel() == "optimizer step"


def test_several_runs_are_told_apart_by_color_and_tables_by_dashes(small):
    lines = [
        line
        for line in curve_figure([small, replace(small, name="b")], "isotropy").axes[0].get_lines()
        if line.get_linestyle() != "None"
    ]
    assert [line.get_label() for line in lines] == ["mf · user", "mf · item", "b · user", "b · item"]
    assert lines[0].get_color() == lines[1].get_color() != lines[2].get_color()
    assert lines[0].get_linestyle() == lines[2].get_linestyle() != lines[1].get_linestyle()


def test_singular_values_are_an_image_in_time(small):
    axes = spectrum_figure(small, "user").axes[0]
    (image,) = axes.get_images()
    assert image.get_array().shape == (8, 5)
    assert image.get_array()[0].tolist() == [1] * 5
    assert image.get_extent() == [-0.5, 4.5, 8.5, 0.5]


def test_zeros_are_blank_and_uneven_readings_are_numbered(small):
    uneven = [(Moment(step), np.array([1.0, 0.0])) for step in (0, 1, 50)]
    axes = spectrum_figure(replace(small, spectra={"user": uneven}), "user").axes[0]
    assert axes.get_images()[0].get_array().mask.tolist() == [[False] * 3, [True] * 3]
    assert axes.get_xlabel() == "reading"


def test_a_map_is_its_first_middle_and_last_frame():
    figure = map_figure(planted.frames(), "label")
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["epoch 0, 10% kept", "epoch 10, 26% kept", "epoch 19, 40% kept"]
    places = figure.axes[-1].collections[0].get_offsets()
    np.testing.assert_allclose(places, planted.frames().positions[-1])
    assert len(figure.legends[0].get_texts()) == 5


def test_all_figures_are_written_and_alike_each_time(small, tmp_path):
    maps = [planted.frames(n_points=20, n_frames=2)]
    some = replace(small, series=small.series[:1], spectra={"user": small.spectra["user"]})
    paths = save_run_figures([some], tmp_path / "a", maps, ["svg"])
    assert [path.name for path in paths] == [
        f"{some.series[0].measure}.svg",
        "singular-values-user.svg",
        "map-item-pca.svg",
    ]
    again = save_run_figures([some], tmp_path / "b", maps, ["svg"])
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in again]
    assert sorted(tmp_path.glob("a/*")) == sorted(paths)


@pytest.mark.parametrize(("form", "magic"), [("pdf", b"%PDF"), ("png", b"\x89PNG")])
def test_each_format_is_alike_each_time(small, tmp_path, form, magic):
    some = replace(small, series=small.series[:1], spectra={})
    (one,), (other,) = (save_run_figures([some], tmp_path / name, formats=[form]) for name in "ab")
    assert one.read_bytes().startswith(magic)
    assert one.read_bytes() == other.read_bytes()


def test_names_of_strangers_stay_in_the_folder(small, tmp_path):
    points = [Point("t", name, Moment(0), 1.0) for name in ("../../a", "../..a", "/")]
    hostile = replace(
        small,
        series=[replace(small.series[0], table="t", measure=each.measure, points=[each]) for each in points],
        spectra={},
    )
    paths = save_run_figures([hostile], tmp_path, formats=["svg"])
    assert [path.name for path in paths] == ["a.svg", "a-2.svg", "figure.svg"]


def test_what_figures_need(small, tmp_path):
    with pytest.raises(InputError, match=r"save_run_figures needs at least one run; got none\."):
        save_run_figures([], tmp_path)
    with pytest.raises(InputError, match=r"save_run_figures needs formats of svg, pdf, png; got 'gif'\."):
        save_run_figures([small], tmp_path, formats=["gif"])
    with pytest.raises(InputError, match=r"curve_figure needs a measure of the runs; got 'gini'\."):
        curve_figure([small], "gini")
    with pytest.raises(InputError, match=r"curve_figure needs a clock of epoch, step, samples; got 'time'\."):
        curve_figure([small], "loss", clock="time")
    with pytest.raises(InputError, match=r"spectrum_figure needs a table with singular values; got 'x'\. The run has"):
        spectrum_figure(small, "x")
    with pytest.raises(InputError, match=r"map_figure needs a color of the map; got 'hue'\. It has: norm, "):
        map_figure(planted.frames(), "hue")


def test_a_folder_that_cannot_be_written_is_an_error(small, tmp_path):
    from fullspan.jobs.formats.write import OutputError

    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="Drawing figures needs a folder that can be written; got "):
        save_run_figures([replace(small, spectra={})], tmp_path / "file")
