"""Networks in files of other tools: they answer as the network they were made of, and nothing in them runs."""

import io
import pickle

import pytest
import torch
from torch import nn

import sigmax as sx
from sigmax import models
from sigmax.errors import RequestError
from sigmax.models.adapters.callables import digest
from sigmax.models.adapters.torchscript import outside
from tests.models.adapters.exports import EXPORTS, SHAPE, as_exported, as_onnx, as_scripted, network, rewritten

RAN = []  # what a hostile file would leave here


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports")
    return {name: write(folder / name, network()) for name, write in EXPORTS.items()}


def opened(exports, name, **given):
    return models.open_program(exports[name], **({"input_shape": SHAPE} if name == "net.pt" else {}), **given)


@pytest.mark.parametrize("name", EXPORTS)
def test_a_file_answers_as_its_network_and_says_what_it_takes(name, exports, tmp_path):
    program = opened(exports, name)
    assert (program.description.classes, program.description.input_shape) == (10, SHAPE)
    images = torch.rand(5, *SHAPE)
    with torch.inference_mode():
        if name != "net.onnx":
            torch.testing.assert_close(program(images), network()(images))
        shifted = opened(exports, name, normalisation=models.Normalisation((0.5,), (0.25,)))
        torch.testing.assert_close(shifted(images), program((images - 0.5) / 0.25))
        torch.testing.assert_close(pickle.loads(pickle.dumps(program))(images), program(images))  # as a worker gets it
    assert models.fingerprint(shifted) != models.fingerprint(program)
    with pytest.raises(RequestError, match=r"got \(1, 9, 9\). Use one for these images, or resize .* --image-size 8"):
        program(torch.rand(2, 1, 9, 9))
    with pytest.raises(RequestError, match=r"got \(3, 8, 8\). Use one for these images$"):
        program(torch.rand(2, 3, 8, 8))


def test_a_network_saved_while_training_is_not_changed_by_trying_it(tmp_path):
    as_scripted(tmp_path / "net.pt", network().train())
    program = models.open_program(tmp_path / "net.pt", input_shape=SHAPE)
    assert not program.network.training
    images = torch.rand(5, *SHAPE)
    with torch.inference_mode():
        first = program(images)
        torch.testing.assert_close(models.open_program(tmp_path / "net.pt", input_shape=SHAPE)(images), first)


def test_files_that_cannot_be_used_say_why(tmp_path, exports):
    as_exported(tmp_path / "static.pt2", network(), dynamic=False)
    (tmp_path / "text.pt2").write_text("no archive")
    (tmp_path / "cut.pt").write_bytes(exports["net.pt"].read_bytes()[:-900])
    torch.save(network().state_dict(), tmp_path / "weights.pt")
    for name, message in (
        ("static.pt2", r"^AssertionError: .* \(raised by .*static.pt2 when given 3 images .*\). .*dynamic_shapes="),
        ("text.pt2", "is no file of torch.export.save, or it is cut short"),
        ("cut.pt", "is no ONNX file, no .pt2 of torch.export.save and no TorchScript file"),
        ("weights.pt", "is no ONNX file"),
        ("absent.onnx", "there is no file"),
    ):
        with pytest.raises(RequestError, match=message):
            models.open_program(tmp_path / name)
    with pytest.raises(RequestError, match="has 10 logits, and 7 classes were asked for"):
        models.open_program(exports["net.pt2"], classes=7)
    with pytest.raises(RequestError, match="does not say which images it takes; give --input-shape"):
        models.open_program(exports["net.pt"])


def test_weights_beside_an_onnx_file_belong_to_it(tmp_path):
    path = as_onnx(tmp_path / "net.onnx", network(), data="net.onnx.data")
    first = models.fingerprint(models.open_program(path))
    data = tmp_path / "net.onnx.data"
    data.write_bytes(bytes(len(data.read_bytes())))
    assert models.fingerprint(models.open_program(path)) != first
    data.unlink()
    with pytest.raises(RequestError, match=r"net\.onnx"):
        models.open_program(path)


class Hostile:
    def __reduce__(self):
        return RAN.append, ("a pickle",)


def hostile_pickle(records):
    buffer = io.BytesIO()
    torch.save(Hostile(), buffer)
    records["data/sample_inputs/model.pt"] = buffer.getvalue()


def replaced(old, new):
    def change(records):
        assert old in records["models/model.json"]
        records["models/model.json"] = records["models/model.json"].replace(old, new)

    return change


def renamed(records):
    config = "data/weights/model_weights_config.json"
    records[config] = records[config].replace(b'"weight_0"', b'"opaque_obj_0"')


def compiled(records):
    records["data/aotinductor/model/model.so"] = b"\x7fELF"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (hostile_pickle, "data/sample_inputs/model.pt is a pickle of more than tensors"),
        (replaced(b"torch.ops.aten.relu.default", b"torch.hub.os.system"), "asks for 'torch.hub.os.system'"),
        (replaced(b"torch.ops.aten.relu.default", b"torch.ops.aten.from_file.default"), "from_file"),
        (replaced(b"torch.ops.aten.relu.default", b"torch.ops.mine.relu.default"), "torch.ops.mine"),
        (replaced(b"positive=True, integer=True)", b"positive=__import__('os'))"), "__import__"),
        (replaced(b'"p_0_weight"', b'"p;print(1)"'), "p;print"),
        (replaced(b'"guards_code": []', b'"guards_code": ["print(1)"]'), "guards written in Python"),
        (replaced(b'\\"builtins.tuple\\"', b'\\"my.Type\\"'), "of the type 'my.Type'"),
        (renamed, "names the object opaque_obj_0"),
        (compiled, "it holds data/aotinductor/model/model.so"),
    ],
)
def test_a_pt2_file_that_asks_for_code_is_refused_unread(change, message, exports):
    with pytest.raises(RequestError, match=f"was refused: .*{message}.*a file may not bring code"):
        models.open_program(rewritten(exports["net.pt2"], change))
    assert not RAN


class Saves(nn.Module):
    def forward(self, images):
        torch.save(images, "stolen.pt")
        return images.flatten(1)


class Reads(nn.Module):
    def forward(self, images):
        return images.flatten(1) + torch.from_file("/etc/passwd", size=1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", [Saves, Reads])
def test_torchscript_that_reaches_files_is_refused_unread(kind, tmp_path):
    torch.jit.script(kind()).save(tmp_path / "net.pt")
    with pytest.raises(RequestError, match=r"its TorchScript uses '(save|from_file)'"):
        models.open_program(tmp_path / "net.pt", input_shape=SHAPE)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("ops.aten.relu(x)", None),
        ("CONSTANTS.c0 # ops.profiler", None),
        ("ops.profiler.enter(x)", "ops.profiler"),
        ("(ops #\n    .profiler.enter(x))", "ops.profiler"),
        ("ops\\\n.profiler.enter(x)", "ops.profiler"),
        ("'#'; (ops # .aten\n  . profiler.enter(x))", "ops.profiler"),
        ("__torch__ . torch . classes . other.X", "torch.classes"),
        ("torch.from_file(x)", "from_file"),
        ("(never closed", "unreadable code"),
    ],
)
def test_torchscript_hides_nothing_in_comments_and_continued_lines(code, found):
    assert outside(f"def forward(x):\n  y = {code}\n  return y\n".encode()) == found


def test_weights_that_the_fingerprint_does_not_know_cannot_vote(tmp_path):
    """An ONNX file may name its data in an unusual spelling, or go by another name."""
    path, usual = tmp_path / "net.onnx", b"\x0a\x08location\x12\x08net.data"
    as_onnx(path, network(), data="net.data")
    content = path.read_bytes()
    assert content.count(usual) >= 1
    renamed_file = path.with_name("net.bin")
    renamed_file.write_bytes(content)
    before = digest(renamed_file)
    (tmp_path / "net.data").write_bytes((tmp_path / "net.data").read_bytes()[::-1])
    assert digest(renamed_file) != before
    path.write_bytes(content.replace(usual, b"\x12\x08net.data\x0a\x08location"))
    with pytest.raises(RequestError, match="no ONNX model that onnxruntime can run"):
        models.Onnx(path)
    path.write_bytes(content + b"\x12\x08location")
    with pytest.raises(RequestError, match="unusual spelling"):
        models.Onnx(path)


def test_code_is_called_and_its_errors_come_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sigmax_own_models.py").write_text(
        "import torch\n"
        "def load(): return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))\n"
        "def takes(x): return x\n"
        "def fails(): raise ValueError('my own bug 42')\n"
        "def number(): return 3\n"
        "def ids(): return lambda images: images.flatten(1).argmax(1)\n"
    )
    program = models.from_code("sigmax_own_models:load", input_shape=SHAPE)
    assert program.description.classes == 10
    with pytest.raises(RequestError, match=r"the network sigmax_own_models:load takes images of shape .*; got \(7, "):
        program(torch.zeros(1, 7, 8, 8))
    for reference, message in (
        ("sigmax_own_models:takes", r"^TypeError: .*called without arguments and must return the model"),
        ("sigmax_own_models:fails", r"^ValueError: my own bug 42 \(raised by sigmax_own_models:fails"),
        ("sigmax_own_models:number", "returned a int; it must return the model"),
        ("sigmax_own_models:absent", "^AttributeError"),
        ("sigmax_no_such_module:load", "^ModuleNotFoundError"),
        ("sigmax_own_models:ids", r"returned \(2,\) for 2 images; if these are class ids, give --classes"),
        ("os.system", "must be package.module:function"),
    ):
        with pytest.raises(RequestError, match=message):
            models.from_code(reference, input_shape=SHAPE)
    assert models.from_code("sigmax_own_models:ids", input_shape=SHAPE, classes=64).description.classes == 64
    assert sx.Smoothed(program, sigma=0.5, classes=10).certify(torch.rand(1, *SHAPE), n=200)
