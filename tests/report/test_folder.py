from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from sigmax import RequestError
from sigmax.records.run import Run
from sigmax.report import write
from tests.report.pages import markdown_of

MakeRun = Callable[..., Run]
FILES = ["report.html", "report.md", "table.md", "table.csv", "curve.pdf", "curve.png"]


def test_the_files_of_a_report(make_run: MakeRun, tmp_path: Path) -> None:
    """A name with dollars is no formula in the figures; a README of the user's own stays."""
    (tmp_path / "README.md").write_text("mine")
    run = make_run((1, 1, 0.5), (1, 1, 0.99999), (0, None, 0.0), path="a|b $\\frac$ for 5$.jsonl")
    written = write(run, tmp_path)
    assert written == [tmp_path / name for name in FILES]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["README.md", *FILES])
    assert written[4].read_bytes().startswith(b"%PDF")
    assert written[5].read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "README.md").read_text() == "mine"
    row = pd.read_csv(tmp_path / "table.csv").iloc[0]  # keeps every digit
    assert row["ACR"] == 1.49999 / 3
    assert row["0.75"] == 100 / 3
    lines = (tmp_path / "table.md").read_text().splitlines()  # claims no more than was proved
    assert lines[:5] == [
        "| name | sigma | n | alpha | inputs | 0 | 0.25 | 0.5 | 0.75 | ACR | ACR top 10% | abstained |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        r"| a\|b $\\frac$ for 5$ | 0.5 | 1000 | 0.001 | 3 | 66.6 | 66.6 | 66.6 | 33.3 | 0.4999 | 20.0 | 33.4 |",
        "",
        "Certified accuracy in % of inputs (true class certified with radius >= the column's). "
        "ACR is the average certified radius; ACR top 10% says how much of it, in %, the easiest tenth of the inputs "
        "contributes (10 if all radii were equal). Abstained: in % of inputs. Accuracies and ACR are rounded down, the "
        "easiest tenth and abstentions up.",
    ]
    assert lines[6].startswith("ACR is a poor metric")


def test_all_but_one_is_not_all(make_run: MakeRun) -> None:
    assert "| 2500 | 99.9 |" in markdown_of(make_run(*[(1, 1, 0.2)] * 2499, (0, 1, 0.2)))


def test_the_page_says_what_was_run(make_run: MakeRun) -> None:
    page = markdown_of([make_run((1, 1, 0.98765432), (1, 1, 0.5), path="/secret/place/run.jsonl")])
    for fact in (
        "![certified accuracy against the radius](curve.png)",
        "* file: `run.jsonl`",
        "* scheme: smoothed, noise gaussian, sigma 0.5, bound one-sided\n",
        "* classes: 3",
        "* sigma: 0.5",
        "* samples: n=1,000 after n0=10 for selection",
        "* alpha: 0.001",
        "* data: digits test",
        "* fingerprint of the data: f00d",
        "* inputs: 2 of 2 planned, from index 0 on, one in 2",
        "* largest radius of a true class: 0.9876",
        "* seconds: 1.0 in all",
        "* seed: 7",
        "* norm of the radii: l2",
        "* generator: philox-1",
        "* arithmetic: cpu float32",
        "* system: 5e1f",
        "* made with: sigmax 0.1.0, batch 512",
    ):
        assert fact in page
    assert "secret" not in page
    assert "## Notes" not in page


def test_an_unfinished_run_is_noted(make_run: MakeRun) -> None:
    page = markdown_of([make_run((1, 1, 0.5), planned=1500)])
    assert "* run (unfinished):\n  * unfinished, 1 of 1,500 inputs; the figures are of those" in page


@pytest.mark.parametrize(
    ("name", "note"),
    [
        (
            "cifar10",
            "* the runs are of different data (cifar10 test; digits test); their accuracies are not comparable",
        ),
        ("digits", "have one name but differ in content"),
    ],
)
def test_other_data_are_noted(make_run: MakeRun, name: str, note: str) -> None:
    other = {"name": name, "split": "test", "fingerprint": "beef"}
    assert note in markdown_of([make_run((1, 1, 0.5)), make_run((1, 1, 0.5), path="other.jsonl", data=other)])


def test_other_inputs_and_other_samples_are_noted(make_run: MakeRun) -> None:
    page = markdown_of([make_run((1, 1, 0.5)), make_run((1, 1, 0.5), (1, 1, 0.5), path="other.jsonl", n=500)])
    assert "* the runs do not hold the same inputs" in page
    assert "* n or alpha differ" in page


def test_runs_that_differ_in_sigma_alone_need_no_note(make_run: MakeRun) -> None:
    page = markdown_of([make_run((1, 1, 0.5)), make_run((1, 1, 0.5), path="other.jsonl", sigma=1.0)])
    assert "## Notes" not in page


def test_a_report_that_fails_leaves_the_folder_alone(make_run: MakeRun, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="radii must be"):
        write(make_run((1, 1, 0.5)), tmp_path / "report", radii=[-1.0])
    with pytest.raises(RequestError, match="no certified input"):
        write(make_run(planned=5), tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_a_folder_that_cannot_be_written(make_run: MakeRun, tmp_path: Path) -> None:
    (tmp_path / "report").touch()
    with pytest.raises(RequestError, match=r"cannot write .*report/report\.html"):
        write(make_run((1, 1, 0.5)), tmp_path / "report")


def test_a_report_on_published_logs(published: Callable[[str], Run]) -> None:
    cohen = published("cohen")
    imagenet = published("imagenet")
    page = markdown_of([cohen, imagenet, published("gaussian-noise_0.5")])
    assert "imported from cohen-cifar10-sigma_0.25, which holds no counts" in page
    assert "  * 77 rows of radius 0.978 in line 14" in page
    assert "alpha=0.001 (they fit alpha=0.01)" in page
    assert "  * 427 of 500 rows: the log is unfinished" in page
    assert "different data (cifar10 test; imagenet val)" in page
    assert "not every run states its data" in page


def test_data_are_compared_by_what_is_stated(make_run: MakeRun) -> None:
    """A log that names its data but not its split is not of other data."""
    log = {"name": "digits", "split": "not stated", "fingerprint": None}
    page = markdown_of([make_run((1, 1, 0.5)), make_run((1, 1, 0.5), path="log.jsonl", data=log)])
    assert "different data" not in page
    assert "* not every run states its data and split" in page
    assert "* data: digits\n" in page
    train = {"name": "digits", "split": "train", "fingerprint": None}
    page = markdown_of([make_run((1, 1, 0.5)), make_run((1, 1, 0.5), path="log.jsonl", data=train)])
    assert "different data (digits test; digits train)" in page
    nothing = {"name": "not stated", "split": "not stated", "fingerprint": None}
    assert "* data: not stated\n" in markdown_of([make_run((1, 1, 0.5), data=nothing)])


def test_names_are_text_in_markdown(make_run: MakeRun) -> None:
    name = "[link](javascript:alert(1)) *b* <img src=x> `c` sigma_0.25 _d_"
    page = markdown_of([make_run((1, 1, 0.5), path=f"{name}.jsonl", planned=9)])
    plain = r"\[link\](javascript:alert(1)) \*b\* &lt;img src=x> \`c\` sigma_0.25 \_d\_ (unfinished)"
    assert f"| {plain} | 0.5 |" in page
    assert f"### {plain}\n" in page
    assert f"* {plain}:\n" in page
    assert f"* file: `` {name}.jsonl ``\n" in page


def test_radii_asked_for_reach_the_table(make_run: MakeRun, tmp_path: Path) -> None:
    runs = [make_run((1, 1, 0.5), (1, 1, 1.0), path=f"{name}.jsonl") for name in "ab"]
    write(runs, tmp_path, radii=[0.5, 2])
    table = (tmp_path / "table.md").read_text()
    assert "| 100.0 | 0.0 | 0.7500 |" in table
    assert "with radius >= the column's" in table
    assert "certified with R >= r" in (tmp_path / "report.md").read_text()
