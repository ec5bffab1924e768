"""A classifier's sureness as a router."""

import pytest
import torch

import sigmax as sx
from sigmax import models
from sigmax.errors import RequestError
from sigmax.models import Description
from sigmax.models.sure import Sureness, inside
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


@pytest.mark.parametrize("by", [-2.0, 0.0, 0.7, 4.0])
def test_it_names_what_the_classifier_says_where_it_is_sure(classifier, by):
    two, naming = models.sureness(classifier), models.sureness(classifier, names=True)
    lean(two, by)
    lean(naming, by)
    x = 30 * torch.randn(2000, 1, 8, 8)
    with torch.no_grad():
        said, routes, found = classifier(x).argmax(dim=1), two(x), naming(x)
    assert found.shape == (2000, 11)
    assert torch.equal(found.argmax(dim=1), torch.where(routes.argmax(dim=1) == 1, said, 10))
    assert found[:, :10].amax(dim=1).numpy() == pytest.approx(routes[:, 1].numpy(), abs=1e-5)
    assert torch.equal(found[:, 10], routes[:, 0])
    assert len(found.argmax(dim=1).unique()) > 3, "several outcomes are seen"


def test_naming_logits_are_the_odds_of_every_class(classifier):
    x = 3 * torch.rand(50, 1, 8, 8)
    with torch.no_grad():
        p = classifier(x).double().softmax(dim=1)
        found = models.sureness(classifier, names=True)(x).double()
    assert torch.equal(found[:, 10], torch.zeros(50, dtype=torch.float64))
    assert torch.allclose(found[:, :10], torch.log(p / (1 - p)), atol=1e-4)


def test_a_certain_network_names_its_class():
    inf = float("inf")
    told = torch.tensor(
        [[1000.0, 0.0, -1000.0], [0.0, inf, 0.0], [-inf, -inf, 3.0], [0.0, -inf, 0.0], [0.0, 0.0, 0.0]]
    )
    found = Sureness(torch.nn.Identity(), names=True)(told)
    assert torch.isfinite(found).all()
    assert found[[0, 1, 2, 4]].argmax(dim=1).tolist() == [0, 1, 2, 3], "less than half is not sure"
    assert (found[[0, 1, 2], [0, 1, 2]] > 10).all()
    assert (found[[0, 1, 2, 3], [2, 0, 0, 1]] < -50).all()
    assert found[3, [0, 2]].tolist() == pytest.approx([0.0, 0.0], abs=1e-6)


def test_a_naming_router_leans_by_its_two_biases(classifier):
    router = models.sureness(classifier, names=True)
    x = torch.rand(5, 1, 8, 8)
    with torch.no_grad():
        before, last = router(x), router.network.classifier.linear.bias.clone()
        lean(router, 1.5)
        moved = router(x) - before
    assert moved.numpy() == pytest.approx(torch.tensor([*[0.75] * 10, -0.75]).expand(5, 11).numpy(), abs=1e-5)
    assert router.network.bias.tolist() == [-0.75, 0.75]
    assert torch.equal(router.network.classifier.linear.bias, last)


@pytest.mark.parametrize("left_out", [False, True])
@pytest.mark.parametrize("store", ["fp32", "bf16"])
def test_a_naming_router_survives_a_file(classifier, tmp_path, store, left_out):
    """Whole, or without the classifier that another file has."""
    models.round_weights(classifier)
    router = models.sureness(classifier, sigma=0.5, names=True)
    lean(router, 1.5)
    part = ("classifier", models.save(tmp_path / "classifier.safetensors", classifier, store=store))
    file = models.save(
        tmp_path / "router.safetensors", router, store=store, without="classifier" if left_out else ""
    )
    loaded, told = models.load(file, part=part if left_out else None)
    assert (told.classes, told.sigma, told.options["known"]) == (11, 0.5, 10)
    assert inside(loaded) is loaded.network.classifier
    assert models.fingerprint(loaded) == models.fingerprint(router)
    x = torch.rand(4, 1, 8, 8)
    with torch.no_grad():
        assert torch.equal(loaded(x), router(x))


def test_what_names_is_another_network_than_what_is_only_sure(classifier):
    found = {models.fingerprint(models.sureness(classifier, names=names)) for names in (False, True)}
    assert len(found) == 2
    of_two = Description(architecture="small-cnn", options={"width": 4}, classes=2, input_shape=(1, 8, 8))
    routers = [models.sureness(models.create(of_two), names=names) for names in (False, True)]
    assert [router.description.classes for router in routers] == [2, 3]


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
    with pytest.raises(RequestError, match="already"):
        models.sureness(models.sureness(classifier, names=True), names=True)
    inner = {"architecture": "small-cnn", "options": {"width": 4}}
    for classes in (3, 10, 12):
        with pytest.raises(RequestError, match=f"one of 10 classes has 11 outcomes, .* 2 routes; got {classes}"):
            models.build("sureness", classes=classes, input_shape=(1, 8, 8), known=10, **inner)
    with pytest.raises(RequestError, match="cannot be built"):
        models.build("sureness", classes=11, input_shape=(1, 8, 8), known="ten", **inner)
    assert "sureness" not in models.names(), "a router is made from a classifier, not by name"
