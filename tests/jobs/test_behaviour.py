"""A run belongs to what its networks compute, not to their weights alone."""

import numpy as np
import pytest
import torch
from torch import nn

import sigmax as sx
from sigmax.engine.probes import behaviour, probe_inputs
from sigmax.engine.voter import Voter
from sigmax.errors import RequestError
from sigmax.jobs.certify import arithmetic
from sigmax.request import differing

ASKED = {"n0": 10, "n": 50}
IMAGES = np.random.default_rng(0).random((6, 1, 4, 4), dtype=np.float32)
DATA = sx.data.Dataset("grey", "test", IMAGES, np.zeros(6, np.int64), ("a", "b", "c"))


def network(forward, **attributes):
    """A module of one class, one printed form and one set of weights, whatever it computes with them."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.linear = nn.Linear(16, 3)
            self.mean, self.deviation = attributes.get("normalisation", (0.5, 0.25))

        def forward(self, x):
            return forward(self.linear, (x.flatten(1) - self.mean) / self.deviation)

    Net.__qualname__ = "Net"
    return sx.Smoothed(Net(), sigma=0.25, classes=3)


def plain(linear, x):
    return linear(x)


ORIGINAL = network(plain)
OTHERS = {
    "another forward": network(lambda linear, x: linear(x).roll(1, dims=1)),
    "a clamp": network(lambda linear, x: linear(x.clamp(-1.9, 1.9))),
    "another normalisation": network(plain, normalisation=(0.5, 0.26)),
}


def begun(path):
    """A run of which nothing but the plan is there."""
    sx.certify_run(ORIGINAL, DATA, path, **ASKED)
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])


def cut(path):
    sx.certify_run(ORIGINAL, DATA, path, **ASKED)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:4]))


def finished(path):
    sx.certify_run(ORIGINAL, DATA, path, **ASKED)


@pytest.mark.parametrize("state", [begun, cut, finished])
@pytest.mark.parametrize("other", OTHERS)
def test_a_run_is_not_taken_up_with_a_network_that_computes_something_else(state, other, tmp_path):
    run = tmp_path / "run.jsonl"
    state(run)
    before = run.read_bytes()
    assert sx.systems.fingerprint(OTHERS[other]) == sx.systems.fingerprint(ORIGINAL), "the weights cannot tell"
    with pytest.raises(RequestError, match=r"another plan: behaviour\.base differs by .* its code or its norm"):
        sx.certify_run(OTHERS[other], DATA, run, **ASKED)
    assert run.read_bytes() == before
    sx.certify_run(network(plain), DATA, run, **ASKED)
    assert sx.verify(run).holds


def test_a_plain_function_is_known_by_its_behaviour_and_the_plan_says_so(tmp_path):
    def function(shift):
        return sx.Smoothed(lambda x: ((x.flatten(1).sum(1) + shift) * 2).long() % 3, sigma=0.25, classes=3)

    run = sx.certify_run(function(0.0), DATA, tmp_path / "run.jsonl", **ASKED)
    assert run.plan.made_with["known_by_behaviour_alone"] == ["base"]
    assert len(run.plan.behaviour["base"]["outputs"]) == 32
    assert sx.certify_run(function(0.0), DATA, tmp_path / "run.jsonl", **ASKED).finished
    with pytest.raises(RequestError, match=r"another plan: behaviour\.base differs"):
        sx.certify_run(function(0.05), DATA, tmp_path / "run.jsonl", **ASKED)
    assert "known_by_behaviour_alone" not in sx.jobs.certify.made_with(ORIGINAL)


def test_a_memory_and_labels_belong_to_what_was_run(tmp_path):
    run = sx.certify_run(ORIGINAL, DATA, tmp_path / "run.jsonl", **ASKED)
    sx.jobs.certify.recall_run(network(plain), run, DATA)
    with pytest.raises(RequestError, match=r"behaviour\.base differs"):
        sx.jobs.certify.recall_run(OTHERS["another forward"], run, DATA)
    sx.jobs.label.make_labels([ORIGINAL], DATA, tmp_path / "labels", n=50, n0=10)
    with pytest.raises(RequestError, match=r"experts\.expert-0\.behaviour\.base differs"):
        sx.jobs.label.make_labels([OTHERS["another forward"]], DATA, tmp_path / "labels", n=50, n0=10)


@pytest.mark.parametrize("shape", [(7,), (1, 8, 8), (3, 32, 32)])
def test_probes_are_images_and_the_same_whenever_they_are_made(shape):
    probes = probe_inputs(shape)
    assert probes.shape == (4, *shape)
    assert probes.min() >= 0
    assert probes.max() <= 1
    assert torch.equal(probes, probe_inputs(shape))
    assert len(np.unique(probes.numpy(), axis=0)) == 4


def test_precision_layout_and_batch_move_no_behaviour_beyond_its_tolerance():
    level = sx.load("zoo:cifar10-cascade").levels[0].voters["base"]
    recorded = behaviour(level, (3, 32, 32), 0.86)
    assert sum(map(abs, recorded["outputs"])) > 1
    voter = Voter(level.model, classes=level.classes, dtype="bf16", batch=7, compile=True)
    voter.lay_out(torch.contiguous_format)
    with torch.autocast("cpu", torch.bfloat16):
        again = behaviour(voter, (3, 32, 32), 0.86)
    assert differing({"base": recorded}, {"base": again}) == []


def test_class_ids_are_compared_exactly():
    one, other = (
        behaviour(Voter(lambda x, k=k: (x.flatten(1).sum(1).long() + k) % 3, classes=3), (4,), 0.1) for k in (0, 1)
    )
    assert differing({"base": one}, {"base": other}) == ["base"]


def test_what_torch_may_round_is_part_of_the_arithmetic():
    assert arithmetic(ORIGINAL) == "cpu float32"
    try:
        torch.set_float32_matmul_precision("medium")
        assert arithmetic(ORIGINAL) == "cpu float32 (bf16 matrix products)"
    finally:
        torch.set_float32_matmul_precision("highest")
    ORIGINAL.voters["base"].device = torch.device("cuda")
    try:
        assert arithmetic(ORIGINAL) == "cuda float32 (tf32 convolutions)"
        torch.backends.cudnn.allow_tf32 = False
        assert arithmetic(ORIGINAL) == "cuda float32"
        torch.backends.cuda.matmul.allow_tf32 = True
        assert arithmetic(ORIGINAL) == "cuda float32 (tf32 matrix products)"
    finally:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = True, False
        ORIGINAL.voters["base"].device = torch.device("cpu")
