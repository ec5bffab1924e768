"""Image classifiers of the transformers library, with the preprocessing they were trained with.

Resizing is done here, in torch, so that a vote never leaves the GPU. It is antialiased, as Pillow's is; like the
normalisation it is linear, and noise is not clamped.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from sigmax.errors import RequestError, needs
from sigmax.models.checkpoints.description import Description
from sigmax.models.checkpoints.tensors import fill
from sigmax.models.classifier import Classifier, create
from sigmax.models.normalise import Normalisation
from sigmax.models.optional import fetched

RESIZES = ("bicubic", "bilinear")
WEIGHTS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_UNWANTED = ("auto_map", "transformers_version", "_name_or_path", "dtype", "torch_dtype", "architectures")


class Resized(nn.Module):
    """Logits of images resized to `size` and cropped to `crop`; 16-bit weights are computed in them throughout."""

    def __init__(self, model: nn.Module, size: Sequence[int], crop: Sequence[int] | None, resize: str) -> None:
        super().__init__()
        if resize not in RESIZES:
            raise RequestError(f"resize must be one of {', '.join(RESIZES)}; got {resize!r}")
        self.model, self.size, self.resize = model, tuple(size), resize
        self.crop = self.size if crop is None else tuple(crop)

    def forward(self, images: Tensor) -> Tensor:
        """Logits, one row an image."""
        if tuple(images.shape[-2:]) != self.size:
            images = self._resized(images)
        top, left = ((whole - kept) // 2 for whole, kept in zip(self.size, self.crop, strict=True))
        images = images[..., top : top + self.crop[0], left : left + self.crop[1]]
        kind = next((weight.dtype for weight in self.model.parameters()), torch.float32)
        if kind is torch.float32:
            logits: Tensor = self.model(pixel_values=images).logits
            return logits
        with torch.autocast(images.device.type, enabled=False):
            short: Tensor = self.model(pixel_values=images.to(kind)).logits
        return short.float()

    def _resized(self, images: Tensor) -> Tensor:
        """Resizing is linear along each axis: two small products, in 32 bits, many times faster than the kernel."""
        (rows, columns), (height, width) = images.shape[-2:], self.size
        with torch.autocast(images.device.type, enabled=False):
            down, across = self._weights(rows, height, images.device), self._weights(columns, width, images.device)
            return down @ images.float() @ across.T

    def _weights(self, old: int, new: int, device: torch.device) -> Tensor:
        """The matrix (new, old) that resizes a line of pixels, as interpolating each unit line tells it."""
        lines = torch.eye(old, device=device)[None, None].expand(1, 1, old, old)
        # Each row of the identity is a unit line; the other axis stays as it is.
        resized = functional.interpolate(lines, size=(old, new), mode=self.resize, antialias=True, align_corners=False)
        return resized[0, 0].T

    def extra_repr(self) -> str:
        """What is no weight and decides the output all the same."""
        return f"size={self.size}, crop={self.crop}, resize={self.resize}"


def build(
    *,
    classes: int,
    input_shape: tuple[int, int, int],
    config: Mapping[str, Any],
    size: Sequence[int],
    crop: Sequence[int] | None = None,
    resize: str = "bicubic",
    weights: str = "fp32",
) -> nn.Module:
    """The architecture "transformers": an image classifier of this config with fresh weights."""
    if weights not in WEIGHTS:
        raise RequestError(f"weights must be one of {', '.join(WEIGHTS)}; got {weights!r}")
    library = needs("transformers", extra="hub", why="to build one of its classifiers")
    known = {key: value for key, value in config.items() if key not in _UNWANTED}
    try:
        whole = library.AutoConfig.for_model(known.pop("model_type"), **known)
        model = library.AutoModelForImageClassification.from_config(whole)
    except (KeyError, ValueError) as error:
        raise RequestError(f"the config is of no image classifier that transformers knows: {error}") from error
    _check_channels(getattr(whole, "num_channels", 3), input_shape)
    return Resized(model.to(WEIGHTS[weights]), size, crop, resize)


def from_transformers(
    source: str | os.PathLike[str],
    *,
    input_shape: tuple[int, int, int] | None = None,
    resize: str = "bicubic",
    weights: str = "fp32",
    revision: str | None = None,
) -> Classifier:
    """A classifier of a local folder or of the hub's "owner/name", with its own mean, std and size.

    input_shape: of the images to come, which are resized to what the classifier wants (default: they already are).
    resize: "bicubic", as denoised smoothing is published, or "bilinear", which many processors name.
    weights: "bf16" or "fp16" rounds them and computes everything in 16 bits: another function, with half the traffic.
    """
    library = needs("transformers", extra="hub", why="to read one of its classifiers")
    folder = fetched(source, ("*.json", "*.safetensors"), revision=revision, expected="a transformers folder")
    processor = _processor(folder)
    size, crop = _sizes(processor)
    try:
        model, info = library.AutoModelForImageClassification.from_pretrained(
            folder, use_safetensors=True, dtype=torch.float32, output_loading_info=True, trust_remote_code=False
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise RequestError(f"{source} is no image classifier that can be read: {error}") from error
    if info["missing_keys"]:
        raise RequestError(
            f"{source} lacks weights ({', '.join(sorted(info['missing_keys'])[:3])}): it was not trained to "
            "classify; use a fine-tuned one"
        )
    config = json.loads(json.dumps(model.config.to_diff_dict()))
    channels = getattr(model.config, "num_channels", 3)
    mean, std = (processor.get(name, [0.5] * channels) for name in ("image_mean", "image_std"))
    _check_channels(channels, input_shape)
    description = Description(
        architecture="transformers",
        classes=model.config.num_labels,
        input_shape=input_shape or (channels, *(crop or size)),
        normalisation=Normalisation(mean, std) if processor.get("do_normalize", True) else None,
        options={
            "config": {key: value for key, value in config.items() if key not in _UNWANTED},
            "size": list(size),
            "crop": crop and list(crop),
            "resize": resize,
            **({"weights": weights} if weights != "fp32" else {}),
        },
        notes={"source": os.fspath(source), "class_names": list(map(str, model.config.id2label.values()))},
    )
    with torch.random.fork_rng(devices=[]):
        ready = create(description)
    assert isinstance(ready.network, Resized)
    fill(ready.network.model, model.state_dict(), classes=description.classes, source=str(source))
    return ready.to(WEIGHTS[weights])  # the normalisation as well, as `models.load` will have it


def _check_channels(channels: int, input_shape: tuple[int, int, int] | None) -> None:
    if input_shape is not None and channels != input_shape[0]:
        raise RequestError(
            f"the classifier takes {channels} channels and the images have {input_shape[0]}; use another one"
        )


def _processor(folder: Path) -> dict[str, Any]:
    path = folder / "preprocessor_config.json"
    try:
        read = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise RequestError(
            f"{path} cannot be read ({error}); without it the classifier's mean, std and size are not known. Save the "
            "processor that the network was trained with beside it, AutoImageProcessor.from_pretrained(...)."
            "save_pretrained(folder), or copy that file from where the network comes from"
        ) from error
    # Newer folders keep the processor of images among others.
    found = read.get("image_processor", read) if isinstance(read, dict) else {}
    if found.get("rescale_offset") or abs(found.get("rescale_factor", 1 / 255) * 255 - 1) > 1e-6:
        raise RequestError(f"{path}: expected pixels scaled by 1/255, without an offset; this processor is not known")
    return dict(found)


def _sizes(processor: Mapping[str, Any]) -> tuple[tuple[int, int], tuple[int, int] | None]:
    """(height, width) that images are resized to, and cropped to after that."""
    asked = processor.get("size")
    size = _pair(asked)
    if isinstance(asked, Mapping) and "shortest_edge" in asked and processor.get("crop_pct"):
        # ConvNeXt's way: larger by the share that the crop keeps.
        return _pair(int(asked["shortest_edge"] / processor["crop_pct"])), size
    if not processor.get("do_center_crop"):
        return size, None
    crop = _pair(processor.get("crop_size", asked))
    if any(kept > whole for kept, whole in zip(crop, size, strict=True)):
        raise RequestError(f"the processor crops images of {size} to {crop}, which is larger; it is not known")
    return size, crop


def _pair(size: Any) -> tuple[int, int]:
    """A processor's size, in any of the forms it is written in; images are taken to be square."""
    if isinstance(size, int):
        return size, size
    if isinstance(size, Mapping) and "shortest_edge" in size:
        return int(size["shortest_edge"]), int(size["shortest_edge"])
    if isinstance(size, Mapping) and {"height", "width"} <= set(size):
        return int(size["height"]), int(size["width"])
    raise RequestError(f"the processor's size is {size!r}; expected height and width, or shortest_edge")
