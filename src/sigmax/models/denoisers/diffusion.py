"""One step of a diffusion model as a denoiser, and diffusers' UNets with their schedulers.

# u = 2x - 1; x_t = sqrt(abar_t) * (noisy u), noise of standard deviation sqrt(1 - abar_t) included

Source: Carlini et al. (2023), "(Certified!!) Adversarial Robustness for Free!", Algorithm 1.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sigmax.errors import RequestError, needs
from sigmax.models.architectures.unet import column
from sigmax.models.checkpoints.description import Description
from sigmax.models.classifier import Denoiser
from sigmax.models.denoisers.schedule import Schedule, moments
from sigmax.models.optional import fetched

PREDICTIONS = ("epsilon", "sample", "v_prediction")
_PRIVATE = "_"  # what diffusers adds to a config about itself begins so


class Diffusion(nn.Module):
    """Pixels with noise to pixels without, by one call of a UNet at the timestep whose noise is sigma.

    unet: called as `unet(x_t, timesteps, return_dict=False)[0]`, of which as many channels count as an image has.
    prediction: the noise ("epsilon"), the clean image ("sample") or Salimans & Ho's (2022) mixture ("v_prediction").
    timestep_scale: the timesteps it was trained on, relative to the schedule's.
    """

    takes_sigma = True
    _table: Tensor

    def __init__(
        self, unet: nn.Module, schedule: Schedule, *, prediction: str = "epsilon", timestep_scale: float = 1.0
    ) -> None:
        super().__init__()
        if prediction not in PREDICTIONS:
            raise RequestError(f"prediction must be one of {', '.join(PREDICTIONS)}; got {prediction!r}")
        self.unet, self.schedule = unet, schedule
        self.prediction, self.timestep_scale = prediction, float(timestep_scale)
        self._least, self._most = schedule.range
        # Its bits, as whole numbers: so it follows the module to a device, but not into another precision.
        table = torch.from_numpy(schedule.alphas_bar).view(torch.int64)
        self.register_buffer("_table", table.clone(), persistent=False)

    def forward(self, noisy: Tensor, sigma: float | Tensor) -> Tensor:
        """The images that the UNet guesses at, not clamped; `sigma` in pixels, one number or a tensor (n,)."""
        if self._may_be_outside(sigma):
            self.schedule.check(sigma)
        level = torch.as_tensor(sigma, dtype=torch.float64, device=noisy.device).reshape(-1)
        timestep, signal, noise = (one.to(noisy.dtype) for one in moments(self._table.view(torch.float64), level))
        image = column(signal) * (2 * noisy - 1)
        said = self.unet(image, timestep * self.timestep_scale, return_dict=False)[0][:, : noisy.shape[1]]
        return (self._clean(image, said, column(signal), column(noise)) + 1) / 2

    def _may_be_outside(self, sigma: float | Tensor) -> bool:
        """In a form that can be compiled, where tensors are not looked into and the table's ends stand in."""
        if isinstance(sigma, Tensor):
            return not torch.compiler.is_compiling()
        return not self._least <= sigma <= self._most

    def _clean(self, image: Tensor, said: Tensor, signal: Tensor, noise: Tensor) -> Tensor:
        """The clean image on [-1, 1] that the UNet's output stands for."""
        if self.prediction == "epsilon":
            return (image - noise * said) / signal
        return signal * image - noise * said if self.prediction == "v_prediction" else said

    def extra_repr(self) -> str:
        """What is no weight and decides the output all the same."""
        return f"{self.schedule}, prediction={self.prediction}, timestep_scale={self.timestep_scale}"


def build(
    *,
    input_shape: tuple[int, int, int],
    config: Mapping[str, Any],
    schedule: Mapping[str, Any],
    prediction: str = "epsilon",
    timestep_scale: float = 1.0,
) -> nn.Module:
    """The architecture "diffusers": a `UNet2DModel` of this config with fresh weights."""
    diffusers = needs("diffusers", extra="diffusion", why="to build a diffusers UNet")
    _check(config, input_shape)
    unet = diffusers.UNet2DModel.from_config(dict(config))
    return Diffusion(unet, Schedule(**schedule), prediction=prediction, timestep_scale=timestep_scale)


def wrap(unet: nn.Module, schedule: Schedule, *, prediction: str = "epsilon", timestep_scale: float = 1.0) -> Denoiser:
    """A diffusers `UNet2DModel` as a denoiser that can be saved; see `Diffusion`."""
    config = plain_config(getattr(unet, "config", None))
    size = config.get("sample_size")
    if not isinstance(size, int | list | tuple):
        raise RequestError("the UNet's config names no sample_size; use one that says which images it is for")
    height, width = (size, size) if isinstance(size, int) else size
    shape = config["in_channels"], height, width
    _check(config, shape)
    description = Description(
        architecture="diffusers",
        classes=0,
        input_shape=shape,
        options={
            "config": config,
            "schedule": schedule.describe(),
            "prediction": prediction,
            "timestep_scale": float(timestep_scale),
        },
    )
    network = Diffusion(unet, schedule, prediction=prediction, timestep_scale=timestep_scale)
    return Denoiser(network, description).eval()


def from_diffusers(source: str | os.PathLike[str], *, revision: str | None = None) -> Denoiser:
    """The UNet and scheduler (of both layouts) in a diffusers folder, or of the hub's "owner/name", as a denoiser."""
    diffusers = needs("diffusers", extra="diffusion", why="to read a diffusers UNet")
    patterns = ("*.json", "*.safetensors", "unet/*.json", "unet/*.safetensors", "scheduler/*.json")
    folder = fetched(source, patterns, revision=revision, expected="a diffusers folder")
    scheduler = _read_json(folder, "scheduler/scheduler_config.json", "scheduler_config.json")
    kind = _read_json(folder, "unet/config.json", "config.json").get("_class_name")
    if kind != "UNet2DModel":
        raise RequestError(
            f"{source} holds a {kind}; an image denoiser is a UNet2DModel (text-to-image and latent models are not)"
        )
    where = folder / "unet" if (folder / "unet").is_dir() else folder
    try:
        unet, info = diffusers.UNet2DModel.from_pretrained(where, use_safetensors=True, output_loading_info=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise RequestError(f"the UNet of {source} cannot be read: {error}") from error
    wrong = [name for kind in ("missing_keys", "unexpected_keys", "mismatched_keys") for name in info[kind]]
    if wrong:
        raise RequestError(f"the weights of {source} do not fit its config: {', '.join(map(str, wrong[:3]))}")
    return wrap(unet, Schedule.from_config(scheduler), prediction=scheduler.get("prediction_type", "epsilon"))


def plain_config(config: Any) -> dict[str, Any]:
    """A UNet's config in plain values, without what diffusers notes about itself."""
    if not isinstance(config, Mapping):
        raise RequestError("expected a diffusers UNet2DModel, which has a config; other networks go in as they are")
    public = {key: value for key, value in config.items() if not key.startswith(_PRIVATE)}
    plain: dict[str, Any] = json.loads(json.dumps(public))
    return plain


def _read_json(folder: Path, *places: str) -> dict[str, Any]:
    for place in places:
        if (folder / place).is_file():
            try:
                read = json.loads((folder / place).read_text())
            except (OSError, ValueError) as error:
                raise RequestError(f"{folder / place} cannot be read: {error}") from error
            if isinstance(read, dict):
                return read
    raise RequestError(
        f"{folder} lacks {' and '.join(places)}; give a diffusers folder as `pipeline.save_pretrained` writes it"
    )


def _check(config: Mapping[str, Any], input_shape: tuple[int, int, int]) -> None:
    """Refuse a UNet that cannot denoise such images by itself."""
    channels, *sides = input_shape
    taken, given = config.get("in_channels", 3), config.get("out_channels", 3)
    if taken != channels or given not in (channels, 2 * channels):
        raise RequestError(
            f"a denoiser of images of shape {input_shape} takes {channels} channels and returns {channels} (or "
            f"{2 * channels}, with its variance); the UNet takes {taken} and returns {given}"
        )
    size = config.get("sample_size")
    expected = [size, size] if isinstance(size, int) else size
    if expected is not None and list(expected) != sides:
        raise RequestError(f"the UNet is for images of {expected} pixels, and these have {sides}; use another one")
    if config.get("num_class_embeds") or config.get("class_embed_type"):
        raise RequestError("the UNet needs the class of the image; use an unconditional one")
