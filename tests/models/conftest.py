import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Tests run side by side: threads that wait for each other across processes would slow them a hundredfold."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
