from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sigmax as sx
from sigmax import RequestError
from sigmax.records.run import Run
from sigmax.report.html.thumbnails import SIDE, thumbnails
from tests.report.large import noise_images
from tests.report.pages import content, data, page_of, tile

Runs = dict[str, Run]


def test_small_images_keep_every_pixel(digits_runs: Runs) -> None:
    digits = sx.data.load("digits", "test")
    page = page_of(digits_runs["mid"], images=digits)
    pictures = data(page, "data-page")["pictures"]
    assert pictures["exact"] is True
    for record in digits_runs["mid"].records:
        shown = tile(page, pictures, record.index)[:, :, 0]
        assert np.abs(shown / 255 - digits.pixels([record.index])[0, 0]).max() <= 0.5 / 255


def test_colours_keep_their_order() -> None:
    red = np.zeros((1, 3, 4, 4), np.uint8)
    red[:, 0] = 200
    found = thumbnails(sx.data.Dataset("red", "test", red, np.zeros(1, int), ("a", "b")), [0])
    page = f'<script type="application/octet-stream" id="sheet-0">{found.sheets[0]}</script>'
    assert tile(page, found.described(), 0)[1, 1].tolist() == [200, 0, 0]


@pytest.mark.slow
def test_sheets_lose_quality_before_they_outgrow_the_page() -> None:
    images = noise_images(600)
    everything = thumbnails(images, range(600))
    assert everything.exact
    assert len(everything.sheets) == 3
    letters = sum(map(len, everything.sheets))
    for part in (2, 10, 60):
        smaller = thumbnails(images, range(600), most_letters=letters // part)
        assert not smaller.exact
        assert sum(map(len, smaller.sheets)) <= letters // part
    with pytest.raises(RequestError, match="leave --data out"):
        thumbnails(images, range(600), most_letters=1000)


def test_large_images_are_shrunk() -> None:
    pixels = np.zeros((2, 1, 224, 200), np.uint8)
    pixels[1] = 255
    found = thumbnails(sx.data.Dataset("big", "test", pixels, np.zeros(2, int), ("a", "b")), [1])
    assert (found.height, found.width) == (56, 50)
    assert max(found.height, found.width) <= SIDE
    assert not found.exact
    page = f'<script type="application/octet-stream" id="sheet-0">{found.sheets[0]}</script>'
    assert tile(page, found.described(), 1).min() == 255


def test_images_of_other_data_are_refused(digits_runs: Runs) -> None:
    with pytest.raises(RequestError, match=r"digits train .* is not what the runs certified"):
        page_of(digits_runs["mid"], images=sx.data.load("digits", "train"))


def test_images_that_nobody_can_see_are_refused() -> None:
    images = sx.data.Dataset("odd", "test", np.zeros((1, 2, 4, 4), np.uint8), np.zeros(1, int), ("a", "b"))
    with pytest.raises(RequestError, match="1 or 3 channels"):
        thumbnails(images, [0])


def test_only_the_runs_of_these_images_show_them(digits_runs: Runs, tmp_path: Path) -> None:
    mine = digits_runs["mid"]
    other = replace(
        mine, path=tmp_path / "other.jsonl", plan=replace(mine.plan, data={**mine.plan.data, "fingerprint": "0"})
    )
    page = page_of([mine, other], images=sx.data.load("digits", "test"))
    assert [run["images"] for run in data(page, "data-page")["runs"]] == [True, False]
    assert content(page, "sheet-0")


def test_report_takes_the_images_by_their_source(digits_runs: Runs, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from sigmax.cli.main import app

    run = digits_runs["mid"].path
    words = ["report", str(run), "--out", str(tmp_path / "report"), "--data"]
    done = CliRunner().invoke(app, [*words, "digits"], catch_exceptions=False)
    assert done.exit_code == 0
    assert data((tmp_path / "report" / "report.html").read_text(), "data-page")["pictures"]["height"] == 8
    with pytest.raises(RequestError, match="is not what the runs certified"):
        CliRunner().invoke(app, [*words, "digits", "--split", "train"], catch_exceptions=False)
