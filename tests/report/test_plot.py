import sys
from collections.abc import Callable

import numpy as np
import pytest

from sigmax import RequestError
from sigmax.records.run import Run
from sigmax.report import draw
from sigmax.report.plot import COLOURS, new_figure

MakeRun = Callable[..., Run]


def test_the_line_is_the_step_function_and_falls_to_the_axis(make_run: MakeRun) -> None:
    ax = draw(make_run((1, 1, 0.5), (1, 1, 1.0), (2, 1, 3.0), (0, None, 0.0)))
    (line,) = ax.get_lines()
    assert line.get_drawstyle() == "steps-pre"
    assert np.asarray(line.get_xdata()).tolist() == [0.0, 0.5, 1.0, 1.0]
    assert np.asarray(line.get_ydata()).tolist() == [50.0, 50.0, 25.0, 0.0]


def test_the_band_encloses_the_line(make_run: MakeRun) -> None:
    ax = draw(make_run(*((1, 1, i / 100) for i in range(100))))
    box = ax.collections[0].get_paths()[0].get_extents()
    assert box.x0 == 0.0
    assert box.x1 == 0.99
    assert 96 < 100 - box.y0 <= 100
    assert box.y1 == 100


def test_runs_are_told_apart_and_named(make_run: MakeRun) -> None:
    runs = [make_run((1, 1, 0.1 * i), path=f"run{i}.jsonl") for i in range(1, 10)]
    ax = draw(runs)
    styles = {(line.get_color(), str(line.get_linestyle())) for line in ax.get_lines()}
    assert len(styles) == 9 > len(COLOURS)
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [f"run{i}" for i in range(1, 10)]
    assert "95%" in legend.get_title().get_text()
    assert ax.get_xlabel()
    assert ax.get_ylabel() == "certified accuracy (%)"


@pytest.mark.parametrize(("count", "name", "below"), [(3, "run", False), (9, "run", True), (2, "x" * 60, True)])
def test_a_legend_of_many_or_long_names_covers_no_line(
    make_run: MakeRun, count: int, name: str, below: bool
) -> None:
    ax = draw([make_run((1, 1, 0.1 * i), path=f"{name}{i}.jsonl") for i in range(1, 1 + count)])
    legend = ax.get_legend()
    assert legend is not None
    ax.figure.draw_without_rendering()  # type: ignore[union-attr]
    box, axes = legend.get_window_extent(), ax.get_window_extent()
    assert (box.y1 < axes.y0) == below
    assert axes.height > 150, "the curves keep room of their own"


def test_a_name_that_begins_with_an_underscore_is_in_the_legend(make_run: MakeRun) -> None:
    legend = draw([make_run((1, 1, 0.5), path="_old.jsonl"), make_run((1, 1, 0.5), path="new.jsonl")]).get_legend()
    assert legend is not None
    assert [text.get_text().strip() for text in legend.get_texts()] == ["_old", "new"]


def test_axes_of_ones_own_are_used(make_run: MakeRun) -> None:
    ax = new_figure().add_subplot()
    assert draw(make_run((1, 1, 0.5)), ax) is ax


def test_a_run_that_certifies_nothing_is_drawn(make_run: MakeRun) -> None:
    (line,) = draw(make_run((0, None, 0.0))).get_lines()
    assert np.asarray(line.get_ydata()).tolist() == [0.0, 0.0]


def test_pyplot_is_left_alone(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    draw(make_run((1, 1, 0.5)))


def test_without_matplotlib_it_says_what_to_install(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(RequestError, match=r"pip install 'sigmax\[plot\]'"):
        draw(make_run((1, 1, 0.5)))
