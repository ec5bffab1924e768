"""`sigmax certify --sampling adaptive` as users meet it: fewer samples, the same checks, and what is refused."""

import pytest

import sigmax as sx
from sigmax.cli import certify as certifying

WORDS = ("--data", "digits", "--max", 12, "--n0", 50, "--n", 2_000)


def run(sigmax, system, out, *more):
    return sigmax("certify", system, *WORDS, "--out", out, *more)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ((), "adaptive"),
        (("--targets", "0.25 0.5 0"), "adaptive, asked which of 0, 0.25, 0.5 hold"),
        (("--tolerance", "0.1"), "adaptive, to 0.1 of sigma"),
    ],
)
def test_an_adaptive_run_is_made_verified_reported_and_left_as_it_is(system, tmp_path, sigmax, more, words):
    out = tmp_path / "run.jsonl"
    assert run(sigmax, system, out, "--sampling", "adaptive", *more).returncode == 0
    found = sx.read(out)
    assert found.finished
    assert found.plan.sampling["kind"] == "adaptive"
    samples = found.frame()["samples"]
    assert (samples <= 2_050).all()
    assert (samples < 2_050).any()
    verified = sigmax("verify", out)
    assert (verified.returncode, "Traceback" in verified.stderr) == (0, False)
    reported = sigmax("report", out, "--out", tmp_path / "report")
    assert reported.returncode == 0, reported.stderr
    assert any(words in page.read_text() for page in (tmp_path / "report").glob("*.md"))
    before = out.read_bytes()
    assert run(sigmax, system, out, "--sampling", "adaptive", *more).returncode == 0
    assert out.read_bytes() == before


def test_asked_for_the_radius_it_is_that_of_a_fixed_run_wherever_all_samples_were_made(system, tmp_path, sigmax):
    assert run(sigmax, system, tmp_path / "fixed.jsonl").returncode == 0
    assert run(sigmax, system, tmp_path / "adaptive.jsonl", "--sampling", "adaptive").returncode == 0
    fixed, found = (sx.read(tmp_path / f"{name}.jsonl").frame().set_index("index") for name in ("fixed", "adaptive"))
    kept = found[found["samples"] > 2_000]  # and up to 50 for selection
    assert len(kept) > 2
    assert (kept["radius"] == fixed.loc[kept.index, "radius"]).all()
    assert (found.drop(kept.index)["radius"] == 0).all()


def test_another_question_is_refused_and_the_difference_named(system, tmp_path, sigmax):
    out = tmp_path / "run.jsonl"
    assert run(sigmax, system, out, "--sampling", "adaptive", "--targets", "0.25").returncode == 0
    before = out.read_bytes()
    refused = run(sigmax, system, out)
    assert refused.returncode == 2
    assert "sampling.kind is 'adaptive' there and 'fixed' here" in refused.stderr
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--targets", "0.5"), "ask for sampling='adaptive' with them"),
        (("--tolerance", "0.1"), "fixed sampling never does"),
        (("--sampling", "lazy"), "lazy"),
        (("--sampling", "adaptive", "--targets", "0.5,many"), "--targets must be radii such as 0.25,0.5,1"),
        (("--sampling", "adaptive", "--targets", ""), "at least one radius"),
        (("--sampling", "adaptive", "--targets", "-1"), "radii of at least 0"),
        (("--sampling", "adaptive", "--targets", "nan"), "got nan"),
        (("--sampling", "adaptive", "--targets", "inf"), "got inf"),
        (("--sampling", "adaptive", "--targets", "50"), "none of the targets can be reached"),
        (("--sampling", "adaptive", "--tolerance", "2"), "from 0 to 1"),
        (("--sampling", "adaptive", "--tolerance", "nan"), "from 0 to 1"),
        (("--sampling", "adaptive", "--tolerance", "0.1", "--targets", "1"), "not both"),
    ],
)
def test_a_wrong_question_is_refused_before_any_work(system, tmp_path, sigmax, more, message):
    out = tmp_path / "run.jsonl"
    refused = run(sigmax, system, out, *more)
    assert refused.returncode == 2
    assert message in " ".join(refused.stderr.split())
    assert "Traceback" not in refused.stderr
    assert not out.exists()


def test_a_wrong_question_is_refused_before_the_system_is_read(tmp_path, sigmax):
    refused = run(sigmax, tmp_path / "nowhere", tmp_path / "run.jsonl", "--targets", "0.5")
    assert refused.returncode == 2
    assert "sampling='adaptive'" in refused.stderr


@pytest.mark.parametrize(("long", "votes", "said"), [(0.0, 0, 1), (1e9, 0, 0), (0.0, 10**9, 0)])
def test_long_work_on_a_cpu_is_announced(monkeypatch, long, votes, said):
    notes = []
    monkeypatch.setattr(certifying, "LONG", long)
    monkeypatch.setattr(certifying, "MANY_VOTES", votes)
    monkeypatch.setattr(certifying, "complain", lambda text, style: notes.append(text))
    certifying._warn_of_long_work(sx.load("zoo:digits-cascade"), sx.data.load("digits"), 1_000, 3)
    assert len(notes) == said
    assert all("3 of them up to" in note and "--n 1000 --sampling adaptive" in note for note in notes)
