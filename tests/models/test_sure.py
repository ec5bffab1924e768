"""A classifier's sureness as a router."""

import pytest
import torch

import sigmax as sx
from sigmax import models
from sigmax.errors import RequestError
from sigmax.models import Description
from sigmax.models.sure import Sureness
from sigmax.train.balance import lean


@pytest.fixture
def classifier():
    torch.manual_seed(0)
    return models.create(
        Description(
            architecture="small-cnn",
            options={"width": 4},
            classes=10,
            input_shape=(1, 8, 8),
            normalisation=models.Normalisation((0.3,), (0.4,)),
            sigma=0.4,
        )
    )


def test_the_second_route_leads_by_the_odds_of_the_largest_probability(classifier):
    x = 3 * torch.rand(50, 1, 8, 8)
    with torch.no_grad():
        p = classifier(x).double().softmax(dim=1).amax(dim=1)
        routes = models.sureness(classifier)(x).double()
    assert torch.equal(routes[:, 0], torch.zeros(50, dtype=torch.float64))
    assert torch.allclose(routes[:, 1], torch.log(p / (1 - p)), atol=1e-4)


def test_a_network_that_is_certain_is_finite():
    class Certain(torch.nn.Module):
        def forward(self, images):
            return torch.tensor([[1000.0, 0.0, -1000.0], [float("inf"), 0.0, 0.0]])

    found = Sureness(Certain())(torch.zeros(2, 1, 8, 8))
    assert torch.isfinite(found).all()
    assert (found[:, 1] > 10).all()


def test_it_has_weights_of_its_own_and_survives_a_file(classifier, tmp_path):
    router = models.sureness(classifier, sigma=0.5)
    x = torch.rand(4, 1, 8, 8)
    lean(router, 1.5)
    models.round_weights(router)
    loaded, told = models.load(models.save(tmp_path / "router.safetensors", router, store="bf16"))
    assert told.classes == 2
    assert told.sigma == 0.5
    with torch.no_grad():
        assert torch.equal(loaded(x), router(x))
        before = classifier(x).clone()
        for weight in loaded.parameters():
            weight.zero_()
        assert torch.equal(classifier(x), before)
    assert router.network.bias.tolist() == [-0.75, 0.75], "the lean is its own, not the classifier's last layer's"


def test_it_routes_in_a_dual_system(classifier, tmp_path):
    router = sx.Smoothed(models.sureness(classifier), sigma=0.4, classes=2)
    experts = [sx.Smoothed(classifier, sigma=sigma, classes=10) for sigma in (0.2, 0.4)]
    dual = sx.Dual(router, experts)
    x = torch.rand(3, 1, 8, 8)
    told = {"n0": 20, "n": 200, "alpha": 0.01, "seed": 3}
    found = dual.certify(x, **told)
    dual.save(tmp_path / "system")
    assert sx.load(tmp_path / "system").certify(x, **told) == found


def test_what_cannot_be_sure_is_refused(classifier):
    with pytest.raises(RequestError, match="needs a classifier of sigmax.models"):
        models.sureness(classifier.network)
    with pytest.raises(RequestError, match="already"):
        models.sureness(models.sureness(classifier))
    with pytest.raises(RequestError, match="2 routes; got 3"):
        models.build(
            "sureness",
            classes=3,
            input_shape=(1, 8, 8),
            architecture="small-cnn",
            options={"width": 4},
            known=10,
        )
    assert "sureness" not in models.names(), "a router is made from a classifier, not by name"
