"""Runs side by side: one row each."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sigmax.records.run import Run
from sigmax.report.accuracy import Floats, acr, certified_counts, checked_radii, usual_radii
from sigmax.report.runs import Source, named

if TYPE_CHECKING:
    import pandas as pd

SIGMAS_SHOWN = 4


def compare(
    runs: Source | Iterable[Source], radii: Sequence[float] | Floats | None = None, *, strict: bool = False
) -> "pd.DataFrame":
    """One row a run: name, sigma, n, alpha, inputs, certified accuracy in % at each radius, ACR, abstained in %.

    The columns of accuracy are named by their radius, with every digit it has ("0.25"); see `certified_accuracy`
    for `strict`. `sigma` is text, since a run may have used several. Without `radii` the papers' grid is taken as
    far as the runs reach.
    """
    import pandas as pd

    by_name = named(runs)
    asked = usual_radii(list(by_name.values())) if radii is None else checked_radii(radii)
    return pd.DataFrame([{"name": name, **_row(run, asked, strict)} for name, run in by_name.items()])


def _row(run: Run, radii: Floats, strict: bool) -> dict[str, object]:
    inputs = len(run.records)
    # 100 * k / n rather than 100 * (k / n): a share of exactly 37.25% must not become 37.25000000000001
    certified = 100 * certified_counts(run, radii, strict=strict) / inputs
    return {
        "sigma": sigmas(run),
        "n": run.plan.n,
        "alpha": run.plan.alpha,
        "inputs": inputs,
        **{_exact(r): share for r, share in zip(radii, certified, strict=True)},
        "ACR": acr(run),
        "abstained": 100 * sum(record.certificate.predicted is None for record in run.records) / inputs,
    }


def _exact(radius: float) -> str:
    """The shortest text that reads back as this very number: two radii never share a column."""
    return repr(float(radius) + 0.0).removesuffix(".0")  # + 0.0, since -0.0 is the radius 0


def sigmas(run: Run) -> str:
    """The noise levels that decided the run's radii: all of them if few, else from which to which."""
    used = sorted(set(run.frame()["sigma"]))
    if len(used) > SIGMAS_SHOWN:
        return f"{used[0]:g} to {used[-1]:g}"
    return ", ".join(f"{sigma:g}" for sigma in used)
