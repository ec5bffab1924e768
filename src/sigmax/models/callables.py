"""Black boxes: models that are functions, not torch modules.

Any callable from a batch of images to logits or class ids is a base model as it is: `sx.Smoothed(function, ...)`,
or `sx.Denoised(denoiser, function)`. It needs no gradient. To be written into a run's plan it must say what it is:
set its attribute `fingerprint` to a text that changes whenever its answers would.
"""

import hashlib
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sigmax.errors import RequestError
from sigmax.models.optional import needs

_PIECE = 1 << 20  # bytes read at a time


class Onnx:
    """A classifier in an ONNX file, run by onnxruntime on the CPU: images (n, C, H, W) to its first output.

    The file must take any number of images: export it with a dynamic batch axis. `fingerprint` covers the file and
    the data files beside it that carry its name.
    """

    def __init__(self, path: str | os.PathLike[str], *, threads: int = 0) -> None:
        runtime = needs("onnxruntime", extra="onnx", why="to run an ONNX file")
        self.path = Path(path)
        if not self.path.is_file():
            raise RequestError(f"there is no file {self.path}")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads  # 0: as many as there are cores
        try:
            self._session = runtime.InferenceSession(self.path, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's own kinds of error have no common base but this
            raise RequestError(f"{self.path} is no ONNX model that onnxruntime can run: {error}") from error
        self._input = _only_input(self._session.get_inputs(), self.path)
        self._output = self._session.get_outputs()[0].name
        self.fingerprint = _digest(self.path)

    def __call__(self, images: Tensor) -> Tensor:
        """Its answer for a batch, on the images' device."""
        rows = images.detach().to("cpu", torch.float32).contiguous().numpy()
        (answer,) = self._session.run([self._output], {self._input: rows})
        return torch.from_numpy(answer).to(images.device)

    def __repr__(self) -> str:
        return f"Onnx({self.path.name})"


def _only_input(inputs: Any, path: Path) -> str:
    if len(inputs) != 1 or inputs[0].type != "tensor(float)":
        told = ", ".join(f"{one.name}: {one.type}" for one in inputs)
        raise RequestError(f"{path} takes {told or 'nothing'}; a classifier takes one batch of 32-bit float images")
    first = inputs[0].shape[0] if inputs[0].shape else None
    if isinstance(first, int):
        raise RequestError(
            f"{path} takes exactly {first} images at a time; export it with a dynamic batch axis, for any number"
        )
    return str(inputs[0].name)


def _digest(path: Path) -> str:
    total = hashlib.sha256(b"sigmax onnx 1")
    for file in sorted(path.parent.glob(f"{path.name}*")):  # large models keep their weights in NAME.onnx.data
        with file.open("rb") as opened:
            while piece := opened.read(_PIECE):
                total.update(piece)
    return total.hexdigest()[:32]
