"""A scheme defined outside the package goes through the whole workflow without a change inside."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import sigmax as sx
from sigmax import models, report
from sigmax.pipeline.compare.config import CompareConfig
from sigmax.pipeline.compare.schemes import made_schemes
from sigmax.systems import fingerprint
from tests.records.helpers import forge
from tests.report.pages import data, page_of
from tests.systems.outside_scheme import Pixelwise
from tests.systems.test_folder import classifier

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Built, saved, loaded and certified."""
    folder = tmp_path_factory.mktemp("outside")
    original = Pixelwise(classifier(), sigma=0.5, classes=10, dim=64)
    original.save(folder / "system")
    loaded = sx.load(folder / "system")
    assert isinstance(loaded, Pixelwise)
    assert loaded.rule == original.rule
    assert fingerprint(loaded) == fingerprint(original)
    return sx.certify_run(loaded, sx.data.load("digits"), folder / "run.jsonl", n=400, maximum=8)


def test_its_certificates_are_its_theorems(run):
    plain = sx.Smoothed(classifier(), sigma=0.5, classes=10)
    same = plain.certify(sx.data.load("digits").pixels(range(8)), n=400, ids=range(8))
    assert [r.certificate.predicted for r in sorted(run.records, key=lambda r: r.index)] == [c.predicted for c in same]
    assert [r.certificate.radius for r in sorted(run.records, key=lambda r: r.index)] == pytest.approx(
        [c.radius / 8 for c in same], rel=1e-12
    )
    assert any(c.radius for c in same)
    assert run.plan.norm == "linf"


def test_it_is_verified_and_reported(run, tmp_path):
    assert sx.verify(run.path).holds
    accuracy = report.certified_accuracy(run, [0.0, 0.01])
    assert accuracy.tolist() == sorted(accuracy, reverse=True)
    copy = tmp_path / "run.jsonl"
    copy.write_bytes(run.path.read_bytes())
    forge(copy, 1, lambda d: d["rule"].update(dim=1))
    assert not sx.verify(copy).holds
    forge(copy, 1, lambda d: d["rule"].update(dim=64) or d.update(norm="l2"))
    assert "the plan names the norm 'l2'; this scheme certifies in linf" in sx.verify(copy).findings[0].message


def test_every_label_names_its_norm(run, tmp_path):
    """Terminal, page, figure, table of schemes and card take the norm from the run, not from a habit."""
    from sigmax.cli.tables import summary_table
    from sigmax.systems import save_pretrained

    assert summary_table([run]).title == "certified accuracy in % at linf radius"
    accuracy = data(page_of(run), "data-page")["figures"][0]
    assert accuracy["x"] == "linf radius (pixels in [0, 1])"
    assert report.draw(run).get_xlabel() == r"$\ell_\infty$ radius (pixels in [0, 1])"
    report.write_scheme_table({"pixelwise": run}, tmp_path / "table")
    assert "Certified accuracy in % at linf radii" in (tmp_path / "table" / "compare.md").read_text()
    folder = save_pretrained(sx.load(run.path.parent / "system"), tmp_path / "card")
    assert "Radii are in the norm linf." in (folder / "README.md").read_text()
    euclidean = replace(run, plan=replace(run.plan, norm="l2"))
    for compared in (report.compare, report.draw, report.best_sigma):
        with pytest.raises(sx.RequestError, match="different norms .*linf.*l2.*report on them apart"):
            compared([run, euclidean])


def test_what_is_known_of_gaussian_radii_is_not_said_of_its_own(run):
    """Its class builds on Smoothed's, but its radius is not sigma * Phi^-1(p_A)."""
    with pytest.raises(sx.RequestError, match="another rule"):
        report.recertify(run, n=200)
    with pytest.raises(sx.RequestError, match="'pixelwise', whose radius is not a function of one p_A"):
        report.plug_in(run)


COMPARED = """
out = "compared"
network = "net.safetensors"
data = {source = "digits", max = 2}
certify = {n0 = 20, n = 300}
schemes.constant = {kind = "smoothed", sigma = 0.5}
schemes.outside = {kind = "pixelwise", sigma = 0.25, dim = 64}
"""


def test_a_comparison_names_it_like_any_other(tmp_path):
    models.save(tmp_path / "net.safetensors", classifier())
    (tmp_path / "schemes.toml").write_text(COMPARED)
    asked = CompareConfig.read(tmp_path / "schemes.toml", ["schemes.outside.sigma=0.5"])
    made = made_schemes(asked)
    assert isinstance(made["outside"], Pixelwise)
    assert (made["outside"].rule.sigma, made["outside"].rule.dim) == (0.5, 64)
    assert made["outside"].voters["base"].model is made["constant"].voters["base"].model, "read once for both"
    (tmp_path / "schemes.toml").write_text(COMPARED.replace("dim = 64", "dim = 0"))
    with pytest.raises(sx.RequestError, match="schemes.outside.dim: expected a number of at least 1, got 0"):
        CompareConfig.read(tmp_path / "schemes.toml")
    (tmp_path / "schemes.toml").write_text(COMPARED.replace("pixelwise", "other"))
    with pytest.raises(sx.RequestError, match="schemes.outside.kind: expected one of .*'pixelwise', got 'other'"):
        CompareConfig.read(tmp_path / "schemes.toml")


def test_it_can_be_the_last_of_a_cascade_only_in_its_own_norm():
    level = sx.Smoothed(classifier(), sigma=0.5, classes=10)
    with pytest.raises(sx.RequestError, match="norm"):
        sx.Cascade([level], Pixelwise(classifier(), sigma=0.25, classes=10, dim=64))


@pytest.mark.slow
def test_the_command_line_finds_it_by_its_entry_point(run, tmp_path):
    """In processes of their own: without the package the scheme is unknown, with it every verb works."""
    info = tmp_path / "outside-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sigmax.schemes]\npixelwise = tests.systems.outside_scheme\n")

    def sigmax(*arguments, installed=True):
        here = [str(ROOT / "src"), str(ROOT)]
        path = os.pathsep.join([str(tmp_path), *here] if installed else here)
        command = [sys.executable, "-m", "sigmax", *map(str, arguments)]
        return subprocess.run(
            command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
        )

    unknown = sigmax("verify", run.path, installed=False)
    assert unknown.returncode == 2
    assert "unknown scheme 'pixelwise'" in unknown.stdout + unknown.stderr
    assert sigmax("verify", run.path).returncode == 0
    out = tmp_path / "again.jsonl"
    system = run.path.parent / "system"
    done = sigmax("certify", system, "--data", "digits", "--out", out, "--n", 400, "--max", 2)
    assert done.returncode == 0, done.stderr
    assert [r.certificate for r in sx.read(out).records] == [
        r.certificate for r in run.records if r.index in {record.index for record in sx.read(out).records}
    ]
    page = sigmax("report", run.path, "--out", tmp_path / "report")
    assert page.returncode == 0, page.stderr
    assert "pixelwise" in (tmp_path / "report" / "report.md").read_text()
