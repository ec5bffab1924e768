"""Base models that are no torch modules."""

import numpy as np
import pytest
import torch

import sigmax as sx
from sigmax.errors import RequestError
from sigmax.models import Onnx

SHAPE = (1, 8, 8)


def images(count=3):
    return sx.data.load("digits", "test").pixels(range(count))


def test_a_plain_function_is_a_base_model_alone_and_behind_a_denoiser():
    weights = np.random.default_rng(0).normal(size=(64, 10)).astype(np.float32)

    def answer(batch):  # as a remote service would: numpy in, class ids out, no gradient
        return torch.from_numpy((batch.numpy().reshape(len(batch), -1) @ weights).argmax(1))

    alone = sx.Smoothed(answer, sigma=0.25, classes=10).certify(images(), n0=20, n=200)
    denoised = sx.Smoothed(sx.Denoised(lambda noisy: noisy, answer), sigma=0.25, classes=10)
    assert len(alone) == 3
    assert len(denoised.certify(images(), n0=20, n=200)) == 3


@pytest.fixture
def exported(tmp_path):
    """A linear classifier as an ONNX file, and its weights."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")

    def write(batch="n", kind=onnx.TensorProto.FLOAT):
        weights = np.random.default_rng(0).normal(size=(64, 10)).astype(np.float32)
        graph = onnx.helper.make_graph(
            [
                onnx.helper.make_node("Flatten", ["images"], ["flat"]),
                onnx.helper.make_node("MatMul", ["flat", "weights"], ["logits"]),
            ],
            "linear",
            [onnx.helper.make_tensor_value_info("images", kind, [batch, *SHAPE])],
            [onnx.helper.make_tensor_value_info("logits", kind, [batch, 10])],
            [onnx.numpy_helper.from_array(weights.astype(onnx.helper.tensor_dtype_to_np_dtype(kind)), "weights")],
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
        path = tmp_path / f"linear-{batch}-{kind}.onnx"
        onnx.save(model, path)
        return path, torch.from_numpy(weights)

    return write


def test_an_onnx_file_votes_as_its_network_does(exported, tmp_path, monkeypatch):
    monkeypatch.setattr(sx.Smoothed, "weights", lambda _: "")  # the file's and the module's differ, and so would noise
    path, weights = exported()
    model = Onnx(path, threads=1)
    pixels = torch.from_numpy(images())
    torch.testing.assert_close(model(pixels), pixels.flatten(1) @ weights)
    torch_model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10, bias=False))
    torch_model[1].weight.data = weights.T.contiguous()
    found, expected = (sx.Smoothed(m, sigma=0.25, classes=10).certify(images(), n=500) for m in (model, torch_model))
    assert [s.counts for c in found for s in c.stages] == [s.counts for c in expected for s in c.stages]
    run = sx.certify_run(
        sx.Smoothed(sx.Denoised(torch.nn.Identity(), model), sigma=0.25, classes=10),
        sx.data.load("digits"),
        tmp_path / "run.jsonl",
        n0=10,
        n=100,
        maximum=2,
    )
    assert len(run.frame()) == 2
    for wrapped in (model, sx.Denoised(torch.nn.Identity(), model)):
        with pytest.raises(sx.RequestError, match=r"Onnx\(.*computes in float32 .* bfloat16 would not be what is"):
            sx.Smoothed(wrapped, sigma=0.25, classes=10, dtype="bf16")


def test_files_that_cannot_vote_say_why(exported, tmp_path):
    onnx = pytest.importorskip("onnx")
    with pytest.raises(RequestError, match="batches of exactly 4; export it with a dynamic batch axis"):
        Onnx(exported(batch=4)[0])
    with pytest.raises(RequestError, match=r"takes images: tensor\(double\)"):
        Onnx(exported(kind=onnx.TensorProto.DOUBLE)[0])
    with pytest.raises(RequestError, match="there is no file"):
        Onnx(tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("no model")
    with pytest.raises(RequestError, match="no ONNX model that onnxruntime can run"):
        Onnx(tmp_path / "text.onnx")
