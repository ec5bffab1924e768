from collections.abc import Callable
from pathlib import Path

import pytest

from sigmax import RequestError
from sigmax.records.journal import write_all
from sigmax.records.run import Run
from sigmax.report import compare
from sigmax.report.runs import named

MakeRun = Callable[..., Run]


def test_a_row_a_run(make_run: MakeRun) -> None:
    first = make_run((1, 1, 0.5), (1, 1, 1.1), (2, 1, 3.0), (0, None, 0.0), path="first.jsonl")
    second = make_run((1, 1, 0.2), path="second.jsonl", sigma=0.25, n=500, alpha=0.01)
    frame = compare([first, second])
    assert list(frame.columns) == [
        *("name", "sigma", "n", "alpha", "inputs"),
        *("0", "0.25", "0.5", "0.75", "1"),
        *("ACR", "ACR top 10%", "abstained"),
    ]
    assert frame.iloc[0].tolist() == [
        "first",
        "0.5",
        1000,
        0.001,
        4,
        50.0,
        50.0,
        50.0,
        25.0,
        25.0,
        0.4,
        pytest.approx(27.5),
        25.0,
    ]
    assert frame.iloc[1].tolist() == [
        "second",
        "0.25",
        500,
        0.01,
        1,
        100.0,
        0.0,
        0.0,
        0.0,
        0.0,
        0.2,
        pytest.approx(10.0),
        0.0,
    ]


def test_radii_as_asked(make_run: MakeRun) -> None:
    run = make_run((1, 1, 0.5), (1, 1, 1.0))
    assert compare(run, [0.5, 1])[["0.5", "1"]].iloc[0].tolist() == [100.0, 50.0]


def test_radii_keep_every_digit_and_their_own_column(make_run: MakeRun) -> None:
    radii = [-0.0, 0.1 + 0.2, 0.2499999, 0.25, 0.25000001, 1, 10.0, 1e-7]
    columns = list(compare(make_run((1, 1, 0.25)), radii).columns)
    texts = ["0", "0.30000000000000004", "0.2499999", "0.25", "0.25000001", "1", "10", "1e-07"]
    assert columns[5:-3] == texts
    row = compare(make_run((1, 1, 0.25)), [0.25, 0.25000001]).iloc[0]
    assert (row["0.25"], row["0.25000001"]) == (100.0, 0.0)


def test_several_sigmas(make_run: MakeRun) -> None:
    def mixed(*sigmas: float) -> Run:
        runs = [make_run((1, 1, 0.1), sigma=sigma) for sigma in sigmas]
        return Run(Path("mixed.jsonl"), runs[0].plan, tuple(run.records[0] for run in runs), finished=False)

    assert compare(mixed(1.0, 0.25, 0.5, 0.25))["sigma"].tolist() == ["0.25, 0.5, 1"]
    assert compare(mixed(0.1, 0.2, 0.3, 0.4, 0.45))["sigma"].tolist() == ["0.1 to 0.45"]


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["a.jsonl", "b.jsonl.gz"], ["a", "b"]),
        (["sigma_0.25", "noise_0.5.tsv.jsonl"], ["sigma_0.25", "noise_0.5.tsv"]),
        (["my.best.jsonl"], ["my.best"]),
        (["/x/one/run.jsonl", "/x/two/run.jsonl", "/x/other.jsonl"], ["one/run", "two/run", "other"]),
        (["/x/one/run.jsonl", "/y/one/run.jsonl"], ["one/run (1)", "one/run (2)"]),
        (["/x/run.jsonl", "/x/run.jsonl"], ["x/run (1)", "x/run (2)"]),
    ],
)
def test_names_are_the_files_and_unique(make_run: MakeRun, paths: list[str], names: list[str]) -> None:
    assert list(named([make_run((1, 1, 0.1), path=path) for path in paths])) == names


def test_one_run_or_path_needs_no_list(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run((1, 1, 0.1))
    write_all(tmp_path / "kept.jsonl", run.plan, run.records)
    assert compare(str(tmp_path / "kept.jsonl"))["name"].tolist() == ["kept"]
    assert compare(run)["name"].tolist() == ["run"]


def test_nothing_to_compare(make_run: MakeRun) -> None:
    with pytest.raises(RequestError, match="at least one run"):
        compare([])
    with pytest.raises(RequestError, match="empty.jsonl holds no certified input yet"):
        compare([make_run((1, 1, 0.1)), make_run(planned=3, path="empty.jsonl")])


def test_published_logs_side_by_side(published: Callable[[str], Run]) -> None:
    frame = compare([published("catrs-noise_1.0"), published("gaussian-noise_0.5")], [0.5, 3.75])
    assert frame["name"].tolist() == ["catrs-noise_1.0", "gaussian-noise_0.5"]
    assert frame["sigma"].tolist() == ["1", "0.5"]
    assert frame["0.5"].tolist() == [37.25, 46.22]
    assert frame["3.75"].tolist() == [2.66, 0.0]
    assert frame["abstained"].tolist() == [12.85, 15.35]
