"""`sigmax show`: what a system or a run is, and what a run says of its inputs."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sigmax.cli.progress import say
from sigmax.cli.runs import inputs
from sigmax.cli.runs.inputs import Sort
from sigmax.errors import RequestError

if TYPE_CHECKING:
    from sigmax.records.run import Run

Facts = Iterator[tuple[str, object]]
FEW = 4  # outputs on probe inputs that are shown of a network


def show(
    what: Annotated[str, typer.Argument(metavar="SYSTEM|RUN", help="A folder, zoo:NAME, hub:OWNER/NAME; a run file.")],
    index: Annotated[int | None, typer.Option("--index", help="Of a run: explain this input instead.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="Of a run: list at most so many inputs; 0: all.")] = 20,
    sort: Annotated[Sort, typer.Option("--sort", help="Of a run: by index, or the largest radius first.")] = "index",
) -> None:
    """Print what a system or a run is: its rule, its networks or its plan; the inputs of a run, a line each.

    Example: `sigmax show zoo:digits-cascade`

    Example: `sigmax show runs/half.jsonl --index 20`
    """
    if Path(what).is_file():
        from sigmax.records.run import read

        run = read(what)
        _print(_of_run(run))
        if index is None:
            inputs.table(run, limit=limit, sort=sort)
        else:
            inputs.explain(run, index)
        return
    if Path(what).suffix in (".jsonl", ".gz") and not Path(what).exists():
        raise RequestError(f"there is no run file {what}; `sigmax certify` writes one with --out {what}")
    if index is not None:
        raise RequestError(f"--index is for a run file, and {what} is not a file; name a run")
    _print(_of_system(what))


def _print(facts: Facts) -> None:
    for name, value in facts:
        if value not in (None, ""):
            say(f"{name + ':':<14}{value}")


def _of_run(run: "Run") -> Facts:
    from sigmax.records.inputs import in_words
    from sigmax.records.logs.read import NOT_STATED

    plan = run.plan
    yield from _of_rule(plan.rule)
    targets = ", ".join(f"{r:g}" for r in plan.sampling.get("targets") or ())
    early = f", {plan.sampling['kind']}" if plan.sampling.get("kind", "fixed") != "fixed" else ""
    early += f", targets {targets}" if targets else ""
    yield "samples", ("" if plan.n0 is None else f"n0 {plan.n0}, ") + f"n {plan.n}" + early
    yield "alpha", plan.alpha
    yield "norm", plan.norm
    yield "generator", None if plan.generator is None else f"{plan.generator}, seed {plan.seed}"
    yield "precision", plan.arithmetic
    stated = [plan.data.get(key) for key in ("name", "split", "fingerprint")]
    about = " ".join(str(value) for value in stated if value not in (None, "", NOT_STATED))
    yield "data", about if plan.labelled else f"{about}, no labels"
    yield "inputs", in_words(plan.inputs)
    yield "finished", f"{len(run.records)} of {run.planned}"
    yield "system", plan.system
    for name, kept in (plan.behaviour or {}).items():  # it tells apart what shares the hash of its weights
        outputs = ", ".join(f"{value:.3g}" for value in kept["outputs"][:FEW])
        yield "outputs", f"{name} on probe inputs: {outputs}" + (" ..." if len(kept["outputs"]) > FEW else "")
    yield "made with", ", ".join(f"{key} {value}" for key, value in plan.made_with.items() if key != "notes")
    yield from (("note", note) for note in plan.made_with.get("notes", ()))  # on an imported log


def _of_system(source: str) -> Facts:
    from sigmax import models, systems
    from sigmax.models import Selective
    from sigmax.systems.networks import parts_of

    scheme = systems.load(source)
    yield from _of_rule(scheme.rule.describe())
    selective = {n: v.model for n, v in scheme.voters.items() if isinstance(v.model, Selective)}
    confidence = {name: model.confidence for name, model in selective.items()}
    for name, model in parts_of(scheme).items():
        described = models.describe(model)
        if described is not None:
            shape = "x".join(map(str, described.input_shape))
            trained = "" if described.sigma is None else f", trained with sigma {described.sigma:g}"
            defers = f", defers below confidence {confidence[name]:.4g}" if name in confidence else ""
            yield name, f"{described.architecture}, {described.classes} classes of {shape}{trained}{defers}"
    yield "fingerprint", systems.fingerprint(scheme)


def _of_rule(rule: Any) -> Facts:
    """The rule in words, and what its certificates assume."""
    from sigmax.report.schemes import in_words
    from sigmax.rules.registry import assumptions, entry, rebuild

    yield "rule", in_words(rule)
    if rule["scheme"] == "imported":
        return
    yield "scheme", entry(rule["scheme"]).summary
    yield "assumes", "; ".join(assumptions(rebuild(rule).describe()))
