"""Looks: the scores of an input by itself, among procedures that ask for votes."""

from contextlib import contextmanager

import pytest
import torch
from torch import nn

import sigmax as sx
from sigmax.certify.procedure import Ask, Look, Seen
from sigmax.noise.precision import whole_products
from sigmax.noise.voter import Voter
from sigmax.noise.votes import Noisy, look, run
from sigmax.records.certificate import Stage


def scorer(model, classes: int = 3) -> Voter:
    return Voter(model, classes=classes, votes=False)


def test_the_two_leading_scores_of_the_input_itself():
    seen = look(scorer(lambda batch: batch), torch.tensor([0.25, -1.0, 0.75]))
    assert seen == Seen(2, 0.75, 0.25)
    tied = look(scorer(lambda batch: batch), torch.tensor([0.5, 0.5, 0.0]))
    assert (tied.score, tied.rival) == (0.5, 0.5)


def test_each_input_is_looked_at_alone_and_in_eval_mode():
    sizes = []

    class Net(nn.Module):
        def forward(self, batch):
            assert not self.training
            sizes.append(len(batch))
            return batch

    net = Net().train()
    voter = scorer(net)

    def procedure():
        seen = yield Look("base", "measure", 3)
        return seen

    x = torch.eye(3)
    found = dict(run([procedure() for _ in range(3)], Noisy(x, [0, 1, 2], 0), {"base": voter}))
    assert found == {i: Seen(i, 1.0, 0.0) for i in range(3)}
    assert sizes == [1, 1, 1]


def test_looks_and_asks_share_a_round_and_known_answers_are_not_looked_up_again():
    looked, voted = [], []

    def scores(batch):
        looked.append(len(batch))
        return batch

    def votes(batch):
        voted.append(len(batch))
        return torch.zeros(len(batch), dtype=torch.long)

    def procedure(first_looks: bool):
        asks = [Look("exact", "measure", 3), Ask("noisy", "estimation", 3, 0.5, 10)]
        found = []
        for question in asks if first_looks else asks[::-1]:
            found.append((yield question))
        return sorted(map(str, found))

    voters = {"exact": scorer(scores), "noisy": Voter(votes, classes=3, batch=64)}
    inputs = Noisy(torch.eye(3), [0, 1, 2], 0)
    everything = dict(run([procedure(i % 2 == 0) for i in range(3)], inputs, voters))
    assert (looked, voted) == ([1, 1, 1], [10, 20])
    known = {
        1: (
            Stage("measure", 0.0, (0, 1, 0), 1, 0.0, 1.0, 0.0, 0.5),
            Stage("estimation", 0.5, (10, 0, 0), 10),
        )
    }
    looked.clear()
    assert dict(run([procedure(i % 2 == 0) for i in range(3)], inputs, voters, known)) == everything
    assert looked == [1, 1]


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (Stage("measure", 0.0, (0, 2, 0), 2, 0.0, 1.0, 0.0), "should hold n=1 draws at sigma=0.0"),
        (Stage("measure", 0.5, (0, 1, 0), 1, 0.0, 1.0, 0.0), "should hold n=1 draws at sigma=0.0"),
        (Stage("measure", 0.0, (0, 1), 1, 0.0, 1.0, 0.0), "should count 3 classes"),
        (Stage("measure", 0.0, (0, 1, 0), 1, 0.0, 0.0, 1.0), "a rival's that is not above it"),
        (Stage("measure", 0.0, (0, 1, 0), 1, 0.0, None, 1.0), "a rival's that is not above it"),
        (Stage("measure", 0.0, (0, 1, 0), 1), "a rival's that is not above it"),
        (Stage("estimation", 0.0, (0, 1, 0), 1, 0.0, 1.0, 0.0), "no stage 'measure'"),
    ],
)
def test_a_record_that_holds_no_look_is_refused(stage, message):
    def procedure():
        seen = yield Look("base", "measure", 3)
        return seen

    with pytest.raises(sx.RequestError, match=message):
        dict(run([procedure()], Noisy(torch.eye(3)[:1], [0], 0), {"base": scorer(lambda b: b)}, {0: (stage,)}))


def test_a_model_that_takes_sigma_is_told_there_is_none():
    told = []

    class Denoiser:
        takes_sigma = True

        def __call__(self, batch, sigma):
            told.append(sigma)
            return batch

    assert look(scorer(Denoiser()), torch.tensor([0.0, 1.0, 0.0])).top == 1
    assert told == [0.0]


# Whole 32 bits


def places():
    backends = torch.backends
    return backends.cudnn.conv, backends.cuda.matmul, backends.mkldnn.conv, backends.mkldnn.matmul


@contextmanager
def restored():
    cudnn, matmul = torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()
    newer = [(place, place.fp32_precision) for place in places()] if hasattr(torch.backends.cudnn, "conv") else []
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = cudnn
        torch.set_float32_matmul_precision(matmul)
        for place, value in newer:
            place.fp32_precision = value


def set_high():
    torch.set_float32_matmul_precision("high")


def set_allowed():
    torch.backends.cuda.matmul.allow_tf32 = True


def set_newer():
    for place in places():
        place.fp32_precision = "tf32"


@pytest.mark.skipif(
    not hasattr(torch.backends.cudnn, "conv"), reason="torch before 2.9 has only the older switches"
)
@pytest.mark.parametrize("setting", [lambda: None, set_high, set_allowed, set_newer])
def test_products_of_scores_are_never_coarse_and_the_callers_settings_come_back(setting):
    inside = []

    def model(batch):
        inside.append([place.fp32_precision for place in places()])
        return batch

    with restored():
        setting()
        before = [place.fp32_precision for place in places()]
        look(scorer(model), torch.tensor([0.0, 1.0, 0.0]))
        Voter(model, classes=3).vote(torch.eye(3), 0.5)
        assert not {"tf32", "bf16"} & set(inside[0])
        assert inside[1] == before  # votes may be cast as the caller likes
        assert [place.fp32_precision for place in places()] == before


def test_the_callers_settings_come_back_after_an_error():
    before = torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()
    with pytest.raises(KeyError), whole_products():
        {}["a model's error"]
    assert (torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()) == before


def test_votes_recorded_as_32_bits_are_32_bits():
    kinds = []

    def model(batch):
        kinds.append((batch @ torch.ones(2, 3)).dtype)
        return torch.zeros(len(batch), dtype=torch.long)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        Voter(model, classes=2).vote(torch.eye(2), 0.5)
        Voter(model, classes=2, dtype=torch.bfloat16).vote(torch.eye(2), 0.5)
    assert kinds == [torch.float32, torch.bfloat16]
