"""Runs of routed systems: cut anywhere they end as one left alone, and another system does not continue them."""

import pytest
import torch
from torch import nn

import sigmax as sx


def linear(seed: int, classes: int, scale: float) -> nn.Module:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, classes))
    with torch.no_grad():
        net[1].weight.mul_(scale)
    return net


def system(rule: str) -> sx.Dual:
    """Experts that share a network, one without noise, and a system within; small batches, so several groups."""
    shared = linear(0, 10, 3.0)
    inner = sx.Dual(
        sx.Smoothed(linear(1, 2, 3.0), sigma=0.5, classes=2, batch=32),
        [sx.Smoothed(shared, sigma=s, classes=10, batch=32) for s in (0.12, 0.5)],
        rule=rule,
    )
    experts = [sx.Smoothed(shared, sigma=0.25, classes=10, batch=32), sx.Lipschitz(shared, 50.0, classes=10), inner]
    return sx.Dual(sx.Smoothed(linear(2, 3, 6.0), sigma=0.5, classes=3, batch=32), experts, rule=rule)


class KilledError(Exception):
    """The run is over before its time."""


@pytest.mark.parametrize("rule", ["min", "consensus"])
def test_a_run_cut_anywhere_ends_as_one_left_alone(tmp_path, rule):
    data, arguments = sx.data.load("digits"), {"n0": 20, "n": 100, "alpha": 0.05, "maximum": 24}
    whole = sx.certify_run(system(rule), data, tmp_path / "whole.jsonl", **arguments)
    outcomes = {record.certificate.outcome for record in whole.records}
    assert len(outcomes) > 1
    assert len({len(record.certificate.stages) for record in whole.records}) > 1  # they end in different rounds
    for cut in (1, 3, 5, 8, 17, 23):
        path = tmp_path / f"{cut}.jsonl"

        def kill(done, total, cut=cut):
            if done == cut:
                raise KilledError

        with pytest.raises(KilledError):
            sx.certify_run(system(rule), data, path, **arguments, watch=kill)
        path.write_bytes(path.read_bytes() + b'{"kind":"input","index":7,"la')  # and a line torn by the kill
        assert len(sx.read(path).records) == cut
        resumed = sx.certify_run(system(rule), data, path, **arguments)
        assert [(r.index, r.certificate) for r in resumed.records] == [(r.index, r.certificate) for r in whole.records]
        assert resumed.finished
        assert sx.verify(path).holds


def test_a_run_of_another_system_is_not_continued(tmp_path):
    data, path = sx.data.load("digits"), tmp_path / "run.jsonl"
    arguments = {"n0": 20, "n": 100, "alpha": 0.05, "maximum": 2}
    sx.certify_run(system("min"), data, path, **arguments)
    with pytest.raises(sx.RequestError, match="rule.rule is 'min' there and 'consensus' here"):
        sx.certify_run(system("consensus"), data, path, **arguments)
    other = system("min")
    other.experts[2].experts[0].voters["base"].model[1].bias.data += 1
    with pytest.raises(sx.RequestError, match="system is .* here .the model's weights or its settings."):
        sx.certify_run(other, data, path, **arguments)
    router, experts = system("min").router, system("min").experts
    hotter = sx.Dual(
        router, [sx.Smoothed(experts[0].voters["base"].model, sigma=0.3, classes=10), *experts[1:]], rule="min"
    )
    with pytest.raises(sx.RequestError, match="rule.experts.0.sigma is 0.25 there and 0.3 here"):
        sx.certify_run(hotter, data, path, **arguments)


def test_the_plan_says_which_part_ran_in_which_precision(tmp_path):
    data, net = sx.data.load("digits"), linear(0, 10, 1.0)

    def mixed(first, second):
        experts = [sx.Smoothed(net, sigma=0.25, classes=10, dtype=kind) for kind in (first, second)]
        return sx.Dual(sx.Smoothed(linear(1, 2, 1.0), sigma=0.5, classes=2), experts)

    arguments = {"n0": 20, "n": 100, "maximum": 2}
    kinds = torch.float32, torch.bfloat16
    run = sx.certify_run(mixed(*kinds), data, tmp_path / "run.jsonl", **arguments)
    assert "expert-1/base: cpu bfloat16" in run.plan.arithmetic
    with pytest.raises(sx.RequestError, match="arithmetic is "):
        sx.certify_run(mixed(*kinds[::-1]), data, tmp_path / "run.jsonl", **arguments)
