"""`sigmax show`: systems and runs in words, and one certificate explained."""

import re

import torch

import sigmax as sx
from sigmax import models
from sigmax.cli.runs.inputs import CLASS, FULL, header, line
from sigmax.records.lines import Record
from sigmax.records.rounding import down, share_down
from sigmax.rules.certificate import Certificate, Outcome, Role, Stage
from sigmax.systems import fingerprint

MORE = "... and {} more; --limit 0 shows all, --index I explains one"


def test_a_system_shows_its_rule_its_networks_and_its_fingerprint(system, sigmax):
    shown = sigmax("show", system)
    assert shown.returncode == 0, shown.stderr
    assert "smoothed" in shown.stdout
    assert "small-cnn, 10 classes of 1x8x8, trained with sigma 0.5" in shown.stdout
    assert fingerprint(sx.load(system)) in shown.stdout


def test_a_run_shows_its_plan_and_explains_a_certificate(system, tmp_path, sigmax):
    data, out = sx.data.load("digits", "test"), tmp_path / "run.jsonl"
    run = sx.certify_run(sx.load(system), data, out, n=500, start=3, skip=20, maximum=4, seed=7)
    shown = sigmax("show", out)
    assert shown.returncode == 0, shown.stderr
    for words in ("n0 100, n 500", "seed 7", "4 from 3, every 20", "4 of 4", f"{data.fingerprint}", run.plan.system):
        assert words in shown.stdout
    explained = sigmax("show", out, "--index", 23)
    record = next(record for record in run.records if record.index == 23)
    assert f"Input 23, label {record.label}: {record.certificate.explain()}" in explained.stdout
    for stage in record.certificate.stages:
        assert stage.in_words()[1:] in explained.stdout
        assert f"{share_down(100 * max(stage.counts) / stage.n):>5}%" in explained.stdout
        assert FULL in explained.stdout


def test_runs_of_one_hash_of_weights_are_told_apart_by_behaviour(tmp_path, sigmax):
    def shown(scale):
        class Net(torch.nn.Module):
            def forward(self, x):
                return scale * x.flatten(1)[:, :10]

        out = tmp_path / f"{scale}.jsonl"
        sx.certify_run(sx.Smoothed(Net(), sigma=0.5, classes=10), "digits", out, n=100, maximum=1)
        lines = sigmax("show", out).stdout.splitlines()
        return [next(line for line in lines if line.startswith(name)) for name in ("system:", "outputs:")]

    (system, behaviour), (same, other) = shown(1), shown(2)
    assert system == same
    assert behaviour.split() != other.split()
    assert behaviour.split()[1:5] == ["base", "on", "probe", "inputs:"]


def test_the_inputs_are_listed_in_80_columns_by_index_or_radius(system, tmp_path, sigmax):
    data, out = sx.data.load("digits", "test"), tmp_path / "run.jsonl"
    said = sigmax("certify", system, "--data", "digits", "--n", 500, "--max", 5, "--out", out, "--verbose").stdout
    run = sx.read(out)
    assert run.frame()["label"].tolist() == data.labels[:5].tolist()
    for record in run.records:
        assert len(line(record)) <= 80
        assert line(record) in said
        assert down(record.certificate.radius, 4) in line(record)
    listed = sigmax("show", out, "--sort", "radius", "--limit", 2).stdout.splitlines()
    largest = sorted(run.records, key=lambda record: -record.certificate.radius)
    assert listed[-4:] == [header(), *map(line, largest[:2]), MORE.format(3)]
    assert sigmax("show", out, "--limit", 0).stdout.splitlines()[-5:] == [line(record) for record in run.records]


def test_classes_with_names_are_named(system, tmp_path, sigmax):
    names = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "a very long nine")
    test = sx.data.load("digits", "test")
    named = sx.data.Dataset("named", "test", test.pixels(range(5)), test.labels[:5], names)
    run = sx.certify_run(sx.load(system), named, tmp_path / "run.jsonl", n=500)
    listed = sigmax("show", tmp_path / "run.jsonl").stdout.splitlines()[-6:]
    assert listed == [header(names), *(line(record, classes=names) for record in run.records)]
    for record, text in zip(run.records, listed[1:], strict=True):
        answer = record.certificate.predicted
        assert text.index(f"{record.label} {names[record.label]}"[:CLASS]) < header(names).index("answer")
        assert answer is None or f" {answer} {names[answer]}"[: CLASS + 1] in text
        assert len(text) <= 80 or answer is None
    explained = sigmax("show", tmp_path / "run.jsonl", "--index", 0).stdout
    assert f"Input 0, label {test.labels[0]} {names[test.labels[0]]}: " in explained


def test_a_long_stage_keeps_its_end_and_the_line_its_width():
    stages = (Stage("expert-10/level-1/last", Role.ESTIMATION, 0.2512345678, (100, 0), 100),)
    wide = Certificate(None, 0.0, Outcome.ABSTAINED_ELSEWHERE, 1e-3, stages, limited_by=stages[0].name)
    text = line(Record(1_234_567, 999, wide, 0.0))
    assert len(text) <= 80
    assert "..-1/last/estimation " in text


def test_an_imported_log_keeps_its_numbers_and_has_its_sigma(tmp_path, sigmax):
    log = "idx\tlabel\tpredict\tradius\n0\t3\t3\t0.941\n1\t3\t-1\t0.0\n2\t3\t3\t0.12\n"
    (tmp_path / "sigma_0.25").write_text(log)
    out = tmp_path / "log.jsonl"
    assert sigmax("import", tmp_path / "sigma_0.25", "--n", 100_000, "--alpha", 0.001, "--out", out).returncode == 0
    said = sigmax("show", out).stdout
    assert not [word for word in ("None", "not stated", "made with", "[") if word in said]
    shown = said.splitlines()
    assert [row.split()[3:5] for row in shown[-3:]] == [["0.941", "0.25"], ["0.0", "0.25"], ["0.12", "0.25"]]
    assert (
        "Another tool's log claims class 3 within radius 0.941, and nothing proves it."
        in sigmax("show", out, "--index", 0).stdout
    )


def test_what_cannot_be_shown(system, tmp_path, sigmax):
    data, out = sx.data.load("digits", "test"), tmp_path / "run.jsonl"
    sx.certify_run(sx.load(system), data, out, n=100, maximum=2)
    for words, message in (
        ((out, "--index", 9), "the run has no input 9; it holds 2, from 0 to 1"),
        ((system, "--index", 0), "--index is for a run file"),
        ((tmp_path / "absent",), "expected a system folder"),
    ):
        refused = sigmax("show", *words)
        assert refused.returncode == 2
        assert message in refused.stderr


def test_votes_of_a_router_name_the_expert_and_its_noise(tmp_path, sigmax):
    def voter(sigma, classes):
        network = models.create(models.Description(architecture="small-cnn", classes=classes, input_shape=(1, 8, 8)))
        return sx.Smoothed(network, sigma=sigma, classes=classes)

    dual = sx.Dual(voter(0.5, 2), [voter(0.25, 10), voter(0.5, 10)])
    sx.certify_run(dual, "digits", tmp_path / "run.jsonl", n=200, maximum=1)
    shown = sigmax("show", tmp_path / "run.jsonl", "--index", 0).stdout
    assert re.search(r"^  expert [01] \(sigma 0\.(25|5)\) +[^a-z]+%", shown, re.MULTILINE), shown
    assert all(len(text) <= 80 for text in shown.splitlines() if FULL in text)


def test_a_cascade_shows_every_level_and_its_confidence(sigmax):
    said = sigmax("show", "zoo:digits-cascade").stdout
    for part in ("level-0/base", "level-1/base", "last/base"):
        assert part in said
    assert said.count("defers below confidence") == 2
