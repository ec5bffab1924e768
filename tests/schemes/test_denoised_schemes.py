"""Networks that denoise first, in every scheme that takes one: certified, recorded, verified, kept, labelled."""

import pytest
import torch

import sigmax as sx
from sigmax import models
from sigmax.engine.trial import SMALL
from sigmax.jobs.label import make_labels, read_labels
from sigmax.systems import fingerprint
from tests.schemes.test_every_scheme import SAMPLINGS, KilledError

SAMPLES = {"n0": 20, "n": 100, "alpha": 0.05}
SHAPE = (1, 8, 8)


def denoiser():
    torch.manual_seed(0)
    small = {"width": 8, "multipliers": (1, 2), "blocks": 1, "attention": ()}
    made = models.create_denoiser(models.Description(architecture="unet", classes=0, input_shape=SHAPE, options=small))
    torch.nn.init.normal_(made.network.last[2].weight, std=0.05)  # it starts as a mere shrinking
    return made


def network(classes=10, seed=1):
    """One that tells digits apart a little, though it was never trained."""
    torch.manual_seed(seed)
    net = models.create(
        models.Description(architecture="small-cnn", classes=classes, input_shape=SHAPE, options={"width": 8})
    )
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return net


def pair(before, classes=10, seed=1):
    return sx.Denoised(before, network(classes, seed))


def smoothed(model, sigma, classes=10):
    return sx.Smoothed(model, sigma=sigma, classes=classes, batch=64)


def dual(rule):
    before = denoiser()
    experts = [smoothed(pair(before), sigma) for sigma in (0.25, 0.5)]
    return sx.Dual(smoothed(pair(before, 2, seed=3), 0.5, classes=2), experts, rule=rule)


def nested():
    """A router over a router, and over a cascade: all after one denoiser."""
    before = denoiser()
    inner = sx.Dual(
        smoothed(pair(before, 2, seed=4), 0.5, classes=2), [smoothed(pair(before), s) for s in (0.125, 0.25)]
    )
    cascade = sx.Multiscale(pair(before), sigmas=(0.25, 0.5), classes=10, batch=64)
    return sx.Dual(smoothed(pair(before, 2, seed=3), 0.5, classes=2), [inner, cascade])


def cascade(each):
    before = denoiser()
    nets = [pair(before, seed=seed) for seed in (1, 2)] if each else pair(before)
    return sx.Multiscale(nets, sigmas=(0.25, 0.5), classes=10, batch=64)


SCHEMES = {
    "smoothed": lambda: smoothed(pair(denoiser()), 0.25),
    "multiscale": lambda: cascade(each=False),
    "multiscale, a network each": lambda: cascade(each=True),
    "dual-min": lambda: dual("min"),
    "dual-consensus": lambda: dual("consensus"),
    "nested": nested,
}


def run_of(scheme, path, sampling, **more):
    return sx.certify_run(scheme, sx.data.load("digits"), path, **SAMPLES, **SAMPLINGS[sampling], maximum=9, **more)


@pytest.mark.parametrize("sampling", ["fixed", pytest.param("adaptive", marks=pytest.mark.slow), "targets"])
@pytest.mark.parametrize("name", SCHEMES)
def test_it_certifies_records_resumes_and_verifies(name, sampling, tmp_path):
    whole = run_of(SCHEMES[name](), tmp_path / "whole.jsonl", sampling)
    assert len({record.certificate.radius for record in whole.records}) > 3
    assert sx.verify(whole.path).holds

    def kill(done, total):
        if done == 4:
            raise KilledError

    cut = tmp_path / "cut.jsonl"
    with pytest.raises(KilledError):
        run_of(SCHEMES[name](), cut, sampling, watch=kill)
    resumed = run_of(SCHEMES[name](), cut, sampling)
    assert [r.certificate for r in resumed.records] == [r.certificate for r in whole.records]
    assert sx.verify(cut).holds


@pytest.mark.parametrize("name", SCHEMES)
def test_a_folder_holds_it_with_one_denoiser(name, tmp_path):
    scheme = SCHEMES[name]()
    scheme.save(tmp_path / "system")
    assert len(list((tmp_path / "system").glob("*denoiser*.safetensors"))) == 1
    loaded = sx.load(tmp_path / "system", batch=64)
    assert len({id(voter.model.denoiser) for voter in loaded.voters.values()}) == 1
    assert fingerprint(loaded) == fingerprint(scheme)
    x = sx.data.load("digits").pixels(range(4))
    assert loaded.certify(x, **SAMPLES) == scheme.certify(x, **SAMPLES)
    assert loaded.predict(x, n=100, seed=1) == scheme.predict(x, n=100, seed=1)


@pytest.mark.parametrize("name", SCHEMES)
def test_every_stage_is_denoised_at_its_own_sigma(name):
    """What passes the denoiser is given the sigma of the noise that was added to it."""
    scheme, seen = SCHEMES[name](), set()
    (one,) = {id(voter.model.denoiser): voter.model.denoiser for voter in scheme.voters.values()}.values()
    x = sx.data.load("digits").pixels([3])

    def look(_, given):
        noisy, sigma = given
        if len(noisy) > SMALL:  # the trial before any work has far neighbours
            seen.add((sigma, float((noisy - torch.from_numpy(x)).std())))

    scheme.check(x)  # the trial of full batches is over then
    one.register_forward_pre_hook(look)
    found = scheme.certify(x, **SAMPLES)
    assert {sigma for sigma, _ in seen} == {stage.sigma for c in found for stage in c.stages}
    assert all(spread == pytest.approx(sigma, rel=0.1) for sigma, spread in seen)


@pytest.mark.parametrize(
    "sampling", ["fixed", *(pytest.param(name, marks=pytest.mark.slow) for name in ("adaptive", "targets"))]
)
def test_labels_of_denoised_experts(sampling, tmp_path):
    experts = [smoothed(pair(denoiser()), 0.25), cascade(each=False)]
    digits, request = sx.data.load("digits", "train"), {**SAMPLES, **SAMPLINGS[sampling], "fraction": 0.02}

    def kill(done, total):
        if done == 5:
            raise KilledError

    with pytest.raises(KilledError):
        make_labels(experts, digits, tmp_path / "labels", **request, watch=kill)
    labels = make_labels(experts, digits, tmp_path / "labels", **request)
    assert labels.fingerprint == make_labels(experts, digits, tmp_path / "whole", **request).fingerprint
    assert (labels.radii > 0).any()
    for number, expert in enumerate(experts):
        assert sx.verify(tmp_path / "labels" / f"expert-{number}.jsonl").holds
        expert.save(tmp_path / f"expert-{number}")
    again = [sx.load(tmp_path / f"expert-{number}") for number in range(2)]
    read_labels(tmp_path / "labels").check(again)
