"""How long thresholds take once the networks have answered: made-up answers, of the size that CIFAR-10's have.

python benchmarks/calibration.py --networks 5
"""

import argparse
from time import perf_counter

import numpy as np

from sigmax.rules.cascade.rule import CascadeRule
from sigmax.rules.smoothed import SmoothedRule
from sigmax.train.calibrate import Answers, CalibrateOptions, Estimate, chosen, frontier

SIGMAS = (1.0, 0.86, 0.52, 0.33, 0.15)
CLASSES = 10


def made_up(images: int, samples: int, networks: int) -> Estimate:
    """Networks that know the same images, the less noise the better, and are confident where they are mostly right."""
    rng = np.random.default_rng(0)
    labels, ease = rng.integers(0, CLASSES, images), rng.normal(size=images)
    answers = []
    for sigma in SIGMAS[-networks:]:
        skill = 1.5 * ease + 0.7 * rng.normal(size=images) + 1.2 - 2.2 * sigma
        right = rng.random((images, samples)) < (1 / (1 + np.exp(-2 * skill)))[:, None]
        wrong = (labels + 1 + rng.integers(0, CLASSES - 1, images)) % CLASSES
        top = np.where(right, labels[:, None], wrong[:, None]).astype(np.uint8)
        sure = np.abs(skill)[:, None] + 0.8 * rng.normal(size=(images, samples))
        answers.append(Answers(top, (1 / (1 + np.exp(-sure))).astype(np.float32)))
    *levels, last = (SmoothedRule.gaussian(sigma, CLASSES) for sigma in SIGMAS[-networks:])
    return Estimate(CascadeRule(tuple(levels), last), tuple(answers), labels, n=10_000, alpha=1e-3)


def main() -> None:
    """Choose for two objectives and find the frontier, and print the seconds of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=2_500)
    parser.add_argument("--samples", type=int, default=512)
    parser.add_argument("--networks", type=int, default=5, choices=range(2, len(SIGMAS) + 1))
    given = parser.parse_args()
    estimate = made_up(given.images, given.samples, given.networks)
    for options in (CalibrateOptions(), CalibrateOptions(objective="least-ratio")):
        begun = perf_counter()
        chosen(estimate, options)
        print(f"{options.objective}: {perf_counter() - begun:.1f} s")
    begun = perf_counter()
    found = frontier(estimate, CalibrateOptions().radii)
    print(f"frontier: {perf_counter() - begun:.1f} s, {len(found.points)} calibrations")


if __name__ == "__main__":
    main()
