"""transformers' image classifiers, small ones made here, as folders."""

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import sigmax as sx
from sigmax import models
from sigmax.cli.main import app
from sigmax.errors import RequestError
from sigmax.models import from_transformers
from sigmax.models.adapters.transformers import Resized
from sigmax.systems import fingerprint

transformers = pytest.importorskip("transformers")

PROCESSOR = {
    "do_resize": True,
    "size": {"height": 16, "width": 16},
    "do_normalize": True,
    "image_mean": [0.4, 0.5, 0.6],
    "image_std": [0.2, 0.3, 0.5],
    "rescale_factor": 1 / 255,
}


def vit():
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        image_size=16,
        patch_size=8,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
    )
    config.id2label = {0: "cat", 1: "dog", 2: "ship"}
    return transformers.ViTForImageClassification(config).eval()


def saved(folder, processor=PROCESSOR, model=None):
    (model or vit()).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


def test_a_bare_folder_is_built_from_the_command_line(tmp_path):
    saved(tmp_path / "vit")
    words = ["build", "smoothed", str(tmp_path / "vit"), "--sigma", "0.25", "--input-shape", "3,8,8"]
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "system")], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert sx.load(tmp_path / "system").classes == 3


def test_its_own_mean_std_and_size_are_honoured(tmp_path):
    classifier = from_transformers(saved(tmp_path), input_shape=(3, 8, 8))
    described = classifier.description
    assert (described.classes, described.input_shape) == (3, (3, 8, 8))
    assert described.notes["class_names"] == ["cat", "dog", "ship"]
    images = torch.rand(2, 3, 8, 8)
    large = torch.stack([pillow(image, 16) for image in images])
    mean, std = (torch.tensor(PROCESSOR[name]).reshape(3, 1, 1) for name in ("image_mean", "image_std"))
    with torch.no_grad():
        expected = vit()(pixel_values=(large - mean) / std).logits
        torch.testing.assert_close(classifier(images), expected, rtol=1e-4, atol=1e-5)


def pillow(image, side):
    """Pillow's antialiased bicubic, of floats so that nothing is rounded."""
    image_module = pytest.importorskip("PIL.Image")
    rows = [
        np.asarray(image_module.fromarray(channel.numpy()).resize((side, side), image_module.Resampling.BICUBIC))
        for channel in image
    ]
    return torch.from_numpy(np.stack(rows))


@pytest.mark.parametrize("side", [8, 40])
def test_resizing_is_pillows_antialiased_bicubic_up_and_down(side):
    class Seen(torch.nn.Module):
        def forward(self, pixel_values):
            return type("Output", (), {"logits": pixel_values})

    images = torch.rand(2, 3, side, side)
    found = Resized(Seen(), (16, 16), None, "bicubic")(images)
    torch.testing.assert_close(found, torch.stack([pillow(image, 16) for image in images]), rtol=0, atol=2e-5)


def test_noise_is_not_clamped(tmp_path):
    classifier = from_transformers(saved(tmp_path))
    with torch.no_grad():
        assert not torch.equal(classifier(torch.full((1, 3, 16, 16), 3.0)), classifier(torch.ones(1, 3, 16, 16)))


@pytest.mark.parametrize(
    ("change", "size", "crop"),
    [
        ({"size": 16}, (16, 16), (16, 16)),
        ({"size": {"shortest_edge": 20}, "do_center_crop": True, "crop_size": 16}, (20, 20), (16, 16)),
        ({"size": {"shortest_edge": 16}, "crop_pct": 0.8}, (20, 20), (16, 16)),
    ],
)
def test_the_ways_to_write_a_size(tmp_path, change, size, crop):
    network = from_transformers(saved(tmp_path, {**PROCESSOR, **change})).network
    assert (network.size, network.crop) == (size, crop)


def test_it_certifies_behind_a_denoiser_and_is_saved(tmp_path):
    classifier = from_transformers(saved(tmp_path / "vit"), input_shape=(3, 8, 8))
    options = {"width": 8, "multipliers": (1,), "blocks": 1, "attention": ()}
    described = models.Description(architecture="unet", classes=0, input_shape=(3, 8, 8), options=options)
    scheme = sx.Smoothed(sx.Denoised(models.create_denoiser(described), classifier), sigma=0.25, classes=3)
    again = sx.load(scheme.save(tmp_path / "system"))
    found, expected = (f.certify(torch.full((2, 3, 8, 8), 0.5), n0=10, n=50) for f in (again, scheme))
    assert [s.counts for c in found for s in c.stages] == [s.counts for c in expected for s in c.stages]


@pytest.mark.parametrize("weights", ["bf16", "fp16"])
def test_weights_of_16_bits_compute_in_16_bits_throughout_and_are_kept(tmp_path, weights):
    kind = {"bf16": torch.bfloat16, "fp16": torch.float16}[weights]
    classifier = from_transformers(saved(tmp_path / "vit"), input_shape=(3, 8, 8), weights=weights)
    assert {p.dtype for p in classifier.network.parameters()} == {kind}
    seen = []
    classifier.network.model.vit.layernorm.register_forward_hook(lambda _, args, out: seen.append((args[0], out)))
    images = torch.rand(4, 3, 8, 8)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):  # which alone would norm in 32 bits
        logits = classifier(images)
    assert logits.dtype is torch.float32
    assert {tensor.dtype for pair in seen for tensor in pair} == {kind}
    with torch.no_grad():
        whole = from_transformers(tmp_path / "vit", input_shape=(3, 8, 8))(images)
        torch.testing.assert_close(logits, whole, rtol=0.05, atol=0.02)
    system = sx.Smoothed(classifier, sigma=0.25, classes=3)
    system.save(tmp_path / "system")
    again = sx.load(tmp_path / "system")
    assert fingerprint(again) == fingerprint(system)
    with torch.no_grad():
        assert torch.equal(again.voters["base"].model(images), classifier(images))


def test_other_weights_are_refused(tmp_path):
    with pytest.raises(RequestError, match="weights must be one of fp32, bf16, fp16; got 'fp8'"):
        from_transformers(saved(tmp_path), input_shape=(3, 8, 8), weights="fp8")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rescale_factor": 1 / 127.5}, "scaled by 1/255"),
        ({"size": {"longest_edge": 16}}, "expected height and width, or shortest_edge"),
        ({"do_center_crop": True, "crop_size": 32}, "which is larger"),
    ],
)
def test_preprocessing_that_is_not_known_is_refused(tmp_path, change, message):
    with pytest.raises(RequestError, match=message):
        from_transformers(saved(tmp_path, {**PROCESSOR, **change}))


def test_folders_that_cannot_be_used_say_why(tmp_path):
    folder = saved(tmp_path / "vit")
    with pytest.raises(RequestError, match="takes 3 channels and the images have 1"):
        from_transformers(folder, input_shape=(1, 8, 8))
    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(RequestError, match="mean, std and size are not known"):
        from_transformers(folder)
    bare = saved(tmp_path / "bare", model=vit().vit)
    with pytest.raises(RequestError, match="lacks weights .*classifier.*use a fine-tuned one"):
        from_transformers(bare)
    (folder / "model.safetensors").unlink()
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))
    with pytest.raises(RequestError, match="no image classifier that can be read"):
        from_transformers(folder)
    with pytest.raises(RequestError, match="resize must be one of bicubic, bilinear"):
        from_transformers(saved(tmp_path / "again"), resize="nearest")
