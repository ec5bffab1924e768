import json
import re
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from sigmax import models
from sigmax.errors import RequestError, RunError

DESCRIPTION = models.Description(
    architecture="resnet20",
    classes=10,
    input_shape=(3, 8, 8),
    normalisation=models.PRESETS["cifar10"],
    sigma=0.5,
    notes={"data": "digits"},
)


@pytest.fixture
def model():
    torch.manual_seed(1)
    return models.create(DESCRIPTION)


@pytest.fixture
def path(model, tmp_path):
    return models.save(tmp_path / "model.safetensors", model)


def rewritten(path, *, change=None, description=None):
    """The same file with other tensors or another description."""
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        text = file.metadata()["sigmax"] if description is None else description.to_json()
    tensors.update(change or {})
    save_file({k: v for k, v in tensors.items() if v is not None}, path, metadata={"sigmax": text})
    return path


def test_round_trip_is_the_same_model(model, path):
    loaded, description = models.load(path)
    pixels = torch.rand(4, 3, 8, 8)
    assert description == models.describe(loaded) == models.describe(model) == DESCRIPTION
    assert not loaded.training
    assert torch.equal(loaded(pixels), model(pixels))


def test_images_of_another_shape_are_refused(model):
    channels, height, width = model.description.input_shape
    model(torch.zeros(2, channels, height, width))
    for shape in ((channels, height + 1, width), (channels + 2, height, width), (1, height, width)):
        if shape != model.description.input_shape:
            with pytest.raises(RequestError, match=rf"the network .* takes images of shape .*; got \({shape[0]}, "):
                model(torch.zeros(2, *shape))


def test_fingerprint_is_the_same_in_memory_and_on_disk(model, path):
    found = models.fingerprint(model)
    assert len(found) == 32
    assert models.fingerprint(path) == models.fingerprint(str(path)) == found
    assert models.fingerprint(models.load(path)[0]) == found


def test_fingerprint_sees_every_bit_of_every_tensor_and_the_normalisation(model):
    before = models.fingerprint(model)
    other = models.Classifier(model.network, replace(DESCRIPTION, normalisation=None))
    assert models.fingerprint(other) != before
    with torch.no_grad():
        model.network.bn1.running_var[3] = torch.nextafter(model.network.bn1.running_var[3], torch.tensor(9.0))
    assert models.fingerprint(model) != before


def test_fingerprint_does_not_see_the_notes(model):
    noted = models.Classifier(model.network, replace(DESCRIPTION, sigma=None, notes={}))
    assert models.fingerprint(noted) == models.fingerprint(model)


def test_half_precision_comes_back_as_it_was(model, tmp_path):
    half = model.to(torch.bfloat16)
    loaded, _ = models.load(models.save(tmp_path / "half.safetensors", half))
    assert models.fingerprint(loaded) == models.fingerprint(half)
    assert loaded.normalise.mean.dtype == torch.bfloat16


def test_the_description_names_the_default_options(tmp_path):
    asked = models.Description(architecture="small-cnn", classes=10, input_shape=(1, 8, 8))
    assert models.describe(models.create(asked)).options == {"width": 16}


def test_loading_leaves_the_global_generator_alone(path):
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    models.load(path)
    assert torch.equal(torch.rand(1), expected)


def test_a_model_of_another_class_has_no_description_but_has_a_fingerprint(tmp_path):
    linear = nn.Linear(2, 2)
    assert models.describe(linear) is None
    assert len(models.fingerprint(linear)) == 32
    with pytest.raises(RequestError, match="a Linear has no description to save; register its builder"):
        models.save(tmp_path / "linear.safetensors", linear)


def test_tied_weights_are_saved(model, tmp_path):
    model.network.bn1.bias = model.network.layer1[0].bn1.bias
    loaded, _ = models.load(models.save(tmp_path / "tied.safetensors", model))
    assert models.fingerprint(loaded) == models.fingerprint(model)


def test_a_failed_save_leaves_the_old_file(model, path, monkeypatch):
    before = path.read_bytes()

    def half_a_file(tensors, draft, metadata):
        draft.write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr("sigmax.models.checkpoints.checkpoint.save_file", half_a_file)
    with pytest.raises(RunError, match=r"no space left.*untouched"):
        models.save(path, model)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_missing_tensor_names_the_architecture_and_the_tensor(path):
    rewritten(path, change={"layer2.0.conv1.weight": None})
    with pytest.raises(RequestError, match=r"is 'resnet20'.*another architecture.*layer2\.0\.conv1\.weight"):
        models.load(path)


def test_a_file_that_claims_another_architecture_is_refused(path):
    rewritten(path, description=replace(DESCRIPTION, architecture="resnet56"))
    with pytest.raises(
        RequestError, match=r"'resnet56'.*another architecture: the file lacks layer1\.3\.\S+, .* and \d+ more"
    ):
        models.load(path)


def test_a_tensor_of_another_shape_is_refused(path):
    rewritten(path, change={"conv1.weight": torch.zeros(16, 1, 3, 3)})
    with pytest.raises(RequestError, match=r"conv1\.weight \(16, 1, 3, 3\) instead of \(16, 3, 3, 3\)"):
        models.load(path)


def test_other_classes_than_the_description_says_are_refused(path):
    rewritten(path, description=replace(DESCRIPTION, classes=100))
    with pytest.raises(RequestError, match=r"has 10 classes and 100 were asked for"):
        models.load(path)


def test_an_architecture_this_sigmax_does_not_know_is_named(path):
    rewritten(path, description=replace(DESCRIPTION, architecture="theirs"))
    with pytest.raises(RequestError, match="unknown architecture 'theirs'"):
        models.load(path)


def test_files_that_are_no_checkpoints_say_so(tmp_path, path):
    with pytest.raises(RequestError, match="there is no checkpoint"):
        models.load(tmp_path / "nowhere.safetensors")
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(RequestError, match="cut short"):
        models.load(cut)
    pickled = tmp_path / "weights.pt"
    torch.save({"weight": torch.zeros(2)}, pickled)
    with pytest.raises(RequestError, match="import_weights"):
        models.load(pickled)
    bare = tmp_path / "bare.safetensors"
    save_file({"weight": torch.zeros(2)}, bare)
    with pytest.raises(RequestError, match="not what they are"):
        models.load(bare)
    with pytest.raises(RequestError):
        models.load(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"normalisation": {"mean": ["a"] * 3, "std": ["b"] * 3}},
        {"normalisation": {"mean": [0.5] * 3, "std": [10**400] * 3}},
        {"architecture": ["resnet20"]},
        {"architecture": {"resnet20": 1}},
        {"architecture": "theirs"},
        {"options": {"depth": 3}},
    ],
    ids=["text", "too large", "list", "object", "unknown", "option"],
)
def test_a_description_that_makes_no_sense_is_refused_with_the_files_name(path, change):
    changed = json.dumps({**json.loads(DESCRIPTION.to_json()), **change})
    save_file({"weight": torch.zeros(2)}, path, metadata={"sigmax": changed})
    with pytest.raises(RequestError, match=re.escape(str(path))):
        models.load(path)


def test_a_description_without_end_is_refused_with_the_files_name(path):
    save_file({"weight": torch.zeros(2)}, path, metadata={"sigmax": "[" * 100_000})
    with pytest.raises(RequestError, match=re.escape(str(path))):
        models.load(path)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.ones(16, dtype=torch.int64), r"floating-point weights, got bn1\.weight \(torch\.int64\)"),
        (torch.ones(16, dtype=torch.complex64), r"real numbers, got bn1\.weight \(\S+, torch\.complex64\)"),
        (torch.full((16,), torch.nan), r"NaN or infinity in bn1\.weight"),
        (torch.full((16,), torch.nan).to(torch.float8_e4m3fn), r"NaN or infinity in bn1\.weight"),
    ],
    ids=["integer", "complex", "nan", "nan of eight bits"],
)
def test_what_cannot_be_weights_is_refused(path, tensor, message):
    rewritten(path, change={"bn1.weight": tensor})
    with pytest.raises(RequestError, match=f"{re.escape(str(path))}.*{message}"):
        models.load(path)
