"""Black boxes: any callable from a batch of images to logits or class ids is a base model as it is.

Beyond name and probe outputs, an attribute `fingerprint` identifies it: a text that changes when its answers would.
"""

import hashlib
import os
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sigmax.errors import RequestError, needs


class Onnx:
    """A classifier in an ONNX file, run by onnxruntime on the CPU: images (n, C, H, W) to its first output.

    `fingerprint` covers its data files too. It can only ask for operators that onnxruntime has: nothing else runs.
    """

    computes_in = torch.float32  # whatever precision is asked for; `Voter` refuses another

    def __init__(self, path: str | os.PathLike[str], *, threads: int = 0) -> None:
        runtime = needs("onnxruntime", extra="onnx", why="to run an ONNX file")
        self.path = Path(path)
        if not self.path.is_file():
            raise RequestError(f"there is no file {self.path}")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads  # 0: as many as there are cores
        try:
            # Given its bytes alone, onnxruntime finds no other files: what is not in the fingerprint cannot vote.
            whole = self.path if data_files(self.path) else self.path.read_bytes()
            self._session = runtime.InferenceSession(whole, options, providers=["CPUExecutionProvider"])
            self._input = _only_input(self._session.get_inputs(), self.path)
            self.input_shape = tuple(self._session.get_inputs()[0].shape[1:])  # names stand for sizes that are free
            self._output = self._session.get_outputs()[0].name
        except RequestError:
            raise
        except Exception as error:  # onnxruntime's own kinds of error have no common base but this
            raise RequestError(f"{self.path} is no ONNX model that onnxruntime can run: {error}") from error
        self._threads = threads
        self.fingerprint = digest(self.path)

    def __call__(self, images: Tensor) -> Tensor:
        """Its answer for a batch, on the images' device."""
        rows = images.detach().to("cpu", torch.float32).contiguous().numpy()
        (answer,) = self._session.run([self._output], {self._input: rows})
        return torch.from_numpy(answer).to(images.device)

    def __repr__(self) -> str:
        return f"Onnx({self.path.name})"

    def __reduce__(self) -> Any:
        """A worker opens the file again."""
        return _reopened, (self.path, self._threads, self.fingerprint)


def _reopened(path: Path, threads: int, fingerprint: str) -> Onnx:
    model = Onnx(path, threads=threads)
    if model.fingerprint != fingerprint:
        raise RequestError(f"{path} was changed since the job began; start it again")
    return model


def data_files(path: Path) -> list[Path]:
    """The files beside an ONNX file that hold its weights, as exporters of torch write large or all models.

    Found by the entries `location` of its tensors, in protobuf's usual spelling (tag, length, text). A file that has
    the word in another place as well is refused, since weights might hide there.
    """
    content = path.read_bytes()
    names = set()
    entries = list(re.finditer(rb"\x0a\x08location\x12", content))
    if entries and content.count(b"location") > len(entries):
        raise RequestError(
            f"{path} keeps weights in other files, and names them in an unusual spelling; keep the network in one "
            "file: onnx.save(onnx.load(OLD), NEW)"
        )
    for entry in entries:
        size, start = content[entry.end()], entry.end() + 1
        if size >= 128:  # two bytes hold a length above 127
            size, start = size - 128 + 128 * content[start], start + 1
        names.add(content[start : start + size].decode("utf-8", errors="replace"))
    for name in names:
        if Path(name).name != name or not (path.parent / name).is_file():
            raise RequestError(
                f"{path} keeps weights in {name!r}, and there is no such file beside it; keep the network in one file: "
                "onnx.save(onnx.load(OLD), NEW)"
            )
    return [path.parent / name for name in sorted(names)]


def _only_input(inputs: Any, path: Path) -> str:
    if len(inputs) != 1 or inputs[0].type != "tensor(float)":
        listed = ", ".join(f"{one.name}: {one.type}" for one in inputs)
        raise RequestError(f"{path} takes {listed or 'nothing'}; a classifier takes one batch of 32-bit float images")
    first = inputs[0].shape[0] if inputs[0].shape else None
    if isinstance(first, int):
        raise RequestError(
            f"{path} takes batches of exactly {first}; export it with a dynamic batch axis, such as "
            f'dynamic_axes={{"{inputs[0].name}": {{0: "batch"}}}} of torch.onnx.export'
        )
    return str(inputs[0].name)


def digest(path: Path) -> str:
    """32 hex digits over the bytes of a file, and over those of the data files that an ONNX file names."""
    total = hashlib.sha256(b"sigmax file 1")
    with path.open("rb") as opened:
        archive = opened.read(2) == b"PK"  # of torch; whatever else may be ONNX, whatever it is called
    for file in (path, *(() if archive else data_files(path))):
        with file.open("rb") as opened:
            total.update(hashlib.file_digest(opened, "sha256").digest())
    return total.hexdigest()[:32]
