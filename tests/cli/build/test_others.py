"""`sigmax build cascade|multiscale|semi-elastic|memorized|lipschitz`: from checkpoints to systems, runs and reports."""

import pytest

import sigmax as sx

FOLLOWS = "every radius follows from its counts ("
CERTIFY = ["--data", "digits", "--max", 4, "--n", 300, "--n0", 20]


@pytest.fixture
def net(trained):
    return trained / "net.safetensors"


@pytest.mark.parametrize(
    ("words", "says", "verified"),
    [
        (
            "cascade NET NET SYSTEM --sigma 1,0.5 --confidence 0.6,0 --threshold 0.5,0.6",
            "Cascade(sigma 1 / 0.5, last 0.5, 10 classes)",
            FOLLOWS,
        ),
        (
            "cascade NET NET",
            "Cascade(sigma 0.5, last 0.5, 10 classes)",
            FOLLOWS,
        ),
        (
            "multiscale NET --sigmas 0.25,0.5,1",
            "Cascade(sigma 1 / 0.5, last 0.25",
            FOLLOWS,
        ),
        (
            "semi-elastic NET --data digits --base 0.5 --rate 0.01 --k 5 --offset 2",
            "images of digits train: sigma",
            "every radius follows from its counts",
        ),
        (
            "memorized NET --sigma0 0.5 --steps 3",
            "hold within the memory of a run",
            "assuming later inputs are answered with the same memory",
        ),
        ("lipschitz NET --constant 3", "Lipschitz(constant 3, 10 classes)", "assuming the stated Lipschitz constant"),
    ],
)
def test_each_kind_from_checkpoint_to_report(words, says, verified, net, system, tmp_path, sigmax):
    places = {"NET": net, "SYSTEM": system}
    built = sigmax("build", *(places.get(word, word) for word in words.split()), "--out", tmp_path / "built")
    assert built.returncode == 0, built.stderr
    assert says in built.stdout
    run = tmp_path / "run.jsonl"
    for verb in (
        ("certify", tmp_path / "built", *CERTIFY, "--out", run),
        ("verify", run),
        ("export", run, "--format", "tsv", "--out", tmp_path / "run.tsv"),
        ("report", run, "--out", tmp_path / "report"),
        ("show", tmp_path / "built"),
        ("show", run, "--index", 2),
        ("predict", tmp_path / "built", "--data", "digits", "--max", 2),
    ):
        done = sigmax(*verb)
        assert done.returncode == 0, (verb, done.stderr)
        if verb[0] == "verify":
            assert verified in done.stdout


@pytest.mark.parametrize("name", ["mine.pt2", "mine.onnx", "mine.pth"])
def test_a_cascade_of_other_files_is_built_in_python(name, net, tmp_path, sigmax):
    other = tmp_path / name
    other.write_bytes(net.read_bytes())
    for parts in ((other, net), (net, other)):
        refused = sigmax("build", "cascade", *parts, "--out", tmp_path / "cascade")
        assert refused.returncode == 2
        said = " ".join(refused.stderr.split())
        assert f"{other} cannot be used here: levels are checkpoints that sigmax trained or imported" in said
        assert "in Python: sx.models.open_program" in said


def test_a_cascade_holds_what_was_asked_for(net, system, tmp_path, sigmax):
    words = ("--sigma", "1,0.5", "--confidence", "0.6,0", "--threshold", "0.5,0.6")
    assert sigmax("build", "cascade", net, net, system, *words, "--out", tmp_path / "cascade").returncode == 0
    cascade = sx.load(tmp_path / "cascade")
    assert [level.sigma for level in cascade.levels] == [1.0, 0.5]
    assert [level.rule.defers for level in cascade.levels] == [True, False]
    assert cascade.levels[0].voters["base"].model.confidence == 0.6
    assert (cascade.thresholds, cascade.last.sigma) == ((0.5, 0.6), 0.5)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("cascade NET absent", "expected a system folder"),
        ("cascade NET NET NET --confidence 0.1,0.2,0.3", "one for each of the 2 levels; got 3"),
        ("cascade NET NET --confidence 1.5", "between 0 and 1"),
        ("cascade NET NET --sigma much", "--sigma must be noise levels such as 1.0,0.5"),
        ("cascade NET NET --threshold 0.3", "0.3"),
        ("cascade NET", "needs at least one level before its last"),
        ("multiscale NET --sigmas 1,0.5", "strictly rising"),
        ("multiscale NET --sigmas one", "--sigmas must be noise levels such as 0.25,0.5,1"),
        ("multiscale NET NET --sigmas 0.1,0.2,0.3", "one for each of the 3"),
        ("semi-elastic NET --data digits --k 0", "expected k from 1"),
        ("semi-elastic NET --data nothing", "nothing"),
        ("memorized NET --sigma0 0.5 --least 1", "expected least <= sigma0 <= most"),
        ("memorized absent.safetensors --sigma0 0.5", "absent.safetensors"),
        ("lipschitz NET --constant 0", "constant must be a positive number"),
    ],
)
def test_bad_requests_end_with_code_2(net, words, named, tmp_path, sigmax):
    refused = sigmax("build", *(net if word == "NET" else word for word in words.split()), "--out", tmp_path / "system")
    assert refused.returncode == 2
    assert named in " ".join(refused.stderr.split())
    assert not (tmp_path / "system").exists()
