"""Every example runs as a user would run it, in under a minute, and says what it should."""

import importlib.util
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SAYS = {
    "certify_own_model": ["radius  accuracy", "misclassified"],
    "compare_two_runs": ["noisy is at least as good as clean at every p_A", "noisy, 200 samples", "a poor metric"],
    "read_published_log": ["60 of 60 rows", "with 100 samples at alpha 0.01"],
    "choose_samples": ["p_A 0.99: 2,235", "p_A 0.97: out of reach, the radius stays below 0.47"],
    "poor_metric": ["neither is better everywhere", "p_A from 0.99 to 0.999 adds 0.71 to a radius"],
}
NOTEBOOKS = {
    "certify_your_model": [
        "epoch 20/20",  # beside the bar of the training
        "certify own.jsonl 60/60",
        "limited by the estimation",
        "own.jsonl: smoothed on digits test, 60 of 60 inputs, finished.",
        "every radius follows from its counts (60 of 60 inputs)",
        "image/png",
    ],
    "compare_two_runs": [
        "certify noisy.jsonl 60/60",
        "noisy is at least as good as clean at every p_A",
        "certified accuracy, as the log claims",
        "published is at least as good as clean",
        "image/png",
    ],
}


def run(name: str, folder: Path, *words: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error::UserWarning"}
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - begun < 60
    return done.stdout


def test_every_example_is_listed() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == {*SAYS, "sector", "photographs"}  # which have tests of their own, of their smallest forms
    page = (EXAMPLES / "README.md").read_text()
    assert names == set(re.findall(r"\((\w+)\.py\)", page))
    notebooks = {path.stem for path in EXAMPLES.glob("*.ipynb")}
    assert notebooks == set(NOTEBOOKS) == set(re.findall(r"\((\w+)\.ipynb\)", page))


@pytest.mark.slow
@pytest.mark.parametrize("name", SAYS)
def test_it_runs_and_says(name: str, tmp_path: Path) -> None:
    said = run(name, tmp_path)
    for words in SAYS[name]:
        assert words in said, said


def read_notebook(name: str):
    nbformat = pytest.importorskip("nbformat", reason="needs the packages nbclient and ipykernel")
    return nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_and_shows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = read_notebook(name)
    nbclient = pytest.importorskip("nbclient")
    for variable in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):  # nothing is left in the user's home
        monkeypatch.setenv(variable, str(tmp_path / variable))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3", resources=place).execute()
    said = "".join(str(cell.get("outputs", "")) for cell in notebook.cells)
    for words in NOTEBOOKS[name]:
        assert words in said, said


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_kept_without_its_outputs(name: str) -> None:
    code = [cell for cell in read_notebook(name).cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code)


def test_one_certifies_a_model_in_twenty_lines() -> None:
    text = (EXAMPLES / "certify_own_model.py").read_text()
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(("#", '"""'))]
    assert len(lines) <= 20


@pytest.mark.slow
def test_a_published_log_is_read(shared: Path, tmp_path: Path) -> None:
    log = shared / "fixtures" / "field-logs" / "acr-weakness-cifar10-catrs-noise_1.0.tsv"
    said = run("read_published_log", tmp_path, str(log), "--sigma", "1.0", "--n", "100000")
    assert "10,000 of 10,000 rows" in said
    assert "ACR 0.8147, 43.0% of it from the easiest tenth" in said
    assert "'worst': 0.082, 'worst_label': 4" in said


@pytest.mark.slow
def test_an_unfinished_log_says_so(shared: Path, tmp_path: Path) -> None:
    log = shared / "fixtures" / "field-logs" / "acr-weakness-imagenet-gaussian-noise_0.25"
    said = run(
        "read_published_log",
        tmp_path,
        str(log),
        "--sigma",
        "0.25",
        "--n",
        "100000",
        "--alpha",
        "0.01",
        "--inputs",
        "500",
    )
    assert "427 of 500 rows: the log is unfinished" in said


@pytest.fixture(scope="module")
def toy():
    spec = importlib.util.spec_from_file_location("poor_metric", EXAMPLES / "poor_metric.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_order_of_the_toy_classifiers_flips_with_the_samples(toy) -> None:
    """Sun et al. (2025), Sec. 4.1, print 0.756 for 0.757; averaged over the counts the second flip comes later."""
    frame = toy.averages([50, 100, 200, 400]).set_index("n")
    assert frame["constant"].tolist()[:3] == pytest.approx([0.565, 0.750, 0.913], abs=5e-4)
    assert frame["sides (paper)"].tolist()[:3] == pytest.approx([0.544, 0.757, 0.909], abs=5e-4)
    assert (frame["constant"] > frame["sides (paper)"]).tolist() == [True, False, True, True]
    assert (frame["constant"] > frame["sides (expected)"]).tolist() == [True, False, False, True]


def test_certified_for_real_the_toy_classifiers_are_what_was_computed(toy, tmp_path: Path, monkeypatch) -> None:
    import sigmax as sx

    monkeypatch.setattr(toy, "OUT", tmp_path)
    runs = toy.certified(100)
    expected = toy.averages([100]).iloc[0]
    assert toy.SPREAD * sx.report.acr(runs["constant"]) == pytest.approx(expected["constant"], rel=1e-6)
    # A radius has a standard deviation of 0.15 at 100 samples, so the mean of 400 is off by 0.038 once in a million.
    assert toy.SPREAD * sx.report.acr(runs["sides"]) == pytest.approx(expected["sides (expected)"], abs=0.038)
