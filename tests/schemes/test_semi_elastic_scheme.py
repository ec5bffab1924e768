"""Noise from a field: what is asked of it, how far its certificates go, and how folders and records keep it."""

import json
import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

import sigmax as sx
from sigmax.records.lines import decode, encode
from sigmax.report.notes import on_run
from sigmax.rules.elastic import ROUNDING, SemiElasticRule
from sigmax.rules.registry import rebuild
from sigmax.rules.sampling import Sampling
from tests.schemes.helpers import halfspace
from tests.schemes.schemes import linear, registered

SAMPLES = {"n0": 20, "n": 500, "alpha": 0.01}


def field(dim=64, rate=0.05, points=50, seed=0):
    train = np.random.default_rng(seed).random((points, dim), dtype=np.float32)
    return sx.NearestNeighbourSigma(train, base=0.4, rate=rate, k=3, offset=2.0)


def test_each_input_is_voted_on_under_its_own_noise():
    f = sx.SemiElastic(linear(), field=field(), classes=10)
    x = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    expected = f.field.sigmas(x)
    assert len(np.unique(expected)) == 6
    for found, sigma in zip(f.certify(x, **SAMPLES), expected, strict=True):
        assert found.sigma == pytest.approx(sigma, rel=1e-7)
        assert {stage.sigma for stage in found.stages} == {found.sigma}
        assert found.sigma == float(np.float32(found.sigma))
        noise, _, estimation = found.stages
        assert (noise.name, noise.n) == ("sigma", 0)
        if found.radius:
            jitter = f.field.jitter + ROUNDING
            assert found.radius == sx.radius.semi_elastic(found.sigma, estimation.lower, 0.05, 64, jitter=jitter)
            assert found.radius < sx.radius.gaussian(found.sigma, estimation.lower)


def test_constant_noise_is_the_limit():
    f = sx.SemiElastic(
        halfspace([1.0, 0.0]), field=sx.VouchedField(lambda x: np.full(len(x), 0.5), 0.0), classes=2, dim=2
    )
    x = torch.tensor([[0.6, 0.1], [0.3, -2.0]])
    for found, plain in zip(
        f.certify(x, **SAMPLES),
        sx.Smoothed(halfspace([1.0, 0.0]), sigma=0.5, classes=2).certify(x, **SAMPLES),
        strict=True,
    ):
        assert [s.counts for s in found.stages[1:]] == [s.counts for s in plain.stages]
        assert found.radius == pytest.approx(plain.radius, abs=1e-5)
        assert found.radius <= plain.radius


@pytest.mark.parametrize(("rate", "dim"), [(0.01, 3072), (0.3, 2), (0.05, 64), (0.01, 150_528)])
@pytest.mark.parametrize("n", [100, 10_000])
def test_no_radius_exceeds_the_largest_and_much_noise_comes_near(rate, dim, n):
    rule = SemiElasticRule(sx.VouchedField(len, rate).describe(), dim, 10)
    largest = rule.largest_radius(n=n, alpha=0.001)
    for sigma in (0.01, 0.25, 1.0, 10.0, 1e4):
        assert rule.at(sigma).largest_radius(n=n, alpha=0.001) <= largest
    assert rule.at(1e6).largest_radius(n=n, alpha=0.001) == pytest.approx(largest, rel=2e-3)


def test_the_largest_radius_where_there_is_none_or_any():
    def rule(rate, jitter=0.0):
        return SemiElasticRule(sx.VouchedField(len, rate, jitter=jitter).describe(), 64, 10)

    assert rule(0.0).largest_radius(n=100, alpha=0.001) == math.inf
    assert rule(0.1).largest_radius(n=5, alpha=0.001) == 0.0
    assert rule(0.1, jitter=10.0).largest_radius(n=100, alpha=0.001) == 0.0
    early = Sampling("adaptive", targets=(0.5,))
    assert (
        0 < rule(0.1).largest_radius(n=100, alpha=0.001, sampling=early) < rule(0.1).largest_radius(n=100, alpha=0.001)
    )


def test_the_jitter_covers_the_rounding_of_two_sigmas_to_32_bits():
    """Two neighbouring sigmas that rounding drives apart as far as it can: one is rounded down, the other up."""
    low, high = 1 + 2.0**-24, 1 + 3 * 2.0**-24
    apart = math.log(np.float32(high) / np.float64(np.float32(low))) - math.log(high / low)
    jitter = SemiElasticRule(sx.VouchedField(len, 0.1).describe(), 64, 10).at(0.5).jitter
    assert 2.0**-24 < apart <= jitter <= 1.05 * apart


def test_soundness_where_the_noise_moves_the_boundary():
    """A class in the middle that wins only under small noise: its region is known from the field exactly."""

    def middle(batch):
        return (batch[:, 0].abs() < 0.5).long()

    rate, alpha, repeats = 0.4, 0.05, 400

    def sigma(x):
        return 0.4 * torch.exp(rate * x[:, 0].double())

    def wins(t):
        s = 0.4 * math.exp(rate * t)
        return norm.cdf((0.5 - t) / s) - norm.cdf((-0.5 - t) / s) > 0.5

    at = 0.1
    assert wins(at)
    truth = next(r for r in np.arange(0, 3, 1e-4) if not (wins(at + r) and wins(at - r)))
    f = sx.SemiElastic(middle, field=sx.VouchedField(sigma, rate), classes=2, dim=1)
    found = f.certify(torch.full((repeats, 1), at), n0=10, n=200, alpha=alpha)
    wrong = sum(c.predicted == 0 or c.radius > truth for c in found)
    assert sum(c.predicted == 1 for c in found) > repeats / 2
    assert wrong <= alpha * repeats


def test_a_rate_that_is_vouched_for_is_recorded_as_such(tmp_path):
    def mine(batch):
        return torch.full((len(batch),), 0.1)

    f = sx.SemiElastic(linear(), field=sx.VouchedField(mine, 0.01), classes=10, dim=64)
    assert "vouched for" in repr(f)
    run = sx.certify_run(f, sx.data.load("digits"), tmp_path / "run.jsonl", **SAMPLES, maximum=3)
    assert run.plan.rule["field"]["proved"] is False
    assert "for which the user vouches" in on_run(run)[0]
    dual = sx.Dual(sx.Smoothed(linear(2), sigma=0.2, classes=2), [f, sx.Smoothed(linear(), sigma=0.1, classes=10)])
    routed = sx.certify_run(dual, sx.data.load("digits"), tmp_path / "routed.jsonl", **SAMPLES, maximum=3)
    assert "for which the user vouches" in on_run(routed)[0]
    proved = sx.SemiElastic(linear(), field=field(), classes=10)
    assert "proved" in repr(proved)
    with pytest.raises(sx.RequestError, match="cannot be saved: it is a function of your own"):
        sx.SemiElastic(registered(), field=f.field, classes=10, dim=64).save(tmp_path / "system")


def test_a_record_cannot_claim_a_proof_or_another_noise(tmp_path):
    f = sx.SemiElastic(linear(), field=sx.VouchedField(lambda x: np.full(len(x), 0.1), 0.01), classes=10, dim=64)
    run = sx.certify_run(f, sx.data.load("digits"), tmp_path / "run.jsonl", **SAMPLES, maximum=3)
    lines = run.path.read_bytes().splitlines(keepends=True)
    plan = decode(lines[0])
    plan["rule"]["field"]["proved"] = True
    run.path.write_bytes(b"".join([encode(plan), *lines[1:]]))
    assert "always is" in sx.verify(run.path).findings[0].message
    plan["rule"]["field"].update(proved=False, rate=0.0)
    run.path.write_bytes(b"".join([encode(plan), *lines[1:]]))
    certified = [r for r in run.records if r.certificate.radius]
    assert len(sx.verify(run.path).findings) >= len(certified) > 0
    line = decode(lines[1])
    line["stages"][0]["sigma"] = 0.0
    run.path.write_bytes(b"".join([lines[0], encode(line), *lines[2:]]))
    assert "should hold a noise above 0" in sx.verify(run.path).findings[0].message


def test_a_folder_keeps_eight_bit_points_small_and_notices_others(tmp_path):
    digits = sx.data.load("digits", "train")
    points = (digits.pixels(range(200)) * 255).round().astype(np.uint8).astype(np.float32) / np.float32(255)
    f = sx.SemiElastic(
        registered(), field=sx.NearestNeighbourSigma(points, base=0.3, rate=0.02, k=5, offset=2.0), classes=10
    )
    f.save(tmp_path / "system")
    size = (tmp_path / "system" / "field.safetensors").stat().st_size
    assert size < 200 * 64 + 200
    loaded = sx.load(tmp_path / "system")
    x = torch.from_numpy(digits.pixels(range(3)))
    assert loaded.certify(x, **SAMPLES) == f.certify(x, **SAMPLES)
    other = sx.SemiElastic(
        registered(), field=sx.NearestNeighbourSigma(points[1:], base=0.3, rate=0.02, k=5, offset=2.0), classes=10
    )
    other.save(tmp_path / "other")
    (tmp_path / "system" / "field.safetensors").write_bytes((tmp_path / "other" / "field.safetensors").read_bytes())
    with pytest.raises(sx.RequestError, match="is not the field the system was built with"):
        sx.load(tmp_path / "system")
    (tmp_path / "system" / "field.safetensors").write_bytes(b"nothing")
    with pytest.raises(sx.RequestError, match="with the points of the field, cannot be read"):
        sx.load(tmp_path / "system")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"field": lambda x: 0.5}, "A plain function has no rate"),
        ({"field": sx.VouchedField(len, 0.1)}, "give dim="),
        ({"field": field(), "dim": 3}, "over inputs of 64 numbers, not dim=3"),
        ({"field": sx.VouchedField(len, 0.1), "dim": 0}, "expected dim to be a whole number"),
        ({"field": field(), "classes": 1}, "at least 2"),
    ],
)
def test_fields_that_will_not_do(options, named):
    with pytest.raises(sx.RequestError, match=named):
        sx.SemiElastic(linear(), **{"classes": 10, **options})


def test_inputs_that_do_not_fit_the_field():
    f = sx.SemiElastic(
        halfspace([1.0, 0.0]), field=sx.VouchedField(lambda x: np.full(len(x), 0.5), 0.1), classes=2, dim=3
    )
    with pytest.raises(sx.RequestError, match="expected inputs of dim=3 numbers, got 2"):
        f.certify(torch.zeros(1, 2), **SAMPLES)
    tiny = sx.SemiElastic(
        halfspace([1.0, 0.0]), field=sx.VouchedField(lambda x: np.full(len(x), 1e-9), 0.1), classes=2, dim=2
    )
    with pytest.raises(sx.RequestError, match="round the noise away"):
        tiny.certify(torch.ones(1, 2), **SAMPLES)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"rate": -1.0}, "a rate of at least 0"),
        ({"jitter": "none"}, "a jitter of at least 0"),
        ({"proved": False}, "always is"),
        ({"field": "magic"}, "always is"),
    ],
)
def test_a_described_field_is_checked(changes, named):
    described = {"scheme": "semi-elastic", "classes": 10, "dim": 64, "field": {**field().describe(), **changes}}
    with pytest.raises(sx.RequestError, match=named):
        rebuild(json.loads(json.dumps(described)))
