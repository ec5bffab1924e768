import numpy as np
import pytest
import torch

from sigmax.data import Dataset


@pytest.fixture(autouse=True)
def one_thread():
    """Tests run side by side: threads that wait for each other across processes would slow them a hundredfold."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def bars():
    """Sixty images of a bright row; which row it is, is the class. Learned in a few epochs."""
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    images = rng.uniform(0, 0.3, (60, 1, 8, 8)).astype(np.float32)
    images[np.arange(60), 0, 2 * labels + 1] = 1.0
    return Dataset(name="bars", split="train", images=images, labels=labels, classes=("low", "middle", "high"))
