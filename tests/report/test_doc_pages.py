"""The pages on evaluation and reports: their blocks may be run again, and lists are lists on the site."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
def test_blocks_of_both_pages_can_be_run_twice_in_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pages = [(DOCS / name).read_text() for name in ("quickstart.md", "report.md")]
    blocks = [code for page in pages for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL)]
    for code in (code for _ in range(2) for code in blocks if "certify_run" in code):
        exec(compile(code, "docs", "exec"), {"__name__": "docs"})


def test_every_point_of_a_list_is_one_on_the_site() -> None:
    markdown = pytest.importorskip("markdown", reason="needs mkdocs: pip install 'sigmax[docs]'")
    for name in ("evaluation.md", "report.md"):
        page = (DOCS / name).read_text()
        html = markdown.markdown(page, extensions=["tables", "fenced_code"])
        points = re.findall(r"^(?:\*|\d\.) \*\*(.+?)\*\*", page, re.MULTILINE)
        assert len(points) > 4
        for point in points:
            assert re.search(rf"<li>\s*(?:<p>)?<strong>{re.escape(markdown.markdown(point)[3:-4])}</strong>", html), (
                point
            )
