"""How many samples a cascade takes and from which parts, without its networks: votes are drawn from recorded shares.

    python -m benchmarks.cascade_samples --inputs 500

The shares are those of `results/cifar10`: of each image every vote that its cascade recorded, and of the constant runs
over the same networks. What a part was not asked for an image is taken from the image whose level above is most alike,
with the class renamed. So the sums are estimates; samples and certified accuracy of the recorded question itself are
exact in the run file. Each question is put to the constant classifiers and to the cascade.
"""

import argparse
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import sigmax as sx
from benchmarks.cascade import RADII, accuracy, by_part
from sigmax.rules.certificate import Certificate
from sigmax.rules.procedure import Rule, VoteRequest
from sigmax.rules.registry import rebuild
from sigmax.rules.sampling import FIXED, Sampling

RESULTS = Path(__file__).parents[1] / "results" / "cifar10"
CONSTANT = ("0.33", "0.52", "0.86")
PARTS = ("level-0", "level-1", "last")
Shares = dict[str, np.ndarray]


def recorded(path: Path) -> dict[int, Shares]:
    """By image and part, the share of each vote among all that were recorded."""
    found: dict[int, Shares] = {}
    for record in sx.read(path).records:
        sums: dict[str, Any] = {}
        for stage in record.certificate.stages:
            sums[stage.part] = sums.get(stage.part, 0) + np.array(stage.counts)
        found[record.index] = {part: counts / counts.sum() for part, counts in sums.items()}
    return found


def filled(images: dict[int, Shares]) -> dict[int, Shares]:
    """The same with every part; what was not asked comes from the image most alike."""
    for above, part in pairwise(PARTS):
        like = [shares for shares in images.values() if part in shares]
        leads = np.array([_lead(shares[above]) for shares in like])
        for shares in images.values():
            if part not in shares:
                other = like[int(np.square(leads - _lead(shares[above])).sum(1).argmin())]
                mine, theirs = (int(one[above][:10].argmax()) for one in (shares, other))
                renamed = other[part].copy()
                renamed[[mine, theirs]] = renamed[[theirs, mine]]
                shares[part] = renamed
    return images


def _lead(shares: np.ndarray) -> np.ndarray:
    return np.sort(shares[:10])[-2:]


def certify(rule: Rule, index: int, shares: Shares, n: int, question: Sampling) -> Certificate:
    """One image; the same votes of a stage whatever is asked."""
    procedure = rule.certifying(n0=100, n=n, alpha=0.001, sampling=question)
    try:
        ask = next(procedure)
        while True:
            assert isinstance(ask, VoteRequest)
            ask = procedure.send(drawn(ask, index, shares[ask.part]))
    except StopIteration as end:
        found: Certificate = end.value
        return found


def drawn(ask: VoteRequest, index: int, shares: np.ndarray) -> tuple[int, ...]:
    """The votes asked for, each from its own place in one stream."""
    uniform = np.random.default_rng([index, zlib.crc32(ask.stage.encode())]).random(ask.stop)[ask.start :]
    classes = np.minimum(np.searchsorted(np.cumsum(shares), uniform), ask.classes - 1)
    return tuple(np.bincount(classes, minlength=ask.classes).tolist())


def main() -> None:
    """Print a line for each question and scheme."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--inputs", type=int, default=500)
    cli.add_argument("--n", type=int, default=10_000)
    cli.add_argument("--single", type=float, nargs="*", default=[0.5, 1.0])
    asked = cli.parse_args()
    run = sx.read(RESULTS / "cascade.jsonl.gz")
    constant = {name: RESULTS / f"constant-{name}.jsonl.gz" for name in CONSTANT}
    rules = {name: rebuild(sx.read(path).plan.rule) for name, path in constant.items()}
    shares = {name: recorded(path) for name, path in constant.items()}
    rules["cascade"], shares["cascade"] = rebuild(run.plan.rule), filled(recorded(RESULTS / "cascade.jsonl.gz"))
    shared = sorted(shares[CONSTANT[0]])
    chosen = [shared[i] for i in np.linspace(0, len(shared) - 1, min(asked.inputs, len(shared))).astype(int)]
    truth = {record.index: record.label for record in run.records}
    questions = {"fixed": FIXED, "eleven radii": Sampling("adaptive", targets=RADII)}
    questions |= {f"radius {r:g}": Sampling("adaptive", targets=(r,)) for r in asked.single}
    for name, question in questions.items():
        means: dict[str, float] = {}
        for scheme, rule in rules.items():
            if question.targets and question.targets[0] >= rule.largest_radius(n=asked.n, alpha=0.001):
                continue
            found = [certify(rule, i, shares[scheme][i], asked.n, question) for i in chosen]
            means[scheme] = sum(c.samples for c in found) / len(found)
            print(f"{name:>12} {scheme:>8}: {means[scheme]:9,.0f} samples an image", by_part(found))
            print(" " * 22, "certified accuracy", [round(a, 2) for a in accuracy(found, [truth[i] for i in chosen])])
        others = [mean for scheme, mean in means.items() if scheme != "cascade"]
        print(f"{name:>12}    ratio: {means['cascade'] / np.mean(others):.2f}", flush=True)


if __name__ == "__main__":
    main()
