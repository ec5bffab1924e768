import io
from importlib.util import module_from_spec, spec_from_file_location

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from sigmax import models
from sigmax.errors import RequestError

SHAPE = (3, 8, 8)


@pytest.fixture
def network():
    torch.manual_seed(2)
    network = models.build("resnet20", classes=10, input_shape=SHAPE)
    for name, buffer in network.named_buffers():
        if name.endswith("running_mean"):
            torch.nn.init.normal_(buffer)
    return network


@pytest.fixture
def stored(tmp_path):
    """Save anything at all and return where."""

    def save(content, name="weights.pth"):
        torch.save(content, tmp_path / name)
        return tmp_path / name

    return save


def take_in(path, *, architecture="resnet20", classes=10, normalisation=None, **more):
    return models.import_weights(
        path, architecture=architecture, classes=classes, input_shape=SHAPE, normalisation=normalisation, **more
    )


def prefixed(prefix, tensors):
    return {f"{prefix}{name}": tensor for name, tensor in tensors.items()}


@pytest.mark.parametrize("prefix", ["", "module.", "1.", "0.", "module.1.", "_orig_mod.", "model.net."])
@pytest.mark.parametrize("key", [None, "state_dict", "model", "net"])
def test_wrappers_come_off(network, stored, prefix, key):
    tensors = prefixed(prefix, network.state_dict())
    model, _ = take_in(stored(tensors if key is None else {"epoch": 3, "arch": "resnet20", key: tensors}))
    pixels = torch.rand(2, *SHAPE)
    assert not model.training
    assert torch.equal(model(pixels), network(pixels))


def test_the_description_is_what_was_given(network, stored):
    path = stored(network.state_dict())
    model, description = take_in(path, normalisation="cifar10", sigma=0.5, notes={"from": "a paper"})
    assert description == models.describe(model)
    assert (description.normalisation, description.sigma) == (models.PRESETS["cifar10"], 0.5)
    assert description.notes == {"source": "weights.pth", "from": "a paper"}


def test_an_imported_model_is_saved_like_any_other(network, stored, tmp_path):
    model, _ = take_in(stored(network.state_dict()), normalisation="imagenet")
    loaded, _ = models.load(models.save(tmp_path / "ours.safetensors", model))
    assert models.fingerprint(loaded) == models.fingerprint(model)


def test_bare_safetensors_and_half_precision_are_taken(network, tmp_path):
    path = tmp_path / "bare.safetensors"
    save_file({name: t.half() if t.is_floating_point() else t for name, t in network.state_dict().items()}, path)
    model, _ = take_in(path)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    torch.testing.assert_close(model.network.linear.weight, network.linear.weight, atol=1e-3, rtol=1e-3)


def test_old_batch_norms_without_counters_are_taken(network, stored):
    tensors = {k: v for k, v in network.state_dict().items() if not k.endswith("num_batches_tracked")}
    take_in(stored(tensors))


def test_a_normalisation_that_the_file_carries_must_be_the_one_given(network, stored):
    mean, std = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
    layer = {"0.mean": torch.tensor(mean).view(1, 3, 1, 1), "0.std": torch.tensor(std).view(1, 3, 1, 1)}
    path = stored({**layer, **prefixed("1.", network.state_dict())})
    take_in(path, normalisation="cifar10")
    with pytest.raises(RequestError, match=r"carries a normalisation with mean \(0\.4914.*asked for has \(0\.485"):
        take_in(path, normalisation="imagenet")
    with pytest.raises(RequestError, match=r"asked for has None; ask for the file's own"):
        take_in(path, normalisation="none")


def test_another_architecture_is_refused_and_the_right_one_named(network, stored):
    path = stored(prefixed("module.", network.state_dict()))
    with pytest.raises(
        RequestError, match=r"read as 'resnet56' \(its tensors fit 'resnet20'\): checkpoint of another architecture"
    ):
        take_in(path, architecture="resnet56")


def test_something_beside_the_network_is_refused(network, stored):
    path = stored({"0.weight": torch.zeros(3), **prefixed("1.", network.state_dict())})
    with pytest.raises(RequestError, match=r"the network has no 0\.weight"):
        take_in(path)


def test_another_number_of_classes_is_refused(network, stored):
    with pytest.raises(RequestError, match=r"last layer \(linear.*\) has 10 classes and 100 were asked for"):
        take_in(stored(network.state_dict()), classes=100)


class Hostile:
    """Would leave a file behind if unpickling ran it."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return open, (self.target, "w")


def test_a_hostile_pickle_is_refused_and_does_not_run(network, stored, tmp_path):
    trace = tmp_path / "trace"
    path = stored({"state_dict": network.state_dict(), "extra": Hostile(str(trace))})
    with pytest.raises(RequestError, match=r"a pickle that asks for \S*open, .* refused: loading it would run code"):
        take_in(path)
    assert not trace.exists()


def test_a_whole_pickled_module_is_refused_with_advice(network, stored):
    with pytest.raises(RequestError, match=r"torch\.save\(model\.state_dict\(\), .*\), or export the network"):
        take_in(stored(network))


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("part", [0.0, 0.01, 0.5, 0.999])
def test_a_truncated_file_says_so(network, tmp_path, zipped, part):
    buffer = io.BytesIO()
    torch.save(network.state_dict(), buffer, _use_new_zipfile_serialization=zipped)
    path = tmp_path / "cut.pt"
    path.write_bytes(buffer.getvalue()[: int(part * buffer.tell())])
    with pytest.raises(RequestError, match="cut short"):
        take_in(path)


def test_other_files_say_what_they_are(stored, tmp_path):
    page = tmp_path / "page.pt"
    page.write_text("<html>404</html>")
    with pytest.raises(RequestError, match="is not a file of weights"):
        take_in(page)
    with pytest.raises(RequestError, match="there is no file"):
        take_in(tmp_path / "nowhere.pt")
    with pytest.raises(RequestError, match="holds a list, not a state dict"):
        take_in(stored([1, 2, 3]))
    with pytest.raises(RequestError, match="holds no state dict: its keys are optimizer, epoch"):
        take_in(stored({"optimizer": {}, "epoch": 3}))


def test_a_path_that_cannot_be_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / ("x" * 300)):
        with pytest.raises(RequestError, match="is not a file of weights"):
            take_in(path)


def test_a_file_that_holds_itself_is_refused(stored):
    endless = {}
    endless["model"] = endless
    with pytest.raises(RequestError, match=r"weights\.pth holds no state dict within 4 levels"):
        take_in(stored(endless))


UNUSUAL = {
    "meta": (lambda t: t.to("meta"), r"dense tensors of real numbers, got {name} \(a shape without values\)"),
    "sparse": (lambda t: t.to_sparse(), r"got {name} \(torch\.sparse_coo, torch\.float32\).*to_dense"),
    "complex": (lambda t: t.to(torch.complex64), r"got {name} \(torch\.strided, torch\.complex64\)"),
}


@pytest.mark.parametrize("name", ["bn1.weight", "0.mean"])
@pytest.mark.parametrize("kind", UNUSUAL)
def test_unusual_tensors_are_refused(network, stored, name, kind):
    change, message = UNUSUAL[kind]
    tensors = {"0.mean": torch.full((3,), 0.5), "0.std": torch.ones(3), **network.state_dict()}
    tensors[name] = change(tensors[name])
    with pytest.raises(RequestError, match=r"weights\.pth: expected .*" + message.format(name=name)):
        take_in(stored(tensors))


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (torch.full((16,), torch.nan), r"NaN or infinity in bn1\.weight"),
        (torch.full((16,), -torch.inf), r"NaN or infinity in bn1\.weight"),
        (torch.full((16,), 1e300, dtype=torch.float64), r"NaN or infinity in bn1\.weight"),
        (torch.ones(16, dtype=torch.int32), r"floating-point weights, got bn1\.weight \(torch\.int32\)"),
    ],
    ids=["nan", "infinite", "beyond float32", "integer"],
)
def test_values_that_cannot_be_weights_are_refused(network, stored, weight, message):
    with pytest.raises(RequestError, match=r"weights\.pth, read as 'resnet20'.*" + message):
        take_in(stored({**network.state_dict(), "bn1.weight": weight}))


def cifar10_test(shared, count):
    """The first test images, unpacked by the script that comes with the data."""
    spec = spec_from_file_location("unpack_cifar10", shared / "data" / "unpack_cifar10.py")
    unpack = module_from_spec(spec)
    spec.loader.exec_module(unpack)
    rows = unpack.records(shared / "data" / "cifar10" / "test.npz")[:count]
    return rows[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32) / 255, rows[:, 0].astype(np.int64)


@pytest.mark.slow
def test_the_public_resnet56_classifies_as_published(shared):
    """On all 10,000 test images it gets 9,339 right (93.39%); here its share of the first 500."""
    model, _ = models.import_weights(
        shared / "weights" / "cifar10-resnet56" / "resnet56-4bfd9763.th",
        architecture="resnet56",
        classes=10,
        input_shape=(3, 32, 32),
        normalisation="imagenet",
    )
    pixels, labels = cifar10_test(shared, 500)
    with torch.inference_mode():
        found = torch.cat([model(block).argmax(dim=1) for block in torch.from_numpy(pixels).split(100)])
    assert int((found == torch.from_numpy(labels)).sum()) == 470
