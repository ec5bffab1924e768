"""TorchScript files as models.

torch runs them in an interpreter of its own, never as Python. What could still reach beyond the network is refused
before the file is loaded: operators that read or write files, and operators and classes of other libraries.
"""

import io
import tokenize
import warnings
from itertools import pairwise

import torch
from torch import nn

from sigmax.errors import RequestError

_FILES = ("from_file", "save")
_LIBRARIES = ("prim", "aten", "quantized", "torchvision")  # whose operators compute and do nothing else


def scripted_module(content: bytes, source: str) -> nn.Module:
    """The module of a TorchScript file's content, on the CPU."""
    try:
        archive = torch._C.PyTorchFileReader(io.BytesIO(content))
        code = [archive.get_record(name) for name in archive.get_all_records() if name.endswith(".py")]
    except Exception as error:  # arbitrary bytes make the reader fail in arbitrary ways
        raise RequestError(f"{source} is no TorchScript file, or it is cut short: {error}") from error
    for text in code:
        found = outside(text)
        if found:
            raise RequestError(
                f"{source} was refused: its TorchScript uses {found!r}, which may reach files or other libraries, "
                "and a file may not bring code. Export the network to ONNX, or use --code with code of your own"
            )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # torch would rather have its user export
            module: nn.Module = torch.jit.load(io.BytesIO(content), map_location="cpu")  # type: ignore[no-untyped-call]
    except Exception as error:
        raise RequestError(f"{source} cannot be loaded by torch {torch.__version__}: {error}") from error
    return module


def outside(text: bytes) -> str | None:
    """The first word of the code that is not the network's own; None if there is none.

    TorchScript is written in Python's tokens, so comments and continued lines hide nothing. What is not is refused.
    """
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text.decode()).readline))
    except (tokenize.TokenError, SyntaxError, UnicodeDecodeError):
        return "unreadable code"
    layout = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    words = [token.string for token in tokens if token.type not in layout and token.string != "."]
    for word, following in pairwise([*words, ""]):
        foreign = word == "ops" and following not in _LIBRARIES
        if word in _FILES or foreign or (word, following) == ("torch", "classes"):
            return word if word in _FILES else f"{word}.{following}"
    return None
