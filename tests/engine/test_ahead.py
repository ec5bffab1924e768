"""Votes cast ahead fill rows that would be padding, and change no record: not whole, not cut, not resumed.

Nor do the two teams change any that take turns where a GPU votes.
"""

import pytest
import torch
from torch import nn

import sigmax as sx
from sigmax.engine import compilation, rounds, voter
from sigmax.engine.ahead import Ahead
from sigmax.engine.inputs import Item
from sigmax.engine.voter import LEAST_PIECE, PIECES, Voter
from sigmax.models import selective
from sigmax.rules.certificate import Role
from sigmax.rules.procedure import VoteRequest

BATCH = PIECES * LEAST_PIECE
X = torch.rand(9, 1, 1, 3, generator=torch.Generator().manual_seed(3)) * torch.linspace(0.1, 1.0, 9).view(-1, 1, 1, 1)
SAMPLINGS = {
    "fixed": sx.Sampling(),
    "the radius": sx.Sampling("adaptive"),
    "one radius": sx.Sampling("adaptive", targets=(0.2,)),
    "many radii": sx.Sampling("adaptive", targets=(0.0, 0.1, 0.2, 0.3, 0.4)),
}


class Numbers(nn.Module):
    """The input's own numbers are the logits, so that no vote depends on the size of a batch in its last bits."""

    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def forward(self, batch):
        self.seen.append(batch.clone())
        return 4 * batch.flatten(1)


class Routes(Numbers):
    def forward(self, batch):
        first = super().forward(batch)[:, 0]
        return torch.stack([first, 2 - first], dim=1)


def smoothed(seen, sigma=0.25, **how):
    return sx.Smoothed(Numbers(seen), sigma=sigma, classes=3, **how)


def dual(seen, **how):
    router = sx.Smoothed(Routes(seen), sigma=0.25, classes=2, **how)
    return sx.Dual(router, [smoothed(seen, 0.12, **how), smoothed(seen, **how)])


def cascade(seen, **how):
    levels = [
        sx.Smoothed(selective(Numbers(seen), confidence=0.6), sigma=sigma, classes=3, **how) for sigma in (0.5, 0.25)
    ]
    return sx.Cascade(levels, smoothed(seen, 0.12, **how))


SMALL = 64  # a batch that every team can fill
SCHEMES = {"smoothed": smoothed, "dual": dual, "cascade": cascade}


@pytest.fixture(autouse=True)
def padded(monkeypatch):
    """Networks that are run as compiled ones are, in batches of two sizes, without the minute a compiler takes."""
    monkeypatch.setattr(compilation, "compiled", lambda model, mode: model)


@pytest.fixture
def teams(monkeypatch):
    """How many teams each certification began with, where the machine's processor counts as a GPU."""
    begun, in_teams = [], rounds.Asking.in_teams
    monkeypatch.setattr(rounds, "HOST", "nowhere")
    monkeypatch.setattr(voter, "LEAST_PIECE", SMALL // PIECES)
    counted = lambda *given: begun.append(in_teams(*given)) or begun[-1]  # noqa: E731
    monkeypatch.setattr(rounds.Asking, "in_teams", counted)
    return begun


def certified(build, sampling, *, known=None, batch=BATCH, **how):
    """Certificates by position, in the order they came, and every batch that was run for them."""
    seen = []
    scheme = build(seen, batch=batch, **how)
    asked = {"n0": 50, "n": 1_000, "alpha": 0.01, "seed": 4, "ids": range(len(X)), "sampling": SAMPLINGS[sampling]}
    weights = scheme.weights()
    scheme.check(X)
    seen.clear()
    scheme.check(X, unchanged=True)
    tried = len(seen)
    seen.clear()
    return dict(scheme.certifications(X, **asked, weights=weights, known=known)), seen[tried:]


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("name", SCHEMES)
def test_records_are_the_same_with_and_without(name, sampling, monkeypatch):
    plain, _ = certified(SCHEMES[name], sampling)
    ahead, fewer = certified(SCHEMES[name], sampling, compile=True)
    monkeypatch.setattr(Voter, "padding", lambda *_: 0)
    padded, more = certified(SCHEMES[name], sampling, compile=True)
    assert plain == ahead == padded
    if SAMPLINGS[sampling].targets:
        assert len(fewer) < len(more)


@pytest.mark.parametrize("done", [1, 5, 8])
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("name", SCHEMES)
def test_a_resumed_run_casts_the_batches_of_an_unbroken_one(name, sampling, done):
    whole, ran = certified(SCHEMES[name], sampling, compile=True)
    known = {position: whole[position].stages for position in list(whole)[:done]}
    resumed, again = certified(SCHEMES[name], sampling, compile=True, known=known)
    assert resumed == whole
    before = {batch.numpy().tobytes() for batch in ran}
    assert all(batch.numpy().tobytes() in before for batch in again)


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("name", SCHEMES)
def test_two_teams_find_what_one_finds(name, sampling, teams, monkeypatch):
    two, _ = certified(SCHEMES[name], sampling, compile=True, batch=SMALL)
    assert [len(each) for each in teams] == [2]
    monkeypatch.setattr(rounds, "HOST", "cpu")
    one, _ = certified(SCHEMES[name], sampling, compile=True, batch=SMALL)
    assert two == one
    assert len(teams) == 1


@pytest.mark.parametrize("done", [1, 5, 8])
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("name", SCHEMES)
def test_two_teams_resume_with_the_batches_of_an_unbroken_run(name, sampling, done, teams):
    whole, ran = certified(SCHEMES[name], sampling, compile=True, batch=SMALL)
    known = {position: whole[position].stages for position in list(whole)[:done]}
    resumed, again = certified(SCHEMES[name], sampling, compile=True, batch=SMALL, known=known)
    assert resumed == whole
    before = {batch.numpy().tobytes() for batch in ran}
    assert all(batch.numpy().tobytes() in before for batch in again)
    assert len(again) < len(ran) or done < 8


def test_a_team_that_fills_no_batch_joins_the_other(teams, monkeypatch):
    left, join = [], rounds.Asking.join
    monkeypatch.setattr(rounds.Asking, "join", lambda self, other: left.append(other.votes) or join(self, other))
    certified(SCHEMES["cascade"], "one radius", compile=True, batch=SMALL)
    assert len(left) == 1
    assert 0 < left[0] < SMALL


class Killed(BaseException):
    """As if the process had ended."""


@pytest.mark.parametrize("name", SCHEMES)
def test_a_run_that_was_killed_ends_as_one_left_alone(name, tmp_path):
    asked = {"n0": 50, "n": 1_000, "alpha": 0.01, "sampling": "adaptive", "targets": (0.0, 0.2, 0.4)}
    data = X.numpy(), [0] * len(X)

    def certify(file, **more):
        return sx.certify_run(SCHEMES[name]([], batch=BATCH, compile=True), data, tmp_path / file, **asked, **more)

    def kill_at(count):
        written = []

        def seen(record):
            written.append(record)
            if len(written) == count:
                raise Killed

        return seen

    whole = certify("whole.jsonl")
    for count in (2, 3):
        with pytest.raises(Killed):
            certify("cut.jsonl", seen=kill_at(count))
    resumed = certify("cut.jsonl")
    assert [r.certificate for r in resumed.records] == [r.certificate for r in whole.records]
    assert sx.verify(tmp_path / "cut.jsonl").holds


@pytest.mark.parametrize("votes", [1, 127, 128, 129, 500, 512, 513, 1000, 1024, 1025, 3000])
@pytest.mark.parametrize("compile_", [False, True])
def test_padding_is_what_is_run_in_vain(votes, compile_):
    seen = []
    voter = Voter(Numbers(seen), classes=3, batch=BATCH, compile=compile_)
    voter.vote(torch.rand(votes, 3), 0.5)
    assert sum(map(len, seen)) == votes + voter.padding(votes)
    assert compile_ or not voter.padding(votes)


def test_what_comes_next_for_each_input_stands_before_what_comes_after_that():
    schedule = ((32, 0.1), (64, 0.1), (128, 0.1))
    first = VoteRequest("", Role.ESTIMATION, 2, sx.noise.Gaussian(0.5), 32, schedule=schedule)
    last = first._replace(start=64, stop=128)
    picks = VoteRequest("", Role.SELECTION, 2, sx.noise.Gaussian(0.5), 50, then=first)
    items = [Item(0, (first,)), Item(1, (last,)), Item(2, (picks,), known=((45, 5),)), Item(3, (picks, picks))]

    def looks(room):
        found = Ahead().items(items, room)
        return [(item.position, item.request.start, item.request.stop, item.known) for item in found]

    assert looks(31) == []
    assert looks(63) == [(0, 32, 64, None)]
    assert looks(64) == [(0, 32, 64, None), (2, 0, 32, (None,))]
    assert looks(130) == [*looks(64), (0, 64, 128, None)]
    assert looks(10_000) == [*looks(130), (2, 32, 64, (None,)), (2, 64, 128, (None,))]


def test_what_waits_is_given_once_and_to_no_other_question():
    ask = VoteRequest("a", Role.ESTIMATION, 2, sx.noise.Gaussian(0.5), 64, 32)
    ahead = Ahead()
    ahead.keep(Item(3, (ask,), ahead=True), ((20, 12),))
    assert ahead.take(2, ask) is None
    assert ahead.take(3, ask._replace(part="b")) is None
    assert ahead.take(3, ask._replace(stop=96)) is None
    assert ahead.take(3, ask._replace(stream="b")) is None
    assert ahead.take(3, ask) == ((20, 12),)
    assert ahead.take(3, ask) is None
