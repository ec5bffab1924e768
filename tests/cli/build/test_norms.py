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
    assert "the network answers alike when it sees the same again" in " ".join(shown.stdout.split())


def test_a_dual_in_l1_from_labels_to_a_report(nets, sigmax, tmp_path):
    split, wide, labels = tmp_path / "split", tmp_path / "wide", tmp_path / "labels"
    router, dual, run = tmp_path / "router.safetensors", tmp_path / "dual", tmp_path / "run.jsonl"
    sigmax("build", "splitting", nets / "splitting.safetensors", "--grid", 240, "--out", split)
    sigmax("build", "smoothed", nets / "uniform.safetensors", "--out", wide)
    done = sigmax("label", split, wide, "--data", "digits", "--set", "fraction=0.1", "--out", labels)
    assert "--sigma uniform:0.5 --out ROUTER.safetensors" in " ".join(done.stdout.split()), done.stderr
    how = ("--labels", labels, "--data", "digits", "--set", "training.epochs=1", "--out", router)
    assert sigmax("train", "router", *how, "--sigma", "uniform:0.5").returncode == 0
    mixed = sigmax("build", "dual", router, split, wide, "--sigma", 0.5, "--out", dual)
    assert "they have router: l2, expert-0: l1, expert-1: l1" in " ".join(mixed.stderr.split())
    assert "Dual(consensus, router uniform 0.5" in sigmax("build", "dual", router, split, wide, "--out", dual).stdout
    sigmax("certify", dual, "--data", "digits", "--max", 12, "--n", 200, "--out", run)
    assert sigmax("verify", run, "--data", "digits").returncode == 0
    assert sigmax("predict", dual, "--data", "digits", "--max", 2, "--n", 100).returncode == 0
    attacked = sigmax("attack", run, dual, "--data", "digits", "--out", tmp_path / "attack")
    assert (attacked.returncode, "searches l2 balls" in attacked.stderr) == (2, True)
    shown = " ".join(sigmax("report", run, "--linf", 64, "--out", tmp_path / "report").stdout.split())
    assert "at l1 radius" in shown
    assert "implied by the radii above, 64 numbers" in shown


def test_schemes_of_different_norms_are_not_compared(nets, sigmax, tmp_path):
    split, config = tmp_path / "split", tmp_path / "compare.toml"
    sigmax("build", "splitting", nets / "splitting.safetensors", "--grid", 240, "--out", split)
    l2 = f'[schemes.l2]\nkind = "smoothed"\nnetwork = "{nets / "gaussian.safetensors"}"\nsigma = 0.5\n'
    l1 = f'[schemes.l1]\nkind = "system"\nfolder = "{split}"\n'
    config.write_text(f'out = "out"\n[data]\nsource = "digits"\nmax = 2\n[certify]\nn = 100\n{l2}{l1}')
    done = sigmax("compare", config)
    assert done.returncode == 2
    assert "all schemes of a comparison must certify in the same norm; they have l2: l2, l1: l1" in " ".join(
        done.stderr.split()
    )
    assert not (tmp_path / "out").exists()


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
        ("build cascade {folder} {uniform}", "only the last may be a system"),
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
    files = {noise: nets / f"{noise}.safetensors" for noise in ("gaussian", "uniform", "splitting")} | {"folder": nets}
    out = tmp_path / ("net.safetensors" if words.startswith("train") else "system")
    done = sigmax(*(word.format(**files) for word in words.split()), "--out", out)
    assert done.returncode == 2, done.stdout
    assert named in " ".join(done.stderr.split())
