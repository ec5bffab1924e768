"""Systems as folders: saved, loaded, and refused when they are not what they say."""

import sys

import numpy as np
import pytest
import torch
from torch import nn

import sigmax as sx
from sigmax import models
from sigmax.models import Description
from sigmax.systems import fingerprint
from tests.models.adapters.exports import EXPORTS, SHAPE, as_onnx, network


def classifier(seed: int = 0, **changes) -> nn.Module:
    torch.manual_seed(seed)
    return models.create(
        Description(**{"architecture": "small-cnn", "classes": 10, "input_shape": (1, 8, 8), "sigma": 0.5, **changes})
    )


def scheme(seed: int = 0, **changes) -> sx.Smoothed:
    return sx.Smoothed(classifier(seed), **{"sigma": 0.5, "classes": 10, **changes})


def test_a_saved_system_certifies_the_same(tmp_path):
    original = scheme(bound="runner-up")
    assert original.save(tmp_path / "system") == tmp_path / "system"
    loaded = sx.load(tmp_path / "system")
    assert loaded.rule == original.rule
    assert fingerprint(loaded) == fingerprint(original)
    x = torch.rand(3, 1, 8, 8)
    assert loaded.certify(x, n=300) == original.certify(x, n=300)


def test_saving_the_same_again_is_fine_and_another_is_refused(tmp_path):
    scheme().save(tmp_path / "system")
    scheme().save(tmp_path / "system")
    with pytest.raises(sx.RequestError, match="holds another system"):
        scheme(seed=1).save(tmp_path / "system")


def test_everything_that_decides_a_certificate_is_in_the_fingerprint():
    systems = [scheme(), scheme(seed=1), scheme(sigma=0.25), scheme(bound="runner-up")]
    systems.append(
        sx.Smoothed(classifier(normalisation=models.Normalisation(mean=(0.5,), std=(0.2,))), sigma=0.5, classes=10)
    )
    assert len({fingerprint(s) for s in systems}) == len(systems)
    assert fingerprint(scheme(batch=7)) == fingerprint(scheme())


def test_own_modules_have_fingerprints_and_functions_may_declare_one():
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    first = fingerprint(sx.Smoothed(net, sigma=0.5, classes=10))
    with torch.no_grad():
        net[1].bias += 1
    assert fingerprint(sx.Smoothed(net, sigma=0.5, classes=10)) != first
    other = nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.ReLU())
    other[1].load_state_dict(net[1].state_dict())
    assert fingerprint(sx.Smoothed(other, sigma=0.5, classes=10)) != fingerprint(
        sx.Smoothed(net, sigma=0.5, classes=10)
    )

    def plain(batch):
        return torch.zeros(len(batch), dtype=torch.long)

    named = fingerprint(sx.Smoothed(plain, sigma=0.5, classes=10))
    assert named != fingerprint(sx.Smoothed(lambda batch: plain(batch), sigma=0.5, classes=10))
    plain.fingerprint = "always class 0"
    assert fingerprint(sx.Smoothed(plain, sigma=0.5, classes=10)) != named


def test_a_module_of_ones_own_is_used_from_python(tmp_path):
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    own = sx.Smoothed(net, sigma=0.5, classes=10)
    with pytest.raises(sx.RequestError, match="a folder holds registered architectures, and files of ONNX"):
        own.save(tmp_path / "system")
    run = sx.certify_run(own, sx.data.load("digits"), tmp_path / "run.jsonl", n=200, maximum=3)
    assert run.finished
    assert sx.verify(run.path).holds


@pytest.mark.parametrize("name", EXPORTS)
def test_a_file_of_another_tool_is_kept_and_certifies_the_same(name, tmp_path):
    EXPORTS[name](tmp_path / name, network())
    program = models.open_program(
        tmp_path / name, input_shape=SHAPE, normalisation=models.Normalisation((0.5,), (0.2,))
    )
    original = sx.Smoothed(models.selective(program, confidence=0.3), sigma=0.25, classes=10)
    folder = original.save(tmp_path / "system")
    original.save(tmp_path / "system")  # the same again is fine
    (kept,) = (path for path in folder.iterdir() if path.name != "system.toml")
    assert kept.read_bytes() == (tmp_path / name).read_bytes()
    (tmp_path / name).unlink()  # the folder needs nothing beside it
    loaded, (twice, again) = sx.load(folder), sx.systems.load_together([folder, folder])
    assert twice.voters["base"].model is again.voters["base"].model
    assert fingerprint(loaded) == fingerprint(original)
    x = torch.rand(2, *SHAPE)
    assert loaded.certify(x, n=200) == original.certify(x, n=200)
    head = folder / "system.toml"
    changed = head.read_text().replace("0.5", "0.4").replace("0.2,", "0.3,")
    for spoil in (lambda: head.write_text(changed), lambda: EXPORTS[name](kept, network(seed=1))):
        before = head.read_text()
        spoil()
        with pytest.raises(sx.RequestError, match="not the network the system was built with|was changed since"):
            sx.load(folder)
        head.write_text(before)
    with pytest.raises(sx.RequestError, match="was changed since it was opened"):
        loaded.save(folder)
    with pytest.raises(sx.RequestError, match="whose weights cannot be rounded"):
        loaded.save(tmp_path / "rounded", store="bf16")


def test_onnx_weights_in_a_file_of_their_own_are_kept_too(tmp_path):
    program = models.open_program(as_onnx(tmp_path / "net.onnx", network(), data="net.onnx.data"))
    folder = sx.Smoothed(program, sigma=0.25, classes=10).save(tmp_path / "system")
    assert {path.name for path in folder.iterdir()} == {"system.toml", "base.onnx", "net.onnx.data"}
    assert sx.load(folder).certify(torch.rand(1, *SHAPE), n=200)


def test_code_is_run_only_if_it_is_named_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = tmp_path / "sigmax_kept_code.py"
    code.write_text(
        "import torch\n"
        "CALLS = []\n"
        "def load():\n"
        "    CALLS.append(1)\n"
        "    torch.manual_seed(0)\n"
        "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))\n"
    )
    reference = "sigmax_kept_code:load"
    original = sx.Smoothed(models.from_code(reference, input_shape=SHAPE), sigma=0.25, classes=10)
    folder = original.save(tmp_path / "system")
    assert [path.name for path in folder.iterdir()] == ["system.toml"]
    module = sys.modules["sigmax_kept_code"]
    calls = len(module.CALLS)
    for allowed in ((), "sigmax_kept_code:other", ["os:system"]):
        with pytest.raises(sx.RequestError, match=f"made by the code {reference}, and a folder runs no code by itself"):
            sx.load(folder, code=allowed)
    assert len(module.CALLS) == calls
    x = torch.rand(2, *SHAPE)
    assert sx.load(folder, code=reference).certify(x, n=200) == original.certify(x, n=200)
    # Other weights, and the same weights used otherwise: both are another network.
    monkeypatch.setattr(torch, "manual_seed", lambda seed: None)
    with pytest.raises(sx.RequestError, match="not the network the system was built with"):
        sx.load(folder, code=reference)


def test_numbers_of_numpy_survive_the_file(tmp_path):
    scheme(sigma=np.float64(0.25)).save(tmp_path / "system")
    assert sx.load(tmp_path / "system").rule.sigma == 0.25


def test_hidden_buffers_are_in_the_fingerprint():
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    first, second = (models.Normalised(net, (mean,), (std,)) for mean, std in ((0.0, 1.0), (0.9, 0.05)))
    prints = {fingerprint(sx.Smoothed(model, sigma=0.5, classes=10)) for model in (first, second)}
    assert len(prints) == 2


def test_another_network_in_the_folder_is_not_overwritten(tmp_path):
    models.save(tmp_path / "base.safetensors", classifier(seed=1))
    before = (tmp_path / "base.safetensors").read_bytes()
    with pytest.raises(sx.RequestError, match="is another network"):
        scheme().save(tmp_path)
    assert (tmp_path / "base.safetensors").read_bytes() == before
    scheme(seed=1).save(tmp_path)  # cut short while saving: completed


def test_a_folder_of_other_things_is_left_alone(tmp_path):
    for name in ("photo.jpg", ".hidden", "notes.txt"):
        (tmp_path / name).touch()
    with pytest.raises(
        sx.RequestError, match=r"holds other files \(notes\.txt, photo\.jpg\); choose a new or an empty"
    ):
        scheme().save(tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("edit", [("sigma = 0.5", "sigma = 2.0"), ("one-sided", "runner-up")])
def test_an_edited_head_is_noticed(tmp_path, edit):
    scheme().save(tmp_path / "system")
    head = tmp_path / "system" / "system.toml"
    head.write_text(head.read_text().replace(*edit))
    with pytest.raises(sx.RequestError, match="was changed since the system was built"):
        sx.load(tmp_path / "system")


def test_exchanged_weights_are_noticed(tmp_path):
    scheme().save(tmp_path / "a")
    scheme(seed=1).save(tmp_path / "b")
    (tmp_path / "b" / "base.safetensors").replace(tmp_path / "a" / "base.safetensors")
    with pytest.raises(sx.RequestError, match="not the network the system was built with"):
        sx.load(tmp_path / "a")


SMOOTHED = """format = 2
[scheme]
scheme = "smoothed"
noise = "gaussian"
sigma = 0.5
classes = 10
bound = "one-sided"
defers = false
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not toml [", "cannot be read"),
        ("format = 99", "has format 99; this version reads format 2"),
        ('format = 1\nscheme = "smoothed"', "has format 1; this version reads format 2"),
        ("format = 2", "describes no scheme"),
        ('format = 2\n[scheme]\nscheme = "quantum"', "unknown scheme 'quantum'"),
        ('format = 2\n[scheme]\nscheme = "smoothed"', "lacks noise"),
        (SMOOTHED, "names no file and fingerprint"),
        (
            f'{SMOOTHED}[networks.base]\nfile = "../net.safetensors"\nfingerprint = "x"',
            "lie in the folder itself",
        ),
        (
            f'{SMOOTHED.replace("10", "7")}[networks.base]\nfile = "base.safetensors"\nfingerprint = "x"',
            "the system has 7 classes, the network 'base' has 10",
        ),
    ],
)
def test_a_damaged_head_is_refused(tmp_path, text, message):
    scheme().save(tmp_path / "system")
    (tmp_path / "system" / "system.toml").write_text(text)
    with pytest.raises(sx.RequestError, match=message):
        sx.load(tmp_path / "system")


def test_what_is_no_system_is_refused(tmp_path):
    with pytest.raises(sx.RequestError, match=r"expected a system folder with a system\.toml"):
        sx.load(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(sx.RequestError, match="choose another folder"):
        scheme().save(tmp_path / "file" / "system")
