"""The code blocks of README and docs run; those that train are slow."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from sigmax.cli.main import main
from sigmax.pipeline import PipelineConfig
from sigmax.pipeline.compare.config import CompareConfig
from sigmax.rules.certificate import Outcome
from tests.models.adapters.exports import as_onnx, network

ROOT = Path(__file__).parents[1]
MY_MODELS = """import torch


def load():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
"""
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(language):
    """Every code block of a language, in the order of the pages."""
    return [
        pytest.param(code, id=f"{page.stem}-{number}", marks=pytest.mark.slow if "sigmax train" in code else ())
        for page in PAGES
        for number, code in enumerate(re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL))
    ]


@pytest.mark.usefixtures("registrations_are_forgotten")
@pytest.mark.parametrize("code", blocks("python"))
def test_python_blocks_run(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs", "exec"), {"__name__": "docs"})


@pytest.mark.parametrize("code", blocks("toml"))
def test_toml_blocks_are_valid(code, tmp_path):
    kinds = {"[experts]": PipelineConfig, "[schemes.": CompareConfig, "[project.entry-points": None}
    (kind,) = (kind for table, kind in kinds.items() if table in code)
    (tmp_path / "file.toml").write_text(code)
    if kind:
        kind.read(tmp_path / "file.toml")


def test_every_outcome_is_explained():
    page = (ROOT / "docs" / "certificates.md").read_text()
    explained = re.findall(r"^(?:\| )?`([a-z_]+)`", page[page.index("## Outcomes") :].split("\n## ")[0], re.MULTILINE)
    assert sorted(explained) == sorted(outcome.name.lower() for outcome in Outcome)


def commands(code):
    """The sigmax commands of a shell block, continued lines joined and comments dropped."""
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["sigmax"]:
            yield words


@pytest.mark.parametrize("code", blocks("bash"))
def test_shell_blocks_run(code, tmp_path, monkeypatch, work):
    monkeypatch.chdir(work if needs_earlier_blocks(code) else tmp_path)
    if "held-out.npz" in code:
        (before,) = [block.values[0] for block in blocks("python") if "held-out" in block.values[0]]
        exec(compile(before, "docs", "exec"), {"__name__": "docs"})
    for words in commands(code):
        if words[2:3] == ["resnet56.th"] or words[3:4] == ["resnet56.th"]:
            link_public_weights(Path.cwd())
        if words[3:4] == ["net.onnx"]:
            as_onnx(Path("net.onnx"), network())
            Path("my_models.py").write_text(MY_MODELS)
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as end:
            main()
        assert not end.value.code, words


@pytest.mark.parametrize("code", blocks("sh"))
def test_shell_blocks_for_other_machines_are_well_formed(code):
    subprocess.run(["bash", "-n"], input=code, text=True, check=True)


@pytest.mark.parametrize("code", blocks("yaml"))
def test_yaml_blocks_are_well_formed(code):
    assert isinstance(yaml.safe_load(code), dict)


def needs_earlier_blocks(code) -> bool:
    return "work/half.jsonl" in code and "sigmax certify" not in code


@pytest.fixture
def work(tmp_path_factory):
    """A folder as the quick start leaves it, with a published log beside it."""
    import sigmax as sx
    from sigmax import models
    from sigmax.records.export import export_tsv

    folder = tmp_path_factory.mktemp("quickstart")
    net = models.create(models.Description(architecture="small-cnn", classes=10, input_shape=(1, 8, 8)))
    f = sx.Smoothed(net, sigma=0.5, classes=10)
    run = sx.certify_run(f, sx.data.load("digits"), folder / "work" / "half.jsonl", n=200, maximum=3)
    export_tsv(run, folder / "their-log.tsv")
    return folder


def link_public_weights(folder: Path) -> None:
    weights = ROOT.parent / "shared" / "weights" / "cifar10-resnet56" / "resnet56-4bfd9763.th"
    if not weights.exists():
        pytest.skip("needs the public ResNet-56 weights")
    (folder / "resnet56.th").symlink_to(weights)


def test_links_lead_somewhere():
    for page in PAGES:
        for target, _, anchor in re.findall(r"\]\(([^)#]+)(#([^)]+))?\)", page.read_text()):
            if not target.startswith("http"):
                there = page.parent / target
                assert there.exists(), f"{page.name} links to {target}"
                assert not anchor or anchor in anchors(there), f"{page.name} links to {target}#{anchor}"


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
