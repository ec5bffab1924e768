"""`sigmax build multiscale|semi-elastic|memorized`: from checkpoints to systems and runs."""

import pytest

import sigmax as sx

CERTIFY = ["--data", "digits", "--max", 4, "--n", 300, "--n0", 20]


@pytest.fixture
def net(trained):
    return trained / "net.safetensors"


def walked(sigmax, system, folder):
    """Certify, verify, export and report; what verify said."""
    run = folder / "run.jsonl"
    certified = sigmax("certify", system, *CERTIFY, "--out", run)
    assert certified.returncode == 0, certified.stderr
    verified = sigmax("verify", run)
    assert verified.returncode == 0, verified.stderr
    assert sigmax("export", run, "--format", "tsv", "--out", folder / "run.tsv").returncode == 0
    reported = sigmax("report", run, "--out", folder / "report")
    assert reported.returncode == 0, reported.stderr
    assert sigmax("predict", system, "--data", "digits", "--max", 2).returncode == 0
    return verified.stdout


def test_multiscale(net, tmp_path, sigmax):
    out = tmp_path / "cascade"
    built = sigmax(
        "build", "multiscale", net, "--sigmas", "0.25,0.5,1", "--thresholds", "0.5,0.5,0.6", "--out", out
    )
    assert built.returncode == 0, built.stderr
    assert "a cascade of sigma 1 / 0.5 / 0.25, 10 classes, budget sound" in built.stdout
    assert sx.load(out).rule.thresholds == (0.5, 0.5, 0.6)
    assert sorted(path.name for path in out.iterdir()) == ["scale-0.safetensors", "system.toml"]
    assert "every radius follows from its counts" in walked(sigmax, out, tmp_path)
    assert "stage" in (tmp_path / "run.tsv").read_text().splitlines()[0]


def test_the_released_budget_is_warned_of(net, tmp_path, sigmax):
    words = ["--sigmas", "0.25 0.5", "--budget", "released", "--out", tmp_path / "cascade"]
    built = sigmax("build", "multiscale", net, net, *words)
    assert built.returncode == 0, built.stderr
    assert "the radii are no certificates" in built.stderr
    assert "NO CERTIFICATE" in walked(sigmax, tmp_path / "cascade", tmp_path)


def test_semi_elastic(net, tmp_path, sigmax):
    words = [
        "--data",
        "digits",
        "--base",
        0.5,
        "--rate",
        0.01,
        "--k",
        5,
        "--offset",
        2,
        "--out",
        tmp_path / "elastic",
    ]
    built = sigmax("build", "semi-elastic", net, *words)
    assert built.returncode == 0, built.stderr
    assert "images of digits train, rate 0.01" in built.stdout
    assert (tmp_path / "elastic" / "field.safetensors").is_file()
    assert "rate 0.01 proved, dim 64" in walked(sigmax, tmp_path / "elastic", tmp_path)


def test_memorized(net, tmp_path, sigmax):
    words = ["--sigma0", 0.5, "--steps", 3, "--out", tmp_path / "memorized"]
    built = sigmax("build", "memorized", net, *words)
    assert built.returncode == 0, built.stderr
    assert "hold within the memory of a run" in built.stdout
    assert "recorded distances to earlier balls" in walked(sigmax, tmp_path / "memorized", tmp_path)
    held = sigmax("verify", tmp_path / "run.jsonl", "--data", "digits")
    assert held.returncode == 0, held.stderr


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["multiscale", "NET", "--sigmas", "1,0.5"], "strictly rising"),
        (["multiscale", "NET", "--sigmas", "one"], "--sigmas must be noise levels such as 0.25,0.5,1"),
        (["multiscale", "NET", "NET", "--sigmas", "0.1,0.2,0.3"], "one for each of the 3 sigmas"),
        (["multiscale", "NET", "--sigmas", "0.5,1", "--thresholds", "0.3"], "from 0.5 to below 1"),
        (["semi-elastic", "NET", "--data", "digits", "--k", 0], "expected k from 1"),
        (["semi-elastic", "NET", "--data", "nothing"], "nothing"),
        (["memorized", "NET", "--sigma0", 0.5, "--least", 1], "expected least <= sigma0 <= most"),
        (["memorized", "absent.safetensors", "--sigma0", 0.5], "absent.safetensors"),
    ],
)
def test_bad_requests_end_with_code_2(net, words, named, tmp_path, sigmax):
    refused = sigmax("build", *(net if word == "NET" else word for word in words), "--out", tmp_path / "system")
    assert refused.returncode == 2
    assert named in refused.stderr
    assert not (tmp_path / "system").exists()
