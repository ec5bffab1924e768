"""Two real processes, by torchrun and gloo on the CPU, against one. What they do is in team.py."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from sigmax.errors import RequestError
from sigmax.train.loop.distributed import ALONE, Team, local_device
from tests.train.loop import team

SCRIPT = Path(__file__).with_name("team.py")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
RAN = "copies", "memory"


def run(folder, *command, fails=False):
    """What the command says. It is ended, with the processes it started, if it takes too long."""
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, env=one_thread, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            said, errors = process.communicate(timeout=300)
        except BaseException:
            process.terminate()
            raise
    assert (process.returncode != 0) == fails, errors
    return said


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The folder of all runs, and what the two processes said of those that failed."""
    folder, here = tmp_path_factory.mktemp("team"), Path.cwd()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    team.main(folder, "whole")  # alone, in this process
    os.chdir(here)
    torch.set_num_threads(threads)
    said = run(folder, *TORCHRUN, SCRIPT, folder, "whole")
    return folder, [json.loads(line) for line in said.splitlines() if line.startswith("[")]


@pytest.mark.slow
@pytest.mark.parametrize("name", RAN)
def test_two_processes_train_what_one_trains(ran, name):
    """Equal but for the order in which floats are summed: they differ by 7e-7 at most."""
    folder, _ = ran
    one, two = (load_file(folder / which / f"{name}.safetensors") for which in ("alone", "0"))
    assert set(one) == set(two)
    for key, tensor in one.items():
        assert torch.allclose(tensor.double(), two[key].double(), rtol=0, atol=1e-5), key
    one, two = (
        [json.loads(line) for line in (folder / which / f"{name}.safetensors.metrics.jsonl").read_text().splitlines()]
        for which in ("alone", "0")
    )
    assert [line["epoch"] for line in two] == [1, 2, 3]
    for mine, theirs in zip(one, two, strict=True):
        assert theirs["loss"] == pytest.approx(mine["loss"], rel=1e-4)
        assert theirs["accuracy"] == pytest.approx(mine["accuracy"], abs=0.011)
        assert theirs["validation"].keys() == mine["validation"].keys()


@pytest.mark.slow
def test_a_killed_team_goes_on_and_ends_with_the_same_bits(tmp_path):
    """The first process is killed in the third epoch, and torchrun ends the second."""
    run(tmp_path, *TORCHRUN, SCRIPT, tmp_path, "cut", fails=True)
    assert (tmp_path / "0" / "cut.safetensors.partial").exists()
    assert not (tmp_path / "0" / "cut.safetensors").exists()
    run(tmp_path, *TORCHRUN, SCRIPT, tmp_path, "resume")
    assert (tmp_path / "0" / "cut.safetensors").read_bytes() == (tmp_path / "0" / "uncut.safetensors").read_bytes()


@pytest.mark.slow
def test_what_a_method_remembers_of_examples_is_shared(ran):
    folder, _ = ran
    one, first, second = (np.load(folder / which / "losses.npy") for which in ("alone", "0", "1"))
    assert np.array_equal(first, second)
    assert first == pytest.approx(one, rel=1e-3, abs=1e-4)
    assert (first > 0).all()


@pytest.mark.slow
def test_only_the_first_process_touches_files(ran):
    folder, _ = ran
    assert [path.name for path in (folder / "1").iterdir()] == ["losses.npy"]
    assert not list((folder / "0").glob(".*"))
    left = sorted(path.name for path in (folder / "0").glob("*.partial"))
    assert left == ["broken.safetensors.partial"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "part"),
    [
        ("broken", "RunError", "the loss became nan in epoch 2: training diverged at step"),
        ("broken", "RunError", "holds the state after an earlier epoch"),
        ("copies", "RequestError", "exists and was made by another run"),
        ("normalised", "RequestError", "batch normalisation cannot be trained by several CPU processes"),
        ("small", "RequestError", "2 processes cannot share a batch of 1 images"),
    ],
)
def test_they_fail_together_and_say_the_same(ran, name, kind, part):
    """Also where the reason shows in one of them alone."""
    said = [one for one in ran[1] if one[0] == name]
    assert sorted(rank for _, rank, _, _ in said) == ["0", "1"]
    assert {type_ for _, _, type_, _ in said} == {kind}
    assert len({message for *_, message in said}) == 1
    assert part in said[0][3]


def test_shares_are_equal_and_lie_side_by_side():
    shares = [Team(rank, 3).share(11) for rank in range(3)]
    assert [(share.first, share.last) for share in shares] == [(0, 3), (3, 7), (7, 11)]
    means = torch.tensor([share.last - share.first for share in shares]) / 11
    loss = torch.tensor(2.0)
    assert [Team(k, 3).weighed(loss, shares[k]).item() / 6 for k in range(3)] == pytest.approx(means.tolist())
    assert ALONE.weighed(loss, ALONE.share(11)) is loss
    with pytest.raises(RequestError, match="3 processes cannot share a batch of 2 images; start fewer"):
        Team(0, 3).share(2)


def test_each_process_has_a_gpu_of_its_own(monkeypatch):
    assert local_device(torch.device("cuda:1")) == torch.device("cuda:1")
    for name, value in (("WORLD_SIZE", "2"), ("RANK", "1"), ("LOCAL_RANK", "1"), ("MASTER_ADDR", "localhost")):
        monkeypatch.setenv(name, value)
    assert local_device(torch.device("cpu")) == torch.device("cpu")
    with pytest.raises(RequestError, match='use device "cuda", not "cuda:1"'):
        local_device(torch.device("cuda:1"))
