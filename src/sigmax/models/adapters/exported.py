"""Programs of torch.export as models: the program itself is data, and its module is what can be called.

`torch.export.load` trusts its file: it unpickles, evaluates symbolic sizes and looks functions up by name. Here a .pt2
file is checked first, and what it asks for beyond tensors and torch's own operators is refused.
"""

import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.export import ExportedProgram

from sigmax.errors import RequestError

_modules: WeakKeyDictionary[ExportedProgram, nn.Module] = WeakKeyDictionary()

MODEL = "models/model.json"
_RECORDS = re.compile(
    r"models/model\.json|data/(weights|constants)/(model_\w+_config\.json|model\.pt|weight_\d+|tensor_\d+)"
    r"|data/sample_inputs/model\.pt|archive_(format|version)|byteorder|\.data/(version|serialization_id)|extra/.*"
)
_OPERATORS = re.compile(
    r"torch\.ops\.(aten|prims)\.(?!(from_file|save)\.)\w+\.\w+|torch\.sym_\w+|math\.(ceil|floor|trunc|sqrt)"
    r"|_operator\.(add|sub|mul|truediv|floordiv|mod|pow|neg|eq|ne|lt|le|gt|ge|and_|or_|not_|getitem)"
    r"|torch\.ops\.higher_order\.(wrap_with_set_grad_enabled|wrap_with_autocast|cond)"
)
_SYMBOLIC = re.compile(  # sizes such as Mul(Integer(2), Symbol('s77', positive=True, integer=True))
    r"(?:(?:Symbol|Integer|Rational|Add|Mul|Pow|Mod|PythonMod|FloorDiv|CleanDiv|CeilDiv|CeilToInt|FloorToInt|Max|Min|Eq"
    r"|Ne|Lt|Le|Gt|Ge|StrictLessThan|LessThan|StrictGreaterThan|GreaterThan|Equality|Unequality|And|Or|Not|ToFloat"
    r"|IntTrueDiv|positive|nonnegative|integer|True|False|true|false)\b|'[a-z]+\d+'|\d+|[(),= -])*"
)
_NAME = re.compile(r"[\w.+]*", re.ASCII)
_OPTION = re.compile(r"[\w .,:/*>+-]*", re.ASCII)  # of an operator: "bilinear", "bij,bjk->bik"
_PATTERNS = {  # of the strings of a graph, by their key
    "target": _OPERATORS,
    "as_operator": _OPERATORS,
    "expr_str": _SYMBOLIC,
    "as_string": _OPTION,
    "as_strings": _OPTION,
}
_CONTAINERS = (None, "builtins.tuple", "builtins.list", "builtins.dict")


def as_callable(model: Any) -> Any:
    """The module of an exported program, one and the same whenever it is asked for; any other model as it is."""
    if not isinstance(model, ExportedProgram):
        return model
    if model not in _modules:
        _modules[model] = model.module()
    return _modules[model]


def called(model: Any, answers: str) -> Any:
    """The model as a callable; refused where it is none, with how what a file holds becomes one."""
    model = as_callable(model)
    if callable(model):
        return model
    advice = ""
    if isinstance(model, str | os.PathLike):
        advice = (
            ". A file's network is sx.models.load(FILE)[0] of a checkpoint by sigmax, sx.models.open_program(FILE) of "
            "an ONNX, .pt2 or TorchScript file; of a state dict build the network and call load_state_dict. A "
            "system's folder is read by sx.load(FOLDER)"
        )
    elif isinstance(model, Mapping):
        advice = "; if it is a state dict, build the network, call load_state_dict on it and give the network"
    raise RequestError(f"model must be callable (batch -> {answers}); got {type(model).__name__}{advice}")


def exported_module(content: bytes, source: str) -> nn.Module:
    """The module of a .pt2 file's content, after a check that loading and running it executes no other code."""
    try:
        from torch.export.pt2_archive._package import PT2ArchiveReader, load_pt2
    except ImportError as error:
        raise RequestError(f"{source}: reading .pt2 files needs torch 2.8 or newer ({error})") from error
    try:
        with PT2ArchiveReader(io.BytesIO(content)) as archive:
            records = {name: archive.read_bytes(name) for name in archive.get_file_names()}
    except Exception as error:  # arbitrary bytes make the reader fail in arbitrary ways
        raise RequestError(f"{source} is no file of torch.export.save, or it is cut short: {error}") from error
    found = next(_findings(records), None)
    if found is not None:
        raise RequestError(
            f"{source} was refused: {found}, and a file may not bring code. Export the network again without it, to "
            "ONNX, or use --code with code of your own"
        )
    try:
        program = load_pt2(io.BytesIO(content)).exported_programs["model"]
        module: nn.Module = as_callable(program)
    except Exception as error:  # of another version of torch, perhaps
        raise RequestError(f"{source} cannot be loaded by torch {torch.__version__}: {error}") from error
    return module


def _findings(records: dict[str, bytes]) -> Iterator[str]:
    """What in an archive is more than tensors and a graph of torch's operators."""
    yield from (f"it holds {name}" for name in records if not _RECORDS.fullmatch(name))
    if MODEL not in records:
        yield "it holds no exported program called model"
    for name, content in records.items():
        if name.endswith("_config.json"):
            for payload in json.loads(content)["config"].values():
                if not re.fullmatch(r"(weight|tensor)_\d+", payload["path_name"]):
                    yield f"{name} names the object {payload['path_name']}"
                elif payload["use_pickle"]:
                    path = f"{name.rpartition('/')[0]}/{payload['path_name']}"
                    yield from _pickled(path, records.get(path, b""))
        elif name.endswith(".pt"):
            yield from _pickled(name, content)
    yield from _in_graph(json.loads(records[MODEL]), "")


def _pickled(name: str, content: bytes) -> Iterator[str]:
    try:
        torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception:  # whatever it is, the loader would go on to unpickle all of it
        yield f"{name} is a pickle of more than tensors"


def _in_graph(value: Any, key: str) -> Iterator[str]:
    """Strings of the graph become Python names, sizes and functions: each is checked for what it may become."""
    if isinstance(value, dict):
        is_node = isinstance(value.get("target"), str)
        for inner, held in value.items():
            if not _NAME.fullmatch(inner):
                yield f"its graph has the name {inner!r:.60}"
            if not (is_node and inner == "metadata"):  # notes on where a node comes from, which nothing runs
                yield from _in_graph(held, inner)
    elif isinstance(value, list):
        if key == "guards_code" and value:
            yield "it has guards written in Python"
        for held in value:
            yield from _in_graph(held, key)
    elif isinstance(value, str):
        if key in ("in_spec", "out_spec"):
            yield from _in_spec(json.loads(value))
        elif not _PATTERNS.get(key, _NAME).fullmatch(value):
            yield f"its graph asks for {value!r:.80}"


def _in_spec(spec: Any) -> Iterator[str]:
    """Inputs and outputs may be tuples, lists and dicts: other types would be imported."""
    if isinstance(spec, list):
        for part in spec:
            yield from _in_spec(part)
    elif isinstance(spec, dict):
        if spec.get("type") not in _CONTAINERS:
            yield f"its inputs or outputs are of the type {spec.get('type')!r:.60}"
        yield from _in_graph(json.loads(spec.get("context") or "null"), "context")  # the names of keywords
        yield from _in_spec(spec.get("children_spec"))
