"""How often certificates and predictions of cascades, and of trees with them, are wrong: all ways the votes can fall.

# q shares of the votes at each part (a class each, then votes to defer); t threshold; n0 = 1, n few enough to list
# The truth is what the shares themselves prove with no bounds, so a certificate above it rests on a bound that fails.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from math import comb, prod
from operator import add

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import multinomial

from sigmax import bounds, radius
from sigmax.rules.cascade import CascadeRule
from sigmax.rules.cascade import level as level_module
from sigmax.rules.cascade.level import Level, Payment, Tally
from sigmax.rules.cascade.predicting import candidates
from sigmax.rules.certificate import Role, joined
from sigmax.rules.lipschitz import LipschitzRule
from sigmax.rules.procedure import ScoreRequest, Scores
from sigmax.rules.routed.rule import DualRule
from sigmax.rules.sampling import FIXED, Look, Sampling
from sigmax.rules.smoothed import SmoothedRule
from tests.schemes.helpers import every_ending, splits

ALPHA = 0.6  # at which few votes prove something
FEW = {"first": 3, "last": 0.4}
QUESTIONS = {
    "fixed": FIXED,
    "the radius": Sampling("adaptive", **FEW),
    "targets": Sampling("adaptive", targets=(0.1, 0.3), **FEW),
    "tolerance": Sampling("adaptive", tolerance=0.2, **FEW),
    "stopping for little": Sampling("adaptive", futility=0.4, **FEW),  # as fixed sampling looks, stages given up early
}


class Careless(Sampling):
    """All of alpha at every look."""

    def schedule(self, n, alpha):
        return tuple(Look(stop, alpha) for stop, _ in super().schedule(n, alpha))


def simplex(columns: int, steps: int = 12) -> np.ndarray:
    """Shares all over, none of them 0."""
    return np.array(splits(steps, columns)) / steps * (1 - 1e-6) + 1e-6 / columns


# The bounds of one level hold together


def level(threshold: float = 0.5, classes: int = 2, *, defers: bool = True) -> Level:
    return Level("level-0", SmoothedRule.gaussian(1.0, classes, defers=defers), threshold)


def broken_bounds(part: Level, picked: int | None, n: int, alpha: float, sampling: Sampling) -> np.ndarray:
    """The chance, for shares all over, that L or any U that could be used is wrong at any look."""
    columns, classes = part.rule.columns, part.rule.classes
    level_limits = [f(k, n, alpha / 2) for f in (bounds.lower, bounds.upper) for k in range(n + 1)]
    near = [p * (1 + e) for p in level_limits for e in (-1e-9, 1e-9) if 0.02 < p < 0.98][::3]
    if columns == 2:
        pressing = [(p, 1 - p) for p in near]
    else:
        pressing = [(p, r, 1 - p - r) for p in near for r in near if p + r < 0.999][::5]
    shares = np.concatenate([simplex(columns), np.array(pressing)])
    stops = [look.stop for look in sampling.schedule(n, alpha)]
    chance = lru_cache(maxsize=None)(lambda votes: multinomial.pmf(votes, sum(votes), shares))
    rivals = np.stack([np.delete(shares[:, :classes], c, axis=1).max(1) for c in range(classes)], 1)
    wrong = np.zeros(len(shares))
    paths = [[]]
    for low, high in zip([0, *stops], stops, strict=False):
        paths = [[*path, votes] for path in paths for votes in splits(high - low, columns)]
    for path in paths:
        tally = Tally(part, picked, n=n, alpha=alpha, sampling=sampling)
        for votes in path:
            tally.poll.take(votes)
        used = range(classes) if picked is None else [picked]
        fails = np.any([tally.upper(c) < rivals[:, c] for c in used], axis=0)
        fails |= tally.lower > shares[:, picked or 0]
        wrong += np.where(fails, np.prod([chance(votes) for votes in path], axis=0), 0.0)
    return wrong


CASES = [  # classes, defers, n
    (2, True, 12),
    (3, False, 12),
    (2, False, 16),
]
LOOKS = {
    "fixed": FIXED,
    "small looks of fixed": FIXED.in_looks(12).capped(9.0),
    "adaptive": Sampling("adaptive", targets=(0.1,), first=6, growth=2.0, last=0.5),
}


@pytest.mark.parametrize("sampling", LOOKS)
@pytest.mark.parametrize("picked", [0, None])
@pytest.mark.parametrize(("classes", "defers", "n"), CASES)
def test_no_shares_make_a_bound_of_a_level_wrong_more_often_than_it_paid(classes, defers, n, picked, sampling):
    worst = broken_bounds(level(classes=classes, defers=defers), picked, n, 0.2, LOOKS[sampling]).max()
    assert 0.2 / 4 < worst <= 0.2


@pytest.mark.parametrize(
    ("picked", "payment"),
    [
        (0, lambda alpha, *, picked: Payment(alpha, alpha)),  # U is not paid for
        (None, lambda alpha, *, picked: Payment(0.0, alpha)),  # one bound is, where the class may be any
    ],
)
def test_a_bound_that_is_not_paid_for_is_caught(picked, payment, monkeypatch):
    monkeypatch.setattr(Payment, "of", payment)
    assert broken_bounds(level(), picked, 12, 0.2, FIXED).max() > 0.2


@pytest.mark.parametrize("looks", [LOOKS["adaptive"], Sampling("adaptive", first=3, growth=2.0, cap=9.0)])
@pytest.mark.parametrize("picked", [0, None])
def test_a_look_without_its_level_is_caught(picked, looks):
    """The second are looks at a quarter, a half and all of the samples, as fixed sampling has them for large n."""
    assert broken_bounds(level(), picked, 12, 0.2, looks).max() <= 0.2
    assert broken_bounds(level(), picked, 12, 0.2, Careless(**vars(looks))).max() > 0.2


# Whole certificates

Shares = dict[str, np.ndarray]


def selective(sigma: float, classes: int = 2) -> SmoothedRule:
    return SmoothedRule.gaussian(sigma, classes, defers=True)


def plain(sigma: float, classes: int = 2) -> SmoothedRule:
    return SmoothedRule.gaussian(sigma, classes)


def truth_of(rule, shares: Shares, part: str = "") -> dict[int, float]:
    """How far each class is certified by the shares themselves."""
    if isinstance(rule, LipschitzRule):
        return {seen_by(part): 0.8}
    if isinstance(rule, SmoothedRule):
        z = rule.sigma * ndtri(shares[part][: rule.classes])
        return {c: max(0.0, float(v)) for c, v in enumerate(z)}
    if isinstance(rule, DualRule):
        z = ndtri(shares[joined(part, "router")])
        reach = rule.router.sigma / 2 * (z.max() - z)
        experts = [truth_of(expert, shares, joined(part, f"expert-{j}")) for j, expert in enumerate(rule.experts)]
        top = experts[int(z.argmax())]
        ends = {c: min(max(d, far.get(c, 0.0)) for d, far in zip(reach, experts, strict=True)) for c in top}
        return {c: float(end) if top[c] else 0.0 for c, end in ends.items()}
    found = truth_of(rule.last, shares, joined(part, "last"))
    for j in reversed(range(len(rule.levels))):
        q, sigma, z = shares[joined(part, f"level-{j}")], rule.levels[j].sigma, ndtri(rule.thresholds[j])
        answers = {c: sigma * (ndtri(q[c]) - z) for c in range(rule.classes)}
        excludes = {c: sigma * (z - ndtri(np.delete(q[: rule.classes], c).max())) for c in range(rule.classes)}
        found = {c: float(max(0.0, answers[c], min(excludes[c], found.get(c, 0.0)))) for c in range(rule.classes)}
    return found


def seen_by(part: str) -> int:
    """The class that a deterministic part sees, within 0.8."""
    return 0 if part.endswith("expert-1") else 1


@dataclass
class Endings:
    """All ways the votes fall: how many of each at each part, in how many orders, class (-1: none) and radius."""

    counts: dict[str, np.ndarray]
    ways: np.ndarray
    predicted: np.ndarray
    radii: np.ndarray

    def chances(self, shares: Shares) -> np.ndarray:
        logs = sum(counts @ np.log(shares[part]) for part, counts in self.counts.items())
        return self.ways * np.exp(logs)


def endings(begin, parts: dict[str, int]) -> Endings:
    def possible(question):
        if isinstance(question, ScoreRequest):
            return [Scores(seen_by(question.part), 0.8 * 2**0.5, 0.0, 0.0, 0.0)]
        return splits(question.n, question.classes)

    rows, results = [], []
    for path, found in every_ending(begin, possible):
        counts, ways = {part: np.zeros(columns) for part, columns in parts.items()}, 1
        for question, votes in path:
            if not isinstance(question, ScoreRequest):
                counts[question.part] = counts[question.part] + votes
                ways *= prod(comb(sum(votes[i:]), k) for i, k in enumerate(votes))
        rows.append(counts)
        predicted = -1 if found.predicted is None else found.predicted
        results.append((ways, predicted, getattr(found, "radius", 0.0)))
    ways, predicted, radii = map(np.array, zip(*results, strict=True))
    return Endings({part: np.array([row[part] for row in rows]) for part in parts}, ways, predicted, radii)


SYSTEMS = {
    "selective": (CascadeRule((selective(1.0),), plain(0.5)), 6),
    "selective, threshold": (CascadeRule((selective(1.0),), plain(0.5), 0.6), 6),
    "multiscale": (CascadeRule((plain(1.0),), plain(0.5)), 8),
    "multiscale, three classes": (CascadeRule((plain(1.0, 3),), LipschitzRule(1.0, 3), 0.55), 8),
    "deterministic last": (CascadeRule((selective(1.0),), LipschitzRule(1.0, 2)), 9),
    "multiscale, deterministic last": (CascadeRule((plain(1.0),), LipschitzRule(1.0, 2)), 8),
    "two levels": (CascadeRule((selective(1.0), plain(0.5)), LipschitzRule(1.0, 2), (0.5, 0.6)), 6),
    "three levels": (CascadeRule((plain(1.0), plain(0.5)), plain(0.25)), 6),
    "dual last": (
        CascadeRule((selective(1.0),), DualRule(plain(0.7), (LipschitzRule(1.0, 2), LipschitzRule(1.0, 2)))),
        6,
    ),
    "dual of two networks last": (CascadeRule((plain(1.0),), DualRule(plain(0.7), (plain(0.5), plain(0.8)), "min")), 5),
    "cascade last": (CascadeRule((plain(1.0),), CascadeRule((plain(0.5),), plain(0.25))), 5),
    "cascade as expert": (DualRule(plain(0.9), (CascadeRule((plain(1.0),), plain(0.5)), plain(0.8)), "min"), 6),
    "cascade as expert, consensus": (
        DualRule(plain(0.9), (CascadeRule((plain(1.0),), LipschitzRule(1.0, 2)), LipschitzRule(1.0, 2))),
        7,
    ),
    "selective last": (CascadeRule((plain(1.0),), selective(0.5)), 6),
}


def parts_of(rule, part: str = "") -> dict[str, int]:
    """The parts that vote, with how many outcomes a vote has."""
    if isinstance(rule, LipschitzRule):
        return {}
    if isinstance(rule, SmoothedRule):
        return {part: rule.columns}
    if isinstance(rule, DualRule):
        inner = [("router", rule.router), *((f"expert-{j}", expert) for j, expert in enumerate(rule.experts))]
    else:
        inner = [*((f"level-{j}", level) for j, level in enumerate(rule.levels)), ("last", rule.last)]
    return {name: k for of, below in inner for name, k in parts_of(below, joined(part, of)).items()}


def all_shares(rule, n: int, count: int = 250) -> list[Shares]:
    """Shares all over, and beside what the bounds of a part can prove, where a radius errs most."""
    rng, found = np.random.default_rng(0), []
    for split in (1 / 2, 1 / 4, 1 / 8):
        limits = [bounds.lower(k, n, ALPHA * split) for k in range(1, n + 1)]
        limits += [bounds.upper(k, n, ALPHA * split) for k in range(n)]
        near = np.array([p for p in limits if 0.01 < p < 0.99])
        for _ in range(count // 3):
            shares = {}
            for part, columns in parts_of(rule).items():
                q = rng.dirichlet([0.5] * columns)
                if rng.random() < 0.7:
                    p = rng.choice(near) * (1 + rng.choice([-1e-9, 1e-9]))
                    c = rng.integers(columns)
                    q = q / (1 - q[c]) * (1 - p)
                    q[c] = p
                shares[part] = np.clip(q, 1e-9, 1) / np.clip(q, 1e-9, 1).sum()
            found.append(shares)
    return found


def wrongness(rule, n: int, sampling: Sampling, n0: int = 1) -> float:
    """The largest chance of a wrong certificate."""
    found = endings(lambda: rule.certifying(n0=n0, n=n, alpha=ALPHA, sampling=sampling), parts_of(rule))
    worst = 0.0
    for shares in all_shares(rule, n):
        exact = truth_of(rule, shares)
        chances = found.chances(shares)
        assert chances.sum() == pytest.approx(1.0, abs=1e-9)
        limits = np.array([exact.get(c, 0.0) for c in range(rule.classes)])
        wrong = (found.predicted >= 0) & (found.radii > limits[found.predicted])
        worst = max(worst, chances[wrong].sum())
    return float(worst)


@pytest.mark.parametrize("name", SYSTEMS)
def test_no_shares_make_a_certificate_wrong_more_often_than_alpha(name):
    rule, n = SYSTEMS[name]
    assert ALPHA / 10 < wrongness(rule, n, FIXED) <= ALPHA


@pytest.mark.parametrize("question", ["the radius", "targets", "tolerance", "stopping for little"])
@pytest.mark.parametrize(
    "name",
    [
        *("selective", "multiscale", "deterministic last", "two levels", "three levels", "cascade last"),
        *("cascade as expert", "cascade as expert, consensus"),
        pytest.param("dual last", marks=pytest.mark.slow),
    ],
)
def test_nor_where_sampling_is_adaptive(name, question):
    rule, _ = SYSTEMS[name]
    assert ALPHA / 20 < wrongness(rule, 6, QUESTIONS[question]) <= ALPHA


PICKING = {
    "smoothed": (plain(1.0), 6, 7),
    "smoothed, selective": (selective(1.0), 5, 6),
    "selective": (SYSTEMS["deterministic last"][0], 5, 6),
    "multiscale": (SYSTEMS["multiscale"][0], 5, 5),
    "dual, min": (DualRule(plain(0.9), (plain(0.5), plain(0.8)), "min"), 4, 5),
    "dual": (DualRule(plain(0.9), (plain(0.5), LipschitzRule(1.0, 2))), 4, 5),
}


@pytest.mark.parametrize("question", ["the radius", "targets", "tolerance"])
@pytest.mark.parametrize("name", PICKING)
def test_nor_where_selection_ends_once_the_pick_is_clear(name, question):
    """It is looked at after two samples and ends for little, so often with a pick that all would not make."""
    rule, n0, n = PICKING[name]
    sampling = Sampling(**{**vars(QUESTIONS[question]), "first0": 2, "futility": 0.4})
    assert len(sampling.selection_stops(n0)) > 1
    assert ALPHA / 20 < wrongness(rule, n, sampling, n0) <= ALPHA


@pytest.mark.parametrize("name", ["selective", "deterministic last"])
def test_a_maximum_where_the_minimum_belongs_is_caught(name, monkeypatch):
    rule, n = SYSTEMS[name]

    def cascade(levels, last=0.0):
        (noise, lower, upper, threshold) = levels[0]
        return max(
            radius.answer_radius(noise, lower, threshold), radius.exclusion_radius(noise, upper, threshold), last
        )

    monkeypatch.setattr(level_module.radius, "cascade", cascade)
    assert wrongness(rule, n, FIXED) > ALPHA


def overstated(rule: CascadeRule, n0: int, n: int, q: float) -> float:
    """The chance that the first level's lower bound of the class picked is wrong, for shares q and 1 - q."""
    wrong, shares = 0.0, np.array([q, 1 - q])
    begin = partial(rule.certifying, n0=n0, n=n, alpha=ALPHA)
    picks = [(k, n0 - k) for k in range(n0 + 1)]
    for path, found in every_ending(begin, lambda ask: splits(ask.n, 2) if votes_are_asked(ask) else TIED):
        votes = [counts for ask, counts in path if votes_are_asked(ask)]
        assert votes[0] in picks
        lower = found.stages[1].lower
        chance = prod(multinomial.pmf(counts, sum(counts), shares) for counts in votes)
        wrong += chance if lower is not None and lower > shares[np.argmax(votes[0])] else 0.0
    return wrong


TIED = [Scores(1, 1.0, 1.0, 0.0, 0.0)]


def votes_are_asked(question) -> bool:
    return not isinstance(question, ScoreRequest)


@pytest.mark.parametrize("reused", [False, True])
def test_selection_votes_that_also_estimate_are_caught(reused, monkeypatch):
    """They picked the class, so they favour it."""
    rule, kept = SYSTEMS["multiscale, deterministic last"][0], {}
    picked, lower_at = Level.picked, Tally._lower_at
    if reused:

        def keeping(level, picks):
            kept["picks"] = picks
            return picked(level, picks)

        def with_picks(tally, counts, level):
            return lower_at(tally, tuple(map(add, counts, kept["picks"])), level)

        monkeypatch.setattr(Level, "picked", keeping)
        monkeypatch.setattr(Tally, "_lower_at", with_picks)
    paid = Payment.of(ALPHA, picked=True).answer
    worst = max(overstated(rule, 7, 7, q) for q in np.linspace(0.5, 0.8, 7) - 1e-9)
    assert bool(worst > paid) is reused


# Predictions


@pytest.mark.parametrize(("classes", "defers", "n"), [(2, True, 20), (3, False, 14), (3, True, 9)])
@pytest.mark.parametrize("threshold", [0.5, 0.6, 0.8])
def test_what_a_level_does_is_ruled_out_no_more_often_than_alpha(classes, defers, n, threshold):
    part, alpha = level(threshold, classes, defers=defers), 0.2
    counts = np.array(splits(n, part.rule.columns))
    left = [candidates(part, tuple(row), alpha) for row in counts.tolist()]
    shares = np.concatenate([simplex(part.rule.columns, 10), _at(threshold, part.rule.columns)])
    worst = {"answers": 0.0, "defers": 0.0}
    for q in shares:
        chance = multinomial.pmf(counts, n, q)
        top = int(np.argmax(q[:classes]))
        answers = q[top] > threshold
        missing = [top not in found if answers else not defer for found, defer, _ in left]
        kind = "answers" if answers else "defers"
        worst[kind] = max(worst[kind], chance[np.array(missing)].sum())
    assert max(worst.values()) <= alpha
    assert worst["answers"] > alpha / 5


def _at(threshold: float, columns: int) -> np.ndarray:
    """A share on either side of the threshold, the rest here and there."""
    found = []
    for p in (threshold - 1e-9, threshold + 1e-9):
        for part in (0.0, 0.3, 1.0):
            rest = np.full(columns - 1, (1 - part) / max(1, columns - 2) if columns > 2 else 1.0)
            rest[0] = part if columns > 2 else 1.0
            found.append([p, *(rest / rest.sum() * (1 - p))])
    return np.array(found)


@pytest.mark.parametrize(
    "name", ["selective", "selective, threshold", "multiscale", "two levels", "three levels", "selective last"]
)
def test_no_shares_make_a_prediction_wrong_more_often_than_alpha(name):
    rule, n, alpha = SYSTEMS[name][0], 9, 0.5
    found = endings(lambda: rule.predicting(n=n, alpha=alpha), parts_of(rule))
    worst = 0.0
    for shares in all_shares(rule, n, 500):
        wrong = (found.predicted >= 0) & (found.predicted != answered(rule, shares))
        worst = max(worst, found.chances(shares)[wrong].sum())
    assert alpha / 20 < worst <= alpha


@pytest.mark.parametrize("name", ["selective, threshold", "two levels", "three levels", "cascade last"])
def test_the_parts_of_a_prediction_share_alpha(name):
    rule, alpha, predicted = SYSTEMS[name][0], 0.5, 0

    def possible(question):
        return TIED if isinstance(question, ScoreRequest) else splits(question.n, question.classes)

    for _, found in every_ending(lambda: rule.predicting(n=8, alpha=alpha), possible):
        assert sum(Fraction(stage.alpha) for stage in found.stages if stage.role is Role.PREDICTION) <= alpha
        assert sum(Fraction(entry.alpha) for entry in found.ledger) <= alpha
        assert found.predicted is None or found.p_value <= alpha
        predicted += found.predicted is not None
    assert predicted


def answered(rule: CascadeRule, shares: Shares) -> int:
    """What the cascade truly answers; -1 where its last classifier has no majority for a class."""
    for j in range(len(rule.levels)):
        q = shares[f"level-{j}"][: rule.classes]
        if q.max() > rule.thresholds[j]:
            return int(q.argmax())
    if isinstance(rule.last, LipschitzRule):
        return 1
    q = shares["last"]
    return int(q.argmax()) if q.argmax() < rule.classes and (not rule.last.defers or q.max() > 0.5) else -1


@pytest.mark.parametrize("n", [5, 12, 25])
def test_a_selective_classifier_predicts_no_class_without_a_majority(n):
    rule, alpha = selective(0.5), 0.4
    found = endings(lambda: rule.predicting(n=n, alpha=alpha), {"": 3})
    worst = 0.0
    grid = [*simplex(3, 20), (0.5, 0.5 - 1e-9, 1e-9), (0.5, 1e-9, 0.5 - 1e-9), (0.45, 0.45, 0.1)]
    for q in grid:
        true = int(np.argmax(q[:2])) if max(q[:2]) > 0.5 else -1
        wrong = (found.predicted >= 0) & (found.predicted != true)
        worst = max(worst, found.chances({"": np.array(q)})[wrong].sum())
    assert alpha / 5 < worst <= alpha
