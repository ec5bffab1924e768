"""Cascades as folders: a selective level's confidence stands in the head, and the network inside is stored once."""

import tomllib

import pytest
import torch
from safetensors.torch import load_file

import sigmax as sx
from sigmax import models
from sigmax.systems import fingerprint
from tests.systems.test_denoised_folder import denoiser
from tests.systems.test_dual_folder import SAMPLES, X, network


def selective(net, confidence: float = 0.6, sigma: float = 0.5) -> sx.Smoothed:
    return sx.Smoothed(models.selective(net, confidence=confidence), sigma=sigma, classes=10)


def cascade(first: float = 0.15, second: float = 0.3) -> sx.Cascade:
    """Two selective levels and the last over one network, and one level of its own that never defers."""
    shared = network(0)
    levels = [
        selective(shared, first, 1.0),
        selective(shared, second, 0.5),
        sx.Smoothed(network(1), sigma=0.25, classes=10),
    ]
    return sx.Cascade(levels, sx.Smoothed(shared, sigma=0.12, classes=10), thresholds=(0.5, 0.6, 0.5))


@pytest.mark.parametrize("store", ["fp32", "bf16"])
def test_a_saved_cascade_certifies_and_predicts_the_same(tmp_path, store):
    original = cascade()
    original.save(tmp_path / "s", store=store)
    loaded = sx.load(tmp_path / "s")
    assert isinstance(loaded, sx.Cascade)
    assert loaded.rule == original.rule
    if store == "fp32":
        assert fingerprint(loaded) == fingerprint(original)
        assert loaded.certify(X, **SAMPLES, seed=3) == original.certify(X, **SAMPLES, seed=3)
        assert loaded.predict(X, seed=1) == original.predict(X, seed=1)
    loaded.save(tmp_path / "t", store=store)
    for path in (tmp_path / "s").iterdir():
        assert (tmp_path / "t" / path.name).read_bytes() == path.read_bytes()


def test_the_head_has_the_confidences_and_a_shared_network_is_one_file(tmp_path):
    cascade().save(tmp_path / "s")
    assert {path.stem for path in (tmp_path / "s").glob("*.safetensors")} == {"level-0", "level-2"}
    head = tomllib.loads((tmp_path / "s" / "system.toml").read_text())
    networks = {name: (entry["file"], entry.get("confidence")) for name, entry in head["networks"].items()}
    assert networks == {
        "level-0/base": ("level-0.safetensors", 0.15),
        "level-1/base": ("level-0.safetensors", 0.3),
        "level-2/base": ("level-2.safetensors", None),
        "last/base": ("level-0.safetensors", None),
    }
    assert head["scheme"]["thresholds"] == [0.5, 0.6, 0.5]
    assert [level["defers"] for level in head["scheme"]["levels"]] == [True, True, False]
    names = set(load_file(tmp_path / "s" / "level-0.safetensors"))
    assert names == set(load_file(tmp_path / "s" / "level-2.safetensors")), "nothing of the confidence is in the file"
    voters = sx.load(tmp_path / "s").voters
    assert voters["level-0/base"].model.model is voters["level-1/base"].model.model is voters["last/base"].model


def test_a_multiscale_cascade_is_stored_with_one_network(tmp_path):
    original = sx.Multiscale(network(0), sigmas=(0.12, 0.25, 0.5), classes=10)
    original.save(tmp_path / "s")
    assert [path.stem for path in (tmp_path / "s").glob("*.safetensors")] == ["level-0"]
    assert sx.load(tmp_path / "s").certify(X, **SAMPLES) == original.certify(X, **SAMPLES)


def test_everything_that_decides_a_certificate_is_in_the_fingerprint():
    one = network(0)
    base = sx.Smoothed(network(1), sigma=0.25, classes=10)
    systems = [
        sx.Cascade([selective(one)], base),
        sx.Cascade([selective(one, 0.7)], base),
        sx.Cascade([selective(one, sigma=0.6)], base),
        sx.Cascade([selective(one)], base, thresholds=0.6),
        sx.Cascade([selective(network(2))], base),
        sx.Cascade([sx.Smoothed(one, sigma=0.5, classes=10)], base),
        sx.Cascade([selective(one)], sx.Smoothed(one, sigma=0.25, classes=10)),
        selective(one),
    ]
    assert len({fingerprint(system) for system in systems}) == len(systems)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (("confidence = 0.15", "confidence = 0.2"), "was changed since the system was built"),
        (("confidence = 0.15", "confidence = 1.5"), "confidence must be"),
        (("confidence = 0.15", 'confidence = "high"'), "confidence must be"),
        (("confidence = 0.15", ""), "the system has 11 classes, the network 'level-0/base' has 10"),
        (("defers = true", "defers = false"), "classes"),
        (("thresholds = [", "thresholds = [0.5,"), "expected one threshold, or one for each of the 3 levels"),
    ],
)
def test_an_edited_head_is_noticed(tmp_path, edit, message):
    head = cascade().save(tmp_path / "s") / "system.toml"
    before = head.read_text()
    assert edit[0] in before
    head.write_text(before.replace(*edit))
    with pytest.raises(sx.RequestError, match=message):
        sx.load(tmp_path / "s")


def test_saving_that_was_cut_short_is_completed_and_another_confidence_is_refused(tmp_path):
    folder = tmp_path / "s"
    cascade().save(folder)
    (folder / "system.toml").unlink()
    (folder / "level-2.safetensors").unlink()
    cascade().save(folder)
    assert fingerprint(sx.load(folder)) == fingerprint(cascade())
    with pytest.raises(sx.RequestError, match="holds another system"):
        cascade(first=0.2).save(folder)


def test_a_selective_model_over_a_denoiser_is_stored_in_its_parts(tmp_path):
    denoised = sx.Denoised(denoiser(), network(0))
    level = sx.Smoothed(models.selective(denoised, confidence=0.3), sigma=0.5, classes=10)
    original = sx.Cascade([level], sx.Smoothed(denoised, sigma=0.25, classes=10))
    original.save(tmp_path / "s")
    assert {path.stem for path in (tmp_path / "s").glob("*.safetensors")} == {"level-0", "level-0-denoiser"}
    assert sx.load(tmp_path / "s").certify(X, **SAMPLES) == original.certify(X, **SAMPLES)


def test_the_votes_of_a_loaded_level_are_to_defer_where_it_is_not_confident(tmp_path):
    net = network(0)
    selective(net, 0.12).save(tmp_path / "s")
    loaded = sx.load(tmp_path / "s").voters["base"].model
    images = torch.rand(64, 1, 8, 8)
    confident = net(images).softmax(dim=1).amax(dim=1) >= 0.12
    assert 0 < confident.sum() < 64
    assert torch.equal(loaded(images).argmax(dim=1) < 10, confident)
