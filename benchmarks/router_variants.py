r"""Routers of a recipe in several variants, trained side by side and judged on the images held out.

    python benchmarks/router_variants.py recipes/cifar10_dual.toml variants.json --set data.source=cifar10:PATH

The recipe's experts are trained and label first, where they are not there yet. `variants.json` lists what to try:

    [{"name": "lean", "router": "inner", "set": ["inner.0.weights=[2, 1, 1, 1, 1, 1, 1]"]},
     {"name": "long", "router": "outer", "set": ["router.training.epochs=60"]}]

Each is trained in a process of its own, `--at-once` of them together, and votes on the images held out from the
training set; the experts vote once. All pairs of an outer and an inner router are then judged by these votes, as
they are and, where the recipe has a [balance], as they lean at their best. It is a guide and no certificate: the
shares of few votes stand for those of n (`sigmax.train.balance`).
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigmax import models
from sigmax.cli.pipeline import warn
from sigmax.train import Pipeline, PipelineConfig
from sigmax.train.balance import Votes, accuracy, best_leans, counted
from sigmax.train.label_parts import best_of, with_routes
from sigmax.train.labels import Labels
from sigmax.train.pipeline_tree import Node

RADII = tuple(0.25 * i for i in range(11))
HELD = "held-out.npz"


def main() -> None:
    """Train what is missing, then print the table."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("recipe", type=Path)
    cli.add_argument("variants", type=Path)
    cli.add_argument("--set", dest="changes", action="append", default=[], metavar="KEY=VALUE")
    cli.add_argument("--draws", type=int, default=512, help="votes on each image held out")
    cli.add_argument("--at-once", type=int, default=2, help="variants trained at the same time")
    cli.add_argument("--one", help=argparse.SUPPRESS)  # the variant that this process is for
    told = cli.parse_args()
    variants = {variant["name"]: variant for variant in json.loads(told.variants.read_text())}
    if told.one is not None:
        train(told.recipe, told.changes, variants[told.one], told.draws)
        return
    pipeline = made(told.recipe, told.changes)
    prepare(pipeline, told.draws)
    folder = place(pipeline)
    todo = [name for name in variants if not (folder / f"{name}.npz").exists()]
    for batch in (todo[i : i + told.at_once] for i in range(0, len(todo), told.at_once)):
        words = [sys.executable, *sys.argv]
        failed = [child.args for child in _children(words, batch) if child.wait()]
        if failed:
            raise SystemExit(f"{len(failed)} of {', '.join(batch)} failed, as said above; the others are kept")
    for line in table(pipeline, folder, list(variants.values())):
        print(line)


def _children(words: Sequence[str], names: Sequence[str]) -> list["subprocess.Popen[bytes]"]:
    return [subprocess.Popen([*words, "--one", name]) for name in names]


def made(recipe: Path, changes: Sequence[str]) -> Pipeline:
    """The recipe, to be measured on the images held out."""
    config = PipelineConfig.read(recipe, [*changes, "data.test=train"])
    if not config.data.held_out:
        raise SystemExit("the recipe holds no images out to choose on; set data.held_out")
    return Pipeline(config, on_warning=warn)


def place(pipeline: Pipeline) -> Path:
    """Where variants and votes are kept."""
    folder = pipeline.config.out / "variants"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def prepare(pipeline: Pipeline, draws: int) -> None:
    """Experts, labels, and the experts' votes on the images held out; the folder stays without a claim."""
    pipeline.check()
    for phase in pipeline.phases():
        if phase.name.startswith("train router"):
            break
        if phase.state != "done":
            begun = time.perf_counter()
            phase.work(lambda done, total: None)
            print(f"{phase.name}: {time.perf_counter() - begun:.0f} s", flush=True)
    file = place(pipeline) / HELD
    if file.exists():
        return
    balance = pipeline.routers.balance(1)
    np.savez(file, radii=[balance.expert_radii(place, draws) for place in range(pipeline.config.count)])


def train(recipe: Path, changes: Sequence[str], variant: dict[str, Any], draws: int) -> None:
    """One variant: its router trained on the recipe's labels, and its votes."""
    pipeline = made(recipe, [*changes, *variant.get("set", [])])
    node = next(n for n in pipeline.config.tree.routers() if (n.inner is None) == (variant["router"] == "outer"))
    out = place(pipeline) / f"{variant['name']}.safetensors"
    begun = time.perf_counter()
    pipeline.routers.train(node, labels_of(pipeline, node), out)
    trained, sigma = time.perf_counter() - begun, pipeline.config.router_of(node).sigma
    network = models.load(out)[0]
    if pipeline.config.store == "bf16":
        models.round_weights(network)
    logits = pipeline.routers.balance(1).logits(network, sigma, draws)
    np.savez(out.with_suffix(".npz"), logits=logits.astype(np.float16), sigma=sigma)
    shares = counted(logits).sum(axis=0) / logits[..., 0].size
    print(f"{variant['name']}: {trained:.0f} s, routes {shares.round(2)}", flush=True)


def labels_of(pipeline: Pipeline, node: Node) -> Labels:
    """What a router is trained on; a routed expert counts as its best one."""
    whole = pipeline.labels()
    radii = [best_of(whole, route.experts) for route in node.routes]
    sigmas = [whole.sigmas[route.experts[-1]] for route in node.routes]
    return with_routes(whole, radii, sigmas=sigmas, experts=[str(route.experts) for route in node.routes])


def table(pipeline: Pipeline, folder: Path, variants: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Certified accuracy in % as the votes suggest it: experts, and all pairs of routers."""
    radii = np.load(folder / HELD)["radii"]
    yield row("radius", RADII)
    for name, column in zip(pipeline.names, radii, strict=True):
        yield row(name, accuracy(column, RADII))
    yield row("best expert of each image", accuracy(radii.max(axis=0), RADII))
    proof, tree = pipeline.routers.balance(1).proof, pipeline.config.tree
    for pair in pairs(variants, inner=bool(pipeline.config.inner)):
        routers = {inner: kept(folder / f"{name}.npz") for inner, name in pair.items()}
        votes = Votes(list(radii), routers, proof)
        yield row(" over ".join(pair.values()), accuracy(votes.radii(tree, dict.fromkeys(pair, 0.0)), RADII))
        goal = pipeline.config.balance
        if goal is not None:
            leans, promised = best_leans(tree, votes, goal.radii, goal.goal)
            told = ", ".join(f"{leans[inner]:+g}" for inner in pair)
            yield row(f"  leaning {told}: {(promised - goal.goal).min():+.2f}", promised)


def pairs(variants: Sequence[dict[str, Any]], *, inner: bool) -> Iterator[dict[int | None, str]]:
    """An outer router and the inner one below it, if there is any, by their names."""
    named = {kind: [v["name"] for v in variants if v["router"] == kind] for kind in ("outer", "inner")}
    for top in named["outer"]:
        if not inner:
            yield {None: top}
        for low in named["inner"] if inner else ():
            yield {None: top, 0: low}


def kept(file: Path) -> tuple[NDArray[np.float32], float]:
    """What a router answered to the images held out, and under which noise."""
    told = np.load(file)
    return told["logits"].astype(np.float32), float(told["sigma"])


def row(name: str, values: Iterable[float]) -> str:
    """A line of the table."""
    return f"{name:32}" + "".join(f"{value:7.2f}" for value in values)


if __name__ == "__main__":
    main()
