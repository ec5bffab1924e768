"""Photographs with their certified radii, and what a perturbation of that size looks like: one page of HTML.

python examples/photographs.py RUN --data folder:PATH [--split val] [--count 8] [--out work/photographs.html]

RUN is a run file of `sigmax certify` over that split, in l2. The page shows COUNT inputs whose true class is certified,
from the largest radius to the smallest, each four times: as it is; with noise whose l2 norm is the radius; with a
square moved by the same norm; and with the noise that the networks vote under. In the second and third column the norm
is that of the 8-bit pixels on the page, never above the radius: nothing certified can change the answer there.
"""

import argparse
from base64 import b64encode
from collections.abc import Callable, Sequence
from html import escape
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import sigmax as sx
from sigmax.errors import RequestError
from sigmax.rules.certificate import rounded_down

Floats = NDArray[np.float64]
SQUARE = 8  # a square has a side of the image's / SQUARE
SHOWN = 224  # pixels a side on the page; small images are enlarged, pixel by pixel
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 16px/1.4 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }}
table {{ border-spacing: .5rem }} th {{ text-align: left; font-weight: 600; vertical-align: bottom }}
img {{ width: {side}px; image-rendering: pixelated; display: block }} caption, td {{ text-align: left }}
</style>
<h1>{title}</h1>
<p>{said}</p>
<table><tr><th>photograph</th><th>noise as large as the radius</th><th>a square moved as far</th><th>what the networks
vote on</th></tr>
{rows}
</table></html>
"""
ROW = """<tr>{images}</tr>
<tr><td colspan="4"><b>{name}</b>, certified within l2 radius {radius}, sigma {sigma:g}. Norms shown: {noise} and
{square}.</td></tr>"""


def main(arguments: Sequence[str] | None = None) -> Path:
    """Write the page."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("run", type=Path)
    cli.add_argument("--data", required=True, help="the data set that was certified")
    cli.add_argument("--split", help="its split (default: the run's)")
    cli.add_argument("--image-size", type=int, help="for image folders, as in the run")
    cli.add_argument("--count", type=int, default=8, help="photographs on the page")
    cli.add_argument("--seed", type=int, default=0, help="of the noise that is shown")
    cli.add_argument("--out", type=Path, default=Path("work/photographs.html"))
    asked = cli.parse_args(arguments)
    run = sx.read(asked.run)
    data = sx.data.load(asked.data, asked.split or str(run.plan.data["split"]), size=asked.image_size)
    if data.fingerprint != run.plan.data["fingerprint"]:
        raise RequestError(f"{asked.run} certified other images than {data!r}; give the data of the run")
    if run.plan.norm != "l2":
        raise RequestError(f"{asked.run} has radii in {run.plan.norm}; this page is about l2")
    rng = np.random.default_rng(asked.seed)
    chosen = spread(run, asked.count)
    said = (
        f"{len(chosen)} of {len(run.records)} images of {run.plan.data['name']}, with certificates of a "
        f"{run.plan.method} at alpha = {run.plan.alpha:g}. No perturbation of a smaller l2 norm changes the answer."
    )
    rows = "\n".join(row(record, data, rng) for record in chosen)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    page = PAGE.format(title="Photographs and their certified radii", side=SHOWN, said=escape(said), rows=rows)
    asked.out.write_text(page)
    print(f"Wrote {asked.out}: {len(chosen)} photographs, {len(page) / 1e6:.1f} MB")
    return asked.out


def spread(run: sx.Run, count: int) -> list[sx.records.lines.Record]:
    """Records whose true class is certified, from the largest radius to the smallest."""
    found = [record for record in run.records if record.counts and record.certificate.radius > 0]
    if not found:
        raise RequestError(f"{run.path} certifies the true class of none of its inputs; there is nothing to show")
    found.sort(key=lambda record: -record.certificate.radius)
    places = np.unique(np.linspace(0, len(found) - 1, min(count, len(found))).round().astype(int))
    return [found[place] for place in places]


def row(record: sx.records.lines.Record, data: sx.data.Dataset, rng: np.random.Generator) -> str:
    """An image four times, and what is certified of it."""
    pixels = np.rint(255 * data.pixels([record.index])[0].astype(np.float64))
    radius, sigma = record.certificate.radius, record.certificate.sigma or 0.0
    noise = rng.standard_normal(pixels.shape)
    noisy = largest_within(lambda scale: moved(pixels, scale * noise), pixels, radius)
    square = largest_within(lambda scale: moved(pixels, scale * towards_the_middle(pixels)), pixels, radius)
    voted = moved(pixels, 255 * sigma * noise)
    return ROW.format(
        images="".join(f"<td>{picture(values)}</td>" for values in (pixels, noisy, square, voted)),
        name=escape(data.class_name(record.label if record.label is not None else record.certificate.predicted)),
        radius=rounded_down(radius, 3),
        sigma=sigma,
        noise=rounded_down(distance(noisy, pixels), 3),
        square=rounded_down(distance(square, pixels), 3),
    )


def moved(pixels: Floats, by: Floats) -> Floats:
    """The image moved, in whole steps of 8 bits from 0 to 255."""
    found: Floats = np.clip(np.rint(pixels + by), 0, 255)
    return found


def towards_the_middle(pixels: Floats) -> Floats:
    """A step in a square in the middle of the image: dark pixels become lighter, light ones darker."""
    _, height, width = pixels.shape
    side = max(1, min(height, width) // SQUARE)
    top, left = (height - side) // 2, (width - side) // 2
    step = np.zeros_like(pixels)
    inside = np.s_[:, top : top + side, left : left + side]
    step[inside] = np.where(pixels[inside] < 128, 1.0, -1.0)
    return step


def distance(image: Floats, pixels: Floats) -> float:
    """The l2 distance of two 8-bit images, pixels in [0, 1]."""
    return float(np.linalg.norm(image - pixels)) / 255


def largest_within(make: Callable[[float], Floats], pixels: Floats, radius: float) -> Floats:
    """The image of the largest scale found whose distance is not above the radius."""
    low, high = 0.0, 1024.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if distance(make(middle), pixels) <= radius else (low, middle)
    return make(low)


def picture(values: Floats) -> str:
    """An image as it is, pixel by pixel, inside the page."""
    channels, file = values.astype(np.uint8), BytesIO()
    image = Image.fromarray(channels[0] if len(channels) == 1 else channels.transpose(1, 2, 0))
    image.save(file, "PNG", optimize=True)
    return f'<img alt="" src="data:image/png;base64,{b64encode(file.getvalue()).decode()}">'


if __name__ == "__main__":
    main()
