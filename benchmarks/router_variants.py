r"""Routers of a recipe in several variants, trained side by side and judged on the images held out.

    python benchmarks/router_variants.py recipes/cifar10_dual.toml variants.json --set data.source=cifar10:PATH

The recipe's experts are trained and label first, where they are not there yet. `variants.json` lists what to try:

    [{"name": "lean", "router": "inner", "set": ["inner.0.weights=[2, 1, 1, 1, 1, 1, 1]"]},
     {"name": "long", "router": "outer", "set": ["router.training.epochs=60"]}]

Each is trained in a process of its own, `--at-once` of them together, and votes on the images held out from the
training set; the experts vote once. All pairs of an outer and an inner router are then judged by these votes. It is
a guide and no certificate: shares of votes stand for their bounds, cut off at what n draws could prove.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtri

from sigmax import bounds, models
from sigmax.cli.pipeline import warn
from sigmax.train import Pipeline, PipelineConfig
from sigmax.train.label_parts import best_of, with_routes
from sigmax.train.labels import Labels
from sigmax.train.pipeline_tree import Node
from sigmax.train.quick_check import vote
from sigmax.train.router import train_router

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
RADII: Floats = np.arange(0.0, 2.75, 0.25)
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
    votes: dict[str, Any] = {"labels": np.asarray(pipeline.test.labels)}
    for name, sigma in zip(pipeline.names, pipeline.config.experts.sigmas, strict=True):
        network = models.load(pipeline.config.out / "nets" / f"{name}.safetensors")[0]
        votes[name] = cast(pipeline, network, sigma, draws)
    np.savez(file, **votes)


def cast(pipeline: Pipeline, network: models.Classifier, sigma: float, draws: int) -> Counts:
    """Votes of a network, its weights as they will be kept, on the images held out."""
    device, test = pipeline.config.device, pipeline.test
    if pipeline.config.store == "bf16":
        models.round_weights(network)
    network.to(device).eval()
    generator = torch.Generator(device).manual_seed(0)
    images = torch.from_numpy(test.pixels(range(len(test)))).to(device)
    half = torch.autocast(device.partition(":")[0], torch.bfloat16, enabled=device != "cpu")
    with torch.no_grad(), half:
        classes = network.description.classes
        return vote(network, images, sigma, classes=classes, draws=draws, generator=generator)


def train(recipe: Path, changes: Sequence[str], variant: dict[str, Any], draws: int) -> None:
    """One variant: its router trained on the recipe's labels, and its votes."""
    pipeline = made(recipe, [*changes, *variant.get("set", [])])
    node = next(n for n in pipeline.config.tree.routers() if (n.inner is None) == (variant["router"] == "outer"))
    how, out = pipeline.config.router_of(node), place(pipeline) / f"{variant['name']}.safetensors"
    begun = time.perf_counter()
    train_router(
        pipeline.train,
        labels_of(pipeline, node),
        architecture=how.model,
        options=how.options,
        normalisation=how.normalise,
        sigma=how.sigma,
        start=None if how.start is None else pipeline.network(how.start),
        settings=how.training,
        held_out=how.held_out,
        out=out,
        **how.loss,
    )
    trained = time.perf_counter() - begun
    counts = cast(pipeline, models.load(out)[0], how.sigma, draws)
    np.savez(out.with_suffix(".npz"), counts=counts, sigma=how.sigma)
    print(f"{variant['name']}: {trained:.0f} s, routes {(counts.sum(0) / counts.sum()).round(2)}", flush=True)


def labels_of(pipeline: Pipeline, node: Node) -> Labels:
    """What a router is trained on; a routed expert counts as its best one."""
    whole = pipeline.labels()
    radii = [best_of(whole, route.experts) for route in node.routes]
    sigmas = [whole.sigmas[route.experts[-1]] for route in node.routes]
    return with_routes(whole, radii, sigmas=sigmas, experts=[str(route.experts) for route in node.routes])


def table(pipeline: Pipeline, folder: Path, variants: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Certified accuracy in % as the votes suggest it: experts, inner routers, and all pairs."""
    votes = np.load(folder / HELD)
    furthest = float(ndtri(bounds.lower(pipeline.config.certify.n, pipeline.config.certify.n, 1e-4)))
    sigmas = pipeline.config.experts.sigmas
    labelled = zip(pipeline.names, sigmas, strict=True)
    radii = np.stack([reached(votes[name], votes["labels"], s, furthest) for name, s in labelled], axis=1)
    routers = {variant["name"]: np.load(folder / f"{variant['name']}.npz") for variant in variants}
    inner = [v["name"] for v in variants if v["router"] == "inner"]
    outer = [v["name"] for v in variants if v["router"] == "outer"]
    yield row("radius", RADII)
    for name, column in zip(pipeline.names, radii.T, strict=True):
        yield row(name, accuracy(column))
    yield row("best expert of each image", accuracy(radii.max(axis=1)))
    below = pipeline.config.inner[0].experts if pipeline.config.inner else ()
    rest = [j for j in range(radii.shape[1]) if j not in below]
    for low in inner:
        under = routed(routers[low], radii[:, list(below)], furthest)
        yield row(low, accuracy(under))
        for top in outer:
            whole = routed(routers[top], np.column_stack([under, radii[:, rest]]), furthest)
            yield row(f"{top} over {low}", accuracy(whole))
    for top in outer if not below else ():
        yield row(top, accuracy(routed(routers[top], radii, furthest)))


def reached(counts: Counts, labels: Counts, sigma: float, furthest: float) -> Floats:
    """How far an expert certifies the true class; 0 where it does not."""
    right = counts[np.arange(len(labels)), labels]
    share = (right + 0.5) / (counts.sum(axis=1) + 1)
    leads = (counts.argmax(axis=1) == labels) & (share > 0.5)
    found: Floats = np.where(leads, sigma * np.minimum(ndtri(share), furthest), 0.0)
    return found


def routed(router: Any, radii: Floats, furthest: float) -> Floats:
    """The radius of the consensus rule for the true class (`router_objective`)."""
    counts = router["counts"]
    z = np.clip(ndtri((counts + 0.5) / (counts.sum(axis=1, keepdims=True) + 1)), -furthest, furthest)
    apart = float(router["sigma"]) / 2 * (z.max(axis=1, keepdims=True) - z)
    found: Floats = np.maximum(apart, radii).min(axis=1)
    return found


def accuracy(radii: Floats) -> Floats:
    """Shares in % that reach each of the usual radii."""
    found: Floats = 100 * ((radii[:, None] >= RADII) & (radii[:, None] > 0)).mean(axis=0)
    return found


def row(name: str, values: Floats) -> str:
    """A line of the table."""
    return f"{name:32}" + "".join(f"{value:7.2f}" for value in values)


if __name__ == "__main__":
    main()
