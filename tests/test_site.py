"""`make docs` builds the site: every link leads somewhere, every public name is documented."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sigmax as sx

ROOT = Path(__file__).parents[1]
PACKAGES = ("bounds", "radius", "report", "data", "models", "train", "noise", "systems", "pipeline")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="needs mkdocs: pip install 'sigmax[docs]'")
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(words, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder


def test_every_page_of_the_docs_is_in_it(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).is_file(), page
        assert page.relative_to(ROOT / "docs").as_posix() in (ROOT / "mkdocs.yml").read_text(), f"{page} in nav"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_documented(site: Path, package: str) -> None:
    page = (site / "api" / f"{package}.html").read_text()
    # a function named like its file is documented by its full name: sigmax.radius.gaussian.gaussian
    documented = {name.rpartition(".")[2] for name in re.findall(rf'id="(sigmax\.{package}\.[\w.]+)"', page)}
    assert not set(getattr(sx, package).__all__) - documented


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r'<(?:script|img|link)[^>]*(?:src|href)="(https?:[^"]+)"', page.read_text())
        assert not loaded, page
