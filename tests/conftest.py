"""Settings every test needs, and the way to what only some machines have."""

import os

# Must be set before torch is imported: bf16 products crash on some CPUs otherwise.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
# Tests run side by side: threads of several processes waiting for each other would take all the time.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import math
import signal
from pathlib import Path

import pytest

# Started in the background of a script a process ignores Ctrl-C, and so do its children; but tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of data, weights and logs that lies beside the checkout; the test is skipped without it."""
    if not SHARED.is_dir():
        pytest.skip(f"needs the folder {SHARED.name}/ beside the checkout (CIFAR-10, public weights, field logs)")
    return SHARED


@pytest.fixture(autouse=True)
def every_epoch_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the disk is just now: tests that cut a training short count the epochs that are left."""
    monkeypatch.setattr("sigmax.train.partial.QUICK", math.inf)
