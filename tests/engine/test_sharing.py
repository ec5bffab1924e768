"""Router and expert after one denoiser, under one noise: its work is done once, and nothing else changes."""

import pytest
import torch
from torch import nn

import sigmax as sx
from sigmax.engine.branches import Branches
from sigmax.engine.inputs import Noisy
from sigmax.engine.rounds import run
from sigmax.engine.sharing import can_share, joint_voter
from sigmax.engine.trial import COPIES, SMALL, between
from sigmax.records.verify import disagreements
from sigmax.rules.certificate import Role, leading
from sigmax.rules.procedure import JointRequest, VoteRequest
from sigmax.rules.registry import rebuild
from sigmax.rules.replay import replay
from sigmax.rules.routed.parts import expert_name

ASKED = {"n0": 32, "n": 300, "alpha": 0.01, "seed": 3}


class Shrink(nn.Module):
    """A denoiser that counts what passes through it."""

    def __init__(self):
        super().__init__()
        self.passed = 0

    def forward(self, noisy, sigma):
        self.passed += len(noisy)
        return (noisy / (1 + sigma)).clamp(0, 1)


def linear(classes, seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(48, classes))


def system(rule="consensus", sigma=0.5, denoisers=1, **how):
    first = Shrink()
    second = first if denoisers == 1 else Shrink()
    router = sx.Smoothed(sx.Denoised(first, linear(2, 0)), sigma=sigma, classes=2, **how)
    experts = [
        sx.Smoothed(sx.Denoised(second, linear(3, 1)), sigma=0.25, classes=3, **how),
        sx.Smoothed(sx.Denoised(second, linear(3, 2)), sigma=0.5, classes=3, **how),
    ]
    return sx.Dual(router, experts, rule=rule), first


X = torch.rand(12, 3, 4, 4, generator=torch.Generator().manual_seed(0))


def test_the_denoiser_runs_once_for_router_and_expert():
    dual, denoiser = system()
    found = dual.certify(X, **ASKED)
    shared = sum(c.stages[2].name.startswith("expert-1") for c in found)
    assert 0 < shared < len(X)  # both kinds of input are there
    votes = sum(c.samples for c in found)
    full = dual.voters["router/base"].batch
    trials = 3 * (2 * SMALL + COPIES + SMALL + 2 * full + 2 * between(full))  # what the check before any work passes
    assert denoiser.passed == votes - shared * ASKED["n"] + trials


def test_shared_votes_are_those_of_the_router_s_samples():
    """The expert in charge votes on exactly the noise that the router's estimation was addressed by."""
    dual, _ = system()
    alone = dual.experts[1]
    asks = []

    def asking(position):
        counts = yield VoteRequest(
            "", Role.ESTIMATION, 3, sx.noise.Gaussian(0.5), ASKED["n"], stream="router/estimation"
        )
        asks.append((position, counts))

    noisy = Noisy(X, range(len(X)), ASKED["seed"], dual.weights())
    list(run([asking(i) for i in range(len(X))], noisy, alone.voters))
    expected = dict(asks)
    for i, c in enumerate(dual.certify(X, **ASKED)):
        estimation = {stage.name: stage for stage in c.stages}.get("expert-1/estimation")
        if c.stages[2].name == "expert-1/selection":
            assert estimation.counts == expected[i]


def test_a_shared_certificate_is_verified_like_any_other():
    dual, _ = system()
    rule = rebuild(dual.rule.describe())  # knows nothing of sharing
    for c in dual.certify(X, **ASKED):
        proved = replay(rule.certifying(n0=32, n=300, alpha=0.01), c.stages)
        assert not list(disagreements(c, proved))


class Torn(nn.Module):
    """Two classes get as many votes each, whatever the input."""

    def forward(self, images):
        side = images.flatten(1).sum(1) * 50 % 1 - 0.5
        return torch.stack([side, -side, -9 * torch.ones_like(side)], 1)


def torn_system():
    """Every expert shares the router's denoiser; the second certifies nothing."""
    denoiser = Shrink()
    parts = [sx.Denoised(denoiser, part) for part in (linear(2, 0), linear(3, 2), Torn())]
    router, *experts = [sx.Smoothed(part, sigma=0.5, classes=k) for part, k in zip(parts, (2, 3, 3), strict=True)]
    dual = sx.Dual(router, experts)
    assert dual.rule.sharing == {0, 1}
    return dual


@pytest.mark.parametrize(
    "sampling", [sx.Sampling(), sx.Sampling("adaptive", targets=(0.2,), first=512)], ids=["fixed", "one look"]
)
def test_where_the_router_s_votes_were_of_no_use_they_are_not_in_the_record(sampling, tmp_path):
    """Verify knows nothing of sharing: it asks the router only where the expert has a radius worth asking about."""
    file, asked = tmp_path / "run.jsonl", {**ASKED, "sampling": sampling}
    run = sx.certify_run(torn_system(), (X.numpy(), [0] * len(X)), file, **asked)
    of_use = [any(s.name == "router/estimation" for s in r.certificate.stages) for r in run.records]
    assert 0 < sum(of_use) < len(X)  # both kinds of input are there
    assert sx.verify(file).findings == ()
    # Cut short it goes on, and the records are those of the whole run.
    whole = file.read_bytes().splitlines(keepends=True)
    for kept in (2, 5, len(X)):
        file.write_bytes(b"".join(whole[:kept]))
        again = sx.certify_run(torn_system(), (X.numpy(), [0] * len(X)), file, **asked)
        assert [r.certificate for r in again.records] == [r.certificate for r in run.records]


def test_certificates_do_not_depend_on_the_batch():
    small, large = (system(batch=batch)[0].certify(X, **ASKED) for batch in (7, 500))
    assert small == large


@pytest.mark.parametrize(
    ("changes", "shares"),
    [({}, {1}), ({"denoisers": 2}, set()), ({"sigma": 0.75}, set())],
)
def test_only_one_noise_and_one_denoiser_are_shared(changes, shares):
    dual, _ = system(**changes)
    assert dual.rule.sharing == shares
    assert dual.rule == rebuild(dual.rule.describe())  # how votes come about is no part of the rule


def test_class_ids_can_be_shared_too_and_no_class_is_still_refused():
    class Ids(nn.Module):
        def __init__(self, wrong=False):
            super().__init__()
            self.wrong = wrong

        def forward(self, images):
            ids = (images.flatten(1).sum(1) * 3).long() % 3
            return ids + 9 if self.wrong else ids

    def dual(wrong):
        denoiser = Shrink()
        router = sx.Smoothed(sx.Denoised(denoiser, linear(2, 0)), sigma=0.5, classes=2)
        experts = [sx.Smoothed(sx.Denoised(denoiser, Ids(wrong)), sigma=0.5, classes=3) for _ in range(2)]
        return sx.Dual(router, experts)

    assert dual(False).rule.sharing == {0, 1}
    assert len(dual(False).certify(X, **ASKED)) == len(X)
    with pytest.raises(sx.RunError, match="NaN logits or a class id outside"):
        dual(True).certify(X, **ASKED)


class InPlace(nn.Module):
    """A classifier that normalises the images where they lie, as ReLU(inplace=True) may."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, images):
        return self.inner(images.sub_(0.5).mul_(-4))


def each_by_itself(dual, name):
    """The counts of a stage, voted on by its network alone, on the router's samples."""

    def asking():
        return (yield ask)

    ask = VoteRequest("", Role.ESTIMATION, 3, sx.noise.Gaussian(0.5), ASKED["n"], stream="router/estimation")
    noisy = Noisy(X, range(len(X)), ASKED["seed"], dual.weights())
    return dict(run([asking() for _ in X], noisy, {"base": dual.voters[name]}))


def shared_counts(dual, name):
    """The same as certificates have them, of the inputs on which the router's votes were cast along."""
    stages = [{s.name: s for s in c.stages} for c in dual.certify(X, **ASKED)]
    routes = [leading(of["router/selection"].counts)[0] for of in stages]
    return {
        i: of[f"{name}/estimation"].counts
        for i, (of, route) in enumerate(zip(stages, routes, strict=True))
        if expert_name(route) == name
    }


def test_a_classifier_that_works_in_place_does_not_change_what_the_next_one_sees():
    denoiser = Shrink()
    router = sx.Smoothed(sx.Denoised(denoiser, InPlace(linear(2, 0))), sigma=0.5, classes=2)
    experts = [sx.Smoothed(sx.Denoised(denoiser, linear(3, seed)), sigma=0.5, classes=3) for seed in (2, 3)]
    dual = sx.Dual(router, experts)
    assert dual.rule.sharing == {0, 1}
    for name in ("expert-0", "expert-1"):
        found, alone = shared_counts(dual, name), each_by_itself(dual, f"{name}/base")
        assert found == {i: alone[i] for i in found}


class Brighter(sx.Denoised):
    """A kind of `Denoised` of the user's own, whose answer is not its classifier's for what it denoised."""

    def forward(self, noisy, sigma):
        return super().forward(noisy, sigma).roll(1, dims=1)


def hooked(model):
    model.register_forward_hook(lambda module, inputs, output: output.roll(1, dims=1))
    return model


@pytest.mark.parametrize("wrapped", [lambda *parts: Brighter(*parts), lambda *parts: hooked(sx.Denoised(*parts))])
def test_a_model_that_does_more_than_denoise_and_classify_votes_by_itself(wrapped):
    denoiser = Shrink()
    router = sx.Smoothed(sx.Denoised(denoiser, linear(2, 0)), sigma=0.5, classes=2)
    dual = sx.Dual(router, [sx.Smoothed(wrapped(denoiser, linear(3, s)), sigma=0.5, classes=3) for s in (2, 3)])
    assert dual.rule.sharing == frozenset()


def test_a_hook_put_on_later_is_refused_where_the_joint_pass_would_leave_it_out():
    dual, _ = system()
    hooked(dual.router.voters["base"].model)
    with pytest.raises(sx.RequestError, match="build the scheme again"):
        dual.certify(X, **ASKED)


def test_a_router_reused_in_many_systems_always_votes_with_their_own_experts():
    """Each system and its voters are gone before the next one is built, so their places in memory are used again."""
    denoiser = Shrink()
    router = sx.Smoothed(sx.Denoised(denoiser, linear(2, 0)), sigma=0.5, classes=2)

    def certified(router, seed):
        experts = [sx.Smoothed(sx.Denoised(denoiser, linear(3, seed + i)), sigma=0.5, classes=3) for i in range(2)]
        return sx.Dual(router, experts).certify(X[:4], **ASKED)

    for seed in range(1, 12):
        fresh = sx.Smoothed(sx.Denoised(denoiser, linear(2, 0)), sigma=0.5, classes=2)
        assert certified(router, seed) == certified(fresh, seed)


def test_the_joint_pass_compiles_the_denoiser_where_that_alone_is_compiled(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda model, **how: Compiled(model))
    plain, alone = (system(compile=mode)[0] for mode in (False, "denoiser"))
    joint = joint_voter([alone.voters["router/base"], alone.voters["expert-1/base"]])
    assert joint.mode == "denoiser"
    assert isinstance(joint._forward.denoiser, Compiled)
    assert alone.certify(X, **ASKED) == plain.certify(X, **ASKED)


class Compiled(nn.Module):
    """What stands for a compiled module: another object that computes the same."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *given):
        return self.inner(*given)


def test_plain_models_share_nothing():
    voters = [sx.Smoothed(linear(3, 0), sigma=0.5, classes=3).voters["base"] for _ in range(2)]
    assert not can_share(voters)


def test_a_question_for_several_counts_its_samples_once():
    ask = VoteRequest("", Role.ESTIMATION, 3, sx.noise.Gaussian(0.5), 100)
    assert JointRequest((ask, ask)).n == 100


def test_an_id_that_is_no_class_stays_none_in_the_joint_pass():
    class Nine(nn.Module):
        def forward(self, images):
            return torch.full((len(images),), 9)

    denoiser = Shrink()
    joint = Branches([sx.Denoised(denoiser, Nine()), sx.Denoised(denoiser, linear(3, 0))], [3, 3])
    assert joint(X, 0.5)[:, :3].isnan().all()
