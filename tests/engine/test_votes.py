"""The engine: the noise an input gets, and so its counts, depend on nothing but its address."""

from itertools import chain

import numpy as np
import pytest
import torch
from torch import nn

import sigmax as sx
from sigmax.engine.inputs import Item, Noisy
from sigmax.engine.rounds import run
from sigmax.engine.voter import Voter, voting
from sigmax.engine.votes import Casting, tally
from sigmax.noise.addressed import BLOCK
from sigmax.noise.gaussian import block
from sigmax.rules.certificate import Role
from sigmax.rules.procedure import VoteRequest

BATCHES = (1, 7, 128, 1000)
CLASSES = 3


def request(n, *, sigma=0.5, role=Role.ESTIMATION, start=0):
    return VoteRequest("", role, CLASSES, sx.noise.Gaussian(sigma), n, start)


class Recorder:
    """A classifier that keeps every noisy input it was shown."""

    def __init__(self, classes: int = 3) -> None:
        self.classes = classes
        self.seen: list[torch.Tensor] = []

    def __call__(self, batch: torch.Tensor) -> torch.Tensor:
        self.seen.append(batch.clone())
        return (batch.flatten(1).sum(1) * 7).floor().long() % self.classes

    def rows(self) -> torch.Tensor:
        return torch.cat(self.seen)


def noisy(x, ids=None, seed=5):
    return Noisy(x, ids if ids is not None else list(range(len(x))), seed)


def cast(model, x, asks, batch, ids=None, seed=5, classes=CLASSES):
    voter = Voter(model, classes=classes, batch=batch)
    items = [Item(i, (ask,)) for i, ask in asks]
    return {i: counts for i, (counts,) in chain(*tally(voter, items, noisy(x, ids, seed)))}


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("shape", [(4,), (1, 8, 8), (2, 3, 5, 2), (3, 16, 16)])
def test_noise_is_bit_identical_for_every_batch_size(batch, shape):
    x, model = torch.rand(3, *shape), Recorder()
    counts = cast(model, x, [(i, request(300)) for i in range(3)], batch)
    expected = torch.cat([literal_noisy(x[i], i, "estimation", 300) for i in range(3)])
    assert torch.equal(model.rows(), expected)
    votes = Recorder()(expected).view(3, 300)
    assert counts == {i: tuple(torch.bincount(votes[i], minlength=3).tolist()) for i in range(3)}


def literal_noisy(x, input_id, stage, n, sigma=0.5, seed=5):
    """The noisy inputs of one stage, written out from the address alone."""
    blocks = [block(seed=seed, input_id=input_id, stage=stage, index=k, shape=x.shape) for k in range(-(-n // BLOCK))]
    return x + sigma * torch.cat(blocks)[:n]


@pytest.mark.parametrize("batch", BATCHES)
def test_order_and_subset_do_not_matter(batch):
    x = torch.rand(5, 6)
    smoothed = sx.Smoothed(Recorder(), sigma=0.5, classes=3, batch=batch)
    whole = smoothed.certify(x, n0=30, n=200, alpha=0.05, ids=[10, 11, 12, 13, 14])
    picked = smoothed.certify(x[[3, 1]], n0=30, n=200, alpha=0.05, ids=[13, 11])
    assert picked == [whole[3], whole[1]]


@pytest.mark.parametrize("cut", [1, 100, 128, 129, 299])
@pytest.mark.parametrize("batch", BATCHES)
def test_two_parts_are_the_same_samples(cut, batch):
    x, whole, parts = torch.rand(2, 6), Recorder(), Recorder()
    at_once = cast(whole, x, [(1, request(300))], batch)
    first = cast(parts, x, [(1, request(cut))], batch)
    second = cast(parts, x, [(1, request(300, start=cut))], batch)
    assert torch.equal(whole.rows(), parts.rows())
    assert at_once[1] == tuple(np.add(first[1], second[1]))


def test_batches_are_filled_across_inputs():
    model = Recorder()
    cast(
        model,
        torch.rand(40, 4),
        [(i, request(100, role=Role.SELECTION)) for i in range(40)],
        batch=1000,
    )
    assert [len(batch) for batch in model.seen] == [1000] * 4


def test_inputs_with_different_sigma_share_a_batch():
    model, x = Recorder(), torch.zeros(2, 4)
    asks = [
        (0, request(64, sigma=0.25)),
        (1, request(64, sigma=1.0)),
    ]
    cast(model, x, asks, batch=128)
    (only,) = model.seen
    assert only[:64].std() == pytest.approx(0.25, rel=0.2)
    assert only[64:].std() == pytest.approx(1.0, rel=0.2)


def test_a_model_that_takes_sigma_gets_it_and_never_mixes():
    given = []

    class Denoiser:
        takes_sigma = True

        def __call__(self, batch, sigma):
            given.append((len(batch), sigma))
            return torch.zeros(len(batch), dtype=torch.long)

    voter = Voter(Denoiser(), classes=2, batch=128)

    def procedure(sigma):
        counts = yield request(100, sigma=sigma)
        return counts

    found = dict(run([procedure(0.25), procedure(1.0)], Noisy(torch.zeros(2, 4), [0, 1], 0), {"base": voter}))
    assert found == {0: (100, 0), 1: (100, 0)}
    assert given == [(100, 0.25), (100, 1.0)]


def test_known_answers_are_not_voted_on_again_and_change_nothing():
    x, sigma = torch.rand(6, 5), 0.5
    fresh, model = Recorder(), Recorder()
    whole = sx.Smoothed(fresh, sigma=sigma, classes=3, batch=64)
    arguments = {"n0": 30, "n": 500, "alpha": 0.05, "seed": 9, "ids": list(range(6))}
    everything = dict(whole.certifications(x, **arguments))
    known = {position: everything[position].stages for position in (0, 1, 2, 3)}
    resumed = dict(sx.Smoothed(model, sigma=sigma, classes=3, batch=64).certifications(x, **arguments, known=known))
    assert resumed == everything
    assert len(model.rows()) < len(fresh.rows()) / 2
    # Every batch that was run is, bit for bit, one of the uninterrupted run's.
    ran_before = {batch.numpy().tobytes() for batch in fresh.seen}
    assert all(batch.numpy().tobytes() in ran_before for batch in model.seen)


def conv_net(classes: int = 10) -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 8 * 8, classes),
    )
    return net.eval()


def test_a_convolutional_nets_own_rounding_tips_hardly_any_vote():
    """Noise is bit-identical; what remains is a network whose arithmetic depends on its batch. Counted here."""
    x = torch.rand(4, 3, 16, 16)
    asks = [(i, request(250)) for i in range(4)]
    counts = {b: cast(conv_net(), x, asks, b, classes=10) for b in BATCHES}
    tipped = {
        b: sum(int(np.abs(np.subtract(counts[b][i], counts[1000][i])).sum()) // 2 for i in range(4)) for b in BATCHES
    }
    assert max(tipped.values()) <= 2, f"votes tipped of 1000, by batch size: {tipped}"


def test_models_may_return_class_ids_or_logits():
    x = torch.rand(3, 1, 8, 8)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 5))
    # Both as functions: noise is addressed by the weights, which are hidden inside of a function.
    by_logits = sx.Smoothed(lambda batch: net(batch), sigma=0.5, classes=5).certify(x, n=500)
    by_ids = sx.Smoothed(lambda batch: net(batch).argmax(1), sigma=0.5, classes=5).certify(x, n=500)
    assert by_logits == by_ids


class Output(dict):
    """As Hugging Face's models return: a mapping with attributes."""

    logits = property(lambda self: self["logits"])


@pytest.mark.parametrize(
    "wrap",
    [
        lambda logits: logits.numpy(),
        lambda logits: logits.numpy().argmax(1),
        lambda logits: logits.argmax(1).to(torch.int32),
        lambda logits: logits.tolist(),
        lambda logits: logits.argmax(1).tolist(),
        lambda logits: list(logits),
        lambda logits: [logits.numpy(), "hidden states"],
        lambda logits: (logits, "hidden states"),
        lambda logits: (logits.logsumexp(1).mean(), logits),
        lambda logits: {"logits": logits},
        lambda logits: Output(logits=logits),
    ],
)
def test_logits_are_taken_out_of_what_models_usually_return(wrap):
    x, net = torch.rand(3, 1, 8, 8), nn.Sequential(nn.Flatten(), nn.Linear(64, 5))
    plain, wrapped = (
        sx.Smoothed(model, sigma=0.5, classes=5).certify(x, n=200)
        for model in (lambda batch: net(batch), lambda batch: wrap(net(batch)))
    )
    assert plain == wrapped


@pytest.mark.parametrize("dtype", ["bf16", torch.bfloat16])
def test_a_precision_has_a_name(dtype):
    assert Voter(nn.Linear(4, 3), classes=3, dtype=dtype).dtype is torch.bfloat16
    with pytest.raises(sx.RequestError, match="dtype must be one of fp32, bf16, fp16"):
        Voter(nn.Linear(4, 3), classes=3, dtype="half")


def test_votes_are_cast_in_eval_mode_and_the_model_stays_in_the_mode_it_was_in():
    net = conv_net().train()
    net[0].eval()  # one layer is frozen
    seen = []
    net.register_forward_pre_hook(lambda module, _: seen.append([part.training for part in module.modules()]))
    smoothed = sx.Smoothed(net, sigma=0.25, classes=10)
    before, mean = [part.training for part in net.modules()], net[1].running_mean.clone()
    asked = {"n0": 10, "n": 200, "alpha": 0.05, "seed": 0, "ids": range(2)}
    for _ in smoothed.certifications(torch.rand(2, 3, 16, 16), **asked):
        assert [part.training for part in net.modules()] == before
        net(torch.rand(4, 3, 16, 16))  # the caller may use it between two results
        net[1].running_mean.copy_(mean)
        seen.pop()
    smoothed.predict(torch.rand(1, 3, 16, 16), n=100)
    assert [part.training for part in net.modules()] == before
    assert torch.equal(net[1].running_mean, mean)
    assert seen
    assert not any(map(any, seen))


def test_a_network_stays_in_eval_mode_until_the_last_who_votes_with_it_is_done():
    """As where one thread ends while another is voting, and where two networks share layers."""
    layers = conv_net().train()
    layers[0].eval()
    before = [part.training for part in layers.modules()]
    voters = [Voter(model, classes=10) for model in (layers, nn.Sequential(layers, nn.Identity()))]
    first, second = (voting([voter]) for voter in voters)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not any(part.training for part in layers.modules())
    second.__exit__(None, None, None)
    assert [part.training for part in layers.modules()] == before


def test_the_mode_comes_back_after_an_error():
    class Broken(nn.Module):
        def forward(self, batch):
            raise KeyError("mine")

    net = Broken().train()
    with pytest.raises(sx.RequestError, match=r"^KeyError: 'mine' \(raised by the model when given a trial batch"):
        sx.Smoothed(net, sigma=0.5, classes=3).certify(torch.rand(1, 4))
    assert net.training


@pytest.mark.slow
def test_an_exported_program_whose_mode_cannot_be_set_votes_as_its_network():
    net = nn.Sequential(nn.Linear(4, 3))
    program = torch.export.export(net, (torch.rand(2, 4),), dynamic_shapes=({0: torch.export.Dim("n")},))
    asked = {"n": 100, "alpha": 0.05, "seed": 0}
    x = torch.rand(2, 4)
    expected = sx.Smoothed(net, sigma=0.5, classes=3).certify(x, **asked)
    for model in (program, program.module()):
        assert sx.Smoothed(model, sigma=0.5, classes=3).certify(x, **asked) == expected
    two = sx.Multiscale(program, sigmas=(0.25, 0.5), classes=3)
    assert len({id(voter) for voter in two.voters.values()}) == 1  # it is one network


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda b: torch.zeros(len(b), 4), "4 logits"),
        (lambda b: torch.zeros(len(b)), "class ids must be integers"),
        (lambda b: torch.zeros(len(b), 3, 2), r"returned \(8, 3, 2\)"),
        (lambda b: torch.zeros(len(b) + 1, 3), r"for a batch of 8 it returned \(9, 3\)"),
        (lambda b: ["cat"] * len(b), "returned list"),
        (lambda b: [[0.0], [0.0, 1.0]], "returned list"),
        (lambda b: torch.zeros(len(b), 3, dtype=torch.bool), "logits must be real numbers"),
        (lambda b: torch.zeros(len(b), 3, dtype=torch.complex64), "logits must be real numbers"),
        (
            lambda b: nn.Linear(9, 3)(b),
            r"^RuntimeError: mat1 and mat2 .* \(raised by the model when given a trial batch of shape \(8, 5\), "
            r".*batch axis: x\[None\]$",
        ),
    ],
)
def test_a_model_that_does_not_fit_is_refused_before_any_work(model, message):
    with pytest.raises(sx.RequestError, match=message):
        sx.Smoothed(model, sigma=0.5, classes=3).certify(torch.rand(2, 5))


@pytest.mark.parametrize("batch", [*BATCHES, 300, 700])
def test_counts_are_the_same_when_they_are_read_after_all_batches_as_a_gpu_does(batch):
    x, asks = torch.rand(5, 6), [request(n) for n in (300, 1, 128, 700, 40)]
    work = Casting(Voter(Recorder(), classes=3, batch=batch), [Item(i, (ask,)) for i, ask in enumerate(asks)], noisy(x))
    portions = list(work.portions())
    counted = [pair for portion in portions for pair in work.counts_of(portion)]
    assert {item.position: counts for item, (counts,) in counted} == cast(Recorder(), x, list(enumerate(asks)), batch)
    assert [item.position for item, _ in counted] == [0, 1, 2, 3, 4]
    assert len(portions) == len({-(-end // batch) for end in (300, 301, 429, 1129, 1169)})


def test_a_vote_that_is_no_class_spoils_what_its_batch_completes_and_nothing_before():
    calls = []

    def wrong_later(batch):
        calls.append(len(batch))
        return torch.full((len(batch),), 3 if len(calls) > 1 else 0)

    items = [Item(i, (request(100),)) for i in range(2)]
    work = Casting(Voter(wrong_later, classes=3, batch=100), items, noisy(torch.rand(2, 6)))
    first, second = list(work.portions())
    assert [counts for _, (counts,) in work.counts_of(first)] == [(100, 0, 0)]
    with pytest.raises(sx.RunError, match="NaN logits or a class id outside"):
        list(work.counts_of(second))


@pytest.mark.parametrize("output", [torch.tensor([3]), torch.tensor([-1]), torch.tensor([[float("nan"), 0.0, 0.0]])])
def test_votes_that_are_no_class_are_never_counted(output):
    def wrong(batch):
        return output.repeat(len(batch), *[1] * (output.ndim - 1))

    with pytest.raises(sx.RunError, match="NaN logits or a class id outside"):
        sx.Smoothed(wrong, sigma=0.5, classes=3).certify(torch.rand(2, 5))


def test_bf16_votes_get_the_same_noise_and_nearly_the_same_counts():
    x, net = torch.rand(2, 3, 16, 16), conv_net()
    asks = [(i, request(500)) for i in range(2)]
    shown: list[torch.Tensor] = []
    net.register_forward_pre_hook(lambda module, inputs: shown.append(inputs[0].clone()))
    items = [Item(i, (ask,)) for i, ask in asks]
    full = {i: c for i, (c,) in chain(*tally(Voter(net, classes=10, batch=500), items, noisy(x)))}
    lower = Voter(net, classes=10, batch=500, dtype=torch.bfloat16)
    half = {i: c for i, (c,) in chain(*tally(lower, items, noisy(x)))}
    assert torch.equal(shown[0], shown[2])
    assert all(np.abs(np.subtract(full[i], half[i])).sum() < 100 for i in range(2))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_makes_the_same_noise_in_every_batch():
    x, ask = torch.rand(2, 4), request(300)
    seen, counts = [Recorder(), Recorder()], []
    for recorder, size in zip(seen, (128, 37), strict=True):
        voter = Voter(recorder, classes=3, device="cuda", batch=size)
        counts.append(dict(chain(*tally(voter, [Item(0, (ask,)), Item(1, (ask,))], noisy(x)))))
    assert torch.equal(seen[0].rows(), seen[1].rows())
    assert counts[0] == counts[1]


@pytest.mark.parametrize("change", [lambda b: b.sub_(0.2), lambda b: b.mul_(2).sub_(1), lambda b: b.clamp_(0, 1)])
def test_a_model_that_works_in_place_changes_no_input(change):
    def in_place(batch):
        return change(batch).flatten(1).mean(1).lt(0.35).long()

    def pure(batch):
        return in_place(batch.clone())

    x = torch.full((30, 1, 4, 4), 0.45)
    found = sx.Smoothed(in_place, sigma=0.25, classes=2, batch=64).certify(x, n=300)
    assert torch.equal(x, torch.full((30, 1, 4, 4), 0.45))
    assert found == sx.Smoothed(pure, sigma=0.25, classes=2, batch=64).certify(x, n=300)


def test_serving_another_shape_meanwhile_loses_no_vote():
    f = sx.Smoothed(lambda batch: batch.flatten(1).sum(1).gt(0).long(), sigma=0.5, classes=2)
    x, arguments = torch.rand(6, 1, 8, 8), {"n0": 100, "n": 3000, "alpha": 0.001, "seed": 0, "ids": range(6)}
    alone = dict(f.certifications(x, **arguments))
    interrupted = f.certifications(x, **arguments)
    found = [next(interrupted)]
    f.certify(torch.rand(1, 3, 32, 32), n=100)
    assert dict([*found, *interrupted]) == alone


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_torchs_default_dtype_changes_no_certificate(dtype):
    f = sx.Smoothed(lambda batch: (batch[:, 0] >= 256.95).long(), sigma=0.1, classes=2, domain=None)
    x = torch.tensor([[256.9]])
    before = f.certify(x, n=1000)
    try:
        torch.set_default_dtype(dtype)
        assert f.certify(x, n=1000) == before
    finally:
        torch.set_default_dtype(torch.float32)


def test_an_unusable_device_is_refused():
    with pytest.raises(sx.RequestError, match="cannot be used here"):
        sx.Smoothed(nn.Linear(4, 3), sigma=0.5, classes=3, device="cuda:99")


class Picky(torch.nn.Module):
    """A network as many are written: it flattens what its layer gives with .view()."""

    def __init__(self):
        super().__init__()
        self.layer, self.last = torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.Linear(4 * 8 * 8, 5)
        self.seen = set()

    def forward(self, images):
        self.seen.add(images.is_contiguous(memory_format=torch.channels_last))
        return self.last(self.layer(images).view(len(images), -1))


class Easy(Picky):
    def forward(self, images):
        self.seen.add(images.is_contiguous(memory_format=torch.channels_last))
        return self.last(self.layer(images).flatten(1))


def test_convolutions_get_their_channels_last_and_a_model_that_insists_gets_them_as_they_were(monkeypatch):
    monkeypatch.setattr("sigmax.engine.voter.SMALL", 0)  # of which a CPU convolves faster in the usual layout
    images = torch.rand(3, 3, 8, 8)
    counts = []
    for kind in (Easy, Picky):
        torch.manual_seed(0)
        model = kind()
        found = sx.Smoothed(model, sigma=0.5, classes=5).certify(images, n0=50, n=400, alpha=0.01)
        counts.append([stage.counts for c in found for stage in c.stages])
        assert model.seen == ({True} if kind is Easy else {True, False})  # tried once
    assert counts[0] == counts[1]  # sums of so few terms hardly differ, and no vote was so close


def test_a_wrong_image_size_suggests_the_option_that_resizes():
    with pytest.raises(sx.RequestError, match=r"resized by --image-size N \(--set image_size=N where .*; size=N in"):
        sx.Smoothed(Easy(), sigma=0.5, classes=5).certify(torch.rand(1, 3, 9, 9))
