"""Settings every test needs, and the way to what only some machines have."""

import os

# Must be set before torch is imported: bf16 products crash on some CPUs otherwise.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
# Tests run side by side: threads of several processes waiting for each other would take all the time.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import math
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from sigmax.config.plugins import plugins
from sigmax.data import Dataset
from sigmax.data import registry as sources
from sigmax.models.architectures import registry as architectures
from sigmax.noise import sampler
from sigmax.train.methods import registry as methods

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
    monkeypatch.setattr("sigmax.train.loop.partial.QUICK", math.inf)


@pytest.fixture(autouse=True)
def one_thread():
    """Tests run side by side: threads that wait for each other across processes would slow them a hundredfold."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def registrations_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Methods, sources, networks and noises that the test registers are unknown to the tests after it."""
    methods.known()  # those of the package are registered once, when they are first asked for
    for module, name in [
        (methods, "_METHODS"),
        (sources, "_SOURCES"),
        (architectures, "_architectures"),
        (sampler, "_samplers"),
    ]:
        monkeypatch.setattr(module, name, dict(getattr(module, name)))
    yield
    plugins.cache_clear()


@pytest.fixture(scope="session")
def bars():
    """Sixty images of a bright row; which row it is, is the class. Learned in a few epochs."""
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    images = rng.uniform(0, 0.3, (60, 1, 8, 8)).astype(np.float32)
    images[np.arange(60), 0, 2 * labels + 1] = 1.0
    return Dataset(name="bars", split="train", images=images, labels=labels, classes=("low", "middle", "high"))
