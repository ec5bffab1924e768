"""What every rule asks of the numbers it is given."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sigmax.errors import RequestError
from sigmax.numbers import is_number, is_whole
from sigmax.rules.certificate import rounded_up

if TYPE_CHECKING:
    from sigmax.rules.procedure import Rule
    from sigmax.rules.sampling import Sampling

MOST_SAMPLES = 10**9  # as far as the rounding of the bounds was measured
MOST_NOISE = 3.0  # more than any paper uses on pixels in [0, 1]


def check_samples(alpha: float, **samples: int) -> None:
    """Raise unless alpha is a probability and every number of samples a positive whole number."""
    if not (is_number(alpha) and 0 < alpha < 1):
        raise RequestError(
            f"alpha must lie strictly between 0 and 1 (the chance of a wrong certificate, 0.001 in the papers); "
            f"got {alpha!r}"
        )
    for name, value in samples.items():
        if not is_whole(value) or not 1 <= value <= MOST_SAMPLES:
            raise RequestError(f"{name} must be a whole number of samples, from 1 to {MOST_SAMPLES:,}; got {value!r}")


def check_question(rule: "Rule", *, n0: int, n: int, alpha: float, sampling: "Sampling") -> None:
    """Raise unless these samples could ever certify by the rule, and reach at least one of the targets."""
    rule.check_certify(n0=n0, n=n, alpha=alpha, sampling=sampling)
    if not sampling.targets:
        return
    furthest, least = rule.largest_radius(n=n, alpha=alpha, sampling=sampling), sampling.targets[0]
    if least > furthest:
        prove = f"n={n} samples at alpha={alpha:g} prove" if rule.is_random else "this system proves"
        more = "use more samples or more noise" if rule.is_random else "use more noise"
        raise RequestError(
            f"none of the targets can be reached: {prove} at most {rounded_up(furthest)}, even if all votes agree, and "
            f"the smallest target is {least:g}; {more}, or ask for less"
        )


def check_classes(classes: Any) -> int:
    """The number of classes; numpy's numbers would not survive a file."""
    if not is_whole(classes) or classes < 2:
        raise RequestError(f"classes must be a whole number of at least 2; got {classes!r}")
    return int(classes)


def too_much_noise(sigma: float) -> str | None:
    """A warning where noise on pixels in [0, 1] leaves nothing of an image; None where it may be meant."""
    if not MOST_NOISE < sigma < math.inf:
        return None
    return f"sigma {sigma:g} is {sigma:g} times the pixel range [0, 1]; did you mean {sigma / 100:g}?"


def check_norms(parts: Mapping[str, "Rule"], called: str = "parts") -> None:
    """Raise unless the radii of all are in one norm: theorems that combine them need it, and so do tables."""
    if len({rule.norm for rule in parts.values()}) > 1:
        listed = ", ".join(f"{name}: {rule.norm}" for name, rule in parts.items())
        raise RequestError(
            f"all {called} must certify in the same norm; they have {listed}. Gaussian noise and Lipschitz constants "
            "go with l2, uniform and splitting noise with l1"
        )


@contextmanager
def naming_part(name: str, share: float, alpha: float) -> Iterator[None]:
    """Errors of a part say whose they are, and where its odd alpha comes from."""
    try:
        yield
    except RequestError as error:
        raise RequestError(f"{name}, which gets {share:.3g} of alpha={alpha:g}: {error}") from error
