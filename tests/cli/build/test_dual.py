"""`sigmax build dual`: a router and its experts as one folder."""

import numpy as np
import pytest
import torch

import sigmax as sx
from sigmax import models
from sigmax.models import Description
from sigmax.systems import fingerprint

SIGMAS = (0.25, 0.5)


@pytest.fixture(scope="module")
def experts(trained, tmp_path_factory):
    """One network under two noises, as two folders."""
    folder = tmp_path_factory.mktemp("experts")
    model = sx.load(trained / "system").voters["base"].model
    return [sx.Smoothed(model, sigma=s, classes=10).save(folder / f"sigma-{s}") for s in SIGMAS]


def router(path, routes=2, *, sigma=0.5, trained_for=None):
    torch.manual_seed(0)
    notes = {} if trained_for is None else {"router": {"experts": trained_for}}
    network = models.create(
        Description(
            architecture="small-cnn",
            classes=routes,
            input_shape=(1, 8, 8),
            options={"width": 4},
            sigma=sigma,
            notes=notes,
        )
    )
    return models.save(path / "router.safetensors", network)


def test_router_and_experts_become_one_system(experts, tmp_path, sigmax):
    net = router(tmp_path, trained_for=[fingerprint(sx.load(expert)) for expert in experts])
    built = sigmax("build", "dual", net, *experts, "--out", tmp_path / "dual")
    assert built.returncode == 0, built.stderr
    assert built.stderr == ""
    assert "Dual(consensus, router sigma 0.5, experts 0.25 / 0.5, 10 classes)" in built.stdout
    system, model = sx.load(tmp_path / "dual"), models.load(net)[0]
    assert fingerprint(system) == fingerprint(
        sx.Dual(sx.Smoothed(model, sigma=0.5, classes=2), [sx.load(expert) for expert in experts])
    )
    assert sorted(path.name for path in (tmp_path / "dual").iterdir()) == [
        "expert-0.safetensors",
        "router.safetensors",
        "system.toml",
    ]
    words = ["--data", "digits", "--max", 3, "--n", 200, "--out", tmp_path / "run.jsonl"]
    certified = sigmax("certify", tmp_path / "dual", *words)
    assert certified.returncode == 0, certified.stderr
    assert sigmax("verify", tmp_path / "run.jsonl").returncode == 0
    again = sigmax("build", "dual", net, *experts, "--out", tmp_path / "dual")
    assert again.returncode == 0, "the very same system may be built again"
    other = sigmax("build", "dual", net, *experts, "--rule", "min", "--out", tmp_path / "dual")
    assert other.returncode == 2
    assert "holds another system" in other.stderr
    assert sx.load(tmp_path / "dual").combination == "consensus"


def test_rule_and_noise_can_be_chosen(experts, tmp_path, sigmax):
    net = router(tmp_path)
    built = sigmax("build", "dual", net, *experts, "--rule", "min", "--sigma", 1, "--out", tmp_path / "dual")
    assert built.returncode == 0, built.stderr
    assert "was trained with sigma 0.5 and is smoothed with sigma 1." in built.stdout
    system = sx.load(tmp_path / "dual")
    assert (system.combination, system.router.sigma) == ("min", 1.0)


def test_a_dual_system_may_be_an_expert(experts, tmp_path, sigmax):
    net = router(tmp_path)
    assert sigmax("build", "dual", net, *experts, "--out", tmp_path / "inner").returncode == 0
    built = sigmax("build", "dual", net, experts[0], tmp_path / "inner", "--out", tmp_path / "tree")
    assert built.returncode == 0, built.stderr
    tree = sx.load(tmp_path / "tree")
    assert [type(expert).__name__ for expert in tree.experts] == ["Smoothed", "Dual"]
    x = sx.data.load("digits", "test").pixels(range(3))
    assert np.isfinite([certificate.radius for certificate in tree.certify(x, n=200)]).all()


def test_a_router_trained_for_other_experts_is_noted(experts, tmp_path, sigmax):
    prints = [fingerprint(sx.load(expert)) for expert in experts]
    net = router(tmp_path, trained_for=[prints[0], "another"])
    other = sigmax("build", "dual", net, *experts, "--out", tmp_path / "other")
    assert other.returncode == 0
    assert "note: the router was trained on labels of other experts" in other.stderr
    silent = sigmax("build", "dual", router(tmp_path), *experts, "--out", tmp_path / "silent")
    assert "note:" not in silent.stderr, "a network without notes is no reason to worry"


def test_experts_in_another_order_than_the_routers_are_refused(experts, tmp_path, sigmax):
    net = router(tmp_path, trained_for=[fingerprint(sx.load(expert)) for expert in experts])
    turned = sigmax("build", "dual", net, *reversed(experts), "--out", tmp_path / "turned")
    assert turned.returncode == 2
    assert f"in another order; give them as {experts[0]} {experts[1]}" in turned.stderr
    assert not (tmp_path / "turned").exists()


def test_too_little_noise_of_the_router_is_warned_of(experts, tmp_path, sigmax):
    words = ["build", "dual", router(tmp_path, sigma=0.3), *experts, "--out", tmp_path / "dual"]
    built = sigmax(*words)
    assert built.returncode == 0
    assert built.stderr.count("warning: the router's sigma 0.3 is below the largest sigma of its experts, 0.5") == 1
    assert "UserWarning" not in built.stderr


def test_noise_beyond_the_pixels_is_warned_of(trained, tmp_path, sigmax):
    built = sigmax("build", "smoothed", trained / "net.safetensors", "--sigma", 25, "--out", tmp_path / "loud")
    assert built.returncode == 0
    assert "warning: sigma 25 is 25 times the pixel range [0, 1]; did you mean 0.25?" in built.stderr


def test_bad_requests_end_with_code_2(experts, trained, tmp_path, sigmax):
    net, silent = router(tmp_path), tmp_path / "silent"
    silent.mkdir()
    unknown = router(silent, sigma=None)
    small = sx.Smoothed(models.load(net)[0], sigma=0.5, classes=2).save(tmp_path / "two-classes")
    for words, named in (
        ([net, experts[0]], "the router has 2 routes, but there are 1 experts"),
        ([net, *experts, experts[0]], "the router has 2 routes, but there are 3 experts"),
        ([net, experts[0], small], "10, 2"),
        ([net, experts[0], tmp_path / "absent"], "expected a system folder"),
        ([net, experts[0], trained / "net.safetensors"], "is the file of a network; make a system of it"),
        ([tmp_path / "absent.safetensors", *experts], "there is no checkpoint"),
        ([experts[0], *experts], "is a system folder; the router is a checkpoint (NAME.safetensors)"),
        ([silent, *experts], "is a folder; the router is a checkpoint (NAME.safetensors)"),
        ([trained / "net.safetensors", *experts], "net.safetensors a router? It was trained as a classifier"),
        ([unknown, *experts], "does not say which noise it was trained with; give --sigma"),
        ([net, *experts, "--sigma", -1], "sigma must be a positive number"),
        ([net, *experts, "--rule", "max"], "Invalid value for '--rule'"),
        ([net], "Missing argument"),
    ):
        refused = sigmax("build", "dual", *words, "--out", tmp_path / "dual")
        assert refused.returncode == 2, words
        assert named in refused.stderr
        assert "Traceback" not in refused.stderr
        assert not (tmp_path / "dual").exists()


def test_a_system_kept_small_certifies_from_its_folder(experts, trained, tmp_path, sigmax):
    net = router(tmp_path)
    for words in (("dual", net, *experts), ("smoothed", trained / "net.safetensors", "--sigma", 0.5)):
        out = tmp_path / words[0]
        built = sigmax("build", *words, "--store", "bf16", "--out", out)
        assert built.returncode == 0, built.stderr
        run = ("--data", "digits", "--max", 2, "--n", 100, "--out", tmp_path / f"{words[0]}.jsonl")
        assert sigmax("certify", out, *run).returncode == 0
        assert sx.read(tmp_path / f"{words[0]}.jsonl").plan.system == fingerprint(sx.load(out))
        whole = sigmax("build", *words, "--out", out)
        assert whole.returncode == 2
        assert "holds another system" in whole.stderr
