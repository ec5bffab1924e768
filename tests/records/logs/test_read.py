from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sigmax import RequestError, radius
from sigmax.records.journal import write_all
from sigmax.records.logs.path import sigma_in
from sigmax.records.logs.read import ImportedLog, read_log
from sigmax.records.run import read
from sigmax.records.verify import verify
from sigmax.rules.certificate import Outcome

HEADER = "idx\tlabel\tpredict\tradius\tcorrect\ttime"
STATED: dict[str, Any] = {"sigma": 0.25, "n": 100_000, "alpha": 0.001}  # largest radius 0.95286...

Importer = Callable[..., ImportedLog]


@pytest.fixture
def imported(tmp_path: Path) -> Importer:
    """Imports a log made of these lines, with Cohen et al.'s sigma, n and alpha unless given others."""

    def importer(*lines: str, **stated: Any) -> ImportedLog:
        path = tmp_path / "a log"
        path.write_text("\n".join(lines) + "\n")
        return read_log(path, **{**STATED, **stated})

    return importer


def rows(*cells: tuple[object, ...]) -> list[str]:
    """Rows (idx, label, predict, radius) as lines with `correct` and time filled in."""
    return ["\t".join(map(str, (i, y, c, r, int(y == c), 1.5))) for i, y, c, r in cells]


def test_claims_abstentions_and_the_plan(imported: Importer) -> None:
    plan, records, report = imported(
        HEADER, *rows((0, 3, 3, "0.378"), (20, 7, -1, "0.0"), (40, 4, 5, "0.0341")), data="cifar10", split="test"
    )
    assert [record.certificate.outcome for record in records] == [
        Outcome.CLAIMED,
        Outcome.ABSTAINED_ELSEWHERE,
        Outcome.CLAIMED,
    ]
    assert [record.certificate.predicted for record in records] == [3, None, 5]
    assert [record.certificate.radius for record in records] == [0.378, 0.0, 0.0341]
    assert [record.correct for record in records] == [True, False, False]
    assert {(record.certificate.alpha, record.certificate.stages, record.seconds) for record in records} == {
        (0.001, (), 1.5)
    }
    assert plan.rule == {
        "scheme": "imported",
        "sigma": 0.25,
        "radii": "as printed: 3 significant digits, rounded to nearest",
        "file": "a log",
    }
    assert (plan.n0, plan.n, plan.alpha) == (None, 100_000, 0.001)
    assert plan.seed is plan.generator is plan.arithmetic is plan.system is None
    assert plan.data == {"name": "cifar10", "split": "test", "fingerprint": None}
    assert plan.inputs == {"start": 0, "skip": 20, "count": 3}
    assert (report.rows, report.abstained, report.finished, report.notes) == (3, 1, True, ())


def test_an_imported_log_is_a_run_file_that_verifies(imported: Importer, tmp_path: Path) -> None:
    plan, records, _ = imported(HEADER, *rows((0, 3, 3, "0.378"), (20, 7, -1, "0.0")))
    write_all(tmp_path / "run.jsonl", plan, records)
    run = read(tmp_path / "run.jsonl")
    assert (run.plan, list(run.records), run.finished) == (plan, records, True)
    assert list(run.frame()["sigma"]) == [0.25, 0.25]
    verdict = verify(tmp_path / "run.jsonl")
    assert verdict.holds
    assert verdict.imported


# ---- what samples can show -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "possible"),
    [
        ("0.953", True),  # 0.9525 rounds to it
        ("0.9528", True),
        ("0.9529", True),  # 0.95286 rounds to it
        ("0.9530", False),  # 0.95295 would be needed
        ("0.954", False),
        ("0.978", False),
        ("1.0", False),  # 1.00 with its zero dropped: 0.995 at least
    ],
)
def test_a_radius_is_impossible_beyond_its_own_rounding(imported: Importer, printed: str, possible: bool) -> None:
    others = rows((1, 0, 0, "0.0123"), (2, 0, 0, "0.12"), (3, 0, 0, "0.123"))
    _, records, report = imported(HEADER, *rows((0, 3, 3, printed)), *others)
    assert records[0].certificate.outcome is (Outcome.CLAIMED if possible else Outcome.IMPOSSIBLE)
    assert records[0].certificate.radius == float(printed)
    assert [row.printed for row in report.impossible] == ([] if possible else [printed])


@pytest.mark.parametrize("sigma", [0.12, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("n", [100, 10_000])
def test_the_largest_radius_of_a_right_alpha_is_never_called_impossible(
    imported: Importer, sigma: float, n: int
) -> None:
    largest = radius.largest(sigma, n, 0.001)
    for text in (f"{largest:.3}", f"{largest:.3f}", f"{largest:.6f}", repr(largest)):
        log = imported(HEADER, *rows((0, 3, 3, text)), sigma=sigma, n=n)
        assert not log.report.impossible, text


def test_the_alpha_that_would_allow_the_log_is_named(imported: Importer) -> None:
    lines = rows(*((i, 1, 1, "0.978") for i in range(5)), (5, 1, 1, "0.0321"))
    report = imported(HEADER, *lines).report
    assert report.fits_alpha == 0.01
    assert report.notes == (
        "5 rows of radius 0.978 in line 2, 0.978 in line 3, 0.978 in line 4, ...: impossible at sigma=0.25, "
        "n=100000, alpha=0.001 (they fit alpha=0.01); kept as printed",
    )


UNANIMOUS = [*((i, 1, 1, "0.953") for i in range(6)), (6, 1, 1, "0.935"), (7, 1, 1, "0.0321")]
NO_PILE = [(i, 1, 1, f"0.9{i}") for i in range(6)]


@pytest.mark.parametrize(
    ("cells", "stated", "reason", "fits"),
    [
        (UNANIMOUS, {"sigma": 0.5}, "6 rows share the largest radius, 0.953, .* those have 1.91", "fit sigma=0.25$"),
        (UNANIMOUS, {"sigma": 0.12}, "7 rows have radii above 0.489, .*up to 0.953 in line 2", "fit sigma=0.25$"),
        (UNANIMOUS, {"n": 10_000}, "7 rows have radii", r"fit sigma=0.298, or the sigma given with n=100000$"),
        (UNANIMOUS, {"n": 10_000_000}, "6 rows share", "or the sigma given with n=100000$"),
        ([(0, 1, 1, "3.81"), (1, 1, 1, "0.0123")], {}, "1 row has a radius above 1.02", "of at least 1$"),
    ],
)
def test_a_sigma_that_cannot_be_right_is_refused_with_what_fits(
    imported: Importer, cells: list[Any], stated: dict[str, Any], reason: str, fits: str
) -> None:
    with pytest.raises(RequestError, match=rf"a log: sigma=.* cannot be right with n=.*: {reason}.*{fits}"):
        imported(HEADER, *rows(*cells), **stated)


@pytest.mark.parametrize(
    ("cells", "stated"),
    [
        (UNANIMOUS, {}),
        (UNANIMOUS, {"alpha": 0.1}),  # alpha moves the largest radius by a few percent only
        (NO_PILE, {"sigma": 0.5}),  # no two at the top: nothing tells
        ([*((i, 1, 1, "0.95") for i in range(6)), (6, 1, 1, "0.949")], {"sigma": 0.5}),  # equal by chance: no gap below
        ([*((i, 1, 1, "0.67") for i in range(9)), (9, 1, 1, "0.62")], {"sigma": 0.5, "n": 100}),  # 99 votes of 100
    ],
)
def test_a_sigma_that_may_be_right_is_taken(imported: Importer, cells: list[Any], stated: dict[str, Any]) -> None:
    assert not imported(HEADER, *rows(*cells), **stated).report.notes


def test_a_few_damaged_rows_do_not_speak_against_sigma(imported: Importer) -> None:
    others = rows(*((i, 1, 1, f"0.{500 + i}") for i in range(199)))
    report = imported(HEADER, *others, *rows((199, 1, 1, "3.81"))).report
    assert report.fits_alpha is None
    assert "no usual alpha allows them all; check sigma and n" in report.notes[0]


# ---- sigma by the path ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "sigma"),
    [
        ("cifar10/resnet110/noise_0.50/test/sigma_0.25", 0.25),  # trained with the one, certified with the other
        ("imagenet/noise_0.00/test/sigma_1.00", 1.0),
        ("catrs-noise_1.0.tsv", 1.0),
        ("noise_0.5/log.tsv", 0.5),
        ("sigma=0.75.tsv", 0.75),
        ("Sigma 2.txt", 2.0),
        ("std0.12/results", 0.12),
        ("noise_sd0.50/N100000.tsv", 0.5),
        ("sigma_025", 0.25),
        ("0.12/test.tsv", 0.12),
        ("smoothadv_0.25.log", 0.25),
        ("v1.2.3/eps_64/log.tsv", None),
        ("logs/results-v0.5/log.tsv", None),
        ("noise_0.0/log.tsv", None),
    ],
)
def test_sigma_is_read_from_the_path(path: str, sigma: float | None) -> None:
    assert sigma_in(Path(path)) == sigma


def test_a_path_that_names_no_sigma_asks_for_it(imported: Importer) -> None:
    with pytest.raises(RequestError, match=r"does not name its sigma.*; give --sigma\. The radii fit sigma=0.25$"):
        imported(HEADER, *rows(*UNANIMOUS), sigma=None)
    with pytest.raises(RequestError, match="the log of a cascade; give all its sigmas"):
        imported(f"{HEADER}\tstage", f"{rows((0, 1, 1, '0.1'))[0]}\t0", sigma=None)
    log = imported(f"{HEADER}\tsigma", *(f"{row}\t0.3" for row in rows(*UNANIMOUS)), sigma=None)
    assert (log.report.sigmas, log.report.sigma_from) == ((0.3,), "column")


def test_verify_reports_the_impossible(imported: Importer, tmp_path: Path) -> None:
    plan, records, _ = imported(HEADER, *rows((0, 3, 3, "0.378"), (20, 7, 7, "0.978")))
    write_all(tmp_path / "run.jsonl", plan, records)
    verdict = verify(tmp_path / "run.jsonl")
    assert [finding.line for finding in verdict.findings] == [3]
    assert "input 20: radius 0.978 is impossible" in verdict.findings[0].message


@pytest.mark.parametrize("norm", ["l1", "linf", "L2"])
def test_radii_of_a_log_are_in_l2(imported: Importer, tmp_path: Path, norm: str) -> None:
    plan, records, _ = imported(HEADER, *rows((0, 3, 3, "0.378")))
    write_all(tmp_path / "run.jsonl", replace(plan, norm=norm), records)
    (finding,) = verify(tmp_path / "run.jsonl").findings
    assert (finding.line, finding.message) == (1, f"the plan names the norm '{norm}'; radii of imported logs are in l2")


@pytest.mark.parametrize("printed", ["-0.1", "nan", "inf"])
def test_what_is_no_radius_claims_nothing_and_is_reported(imported: Importer, tmp_path: Path, printed: str) -> None:
    plan, records, report = imported(HEADER, *rows((0, 3, 3, printed), (1, 3, 3, "0.378")))
    certificate = records[0].certificate
    assert (certificate.predicted, certificate.radius, certificate.outcome) == (None, 0.0, Outcome.IMPOSSIBLE)
    assert report.notes == (f"1 row of radius {printed} in line 2: not a radius; read as making no claim",)
    write_all(tmp_path / "run.jsonl", plan, records)
    assert not verify(tmp_path / "run.jsonl").holds


def test_a_radius_on_an_abstention_is_dropped_and_reported(imported: Importer) -> None:
    _, records, report = imported(HEADER, *rows((0, 3, -1, "0.5"), (1, 3, 3, "0.378")))
    assert (records[0].certificate.radius, records[0].certificate.outcome) == (0.0, Outcome.ABSTAINED_ELSEWHERE)
    assert report.notes == ("1 row of radius 0.5 in line 2: printed on an abstention; read as 0",)


# ---- variants ------------------------------------------------------------------------------------


def test_correct_is_recomputed_and_a_running_total_recognised(imported: Importer) -> None:
    _, records, report = imported(
        HEADER, "0\t3\t3\t0.3\t1\t1", "1\t3\t4\t0.3\t1\t1", "2\t3\t-1\t0.0\t1\t1", "3\t3\t3\t0.3\t2\t1"
    )
    assert [record.correct for record in records] == [True, False, False, True]
    assert (report.wrong_correct, report.running_total) == (3, True)
    assert report.notes == ("the column `correct` is a running total; recomputed as predict == label",)


def test_wrong_judgements_are_counted(imported: Importer) -> None:
    report = imported(HEADER, "0\t3\t3\t0.3\t1\t1", "1\t3\t4\t0.3\t1\t1", "2\t3\t3\t0.3\t0\t1").report
    assert (report.wrong_correct, report.running_total) == (2, False)
    assert report.notes == ("the column `correct` is wrong in 2 rows; recomputed as predict == label",)


CASCADE = "idx\tlabel\tpredict\tradius\tr_neg\tcorrect\tpred_uc\tcorr_uc\tstage\ttime"


def cascade_row(idx: int, predict: int, printed: str, stage: int) -> str:
    return f"{idx}\t3\t{predict}\t{printed}\t-1e+02\t{int(predict == 3)}\t3\t1\t{stage}\t0:00:20.1"


def test_each_stage_of_a_cascade_has_its_own_sigma_and_limit(imported: Importer, tmp_path: Path) -> None:
    lines = [cascade_row(0, 3, "2.01", 0), cascade_row(1, 3, "1.2", 1), cascade_row(2, 3, "1.2", 2)]
    plan, records, report = imported(CASCADE, *lines, cascade_row(3, -2, "0.0", 1), sigma=(0.25, 0.5, 1.0))
    assert [record.certificate.outcome.name for record in records] == [
        "CLAIMED",
        "CLAIMED",
        "IMPOSSIBLE",
        "ABSTAINED_ELSEWHERE",
    ]
    assert plan.rule["sigma"] == 1.0
    assert plan.rule["sigmas"] == [1.0, 0.5, 0.25]
    assert "sigma=1, 0.5, 0.25" in report.notes[0]
    write_all(tmp_path / "run.jsonl", plan, records)
    assert list(read(tmp_path / "run.jsonl").frame()["sigma"]) == [1.0, 0.5, 0.25, 0.5]


def test_a_cascade_with_one_sigma_is_checked_against_it(imported: Importer) -> None:
    _, records, report = imported(CASCADE, cascade_row(0, 3, "2.01", 0), cascade_row(1, 3, "3.9", 2), sigma=1.0)
    assert [record.certificate.outcome for record in records] == [Outcome.CLAIMED, Outcome.IMPOSSIBLE]
    assert "the log is of a cascade, checked against the one sigma given, 1" in report.notes


def test_sigmas_that_do_not_fit_the_log(imported: Importer) -> None:
    with pytest.raises(RequestError, match=r"line 2 .* stage 2 .* but 2 sigmas were given"):
        imported(CASCADE, cascade_row(0, 3, "0.1", 2), sigma=(0.5, 1.0))
    with pytest.raises(RequestError, match="2 sigmas were given, but the log has no column sigma or stage"):
        imported(HEADER, *rows((0, 3, 3, "0.1")), sigma=(0.5, 1.0))


def test_data_dependent_sigma_is_kept_and_goes_before_the_stated_one(imported: Importer, tmp_path: Path) -> None:
    header = "idx\tlabel\tpredict\tradius\tcorrect\tsigma\ttime"
    lines = ["0\t3\t3\t1.5\t1\t0.51\t1", "1\t3\t3\t1.5\t1\t0.122\t1", "2\t3\t3\t0.465\t1\t0.122\t1"]
    plan, records, report = imported(header, *lines)
    assert [record.certificate.outcome.name for record in records] == ["CLAIMED", "IMPOSSIBLE", "CLAIMED"]
    write_all(tmp_path / "run.jsonl", plan, records)
    assert list(read(tmp_path / "run.jsonl").frame()["sigma"]) == [0.51, 0.122, 0.122]
    assert "sigma=per row" in report.notes[0]
    assert "a certificate only if the tool remembered every ball" in report.notes[-1]


def test_a_column_of_one_sigma_is_that_of_the_log(imported: Importer) -> None:
    header = f"{HEADER}\tsigma"
    lines = [f"{row}\t0.50" for row in rows((0, 3, 3, "0.3"), (1, 3, 3, "1.7"))]
    for given in (None, 0.5):
        report = imported(header, *lines, sigma=given).report
        assert (report.sigmas, report.notes) == ((0.5,), ()), "no noise of each input's own"
    with pytest.raises(RequestError, match=r"the column sigma says 0\.5, --sigma says 0\.25; leave --sigma out"):
        imported(header, *lines, sigma=0.25)
    with pytest.raises(RequestError, match="the column sigma says"):
        imported(header, *lines, sigma=0.51)
    assert imported(header, *lines, sigma=0.504).report.sigmas == (0.504,), "0.50 may be rounded"


def test_a_printed_sigma_is_rounded_too(imported: Importer) -> None:
    header = "idx\tlabel\tpredict\tradius\tsigma"
    largest = radius.largest(0.12249, 100_000, 0.001)  # printed as 0.122, whose own limit is lower
    assert radius.largest(0.122, 100_000, 0.001) < largest - 0.0005
    report = imported(header, f"0\t3\t3\t{largest:.3}\t0.122", "1\t3\t3\t0.01\t0.0512").report
    assert not report.impossible


def test_input_specific_samples_set_the_limit(imported: Importer) -> None:
    header = "idx\tlabel\tpredict\tpA\tsamplesize\tradius\tcorrect\ttime_forward"
    lines = ["0\t3\t3\t0.99\t100000\t0.900\t1\t1.2", "1\t3\t3\t0.99\t1000\t0.900\t1\t1.2"]
    _, records, report = imported(header, *lines, "2\t3\t3\t0.4\t0\t0.100\t1\t1.2", "=== Summary ===", "ACR: 0.6")
    assert [record.certificate.outcome.name for record in records] == ["CLAIMED", "IMPOSSIBLE", "IMPOSSIBLE"]
    assert "text after the table was left out, from line 5 on" in report.notes
    with pytest.raises(RequestError, match=r"line 2 of the log says 100000 samples, more than n=5000"):
        imported(header, *lines, n=5000)


# ---- which inputs --------------------------------------------------------------------------------


def test_start_skip_and_count_are_inferred_in_any_order(imported: Importer) -> None:
    plan, records, _ = imported(HEADER, *rows((70, 1, 1, "0.1"), (10, 1, 1, "0.1"), (40, 1, 1, "0.1")))
    assert plan.inputs == {"start": 10, "skip": 30, "count": 3}
    assert [record.index for record in records] == [10, 40, 70]
    assert imported(HEADER, *rows((7, 1, 1, "0.1"))).plan.inputs == {"start": 7, "skip": 1, "count": 1}


def test_missing_rows_make_an_unfinished_run(imported: Importer) -> None:
    plan, _, report = imported(HEADER, *rows((0, 1, 1, "0.1"), (20, 1, 1, "0.1"), (60, 1, 1, "0.1")))
    assert plan.inputs == {"start": 0, "skip": 20, "count": 4}
    assert report.notes == ("3 of 4 rows: the log is unfinished or lacks rows",)


def test_a_log_shorter_than_its_run(imported: Importer) -> None:
    plan, _, report = imported(HEADER, *rows((0, 1, 1, "0.1"), (20, 1, 1, "0.1")), inputs=500)
    assert plan.inputs == {"start": 0, "skip": 20, "count": 500}
    assert not report.finished
    assert report.notes == ("2 of 500 rows: the log is unfinished or lacks rows",)


def test_an_input_twice(imported: Importer) -> None:
    with pytest.raises(RequestError, match="input 20 stands twice in the log, in lines 2 and 4"):
        imported(HEADER, *rows((20, 1, 1, "0.1"), (0, 1, 1, "0.1"), (20, 1, 1, "0.1")))


@pytest.mark.parametrize("indices", [(0, 20, 50), (3, 4, 95, 271), (0, 1, 1000)])
def test_indices_that_are_not_every_kth_input(imported: Importer, indices: tuple[int, ...]) -> None:
    with pytest.raises(RequestError, match=f"irregular .*from {indices[0]} to {indices[-1]}"):
        imported(HEADER, *rows(*((i, 1, 1, "0.1") for i in indices)))


def test_a_torn_last_row_is_reported(imported: Importer) -> None:
    _, records, report = imported(HEADER, *rows((0, 1, 1, "0.1"), (20, 1, 1, "0.1")), "40\t1\t1\t0.")
    assert len(records) == 2
    assert report.notes == ("the last row, line 4, is cut short and left out: '40\\t1\\t1\\t0.'",)


def test_an_appended_log_is_reported(imported: Importer) -> None:
    report = imported(HEADER, *rows((0, 1, 1, "0.1")), HEADER, *rows((20, 1, 1, "0.1"))).report
    assert report.notes == ("the header stands 2 times: the log was written by more than one job",)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sigma": 0}, "sigma must be a positive number"),
        ({"sigma": -0.5}, "sigma must be a positive number"),
        ({"sigma": "0.25"}, "sigma must be a positive number"),
        ({"sigma": ()}, "sigma must be a positive number"),
        ({"sigma": (0.5, 0.5)}, "several different ones"),
        ({"sigma": (0.5, None)}, "sigma must be a positive number"),
        ({"n": 0}, "n must be a whole number"),
        ({"n": 1e5}, "n must be a whole number"),
        ({"n0": 0}, "n0 must be a whole number"),
        ({"alpha": 0}, "alpha must lie strictly between 0 and 1"),
        ({"alpha": 1.0}, "alpha must lie strictly between 0 and 1"),
        ({"inputs": 0}, "inputs must be a whole number"),
        ({"inputs": 1}, r"inputs=1 is fewer than the log covers \(2\)"),
    ],
)
def test_wrong_statements_are_refused(imported: Importer, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        imported(HEADER, *rows((0, 1, 1, "0.1"), (20, 1, 1, "0.1")), **wrong)
