"""The scores of an input by itself, among procedures that ask for votes."""

from contextlib import contextmanager

import pytest
import torch
from torch import nn

import sigmax as sx
from sigmax.engine.inputs import Noisy
from sigmax.engine.precision import full_precision
from sigmax.engine.rounds import run
from sigmax.engine.voter import Voter
from sigmax.engine.votes import score
from sigmax.rules.certificate import Role, Stage
from sigmax.rules.procedure import ScoreRequest, Scores, VoteRequest


def scorer(model, classes: int = 3) -> Voter:
    return Voter(model, classes=classes, votes=False)


def scored(counts=(0, 1, 0), *, sigma=0.0, scores=(1.0, 0.0, 3.0, 0.0), role=Role.SCORE) -> Stage:
    return Stage("", role, sigma, counts, sum(counts), scores=scores)


def test_the_two_leading_scores_of_the_input_itself():
    seen = score(scorer(lambda batch: batch), torch.tensor([0.25, -1.0, 0.75]))
    assert seen == Scores(2, 0.75, 0.25, pytest.approx(1.625**0.5 + 3**0.5), sx.radius.rounding(3, bits=64))
    tied = score(scorer(lambda batch: batch), torch.tensor([0.5, 0.5, 0.0]))
    assert (tied.score, tied.rival) == (0.5, 0.5)


def test_each_input_is_scored_alone_and_in_eval_mode():
    sizes = []

    class Net(nn.Module):
        def forward(self, batch):
            assert not self.training
            sizes.append(len(batch))
            return batch

    net = Net().train()
    voter = scorer(net)

    def procedure():
        seen = yield ScoreRequest("", 3)
        return seen

    x = torch.eye(3)
    found = dict(run([procedure() for _ in range(3)], Noisy(x, [0, 1, 2], 0), {"base": voter}))
    assert found == {
        i: Scores(i, 1.0, 0.0, pytest.approx(1 + 3**0.5), sx.radius.rounding(3, bits=64)) for i in range(3)
    }
    assert sizes == [1, 1, 1]


def test_a_model_that_works_in_place_is_scored_without_a_change_to_the_input():
    """It refuses 64 bits, so it is given the input in the precision in which it lies here."""

    def model(batch):
        if batch.dtype == torch.float64:
            raise TypeError("32 bits only")
        return batch.mul_(-4)

    x = torch.tensor([0.25, 0.5, 1.0])
    seen = score(scorer(model), x)
    assert x.tolist() == [0.25, 0.5, 1.0]
    assert (seen.top, seen.score, seen.size) == (0, -1.0, pytest.approx(1.3125**0.5 + 3**0.5))


def test_scores_and_votes_share_a_round_and_known_scores_are_not_computed_again():
    scored_sizes, voted = [], []

    def scores(batch):
        scored_sizes.append(len(batch))
        return batch

    def votes(batch):
        voted.append(len(batch))
        return torch.zeros(len(batch), dtype=torch.long)

    def procedure(score_first: bool):
        asks = [ScoreRequest("exact", 3), VoteRequest("noisy", Role.ESTIMATION, 3, sx.noise.Gaussian(0.5), 10)]
        found = []
        for question in asks if score_first else asks[::-1]:
            found.append((yield question))
        return sorted(map(str, found))

    voters = {"exact/base": scorer(scores), "noisy/base": Voter(votes, classes=3, batch=64)}
    inputs = Noisy(torch.eye(3), [0, 1, 2], 0)
    everything = dict(run([procedure(i % 2 == 0) for i in range(3)], inputs, voters))
    assert (scored_sizes, voted) == ([1, 1, 1], [10, 20])
    seen = score(scorer(lambda batch: batch), inputs.x[1])
    known = {
        1: (
            Stage("exact", Role.SCORE, 0.0, (0, 1, 0), 1, scores=(1.0, 0.0, seen.size, seen.rounding)),
            Stage("noisy", Role.ESTIMATION, 0.5, (10, 0, 0), 10),
        )
    }
    scored_sizes.clear()
    assert dict(run([procedure(i % 2 == 0) for i in range(3)], inputs, voters, known)) == everything
    assert scored_sizes == [1, 1]


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (scored((0, 2, 0)), "should hold n=1 samples at sigma=0.0"),
        (scored(sigma=0.5), "should hold n=1 samples at sigma=0.0"),
        (scored((0, 1)), "should count 3 classes"),
        (scored(scores=(0.0, 1.0)), "a rival's that is not above it"),
        (scored(scores=()), "a rival's that is not above it"),
        (scored(role=Role.ESTIMATION), "the record has no stage 'score'"),
    ],
)
def test_a_record_that_holds_no_scores_is_refused(stage, message):
    def procedure():
        seen = yield ScoreRequest("", 3)
        return seen

    with pytest.raises(sx.RequestError, match=message):
        dict(run([procedure()], Noisy(torch.eye(3)[:1], [0], 0), {"base": scorer(lambda b: b)}, {0: (stage,)}))


def test_a_model_that_takes_sigma_gets_zero():
    given = []

    class Denoiser:
        takes_sigma = True

        def __call__(self, batch, sigma):
            given.append(sigma)
            return batch

    assert score(scorer(Denoiser()), torch.tensor([0.0, 1.0, 0.0])).top == 1
    assert given == [0.0]


# Full precision


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


@pytest.mark.skipif(not hasattr(torch.backends.cudnn, "conv"), reason="torch before 2.9 has only the older switches")
@pytest.mark.parametrize("setting", [lambda: None, set_high, set_allowed, set_newer])
def test_products_of_scores_are_never_coarse_and_the_callers_settings_come_back(setting):
    inside = []

    def model(batch):
        inside.append([place.fp32_precision for place in places()])
        return batch

    with restored():
        setting()
        before = [place.fp32_precision for place in places()]
        score(scorer(model), torch.tensor([0.0, 1.0, 0.0]))
        Voter(model, classes=3).vote(torch.eye(3), 0.5)
        assert not {"tf32", "bf16"} & set(inside[0])
        assert inside[1] == before  # votes may be cast as the caller likes
        assert [place.fp32_precision for place in places()] == before


def test_the_callers_settings_come_back_after_an_error():
    before = torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()
    with pytest.raises(KeyError), full_precision():
        {}["a model's error"]
    assert (torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()) == before


def test_precision_is_full_until_the_last_of_several_threads_is_done():
    with restored():
        torch.set_float32_matmul_precision("high")
        first, second = full_precision(), full_precision()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert torch.get_float32_matmul_precision() == "highest"
        second.__exit__(None, None, None)
        assert torch.get_float32_matmul_precision() == "high"


def test_votes_recorded_as_32_bits_are_32_bits():
    kinds = []

    def model(batch):
        kinds.append((batch @ torch.ones(2, 3)).dtype)
        return torch.zeros(len(batch), dtype=torch.long)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        Voter(model, classes=2).vote(torch.eye(2), 0.5)
        Voter(model, classes=2, dtype=torch.bfloat16).vote(torch.eye(2), 0.5)
    assert kinds == [torch.float32, torch.bfloat16]
