"""Runs, verdicts and what else is no data frame, in a notebook."""

import pytest

import sigmax as sx
from sigmax.records.failed import FailedInput, keep_failed
from sigmax.records.journal import write_all
from sigmax.records.lines import Record
from sigmax.records.logs.read import read_log
from sigmax.records.notebook import MOST_RADII, spread
from sigmax.records.run import Run
from sigmax.rules.replay import replay
from tests.records.helpers import ALPHA, N0, N, forge, gaussian, plan, records, stages
from tests.rules.test_notebook import EVIL, Page


@pytest.fixture
def path(tmp_path):
    write_all(tmp_path / "run.jsonl", plan(), records())
    return tmp_path / "run.jsonl"


def test_a_run(path):
    run = sx.read(path)
    page = Page(run._repr_html_())
    assert page.text.startswith("run.jsonl: smoothed on digits test, 5 of 5 inputs, finished.")
    assert "run.frame()" in page.text
    assert f"sigmax report {path}" in page.text
    facts = dict(zip(page.cells[0::2], page.cells[1::2], strict=False))
    assert (facts["noise"], facts["samples"], facts["alpha"]) == ("sigma 0.5", "n0 100, n 1,000", "0.001")
    place = page.cells.index("radius")
    radii = [float(cell) for cell in page.cells[place + 1 : page.cells.index("certified accuracy")]]
    accuracies = page.cells[place + len(radii) + 2 :][: len(radii)]
    expected = sx.report.certified_accuracy(run, radii)
    assert [float(cell.rstrip("%")) for cell in accuracies] == pytest.approx((100 * expected).tolist(), abs=0.1)
    assert accuracies[0] == "20.0%"  # of labels 0, 1, 2, 0, 1 class 0 is certified but for the first, which is close
    assert "0.5 to 71.7" in page.text


@pytest.mark.parametrize("sigma", [13.37, 29.2])
@pytest.mark.parametrize("asks", [False, True])
def test_accuracies_stand_below_the_very_radii_they_are_counted_at(tmp_path, sigma, asks):
    """Shown with six digits, a radius may be larger than the one that is certified."""
    rule = gaussian(sigma, 3)
    asked = {"n0": N0, "n": N, "alpha": ALPHA}
    found = replay(rule.certifying(**asked), stages("", sigma, (N0, 0, 0), (N, 0, 0)))
    targets = (0.3, found.radius * (1 - 1e-9)) if asks else ()
    sampling = sx.Sampling("adaptive", targets=targets).describe() if targets else {"kind": "fixed"}
    run = Run(tmp_path, plan(rule=rule.describe(), sampling=sampling), (Record(0, 0, found, 0.0),), finished=True)
    page = Page(run._repr_html_())
    place, end = page.cells.index("radius"), page.cells.index("certified accuracy")
    radii = [float(cell) for cell in page.cells[place + 1 : end]]
    shown = page.cells[end + 1 :][: len(radii)]
    assert shown == [f"{100 * (found.radius >= r):.1f}%" for r in radii]
    assert radii == sorted(set(radii))
    assert len(radii) == len(targets) or len(radii) > 3


def test_an_unfinished_run_says_what_failed(path):
    run = sx.read(path)
    keep_failed(path, [FailedInput(8, "ValueError: no", "", "worker 0")])
    page = Page(Run(path, plan(data={"name": EVIL}), run.records[:4], finished=False)._repr_html_())
    assert f"smoothed on {EVIL}, 4 of 5 inputs, unfinished." in page.text
    assert "failed in the last attempt: 8." in page.text
    assert "goes on with it" in page.text
    assert "certified accuracy" not in Page(Run(path, plan(), (), finished=False)._repr_html_()).text


def test_a_scheme_that_is_not_installed_is_shown(path):
    run = sx.read(path)
    shown = Run(path, plan(rule={"scheme": EVIL}), run.records, finished=True)
    assert EVIL in Page(shown._repr_html_()).text


def test_what_a_log_says_is_a_claim(tmp_path):
    log = tmp_path / "log"
    log.write_text("idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\t1\t0.5\t1\t0:00:01\n")
    imported, claims, _ = read_log(log, sigma=0.25, n=100_000, alpha=0.001)
    write_all(tmp_path / "log.jsonl", imported, claims)
    run = sx.read(tmp_path / "log.jsonl")
    assert "certified accuracy, as the log claims" in Page(run._repr_html_()).text
    assert "claimed: read from another tool's log" in Page(run.records[0].certificate._repr_html_()).text
    assert "nothing is proved" in Page(sx.verify(run.path)._repr_html_()).text


def test_a_verdict(path):
    assert "every radius follows from its counts (5 of 5 inputs)" in Page(sx.verify(path)._repr_html_()).text
    forge(path, 2, lambda line: line.update(radius=9.0))
    page = Page(sx.verify(path)._repr_html_())
    assert page.text.startswith("run.jsonl: it does not verify, findings: 2 (5 of 5 inputs)")
    assert page.cells[2] == "2"


def test_radii_are_spread_over_all_there_are():
    assert spread([0.0, 0.5]) == [0.0, 0.5]
    assert spread(range(11)) == [0, 2, 4, 6, 8, 10]
    assert len(spread(range(100))) == MOST_RADII


def test_sentences_and_expectations(path):
    run = sx.read(path)
    (pair,) = sx.report.dominance([run, run])
    for said in (pair, sx.report.average_radius(run)):
        assert Page(said._repr_html_()).text == str(said)
    page = Page(sx.report.recertify(run, n=500)._repr_html_())
    assert page.text.startswith("Expected with n 500 at alpha 0.001, from the votes of 5 inputs: not a certificate.")
