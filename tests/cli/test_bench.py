"""`sigmax bench` says how fast the engine is here, beside the reference loop, and writes it down."""

import json

import pytest
from typer.testing import CliRunner

from sigmax.bench.reference_loop import count_votes
from sigmax.cli.main import app
from sigmax.errors import RequestError


def changes(*keys):
    return [word for key in keys for word in ("--set", key)]


FEW = changes("inputs=2", "reference_inputs=1", "n0=10", "seconds=0.1")


def bench(*words):
    result = CliRunner().invoke(app, ["bench", *words], catch_exceptions=False)
    return result.output


@pytest.mark.slow
def test_a_network_trained_on_digits_is_measured(tmp_path):
    out = tmp_path / "figures" / "bench.json"
    said = bench(
        "--n", "500", "--out", str(out), *changes("inputs=8", "reference_inputs=1", "radius=0.25", "seconds=1")
    )
    figures = json.loads(out.read_text())
    rows = {row["contender"]: row for row in figures["rows"]}
    assert list(rows) == [
        "reference loop",
        "fixed",
        "adaptive",
        "adaptive, to 0.2 sigma",
        "adaptive, radius 0.25?",
        "adaptive, the 11 radii?",
    ]
    assert all(name.split(",")[0] in said for name in rows)
    assert rows["reference loop"]["ratio"] == 1
    assert rows["fixed"]["samples_per_input"] == rows["reference loop"]["samples_per_input"] == 600
    assert rows["adaptive, radius 0.25?"]["samples_per_input"] < 600
    assert rows["fixed"]["of_ceiling"] > 0
    forward_only = [row["votes_per_s"] / row["of_ceiling"] for row in rows.values()]  # one network, so one ceiling
    assert forward_only == pytest.approx([forward_only[0]] * len(rows))
    assert figures["asked"]["n"] == 500
    assert figures["arithmetic"] == "cpu float32"


@pytest.mark.slow
def test_a_denoised_system_is_measured_by_its_parts(tmp_path):
    import sigmax as sx
    from sigmax import models

    shape, small = (1, 8, 8), {"width": 8, "multipliers": (1,), "blocks": 1, "attention": ()}
    denoiser = models.create_denoiser(
        models.Description(architecture="unet", classes=0, input_shape=shape, options=small)
    )

    def net(classes, sigma):
        made = models.create(models.Description(architecture="small-cnn", classes=classes, input_shape=shape))
        return sx.Smoothed(sx.Denoised(denoiser, made), sigma=sigma, classes=classes)

    out = tmp_path / "bench.json"
    folder = sx.Dual(net(2, 0.5), [net(10, 0.25), net(10, 0.5)]).save(tmp_path / "dual")
    words = ["--n", "100", "--out", str(out), *FEW]
    said = bench(str(folder), "--data", "digits", *words)
    found = json.loads(out.read_text())["time_shares"]
    assert list(found) == ["router/base", "expert-0/base", "expert-1/base"]
    for name, shares in found.items():
        assert 0 < shares["denoiser"] < 1
        assert sum(shares.values()) == pytest.approx(1)
        shown = f"not compiled: denoiser {shares['denoiser']:.0%}, classifier {shares['classifier']:.0%}"
        assert f"Time of a vote of {name}, {shown}" in said


def test_an_architecture_alone_will_do():
    said = bench("--network", "small-cnn", "--n", "100", *FEW)
    assert "small-cnn with random weights: 2 inputs of 3x32x32" in said
    assert "not compiled" not in said
    assert "Not asked about radius 0.5: n=100 samples reach 0.3" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--network", "small-cnn", "--data", "digits"], "--network brings its own random images"),
        (["--data", "digits"], "a system and --data belong together"),
        (["--set", "inputs=0"], "inputs: expected a number of at least 1, got 0"),
        (["--network", "resnet9000"], "resnet9000"),
        (["--network", "small-cnn", "--n", "5"], "can never certify"),
    ],
)
def test_a_wrong_request_is_refused_at_once(words, message):
    with pytest.raises(RequestError, match=message):
        bench(*words)


def test_the_reference_loop_counts_every_vote():
    import torch

    counts = count_votes(lambda batch: torch.stack([batch[:, 0], batch[:, 1]], 1), torch.zeros(3), 1.0, 2_500, 2)
    assert sum(counts) == 2_500
    assert 1_100 < counts[0] < 1_400
