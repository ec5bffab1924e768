import json
import sys
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sigmax import RequestError
from sigmax.files import written_whole
from sigmax.records.export import export_csv, export_parquet, export_tsv
from sigmax.records.lines import Record
from sigmax.records.logs.read import read_log
from sigmax.records.plan import Plan
from sigmax.records.run import Run
from sigmax.rules.cascade.rule import CascadeRule
from sigmax.rules.certificate import Certificate, Outcome, Role, Stage
from sigmax.rules.smoothed import SmoothedRule

PLAN = Plan(
    rule=dict(SmoothedRule.gaussian(0.5, 3).describe()),
    n0=10,
    n=100,
    alpha=0.001,
    seed=0,
    generator="philox",
    norm="l2",
    arithmetic="cpu float32",
    data={"name": "digits", "split": "test", "fingerprint": "f00"},
    inputs={"start": 5, "skip": 5, "count": 4},
    system="5e1f",
)


def record(index: int, label: int, predicted: int | None, radius: float, seconds: float = 1.25) -> Record:
    selection = Stage("", Role.SELECTION, 0.52, (1, 8, 1), 10)
    estimation = Stage("", Role.ESTIMATION, 0.52, (2, 97, 1), 100, alpha=0.001, lower=0.9, upper=None, radius=radius)
    stages = (selection,) if predicted is None else (selection, estimation)  # as if sampling had stopped early
    outcome = Outcome.TOO_CLOSE if predicted is None else Outcome.CERTIFIED
    answered = {} if predicted is None else {"answered_by": "", "limited_by": "estimation"}
    return Record(index, label, Certificate(predicted, radius, outcome, 0.001, stages, **answered), seconds)


def run_of(*records: Record) -> Run:
    return Run(Path("run.jsonl"), PLAN, records, finished=True)


RUN = run_of(
    record(5, 1, 1, 0.4567899),
    record(10, 2, 1, 0.1),
    record(15, 0, None, 0.0, seconds=90061.5),
    record(20, 1, 1, 0.7),
)


def test_the_format_of_published_logs(tmp_path: Path) -> None:
    export_tsv(RUN, tmp_path / "log.tsv")
    assert (tmp_path / "log.tsv").read_text().splitlines() == [
        "idx\tlabel\tpredict\tradius\tcorrect\ttime\tsigma\tsamples\tlimited_by",
        "5\t1\t1\t0.456789\t1\t0:00:01.250000\t0.52\t110\testimation",
        "10\t2\t1\t0.100000\t0\t0:00:01.250000\t0.52\t110\testimation",
        "15\t0\t-1\t0.000000\t0\t1 day, 1:01:01.500000\t\t10\t",  # nobody answered
        "20\t1\t1\t0.699999\t1\t0:00:01.250000\t0.52\t110\testimation",  # the float lies below 0.7
    ]


def test_the_table_is_in_order_however_the_inputs_were_finished(tmp_path: Path) -> None:
    for name, run in {"in": RUN, "out": run_of(*reversed(RUN.records))}.items():
        export_tsv(run, tmp_path / f"{name}.tsv")
    assert (tmp_path / "in.tsv").read_text() == (tmp_path / "out.tsv").read_text()


def test_what_is_exported_reads_back(tmp_path: Path) -> None:
    export_tsv(RUN, tmp_path / "log.tsv")
    plan, records, report = read_log(tmp_path / "log.tsv", sigma=0.52, n=100, alpha=0.001)
    assert report.notes == ()
    assert plan.inputs == PLAN.inputs
    assert plan.rule["radii"] == "as printed: 6 decimals, rounded to nearest"
    for before, after in zip(RUN.records, records, strict=True):
        assert (after.index, after.label, after.seconds) == (before.index, before.label, before.seconds)
        assert after.certificate.predicted == before.certificate.predicted
        assert 0 <= before.certificate.radius - after.certificate.radius < 1e-6


def test_radii_of_an_imported_log_are_printed_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("idx\tlabel\tpredict\tradius\n0\t3\t3\t0.941\n1\t3\t3\t0.12\n")
    plan, records, _ = read_log(tmp_path / "log", sigma=0.25, n=100_000, alpha=0.001)
    export_tsv(Run(Path("run.jsonl"), plan, tuple(records), finished=True), tmp_path / "again.tsv")
    assert pd.read_csv(tmp_path / "again.tsv", sep="\t", dtype=str)["radius"].tolist() == ["0.941", "0.12"]


def test_a_cascade_has_the_columns_of_jeong_and_shin(tmp_path: Path) -> None:
    rule = CascadeRule((SmoothedRule.gaussian(1.0, 3, defers=True),), SmoothedRule.gaussian(0.5, 3)).describe()

    def votes(part: str, counts: tuple[int, ...], **bounds: float) -> Stage:
        return Stage(part, Role.ESTIMATION, 1.0 if part == "level-0" else 0.5, counts, sum(counts), **bounds)

    def ended(index: int, predicted: int | None, radius: float, outcome: Outcome, by: str, *stages: Stage) -> Record:
        return Record(index, 1, Certificate(predicted, radius, outcome, 0.001, stages, answered_by=by), 1.0)

    answered = votes("level-0", (2, 90, 0, 8), lower=0.8, upper=0.1, radius=0.9)
    deferred = votes("level-0", (2, 8, 0, 90), upper=0.2, radius=0.75)
    undecided = votes("level-0", (1, 49, 0, 50), lower=0.4, upper=0.1, radius=0.0)
    records = (
        ended(0, 1, 0.9, Outcome.CERTIFIED, "level-0", answered),
        ended(1, 2, 0.25, Outcome.CERTIFIED, "last", deferred, votes("last", (0, 10, 90), radius=0.25)),
        ended(2, None, 0.0, Outcome.LEVEL_UNDECIDED, "level-0", undecided),
        # The level answers, and the last one was asked how far its class holds beyond.
        ended(3, 1, 0.9375, Outcome.CERTIFIED, "level-0", answered, votes("last", (0, 99, 1), radius=0.9375)),
    )
    run = Run(Path("run.jsonl"), replace(PLAN, rule=rule, inputs={"start": 0, "skip": 1, "count": 4}), records, True)
    export_tsv(run, tmp_path / "log.tsv")
    found = pd.read_csv(tmp_path / "log.tsv", sep="\t", dtype=str).drop(columns="time")
    assert " ".join(found.columns[:9]) == "idx label predict radius r_neg correct pred_uc corr_uc stage"
    assert [" ".join(row[:9]) for row in found.to_numpy()] == [
        "0 1 1 0.900000 inf 1 1 1 0",
        "1 1 2 0.250000 0.750000 0 2 0 1",
        "2 1 -2 0.000000 inf 0 -1 0 0",
        "3 1 1 0.937500 inf 1 1 1 0",
    ]
    assert found["sigma"].tolist() == ["1.0", "0.5", "1.0", "1.0"]


radii = st.floats(0, 3.8)


@settings(deadline=None, max_examples=30)
@given(st.lists(radii, min_size=1, max_size=8))
def test_an_exported_radius_never_exceeds_the_one_recorded(
    tmp_path_factory: pytest.TempPathFactory, radii: list[float]
) -> None:
    path = tmp_path_factory.mktemp("export") / "log.tsv"
    export_tsv(run_of(*(record(i, 1, 1, r) for i, r in enumerate(radii))), path)
    printed = pd.read_csv(path, sep="\t", dtype=str)["radius"]
    assert all(Fraction(text) <= Fraction(radius) for text, radius in zip(printed, radii, strict=True))


def test_other_tools_read_the_time(tmp_path: Path) -> None:
    export_tsv(RUN, tmp_path / "log.tsv")
    times = pd.to_timedelta(pd.read_csv(tmp_path / "log.tsv", sep="\t")["time"].str.replace(",", ""))
    assert list(times) == [timedelta(seconds=r.seconds) for r in RUN.records]


def test_csv_holds_the_frame_with_every_digit_by_index(tmp_path: Path) -> None:
    export_csv(run_of(*reversed(RUN.records)), tmp_path / "run.csv")
    found = pd.read_csv(tmp_path / "run.csv")
    pd.testing.assert_frame_equal(found, RUN.frame(), check_dtype=False)
    assert found["index"].tolist() == [5, 10, 15, 20]
    assert "0.52,110,1.25,estimation" in (tmp_path / "run.csv").read_text()


def test_parquet_holds_the_frame_with_every_digit_and_each_stage(tmp_path: Path) -> None:
    export_parquet(RUN, tmp_path / "run.parquet")
    frame = pd.read_parquet(tmp_path / "run.parquet")
    expected = RUN.frame()
    pd.testing.assert_frame_equal(frame[list(expected.columns)], expected)
    assert [list(counts) for counts in frame["selection_counts"]] == [[1, 8, 1]] * 4
    assert frame["estimation_lower"].tolist()[:2] == [0.9, 0.9]
    assert frame["estimation_radius"][0] == 0.4567899
    assert frame["estimation_counts"][2] is None  # the input did not reach this stage
    assert frame["estimation_upper"].isna().all()
    assert frame["estimation_upper"].dtype == float
    assert set(frame.columns) - set(expected.columns) == {
        f"{stage}_{what}"
        for stage in ("selection", "estimation")
        for what in ("sigma", "n", "counts", "alpha", "lower", "upper", "radius")
    }


def test_parquet_carries_the_plan(tmp_path: Path) -> None:
    import pyarrow.parquet

    export_parquet(RUN, tmp_path / "run.parquet")
    stored = pyarrow.parquet.read_schema(tmp_path / "run.parquet").metadata[b"sigmax.plan"]
    assert Plan.from_json(json.loads(stored)) == PLAN


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(RequestError, match=r"pip install 'sigmax\[parquet\]'"):
        export_parquet(RUN, tmp_path / "run.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("export", [export_tsv, export_csv, export_parquet])
def test_places_that_cannot_be_written(tmp_path: Path, export: object) -> None:
    assert callable(export)
    (tmp_path / "file").touch()
    with pytest.raises(RequestError, match=r"cannot write .*/file/log"):
        export(RUN, tmp_path / "file" / "log")
    (tmp_path / "folder").mkdir()
    with pytest.raises(RequestError, match=r"cannot write .*/folder .*directory"):
        export(RUN, tmp_path / "folder")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_missing_folders_are_made_and_old_files_replaced(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "log.tsv"
    export_tsv(run_of(RUN.records[0]), path)
    export_tsv(RUN, path)
    assert len(path.read_text().splitlines()) == 5
    assert list(path.parent.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "log.tsv"
    path.write_text("old")

    def fail() -> None:
        with written_whole(path) as draft:
            draft.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
