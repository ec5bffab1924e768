"""Systems kept small, and those that come with the package."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import sigmax as sx
from sigmax import models
from sigmax import systems as system
from sigmax.models import Description
from sigmax.systems import zoo

ZOO = zoo.names()


def network(classes, seed):
    torch.manual_seed(seed)
    return models.create(Description(architecture="small-cnn", classes=classes, input_shape=(1, 8, 8)))


def dual():
    """Two experts over one network, and a router below a router."""
    shared = network(10, 0)
    inner = sx.Dual(
        sx.Smoothed(network(2, 1), sigma=0.5, classes=2),
        [sx.Smoothed(shared, sigma=s, classes=10) for s in (0.25, 0.5)],
    )
    router = sx.Smoothed(network(2, 2), sigma=1.0, classes=2)
    return sx.Dual(router, [inner, sx.Smoothed(network(10, 3), sigma=1.0, classes=10)])


def test_a_system_kept_small_is_the_rounded_system(tmp_path):
    whole, x = dual(), torch.rand(3, 1, 8, 8)
    before = system.fingerprint(whole)
    whole.save(tmp_path / "whole")
    whole.save(tmp_path / "small", store="bf16")
    whole.save(tmp_path / "small", store="bf16")
    assert system.fingerprint(whole) == before, "the scheme itself is left alone"
    small = sx.load(tmp_path / "small")
    assert system.fingerprint(small) != before
    assert small.rule == whole.rule
    assert [path.name for path in sorted((tmp_path / "small").iterdir())] == [
        path.name for path in sorted((tmp_path / "whole").iterdir())
    ], "what is shared is kept once"
    sizes = [sum(path.stat().st_size for path in folder.glob("*.safetensors")) for folder in sorted(tmp_path.iterdir())]
    assert sizes[0] < 0.6 * sizes[1]
    for name, voter in small.voters.items():
        rounded = {
            n: t.bfloat16().float() if t.ndim >= 2 else t for n, t in whole.voters[name].model.state_dict().items()
        }
        assert all(torch.equal(tensor, rounded[n]) for n, tensor in voter.model.state_dict().items())
    small.save(tmp_path / "again", store="bf16")
    assert system.fingerprint(sx.load(tmp_path / "again")) == system.fingerprint(small)
    again = sx.load(tmp_path / "again").certify(x, n0=20, n=200)
    assert again == small.certify(x, n0=20, n=200)
    with pytest.raises(sx.RequestError, match="holds another system"):
        whole.save(tmp_path / "small")


def test_what_may_not_be_rounded_is_refused(tmp_path):
    flat = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    with pytest.raises(sx.RequestError, match="rounded weights may exceed it; keep this system with store='fp32'"):
        sx.Lipschitz(flat, 1.0, classes=10).save(tmp_path / "flat", store="bf16")
    with pytest.raises(sx.RequestError, match="store must be one of fp32, bf16; got 'int8'"):
        dual().save(tmp_path / "small", store="int8")
    with pytest.raises(sx.RequestError, match="cannot be saved: a folder holds registered architectures"):
        sx.Smoothed(flat, sigma=0.5, classes=10).save(tmp_path / "own", store="bf16")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ZOO)
def test_every_system_of_the_zoo_is_whole_small_and_has_a_card(name):
    scheme = sx.load(f"zoo:{name}")
    folder = zoo.folder_of(name)
    card = (folder / "README.md").read_text()
    assert f"zoo:{name}" in card
    assert system.fingerprint(scheme) in card
    assert {path.suffix for path in folder.iterdir()} == {".toml", ".safetensors", ".md"}
    for voter in scheme.voters.values():
        assert all(t.ndim < 2 or torch.equal(t, t.bfloat16().float()) for t in voter.model.state_dict().values())


def test_the_zoo_takes_little_room():
    assert "digits-cascade" in ZOO
    assert sum(path.stat().st_size for path in zoo.folder_of("digits-cascade").iterdir()) < 1e6
    assert sum(path.stat().st_size for path in Path(zoo._home()).rglob("*")) < 26e6


def test_a_name_that_is_not_there_lists_those_that_are():
    for wrong in ("zoo:", "zoo:nothing", "zoo:../zoo/digits-cascade"):
        with pytest.raises(sx.RequestError, match=r"the zoo has no system '.*'; it has .*digits-cascade"):
            sx.load(wrong)


def test_three_lines_certify(tmp_path):
    """In a process of its own, from anywhere: what the card says."""
    code = """
import sigmax as sx
system = sx.load("zoo:digits-cascade")
print([c.predicted for c in system.certify(sx.data.load("digits").pixels([0, 1, 2]), n=1_000)])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    )
    right = sum(
        a == str(b)
        for a, b in zip(done.stdout.strip("[]\n").split(", "), sx.data.load("digits").labels[:3], strict=True)
    )
    assert right >= 2
