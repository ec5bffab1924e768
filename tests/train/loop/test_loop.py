import json
import subprocess
import sys
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
import torch
from torch import nn
from torch.nn import functional

from sigmax.errors import RequestError, RunError
from sigmax.train import Examples, GaussianTraining, Method, Partial, Score, Settings, fit
from sigmax.train.loop.progress import EpochReport, last_report, metrics_file, metrics_path

SETTINGS = Settings(epochs=4, batch=16, lr=0.05, seed=3, augment="crop")


@dataclass
class Remembering(Method):
    """A method with everything that resuming could get wrong: noise, a memory, and a look at each epoch."""

    name: ClassVar[str] = "remembering"
    sigma: float = 0.3
    visits: torch.Tensor = field(default_factory=lambda: torch.zeros(60))
    epochs: list = field(default_factory=list)

    def begin_epoch(self, model, examples, epoch):
        self.epochs.append((epoch, len(examples), torch.rand(1).item(), model.training))

    def score(self, model, batch):
        self.visits[batch.indices] += 1
        noise = torch.randn(batch.pixels.shape, generator=batch.generator)
        logits = model(batch.pixels + self.sigma * noise)
        weights = 1 + self.visits[batch.indices]
        loss = (functional.cross_entropy(logits, batch.targets, reduction="none") * weights).mean()
        return Score(loss, (logits.argmax(1) == batch.targets).float().mean())

    def state_dict(self):
        return {"visits": self.visits, "epochs": self.epochs}

    def load_state_dict(self, state):
        self.visits, self.epochs = state["visits"], state["epochs"]


def network():
    """With dropout, which samples from torch's global generator, and batch norm, which remembers."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3)
    )


@pytest.fixture
def examples(bars):
    return Examples(torch.from_numpy(bars.pixels(range(60))), torch.tensor(bars.labels))


@pytest.fixture
def run(tmp_path, examples):
    """Train, as `fit` does, in a folder; returns the model, the method and the reports."""

    def train(name, settings=SETTINGS, **hooks):
        model, method, reports = network(), Remembering(), []
        partial = Partial(tmp_path / f"{name}.partial", settings.plan())
        hooks = {"on_epoch": reports.append, **hooks}
        fit(model, method, examples, settings, partial=partial, metrics=tmp_path / f"{name}.jsonl", **hooks)
        return model, method, reports

    return train


def same(first, second):
    mine, theirs = first.state_dict(), second.state_dict()
    return all(torch.equal(mine[name], theirs[name]) for name in mine)


class Killed(BaseException):
    pass


WAYS = {
    "sgd": {},
    "adamw": {"optimiser": "adamw"},
    "averaged": {"ema": 0.9, "schedule": "one-cycle", "nesterov": True},
    "clipped": {"clip": 0.5, "ema": 0.5, "optimiser": "adam"},
    "bf16": {"precision": "bf16", "channels_last": True},
    "fp16": {"precision": "fp16", "clip": 1.0, "ema": 0.9},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("steps", [1, 4, 9, 16])
def test_a_run_cut_anywhere_ends_as_an_uninterrupted_one(run, steps, way):
    settings = Settings(epochs=4, batch=16, lr=0.05, **WAYS[way])

    def stop(done, total):
        assert total == 16
        if done == steps:
            raise Killed

    whole, method, _ = run("whole", settings)
    with pytest.raises(Killed):
        run("cut", settings, on_step=stop)
    resumed, other, reports = run("cut", settings)
    assert same(whole, resumed)
    assert torch.equal(method.visits, other.visits)
    assert method.epochs == other.epochs
    assert [report.epoch for report in reports] == list(range(1 + (steps - 1) // 4, 5))


@pytest.mark.parametrize("way", WAYS)
def test_a_run_cut_where_states_take_long_to_write_loses_only_its_epoch(run, monkeypatch, way):
    """The state of the epoch before is written when the run is cut."""
    monkeypatch.setattr("sigmax.train.loop.partial.QUICK", -1.0)
    monkeypatch.setattr("sigmax.train.loop.partial.SHARE", 1e-9)
    settings = Settings(epochs=4, batch=16, lr=0.05, **WAYS[way])

    def stop(done, total):
        if done == 14:
            raise KeyboardInterrupt

    whole, method, _ = run("whole", settings)
    with pytest.raises(KeyboardInterrupt):
        run("cut", settings, on_step=stop)
    resumed, other, reports = run("cut", settings)
    assert same(whole, resumed)
    assert torch.equal(method.visits, other.visits)
    assert [report.epoch for report in reports] == [4]


def test_methods_look_at_the_model_in_eval_mode(run):
    _, method, _ = run("modes")
    assert [training for *_, training in method.epochs] == [False] * 4


def look(model, epoch):
    """A hook with all that could disturb a run: it samples, it leaves the model in training mode, it looks."""
    assert not model.training
    assert not torch.is_grad_enabled()
    sampled = torch.rand(64)
    seen = model(sampled.view(1, 1, 8, 8)).sum().item()
    model.train()
    return {"epoch": epoch, "sampled": sampled[0].item(), "seen": seen, "list": (1, 2), "words": ["a"]}


def lines_of(path):
    """The lines of a metrics file, but for the seconds."""
    return [{**json.loads(line), "seconds": None} for line in path.read_text().splitlines()]


@pytest.mark.parametrize("steps", [1, 4, 8, 13, 16])
def test_what_validation_finds_survives_a_cut(run, tmp_path, steps):
    def stop(done, total):
        if done == steps:
            raise Killed

    whole, _, reports = run("whole", validate=look)
    with pytest.raises(Killed):
        run("cut", validate=look, on_step=stop)
    resumed, _, _ = run("cut", validate=look)
    assert same(whole, resumed)
    assert lines_of(tmp_path / "cut.jsonl") == lines_of(tmp_path / "whole.jsonl")
    found = [report.validation for report in reports]
    assert [line["validation"] for line in lines_of(tmp_path / "whole.jsonl")] == found
    assert [one["epoch"] for one in found] == [0, 1, 2, 3]
    assert found[0]["list"] == [1, 2]
    assert len({one["sampled"] for one in found}) == 4


def test_validation_does_not_change_the_run(run):
    plain, method, reports = run("plain")
    watched, other, _ = run("watched", validate=look)
    assert same(plain, watched)
    assert method.epochs == other.epochs
    assert [report.validation for report in reports] == [{}] * 4
    assert not watched.training


def test_a_resumed_run_is_told_what_was_done_before(run):
    before = []

    def stop(report):
        if report.epoch == 2:
            raise Killed

    with pytest.raises(Killed):
        run("cut", validate=look, on_epoch=stop, on_resume=before.append)
    run("cut", validate=look, on_resume=before.append)
    assert before[0] == ()
    assert [report.epoch for report in before[1]] == [1, 2]
    assert all(report.validation["words"] == ["a"] for report in before[1])


def test_the_same_seed_is_the_same_run_and_another_is_not(run):
    first, second = run("a")[0], run("b")[0]
    other = run("c", Settings(epochs=4, batch=16, lr=0.05, seed=4, augment="crop"))[0]
    assert same(first, second)
    assert not same(first, other)


def test_callbacks_that_draw_numbers_do_not_change_the_order_or_the_noise(run):
    quiet = run("quiet")[1]
    noisy = run("noisy", on_epoch=lambda report: torch.rand(100))[1]
    assert quiet.epochs == noisy.epochs


def test_the_callers_generator_and_threads_are_left_alone(run):
    threads = []
    run("a", Settings(epochs=1, threads=2), on_step=lambda *_: threads.append(torch.get_num_threads()))
    after = torch.rand(1)
    network()  # seeds and samples, as `run` did before it trained
    assert torch.equal(after, torch.rand(1))
    assert set(threads) == {2}
    assert torch.get_num_threads() == 1


def test_every_epoch_visits_every_example_once_in_equal_batches(run):
    steps = []
    _, method, _ = run("visits", Settings(epochs=3, batch=25), on_step=lambda done, total: steps.append((done, total)))
    assert (method.visits == 3).all()
    assert steps == [(i, 9) for i in range(1, 10)]


def test_metrics_are_the_reports(run, tmp_path):
    _, _, reports = run("m")
    lines = [json.loads(line) for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2, 3, 4]
    assert [(line["loss"], line["accuracy"]) for line in lines] == [(r.loss, r.accuracy) for r in reports]
    assert [line["lr"] for line in lines] == sorted((line["lr"] for line in lines), reverse=True)


def test_metrics_of_an_epoch_that_was_not_saved_are_forgotten(run, tmp_path):
    run("m")
    metrics = tmp_path / "m.jsonl"
    written = metrics.read_text()
    metrics.write_text(written + '{"epoch": 5, "lo')
    run("m")
    assert metrics.read_text() == written


@dataclass
class Choosy(Remembering):
    """Leaves examples out, other ones in each epoch, and shows some of them twice."""

    copies: int = 2

    def order(self, count, epoch, generator):
        kept = torch.arange(epoch, count, 2)
        return torch.cat([kept, kept[:7]])[torch.randperm(len(kept) + 7, generator=generator)]


def test_a_method_says_what_an_epoch_trains_on(tmp_path, examples):
    settings, steps, reports = Settings(epochs=2, batch=16, lr=0.05), [], []
    method = Choosy()
    fit(
        network(),
        method,
        examples,
        settings,
        partial=Partial(tmp_path / "x.partial", {}),
        metrics=tmp_path / "x.jsonl",
        on_step=lambda *done: steps.append(done),
        on_epoch=reports.append,
    )
    # Even ones in the first epoch, odd ones in the second, the first seven of them twice. (A step that sees an
    # image twice counts one visit: that is how torch indexes.)
    once, twice = method.visits.view(30, 2)[7:], method.visits.view(30, 2)[:7]
    assert (once == 1).all()
    assert ((twice == 2) | (twice == 1)).all()
    assert (twice == 2).float().mean() > 0.5
    # Sixty images, eight a step: progress counts eight steps an epoch, though these have five.
    assert steps == [(1, 16), (3, 16), (4, 16), (6, 16), (8, 16), (9, 16), (11, 16), (12, 16), (14, 16), (16, 16)]
    assert [report.images for report in reports] == [37, 37]
    assert all(report.loss > 0 and report.throughput > 0 for report in reports)


def test_copies_that_do_not_divide_the_batch_are_refused(tmp_path, examples):
    with pytest.raises(RequestError, match="copies=3 does not divide it"):
        fit(
            network(),
            GaussianTraining(0.3, copies=3),
            examples,
            SETTINGS,
            partial=Partial(tmp_path / "x.partial", {}),
            metrics=tmp_path / "x.jsonl",
        )


def test_an_epoch_in_a_line():
    report = EpochReport(3, 10, 0.1234, 0.905, 0.1, 2.0, images=24691)
    assert report.line() == "epoch 3/10: loss 0.123, accuracy 90.5%, 12,346 images/s"
    watched = EpochReport(3, 10, 0.1234, 0.905, 0.1, 2.0, {"smoothed": 0.8, "accuracy": 0.7}, 24691)
    assert "accuracy 90.5% (held out 80.0% when smoothed), 12,346 images/s" in watched.line()
    assert EpochReport(3, 10, 0.1234, 0.905, 0.1, 0.0).throughput == 0


def test_the_last_epoch_can_be_read_back(run, tmp_path):
    _, _, reports = run("m")
    (tmp_path / "m.jsonl").replace(metrics_path(tmp_path / "net"))
    assert last_report(tmp_path / "net") == reports[-1]
    before = {"epoch": 3, "epochs": 3, "loss": 0.1, "accuracy": 0.9, "lr": 0.1, "seconds": 1.0}
    metrics_path(tmp_path / "old").write_text(json.dumps(before) + "\n")
    assert last_report(tmp_path / "old") == EpochReport(3, 3, 0.1, 0.9, 0.1, 1.0)
    for content in ("", "{}", "3", '{"epoch": 3, '):
        metrics_path(tmp_path / "odd").write_text(content)
        assert last_report(tmp_path / "odd") is None
    assert last_report(tmp_path / "absent") is None


def test_two_runs_to_the_same_output_are_refused(run, tmp_path):
    with metrics_file(tmp_path / "m.jsonl"), pytest.raises(RequestError, match="another run is training here"):
        run("m")
    with metrics_file(tmp_path / "m.jsonl"):
        assert (tmp_path / ".m.jsonl.lock").exists()
    assert not (tmp_path / ".m.jsonl.lock").exists()


def test_a_second_run_is_locked_out_where_there_is_no_fcntl(tmp_path):
    script = (
        "import sys; sys.modules['fcntl'] = None\n"
        "from pathlib import Path; from sigmax.train.loop.progress import metrics_file\n"
        f"path = Path({str(tmp_path / 'm.jsonl')!r})\n"
        "with metrics_file(path):\n"
        "    try:\n"
        "        metrics_file(path).__enter__()\n"
        "    except ValueError as error:\n"
        "        print(error)\n"
    )
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "another run is training here" in child.stdout


def test_divergence_is_a_failed_run_with_advice(run, tmp_path):
    with pytest.raises(RunError, match=r"the loss became \S+ in epoch \d: training diverged.*smaller lr than 1e\+30"):
        run("wild", Settings(epochs=3, lr=1e30, schedule="constant"))
