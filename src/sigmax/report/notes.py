"""What a reader of a report must know before believing or comparing its numbers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sigmax.records.field import NOT_STATED
from sigmax.records.run import Run
from sigmax.report.questions import on_question
from sigmax.report.schemes import is_sound
from sigmax.report.study import Study


def on_run(run: Run) -> list[str]:
    """Sentences on one run: what it lacks or was not asked, and, of an imported one, what was found in the log."""
    if run.plan.method == "imported":
        return list(_on_import(run.plan.rule, run.plan.made_with))
    return [*_on_scheme(run.plan.rule), *on_question(run), *_on_extent(run)]


def _on_scheme(rule: Mapping[str, Any]) -> Iterator[str]:
    if rule["scheme"] == "dual":
        yield from dict.fromkeys(sentence for expert in rule["experts"] for sentence in _on_scheme(expert))
    elif not is_sound(rule):
        yield (
            "NOT SOUND: the released code's shares of alpha sum to more than alpha, so that these radii are no "
            "certificates; for comparison only"
        )
    if rule["scheme"] == "semi-elastic" and not rule["field"]["proved"]:
        yield (
            f"certified only if log sigma of the field {rule['field'].get('function')!r} changes at most at the "
            f"rate {rule['field']['rate']:g}, which its user vouches for and nobody proved"
        )
    if rule["scheme"] == "memorized":
        yield (
            "valid within this memory: the noise was chosen for each input by itself, so radii hold for answers "
            "that are given later with the balls of this run in mind; another order of inputs may give others"
        )


def _on_extent(run: Run) -> Iterator[str]:
    if len(run.records) < run.planned:
        yield (
            f"unfinished, {len(run.records):,} of {run.planned:,} inputs; the figures are of those, "
            "which need not be like the rest"
        )


def on_comparing(runs: Sequence[Run]) -> list[str]:
    """Sentences on what makes these runs hard to compare; none where they differ in their method alone."""
    sentences = list(_on_data([run.plan.data for run in runs]))
    if len({frozenset(record.index for record in run.records) for run in runs}) > 1:
        sentences.append("the runs do not hold the same inputs; differences between them may come from that")
    if len({(run.plan.n, run.plan.alpha) for run in runs}) > 1:
        sentences.append("n or alpha differ; more draws or a larger alpha raise every radius by themselves")
    if len({str(sorted(run.plan.sampling.items())) for run in runs}) > 1:
        sentences.append(
            "the runs were not asked the same: sampling that may stop early proves what it was asked and seldom "
            "more; compare them at radii that all of them were asked about"
        )
    return sentences


def on_study(found: Study) -> list[str]:
    """Sentences on the curves that dual runs are held against; none where there are none."""
    if not found.lines:
        return []
    return [
        "oracle and envelope are not certificates: the oracle looks at the true class to choose the expert, the "
        "envelope at the radius. The oracle's radii follow from the experts' counts at the part of alpha that the "
        "dual run leaves each of them, the envelope's from the whole alpha of the experts' runs: it can lie above "
        "the oracle where n is small"
    ]


def _on_import(rule: Mapping[str, Any], made_with: Mapping[str, Any]) -> Iterator[str]:
    yield f"imported from {rule['file']}, which holds no counts: its radii are claims, {rule['radii']}"
    yield from made_with.get("notes", ())


def _on_data(data: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    names, splits = ({str(d[key]) for d in data} - {NOT_STATED} for key in ("name", "split"))
    if len(names) > 1 or len(splits) > 1:
        told = "; ".join(sorted({stated(d) for d in data} - {NOT_STATED}))
        yield f"the runs are of different data ({told}); their accuracies are not comparable"
    elif len({d["fingerprint"] for d in data} - {None}) > 1:
        yield "the data of the runs have one name but differ in content (their fingerprints differ)"
    if len(data) > 1 and any(NOT_STATED in (d["name"], d["split"]) for d in data):
        yield "not every run states its data and split; make sure that they are the same"


def stated(data: Mapping[str, Any]) -> str:
    """The data set and its split, as far as a run names them: 'digits test', 'digits', 'not stated'."""
    told = [str(data[key]) for key in ("name", "split") if data.get(key) and data[key] != NOT_STATED]
    return " ".join(told) or NOT_STATED
