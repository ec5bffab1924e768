"""Runs grow by the command line: `certify` with a larger --max, and `merge`."""

import sigmax as sx


def test_a_run_is_extended_answered_and_merged(system, tmp_path, sigmax):
    def certify(out, *options):
        return sigmax("certify", system, "--data", "digits", "--n", 200, "--out", tmp_path / out, *options)

    assert certify("run.jsonl", "--max", 3).returncode == 0
    grown = certify("run.jsonl", "--max", 5)
    assert grown.returncode == 0, grown.stderr
    assert "5/5" in grown.stdout
    held = (tmp_path / "run.jsonl").read_bytes()
    fewer = certify("run.jsonl", "--max", 2)
    assert fewer.returncode == 0
    assert "has 5 inputs, which all stay; the table is of the 2 asked for." in fewer.stdout
    assert (tmp_path / "run.jsonl").read_bytes() == held
    refused = certify("run.jsonl", "--start", 1, "--max", 7)
    assert refused.returncode == 2
    assert "a run grows only to inputs that include its own" in refused.stderr
    assert certify("more.jsonl", "--start", 5, "--max", 2).returncode == 0
    merged = sigmax("merge", "run.jsonl", "more.jsonl", "--out", "both.jsonl", cwd=tmp_path)
    assert merged.returncode == 0, merged.stderr
    assert "Wrote both.jsonl: 7 of 7 inputs of 2 runs." in merged.stdout
    assert sigmax("verify", tmp_path / "run.jsonl", tmp_path / "both.jsonl").returncode == 0
    assert sx.read(tmp_path / "both.jsonl").frame()["index"].tolist() == list(range(7))
    again = sigmax("merge", "run.jsonl", "both.jsonl", "--out", "all.jsonl", cwd=tmp_path)
    assert again.returncode == 2
    assert "share 5 inputs (0, 1, 2, 3, 4)" in again.stderr
