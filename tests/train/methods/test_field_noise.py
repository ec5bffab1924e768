"""Training under a field's noise: every input gets its own, and a cut run goes on exactly."""

import numpy as np
import pytest
import torch

import sigmax as sx
from sigmax import data
from sigmax.errors import RequestError
from sigmax.train import Batch, Examples, FieldNoise, GaussianTraining, Score, Settings, train_classifier
from sigmax.train.methods.easy_samples import EasySamples

DIGITS = data.load("digits", "train").take(range(96))


def field(rate=0.3):
    return sx.NearestNeighbourSigma(DIGITS.pixels(range(96)), base=0.3, rate=rate, k=4, offset=1.5)


class Watching(GaussianTraining):
    """Keeps the noise that it was given."""

    def score(self, model, batch):
        type(self).seen = batch.sigma
        return Score(torch.zeros((), requires_grad=True), torch.zeros(()))


def test_every_input_is_trained_on_under_the_fields_noise():
    method = FieldNoise(Watching(0.3), field())
    pixels = torch.from_numpy(DIGITS.pixels(range(96)))
    method.begin_epoch(torch.nn.Identity(), Examples(pixels, torch.zeros(96)), 0)
    chosen = torch.tensor([5, 90, 17])
    batch = Batch(pixels[chosen], torch.zeros(3), chosen, 0, torch.Generator())
    method.score(torch.nn.Identity(), batch)
    expected = field().sigmas(pixels)
    assert Watching.seen.tolist() == pytest.approx(expected[chosen].tolist())
    assert np.ptp(expected) > 0.05


def test_it_trains_and_goes_on(tmp_path, monkeypatch):
    asked = {
        "architecture": "small-cnn",
        "options": {"width": 4},
        "sigma": 0.3,
        "settings": Settings(epochs=3, batch=32),
    }

    def trained(out, **more):
        return train_classifier(
            DIGITS, out=out, **asked, method=lambda sigma: FieldNoise(GaussianTraining(sigma), field()), **more
        )

    whole = trained(tmp_path / "whole.safetensors")

    class KilledError(Exception):
        pass

    def kill(report):
        raise KilledError

    with pytest.raises(KilledError):
        trained(tmp_path / "cut.safetensors", on_epoch=kill)
    measured = []
    with monkeypatch.context() as context:
        context.setattr(sx.NearestNeighbourSigma, "sigmas", lambda self, x: measured.append(len(x)))
        cut = trained(tmp_path / "cut.safetensors")
    assert not measured, "what was measured before is kept"
    assert sx.models.fingerprint(cut) == sx.models.fingerprint(whole)
    plain = train_classifier(DIGITS, out=tmp_path / "plain.safetensors", **asked)
    assert sx.models.fingerprint(plain) != sx.models.fingerprint(whole)
    notes = sx.models.load(whole)[1].notes["training"]
    assert "nearest-neighbour" in str(notes)


def test_methods_with_a_noise_of_their_own_are_refused():
    with pytest.raises(RequestError, match="learn under any noise of an input"):
        FieldNoise(EasySamples(0.25), field())
    with pytest.raises(RequestError, match="source: expected a.* SigmaField, got 0.5"):
        FieldNoise(GaussianTraining(0.25), 0.5)
