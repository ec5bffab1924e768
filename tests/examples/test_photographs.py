"""The page of photographs: what it shows is as large as it says, and no larger than what is certified."""

import re
from base64 import b64decode
from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image

import sigmax as sx
from examples import photographs
from sigmax.errors import RequestError


def bluer(x):
    return torch.stack([x[:, 2].mean((1, 2)), x[:, 0].mean((1, 2))], dim=1)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder, random = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for label, name in enumerate(("red", "<blue>")):
        (folder / "val" / name).mkdir(parents=True)
        for number in range(4):
            image = random.integers(0, 200, (24, 24, 3), dtype=np.uint8)
            image[:, :, 2 * label] += np.uint8(4 + 12 * number)
            Image.fromarray(image).save(folder / "val" / name / f"{number}.png")
    return f"folder:{folder}"


@pytest.fixture(scope="module")
def run(source, tmp_path_factory):
    system = sx.Smoothed(bluer, sigma=0.5, classes=2)
    return sx.certify_run(system, sx.data.load(source, "val"), tmp_path_factory.mktemp("run") / "run.jsonl", n=1000)


def shown(page):
    files = re.findall(r'base64,([^"]+)"', page.read_text())
    images = [np.asarray(Image.open(BytesIO(b64decode(file))), float) / 255 for file in files]
    return [images[i : i + 4] for i in range(0, len(images), 4)]


def test_what_is_shown_is_within_the_radius_and_nearly_as_large(run, source, tmp_path):
    page = photographs.main([str(run.path), "--data", source, "--count", "3", "--out", str(tmp_path / "page.html")])
    rows, records = shown(page), photographs.spread(run, 3)
    assert [record.certificate.radius for record in records] == sorted(r.certificate.radius for r in records)[::-1]
    data = sx.data.load(source, "val")
    for (image, noise, square, _), record in zip(rows, records, strict=True):
        assert np.allclose(image, data.pixels([record.index])[0].transpose(1, 2, 0), atol=1e-6)
        for moved in (noise, square):
            away = np.linalg.norm(moved - image)
            assert 0.9 * record.certificate.radius < away <= record.certificate.radius
        assert np.count_nonzero((square != image).any(axis=2)) <= 9
    assert "<blue>" not in page.read_text()


def test_data_of_another_run_and_runs_without_a_certificate_are_refused(run, source, tmp_path):
    with pytest.raises(RequestError, match="certified other images"):
        photographs.main([str(run.path), "--data", source, "--image-size", "8"])
    wrong = sx.Smoothed(lambda x: -bluer(x), sigma=0.5, classes=2)
    none = sx.certify_run(wrong, sx.data.load(source, "val"), tmp_path / "none.jsonl", n=1000)
    with pytest.raises(RequestError, match="nothing to show"):
        photographs.main([str(none.path), "--data", source])
