"""How a network is run: named, tried, measured, remembered; never what its votes mean."""

import json

import pytest
import torch
from torch import nn

import sigmax as sx
from sigmax.engine import compilation
from sigmax.engine.voter import Voter

X = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SIGMAX_CACHE", str(tmp_path))
    monkeypatch.setattr(compilation, "ENOUGH", 0.01)
    return tmp_path / "compilation.json"


def test_a_mode_has_a_name():
    assert [compilation.mode_of(c) for c in (True, False, "tuned", "auto")] == ["default", "off", "tuned", "auto"]
    with pytest.raises(sx.RequestError, match="one of off, default, graphs, tuned, denoiser, auto; got 'fast'"):
        sx.Smoothed(network(), sigma=0.5, classes=4, compile="fast")


def test_the_fastest_mode_is_taken_and_what_fails_is_skipped():
    speeds = {8: 0.004, 16: 0.0041, 32: 0.0042}

    def call(forward, batch):
        import time

        if forward is not model:
            raise RuntimeError("no compiler here")
        time.sleep(speeds[len(batch)])
        return batch

    def model(batch):
        return batch

    best, tried = compilation.fastest(call, model, torch.zeros(1, 3), batches=(8, 16, 32))
    assert (best.mode, best.batch) == ("off", 32)
    assert [(one.mode, one.batch) for one in tried] == [("off", 8), ("off", 16), ("off", 32), ("default", 32)]
    assert tried[-1].votes_per_s == 0


def test_a_larger_batch_that_gains_nothing_ends_the_search(monkeypatch):
    speeds = {8: 100.0, 16: 150.0, 32: 151.0, 64: 900.0}
    monkeypatch.setattr(compilation, "_speed", lambda call, model, one, size: speeds[size] if model is abs else 120.0)
    best, tried = compilation.fastest(lambda f, b: b, abs, torch.zeros(1, 3), batches=tuple(speeds))
    assert best.batch == 16
    assert [(one.mode, one.batch) for one in tried] == [("off", 8), ("off", 16), ("off", 32), ("default", 64)]


@pytest.mark.slow
def test_auto_is_tried_once_and_remembered(cache, monkeypatch):
    voter = Voter(network(), classes=4, compile="auto")
    voter.check(X, 0.5)
    (kept,) = json.loads(cache.read_text()).values()
    assert kept["mode"] == voter.mode
    assert kept["batch"] == voter.batch

    def never(*_, **__):
        raise AssertionError("a second trial")

    monkeypatch.setattr(compilation, "fastest", never)
    voter.check(X, 0.5)
    again = Voter(network(seed=1), classes=4, compile="auto")  # other weights, the same network
    again.check(X, 0.5)
    assert (again.mode, again.batch) == (voter.mode, voter.batch)
    with pytest.raises(AssertionError, match="a second trial"):  # other images are another question
        Voter(nn.Sequential(nn.Flatten(), nn.Linear(16, 4)), classes=4, compile="auto").check(X[:, :, :4, :4], 0.5)


@pytest.mark.slow
def test_a_damaged_or_unwritable_cache_costs_a_trial_and_no_more(cache, monkeypatch):
    cache.write_text("{not json")
    Voter(network(), classes=4, compile="auto").check(X, 0.5)
    assert json.loads(cache.read_text())
    monkeypatch.setenv("SIGMAX_CACHE", "/proc/nowhere")
    Voter(network(), classes=4, compile="auto").check(X, 0.5)


@pytest.mark.slow
def test_auto_certifies_as_the_network_itself():
    given = {"n0": 20, "n": 400, "alpha": 0.01, "seed": 1}
    plain = sx.Smoothed(network(), sigma=0.5, classes=4).certify(X, **given)
    auto = sx.Smoothed(network(), sigma=0.5, classes=4, compile="auto").certify(X, **given)
    assert [c.predicted for c in plain] == [c.predicted for c in auto]
    assert [c.radius for c in plain] == pytest.approx([c.radius for c in auto], abs=0.02)


@pytest.mark.slow
def test_votes_that_a_compiled_network_casts_ahead_change_no_record(monkeypatch):
    given = {"n0": 20, "n": 1_000, "alpha": 0.01, "seed": 1, "sampling": "adaptive", "targets": (0.1, 0.3)}
    scheme = sx.Smoothed(network(), sigma=0.5, classes=4, compile=True, batch=1024)
    rows, vote = [], Voter.vote
    monkeypatch.setattr(Voter, "vote", lambda self, batch, sigma: rows.append(len(batch)) or vote(self, batch, sigma))
    ahead, run = scheme.certify(X, **given), len(rows)
    monkeypatch.setattr(Voter, "padding", lambda *_: 0)
    assert scheme.certify(X, **given) == ahead
    assert len(rows) - run > run


@pytest.mark.slow
def test_the_denoiser_alone_is_compiled_where_there_is_one():
    class Halve(nn.Module):
        def forward(self, noisy, sigma):
            return noisy / (1 + sigma)

    denoised = sx.Denoised(Halve(), network())
    found = compilation.compiled(denoised, "denoiser")
    with torch.no_grad():
        assert torch.allclose(found(X, 0.5), denoised(X, 0.5), atol=1e-6)
    with pytest.raises(sx.RequestError, match="has no denoiser"):
        compilation.compiled(network(), "denoiser")


def test_the_plan_names_the_mode():
    from sigmax.jobs.certify import arithmetic

    assert arithmetic(sx.Smoothed(network(), sigma=0.5, classes=4)) == "cpu float32"
    assert arithmetic(sx.Smoothed(network(), sigma=0.5, classes=4, compile=True)) == "cpu float32 compiled"
    tuned = sx.Smoothed(network(), sigma=0.5, classes=4, compile="tuned")
    assert arithmetic(tuned) == "cpu float32 compiled (tuned)"


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["default", "denoiser"])
def test_a_denoised_network_is_compiled_once_for_all_sigmas(mode, monkeypatch):
    """Dual and multiscale systems vote with one network under several sigmas: each compilation takes a minute."""
    from functools import partial

    from sigmax import models

    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    small = {"width": 8, "multipliers": (1,), "blocks": 1, "attention": ()}
    given = models.Description(architecture="unet", classes=0, input_shape=(1, 8, 8), options=small)
    pair = sx.Denoised(models.create_denoiser(given), network())
    for parameter in pair.parameters():
        nn.init.normal_(parameter, std=0.3)
    torch._dynamo.reset()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    monkeypatch.setitem(compilation.TORCH_MODES, "default", None)  # modes are the real backend's
    compiled, plain = (Voter(pair, classes=4, compile=how, batch=6) for how in (mode, False))
    for sigma in (0.12, 0.5, 1.0):
        found, expected = (voter.vote(X + sigma, sigma) for voter in (compiled, plain))
        assert torch.equal(found[0], expected[0])
    assert len(graphs) == 1


def test_a_denoiser_of_the_user_s_own_gets_a_number():
    seen = []

    class Halve(nn.Module):
        def forward(self, noisy, sigma):
            seen.append(sigma)
            return noisy / (1 + sigma)

    voter = Voter(sx.Denoised(Halve(), network()), classes=4, batch=6)
    voter._forward = voter.model.with_denoiser(Halve())  # stands for any compiled form
    voter.vote(X, 0.5)
    assert seen == [0.5]


def test_a_small_batch_is_padded_to_small_pieces(monkeypatch):
    """A compiled network knows two sizes; half a batch and more is one large piece."""
    monkeypatch.setattr(compilation, "compiled", lambda model, mode: Sizes(model))
    voter = Voter(torch.nn.Linear(3, 2), classes=2, batch=1024, compile=True)
    for rows, sizes in [(5, [128]), (129, [128, 128]), (512, [128] * 4), (513, [1024]), (1024, [1024])]:
        batch = torch.rand(rows, 3)
        torch.testing.assert_close(voter.output(batch, 0.1), voter.model(batch))
        assert voter._forward.seen == sizes
        voter._forward.seen.clear()


class Sizes:
    def __init__(self, model):
        self.model, self.seen = model, []

    def __call__(self, batch):
        self.seen.append(len(batch))
        return self.model(batch)
