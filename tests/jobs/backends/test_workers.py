"""Several workers: the records of one process, whatever happens to a worker."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import sigmax as sx
from sigmax.jobs.backends.pull import ATTEMPTS
from sigmax.jobs.backends.work import portions
from sigmax.jobs.backends.workers import chosen
from sigmax.jobs.predict import predict_all
from sigmax.records.failed import failed_inputs, failed_path
from tests.jobs.backends.helpers import MARKED, certificates, images, stumbling
from tests.schemes.schemes import TABLE, linear

HOW = {"n0": 50, "n": 500}


@pytest.fixture(params=["local", "ray"])
def backend(request):
    """Each of the backends; Ray keeps one small cluster for all tests."""
    if request.param == "ray":
        ray = pytest.importorskip("ray", reason="needs the extra: pip install 'sigmax[ray]'")
        if not ray.is_initialized():
            # One of its own: a test beside this one may have a cluster too, which would be joined instead.
            ray.init("local", num_cpus=5, log_to_driver=False, logging_level="error", include_dashboard=False)
    return request.param


def test_two_workers_write_the_records_of_one_process(tmp_path):
    scheme, data = TABLE["smoothed"].build(linear(), 10), images()
    alone = sx.certify_run(scheme, data, tmp_path / "alone.jsonl", **HOW)
    shared = sx.certify_run(scheme, data, tmp_path / "shared.jsonl", **HOW, workers=2)
    assert certificates(shared) == certificates(alone)
    assert shared.finished
    assert sx.verify(shared.path).holds


@pytest.mark.slow
@pytest.mark.parametrize("sampling", ["fixed", "adaptive"])
@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("name", ["smoothed", "dual-consensus", "cascade-selective"])
def test_any_scheme_and_any_number_of_workers(tmp_path, backend, name, workers, sampling):
    scheme, data = TABLE[name].build(linear(), 10), images()
    how = {**HOW, "sampling": sampling}
    alone = sx.certify_run(scheme, data, tmp_path / "alone.jsonl", **how)
    shared = sx.certify_run(scheme, data, tmp_path / "shared.jsonl", **how, workers=workers, backend=backend)
    assert certificates(shared) == certificates(alone)
    assert shared.finished
    assert sx.verify(shared.path).holds


@pytest.mark.slow
def test_a_killed_worker_costs_nothing(tmp_path, backend):
    scheme, data = stumbling(tmp_path / "healed", kill=True, once=True), images()
    shared = sx.certify_run(scheme, data, tmp_path / "shared.jsonl", **HOW, workers=2, backend=backend)
    assert (tmp_path / "healed").exists()  # it was killed
    alone = sx.certify_run(scheme, data, tmp_path / "alone.jsonl", **HOW)
    assert certificates(shared) == certificates(alone)
    assert shared.finished


@pytest.mark.slow
@pytest.mark.parametrize("kill", [False, True])
def test_an_input_that_fails_is_left_out_and_tried_again(tmp_path, backend, kill):
    out, data = tmp_path / "run.jsonl", images()
    scheme = stumbling(tmp_path / "healed", kill=kill)
    with pytest.raises(sx.RunError, match=rf"1 of {len(data)} inputs failed {ATTEMPTS} times.*: {MARKED}\..*log"):
        sx.certify_run(scheme, data, out, **HOW, workers=2, backend=backend)
    there = sx.read(out)
    assert not there.finished
    assert {record.index for record in there.records} == set(range(len(data))) - {MARKED}
    assert sx.verify(out).holds
    assert failed_inputs(out) == [MARKED]
    assert kill or "no such picture" in json.loads(failed_path(out).read_text())[0]["trace"]
    (tmp_path / "healed").touch()
    assert sx.certify_run(scheme, data, out, **HOW, workers=2, backend=backend).finished
    assert not failed_path(out).exists()


class Uneven(torch.nn.Module):
    """Takes a while for every bright image of a batch."""

    fingerprint = "uneven"

    def forward(self, batch):
        images = batch.flatten(1)
        time.sleep(4e-4 * int((images.mean(1) > 0.5).sum()))
        return torch.stack([images.mean(1)] * 10, dim=1) + torch.arange(10) / 10


class Watching:
    """Keeps what the progress line says beside the count."""

    note = ""

    def __call__(self, done, total):
        pass


@pytest.mark.slow
def test_uneven_inputs_leave_no_worker_idle_before_the_last_groups(tmp_path, backend):
    """The first third of the inputs takes nearly all the time: one of two workers would get it all if it were split."""
    pixels = images(48).pixels(range(48))
    pixels[:16] = 0.8
    data, watch = sx.data.Dataset("uneven", "test", pixels, np.zeros(48, int), tuple(map(str, range(10)))), Watching()
    scheme = sx.Smoothed(Uneven(), sigma=0.05, classes=10, batch=64)
    how = {**HOW, "n": 1000, "workers": 2, "backend": backend}
    assert sx.certify_run(scheme, data, tmp_path / "run.jsonl", **how, watch=watch).finished
    busy, first, second = map(int, re.match(r"2 workers (\d+)% busy \((\d+) \+ (\d+) inputs", watch.note).groups())
    assert first + second == len(data)
    assert busy >= 75, watch.note


DRIVER = """
import sys
import sigmax as sx
from tests.jobs.backends.helpers import images, stumbling
if __name__ == "__main__":
    scheme = stumbling(sys.argv[1], seconds=0.05)
    sx.certify_run(scheme, images(), sys.argv[2], n0=50, n=500, workers=2)
"""


@pytest.mark.slow
def test_a_killed_driver_goes_on_where_it_was(tmp_path):
    healed, out, script = tmp_path / "healed", tmp_path / "run.jsonl", tmp_path / "driver.py"
    healed.touch()
    script.write_text(DRIVER)
    root = Path(__file__).resolve().parents[3]
    path = os.pathsep.join([str(root), str(root / "src"), os.environ.get("PYTHONPATH", "")])
    driver = subprocess.Popen([sys.executable, script, healed, out], env={**os.environ, "PYTHONPATH": path})
    while not (out.exists() and out.read_bytes().count(b"\n") > 1) and driver.poll() is None:
        time.sleep(0.05)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    assert not sx.read(out).finished
    scheme, data = stumbling(healed), images()
    shared = sx.certify_run(scheme, data, out, **HOW, workers=2)
    assert certificates(shared) == certificates(sx.certify_run(scheme, data, tmp_path / "alone.jsonl", **HOW))


@pytest.mark.slow
def test_predictions_are_those_of_one_process(backend):
    scheme, data = TABLE["smoothed"].build(linear(), 10), images()
    how = {"n": 200, "seed": 5}
    alone = predict_all(scheme, data, range(3, 20), **how)
    assert predict_all(scheme, data, range(3, 20), **how, workers=2, backend=backend) == alone
    assert alone == scheme.predict(data.pixels(range(3, 20)), **how, ids=range(3, 20))


def test_a_scheme_with_a_memory_is_refused(tmp_path):
    scheme = TABLE["memorized"].build(linear(), 10)
    with pytest.raises(sx.RequestError, match="memory.*cannot be shared by workers"):
        sx.certify_run(scheme, images(2), tmp_path / "run.jsonl", **HOW, workers=2)
    assert not (tmp_path / "run.jsonl").exists()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ((0, "local", None), "at least 1"),
        ((2, "slurm", None), "'local', 'ray'"),
        ((2, "local", 2.0), "from 0 to 1"),
        ((None, "local", 0.5), "how many"),
    ],
)
def test_requests_that_make_no_sense(asked, message):
    with pytest.raises(sx.RequestError, match=message):
        chosen(*asked)


def test_without_ray_the_install_command_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    scheme = TABLE["smoothed"].build(linear(), 10)
    with pytest.raises(sx.RequestError, match=r"pip install 'sigmax\[ray\]'"):
        sx.certify_run(scheme, images(2), tmp_path / "run.jsonl", **HOW, backend="ray")
    assert not (tmp_path / "run.jsonl").exists()


OWN_CLUSTER = """
import os, sys
if sys.argv[1] == "early":
    import ray
import sigmax as sx
from tests.jobs.backends.helpers import images
from tests.schemes.schemes import TABLE, linear
if __name__ == "__main__":
    scheme = TABLE["smoothed"].build(linear(), 10)
    sx.certify_run(scheme, images(3), sys.argv[2], n0=50, n=500, workers=1, backend="ray")
    print(os.environ["RAY_AUTH_MODE"])
"""


@pytest.mark.slow
@pytest.mark.parametrize("imported", ["early", "late"])
def test_the_cluster_that_is_started_has_a_token(tmp_path, imported):
    pytest.importorskip("ray", reason="needs the extra: pip install 'sigmax[ray]'")
    (tmp_path / "own.py").write_text(OWN_CLUSTER)
    root = Path(__file__).resolve().parents[3]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    path = os.pathsep.join([str(root), str(root / "src"), os.environ.get("PYTHONPATH", "")])
    how = {"env": {**kept, "PYTHONPATH": path, "HOME": str(tmp_path)}, "capture_output": True, "text": True}
    command = [sys.executable, tmp_path / "own.py", imported, tmp_path / "run.jsonl"]
    done = subprocess.run(command, **how, check=False)
    assert done.stdout.strip() == "token", done.stderr
    assert (tmp_path / ".ray" / "auth_token").exists()


def test_a_model_that_cannot_be_sent_is_refused(tmp_path):
    net = linear()

    def model(batch):
        return net(batch)

    model.fingerprint = "a function within a function"
    scheme = sx.Smoothed(model, sigma=0.5, classes=10)
    with pytest.raises(sx.RequestError, match="must be picklable"):
        sx.certify_run(scheme, images(2), tmp_path / "run.jsonl", **HOW, workers=2)


def test_portions_hold_every_result_and_all_the_time():
    assert [results for results, _ in portions([1, 2], seconds=100.0)] == [[1, 2]]
    assert [results for results, _ in portions([1, 2], seconds=0.0)] == [[1], [2], []]


def test_nothing_slow_is_imported_before_it_is_needed():
    code = "import sys, sigmax, sigmax.bounds; print([m for m in ('ray', 'torch', 'pandas') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
