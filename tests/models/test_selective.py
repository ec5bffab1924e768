"""A selective model: which votes it casts, what it takes over from the model inside, and what is refused."""

import pytest
import torch

import sigmax as sx
from sigmax import models
from sigmax.errors import RequestError
from sigmax.models import Description


@pytest.fixture
def classifier():
    torch.manual_seed(0)
    shape = {"classes": 10, "input_shape": (1, 8, 8)}
    return models.create(Description(architecture="small-cnn", options={"width": 4}, **shape, sigma=0.4))


@pytest.mark.parametrize("confidence", [0.05, 0.3, 0.6, 0.999])
def test_it_votes_as_the_model_where_that_is_confident_and_to_defer_elsewhere(classifier, confidence):
    x = 30 * torch.randn(1000, 1, 8, 8)
    with torch.no_grad():
        p = classifier(x).double().softmax(dim=1)
        votes = models.selective(classifier, confidence=confidence)(x).argmax(dim=1)
    expected = torch.where(p.amax(dim=1) >= confidence, p.argmax(dim=1), 10)
    clear = (p.amax(dim=1) - confidence).abs() > 1e-6
    assert torch.equal(votes[clear], expected[clear])
    assert clear.sum() > 900


def test_a_model_that_is_certain_answers():
    inf = float("inf")
    logits = torch.tensor([[1000.0, 0.0, -1000.0], [0.0, inf, 0.0], [-inf, -inf, 3.0], [0.0, 0.0, 0.0]])
    found = models.selective(torch.nn.Identity(), confidence=0.9)(logits)
    assert found.argmax(dim=1).tolist() == [0, 1, 2, 3]
    assert not found.isnan().any()


def test_votes_to_defer_have_a_column_of_their_own(classifier):
    f = sx.Smoothed(models.selective(classifier, confidence=0.6), sigma=0.4, classes=10)
    assert (f.classes, f.rule.columns, f.rule.defers) == (10, 11, True)
    (c,) = f.certify(torch.rand(1, 1, 8, 8), n0=20, n=100, alpha=0.01)
    assert all(len(stage.counts) == 11 for stage in c.stages)
    assert (c.predicted, c.outcome) == (None, sx.Outcome.NO_MAJORITY)  # untrained, it is confident of nothing
    assert f.predict(torch.rand(1, 1, 8, 8), n=100, seed=0)[0].outcome is sx.Outcome.NO_MAJORITY


def test_sigma_reaches_the_model_inside():
    class Net:
        takes_sigma = True

        def __call__(self, batch, sigma):
            return torch.zeros(len(batch), 2) + torch.tensor([0.0, 10.0 * (sigma == 0.25)])

    f = sx.Smoothed(models.selective(Net(), confidence=0.9), sigma=0.25, classes=2)
    assert f.certify(torch.zeros(1, 3), n=100)[0].predicted == 1


@pytest.mark.parametrize("confidence", [0.0, 1.0, -0.5, 2, float("nan"), True, "0.6", None])
def test_a_confidence_that_is_none_is_refused(classifier, confidence):
    with pytest.raises(RequestError, match="confidence must be a softmax probability between 0 and 1"):
        models.selective(classifier, confidence=confidence)


def test_what_cannot_be_selective_is_refused(classifier):
    with pytest.raises(RequestError, match="must be callable"):
        models.selective(3, confidence=0.6)
    with pytest.raises(RequestError, match="defers already"):
        models.selective(models.selective(classifier, confidence=0.6), confidence=0.6)
    with pytest.raises(RequestError, match="needs logits of shape"):
        models.selective(lambda batch: batch[:, 0].long(), confidence=0.6)(torch.zeros(4, 2))
