"""Systems as folders: saved, loaded, and refused when they are not what they say."""

import numpy as np
import pytest
import torch
from torch import nn

import sigmax as sx
from sigmax import models
from sigmax.models import Description
from sigmax.system import fingerprint


def classifier(seed: int = 0, **changes) -> nn.Module:
    torch.manual_seed(seed)
    return models.create(
        Description(
            **{"architecture": "small-cnn", "classes": 10, "input_shape": (1, 8, 8), "sigma": 0.5, **changes}
        )
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


def test_own_modules_have_fingerprints_and_functions_must_declare_one():
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

    with pytest.raises(sx.RequestError, match="attribute `fingerprint`"):
        fingerprint(sx.Smoothed(plain, sigma=0.5, classes=10))
    plain.fingerprint = "always class 0"
    assert fingerprint(sx.Smoothed(plain, sigma=0.5, classes=10))


def test_a_module_of_ones_own_is_used_from_python(tmp_path):
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    own = sx.Smoothed(net, sigma=0.5, classes=10)
    with pytest.raises(sx.RequestError, match="only registered architectures"):
        own.save(tmp_path / "system")
    run = sx.certify_run(own, sx.data.load("digits"), tmp_path / "run.jsonl", n=200, maximum=3)
    assert run.finished
    assert sx.verify(run.path).holds


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not toml [", "cannot be read"),
        ("format = 99", "has format 99; this version reads 1"),
        ('format = 1\nscheme = "quantum"', "unknown scheme 'quantum'"),
        ('format = 1\nscheme = "smoothed"', "lacks sigma"),
        (
            'format = 1\nscheme = "smoothed"\nsigma = 0.5\nclasses = 10\nbound = "one-sided"',
            "names no file and fingerprint",
        ),
        (
            'format = 1\nscheme = "smoothed"\nsigma = 0.5\nclasses = 10\nbound = "one-sided"\n'
            '[networks.base]\nfile = "../net.safetensors"\nfingerprint = "x"',
            "lie in the folder itself",
        ),
        (
            'format = 1\nscheme = "smoothed"\nsigma = 0.5\nclasses = 7\nbound = "one-sided"\n'
            '[networks.base]\nfile = "base.safetensors"\nfingerprint = "x"',
            "tells 7 classes apart, its network 'base' 10",
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
