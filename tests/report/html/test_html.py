import re
import sys
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sigmax as sx
from sigmax import RequestError
from sigmax.records.logs.read import read_log
from sigmax.records.rounding import down
from sigmax.records.run import Run
from sigmax.report import certified_accuracy, write
from sigmax.report.html import packing
from sigmax.report.html.figures import MOST_STEPS
from sigmax.report.html.packing import millionths, millionths_up
from sigmax.report.tables import outcomes
from sigmax.rules.smoothed import SmoothedRule
from tests.report.duals import LOW, run_of, votes
from tests.report.pages import at, data, page_of

MakeRun = Callable[..., Run]
Runs = dict[str, Run]


@given(st.floats(-1e6, 1e6))
def test_millionths_are_what_rounding_down_prints(value: float) -> None:
    found = millionths(value)
    assert found is not None
    assert found == int(down(value, 6).replace(".", ""))
    up = millionths_up(value)
    assert up is not None
    assert 0 <= up - found <= 1


def test_no_number_is_none() -> None:
    assert millionths(None) is millionths(float("nan")) is millionths_up(None) is None


def test_the_page_holds_the_votes_of_every_stage(digits_runs: Runs) -> None:
    for name in ("mid", "consensus", "min", "tree", "with-exact"):
        run = digits_runs[name]
        columns = data(page_of(run), "data-run-0")
        for row, record in enumerate(run.records):
            kept = {
                stage["name"]: stage["votes"][row if stage["inputs"] is None else stage["inputs"].index(row)]
                for stage in columns["stages"]
                if stage["inputs"] is None or row in stage["inputs"]
            }
            stages = record.certificate.stages
            assert kept.keys() == {stage.name for stage in stages}
            for stage in stages:
                votes = kept[stage.name]
                assert sum(votes[1::2]) == stage.n
                assert votes[1::2][:8] == sorted((k for k in stage.counts if k), reverse=True)[:8]
                assert all(stage.counts[c] == k for c, k in zip(votes[::2], votes[1::2], strict=True) if c >= 0)


def test_the_page_holds_what_was_concluded(digits_runs: Runs) -> None:
    run = digits_runs["consensus"]
    columns = data(page_of(run), "data-run-0")
    for row, record in enumerate(run.records):
        c = record.certificate
        assert columns["index"][row] == record.index
        assert at(columns["label"], row) == record.label
        assert at(columns["predicted"], row) == (-1 if c.predicted is None else c.predicted)
        assert at(columns["outcome"], row) == c.outcome.name.lower()
        assert columns["radius"][row] == millionths(c.radius)
        assert at(columns["samples"], row) == c.samples


def test_a_dual_run_brings_its_routing(digits_runs: Runs) -> None:
    run = digits_runs["consensus"]
    alone = data(page_of(run), "data-run-0")
    frame = sx.report.routing(run)
    assert [at(alone["R_sigma"], i) for i in range(len(frame))] == [millionths(r) for r in frame["R_sigma"]]
    assert [at(alone["route"], i) for i in range(len(frame))] == frame["route"].tolist()
    assert "dRc" not in alone
    beside = data(page_of([run, *(digits_runs[name] for name in ("low", "mid", "high"))]), "data-run-0")
    expected = sx.report.diagnose(run, [digits_runs[name] for name in ("low", "mid", "high")]).frame
    by_index = {index: at(beside["dRc"], i) for i, index in enumerate(beside["index"])}
    assert by_index == {index: millionths(lost) for index, lost in zip(expected["index"], expected["dRc"], strict=True)}


def test_inputs_that_the_experts_lack_keep_what_is_known_of_them(digits_runs: Runs) -> None:
    run = digits_runs["consensus"]
    experts = [
        replace(of, records=tuple(r for r in of.records if r.index < 30))
        for of in (digits_runs[name] for name in ("low", "mid", "high"))
    ]
    columns = data(page_of([run, *experts]), "data-run-0")
    whole = sx.report.routing(run)
    assert [at(columns["R_sigma"], i) for i in range(40)] == [millionths(r) for r in whole["R_sigma"]]
    assert all((at(columns["dRc"], i) is None) == (index >= 30) for i, index in enumerate(columns["index"]))


def test_stages_have_titles_in_order_and_votes_say_what_they_are_for(digits_runs: Runs) -> None:
    stages = data(page_of(digits_runs["tree"]), "data-run-0")["stages"]
    assert [stage["title"] for stage in stages] == [
        *("router, selection", "router, estimation", "expert 0, selection", "expert 0, estimation"),
        *("expert 1, router, selection", "expert 1, router, estimation"),
        *(f"expert 1, expert {j}, {role}" for j in (0, 1) for role in ("selection", "estimation")),
    ]
    routes = {stage["title"]: stage["routes"] for stage in stages}
    assert routes["expert 1, router, estimation"] == ["expert 0 (sigma 0.2)", "expert 1 (sigma 0.4)"]
    assert routes["expert 0, estimation"] is None


def test_every_input_says_who_answered_and_what_limits_the_radius(cascade_run: Run, digits_runs: Runs) -> None:
    for run in (cascade_run, digits_runs["consensus"], digits_runs["mid"]):
        columns = data(page_of(run), "data-run-0")
        titles = {stage["name"]: stage["title"] for stage in columns["stages"]}
        for row, record in enumerate(run.records):
            c = record.certificate
            assert at(columns["answered"], row) == (c.answered_by or "").replace("-", " ")
            assert at(columns["limited"], row) == titles[c.limited_by]
            assert at(columns["sigma"], row) == c.sigma
    columns = data(page_of(cascade_run), "data-run-0")
    defer = {stage["title"]: stage["defer"] for stage in columns["stages"]}
    assert (defer["level 0, estimation"], defer["last, estimation"]) == (10, None)
    assert {at(columns["answered"], row) for row in range(len(cascade_run.records))} == {"level 0", "last"}


def test_settings_are_as_they_are_and_radii_rounded_down(make_run: MakeRun) -> None:
    columns = data(page_of(make_run((1, 1, 0.12), sigma=0.12)), "data-run-0")
    assert (columns["sigma"], columns["stages"][0]["sigma"], columns["radius"]) == (0.12, 0.12, [119_999])


def test_radii_of_a_log_are_as_they_were_printed(tmp_path: Path) -> None:
    (tmp_path / "sigma_0.25").write_text("idx\tlabel\tpredict\tradius\n0\t3\t3\t0.941\n1\t3\t3\t0.12\n")
    plan, records, _ = read_log(tmp_path / "sigma_0.25", n=100_000, alpha=0.001)
    page = page_of(Run(Path("log.jsonl"), plan, tuple(records), finished=True))
    assert data(page, "data-run-0")["radius"] == [941_000, 120_000]
    assert {120_000, 941_000} <= set(data(page, "data-page")["figures"][0]["lines"][0]["x"])


def test_many_steps_are_thinned_and_never_drawn_too_high(make_run: MakeRun) -> None:
    run = make_run(*((1, 1, float(r)) for r in np.random.default_rng(0).exponential(size=5_000)), (0, 1, 9.0))
    figure = data(page_of(run), "data-page")["figures"][0]
    (line,) = figure["lines"]
    assert len(line["x"]) == MOST_STEPS
    asked = np.linspace(0, 8, 999)
    drawn = np.append(line["y"], 0)[np.searchsorted(np.array(line["x"]) / 1e6, asked)] / 10_000
    exact = certified_accuracy(run, asked).to_numpy()
    assert np.all(drawn <= exact)
    assert np.max(exact - drawn) < 0.001


def test_the_page_asks_for_nothing_and_runs_only_its_own_scripts(digits_runs: Runs) -> None:
    page = page_of(digits_runs["mid"])
    assert not re.findall(r'(?:src|href)="(?!#)[^"]*"', page.split("application/octet-stream")[0])
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    (script,) = re.findall(r'<script type="module">(.*?)</script>', page, re.DOTALL)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert b64encode(sha256(script.encode()).digest()).decode() in policy
    assert "http:" not in policy
    assert "https:" not in policy


def test_names_are_text_wherever_they_come_from(make_run: MakeRun) -> None:
    evil = "<img src=x onerror=alert(1)>"
    described = {"name": evil, "split": "test", "fingerprint": "f00d", "classes": [f"</script>{evil}"] * 3}
    page = page_of([make_run((1, 1, 0.5), path=f"{evil}{i}.jsonl", data=described) for i in range(2)])
    assert "<img" not in page
    assert data(page, "data-page")["runs"][0]["classes"][0] == f"</script>{evil}"


def test_which_run_is_better_stands_in_words(make_run: MakeRun) -> None:
    better, worse = (
        make_run((1, 1, 0.5), path="better.jsonl", sigma=1.0),
        make_run((1, 1, 0.25), path="worse.jsonl"),
    )
    assert "better is at least as good as worse at every radius" in page_of([better, worse])
    assert "There is one run" in page_of(better)


def test_a_log_without_counts_has_a_page(published: Callable[[str], Run]) -> None:
    page = page_of([published("cohen"), published("gaussian-noise_0.5")])
    assert "imported from cohen-cifar10-sigma_0.25, which holds no counts" in page
    columns = data(page, "data-run-1")
    assert len(columns["index"]) == len(published("gaussian-noise_0.5").records)


def test_without_plotly_it_says_what_to_install(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packing.plotly.cache_clear()
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(RequestError, match=r"pip install 'sigmax\[plot\]'"):
        write(make_run((1, 1, 0.5)), tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_intervals_of_outcomes_are_rounded_outward(make_run: MakeRun) -> None:
    """None of 10,000 has an upper end of 0.037%, and 3 of 7 have one of 81.59%."""
    all_right = make_run(*[(1, 1, 0.5)] * 10_000)
    some = make_run(*[(1, 1, 0.5)] * 3, *[(1, 0, 0.5)] * 2, *[(1, None, 0.0)] * 2)
    names, rows = outcomes({"all": all_right, "some": some})
    assert names == ["run", "certified", "misclassified", "abstained"]
    assert rows == [
        ["all", "100.0 (99.9 to 100.0)", "0.0 (0.0 to 0.1)", "0.0 (0.0 to 0.1)"],
        ["some", "42.8 (9.8 to 81.6)", "28.6 (3.6 to 71.0)", "28.6 (3.6 to 71.0)"],
    ]


def test_the_note_on_p_A_knows_the_bound() -> None:
    rival = SmoothedRule.gaussian(0.5, 3, bound="runner-up")
    one, other = (run_of(rule, [(0, votes(0, 900))], name=name) for name, rule in (("one", LOW), ("other", rival)))

    def note(*runs: Run) -> str:
        (figure,) = [f for f in data(page_of(runs), "data-page")["figures"] if f["key"] == "shares"]
        return figure["note"]

    assert note(one).endswith("An input is certified only where p_A is above one half.")
    assert "above one half, but for other, which need to lead the runner-up alone." in note(one, other)
    assert "certified only" not in note(other)


def test_without_labels_the_page_does_not_speak_of_the_true_class(make_run: MakeRun) -> None:
    run = make_run((1, 1, 0.5))
    plan = replace(run.plan, data={**run.plan.data, "labelled": False})
    unknown = replace(run, plan=plan, records=tuple(replace(record, label=None) for record in run.records))
    for one, labelled in ((run, True), (unknown, False)):
        page = page_of(one).split("application/octet-stream")[0].split("</style>")[1]
        assert ("true class" in page, "wrong class" in page) == (labelled, labelled)


def test_commands_are_code_and_no_backtick_is_left(make_run: MakeRun) -> None:
    page = page_of(make_run((1, 1, 0.5), planned=9)).split("application/octet-stream")[0]
    assert "Radii are as recorded; <code>sigmax verify</code> checks them" in page
    assert "`" not in page.split("</style>")[1]
    bullets = packing.template("parts.html").module.bullets(["`a <b>` c"])  # type: ignore[attr-defined]
    assert bullets == "<ul><li><code>a &lt;b&gt;</code> c</li></ul>"
