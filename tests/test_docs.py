"""What README and docs show is what happens: their code blocks are run."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from sigmax.cli.main import main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(language):
    """Every code block of a language, in the order of the pages."""
    return [
        pytest.param(code, id=f"{page.stem}-{number}")
        for page in PAGES
        for number, code in enumerate(re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL))
    ]


@pytest.mark.parametrize("code", blocks("python"))
def test_python_blocks_run(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs", "exec"), {"__name__": "docs"})


def commands(code):
    """The sigmax commands of a shell block, continued lines joined and comments dropped."""
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["sigmax"]:
            yield words


@pytest.mark.parametrize("code", blocks("bash"))
def test_shell_blocks_run(code, tmp_path, monkeypatch, work):
    monkeypatch.chdir(work if needs_earlier_blocks(code) else tmp_path)
    for words in commands(code):
        if words[2:3] == ["resnet56.th"] or words[3:4] == ["resnet56.th"]:
            link_public_weights(Path.cwd())
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as end:
            main()
        assert not end.value.code, words


def needs_earlier_blocks(code) -> bool:
    return "work/half.jsonl" in code and "sigmax certify" not in code


@pytest.fixture
def work(tmp_path_factory):
    """A folder in which the quick start was walked, with a log of the field beside it."""
    import sigmax as sx
    from sigmax import models
    from sigmax.records.export import export_tsv

    folder = tmp_path_factory.mktemp("walked")
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
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
