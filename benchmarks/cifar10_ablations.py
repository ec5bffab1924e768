r"""The ablations of a recipe, each a small table: what changes when one thing of it does.

    python benchmarks/cifar10_ablations.py recipes/cifar10_cascade.toml                       # its own systems alone
    python benchmarks/cifar10_ablations.py recipes/cifar10_cascade.toml --ablation lambda sets   # trains what differs
    python benchmarks/cifar10_ablations.py recipes/digits_dual.toml --ablation lambda --radii 0,0.1,0.2,0.4
    python benchmarks/cifar10_ablations.py recipes/cifar10_cascade.toml --set data.test=train \
        --vary 'router.loss.objective=weighted; router.loss.copies=8' --vary router.loss.consistency=5

`--set KEY=VALUE` changes the recipe for all of them, as in `sigmax pipeline run`. Beside a recipe for a cascade keys
of `labels`, `router` and `finetune` are for the ablations of routers. `--set data.test=train` measures on the held-out
images. The recipe is run first where it was not. What an ablation does not change is copied from it;
every file states what it was made for, so none is used that does not fit.
The rows "gain" are what the row above certifies more than the first of the ablation by the same rule (runner-up than
one-sided, the consensus rule of a comparison than min), with one standard error over the images; a star where the
sign test gives such a gain a chance of 1% or less.
`--keep FILE.csv.gz` writes what each row was counted from: the radius certified for the class of each image. Several
ablations go into the same file; a row computed again replaces the one before.
"""

import argparse
import json
import math
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sigmax.cli import options as opt
from sigmax.cli.progress import complain, progress, warn
from sigmax.errors import RequestError
from sigmax.files import check_writable, written_whole
from sigmax.records.rounding import down, share_down
from sigmax.report.metrics.accuracy import checked_radii

if TYPE_CHECKING:
    import pandas as pd

    from sigmax.pipeline import Pipeline, PipelineConfig
    from sigmax.records.run import Run
    from sigmax.schemes.scheme import Scheme

RADII = "0,0.25,0.5,0.75,1,1.25,1.5,1.75,2,2.25,2.5"
EXPERTS, LABELS = ("experts", "nets"), ("labels-1",)
ROUTERS = ("labels", "router", "finetune", "steps")  # tables and keys of a file that a cascade has not
TRAINING = (  # of a router that starts from an expert
    "{epochs = 20, batch = 512, optimiser = 'adamw', lr = 0.002, weight_decay = 0.01, schedule = 'one-cycle', "
    "augment = 'crop-flip', precision = 'bf16', channels_last = true}"
)
LABELLING = '{n = 128, n0 = 16, alpha = 0.5, dtype = "bf16", compile = "default"}'  # near the truth, not below it
SHARPNESS = 5.0  # of the soft labels: less than suits the digits, whose radii are smaller
FINE_TUNING = (
    "{epochs = 10, batch = 512, optimiser = 'adamw', lr = 0.0002, weight_decay = 0.01, schedule = 'constant', "
    "augment = 'crop-flip', precision = 'bf16', channels_last = true}"
)
ONE_ROUND = ("labels.folds=1",)  # experts of other folds cannot label after fine-tuning
TUNED = (*ONE_ROUND, 'steps=["router","finetune"]')
STEADY = 4.0  # the weight that the experts of the CIFAR-10 recipe are trained with


@dataclass(frozen=True)
class Row:
    """A run in a table, and the one that it is set against."""

    name: str
    run: "Run"
    against: "Run | None" = None


@dataclass(frozen=True)
class Variant:
    """The recipe with some keys changed; `reuse`: what is copied from the recipe's own folder.

    `system`: "dual" where it is about trained routers; a recipe for a cascade then gets a router over all experts that
    starts from the last one's network. "cascade": a cascade of the experts, calibrated if the recipe says how.
    """

    name: str
    changes: tuple[str, ...] = ()
    reuse: tuple[str, ...] = ()
    system: Literal["dual", "cascade"] = "dual"


def _sets() -> list[Variant]:
    """The candidate sets of the paper; one router over all of them, with the most noise of the set, as there."""
    sets = ("0.25,0.5,1.0", "0.25,1.0", "0.5,1.0", "0.25,0.5", "0.5,0.625", "0.25,0.5,0.75,1.0")
    return [Variant(f"{{{s}}}", (f"experts.sigmas=[{s}]", f"router.sigma={s.split(',')[-1]}")) for s in sets]


GAUSSIAN = ("experts.method=gaussian", "experts.hyper={}", "router.start=")
CERTIFIED = ("router.loss.objective=certified", "router.loss.sharpness=", f"router.loss.radii=[{RADII}]")
ABLATIONS: dict[str, list[Variant]] = {
    "sets": _sets(),
    "labels": [Variant(f"n = {n} on a fifth", (f"labels.n={n}", "labels.fraction=0.2"), EXPERTS) for n in (100, 1000)],
    "data": [
        Variant(f"{share:.0%} of the labels", (f"labels.fraction={share}",), EXPERTS) for share in (0.2, 0.6, 1.0)
    ],
    "lambda": [
        Variant(f"consistency {weight:g}", (f"router.loss.consistency={weight}",), EXPERTS + LABELS)
        for weight in (0.0, 5.0, 20.0, 40.0, 80.0)
    ],
    "router": [
        Variant("cascade of selective levels", (), EXPERTS, system="cascade"),
        Variant("router trained by the paper's loss", ("router.loss.objective=paper",), EXPERTS + LABELS),
        Variant("router trained for the certified radius", CERTIFIED, EXPERTS + LABELS),
    ],
    "folds": [
        Variant("labels of experts that never saw the image", ("labels.folds=2",), EXPERTS),
        Variant("labels of the experts themselves", ("labels.folds=1",), EXPERTS),
    ],
    "shared": [
        Variant("a network each", GAUSSIAN),
        Variant("one network", (*GAUSSIAN, "experts.one_network=true")),
    ],
    "rounds": [
        Variant("one router", ONE_ROUND, EXPERTS + LABELS),
        Variant("and fine-tuned experts", TUNED, EXPERTS + LABELS),
        Variant("and a second router", (*ONE_ROUND, 'steps=["router","finetune","router"]'), EXPERTS + LABELS),
    ],
    "finetune": [
        Variant("as trained", ONE_ROUND, EXPERTS + LABELS),
        Variant("by cross-entropy", TUNED, EXPERTS + LABELS),
        Variant("for consistency too", (*TUNED, f"finetune.consistency={STEADY}"), EXPERTS + LABELS),
    ],
}
UNLIKELY = 0.01  # that neither is better
FREE = ("comparison", "bound")  # what needs the recipe's own systems alone


def main(words: Sequence[str] | None = None) -> None:
    """Print the tables asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--ablation", nargs="+", choices=[*FREE, *ABLATIONS], default=list(FREE))
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--radii", default=RADII)
    parser.add_argument("--vary", action="append", default=[], help="changes of a router, 'KEY=VALUE; KEY=VALUE'")
    parser.add_argument("--keep", type=Path, metavar="FILE.csv.gz", help="where to write down what the rows count")
    given = parser.parse_args(words)
    radii = [float(r) for r in checked_radii(opt.numbers(given.radii, "--radii", "radii such as 0,0.25,0.5"))]
    ablations = {ablation: ABLATIONS.get(ablation, []) for ablation in given.ablation}
    if given.vary:
        ablations["vary"] = [_own(text) for text in given.vary]
    base = _pipeline(given.recipe, _for_cascades(given.recipe, given.changes))
    for ablation, variants in ablations.items():  # all that is wrong is said before any work
        for variant in variants:
            _varied(base, given.recipe, ablation, variant, given.changes)
    if given.keep:
        _check_kept(given.keep)
    runs = base.run(progress)
    for ablation, variants in ablations.items():
        print(f"\n### {ablation}\n\n{_head(radii)}")
        if ablation == "comparison":
            rows = _comparison(base, runs, radii)
        elif ablation == "bound":
            rows = _bound(base, runs)
        else:
            rows = _trained(base, given.recipe, ablation, variants, changes=given.changes)
        for row in rows:
            for line in [row] if isinstance(row, str) else _lines(row, radii):
                print(line, flush=True)
            if given.keep and isinstance(row, Row):
                keep(given.keep, f"{ablation}: {row.name}", row.run)
    print(f"\n`python {shlex.join(['benchmarks/cifar10_ablations.py', *(words or sys.argv[1:])])}`")


def _pipeline(recipe: Path, changes: Sequence[str]) -> "Pipeline":
    from sigmax.pipeline import Pipeline, PipelineConfig

    return Pipeline(PipelineConfig.read(recipe, changes), on_warning=warn)


def _for_cascades(recipe: Path, changes: Sequence[str]) -> Sequence[str]:
    """Where the recipe is for a cascade, its changes without those of routers, which are for routers alone."""
    from sigmax.pipeline import PipelineConfig

    if PipelineConfig.read(recipe).cascade is None:
        return changes
    return [change for change in changes if re.split("[.=]", change)[0] not in ROUTERS]


def _comparison(base: "Pipeline", runs: Sequence["Run"], radii: Sequence[float]) -> Iterator[Row | str]:
    """All systems of the recipe, the envelope of its experts, and how near the consensus rule comes to it."""
    from sigmax import report

    by_min: dict[str, Run] = {}  # by what the two rules of a router share
    names = _names(base)
    for name, run in zip(names, runs, strict=True):
        rule, same = run.plan.rule.get("rule"), json.dumps(run.plan.rule).replace("consensus", "min")
        yield Row(name, run, by_min.get(same) if rule == "consensus" else None)
        if rule == "min":
            by_min[same] = run
    experts = runs[: len(base.names)] if base.config.certify.experts else []
    if experts:
        best = report.best_over_sigma(experts, radii).set_index("radius")["accuracy"]
        yield _row("envelope of the experts", best)
        ratio = report.certified_accuracy(runs[-1], radii) / best
        # Empty where no expert certifies.
        cells = (share_down(value, 3) if math.isfinite(value) else "" for value in ratio)
        yield f"| {names[-1]} / envelope | {' | '.join(cells)} |"


def _names(base: "Pipeline") -> list[str]:
    """What the runs are of, in their order."""
    certify = "certify "
    return [phase.name.removeprefix(certify) for phase in base.phases() if phase.name.startswith(certify)]


def _bound(base: "Pipeline", runs: Sequence["Run"]) -> Iterator[Row]:
    """Experts that bound the strongest rival class too, on the same noise: alone, and in the last system."""
    import sigmax as sx

    if base.config.experts.bound != "one-sided":
        raise RequestError("--ablation bound sets the runner-up bound beside the one-sided; leave experts.bound out")
    how, folder, names = base.config.certify, [*base.systems()][-1], _names(base)
    experts = base.experts(base.config.steps.count("finetune"))
    triples = [*zip(names, runs, experts, strict=False)] if how.experts else []
    for name, run, scheme in [*triples, (names[-1], runs[-1], sx.load(folder, **how.how(base.config.device)))]:
        yield Row(f"{name}, one-sided", run)
        out = base.config.out / "ablations" / f"{run.path.stem}-runner-up.jsonl"
        with progress(out.stem) as watch:
            rival = sx.certify_run(_by_runner_up(scheme), base.test, out, **how.request, watch=watch)
        yield Row(f"{name}, runner-up", rival, run)


def _by_runner_up(scheme: "Scheme") -> "Scheme":
    import sigmax as sx

    if isinstance(scheme, sx.Cascade):
        return sx.Cascade(scheme.levels, _by_runner_up(scheme.last), thresholds=scheme.thresholds)
    if isinstance(scheme, sx.Dual):
        return sx.Dual(scheme.router, [_by_runner_up(e) for e in scheme.experts], rule=scheme.combination)
    assert isinstance(scheme, sx.Smoothed)
    voter = scheme.voters["base"]
    return sx.Smoothed(
        voter.model,
        sigma=scheme.sigma,
        classes=scheme.classes,
        bound="runner-up",
        device=voter.device,
        dtype=voter.dtype,
        compile=voter.compile,
    )


def _own(text: str) -> Variant:
    return Variant(text, tuple(change.strip() for change in text.split(";")), EXPERTS + LABELS)


def _trained(
    base: "Pipeline", recipe: Path, ablation: str, variants: Sequence[Variant], *, changes: Sequence[str]
) -> Iterator[Row]:
    firsts: dict[str, Run] = {}  # by rule
    for variant in variants:
        varied = _varied(base, recipe, ablation, variant, changes)
        for name in variant.reuse:
            _take_over(base.config.out / name, varied.config.out / name)
        _borrow(varied, labels=LABELS[0] in variant.reuse)
        for run in varied.run(progress):
            rule = str(run.plan.rule.get("rule", run.plan.method))
            yield Row(f"{variant.name}, {rule}", run, firsts.get(rule))
            firsts.setdefault(rule, run)


def _varied(base: "Pipeline", recipe: Path, ablation: str, variant: Variant, changes: Sequence[str]) -> "Pipeline":
    """The recipe as the variant has it, in a folder by what is changed: variants may come and go."""
    out = base.config.out / "ablations" / ablation / _folder(variant)
    system = as_dual(variant, base.config)
    if variant.system == "cascade":
        system, changes = as_cascade(base.config), _for_cascades(recipe, changes)
    return _pipeline(recipe, [*system, *changes, *variant.changes, f"out={out.resolve()}", "certify.experts=false"])


def as_dual(variant: Variant, config: "PipelineConfig") -> Sequence[str]:
    """What makes a recipe one for a dual system, where it is for a cascade."""
    if config.router is not None:
        return []
    listed = next((change for change in variant.changes if change.startswith("experts.sigmas=")), None)
    experts = config.experts
    last = experts.count - 1 if listed is None else listed.count(",")
    options = ", ".join(f"{name} = {json.dumps(value)}" for name, value in experts.network_of(last).options.items())
    return [
        "cascade=",
        "calibrate=",
        f"labels={LABELLING}",
        f"router={{sigma = {experts.sigmas[-1]}}}",
        f"router.start={last}",
        f"router.model={experts.model}",
        f"router.options={{{options}}}",
        f"router.normalise={experts.normalise}",
        f"router.training={TRAINING}",
        f"router.loss.sharpness={SHARPNESS}",
        f"finetune.training={FINE_TUNING}",
    ]


def as_cascade(config: "PipelineConfig") -> Sequence[str]:
    """What makes a recipe one for a cascade, where it is for a dual system."""
    return ["router=", "labels=", "finetune=", "steps=", "cascade={}"] if config.router is not None else []


def _folder(variant: Variant) -> str:
    """A name that can be read, and that no other variant has."""
    given = "; ".join(variant.changes)
    return f"{re.sub('[^0-9a-zA-Z.]+', '-', variant.name).strip('-')}-{sha256(given.encode()).hexdigest()[:8]}"


def _take_over(there: Path, here: Path) -> None:
    """Everything but routers, which every ablation trains again; what is here stays, what is not there is made."""
    if there.exists() and not here.exists():
        shutil.copytree(there, here, ignore=shutil.ignore_patterns("router-*", "*.partial"))


def _borrow(varied: "Pipeline", *, labels: bool) -> None:
    """Networks and labels that another variant of the ablation made; a file refuses what it was not made for."""
    ablation, here = varied.config.out.parent, varied.config.out
    for name in () if varied.config.experts.one_network else varied.names:
        there = next(iter(sorted(ablation.glob(f"*/nets/{name}.safetensors"))), None)
        if there is None or (here / "nets" / there.name).exists():
            continue
        (here / "nets").mkdir(parents=True, exist_ok=True)
        for path in there.parent.glob(f"{name}.safetensors*"):
            shutil.copy(path, here / "nets")
    lent = next(iter(sorted(ablation.glob(f"*/{LABELS[0]}"))), None)
    if labels and lent is not None:
        _take_over(lent, here / LABELS[0])


def _head(radii: Sequence[float]) -> str:
    return f"| certified accuracy in % | {' | '.join(f'{r:g}' for r in radii)} |\n|---|{'---:|' * len(radii)}"


def _lines(row: Row, radii: Sequence[float]) -> Iterator[str]:
    """The run's row, and below it what it gains over another on the same images, with its standard error."""
    from sigmax import report

    yield _row(row.name, report.certified_accuracy(row.run, radii))
    if row.against is not None:
        found = report.accuracy_gain(row.against, row.run, radii)
        cells = (
            f"{100 * gain:+.1f} ± {100 * error:.1f}{'*' if chance <= UNLIKELY else ''}"
            for gain, error, chance in zip(found["gain"], found["error"], found["chance"], strict=True)
        )
        yield f"| gain | {' | '.join(cells)} |"


def _row(name: str, shares: "pd.Series[float]") -> str:
    return f"| {name} | {' | '.join(share_down(100 * share, 2) for share in shares)} |"


def keep(path: Path, name: str, run: "Run") -> None:
    """Add a column: the radius certified for the image's class, rounded down; empty where there is none."""
    import pandas as pd

    certified = {r.index: float(down(r.certificate.radius, 6)) if r.correct else None for r in run.records}
    column = pd.Series(certified, name=name, dtype=float).rename_axis("image").sort_index()
    there = _kept(path) if path.exists() else pd.DataFrame(index=column.index)
    if not there.index.equals(column.index):
        raise RequestError(f"{path} is of other images than {run.path}; give another file to --keep")
    with written_whole(path) as draft:
        there.assign(**{name: column}).to_csv(draft, compression={"method": "gzip", "mtime": 0})


def _kept(path: Path) -> "pd.DataFrame":
    import pandas as pd

    try:
        return pd.read_csv(path, index_col="image")
    except (OSError, EOFError, ValueError) as error:
        raise RequestError(f"{path} is damaged, or no table of --keep ({error}); give another file") from error


def _check_kept(path: Path) -> None:
    if not path.name.endswith(".csv.gz"):
        raise RequestError(f"--keep writes a compressed table: expected a name like rows.csv.gz, not {path}")
    check_writable(path)
    if path.exists():
        _kept(path)


if __name__ == "__main__":
    try:
        main()
    except RequestError as error:
        complain(f"error: {error}", style="red")
        sys.exit(2)
