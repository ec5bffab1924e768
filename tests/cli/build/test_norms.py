"""Noise beyond the Gaussian on the command line: trained, built, certified, verified; and what does not fit."""

import pytest

import sigmax as sx


@pytest.fixture(scope="module")
def nets(tmp_path_factory):
    """Checkpoints by the noise they were trained with."""
    from sigmax.train import Settings, train_classifier

    folder, digits = tmp_path_factory.mktemp("nets"), sx.data.load("digits", "train")
    for noise in ("gaussian", "uniform", "splitting"):
        train_classifier(
            digits,
            sigma=0.5,
            noise=noise,
            out=folder / f"{noise}.safetensors",
            options={"width": 4},
            settings=Settings(epochs=2),
        )
    return folder


def test_a_cascade_in_l1_from_training_to_verification(nets, sigmax, tmp_path):
    split, cascade, run = tmp_path / "split", tmp_path / "cascade", tmp_path / "run.jsonl"
    built = sigmax("build", "splitting", nets / "splitting.safetensors", "--grid", 240, "--out", split)
    assert "Splitting(scale 0.5, 240 offsets, 10 classes)" in built.stdout, built.stderr
    words = (nets / "uniform.safetensors", split, "--confidence", 0.5, "--out", cascade)
    assert "Cascade(uniform 0.5" in sigmax("build", "cascade", *words).stdout
    done = sigmax("certify", cascade, "--data", "digits", "--max", 12, "--n", 200, "--out", run)
    assert "at l1 radius" in done.stdout, done.stderr
    assert "uniform, splitting 0.5" in done.stdout
    verified = sigmax("verify", run)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    shown = sigmax("show", run)
    assert "multiples of 1/240" in shown.stdout


def test_a_trained_noise_is_found_again(nets, sigmax, tmp_path):
    built = sigmax("build", "smoothed", nets / "uniform.safetensors", "--out", tmp_path / "a")
    assert "Smoothed(uniform 0.5, 10 classes)" in built.stdout, built.stderr
    other = ("--sigma", "uniform:1", "--out", tmp_path / "b")
    built = sigmax("build", "smoothed", nets / "gaussian.safetensors", *other)
    assert "was trained with sigma 0.5 and is smoothed with uniform 1." in built.stdout, built.stderr
    words = (nets / "uniform.safetensors", "--sigmas", "uniform:0.5,1", "--out", tmp_path / "c")
    assert "Cascade(uniform 1, last 0.5" in sigmax("build", "multiscale", *words).stdout
    last = sigmax(
        "build", "cascade", nets / "uniform.safetensors", nets / "splitting.safetensors", "--out", tmp_path / "d"
    )
    assert "last Splitting(scale 0.5, 255 offsets" in last.stdout, last.stderr


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("build smoothed {gaussian} --sigma cauchy:0.5", "--sigma must be a noise such as 0.5 (Gaussian), uniform:0.5"),
        ("build smoothed {gaussian} --sigma uniform:", "--sigma must be a noise such as 0.5 (Gaussian), uniform:0.5"),
        ("build smoothed {gaussian} --sigma uniform:x", "--sigma must be one noise level such as 0.5; got 'x'"),
        ("build smoothed {gaussian} --sigma splitting:0.5", "--sigma must be a noise such as 0.5 (Gaussian)"),
        ("build smoothed {splitting}", "was trained with splitting noise; certify it by `sigmax build splitting`"),
        ("build smoothed {uniform} --grid 255", "--grid goes with Gaussian noise"),
        ("build splitting {uniform}", "was not trained with splitting noise; give --scale"),
        (
            "build multiscale {uniform} --sigmas uniform:1,0.5",
            "sigmas must be at least two noise levels",
        ),
        ("train classifier --data digits --sigma cauchy:1", "such as 0.5 (Gaussian), uniform:0.5 or splitting:0.5"),
        ("train classifier --data digits --sigma uniform:0.5 --method macer", "macer training is made for"),
    ],
)
def test_what_does_not_fit_ends_with_code_2(nets, sigmax, tmp_path, words, named):
    files = {noise: nets / f"{noise}.safetensors" for noise in ("gaussian", "uniform", "splitting")}
    out = tmp_path / ("net.safetensors" if words.startswith("train") else "system")
    done = sigmax(*(word.format(**files) for word in words.split()), "--out", out)
    assert done.returncode == 2, done.stdout
    assert named in " ".join(done.stderr.split())
