"""Every figure takes runs and returns axes; what is drawn is what the metrics say."""

import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest

from sigmax import RequestError, report
from sigmax.records.run import Run
from sigmax.report.plots.style import COLOURS, COLUMNS, GREYS
from tests.report.duals import LOW, run_of, votes

MakeRun = Callable[..., Run]
EXPERTS = ("low", "mid", "high")
Runs = dict[str, Run]

FIGURES = {
    "curves": lambda runs, ax: report.draw([runs[name] for name in EXPERTS], ax),
    "p_A": lambda runs, ax: report.draw_ecdf([runs[name] for name in EXPERTS], ax),
    "p_A by class": lambda runs, ax: report.draw_ecdf_by_class(runs["low"], ax),
    "radius by sigma": lambda runs, ax: report.draw_radius_by_sigma([runs[n] for n in EXPERTS], [0, 3, 7], ax),
    "best sigma": lambda runs, ax: report.draw_best_sigma([runs[name] for name in EXPERTS], ax),
    "envelope": lambda runs, ax: report.draw_envelope([runs[name] for name in EXPERTS], ax),
    "samples": lambda runs, ax: report.draw_samples([runs["low"], runs["consensus"], runs["min"]], ax),
}


CROWDED = {
    "curves": lambda runs, ax: report.draw([runs[name] for name in (*EXPERTS, "consensus", "min")], ax),
    "radius by sigma": lambda runs, ax: report.draw_radius_by_sigma([runs[n] for n in EXPERTS], range(12), ax),
    "envelope": lambda runs, ax: report.draw_envelope([runs[n] for n in (*EXPERTS, "consensus", "min")], ax),
    "samples": lambda runs, ax: report.draw_samples([runs[n] for n in (*EXPERTS, "consensus", "min")], ax),
    "p_A by class": lambda runs, ax: report.draw_ecdf_by_class(runs["low"], ax),
}


@pytest.mark.parametrize("name", CROWDED)
def test_a_legend_of_many_names_squeezes_nothing(digits_runs: Runs, name: str) -> None:
    """The figure grows by its legend; the axes keep the height that they have with a single name."""
    ax = CROWDED[name](digits_runs, report.axes(columns=1))
    alone = report.draw_ecdf(digits_runs["low"], report.axes(columns=1))
    inside_the_page(ax, least=0.25)
    inside_the_page(alone)
    assert ax.get_window_extent().height > 0.85 * alone.get_window_extent().height
    for text in (ax.xaxis.label, ax.yaxis.label, ax.xaxis.get_offset_text()):
        box = text.get_window_extent()
        assert ax.figure.bbox.y0 - 1 <= box.y0 <= box.y1 <= ax.figure.bbox.y1 + 1
        assert text.get_fontsize() <= 9


def test_a_height_that_was_asked_for_stays(digits_runs: Runs) -> None:
    ax = CROWDED["curves"](digits_runs, report.axes(height=5.0))
    assert ax.figure.get_figheight() == 5.0


def test_a_very_long_name_takes_several_lines(digits_runs: Runs) -> None:
    long = replace(digits_runs["low"], path=Path(f"{'very long ' * 18}name.jsonl"))
    ax = report.draw([long, digits_runs["mid"]], report.axes())
    inside_the_page(ax, least=0.25)


@pytest.mark.parametrize(("name", "columns"), [*zip(FIGURES, cycle(COLUMNS), strict=False)])
def test_every_figure_is_publishable(
    digits_runs: Runs, name: str, columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every line has a colour of Okabe and Ito's, black or grey; two lines never share colour and dash."""
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # nothing global is touched
    given = report.axes(columns=columns)
    ax = FIGURES[name](digits_runs, given)
    assert ax is given
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    pdf, png = report.save(ax, tmp_path / "new" / "figure_0.5")
    assert (pdf.name, png.name) == ("figure_0.5.pdf", "figure_0.5.png")
    assert pdf.read_bytes().startswith(b"%PDF")
    assert b"/Type3" not in pdf.read_bytes(), "fonts that printers refuse"
    width = int.from_bytes(png.read_bytes()[16:20], "big")
    assert width == pytest.approx(300 * COLUMNS[columns], abs=1)
    inside_the_page(ax)
    lines = [line for line in ax.get_lines() if line.get_label() and not str(line.get_label()).startswith("_")]
    assert {line.get_color() for line in lines} <= {*COLOURS, *GREYS, "black"}
    assert len({(line.get_color(), str(line.get_linestyle())) for line in lines}) == len(lines)


def inside_the_page(ax, least: float = 0.35) -> None:
    """Nothing is cut off, labels have the size of printed text, and the axes keep room of their own."""
    figure = ax.figure
    figure.draw_without_rendering()
    page, drawn = figure.bbox, ax.get_tightbbox()
    assert drawn.x0 >= page.x0 - 1
    assert drawn.x1 <= page.x1 + 1
    assert drawn.y0 >= page.y0 - 1
    assert drawn.y1 <= page.y1 + 1
    for text in (ax.xaxis.label, ax.yaxis.label, *ax.get_xticklabels(), *ax.get_yticklabels()):
        assert 6 <= text.get_fontsize() <= 9
    assert ax.get_window_extent().height > least * page.height


def test_the_line_of_p_A_is_its_distribution() -> None:
    run = run_of(LOW, [(0, votes(0, k)) for k in (300, 600, 800, 800, 990)], name="some")
    (line,) = report.draw_ecdf(run).get_lines()
    assert line.get_drawstyle() == "steps-pre"
    assert np.asarray(line.get_xdata()).tolist() == [0.5, 0.6, 0.8, 0.99, 0.99]
    assert np.asarray(line.get_ydata()).tolist() == pytest.approx([80.0, 80.0, 60.0, 20.0, 0.0])
    (line,) = report.draw_ecdf(run, start=0.9).get_lines()
    assert np.asarray(line.get_xdata()).tolist() == [0.9, 0.99, 0.99]


def test_a_published_log_is_drawn_from_one_half_on(published: Callable[[str], Run]) -> None:
    run = published("catrs-noise_1.0")
    (line,) = report.draw_ecdf(run).get_lines()
    assert np.asarray(line.get_ydata())[0] == pytest.approx(43.17)
    assert len(report.draw_ecdf_by_class(run).get_lines()) == 10


def test_single_inputs_against_sigma(digits_runs: Runs) -> None:
    runs = [digits_runs[name] for name in EXPERTS]
    lines = report.draw_radius_by_sigma(runs, [3, 0]).get_lines()
    frame = report.radii_by_sigma(runs)
    assert [line.get_label() for line in lines] == ["input 3", "input 0"]
    assert np.asarray(lines[0].get_xdata()).tolist() == [0.1, 0.2, 0.4]
    assert np.asarray(lines[0].get_ydata()).tolist() == frame.loc[3].tolist()
    for wrong, message in (([], "got 0"), ([0, 999], r"\[999\] are not among them"), (list(range(13)), "got 13")):
        with pytest.raises(RequestError, match=message):
            report.draw_radius_by_sigma(runs, wrong)


def test_bars_of_the_best_sigma_hold_every_input(digits_runs: Runs) -> None:
    runs = [digits_runs[name] for name in EXPERTS]
    ax = report.draw_best_sigma(runs)
    heights = [bar.get_height() for bar in ax.patches]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["0.1", "0.2", "0.4", "none"]
    assert sum(heights) == pytest.approx(100)
    assert heights[1] == pytest.approx(100 * (report.best_sigma(runs) == 0.2).mean())


def test_the_envelope_is_the_upper_edge_of_the_runs(digits_runs: Runs) -> None:
    runs = [digits_runs[name] for name in EXPERTS]
    lines = {line.get_label(): line for line in report.draw_envelope(runs).get_lines()}
    assert list(lines) == [*EXPERTS, "envelope", "oracle"]
    x = np.asarray(lines["envelope"].get_xdata())[:-1]
    assert np.asarray(lines["envelope"].get_ydata())[:-1] == pytest.approx(
        100 * report.best_over_sigma(runs, x)["accuracy"].to_numpy()
    )


def test_the_histogram_of_samples(digits_runs: Runs) -> None:
    ax = report.draw_samples([digits_runs["low"], digits_runs["consensus"]])
    legend = ax.get_legend()
    assert legend is not None
    mean = np.mean([record.certificate.samples for record in digits_runs["consensus"].records])
    assert [text.get_text() for text in legend.get_texts()] == ["low: 520", f"consensus: {mean:,.0f}"]
    assert [sum(stairs.get_data().values) for stairs in ax.patches] == pytest.approx([100, 100])
    with pytest.raises(RequestError, match="exact holds no votes"):
        report.draw_samples(digits_runs["exact"])


def test_columns_of_a_paper() -> None:
    with pytest.raises(RequestError, match="columns must be 1 or 2"):
        report.axes(columns=3)
    assert report.axes(height=2.0).figure.get_figheight() == 2.0  # type: ignore[union-attr]


# ---- certified accuracy ------------------------------------------------------------------------------


def test_the_line_is_the_step_function_and_falls_to_the_axis(make_run: MakeRun) -> None:
    ax = report.draw(make_run((1, 1, 0.5), (1, 1, 1.0), (2, 1, 3.0), (0, None, 0.0)))
    (line,) = ax.get_lines()
    assert line.get_drawstyle() == "steps-pre"
    assert np.asarray(line.get_xdata()).tolist() == [0.0, 0.5, 1.0, 1.0]
    assert np.asarray(line.get_ydata()).tolist() == [50.0, 50.0, 25.0, 0.0]


def test_the_band_encloses_the_line(make_run: MakeRun) -> None:
    ax = report.draw(make_run(*((1, 1, i / 100) for i in range(100))))
    box = ax.collections[0].get_paths()[0].get_extents()
    assert box.x0 == 0.0
    assert box.x1 == 0.99
    assert 96 < 100 - box.y0 <= 100
    assert box.y1 == 100


def test_runs_are_told_apart_and_named(make_run: MakeRun) -> None:
    runs = [make_run((1, 1, 0.1 * i), path=f"run{i}.jsonl") for i in range(1, 10)]
    ax = report.draw(runs)
    styles = {(line.get_color(), str(line.get_linestyle())) for line in ax.get_lines()}
    assert len(styles) == 9 > len(COLOURS)
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [f"run{i}" for i in range(1, 10)]
    assert "95%" in legend.get_title().get_text()
    assert ax.get_xlabel()
    assert ax.get_ylabel() == "certified accuracy (%)"


@pytest.mark.parametrize(("count", "name", "below"), [(3, "run", False), (9, "run", True), (2, "x" * 60, True)])
def test_a_legend_of_many_or_long_names_covers_no_line(make_run: MakeRun, count: int, name: str, below: bool) -> None:
    ax = report.draw([make_run((1, 1, 0.1 * i), path=f"{name}{i}.jsonl") for i in range(1, 1 + count)])
    legend = ax.get_legend()
    assert legend is not None
    ax.figure.draw_without_rendering()  # type: ignore[union-attr]
    box, axes = legend.get_window_extent(), ax.get_window_extent()
    assert (box.y1 < axes.y0) == below
    assert axes.height > 150, "the curves keep room of their own"


def test_a_name_that_begins_with_an_underscore_is_in_the_legend(make_run: MakeRun) -> None:
    legend = report.draw(
        [make_run((1, 1, 0.5), path="_old.jsonl"), make_run((1, 1, 0.5), path="new.jsonl")]
    ).get_legend()
    assert legend is not None
    assert [text.get_text().strip() for text in legend.get_texts()] == ["_old", "new"]


def test_a_run_that_certifies_nothing_is_drawn(make_run: MakeRun) -> None:
    (line,) = report.draw(make_run((0, None, 0.0))).get_lines()
    assert np.asarray(line.get_ydata()).tolist() == [0.0, 0.0]


def test_without_matplotlib_it_says_what_to_install(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(RequestError, match=r"pip install 'sigmax\[plot\]'"):
        report.draw(make_run((1, 1, 0.5)))
