"""`sigmax demo`: the whole road of dual smoothing on bundled data, as a user would walk it."""

import tomllib
from pathlib import Path
from typing import Annotated

import typer

from sigmax.cli.pipeline import walk, warn
from sigmax.cli.progress import say
from sigmax.errors import RequestError

CONFIG = """\
# What `sigmax demo` runs. To try something else, copy it, name another folder and run: sigmax pipeline run COPY
out = "."
steps = ["router"]

[data]
source = "digits"

[experts]
sigmas = [0.1, 0.2, 0.4]
model = "small-cnn"

[labels]
n = 1000

[router]
sigma = 0.4
model = "small-cnn"
sharpness = 20.0
balance = false
consistency = 3.0
entropy = 0.0
strength = "none"

[certify]
rules = ["min", "consensus"]
n0 = 100
n = 10000
alpha = 0.001
"""


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for networks, systems, runs and the report.")] = Path(
        "sigmax-demo"
    ),
    maximum: Annotated[int | None, typer.Option("--max", help="Certify at most this many test images.")] = None,
) -> None:
    """Three experts, a router among them, certificates by both rules and a report, on scikit-learn's digits.

    Three to four minutes. Example: `sigmax demo --out my-demo`
    """
    import torch

    from sigmax.files import written_whole
    from sigmax.train import Pipeline, PipelineConfig

    # Networks this small gain little by a second thread, and on a busy machine lose ten times that waiting for it.
    torch.set_num_threads(1)

    file, text = out / "demo.toml", CONFIG + (f"max = {maximum}\n" if maximum is not None else "")
    pipeline = Pipeline(PipelineConfig.from_table(tomllib.loads(text), out), on_warning=warn)
    pipeline.check()
    if _is_changed(file):
        raise RequestError(
            f"{file} was changed, or comes from another version; run it with `sigmax pipeline run {file}`, or name "
            "another folder (--out)"
        )
    with written_whole(file) as draft:
        draft.write_text(text)
    certified = len(pipeline.test) if maximum is None else min(maximum, len(pipeline.test))
    how = pipeline.config
    say(
        f"Digits: {len(pipeline.train)} images to train on, {certified} to certify, 8x8 pixels in [0, 1]. "
        f"Experts at sigma {', '.join(map(str, how.experts.sigmas))}, a router at {how.router.sigma}; "
        f"n0={how.certify.n0}, n={how.certify.n:,}, alpha={how.certify.alpha}."
    )
    walk(pipeline)


def _is_changed(file: Path) -> bool:
    """Whether somebody made the demo's file their own."""
    return file.is_file() and not file.read_bytes().startswith(CONFIG.encode())
