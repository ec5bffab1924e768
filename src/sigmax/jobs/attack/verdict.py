"""What counts as a violation, and what violations say of a run. No search here.

# g the smoothed classifier; A certified class of x within r; z a point with |z - x| < r; a alpha of a prediction
# k confirmations of a point, independent; N inputs considered; alpha of the run

A prediction at z is a class other than g(z) with probability at most a. So if g(z) = A, k independent predictions are
all of other classes with probability at most a^k; T points of balls that were put to this test give a false alarm
with probability at most T a^k (union bound). An abstention is no other class. The test uses noise that no search saw.

A confirmed point shows that one certificate is false. A sound procedure gives a false certificate to an input, whatever
it is, with probability at most alpha, and inputs have independent noise: so V or more of N inputs have one with
probability at most P(Binomial(N, alpha) >= V). N counts the inputs that abstained too: among certified ones alone the
share of false certificates may exceed alpha.
"""

from dataclasses import dataclass

from scipy import stats

REFUTED = 1e-3  # a run is refuted where a sound procedure gives so many false certificates no more often


@dataclass(frozen=True)
class AttackVerdict:
    """What the attack shows of a run."""

    considered: int  # inputs of the run, certified or not
    certified: int  # of these; every one was attacked
    violations: int  # confirmed points inside a certified ball, at most one an input
    alpha: float  # of the run
    p_value: float  # chance that a sound procedure gives so many false certificates, or more
    false_alarm: float  # chance that any of the violations is none

    @property
    def refuted(self) -> bool:
        """Whether there are more violations than alpha accounts for."""
        return self.p_value <= REFUTED

    def __str__(self) -> str:
        if not self.violations:
            return f"no violation found in {self.certified} certified balls ({self.considered} inputs considered)"
        allowed = f"a sound procedure has as many with probability at most {self.p_value:.2g}"
        meaning = "more than alpha accounts for: the procedure is refuted" if self.refuted else "alpha allows for that"
        return (
            f"{self.violations} of {self.considered} inputs have a false certificate (false alarm: at most "
            f"{self.false_alarm:.2g}); at alpha {self.alpha:g} {allowed}; {meaning}"
        )


def judged(
    *, considered: int, certified: int, violations: int, alpha: float, inside_tests: int, each: float
) -> AttackVerdict:
    """The verdict on a run; `inside_tests` points of balls were put to a test that errs with probability `each`."""
    p_value = float(stats.binom.sf(violations - 1, considered, alpha)) if violations else 1.0
    return AttackVerdict(considered, certified, violations, alpha, p_value, min(1.0, inside_tests * each))
