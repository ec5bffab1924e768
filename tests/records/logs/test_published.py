"""The published logs of two projects, as they were published."""

from pathlib import Path
from typing import Any

import pytest

from sigmax import RequestError
from sigmax.records.journal import write_all
from sigmax.records.logs.read import read_log
from sigmax.records.run import read
from sigmax.records.verify import verify

STATED: dict[str, Any] = {"sigma": 0.25, "n": 100_000, "alpha": 0.001}


@pytest.fixture(scope="module")
def logs(shared: Path) -> Path:
    return shared / "fixtures" / "field-logs"


def test_cohens_log_claims_what_alpha_does_not_allow(logs: Path, tmp_path: Path) -> None:
    plan, records, report = read_log(logs / "cohen-cifar10-sigma_0.25", **STATED)
    assert (report.rows, report.abstained, len(report.impossible), report.fits_alpha) == (500, 43, 77, 0.01)
    assert plan.inputs == {"start": 0, "skip": 20, "count": 500}
    assert report.notes[0].startswith("77 rows of radius 0.97")
    assert report.notes[0].endswith("(they fit alpha=0.01); kept as printed")
    write_all(tmp_path / "cohen.jsonl", plan, records)
    assert len(verify(tmp_path / "cohen.jsonl").findings) == 77


def test_cohens_log_fits_the_alpha_it_was_made_with(logs: Path) -> None:
    assert not read_log(logs / "cohen-cifar10-sigma_0.25", n=100_000, alpha=0.01).report.notes
    for wrong in (0.12, 0.5):  # a wrong sigma is told from the wrong alpha
        with pytest.raises(RequestError, match=r"The radii fit sigma=0.25 with alpha=0.01$"):
            read_log(logs / "cohen-cifar10-sigma_0.25", sigma=wrong, n=100_000, alpha=0.001)


@pytest.mark.parametrize(
    ("file", "sigma", "abstained"),
    [
        ("acr-weakness-cifar10-catrs-noise_1.0.tsv", 1.0, 1285),
        ("acr-weakness-cifar10-gaussian-noise_0.5.tsv", 0.5, 1535),
    ],
)
def test_full_logs_that_are_in_order(logs: Path, file: str, sigma: float, abstained: int) -> None:
    plan, records, report = read_log(logs / file, n=100_000, alpha=0.001)
    assert (report.sigmas, report.sigma_from) == ((sigma,), "path")
    assert (len(records), report.abstained, report.notes) == (10_000, abstained, ())
    assert plan.inputs == {"start": 0, "skip": 1, "count": 10_000}
    assert 3 < records[0].seconds < 9
    for wrong in (sigma / 2, 2 * sigma):
        with pytest.raises(RequestError, match=rf"cannot be right .* The radii fit sigma={sigma:g}$"):
            read_log(logs / file, sigma=wrong, n=100_000, alpha=0.001)


def test_the_unfinished_imagenet_log(logs: Path) -> None:
    log = read_log(logs / "acr-weakness-imagenet-gaussian-noise_0.25", **STATED, inputs=500)
    assert log.report.notes[0] == "427 of 500 rows: the log is unfinished or lacks rows"
    assert log.plan.inputs == {"start": 0, "skip": 100, "count": 500}
    assert (len(log.report.impossible), log.report.fits_alpha) == (128, 0.01)


def test_the_published_distribution_is_not_a_log(logs: Path) -> None:
    with pytest.raises(RequestError, match=r"no column idx, label, predict, radius.*got 'x\\ty'"):
        read_log(logs / "acr-weakness-ecdf-catrs_1.0.csv", **STATED)


def test_a_written_unfinished_import_says_so(logs: Path, tmp_path: Path) -> None:
    plan, records, _ = read_log(logs / "acr-weakness-imagenet-gaussian-noise_0.25", **STATED, inputs=500)
    write_all(tmp_path / "imagenet.jsonl", plan, records)
    run = read(tmp_path / "imagenet.jsonl")
    assert (len(run.records), run.planned, run.finished) == (427, 500, False)
    assert len(verify(tmp_path / "imagenet.jsonl").findings) == 128  # the impossible radii, and nothing about the end
