r"""The ablations of a dual system, each a small table: what changes when one thing of its recipe does.

    python benchmarks/cifar10_ablations.py recipes/cifar10_dual.toml                       # its own systems alone
    python benchmarks/cifar10_ablations.py recipes/cifar10_dual.toml --study lambda sets   # trains what differs
    python benchmarks/cifar10_ablations.py recipes/digits_dual.toml --study lambda --radii 0,0.1,0.2,0.4
    python benchmarks/cifar10_ablations.py recipes/cifar10_dual.toml --set data.test=train \
        --vary 'router.objective=weighted; router.copies=8' --vary router.consistency=5    # routers of one's own

`--set KEY=VALUE` changes the recipe for all of them, as in `sigmax pipeline run`; `--set data.test=train` measures
on the images held out. The recipe is run first where it was not. Experts and labels that a study does not change
are taken over from it; every file knows what it was made for, so none is taken over that does not fit.
The rows "gain" are what the row above certifies more than the first of the study by the same rule (runner-up than
one-sided, the consensus rule of a comparison than min), with one standard error over the images; a star where the
sign test gives such a gain a chance of 1% or less.
`--keep FILE.csv.gz` writes down what each row was counted from: the radius certified for the class of each image.
Studies made one after the other go into the same file; a row made again takes the place of the one before.
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
from typing import TYPE_CHECKING

from sigmax.cli import options as opt
from sigmax.cli.pipeline import warn
from sigmax.cli.progress import complain, progress
from sigmax.errors import RequestError
from sigmax.files import check_writable, written_whole
from sigmax.records.rounding import down, share_down
from sigmax.report.accuracy import checked_radii

if TYPE_CHECKING:
    import pandas as pd

    from sigmax.certify.scheme import Scheme
    from sigmax.records.run import Run
    from sigmax.train import Pipeline, PipelineConfig

RADII = "0,0.25,0.5,0.75,1,1.25,1.5,1.75,2,2.25,2.5"
EXPERTS, LABELS = ("experts", "nets"), ("labels-1",)
TRAINING = (  # of a router that begins with an expert
    "{epochs = 20, batch = 512, optimiser = 'adamw', lr = 0.002, weight_decay = 0.01, schedule = 'one-cycle', "
    "augment = 'crop-flip', precision = 'bf16', channels_last = true}"
)
LABELLING = '{n = 128, n0 = 16, alpha = 0.5, dtype = "bf16", compile = "default"}'  # near the truth, not below it
SHARPNESS = 5.0  # of the soft labels: less than suits the digits, whose radii are smaller
FINE_TUNING = (
    "{epochs = 10, batch = 512, optimiser = 'adamw', lr = 0.0002, weight_decay = 0.01, schedule = 'constant', "
    "augment = 'crop-flip', precision = 'bf16', channels_last = true}"
)
AS_TRAINED = "balance="  # routers that do not lean, or leaning would hide what training changed
ONE_ROUND = ("inner=[]", "labels.folds=1", AS_TRAINED)  # of what two rounds can be told of as well
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
    """The recipe with some keys changed; `reuse`: what is taken over from the recipe's own folder.

    `taught`: it is about routers that are trained. Where the recipe has none, one router over all experts, which
    begins with the last one's network, is put in place of its routers.
    `sure`: its routers are the sureness of the experts, which "names" classes or chooses among "routes".
    """

    name: str
    changes: tuple[str, ...] = ()
    reuse: tuple[str, ...] = ()
    taught: bool = True
    sure: str = ""


def _sets() -> list[Variant]:
    """The candidate sets of the paper; one router over all of them, with the most noise of the set, as there."""
    sets = ("0.25,0.5,1.0", "0.25,1.0", "0.5,1.0", "0.25,0.5", "0.5,0.625", "0.25,0.5,0.75,1.0")
    return [
        Variant(f"{{{s}}}", (f"experts.sigmas=[{s}]", "inner=[]", f"router.sigma={s.split(',')[-1]}", AS_TRAINED))
        for s in sets
    ]


GAUSSIAN = ("experts.method=gaussian", "experts.hyper={}", "router.start=")
CERTIFIED = ("router.objective=certified", "router.sharpness=", f"router.radii=[{RADII}]")
STUDIES: dict[str, list[Variant]] = {
    "sets": _sets(),
    "labels": [
        Variant(f"n = {n} on a fifth", (f"labels.n={n}", "labels.fraction=0.2", AS_TRAINED), EXPERTS)
        for n in (100, 1000)
    ],
    "data": [
        Variant(f"{share:.0%} of the labels", (f"labels.fraction={share}", AS_TRAINED), EXPERTS)
        for share in (0.2, 0.6, 1.0)
    ],
    "lambda": [
        Variant(f"consistency {weight:g}", (f"router.consistency={weight}", AS_TRAINED), EXPERTS + LABELS)
        for weight in (0.0, 5.0, 20.0, 40.0, 80.0)
    ],
    "router": [  # each brought into balance, if the recipe does that: what a user would have in the end
        Variant("sureness that names", (), EXPERTS, taught=False, sure="names"),
        Variant("sureness between two routes", (), EXPERTS, taught=False, sure="routes"),
        Variant("taught by the paper's loss", ("router.objective=paper",), EXPERTS + LABELS),
        Variant("taught by what is certified", CERTIFIED, EXPERTS + LABELS),
    ],
    "folds": [
        Variant("labels of strangers", ("labels.folds=2", AS_TRAINED), EXPERTS),
        Variant("labels of the experts themselves", ("labels.folds=1", AS_TRAINED), EXPERTS),
    ],
    "shared": [
        Variant("a network each", (*GAUSSIAN, AS_TRAINED)),
        Variant("one network", (*GAUSSIAN, "experts.one_network=true", AS_TRAINED)),
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
    parser.add_argument("--study", nargs="+", choices=[*FREE, *STUDIES], default=list(FREE))
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--radii", default=RADII)
    parser.add_argument("--vary", action="append", default=[], help="changes of a router, 'KEY=VALUE; KEY=VALUE'")
    parser.add_argument("--keep", type=Path, metavar="FILE.csv.gz", help="where to write down what the rows count")
    told = parser.parse_args(words)
    radii = [float(r) for r in checked_radii(opt.numbers(told.radii, "--radii", "radii such as 0,0.25,0.5"))]
    studies = {study: STUDIES.get(study, []) for study in told.study}
    if told.vary:
        studies["vary"] = [_own(text) for text in told.vary]
    base = _pipeline(told.recipe, told.changes)
    for study, variants in studies.items():  # all that is wrong is said before any work
        for variant in variants:
            _varied(base, told.recipe, study, variant, told.changes)
    if told.keep:
        _check_kept(told.keep)
    runs = base.run(progress)
    for study, variants in studies.items():
        print(f"\n### {study}\n\n{_head(radii)}")
        if study == "comparison":
            rows = _comparison(base, runs, radii)
        elif study == "bound":
            rows = _bound(base, runs)
        else:
            rows = _trained(base, told.recipe, study, variants, changes=told.changes)
        for row in rows:
            for line in [row] if isinstance(row, str) else _lines(row, radii):
                print(line, flush=True)
            if told.keep and isinstance(row, Row):
                keep(told.keep, f"{study}: {row.name}", row.run)
    print(f"\n`python {shlex.join(['benchmarks/cifar10_ablations.py', *(words or sys.argv[1:])])}`")


def _pipeline(recipe: Path, changes: Sequence[str]) -> "Pipeline":
    from sigmax.train import Pipeline, PipelineConfig

    return Pipeline(PipelineConfig.read(recipe, changes), on_warning=warn)


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
        best = report.envelope(experts, radii)
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
        raise RequestError("--study bound sets the runner-up bound beside the one-sided; leave experts.bound out")
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
    base: "Pipeline", recipe: Path, study: str, variants: Sequence[Variant], *, changes: Sequence[str]
) -> Iterator[Row]:
    firsts: dict[str, Run] = {}  # by rule
    for variant in variants:
        varied = _varied(base, recipe, study, variant, changes)
        for name in variant.reuse:
            _take_over(base.config.out / name, varied.config.out / name)
        _borrow(varied, labels=LABELS[0] in variant.reuse)
        for run in varied.run(progress):
            rule = str(run.plan.rule["rule"])
            yield Row(f"{variant.name}, {rule}", run, firsts.get(rule))
            firsts.setdefault(rule, run)


def _varied(base: "Pipeline", recipe: Path, study: str, variant: Variant, changes: Sequence[str]) -> "Pipeline":
    """The recipe as the variant has it, in a folder by what is changed: variants may come and go."""
    out = base.config.out / "ablations" / study / _folder(variant)
    routers = [*taught(variant, base.config), *sure(variant, base.config)]
    told = [*routers, *changes, *variant.changes, f"out={out.resolve()}"]
    return _pipeline(recipe, [*told, "certify.experts=false"])


def taught(variant: Variant, config: "PipelineConfig") -> Sequence[str]:
    """What makes the routers of a recipe taught ones, where the variant is about such and the recipe has none."""
    if not variant.taught or config.router.sure_of is None:
        return []
    listed = next((change for change in variant.changes if change.startswith("experts.sigmas=")), None)
    experts, last = config.experts, config.count - 1 if listed is None else listed.count(",")
    options = ", ".join(f"{name} = {json.dumps(value)}" for name, value in experts.options.items())
    return [
        "inner=[]",
        f"labels={LABELLING}",
        "router.sure_of=",
        "router.names=",
        f"router.start={last}",
        f"router.model={experts.model}",
        f"router.options={{{options}}}",
        f"router.normalise={experts.normalise}",
        f"router.training={TRAINING}",
        f"router.sharpness={SHARPNESS}",
        f"finetune.training={FINE_TUNING}",
    ]


def sure(variant: Variant, config: "PipelineConfig") -> Sequence[str]:
    """What makes the routers of a recipe the sureness of its experts: a tree, from the most noise to the least."""
    if not variant.sure:
        return []
    names, sigmas = json.dumps(variant.sure == "names"), config.experts.sigmas
    below = [
        f"{{experts = {list(range(place + 1))}, sigma = {sigmas[place]}, sure_of = {place}, names = {names}}}"
        for place in range(1, len(sigmas) - 1)
    ]
    top = len(sigmas) - 1
    return [
        'steps=["router"]',
        "labels=",
        f"router={{sigma = {sigmas[top]}, sure_of = {top}, names = {names}}}",
        f"inner=[{', '.join(below)}]",
    ]


def _folder(variant: Variant) -> str:
    """A name that can be read, and that no other variant has."""
    told = "; ".join(variant.changes)
    return f"{re.sub('[^0-9a-zA-Z.]+', '-', variant.name).strip('-')}-{sha256(told.encode()).hexdigest()[:8]}"


def _take_over(there: Path, here: Path) -> None:
    """Everything but routers, which every study trains anew; what is here stays, what is not there is made."""
    if there.exists() and not here.exists():
        shutil.copytree(there, here, ignore=shutil.ignore_patterns("router-*", "*.partial"))


def _borrow(varied: "Pipeline", *, labels: bool) -> None:
    """Networks and labels that another variant of the study made; a file refuses what it was not made for."""
    study, here = varied.config.out.parent, varied.config.out
    for name in () if varied.config.experts.one_network else varied.names:
        there = next(iter(sorted(study.glob(f"*/nets/{name}.safetensors"))), None)
        if there is None or (here / "nets" / there.name).exists():
            continue
        (here / "nets").mkdir(parents=True, exist_ok=True)
        for path in there.parent.glob(f"{name}.safetensors*"):
            shutil.copy(path, here / "nets")
    lent = next(iter(sorted(study.glob(f"*/{LABELS[0]}"))), None)
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
