"""`sigmax bench`: how fast votes are cast here, beside Cohen et al.'s reference loop."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sigmax.cli import options as opt
from sigmax.cli.progress import console, say
from sigmax.config.changes import with_changes
from sigmax.config.validation import Count, Options, Positive, about
from sigmax.errors import RequestError
from sigmax.files import check_writable, written_whole
from sigmax.records.rounding import down

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import Tensor

    from sigmax.bench.contest import Row
    from sigmax.bench.time_shares import Shares
    from sigmax.schemes.scheme import Scheme

SIGMA = 0.25  # of the networks that are made here to be measured
IMAGE_SIZE = 32
QUICK_EPOCHS = 5  # on digits: seconds, and a network that is confident of some images and not of others


class BenchKeys(Options):
    """What `--set` of `bench` changes."""

    split: Annotated[str, about("which part of the data")] = "test"
    image_size: Annotated[Count | None, about("pixels a side, of image folders; of --network 32 without it")] = None
    inputs: Annotated[Count, about("inputs that the engine certifies")] = 40
    reference_inputs: Annotated[Count, about("inputs that the reference loop certifies; it is slow")] = 4
    n0: Annotated[Count, about("samples that pick the class")] = 100
    alpha: Annotated[Positive, about("chance that a certificate is wrong")] = 1e-3
    radius: Annotated[Positive, about("the one radius that adaptive sampling is asked about")] = 0.5
    seconds: Annotated[Positive, about("what is done sooner is done again for so long; the median counts")] = 2.0


def bench(
    system: Annotated[str | None, typer.Argument(metavar="SYSTEM", help="Else a small one is made, of digits.")] = None,
    data: Annotated[str | None, typer.Option("--data", help=f"Images for the system: {opt.SOURCES}.")] = None,
    network: Annotated[str | None, typer.Option(help="Instead: an architecture with random weights.")] = None,
    n: Annotated[int, typer.Option("--n", help="Samples that prove the radius.")] = 10_000,
    batch: opt.Batch = None,
    device: opt.Device = None,
    dtype: opt.Dtype = "fp32",
    compile_: opt.Compile = "off",
    out: Annotated[Path | None, typer.Option("--out", help="Also write the figures as JSON to this file.")] = None,
    changes: opt.Changes = None,
    keys: Annotated[bool, opt.keys("sigmax.cli.bench:BenchKeys")] = False,
) -> None:
    """Cohen et al.'s reference loop against the engine with fixed and adaptive sampling: votes and seconds.

    Example: `sigmax bench --network resnet110 --device cuda --dtype bf16 --compile auto --out bench.json`
    """
    from sigmax.bench.contest import Conditions, as_json, contest
    from sigmax.bench.time_shares import time_shares

    if out is not None:
        check_writable(out)
    asked = with_changes(BenchKeys(), changes or [])
    how = {"device": device, "dtype": dtype, "batch": batch, "compile": compile_}
    scheme, rival, x, what = _contenders(system, data, network, asked, how)
    question = Conditions(asked.n0, n, asked.alpha, asked.radius, asked.reference_inputs, asked.seconds)
    scheme.check_question(n0=asked.n0, n=n, alpha=asked.alpha)
    scheme.check(x)
    say(f"{what}: {len(x)} inputs of {'x'.join(map(str, x.shape[1:]))}, n0={asked.n0}, n={n:,}, alpha={asked.alpha:g}")
    reach = scheme.rule.largest_radius(n=n, alpha=asked.alpha)
    if asked.radius > reach:
        say(f"Not asked about radius {asked.radius:g}: n={n:,} samples reach {down(reach, 3)}; give a larger --n.")
    rows: list[Row] = []
    for row in contest(scheme, rival, x, question):
        rows.append(row)
        best = f"{row.ceiling_votes_per_s:,.0f} by forward passes alone"
        say(f"{row.contender}: {row.votes_per_s:,.0f} votes/s ({best}), {row.s_per_input:.4g} s an input")
    _show(rows)
    parts = time_shares(scheme, x)
    for line in _parts(parts):
        say(line)
    if out is not None:
        with written_whole(out) as draft:
            draft.write_text(json.dumps(as_json(scheme, question, rows, what, parts), indent=1) + "\n")
        say(f"Figures: {out}")


def _contenders(
    system: str | None, data: str | None, network: str | None, asked: BenchKeys, how: dict[str, Any]
) -> "tuple[Scheme, Scheme, Tensor, str]":
    """The system, the same as the reference loop runs it, the images, and what to call it all."""
    if network is not None and (system or data):
        raise RequestError("--network brings its own random images; give it without a system and without --data")
    if (system is None) != (data is None):
        raise RequestError("a system and --data belong together; give both, or neither")
    if network is not None:
        return _random(network, (3, *2 * (asked.image_size or IMAGE_SIZE,)), asked.inputs, how)
    if system is None or data is None:
        return _digits(asked.inputs, how)
    import torch

    from sigmax import data as sources
    from sigmax import systems

    dataset = sources.load(data, asked.split, size=asked.image_size)
    x = torch.from_numpy(dataset.pixels(_spread(len(dataset), asked.inputs)))
    plain: dict[str, Any] = {"device": how["device"]}
    return systems.load(system, **how), systems.load(system, **plain), x, system


def _random(
    network: str, shape: tuple[int, int, int], inputs: int, how: dict[str, Any]
) -> "tuple[Scheme, Scheme, Tensor, str]":
    import torch

    from sigmax import models
    from sigmax.schemes.smoothed import Smoothed

    def smoothed(**how: Any) -> Smoothed:
        torch.manual_seed(0)
        described = models.Description(architecture=network, classes=10, input_shape=shape)
        return Smoothed(models.create(described), sigma=SIGMA, classes=10, **how)

    x = torch.rand(inputs, *shape, generator=torch.Generator().manual_seed(0))
    return smoothed(**how), smoothed(device=how["device"]), x, f"{network} with random weights"


def _digits(inputs: int, how: dict[str, Any]) -> "tuple[Scheme, Scheme, Tensor, str]":
    import tempfile

    import torch

    from sigmax import data as sources
    from sigmax import models
    from sigmax.schemes.smoothed import Smoothed
    from sigmax.train import Settings, train_classifier

    test, train = sources.load("digits", "test"), sources.load("digits", "train")
    settings = Settings(epochs=QUICK_EPOCHS)
    with tempfile.TemporaryDirectory() as folder:
        file = train_classifier(
            train, architecture="small-cnn", sigma=SIGMA, out=Path(folder) / "net.safetensors", settings=settings
        )
        fast, plain = (models.load(file)[0] for _ in range(2))
    return (
        Smoothed(fast, sigma=SIGMA, classes=10, **how),
        Smoothed(plain, sigma=SIGMA, classes=10, device=how["device"]),
        torch.from_numpy(test.pixels(_spread(len(test), inputs))),
        "small CNN trained on digits",
    )


def _spread(count: int, wanted: int) -> list[int]:
    """Indices spread over the whole set, since many sets are sorted."""
    return list(range(0, count, max(1, count // wanted)))[:wanted]


def _parts(found: "Mapping[str, Shares]") -> "Iterator[str]":
    """A line for each network that denoises first; those of the same shares, which are the same one, together."""
    together: dict[tuple[tuple[str, float], ...], list[str]] = {}
    for name, shares in found.items():
        together.setdefault(tuple(shares.items()), []).append(name)
    for parts, names in together.items():
        shown = ", ".join(f"{part} {share:.0%}" for part, share in parts)
        yield f"Time of a vote of {', '.join(names)}, not compiled: {shown}"


def _show(rows: "list[Row]") -> None:
    from rich.table import Table

    table = Table("contender", *"samples/input votes/s s/input ratio".split(), "of ceiling", "certified")
    for row in rows:
        certified = "" if row.certified is None else f"{row.certified:.1%}"
        table.add_row(
            row.contender,
            f"{row.samples_per_input:,.0f}",
            f"{row.votes_per_s:,.0f}",
            f"{row.s_per_input:.4g}",
            f"{row.ratio:.2f}",
            f"{row.of_ceiling:.1%}",
            certified,
        )
    console.print(table)
