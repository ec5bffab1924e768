"""What lets many searches share a GPU, as far as a CPU can tell."""

from types import SimpleNamespace

import pytest
import torch

import sigmax as sx
from sigmax.jobs.attack.climb import Climb, _aims, _climbed, _filled, climbed
from sigmax.jobs.attack.margins import margins
from sigmax.jobs.attack.together import few_threads
from tests.jobs.attack.problems import halfplane


def climb(second, radius=0.1):
    """In images of two pixels, of which the first decides."""
    x = torch.tensor([[[0.4, second]]])
    return Climb(x, torch.stack([x, x + 0.01, x - 0.01]), 0, radius)


@pytest.mark.parametrize("size", [1, 3, 8, 21])
def test_climbs_go_in_batches_of_two_sizes(size):
    """Each climb once, in order; what fills a batch up stands behind them."""
    for count in range(1, 3 * size + 2):
        climbs, sizes = [climb(i / 100) for i in range(count)], set()
        left = climbs
        while left:
            batch = _filled(left, size)
            sizes.add(len(batch))
            assert all(a is b for a, b in zip(batch, left, strict=False))
            assert all(one is left[-1] for one in batch[len(left) :])
            left = left[len(batch) :]
        assert sizes <= {size, max(1, size // 4)}


def test_a_climb_ends_on_the_edge_of_its_ball_whatever_it_is_batched_with():
    scheme, climbs = halfplane(), [climb(0.3), climb(0.5, radius=0.2), climb(0.7)]
    how = {"steps": 10, "samples": 4, "generator": torch.Generator().manual_seed(0)}
    filled = _climbed(margins(scheme, 4, how["generator"]), _filled(climbs, 5), 10, torch.device("cpu"), (0.0, 1.0))
    for points in (climbed(scheme, climbs, **how), torch.split(filled, 3)[:3]):
        for one, ends in zip(climbs, points, strict=True):
            assert ends.shape == one.starts.shape
            assert (ends[:, 0, 0, 0] - 0.4).tolist() == pytest.approx([one.radius] * 3, rel=0.05)


def test_each_start_aims_at_another_class():
    """The first at any but the certified one, the others at the nearest in turn; margins are those at the first."""
    heights = torch.tensor([[9.0, 1.0, 3.0, 2.0], [0.0] * 4, [0.0] * 4, [5.0, 4.0, 8.0, 1.0], [0.0] * 4])
    aims = _aims(heights, torch.tensor([0, 3]), torch.tensor([0, 0, 0, 1, 1]), torch.tensor([0, 2]))
    assert [row.nonzero()[:, 0].tolist() for row in aims] == [[1, 2, 3], [2], [3], [0, 1, 3], [0]]
    two = _aims(torch.tensor([[2.0, 1.0]] * 3), torch.tensor([0]), torch.zeros(3, dtype=torch.long), torch.tensor([0]))
    assert [row.nonzero()[:, 0].tolist() for row in two] == [[1], [1], [1]]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_host_keeps_its_threads_for_networks_on_a_cpu_alone(device):
    before, voter = torch.get_num_threads(), SimpleNamespace(device=torch.device(device))
    torch.set_num_threads(2)
    try:
        with few_threads(SimpleNamespace(voters={"base": voter})):
            within = torch.get_num_threads()
        assert (within, torch.get_num_threads()) == (2 if device == "cpu" else 1, 2)
    finally:
        torch.set_num_threads(before)


def test_a_search_that_ends_is_logged_before_the_others_go_on(tmp_path):
    """A kill loses the searches under way alone."""
    near, far = torch.full((1, 1, 2), 0.45), torch.full((1, 1, 2), 0.0)
    data = sx.data.as_dataset((torch.stack([far, near]).numpy(), [0, 0]), classes=2)
    scheme, out = halfplane(), tmp_path / "attack"
    run = sx.certify_run(scheme, data, tmp_path / "run.jsonl", n=200)
    lines = []

    def seen(row):
        lines.append((row.index, len((out / "attack.jsonl").read_bytes().splitlines())))

    sx.attack_run(run, scheme, data, out, options=sx.Attack(steps=4, walk=1, n=200), together=2, seen=seen)
    assert [count for _, count in lines] == [2, 3]
