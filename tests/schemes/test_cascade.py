"""Cascade and Multiscale as schemes: networks, what is warned of, what is refused, published columns."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

import sigmax as sx
from sigmax.records.export import export_tsv
from tests.schemes.helpers import halfspace, slabs
from tests.schemes.schemes import linear

SIGMAS = (0.25, 0.5, 1.0)
ORIGIN = torch.zeros(1, 2)


def level(sigma=1.0, *, classes=2, **options):
    return sx.Smoothed(halfspace([1.0, 0.0]), sigma=sigma, classes=classes, **options)


def test_multiscale_is_a_cascade_from_the_largest_sigma_to_the_smallest():
    f = sx.Multiscale(linear(), sigmas=SIGMAS, classes=10, thresholds=(0.6, 0.7))
    assert isinstance(f, sx.Cascade)
    assert [part.sigma for part in f.levels] == [1.0, 0.5]
    assert (f.last.sigma, f.thresholds) == (0.25, (0.7, 0.6))
    assert repr(f) == "Cascade(sigma 1 / 0.5, last 0.25, 10 classes)"
    assert len({id(voter) for voter in f.voters.values()}) == 1  # one network, one voter


def test_higher_thresholds_leave_more_to_the_lower_levels():
    x = torch.linspace(-1.5, 1.5, 40)[:, None]
    samples = {"n0": 50, "n": 1_000, "alpha": 0.01}
    low, high = (
        sx.Multiscale(slabs([1.0], (0.0,)), sigmas=SIGMAS, classes=2, thresholds=t).certify(x, **samples)
        for t in (0.5, 0.8)
    )
    assert np.mean([c.sigma for c in high]) < np.mean([c.sigma for c in low])


def test_a_network_for_each_sigma_votes_at_its_own():
    class Net(torch.nn.Module):
        takes_sigma = True

        def __init__(self, sigma):
            super().__init__()
            self.given, self.sigma = set(), sigma

        def forward(self, batch, sigma):
            self.given.add(sigma)
            return torch.stack([batch[:, 0] * 0, batch[:, 0] * 0 + self.sigma - 0.3], 1)

    nets = [Net(sigma) for sigma in SIGMAS]
    f = sx.Multiscale(nets, sigmas=SIGMAS, classes=2)
    (found,) = f.certify(ORIGIN, n0=10, n=100, alpha=0.05)
    assert found.predicted == 1
    assert [net.given for net in nets] == [{0.25}, {0.5}, {1.0}]
    with pytest.raises(sx.RequestError, match="one for each of the 3 in their order; got 2"):
        sx.Multiscale(nets[:2], sigmas=SIGMAS, classes=2)


def test_levels_share_a_network_and_no_noise():
    seen = []

    class Watching(nn.Module):
        def forward(self, batch):
            seen.append(batch.clone())
            return torch.zeros(len(batch), 2)

    watching = Watching()
    f = sx.Cascade(
        [sx.Smoothed(watching, sigma=1.0, classes=2, batch=100)], sx.Smoothed(watching, sigma=1.0, classes=2)
    )
    f.check(ORIGIN)  # full batches are tried here, and not again
    seen.clear()
    f.certify(ORIGIN, n0=100, n=100, alpha=0.5)
    rows = torch.cat([batch for batch in seen if len(batch) == 100])
    assert len(torch.unique(rows, dim=0)) == len(rows) >= 200


def test_a_model_that_returns_nonsense_is_not_certified():
    broken = linear()
    with torch.no_grad():
        broken[1].bias.fill_(torch.nan)
    selective = sx.Smoothed(sx.models.selective(broken, confidence=0.6), sigma=0.5, classes=10)
    with pytest.raises(sx.RunError, match="NaN logits"):
        sx.Cascade([selective], sx.Smoothed(linear(), sigma=0.25, classes=10)).certify(torch.rand(1, 1, 8, 8), n=100)


def test_noise_that_rises_from_level_to_level_is_pointed_out():
    with pytest.warns(UserWarning, match="sigma rises from 0.25 at level-0 to 0.5 at level-1") as caught:
        sx.Cascade([level(0.25), level(0.5)], level(0.12))
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="from 0.25 at level-0 to 1 at last"):
        sx.Cascade([level(0.25)], level(1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sx.Cascade([level(1.0), level(1.0)], sx.Lipschitz(lambda batch: batch, 1.0, classes=2))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sigmas": (0.5, 0.25)}, "strictly rising"),
        ({"sigmas": (0.5,)}, "at least two noise levels"),
        ({"sigmas": 0.5}, "at least two noise levels"),
        ({"sigmas": (0.25, "1")}, "at least two noise levels"),
        ({"sigmas": (-1, 1)}, "sigma must be a positive number"),
        ({"thresholds": 0.4}, "from 1/2 to below 1"),
        ({"thresholds": (0.5, 0.5, 0.5)}, "one for each of the 2 levels"),
        ({"thresholds": "0.5"}, "threshold"),
        ({"classes": 1}, "at least 2"),
    ],
)
def test_a_multiscale_that_is_none_is_refused(changes, said):
    with pytest.raises(sx.RequestError, match=said):
        sx.Multiscale(linear(), **{"sigmas": SIGMAS, "classes": 10, **changes})


@pytest.mark.parametrize(
    ("levels", "last", "said"),
    [
        ([], level(), "at least one level"),
        (level(), level(), "levels must be a list of Smoothed classifiers; got Smoothed"),
        (
            [sx.Lipschitz(lambda b: b, 1.0, classes=2)],
            level(),
            "must be a Smoothed classifier, which can defer; got Lip",
        ),
        ([level()], halfspace([1.0, 0.0]), "last must be a scheme such as"),
        ([level(bound="runner-up")], level(), "level-0 must use bound='one-sided'"),
        ([level(classes=3)], level(), "same classes; they have 3, 2"),
        ([level(domain=None)], level(), "same range of inputs"),
        ([level()], sx.Memorized(linear(2), sigma0=0.5, classes=2), "another scheme cannot build on them"),
    ],
)
def test_a_cascade_that_makes_no_sense_is_refused(levels, last, said):
    with pytest.raises(sx.RequestError, match=said):
        sx.Cascade(levels, last)


def test_the_authors_table(tmp_path):
    f = sx.Multiscale(linear(), sigmas=(0.05, 0.1, 0.2), classes=10)
    run = sx.certify_run(f, sx.data.load("digits"), tmp_path / "run.jsonl", n0=20, n=200, alpha=0.01, maximum=60)
    export_tsv(run, tmp_path / "run.tsv")
    header, *rows = (line.split("\t") for line in (tmp_path / "run.tsv").read_text().splitlines())
    theirs = "idx label predict radius r_neg correct pred_uc corr_uc stage time"
    assert header == f"{theirs} sigma samples limited_by".split()
    written = [dict(zip(header, row, strict=True)) for row in rows]
    assert "-2" in {row["predict"] for row in written}
    for row, record in zip(written, sorted(run.records, key=lambda record: record.index), strict=True):
        assert float(row["radius"]) <= record.certificate.radius
