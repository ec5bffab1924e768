"""`sigmax import` and `export`: what the reader says of a log is kept; several logs become run files in one folder."""

from pathlib import Path

import pytest

import sigmax as sx

LOG = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\t1\t0.5\t1\t0:00:01\n1\t0\t1\t0.25\t0\t0:00:01\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.tsv"
    path.write_text(LOG)
    return path


def test_data_and_split_are_kept(log: Path, tmp_path: Path, sigmax) -> None:
    words = ("import", log, "--sigma", 0.5, "--n", 1000, "--alpha", 0.001, "--out")
    assert sigmax(*words, tmp_path / "named.jsonl", "--data", "digits", "--split", "test").returncode == 0
    data = sx.read(tmp_path / "named.jsonl").plan.data
    assert (data["name"], data["split"]) == ("digits", "test")
    assert sigmax(*words, tmp_path / "plain.jsonl").returncode == 0
    data = sx.read(tmp_path / "plain.jsonl").plan.data
    assert (data["name"], data["split"]) == ("not stated", "not stated")


def test_a_folder_is_meant_by_a_slash_or_by_being_there(log: Path, tmp_path: Path, sigmax) -> None:
    words = ("import", log, "--sigma", 0.5, "--n", 1000, "--alpha", 0.001, "--out")
    for out, written in ((f"{tmp_path}/new/", "new/log.jsonl"), (f"{tmp_path}/plain", "plain")):
        assert sigmax(*words, out).returncode == 0
        assert (tmp_path / written).is_file()
    refused = sigmax(*words, f"{tmp_path}/plain/")
    assert (refused.returncode, "plain is a file" in refused.stderr) == (2, True)


def test_the_ending_of_an_export_is_its_format_unless_it_contradicts(log: Path, tmp_path: Path, sigmax) -> None:
    run = tmp_path / "run.jsonl"
    assert sigmax("import", log, "--sigma", 0.5, "--n", 1000, "--alpha", 0.001, "--out", run).returncode == 0
    for words, name, header in (
        (("--out", tmp_path / "a.csv"), "a.csv", "index,label,"),
        (("--out", tmp_path / "a.tsv"), "a.tsv", "idx\tlabel\t"),
        (("--out", tmp_path / "sigma_0.25"), "sigma_0.25", "idx\tlabel\t"),
        (("--out", tmp_path / "a.txt", "--format", "csv"), "a.txt", "index,label,"),
        ((), "run.tsv", "idx\tlabel\t"),
    ):
        assert sigmax("export", run, *words).returncode == 0
        assert (tmp_path / name).read_text().startswith(header)
    refused = sigmax("export", run, "--out", tmp_path / "b.csv", "--format", "tsv")
    assert refused.returncode == 2
    assert "--format tsv contradicts the ending of --out" in refused.stderr
    assert not (tmp_path / "b.csv").exists()
    refused = sigmax("export", run, "--out", tmp_path / "b.xlsx")
    assert refused.returncode == 2
    assert "b.xlsx has an unknown ending; use .tsv, .csv, .parquet, or say with --format" in refused.stderr
    assert not (tmp_path / "b.xlsx").exists()


def test_a_report_warns_on_the_terminal(tmp_path: Path, sigmax) -> None:
    runs = []
    for name, data, radius, alpha in (("a", "cifar10", 1.35, 0.001), ("b", "imagenet", 0.5, 0.01)):
        (tmp_path / f"{name}.tsv").write_text(LOG.replace("0.5\t", f"{radius}\t"))
        runs.append(tmp_path / f"{name}.jsonl")
        words = ("--sigma", 0.5, "--n", 1000, "--alpha", alpha, "--data", data, "--out", runs[-1])
        assert sigmax("import", tmp_path / f"{name}.tsv", *words).returncode == 0
    said = sigmax("report", *runs, "--out", tmp_path / "report").stdout
    for sentence in (
        "warning: impossible radii, more than the samples can show, are counted: a has 1",
        "warning: the runs are of different data (cifar10; imagenet); their accuracies are not comparable",
        "... and 2 more in report.md",
    ):
        assert sentence in said
    assert said.count("warning: ") == 3


def test_several_logs_become_run_files_that_are_told_apart(tmp_path: Path, sigmax) -> None:
    logs = [tmp_path / name for name in ("sigma_0.25/log.tsv", "noise_0.5/log.tsv", "other/sigma_1.0")]
    for log in logs:
        log.parent.mkdir()
        log.write_text(LOG)
    stated = ("--n", 1000, "--alpha", 0.001, "--out")
    done = sigmax("import", *logs, *stated, tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    assert "sigma 0.25 (from the path), 2 of 2 inputs, 0 abstained" in done.stdout
    names = {path.name: sx.read(path).plan.rule["sigma"] for path in (tmp_path / "runs").iterdir()}
    assert names == {"sigma_0.25-log.jsonl": 0.25, "noise_0.5-log.jsonl": 0.5, "other-sigma_1.0.jsonl": 1.0}
    again = sigmax("import", logs[0], *stated, tmp_path / "runs")  # one log and a folder
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "runs" / "log.jsonl").exists()
    for words, message in (
        ((*logs, *stated, tmp_path / "runs"), "exists already"),
        ((*logs, *stated, tmp_path / "runs.jsonl"), "3 logs need a folder for their run files"),
        ((*logs, *stated, logs[0]), "3 logs need a folder"),
        ((logs[0], logs[0], *stated, tmp_path / "new"), "give each log once"),
    ):
        refused = sigmax("import", *words)
        assert refused.returncode == 2
        assert message in refused.stderr


def test_one_bad_log_among_several_is_named_and_nothing_is_written(log: Path, tmp_path: Path, sigmax) -> None:
    bad = [tmp_path / "sigma_0.1", tmp_path / "sigma_0.5"]
    bad[0].write_text(LOG)
    bad[1].write_text("notes")
    done = sigmax("import", *bad, log, "--n", 1000, "--alpha", 0.001, "--out", tmp_path / "runs")
    assert done.returncode == 2
    assert f"{bad[0]}: sigma=0.1 cannot be right with n=1000 and alpha=0.001: 1 row has a radius above" in done.stderr
    assert f"{bad[1]} has no column idx" in done.stderr
    assert f"{log} does not name its sigma" in done.stderr
    assert "Nothing was written; the other 0 of 3 logs can be imported" in done.stderr
    assert not (tmp_path / "runs").exists()
