"""One small network as the files that other tools would write of it."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

SHAPE = (1, 8, 8)


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10)).eval()


def as_onnx(path, model, *, data=None):
    """A linear network over the last layer's weights; `data`: a file beside it that holds them."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    weights = np.ascontiguousarray(model[-1].weight.detach().numpy().T[:64])
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Flatten", ["images"], ["flat"]),
            onnx.helper.make_node("MatMul", ["flat", "weights"], ["logits"]),
        ],
        "linear",
        [onnx.helper.make_tensor_value_info("images", onnx.TensorProto.FLOAT, ["n", *SHAPE])],
        [onnx.helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["n", 10])],
        [onnx.numpy_helper.from_array(weights, "weights")],
    )
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    beside = {} if data is None else {"save_as_external_data": True, "location": data, "size_threshold": 0}
    onnx.save(made, path, **beside)
    return path


def as_exported(path, model, *, dynamic=True):
    shapes = ({0: torch.export.Dim("n")},) if dynamic else None
    torch.export.save(torch.export.export(model, (torch.rand(2, *SHAPE),), dynamic_shapes=shapes), path)
    return path


def as_scripted(path, model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch would rather have it exported
        torch.jit.trace(model, torch.rand(2, *SHAPE)).save(path)
    return path


EXPORTS = {"net.onnx": as_onnx, "net.pt2": as_exported, "net.pt": as_scripted}


def rewritten(path, change):
    """Another .pt2 archive, whose records `change` was given to change."""
    from torch.export.pt2_archive._package import PT2ArchiveReader, PT2ArchiveWriter

    with PT2ArchiveReader(str(path)) as archive:
        records = {name: archive.read_bytes(name) for name in archive.get_file_names()}
    change(records)
    out = path.with_name("changed.pt2")
    with PT2ArchiveWriter(str(out)) as writer:
        for name, content in records.items():
            if name.startswith(("models/", "data/")):
                writer.write_bytes(name, content)
    return out
