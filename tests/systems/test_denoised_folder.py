"""Systems whose networks denoise first, as folders."""

import pytest
import torch
from safetensors.torch import load_file, save_file

import sigmax as sx
from sigmax import models
from sigmax.systems import fingerprint

SHAPE = (1, 8, 8)


def denoiser(seed=0):
    torch.manual_seed(seed)
    options = {"width": 8, "multipliers": (1, 2), "blocks": 1, "attention": ()}
    described = models.Description(architecture="unet", classes=0, input_shape=SHAPE, options=options)
    return models.create_denoiser(described)


def classifier(classes=10, seed=1):
    torch.manual_seed(seed)
    return models.create(models.Description(architecture="small-cnn", classes=classes, input_shape=SHAPE))


def smoothed(sigma=0.25):
    return sx.Smoothed(sx.Denoised(denoiser(), classifier()), sigma=sigma, classes=10)


def dual():
    shared = denoiser()
    router = sx.Smoothed(sx.Denoised(shared, classifier(2)), sigma=0.5, classes=2)
    pair = sx.Denoised(shared, classifier())
    return sx.Dual(router, [sx.Smoothed(pair, sigma=s, classes=10) for s in (0.25, 0.5)])


def votes(scheme):
    images = sx.data.load("digits", "test").pixels(range(3))
    found = scheme.certify(images, n0=20, n=100, seed=3)
    return [(stage.name, stage.counts) for c in found for stage in c.stages]


@pytest.mark.parametrize("make", [smoothed, dual])
def test_a_saved_system_is_the_same_system(make, tmp_path):
    scheme = make()
    again = sx.load(scheme.save(tmp_path / "system"))
    assert fingerprint(again) == fingerprint(scheme)
    assert votes(again) == votes(scheme)


def test_the_files_of_one_network(tmp_path):
    smoothed().save(tmp_path / "system")
    names = {path.name for path in (tmp_path / "system").iterdir()}
    assert names == {"system.toml", "base.safetensors", "denoiser.safetensors"}


def test_a_shared_denoiser_is_kept_once_and_read_once(tmp_path):
    folder = dual().save(tmp_path / "system")
    names = {path.name for path in folder.iterdir()}
    assert names == {"system.toml", "router.safetensors", "router-denoiser.safetensors", "expert-0.safetensors"}
    loaded = {name: voter.model for name, voter in sx.load(folder).voters.items()}
    assert len({id(model.denoiser) for model in loaded.values()}) == 1
    assert loaded["expert-0/base"] is loaded["expert-1/base"]


def test_systems_loaded_together_share_the_denoiser(tmp_path):
    from sigmax.systems import load_together

    first, second = (smoothed(s).save(tmp_path / str(s)) for s in (0.25, 0.5))
    one, other = (scheme.voters["base"].model for scheme in load_together([first, second]))
    assert one is other


def test_the_fingerprint_covers_both_parts():
    def known(d, c):
        return fingerprint(sx.Smoothed(sx.Denoised(d, c), sigma=0.25, classes=10))

    base = known(denoiser(), classifier())
    assert base == known(denoiser(), classifier())
    changed = denoiser()
    with torch.no_grad():
        changed.network.first.bias += 1
    assert len({base, known(changed, classifier()), known(denoiser(), classifier(seed=2))}) == 3
    assert base != fingerprint(sx.Smoothed(classifier(), sigma=0.25, classes=10))


def test_a_function_behind_a_denoiser_has_a_name_and_may_say_more():
    def function(images):
        return images.flatten(1)[:, :10]

    scheme = sx.Smoothed(sx.Denoised(denoiser(), function), sigma=0.25, classes=10)
    named = fingerprint(scheme)
    function.fingerprint = "first ten pixels"
    assert fingerprint(scheme) != named


def test_an_exchanged_denoiser_is_noticed(tmp_path):
    folder = smoothed().save(tmp_path / "system")
    models.save(folder / "denoiser.safetensors", _moved(denoiser()))
    with pytest.raises(sx.RequestError, match=r"denoiser.safetensors is not the network the system was built with"):
        sx.load(folder)


def _moved(model):
    with torch.no_grad():
        model.network.first.bias += 1
    return model


def test_a_denoiser_taken_out_of_the_head_is_noticed(tmp_path):
    folder = smoothed().save(tmp_path / "system")
    head = folder / "system.toml"
    text = head.read_text()
    start = text.index('[networks."base/denoiser"]')
    head.write_text(text[:start] + text[text.index("[origin]", start) :])
    with pytest.raises(sx.RequestError, match="was changed since the system was built"):
        sx.load(folder)


def test_a_classifier_in_the_denoisers_place_is_refused(tmp_path):
    folder = smoothed().save(tmp_path / "system")
    models.save(folder / "denoiser.safetensors", classifier())
    with pytest.raises(sx.RequestError, match="holds a classifier of 10 classes, no denoiser"):
        sx.load(folder)
    models.save(folder / "base.safetensors", denoiser())
    with pytest.raises(sx.RequestError, match="holds a denoiser, which classifies nothing by itself"):
        sx.load(folder)


def test_a_denoiser_of_the_users_own_is_used_but_not_saved(tmp_path):
    own = sx.Smoothed(sx.Denoised(torch.nn.Identity(), classifier()), sigma=0.25, classes=10)
    with pytest.raises(sx.RequestError, match=r"'base/denoiser' \(Identity\) cannot be saved"):
        own.save(tmp_path / "system")
    assert not (tmp_path / "system").exists()
    run = sx.certify_run(own, sx.data.load("digits"), tmp_path / "run.jsonl", n0=10, n=100, maximum=2)
    assert len(run.frame()) == 2


def test_a_checkpoint_of_a_denoiser_round_trips(tmp_path):
    model = denoiser()
    path = models.save(tmp_path / "unet.safetensors", model)
    again = models.load_denoiser(path)
    assert again.description == model.description
    assert models.fingerprint(again) == models.fingerprint(path) == models.fingerprint(model)
    save_file({"weight": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(sx.RequestError, match="holds tensors but not what they are"):
        models.load_denoiser(tmp_path / "other.safetensors")
    assert set(load_file(path)) == set(model.network.state_dict())
