"""Every job refuses what is no scheme before anything else, and says what a scheme is."""

import numpy as np
import pytest
from torch import nn

import sigmax as sx
from sigmax.jobs.predict import predict_all
from sigmax.systems import save

DATA = sx.data.Dataset("grey", "test", np.zeros((2, 1, 4, 4), np.float32), np.zeros(2, np.int64), ("a", "b"))
JOBS = {
    "certify": lambda given, folder: sx.certify_run(given, DATA, folder / "run.jsonl"),
    "attack": lambda given, folder: sx.attack_run(folder / "run.jsonl", given, DATA, folder / "attack"),
    "predict": lambda given, _: predict_all(given, DATA, [0]),
    "recall": lambda given, _: sx.recall_run(given, None, DATA),
    "save": lambda given, folder: save(given, folder / "system"),
}


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize(
    ("given", "got"),
    [
        (nn.Linear(16, 2), "Linear"),
        (DATA, "Dataset"),
        (sx.Smoothed, "the class Smoothed, not an object of it"),
        ("systems/half", "'systems/half'; sx.load reads a system's folder"),
    ],
)
def test_what_is_no_scheme_is_refused(job, given, got, tmp_path):
    with pytest.raises(sx.RequestError) as caught:
        JOBS[job](given, tmp_path)
    expected = "expected a scheme such as sx.Smoothed(model, sigma=0.5, classes=10)"
    assert str(caught.value) == f"{expected}; got {got}"
    assert not any(tmp_path.iterdir())
