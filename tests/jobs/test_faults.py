"""A model that fails on some inputs, or a device that runs out of memory: nothing done is lost, nothing is wrong."""

import numpy as np
import pytest
import torch
from torch import nn

import sigmax as sx

BRIGHT = 10  # the input that breaks the model


class Faulty(nn.Module):
    """A linear network with a fault that can be switched on; the trial's inputs are no brighter, or far brighter."""

    fault, calls = "", 0

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(16, 3)

    def forward(self, batch):
        logits, mean = self.linear(batch.flatten(1)), batch.flatten(1).mean(1)
        bright = (mean > 0.95) & (mean < 1.05)
        self.calls += 1
        if (self.fault == "late memory" and self.calls > 25) or (self.fault == "large batches" and len(batch) > 40):
            raise torch.OutOfMemoryError("out of memory")
        if bright.any() and self.fault == "raises":
            raise ZeroDivisionError("a lamp broke")
        if bright.any() and self.fault == "shape":
            return logits[:, :2]
        return torch.where(bright[:, None], torch.nan, logits) if self.fault == "nan" else logits


@pytest.fixture(scope="module")
def data():
    images = np.random.default_rng(0).random((24, 1, 4, 4), dtype=np.float32)
    images[BRIGHT] = 0.999
    return images, np.zeros(24, dtype=np.int64)


def certified(out, data, fault):
    model = Faulty()
    model.fault = fault
    return sx.certify_run(sx.Smoothed(model, sigma=0.05, classes=3, batch=128), data, out, n0=20, n=300)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("raises", "ZeroDivisionError: a lamp broke"),
        ("nan", "NaN logits"),
        ("shape", "returns 2 logits"),
        ("late memory", "A smaller --batch needs less memory"),
    ],
)
def test_a_fault_ends_the_run_in_words_and_the_run_goes_on(fault, said, data, tmp_path):
    with pytest.raises(sx.RunError, match=rf"(?s){said}.*is safe.*--workers 1"):
        certified(tmp_path / "run.jsonl", data, fault)
    kept = sx.read(tmp_path / "run.jsonl").records
    assert sx.verify(tmp_path / "run.jsonl").holds
    assert fault != "late memory" or kept
    again, whole = (certified(tmp_path / name, data, "") for name in ("run.jsonl", "whole.jsonl"))
    assert [one.certificate for one in again.records] == [one.certificate for one in whole.records]
    assert again.records[: len(kept)] == kept


def test_where_large_batches_do_not_fit_smaller_ones_give_the_same_records(data, tmp_path):
    small, whole = (certified(tmp_path / f"{fault}.jsonl", data, fault) for fault in ("large batches", ""))
    assert [one.certificate for one in small.records] == [one.certificate for one in whole.records]
