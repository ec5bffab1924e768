"""The page in a real browser, as a reader meets it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from selenium.webdriver.common.keys import Keys

import sigmax as sx
from sigmax.records.rounding import down, up
from sigmax.records.run import Run
from sigmax.rules.certificate import Outcome
from tests.report.browser import Browser, started
from tests.report.digits import N, adaptive_run
from tests.report.large import DUAL, large_run, noise_images
from tests.report.pages import page_of

Runs = dict[str, Run]
MakeRun = Callable[..., Run]
Published = Callable[[str], Run]
NAMES = ("consensus", "low", "mid", "high")
LETTERS, SECONDS = 15_000_000, 3.0  # of a page with 10,000 inputs


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with started() as browser:
        yield browser


@pytest.fixture(scope="module")
def page(digits_runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dual run of real digits beside the runs of its experts, with images."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page_of([digits_runs[name] for name in NAMES], images=sx.data.load("digits", "test")))
    return path


@pytest.fixture
def opened(chromium: Browser, page: Path) -> Iterator[Browser]:
    """The page just opened; nothing it did while the test ran may have left a message on the console."""
    chromium.open(page)
    yield chromium
    assert chromium.console() == []


def records(run: Run) -> dict[int, sx.Certificate]:
    return {record.index: record.certificate for record in run.records}


def test_it_opens_from_disk_and_asks_for_nothing(opened: Browser) -> None:
    assert opened.texts("#problem") == [""]
    asked = opened.js("performance.getEntriesByType('resource').map((e) => e.name.slice(0, 5))")
    assert set(asked) <= {"data:", "blob:"}
    assert opened.texts("#overview tbody th")[: len(NAMES)] == list(NAMES)
    assert opened.js("document.querySelectorAll('#figure .scatterlayer .trace').length") > len(NAMES)


def lines(browser: Browser) -> list[str]:
    """The names of the lines that can be seen."""
    traces = "document.getElementById('figure')._fullData"
    return browser.js(f"{traces}.filter((t) => t.visible === true && t.line.width).map((t) => t.name)")


@pytest.mark.slow
def test_a_toggle_hides_a_curve(opened: Browser) -> None:
    def drawn() -> int:
        return opened.js("document.querySelectorAll('#figure .scatterlayer .trace').length")

    before, paths = lines(opened), drawn()
    assert set(NAMES) < set(before)
    opened.one('[data-line="mid"]').click()
    assert lines(opened) == [name for name in before if name != "mid"]
    assert drawn() == paths - 3, "the curve and both edges of its band"
    opened.one('[data-line="95% bands"]').click()
    assert drawn() == len(before) - 1
    opened.one('[data-line="mid"]').click()
    assert lines(opened) == before


@pytest.mark.slow
def test_every_figure_can_be_drawn_and_read_by_hovering(opened: Browser) -> None:
    for key in ("shares", "lost", "near", "accuracy"):
        opened.one(f'[name="figure"][value="{key}"]').click()
        assert lines(opened)
    opened.driver.execute_script("Plotly.Fx.hover('figure', [{curveNumber: 2, pointNumber: 3}])")
    opened.until("document.querySelector('#figure .hoverlayer').textContent.includes('% at 0.')")


@pytest.mark.slow
def test_a_filter_changes_the_rows(opened: Browser, digits_runs: Runs) -> None:
    run = digits_runs["consensus"]
    assert opened.texts("#count") == ["40 of 40 inputs"]
    abstained = [r.index for r in run.records if r.certificate.predicted is None]
    assert 0 < len(abstained) < 40
    opened.choose("#answer", "none")
    assert sorted(map(int, opened.texts("#body .open"))) == sorted(abstained)
    assert opened.texts("#count") == [f"{len(abstained)} of 40 inputs"]
    opened.one("#filters [type=reset]").click()
    opened.choose("#from", "0.3")
    far = {i for i, c in records(run).items() if c.radius >= 0.3}
    assert set(map(int, opened.texts("#body .open"))) == far
    opened.one("#find").send_keys("7")
    sevens = {r.index for r in run.records if 7 in (r.label, r.certificate.predicted, r.index)}
    assert set(map(int, opened.texts("#body .open"))) == far & sevens


@pytest.mark.slow
def test_rows_are_sorted_by_a_column(opened: Browser, digits_runs: Runs) -> None:
    opened.one('[data-key="radius"] button').click()
    opened.one('[data-key="radius"] button').click()
    shown = [float(text) for text in opened.texts("#body tr td:nth-child(5)")]
    assert shown == sorted(shown, reverse=True)
    assert opened.one('[data-key="radius"]').get_attribute("aria-sort") == "descending"


@pytest.mark.slow
def test_printed_radii_are_rounded_down_like_everywhere(opened: Browser, digits_runs: Runs) -> None:
    for number, name in enumerate(NAMES):
        opened.choose("#run", str(number))
        opened.until(f"document.getElementById('rows').dataset.run === '{number}'")
        of = records(digits_runs[name])
        rows = dict(zip(map(int, opened.texts("#body .open")), opened.texts("#body tr td:nth-child(5)"), strict=True))
        assert rows == {index: down(c.radius, 4) for index, c in of.items()}


@pytest.mark.slow
def test_an_input_opens_with_its_votes(opened: Browser, digits_runs: Runs) -> None:
    run = digits_runs["consensus"]
    index = int(opened.texts("#body .open")[2])
    opened.all("#body .open")[2].click()
    assert opened.texts("#detail-title") == [f"Input {index} of consensus"]
    c = records(run)[index]
    bars = opened.js("document.getElementById('votes').data.map((t) => t.x.reduce((a, b) => a + b))")
    assert sorted(bars) == sorted(stage.n for stage in c.stages)
    assert opened.js("document.querySelectorAll('#votes .bars .point').length") >= len(c.stages)
    facts = dict(zip(opened.texts("#facts dt"), opened.texts("#facts dd"), strict=True))
    routing = sx.report.routing(run).set_index("index")
    assert facts["certified radius"] == down(c.radius, 4)
    assert facts["R_sigma, where another route could win"] == down(routing.at[index, "R_sigma"], 4)
    assert facts["answered by"] == f"{c.answered_by.replace('-', ' ')} (sigma {c.sigma:g})"
    limit = c.limited_by.replace("-", " ").replace("/", ", ")
    assert facts["limited by"] == f"{limit} (sigma {c.limit.sigma:g})"
    (said,) = opened.texts("#advice")
    assert said == f"Class {c.predicted} within radius {down(c.radius, 4)} (certified): {c.outcome.advice}."
    opened.until("document.querySelectorAll('#others tbody tr').length === 3")


@pytest.mark.slow
def test_an_input_says_what_limits_it_and_why_it_abstained(opened: Browser, page: Path, digits_runs: Runs) -> None:
    """The part that answers and the one that limits the radius need not be the same."""
    found = records(digits_runs["consensus"])
    index, c = next((i, c) for i, c in found.items() if c.predicted is not None and c.limit.part == "router")
    opened.open(page, f"#run=consensus&input={index}")
    assert opened.texts("#why") == [
        f"The radius is limited by the estimation of the router: {N} samples at sigma {c.limit.sigma:g}, which show "
        f"that the chosen expert's share is at least {down(c.limit.lower, 4)} and no other share is above "
        f"{up(c.limit.upper, 4)}. "
        f"The class is that of {c.answered_by.replace('-', ' ')}."
    ]
    index, c = next((i, c) for i, c in found.items() if c.predicted is None)
    opened.open(page, f"#run=consensus&input={index}")
    assert opened.texts("#advice") == [f"Abstained ({c.outcome.name.lower().replace('_', ' ')}): {c.outcome.advice}."]
    assert opened.texts("#why")[0].startswith("This was decided by the estimation of ")
    facts = dict(zip(opened.texts("#facts dt"), opened.texts("#facts dd"), strict=True))
    assert facts["certified radius"] == "none"
    assert "answered by" not in facts


@pytest.mark.slow
def test_labels_of_the_chart_do_not_overlap(chromium: Browser, digits_runs: Runs, tmp_path: Path) -> None:
    run = digits_runs["consensus"]
    named = {**run.plan.data, "classes": [f"a rather long name of the class {c}" for c in range(10)]}
    path = tmp_path / "report.html"
    path.write_text(page_of(replace(run, plan=replace(run.plan, data=named))))
    chromium.open(path, f"#run=consensus&input={max(run.records, key=lambda r: len(r.certificate.stages)).index}")
    labels = "[...document.querySelectorAll('#votes [class$=tick] text, #votes .annotation-text, #votes .bartext')]"
    boxes = chromium.js(f"{labels}.map((e) => e.getBoundingClientRect().toJSON())")
    bars = chromium.js(
        "[...document.querySelectorAll('#votes .bars path')].map((e) => e.getBoundingClientRect().toJSON())"
    )
    assert len(boxes) > 20
    for k, one in enumerate(boxes):
        for other in (*boxes[k + 1 :], *bars):
            apart = one["right"] <= other["left"] or other["right"] <= one["left"]
            assert apart or one["bottom"] <= other["top"] + 1 or other["bottom"] <= one["top"] + 1


@pytest.mark.slow
def test_the_image_is_the_input(opened: Browser) -> None:
    index = int(opened.texts("#body .open")[5])
    opened.all("#body .open")[5].click()
    opened.until(f"document.getElementById('picture').dataset.drawn === '{index}'")
    shown = opened.js("[...document.getElementById('picture').getContext('2d').getImageData(0, 0, 8, 8).data]")[::4]
    pixels = sx.data.load("digits", "test").pixels([index])[0, 0]
    assert shown == (255 * pixels.astype(float)).round().astype(int).flatten().tolist()


@pytest.mark.slow
def test_an_abstention_says_why(opened: Browser, digits_runs: Runs) -> None:
    opened.choose("#answer", "none")
    index = int(opened.texts("#body .open")[0])
    opened.all("#body .open")[0].click()
    outcome = records(digits_runs["consensus"])[index].outcome
    assert outcome is not Outcome.CERTIFIED
    assert outcome.advice in opened.texts("#advice")[0]


@pytest.mark.slow
def test_the_keyboard_is_enough(opened: Browser) -> None:
    opened.one("body").send_keys("/")
    assert opened.js("document.activeElement.id") == "find"
    opened.js("document.querySelector('#body .open').focus()")
    opened.press(Keys.ARROW_DOWN)
    opened.press(Keys.ARROW_DOWN)
    third = opened.js("document.activeElement.innerText")
    assert third == opened.texts("#body .open")[2]
    opened.press(Keys.ENTER)
    assert opened.texts("#detail-title") == [f"Input {third} of consensus"]
    opened.press(Keys.ARROW_RIGHT)
    fourth = opened.texts("#body .open")[3]
    assert opened.texts("#detail-title") == [f"Input {fourth} of consensus"]
    opened.press(Keys.ESCAPE)
    # A browser reports that a dialog was closed in a task of its own, and only then does the page move the focus.
    opened.until(f"!document.getElementById('detail').open && document.activeElement.innerText === '{fourth}'")


@pytest.mark.slow
def test_the_address_of_an_input_opens_it(chromium: Browser, page: Path, digits_runs: Runs) -> None:
    index = digits_runs["mid"].records[7].index
    chromium.open(page, f"#run=mid&input={index}")
    assert chromium.texts("#detail-title") == [f"Input {index} of mid"]
    assert chromium.console() == []


@pytest.mark.slow
def test_it_follows_the_theme_of_the_system(opened: Browser) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    try:
        opened.emulate("setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        opened.until(f"{ground} === 'rgb(18, 23, 28)'")
        opened.choose("#theme", "light")
        opened.until(f"{ground} === 'rgb(255, 255, 255)'")
    finally:
        opened.choose("#theme", "auto")
        opened.emulate("setEmulatedMedia", features=[])


@pytest.mark.slow
def test_it_fits_a_phone(chromium: Browser, page: Path) -> None:
    try:
        chromium.emulate("setDeviceMetricsOverride", width=360, height=740, deviceScaleFactor=2, mobile=True)
        chromium.open(page)
        assert chromium.js("document.documentElement.scrollWidth") <= 360
        assert chromium.js("document.querySelector('#figure .main-svg').clientWidth") <= 360
        chromium.js("document.querySelector('#body .open').click()")
        assert chromium.js("document.getElementById('detail').scrollWidth") <= 360
        assert chromium.console() == []
    finally:
        chromium.emulate("clearDeviceMetricsOverride")


@pytest.mark.slow
def test_a_log_without_counts_can_be_explored(chromium: Browser, published: Published, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page_of([published("imagenet"), published("catrs-noise_1.0")]))
    chromium.open(path)
    assert chromium.texts("#count") == ["427 of 427 inputs"]
    chromium.one("#body .open").click()
    assert chromium.texts("#stages") == ["This record holds no votes."]
    assert chromium.texts("#advice")[0].startswith("Another tool's log claims class ")
    assert chromium.console() == []


@pytest.mark.slow
def test_names_are_shown_and_never_run(chromium: Browser, make_run: MakeRun, tmp_path: Path) -> None:
    evil = "<img src=x onerror=document.title='run'>"
    described = {"name": evil, "split": "test", "fingerprint": "f00d", "classes": [evil] * 3}
    run = make_run((1, 1, 0.5), (0, None, 0.0), path=f"{evil}.jsonl", data=described)
    path = tmp_path / "report.html"
    path.write_text(page_of(run))
    chromium.open(path)
    chromium.one("#body .open").click()
    chromium.driver.execute_script("Plotly.Fx.hover('votes', [{curveNumber: 0, pointNumber: 0}])")
    assert chromium.texts("#detail-title") == [f"Input 0 of {evil}"]
    assert f"1 {evil}" in chromium.texts("#facts dd")
    assert chromium.js("document.images.length") == 0
    assert chromium.js("document.title") != "run"
    assert chromium.console() == []


@pytest.mark.slow
def test_radii_told_by_hovering_are_rounded_down(opened: Browser, digits_runs: Runs) -> None:
    """The curve of the second run, point by point; where the line falls to the axis it says beyond which radius."""
    texts = opened.js("document.getElementById('figure').data.find((t) => t.name === 'low').text")
    curve = sx.report.certified_curve(digits_runs["low"])
    points = zip(curve["accuracy"], curve["radius"], strict=True)
    assert texts[:-1] == [f"{100 * accuracy:.2f}% at {down(radius, 4)}" for accuracy, radius in points]
    assert texts[-1] == f"0% beyond {down(curve['radius'].iloc[-1], 4)}"


@pytest.mark.slow
def test_only_lines_of_the_chosen_figure_can_be_switched(opened: Browser) -> None:
    def offered() -> list[str]:
        labels = "[...document.querySelectorAll('#toggles label')].filter((l) => l.offsetWidth)"
        return opened.js(f"{labels}.map((l) => l.innerText.trim())")

    everything = offered()
    assert set(NAMES) < set(everything)
    opened.one('[name="figure"][value="near"]').click()
    assert offered() == ["consensus", "95% bands"]
    opened.one('[name="figure"][value="accuracy"]').click()
    assert offered() == everything
    swatches = opened.js("[...document.querySelectorAll('.swatch')].map((s) => s.style.backgroundImage)")
    assert len(set(swatches)) == len(everything) - 1, "every line has a colour or a dash of its own"


@pytest.mark.slow
def test_a_dialog_starts_at_its_top_and_its_buttons_stay_in_reach(chromium: Browser, page: Path) -> None:
    try:
        chromium.emulate("setDeviceMetricsOverride", width=360, height=740, deviceScaleFactor=2, mobile=True)
        chromium.open(page)
        chromium.js("document.querySelector('#body .open').click()")
        chromium.driver.execute_script("document.getElementById('detail').scrollTop = 600")
        assert chromium.js("document.getElementById('detail').scrollTop") > 300
        assert 0 <= chromium.js("document.getElementById('detail-close').getBoundingClientRect().y") < 60
        chromium.js("document.getElementById('detail-next').click()")
        assert chromium.js("document.getElementById('detail').scrollTop") == 0
    finally:
        chromium.emulate("clearDeviceMetricsOverride")


@pytest.mark.slow
def test_enter_in_the_search_field_opens_the_only_hit(opened: Browser) -> None:
    opened.one("#find").send_keys("7", Keys.ENTER)
    hits = opened.texts("#body .open")
    assert len(hits) > 1, "classes have numbers too"
    assert not opened.js("document.getElementById('detail').open")
    opened.one("#find").clear()
    opened.one("#find").send_keys("39", Keys.ENTER)
    assert opened.texts("#detail-title") == ["Input 39 of consensus"]


@pytest.mark.slow
def test_an_address_changed_by_hand_opens_its_input(opened: Browser, digits_runs: Runs) -> None:
    index = digits_runs["mid"].records[5].index
    opened.choose("#answer", "wrong")  # a filter gives way
    opened.driver.execute_script(f"location.hash = '#run=mid&input={index}'")
    opened.until(f"document.getElementById('detail-title').textContent === 'Input {index} of mid'")
    assert opened.js("document.getElementById('detail').open")


@pytest.mark.slow
def test_inputs_without_labels_are_explored_by_what_was_answered(
    chromium: Browser, digits_runs: Runs, tmp_path: Path
) -> None:
    run = digits_runs["consensus"]
    plan = replace(run.plan, data={**run.plan.data, "labelled": False})
    unknown = replace(run, plan=plan, records=tuple(replace(record, label=None) for record in run.records))
    (tmp_path / "report.html").write_text(page_of([unknown]))
    chromium.open(tmp_path / "report.html")
    assert chromium.texts("h1") == ["Certified share"]
    assert "true class" not in " ".join(chromium.texts("#heads th"))
    assert chromium.texts("#answer option") == ["any", "answered", "abstained"]
    chromium.choose("#answer", "answered")
    answered = {i for i, c in records(run).items() if c.predicted is not None}
    assert set(map(int, chromium.texts("#body .open"))) == answered
    chromium.one("#body .open").click()
    assert "predicted" in " ".join(chromium.texts("#detail dt"))
    assert "true class" not in " ".join(chromium.texts("#detail dt"))
    assert chromium.console() == []


@pytest.mark.slow
def test_the_looks_of_a_stage_are_shown(chromium: Browser, tmp_path: Path) -> None:
    run = adaptive_run("high", tmp_path / "asked.jsonl", targets=(0.25, 0.5))
    path = tmp_path / "report.html"
    path.write_text(page_of(run))
    chromium.open(path)
    index = int(chromium.texts("#body .open")[0])
    chromium.one("#body .open").click()
    stage = next(stage for stage in records(run)[index].stages if stage.looks)
    assert chromium.texts(".looks summary") == [f"estimation: {len(stage.looks)} look{'s' * (len(stage.looks) > 1)}"]
    chromium.one(".looks summary").click()
    drawn = [f"{n:,}" for n in np.cumsum([sum(look) for look in stage.looks])]
    assert chromium.texts(".looks tbody td:nth-child(2)") == drawn
    assert chromium.console() == []


@pytest.mark.slow
def test_ten_thousand_inputs_open_at_once(chromium: Browser, tmp_path: Path) -> None:
    images = noise_images()
    path = tmp_path / "report.html"
    path.write_text(page_of(large_run(DUAL, images, name="dual"), images=images))
    assert path.stat().st_size < LETTERS
    took = []
    for _ in range(3):  # the best of three: other tests may have the processor for a while
        chromium.open(path)
        took.append(float(chromium.js("document.documentElement.dataset.ready")) / 1000)
    assert chromium.texts("#count") == ["10,000 of 10,000 inputs"]
    assert min(took) < SECONDS, took
    chromium.one('[data-key="radius"] button').click()
    chromium.one("#body .open").click()
    assert chromium.texts("#detail-title")[0].startswith("Input ")
    assert chromium.console() == []
