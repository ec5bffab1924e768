"""Denoised smoothing on CIFAR-10: our own denoiser before the public ResNet-56, then fine-tuned, then routed.

    python recipes/cifar10_denoised.py --data cifar10:PATH --weights FILE --device cuda
    python recipes/cifar10_denoised.py --small    # toy sizes on a CPU, to see that all of it runs

Data      CIFAR-10: 50,000 training images, 5% of them held out; every tenth of the 10,000 test images is certified
Weights   the public ResNet-56 (93.4% of clean test images), a .th file or its folder; it is not changed
Machine   one GPU: 22 minutes in all on an H200 that at first had other work too (12.3 of them training); repeated,
          the command skips the steps that are done and goes on with one that was cut short
Choices   are made on the images held out, which `--held-out` certifies; `--set KEY=VALUE` changes a number below
Result    OUT/table.md and table.json: certified accuracy, parameters, and the minutes of every step. At radius 0
          with sigma 0.25, 0.5, 1 (1,000 images, standard error up to 1.6): off the shelf 61.9, 36.7, 18.7%; tuned
          80.1, 67.8, 47.2%. Dual: 76.0%, but at radius 1 5.8% where its best expert has 20.0. See docs/denoised.md

1. A UNet learns to remove noise of sigma 0.2 to 1.05, and the public classifier is certified on denoised images.
2. The classifier is fine-tuned on denoised images. It is one network for all three sigmas, given none of them:
   denoised images are much alike whatever the noise was, one is trained in a third of the time of three, and the
   experts of step 3 then vote in the same batches.
3. A router chooses the sigma. It sees images denoised by the same UNet, and learns from labels of images that the
   classifier was not fine-tuned on (the public weights saw all of them, without noise).
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import nn

import sigmax as sx
from sigmax import data, models, report
from sigmax.cli.progress import Advance, complain, progress, say
from sigmax.config.changes import with_changes
from sigmax.data import Dataset
from sigmax.errors import RequestError, RunError
from sigmax.files import written_whole
from sigmax.jobs.label import make_labels
from sigmax.jobs.label.parts import set_aside
from sigmax.records.rounding import share_down
from sigmax.schemes.scheme import Scheme
from sigmax.train import Mixed, Settings, train_classifier, train_denoiser, train_router

RADII = tuple(0.25 * i for i in range(11))

# Certified accuracy in % at RADII; millions of parameters; seconds an input on one RTX 4090.
# Source: Dual randomized smoothing (Sun et al. 2026), Table 2 and Sec. 6: n = 10,000, alpha = 0.001; a denoiser of
# 50M, a ViT of 87M and, in the last row, ResNet-110 as router.
_CARLINI = {
    0.25: (86.61, 73.90, 57.02, 35.30, 0, 0, 0, 0, 0, 0, 0),
    0.5: (73.49, 62.23, 49.46, 38.20, 28.58, 19.54, 11.22, 0, 0, 0, 0),
    1.0: (47.98, 39.85, 32.17, 25.16, 19.34, 14.49, 10.30, 7.32, 4.89, 3.35, 2.15),
}
_DUAL = (70.53, 57.48, 45.27, 34.15, 24.68, 17.84, 12.46, 8.83, 6.65, 4.73, 3.14)
Published = tuple[str, tuple[float, ...], float, float]
PUBLISHED: Sequence[Published] = [
    *((f"Carlini et al., off the shelf, sigma {sigma:g}", row, 137, 14.07) for sigma, row in _CARLINI.items()),
    ("Sun et al., dual, fine-tuned", _DUAL, 138.7, 22.58),
]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Every number. Noise is in pixels on [0, 1]."""

    images: int | None = None  # of the training split, the first so many; None: all
    held_out: float = 0.05  # share of these that nothing is trained on
    aside: float = 0.1  # share of the rest that is labelled for the router, and not fine-tuned on
    sigmas: tuple[float, ...] = (0.25, 0.5, 1.0)  # that are certified
    router_sigma: float = 1.0
    noise: tuple[float, float] = (0.2, 1.05)  # that the denoiser is trained on: a little beyond what it will meet
    unet: Mapping[str, Any]  # its sizes: 6.6 million parameters, 1.1 billion operations an image
    denoising: Settings
    tuning: Settings
    router: Mapping[str, Any]  # its architecture, options and normalisation
    routing: Settings
    loss: Mapping[str, Any]  # of the router
    labels: Mapping[str, Any]  # they prove nothing: at this alpha 256 samples reach 2.2 sigma, at 0.001 only 1.9
    n0: int = 100  # samples that pick the class
    n: int = 10_000  # samples that prove the radius, at most
    alpha: float = 1e-3
    skip: int = 10  # of the test images every so many
    maximum: int | None = 1_000  # images certified


_GPU: Mapping[str, Any] = {"augment": "crop-flip", "precision": "bf16", "channels_last": True}
_ONCE: Mapping[str, Any] = {"optimiser": "adamw", "weight_decay": 0.01, "schedule": "one-cycle"}
FULL = Recipe(
    unet={"width": 32, "multipliers": (1, 2, 4, 4), "blocks": 2, "attention": (8,), "head_channels": 32},
    denoising=Settings(
        epochs=40, batch=512, lr=1.5e-3, warmup=0.1, descent="cosine", clip=1.0, ema=0.999, **_ONCE, **_GPU
    ),
    tuning=Settings(epochs=25, batch=512, lr=0.05, nesterov=True, weight_decay=2e-4, schedule="one-cycle", **_GPU),
    router={
        "architecture": "resnet18-capped",
        "options": {"width": 24, "most": 128},
        "normalisation": "cifar10",
    },
    routing=Settings(epochs=25, batch=256, lr=0.004, **_ONCE, **_GPU),
    loss={"objective": "certified", "radii": RADII, "copies": 4},
    labels={"n": 256, "n0": 32, "alpha": 0.05},
)
SMALL = replace(
    FULL,
    images=500,
    unet={"width": 16, "multipliers": (1, 2), "blocks": 1, "attention": ()},
    denoising=replace(FULL.denoising, epochs=6, batch=32, lr=4e-3, ema=0.9),
    tuning=replace(FULL.tuning, epochs=1, batch=32, lr=0.005),
    router={"architecture": "small-cnn", "options": {"width": 8}, "normalisation": None},
    routing=replace(FULL.routing, epochs=6, batch=16),
    labels={"n": 50, "n0": 10, "alpha": 0.05},
    n0=20,
    n=200,
    skip=7,
    maximum=8,
)


class Stopwatch:
    """The seconds of every step by name, kept in a file; those of attempts that were cut short count in.

    A step that is done, and whose file is there, is not timed again: to find that out takes time too.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._steps: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}

    @property
    def seconds(self) -> Mapping[str, float]:
        """What each step took, in the order they began in."""
        return {name: step["seconds"] for name, step in self._steps.items()}

    def minutes(self, *names: str) -> float:
        """What these steps took together."""
        return sum(self.seconds[name] for name in names) / 60

    @contextmanager
    def step(self, name: str, made: Path) -> Iterator[Advance]:
        """Time what is done within, which leaves the file or folder `made`."""
        before = self._steps.get(name, {"seconds": 0.0, "done": False})
        idle = before["done"] and made.exists()
        done, begun = False, perf_counter()
        with progress(name) as watch:
            try:
                yield watch
                done = True
            finally:
                if not idle:
                    self._steps[name] = {"seconds": before["seconds"] + perf_counter() - begun, "done": done}
                    with written_whole(self.path) as draft:
                        draft.write_text(json.dumps(self._steps, indent=1) + "\n")


@dataclass(frozen=True)
class Job:
    """The steps, each asking for those before it, and where they leave their files."""

    recipe: Recipe
    source: str
    weights: Path | None
    out: Path
    device: str
    compile: str  # how networks that vote are compiled
    sampling: str
    on_held_out: bool

    @cached_property
    def steps(self) -> Stopwatch:
        """What is timed."""
        return Stopwatch(self.out / "seconds.json")

    @cached_property
    def divided(self) -> tuple[Dataset, Dataset, Dataset, Dataset]:
        """Training images: those held out, all others; of these the ones to label, and the ones to fine-tune on."""
        whole = data.load(self.source, "train")
        some = whole if self.recipe.images is None else whole.take(range(min(self.recipe.images, len(whole))))
        held, taught = map(some.take, set_aside(len(some), self.recipe.held_out, 0))
        labelled, tuned_on = map(taught.take, set_aside(len(taught), self.recipe.aside, 1))
        return held, taught, labelled, tuned_on

    @cached_property
    def certified(self) -> Dataset:
        """The images to certify."""
        return self.divided[0] if self.on_held_out else data.load(self.source, "test")

    @cached_property
    def public(self) -> models.Classifier:
        """The classifier that never saw noise: the public one, or without weights one trained here."""
        if self.weights is not None:
            return public_resnet56(self.weights)
        (_, taught, _, _), out = self.divided, self.out / "clean.safetensors"
        with self.steps.step("clean classifier", out) as watch:
            train_classifier(taught, sigma=0.0, out=out, settings=Settings(epochs=20), on_step=watch)
        return models.load(out)[0]

    @cached_property
    def denoiser(self) -> models.Denoiser:
        """Trained on all images that are not held out; kept as bf16 will hold it."""
        (held, taught, _, _), out = self.divided, self.out / "denoiser.safetensors"
        with self.steps.step("denoiser", out) as watch:
            train_denoiser(
                taught,
                sigmas=self.recipe.noise,
                options=self.recipe.unet,
                settings=self._here(self.recipe.denoising),
                validation=held,
                out=out,
                on_step=watch,
            )
        denoiser = models.load_denoiser(out)
        models.round_weights(denoiser)
        return denoiser

    @cached_property
    def tuned(self) -> models.Classifier:
        """The public classifier, fine-tuned on denoised images, for all sigmas."""
        sigmas, out = self.recipe.sigmas, self.out / "tuned.safetensors"
        start, denoiser, (_, _, _, tuned_on) = self.public, self.denoiser, self.divided
        with self.steps.step("fine-tuning", out) as watch:
            train_classifier(
                tuned_on,
                sigma=max(sigmas),
                method=lambda _: Mixed(sigmas),
                start=start,
                denoiser=denoiser,
                settings=self._here(self.recipe.tuning),
                out=out,
                on_step=watch,
            )
        return _classifier(out)

    @cached_property
    def labels(self) -> sx.jobs.label.Labels:
        """How far the fine-tuned classifier certifies images that are new to it, at each sigma."""
        experts, (_, _, labelled, _), out = self.smoothed(self.tuned), self.divided, self.out / "labels"
        with self.steps.step("labels", out) as watch:
            return make_labels(
                experts, labelled, out, sampling="adaptive", targets=RADII, watch=watch, **self.recipe.labels
            )

    @cached_property
    def router(self) -> models.Classifier:
        """Trained behind the same denoiser."""
        labels, denoiser, (_, _, labelled, _) = self.labels, self.denoiser, self.divided
        out = self.out / "router.safetensors"
        with self.steps.step("router", out) as watch:
            train_router(
                labelled,
                labels,
                sigma=self.recipe.router_sigma,
                denoiser=denoiser,
                settings=self._here(self.recipe.routing),
                out=out,
                on_step=watch,
                on_warning=lambda text: complain(f"warning: {text}", style="yellow"),
                **self.recipe.router,
                **self.recipe.loss,
            )
        return _classifier(out)

    def smoothed(self, classifier: models.Classifier) -> list[sx.Smoothed]:
        """The classifier behind the denoiser, at every sigma."""
        pair, classes = sx.Denoised(self.denoiser, classifier), classifier.description.classes
        return [sx.Smoothed(pair, sigma=sigma, classes=classes, **self._votes()) for sigma in self.recipe.sigmas]

    def dual(self) -> sx.Dual:
        """The fine-tuned classifier at the sigma that the router chooses; kept as a system."""
        experts, net = self.smoothed(self.tuned), sx.Denoised(self.denoiser, self.router)
        router = sx.Smoothed(net, sigma=self.recipe.router_sigma, classes=len(experts), **self._votes())
        dual = sx.Dual(router, experts, rule="consensus")
        dual.save(self.out / "dual", store="bf16")
        return dual

    def rows(self) -> Iterator[dict[str, Any]]:
        """Every system as a row of the table, certified."""
        made_by = ["denoiser"] if self.weights else ["clean classifier", "denoiser"]
        for system in self.smoothed(self.public):
            yield self._row(f"off the shelf, sigma {system.sigma:g}", system, made_by)
        made_by = [*made_by, "fine-tuning"]
        for system in self.smoothed(self.tuned):
            yield self._row(f"fine-tuned, sigma {system.sigma:g}", system, made_by)
        yield self._row("dual, fine-tuned", self.dual(), [*made_by, "labels", "router"])

    def _row(self, name: str, system: Scheme, made_by: Sequence[str]) -> dict[str, Any]:
        out = self.out / "runs" / f"{'-'.join(name.replace(',', '').split())}{self.mark}.jsonl"
        step = f"certify {out.stem}"
        run = self._certify(step, system, out)
        return {
            "system": name,
            "certified": (100 * report.certified_accuracy(run, RADII)).tolist(),
            "parameters": parameters(system),
            "training_minutes": self.steps.minutes(*made_by),
            "certifying_minutes": self.steps.minutes(step),
            "minutes_a_thousand": self.steps.minutes(step) * 1_000 / len(run.records),
            "samples_an_input": float(np.mean([record.certificate.samples for record in run.records])),
            "inputs": len(run.records),
        }

    def _certify(self, step: str, system: Scheme, out: Path) -> sx.Run:
        recipe, images = self.recipe, self.certified
        out.parent.mkdir(parents=True, exist_ok=True)
        with self.steps.step(step, out) as watch:
            run = sx.certify_run(
                system,
                images,
                out,
                n0=recipe.n0,
                n=recipe.n,
                alpha=recipe.alpha,
                skip=1 if self.on_held_out else recipe.skip,
                maximum=recipe.maximum,
                sampling="adaptive" if self.sampling == "adaptive" else "fixed",
                targets=RADII if self.sampling == "adaptive" else None,
                watch=watch,
            )
        if not sx.verify(out).holds:
            raise RunError(f"{out} does not prove its radii; `sigmax verify {out}` says where")
        return run

    @property
    def mark(self) -> str:
        """What tells the files of other questions apart."""
        return "-held-out" * self.on_held_out + "-fixed" * (self.sampling == "fixed")

    def _here(self, settings: Settings) -> Settings:
        """On this device; what GPUs like is slower on a CPU."""
        plain: dict[str, Any] = {} if self.on_gpu else {"precision": "fp32", "channels_last": False}
        return replace(settings, device=self.device, **plain)

    def _votes(self) -> dict[str, Any]:
        dtype = torch.bfloat16 if self.on_gpu else torch.float32
        return {"device": self.device, "dtype": dtype, "compile": self.compile}

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU does the work."""
        return self.device.startswith("cuda")


def public_resnet56(weights: Path) -> models.Classifier:
    """The public weights, from the file or the folder it lies in."""
    files = [weights] if weights.is_file() else sorted(weights.glob("*.th"))
    if len(files) != 1:
        raise RequestError(f"expected the weights of ResNet-56, a file or a folder with one .th file, at {weights}")
    return models.import_weights(
        files[0], architecture="resnet56", classes=10, input_shape=(3, 32, 32), normalisation="imagenet"
    )[0]


def _classifier(path: Path) -> models.Classifier:
    """As bf16 will hold it: what is certified is what the system's files hold."""
    model, _ = models.load(path)
    models.round_weights(model)
    return model


def parameters(system: Scheme) -> int:
    """Of all its networks; what they share counts once."""
    networks = [voter.model for voter in system.voters.values() if isinstance(voter.model, nn.Module)]
    return sum({id(p): p.numel() for network in networks for p in network.parameters()}.values())


def table(rows: Sequence[Mapping[str, Any]], published: Sequence[Published]) -> str:
    """What was measured, beside what is published, as Markdown."""
    head = [*(f"{r:.2f}" for r in RADII), "parameters", "training, min", "certifying 1,000 images, min"]
    lines = [f"| certified accuracy in % at radius | {' | '.join(head)} |", f"|---|{'---:|' * len(head)}"]
    for row in rows:
        cells = [*map(share_down, row["certified"]), f"{row['parameters'] / 1e6:.2f}M"]
        cells += [f"{row['training_minutes']:.2f}", f"{row['minutes_a_thousand']:.2f}"]
        lines.append(f"| {row['system']} | {' | '.join(cells)} |")
    for name, percent, millions, seconds in published:
        cells = [*(f"{value:g}" for value in percent), f"{millions:g}M", "", f"{1_000 * seconds / 60:.1f}"]
        lines.append(f"| *{name}* | {' | '.join(cells)} |")
    return "\n".join(lines)


def write(job: Job, rows: Sequence[Mapping[str, Any]], words: Sequence[str]) -> str:
    """Leave the table as Markdown and as JSON, and return the Markdown."""
    machine, seconds = torch.cuda.get_device_name(job.device) if job.on_gpu else "CPU", dict(job.steps.seconds)
    published = PUBLISHED if job.source.startswith("cifar10:") else ()
    text = (
        f"{table(rows, published)}\n\n"
        f"{machine}; {rows[0]['inputs']} {'held-out' if job.on_held_out else 'test'} images, n0 = {job.recipe.n0}, "
        f"n = {job.recipe.n} ({job.sampling}), alpha = {job.recipe.alpha:g}; rounded down. "
        "Training is of all that a system is made of here; of the public classifier's own nothing is known. In "
        "italics: as published, on one RTX 4090.\n\n"
        + "".join(f"* {step}: {taken:.1f} s\n" for step, taken in seconds.items())
        + f"\n{sum(seconds.values()) / 60:.1f} minutes in all.\n"
        + f"\n`python recipes/cifar10_denoised.py {' '.join(words)}`\n"
    )
    versions = {"machine": machine, "torch": torch.__version__, "sigmax": sx.__version__}
    given = {**versions, "radii": RADII, "rows": rows, "seconds": seconds, "published": published}
    as_json = json.dumps({**given, "recipe": asdict(job.recipe)}, indent=1) + "\n"
    for ending, content in (("md", text), ("json", as_json)):
        with written_whole(job.out / f"table{job.mark}.{ending}") as draft:
            draft.write_text(content)
    return text


def read(words: Sequence[str], parser: argparse.ArgumentParser) -> Job:
    """What is asked for."""
    parser.add_argument("--data", help="cifar10:PATH (with --small any source; default there: digits)")
    parser.add_argument("--weights", type=Path, help="the public ResNet-56: a .th file, or its folder")
    parser.add_argument("--out", type=Path, help="default: work/cifar10-denoised")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", help="of networks that vote, as of `sigmax certify`; default on a GPU: default")
    parser.add_argument("--sampling", choices=("adaptive", "fixed"), default="adaptive")
    parser.add_argument("--held-out", action="store_true", help="certify the images held out, to choose on")
    parser.add_argument("--small", action="store_true", help="toy sizes; without --weights a toy classifier too")
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args(words)
    if not given.small and not (given.data and given.weights):
        raise RequestError("expected --data cifar10:PATH and --weights FILE; --small alone needs neither")
    return Job(
        recipe=with_changes(SMALL if given.small else FULL, given.changes),
        source=given.data or "digits",
        weights=given.weights,
        out=given.out or Path("work", "cifar10-denoised-small" if given.small else "cifar10-denoised"),
        device=given.device,
        compile=given.compile or ("default" if given.device.startswith("cuda") else "off"),
        sampling=given.sampling,
        on_held_out=given.held_out,
    )


def main(words: Sequence[str] | None = None) -> None:
    """Do what is left of the steps, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = sys.argv[1:] if words is None else words
    try:
        job = read(words, parser)
        say(write(job, list(job.rows()), words))
    except RequestError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
