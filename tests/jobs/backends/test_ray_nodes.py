"""Nodes of a Ray cluster that come and go: the run ends complete, with the records of one process, each once."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import sigmax as sx
from tests.jobs.backends.helpers import certificates, images, stumbling

INPUTS = 40
PATIENCE = 240.0  # seconds for the whole run
DRIVER = f"""
import sys
import sigmax as sx
from tests.jobs.backends.helpers import images, stumbling
if __name__ == "__main__":
    scheme, data = stumbling(sys.argv[1], seconds=0.05), images({INPUTS})
    sx.certify_run(scheme, data, sys.argv[2], n0=50, n=500, workers=2, backend="ray:" + sys.argv[3])
"""
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def cluster():
    """A cluster whose head has room for the driver and for no worker."""
    pytest.importorskip("ray", reason="needs the extra: pip install 'sigmax[ray]'")
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    yield found
    found.shutdown()


@pytest.mark.slow
def test_nodes_removed_and_added_cost_nothing(tmp_path, cluster):
    """The first two nodes are lost one after the other, each while it has work; the third finishes the run alone."""
    healed, out, script = tmp_path / "healed", tmp_path / "run.jsonl", tmp_path / "driver.py"
    healed.touch()
    script.write_text(DRIVER)
    first, second = (cluster.add_node(num_cpus=1) for _ in range(2))
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    words = [sys.executable, script, healed, out, cluster.address]
    driver = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.PIPE, text=True)
    try:
        before = records_when(driver, out, 2)
        cluster.remove_node(first, allow_graceful=False)
        cluster.add_node(num_cpus=1)
        records_when(driver, out, before + 2)
        cluster.remove_node(second, allow_graceful=False)
        left_with = records(out)
        _, said = driver.communicate(timeout=PATIENCE)
    finally:
        driver.kill()
        driver.wait()
    assert left_with < INPUTS, "each node must be lost during the run"
    assert driver.returncode == 0, said
    shared = sx.read(out)
    assert shared.finished
    assert records(out) == INPUTS
    assert sx.verify(out).holds
    alone = sx.certify_run(stumbling(healed), images(INPUTS), tmp_path / "alone.jsonl", n0=50, n=500)
    assert certificates(shared) == certificates(alone)


def records(out) -> int:
    return out.read_bytes().count(b'{"kind":"input"') if out.exists() else 0


def records_when(driver, out, count) -> int:
    """How many records there are once there are so many."""
    until = time.monotonic() + PATIENCE
    while records(out) < count:
        assert driver.poll() is None, driver.stderr.read()
        assert time.monotonic() < until, f"{records(out)} records of {count}"
        time.sleep(0.05)
    return records(out)
