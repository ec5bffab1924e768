from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from sigmax import RequestError
from sigmax.records.run import Run
from sigmax.report import write

MakeRun = Callable[..., Run]
FILES = ["report.html", "report.md", "table.md", "table.csv", "curve.png", "curve.pdf"]


def page_of(folder: Path, *runs: Run) -> str:
    write(runs, folder)
    return (folder / "report.md").read_text()


def test_the_files_of_a_report(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run((1, 1, 0.5), (1, 1, 0.99999), (0, None, 0.0))
    written = write(run, tmp_path / "new" / "report")
    assert written == [tmp_path / "new" / "report" / name for name in FILES]
    assert sorted(p.name for p in (tmp_path / "new" / "report").iterdir()) == sorted(FILES)
    assert written[4].read_bytes().startswith(b"\x89PNG")
    assert written[5].read_bytes().startswith(b"%PDF")


def test_the_table_for_reading_claims_no_more_than_was_proved(make_run: MakeRun, tmp_path: Path) -> None:
    write(make_run((1, 1, 0.5), (1, 1, 0.99999), (0, None, 0.0)), tmp_path)
    lines = (tmp_path / "table.md").read_text().splitlines()
    assert lines[:5] == [
        "| name | sigma | n | alpha | inputs | 0 | 0.25 | 0.5 | 0.75 | ACR | ACR top 10% | abstained |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| run | 0.5 | 1000 | 0.001 | 3 | 66.6 | 66.6 | 66.6 | 33.3 | 0.4999 | 20.0 | 33.4 |",
        "",
        "Certified accuracy in % of inputs (true class certified with radius >= the column's); "
        "ACR: average certified radius; ACR top 10%: the part of it, in %, that the easiest tenth of the inputs "
        "makes; abstained: in % of inputs. Rounded to the side that claims less: accuracies and ACR down, "
        "the easiest tenth and abstentions up.",
    ]
    assert lines[6].startswith("ACR is a poor metric")


def test_all_but_one_is_not_all(make_run: MakeRun, tmp_path: Path) -> None:
    page = page_of(tmp_path, make_run(*[(1, 1, 0.2)] * 2499, (0, 1, 0.2)))
    for table in (page, (tmp_path / "table.md").read_text()):
        assert "| 2500 | 99.9 |" in table


def test_a_readme_of_the_users_own_stays(make_run: MakeRun, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    write(make_run((1, 1, 0.5)), tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"


def test_the_table_for_machines_keeps_every_digit(make_run: MakeRun, tmp_path: Path) -> None:
    write(make_run((1, 1, 0.5), (1, 1, 0.99999), (0, None, 0.0)), tmp_path)
    row = pd.read_csv(tmp_path / "table.csv").iloc[0]
    assert row["ACR"] == 1.49999 / 3
    assert row["0.75"] == 100 / 3


def test_radii_and_convention_reach_the_table(make_run: MakeRun, tmp_path: Path) -> None:
    write(make_run((1, 1, 0.5), (1, 1, 1.0)), tmp_path, radii=[0.5, 2], strict=True)
    table = (tmp_path / "table.md").read_text()
    assert "| 50.0 | 0.0 | 0.7500 |" in table
    assert "with radius > the column's" in table


def test_the_page_says_what_was_run(make_run: MakeRun, tmp_path: Path) -> None:
    page = page_of(tmp_path, make_run((1, 1, 0.98765432), (1, 1, 0.5), path="/secret/place/run.jsonl"))
    for fact in (
        "![certified accuracy against the radius](curve.png)",
        "* file: `run.jsonl`",
        "* scheme: smoothed, classes 3, bound one-sided",
        "* sigma: 0.5",
        "* draws: n=1,000 after n0=10 to select the class",
        "* alpha: 0.001",
        "* data: digits test",
        "* fingerprint of the data: f00d",
        "* inputs: 2 of 2 planned, from index 0 on, one in 2",
        "* largest radius of a true class: 0.9876",
        "* seconds: 1.0 in all",
        "* seed: 7",
        "* noise: philox-1",
        "* arithmetic: cpu float32",
        "* system: 5e1f",
        "* made with: sigmax 0.1.0, batch 512",
    ):
        assert fact in page
    assert "secret" not in page
    assert "## Notes" not in page


def test_an_unfinished_run_is_noted(make_run: MakeRun, tmp_path: Path) -> None:
    page = page_of(tmp_path, make_run((1, 1, 0.5), planned=1500))
    assert "* run (unfinished):\n  * unfinished, 1 of 1,500 inputs; the figures are of those" in page


def test_mixed_data_are_noted(make_run: MakeRun, tmp_path: Path) -> None:
    other = {"name": "cifar10", "split": "test", "fingerprint": "beef"}
    page = page_of(tmp_path, make_run((1, 1, 0.5)), make_run((1, 1, 0.5), path="other.jsonl", data=other))
    assert (
        "* the runs are of different data (cifar10 test; digits test); their accuracies are not comparable" in page
    )


def test_the_same_name_with_other_content_is_noted(make_run: MakeRun, tmp_path: Path) -> None:
    other = {"name": "digits", "split": "test", "fingerprint": "beef"}
    page = page_of(tmp_path, make_run((1, 1, 0.5)), make_run((1, 1, 0.5), path="other.jsonl", data=other))
    assert "have one name but differ in content" in page


def test_other_inputs_and_other_draws_are_noted(make_run: MakeRun, tmp_path: Path) -> None:
    page = page_of(tmp_path, make_run((1, 1, 0.5)), make_run((1, 1, 0.5), (1, 1, 0.5), path="other.jsonl", n=500))
    assert "* the runs do not hold the same inputs" in page
    assert "* n or alpha differ" in page


def test_runs_that_differ_in_sigma_alone_need_no_note(make_run: MakeRun, tmp_path: Path) -> None:
    page = page_of(tmp_path, make_run((1, 1, 0.5)), make_run((1, 1, 0.5), path="other.jsonl", sigma=1.0))
    assert "## Notes" not in page


def test_names_cannot_break_the_table(make_run: MakeRun, tmp_path: Path) -> None:
    write(make_run((1, 1, 0.5), path="a|b.jsonl"), tmp_path)
    assert (tmp_path / "table.md").read_text().splitlines()[2].startswith(r"| a\|b | 0.5 |")


def test_the_same_runs_give_the_same_bytes(make_run: MakeRun, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        write(make_run((1, 1, 0.5), (0, None, 0.0)), tmp_path / folder)
    for name in FILES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


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


def test_a_report_on_published_logs(published: Callable[[str], Run], tmp_path: Path) -> None:
    cohen = published("cohen")
    imagenet = published("imagenet")
    page = page_of(tmp_path, cohen, imagenet, published("gaussian-noise_0.5"))
    assert "imported from cohen-cifar10-sigma_0.25, which holds no counts" in page
    assert "  * 77 rows of radius 0.978 in line 14" in page
    assert "alpha=0.001 (they fit alpha=0.01)" in page
    assert "  * 427 of 500 rows: the log is unfinished" in page
    assert "different data (cifar10 test; imagenet val)" in page
    assert "not every run states its data" in page


def test_data_are_compared_by_what_is_stated(make_run: MakeRun, tmp_path: Path) -> None:
    """A log that names its data but not its split is not of other data."""
    log = {"name": "digits", "split": "not stated", "fingerprint": None}
    page = page_of(tmp_path, make_run((1, 1, 0.5)), make_run((1, 1, 0.5), path="log.jsonl", data=log))
    assert "different data" not in page
    assert "* not every run states its data and split" in page
    assert "* data: digits\n" in page
    train = {"name": "digits", "split": "train", "fingerprint": None}
    page = page_of(tmp_path, make_run((1, 1, 0.5)), make_run((1, 1, 0.5), path="log.jsonl", data=train))
    assert "different data (digits test; digits train)" in page
    nothing = {"name": "not stated", "split": "not stated", "fingerprint": None}
    assert "* data: not stated\n" in page_of(tmp_path, make_run((1, 1, 0.5), data=nothing))


def test_names_are_text_in_markdown(make_run: MakeRun, tmp_path: Path) -> None:
    name = "[link](javascript:alert(1)) *b* <img src=x> `c` sigma_0.25 _d_"
    page = page_of(tmp_path, make_run((1, 1, 0.5), path=f"{name}.jsonl", planned=9))
    plain = r"\[link\](javascript:alert(1)) \*b\* &lt;img src=x> \`c\` sigma_0.25 \_d\_ (unfinished)"
    assert f"| {plain} | 0.5 |" in page
    assert f"### {plain}\n" in page
    assert f"* {plain}:\n" in page
    assert f"* file: `` {name}.jsonl ``\n" in page


def test_a_dollar_in_a_name_is_no_formula(make_run: MakeRun, tmp_path: Path) -> None:
    write(make_run((1, 1, 0.5), path="a$\\frac$ for 5$.jsonl"), tmp_path)
    assert (tmp_path / "curve.png").stat().st_size > 1000


def test_the_convention_of_curves_is_said_where_tables_have_another(make_run: MakeRun, tmp_path: Path) -> None:
    runs = [make_run((1, 1, 0.5), path=f"{name}.jsonl") for name in "ab"]
    told = "Curves and sentences count a radius that is reached"
    write(runs, tmp_path, strict=True)
    assert told in (tmp_path / "report.html").read_text()
    assert "certified with R >= r" in (tmp_path / "report.md").read_text()
    write(runs, tmp_path)
    assert told not in (tmp_path / "report.html").read_text()
