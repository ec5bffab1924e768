"""l-infinity radii that other radii imply: never more than fits, labelled as implied, and refused where unknown."""

from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import sigmax as sx
from sigmax import report
from sigmax.radius import implied_linf
from tests.cli.conftest import sigmax  # noqa: F401 (a fixture)


@given(st.floats(0, 1e6), st.integers(1, 10**6), st.sampled_from(["l1", "l2"]))
def test_the_cube_lies_in_the_ball(radius, dim, norm):
    half = Fraction(implied_linf(radius, norm=norm, dim=dim))
    if norm == "l1":
        assert half * dim <= Fraction(radius)
        assert half * dim >= Fraction(radius) * (1 - Fraction(1, 10**14)) - Fraction(1, 10**280)
    else:
        assert half**2 * dim <= Fraction(radius) ** 2


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"norm": "linf", "dim": 4}, "implied by one in l1 or l2"),
        ({"norm": "l2", "dim": 0}, "dim must be how many numbers an input has"),
        ({"norm": "l2", "dim": 2.0}, "dim must be how many numbers an input has"),
    ],
)
def test_what_implies_nothing_is_refused(given, named):
    with pytest.raises(sx.RequestError, match=named):
        implied_linf(1.0, **given)
    with pytest.raises(sx.RequestError, match="radius must be a distance"):
        implied_linf(-1.0, norm="l2", dim=4)


def test_a_certificate_knows_its_norm_or_asks():
    def network(batch):
        return (batch.sum(1) > 0).long()

    x = torch.full((1, 16), 0.5)
    for noise, norm in ((sx.noise.Gaussian(1.0), "l2"), (sx.noise.Uniform(1.0), "l1")):
        (found,) = sx.Smoothed(network, noise=noise, classes=2).certify(x, n=500)
        assert found.implied_linf(16) == implied_linf(found.radius, norm=norm, dim=16) > 0
        with pytest.raises(sx.RequestError, match="does not say its norm"):
            replace(found, asked={}).implied_linf(16)
        assert replace(found, asked={}).implied_linf(16, norm=norm) == found.implied_linf(16)


def test_a_report_labels_it_as_implied(tmp_path, sigmax):  # noqa: F811
    system = sx.load("zoo:digits-cascade")
    run = sx.certify_run(system, sx.data.load("digits"), tmp_path / "run.jsonl", n0=20, n=200, maximum=12)
    radii = [0.001, 0.01, 0.03, 0.1]
    frame = report.implied_accuracy(run, 64, radii)
    assert frame["implied by"].tolist() == ["l2"]
    right = [c.certificate.implied_linf(64, norm="l2") for c in run.records if c.correct]
    assert [frame[r][0] for r in radii] == [100 * sum(own >= r for own in right) / 12 for r in radii]
    assert frame[0.001][0] > 0 == frame[0.1][0]
    done = sigmax("report", run.path, "--out", tmp_path / "report", "--linf", 64)
    assert done.returncode == 0, done.stderr
    assert "implied by the radii above, 64 numbers" in " ".join(done.stdout.split())
