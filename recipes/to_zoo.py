"""Put a system that a recipe built into the zoo, with a card that states what it is and what was measured.

    python recipes/to_zoo.py work/digits-cascade --name digits-cascade --data digits \\
        --recipe recipes/digits_cascade.toml

Takes the cascade and the runs of the pipeline's folder. Every number on the card comes from
these files; nothing is written unless the system is stored as bf16 and every run proves its radii.
"""

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file

import sigmax as sx
from sigmax import models, report, systems
from sigmax.errors import RequestError
from sigmax.records.rounding import share_down
from sigmax.systems.networks import parts_of

ZOO = Path(__file__).parents[1] / "src" / "sigmax" / "zoo"
CARD = """---
library_name: sigmax
tags: [certified-robustness, randomized-smoothing]
---
# {name}

`{scheme}`

A system of sigmax: a classifier whose answers come with an l2 radius within which no perturbation changes them.

    import sigmax as sx
    system = sx.load("zoo:{name}")
    system.certify(images, n0=100, n=10_000, alpha=0.001)  # pixels in [0, 1], {shape}

or `sigmax certify zoo:{name} --data {data} --out run.jsonl`.

* Built by `sigmax pipeline run {recipe}`; that file holds every number of the training.
* Weights are stored as bfloat16: {megabytes:.2f} MB. They are the weights that were certified.
* Fingerprint: `{fingerprint}`

## Certified accuracy

In %, {inputs} {split} images of {source}, n0 = {n0}, n = {n} ({sampling}), alpha = {alpha:g}; rounded down.{fewer}

{table}

A certificate is about the l2 distance alone, and says nothing of other changes of an image. On images unlike those
it was trained on the system may abstain, or certify a class that is wrong.
"""


def main() -> None:
    """Copy the system and write the card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the pipeline's folder (out)")
    parser.add_argument("--name", required=True)
    parser.add_argument("--recipe", required=True)
    parser.add_argument("--data", required=True, help="as a user would write it")
    parser.add_argument("--radii", default="0,0.25,0.5,0.75,1")
    given = parser.parse_args()
    built = given.folder / "systems" / "cascade"
    scheme = sx.load(built)
    runs = [sx.read(path) for path in sorted((given.folder / "runs").glob("*.jsonl"), key=lambda p: p.stat().st_mtime)]
    final = _checked(runs, systems.fingerprint(scheme))
    out, weights = ZOO / given.name, sorted(built.glob("*.safetensors"))
    if not all(tensor.dtype is torch.bfloat16 for file in weights for tensor in _kernels(file)):
        raise RequestError(f"{built} is not stored as bf16; set store = 'bf16' in the recipe, and run it again")
    kept = [built / "system.toml", *weights]
    out.mkdir(parents=True, exist_ok=True)
    for file in kept:
        shutil.copyfile(file, out / file.name)
    described = next(filter(None, map(models.describe, parts_of(scheme).values())))
    card = CARD.format(
        name=given.name,
        scheme=scheme,
        shape=" x ".join(map(str, described.input_shape)),
        data=given.data,
        recipe=given.recipe,
        megabytes=sum(file.stat().st_size for file in kept) / 1e6,
        fingerprint=systems.fingerprint(scheme),
        inputs=len(final.records),
        split=final.plan.data["split"],
        source=final.plan.data["name"],
        n0=final.plan.n0,
        n=final.plan.n,
        sampling=_sampling(final),
        alpha=final.plan.alpha,
        fewer=_fewer(runs, final),
        table=_table(runs, [float(r) for r in given.radii.split(",")]),
    )
    (out / "README.md").write_text(card)
    print(f"Wrote {out}")


def _checked(runs: Sequence[sx.Run], fingerprint: str) -> sx.Run:
    """The run of the system itself, once all of them are checked to be whole."""
    for run in runs:
        if not (run.finished and sx.verify(run.path).holds):
            raise RequestError(f"{run.path} is unfinished, or does not prove its radii; finish the recipe first")
    found = [run for run in runs if run.plan.system == fingerprint]
    if not found:
        raise RequestError("no run in the folder is of the system; run the recipe to its end")
    return found[0]


def _sampling(run: sx.Run) -> str:
    """The kind of sampling; for adaptive sampling, how many samples an image took."""
    samples = sum(record.certificate.samples for record in run.records) / len(run.records)
    kind = str(run.plan.sampling["kind"])
    return kind if kind == "fixed" else f"{kind}: {samples:,.0f} samples an image on average"


def _fewer(runs: Sequence[sx.Run], final: sx.Run) -> str:
    """Which of the systems answered fewer images."""
    counts = {run.path.stem: len(run.records) for run in runs if len(run.records) != len(final.records)}
    return f"\nFewer images: {', '.join(f'{name} {count}' for name, count in counts.items())}." if counts else ""


def _kernels(file: Path) -> list[torch.Tensor]:
    return [tensor for tensor in load_file(file).values() if tensor.ndim >= 2]


def _table(runs: Sequence[sx.Run], radii: Sequence[float]) -> str:
    head = f"| system | {' | '.join(f'{r:g}' for r in radii)} |\n|---|{'---:|' * len(radii)}"
    shares = {run.path.stem: 100 * report.certified_accuracy(run, radii) for run in runs}
    rows = [f"| {name} | {' | '.join(map(share_down, percent))} |" for name, percent in shares.items()]
    return "\n".join([head, *rows])


if __name__ == "__main__":
    main()
