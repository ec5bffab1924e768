"""OpenAI's diffusion checkpoints (improved-diffusion, guided-diffusion) as diffusers networks.

Both name their tensors alike and differ in how they change resolution: by a convolution, or by a residual block. All
but the heads of the attention, the image size and the schedule can be read off the tensors. What the conversion changes
are names, and the order of the attention's channels: a head's query, key and value lie together in the original.
Sources: github.com/openai/improved-diffusion, github.com/openai/guided-diffusion.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sigmax.errors import RequestError, needs
from sigmax.models.checkpoints.state_dicts import state_dict
from sigmax.models.checkpoints.tensors import Tensors, differences, fill
from sigmax.models.classifier import Denoiser
from sigmax.models.denoisers.diffusion import wrap
from sigmax.models.denoisers.schedule import Schedule

NEITHER = "the layout is neither improved-diffusion's nor guided-diffusion's"
_NEEDED = ("time_embed.0.weight", "input_blocks.0.0.weight", "middle_block.1.qkv.weight", "out.2.weight")
_ENLARGES = re.compile(r"output_blocks\.(\d+)\.[12]\.(conv|in_layers)\.")
_RESIDUAL = {
    "in_layers.0": "norm1",
    "in_layers.2": "conv1",
    "emb_layers.1": "time_emb_proj",
    "out_layers.0": "norm2",
    "out_layers.3": "conv2",
    "skip_connection": "conv_shortcut",
}
_ATTENTION = {"norm": "group_norm", "qkv": "qkv", "proj_out": "to_out.0"}  # qkv is divided afterwards
_ENDS = {
    "time_embed.0": "time_embedding.linear_1",
    "time_embed.2": "time_embedding.linear_2",
    "input_blocks.0.0": "conv_in",
    "out.0": "conv_norm_out",
    "out.2": "conv_out",
}


@dataclass(frozen=True)
class Trained:
    """What a checkpoint does not say of itself: give `heads` of the attention, or the channels of each."""

    size: int  # pixels a side
    schedule: Schedule
    heads: int | None = None
    head_channels: int | None = None
    timestep_scale: float = 1.0  # 1000 / steps where timesteps were rescaled

    def __post_init__(self) -> None:
        if (self.heads is None) == (self.head_channels is None):
            raise RequestError("give either the number of attention heads or the channels of each, not both")


PUBLIC = {
    "cifar10": Trained(32, Schedule.cosine(4000), heads=4, timestep_scale=1000 / 4000),  # cifar10_uncond_50M_500K.pt
    "imagenet256": Trained(256, Schedule.linear(1000), head_channels=64),  # 256x256_diffusion_uncond.pt
}


def from_openai(path: str | Path, trained: str | Trained) -> Denoiser:
    """The checkpoint, read as data only, as a denoiser. `trained`: one of `PUBLIC`, or how it was trained."""
    known = public(trained) if isinstance(trained, str) else trained
    needs("diffusers", extra="diffusion", why="to hold the converted network")
    stored = state_dict(Path(path))
    config = unet_config(stored, known, source=str(path))
    unet = _on_meta(config)
    tensors = converted(stored, config, source=str(path))
    # Classes: none, so that no message is about them.
    fill(unet, tensors, classes=0, source=f"{path}, read as an OpenAI checkpoint")
    return wrap(unet.float(), known.schedule, timestep_scale=known.timestep_scale)


def public(name: str) -> Trained:
    """How a public checkpoint was trained."""
    if name not in PUBLIC:
        raise RequestError(
            f"unknown training {name!r}; known are: {', '.join(PUBLIC)}. Describe others by "
            "sigmax.models.denoisers.Trained(size=..., schedule=..., heads=...)"
        )
    return PUBLIC[name]


@dataclass(frozen=True)
class Layout:
    """A network of levels, each at half the resolution of the one before."""

    in_channels: int
    out_channels: int
    channels: tuple[int, ...]  # of each level
    blocks: int  # residual blocks of each level on the way down; one more on the way up
    attends: tuple[bool, ...]  # whether attention follows each of them
    resamples: bool  # resolution is changed by residual blocks, as guided-diffusion does, not by convolutions
    scales: bool  # the embedding scales and shifts, rather than being added


def read_layout(stored: Tensors, *, source: str) -> Layout:
    """The layout; a file without the tensors that every such network has is refused."""
    missing = [name for name in _NEEDED if name not in stored]
    if missing:
        raise RequestError(
            f"{source}: {NEITHER}: it lacks {', '.join(missing)}, its first names are {', '.join(list(stored)[:3])}"
        )
    if "label_emb.weight" in stored:
        raise RequestError(f"{source} needs the class of the image (label_emb); use an unconditional one")
    count = 1 + max(int(found[1]) for name in stored if (found := re.match(r"output_blocks\.(\d+)\.", name)))
    enlarging = {int(found[1]): found[2] for name in stored if (found := _ENLARGES.match(name))}
    each = 1 + min(enlarging, default=count - 1)  # blocks of a level on the way up
    if count % each or sorted(enlarging) != list(range(each - 1, count - 1, each)):
        raise RequestError(
            f"{source}: {NEITHER}: of {count} output blocks those that enlarge the image are {sorted(enlarging)}"
        )
    levels, blocks = count // each, each - 1
    firsts = [1 + level * (blocks + 1) for level in range(levels)]  # the first input block of each level
    try:
        parts = ("emb_layers.1", "in_layers.2")
        embedded, channels = (stored[f"middle_block.0.{part}.weight"].shape[0] for part in parts)
        return Layout(
            in_channels=stored["input_blocks.0.0.weight"].shape[1],
            out_channels=stored["out.2.weight"].shape[0],
            channels=tuple(stored[f"input_blocks.{first}.0.out_layers.3.weight"].shape[0] for first in firsts),
            blocks=blocks,
            attends=tuple(f"input_blocks.{first}.1.qkv.weight" in stored for first in firsts),
            resamples="in_layers" in enlarging.values(),
            scales=embedded == 2 * channels,
        )
    except KeyError as error:
        raise RequestError(f"{source}: {NEITHER}: it lacks {error.args[0]}") from error


def unet_config(stored: Tensors, trained: Trained, *, source: str) -> dict[str, Any]:
    """The config of the diffusers UNet that the tensors belong to."""
    layout = read_layout(stored, source=source)
    head = _head_channels(layout, trained, source)
    down = ("ResnetDownsampleBlock2D", "AttnDownBlock2D") if layout.resamples else ("DownBlock2D", "AttnDownBlock2D")
    up = ("ResnetUpsampleBlock2D", "AttnUpBlock2D") if layout.resamples else ("UpBlock2D", "AttnUpBlock2D")
    return {
        "sample_size": trained.size,
        "in_channels": layout.in_channels,
        "out_channels": layout.out_channels,
        "block_out_channels": list(layout.channels),
        "layers_per_block": layout.blocks,
        "down_block_types": [down[attends] for attends in layout.attends],
        "up_block_types": [up[attends] for attends in reversed(layout.attends)],
        "downsample_type": "resnet" if layout.resamples else "conv",
        "upsample_type": "resnet" if layout.resamples else "conv",
        "resnet_time_scale_shift": "scale_shift" if layout.scales else "default",
        "attention_head_dim": head,
        "norm_num_groups": 32,
        "attn_norm_num_groups": 32,  # of the middle, which has none where the embedding scales unless it is given
        "norm_eps": 1e-5,
        "flip_sin_to_cos": True,  # cosines come first
        "freq_shift": 0,
    }


def converted(stored: Tensors, config: Mapping[str, Any], *, source: str) -> dict[str, Tensor]:
    """The tensors under diffusers' names, unless they do not fit; on the meta device names and shapes alone."""
    blocks, head = int(config["layers_per_block"]), int(config["attention_head_dim"])
    tensors: dict[str, Tensor] = {}
    unknown = []
    for name, tensor in stored.items():
        new = _renamed(name, blocks)
        if new is None:
            unknown.append(name)
        else:
            tensors.update(_parts(new, tensor, head))
    found = differences(_on_meta(config).state_dict(), tensors)
    if unknown or found:
        first = [f"no place for {', '.join(unknown[:3])}"] if unknown else []
        raise RequestError(f"{source}: {NEITHER}: {'; '.join(first + found)}")
    return tensors


def _on_meta(config: Mapping[str, Any]) -> Any:
    diffusers = needs("diffusers", extra="diffusion", why="to hold the converted network")
    with torch.device("meta"):
        return diffusers.UNet2DModel.from_config(dict(config))


def _renamed(name: str, blocks: int) -> str | None:
    """diffusers' name of a tensor; None where it is none of the two layouts'."""
    module, _, kind = name.rpartition(".")
    if module in _ENDS:
        return f"{_ENDS[module]}.{kind}"
    place, *numbers, inner = _divided(module)
    new = _new_place(place, numbers, inner, blocks)
    return new and f"{new}.{kind}"


def _divided(module: str) -> Iterator[Any]:
    """`input_blocks.4.0.in_layers.2` as input_blocks, 4, 0, in_layers.2."""
    place, *rest = module.split(".")
    yield place
    while rest and rest[0].isdigit():
        yield int(rest.pop(0))
    yield ".".join(rest)


def _new_place(place: str, numbers: list[int], inner: str, blocks: int) -> str | None:
    residual, attention = _RESIDUAL.get(inner), _ATTENTION.get(inner)
    if place == "middle_block" and numbers == [1]:
        return attention and f"mid_block.attentions.0.{attention}"
    if place == "middle_block" and numbers in ([0], [2]):
        return residual and f"mid_block.resnets.{numbers[0] // 2}.{residual}"
    if place not in ("input_blocks", "output_blocks") or len(numbers) != 2:
        return None
    return _in_level(*numbers, down=place == "input_blocks", inner=inner, blocks=blocks)


def _in_level(block: int, part: int, *, down: bool, inner: str, blocks: int) -> str | None:
    residual, attention = _RESIDUAL.get(inner), _ATTENTION.get(inner)
    level, step = divmod(block - down, blocks + 1)  # the first of the input blocks is the first convolution
    where = f"{'down' if down else 'up'}_blocks.{level}"
    if attention:
        return f"{where}.attentions.{step}.{attention}"
    resample = f"{where}.{'down' if down else 'up'}samplers.0"
    if inner in ("op", "conv"):
        return f"{resample}.conv"
    if residual is None:
        return None
    changes = step == blocks if down else part > 0
    return f"{resample}.{residual}" if changes else f"{where}.resnets.{step}.{residual}"


def _parts(name: str, tensor: Tensor, head_channels: int) -> Iterator[tuple[str, Tensor]]:
    """The tensor under its name; the attention's three in one divided, its 1x1 convolutions as linear layers."""
    if ".attentions." in name and tensor.ndim == 3:
        tensor = tensor.squeeze(-1)
    if ".qkv." not in name:
        yield name, tensor
        return
    by_head = tensor.reshape(-1, 3, head_channels, *tensor.shape[1:])
    for number, letter in enumerate("qkv"):
        yield name.replace(".qkv.", f".to_{letter}."), by_head[:, number].reshape(-1, *tensor.shape[1:])


def _head_channels(layout: Layout, trained: Trained, source: str) -> int:
    """Channels of a head, of which diffusers knows one number for all resolutions."""
    widths = {width for width, attends in zip(layout.channels, layout.attends, strict=True) if attends}
    widths.add(layout.channels[-1])  # the middle always attends
    if trained.head_channels is not None:
        found = {trained.head_channels}
    else:
        found = {width // (trained.heads or 1) for width in widths}
    if len(found) != 1 or any(width % min(found) for width in widths):
        raise RequestError(
            f"{source}: attention over {sorted(widths)} channels cannot have heads of one size "
            f"({sorted(found)} channels); say how it was trained by heads or head_channels"
        )
    return found.pop()
