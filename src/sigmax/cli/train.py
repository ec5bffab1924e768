"""`sigmax train`: networks that stand the noise they are smoothed with."""

import typer

from sigmax.cli.train_classifier import classifier
from sigmax.cli.train_denoiser import denoiser
from sigmax.cli.train_router import router

app = typer.Typer(help="Train networks for smoothing.", no_args_is_help=True)
app.command()(classifier)
app.command()(denoiser)
app.command()(router)
