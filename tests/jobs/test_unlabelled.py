"""Data without labels, from certification to the report: radii and classes, and nothing that needs the truth."""

import re

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import sigmax as sx
from sigmax import report
from sigmax.jobs.data_check import data_findings
from sigmax.jobs.label import make_labels
from sigmax.jobs.predict import predict_all
from sigmax.records.export import export_csv, export_parquet, export_tsv
from sigmax.records.lines import decode, encode
from tests.cli.conftest import sigmax  # noqa: F401 (a fixture)
from tests.report.digits import system

DIGITS = sx.data.load("digits")
IMAGES, LABELS = DIGITS.pixels(range(12)), DIGITS.labels[:12]
ASKED = {"n0": 20, "n": 300, "alpha": 0.01}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The same inputs certified with labels and without, by schemes with parts and without."""
    home = tmp_path_factory.mktemp("runs")
    for name in ("low", "consensus", "cascade"):
        sx.certify_run(system(name), (IMAGES, LABELS), home / f"{name}.jsonl", **ASKED)
        sx.certify_run(system(name), (IMAGES, None), home / f"{name}-unknown.jsonl", **ASKED)
    return home


@pytest.mark.parametrize("name", ["low", "consensus", "cascade"])
def test_certificates_are_the_same_and_verify(name, folder):
    known, unknown = sx.read(folder / f"{name}.jsonl"), sx.read(folder / f"{name}-unknown.jsonl")
    assert (known.labelled, unknown.labelled) == (True, False)
    assert [r.certificate for r in known.records] == [r.certificate for r in unknown.records]
    assert {(r.label, r.correct) for r in unknown.records} == {(None, None)}
    assert [r.counts for r in unknown.records] == [r.certificate.predicted is not None for r in unknown.records]
    assert sx.verify(unknown.path).holds
    assert not list(data_findings(unknown, sx.data.as_dataset(IMAGES)))


def test_missing_labels_are_no_numbers(folder, tmp_path):
    run = sx.read(folder / "low-unknown.jsonl")
    frame = run.frame()
    assert frame[["label", "correct"]].isna().all(axis=None)
    assert not (frame["label"] == frame["predicted"]).any(), "an abstention must not look like the truth"
    export_tsv(run, tmp_path / "run.tsv")
    table = pd.read_csv(tmp_path / "run.tsv", sep="\t")
    assert table[["label", "correct"]].isna().all(axis=None)
    assert table["predict"].tolist() == frame["predicted"].tolist()
    export_csv(run, tmp_path / "run.csv")
    export_parquet(run, tmp_path / "run.parquet")
    for read in (pd.read_csv(tmp_path / "run.csv"), pd.read_parquet(tmp_path / "run.parquet")):
        assert read["label"].isna().all()
        assert read["radius"].tolist() == frame["radius"].tolist()
    export_tsv(sx.read(folder / "cascade-unknown.jsonl"), tmp_path / "cascade.tsv")
    assert pd.read_csv(tmp_path / "cascade.tsv", sep="\t")["corr_uc"].isna().all()


@pytest.mark.parametrize(("name", "label"), [("low", None), ("low-unknown", 3)])
def test_a_run_has_all_labels_or_none_as_its_plan_says(name, label, folder, tmp_path):
    lines = (folder / f"{name}.jsonl").read_bytes().splitlines(keepends=True)
    lines[2] = encode({**decode(lines[2]), "label": label})
    forged = tmp_path / "forged.jsonl"
    forged.write_bytes(b"".join(lines))
    (first, *_) = sx.verify(forged).findings
    assert first.line == 3
    assert re.search("input 1 has (no|a) label; the plan says that its data has", first.message)
    with pytest.raises(sx.RequestError, match="line 3: input 1 has"):
        sx.read(forged)


def test_another_attempt_with_labels_is_another_run(folder):
    with pytest.raises(sx.RequestError, match=r"data.labelled"):
        sx.certify_run(system("low"), (IMAGES, LABELS), folder / "low-unknown.jsonl", **ASKED)


def test_shares_count_any_class(folder):
    known, unknown = sx.read(folder / "low.jsonl"), sx.read(folder / "low-unknown.jsonl")
    radii = [0.0, 0.1, 0.2]
    shares = report.certified_share(unknown, radii)
    assert shares.tolist() == report.certified_share(known, radii).tolist()
    frame = unknown.frame()
    assert shares[0.1] == ((frame["predicted"] >= 0) & (frame["radius"] >= 0.1)).mean()
    table = report.compare(unknown, radii)
    assert table["0.1"].tolist() == pytest.approx([100 * shares[0.1]])
    assert table["mean radius"][0] == pytest.approx(frame["radius"].mean())
    assert "ACR" not in table
    assert list(report.certified_curve(unknown).columns) == ["radius", "share", "low", "high"]
    assert list(report.outcome_shares(unknown).index) == ["certified", "too small", "abstained"]


NEED_LABELS = {
    "certified_accuracy": lambda run: report.certified_accuracy(run, [0.1]),
    "acr": report.acr,
    "class_accuracy": report.class_accuracy,
    "ecdf": report.ecdf,
    "vote_shares": report.vote_shares,
    "recertify": lambda run: report.recertify(run, n=100),
    "plug_in": lambda run: report.plug_in(run, n=100),
    "accuracy_gain": lambda run: report.accuracy_gain(run, run, [0.1]),
    "best_over_sigma": lambda run: report.best_over_sigma([run]),
}


@pytest.mark.parametrize("ask", NEED_LABELS.values(), ids=NEED_LABELS.keys())
def test_what_needs_labels_says_so(ask, folder):
    with pytest.raises(
        sx.RequestError, match=r"low-unknown.jsonl has no labels, which .* needs; certify data with labels"
    ):
        ask(folder / "low-unknown.jsonl")


def test_training_and_labelling_need_labels(tmp_path):
    data = sx.data.as_dataset(IMAGES)
    with pytest.raises(sx.RequestError, match="has no labels, which training a classifier needs"):
        sx.train.train_classifier(data, sigma=0.5, out=tmp_path / "net.safetensors")
    with pytest.raises(sx.RequestError, match="has no labels, which learning which expert"):
        make_labels([system("low")], data, tmp_path / "labels", n=100)


@pytest.mark.parametrize("names", [["low"], ["low", "cascade"], ["low", "consensus"]])
def test_reports_show_shares_instead_of_accuracy(names, folder, tmp_path):
    runs = [folder / f"{name}-unknown.jsonl" for name in names]
    report.write(runs, tmp_path / "report", images=IMAGES)
    page, text = ((tmp_path / "report" / name).read_text() for name in ("report.html", "report.md"))
    assert "<h1>Certified share</h1>" in page
    assert text.startswith("# Certified share")
    for words in ("The data has no labels", "certified for any class, right or wrong"):
        assert words in text
    assert "Certified accuracy" not in text
    assert "ACR" not in text.partition("## Routing")[0]
    assert "misclassified" not in page.partition("<script")[0]


def test_schemes_are_compared_by_shares(folder, tmp_path):
    runs = {name: sx.read(folder / f"{name}-unknown.jsonl") for name in ("low", "cascade")}
    report.write_scheme_table(runs, tmp_path)
    text = (tmp_path / "compare.md").read_text()
    assert "Certified share in % at l2 radii" in text
    assert "mean radius" in text
    pairs = report.dominance(runs.values())
    assert [pair.scale for pair in pairs] == ["radius"], "without labels there is no p_A to compare"


def test_runs_with_and_without_labels_are_not_mixed(folder):
    with pytest.raises(sx.RequestError, match=r"low-unknown.jsonl has no labels and other runs have"):
        report.compare([folder / "low.jsonl", folder / "low-unknown.jsonl"])


def test_certify_and_predict_take_what_certify_run_takes():
    f = system("low")
    wanted = f.certify(IMAGES, **ASKED)
    loader = DataLoader(TensorDataset(torch.from_numpy(IMAGES), torch.tensor(LABELS)), batch_size=5)
    eight_bits = np.rint(IMAGES * 255).astype(np.uint8)
    for source in ((IMAGES, LABELS), loader, loader.dataset, torch.from_numpy(IMAGES), DIGITS.take(range(12))):
        assert f.certify(source, **ASKED) == wanted
    assert f.certify(eight_bits, **ASKED) == f.certify((eight_bits, None), **ASKED)
    predicted = f.predict(IMAGES, n=100, seed=1)
    assert f.predict(loader, n=100, seed=1) == predicted
    assert predict_all(f, loader, range(12), n=100, seed=1) == predicted
    assert f.predict("digits", n=100, seed=1)[:12] == predicted


def test_from_the_command_line(tmp_path, sigmax):  # noqa: F811
    np.savez(tmp_path / "mine.npz", images=IMAGES)
    source = f"npz:{tmp_path / 'mine.npz'}"
    build = sx.models.Description(architecture="small-cnn", classes=10, input_shape=(1, 8, 8))
    sx.Smoothed(sx.models.create(build), sigma=0.1, classes=10).save(tmp_path / "system")
    run, ask = tmp_path / "run.jsonl", ("--n", 200, "--alpha", 0.01, "--max", 4)
    done = {
        words[0]: sigmax(*words)
        for words in (
            ("certify", tmp_path / "system", "--data", source, "--out", run, *ask),
            ("verify", run, "--data", source),
            ("show", run),
            ("report", run, "--data", source, "--out", tmp_path / "report"),
            ("predict", tmp_path / "system", "--data", source, "--max", 4, "--out", tmp_path / "predictions.csv"),
        )
    }
    assert {name: (of.returncode, of.stderr) for name, of in done.items() if of.returncode} == {}
    assert "certified for any class (no labels)" in done["certify"].stdout
    assert "mean radius" in done["report"].stdout
    assert "which has no labels" in done["verify"].stdout
    assert ", no labels" in done["show"].stdout
    assert re.search(r"^ +0 +- ", done["show"].stdout, re.M), "no label in the column of labels"
    assert re.search(r"4 inputs: \d answered, \d abstained", done["predict"].stdout)
    assert pd.read_csv(tmp_path / "predictions.csv")["label"].isna().all()
    assert "Input 2, no label:" in sigmax("show", run, "--index", 2).stdout
    refused = sigmax("train", "classifier", "--data", source, "--sigma", 0.5, "--out", tmp_path / "net.safetensors")
    assert refused.returncode == 2
    assert "has no labels" in refused.stderr
    np.savez(tmp_path / "mine.npz", images=IMAGES, labels=1 + LABELS % 9)
    warned = sigmax("certify", tmp_path / "system", "--data", source, "--out", tmp_path / "other.jsonl", *ask)
    assert "warning: " in warned.stderr
    assert "subtract 1" in " ".join(warned.stderr.split())
