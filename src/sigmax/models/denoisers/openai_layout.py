"""What the names and shapes of an OpenAI diffusion checkpoint's tensors say about its network."""

import re
from dataclasses import dataclass

from sigmax.errors import RequestError
from sigmax.models.tensors import Tensors

NEITHER = "the layout is neither improved-diffusion's nor guided-diffusion's"
_NEEDED = ("time_embed.0.weight", "input_blocks.0.0.weight", "middle_block.1.qkv.weight", "out.2.weight")
_ENLARGES = re.compile(r"output_blocks\.(\d+)\.[12]\.(conv|in_layers)\.")


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
        raise RequestError(
            f"{source} wants to be told the class of the image (label_emb); use an unconditional one"
        )
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
        return Layout(
            in_channels=stored["input_blocks.0.0.weight"].shape[1],
            out_channels=stored["out.2.weight"].shape[0],
            channels=tuple(stored[f"input_blocks.{first}.0.out_layers.3.weight"].shape[0] for first in firsts),
            blocks=blocks,
            attends=tuple(f"input_blocks.{first}.1.qkv.weight" in stored for first in firsts),
            resamples="in_layers" in enlarging.values(),
            scales=_scales(stored),
        )
    except KeyError as error:
        raise RequestError(f"{source}: {NEITHER}: it lacks {error.args[0]}") from error


def _scales(stored: Tensors) -> bool:
    told, made = (stored[f"middle_block.0.{part}.weight"].shape[0] for part in ("emb_layers.1", "in_layers.2"))
    return told == 2 * made
