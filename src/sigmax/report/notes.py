"""What was run, and what a reader must know before believing or comparing its numbers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sigmax.records.inputs import in_words as inputs_in_words
from sigmax.records.logs.read import NOT_STATED
from sigmax.records.rounding import down
from sigmax.records.run import Run
from sigmax.report.compare.comparison import sigmas
from sigmax.report.compare.diagnosis import RoutingAnalysis
from sigmax.report.metrics.accuracy import certified_radii
from sigmax.report.metrics.adaptive import mean_samples, on_sampling
from sigmax.report.metrics.shares import answers_by_part, reasons
from sigmax.report.schemes import assumed_by, part_title, scheme_text
from sigmax.report.tables import ACR_DECIMALS
from sigmax.rules.certificate import Outcome, Role
from sigmax.rules.sampling import in_words, remade


def notes(runs: Mapping[str, Run], found: RoutingAnalysis) -> Iterator[tuple[str | None, list[str]]]:
    """Sentences on the comparison, under no name; on what all runs share, once; on single runs."""
    common = [*on_comparing(list(runs.values())), *on_analysis(found)]
    if common:
        yield None, common
    own = {name: [*on_run(run), *([found.notes[name]] if name in found.notes else [])] for name, run in runs.items()}
    first, *others = own.values()
    shared = [sentence for sentence in first if others and all(sentence in other for other in others)]
    if shared:
        yield "each run", shared
    for name, sentences in own.items():
        alone = [sentence for sentence in sentences if sentence not in shared]
        if alone:
            yield name, alone


def cautions(runs: Mapping[str, Run]) -> list[str]:
    """The notes that make figures wrong or not comparable, the worst first: for where there is no room for all."""
    counts = {name: sum(r.certificate.outcome is Outcome.IMPOSSIBLE for r in run.records) for name, run in runs.items()}
    impossible = ", ".join(f"{name} has {count:,}" for name, count in counts.items() if count)
    claimed = ", ".join(name for name, run in runs.items() if run.plan.imported)
    return [
        *([f"impossible radii, more than the samples can show, are counted: {impossible}"] if impossible else []),
        *on_comparing(list(runs.values())),
        *([f"radii of another tool's log are claims that nothing proves: {claimed}"] if claimed else []),
    ]


def on_run(run: Run) -> list[str]:
    """Sentences on one run: what it assumes, lacks or was not asked; of an imported one, what was found in the log."""
    if run.plan.imported:
        rule, found = run.plan.rule, run.plan.made_with.get("notes", ())
        return [f"imported from {rule['file']}, which holds no counts: its radii are claims, {rule['radii']}", *found]
    assumed = [f"its certificates assume: {text}" for text in assumed_by(run.plan.rule)]
    unlabelled = "its data has no labels: shares are of inputs certified for any class, right or wrong"
    return [*assumed, *on_sampling(run), *_on_extent(run), *([] if run.labelled else [unlabelled])]


def _on_extent(run: Run) -> Iterator[str]:
    if len(run.records) < run.planned:
        yield (
            f"unfinished, {len(run.records):,} of {run.planned:,} inputs; the figures are of those, "
            "which need not represent the rest"
        )


def on_comparing(runs: Sequence[Run]) -> list[str]:
    """Sentences on what makes these runs hard to compare; none where they differ in their method alone."""
    sentences = list(_on_data([run.plan.data for run in runs]))
    if len({frozenset(record.index for record in run.records) for run in runs}) > 1:
        sentences.append("the runs do not hold the same inputs; differences between them may come from that")
    if len({(run.plan.n, run.plan.alpha) for run in runs}) > 1:
        sentences.append("n or alpha differ; more samples or a larger alpha raise every radius by themselves")
    if len({str(sorted(run.plan.sampling.items())) for run in runs}) > 1:
        sentences.append(
            "the runs were not asked the same: adaptive sampling proves what it was asked and seldom more; compare "
            "them at radii that all of them were asked about"
        )
    return sentences


def on_analysis(found: RoutingAnalysis) -> list[str]:
    """Sentences on the curves that dual runs are compared with; none where there are none."""
    if not found.lines:
        return []
    return [
        "oracle and envelope are not certificates: the oracle chooses the expert by the true class, the envelope by "
        "the radius. The oracle's radii follow from the experts' counts at the share of alpha that the dual run gives "
        "each of them, the envelope's from the whole alpha of the experts' runs, so it can lie above the oracle "
        "where n is small"
    ]


def _on_data(data: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    names, splits = ({str(d[key]) for d in data} - {NOT_STATED} for key in ("name", "split"))
    if len(names) > 1 or len(splits) > 1:
        different = "; ".join(sorted({stated(d) for d in data} - {NOT_STATED}))
        yield f"the runs are of different data ({different}); their accuracies are not comparable"
    elif len({d["fingerprint"] for d in data} - {None}) > 1:
        yield "the data of the runs have one name but differ in content (their fingerprints differ)"
    if len(data) > 1 and any(NOT_STATED in (d["name"], d["split"]) for d in data):
        yield "not every run states its data and split (--data, --split of `sigmax import`); make sure that they agree"


def stated(data: Mapping[str, Any]) -> str:
    """The data set and its split, as far as a run names them: 'digits test', 'digits', 'not stated'."""
    words = [str(data[key]) for key in ("name", "split") if data.get(key) and data[key] != NOT_STATED]
    return " ".join(words) or NOT_STATED


def facts(run: Run) -> Iterator[tuple[str, str]]:
    """Labels and values; what the run does not state is left out."""
    yield from ((label, str(value)) for label, value in _facts(run) if value is not None)


def _facts(run: Run) -> Iterator[tuple[str, object]]:
    plan = run.plan
    yield "file", run.path.name
    yield "scheme", scheme_text(plan.rule)
    yield "classes", plan.rule.get("classes")
    yield "sigma", sigmas(run)
    yield "samples", _samples(run)
    yield "alpha", f"{plan.alpha:g}"
    yield "norm of the radii", plan.norm
    yield "data", stated(plan.data)
    yield "fingerprint of the data", plan.data.get("fingerprint")
    yield "inputs", _inputs(run)
    yield "outcomes", ", ".join(f"{str(outcome).replace('_', ' ')} {k:,}" for outcome, k in reasons(run).items())
    yield "answered by", _answered(run)
    largest = float(certified_radii(run).max(initial=0.0))
    given = plan.imported  # another tool's number
    shown = repr(largest) if given else down(largest, ACR_DECIMALS)
    yield f"largest radius of {'a true' if run.labelled else 'any'} class", shown
    yield "seconds", f"{sum(record.seconds for record in run.records):,.1f} in all"
    yield "seed", plan.seed
    yield "generator", plan.generator
    yield "arithmetic", plan.arithmetic
    yield "system", plan.system
    yield "made with", _made_with(plan.made_with)


def _samples(run: Run) -> str:
    plan, stages = run.plan, [stage for record in run.records for stage in record.certificate.stages]
    if stages and all(stage.role is Role.SCORE for stage in stages):
        return "none: the network is read once for each input, without noise"
    if stages and all(stage.role is Role.OFFSETS for stage in stages):
        return f"none: the network votes once at each of {stages[0].n:,} offsets"
    sampling = remade(plan.sampling)
    adaptive, several = sampling.kind == "adaptive", any(stage.part for stage in stages)
    looked_at = bool(plan.n0) and len(sampling.selection_stops(plan.n0 or 0)) > 1
    words = [
        f"{'at most ' if adaptive else ''}n={plan.n:,}"
        + (f" after {'at most ' if looked_at else ''}n0={plan.n0:,} for selection" if plan.n0 else ""),
        *([in_words(sampling)] if adaptive else []),
        *(["for each part asked"] if several else []),
    ]
    mean = f"; {mean_samples(run):,.0f} an input on average" if adaptive or several else ""
    return ", ".join(words) + mean


def _inputs(run: Run) -> str:
    inputs, done = run.plan.inputs, f"{len(run.records):,} of {run.planned:,} planned"
    if not isinstance(inputs, Mapping):
        return f"{done}: {inputs_in_words(inputs)}"
    which = "every one" if inputs["skip"] == 1 else f"one in {inputs['skip']}"
    return f"{done}, from index {inputs['start']} on, {which}"


def _answered(run: Run) -> str | None:
    """How many inputs each part of a scheme answered."""
    found = answers_by_part(run)
    if len(found) < 2:
        return None
    words = []
    for part, row in found.iterrows():
        certified = row["right"] if run.labelled else row["inputs"] - row["abstained"]
        reach = f", mean radius {down(row['mean_radius'], 2)}" if certified else ""
        inputs = f"{row['inputs']:,.0f} inputs, {certified:,.0f} {'right' if run.labelled else 'certified'}{reach}"
        words.append(f"{part_title(str(part)) or 'no part'}: {inputs}")
    return "; ".join(words)


def _made_with(made_with: Mapping[str, Any]) -> str | None:
    """Versions and batch sizes; the fingerprints of a dual run's experts are left to their own runs."""
    left_out = ("notes", "experts")
    return ", ".join(f"{key} {_plainly(value)}" for key, value in made_with.items() if key not in left_out) or None


def _plainly(value: object) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    return " ".join(str(size) if name == "base" else f"{name} {size}" for name, size in value.items())
